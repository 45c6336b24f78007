"""The page in a real browser: what a reader does with it, and what it does to the network (nothing)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftless.report.html import write_report
from driftless.runs.directory import StoredRun
from report.browser import Browser, find_chromium
from report.runs import Folder, accuracies, write_run

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium was found; install it (apt-get install chromium) to test the page in a browser",
)
LINES = "document.querySelectorAll('#chart .scatterlayer .js-line')"
TRACES = "document.getElementById('chart').data"


@pytest.fixture(scope="module")
def file(comparison: list[StoredRun], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(comparison, tmp_path_factory.mktemp("page") / "report.html", target=0.5)


@pytest.fixture(scope="module")
def process() -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM) as browser:
        yield browser


@pytest.fixture
def browser(process: Browser) -> Iterator[Browser]:
    """No test may cause an error or a warning on the console."""
    process.requests.clear()
    process.emulate(1280, 900)
    yield process
    assert process.problems == []


@pytest.fixture
def page(browser: Browser, file: Path) -> Browser:
    """The report of the comparison, freshly loaded."""
    browser.open(file)
    browser.until(lambda: browser.evaluate("!!document.querySelector('#chart .main-svg')"))
    return browser


def curves_drawn(page: Browser) -> list[int]:
    """The curves that have a line."""
    return sorted(page.evaluate(f"{TRACES}.filter(trace => trace.meta).map(trace => trace.meta.curve)"))


def line_of(page: Browser, curve: int) -> dict[str, Any]:
    """The numbers behind a line."""
    return page.evaluate(f"(t => ({{x: t.x, y: t.y}}))({TRACES}.find(t => t.meta && t.meta.curve === {curve}))")


def path_of(page: Browser, number: int) -> str:
    """What is really drawn."""
    return page.evaluate(f"{LINES}[{number}].getAttribute('d')")


def column(page: Browser, position: int) -> list[str]:
    return page.evaluate(
        f"[...document.querySelectorAll('#table tbody tr')].map(row => row.cells[{position}].innerText.trim())"
    )


def test_the_curves_are_drawn_with_their_bands(page: Browser, comparison: list[StoredRun]):
    assert curves_drawn(page) == [0, 1, 2]
    paths = page.evaluate(f"[...{LINES}].map(line => line.getAttribute('d'))")
    long = [path for path in paths if path and path.count("L") >= 15]
    assert len(long) >= 3
    assert page.evaluate("document.querySelectorAll('#chart .scatterlayer .js-fill').length") == 3
    means = [sum(run.rows[-1]["test_accuracy"] for run in comparison[:2]) / 2, line_of(page, 0)["y"][-1]]
    assert means[0] == pytest.approx(means[1], rel=1e-5)


def legend(page: Browser) -> list[str]:
    return page.evaluate(
        "[...document.querySelectorAll('#legend [data-curve]')].map(button => button.innerText.trim())"
    )


def axis_range(page: Browser, chart: str = "chart") -> list[float]:
    return page.evaluate(f"document.getElementById('{chart}').layout.yaxis.range")


def test_the_legend_is_in_the_order_of_the_final_values_of_what_is_shown(page: Browser):
    assert legend(page) == ["ghbm", "scaffold", "fedavg"]
    page.choose("#metric", "cosine")  # falls with learning, and no direction is better: the highest first
    assert legend(page) == ["fedavg", "scaffold", "ghbm"]
    page.choose("#metric", "test_loss")  # lower is better
    assert legend(page) == ["ghbm", "scaffold", "fedavg"]
    page.click("#legend button[data-curve='1']")
    assert curves_drawn(page) == [0, 2]


@pytest.fixture
def outliers(browser: Browser, tmp_path: Path) -> Browser:
    """Accuracies that begin at 0.1 and go on from 0.8 to 0.9; one of three algorithms ends with a loss of 1e22."""
    values = [0.1, *(0.8 + 0.1 * t / 28 for t in range(29))]
    runs: list[StoredRun] = []
    for name, growth in (("fedavg", 0.99), ("scaffold", 6.0), ("ghbm", 0.98)):
        rows = [{**row, "test_loss": growth**t, "norm_x": growth**t} for t, row in enumerate(accuracies(values))]
        runs.append(write_run(tmp_path / name, [f"algorithm={name}"], rows))
    browser.open(write_report(runs, tmp_path / "report.html"))
    return browser


def test_the_first_view_is_where_the_curves_are_and_says_what_is_not_in_it(outliers: Browser):
    low, high = axis_range(outliers)
    assert 0.78 < low < 0.8
    assert 0.9 < high < 0.92
    words = outliers.evaluate("document.getElementById('beyond').innerText")
    assert words.startswith("Not in view: fedavg (down to 0.1), scaffold (down to 0.1), ghbm (down to 0.1).")
    outliers.click("#everything")
    assert axis_range(outliers)[0] < 0.1
    assert outliers.evaluate("document.getElementById('beyond').innerText") == ""
    outliers.click("#everything")
    assert axis_range(outliers) == [low, high]


def test_a_double_click_in_the_chart_shows_every_value_and_another_the_curves_again(outliers: Browser):
    first = axis_range(outliers)
    outliers.click("#chart .nsewdrag", times=2)
    outliers.until(lambda: axis_range(outliers)[0] < 0.1)
    outliers.until(lambda: (outliers.click("#chart .nsewdrag", times=2), axis_range(outliers) == first)[1])


def test_a_loss_that_diverges_squashes_no_axis_and_alone_it_is_shown(outliers: Browser):
    outliers.choose("#metric", "test_loss")
    assert axis_range(outliers)[1] < 2
    assert not outliers.evaluate("document.getElementById('log').checked")
    assert "scaffold (up to 3.7e+22)" in outliers.evaluate("document.getElementById('beyond').innerText")
    assert axis_range(outliers, "panel-norm_x")[1] < 2
    assert "not in view: scaffold" in outliers.evaluate("document.getElementById('panel-norm_x').textContent")
    outliers.click("#legend button[data-curve='1']", times=2)
    assert axis_range(outliers)[1] > 1e22


def test_a_zoom_outlives_hiding_a_curve_and_ends_with_another_metric(page: Browser):
    page.drag("#chart .nsewdrag", (0.2, 0.2), (0.6, 0.7))
    page.until(lambda: page.evaluate("document.getElementById('chart').layout.xaxis.range[0]") > 1)
    zoomed = axis_range(page)
    page.click("#legend button[data-curve='1']")
    assert axis_range(page) == zoomed
    page.choose("#metric", "test_loss")
    assert axis_range(page) != zoomed
    assert page.evaluate("document.getElementById('chart').layout.xaxis.range[0]") == 0


def test_nothing_is_asked_of_the_network_and_nothing_offers_to_send_anything(page: Browser, file: Path):
    page.choose("#metric", "train_loss")
    outside = [url for url in page.requests if not url.startswith(("data:", "blob:"))]
    assert outside == [file.resolve().as_uri()]
    titles = page.evaluate("[...document.querySelectorAll('.modebar-btn')].map(button => button.dataset.title)")
    assert sorted(set(titles)) == sorted(["Download plot", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"])


def test_a_click_on_a_name_hides_the_curve_with_its_band_everywhere_and_another_shows_it(page: Browser):
    page.click("#legend button[data-curve='1']")
    assert curves_drawn(page) == [0, 2]
    assert page.evaluate("document.querySelectorAll('#chart .scatterlayer .js-fill').length") == 2
    assert page.evaluate("document.querySelector('#legend button[data-curve=\"1\"]').ariaPressed") == "false"
    assert page.evaluate("document.getElementById('panel-norm_x').data.filter(t => t.meta).length") == 2
    page.click("#legend button[data-curve='1']")
    assert curves_drawn(page) == [0, 1, 2]


def test_a_double_click_shows_one_curve_alone_and_show_all_brings_the_others_back(page: Browser):
    page.click("#legend button[data-curve='2']", times=2)
    assert curves_drawn(page) == [2]
    page.click("#all")
    assert curves_drawn(page) == [0, 1, 2]


def test_the_legend_can_be_used_with_the_keyboard(page: Browser):
    page.evaluate("document.querySelector('#legend button[data-curve=\"0\"]').focus()")
    page.press(" ")
    assert curves_drawn(page) == [1, 2]


def test_another_metric_draws_other_numbers(page: Browser, comparison: list[StoredRun]):
    before = path_of(page, 0), line_of(page, 1)
    page.choose("#metric", "norm_x")
    after = path_of(page, 0), line_of(page, 1)
    assert before[0] != after[0]
    assert before[1]["x"] == after[1]["x"]
    assert after[1]["y"][-1] == pytest.approx(sum(run.rows[-1]["norm_x"] for run in comparison[2:4]) / 2, rel=1e-5)
    assert page.evaluate("document.querySelector('#chart .ytitle').textContent") == "norm of the model"


def test_another_axis_draws_the_same_numbers_over_other_positions(page: Browser, comparison: list[StoredRun]):
    before = line_of(page, 1)
    page.click("#axis [value=megabytes]")
    after = line_of(page, 1)
    assert before["y"] == after["y"]
    sent = sum(row["bytes_down"] + row["bytes_up"] for row in comparison[2].rows) / 1e6
    assert after["x"][-1] == pytest.approx(sent, rel=1e-5)
    assert page.evaluate("document.querySelector('#chart .xtitle').textContent") == "MB sent, down and up"
    for axis in ("examples", "time"):
        page.click(f"#axis [value={axis}]")
        assert line_of(page, 1)["x"] != after["x"]


def test_the_logarithmic_scale_and_the_bands_can_be_switched(page: Browser):
    page.click("#log")
    assert page.evaluate("document.getElementById('chart').layout.yaxis.type") == "log"
    page.click("#bands")
    assert page.evaluate("document.querySelectorAll('#chart .scatterlayer .js-fill').length") == 0


def test_every_metric_that_can_be_chosen_can_be_drawn(page: Browser):
    choices = page.evaluate("[...document.querySelector('#metric').options].map(option => option.value)")
    assert len(choices) >= 18
    for choice in choices:
        page.choose("#metric", choice)
        assert curves_drawn(page), choice


def test_a_click_on_a_header_sorts_the_rows_and_a_second_one_reverses_them(page: Browser):
    head = "#table thead th:nth-child({}) button"
    page.click(head.format(1))
    assert column(page, 0) == ["fedavg", "ghbm", "scaffold"]
    page.click(head.format(1))
    assert column(page, 0) == ["scaffold", "ghbm", "fedavg"]
    page.click(head.format(3))
    finals = [float(text.split()[0]) for text in column(page, 2)]
    assert finals == sorted(finals)
    assert page.evaluate("document.querySelector('#table thead th:nth-child(3)').ariaSort") == "ascending"


def test_the_table_can_be_sorted_with_the_keyboard(page: Browser):
    page.evaluate("document.querySelector('#table thead th button').focus()")
    page.press("Enter")
    page.press("Enter")
    assert column(page, 0) == ["scaffold", "ghbm", "fedavg"]


def test_norms_cosine_drift_and_labels_are_drawn(page: Browser):
    panels = page.evaluate("[...document.querySelectorAll('#panels .chart')].map(panel => panel.id)")
    assert {"panel-norm_x", "panel-norm_c", "panel-cosine", "panel-drift"} <= set(panels)
    assert page.evaluate("document.querySelectorAll('#panel-norm_c .js-line').length") >= 1
    assert page.evaluate("document.querySelectorAll('[data-partition] .heatmaplayer image').length") == 1


def test_a_dark_reader_gets_a_dark_page_and_a_narrow_one_no_sideways_scrolling(page: Browser):
    background = "getComputedStyle(document.documentElement).backgroundColor"
    chart = "document.getElementById('chart').layout.paper_bgcolor"
    light = page.evaluate(f"[{background}, {chart}]")
    page.emulate(420, 900, "dark")
    page.until(lambda: page.evaluate(chart) != light[1])
    assert page.evaluate(background) != light[0]
    assert page.evaluate("document.documentElement.scrollWidth") == 420


def test_paper_is_white_and_shows_everything_that_was_folded(page: Browser, tmp_path: Path):
    page.emulate(1280, 900, "dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.getElementById('chart').layout.paper_bgcolor") == "#ffffff"
    assert page.evaluate("[...document.querySelectorAll('details')].every(details => details.open)")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.getElementById('chart').layout.paper_bgcolor") != "#ffffff"


def test_a_page_with_hostile_names_and_missing_numbers_works(browser: Browser, tmp_path: Path):
    evil = "<img src=x onerror=window.evil=1>"
    rows = [{**row, evil: 1.0} for row in accuracies([0.1, 0.2, 0.4])]
    runs: list[StoredRun] = []
    for cohort in (0, 1):
        for seed, status in enumerate(("finished", "diverged")):
            settings = [f"run.cohort={evil}-{cohort}", f"run.seed={seed}", "run.rounds=3"]
            runs.append(write_run(tmp_path / evil / f"{cohort}-{seed}", settings, rows[: 3 - seed], status))
    browser.open(write_report(runs, tmp_path / "report.html", title=evil))
    browser.choose("#metric", evil)
    browser.choose("#metric", "test_accuracy")
    assert curves_drawn(browser) == [0, 1]
    assert browser.evaluate("window.evil") is None
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    # × where the seed that diverged is lost
    assert browser.evaluate(f"{TRACES}.filter(t => t.mode === 'markers').map(t => t.x)") == [[2], [2]]


def test_a_single_run_that_has_only_begun_opens(browser: Browser, tmp_path: Path):
    browser.open(write_report([write_run(tmp_path / "run", [], [], status=None)], tmp_path / "report.html"))
    assert browser.evaluate("document.querySelectorAll('#table tbody tr').length") == 1
    assert "No round has been recorded yet." in browser.evaluate("document.body.innerText")


def heat_maps(page: Browser) -> list[list[list[str]]]:
    """The texts of the tables of the sweep."""
    return page.evaluate(
        "[...document.querySelectorAll('#heat table')].map(table => [...table.rows].map("
        "row => [...row.cells].map(cell => cell.innerText.split('\\n')[0].trim())))"
    )


def swept(folder: Folder, models: tuple[str, ...]) -> list[StoredRun]:
    """Two numbers of clients, and each of the models."""
    return [
        folder(
            name,
            0,
            [0.1 * n, 0.2 + 0.1 * n + clients / 1000],
            f"data.clients={clients}",
            f"model={model}",
            test_f1=0.3 * n,
        )
        for clients in (10, 20)
        for model in models
        for n, name in enumerate(("fedavg", "ghbm"))
    ]


def test_a_sweep_has_a_heat_map_of_the_chosen_metric_and_a_chart_for_each_cell(browser: Browser, folder: Folder):
    browser.open(write_report(swept(folder, ("mlp",)), folder.path / "report.html"))
    assert heat_maps(browser) == [
        [["", "clients=10", "clients=20"], ["fedavg", "0.21", "0.22"], ["ghbm", "0.31", "0.32"]]
    ]
    shades = browser.evaluate("[...document.querySelectorAll('#heat td')].map(cell => cell.style.background)")
    assert len(set(shades)) == 4
    traces = (
        "[0, 1].map(c => document.getElementById(`cell-${c}`).data.filter(t => t.meta).map(t => t.meta.curve).sort())"
    )
    assert browser.evaluate(traces) == [[0, 1], [2, 3]]
    assert axis_range(browser, "cell-0") == axis_range(browser, "cell-1")
    browser.choose("#metric", "test_f1")
    assert heat_maps(browser)[0][2] == ["ghbm", "0.3", "0.3"]
    browser.click("#legend [data-curve='0']")
    assert browser.evaluate(traces) == [[1], [2, 3]]


def test_two_swept_settings_have_a_heat_map_for_each_algorithm(browser: Browser, folder: Folder):
    browser.open(write_report(swept(folder, ("mlp", "logistic")), folder.path / "report.html"))
    maps = heat_maps(browser)
    assert [len(one) for one in maps] == [3, 3]
    assert maps[1][1][1:] == ["0.31", "0.31"]
    captions = "[...document.querySelectorAll('#heat caption')].map(caption => caption.innerText)"
    assert browser.evaluate(captions) == ["fedavg", "ghbm"]
    assert browser.evaluate("document.querySelectorAll('#cells .chart').length") == 4


def test_a_page_without_a_sweep_says_nothing_of_one(page: Browser):
    assert page.evaluate("document.getElementById('sweep-section').hidden")
