"""The pages for users of other libraries show parts of code that runs: that of their overview."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "coming_from"
OVERVIEW = FOLDER / "README.md"
PAGES = sorted(set(FOLDER.glob("*.md")) - {OVERVIEW})
TASKS = 10
LACKS = "What driftless does not do"


class Section(NamedTuple):
    title: str
    text: str

    def blocks(self, pattern: str) -> list[str]:
        """The code after each line that matches the pattern."""
        return re.findall(rf"^{pattern}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)


def sections(page: Path) -> list[Section]:
    _, *parts = re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)
    return [Section(*part.split("\n", 1)) for part in parts]


def tasks() -> dict[str, Section]:
    return {section.title: section for section in sections(OVERVIEW)}


def ours(section: Section) -> list[str]:
    return section.blocks("driftless:\n\n```py")


def is_part_of(lines: list[str], whole: list[str]) -> bool:
    return any(lines == whole[i : i + len(lines)] for i in range(len(whole)))


def test_the_overview_has_ten_tasks_each_with_code_that_is_run():
    assert [title.partition(".")[0] for title in tasks()] == [str(number) for number in range(1, TASKS + 1)]
    assert [title for title, section in tasks().items() if len(section.blocks("```python")) != 1] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_tasks_of_the_overview_in_their_order_and_what_is_lacking(page: Path):
    assert [section.title for section in sections(page)] == [*tasks(), LACKS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_task_of_a_page_shows_lines_of_the_code_that_is_run(page: Path):
    for section in sections(page)[:TASKS]:
        [whole] = tasks()[section.title].blocks("```python")
        shown = ours(section)
        assert shown, f"{page.name}, {section.title}: no code of driftless"
        for block in shown:
            assert is_part_of(block.splitlines(), whole.splitlines()), f"{page.name}, {section.title}:\n{block}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_overview_links_to_the_page(page: Path):
    assert f"]({page.name})" in OVERVIEW.read_text("utf-8")


def test_lines_that_are_not_neighbours_or_differ_are_no_part():
    whole = ["a", "b", "c"]
    assert is_part_of(["b", "c"], whole)
    assert not is_part_of(["a", "c"], whole)
    assert not is_part_of(["b", "c "], whole)
