"""How models are judged: what a user can set, what is then measured, and by which column a run is judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from driftless.data.federation import Federation
from driftless.data.inputs import select, take
from driftless.data.memory import check_memory
from driftless.engine.batches import check_steps
from driftless.engine.device import moved_inputs
from driftless.engine.evaluate import PERCENTILES, Evaluation
from driftless.engine.flat import FlatModel
from driftless.engine.local import LocalTraining
from driftless.engine.losses import Loss, class_dimension, counted
from driftless.engine.metrics import IGNORED, METRICS, Given, Metric, as_metrics, measure
from driftless.errors import InputError, check_choice, check_type, check_whole, unknown
from driftless.random import stream, torch_stream

TRIED = 512
"""Examples on which each metric is tried before the run."""
MODES = ("max", "min")


@dataclass(frozen=True)
class EvaluationSettings:
    """How the model is judged: `simulate(evaluation=EvaluationSettings(...))`, section `evaluate` of a configuration.

    Attributes:
        metrics: What is measured besides loss and accuracy: names (`driftless list metrics`), functions (outputs,
            targets) -> number, a list of both, or a dict that names them. Default None.
        monitor: The metric or column that early stopping, targets, searches and tables judge by, such as "f1" or
            "validation_f1". Default None: the test accuracy, for regression the test loss.
        mode: "max" or "min", whether it is to be high or low. Default None: as is known of the metric.
        finetune_steps: Local steps of each client before it is judged on its own test data, beside the model without
            them. Default 0: none.
        max_examples: How many examples of each data set are evaluated, the same in all rounds. Default None: all.
        ignored_labels: A label, or a list, that metrics and accuracies on test data leave out; metrics also leave out
            -100. Default None.
        cohort: True evaluates, in every round, the model that is sent out on all training examples of the clients that
            train, before they do: the columns `cohort_loss` and `cohort_accuracy`. Default False.

    Examples:
        >>> import driftless
        >>> def confidence(outputs, targets):
        ...     return outputs.softmax(1).max(1).values.mean()
        >>> federation = driftless.load("digits", clients=10, seed=0)
        >>> judged = driftless.EvaluationSettings(metrics=["mean-confidence"])
        Traceback (most recent call last):
        ...
        driftless.errors.InputError: unknown metric 'mean-confidence'...
        >>> judged = driftless.EvaluationSettings(metrics=confidence, max_examples=100)
        >>> result = driftless.simulate("fedavg", federation, "logistic", rounds=1, cohort=5, evaluation=judged)
        >>> 0.1 < result.history["test_confidence"][-1] < 1
        True
    """

    metrics: Given = None
    monitor: str | None = None
    mode: str | None = None
    finetune_steps: int = 0
    max_examples: int | None = None
    ignored_labels: int | list[int] | None = None
    cohort: bool = False

    def __post_init__(self) -> None:
        as_metrics(self.metrics)
        check_type("monitor", self.monitor, str | None, "the name of a metric or a column", "such as 'f1' or 'test_f1'")
        check_choice("mode", self.mode, (None, *MODES))
        check_whole("finetune_steps", self.finetune_steps, 0)
        check_whole("max_examples", self.max_examples, 1, other=None)
        check_choice("cohort", self.cohort, (True, False))
        for label in self.ignored:
            check_whole("ignored_labels", label, -(2**31))

    @property
    def ignored(self) -> tuple[int, ...]:
        """The labels that are left out, as a tuple."""
        given = self.ignored_labels
        return () if given is None else tuple(given) if isinstance(given, Sequence) else (given,)


class Monitor(NamedTuple):
    """The column that a run is judged by."""

    column: str
    mode: str
    """ "max" or "min"."""

    @property
    def name(self) -> str:
        return self.column.replace("_", " ")

    @property
    def sign(self) -> int:
        return 1 if self.mode == "max" else -1

    def best(self, values: Iterable[float]) -> float:
        return max(values, key=lambda value: self.sign * value)

    def reaches(self, value: float, target: float) -> bool:
        return self.sign * value >= self.sign * target


def evaluation_of(
    settings: EvaluationSettings,
    model: FlatModel,
    loss: Loss,
    federation: Federation,
    training: LocalTraining,
    seed: int,
    outputs: Tensor,
) -> Evaluation:
    """What is evaluated, after checking that it can be. `outputs`: of the federation's first examples."""
    metrics = as_metrics(settings.metrics)
    of = Evaluation(
        model, loss, with_fewer_test_examples(federation, settings.max_examples, seed), seed,
        tuple(metric for metric in metrics if metric.column != "accuracy"),  # which is measured anyway
        settings.ignored, outputs, settings.finetune_steps, settings.cohort,
    )  # fmt: skip
    if metrics and not of.data:
        raise InputError(
            f"metric '{metrics[0].name}' has no data to be measured on: the federation has no test set, no test data "
            "of its clients and no held-out clients; give it one of them, or leave the metrics out."
        )
    for metric in metrics:
        check_fit(of, metric)
    if of.ignored and of.has_accuracy:
        check_ignored(of)
    if of.metrics:
        check_outputs(of)
    if of.finetune_steps:
        check_fine_tuning(of, training)
    return of


