from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console

from driftless.report.summary import Spread, summarise
from driftless.report.tables import (
    amount,
    cells,
    columns,
    csv_text,
    differences_table,
    json_record,
    markdown_table,
    number,
    precision,
    rich_table,
    rich_tables,
)
from driftless.runs.directory import StoredRun
from report.runs import Folder


def compared(folder: Folder) -> list[StoredRun]:
    runs = [folder("fedavg", s, [0.2, 0.3, 0.5]) for s in (0, 1)]
    runs += [folder("scaffold", 0, [0.4, 0.6, 0.8], megabytes=2), folder("scaffold", 1, [0.4, 0.4, 0.4], megabytes=2)]
    return runs + [folder("feddyn", s, [0.1], "run.rounds=3", status="diverged") for s in (0, 1)]


def rendered(runs: list[StoredRun], full: bool = False) -> str:
    console = Console(file=io.StringIO(), width=240)
    console.print(rich_table(summarise(runs), full))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_terminal_shows_the_best_first_with_costs_relative_to_fedavg(folder: Folder):
    above, *lines = rendered(compared(folder)).splitlines()
    assert above.split() == ["final", "test"]
    assert [line.split()[0] for line in lines[1:4]] == ["scaffold", "fedavg", "feddyn"]
    assert "rounds to 0.5" in lines[0]
    assert "0.6000 ± 0.2828" in lines[1]
    assert "≥ 2.5 (≥ 0.83x, 1/2 seeds)" in lines[1]
    assert "3.0 (1.00x)" in lines[2]
    assert "diverged" in lines[3]
    assert "not reached (≥ 1.00x)" in lines[3]
    assert "The target is 0.5, the final quality of fedavg" in lines[4]


def test_the_full_table_has_columns_that_the_terminal_leaves_out(folder: Folder):
    runs = compared(folder)
    assert "examples to" not in rendered(runs)
    assert "examples to" in rendered(runs, full=True)


def test_names_with_brackets_are_text_and_no_markup(folder: Folder):
    runs = [folder("fedavg", 0, [0.1], f"run.cohort=[[{n}]]") for n in (0, 1)]
    assert "fedavg run.cohort=[[1]]" in rendered(runs)


def test_markdown_marks_the_best_of_each_column_and_escapes_what_would_break_it(folder: Folder):
    runs = [*compared(folder), folder("fedavg", 0, [0.2], "run.cohort=a|b")]
    lines = markdown_table(summarise(runs)).splitlines()
    assert lines[1].startswith("| --- | ---: |")
    assert len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert "| scaffold | 2 | **0.6000 ± 0.2828** |" in lines[2]
    assert any("run.cohort=a\\|b" in line for line in lines)


def test_csv_has_every_number_in_full_and_nothing_where_nothing_is_known(folder: Folder):
    lines = list(csv.DictReader(io.StringIO(csv_text(summarise(compared(folder))))))
    assert [line["curve"] for line in lines] == ["scaffold", "fedavg", "feddyn"]
    scaffold, fedavg, feddyn = lines
    assert float(scaffold["final_std"]) == 0.282842712474619
    assert (scaffold["rounds_to_target"], scaffold["rounds_reached"], fedavg["rounds_relative"]) == ("2.5", "1", "1.0")
    assert (feddyn["final_mean"], feddyn["diverged"], feddyn["failures"]) == ("", "2", "")


def test_the_best_is_marked_only_where_there_is_a_choice(folder: Folder):
    alone = summarise([folder("fedavg", 0, [0.5])])
    assert not any(cell.best for line in cells(alone, columns(alone)) for cell in line)
    chosen = columns(both := summarise([folder("fedavg", 0, [0.5, 0.5]), folder("ghbm", 0, [0.6, 0.7])]))
    lines = cells(both, chosen)
    marked = {
        (line[0].text, column.key) for line in lines for column, cell in zip(chosen, line, strict=True) if cell.best
    }
    assert marked == {("ghbm", key) for key in ("final", "best", "rounds", "megabytes", "examples", "time")}


def test_nothing_is_best_across_different_data(folder: Folder):
    runs = [folder(name, 0, [0.5, 0.5], f"data.clients={n}") for name in ("fedavg", "ghbm") for n in (10, 20)]
    summary = summarise(runs)
    chosen = columns(summary)
    assert "target" in [column.key for column in chosen]
    assert not any(cell.best for line in cells(summary, chosen) for cell in line)


