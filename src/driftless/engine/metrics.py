"""Metrics: numbers that judge a model by all its outputs on a data set; by name, or as a user's own function.

torchmetrics takes seconds to import, so only the functions that need it do.
"""

from __future__ import annotations

import copy
import math
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from driftless.engine.losses import Loss, class_dimension, is_ignored
from driftless.errors import InputError, short_repr, unknown

Function = Callable[[Tensor, Tensor], Any]
"""(outputs, targets) of all examples of a data set -> one number."""
Given = str | Function | Sequence[str | Function] | Mapping[str, str | Function] | None
"""What `metrics=` takes: names, functions, or a dict that gives functions names of their own."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
IGNORED = -100
"""The label that torch's own losses leave out."""


class Metric(NamedTuple):
    name: str
    value: Function
    higher_is_better: bool | None = None
    """None: not known."""
    what: str = "a function of your own"
    needs: str = ""
    """ "labels": is given class scores [labels, classes] and labels [labels], without those that are ignored;
    "numbers": outputs of the targets' shape; empty: outputs and targets as they are."""
    scores: int = 0
    """Of how many classes the model must have scores, at least."""
    present: int = 0
    """Of how many classes the data must have examples, at least."""

    @property
    def column(self) -> str:
        """What follows `test_` in the name of its column."""
        return self.name.replace("-", "_")


# --------------------------------------------------------------------------------------------------------- by name


def top_5(scores: Tensor, labels: Tensor) -> Tensor:
    from torchmetrics.functional.classification import multiclass_accuracy

    return multiclass_accuracy(scores, labels, scores.shape[1], average="micro", top_k=5, validate_args=False)


def balanced_accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    from torchmetrics.functional.classification import multiclass_recall

    each = multiclass_recall(scores, labels, scores.shape[1], average="none", validate_args=False)
    return each[labels.unique()].mean()


def f1(scores: Tensor, labels: Tensor) -> Tensor:
    from torchmetrics.functional.classification import multiclass_f1_score

    return multiclass_f1_score(scores, labels, scores.shape[1], average="macro", validate_args=False)


def auroc(scores: Tensor, labels: Tensor) -> Tensor:
    from torchmetrics.functional.classification import multiclass_auroc

    present = labels.unique()
    if len(present) < 2:
        return scores.new_full((), math.nan)
    with warnings.catch_warnings(action="ignore"):  # about the classes that are not present, which are left out
        each = multiclass_auroc(scores.softmax(1), labels, scores.shape[1], average="none", validate_args=False)
    return each[present].mean()


def token_accuracy(scores: Tensor, labels: Tensor) -> Tensor:
    return (scores.argmax(1) == labels).double().mean()


def perplexity(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores.double(), labels).exp()


