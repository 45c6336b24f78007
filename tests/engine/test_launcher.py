"""Which ranks were started, from the environment of torchrun and srun."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftless import InputError
from driftless.engine import launcher
from engine.launch import command, launch

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "somewhere", "MASTER_PORT": "1234"}
SLURM = {
    "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_JOB_ID": "1012345", "SLURM_STEP_ID": "2",
    "SLURM_STEP_NODELIST": "node7", "SLURM_NTASKS": "8",
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*TORCHRUN, *SLURM, "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)


def given(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_a_process_by_itself_is_no_rank(monkeypatch: pytest.MonkeyPatch):
    assert launcher.place_of_launch() is None
    given(monkeypatch, SLURM_PROCID="0", SLURM_NTASKS="8", SLURM_JOB_ID="1")  # the script of a job, without srun
    assert launcher.place_of_launch() is None
    assert launcher.join() is None


def test_torchrun_says_who_is_who(monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, **TORCHRUN)
    assert launcher.place_of_launch() == (1, 4)


def test_srun_says_who_is_who_and_the_first_host_is_where_they_meet(monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, **SLURM)
    assert launcher.place_of_launch() == (3, 8)
    assert launcher.os.environ["MASTER_ADDR"] == "node7"
    assert 20_000 <= int(launcher.os.environ["MASTER_PORT"]) < 30_000
    given(monkeypatch, MASTER_ADDR="10.0.0.1", MASTER_PORT="5")
    launcher.place_of_launch()
    assert (launcher.os.environ["MASTER_ADDR"], launcher.os.environ["MASTER_PORT"]) == ("10.0.0.1", "5")


def test_scontrol_names_the_first_of_several_hosts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with pytest.raises(InputError, match="set MASTER_ADDR to the name of the first host"):
        launcher.first_host("node[3-5,8]")
    program = tmp_path / "scontrol"
    program.write_text('#!/bin/sh\n[ "$3" = "node[3-5,8]" ] && printf "node3\\nnode4\\nnode5\\nnode8\\n"\n')
    program.chmod(0o755)
    given(monkeypatch, PATH=f"{tmp_path}:/usr/bin:/bin")
    assert launcher.first_host("node[3-5,8]") == "node3"
    with pytest.raises(InputError, match="scontrol does not know the hosts"):
        launcher.first_host("node[1-2]")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"RANK": "one"}, "RANK is 'one', not a number"),
        ({"WORLD_SIZE": "-2"}, "WORLD_SIZE is '-2', not a number"),
        ({"RANK": "4"}, "this is rank 4 of 4"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], message: str):
    given(monkeypatch, **(TORCHRUN | wrong))
    with pytest.raises(InputError, match=message):
        launcher.place_of_launch()


def test_a_rank_that_does_not_know_where_to_meet_the_others_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    given(monkeypatch, RANK="0", WORLD_SIZE="2", MASTER_PORT="1")
    with pytest.raises(InputError, match=r"has RANK, WORLD_SIZE, MASTER_PORT.* but not all of .*MASTER_ADDR"):
        launcher.place_of_launch()


def test_ranks_that_do_not_come_are_waited_for_so_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(launcher, "PATIENCE", launcher.timedelta(seconds=1))
    environment = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    (ended,) = launch([command("list", "models")], tmp_path, [environment])
    assert ended.code == 4, ended
    assert "error: rank 0 of 2 did not find the others at 127.0.0.1:0 (MASTER_ADDR, MASTER_PORT)" in ended.err
    assert "Traceback" not in ended.err


def test_a_run_that_may_be_restarted_needs_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (ended,) = launch([command("run", "rounds=1")], tmp_path, [{"TORCHELASTIC_MAX_RESTARTS": "3"}])
    assert ended.code == 2
    assert "give output=DIR" in ended.err
