"""Metrics by name, each against its definition, and functions of a user's own."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics
from torch import Tensor
from torch.nn import functional as F

from driftless import EvaluationSettings, Federation, InputError, LocalTraining, simulate
from driftless.engine.losses import cross_entropy
from driftless.engine.metrics import METRICS, as_metrics, as_number, measure
from engine.problems import classification, linear, network, regression, run


def some(n: int = 60, classes: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Scores and labels; the last class has no example."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes - 1, (n,), generator=generator)
    return torch.randn(n, classes, generator=generator) + 2 * F.one_hot(labels, classes), labels


def value(name: str, outputs: Tensor, targets: Tensor, ignored: tuple[int, ...] = ()) -> float:
    return measure(METRICS[name], cross_entropy, ignored, outputs, targets)


def recalls(scores: Tensor, labels: Tensor) -> dict[int, float]:
    found = scores.argmax(1)
    return {c: float((found[labels == c] == c).double().mean()) for c in labels.unique().tolist()}


def test_balanced_accuracy_is_the_mean_recall_of_the_classes_that_have_examples():
    scores, labels = some()
    scores[:3] = F.one_hot(torch.tensor([6, 6, 6]), 7) * 20.0  # predicted, but without examples
    assert value("balanced-accuracy", scores, labels) == pytest.approx(np.mean(list(recalls(scores, labels).values())))


def test_f1_is_the_mean_over_the_classes_that_occur():
    scores, labels = some()
    found, each = scores.argmax(1), []
    for c in set(labels.tolist()) | set(found.tolist()):
        hits = int(((found == c) & (labels == c)).sum())
        each.append(2 * hits / (int((found == c).sum()) + int((labels == c).sum())))
    assert value("f1", scores, labels) == pytest.approx(np.mean(each))


def test_auroc_is_the_share_of_pairs_in_the_right_order_mean_over_the_classes_that_occur():
    scores, labels = some()
    probabilities, each = scores.softmax(1), []
    for c in labels.unique().tolist():
        inside, outside = probabilities[labels == c, c], probabilities[labels != c, c]
        each.append(float((inside[:, None] > outside[None]).double().mean()))
    assert len(each) == 6
    assert value("auroc", scores, labels) == pytest.approx(np.mean(each), rel=1e-5)


def test_top_5_counts_labels_among_the_five_largest_scores():
    scores, labels = some()
    inside = [int(label) in row.topk(5).indices.tolist() for row, label in zip(-scores, labels, strict=True)]
    assert 0 < np.mean(inside) < 1
    assert value("top-5", -scores, labels) == pytest.approx(np.mean(inside))


def sequences() -> tuple[Tensor, Tensor]:
    scores, labels = some(60)
    return scores.view(10, 6, 7), labels.view(10, 6)


@pytest.mark.parametrize("classes_second", [False, True])
def test_tokens_that_are_ignored_do_not_count(classes_second: bool):
    scores, labels = sequences()
    labels[2:5, 3:] = -100
    labels[7, 0] = 4
    kept = (labels != -100) & (labels != 4)
    given = scores.movedim(2, 1) if classes_second else scores
    right = float((scores.argmax(2)[kept] == labels[kept]).double().mean())
    assert value("token-accuracy", given, labels, (4,)) == pytest.approx(right)
    wanted = math.exp(float(F.cross_entropy(scores[kept].double(), labels[kept])))
    assert value("perplexity", given, labels, (4,)) == pytest.approx(wanted)


def test_perplexity_is_that_of_torchmetrics():
    scores, labels = sequences()
    labels[0, :2] = -100
    theirs = torchmetrics.functional.text.perplexity(scores, labels, ignore_index=-100)
    assert value("perplexity", scores, labels) == pytest.approx(float(theirs), rel=1e-5)


def test_all_tokens_ignored_is_not_a_number():
    scores, labels = sequences()
    assert math.isnan(value("perplexity", scores, torch.full_like(labels, -100)))


@pytest.mark.parametrize("shape", [(20,), (20, 3)])
def test_errors_of_regression(shape: tuple[int, ...]):
    outputs, targets = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)).double()
    assert value("rmse", outputs, targets) == pytest.approx(float((outputs - targets).square().mean().sqrt()))
    assert value("mae", outputs, targets) == pytest.approx(float((outputs - targets).abs().mean()))
    explained = 1 - (outputs - targets).square().sum(0) / (targets - targets.mean(0)).square().sum(0)
    assert value("r2", outputs, targets) == pytest.approx(float(explained.mean()))
    assert math.isnan(value("r2", outputs[:1], targets[:1]))


def test_a_model_without_numbers_has_no_metrics_and_a_class_that_is_ruled_out_has_a_score():
    scores, labels = some()
    ruled_out = scores.clone()
    ruled_out[:, 6] = -math.inf
    assert value("f1", ruled_out, labels) > 0.3
    for bad in (math.nan, math.inf):
        assert math.isnan(value("f1", torch.where(scores > 2, bad, scores), labels))


def test_the_directions_of_the_named_metrics():
    lower = {name for name, metric in METRICS.items() if not metric.higher_is_better}
    assert lower == {"perplexity", "rmse", "mae"}


def test_what_users_give_becomes_metrics():
    def mine(outputs: Tensor, targets: Tensor) -> float:
        return 1.0

    mine.higher_is_better = False  # pyright: ignore[reportFunctionMemberAccess]
    assert [m.name for m in as_metrics("f1, auroc")] == ["f1", "auroc"]
    assert [m.name for m in as_metrics(["f1", mine])] == ["f1", "mine"]
    assert [(m.name, m.higher_is_better) for m in as_metrics({"f1": mine, "best": "f1"})] == [
        ("f1", False),
        ("best", True),
    ]
    assert as_metrics(mine)[0].higher_is_better is False
    assert as_metrics(None) == as_metrics([]) == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("aucroc", "unknown metric 'aucroc'; did you mean 'auroc'"),
        (["f1", "F1"], "did you mean 'f1'"),
        ("f1,f1", "given twice"),
        ({"top-5": "f1", "top_5": "r2"}, "given twice"),
        ([lambda o, t: 0.0], "'<lambda>' cannot name a metric"),
        ({"my metric": "f1"}, "'my metric' cannot name a metric"),
        ({1: "f1"}, "1 cannot name a metric"),
        ({"accuracy": lambda o, t: 0.0}, "driftless has columns of that name"),
        ({"f1_p5": lambda o, t: 0.0}, "driftless has columns of that name"),
        ([3], "must be a name or a function .* got 3"),
        ([torchmetrics.MeanSquaredError], "of a class, give an instance"),
        (7, "must be a name or a function"),
    ],
)
def test_what_is_no_metric_is_refused(given: Any, message: str):
    with pytest.raises(InputError, match=message):
        as_metrics(given)


def test_a_direction_that_is_no_answer_is_refused():
    def mine(outputs: Tensor, targets: Tensor) -> float:
        return 1.0

    mine.higher_is_better = "yes"  # pyright: ignore[reportFunctionMemberAccess]
    with pytest.raises(InputError, match="higher_is_better of metric 'mine'"):
        as_metrics([mine])


def test_numbers_of_all_kinds_are_numbers():
    for number in (2, 2.0, np.float32(2), np.array(2), torch.tensor(2), torch.tensor(2.0)):
        assert as_number(number) == 2.0
    for other in (True, "2", [2], None, torch.tensor([2.0]), np.array([2]), 2j, torch.tensor(True)):
        assert as_number(other) is None


# ---------------------------------------------------------------------------------------------------- in a simulation


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()


def test_a_function_gets_all_outputs_and_targets_on_the_cpu_without_gradients():
    seen: list[tuple[int, bool]] = []

    def count(outputs: Tensor, targets: Tensor) -> int:
        assert outputs.device.type == "cpu"
        seen.append((len(targets), outputs.requires_grad))
        return len(targets)

    federation = regression([5, 7])
    result, _ = run("fedavg", federation, linear(), metrics=[count, squared])
    assert result.history["test_count"] == [5, 5]
    assert not any(gradient for _, gradient in seen)
    outputs = result.module()(federation.test[0]).detach()
    assert result.history["test_squared"][-1] == pytest.approx(float(squared(outputs, federation.test[1])), rel=1e-12)


def test_a_function_that_writes_over_what_it_gets_changes_nothing():
    def rude(outputs: Tensor, targets: Tensor) -> float:
        outputs.zero_()
        targets.zero_()
        return 0.0

    federation = classification([6, 8], classes=3)
    plain, _ = run("fedavg", federation, network(), metrics=["f1"])
    written, _ = run("fedavg", federation, network(), metrics={"rude": rude, "f1": "f1"})
    assert written.history["test_f1"] == plain.history["test_f1"]
    assert torch.equal(written.x, plain.x)


def test_a_torchmetrics_object_judges_each_data_set_anew():
    federation = classification([12, 9], classes=3)
    metric = torchmetrics.classification.MulticlassF1Score(3)
    result, _ = run("fedavg", federation, network(), metrics={"f1": "f1", "theirs": metric})
    assert result.history["test_theirs"] == pytest.approx(result.history["test_f1"])
    assert metric.update_count == 0


def own_tests(seed: int = 0) -> Federation:
    """Five clients, of which the fourth has no test data; the second has one class only."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for n in (6, 9, 7, 5, 8, 20, 4, 11, 9, 30):
        labels = torch.randint(0, 3, (n,), generator=generator)
        pairs.append((torch.randn(n, 4, generator=generator) + labels[:, None], labels))
    pairs[6] = (pairs[6][0], torch.ones(4, dtype=torch.long))
    tests = [pairs[5], pairs[6], pairs[7], None, pairs[8]]
    return Federation.from_clients(pairs[:5], test=pairs[9], classes=3, client_test=tests)


