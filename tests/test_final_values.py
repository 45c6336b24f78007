"""The short table of a run: what `print(result)` and the end of `driftless run` show."""

from __future__ import annotations

from driftless import LocalTraining, load, simulate
from driftless.final_values import WIDTH, final_text

ROWS = [
    {"round": 1, "train_loss": 2.3, "test_loss": 2.0, "test_accuracy": 0.5, "norm_x": 8.0, "bytes_up": 5e5,
     "bytes_down": 5e5, "seconds": 1.0, "test_p5": 0.1, "test_f1": 0.4, "test_f1_p5": 0.1,
     "test_mine": 7.0, "evaluation_seconds": 0.2},
    {"round": 2, "train_loss": 2.5, "norm_x": 9.0, "bytes_up": 5e5, "bytes_down": 5e5, "seconds": 0.5},
]  # fmt: skip


def test_the_table_has_the_last_and_the_best_value_of_everything_that_was_measured():
    assert final_text("adabest", ROWS, ["round 0: a notice"]).splitlines() == [
        "adabest: 2 rounds in 1.5 s, evaluated in 0.2 s, 2.0 MB sent, norm of the model 9",
        "               final  best",
        "train loss       2.5   2.3",
        "test loss          2     2",
        "test accuracy    0.5   0.5",
        "test f1          0.4   0.4",
        "test mine          7",
        "round 0: a notice",
    ]


def test_a_run_that_measured_nothing_has_a_heading_only():
    assert final_text("fedavg", []) == "fedavg: 0 rounds in 0.0 s, evaluated in 0.0 s, 0.0 MB sent"


def test_a_table_fits_eighty_columns_whatever_the_values():
    row = {f"test_{'long_' * 9}{i}": 1.2345678e-300 * 10**i for i in range(9)}
    assert all(len(line) <= WIDTH for line in final_text("fedavg", [{"round": 1, **row}]).splitlines())


def test_a_result_prints_as_that_table_and_has_a_short_repr():
    federation = load("digits", clients=10)
    result = simulate(
        "scaffold", federation, "logistic", rounds=2, cohort=2, local=LocalTraining(lr=0.1, epochs=1, batch_size=None)
    )
    assert str(result) == final_text("scaffold", list(result.history))
    assert repr(result).startswith("Result(scaffold: 2 rounds in ")
    assert "\n" not in repr(result)
    assert len(repr(result)) <= 120
    assert "<pre>scaffold: 2 rounds" in result._repr_html_()
