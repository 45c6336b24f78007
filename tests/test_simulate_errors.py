"""Everything a user can give `simulate` that does not fit: refused before any work, with a message that helps.

A message has three parts: what was given, what is allowed, what to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from driftless import (
    AdaptiveClipping,
    Federation,
    InputError,
    LocalTraining,
    Result,
    ServerSchedule,
    simulate,
)
from driftless.algorithms import (
    GHBM,
    AdaBest,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedCM,
    FedDyn,
    FedGBO,
    FedLamb,
    FedProx,
    FedSGD,
    MimeMom,
    Scaffold,
    ScaffoldSlim,
)
from driftless.data import Cyclic, Doubling
from driftless.models import MODELS


def regression() -> Federation:
    generator = torch.Generator().manual_seed(0)
    clients = [(torch.randn(n, 3, generator=generator), torch.randn(n, generator=generator)) for n in (3, 5, 4, 6)]
    return Federation.from_clients(clients, test=clients[0])


def labels() -> Federation:
    clients = [(torch.ones(n, 3), torch.arange(n) % 3) for n in (3, 5, 4, 6)]
    return Federation.from_clients(clients, test=clients[0])


def linear(outputs: int = 1) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)) if outputs == 1 else nn.Linear(3, outputs)


class Untouched(nn.Module):
    """Counts the forward passes in training mode: work that must not have been done."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = linear()

    def forward(self, inputs: Tensor) -> Tensor:
        assert not self.training, "the model was trained before the input was checked"
        return self.inner(inputs)


def run(**options: Any) -> Result:
    defaults: dict[str, Any] = {
        "algorithm": "fedavg",
        "federation": regression(),
        "model": linear(),
        "rounds": 2,
        "cohort": 2,
        "local": LocalTraining(lr=0.1, batch_size=2, epochs=1),
    }
    return simulate(**{**defaults, **options})


def refused(*parts: str, **options: Any) -> None:
    """The run is refused with a message of these parts, and no round was played."""
    rounds: list[object] = []
    options.setdefault("model", Untouched())
    with pytest.raises(InputError) as error:
        run(**options, on_round=rounds.append)
    message = str(error.value)
    assert [part for part in parts if part not in message] == [], message
    assert rounds == []


def test_the_run_that_the_other_tests_spoil_is_fine():
    assert len(run().history) == 2
    with pytest.raises(InputError, match="trained before"):
        run(model=Untouched())


# --- the algorithm


@pytest.mark.parametrize(
    ("given", "meant"),
    [("scafold", "scaffold"), ("FedAvg", "fedavg"), ("fed-adam", "fedadam"), ("ada_best", "adabest")],
)
def test_a_misspelt_algorithm_is_answered_with_the_nearest_name(given: str, meant: str):
    refused(f"unknown algorithm '{given}'", f"did you mean '{meant}'?", "Allowed: ", "fedavg, ", algorithm=given)


def test_an_algorithm_like_no_other_is_answered_with_the_list():
    refused("unknown algorithm 'xyzzy'", "Allowed: ", "scaffold", algorithm="xyzzy")


