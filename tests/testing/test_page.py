"""docs/testing.md lists the laws as they are."""

from __future__ import annotations

import re
from pathlib import Path

from driftless.testing import LAWS

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_page_has_every_law_in_its_order_with_its_statement():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == [(law.name, law.statement) for law in LAWS.values()]


def test_every_law_is_called_by_its_name_and_has_a_statement_of_one_sentence():
    for name, law in LAWS.items():
        assert law.name == name
        assert len(law.statement) > 20
        assert law.statement.endswith(".")
