"""Names, defaults and allowed values of every algorithm, and the form in which it is written."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import math
import tokenize

import pytest

from driftless import ALGORITHMS, AdaptiveClipping, Algorithm, InputError, LocalTraining, simulate
from driftless.algorithms import AdaBest, FedAvg, FedSGD

from .problems import COHORTS, assert_close, regression, run_with_result

POSITIVE, NOT_NEGATIVE, FRACTION, DECAY = "(0, inf)", "[0, inf)", "[0, 1]", "[0, 1)"
COUNT, SWITCH = "at least 1", "True, False"

OPTIMIZER = {
    "optimizer": ("sgdm", ("rmsprop", "sgdm", "adam")),
    "beta": (0.9, DECAY),
    "beta2": (0.99, DECAY),
    "eps": (1e-3, POSITIVE),
}
ADAM = {"server_lr": (0.01, POSITIVE), "beta1": (0.9, DECAY), "beta2": (0.99, DECAY), "eps": (1e-3, POSITIVE)}
SERVER_LR = {"server_lr": (1.0, POSITIVE)}
MIME_MOMENTUM = {"beta": (0.9, DECAY), **SERVER_LR, "form": ("heavy-ball", ("heavy-ball", "ema"))}

# name: class, weighting, {hyper-parameter: (default, allowed)}
TABLE: dict[str, tuple[str, str, dict[str, tuple[object, object]]]] = {
    "fedavg": ("FedAvg", "examples", SERVER_LR),
    "fedsgd": ("FedSGD", "examples", SERVER_LR),
    "fedavgm": ("FedAvgM", "examples", {**SERVER_LR, "momentum": (0.9, DECAY)}),
    "fedadagrad": ("FedAdagrad", "examples", {"server_lr": (0.1, POSITIVE), "eps": (1e-3, POSITIVE)}),
    "fedadam": ("FedAdam", "examples", {**ADAM, "bias_correction": ("keras", ("keras", "torch", "none"))}),
    "fedyogi": ("FedYogi", "examples", ADAM),
    "fedlars": (
        "FedLars", "examples",
        {"server_lr": (0.01, POSITIVE), "momentum": (0.9, DECAY), "eps": (1e-3, POSITIVE)},
    ),
    "fedlamb": ("FedLamb", "examples", ADAM),
    "normalized-fedavg": ("NormalizedFedAvg", "examples", SERVER_LR),
    "fedprox": ("FedProx", "uniform", {"mu": (0.01, NOT_NEGATIVE), **SERVER_LR}),
    "scaffold": (
        "Scaffold", "uniform",
        {**SERVER_LR, "option": (2, (1, 2)), "size_adaptive": (False, SWITCH)},
    ),
    "scaffold-slim": ("ScaffoldSlim", "uniform", {"retention": ("exact", ("exact", "paper"))}),
    "feddyn": ("FedDyn", "uniform", {"mu": (0.02, NOT_NEGATIVE), "size_adaptive": (False, SWITCH)}),
    "adabest": (
        "AdaBest", "uniform",
        {"mu": (0.02, NOT_NEGATIVE), "beta": (0.96, FRACTION), "size_adaptive": (True, SWITCH)},
    ),
    "fedgbo": ("FedGBO", "uniform", OPTIMIZER),
    "mimelite": ("MimeLite", "uniform", OPTIMIZER),
    "mime": ("Mime", "uniform", OPTIMIZER),
    "mfl": ("MFL", "uniform", OPTIMIZER),
    "adaptive-fedopt": ("AdaptiveFedOpt", "uniform", {**SERVER_LR, **OPTIMIZER}),
    "fedcm": ("FedCM", "uniform", {"alpha": (0.1, FRACTION), **SERVER_LR}),
    "fedadc": ("FedADC", "uniform", {"beta_local": (0.9, DECAY), "beta_global": (0.9, DECAY), **SERVER_LR}),
    "ghbm": (
        "GHBM", "uniform",
        {"beta": (0.9, NOT_NEGATIVE), "tau": (10, COUNT), **SERVER_LR, "start": ("zero", ("zero", "clamp"))},
    ),
    "localghbm": ("LocalGHBM", "uniform", {"beta": (0.9, NOT_NEGATIVE), **SERVER_LR}),
    "fedhbm": ("FedHBM", "uniform", {"beta": (1.0, NOT_NEGATIVE), **SERVER_LR}),
    "mimemom": ("MimeMom", "uniform", MIME_MOMENTUM),
    "mimelitemom": ("MimeLiteMom", "uniform", MIME_MOMENTUM),
    "scaffold-momentum": ("ScaffoldMomentum", "uniform", {"beta": (0.1, FRACTION), **SERVER_LR}),
    "server-ghbm": ("ServerGHBM", "uniform", {"beta": (0.9, NOT_NEGATIVE), "tau": (10, COUNT), **SERVER_LR}),
    "ghbm-theory": ("GHBMTheory", "uniform", {"beta": (0.1, FRACTION), "tau": (10, COUNT)}),
}  # fmt: skip

# Options of ours that no paper specifies; their defaults switch them off.
OFF_BY_DEFAULT = {"adabest": {"beta_decay": 1.0, "plateau_rounds": 0}}

# allowed: values just outside, values just inside
BOUNDS: dict[object, tuple[list, list]] = {
    POSITIVE: ([0, -0.1, math.inf, math.nan, "fast"], [1e-9, 10.0]),
    NOT_NEGATIVE: ([-0.1, math.inf, math.nan, None], [0.0, 10.0]),
    FRACTION: ([-0.1, 1.001, math.nan, "half"], [0.0, 1.0]),
    DECAY: ([-0.1, 1.0, math.nan, None], [0.0, 0.999]),
    COUNT: ([0, -1, 2.5, "ten", True], [1, 100]),
    SWITCH: (["no", 2, None], [True, False]),
}
CLASSES: dict[str, type[Algorithm]] = {**ALGORITHMS, "clipping": AdaptiveClipping}


def outside(allowed) -> list:
    return ["nonsense", 0, None] if isinstance(allowed, tuple) else BOUNDS[allowed][0]


def inside(allowed) -> list:
    return list(allowed) if isinstance(allowed, tuple) else BOUNDS[allowed][1]


def test_the_algorithms_are_the_29_of_the_specification():
    assert set(ALGORITHMS) == set(TABLE)
    assert len(TABLE) == 29
    assert len(set(ALGORITHMS.values())) == 29


@pytest.mark.parametrize("name", TABLE)
def test_names_and_defaults_are_those_of_the_specification(name):
    class_name, _, hyper = TABLE[name]
    assert ALGORITHMS[name].__name__ == class_name
    defaults = {parameter: default for parameter, (default, _) in hyper.items()}
    fields = {field.name: field.default for field in dataclasses.fields(ALGORITHMS[name])}
    assert fields == defaults | OFF_BY_DEFAULT.get(name, {})
    assert list(fields)[: len(defaults)] == list(defaults), "in the order of the specification, as they are positional"


@pytest.mark.parametrize("name", TABLE)
def test_the_default_weighting_is_that_of_the_paper(name):
    assert ALGORITHMS[name]().weighting == TABLE[name][1]
    assert AdaptiveClipping(ALGORITHMS[name]()).weighting == TABLE[name][1]


def test_the_defaults_of_adaptive_clipping_are_those_of_the_specification():
    fields = {field.name: field.default for field in dataclasses.fields(AdaptiveClipping)}
    assert fields == {"inner": dataclasses.MISSING, "quantile": 0.8, "lr": 0.2, "initial": 1.0}


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        (name, parameter, value)
        for name, (_, _, hyper) in TABLE.items()
        for parameter, (_, allowed) in hyper.items()
        for value in outside(allowed)
    ],
)
def test_a_value_out_of_range_is_refused_with_its_name_the_value_and_what_is_allowed(name, parameter, value):
    allowed = TABLE[name][2][parameter][1]
    with pytest.raises(InputError) as error:
        ALGORITHMS[name](**{parameter: value})
    message = str(error.value)
    assert parameter in message
    assert TABLE[name][0] in message, "a run may have several algorithms"
    assert f"got {value!r}" in message
    assert (", ".join(map(repr, allowed)) if isinstance(allowed, tuple) else allowed) in message


@pytest.mark.parametrize("name", TABLE)
def test_the_ends_of_every_range_that_belong_to_it_are_accepted(name):
    for parameter, (_, allowed) in TABLE[name][2].items():
        for value in inside(allowed):
            assert getattr(ALGORITHMS[name](**{parameter: value}), parameter) == value


@pytest.mark.parametrize(
    ("parameter", "value", "allowed"),
    [("quantile", 1.1, "[0, 1]"), ("quantile", -0.1, "[0, 1]"), ("lr", 0.0, "(0, inf)"), ("initial", 0.0, "(0, inf)")],
)
def test_adaptive_clipping_refuses_values_out_of_range(parameter, value, allowed):
    with pytest.raises(InputError) as error:
        AdaptiveClipping(FedAvg(), **{parameter: value})
    assert all(part in str(error.value) for part in (parameter, f"got {value!r}", allowed))


@pytest.mark.parametrize(
    ("local", "given"),
    [
        ({"lr": 0.1, "steps": 1, "batch_size": None}, "local.lr=0.1"),
        ({"lr": 1.0, "steps": 2, "batch_size": None}, "local.steps=2"),
        ({"lr": 1.0, "epochs": 2}, "local.epochs=2"),
        ({"lr": 1.0, "steps": 1, "batch_size": 4}, "local.batch_size=4"),
        ({"lr": 1.0, "steps": 1}, "local.batch_size=10"),
        ({"lr": 1.0, "steps": 1, "batch_size": None, "lr_decay": 0.9}, "local.lr_decay=0.9"),
    ],
)
def test_fedsgd_reports_which_local_training_it_needs(local, given):
    bench = regression()
    with pytest.raises(InputError) as error:
        simulate(FedSGD(), bench.federation, bench.module, rounds=1, cohort=2, local=LocalTraining(**local))
    message = str(error.value)
    assert given in message.split("got")[1]
    assert all(part in message for part in ("local.steps=1", "local.batch_size=None", "local.lr=1.0"))


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_adabest_and_feddyn_are_evaluated_at_the_aggregate_and_all_others_at_the_cloud_model(name, clipped):
    algorithm = ALGORITHMS[name](**({"server_lr": 0.2} if "server_lr" in TABLE[name][2] else {}))
    algorithm = AdaptiveClipping(algorithm, initial=0.3) if clipped else algorithm
    lr, steps = (1.0, 1) if name == "fedsgd" else (0.05, 2)
    local = LocalTraining(lr=lr, steps=steps, batch_size=None)
    records, result = run_with_result(algorithm, regression(), cohort=COHORTS[:3], local=local)
    expected = records[-1].aggregate if name in ("adabest", "feddyn") else records[-1].x
    assert_close(result.inference, expected)
    assert_close(result.x, records[-1].x, 0)
    if name in ("adabest", "feddyn") or "server_lr" in TABLE[name][2]:
        assert float((records[-1].aggregate - records[-1].x).abs().max()) > 1e-3, "the two must differ to be told apart"


@pytest.mark.parametrize(
    ("parameter", "value", "allowed"),
    [("beta_decay", 1.1, "[0, 1]"), ("beta_decay", -0.1, "[0, 1]"), ("plateau_rounds", -1, "at least 0")],
)
def test_the_plateau_option_of_adabest_refuses_values_out_of_range(parameter, value, allowed):
    with pytest.raises(InputError) as error:
        AdaBest(**{parameter: value})
    assert all(part in str(error.value) for part in (parameter, f"got {value!r}", allowed))


def test_the_plateau_option_of_adabest_decays_beta_when_the_norm_of_h_has_not_fallen_for_some_rounds():
    bench = regression()
    records, _ = run_with_result(AdaBest(beta=0.9, beta_decay=0.5, plateau_rounds=2), bench)
    beta, lowest, since, x_bar, betas = 0.9, math.inf, 0, bench.x0, []
    for record in records:
        assert_close(record.server.h, beta * (x_bar - record.aggregate))
        norm = float(record.server.h.norm())
        since = 0 if norm < lowest else since + 1
        lowest, x_bar = min(lowest, norm), record.aggregate
        if since == 2:
            beta, since = 0.5 * beta, 0
        betas.append(beta)
    assert len(set(betas)) > 1, "a plateau must have been met"


# The form of the files


def code_lines(source: str) -> int:
    """Lines that hold code: neither blank, nor comment, nor docstring."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    layout = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
        tokenize.ENCODING,
    }  # fmt: skip
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in layout:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def test_code_lines_are_counted_without_blanks_comments_and_docstrings():
    source = """class A:
    '''Two
    lines.'''

    # why
    x = 1  # what

    def f(self):
        return (
            1
        )
"""
    assert code_lines(source) == 6


@pytest.mark.parametrize("name", CLASSES)
def test_an_algorithm_has_at_most_sixty_lines_of_code(name):
    assert code_lines(inspect.getsource(CLASSES[name])) <= 60