def rmse(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.mse_loss(outputs.double(), targets.double()).sqrt()


def mae(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.l1_loss(outputs.double(), targets.double())


def r2(outputs: Tensor, targets: Tensor) -> Tensor:
    from torchmetrics.functional import r2_score

    if len(targets) < 2:
        return outputs.new_full((), math.nan)
    outputs, targets = (part.double().reshape(len(part), -1).squeeze(1) for part in (outputs, targets))
    return r2_score(outputs, targets)


_METRICS = (
    Metric("accuracy", token_accuracy, True, "Share of the labels that have the largest score.", "labels"),
    Metric("top-5", top_5, True, "Share of the labels that are among the five largest scores.", "labels", 6),
    Metric("balanced-accuracy", balanced_accuracy, True, "Mean over the classes of their accuracy.", "labels"),
    Metric("f1", f1, True, "Mean over the classes of the harmonic mean of precision and recall.", "labels"),
    Metric("auroc", auroc, True, "Area under the ROC curve, one class against the others, mean.", "labels", 2, 2),
    Metric("token-accuracy", token_accuracy, True, "Accuracy over all tokens but the ignored ones.", "labels"),
    Metric("perplexity", perplexity, False, "exp of the cross-entropy of all tokens but the ignored ones.", "labels"),
    Metric("rmse", rmse, False, "Root of the mean squared error.", "numbers"),
    Metric("mae", mae, False, "Mean absolute error.", "numbers"),
    Metric("r2", r2, True, "Coefficient of determination: 1 is perfect, 0 no better than the mean.", "numbers"),
)
METRICS = {metric.name: metric for metric in _METRICS}
OURS = re.compile(r"loss|accuracy|p\d+|.*_p\d+")
"""Names whose columns exist already."""


# ------------------------------------------------------------------------------------------------- what users give


def as_metrics(given: Given) -> tuple[Metric, ...]:
    """The metrics of names (also several in one text, with commas), functions, or a dict of them by names."""
    if given is None:
        return ()
    if isinstance(given, str):
        given = [name.strip() for name in given.split(",")]
    if isinstance(given, Mapping):
        found = [as_metric(each, name) for name, each in given.items()]
    elif isinstance(given, Sequence):
        found = [as_metric(each) for each in given]
    else:
        found = [as_metric(given)]
    columns = [metric.column for metric in found]
    twice = next((metric.name for metric in found if columns.count(metric.column) > 1), None)
    if twice is not None:
        raise InputError(f"metric '{twice}' is given twice; give each metric a name of its own: {{'mine': function}}.")
    return tuple(found)


def as_metric(given: Any, name: Any = None) -> Metric:
    if isinstance(given, str):
        if given not in METRICS:
            raise unknown("metric", given, METRICS)
        return METRICS[given] if name in (None, given) else METRICS[given]._replace(name=checked_name(name))
    if isinstance(given, type) or not callable(given):
        raise InputError(
            f"a metric must be a name or a function (outputs, targets) -> number, got {short_repr(given)}; "
            f"names are {', '.join(METRICS)}; of a class, give an instance."
        )
    own = checked_name(getattr(given, "__name__", type(given).__name__) if name is None else name)
    higher = getattr(given, "higher_is_better", None)
    if not isinstance(higher, bool | None):
        raise InputError(f"higher_is_better of metric '{own}' must be True or False, got {short_repr(higher)}.")
    return Metric(own, from_torchmetrics(given) if is_torchmetric(given) else on_copies(given), higher)


def checked_name(name: Any) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(
            f"{short_repr(name)} cannot name a metric; give it one of letters, digits, - and _: "
            "metrics={'mine': function}."
        )
    if OURS.fullmatch(name.replace("-", "_")):
        raise InputError(
            f"a metric cannot be called '{name}': driftless has columns of that name; give another one: "
            "metrics={'mine': function}."
        )
    return name


def on_copies(function: Function) -> Function:
    """A user's function may write over what it is given."""

    @wraps(function)
    def value(outputs: Tensor, targets: Tensor) -> Any:
        return function(outputs.clone(), targets.clone())

    return value


def is_torchmetric(given: object) -> bool:
    module = sys.modules.get("torchmetrics")  # who gives one has imported it
    return module is not None and isinstance(given, module.Metric)


def from_torchmetrics(given: Any) -> Function:
    """A torchmetrics object adds up what it has seen, so it begins anew with each data set."""
    metric = copy.deepcopy(given)
    metric.dist_sync_on_step = False  # only rank 0 measures: it would wait for the others for ever

    def value(outputs: Tensor, targets: Tensor) -> Any:
        metric.reset()
        return metric(outputs.clone(), targets.clone())

    return value


# -------------------------------------------------------------------------------------------------------- computing


def measure(metric: Metric, loss: Loss, ignored: Sequence[int], outputs: Tensor, targets: Tensor) -> float:
    """The metric on these examples; NaN where it is not defined, or the model's outputs are no numbers."""
    if not has_numbers(outputs, targets):
        return math.nan
    if metric.needs == "labels":
        outputs, targets = class_scores(loss, ignored, outputs, targets)
    if len(targets) == 0:
        return math.nan
    given = metric.value(outputs, targets)
    value = as_number(given)
    if value is None:
        shape = f"a tensor of shape {list(given.shape)}" if isinstance(given, Tensor) else short_repr(given)
        raise InputError(
            f"metric '{metric.name}' returned {shape}; it must return one number, such as a float or a tensor without "
            "dimensions (mean() makes one of many)."
        )
    return value


def has_numbers(outputs: Tensor, targets: Tensor) -> bool:
    """Of a model that diverges there are none. A score of -inf is one: it rules a class out."""
    finite = torch.isfinite(outputs)
    return bool((finite if targets.is_floating_point() else finite | outputs.isneginf()).all())


def class_scores(loss: Loss, ignored: Sequence[int], outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """[labels, classes] and [labels], of all labels that are not ignored."""
    dimension = class_dimension(loss, outputs, targets)
    assert dimension is not None, "checked before the run"
    scores = outputs.movedim(dimension, -1)
    scores, labels = scores.reshape(-1, scores.shape[-1]), targets.reshape(-1)
    kept = ~is_ignored(labels, (IGNORED, *ignored))
    return (scores, labels) if bool(kept.all()) else (scores[kept], labels[kept])


def as_number(value: object) -> float | None:
    """A Python, numpy or torch number as a float; None for anything else."""
    if isinstance(value, Tensor | np.ndarray | np.generic) and not value.shape:
        value = value.item()
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else None