def test_each_client_has_a_value_of_each_metric_and_its_percentiles_are_in_the_row():
    federation = own_tests()
    result, records = run("fedavg", federation, network(), metrics="f1,auroc", evaluate_every=2, rounds=3)
    module, expected = result.module(), {"accuracy": [], "f1": [], "auroc": []}
    for client in range(5):
        inputs, labels = federation.client_test.client(client)
        outputs = module(inputs.double()).detach()
        expected["accuracy"].append(float((outputs.argmax(1) == labels).double().mean()) if len(labels) else math.nan)
        for name in ("f1", "auroc"):
            expected[name].append(value(name, outputs, labels) if len(labels) else math.nan)
    assert math.isnan(expected["auroc"][1])
    assert math.isnan(expected["f1"][3])
    assert result.client_metrics.keys() == expected.keys()
    for name, values in expected.items():
        assert result.client_metrics[name] == pytest.approx(values, nan_ok=True)
    for p in (5, 25, 50, 75, 95):
        assert result.history[-1][f"test_f1_p{p}"] == pytest.approx(np.nanpercentile(expected["f1"], p))
        assert result.history[-1][f"test_auroc_p{p}"] == pytest.approx(np.nanpercentile(expected["auroc"], p))
        assert result.history[-1][f"test_p{p}"] == pytest.approx(np.nanpercentile(expected["accuracy"], p))
    assert [bool(record.client_metrics) for record in records] == [False, True, True]


