"""A run directory from elsewhere: nothing is written through its links, and what is in it is an error or a text."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from driftless.compare import COMPARISON, plan, prepare_folder, read_comparison
from driftless.errors import InputError
from driftless.report.html import write_report
from driftless.runs.directory import StoredRun, find_runs
from driftless.runs.files import read_json, read_lines, write_atomically
from driftless.runs.lock import locked
from driftless.runs.run import resume as resume_run
from runs.runs import AfterRound, assert_same_run, command, start, words


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `whole` run, and the same one `killed` in round 5."""
    folder = tmp_path_factory.mktemp("runs")
    cut = AfterRound([5], lambda: shutil.copytree(folder / "whole", folder / "killed"))
    start(folder / "whole", "algorithm=scaffold", callbacks=[cut])
    return folder


@pytest.fixture
def killed(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs / "killed", tmp_path / "run"))


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    (tmp_path / "precious").write_text("do not touch")
    return tmp_path / "precious"


# Links

IN_PLACE = ["lock", "metrics.jsonl", "events.jsonl", "checkpoint/metrics.jsonl", "checkpoint/events.jsonl"]
"""Files that are changed where they are."""
REPLACED = [".result.json.tmp", "result.json", "checkpoint/.manifest-00000006.json.tmp"]
"""Files that are written under another name, or are that name."""


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_a_file_that_is_a_link_is_not_written_through(killed: Path, precious: Path, name: str, link):
    (killed / name).unlink()
    link(precious, killed / name)
    with pytest.raises(InputError, match="link"):
        resume_run(killed)
    assert precious.read_text() == "do not touch"


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
@pytest.mark.parametrize("name", REPLACED)
def test_a_link_in_the_place_of_a_new_file_is_replaced_and_not_followed(runs, killed, precious, name, link):
    if name == "result.json":
        precious = precious.with_name("nowhere")
        link = os.symlink
    link(precious, killed / name)
    resume_run(killed)
    assert_same_run(runs / "whole", killed)
    assert not precious.exists() or precious.read_text() == "do not touch"


def test_a_new_run_creates_no_file_through_a_link_that_leads_nowhere(tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"metrics\.jsonl"):
        start(tmp_path / "run", "rounds=1")
    assert not (tmp_path / "nowhere").exists()


def test_a_checkpoint_folder_that_is_a_link_is_refused_and_nothing_in_it_removed(killed: Path, tmp_path: Path):
    (killed / "checkpoint").rename(tmp_path / "elsewhere")
    (killed / "checkpoint").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").iterdir())
    with pytest.raises(InputError, match="is a link"):
        resume_run(killed)
    assert sorted((tmp_path / "elsewhere").iterdir()) == before


def test_a_temporary_file_that_appears_meanwhile_is_not_written(tmp_path: Path, precious: Path, monkeypatch):
    """Between the removal of an old one and the creation: the file is created exclusively."""
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok=False: os.symlink(precious, path))
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "file", b"content")
    assert precious.read_text() == "do not touch"


def test_a_pipe_is_not_waited_for(killed: Path):
    os.mkfifo(killed / "result.json")
    with pytest.raises(InputError, match="is not a file"):
        _ = StoredRun(killed).result
    (killed / "lock").unlink()
    os.mkfifo(killed / "lock")
    with pytest.raises(InputError, match="not a file of this run alone"), locked(killed):
        pass


# Contents

DEEP = '{"a": ' * 2000 + "1" + "}" * 2000
BAD_JSON = {
    "list": ("[1, 2]", "it is a list"),
    "number": ("3", "it is a int"),
    "nothing": ("null", "it is a NoneType"),
    "not JSON": ("{a: 1}", "Expecting property name"),
    "deep": (DEEP, "deep|recursion"),
    "somewhat deep": ('{"a": ' + "[" * 30 + "]" * 30 + "}", "nested more than 20 deep"),
    "many digits": (f'{{"a": {"9" * 5000}}}', "digits"),
    "large number": ('{"a": 1000000000000000000000}', "more than 64 bits"),
    "no text": ("\xff\x00", ""),
}


