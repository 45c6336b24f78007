"""From facts to three candidates. Nothing is trained."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from driftless.algorithms import ALGORITHMS
from driftless.cost import Cost, measure
from driftless.cost.table import short
from driftless.data.cohorts import Cohort
from driftless.data.federation import Federation
from driftless.errors import InputError, check_range, check_type
from driftless.models import build
from driftless.suggest.advice import Advice, Sentence, Situation, advice
from driftless.suggest.facts import Facts, facts_of

CANDIDATES = 3
FALLBACK = ("fedavg", "fedavgm", "fedadam", "fedprox", "ghbm")
"""Where too few have been measured: no state on clients, one vector up."""
BASELINE = "fedavg"
SITUATION_TEXT: Mapping[Situation, str] = {
    "private": "uploads are clipped and noised",
    "alike": "clients have much the same labels",
    "seldom": "a client seldom takes part twice",
    "few labels": "clients have few of the labels, and return",
    "any": "the targets are no labels, so that nothing is known of how clients differ",
}
UNITS = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}


@dataclass(frozen=True)
class Limits:
    """What candidates must not exceed."""

    client_state: bool = True
    """Whether clients can keep vectors between rounds."""
    upload: float | None = None
    """Vectors of the model's size that a client may send in a round."""
    upload_bytes: float | None = None
    private: bool = False
    """It must work with DifferentialPrivacy."""


@dataclass(frozen=True)
class Candidate:
    """An algorithm to try.

    Attributes:
        name: Its name in commands.
        gain: Measured points of accuracy over FedAvg in a setting like this one; None: not measured or not decided.
        why: What speaks for it.
        against: What speaks against it.
        space: The settings to search first.
        cost: What it sends, keeps and computes, for this model.
        command: A search of its settings.

    Examples:
        >>> import driftless
        >>> from driftless.suggest import suggest
        >>> federation = driftless.load("digits", clients=100, partition="iid", seed=0)
        >>> first = suggest(federation, rounds=60, cohort=10).candidates[0]
        >>> first.name, first.cost.vectors.up
        ('fedavg', 1)
    """

    name: str
    gain: float | None
    why: tuple[Sentence, ...]
    against: tuple[Sentence, ...]
    space: Mapping[str, Sequence[float]]
    cost: Cost
    command: str


@dataclass(frozen=True)
class Suggestion:
    """Three algorithms to try first; prints as a text of 80 columns.

    Attributes:
        facts: What is seen of the federation.
        situation: Which of the situations that were studied it is like.
        candidates: The best first.
        notes: What else should be considered.
        next: The command that compares the candidates with FedAvg.

    Examples:
        >>> import driftless
        >>> from driftless.suggest import suggest
        >>> federation = driftless.load("digits", clients=100, partition="iid", seed=0)
        >>> suggest(federation, rounds=60, cohort=10).situation
        'alike'
    """

    facts: Facts
    situation: Situation
    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]
    next: str

    def __str__(self) -> str:
        from driftless.suggest.text import as_text

        return as_text(self)

    def as_json(self) -> dict[str, Any]:
        """Plain values, as `driftless suggest --json` prints them."""
        return {
            "facts": self.facts.as_json(),
            "situation": self.situation,
            "candidates": [candidate_json(one) for one in self.candidates],
            "notes": list(self.notes),
            "next": self.next,
        }


def suggest(
    federation: Federation,
    model: str | nn.Module = "mlp",
    *,
    rounds: int = 100,
    cohort: Cohort = 10,
    client_state: bool = True,
    upload: float | None = None,
    upload_bytes: float | str | None = None,
    private: bool = False,
    words: Sequence[str] = (),
) -> Suggestion:
    """Three algorithms to try first on a federation, with what speaks for and against each, and what each costs.

    Args:
        federation: its clients, sizes and labels are looked at; nothing is trained.
        model: a name or a module; costs are derived for it.
        rounds: of the run that is planned.
        cohort: clients of a round, as for `simulate`.
        client_state: False if clients cannot keep vectors between rounds.
        upload: vectors of the model's size that a client may send in a round, such as 1.
        upload_bytes: the same in bytes, such as 5e6 or "5MB".
        private: whether it must work with differential privacy of clients.
        words: the settings of the run as on the command line, for the commands that are printed.

    Returns:
        A `Suggestion`: print it, or read `candidates`.

    Examples:
        >>> import driftless
        >>> from driftless.suggest import suggest
        >>> federation = driftless.load("digits", clients=100, partition="iid", seed=0)
        >>> suggest(federation, rounds=60, cohort=10).candidates[0].name
        'fedavg'
    """
    check_type("federation", federation, Federation, "a driftless.Federation", "make one with driftless.load")
    if upload is not None:
        check_range("upload", upload, 0, float("inf"), low_open=True)
    limits = Limits(client_state, upload, as_bytes(upload_bytes), private)
    facts = facts_of(federation, cohort, rounds)
    situation = situation_of(facts, private)
    module = as_module(model, federation)
    costs = {name: measure(cls(), module, name=name) for name, cls in ALGORITHMS.items()}
    allowed = [name for name in ALGORITHMS if is_allowed(name, costs[name], limits)]
    if not allowed:
        least = min(costs.values(), key=lambda cost: cost.bytes.up)
        raise InputError(
            f"no algorithm uploads so little: {least.algorithm} sends the least, {least.vectors.up} vector or "
            f"{short(least.bytes.up)}B a client and round; raise the limit, or choose a smaller model."
        )
    names = ranked(allowed, situation)[:CANDIDATES]
    found = tuple(candidate(advice(name), situation, costs[name], words) for name in names)
    compared = [BASELINE, *(name for name in names if name != BASELINE)]
    return Suggestion(facts, situation, found, tuple(notes(facts, situation, limits)),
                      command("compare", [*compared, *words, "seeds=5"]))  # fmt: skip


