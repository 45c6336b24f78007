"""Every tutorial is executed as it stands, from top to bottom, in one empty folder; what it shows is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutorials.page import blocks_of, walk

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
FEDERATION = TUTORIALS / "federation.md"
PAGES = sorted(page for page in TUTORIALS.glob("*.md") if page.name not in ("README.md", FEDERATION.name))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_says(page: Path, tmp_path: Path):
    walk(page.read_text(encoding="utf-8"), tmp_path)


@pytest.mark.parametrize("page", [*PAGES, FEDERATION], ids=lambda page: page.stem)
def test_a_tutorial_shows_what_its_commands_print(page: Path):
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    assert any(block.expected for block in blocks)


def test_the_list_of_tutorials_has_all_of_them():
    listed = (TUTORIALS / "README.md").read_text(encoding="utf-8")
    names = {path.name for path in [*TUTORIALS.glob("*.md"), *TUTORIALS.glob("*.ipynb")]} - {"README.md"}
    assert [name for name in sorted(names) if f"]({name}" not in listed] == []