@pytest.mark.parametrize("given", [FedAvg, 3, None, {"name": "fedavg"}])
def test_an_algorithm_must_be_a_name_or_an_instance(given: object):
    refused("algorithm must be a name or an instance", repr(given), "FedAvg()", algorithm=given)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: AdaBest(beta=1.2), ("beta of AdaBest", "[0, 1]", "1.2")),
        (lambda: AdaBest(mu=-0.1), ("mu of AdaBest", "[0, inf)", "-0.1")),
        (lambda: AdaBest(plateau_rounds=-1), ("plateau_rounds of AdaBest", "at least 0", "-1")),
        (lambda: FedDyn(mu=math.nan), ("mu of FedDyn", "[0, inf)", "nan")),
        (lambda: FedProx(mu=math.inf), ("mu of FedProx", "[0, inf)", "inf")),
        (lambda: FedAvgM(momentum=1.0), ("momentum of FedAvgM", "[0, 1)", "1.0")),
        (lambda: FedAdam(beta2=1.0), ("beta2 of FedAdam", "[0, 1)", "1.0")),
        (lambda: FedAdam(bias_correction="half"), ("bias_correction of FedAdam", "'keras', 'torch', 'none'", "'half'")),
        (lambda: FedLamb(beta1=-0.5), ("beta1 of FedLamb", "[0, 1)", "-0.5")),
        (lambda: FedAvg(server_lr=0), ("server_lr of FedAvg", "(0, inf)", "0")),
        (lambda: FedAvg(server_lr="1"), ("server_lr of FedAvg", "(0, inf)", "'1'")),
        (lambda: FedCM(alpha=1.5), ("alpha of FedCM", "[0, 1]", "1.5")),
        (lambda: FedGBO(optimizer="sgd"), ("optimizer of FedGBO", "'rmsprop', 'sgdm', 'adam'", "'sgd'")),
        (lambda: FedGBO(beta=True), ("beta of FedGBO", "[0, 1)", "True")),
        (lambda: GHBM(tau=0), ("tau of GHBM", "at least 1", "0")),
        (lambda: GHBM(tau=2.0), ("tau of GHBM", "whole number", "2.0")),
        (lambda: GHBM(start="one"), ("start of GHBM", "'zero', 'clamp'", "'one'")),
        (lambda: MimeMom(beta=1.0), ("beta of MimeMom", "[0, 1)", "1.0")),
        (lambda: Scaffold(option=3), ("option of Scaffold", "1, 2", "3")),
        (lambda: ScaffoldSlim(retention="all"), ("retention of ScaffoldSlim", "'exact', 'paper'", "'all'")),
        (lambda: AdaptiveClipping(FedAvg(), quantile=1.1), ("quantile of AdaptiveClipping", "[0, 1]", "1.1")),
        (lambda: AdaptiveClipping(FedAvg(), initial=0.0), ("initial of AdaptiveClipping", "(0, inf)", "0.0")),
    ],
)
def test_a_hyper_parameter_out_of_range_is_named_with_its_range(make: Callable[[], object], parts: tuple[str, ...]):
    with pytest.raises(InputError) as error:
        make()
    assert [part for part in parts if part not in str(error.value)] == [], str(error.value)


@pytest.mark.parametrize("inner", ["fedavg", FedAvg, None])
def test_clipping_wraps_an_instance_and_nothing_else(inner: object):
    with pytest.raises(InputError) as error:
        AdaptiveClipping(inner)
    for part in ("inner of AdaptiveClipping", "FedAvg()", f"got {inner!r}"):
        assert part in str(error.value)


# --- the model


def test_a_misspelt_model_is_answered_with_the_nearest_name():
    refused("unknown model 'lineer'", "did you mean 'linear'?", f"Allowed: {', '.join(sorted(MODELS))}", model="lineer")


def test_a_model_must_be_a_name_or_a_module():
    refused("model", "nn.Module", repr(nn.Linear), model=nn.Linear)


def test_a_named_model_that_does_not_suit_the_data_says_which_does():
    refused("'linear' predicts one number", "3 classes", "use model 'logistic'", federation=labels(), model="linear")
    refused("'mlp' needs classes", "are numbers", "use model 'linear'", model="mlp")
    refused("'cnn' needs images", "(3,)", "use model 'mlp'", federation=labels(), model="cnn")


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        (linear(2), "['batch', 2]"),
        (linear(1), "['batch']"),
        (nn.Sequential(linear(4), nn.Unflatten(1, (2, 2))), "2, 2]"),
    ],
)
def test_outputs_must_fit_labels(model: nn.Module, shown: str):
    refused(
        "output",
        shown,
        "labels below 3",
        "classes >= 3",
        "Change the model's last layer",
        federation=labels(),
        model=model,
    )


def test_outputs_must_fit_numbers():
    refused(
        "['batch', 1]",
        "numbers",
        "shape [batch] of the targets",
        "Change the model's last layer",
        model=nn.Linear(3, 1),
    )


def test_the_model_must_take_the_inputs():
    refused("inputs of shape [2, 3]", "float32", "Give a model whose forward takes", model=nn.Linear(4, 1))
    refused("inputs of shape [2, 3]", "Give a model whose forward takes", model=nn.Embedding(5, 2))


