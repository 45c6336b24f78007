"""The project that `driftless deploy new` writes, before there are nodes."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from driftless.project import FEDERATION, write_project
from runs.runs import command


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path / "mine", FEDERATION)
    return tmp_path / "mine"


def test_the_command_writes_the_project_and_says_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    ended = command(monkeypatch, capsys, "deploy", "new", str(tmp_path / "mine"))
    assert ended.code == 0
    assert "next: cd" in ended.out
    assert {"pyproject.toml", "README.md", "make_keys.py", "simulate.py", ".gitignore", "federation"} == {
        path.name for path in (tmp_path / "mine").iterdir()
    }
    again = command(monkeypatch, capsys, "deploy", "new", str(tmp_path / "mine"))
    assert again.code == 2
    assert "exists and is not an empty folder" in again.err


def test_the_project_is_simulated_as_it_is(project: Path):
    ended = subprocess.run([sys.executable, "simulate.py", "scaffold"], cwd=project, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert (project / "runs" / "simulated-scaffold" / "result.json").exists()


def test_keys_are_for_their_owner_only_and_never_replaced(project: Path):
    def make_keys(*words: str) -> dict[str, bytes]:
        subprocess.run([sys.executable, "make_keys.py", *words], cwd=project, check=True, capture_output=True)
        return {path.name: path.read_bytes() for path in (project / "keys").iterdir()}

    first = make_keys("--nodes", "2", "--host", "127.0.0.1", "--host", "server.example.org")
    assert {f"node-{i}{end}" for i in range(2) for end in ("", ".pub")} < set(first)
    assert all(path.stat().st_mode & 0o077 == 0 for path in (project / "keys").iterdir())
    more = make_keys("--nodes", "3")
    assert {name: more[name] for name in first} == first
    assert "node-2" in more
    context = ssl.create_default_context(cafile=project / "keys" / "ca.crt")
    context.load_cert_chain(project / "keys" / "server.crt", project / "keys" / "server.key")
    assert 'address = "127.0.0.1:8000"' in (project / "flower" / "config.toml").read_text()