def test_held_out_clients_are_judged_like_the_test_set_and_one_by_one():
    federation = Federation.from_clients(
        [classification([9] * 6).client(i) for i in range(6)], test=classification([9]).client(0), validation=2
    )
    result, _ = run("fedavg", federation, network(), metrics="f1")
    outputs = result.module()(federation.validation.inputs).detach()
    assert result.history["validation_f1"][-1] == pytest.approx(value("f1", outputs, federation.validation.targets))
    assert len(result.client_metrics["f1"]) == 2


def test_accuracy_by_name_is_the_column_that_is_there_anyway():
    named, _ = run("fedavg", classification([6, 8]), network(), metrics="accuracy")
    plain, _ = run("fedavg", classification([6, 8]), network())
    assert named.history.columns == plain.history.columns


def test_a_metric_that_is_not_a_number_is_left_out_with_one_event():
    calls: list[int] = []

    def sometimes(outputs: Tensor, targets: Tensor) -> float:
        calls.append(0)
        return math.nan if len(calls) % 2 else 0.5

    result, _ = run("fedavg", regression([5, 7]), linear(), metrics=[sometimes], rounds=5)
    assert 0 < len(result.history["test_sometimes"]) < 5
    said = [event for event in result.events if "sometimes" in event.what]
    assert [event.what for event in said] == [
        "metric 'sometimes' is not a number on the test set: its value is left out"
    ]
    rest = simulate(
        "fedavg", regression([5, 7]), linear(), rounds=7, cohort=2, metrics=[sometimes], state=result.state,
        local=LocalTraining(lr=0.1, steps=2, batch_size=2), dtype=torch.float64,
    )  # fmt: skip
    assert not rest.events


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (
            lambda outputs, targets: (outputs - targets).square(),
            r"returned a tensor of shape \[5\]; it must return one",
        ),
        (lambda outputs, targets: "good", "returned 'good'; it must return one number"),
        (lambda outputs, targets: None, "returned None; it must return one number"),
        (lambda outputs, targets: outputs.no_such_thing, "cannot be computed on 5 examples .* AttributeError"),
        (lambda outputs: 0.0, "cannot be computed .* TypeError.* It must be a function"),
        (torchmetrics.MetricCollection([torchmetrics.MeanSquaredError()]), "it must return one number"),
    ],
)
def test_a_metric_that_gives_no_number_is_refused_before_the_run(metric: Any, message: str):
    rounds: list[Any] = []
    with pytest.raises(InputError, match=message):
        run("fedavg", regression([5, 7]), linear(), metrics={"mine": metric}, on_round=rounds.append)
    assert not rounds


