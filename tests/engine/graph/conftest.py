"""Gradients are used in parts, however short they are: the tests have small ones."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from driftless.engine.graph import simplify


@pytest.fixture(autouse=True, scope="package")
def split_short_gradients() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simplify, "WORTH_SPLITTING", 0)
        yield
