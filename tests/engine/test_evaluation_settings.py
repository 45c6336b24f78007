from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from driftless import EngineSettings, EvaluationSettings, Federation, InputError, LocalTraining, Result
from driftless.algorithms import FedAvg
from driftless.data.preprocessing.words import encode
from driftless.engine.evaluation_settings import Monitor, with_fewer_test_examples
from driftless.simulate import prepare
from engine.problems import classification, linear, network, regression, run
from engine.test_metrics import own_tests


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metrics": "f3"}, "unknown metric 'f3'"),
        ({"monitor": 3}, "monitor must be the name of a metric or a column"),
        ({"mode": "high"}, "mode must be one of None, 'max', 'min'"),
        ({"finetune_steps": -1}, "finetune_steps must be a whole number of at least 0"),
        ({"finetune_steps": 1.5}, "finetune_steps must be a whole number"),
        ({"max_examples": 0}, "max_examples must be a whole number of at least 1"),
        ({"cohort": 3}, "cohort must be one of True, False"),
        ({"ignored_labels": [0, "pad"]}, "ignored_labels must be a whole number"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        EvaluationSettings(**settings)


# ------------------------------------------------------------------------------------------------------- monitor


def monitor(federation: Federation, module: torch.nn.Module, **settings: Any) -> Monitor | None:
    simulation = prepare(
        FedAvg(), federation, module, rounds=1, cohort=1, local=None, loss=None, weighting=None, seed=0,
        engine=EngineSettings("single"), dtype=torch.float64, evaluate_every=1, server=None, inference=None,
        evaluation=EvaluationSettings(**settings),
    )  # fmt: skip
    return simulation.monitor


def test_runs_are_judged_by_test_accuracy_and_regressions_by_test_loss():
    assert monitor(classification([5]), network()) == Monitor("test_accuracy", "max")
    assert monitor(regression([5]), linear()) == Monitor("test_loss", "min")
    assert monitor(Federation.from_clients([regression([5]).client(0)]), linear()) is None


def worst(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).abs().max()


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"metrics": "r2,mae", "monitor": "r2"}, Monitor("test_r2", "max")),
        ({"metrics": "r2,mae", "monitor": "test_mae"}, Monitor("test_mae", "min")),
        ({"monitor": "train_loss"}, Monitor("train_loss", "min")),
        ({"monitor": "loss"}, Monitor("test_loss", "min")),
        ({"metrics": [worst], "monitor": "worst", "mode": "min"}, Monitor("test_worst", "min")),
    ],
)
def test_a_metric_or_a_column_can_be_monitored(settings: dict[str, Any], found: Monitor):
    assert monitor(regression([5]), linear(), **settings) == found


def test_percentiles_and_personal_columns_can_be_monitored():
    wanted = {"metrics": "balanced-accuracy", "finetune_steps": 2}
    for column in ("test_p5", "test_balanced_accuracy_p25", "personal_accuracy", "personal_p5", "client_accuracy"):
        assert monitor(own_tests(), network(), monitor=column, **wanted) == Monitor(column, "max")
    assert monitor(own_tests(), network(), monitor="balanced-accuracy", **wanted).column == "test_balanced_accuracy"


def test_a_monitor_that_is_not_measured_is_refused_with_the_nearest_column():
    with pytest.raises(InputError, match=r"unknown column to monitor 'test_f2'; did you mean 'test_f1'"):
        monitor(classification([5]), network(), metrics="f1", monitor="test_f2")
    with pytest.raises(InputError, match=r"unknown column to monitor 'f1'.* Allowed: test_loss, train_loss"):
        monitor(regression([5]), linear(), monitor="f1")


def test_a_monitor_of_unknown_direction_is_refused():
    with pytest.raises(
        InputError, match=r"whether a high or a low 'test_worst' is good is not known; set evaluate.mode"
    ):
        monitor(regression([5]), linear(), metrics=[worst], monitor="worst")


def test_best_and_reached_follow_the_mode():
    high, low = Monitor("test_f1", "max"), Monitor("test_loss", "min")
    assert (high.best([1, 3, 2]), low.best([3, 1, 2])) == (3, 1)
    assert [high.reaches(value, 0.9) for value in (0.89, 0.9, 0.91)] == [False, True, True]
    assert [low.reaches(value, 0.9) for value in (0.89, 0.9, 0.91)] == [True, True, False]


# --------------------------------------------------------------------------------------------------- max_examples


def test_a_subset_is_drawn_by_the_seed_and_keeps_each_example_with_its_client():
    federation = own_tests()
    kept = with_fewer_test_examples(federation, 7, seed=1)
    again, other = (with_fewer_test_examples(federation, 7, seed=seed) for seed in (1, 2))
    assert torch.equal(kept.test[0], again.test[0])
    assert not torch.equal(kept.test[0], other.test[0])
    assert len(kept.test[1]) == len(kept.client_test.targets) == 7
    assert kept.client_test.clients == 5
    assert torch.equal(kept.inputs, federation.inputs)
    for client in range(5):
        whole = {tuple(row.tolist()) for row in federation.client_test.client(client)[0]}
        assert {tuple(row.tolist()) for row in kept.client_test.client(client)[0]} <= whole
    assert with_fewer_test_examples(federation, None, 1) is federation
    assert torch.equal(with_fewer_test_examples(federation, 10**6, 1).test[0], federation.test[0])