def test_the_model_must_return_one_tensor():
    class Pair(nn.Linear):
        def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
            return super().forward(inputs), inputs

    refused("must return one tensor", "tuple", "output=lambda o: o.logits", model=Pair(3, 1))
    refused("must return one tensor", "dict", "output=", model=linear(), output=lambda outputs: {"logits": outputs})


@pytest.mark.parametrize("output", ["logits", 3])
def test_output_must_be_a_function(output: object):
    refused("output must be a function", repr(output), "lambda o: o.logits", output=output)


def test_an_output_that_does_not_fit_what_the_model_returns_is_named():
    refused("output= fails", "(Tensor)", "no attribute 'logits'", output=lambda o: o.logits)


def several(**inputs: Tensor) -> Federation:
    return Federation.from_clients([(inputs, torch.arange(4) % 2)] * 2)


def test_a_model_by_name_takes_one_tensor():
    federation = several(ids=torch.ones(4, 3).long(), mask=torch.ones(4, 3))
    refused(
        "several inputs", "ids [3] int64, mask [3] float32", "give an nn.Module", federation=federation, model="mlp"
    )


def test_a_model_that_does_not_know_an_input_is_refused():
    refused("input [4, 3] float32, mask [4, 3] float32", "unexpected keyword argument 'mask'",
            federation=several(input=torch.ones(4, 3), mask=torch.ones(4, 3)), model=nn.Linear(3, 2))  # fmt: skip


def test_several_inputs_are_not_augmented():
    federation = several(image=torch.ones(4, 1, 8, 8), mask=torch.ones(4, 8))
    refused("moves images", "image [1, 8, 8] float32", federation=federation, local=LocalTraining(augment="flip"))


def test_batch_norm_is_refused_with_what_to_use_instead():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    instead = ("driftless.models.with_group_norm(module)", "call eval() on it")
    refused("'1'", "BatchNorm1d", "running statistics", *instead, federation=labels(), model=model)


def test_a_model_without_trainable_parameters_is_refused():
    refused("no trainable parameter", "requires_grad=True", model=nn.Flatten(0))


# --- the data


def test_the_federation_must_be_one():
    refused(
        "federation must be a driftless.Federation", "list", "from_clients", federation=[(torch.ones(2, 3), [0, 1])]
    )


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_inputs_that_are_not_finite_name_the_client(value: float):
    bad = torch.ones(4, 3)
    bad[2, 1] = value
    with pytest.raises(InputError, match=r"client 1 has 1 non-finite values.*inputs.*remove these examples"):
        Federation.from_clients([(torch.ones(2, 3), torch.zeros(2)), (bad, torch.zeros(4))])


def test_a_client_without_examples_is_named():
    with pytest.raises(InputError, match=r"client 1 has no examples.*leave it out"):
        Federation.from_clients([(torch.ones(2, 3), torch.zeros(2)), (torch.ones(0, 3), torch.zeros(0))])


@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_federation_with_an_empty_client_cannot_be_trained(batch_size: int | None):
    """One can be made on purpose, as the clients' own test data; training on it makes no sense."""
    empty = Federation.from_assignment(torch.ones(3, 3), torch.zeros(3), [0, 0, 2], 3, allow_empty=True)
    refused("client 1 has no examples", "leave it out", federation=empty, local=LocalTraining(batch_size=batch_size))


def test_labels_out_of_range_name_the_client_and_the_range():
    with pytest.raises(InputError, match=r"client 1 has 1 labels outside 0\.\.2.*number the classes from 0"):
        Federation.from_clients([(torch.ones(2, 3), [0, 1]), (torch.ones(2, 3), [2, 3])], classes=3)
    with pytest.raises(InputError, match=r"client 0 has 1 labels outside.*from -1 to 1"):
        Federation.from_clients([(torch.ones(2, 3), [-1, 1])])


# --- the cohort


