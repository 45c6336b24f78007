"""What a run does, in words: every value that is in effect, whether it was given or not."""

from __future__ import annotations

from driftless.config.build import simulation_of
from driftless.config.describe import common_lines, describe, lines
from driftless.config.resolution import resolve


def described(*words: str) -> dict[str, str]:
    config = resolve(None, ["model=logistic", *words]).config
    return describe(config, simulation_of(config))


def test_the_effective_values_of_a_run_are_two_lines_and_what_it_needs_is_a_third():
    found = described(
        "algorithm=fedprox", "epochs=5", "batch_size=10", "lr=0.1", "clients=50", "partition=dirichlet",
        "data.alpha=0.1", "cohort=0.2", "rounds=60", "mu=0.5",
    )  # fmt: skip
    assert lines(found) == [
        "fedprox (mu=0.5, server_lr=1); 60 rounds; cohort 10 of 50; local: 5 epochs of batches of 10, lr 0.1",
        "digits: 50 clients, dirichlet (alpha=0.1, sigma=0.3, sizes=balanced); logistic, 650 parameters; "
        "weighted uniformly",
        found["memory"],
    ]
    assert found["memory"].startswith("up to ")


def test_values_that_nobody_gave_are_those_of_the_run():
    config = resolve(None, []).config
    simulation = simulation_of(config)
    found = describe(config, simulation)
    assert found["data"].startswith(f"digits: {simulation.federation.clients} clients, ")
    assert found["cohort"] == f"cohort {simulation.cohort.size(1, 100)} of {simulation.federation.clients}"
    assert found["model"] == f"mlp, {simulation.model.size:,} parameters"


def test_local_training_says_what_is_not_as_usual():
    words = ["lr=0.5", "lr_decay=0.5", "rounds=3", "weight_decay=0.01", "clip_norm=10", "batch_size=none"]
    assert described("steps=1", *words)["local"] == (
        "local: 1 step of the full local batch, lr 0.5 to 0.125, weight decay 0.01, clip norm 10"
    )


def test_faults_are_said_and_in_a_comparison_by_name():
    words = ["dropout=0.2", "dropout_spread=0.5", "deadline=50", "attack=sign-flip", "attackers=0.1"]
    faulty, plain = described(*words), described()
    assert faulty["faults"] == "faults: dropout 0.2 (spread=0.5), deadline 50, 10 attackers (sign-flip, scale 1)"
    assert "; cohort 10 of 100; faults: dropout 0.2" in lines(faulty)[0]
    assert "faults" not in plain
    found = common_lines({"fedavg": [plain], "lossy": [faulty]})
    assert f"no faults (fedavg); {faulty['faults']} (lossy)" in found
    assert described("availability=diurnal", "over_selection=1.3")["faults"] == (
        "faults: diurnal availability (day=24, mean=0.5, swing=0.8, zones=1), over-selection 1.3"
    )
    assert described("availability=client")["faults"] == "faults: availability by client (mean=0.5, spread=0.5)"


def test_data_that_come_as_clients_have_no_partition_and_held_out_clients_are_counted():
    config = resolve(None, ["data=linear-regression", "model=linear"]).config
    assert describe(config, simulation_of(config))["data"] == "linear-regression: 20 clients"
    found = described("clients=20", "validation=5", "partition=iid")
    assert (found["data"], found["cohort"]) == ("digits: 15 clients and 5 held out, iid", "cohort 10 of 15")


def test_of_several_runs_what_they_share_is_said_once_and_what_differs_by_name():
    fixed = ["epochs=1", "batch_size=none", "clients=20", "partition=iid"]
    found = {
        "fedavg": described("lr=0.1", *fixed),
        "slow": described("lr=0.01", *fixed),
        "adabest": described("algorithm=adabest", "lr=0.1", *fixed),
    }
    by_name = {name: [each] for name, each in found.items()}
    assert common_lines(by_name) == [
        "100 rounds; cohort 10 of 20",
        "digits: 20 clients, iid; logistic, 650 parameters",
        f"fedavg (server_lr=1) (fedavg, slow); {found['adabest']['algorithm']}",
        "local: 1 epoch of the full local batch, lr 0.1 (fedavg, adabest); "
        "local: 1 epoch of the full local batch, lr 0.01 (slow)",
        "weighted by examples (fedavg, slow); weighted uniformly (adabest)",
        f"{found['fedavg']['memory']} (fedavg, slow); {found['adabest']['memory']} (adabest)",
    ]
    assert common_lines({"fedavg": [found["fedavg"]]}) == lines(found["fedavg"])
    assert common_lines({"fedavg": [found["fedavg"], found["slow"]]}) == [
        "fedavg (server_lr=1); 100 rounds; cohort 10 of 20",
        "digits: 20 clients, iid; logistic, 650 parameters; weighted by examples",
        found["fedavg"]["memory"],
    ]
