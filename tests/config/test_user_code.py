"""`algorithm=my.py:MyAlgo`: a class in the user's file has the same rights as ours; mistakes in it are explained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from driftless.algorithms import FedAvg
from driftless.config import build
from driftless.config.resolution import resolve
from driftless.config.user_code import algorithm_class
from driftless.errors import InputError
from runs.runs import AfterRound, assert_same_run, command, resume, saved, start, words

SHRINK = '''
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from driftless import Algorithm


class Server(NamedTuple):
    x: torch.Tensor
    seen: torch.Tensor


class Client(NamedTuple):
    last: torch.Tensor
    visits: torch.Tensor


@dataclass(frozen=True)
class Shrink(Algorithm):
    """Averages, shrinks the model a little, and counts the visits of each client."""

    rate: float = 0.1
    citation: ClassVar[str] = "none"

    def init_server(self, x, facts):
        return Server(x, x.new_tensor(0.0))

    def init_client(self, x):
        return Client(torch.zeros_like(x), x.new_tensor(0.0))

    def upload(self, y, local, msg, client, r):
        upload, _ = super().upload(y, local, msg, client, r)
        return upload._replace(delta=0.5 * (upload.delta + client.last)), Client(y - msg.x, client.visits + 1)

    def update(self, server, mean, r):
        return Server((1 - self.rate) * (server.x + mean.delta), server.seen + r.cohort)
'''


@pytest.fixture
def shrink(tmp_path: Path) -> str:
    return f"{written(tmp_path / 'my.py', SHRINK)}:Shrink"


def written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def error_of(name: str) -> str:
    with pytest.raises(InputError) as caught:
        algorithm_class(name)
    return str(caught.value)


def test_its_hyper_parameters_are_keys_also_short_ones(shrink):
    resolved = resolve(None, [f"algorithm={shrink}", "rate=0.25"])
    assert build.algorithm_of(resolved.config).rate == 0.25
    with pytest.raises(InputError, match="did you mean 'rate'"):
        resolve(None, [f"algorithm={shrink}", "algorithm.rat=0.25"])


def test_its_states_are_kept_saved_and_resumed_to_the_same_bits(tmp_path, shrink):
    whole, part = tmp_path / "whole", tmp_path / "part"
    cut = AfterRound([5], lambda: shutil.copytree(whole, part))
    start(whole, f"algorithm={shrink}", "rate=0.05", callbacks=[cut])
    assert saved(whole)["server.seen"] == 40
    resume(part)
    assert_same_run(whole, part)


def test_a_run_of_a_relative_file_can_be_resumed_from_another_folder(tmp_path, shrink, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole, part = tmp_path / "whole", tmp_path / "elsewhere" / "part"
    cut = AfterRound([5], lambda: shutil.copytree(whole, part))
    start(whole, "algorithm=my.py:Shrink", callbacks=[cut])
    monkeypatch.chdir(part.parent)
    resume(Path("part"))
    assert_same_run(whole, part)


def test_a_class_that_is_fedavg_by_another_name_gives_fedavgs_bits(tmp_path):
    source = """
        from dataclasses import dataclass
        from driftless.algorithms import FedAvg
        @dataclass(frozen=True)
        class Mine(FedAvg):
            pass
    """.replace("\n        ", "\n")
    start(tmp_path / "mine", f"algorithm={written(tmp_path / 'own one-two.py', source)}:Mine")
    start(tmp_path / "ours", "algorithm=fedavg")
    assert torch.equal(saved(tmp_path / "mine")["server.x"], saved(tmp_path / "ours")["server.x"])


KINDS = """
    rate: float = 0.1
    layers: tuple[int, ...] = (1, 2)
    limit: float | None = 0.5
    extra: float | None = None
    kind: torch.dtype = torch.float32
    names: list[str] = field(default_factory=lambda: ["a", "b"])
