"""Labels differ between clients: what helps, and from which degree on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from driftless.papers.guide.measures import QUALITY, SELECTION, better_than_fedavg, score
from driftless.papers.guide.settings import CHOSEN, COMPARED, LABELS, label_cells, setup
from driftless.reproduce.checks import Check, above, below
from driftless.reproduce.experiment import Claim, Experiment
from driftless.reproduce.figure import curves
from driftless.reproduce.outcome import Outcome

FEW, SOME, IID = LABELS
SETUP = setup(label_cells(COMPARED, tuple(LABELS)))


def harder(outcome: Outcome) -> Iterator[Check]:
    yield above("FedAvg, IID against α=0.05", score(outcome, "FedAvg", labels=IID),
                score(outcome, "FedAvg", labels=FEW), 5, " %")  # fmt: skip


def little_to_gain(labels: str) -> Callable[[Outcome], Iterator[Check]]:
    def checks(outcome: Outcome) -> Iterator[Check]:
        for name in COMPARED:
            if name != "FedAvg":
                ours, fedavg = score(outcome, name, labels=labels), score(outcome, "FedAvg", labels=labels)
                yield below(f"{name} against FedAvg", ours, fedavg, -1, " %")

    return checks


LABELS_STUDY = Experiment(
    name="labels",
    title="Labels differ between clients",
    where="Study 1",
    about=f"{CHOSEN} 100 clients of 12 examples, 10 of them a round, 40 rounds. Labels are dealt by a Dirichlet "
    "distribution: with α = 0.05 a client has two or three labels, with α = 0.5 about five, IID means all alike.",
    paper=SETUP,
    small=SETUP,
    measure=QUALITY,
    selection=SELECTION,
    figure=lambda outcome: curves(outcome, "test_accuracy", by="labels"),
    ours=True,
    claims=(
        Claim(
            "harder",
            "The fewer labels a client has, the less accurate FedAvg is after the same rounds.",
            "FedAvg's accuracy with IID clients exceeds that with α=0.05 by more than 5 points.",
            harder,
        ),
        *(
            better_than_fedavg(name, "Where clients have two or three labels", {"labels": FEW})
            for name in COMPARED
            if name != "FedAvg"
        ),
        Claim(
            "some-labels",
            "Where clients have about five of ten labels, there is little to gain over FedAvg.",
            "With α=0.5, the accuracy of each other algorithm exceeds FedAvg's by less than 1 point.",
            little_to_gain(SOME),
        ),
        Claim(
            "iid",
            "Where clients are alike, there is little to gain over FedAvg.",
            "With IID clients, the accuracy of each other algorithm exceeds FedAvg's by less than 1 point.",
            little_to_gain(IID),
        ),
    ),
)