def as_module(model: str | nn.Module, federation: Federation) -> nn.Module:
    if isinstance(model, nn.Module):
        return model
    return build(model, federation.input_shape, federation.classes, target_shape=federation.target_shape)


def as_bytes(given: float | str | None) -> float | None:
    """5e6 or "5MB"."""
    if not isinstance(given, str):
        return given
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMG]?B)\s*", given)
    if not found:
        raise InputError(f"the limit of the upload is '{given}'; give bytes such as 500kB or 5MB.")
    return float(found[1]) * UNITS[found[2].upper()]


def situation_of(facts: Facts, private: bool) -> Situation:
    """The studied setting that is most like what is seen."""
    if private:
        return "private"
    if facts.labels == "alike":
        return "alike"
    if facts.seldom:
        return "seldom"
    return {"few": "few labels", "some": "alike", "unknown": "any"}[facts.labels]  # pyright: ignore


def is_allowed(name: str, cost: Cost, limits: Limits) -> bool:
    return (
        (limits.client_state or cost.vectors.client == 0)
        and (limits.upload is None or cost.vectors.up <= limits.upload)
        and (limits.upload_bytes is None or cost.bytes.up <= limits.upload_bytes)
        and not (limits.private and ALGORITHMS[name].full_gradient == "before")  # an exchange without noise
    )


def ranked(names: Sequence[str], situation: Situation) -> list[str]:
    """By the measured gain over FedAvg, whose own is 0; then those that are simple. What was measured to be worse than
    FedAvg is no candidate."""
    gains = {name: gain for name in names if (gain := advice(name).gain(situation)) is not None}
    if BASELINE in names:
        gains[BASELINE] = 0.0
    measured = sorted((name for name in gains if gains[name] >= 0), key=lambda name: -gains[name])
    return [*measured, *(name for name in FALLBACK if name in names and name not in gains)]


def candidate(known: Advice, situation: Situation, cost: Cost, words: Sequence[str]) -> Candidate:
    why, against = known.about(situation)
    gain = 0.0 if known.name == BASELINE else known.gain(situation)
    space = [f"space.{key}=[{','.join(f'{value:g}' for value in values)}]" for key, values in known.space.items()]
    grid = ["sampler=grid", *space] if space else ["trials=20"]
    searching = command("tune", [f"algorithm={known.name}", *words, *grid])
    return Candidate(known.name, gain, tuple(why), tuple(against), known.space, cost, searching)


def command(name: str, words: Sequence[str]) -> str:
    return shlex.join(["driftless", name, *words])


def notes(facts: Facts, situation: Situation, limits: Limits) -> list[str]:
    found: list[str] = []
    if facts.unequal:
        found.append(
            "Sizes differ much: compare server.weighting=examples with server.weighting=uniform for each algorithm "
            "(guide/sizes has both)."
        )
    if facts.labels == "unknown" and situation == "any":
        found.append("No study here has targets that are no labels: take the candidates as a start, not as advice.")
    if limits.private:
        found.append("cohort=poisson:Q needs much less noise for the same epsilon than a fixed number of clients.")
    return found


def candidate_json(one: Candidate) -> dict[str, Any]:
    return {
        "algorithm": one.name,
        "gain": one.gain,
        "why": [sentence_json(each) for each in one.why],
        "against": [sentence_json(each) for each in one.against],
        "space": {key: list(values) for key, values in one.space.items()},
        "vectors": {**one.cost.vectors._asdict()},
        "bytes": {**one.cost.bytes._asdict()},
        "command": one.command,
    }


def sentence_json(one: Sentence) -> dict[str, Any]:
    return {"text": one.text, "evidence": one.evidence, "verdict": one.verdict or None}