"""


@pytest.mark.parametrize("given", [[], ["limit=none"], ["limit=0.25", "layers=[3, 4]"]], ids=" ".join)
def test_hyper_parameters_of_any_type_do_not_stand_in_the_way_of_a_run_and_its_resumption(tmp_path: Path, given):
    """Not every value can be written in TOML: tuples, None in the place of a number, objects."""
    text = SHRINK.replace("    rate: float = 0.1\n", KINDS).replace("import dataclass\n", "import dataclass, field\n")
    text = text.replace("self.rate) *", "self.rate * (self.limit or 1) * sum(self.layers)) *")
    name = f"{written(tmp_path / 'my.py', text)}:Shrink"
    whole, part = tmp_path / "whole", tmp_path / "part"
    cut = AfterRound([5], lambda: shutil.copytree(whole, part))
    start(whole, f"algorithm={name}", "rate=0.02", *given, callbacks=[cut])
    resume(part)
    assert_same_run(whole, part)


def test_the_users_file_is_executed_once_for_a_run(tmp_path, monkeypatch, capsys):
    log = tmp_path / "log.txt"
    file = written(tmp_path / "my.py", f"with open({str(log)!r}, 'a') as log:\n    log.write('executed\\n')\n{SHRINK}")
    assert (
        command(monkeypatch, capsys, "run", *words(f"algorithm={file}:Shrink", "rounds=1", f"output={tmp_path}/r")).code
        == 0
    )
    assert log.read_text() == "executed\n"


def test_files_of_the_same_name_in_two_folders_are_two_files(tmp_path):
    for folder, rate in (("a", 0.1), ("b", 0.2)):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder / "my.py", SHRINK.replace("rate: float = 0.1", f"rate: float = {rate}"))
    one, other = (algorithm_class(f"{tmp_path / folder / 'my.py'}:Shrink") for folder in ("a", "b"))
    assert (one().rate, other().rate) == (0.1, 0.2)


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    assert f"there is no file '{tmp_path / 'none.py'}'" in error_of(f"{tmp_path / 'none.py'}:Shrink")
    assert "there is no file" in error_of(f"{tmp_path}:Shrink.py:Shrink")


@pytest.mark.parametrize(
    ("given", "nearest"), [("Shrnk", "Shrink"), ("shrink", "Shrink"), ("MOOON", "MOON"), ("", None)]
)
def test_a_missing_class_is_an_error_with_the_nearest_one(tmp_path: Path, given: str, nearest: str | None):
    text = SHRINK + "\n\n@dataclass(frozen=True)\nclass MOON(Shrink):\n    pass\n"
    said = error_of(f"{written(tmp_path / 'my.py', text)}:{given}")
    assert "Allowed: MOON, Shrink." in said
    assert nearest is None or f"did you mean '{nearest}'?" in said


def test_a_class_that_is_no_algorithm_is_not_found(tmp_path):
    said = error_of(f"{written(tmp_path / 'my.py', SHRINK)}:Server")
    assert "unknown algorithm class" in said
    assert "Allowed: Shrink." in said


def test_a_class_that_is_no_dataclass_is_an_error_with_the_remedy(tmp_path):
    plain = SHRINK.replace("@dataclass(frozen=True)\n", "")
    assert "put @dataclass(frozen=True) above it" in error_of(f"{written(tmp_path / 'my.py', plain)}:Shrink")


def test_a_subclass_whose_own_parameters_lack_the_decorator_is_an_error_with_the_remedy(tmp_path):
    text = "from driftless.algorithms import FedAvg\n\n\nclass Mine(FedAvg):\n    zeta: float = 0.5\n"
    assert "put @dataclass(frozen=True) above it" in error_of(f"{written(tmp_path / 'my.py', text)}:Mine")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("import no_such_module_anywhere\n", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import sys\nsys.exit(0)\n", "SystemExit"),
    ],
)
def test_a_file_that_cannot_be_imported_is_an_error_that_says_why(tmp_path, monkeypatch, capsys, text, said):
    file = written(tmp_path / "my.py", text)
    ended = command(monkeypatch, capsys, "run", *words(f"algorithm={file}:Shrink", f"output={tmp_path}/run"))
    assert ended.code == 2
    assert f"error: '{file}' cannot be imported: {said}" in ended.err
    assert f'File "{file}", line' in ended.err, "the user's own traceback"
    assert "site-packages" not in ended.err
    assert "driftless/" not in ended.err, "and nothing of ours"


def test_a_class_without_update_is_an_error(tmp_path):
    text = SHRINK.replace("    def update(", "    def updated(")
    with pytest.raises(InputError, match="update"):
        start(tmp_path / "run", f"algorithm={written(tmp_path / 'my.py', text)}:Shrink")
    assert not (tmp_path / "run").exists()


def test_a_file_without_a_class_is_an_error_that_says_how_to_name_one(tmp_path):
    file = written(tmp_path / "my.py", SHRINK)
    assert f"{file}:" in error_of(str(file))


def test_the_default_directory_is_named_after_the_class(tmp_path, monkeypatch, capsys, shrink):
    monkeypatch.chdir(tmp_path)
    ended = command(monkeypatch, capsys, "run", *words(f"algorithm={shrink}", "rounds=1"), "--json")
    assert json.loads(ended.out)["directory"] == "runs/digits-Shrink-seed0"


def test_our_own_names_are_never_looked_for_in_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "fedavg", "raise AssertionError")
    assert algorithm_class("fedavg") is FedAvg


def test_a_method_that_the_engine_does_not_know_is_an_event_of_the_run(tmp_path: Path):
    source = SHRINK + "\n    def aggregate(self, updates):\n        return sum(updates)\n"
    start(tmp_path / "run", f"algorithm={written(tmp_path / 'typo.py', source)}:Shrink", "rounds=1")
    events = (tmp_path / "run" / "events.jsonl").read_text()
    assert events.count("Shrink defines 'aggregate' (here it is called update)") == 1
