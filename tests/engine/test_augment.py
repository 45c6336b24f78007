"""Augmented minibatches are what a loop over images would make, whoever computes them, and nothing else is touched."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from driftless import Federation, InputError, LocalTraining, Result
from driftless.algorithms import FedAvg
from driftless.config.build import local_of
from driftless.config.resolution import resolve
from driftless.engine import augment, batches
from driftless.engine.augment import KINDS, PAD, draw, moved, stack
from driftless.engine.batches import Plan
from driftless.random import stream
from driftless.report.overview import describe_local
from driftless.runs import run as running
from engine.problems import run, seeded, vector
from runs.runs import AfterRound, assert_same_run, resume, start

AUGMENTED = [name for name in KINDS if name != "none"]
SHAPE = (2, 6, 5)
SIZES = [3, 8, 5, 7]
"""With batches of 3: 1, 3, 2 and 3 steps, short batches and masked steps."""

every_kind = pytest.mark.parametrize("name", AUGMENTED)
both_engines = pytest.mark.parametrize("engine", ["single", "block"])


def images(*leading: int, seed: int = 0) -> Tensor:
    return torch.randn(*leading, *SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def federation(sizes: list[int] = SIZES) -> Federation:
    clients = [(images(n, seed=i), (torch.arange(n) + i) % 3) for i, n in enumerate(sizes)]
    return Federation.from_clients(clients, test=clients[1], classes=3)


def convolution() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3)))


def by_hand(image: np.ndarray, down: int, right: int, mirrored: int) -> np.ndarray:
    """One image, pixel by pixel: padded, cropped, mirrored."""
    channels, height, width = image.shape
    padded = np.zeros((channels, height + 2 * PAD, width + 2 * PAD))
    padded[:, PAD : PAD + height, PAD : PAD + width] = image
    cropped = np.zeros_like(image)
    for c in range(channels):
        for h in range(height):
            for w in range(width):
                cropped[c, h, w] = padded[c, h + PAD + down, w + PAD + right]
    return cropped[:, :, ::-1] if mirrored else cropped


def all_by_hand(batch: Tensor, moves: np.ndarray) -> Tensor:
    pairs = zip(batch.numpy(), moves.tolist(), strict=True)
    return torch.from_numpy(np.stack([by_hand(image, *move) for image, move in pairs]))


def drawn(name: str, steps: int, width: int, seed: int = 0) -> np.ndarray:
    kind = KINDS[name]
    assert kind is not None
    return draw(kind, (steps, width), stream(seed, "augment"))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The augmented images of every step, as they are made."""
    made: list[Tensor] = []

    def heard(batch: Tensor, moves: Tensor) -> Tensor:
        made.append(moved(batch, moves))
        return made[-1].clone()

    monkeypatch.setattr(augment, "moved", heard)
    return made


def play(name: str, engine: str = "block", algorithm: Any = "fedavg", **options: Any) -> Result:
    local = LocalTraining(lr=0.1, epochs=1, batch_size=3, augment=name)
    given: dict[str, Any] = {"local": local, "engine": engine}
    data, model = options.pop("data", federation()), options.pop("model", convolution())
    return run(algorithm, data, model, **given | options)[0]


# --- one batch


@every_kind
def test_a_batch_is_moved_as_its_images_are_one_by_one(name: str):
    batch, moves = images(40), drawn(name, 1, 40)[0]
    assert torch.equal(moved(batch, torch.from_numpy(moves)), all_by_hand(batch, moves))


def test_every_move_is_the_one_by_hand_also_where_nothing_of_the_image_is_left():
    """Windows that move by up to 4 pixels over images of 3 x 2."""
    shifts = range(-PAD, PAD + 1)
    moves = np.array([(down, right, m) for down in shifts for right in shifts for m in (0, 1)], dtype=np.int8)
    batch = images(len(moves))[:, :1, :3, :2]
    result = moved(batch, torch.from_numpy(moves))
    assert torch.equal(result, all_by_hand(batch, moves))
    assert (result == 0).all((1, 2, 3)).any()
    assert result.is_contiguous()


