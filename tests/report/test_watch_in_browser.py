"""`driftless watch` as its user has it: its own process, a run that goes on in another, and a browser."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from report.browser import Browser, find_chromium

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium was found; install it (apt-get install chromium) to test the page in a browser",
)
LONG = 180.0
"""Seconds that a busy machine may need."""
LAST_ROUND = "document.getElementById('chart')?.data?.find(trace => trace.meta)?.x?.at(-1) ?? 0"
"""That the chart shows. The number of its points stops growing at a thousand, which a fast machine soon reaches."""
RANGES = "(layout => [layout.xaxis.range, layout.yaxis.range])(document.getElementById('chart').layout)"
SETTINGS = ("data.clients=20", "model=logistic", "epochs=1", "batch_size=20", "cohort=5", "evaluate_every=1")


@contextmanager
def process(*words: str, **how: object) -> Generator[subprocess.Popen[str]]:
    started = subprocess.Popen([sys.executable, "-m", "driftless", *words], text=True, **how)  # type: ignore[call-overload]
    with started:
        try:
            yield started
        finally:
            started.kill()


@contextmanager
def running(folder: Path) -> Generator[subprocess.Popen[str]]:
    """A run that does not end by itself."""
    with process("run", *SETTINGS, "rounds=1000000", f"output={folder}", "-q") as run:
        yield run


def zoomed_in(page: Browser) -> bool:
    """By dragging over a part of the chart that does not begin at round 0."""
    page.drag("#chart .nsewdrag", (0.2, 0.2), (0.6, 0.7))
    return page.evaluate(RANGES)[0][0] > 0


def says(page: Browser, text: str) -> bool:
    return text in page.evaluate("document.body.innerText")


def test_the_page_shows_a_run_that_goes_on_and_keeps_what_its_reader_chose(tmp_path: Path):
    assert CHROMIUM is not None
    with process("watch", str(tmp_path), "--port", "0", stdout=subprocess.PIPE) as watch, Browser(CHROMIUM) as page:
        assert watch.stdout is not None
        first, tunnel = watch.stdout.readline(), watch.stdout.readline()
        url = re.search(r"http://127\.0\.0\.1:(\d+)/", first)
        assert url is not None
        assert f"ssh -L {url[1]}:127.0.0.1:{url[1]} " in tunnel
        page.visit(url[0])
        assert says(page, "No run has begun yet.")
        with running(tmp_path / "run"):
            page.until(lambda: page.evaluate(LAST_ROUND) > 2, LONG)
            assert says(page, "1 run: 1 going on;")
            page.choose("#metric", "train_loss")
            page.click("#bands")
            page.click("#table thead th:nth-child(1) button")
            page.until(lambda: zoomed_in(page), LONG)
            zoomed = page.evaluate(RANGES)
            page.evaluate("window.notReloaded = true")
            for _ in range(2):
                before = page.evaluate(LAST_ROUND)
                page.until(lambda before=before: page.evaluate(LAST_ROUND) > before, LONG)
        assert page.evaluate("window.notReloaded")
        assert page.evaluate(RANGES) == zoomed
        assert page.evaluate("document.getElementById('metric').value") == "train_loss"
        assert page.evaluate("document.querySelector('#table thead th').ariaSort") == "ascending"
        assert page.problems == []
        watch.send_signal(signal.SIGINT)
        assert watch.wait(LONG) == 0
        page.until(lambda: says(page, "Connection lost"), LONG)
