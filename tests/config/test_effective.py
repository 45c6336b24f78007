"""A printed configuration shows what takes effect, and still gives the same run."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftless.algorithms import ALGORITHMS
from driftless.config.build import simulation_of
from driftless.config.resolution import resolve, to_toml
from driftless.config.user_code import text_only
from driftless.data import DATASETS


def printed(*words: str) -> dict[str, str]:
    """The text before the source by its key, comments without their mark."""
    found: dict[str, str] = {}
    section = ""
    for line in to_toml(resolve(None, words)).splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line:
            text = line.removeprefix("# ").rpartition("  # ")[0].strip()
            name = text.replace(":", " ").split()[0]
            found[f"{section}.{name}"] = text[len(name) :]
    return found


@pytest.mark.parametrize("data", DATASETS)
def test_nothing_is_none(data: str):
    for algorithm in ALGORITHMS:
        shown = printed(f"data={data}", f"algorithm={algorithm}")
        assert [key for key, text in shown.items() if text == " = none"] == []


@pytest.mark.parametrize(
    ("words", "key", "text"),
    [
        ([], "data.clients", " = 100"),
        (["partition=shards"], "data.clients", " = 100"),
        (["data=shakespeare"], "data.partition", ' = "natural"'),
        (["data=shakespeare"], "data.clients", ": one for each user of the data"),
        (["data=quadratics"], "data.partition", ": not used, the data come as clients"),
        (["data=quadratics"], "data.clients", " = 10"),
        (["seed=7"], "data.seed", " = 7"),
        (["steps=3"], "local.epochs", ": not used"),
        ([], "local.steps", ": not used"),
        (["batch_size=none"], "local.batch_size", ' = "none"'),
        (["data=digits"], "data.partition", ' = "dirichlet"'),
        ([], "data.alpha", " = 0.1"),
        ([], "local.epochs", " = 5"),
        ([], "local.batch_size", " = 10"),
        (["algorithm=adabest"], "server.weighting", ' = "uniform"'),
        (["algorithm=fedavg"], "server.weighting", ' = "examples"'),
        (["algorithm=fedavg"], "server.inference", ' = "cloud"'),
        (["algorithm=adabest"], "server.inference", ": the algorithm's own"),
        ([], "run.target", ": not used"),
        ([], "faults.deadline", ": not used"),
        ([], "faults.attack_scale", ": auto, 10 for scale, 1 for sign-flip"),
        (["faults.dropout=0.2"], "faults.dropout", " = 0.2"),
        (["dropout=[0.1,0.2]"], "faults.dropout", " = [0.1, 0.2]"),
        ([], "server.aggregation_bound", ": the median of the norms of a round's uploads"),
        ([], "run.evaluate_every", ": auto, every round, of a large model less often"),
        ([], "engine.block_size", ": auto, decided by the model and engine.memory"),
    ],
)
def test_what_takes_effect_where_nothing_was_set_is_shown(words: list[str], key: str, text: str):
    assert printed(*words)[key] == text


@pytest.mark.parametrize("words", [[], ["algorithm=adabest"], ["data=linear-regression", "model=linear"], ["steps=3"]])
def test_what_is_shown_is_what_the_run_does(words: list[str]):
    shown, simulation = printed(*words), simulation_of(resolve(None, words).config)
    assert shown["data.clients"] == f" = {simulation.federation.clients}"
    assert shown["server.weighting"] == f' = "{simulation.weighting}"'
    if simulation.training.steps is None:
        assert shown["local.epochs"] == f" = {simulation.training.epochs}"


def test_auto_and_none_are_explained():
    text = to_toml(resolve(None, ["batch_size=none"]))
    assert "# command line: all examples of a client" in text
    assert "# default: in blocks or one by one, decided by the model" in text
    assert "# default: one process per core if a round has enough work" in text
    assert "# command line: all examples of a client" in to_toml(resolve(None, ["batch_size=none"]))


def test_an_algorithm_whose_file_must_not_be_read_has_its_own_weighting(tmp_path: Path):
    (tmp_path / "config.toml").write_text('[algorithm]\nname = "gone.py:Mine"\nmu = 0.1\n')
    with text_only():
        text = to_toml(resolve(tmp_path / "config.toml", []))
    assert "# weighting: the algorithm's own" in text
    assert "# inference: the algorithm's own" in text