@every_kind
def test_a_block_is_moved_as_its_clients_are_and_padding_stays(name: str):
    own = [drawn(name, steps, width, seed) for seed, (steps, width) in enumerate([(2, 3), (4, 6), (1, 2)])]
    block, stacked = images(3, 6), stack(own)
    assert stacked.shape == (4, 3, 6, 3)
    for k in range(4):
        result = moved(block, stacked[k])
        for i, moves in enumerate(own):
            width = moves.shape[1] if k < len(moves) else 0
            if width:
                assert torch.equal(result[i, :width], all_by_hand(block[i, :width], moves[k]))
            assert torch.equal(result[i, width:], block[i, width:])


def test_the_images_themselves_are_not_changed():
    batch = images(20)
    moved(batch, torch.from_numpy(drawn("crop-flip", 1, 20)[0]))
    assert torch.equal(batch, images(20))


@pytest.mark.parametrize(("name", "crop"), [("crop-flip", 1.0), ("half-crop-flip", 0.5), ("flip", 0.0)])
def test_mirrors_and_crops_are_as_frequent_as_they_should_be(name: str, crop: float):
    moves = drawn(name, 100, 1000).reshape(-1, 3).astype(int)
    number = len(moves)
    assert abs(moves[:, 2].mean() - 0.5) < 5 * 0.5 / math.sqrt(number)
    places = (2 * PAD + 1) ** 2
    counts = np.bincount((moves[:, 0] + PAD) * (2 * PAD + 1) + moves[:, 1] + PAD, minlength=places)
    expected = np.full(places, crop * number / places)
    expected[places // 2] += (1 - crop) * number
    assert counts.sum() == number
    if crop:
        # Pearson's statistic has mean 80 and standard deviation sqrt(160)
        assert abs(((counts - expected) ** 2 / expected).sum() - 80) < 5 * math.sqrt(160)
    else:
        assert counts[places // 2] == number
    mirrored, shifted = moves[:, 2] - 0.5, np.abs(moves[:, :2]).sum(1)
    if crop:
        assert abs(np.corrcoef(mirrored, shifted)[0, 1]) < 5 / math.sqrt(number)


def test_kinds_share_what_they_draw():
    whole, half, flip = (drawn(name, 5, 7) for name in ("crop-flip", "half-crop-flip", "flip"))
    assert (whole[..., 2] == half[..., 2]).all()
    assert (whole[..., 2] == flip[..., 2]).all()
    cropped = half[..., :2].any(-1)
    assert (whole[cropped] == half[cropped]).all()
    assert 0 < cropped.sum() < cropped.size


# --- local training


def expected(name: str, data: Federation, t: int, client: int, seed: int) -> list[Tensor]:
    """The augmented minibatches of a client's round, from its two streams."""
    training = LocalTraining(lr=0.1, epochs=1, batch_size=3, augment=name)
    plan: Plan = batches.plan(training, int(data.sizes[client]), stream(seed, "batches", t, client))
    kind = KINDS[name]
    assert kind is not None
    moves = draw(kind, plan.index.shape, stream(seed, "augment", t, client))
    own = data.client(client)[0]
    return [
        all_by_hand(own[torch.from_numpy(plan.index[k, :count])], moves[k, :count])
        for k, count in enumerate(plan.count)
    ]


@every_kind
def test_both_engines_train_on_the_minibatches_that_are_drawn_for_client_and_round(name: str, seen: list[Tensor]):
    data = federation()
    single = play(name, "single", seed=3)
    from_single, seen[:] = list(seen), []
    block = play(name, "block", seed=3, block_size=4)
    from_block = list(seen)
    torch.testing.assert_close(block.x, single.x, rtol=0, atol=1e-12)

    steps = [1, 3, 2, 3]
    order = [0, 2, 3, 1]  # of the block: by steps, then by examples
    assert len(from_block) == 2 * max(steps)
    for t in (1, 2):
        mine, from_single = from_single[: sum(steps)], from_single[sum(steps) :]
        wanted = [expected(name, data, t, client, seed=3) for client in order]
        assert len(mine) == sum(map(len, wanted))
        for got, want in zip(mine, [batch for client in wanted for batch in client], strict=True):
            assert torch.equal(got, want)
        for k, got in enumerate(from_block[(t - 1) * 3 : t * 3]):
            for row, client in enumerate(wanted[-len(got) :]):  # those before have left the block
                if k < len(client):
                    assert torch.equal(got[row, : len(client[k])], client[k])
    assert from_single == []


@both_engines
def test_clients_steps_rounds_and_seeds_have_moves_of_their_own(engine: str, seen: list[Tensor]):
    """All clients hold the same image six times, so that only the moves can make a difference."""
    data = [(images(1).expand(6, *SHAPE), torch.zeros(6, dtype=torch.long))] * 2
    same = Federation.from_clients(data, test=data[0], classes=3)
    local = LocalTraining(lr=0.1, steps=2, augment="crop-flip", batch_size=None)

    def made(seed: int) -> list[Tensor]:
        seen.clear()
        play("crop-flip", engine, data=same, local=local, seed=seed)
        return [client for step in seen for client in (step if engine == "block" else [step])]

    first, again, other = made(0), made(0), made(1)
    assert len(first) == 2 * 2 * 2  # rounds, clients, steps
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    every = [*first, *other]
    for i, one in enumerate(every):
        assert not any(torch.equal(one, two) for two in every[:i])


def test_replayed_steps_see_new_images_each_time():
    options: dict[str, Any] = {"algorithm": "scaffold", "rounds": 3, "block_size": 4}
    replayed = play("crop-flip", **options)
    assert torch.equal(play("crop-flip", **options, replay=False).x, replayed.x)
    assert (play("none", **options).x - replayed.x).norm() > 1e-3


@both_engines
def test_without_augmentation_nothing_is_drawn_or_moved(engine: str, seen: list[Tensor], monkeypatch):
    monkeypatch.setattr(augment, "draw", None)
    play("none", engine)
    assert seen == []


@dataclass(frozen=True)
class Anchored(FedAvg):
    """Moves by the difference of the two gradients of a minibatch, which is 0 in a client's first step."""

    anchor_gradient = True

    def direction(self, step, local, msg, client, r):
        return step.g - step.g_x, local


@both_engines
def test_both_gradients_of_a_step_see_the_same_images(engine: str):
    local = LocalTraining(lr=0.1, steps=1, batch_size=3, augment="crop-flip")
    result = play("crop-flip", engine, algorithm=Anchored(), local=local, rounds=1)
    torch.testing.assert_close(result.x, vector(convolution()), rtol=0, atol=1e-15)
    assert (play("crop-flip", engine, local=local, rounds=1).x - result.x).norm() > 1e-3


@dataclass(frozen=True)
class FullGradient(FedAvg):
    """Moves by full-batch gradients alone."""

    full_gradient = "after"

    def direction(self, step, local, msg, client, r):
        return 0 * step.g + r.gradient, local


@both_engines
def test_full_batch_gradients_and_evaluations_see_the_images_as_they_are(engine: str):
    augmented, plain = (play(name, engine, algorithm=FullGradient()) for name in ("crop-flip", "none"))
    assert torch.equal(augmented.x, plain.x)
    assert augmented.history["test_loss"] == plain.history["test_loss"]
    assert augmented.history["train_loss"] != plain.history["train_loss"]


# --- whole runs


def test_two_workers_compute_the_bits_of_one():
    one, two = (play("half-crop-flip", algorithm="scaffold", block_size=2, workers=number) for number in (1, 2))
    assert torch.equal(one.x, two.x)
    assert one.history["train_loss"] == two.history["train_loss"]


@both_engines
def test_a_run_that_is_continued_has_the_bits_of_a_run_in_one_piece(engine: str):
    whole = play("crop-flip", engine, algorithm="scaffold", rounds=3)
    first = play("crop-flip", engine, algorithm="scaffold", rounds=1)
    assert torch.equal(play("crop-flip", engine, algorithm="scaffold", rounds=3, state=first.state).x, whole.x)


def test_a_run_directory_that_was_cut_off_is_resumed_to_the_same_bits(tmp_path: Path):
    cut = AfterRound([5], lambda: shutil.copytree(tmp_path / "whole", tmp_path / "killed"))
    start(tmp_path / "whole", "augment=crop-flip", "rounds=6", callbacks=[cut])
    assert resume(tmp_path / "killed").config.local.augment == "crop-flip"
    assert_same_run(tmp_path / "killed", tmp_path / "whole")


def test_a_checkpoint_of_another_augmentation_is_refused():
    configs = [resolve(None, [f"augment={name}"]).config for name in KINDS]
    assert len({running.fingerprint(config) for config in configs}) == len(KINDS)


def test_the_memory_of_a_block_includes_what_moving_its_images_takes():
    """Of a model that takes little more than its images."""
    data, model = federation([20] * 8), seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(60, 3)))
    sizes = list[Any]()
    for name in ("none", "crop-flip"):
        local = LocalTraining(lr=0.1, steps=1, augment=name, batch_size=None)
        result = play(name, data=data, model=model, local=local, rounds=1, memory=1e-4)
        sizes.append(result.engine["block_size"])
    assert 1 < sizes[1] < sizes[0] < 8


