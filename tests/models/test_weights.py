"""Pretrained weights: x^0 of a run is what the file holds, and a file that does not fit is refused with reasons."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from driftless.config.build import simulation_of
from driftless.config.resolution import resolve
from driftless.errors import InputError
from driftless.models import build, load_weights
from driftless.models.vit import VisionTransformer
from driftless.runs.run import Interrupted
from models.tasks import PUBLISHED, SMALL, without_memory
from runs.runs import AfterRound, assert_same_run, resume, small, start


def saved(module: nn.Module, path: Path, **changes: Tensor | None) -> Path:
    """The module's parameters as a file, some of them replaced, added, or (None) left out."""
    tensors = dict(module.state_dict()) | {name.replace("__", "."): value for name, value in changes.items()}
    save_file({name: value.contiguous() for name, value in tensors.items() if value is not None}, path)
    return path


def test_the_parameters_of_the_file_are_copied_by_name(tmp_path: Path):
    theirs, ours = build("mlp", (1, 8, 8), 10, seed=1), build("mlp", (1, 8, 8), 10)
    assert load_weights(ours, saved(theirs, tmp_path / "mlp.safetensors")) == ()
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())


def test_half_precision_is_widened(tmp_path: Path):
    theirs, ours = build("logistic", (1, 8, 8), 10, seed=1), build("logistic", (1, 8, 8), 10)
    load_weights(ours, saved(theirs.half(), tmp_path / "half.safetensors"))
    assert torch.equal(ours.state_dict()["1.weight"], theirs.state_dict()["1.weight"].float())


def test_a_last_layer_for_other_classes_begins_untrained_and_the_user_is_told(tmp_path: Path):
    theirs, ours = build("cnn", (1, 8, 8), 1000, seed=1), build("cnn", (1, 8, 8), 10)
    before = {name: value.clone() for name, value in ours.state_dict().items()}
    (notice,) = load_weights(ours, saved(theirs, tmp_path / "cnn.safetensors"))
    assert "the last layer (9.weight, 9.bias)" in notice
    assert "for 1000 classes, the data have 10" in notice
    for name, value in ours.state_dict().items():
        assert torch.equal(value, (before if name.startswith("9.") else theirs.state_dict())[name])


def test_statistics_of_batch_norm_are_ignored_and_the_user_is_told(tmp_path: Path):
    task = SMALL["mobilenet-v2"]
    theirs, ours = (build("mobilenet-v2", task.input_shape, task.classes, seed) for seed in (1, 0))
    statistics = {
        "features__0__1__running_mean": torch.zeros(32),
        "features__0__1__num_batches_tracked": torch.ones(()),
    }
    (notice,) = load_weights(ours, saved(theirs, tmp_path / "norm.safetensors", **statistics))
    assert "2 statistics of BatchNorm" in notice
    name = "features.0.1.weight"
    assert torch.equal(ours.state_dict()[name], theirs.state_dict()[name])


