"""Checkpoints are exact, whole or detected as damaged, kept twice, and cost what changed, not what there is."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from driftless.algorithms import Scaffold
from driftless.config.build import simulation_of
from driftless.engine.simulation import State
from driftless.errors import InputError
from driftless.runs.callbacks import ShowProgress
from driftless.runs.checkpoint import Checkpoints, Damaged, copy_of, read_manifest
from driftless.runs.directory import StoredRun
from driftless.runs.files import Prefix
from driftless.runs.run import resume as resume_run
from runs.runs import AfterRound, assert_same_run, command, manifest_of, resume, saved, small, start

CHANGES = ["algorithm=scaffold", "rounds=14", "checkpoint_every=3"]
KILLED = 10
"""The round in which the runs below are killed: their checkpoints are those of rounds 6 and 9."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `whole` run, and the same one `killed` in round 10."""
    folder = tmp_path_factory.mktemp("runs")
    cut = AfterRound([KILLED], lambda: shutil.copytree(folder / "whole", folder / "killed"))
    start(folder / "whole", *CHANGES, callbacks=[cut])
    return folder


@pytest.fixture
def killed(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs / "killed", tmp_path / "run"))


def file_of(run: Path, kind: str, round: int = 9) -> Path:
    name = f"manifest-{round:08d}.json" if kind == "manifest" else f"{kind}-{round:08d}.safetensors"
    return run / "checkpoint" / name


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[2 * len(content) // 3] ^= 1
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def replace_by_text(file: Path) -> None:
    file.write_bytes(b"[1, 2]")


DAMAGE: dict[str, Callable[[Path], None]] = {
    "truncated": truncate,
    "bit flipped": flip_a_bit,
    "empty": empty,
    "replaced": replace_by_text,
    "missing": Path.unlink,
}


# What is saved


def test_the_last_two_checkpoints_are_kept_and_no_file_that_they_do_not_need(runs):
    folder = runs / "killed" / "checkpoint"
    manifests = sorted(path.name for path in folder.glob("manifest-*"))
    assert manifests == ["manifest-00000006.json", "manifest-00000009.json"]
    needed = {
        segment["name"]
        for path in folder.glob("manifest-*")
        for segment in [manifest_of(path)["server"], *manifest_of(path)["clients"]]
    }
    copies = {copy_of(Path(name)).name for name in needed if name.startswith("clients-")}
    assert {path.name for path in folder.iterdir()} == needed | copies | {*manifests, "metrics.jsonl", "events.jsonl"}


def test_a_checkpoint_holds_the_server_every_client_that_took_part_the_round_and_the_position(runs):
    whole = runs / "whole"
    manifest = manifest_of(file_of(whole, "manifest", 14))
    assert manifest["round"] == 14
    assert manifest["positions"]["metrics.jsonl"] == (whole / "metrics.jsonl").stat().st_size
    simulation = simulation_of(StoredRun(whole).config)
    took_part = {int(c) for t in range(1, 15) for c in simulation.cohort.clients(t, 20, 0)}
    tensors = saved(whole)
    assert {int(name.split(".")[1]) for name in tensors if name.startswith("clients.")} == took_part
    assert {"server.x", "server.c"} <= tensors.keys()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The checkpoint folder of a run whose metrics have a hundred bytes."""
    (tmp_path / "metrics.jsonl").write_bytes(b"x" * 100)
    (tmp_path / "checkpoint").mkdir()
    return tmp_path / "checkpoint"


def test_a_client_row_that_is_loaded_is_the_row_that_was_stored(folder):
    state = state_with({3: 0.5, 7: -1.25})
    Checkpoints(folder).save(replace(state, round=1), {"metrics.jsonl": Prefix(17, None)})
    loaded = Checkpoints(folder).load(blank())
    assert loaded is not None
    assert (loaded.state.round, loaded.lines, loaded.damaged) == (1, {"metrics.jsonl": b"x" * 17}, [])
    assert sorted(loaded.state.clients.clients) == [3, 7]
    assert torch.equal(loaded.state.clients.rows([7, 3])[0], state.clients.rows([7, 3])[0])
    assert torch.equal(loaded.state.server.x, state.server.x)
    assert loaded.state.clients.touched == set()


def test_without_a_checkpoint_there_is_nothing_to_load(tmp_path):
    assert Checkpoints(tmp_path / "none").load(blank()) is None


# Damage


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", ["manifest", "server"])
def test_a_damaged_checkpoint_is_detected_and_the_previous_one_used(runs: Path, killed: Path, kind: str, damage: str):
    file = file_of(killed, kind)
    DAMAGE[damage](file)
    damaged: list[str] = []
    resume_run(killed, warn=damaged.append)
    if (kind, damage) == ("manifest", "missing"):
        assert damaged == []  # it is as if there had been none
    else:
        assert len(damaged) == 1
        assert damaged[0].startswith("manifest-00000009.json: ")
        assert kind == "manifest" or file.name in damaged[0]
    assert_same_run(runs / "whole", killed)


def shared_by_both(run: Path) -> Path:
    """A file of client rows that both checkpoints need."""
    names = [{s["name"] for s in manifest_of(file_of(run, "manifest", round))["clients"]} for round in (6, 9)]
    return run / "checkpoint" / sorted(names[0] & names[1])[0]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_rows_of_clients_that_both_checkpoints_need_are_put_back_from_their_copy(
    runs: Path, killed: Path, damage: str
):
    file = shared_by_both(killed)
    before = file.read_bytes()
    DAMAGE[damage](file)
    damaged: list[str] = []
    resume_run(killed, [AfterRound([10], lambda: damaged.append(str(file.read_bytes() == before)))], damaged.append)
    assert damaged[0].startswith(file.name)
    assert damaged[0].endswith("it is put back from its copy")
    assert damaged[1:] == ["True"]
    assert_same_run(runs / "whole", killed)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_copy_of_the_rows_of_clients_changes_nothing(runs: Path, killed: Path, damage: str):
    DAMAGE[damage](copy_of(shared_by_both(killed)))
    resume_run(killed, warn=pytest.fail)
    assert_same_run(runs / "whole", killed)


def test_when_the_newest_rows_and_their_copy_are_damaged_the_older_checkpoint_is_used(runs, killed):
    flip_a_bit(file_of(killed, "clients"))
    truncate(copy_of(file_of(killed, "clients")))
    damaged: list[str] = []
    resume_run(killed, warn=damaged.append)
    assert len(damaged) == 1
    assert damaged[0].startswith("manifest-00000009.json: clients-00000009.safetensors")
    assert_same_run(runs / "whole", killed)


def test_no_single_flipped_bit_of_a_manifest_goes_unnoticed(runs, tmp_path):
    original = file_of(runs / "killed", "manifest")
    content, manifest = original.read_bytes(), read_manifest(original)
    copy = tmp_path / "manifest.json"
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        copy.write_bytes(flipped)
        try:
            assert read_manifest(copy) == manifest
        except Damaged:
            continue


def test_the_user_is_told_which_checkpoint_could_not_be_used(killed, monkeypatch, capsys):
    flip_a_bit(file_of(killed, "server"))
    ended = command(monkeypatch, capsys, "resume", killed, "--json")
    assert ended.code == 0
    assert re.search(r"warning: .*server-00000009\.safetensors is damaged.*an older checkpoint is used", ended.err)
    assert json.loads(ended.out)["status"] == "finished"


def test_the_user_is_told_also_when_the_resumed_run_is_interrupted_again(killed, monkeypatch, capsys):
    flip_a_bit(file_of(killed, "server"))
    monkeypatch.setattr(ShowProgress, "on_round", lambda *_: signal.raise_signal(signal.SIGINT))
    ended = command(monkeypatch, capsys, "resume", killed, "--quiet")
    assert ended.code == 130
    assert "server-00000009.safetensors" in ended.err


@pytest.mark.parametrize("damage", DAMAGE)
def test_when_all_checkpoints_are_damaged_the_error_says_so_and_what_to_do(runs: Path, killed: Path, damage: str):
    before = (killed / "metrics.jsonl").read_bytes()
    for round in (6, 9):
        DAMAGE[damage](file_of(killed, "server", round))
    with pytest.raises(InputError) as caught:
        resume(killed)
    said = str(caught.value)
    assert "server-00000006.safetensors" in said
    assert "server-00000009.safetensors" in said
    assert f"'{killed / 'checkpoint'}'" in said
    assert (killed / "metrics.jsonl").read_bytes() == before
    shutil.rmtree(killed / "checkpoint")  # the remedy that it names
    resume(killed)
    assert_same_run(runs / "whole", killed)


def test_when_rows_that_both_checkpoints_need_and_their_copy_are_damaged_it_is_an_error(killed):
    flip_a_bit(shared_by_both(killed))
    flip_a_bit(copy_of(shared_by_both(killed)))
    with pytest.raises(InputError, match=r"no checkpoint in .* can be used"):
        resume(killed)


def test_leftovers_of_a_write_that_was_cut_short_change_nothing(runs, killed):
    folder = killed / "checkpoint"
    (folder / ".manifest-00000012.json.tmp").write_bytes(b'{"sha256": "')
    (folder / ".server-00000012.safetensors.tmp").write_bytes(b"half")
    (folder / "clients-00000012.safetensors").write_bytes(b"written before its manifest was")
    (killed / ".result.json.tmp").write_bytes(b"{")
    resume_run(killed, warn=pytest.fail)
    assert_same_run(runs / "whole", killed)


def test_a_resumed_run_that_is_killed_again_and_again_stays_exact(runs, killed, tmp_path):
    """Each time the newest checkpoint is damaged as well."""
    run = killed
    for round in (7, 9, 11, 12):
        newest = max((run / "checkpoint").glob("server-*"))
        truncate(newest)
        after = tmp_path / f"killed in round {round}"
        cut = AfterRound([round], lambda run=run, after=after: shutil.copytree(run, after))
        resume_run(run, [cut])
        assert_same_run(runs / "whole", run)
        run = after
    resume(run)
    assert_same_run(runs / "whole", run)


# Cost

P = 40


def blank() -> State:
    """A state of Scaffold on a tiny model, before the first round."""
    changes = [
        "algorithm=scaffold",
        "data=linear-regression",
        "model=linear",
        "data.clients=2000",
        f"data.dimension={P}",
    ]
    return simulation_of(small(*changes, "data.examples=2", "cohort=10").config).init()


def state_with(rows: dict[int, float]) -> State:
    state = blank()
    touch(state, rows)
    return state


def touch(state: State, rows: dict[int, float]) -> None:
    values = torch.tensor(list(rows.values()))[:, None] * torch.arange(1, P + 1)
    state.clients.put(list(rows), (values,))


def test_the_clients_of_a_test_state_are_scaffolds():
    assert isinstance(blank().algorithm, Scaffold)
    assert blank().server.x.shape == (P,)


def written_by(checkpoints: Checkpoints, folder: Path, state: State, t: int) -> int:
    """Bytes that are new or different after a save."""
    before = {path.name: path.read_bytes() for path in folder.glob("*")}
    checkpoints.save(replace(state, round=t), {"metrics.jsonl": Prefix(t, None)})
    return sum(path.stat().st_size for path in folder.glob("*") if before.get(path.name) != path.read_bytes())


@pytest.mark.parametrize("clients", [100, 1000, 2000])
def test_a_save_costs_the_rows_touched_since_the_last_one_however_many_there_are(folder: Path, clients: int):
    checkpoints, state = Checkpoints(folder), state_with(dict.fromkeys(range(clients), 1.0))
    first = written_by(checkpoints, folder, state, 1)
    assert first > 2 * clients * P * 4  # the rows and their copy
    touch(state, dict.fromkeys(range(10), 2.0))
    second = written_by(checkpoints, folder, state, 2)
    assert 2 * 10 * P * 4 < second < 2 * 10 * P * 4 + 5000
    nothing = written_by(checkpoints, folder, state, 3)
    assert nothing < 5000
    newest = manifest_of(folder / "manifest-00000003.json")
    assert [segment["rows"] for segment in newest["clients"]] == [clients, 10]


def test_the_rows_kept_are_at_most_twice_those_alive_and_a_row_costs_a_constant_in_the_long_run(folder):
    generator = torch.Generator().manual_seed(0)
    checkpoints, state = Checkpoints(folder), blank()
    rows_written = rows_touched = 0
    for t in range(1, 101):
        chosen = torch.randperm(150, generator=generator)[:7].tolist()
        touch(state, {client: t + client / 1000 for client in chosen})
        rows_touched += len(chosen)
        known = {path.name for path in folder.glob("clients-*")}
        checkpoints.save(replace(state, round=t), {})
        segments = manifest_of(folder / f"manifest-{t:08d}.json")["clients"]
        assert sum(segment["rows"] for segment in segments) <= 2 * len(state.clients)
        rows_written += sum(segment["rows"] for segment in segments if segment["name"] not in known)
        on_disk = sum(path.stat().st_size for path in folder.glob("clients-*"))
        assert on_disk <= 2 * 4 * len(state.clients) * (P * 4 + 8) + 200 * len(list(folder.glob("clients-*")))
    assert rows_written <= 3 * rows_touched
    loaded = Checkpoints(folder).load(blank())
    assert loaded is not None
    everyone = sorted(state.clients.clients)
    assert sorted(loaded.state.clients.clients) == everyone
    assert torch.equal(loaded.state.clients.rows(everyone)[0], state.clients.rows(everyone)[0])


def test_saving_goes_on_with_the_segments_that_a_resumed_run_found(folder):
    state = state_with(dict.fromkeys(range(50), 1.0))
    Checkpoints(folder).save(replace(state, round=1), {})
    checkpoints = Checkpoints(folder)
    loaded = checkpoints.load(blank())
    assert loaded is not None
    touch(loaded.state, {3: 5.0})
    assert written_by(checkpoints, folder, loaded.state, 2) < 6000
    segments = manifest_of(folder / "manifest-00000002.json")["clients"]
    assert [segment["rows"] for segment in segments] == [50, 1]
    again = Checkpoints(folder).load(blank())
    assert again is not None
    assert torch.equal(again.state.clients.rows([3])[0], loaded.state.clients.rows([3])[0])
    assert len(again.state.clients) == 50


def test_a_stateless_algorithm_saves_no_client_rows(tmp_path):
    start(tmp_path / "run", "algorithm=fedavg")
    assert list((tmp_path / "run" / "checkpoint").glob("clients-*")) == []


@pytest.mark.parametrize(("every", "at"), [(0, [8]), (1, [7, 8]), (3, [6, 8]), (8, [8]), (100, [8])])
def test_a_checkpoint_is_made_every_so_many_rounds_and_after_the_last(tmp_path: Path, every: int, at: list[int]):
    start(tmp_path / "run", f"checkpoint_every={every}")
    manifests = sorted((tmp_path / "run" / "checkpoint").glob("manifest-*"))
    assert [manifest_of(path)["round"] for path in manifests] == at
