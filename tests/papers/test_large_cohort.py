"""The large-cohort paper: its numbers, its settings, and the judging of hand-made outcomes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftless.config.resolution import combine, to_toml
from driftless.papers.large_cohort import LARGE_COHORT, figures_25_28
from driftless.papers.large_cohort.figure_1 import spike
from driftless.papers.large_cohort.figure_5 import fewer_rounds
from driftless.papers.large_cohort.measures import FAILURES, failed
from driftless.papers.large_cohort.settings import SMALL_TASKS, TASKS
from driftless.report.curves import Run
from driftless.reproduce.experiment import Cell, Number, Setup
from driftless.reproduce.intervals import ERROR
from driftless.reproduce.judge import judge
from driftless.reproduce.outcome import Outcome, Result
from driftless.reproduce.runner import plan
from driftless.reproduce.verdicts import stored_result
from driftless.runs.directory import StoredRun
from driftless.runs.run import start

Rows = Sequence[Mapping[str, float]]
COUNTED = ("failure", "examples")
DOCS = Path(__file__).parents[2] / "docs" / "papers"
EXPERIMENTS = {one.name: one for one in LARGE_COHORT.experiments}


def cell(experiment: str, **at: Any) -> Cell:
    """The one cell at the paper's scale with these places."""
    found = [one for one in EXPERIMENTS[experiment].paper.cells if at.items() <= dict(one.at).items()]
    assert len(found) == 1
    return found[0]