def test_columns_without_content_are_left_out(folder: Folder):
    keys = [column.key for column in columns(summarise([folder("fedavg", 0, [0.5])]))]
    assert keys == ["label", "seeds", "final", "best", "norm"]
    keys = [column.key for column in columns(summarise([folder("fedavg", 0, [], status=None)]))]
    assert keys == ["label", "seeds", "norm", "unfinished"]


def test_amounts_keep_the_figures_that_matter():
    amounts = {
        0: "0.00",
        0.00314: "0.0031",
        0.123: "0.12",
        3.14159: "3.14",
        37.34: "37.3",
        1250.4: "1,250",
        3.14e9: "3.1e+09",
    }
    assert {value: amount(value) for value in amounts} == amounts


def test_a_mean_and_its_deviation_have_the_same_decimals():
    cases = {(0.5, 0.01234): "0.5000 ± 0.0123", (37.34, 0.06): "37.3 ± 0.1", (1250.4, 3.2): "1,250 ± 3",
             (3e9, 1e7): "3.0e+09 ± 1.0e+07", (2e-6, 1e-7): "2.00e-06 ± 1.00e-07"}  # fmt: skip
    assert {pair: number(Spread(*pair, 3)).text for pair in cases} == cases
    assert number(Spread(0.25, None, 1)).text == "0.2500"


def swept(folder: Folder) -> list[StoredRun]:
    """Two cells; ghbm is better in one of them."""
    names = {"fedavg": (0.5, 0.5), "ghbm": (0.7, 0.5)}
    return [
        folder(name, s, [0.1, value + s * (0.01 if name == "fedavg" else 0.012)], f"data.clients={n}")
        for position, n in enumerate((10, 20)) for name, values in names.items() for s in (0, 1, 2)
        for value in (values[position],)
    ]  # fmt: skip


def terminal(runs: list[StoredRun], width: int, full: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width)
    for table in rich_tables(summarise(runs), full):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_cell_has_a_table_with_a_mark_only_where_the_interval_excludes_0(folder: Folder):
    lines = terminal(swept(folder), 80).splitlines()
    assert [line.strip() for line in lines if line.startswith("clients=")] == ["clients=10", "clients=20"]
    marked, unmarked = (line for line in lines if line.startswith("ghbm"))
    # the differences are 0.2, 0.202 and 0.204: 4.303 * 0.002 / sqrt(3) = 0.00497
    assert "+0.2020 ± 0.0050 ▲" in marked
    assert "+0.0020 ± 0.0050  " in unmarked
    assert "vs fedavg" in lines[2]
    note = " ".join(line.strip() for line in lines[lines.index(unmarked) :])
    assert "▲ better, ▼ worse, no mark: not distinguishable." in note
    assert "diverged" not in note