def with_fewer_test_examples(federation: Federation, most: int | None, seed: int) -> Federation:
    """At most so many examples of each data set, drawn by the seed, in their old order."""
    if most is None:
        return federation

    def rows(name: str, number: int) -> Tensor:
        drawn = stream(seed, f"max-examples {name}").permutation(number)[:most]
        return torch.from_numpy(np.sort(drawn)).to(federation.targets.device)

    def fewer(name: str, part: Federation | None) -> Federation | None:
        if part is None or len(part.targets) <= most:
            return part
        kept = rows(name, len(part.targets))
        offsets = np.searchsorted(kept.cpu().numpy(), part.offsets)
        return replace(part, inputs=select(part.inputs, kept), targets=part.targets[kept], offsets=offsets)

    test = federation.test
    if test is not None and len(test[1]) > most:
        kept = rows("test", len(test[1]))
        test = select(test[0], kept), test[1][kept]
    return replace(
        federation, test=test, validation=fewer("validation", federation.validation),
        client_test=fewer("client_test", federation.client_test),
    )  # fmt: skip


def columns_of(of: Evaluation) -> dict[str, bool | None]:
    """What is measured, and whether higher is better."""
    metrics = {"loss": False} | ({"accuracy": True} if of.has_accuracy else {})
    own: dict[str, bool | None] = {metric.column: metric.higher_is_better for metric in of.metrics}
    trained = ("train", "cohort") if of.cohort else ("train",)
    found: dict[str, bool | None] = {f"{on}_{name}": better for on in trained for name, better in metrics.items()}
    for name in ("test", "validation"):
        if name in of.data:
            found |= {f"{name}_{column}": better for column, better in (metrics | own).items()}
    if of.test_clients is not None:
        each = {"test": True} if of.has_accuracy else {}
        each |= {f"test_{column}": better for column, better in own.items()}
        found |= {f"{column}_p{p}": better for column, better in each.items() for p in PERCENTILES}
    if of.finetune_steps:
        kind, better = ("accuracy", True) if of.has_accuracy else ("loss", False)
        found |= {f"client_{kind}": better, f"personal_{kind}": better}
        found |= {f"personal_p{p}": better for p in PERCENTILES}
    return found


def monitor_of(settings: EvaluationSettings, of: Evaluation) -> Monitor | None:
    """None when nothing was asked for and there is no test set to judge by."""
    columns = columns_of(of)
    if settings.monitor is None:
        column = next((name for name in ("test_accuracy", "test_loss") if name in columns), None)
        if column is None:
            return None
    else:
        wanted = settings.monitor.replace("-", "_")
        column = f"test_{wanted}" if f"test_{wanted}" in columns else wanted
        if column not in columns:
            raise unknown("column to monitor", settings.monitor, columns)
    higher = columns[column]
    if settings.mode is None and higher is None:
        raise InputError(
            f"whether a high or a low '{column}' is good is not known; set evaluate.mode to 'max' or 'min', or the "
            "attribute higher_is_better of your function to True or False."
        )
    return Monitor(column, settings.mode or ("max" if higher else "min"))