def stored(folder: Path, rows: Rows, status: str = "finished") -> Run:
    """A run directory with these rows."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(to_toml(combine([("test", {"run.rounds": len(rows)})])), encoding="utf-8")
    lines = [json.dumps({"round": t, **row}) + "\n" for t, row in enumerate(rows, start=1)]
    (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "result.json").write_text(json.dumps({"status": status}), encoding="utf-8")
    return Run(StoredRun(folder))


def outcome(
    folder: Path, name: str, results: Sequence[tuple[Mapping[str, Any], Rows]], seeds: int = 7, noise: float = 1e-3
) -> Outcome:
    """An outcome of the experiment with hand-made runs for each place, which differ a little between the seeds."""
    rng = np.random.default_rng(0)

    def near(rows: Rows) -> Rows:
        return [{key: value if key in COUNTED else value * (1 + noise * rng.standard_normal())
                 for key, value in row.items()} for row in rows]  # fmt: skip

    made = [
        Result(Cell(at, {}), tuple(stored(folder / f"{i}-{seed}", near(rows)) for seed in range(seeds)))
        for i, (at, rows) in enumerate(results)
    ]
    return Outcome(EXPERIMENTS[name], Setup(), tuple(made))


def findings(experiment: str, claim: str, seen: Outcome) -> str:
    """S, R or U for each check: supported, refuted, undecided."""
    (chosen,) = [one for one in EXPERIMENTS[experiment].claims if one.name == claim]
    return "".join(check.finding(ERROR)[0].upper() for check in chosen.checks(seen))


def final(accuracy: float, **more: float) -> Rows:
    return [{"test_accuracy": accuracy, **more}]


# ---- The numbers of the paper ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "algorithm", "client", "server", "batch"),
    [
        ("CIFAR-100", "FedLamb", 0.01, 0.001, 20),
        ("EMNIST", "FedAdagrad", 0.001, 0.1, 20),
        ("EMNIST", "FedLARS", 0.1, 0.001, 20),
        ("Shakespeare", "FedAvgM", 1.0, 0.1, 4),
        ("Stack Overflow", "FedAdam", 10.0, 1.0, 32),
    ],
)
def test_learning_rates_and_batch_sizes_are_those_of_tables_2_4_and_5(data, algorithm, client, server, batch):
    settings = cell("figure-2", data=data, algorithm=algorithm, cohort=50).settings
    assert (settings["local.lr"], settings["algorithm.server_lr"]) == (client, server)
    assert settings["local.batch_size"] == batch
    assert settings["local.epochs"] == 1


def test_fedsgd_has_a_server_learning_rate_and_leaves_the_local_step_to_the_algorithm():
    settings = cell("figure-2", data="Stack Overflow", algorithm="FedSGD", cohort=800).settings
    assert settings["algorithm.server_lr"] == 10.0
    assert not {"local.lr", "local.epochs", "local.batch_size"} & set(settings)


@pytest.mark.parametrize(
    ("data", "percentile", "cohort", "mean", "std"),
    [
        ("CIFAR-100", 5, 50, 32.2, 1.1),
        ("CIFAR-100", 95, 400, 53.6, 1.5),
        ("EMNIST", 25, 800, 78.7, 0.3),
        ("EMNIST", 50, 10, 84.5, 0.5),
        ("Shakespeare", 5, 200, 37.8, 0.7),
        ("Stack Overflow", 75, 100, 29.0, 0.3),
    ],
)
def test_percentiles_are_those_of_tables_6_to_9(data, percentile, cohort, mean, std):
    assert cell("figure-4", data=data, percentile=percentile, cohort=cohort).published == Number(mean, std)


def test_rates_of_failure_are_those_of_the_text():
    assert cell("figure-1", data="EMNIST", clipping="none", cohort=10).published == Number(0)
    assert cell("figure-1", data="EMNIST", clipping="none", cohort=800).published == Number(80)
    assert cell("figure-1", data="EMNIST", clipping="adaptive", cohort=800).published == Number(0)
    assert [one.published for one in EXPERIMENTS["figure-37"].paper.cells] == [
        Number(rate) for rate in (0, 0, 20, 100, 100)
    ]


def test_every_run_of_the_paper_has_1500_rounds_five_trials_and_clipping_but_for_figure_1():
    for one in LARGE_COHORT.experiments:
        assert one.paper.seeds == 5
        for each in one.paper.cells:
            assert each.settings["run.rounds"] == 1500
            assert each.settings["server.clipping"] == each.at.get("clipping", "adaptive")


def test_the_search_at_the_papers_scale_covers_25_pairs():
    searched = EXPERIMENTS["tables-4-5"].paper.cells
    for name, pairs in (("FedAdam", 25), ("FedSGD", 5)):
        cells = [one for one in searched if one.at["data"] == "EMNIST" and one.at["algorithm"] == name]
        assert len(cells) == 5
        assert sum(len(one.candidates) for one in cells) == pairs


def test_a_growing_cohort_doubles_every_300_rounds_up_to_the_largest_fixed_one():
    assert cell("figure-9", data="EMNIST", algorithm="FedAvg", cohort="doubling").settings["run.cohort"] == (
        "doubling:50,300,800"
    )
    assert cell("figure-9", data="CIFAR-100", algorithm="FedAdam", cohort="doubling").settings["run.cohort"] == (
        "doubling:50,300,400"
    )


def test_scaled_rates_warm_up_over_100_rounds_from_cohorts_of_50():
    settings = cell("figure-7", data="Shakespeare", scaling="square root", cohort=400).settings
    assert settings["server.lr_scaling"] == "sqrt"
    assert (settings["server.reference_cohort"], settings["server.warmup_rounds"]) == (50, 100)


# ---- The settings ----------------------------------------------------------------------------------------------------


def test_figures_are_views_of_the_runs_of_figure_2(tmp_path):
    def folders(name: str) -> set[Path]:
        setup = EXPERIMENTS[name].small
        assert setup is not None
        return {one.folder for one in plan(setup.cells, tmp_path, range(1))}

    shared = folders("figure-2")
    for name in ("figure-3", "figure-4", "figure-5", "figure-6", "figure-8", "figures-20-24", "figures-25-28",
                 "figures-29-35", "figure-36"):  # fmt: skip
        assert folders(name) <= shared, name


def test_learning_rates_at_small_scale_are_those_that_the_search_found():
    record = stored_result(LARGE_COHORT, EXPERIMENTS["tables-4-5"], DOCS)
    assert record is not None
    for data, task in SMALL_TASKS.items():
        for name, rates in task.rates.items():
            tried = [one for one in record["cells"] if (one["at"]["data"], one["at"]["algorithm"]) == (data, name)]
            best = max(tried, key=lambda one: sum(one["each"][:3]))
            assert (best["chosen"].get("local.lr", rates[0]), best["at"]["server rate"]) == rates, f"{name} on {data}"


def test_the_cohort_of_reference_is_neither_the_smallest_nor_the_largest():
    for task in TASKS.values():
        assert task.reference in task.cohorts[1:-1]
        assert task.cohorts == tuple(sorted(task.cohorts))


# ---- Stragglers ------------------------------------------------------------------------------------------------------


def test_the_clock_for_another_straggler_parameter_is_the_one_a_run_would_have_recorded(tmp_path):
    common = {"model.name": "logistic", "data.clients": 12, "run.rounds": 3, "run.cohort": 4, "run.checkpoint_every": 0,
              "engine.kind": "single"}  # fmt: skip
    runs = {}
    for lambda_ in (0.1, 100.0):
        folder = tmp_path / f"{lambda_}"
        start(combine([("test", {**common, "run.straggler_lambda": lambda_})]), folder, [])
        runs[lambda_] = Run(StoredRun(folder))
    for one in runs.values():
        for lambda_, other in runs.items():
            recorded = np.cumsum(other.column("simulated_time"))
            np.testing.assert_allclose(figures_25_28.elapsed(one, lambda_), recorded)


def clock(monkeypatch: pytest.MonkeyPatch, seconds: Mapping[str, float]) -> None:
    """Rounds of a fixed length for each run."""
    monkeypatch.setattr(figures_25_28, "elapsed", lambda run, lambda_: seconds[run.stored.path.name] * run.rounds)


def test_relative_time_is_counted_to_a_part_of_what_the_smallest_cohort_attains(tmp_path, monkeypatch):
    slow = [{"test_accuracy": value} for value in (0.2, 0.4, 0.6, 0.8, 1.0)]
    fast = [{"test_accuracy": value} for value in (0.8, 1.0, 1.0, 1.0, 1.0)]
    at = {"data": "Sent140", "algorithm": "FedAvg", "λ": 1.0}
    seen = outcome(tmp_path, "figures-25-28", [({**at, "cohort": 5}, slow), ({**at, "cohort": 320}, fast)], 1, 0.0)
    clock(monkeypatch, {"0-0": 1.0, "1-0": 3.0})
    assert figures_25_28.relative_time(seen, "Sent140", 0.8, 1.0) == pytest.approx([3 / 4])
    assert figures_25_28.relative_time(seen, "Sent140", 0.95, 1.0) == pytest.approx([6 / 5])


def test_an_accuracy_that_is_never_reached_takes_for_ever(tmp_path, monkeypatch):
    at = {"data": "Sent140", "algorithm": "FedAvg", "λ": 1.0, "cohort": 5}
    seen = outcome(tmp_path, "figures-25-28", [(at, final(0.5))], 1, 0.0)
    clock(monkeypatch, {"0-0": 1.0})
    assert figures_25_28.time_to(seen.results[0], 0.5, 1.0) == 1
    assert figures_25_28.time_to(seen.results[0], 0.6, 1.0) == math.inf


# ---- Judging ---------------------------------------------------------------------------------------------------------


def test_a_run_has_failed_when_its_accuracy_was_halved_or_it_diverged(tmp_path):
    well = stored(tmp_path / "well", [{"failure": 0}, {"failure": 0}])
    halved = stored(tmp_path / "halved", [{"failure": 0}, {"failure": 1}, {"failure": 0}])
    lost = stored(tmp_path / "lost", [{"failure": 0}], status="diverged")
    assert [failed(run) for run in (well, halved, lost)] == [False, True, True]
    assert FAILURES(Result(Cell({}, {}), (well, halved, lost, well))).tolist() == [0, 100, 100, 0]


def test_a_spike_is_measured_in_medians_before_the_failure(tmp_path):
    rows = [{"norm_update": value, "failure": 0} for value in (1.0, 2.0, 3.0, 8.0)]
    assert spike(stored(tmp_path / "a", [*rows, {"norm_update": 5.0, "failure": 1}])) == 4
    assert math.isnan(spike(stored(tmp_path / "b", rows)))


def norms(folder: Path, name: str, values: Mapping[tuple[str, int], float]) -> Outcome:
    places = [({"data": "Sent140", "algorithm": a, "cohort": m}, [{"norm_update": v}]) for (a, m), v in values.items()]
    return outcome(folder, name, places)


def test_the_inverse_root_rule_accepts_a_quarter_off_and_no_more(tmp_path):
    values = {("FedAvg", 20): 1.0, ("FedAvg", 80): 0.6, ("FedAvg", 320): 0.4, ("FedAvg", 5): 3.0}
    seen = norms(tmp_path, "figure-6", values)
    assert findings("figure-6", "inverse-root", seen) == "SSSR"  # from below and above, for each cohort


def test_fedsgd_is_compared_with_each_algorithm_from_the_reference_on(tmp_path):
    values = {("FedSGD", 20): 1.0, ("FedSGD", 320): 0.8, ("FedAvg", 20): 1.0, ("FedAvg", 320): 0.2,
              ("FedAdam", 20): 1.0, ("FedAdam", 320): 0.9}  # fmt: skip
    seen = norms(tmp_path, "figures-29-35", values)
    assert findings("figures-29-35", "fedsgd-overlaps", seen) == "SR"


def test_percentiles_may_move_against_the_median_by_a_point(tmp_path):
    moves = {5: -0.005, 25: 0.03, 50: 0.02, 75: 0.01, 95: -0.02}
    places = [
        ({"data": "Fashion-MNIST", "percentile": p, "cohort": cohort}, [{f"test_p{p}": 0.5 + change}])
        for p, move in moves.items()
        for cohort, change in ((5, 0.0), (20, 0.0), (320, move))
    ]
    seen = outcome(tmp_path, "figure-4", places)
    assert findings("figure-4", "alike", seen)[4:] == "SSSR"


def test_generalisation_fails_only_where_training_does_not(tmp_path):
    at = {"data": "Sent140", "algorithm": "FedAdam"}
    seen = outcome(
        tmp_path,
        "figure-3",
        [
            ({**at, "cohort": 20}, final(0.7, cohort_accuracy=0.9)),
            ({**at, "cohort": 320}, final(0.6, cohort_accuracy=0.8)),
        ],
    )
    assert findings("figure-3", "worse-with-few-clients", seen) == "RS"


def test_returns_diminish_when_the_first_gain_is_the_larger(tmp_path):
    at = {"data": "Sent140", "algorithm": "FedAvg"}
    cohorts = {5: 0.5, 20: 0.7, 80: 0.71, 320: 0.75}
    seen = outcome(tmp_path, "figure-2", [({**at, "cohort": m}, final(value)) for m, value in cohorts.items()])
    assert findings("figure-2", "diminishing", seen) == "S"
    assert list(fewer_rounds(seen)) == []


def test_a_cohort_that_never_gets_there_needs_all_rounds(tmp_path):
    at = {"data": "Sent140", "algorithm": "FedAdam"}
    never, late, early = [0.1] * 4, [0.1, 0.1, 0.1, 0.9], [0.9] * 4
    rows = {5: never, 20: late, 80: early}
    seen = outcome(tmp_path, "figure-5", [
        ({**at, "cohort": m}, [{"test_accuracy": v, "examples": m} for v in values]) for m, values in rows.items()
    ])  # fmt: skip
    assert findings("figure-5", "fewer-rounds", seen) == "US"  # "never" counts as the last round, as does "late"
    assert findings("figure-5", "more-examples", seen) == "SU"


def test_the_grid_of_steps_is_judged_by_rows_and_columns(tmp_path):
    accuracy = {(16, 1): 0.5, (16, 4): 0.8, (16, 16): 0.2, (64, 1): 0.6, (64, 4): 0.9, (64, 16): 0.75}
    seen = outcome(tmp_path, "figure-42", [({"cohort": c, "steps": s}, final(v)) for (c, s), v in accuracy.items()])
    assert findings("figure-42", "steps-accelerate", seen) == "UU"  # one evaluation: all need one round
    assert findings("figure-42", "too-many-steps", seen) == "SS"
    assert findings("figure-42", "all-cohorts", seen) == "SSR"
    assert findings("figure-42", "steps-over-cohort", seen) == "S"


def test_linear_scaling_must_spare_the_reference_and_ruin_the_largest_cohort(tmp_path):
    at = {"data": "Sent140", "algorithm": "FedAvg", "scaling": "linear"}
    rows = {20: [{"failure": 0}], 80: [{"failure": 0}], 320: [{"failure": 1}]}
    results = [({**at, "cohort": m}, r) for m, r in rows.items()]
    assert findings("figure-37", "fails", outcome(tmp_path / "a", "figure-37", results)) == "SS"
    assert findings("figure-37", "fails", outcome(tmp_path / "b", "figure-37", results, seeds=3)) == "UU"
    spared = [(place, [{"failure": 0}]) for place, _ in results]
    assert findings("figure-37", "fails", outcome(tmp_path / "c", "figure-37", spared)) == "SR"


def test_failures_are_compared_between_cohorts_and_clipping_is_judged_over_all_runs(tmp_path):
    at = {"data": "Fashion-MNIST", "algorithm": "FedAvg", "rate": 0.3}
    results = [
        ({**at, "clipping": clipping, "cohort": cohort}, [{"failure": int(clipping == "none" and cohort == 320)}])
        for clipping in ("none", "adaptive")
        for cohort in (20, 80, 320)
    ]
    seen = outcome(tmp_path, "figure-1", results)
    assert findings("figure-1", "more-with-cohort", seen) == "S"
    claim = next(one for one in EXPERIMENTS["figure-1"].claims if one.name == "clipping")
    assert judge(claim, seen, "small").verdict == "undecided"  # 0 of 21 may still be a tenth
    more = outcome(tmp_path / "more", "figure-1", results, seeds=13)
    assert judge(claim, more, "small").verdict == "supported"
