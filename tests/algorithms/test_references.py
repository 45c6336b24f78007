"""Every algorithm and its variants against the independent references in `tests/reference`.

Eight rounds of linear regression with unbalanced clients, cohorts of one to all clients and two layers. The local
gradients do not depend on the order of a client's examples: either every step uses the full local batch, or all
examples of a client are the same, which makes minibatches full gradients while larger clients take more steps.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
import torch

from driftless import ALGORITHMS, AdaptiveClipping, LocalTraining
from reference.algorithms import REFERENCES, Problem

from .problems import COHORTS, LR, Bench, Dot, Federation, assert_close, run_with_result

SIZES = (3, 11, 6, 11, 3, 6, 11)  # few shapes, as those of the cohorts
START = np.linspace(-1.0, 1.5, 6)
OPTIMIZERS = ("rmsprop", "sgdm", "adam")
ENGINES = {"single": {"engine": "single"}, "block": {"engine": "block", "block_size": 2}}


class Setting(NamedTuple):
    """How clients train, how they are averaged, and who computes it."""

    weighting: str | None
    engine: str
    identical_examples: bool = False
    weight_decay: float = 0.0
    lr_decay: float = 1.0

    @property
    def local(self) -> LocalTraining:
        size = {"batch_size": 3, "epochs": 1} if self.identical_examples else {"batch_size": None, "steps": 3}
        return LocalTraining(lr=LR, weight_decay=self.weight_decay, lr_decay=self.lr_decay, **size)

    def steps(self, t: int, i: int) -> int:
        return -(-SIZES[i] // 3) if self.identical_examples else 3


# Any two of (equal or unequal steps, weighting, engine) occur in all combinations.
SETTINGS = {
    "equal steps, by examples": Setting("examples", "single"),
    "equal steps, uniform, decays": Setting("uniform", "block", weight_decay=0.1, lr_decay=0.9),
    "unequal steps, by examples, decays": Setting("examples", "block", True, weight_decay=0.1, lr_decay=0.9),
    "unequal steps, uniform": Setting("uniform", "single", True),
}

# name of the algorithm, hyper-parameters
CASES: list[tuple[str, dict]] = [
    ("fedavg", {"server_lr": 0.7}),
    ("fedsgd", {"server_lr": 0.2}),
    ("fedavgm", {"server_lr": 0.7, "momentum": 0.8}),
    ("fedadagrad", {"server_lr": 0.2, "eps": 0.01}),
    *[
        ("fedadam", {"server_lr": 0.05, "beta1": 0.8, "beta2": 0.95, "bias_correction": correction})
        for correction in ("keras", "torch", "none")
    ],
    ("fedyogi", {"server_lr": 0.05, "beta1": 0.8, "beta2": 0.9, "eps": 0.01}),
    ("fedlars", {"server_lr": 0.05, "momentum": 0.8, "eps": 0.01}),
    ("fedlamb", {"server_lr": 0.05, "beta1": 0.8, "beta2": 0.95, "eps": 0.01}),
    ("normalized-fedavg", {"server_lr": 0.3}),
    ("fedprox", {"mu": 0.5, "server_lr": 0.7}),
    *[
        ("scaffold", {"server_lr": 0.7, "option": option, "size_adaptive": adaptive})
        for adaptive in (False, True)
        for option in (1, 2)
    ],
    *[("scaffold-slim", {"retention": retention}) for retention in ("exact", "paper")],
    *[("feddyn", {"mu": 0.3, "size_adaptive": adaptive}) for adaptive in (False, True)],
    *[("adabest", {"mu": 0.3, "beta": 0.7, "size_adaptive": adaptive}) for adaptive in (True, False)],
    *[
        (name, {"optimizer": optimizer, "beta": 0.8, "beta2": 0.9, "eps": 0.01})
        for name in ("fedgbo", "mimelite", "mime", "mfl")
        for optimizer in OPTIMIZERS
    ],
    *[
        ("adaptive-fedopt", {"server_lr": 0.7, "optimizer": optimizer, "beta": 0.8, "beta2": 0.9, "eps": 0.01})
        for optimizer in OPTIMIZERS
    ],
    ("fedcm", {"alpha": 0.3, "server_lr": 0.7}),
    ("fedadc", {"beta_local": 0.6, "beta_global": 0.8, "server_lr": 0.7}),
    ("fedadc", {"beta_local": 0.7, "beta_global": 0.4, "server_lr": 0.9}),
    *[
        ("ghbm", {"beta": 0.8, "tau": tau, "server_lr": 0.7, "start": start})
        for tau in (2, 3)
        for start in ("zero", "clamp")
    ],
    ("localghbm", {"beta": 0.8, "server_lr": 0.7}),
    ("fedhbm", {"beta": 0.8, "server_lr": 0.7}),
    *[
        (name, {"beta": 0.7, "server_lr": 0.7, "form": form})
        for name in ("mimemom", "mimelitemom")
        for form in ("heavy-ball", "ema")
    ],
    ("scaffold-momentum", {"beta": 0.3, "server_lr": 0.7}),
    *[("server-ghbm", {"beta": 0.8, "tau": tau, "server_lr": 0.7}) for tau in (2, 3)],
    *[("ghbm-theory", {"beta": 0.3, "tau": tau}) for tau in (2, 3)],
]  # fmt: skip

FIRST = dict(reversed(CASES))
"""Of each algorithm the first case, which runs in all settings; the others run where most is different."""
COMPARED = [
    (name, hyper, setting)
    for name, hyper in CASES
    for setting in SETTINGS
    if hyper is FIRST[name] or SETTINGS[setting].lr_decay != 1
]

# fields of our server state: the reference's name of the same thing
SERVER_FIELDS = {"m": "m", "v": "v", "h": "h", "c": "c", "rho": "rho", "mean_examples": "r"}
CLIENT_FIELDS = {"c": "c_i", "h": "h_i"}
# what must have been compared, so that nothing is left out because of a name
EXPECTED_STATE = {
    "fedavgm": {"m"}, "fedadagrad": {"v"}, "fedadam": {"m", "v"}, "fedyogi": {"m", "v"}, "fedlars": {"m"},
    "fedlamb": {"m", "v"}, "scaffold": {"c"}, "scaffold-slim": {"h"}, "feddyn": {"h", "mean_examples"},
    "adabest": {"h", "mean_examples"}, "fedcm": {"m"}, "fedadc": {"m"}, "mimemom": {"m"}, "mimelitemom": {"m"},
    "scaffold-momentum": {"c", "v"}, "ghbm-theory": {"m"},
    **{name: {"m", "v"} for name in ("fedgbo", "mimelite", "mime", "mfl", "adaptive-fedopt")},
}  # fmt: skip
CLIPPED_AGAIN = ("fedavg", "fedadam", "scaffold", "feddyn", "adabest", "fedcm")
USED_STATISTICS = {"rmsprop": {"v"}, "sgdm": {"m"}, "adam": {"m", "v"}}


@cache
def data(identical_examples: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(7)
    clients = []
    for n in SIZES:
        features = rng.normal(size=(n, 6)) * rng.uniform(0.5, 1.3, size=6)
        targets = features @ rng.normal(size=6) + rng.normal(size=n)
        if identical_examples:
            features, targets = np.repeat(features[:1], n, axis=0), np.repeat(targets[:1], n)
        clients.append((features, targets))
    return clients


def refer(name: str, hyper: dict, setting: Setting, clip: dict | None = None, cohorts=COHORTS) -> list[dict]:
    layers = [slice(0, 4), slice(4, 6)]
    problem = Problem(data(setting.identical_examples), layers, weight_decay=setting.weight_decay)
    weighting = {} if setting.weighting is None else {"weighting": setting.weighting}

    def lr(t: int) -> float:
        return LR * setting.lr_decay ** (t - 1)

    return REFERENCES[name](problem, START, cohorts, setting.steps, lr, clip=clip, **weighting, **hyper)


def ours(name: str, hyper: dict, setting: Setting, clip: dict | None = None):
    algorithm = ALGORITHMS[name](**hyper)
    local = setting.local
    if name == "fedsgd":
        local = LocalTraining(lr=1.0, steps=1, weight_decay=setting.weight_decay, batch_size=None)
    if clip is not None:
        algorithm = AdaptiveClipping(algorithm, **clip)
    bench = Bench(Federation.from_clients(data(setting.identical_examples)), Dot(START, [4, 2]))
    return run_with_result(algorithm, bench, local=local, weighting=setting.weighting, **ENGINES[setting.engine])


def numbers(state, into=None) -> dict[str, torch.Tensor]:
    """The fields of nested NamedTuples that hold one tensor, by their own names; those of no use are empty."""
    into = {} if into is None else into
    for name, value in state._asdict().items():
        if hasattr(value, "_asdict"):
            numbers(value, into)
        elif isinstance(value, torch.Tensor) and value.numel():
            into[name] = value
    return into


def compare(name: str, hyper: dict, setting: Setting, clip: dict | None = None) -> None:
    expected = refer(name, hyper, setting, clip)
    records, result = ours(name, hyper, setting, clip)
    compared: set[str] = set()
    for record, reference in zip(records, expected, strict=True):
        assert_close(record.x, reference["x"])
        assert_close(record.aggregate, reference["aggregate"])
        for field, value in numbers(record.server).items():
            if field in SERVER_FIELDS and SERVER_FIELDS[field] in reference:
                assert_close(value, reference[SERVER_FIELDS[field]])
                compared.add(field)
    wanted = EXPECTED_STATE.get(name, set())
    if "optimizer" in hyper:
        wanted = USED_STATISTICS[hyper["optimizer"]]
    elif wanted == {"m", "v"} and "optimizer" in ALGORITHMS[name].__dataclass_fields__:
        wanted = USED_STATISTICS["sgdm"]
    assert compared == wanted | ({"rho"} if clip else set())
    compare_clients(name, hyper, result, expected[-1])


def compare_clients(name: str, hyper: dict, result, last: dict) -> None:
    """What the clients keep after the last round. The size-adaptive AdaBest may keep mu inside h_i or outside."""
    initial = ALGORITHMS[name](**hyper).init_client(result.x)
    for field in getattr(initial, "_fields", ()):
        if field in CLIENT_FIELDS and CLIENT_FIELDS[field] in last:
            kept = getattr(result.state.clients.get(range(len(SIZES)), initial), field)
            wanted = torch.from_numpy(last[CLIENT_FIELDS[field]])
            if name == "adabest" and hyper.get("size_adaptive", True):
                mu = hyper.get("mu", 0.02)
                assert torch.allclose(kept, mu * wanted, 0, 1e-10) or torch.allclose(kept, wanted, 0, 1e-10)
            else:
                assert_close(kept, wanted)


def label(value) -> str:
    if isinstance(value, dict):
        return ",".join(f"{k}={v}" for k, v in value.items()) or "defaults"
    return str(value)


def test_there_is_exactly_one_reference_for_every_algorithm():
    assert set(REFERENCES) == set(ALGORITHMS)
    assert len(ALGORITHMS) == 29


def test_every_algorithm_is_among_the_cases():
    assert {name for name, _ in CASES} == set(ALGORITHMS)


@pytest.mark.parametrize(("name", "hyper", "setting"), COMPARED, ids=label)
def test_the_trajectory_and_the_server_state_are_those_of_the_reference(name, hyper, setting):
    compare(name, hyper, SETTINGS[setting])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_with_all_defaults_the_trajectory_is_that_of_the_reference(name):
    hyper = {"server_lr": 0.2} if name == "fedsgd" else {}  # FedSGD takes gradient steps of length server_lr
    compare(name, hyper, Setting(None, "block"))


@pytest.mark.parametrize(
    ("name", "setting"),
    [(name, "equal steps, by examples") for name in ALGORITHMS]
    + [(name, "unequal steps, by examples, decays") for name in CLIPPED_AGAIN],
)
def test_under_adaptive_clipping_the_trajectory_is_that_of_the_reference(name, setting):
    hyper = FIRST[name]
    clip = {"quantile": 0.6, "lr": 0.3, "initial": norm_that_clips_one_of_two(name, hyper, SETTINGS[setting])}
    compare(name, hyper, SETTINGS[setting], clip)


def norm_that_clips_one_of_two(name: str, hyper: dict, setting: Setting) -> float:
    """A norm between those of the two clients of the first round: half of them stay below it, and rho falls less."""
    assert len(COHORTS[0]) == 2
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = np.sqrt(low * high)
        after = refer(name, hyper, setting, {"quantile": 0.0, "lr": 1.0, "initial": middle}, COHORTS[:1])[0]["rho"]
        below = -np.log(after / middle)
        if abs(below - 0.5) < 0.01:
            return float(middle)
        low, high = (middle, high) if below < 0.5 else (low, middle)
    raise AssertionError("the two clients move equally far")


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_two_cases_take_the_same_path(setting):
    """So that every hyper-parameter that a case sets is seen in its trajectory."""
    paths = [np.array([record["x"] for record in refer(name, hyper, SETTINGS[setting])]) for name, hyper in CASES]
    for (case, path), (other, other_path) in combinations(zip(CASES, paths, strict=True), 2):
        assert np.abs(path - other_path).max() > 1e-5, f"{case} and {other}"


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_where_all_gradients_are_zero_nothing_moves(name, clipped):
    """No division by the norm of nothing. Whole numbers make the residuals exactly zero."""
    start = np.array([2.0, -1.0, 3.0, 0.0, 0.0, 0.0])  # the second layer is zero
    rng = np.random.default_rng(0)
    features = [rng.integers(-3, 4, size=(n, 6)).astype(float) for n in (2, 3, 4)]
    bench = Bench(Federation.from_clients([(z, z @ start) for z in features]), Dot(start, [3, 3]))
    algorithm = ALGORITHMS[name]()
    local = LocalTraining(**({"lr": 1.0, "steps": 1} if name == "fedsgd" else {"lr": 0.1, "steps": 2}), batch_size=None)
    algorithm = AdaptiveClipping(algorithm) if clipped else algorithm
    records, _ = run_with_result(algorithm, bench, cohort=[[0, 1], [1, 2], [0, 1]], local=local)
    for record in records:
        assert_close(record.x, start, 0)
        assert_close(record.aggregate, start, 0)


@pytest.mark.parametrize("name", ["fedlars", "fedlamb"])
def test_a_layer_that_is_zero_or_never_moves_has_the_trust_ratio_one(name):
    start = np.array([1.0, -2.0, 0.0, 0.0, 0.5, 1.5])
    rng = np.random.default_rng(1)
    clients = [(rng.normal(size=(n, 6)), rng.normal(size=n)) for n in (3, 5)]
    for features, _ in clients:
        features[:, 4:] = 0.0  # no gradient in the third layer
    cohorts = [[0, 1], [1], [0, 1]]
    layers = [slice(0, 2), slice(2, 4), slice(4, 6)]
    expected = REFERENCES[name](Problem(clients, layers), start, cohorts, 2, 0.1, server_lr=0.3)
    bench = Bench(Federation.from_clients(clients), Dot(start, 2))
    records, _ = run_with_result(
        ALGORITHMS[name](server_lr=0.3), bench, cohort=cohorts, local=LocalTraining(lr=0.1, steps=2, batch_size=None)
    )
    for record, reference in zip(records, expected, strict=True):
        assert_close(record.x, reference["x"])
        assert_close(record.x[4:], start[4:], 0)
        assert float(record.x[2:4].abs().min()) > 0
