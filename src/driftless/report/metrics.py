"""The metrics and axes of tables and figures: names, units, and which direction is better."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from driftless.engine.metrics import METRICS as NAMED

Better = Literal["high", "low"]


class Metric(NamedTuple):
    key: str
    """In metrics.jsonl."""
    name: str
    group: str = "Other"
    unit: str = ""
    scale: float = 1.0
    """Multiplies the stored value to give the unit."""
    better: Better | None = None

    @property
    def title(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


class Axis(NamedTuple):
    """A horizontal axis: the round itself, or what the rounds so far have cost together."""

    key: str
    name: str
    short: str
    """Used in "MB to 0.9"."""
    sums: tuple[str, ...] = ()
    """The metrics that are added up; none: the round."""
    scale: float = 1.0


def percentile(p: int) -> str:
    return "median" if p == 50 else f"{p}th percentile"


QUALITY, UPDATES, COST = "Quality", "Model and updates", "Cost of a round"

_METRICS = (
    Metric("test_accuracy", "test accuracy", QUALITY, better="high"),
    Metric("test_loss", "test loss", QUALITY, better="low"),
    Metric("train_accuracy", "training accuracy", QUALITY, better="high"),
    Metric("train_loss", "training loss", QUALITY, better="low"),
    Metric("cohort_accuracy", "accuracy of the sent model on the cohort", QUALITY, better="high"),
    Metric("cohort_loss", "loss of the sent model on the cohort", QUALITY, better="low"),
    Metric("validation_accuracy", "accuracy on held-out clients", QUALITY, better="high"),
    Metric("validation_loss", "loss on held-out clients", QUALITY, better="low"),
    Metric("test_p5", "test accuracy, 5th percentile of clients", QUALITY, better="high"),
    Metric("test_p25", "test accuracy, 25th percentile of clients", QUALITY, better="high"),
    Metric("test_p50", "test accuracy, median of clients", QUALITY, better="high"),
    Metric("test_p75", "test accuracy, 75th percentile of clients", QUALITY, better="high"),
    Metric("test_p95", "test accuracy, 95th percentile of clients", QUALITY, better="high"),
    Metric("client_accuracy", "accuracy, mean over clients", QUALITY, better="high"),
    Metric("personal_accuracy", "accuracy after local steps, mean over clients", QUALITY, better="high"),
    *(Metric(f"personal_p{p}", f"after local steps, {percentile(p)} of clients", QUALITY) for p in (5, 25, 50, 75, 95)),
    Metric("client_loss", "loss, mean over clients", QUALITY, better="low"),
    Metric("personal_loss", "loss after local steps, mean over clients", QUALITY, better="low"),
    Metric("failure", "catastrophic failures", QUALITY, better="low"),
    Metric("norm_x", "norm of the model", UPDATES),
    Metric("norm_update", "norm of the mean update", UPDATES),
    Metric("norm_h", "norm of the bias estimate h", UPDATES),
    Metric("norm_c", "norm of the control variate c", UPDATES),
    Metric("norm_m", "norm of the momentum m", UPDATES),
    Metric("cosine", "cosine between client updates", UPDATES),
    Metric("drift", "drift: spread of the client updates", UPDATES),
    Metric("clip_level", "clipping level", UPDATES),
    Metric("clipped", "clipped share of the cohort", UPDATES),
    Metric("norm_bound", "bound on the norm of an upload", UPDATES),
    Metric("bounded", "share of uploads above the bound", UPDATES),
    Metric("epsilon", "epsilon of differential privacy", COST, better="low"),
    Metric("lr", "local learning rate", COST),
    Metric("cohort", "clients in the cohort", COST),
    Metric("skipped", "clients left out", COST, better="low"),
    Metric("available", "clients available", COST),
    Metric("selected", "clients selected", COST),
    Metric("lost_dropout", "clients that dropped out", COST, better="low"),
    Metric("lost_deadline", "clients that missed the deadline", COST, better="low"),
    Metric("lost_surplus", "clients selected but not needed", COST, better="low"),
    Metric("lost_unavailable", "scheduled clients not available", COST, better="low"),
    Metric("attackers", "attackers in the cohort", COST, better="low"),
    Metric("examples", "examples processed", COST),
    Metric("bytes_down", "sent to the clients", COST, "MB", 1e-6),
    Metric("bytes_up", "sent by the clients", COST, "MB", 1e-6),
    Metric("simulated_time", "simulated time", COST),
    Metric("seconds", "computing time", COST, "s"),
    Metric("evaluation_seconds", "time of evaluation", COST, "s"),
)
METRICS = {metric.key: metric for metric in _METRICS}
"""In the order in which they are offered."""

PANELS = ("norm_x", "norm_update", "norm_h", "norm_c", "norm_m", "cosine", "drift", "clip_level")
"""What the small multiples show."""

PERCENTILES = (5, 25, 50, 75, 95)
"""Over the clients."""

HEADLINES = ("test_accuracy", "test_loss", "train_accuracy", "train_loss")
"""What runs are judged by: the first of these that they have."""

_AXES = (
    Axis("rounds", "rounds", "rounds"),
    Axis("megabytes", "MB sent, down and up", "MB", ("bytes_down", "bytes_up"), 1e-6),
    Axis("examples", "examples processed", "examples", ("examples",)),
    Axis("time", "simulated time", "time", ("simulated_time",)),
)
AXES = {axis.key: axis for axis in _AXES}
MEASURED = re.compile(r"(?:test|validation)_(.+?)(?:_p(\d+))?")
"""A column of an evaluation: metric and percentile."""


def metric(key: str) -> Metric:
    """The metric's names; one that is not known here, such as a user's, is called by its key."""
    if key in METRICS:
        return METRICS[key]
    name = key.replace("_", " ")
    found = MEASURED.fullmatch(key)
    if found is None:
        return Metric(key, name)
    own, percent = found.groups()
    known = next((each for each in NAMED.values() if each.column == own), None)
    better: Better | None = None if known is None else "high" if known.higher_is_better else "low"
    if percent:
        name = f"{name.rpartition(' ')[0]}, {percentile(int(percent))} of clients"
    return Metric(key, name, QUALITY, better=better)


def is_asked_for(key: str) -> bool:
    """Whether it is measured only if a user wants it, but for percentiles and losses beside an accuracy."""
    found = MEASURED.fullmatch(key)
    own = found is not None and found[2] is None and key.startswith("test_") and key not in METRICS
    return own or key in ("personal_accuracy", "personal_loss", "cohort_accuracy")


def percentile_keys(keys: Iterable[str]) -> list[tuple[str, ...]]:
    """The percentiles over clients that are there: a tuple of five keys for each metric."""
    known = set(keys)
    prefixes = [key.removesuffix("p5") for key in sorted(known) if key.endswith("_p5")]
    each = [tuple(f"{prefix}p{p}" for p in PERCENTILES) for prefix in prefixes]
    return [keys for keys in each if known.issuperset(keys)]


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def short(value: object, digits: int = 4) -> str:
    """A setting or a number as people write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