@pytest.mark.parametrize("kind", BAD_JSON)
def test_what_is_not_a_json_object_of_a_run_is_a_clear_error(tmp_path: Path, kind: str):
    text, said = BAD_JSON[kind]
    (tmp_path / "result.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=rf"result\.json' is damaged: .*({said})"):
        read_json(tmp_path / "result.json")
    (tmp_path / "metrics.jsonl").write_bytes(b'{"round": 1}\n' + text.encode("latin-1") + b"\n")
    with pytest.raises(InputError, match=rf"line 2 of '\S*metrics\.jsonl' is damaged: .*({said})"):
        read_lines(tmp_path / "metrics.jsonl")


@pytest.mark.parametrize("name", ["result.json", "metrics.jsonl", "events.jsonl", "federation.json"])
@pytest.mark.parametrize("kind", BAD_JSON)
def test_a_report_of_such_a_run_is_that_error_and_no_traceback(runs, tmp_path, monkeypatch, capsys, name, kind):
    run = Path(shutil.copytree(runs / "whole", tmp_path / "run"))
    (run / name).write_bytes(BAD_JSON[kind][0].encode("latin-1") + b"\n")
    ended = command(monkeypatch, capsys, "report", run)
    assert ended.code == 2
    assert name in ended.err


BAD_SETTINGS = {
    "deep": "x = " + "[" * 2000 + "]" * 2000,
    "somewhat deep": "x = " + "[" * 100 + "]" * 100,
    "many digits": "x = " + "9" * 5000,
    "large": "x = " + "9" * 30,
    "no table": "run = 3",
}


@pytest.mark.parametrize("kind", BAD_SETTINGS)
def test_settings_that_no_run_has_are_a_clear_error(runs: Path, tmp_path: Path, kind: str):
    run = Path(shutil.copytree(runs / "whole", tmp_path / "run"))
    (run / "config.toml").write_text(f"{BAD_SETTINGS[kind]}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.toml"):
        write_report(find_runs([run]), tmp_path / "page.html")


@pytest.mark.parametrize(
    "change",
    [
        ("clients = 20", "clients = 1000000000000"),
        ("rounds = 8", "rounds = 1000000000000"),
        ("cohort = 5", "cohort = 1000000000000"),
        ("batch_size = 40", "batch_size = 1000000000000"),
        ("rounds = 8", 'rounds = "many"'),
        ("seed = 0", "seed = [1]"),
        ('name = "scaffold"', "name = ['scaffold']"),
    ],
    ids=" ".join,
)
def test_a_report_makes_nothing_of_the_size_that_a_configuration_names(runs: Path, tmp_path: Path, change):
    run = Path(shutil.copytree(runs / "whole", tmp_path / "run"))
    text = (run / "config.toml").read_text(encoding="utf-8")
    assert change[0] in text
    (run / "config.toml").write_text(text.replace(*change), encoding="utf-8")
    if "000" in change[1]:
        write_report(find_runs([run]), tmp_path / "page.html")
    else:
        with pytest.raises(InputError, match=r"config\.toml"):
            write_report(find_runs([run]), tmp_path / "page.html")


# Comparisons


@pytest.mark.parametrize(
    "name", ["../outside/seed-0", "/tmp", "fedavg/../../outside", ".", "", 3, None, "a\0b", "link"]
)
def test_a_comparison_cannot_name_runs_outside_of_its_folder(tmp_path: Path, name: object):
    folder = tmp_path / "compared"
    prepare_folder(plan(["fedavg"], None, [*words("rounds=1"), "seeds=1"]), folder)
    (tmp_path / "outside").mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    stored = json.loads((folder / COMPARISON).read_text())
    (folder / COMPARISON).write_text(json.dumps(stored | {"runs": [*stored["runs"], name]}))
    with pytest.raises(InputError, match="must be a list of folders inside that folder"):
        read_comparison(folder)


@pytest.mark.parametrize("changes", [{"runs": "fedavg"}, {"runs": None}, {"target": "high"}])
def test_a_comparison_of_another_form_is_a_clear_error(tmp_path: Path, changes: dict[str, object]):
    folder = tmp_path / "compared"
    prepare_folder(plan(["fedavg"], None, [*words("rounds=1"), "seeds=1"]), folder)
    stored = json.loads((folder / COMPARISON).read_text())
    (folder / COMPARISON).write_text(json.dumps(stored | changes))
    with pytest.raises(InputError, match=r"comparison\.json"):
        read_comparison(folder)
