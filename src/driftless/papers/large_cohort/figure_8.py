"""Figures 8, 18 and 19: layer-wise adaptive servers, FedLARS and FedLamb."""

from __future__ import annotations

from collections.abc import Iterable

from driftless.papers.large_cohort.measures import ACCURACY, by_cohort, final_accuracy, tasks_of, train_and_test
from driftless.papers.large_cohort.settings import COMPARED, paper_setup, small_setup
from driftless.reproduce.experiment import Check, Claim, Experiment
from driftless.reproduce.outcome import Outcome


def at_largest(outcome: Outcome, data: str) -> dict[str, float]:
    names = outcome.places("algorithm", data=data)
    return {str(name): final_accuracy(by_cohort(outcome, data=data, algorithm=name)[-1]) for name in names}


def lamb_like_adam(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        found = at_largest(outcome, data)
        text = f"{data}, largest cohort: FedLamb {found['FedLamb']:.2f} %, FedAdam {found['FedAdam']:.2f} %"
        yield Check(text, bool(abs(found["FedLamb"] - found["FedAdam"]) <= 3))


LARS_FALLS_BEHIND = ("EMNIST", "Shakespeare", "Fashion-MNIST")


def lars_mixed(outcome: Outcome) -> Iterable[Check]:
    for data, _ in tasks_of(outcome):
        found = at_largest(outcome, data)
        lars = found.pop("FedLARS")
        behind = max(found.values()) - lars
        text = f"{data}, largest cohort: FedLARS {behind:+.2f} points behind the best other"
        if data in LARS_FALLS_BEHIND:
            yield Check(text, bool(behind > 2))
        elif data == "CIFAR-100":
            yield Check(text, bool(behind <= 2))


def not_universal(outcome: Outcome) -> Iterable[Check]:
    found = {data: at_largest(outcome, data) for data, _ in tasks_of(outcome)}
    best = {data: max(accuracies, key=accuracies.__getitem__) for data, accuracies in found.items()}
    text = ", ".join(f"{data} {name}" for data, name in best.items())
    yield Check(f"best with the largest cohort: {text}", not set(best.values()) <= {"FedLARS", "FedLamb"})


FIGURE_8 = Experiment(
    name="figure-8",
    title="Layer-wise adaptive servers: FedLARS and FedLamb",
    where="Figures 8 and 18-19, section 5.2 and B.2",
    about="Accuracy of five algorithms at the end, over the cohort size.",
    paper=paper_setup(*COMPARED),
    small=small_setup(*COMPARED),
    measure=ACCURACY,
    columns="cohort",
    claims=(
        Claim(
            "lamb-like-adam",
            "With large cohorts FedLamb is about as accurate as FedAdam.",
            "In each task the test accuracies with the largest cohort are within 3 points of each other.",
            lamb_like_adam,
        ),
        Claim(
            "lars-mixed",
            "FedLARS does well on CIFAR-100 but not on EMNIST and Shakespeare.",
            "With the largest cohort FedLARS is more than 2 points behind the best other algorithm on EMNIST and "
            "Shakespeare (small scale: Fashion-MNIST) and at most 2 points behind on CIFAR-100.",
            lars_mixed,
        ),
        Claim(
            "not-universal",
            "Layer-wise adaptive methods are not better everywhere.",
            "With the largest cohort neither FedLARS nor FedLamb is the best in at least one task.",
            not_universal,
        ),
    ),
    figure=train_and_test,
)  # fmt: skip
