"""The line that is shown while torch is imported: for commands that take long, in a terminal."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from driftless.cli import app
from driftless.starting import LINE, SLOW, is_slow_command
from terminals import in_a_terminal

PROGRAM = "/usr/bin/driftless"


@pytest.mark.parametrize(
    ("argv", "whole", "slow"),
    [
        ([PROGRAM, "run", "rounds=3"], ["/usr/bin/python", PROGRAM, "run", "rounds=3"], True),
        (["driftless.exe", "tune"], ["python.exe", "driftless.exe", "tune"], True),
        (["-m", "compare", "fedavg"], ["python", "-X", "dev", "-m", "driftless", "compare", "fedavg"], True),
        (["-m", "run"], ["python", "-m", "mine", "run"], False),
        (["-m"], ["python", "-m", "driftless"], False),
        ([PROGRAM, "list", "models"], ["python", PROGRAM, "list", "models"], False),
        ([PROGRAM, "run", "--json"], ["python", PROGRAM, "run", "--json"], False),
        ([PROGRAM, "run", "-q"], ["python", PROGRAM, "run", "-q"], False),
        (["train.py", "run"], ["python", "train.py", "run"], False),
        ([""], ["python"], False),
        ([], [], False),
        (["a", "run", "b"], ["run"], False),
    ],
)
def test_only_a_command_that_takes_long_shows_the_line(argv: list[str], whole: list[str], slow: bool):
    assert is_slow_command(argv, whole) is slow


def test_every_command_that_shows_progress_is_one_of_them():
    commands = {each.name or each.callback.__name__: each.callback for each in app.registered_commands if each.callback}
    assert {name for name, call in commands.items() if "quiet" in inspect.signature(call).parameters} == set(SLOW)


def test_a_run_in_a_terminal_shows_that_it_starts_then_its_settings_the_bar_and_the_result(tmp_path: Path):
    small = ["clients=10", "model=logistic", "cohort=2", "rounds=40", "output=here"]
    ended = in_a_terminal("-m", "driftless", "run", *small, cwd=tmp_path)
    assert ended.code == 0
    assert ended.text.startswith(f"{LINE}\r{' ' * len(LINE)}\r")
    places = [ended.text.index(text) for text in ("loading digits", "local: ", "0/40 rounds", "40/40 rounds", "final")]
    assert places == sorted(places)
    bars = [line for line in ended.lines if "rounds" in line and "━" in line]
    assert max(map(len, [*bars, *ended.lines[-5:]])) <= 80


WITHOUT_COMPILER = """
import sys, driftless
data = driftless.load("digits", clients=10)
driftless.simulate("adabest", data, "mlp", rounds=3, cohort=4, engine=driftless.EngineSettings(sys.argv[1], workers=1))
assert "torch._dynamo" not in sys.modules
"""


@pytest.mark.parametrize("engine", ["block", "single"])
def test_a_run_does_not_import_torchs_compiler(engine: str):
    """It takes as long as importing torch itself."""
    subprocess.run([sys.executable, "-c", WITHOUT_COMPILER, engine], check=True)