@pytest.mark.parametrize("cohort", [5, Cyclic(5), Doubling(5, 1, 8)])
def test_a_cohort_larger_than_the_federation_says_both_sizes(cohort: object):
    refused("cohort of 5 clients", "federation of 4 clients", "at most 4", cohort=cohort)


@pytest.mark.parametrize("cohort", [0, -1, 0.0, 1.5, math.nan, True, None])
def test_a_cohort_must_be_a_number_or_a_fraction(cohort: object):
    refused("cohort must be", "integer >= 1", "float in (0, 1]", repr(cohort), "cohort=10", cohort=cohort)


@pytest.mark.parametrize(
    ("cohort", "parts"),
    [
        ([[0, 1], [0, 4]], ("round 2", "client 4", "0..3", "use these numbers")),
        ([[0, -1], [0, 1]], ("round 1", "client -1", "0..3", "use these numbers")),
        ([[0, 1], [2, 3, 2]], ("round 2", "client 2 more than once", "name each client once")),
        ([[0, 1], []], ("round 2", "is empty", "at least one client")),
        ([[0, 1]], ("1 explicit cohorts", "2 rounds", "one list of clients per round")),
        ([0, 1], ("round 1", "0", "give a list of client numbers")),
        ([["a"], [0]], ("round 1", "['a']", "give a list of client numbers")),
        ("10", ("'10'", "a number, a fraction, a schedule or lists")),
    ],
)
def test_an_explicit_cohort_that_does_not_fit_says_in_which_round(cohort: object, parts: tuple[str, ...]):
    refused(*parts, cohort=cohort)


# --- the local training


def test_epochs_and_steps_together_are_refused():
    with pytest.raises(InputError, match=r"local.epochs=2 and local.steps=3 are both given; give one"):
        LocalTraining(epochs=2, steps=3)


@pytest.mark.parametrize("given", [{"lr": 0.1}, 0.1])
def test_the_local_training_must_be_a_local_training(given: object):
    refused("local must be a driftless.LocalTraining", repr(given), "LocalTraining(lr=", local=given)


@pytest.mark.parametrize(
    ("local", "said"),
    [
        (LocalTraining(lr=0.1, steps=1, batch_size=None), "local.lr=0.1"),
        (LocalTraining(lr=1.0, steps=2, batch_size=None), "local.steps=2"),
        (LocalTraining(lr=1.0, steps=1, batch_size=2), "local.batch_size=2"),
        (LocalTraining(lr=1.0, steps=1, lr_decay=0.5, batch_size=None), "local.lr_decay=0.5"),
    ],
)
def test_fedsgd_says_what_it_is_defined_for(local: LocalTraining, said: str):
    refused("FedSGD is defined for local.steps=1", "got", said, "Set these values", algorithm=FedSGD(), local=local)
    refused("local.steps=1", "got", said, "Set these values", algorithm=AdaptiveClipping(FedSGD()), local=local)


def test_epochs_that_contradict_a_number_of_steps_are_named_as_they_were_given():
    """`local.steps=None` would not be what the user wrote."""
    refused("local.epochs=3", algorithm="fedsgd", local=LocalTraining(lr=1.0, epochs=3, batch_size=None))


def test_dropping_batches_must_leave_every_client_a_step():
    local = LocalTraining(batch_size=4, last_batch="drop")
    refused("client 0 has 3 examples", "batch_size=4", "'drop'", "'short' or 'bootstrap'", local=local)


# --- the server's learning rate


@pytest.mark.parametrize("algorithm", [FedDyn(), AdaBest(), ScaffoldSlim(), FedGBO()], ids=lambda a: type(a).__name__)
def test_scaling_needs_an_algorithm_with_a_server_lr(algorithm):
    schedule = ServerSchedule("sqrt", reference_cohort=2)
    refused(f"{type(algorithm).__name__} has no server_lr", "lr_scaling = none", algorithm=algorithm, server=schedule)


def test_scaling_needs_a_reference_cohort():
    with pytest.raises(InputError, match=r"lr_scaling='linear' needs server.reference_cohort.*e\.g\."):
        ServerSchedule("linear")


def test_the_server_schedule_must_be_one():
    refused("server must be a driftless.ServerSchedule", "sqrt", "ServerSchedule(", server={"lr_scaling": "sqrt"})