def test_a_module_with_batch_norm_takes_its_statistics_from_the_file(tmp_path: Path):
    theirs, ours = (nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)) for _ in range(2))
    theirs(torch.arange(12.0).view(4, 3))
    assert load_weights(ours, saved(theirs, tmp_path / "norm.safetensors")) == ()
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())
    broken = saved(theirs, tmp_path / "broken.safetensors", **{"0__num_batches_tracked": torch.tensor(1.5)})
    with pytest.raises(InputError, match=r"'0.num_batches_tracked' of .* numbers of type torch.float32; give whole"):
        load_weights(ours, broken)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"1__bias": None}, r"the file has no '1\.bias'\."),
        ({"2__weight": torch.ones(2)}, r"the file has '2\.weight', which the model has not"),
        ({"1__bias": None, "fc__bias": torch.ones(3)}, r"has no '1\.bias' and has 'fc\.bias', which the model has not"),
        ({"1__weight": torch.ones(10, 65)}, r"tensor '1\.weight' of .*file\.safetensors' has the shape \[10, 65\]"
                                            r", the model needs \[10, 64\]"),
        ({"1__weight": torch.ones(10)}, r"has the shape \[10\], the model needs \[10, 64\]"),
        ({"1__bias": torch.full((10,), torch.inf)}, r"'1\.bias' of .* has numbers that are not finite"),
        ({"1__bias": torch.ones(10, dtype=torch.int8)}, r"'1\.bias' of .* has numbers of type torch\.int8"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused_and_nothing_is_copied(tmp_path: Path, changes, complaint: str):
    module = build("logistic", (1, 8, 8), 10)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    file = saved(build("logistic", (1, 8, 8), 10, seed=1), tmp_path / "file.safetensors", **changes)
    with pytest.raises(InputError, match=complaint) as caught:
        load_weights(module, file)
    assert str(file) in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_a_file_that_is_missing_or_of_torch_save_is_refused_with_the_remedy(tmp_path: Path):
    module = build("logistic", (1, 8, 8), 10)
    with pytest.raises(InputError, match=r"there is no file of weights '.*none\.safetensors'; give the path"):
        load_weights(module, tmp_path / "none.safetensors")
    torch.save(module.state_dict(), tmp_path / "model.pth")
    with pytest.raises(InputError, match=r"model\.pth' is not a safetensors file.*Write one with safetensors"):
        load_weights(module, tmp_path / "model.pth")
    with pytest.raises(InputError, match="is not a safetensors file that can be read"):
        load_weights(module, tmp_path)


def test_the_large_models_have_the_names_of_torchvision():
    """The names of a few tensors of its checkpoints vit_b_16 and mobilenet_v2, one of each kind."""
    transformer = without_memory("vit-b16", PUBLISHED["vit-b16"]).state_dict()
    layer = "encoder.layers.encoder_layer_11"
    expected = {
        "class_token": (1, 1, 768),
        "conv_proj.weight": (768, 3, 16, 16),
        "encoder.pos_embedding": (1, 197, 768),
        f"{layer}.ln_1.weight": (768,),
        f"{layer}.self_attention.in_proj_weight": (2304, 768),
        f"{layer}.self_attention.in_proj_bias": (2304,),
        f"{layer}.self_attention.out_proj.weight": (768, 768),
        f"{layer}.ln_2.bias": (768,),
        f"{layer}.mlp.0.weight": (3072, 768),
        f"{layer}.mlp.3.bias": (768,),
        "encoder.ln.weight": (768,),
        "heads.head.weight": (1000, 768),
    }
    assert {name: tuple(transformer[name].shape) for name in expected} == expected
    assert len(transformer) == 3 + 1 + 12 * 12 + 2 + 2
    mobile = without_memory("mobilenet-v2", PUBLISHED["mobilenet-v2"]).state_dict()
    expected = {
        "features.0.0.weight": (32, 3, 3, 3),
        "features.0.1.bias": (32,),
        "features.1.conv.0.0.weight": (32, 1, 3, 3),
        "features.1.conv.1.weight": (16, 32, 1, 1),
        "features.2.conv.1.0.weight": (96, 1, 3, 3),
        "features.17.conv.3.weight": (320,),
        "features.18.1.weight": (1280,),
        "classifier.1.weight": (1000, 1280),
    }
    assert {name: tuple(mobile[name].shape) for name in expected} == expected
    assert len(mobile) == 52 * 3 + 2  # a convolution has one tensor, its norm two; torchvision adds three statistics


def test_positions_for_another_image_size_are_refused(tmp_path: Path):
    theirs, ours = (VisionTransformer((3, side, 16), 7, width=12, layers=1, heads=2) for side in (32, 16))
    with pytest.raises(InputError, match=r"'encoder\.pos_embedding' .*\[1, 3, 12\], the model needs \[1, 2, 12\]"):
        load_weights(ours, saved(theirs, tmp_path / "vit.safetensors"))


def test_a_run_begins_at_the_weights_of_the_file(tmp_path: Path):
    theirs = build("logistic", (1, 8, 8), 10, seed=5)
    simulation = simulation_of(small(f"model.weights={saved(theirs, tmp_path / 'w.safetensors')}").config)
    expected = torch.cat([value.flatten() for value in theirs.state_dict().values()])
    assert torch.equal(simulation.init().server.x, expected)
    assert simulation.notices == ()


def test_what_was_left_out_of_the_file_is_an_event_of_the_run(tmp_path: Path):
    file = saved(build("logistic", (1, 8, 8), 3), tmp_path / "w.safetensors")
    run = start(tmp_path / "run", f"weights={file}", "rounds=1")
    assert [event["round"] for event in run.events] == [0]
    assert "is for 3 classes, the data have 10" in run.events[0]["what"]


def interrupted(directory: Path, *changes: str) -> None:
    with pytest.raises(Interrupted):
        start(directory, *changes, callbacks=[AfterRound([4], lambda: os.kill(os.getpid(), signal.SIGINT))])


@pytest.mark.parametrize("inference", ["cloud", "clients"])
def test_a_resumed_run_ends_like_one_that_was_never_stopped(tmp_path: Path, inference: str):
    file = saved(build("logistic", (1, 8, 8), 10, seed=5), tmp_path / "w.safetensors")
    changes = (f"weights={file}", f"inference={inference}", "rounds=6")
    start(tmp_path / "whole", *changes)
    interrupted(tmp_path / "parts", *changes)
    if inference == "cloud":
        file.unlink()
    resume(tmp_path / "parts")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_resumed_run_says_so_when_it_needs_the_file(tmp_path: Path):
    file = saved(build("logistic", (1, 8, 8), 10), tmp_path / "w.safetensors")
    interrupted(tmp_path / "run", f"weights={file}", "inference=clients", "rounds=6")
    file.unlink()
    with pytest.raises(InputError, match=r"there is no file of weights '.*w\.safetensors'"):
        resume(tmp_path / "run")


def test_the_path_in_a_configuration_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert resolve(None, ["model.weights=w.safetensors"]).config.model.weights == str(tmp_path / "w.safetensors")


def test_weights_do_not_outlive_the_model_they_are_for(tmp_path: Path):
    file = tmp_path / "base.toml"
    file.write_text('[model]\nname = "cnn"\nweights = "cnn.safetensors"\n', encoding="utf-8")
    assert resolve(file, ["rounds=1"]).config.model.weights is not None
    assert resolve(file, ["model=mlp"]).config.model.weights is None
