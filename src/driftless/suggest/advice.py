"""What is known of each algorithm: advice.toml, and the published verdicts that it rests on."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from driftless.algorithms import ALGORITHMS
from driftless.errors import unknown
from driftless.papers import GUIDE_VERDICTS_FILE, VERDICTS_FILE
from driftless.reproduce.verdicts import Verdicts, read_summary

FILE = Path(__file__).with_name("advice.toml")
Situation = Literal["few labels", "alike", "seldom", "private", "any"]
SITUATIONS: tuple[Situation, ...] = ("few labels", "alike", "seldom", "private", "any")
BY_CONSTRUCTION = "by construction"
NOT_TESTED = "the paper claims it, not tested here"


@dataclass(frozen=True)
class Sentence:
    """One thing that speaks for or against an algorithm.

    Attributes:
        text: What speaks for it, or against it.
        evidence: "collection/experiment/claim" of a published result, "by construction" or "the paper claims ...".
        verdict: The published verdict that the text relies on; empty without an experiment.
        when: The situation that it is about; empty: any.
        gain: Points of accuracy over FedAvg that were measured in the situation: candidates are sorted by it.

    Examples:
        >>> from driftless.suggest import advice
        >>> print(advice("fedavg").helps[0])
        Nothing but a learning rate to tune; one vector each way, no state. (by construction)
    """

    text: str
    evidence: str
    verdict: str = ""
    when: str = ""
    gain: float | None = None

    @property
    def source(self) -> str:
        """The evidence, with its verdict."""
        return f"{self.evidence}: {self.verdict}" if self.verdict else self.evidence

    def __str__(self) -> str:
        return f"{self.text} ({self.source})"


@dataclass(frozen=True)
class Advice:
    """What speaks for an algorithm and what against it.

    Attributes:
        name: Of the algorithm.
        helps: What speaks for it.
        hurts: What speaks against it.
        space: What to search first; empty: what `driftless tune` searches by default.

    Examples:
        >>> from driftless.suggest import advice
        >>> advice("scaffold").gain("few labels") > 0
        True
    """

    name: str
    helps: tuple[Sentence, ...] = ()
    hurts: tuple[Sentence, ...] = ()
    space: Mapping[str, list[float]] = field(default_factory=dict)

    def gain(self, situation: Situation) -> float | None:
        """Points over FedAvg; None where no experiment has decided it.

        Args:
            situation: "few labels", "alike", "seldom", "private" or "any".
        """
        return next((one.gain for one in (*self.helps, *self.hurts) if one.when == situation and one.gain is not None),
                    None)  # fmt: skip

    def about(self, situation: Situation) -> tuple[list[Sentence], list[Sentence]]:
        """What speaks for it and against it there; first what is about this situation.

        Args:
            situation: "few labels", "alike", "seldom", "private" or "any".
        """
        return tuple(
            sorted((one for one in side if one.when in ("", situation)), key=lambda one: one.when == "")
            for side in (self.helps, self.hurts)
        )  # pyright: ignore[reportReturnType]


@cache
def stored() -> Mapping[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def advice(name: str) -> Advice:
    """What is known of an algorithm.

    Args:
        name: Of `driftless list algorithms`.

    Returns:
        What speaks for it and against it, with the evidence.

    Raises:
        InputError: There is no algorithm of this name.

    Examples:
        >>> from driftless.suggest import advice
        >>> advice("adabest").name
        'adabest'
    """
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    entry = stored()[name]
    helps, hurts = (tuple(Sentence(**one) for one in entry.get(side, ())) for side in ("helps", "hurts"))
    return Advice(name, helps, hurts, entry.get("space", {}))


def published_verdicts() -> Verdicts:
    """Of the papers' experiments and of our own studies."""
    return {**read_summary(VERDICTS_FILE), **read_summary(GUIDE_VERDICTS_FILE)}


def published_verdict(evidence: str) -> str | None:
    """Of "collection/experiment/claim"; None if nothing is published under this name."""
    collection, experiment, claim = evidence.split("/")
    found = published_verdicts().get(collection, {}).get(experiment)
    return found["claims"][claim]["verdict"] if found and claim in found["claims"] else None