def check_fit(of: Evaluation, metric: Metric) -> None:
    """Raise if a metric of ours is not defined for these targets."""
    federation, outputs = of.federation, of.outputs
    assert outputs is not None
    targets = federation.targets[: len(outputs)]
    kind = "numbers" if targets.is_floating_point() else "labels"
    shapes = f"outputs {list(outputs.shape)}, targets {list(targets.shape)}"
    if metric.needs not in ("", kind):
        raise InputError(
            f"metric '{metric.name}' needs targets that are {metric.needs}, and these are {kind}; "
            f"metrics for {kind} are {', '.join(name for name, each in METRICS.items() if each.needs == kind)}."
        )
    dimension = class_dimension(of.loss, outputs, targets) if metric.needs == "labels" else 0
    if dimension is None or (metric.needs == "numbers" and outputs.shape != targets.shape):
        wanted = "a score for each class" if dimension is None else "outputs of the targets' shape"
        raise InputError(
            f"metric '{metric.name}' needs {wanted}, got {shapes}; change the model's outputs, or give a function of "
            "your own (outputs, targets) -> number."
        )
    if metric.needs == "labels" and outputs.shape[dimension] < metric.scores:
        raise InputError(
            f"metric '{metric.name}' needs at least {metric.scores} classes, and the model has scores for "
            f"{outputs.shape[dimension]}; leave it out."
        )
    for name in sorted(of.data.keys() & {"test", "validation"} if metric.present else ()):
        present = set(of.data[name][1].unique().tolist()) - {IGNORED, *of.ignored}
        if len(present) < metric.present:
            raise InputError(
                f"metric '{metric.name}' needs examples of at least {metric.present} classes, and the {name} data have "
                f"examples of {len(present)}; give data with more classes, a larger evaluate.max_examples, or another "
                "metric."
            )


def check_ignored(of: Evaluation) -> None:
    """Some label must be left of each data set."""
    for name, (_, targets) in of.data.items():
        if not counted(targets, of.ignored).any():
            raise InputError(
                f"evaluate.ignored_labels={list(of.ignored)} are all labels of the {name} data, so there is nothing to "
                "take the accuracy of; name fewer."
            )


def check_outputs(of: Evaluation) -> None:
    """All outputs must fit into the memory, and each metric must be computable from them."""
    outputs, names = of.outputs, ", ".join(metric.name for metric in of.metrics)
    assert outputs is not None
    examples = [len(targets) for _, targets in of.data.values()]
    check_memory(
        3 * sum(examples) * outputs[0].numel() * outputs.element_size(),  # of the batches, together, a metric's copy
        f"the outputs of all {sum(examples)} examples that are evaluated, which the metrics ({names}) are computed of,",
        "set evaluate.max_examples to evaluate fewer",
    )
    name, (inputs, targets) = next(iter(of.data.items()))
    rows = torch.linspace(0, len(targets) - 1, min(TRIED, len(targets)), device=targets.device).long()
    with torch.no_grad(), torch_stream(of.seed, "fit"):
        of.model.resident.load(of.model.initial)
        outputs = of.model.resident.evaluate(moved_inputs(take(inputs, rows), of.model.device)).cpu()
        targets = targets[rows].cpu()
        for metric in of.metrics:
            try:
                measure(metric, of.loss, of.ignored, outputs, targets)
            except InputError:
                raise
            except Exception as error:
                raise InputError(
                    f"metric '{metric.name}' cannot be computed on {len(rows)} examples of the {name} data, from "
                    f"outputs of shape {list(outputs.shape)} and targets of shape {list(targets.shape)}: "
                    f"{type(error).__name__}: {error}. It must be a function (outputs, targets) -> number."
                ) from error


def check_fine_tuning(of: Evaluation, training: LocalTraining) -> None:
    if of.federation.client_test is None:
        raise InputError(
            f"evaluate.finetune_steps={of.finetune_steps} judges each client on test data of its own, and this "
            "federation has none; set data.client_test=0.2, give Federation.from_clients(client_test=...), or leave "
            "finetune_steps out."
        )
    check_steps(fine_tuning(training, of.finetune_steps), of.federation.sizes)


def fine_tuning(training: LocalTraining, steps: int) -> LocalTraining:
    """The run's local training, with so many steps."""
    return replace(training, epochs=None, steps=steps)
