from __future__ import annotations

from driftless.report.curves import group
from driftless.report.overview import facts, findings, title_of
from driftless.report.summary import summarise
from report.runs import Folder


def test_the_title_names_up_to_three_algorithms(folder: Folder):
    names = ("fedavg", "scaffold", "ghbm", "adabest")
    runs = [folder(name, 0, [0.1]) for name in names]
    assert title_of(group(runs[:1])) == "fedavg on digits"
    assert title_of(group(runs[:3])) == "fedavg, scaffold and ghbm on digits"
    assert title_of(group(runs)) == "4 algorithms on digits"


def test_the_facts_say_what_was_run_and_what_differs(folder: Folder):
    common = ("data.partition=dirichlet", "data.alpha=0.3", "run.cohort=0.1", "local.epochs=5", "local.batch_size=10")
    runs = [folder("fedavg", s, [0.1], *common) for s in (0, 1, 2)] + [
        folder("ghbm", 0, [0.1], *common, "local.lr=0.3")
    ]
    found = dict(facts(group(runs), clients=100))
    assert found["Data"] == "digits, 100 clients"
    assert found["Partition"] == "dirichlet, alpha = 0.3"
    assert found["Cohort"] == "0.1 of the clients a round"
    assert found["Local training"] == "lr differs, 5 epochs, batches of 10"
    assert found["Seeds"] == "differs"
    assert found["Runs"] == "4"
    assert dict(facts(group(runs[:3])))["Local training"] == "lr 0.1, 5 epochs, batches of 10"
    assert dict(facts(group(runs[:3])))["Seeds"] == "0 to 2"
    falling = folder("fedavg", 0, [0.1], *common, "local.lr=[0.3,0.2,0.1]", "local.momentum=0.9")
    assert dict(facts(group([falling])))["Local training"] == "lr 0.3 to 0.1, 5 epochs, batches of 10, momentum 0.9"


def test_a_lead_that_is_larger_than_the_spread_is_called_one(folder: Folder):
    runs = [folder("fedavg", s, [0.5, 0.5 + s / 100]) for s in (0, 1)]
    runs += [folder("ghbm", s, [0.8, 0.8 + s / 50]) for s in (0, 1)]
    first, second = findings(summarise(runs))
    assert first == "ghbm ends with the highest test accuracy, 0.8100 ± 0.0141, before fedavg with 0.5050 ± 0.0071."
    assert second == "ghbm reaches 0.505 first, after 1.0 rounds: 0.50x the rounds and 0.50x the traffic of fedavg."


def test_a_small_lead_in_every_seed_is_called_one_though_the_seeds_differ_more(folder: Folder):
    runs = [folder("fedavg", s, [0.5 + s / 10]) for s in (0, 1, 2)]
    runs += [folder("ghbm", s, [0.51 + s / 10 + s / 1000]) for s in (0, 1, 2)]
    assert "0.6110 ± 0.1010, before fedavg with 0.6000 ± 0.1000" in findings(summarise(runs))[0]


def test_a_lead_whose_interval_holds_0_is_not_called_one(folder: Folder):
    runs = [folder("fedavg", s, [0.5 + s / 10]) for s in (0, 1)] + [folder("ghbm", s, [0.62]) for s in (0, 1)]
    found = findings(summarise(runs))[0]
    assert "the difference to fedavg (0.5500 ± 0.0707) is not distinguishable over the seeds" in found


def test_a_comparison_with_a_fedavg_that_misses_the_target_is_called_a_bound(folder: Folder):
    runs = [folder("fedavg", 0, [0.1] * 4), folder("ghbm", 0, [0.1, 0.8, 0.8, 0.8])]
    assert "after 2.0 rounds: at most 0.50x the rounds and 0.50x" in findings(summarise(runs, target=0.5))[1]


def test_a_lead_of_single_seeds_is_called_uncertain(folder: Folder):
    runs = [folder("fedavg", 0, [0.5, 0.6]), folder("ghbm", 0, [0.4, 0.5])]
    first, second = findings(summarise(runs))
    assert first.endswith("with one seed each the order is uncertain.")
    assert second == "No algorithm reaches 0.6 sooner than fedavg."


def test_one_curve_alone_has_no_findings(folder: Folder):
    assert findings(summarise([folder("fedavg", 0, [0.5])])) == []
