"""The examples of the README and the docs are run as printed; their commands are read by the real parser."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from driftless import __version__
from driftless.algorithms import ALGORITHMS
from driftless.cli import app
from driftless.cli.arguments import split_arguments
from driftless.compare import is_variant, plan
from driftless.config import resolution as config
from driftless.papers import chosen
from driftless.reproduce.experiment import SCALES
from driftless.tune import search as tune

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text for found, text in fences if found == language]


EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(blocks(page, "python"), start=1)
]
COMMANDS = sorted(
    {
        line.partition("#")[0].strip()
        for page in PAGES
        for block in blocks(page, "")
        for line in block.splitlines()
        if line.startswith("driftless ")
    }
)


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_python_example_runs_as_printed(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "example", "exec"), {"__name__": "__main__"})


def test_the_readme_has_examples_to_run():
    assert len(blocks(ROOT / "README.md", "python")) >= 2
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("command", COMMANDS)
def test_the_printed_command_is_understood(command: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    _, name, *words = shlex.split(command)
    groups = {group.typer_instance.info.name: group.typer_instance for group in app.registered_groups}
    if name in groups:
        assert words[0] in {known.name for known in groups[name].registered_commands}
        return
    assert name in {known.name or known.callback.__name__ for known in app.registered_commands}
    words = [word for word in words if not word.startswith("-")]
    if name == "run":
        _, file, overrides = split_arguments(words)
        config.resolve(file, overrides)
    elif name == "compare":
        algorithms, file, overrides = split_arguments(words, is_variant)
        plan(algorithms, file, [word for word in overrides if not word.startswith("output=")])
    elif name == "tune":
        _, file, overrides = split_arguments(words)
        tune.plan(file, overrides)
    elif name == "reproduce":
        assert chosen([word for word in words if word not in SCALES and not re.fullmatch(r"\d+(h|min|s)", word)])
    elif name == "cost":
        assert set(words) <= set(ALGORITHMS)


def test_the_citation_file_has_the_version_of_the_package():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_of_the_project_lead_somewhere(page: Path):
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def cited_tests() -> list[str]:
    return sorted({test for page in PAGES for test in re.findall(r"`(tests/\S+::\w+)`", page.read_text("utf-8"))})


@pytest.mark.parametrize("cited", cited_tests())
def test_a_test_that_a_page_names_exists(cited: str):
    file, _, name = cited.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text("utf-8")
