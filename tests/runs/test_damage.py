"""The lines that a checkpoint counts on are checked, the changed one is named, and all are put back."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from driftless.errors import InputError
from driftless.runs.run import resume as resume_run
from runs.runs import AfterRound, assert_same_run, command, manifest_of, resume, start

CHANGES = ["algorithm=scaffold", "rounds=10", "checkpoint_every=3"]
LINES = "metrics.jsonl"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `whole` run, and the same one `killed` in round 8: its checkpoints are of rounds 3 and 6."""
    folder = tmp_path_factory.mktemp("runs")
    cut = AfterRound([8], lambda: shutil.copytree(folder / "whole", folder / "killed"))
    start(folder / "whole", *CHANGES, callbacks=[cut])
    return folder


@pytest.fixture
def killed(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs / "killed", tmp_path / "run"))


def with_line(number: int, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        lines[number - 1] = change(lines[number - 1])
        return b"".join(lines)

    return changed


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "inserted byte": (with_line(2, lambda line: line[:20] + b" " + line[20:]), 2),
    "doubled line": (with_line(4, lambda line: line + line), 5),
    "CRLF": (lambda content: content.replace(b"\n", b"\r\n"), 1),
    "edited value": (with_line(5, lambda line: re.sub(rb'"train_loss": .', b'"train_loss": 9', line)), 5),
    "removed line": (with_line(3, lambda line: b""), 3),
    "truncated": (lambda content: content[: len(content) // 4], 2),
    "empty": (lambda content: b"", 1),
}
"""What is done to the lines, and the first line that is not as it was."""


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_changed_line_of_metrics_is_named_and_put_back(runs: Path, killed: Path, damage: str):
    change, line = DAMAGE[damage]
    file = killed / LINES
    saved_lines = file.read_bytes().splitlines(keepends=True)[:6]
    file.write_bytes(change(file.read_bytes()))
    damaged: list[str] = []
    resume_run(killed, warn=damaged.append)
    assert damaged == [f"metrics.jsonl was changed in line {line}; it is put back from its copy"]
    assert file.read_bytes().splitlines(keepends=True)[:6] == saved_lines  # the seconds, too
    assert_same_run(runs / "whole", killed)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_changed_copy_of_the_metrics_changes_nothing_and_is_made_whole(runs: Path, killed: Path, damage: str):
    copy = killed / "checkpoint" / LINES
    copy.write_bytes(DAMAGE[damage][0](copy.read_bytes()))
    resume_run(killed, warn=pytest.fail)
    assert copy.read_bytes() == (killed / LINES).read_bytes()
    assert_same_run(runs / "whole", killed)


def test_when_file_and_copy_are_changed_after_the_older_checkpoint_that_one_is_used(runs: Path, killed: Path):
    for file in (killed / LINES, killed / "checkpoint" / LINES):
        file.write_bytes(DAMAGE["edited value"][0](file.read_bytes()))
    damaged: list[str] = []
    resume_run(killed, warn=damaged.append)
    assert len(damaged) == 1
    assert damaged[0].startswith("manifest-00000006.json: metrics.jsonl was changed")
    assert_same_run(runs / "whole", killed)


def test_when_file_and_copy_are_changed_before_both_checkpoints_the_error_says_what_to_do(runs: Path, killed: Path):
    for file in (killed / LINES, killed / "checkpoint" / LINES):
        file.write_bytes(DAMAGE["inserted byte"][0](file.read_bytes()))
    with pytest.raises(InputError, match=r"metrics\.jsonl was changed.*delete that folder"):
        resume(killed)
    shutil.rmtree(killed / "checkpoint")
    resume(killed)
    assert_same_run(runs / "whole", killed)


def test_changed_events_are_put_back(tmp_path: Path):
    whole, run = tmp_path / "whole", tmp_path / "run"
    diverging = ["batch_size=none", "epochs=1", "weight_decay=1e7", "rounds=14", "checkpoint_every=1"]
    start(whole, *diverging, callbacks=[AfterRound([9], lambda: shutil.copytree(whole, run))])
    assert (run / "events.jsonl").read_bytes()
    (run / "events.jsonl").write_bytes((run / "events.jsonl").read_bytes().replace(b"round", b"rouno"))
    damaged: list[str] = []
    resume_run(run, warn=damaged.append)
    assert damaged == ["events.jsonl was changed in line 1; it is put back from its copy"]
    assert (run / "events.jsonl").read_bytes() == (whole / "events.jsonl").read_bytes()


def test_the_user_is_told_which_line_was_changed(killed: Path, monkeypatch, capsys):
    (killed / LINES).write_bytes(DAMAGE["edited value"][0]((killed / LINES).read_bytes()))
    ended = command(monkeypatch, capsys, "resume", killed, "--quiet")
    assert ended.code == 0
    assert "warning: metrics.jsonl was changed in line 5" in ended.err


def as_earlier_versions_wrote_it(run: Path) -> None:
    """Manifests without checksums of the lines, no copies."""
    for path in (run / "checkpoint").iterdir():
        if path.name.endswith((".copy", ".jsonl")):
            path.unlink()
        elif path.name.startswith("manifest"):
            manifest = manifest_of(path)
            del manifest["checksums"]
            body = json.dumps(manifest)
            signed = {"sha256": hashlib.sha256(body.encode()).hexdigest(), "manifest": body}
            path.write_text(json.dumps(signed), encoding="utf-8")


def test_a_run_of_an_earlier_version_is_resumed_and_has_copies_from_then_on(runs: Path, killed: Path):
    as_earlier_versions_wrote_it(killed)
    resume_run(killed, warn=pytest.fail)
    assert_same_run(runs / "whole", killed)
    assert (killed / "checkpoint" / LINES).read_bytes() == (killed / LINES).read_bytes()
    assert "checksums" in manifest_of(killed / "checkpoint" / "manifest-00000010.json")


@pytest.mark.parametrize("kept", [0.2, 0.0])
def test_lines_missing_in_a_run_of_an_earlier_version_are_an_error(killed: Path, kept: float):
    as_earlier_versions_wrote_it(killed)
    content = (killed / LINES).read_bytes()
    (killed / LINES).write_bytes(content[: int(kept * len(content))])
    with pytest.raises(InputError, match=r"metrics\.jsonl was changed, or lines of it are missing"):
        resume(killed)