def test_the_table_of_long_names_and_costs_keeps_the_first_columns_whole_in_80_columns(folder: Folder):
    """Rich cuts what does not fit; every number must be there."""
    runs = [folder("fedavg", s, [0.5 + s / 100, 0.6 + s / 50], failure=int(s == 0)) for s in (0, 1, 2)]
    for label, more in (("fedprox-weak", 0.011), ("fedprox-strong", -0.1)):
        runs += [
            folder("fedprox", s, [0.5, 0.6 + s * 0.03 + more], f"run.label={label}", megabytes=1234, failure=1)
            for s in (0, 1, 2)
        ]
    text = terminal(runs, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for part in ("fedprox-strong  0.5300 ± 0.0300", "fedprox-weak    0.6410 ± 0.0300", "failures", "+0.021 ± 0.025"):
        assert part in text


def test_the_full_table_has_the_intervals_against_fedavg_and_against_the_best(folder: Folder):
    runs = [folder(name, s, [v + s * slope]) for name, v, slope in (
        ("fedavg", 0.5, 0.01), ("scaffold", 0.6, 0.013), ("ghbm", 0.7, 0.017)) for s in (0, 1, 2)]  # fmt: skip
    runs.append(folder("ghbm", 3, [0.1], status="diverged"))
    runs.append(folder("fedavg", 3, [0.53]))
    summary = summarise(runs)
    lines = {line[0].text: line for line in cells(summary, columns(summary))}
    keys = [column.title for column in columns(summary)]
    assert lines["ghbm"][keys.index("vs fedavg")].note == "+0.190 to +0.224, 3 seeds, paired t, 1 diverged"
    assert lines["scaffold"][keys.index("vs best")].text == "-0.1040 ± 0.0099 ▼"
    assert lines["ghbm"][keys.index("vs best")].text == "–"
    full = terminal(runs, 400, full=True)
    assert "(+0.190 to +0.224, 3 seeds, paired t, 1 diverged)" in full
    assert "Seeds in which one of the two runs diverged are left out." in terminal(runs, 80).replace("\n", " ")


def test_without_fedavg_the_best_is_what_the_others_are_compared_with(folder: Folder):
    runs = [folder(name, s, [v + s * v / 10]) for name, v in (("scaffold", 0.5), ("ghbm", 0.7)) for s in (0, 1)]
    text = terminal(runs, 80)
    assert "vs best" in text
    assert "vs best: mean of the last evaluations" in text


def test_without_pairs_there_is_neither_column_nor_note(folder: Folder):
    text = terminal([folder("fedavg", 0, [0.5]), folder("ghbm", 0, [0.6])], 80)
    assert "vs " not in text


def test_json_has_cells_rows_and_every_difference(folder: Folder):
    found = json.loads(json.dumps(json_record(summarise(swept(folder)))))
    assert found["cells"] == [{"name": f"clients={n}", "settings": {"data.clients": n}} for n in (10, 20)]
    rows = {(row["cell"], row["curve"]): row["last_mean"] for row in found["algorithms"]}
    assert rows[("clients=10", "ghbm")] == pytest.approx(0.712)
    pair = next(p for p in found["differences"] if (p["cell"], p["curve"]) == ("clients=10", "ghbm"))
    assert (pair["against"], pair["reference"], pair["verdict"], pair["seeds"]) == ("fedavg", "fedavg", "better", 3)
    assert pair["mean"] == pytest.approx(0.202)
    assert {"low", "high", "method", "diverged"} <= set(pair)


def test_differences_show_two_figures_of_their_uncertainty():
    cases = {(0.0193, 0.0061): "+0.0193 ± 0.0061", (12.3, 4.5): "+12.3 ± 4.5", (-1234.5, 678.0): "-1234 ± 678",
             (3e-9, 1e-9): "+3.0e-09 ± 1.0e-09", (2e9, 1e8): "+2.0e+09 ± 1.0e+08"}  # fmt: skip
    shown = {pair: f"{pair[0]:+{(form := precision(*pair))}} ± {pair[1]:{form}}" for pair in cases}
    assert shown == cases
    assert f"{0.01:+{precision(0.01, None)}}" == "+0.01"


def test_metrics_that_a_user_asked_for_have_a_column_of_final_values(folder: Folder):
    own = {"test_f1": 0.25, "test_f1_p5": 0.1, "personal_accuracy": 0.75, "validation_f1": 0.2, "surprise": 1.0}
    summary = summarise([folder("fedavg", seed, [0.4, 0.5], **own) for seed in (0, 1)])
    chosen = columns(summary)
    titles = {column.title: cell.text for column, cell in zip(chosen, cells(summary, chosen)[0], strict=True)}
    assert titles["final test f1"] == "0.2500 ± 0.0000"
    assert titles["final accuracy after local steps, mean over clients"] == "0.7500 ± 0.0000"
    assert not any("5th" in title or "surprise" in title or "held-out" in title for title in titles)


def test_paired_differences_are_said_in_words_each_pair_once(folder: Folder):
    values = {"fedavg": (0.50, 0.51, 0.52), "scaffold": (0.71, 0.70, 0.72), "ghbm": (0.40, 0.62, 0.51)}
    runs = [folder(name, seed, [final]) for name, finals in values.items() for seed, final in enumerate(finals)]
    found = differences_table(summarise(runs))
    lines = [dict(zip(found.titles, line, strict=True)) for line in found.lines]
    verdicts = {(line["algorithm"], line["compared with"]): line["verdict"] for line in lines}
    assert verdicts == {
        ("scaffold", "fedavg"): "better",
        ("ghbm", "fedavg"): "not distinguishable",
        ("ghbm", "scaffold"): "not distinguishable",
    }
    assert lines[0]["seeds"] == "3"
    assert lines[0]["method"] == "paired t"
    assert differences_table(summarise(runs[:1])).lines == []


def test_paired_differences_of_a_sweep_name_the_cell(folder: Folder):
    runs = [
        folder(name, seed, [start + 0.01 * seed * n], f"data.clients={clients}")
        for clients in (10, 20) for n, (name, start) in enumerate((("fedavg", 0.5), ("ghbm", 0.6))) for seed in (0, 1)
    ]  # fmt: skip
    found = differences_table(summarise(runs))
    assert [line[:3] for line in found.lines] == [["ghbm", "clients=10", "fedavg"], ["ghbm", "clients=20", "fedavg"]]
