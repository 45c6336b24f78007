from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftless.config.resolution import resolve
from driftless.errors import InputError
from driftless.report.chart_data import POINTS
from driftless.report.html import write_report
from driftless.runs.directory import StoredRun
from driftless.runs.run import start
from report.runs import FEDERATION, Folder, accuracies, write_run

VOID = {"meta", "link", "input", "line", "br"}


class Page(HTMLParser):
    """The page's elements, checked to be closed in order; texts and attributes apart from scripts and styles."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.stack[-1] if self.stack else ""
        (self.scripts if inside in ("script", "style") else self.texts).append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.texts))

    @property
    def data(self) -> Any:
        return json.loads(
            next(text for text in self.scripts if text.startswith('{"curves"')), parse_constant=pytest.fail
        )


def report(runs: list[StoredRun], tmp_path: Path, **how: Any) -> Page:
    return Page(write_report(runs, tmp_path / "report.html", **how))


def test_the_page_of_a_comparison_is_whole_and_refers_to_nothing_outside(comparison: list[StoredRun], tmp_path: Path):
    page = report(comparison, tmp_path)
    assert page.links == ["data:,"]
    assert "@import" not in "".join(page.scripts[:1])
    assert "url(" not in page.scripts[0]
    for words in (
        "fedavg, scaffold and ghbm on digits",
        "20 clients",
        "dirichlet, alpha = 0.3",
        "All runs finished; none diverged",
        "driftless compare fedavg scaffold ghbm",
        "Label skew",
    ):
        assert words in page.text


def test_every_metric_that_a_run_records_is_on_its_page(tmp_path: Path):
    settings = ["data.clients=4", "model=logistic", "run.cohort=2", "run.rounds=2", "local.epochs=1", "engine=single"]
    run = start(resolve(None, settings), tmp_path / "run")
    assert set(report([run], tmp_path).data["metrics"]) == {key for row in run.rows for key in row} - {"round"}


def test_the_same_runs_give_the_same_page(comparison: list[StoredRun], tmp_path: Path):
    first = write_report(comparison, tmp_path / "a.html")
    second = write_report([StoredRun(run.path) for run in comparison], tmp_path / "b.html")
    assert first.read_bytes() == second.read_bytes()


def test_the_page_embeds_plotly_once_and_stays_small_enough_to_send(comparison: list[StoredRun], tmp_path: Path):
    file = write_report(comparison, tmp_path / "report.html")
    assert file.read_text(encoding="utf-8").count("* plotly.js v") == 1
    assert file.stat().st_size < 6e6


def test_texts_of_the_user_cannot_become_markup(tmp_path: Path):
    evil = "<script>alert('1')</script>"
    events = [{"round": 1, "what": evil, "clients": []}]
    run = write_run(
        tmp_path / "</script><script>evil()" / "run", [f"run.output={evil}", "run.cohort=<b>bold</b>"],
        [*accuracies([0.5]), {"round": 2, evil: 1.0}], "diverged", evil, events, {evil: evil},
    )  # fmt: skip
    page = report([run], tmp_path, title=evil)
    assert page.tags.count("script") == 3
    assert "b" not in page.tags
    assert page.text.count(evil) >= 4
    assert not any("alert(" in text and "<script>" in text for text in page.scripts)
    assert evil in page.data["metrics"]


def test_a_second_report_to_the_same_file_renews_it(folder: Folder, tmp_path: Path):
    first = folder("fedavg", 0, [0.5])
    file = write_report([first], tmp_path / "report.html")
    before = file.read_bytes()
    write_report([first, folder("ghbm", 0, [0.6])], file)
    assert file.read_bytes() != before
    assert [curve["label"] for curve in Page(file).data["curves"]] == ["fedavg", "ghbm"]


def test_a_report_that_cannot_be_made_leaves_the_older_one(folder: Folder, tmp_path: Path):
    run = folder("fedavg", 0, [0.5])
    file = write_report([run], tmp_path / "report.html")
    before = file.read_bytes()
    with pytest.raises(InputError, match="target"):
        write_report([run], file, target=90)
    assert file.read_bytes() == before


def test_an_existing_file_that_is_no_report_is_kept_unless_overwriting_is_allowed(folder: Folder, tmp_path: Path):
    runs = [folder("fedavg", 0, [0.5])]
    file = tmp_path / "report.html"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=r"report.html' exists and is not a report of driftless; give another name"):
        write_report(runs, file)
    assert file.read_text(encoding="utf-8") == "mine"
    write_report(runs, file, overwrite=True)
    assert Page(file).data
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.html"]


def test_a_folder_instead_of_a_file_is_refused_and_missing_folders_are_made(folder: Folder, tmp_path: Path):
    runs = [folder("fedavg", 0, [0.5])]
    with pytest.raises(InputError, match=r"is a folder; give the name of a file in it, such as .*report\.html"):
        write_report(runs, tmp_path)
    assert write_report(runs, tmp_path / "new" / "deep" / "page.html").exists()


def test_no_run_is_an_error_before_anything_is_written(tmp_path: Path):
    with pytest.raises(InputError, match="no run was given"):
        write_report([], tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_has_only_begun_has_a_page_that_says_so(folder: Folder, tmp_path: Path):
    page = report([folder("fedavg", 0, [], "run.rounds=5", status=None)], tmp_path)
    assert "not finished, 0 of 5 rounds so far. driftless resume" in page.text
    assert page.data["metrics"] == {}


def test_rows_with_hardly_any_key_are_enough_for_a_page(tmp_path: Path):
    page = report(
        [write_run(tmp_path / "a", [], [{"round": 1, "surprise": 1.5}, {"round": 2}], environment=None)], tmp_path
    )
    assert page.data["headline"] == "surprise"
    assert list(page.data["axes"]) == ["rounds"]


def test_a_diverged_run_with_numbers_that_json_lacks_has_a_page(tmp_path: Path):
    rows = [{**row, "train_loss": v} for row, v in zip(accuracies([0.1] * 4), (1, 1e300, np.inf, np.nan), strict=True)]
    runs = [
        write_run(tmp_path / f"{s}", [f"run.seed={s}", "run.rounds=9"], rows[: 3 + s], "diverged", "too fast")
        for s in (0, 1)
    ]
    page = report(runs, tmp_path)
    assert "fedavg, seed 0: too fast" in page.text
    assert "See the 2 notes on the runs below." in page.text
    assert page.data["metrics"]["train_loss"]["log"] is True


def test_long_runs_are_thinned_and_the_page_says_so(folder: Folder, tmp_path: Path):
    page = report([folder("fedavg", 0, [0.5] * 3000)], tmp_path)
    assert "Of long runs, 1,000 rounds are drawn." in page.text
    rounds = page.data["grids"][0]["rounds"]
    assert (len(rounds), rounds[0], rounds[-1]) == (POINTS, 1, 3000)


def test_the_labels_of_the_clients_are_drawn_and_described(folder: Folder, tmp_path: Path):
    page = report([folder("fedavg", 0, [0.5])], tmp_path)
    assert page.data["partitions"] == [[[10, 10, 0, 5], [0, 0, 10, 5]]]  # a row a class
    assert "40 examples on 4 clients; a client has 10 to 10, the median is 10." in page.text
    # all together 5/8 and 3/8, so the distances are 3/8, 3/8, 5/8 and 1/8
    assert "Label skew 0.38, from 0 (every client like all together)" in page.text
    assert "Shown:" not in page.text


def test_of_many_clients_and_classes_the_first_hundred_are_drawn_and_the_page_says_so(folder: Folder, tmp_path: Path):
    stored = {"clients": 2500, "examples": 10_000, "sizes": [4] * 1000, "labels": [[1] * 120] * 100, "classes": 120,
              "validation_clients": 7}  # fmt: skip
    page = report([folder("fedavg", 0, [0.5], federation=stored)], tmp_path)
    assert "10,000 examples on 2500 clients; each of the first 1,000 clients has 4 to 4, the median is 4." in page.text
    assert "7 more clients held out for validation." in page.text
    assert "Label skew of the first 100 clients 0.00" in page.text
    assert "Shown: the first 100 clients of 2,500 and the first 100 classes of 120." in page.text
    (counts,) = page.data["partitions"]
    assert (len(counts), len(counts[0])) == (100, 100)


def test_regression_has_a_sentence_instead_of_a_figure_of_labels(folder: Folder, tmp_path: Path):
    page = report([folder("fedavg", 0, [0.5], federation={**FEDERATION, "labels": None, "classes": None})], tmp_path)
    assert "The targets are numbers (regression): no labels." in page.text
    assert page.data["partitions"] == [None]


def test_a_run_without_a_record_of_its_data_has_a_sentence_instead_of_a_figure(folder: Folder, tmp_path: Path):
    page = report([folder("fedavg", 0, [0.5], federation=None)], tmp_path)
    assert "The run did not record how its data are divided (federation.json is missing)." in page.text
    assert page.data["partitions"] == [None]


def test_the_partition_of_one_seed_is_named_where_each_seed_has_its_own(folder: Folder, tmp_path: Path):
    runs = [folder("fedavg", seed, [0.5]) for seed in (3, 4)]
    assert "This is the partition of seed 3; each seed has its own." in report(runs, tmp_path).text
    fixed = [folder("fedavg", seed, [0.5], "data.seed=1") for seed in (3, 4)]
    assert "each seed has its own" not in report(fixed, tmp_path).text


def test_each_way_to_divide_the_data_has_its_figure(folder: Folder, tmp_path: Path):
    divided = {n: {**FEDERATION, "clients": n, "sizes": [5] * n, "labels": [[5, 0]] * n} for n in (10, 20)}
    runs = [folder(name, 0, [0.5], f"data.clients={n}", federation=stored) for name in ("fedavg", "ghbm")
            for n, stored in divided.items()]  # fmt: skip
    page = report(runs, tmp_path)
    assert [len(counts[0]) for counts in page.data["partitions"]] == [10, 20]
    assert "digits, clients = 10" in page.text


def test_the_target_and_its_rule_are_stated(folder: Folder, tmp_path: Path):
    runs = [folder("fedavg", 0, [0.4, 0.5]), folder("ghbm", 0, [0.6, 0.7])]
    assert "The target is 0.5, the final quality of fedavg" in report(runs, tmp_path).text
    assert "0.45 was given as the target." in report(runs, tmp_path, target=0.45).text