def test_a_metric_that_raises_during_the_run_says_what_was_being_done():
    def late(outputs: Tensor, targets: Tensor, calls: list[int]) -> float:
        calls.append(0)
        if len(calls) > 2:  # the trial and round 1
            raise ZeroDivisionError("mine")
        return 0.0

    with pytest.raises(ZeroDivisionError, match="mine") as raised:
        run("fedavg", regression([5, 7]), linear(), metrics={"late": partial(late, calls=[])})
    assert "driftless was computing metric 'late' on the test set after round 2" in raised.value.__notes__


@pytest.mark.parametrize(
    ("name", "problem", "message"),
    [
        (
            "f1",
            "numbers",
            "needs targets that are labels, and these are numbers; metrics for numbers are rmse, mae, r2",
        ),
        ("rmse", "labels", "needs targets that are numbers, and these are labels"),
        ("top-5", "labels", "needs at least 6 classes, and the model has scores for 3"),
        ("auroc", "one class", "needs examples of at least 2 classes, and the test data have examples of 1"),
        ("f1", "nothing to test on", "has no data to be measured on"),
    ],
)
def test_a_metric_that_does_not_fit_the_data_is_refused_before_the_run(name: str, problem: str, message: str):
    labels = classification([6, 8])
    federation, module = {
        "numbers": (regression([5, 7]), linear()),
        "labels": (labels, network()),
        "one class": (
            Federation.from_clients([labels.client(0)], test=(torch.randn(4, 4), torch.ones(4).long()), classes=3),
            network(),
        ),
        "nothing to test on": (Federation.from_clients([labels.client(0)], classes=3), network()),
    }[problem]
    with pytest.raises(InputError, match=message):
        run("fedavg", federation, module, metrics=name)


def test_scores_of_one_number_need_a_metric_of_the_users_own():
    def binary(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype))

    clients = [(inputs, (targets > 0).long()) for inputs, targets in map(regression([9, 8]).client, (0, 1))]
    federation = Federation.from_clients(clients, test=clients[0])
    with pytest.raises(InputError, match="needs a score for each class, got outputs"):
        run("fedavg", federation, linear(), loss=binary, metrics="auroc")
    metric = torchmetrics.classification.BinaryAUROC()
    result, _ = run("fedavg", federation, linear(), loss=binary, metrics=[metric])
    assert 0 <= result.history["test_BinaryAUROC"][-1] <= 1


def test_outputs_that_do_not_fit_into_the_memory_are_refused_with_the_setting_that_helps(monkeypatch):
    monkeypatch.setattr("driftless.data.memory.free_memory", lambda: 3 * 8 * 3 * 10)
    federation = classification([12, 9])
    with pytest.raises(InputError, match=r"12 examples.* the metrics \(f1\) .* set evaluate.max_examples"):
        run("fedavg", federation, network(), metrics="f1")
    run("fedavg", federation, network(), evaluation=EvaluationSettings(["f1"], max_examples=10))


def test_metrics_are_given_once():
    with pytest.raises(InputError, match="given twice, by metrics= and by evaluation="):
        run("fedavg", regression([5]), linear(), metrics="mae", evaluation=EvaluationSettings("rmse"))
    with pytest.raises(InputError, match=r"evaluation must be a driftless.EvaluationSettings"):
        run("fedavg", regression([5]), linear(), evaluation={"metrics": "mae"})
    with pytest.raises(InputError, match="evaluate_every=0 never evaluates"):
        run("fedavg", regression([5]), linear(), metrics="mae", evaluate_every=0)
