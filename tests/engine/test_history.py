from __future__ import annotations

import pytest

from driftless import Event, History
from engine.problems import linear, regression, run


def example() -> History:
    history = History()
    history.append({"round": 1, "train_loss": 0.5})
    history.append({"round": 2, "train_loss": 0.25, "test_loss": 1.0})
    history.append({"round": 3, "train_loss": 0.125})
    return history


def test_columns_are_read_by_name_and_rows_by_number():
    history = example()
    assert history["train_loss"] == [0.5, 0.25, 0.125]
    assert history["test_loss"] == [1.0]
    assert history[0] == {"round": 1, "train_loss": 0.5}
    assert history[-1] == {"round": 3, "train_loss": 0.125}
    assert history.columns == ["round", "train_loss", "test_loss"]
    assert len(history) == 3
    assert [row["round"] for row in history] == [1, 2, 3]


def test_last_is_the_newest_value_of_a_column():
    assert example().last("test_loss") == 1.0
    assert example().last("train_loss") == 0.125
    assert example().last("accuracy") is None
    assert History().last("round") is None


def test_an_unknown_column_names_those_that_exist():
    with pytest.raises(KeyError, match=r"'accuracy'.*round, train_loss, test_loss"):
        example()["accuracy"]


def test_a_row_that_was_appended_is_the_tables_own():
    row = {"round": 1}
    history = History()
    history.append(row)
    row["round"] = 9
    assert history["round"] == [1]


def test_the_text_is_a_table_with_blanks():
    lines = str(example()).splitlines()
    assert [line.split() for line in lines] == [
        ["round", "train_loss", "test_loss"],
        ["1", "0.5"],
        ["2", "0.25", "1"],
        ["3", "0.125"],
    ]
    assert len({len(line) for line in lines}) == 1
    assert lines[2].endswith("1")
    assert repr(example()) == "History(3 rounds; columns round, train_loss, test_loss)"
    assert str(History()) == ""


def test_a_run_leaves_a_row_a_round_and_no_events():
    result, records = run("fedavg", regression([3, 4]), linear(), rounds=4)
    assert result.history["round"] == [1, 2, 3, 4]
    assert [dict(record.metrics) for record in records] == list(result.history)
    assert {"lr", "cohort", "skipped", "train_loss", "test_loss", "bytes_up", "seconds"} <= set(result.history.columns)
    assert all(seconds > 0 for seconds in result.history["seconds"])
    assert result.events == []


def test_an_event_without_clients_concerns_the_whole_round():
    assert Event(3, "lost").clients == ()
