"""The site as `make docs` builds it: complete, without a network, typeset, and usable on a phone."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftless.algorithms import ALGORITHMS
from report.browser import Browser, find_chromium

ROOT = Path(__file__).parents[2]
CHROMIUM = find_chromium()
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed; .ci/run installs it")
LOADED = re.compile(r"""<(?:script|link|img|iframe)[^>]*\s(?:src|href)=["']?(https?:[^"'\s>]+)""")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, by whichever process of the tests comes first."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "site"
    with open(shared / "site.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            build(folder)
    return folder


def build(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM
    with Browser(CHROMIUM) as opened:
        yield opened


def test_every_algorithm_has_a_page_with_its_parts(site: Path):
    for name, cls in ALGORITHMS.items():
        text = (site / "algorithms" / f"{name}.html").read_text(encoding="utf-8")
        for part in ("equations-and-code", "hyper-parameters", "costs", "how-it-relates-to-the-others"):
            assert f'id="{part}"' in text, f"{name} has no section {part}"
        assert cls.__name__ in text


def test_no_page_loads_anything_from_elsewhere(site: Path):
    found = {url for page in site.rglob("*.html") for url in LOADED.findall(page.read_text(encoding="utf-8"))}
    assert found == set()


@in_a_browser
@pytest.mark.parametrize("name", ["adabest", "fedadam", "mime", "ghbm-theory"])
def test_equations_are_typeset_and_nothing_is_requested_from_elsewhere(site: Path, browser: Browser, name: str):
    browser.requests.clear()
    browser.problems.clear()
    browser.open(site / "algorithms" / f"{name}.html")
    browser.until(lambda: browser.evaluate("document.querySelectorAll('.katex').length") > 0)
    assert browser.evaluate(
        "document.querySelectorAll('.arithmatex').length === document.querySelectorAll('.katex').length"
    )
    assert browser.evaluate("document.querySelectorAll('.katex-error').length") == 0
    assert [url for url in browser.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert browser.problems == []


@in_a_browser
def test_the_search_finds_a_page_from_the_disk(site: Path, browser: Browser):
    browser.emulate(1280, 900)
    browser.open(site / "index.html")
    browser.click("input.md-search__input")
    state = "document.querySelector('.md-search-result__meta').textContent"
    browser.until(lambda: "Initializing" not in browser.evaluate(state))
    browser.call("Input.insertText", text="SCAFFOLD")
    browser.press("Tab")  # a key: the page looks at what was typed
    browser.until(lambda: browser.evaluate("document.querySelectorAll('.md-search-result__link').length") > 0)


@in_a_browser
@pytest.mark.parametrize("page", ["index", "algorithms/adabest", "algorithms/map", "choose", "tutorials/own_problem"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_the_width_of_a_phone(site: Path, browser: Browser, page: str, scheme: str):
    browser.emulate(390, 844, scheme)
    browser.open(site / f"{page}.html")
    browser.evaluate("localStorage.clear()")  # the choice of the page before
    browser.open(site / f"{page}.html")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    shown = browser.evaluate("document.body.getAttribute('data-md-color-scheme')")
    assert shown == {"light": "default", "dark": "slate"}[scheme]


@in_a_browser
def test_a_click_on_a_name_of_the_map_opens_its_page(site: Path, browser: Browser):
    browser.emulate(1280, 900)
    browser.open(site / "algorithms" / "map.html")
    href = json.dumps("adabest.html")
    browser.click(f".map a[href={href}] rect")
    browser.until(lambda: str(browser.evaluate("location.pathname")).endswith("algorithms/adabest.html"))