# --- what does not fit


@pytest.mark.parametrize(("given", "near"), [("crop-flp", "crop-flip"), ("halfcrop-flip", "half-crop-flip")])
def test_a_misspelt_kind_is_answered_with_the_nearest_one(given: str, near: str):
    for attempt in (
        lambda: LocalTraining(augment=given),
        lambda: local_of(resolve(None, [f"local.augment={given}"]).config),
    ):
        with pytest.raises(InputError, match=f"unknown local.augment '{given}'; did you mean '{near}'.*none"):
            attempt()


@pytest.mark.parametrize("given", [None, True, 1, ["flip"]])
def test_a_kind_that_is_not_a_name_is_refused(given: Any):
    with pytest.raises(InputError, match=r"unknown local.augment .* Allowed: crop-flip, flip, half-crop-flip, none"):
        LocalTraining(augment=given)


@every_kind
@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (torch.randn(6, 60), r"shape \[60\]"),
        (torch.randn(6, 5, 12), r"shape \[5, 12\]"),
        (torch.zeros(6, *SHAPE, dtype=torch.uint8), r"uint8"),
    ],
)
def test_examples_that_are_not_images_are_refused_before_the_run(name: str, inputs: Tensor, said: str):
    pair = (inputs, torch.arange(6) % 3)
    with pytest.raises(InputError, match=f"local.augment='{name}' moves images.*{said}.*local.augment='none'"):
        play(name, data=Federation.from_clients([pair, pair], test=pair, classes=3))


def test_the_key_of_a_configuration_reaches_the_local_training(tmp_path: Path):
    file = tmp_path / "experiment.toml"
    file.write_text('[local]\naugment = "flip"\n', encoding="utf-8")
    assert local_of(resolve(file, []).config).augment == "flip"
    assert local_of(resolve(file, ["augment=none"]).config).augment == "none"
    assert local_of(resolve(None, []).config).augment == "none"


def test_a_report_mentions_augmentation_where_there_is_some():
    settings = {"local.lr": 0.1, "local.epochs": 1}
    assert "augmentation" not in describe_local(settings)
    assert "augmentation" not in describe_local({**settings, "local.augment": "none"})
    assert describe_local({**settings, "local.augment": "flip"})["augmentation"] == "flip augmentation"