def test_the_subset_is_the_same_in_all_rounds():
    seen: list[Tensor] = []

    def look(outputs: Tensor, targets: Tensor) -> float:
        seen.append(targets)
        return 0.0

    settings = EvaluationSettings([look], max_examples=4)
    run("fedavg", regression([9, 7]), linear(), evaluation=settings, rounds=3)
    assert [len(targets) for targets in seen] == [4] * 4
    assert all(torch.equal(targets, seen[0]) for targets in seen)
    whole, _ = run("fedavg", regression([9, 7]), linear(), rounds=3)
    fewer, _ = run("fedavg", regression([9, 7]), linear(), evaluation=EvaluationSettings(max_examples=4), rounds=3)
    assert torch.equal(whole.x, fewer.x)
    assert whole.history["test_loss"] != fewer.history["test_loss"]


def test_labels_that_are_ignored_are_left_out_by_metrics():
    federation = classification([9, 7])
    settings = EvaluationSettings("token-accuracy", ignored_labels=[0])
    result, _ = run("fedavg", federation, network(), evaluation=settings)
    inputs, labels = federation.test
    right = (result.module()(inputs).argmax(1) == labels)[labels != 0]
    assert result.history["test_token_accuracy"][-1] == pytest.approx(float(right.double().mean()))


VOCABULARY = ["the", "cat", "sat"]  # 1, 2, 3; padding 0, unknown 4, begin 5, end 6
NO_WORDS = [0, 4, 5, 6]


class AlwaysCat(torch.nn.Module):
    """Predicts the word "cat" at every place."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = torch.nn.Parameter(torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.scores.expand(*tokens.shape, 7)


def of_sentences(*clients: str) -> list[tuple[Tensor, Tensor]]:
    """Each client's sentences, apart from each other by a full stop."""
    rows = [torch.from_numpy(encode([s.split() for s in text.split(".")], VOCABULARY, 4)) for text in clients]
    return [(each[:, :-1], each[:, 1:]) for each in rows]


def cats(ignored: list[int] | None, **settings: Any) -> Result:
    """Targets: [the cat END PAD], [UNKNOWN cat sat END] | [UNKNOWN END PAD PAD] | [cat cat cat cat]."""
    own = of_sentences("the cat.a cat sat", "dog", "cat cat cat cat")
    together = tuple(torch.cat(parts) for parts in zip(*own, strict=True))
    federation = Federation.from_clients(own, test=together, client_test=own, classes=7)
    local = LocalTraining(lr=1e-9, epochs=1, batch_size=2)
    evaluation = EvaluationSettings(ignored_labels=ignored, **settings)
    return run("fedavg", federation, AlwaysCat(), evaluation=evaluation, local=local, rounds=1, cohort=3)[0]


def test_the_accuracy_over_words_leaves_out_all_other_tokens():
    words = cats(NO_WORDS, finetune_steps=1, metrics="token-accuracy")
    row = words.history[-1]
    assert row["test_accuracy"] == row["test_token_accuracy"] == 6 / 8
    assert words.client_metrics["accuracy"] == pytest.approx([2 / 4, math.nan, 4 / 4], nan_ok=True)
    assert (row["test_p5"], row["test_p50"], row["test_p95"]) == pytest.approx((0.525, 0.75, 0.975))
    assert row["client_accuracy"] == row["personal_accuracy"] == 0.75
    assert words.client_metrics["personal_accuracy"] == pytest.approx([0.5, math.nan, 1.0], nan_ok=True)


def test_without_labels_that_are_ignored_the_accuracy_is_over_all_tokens():
    tokens = cats(None)
    assert tokens.history["test_accuracy"][-1] == 6 / 16
    assert tokens.client_metrics["accuracy"] == [2 / 8, 0.0, 1.0]
    assert tokens.history["test_loss"] == cats(NO_WORDS).history["test_loss"], "the loss counts them anyway"


def test_labels_of_which_none_is_left_are_refused():
    with pytest.raises(InputError, match=r"ignored_labels=\[0, 1, 2, 3, 4, 5, 6\] are all labels of the test data"):
        cats(list(range(7)))


def test_the_time_of_evaluation_is_recorded_apart_from_the_rounds():
    result, _ = run("fedavg", regression([9, 7]), linear(), rounds=4, evaluate_every=2)
    assert len(result.history["evaluation_seconds"]) == 2
    assert all(math.isfinite(seconds) and seconds > 0 for seconds in result.history["evaluation_seconds"])


class Sum(torch.nn.Module):
    """Of two inputs that are given by their names."""

    def __init__(self) -> None:
        super().__init__()
        self.head = network()

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.head(left + right)


@pytest.mark.parametrize("engine", ["single", "block"])
def test_inputs_that_are_several_tensors_are_judged_like_one(engine: str):
    one = own_tests().to(torch.float64)

    def halved(pair: tuple[Tensor, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        return {"left": pair[0] / 2, "right": pair[0] / 2}, pair[1]

    tests = [halved(one.client_test.client(i)) if i != 3 else None for i in range(5)]
    several = Federation.from_clients(
        [halved(one.client(i)) for i in range(5)], test=halved(one.test), classes=3, client_test=tests
    )
    settings = EvaluationSettings("f1", finetune_steps=3, max_examples=20)
    expected, _ = run("fedavg", one, network(), evaluation=settings, engine=engine)
    found, _ = run("fedavg", several, Sum(), evaluation=settings, engine=engine)
    for name in ("test_f1", "test_loss", "personal_accuracy", "client_accuracy", "test_f1_p50"):
        assert found.history[name] == expected.history[name]