# --- the run


@pytest.mark.parametrize(
    ("name", "given", "allowed"),
    [
        ("engine", "blok", ("'auto', 'block', 'single'",)),
        ("engine", None, ("'auto', 'block', 'single'",)),
        ("weighting", "size", ("'examples', 'uniform'",)),
        ("inference", "server", ("'cloud', 'aggregate', 'clients'",)),
        ("dtype", torch.float16, ("torch.float32, torch.bfloat16, torch.float64",)),
        ("dtype", torch.int64, ("torch.float32, torch.bfloat16, torch.float64",)),
        ("rounds", 0, ("whole number", "at least 1")),
        ("rounds", -3, ("whole number", "at least 1")),
        ("rounds", 2.0, ("whole number", "at least 1")),
        ("rounds", True, ("whole number", "at least 1")),
        ("seed", -1, ("whole number", "at least 0")),
        ("seed", 0.5, ("whole number", "at least 0")),
        ("seed", None, ("whole number", "at least 0")),
        ("evaluate_every", -1, ("a whole number of at least 0",)),
        ("evaluate_every", 1.5, ("a whole number of at least 0",)),
    ],
)
def test_a_setting_out_of_range_is_named_with_what_is_allowed(name: str, given: object, allowed: tuple[str, ...]):
    refused(name, repr(given), *allowed, **{name: given})


@pytest.mark.parametrize(
    ("loss", "parts"),
    [
        ("mse", ("loss must be a function", "'mse'")),
        (lambda outputs, targets: (outputs - targets) ** 2, ("loss", "one number", "[2]", "mean")),
        (lambda outputs, targets: 3.0, ("loss", "one number", "float")),
        (lambda outputs: outputs.mean(), ("loss", "(outputs, targets)")),
        (
            lambda outputs, targets: (outputs[:, 5] - targets).mean(),
            ("loss", "outputs of shape [2]", "targets of shape"),
        ),
    ],
    ids=["a name", "a vector", "a constant", "one argument", "an index out of range"],
)
def test_a_loss_that_cannot_be_used_is_refused_before_the_first_round(loss: object, parts: tuple[str, ...]):
    refused(*parts, loss=loss)


# --- continuing a run


def test_a_state_of_another_model_names_both_sizes():
    refused("4 parameters", "31", "give the model", state=run().state, model=nn.Sequential(nn.Linear(3, 6), wide()))


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 1), nn.Flatten(0))


@pytest.mark.parametrize(
    ("of", "given"),
    [
        (FedAvg(), Scaffold()),
        (Scaffold(), FedAvg()),
        (FedAvgM(), FedCM()),
        (FedAvg(), FedProx()),
        (FedGBO(), FedGBO(optimizer="adam")),
        (GHBM(tau=2), GHBM(tau=3)),
        (FedAvg(), AdaptiveClipping(FedAvg())),
        (AdaptiveClipping(FedAvg()), AdaptiveClipping(Scaffold())),
        (AdaptiveClipping(FedAvgM()), AdaptiveClipping(FedCM())),
    ],
    ids=lambda a: type(a).__name__,
)
def test_a_state_of_another_algorithm_is_refused(of, given):
    state = run(algorithm=of).state
    refused("state", type(given).__name__, "give the algorithm it came from", algorithm=given, state=state, rounds=4)


def test_a_state_of_another_dtype_is_refused():
    refused("state", "float32", "float64", "dtype", state=run().state, dtype=torch.float64, rounds=4)


def test_a_state_that_is_already_there_says_how_rounds_are_counted():
    refused("round 2", "rounds=2", "counts from the beginning", state=run().state)
    refused("round 2", "rounds=1", "counts from the beginning", state=run().state, rounds=1)


def test_the_mean_of_all_clients_models_needs_a_state_that_has_them():
    refused("inference='clients'", "from the beginning", inference="clients", state=run().state, rounds=4)


def test_a_state_must_be_one():
    refused("state must be", "result.state", state=run(), rounds=4)
    refused("state must be", "result.state", state=np.zeros(3), rounds=4)
