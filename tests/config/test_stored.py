"""A run directory of a version whose defaults were others is what it was."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from driftless.config.resolution import flat, resolve, to_toml
from driftless.config.stored import read_stored, resolve_stored
from driftless.report.settings import read_settings
from runs.runs import AfterRound, assert_same_run, resume, start

PARTITION = ("partition", "alpha", "sizes", "sigma")
LEFT_OUT = ("batch_size", "epochs", "steps", "momentum", *PARTITION)
"""What earlier versions did not write: a setting that is none, one that they filled in later, or did not have."""
EARLIER = {"local.batch_size": None, "local.epochs": 1, "local.momentum": 0.0, "data.partition": "iid"}


def of_an_earlier_version(folder: Path, *left_out: str) -> None:
    """The full batch, one epoch and iid clients were the defaults."""
    config = folder / "config.toml"
    config.write_text(re.sub(rf"(?m)^({'|'.join(left_out)}) = ", r"# \1 = ", config.read_text()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(to_toml(resolve(None, [])))
    return tmp_path


def test_a_run_of_now_is_read_as_it_is(folder: Path):
    settings = flat(resolve(None, []).config)
    for read in (read_stored, resolve_stored):
        assert flat(read(folder / "config.toml").config) == settings
    assert (settings["local.batch_size"], settings["local.epochs"], settings["data.partition"]) == (10, 5, "dirichlet")


def test_what_an_earlier_version_left_out_is_what_was_its_default(folder: Path):
    of_an_earlier_version(folder, *LEFT_OUT)
    for settings in (
        flat(read_stored(folder / "config.toml").config),
        flat(resolve_stored(folder / "config.toml").config),
        read_settings(folder),
    ):
        assert {key: settings[key] for key in EARLIER} == EARLIER
        assert "data.alpha" not in settings


def test_what_an_earlier_version_wrote_stays(folder: Path):
    of_an_earlier_version(folder, *PARTITION)
    settings = read_settings(folder)
    assert (settings["local.batch_size"], settings["local.epochs"], settings["data.partition"]) == (10, 5, "iid")


def test_a_full_batch_is_none_in_a_report_too(tmp_path: Path):
    (tmp_path / "config.toml").write_text(to_toml(resolve(None, ["batch_size=none", "steps=3"])))
    settings = read_settings(tmp_path)
    assert (settings["local.batch_size"], settings["local.epochs"], settings["local.steps"]) == (None, None, 3)


def test_a_run_of_an_earlier_version_is_resumed_to_the_same_bits(tmp_path: Path):
    whole, part = tmp_path / "whole", tmp_path / "part"
    cut = AfterRound([5], lambda: shutil.copytree(whole, part))
    start(whole, "batch_size=none", "epochs=1", "data.partition=iid", callbacks=[cut])
    of_an_earlier_version(part, *LEFT_OUT)
    resume(part)
    assert_same_run(whole, part)
