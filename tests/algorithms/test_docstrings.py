"""The docstrings of the algorithm classes: their form, and that what they say is what the classes do."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
import sys
from typing import Any

import pytest
import torch
from docstrings import HEADERS, Equation, equations_of, parts_of

import driftless
from driftless import ALGORITHMS, AdaptiveClipping, Algorithm, InputError, Round, Step
from driftless.algorithms import FedAvg, FedProx
from driftless.cost import measure, vectors
from driftless.engine.tree import map_leaves

from .equations import Client, Facts, choices_in, play

CLASSES: dict[str, type[Algorithm]] = {**ALGORITHMS, "clipping": AdaptiveClipping}
for_every_class = pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
ENTRY = re.compile(r"^    (\w+): (.+?); (.+?)\.(?:\s|$)", re.MULTILINE | re.DOTALL)


def part(cls: type, header: str) -> str:
    return dict(parts_of(cls))[header]


def entries(cls: type) -> dict[str, str]:
    """The range that each entry of the hyper-parameters states."""
    return {name: " ".join(allowed.split()) for name, _, allowed in ENTRY.findall("    " + part(cls, HEADERS[2]))}


def fields_of(cls: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


# Form


@for_every_class
def test_a_docstring_has_all_parts_in_their_order(cls):
    assert [header for header, _ in parts_of(cls)] == ["", *HEADERS]
    assert all(text for _, text in parts_of(cls))


@for_every_class
def test_a_docstring_begins_with_one_sentence_on_one_line_and_has_at_most_four_lines_on_the_idea(cls):
    sentence, *rest = part(cls, "").split("\n\n")
    assert re.fullmatch(r"[A-Z][^\n]+\.", sentence)
    assert len(rest) <= 1
    assert all(len(paragraph.splitlines()) <= 4 for paragraph in rest)


@for_every_class
def test_the_papers_of_the_citation_are_those_of_the_docstring_and_of_its_file(cls):
    paper, file = part(cls, "Paper"), sys.modules[cls.__module__].__doc__ or ""
    assert re.search(r"\b(19|20)\d\d\b", paper), "the year"
    cited = re.findall(r"arXiv:\d{4}\.\d{5}", cls.citation)
    assert cited
    assert all(identifier in paper for identifier in cited)
    assert cited[0] in file
    assert len(file.splitlines()) == 1


@for_every_class
def test_every_hyper_parameter_has_an_entry_and_no_entry_is_left_over(cls):
    assert re.findall(r"^    (\w+):", "    " + part(cls, HEADERS[2]), re.MULTILINE) == list(entries(cls))
    assert sorted(entries(cls)) == sorted(fields_of(cls))


@for_every_class
def test_conditions_of_equations_name_hyper_parameters_and_values_that_they_accept(cls):
    for name, texts in choices_in(equations_of(cls)).items():
        for text in texts:
            assert str(getattr(cls(**{name: literal(text)}), name)) == text


def literal(text: str) -> object:
    """2 and True are values, adam is a word."""
    try:
        return ast.literal_eval(text)
    except ValueError:
        return text


# Hyper-parameters

RANGES: dict[str, tuple[list, list]] = {  # accepted, refused
    "greater than 0": ([1e-9, 10.0], [0.0]),
    "0 or more": ([0.0, 10.0], [-0.1]),
    "0 to 1": ([0.0, 1.0], [-0.1, 1.001]),
    "from 0 to below 1": ([0.0, 0.999], [-0.1, 1.0]),
    "a whole number, 1 or more": ([1, 100], [0, 1.5]),
    "a whole number, 0 or more": ([0, 100], [-1, 1.5]),
    "True or False": ([True, False], ["yes"]),
    "1 or 2": ([1, 2], [0, 3]),
    "any algorithm, such as FedAvg()": ([FedAvg()], ["fedavg"]),
}


def accepted_and_refused(allowed: str) -> tuple[list, list]:
    words = re.findall(r'"([^"]+)"', allowed)
    return (words, ["nonsense"]) if words else RANGES[allowed]


@for_every_class
def test_the_stated_range_of_a_hyper_parameter_is_the_one_that_is_checked(cls):
    given = {"inner": FedProx()} if cls is AdaptiveClipping else {}
    for name, allowed in entries(cls).items():
        accepted, refused = accepted_and_refused(allowed)
        for value in accepted:
            cls(**{**given, name: value})
        for value in refused:
            with pytest.raises(InputError):
                cls(**{**given, name: value})


# Vectors


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_stated_vectors_are_those_that_are_sent_and_kept(name):
    stated = part(ALGORITHMS[name], "Vectors")
    amounts = re.match(r"(\d) down, (\d) up, (\d|none) kept by the client\.", stated)
    assert amounts
    numbers = tuple(int(amount.replace("none", "0")) for amount in amounts.groups())
    assert numbers == vectors(ALGORITHMS[name]())[:3]


@pytest.mark.parametrize("name", ["fedgbo", "mimelite", "mime", "mfl"])
def test_the_stated_vectors_with_adam_are_those_that_are_sent(name):
    stated = part(ALGORITHMS[name], "Vectors")
    down, up = re.findall(r"(\d) down(?: and (\d) up)? with Adam\.", stated)[0]
    measured = vectors(ALGORITHMS[name](optimizer="adam"))
    assert (int(down), int(up or vectors(ALGORITHMS[name]()).up)) == measured[:2]


def test_adaptive_clipping_sends_and_keeps_the_inner_algorithms_vectors_and_one_number_down_and_up():
    assert part(AdaptiveClipping, "Vectors") == "those of the inner algorithm, and one number down and up."
    for cls in ALGORITHMS.values():
        plain, clipped = measure(cls(), 100), measure(AdaptiveClipping(cls()), 100)
        assert clipped.vectors == plain.vectors
        more = [a - b for a, b in zip(clipped.bytes[:3], plain.bytes[:3], strict=True)]
        assert more == [4, 4, 0]


# Equations: rounds are played by them alone, and by the class

SIZES, STEPS, LR = (3, 10, 4, 5), (1, 3, 2, 2), 0.1
COHORTS = [[0, 1], [1, 2], [0, 2, 3], [1], [0, 1, 2, 3], [1, 3]]
LAYERS = (slice(0, 4), slice(4, 5), slice(5, 8))


def random_facts() -> Facts:
    generator = torch.Generator().manual_seed(11)

    def vector() -> torch.Tensor:
        return torch.randn(8, generator=generator, dtype=torch.float64)

    def client(i: int) -> Client:
        return Client(i, SIZES[i], vector().abs(), vector(), [vector() for _ in range(STEPS[i])])

    return Facts(vector(), LAYERS, len(SIZES), LR, [[client(i) for i in cohort] for cohort in COHORTS])


FACTS = random_facts()


def round_of(cls: type[Algorithm]) -> list[Equation]:
    """Its equations; around FedAvg's local step, if it is a wrapper, which has none of its own."""
    inner = equations_of(FedAvg)[:1] if cls is AdaptiveClipping else []
    return [*inner, *equations_of(cls)]


def variants(cls: type[Algorithm]) -> list[Algorithm]:
    """One for each combination of the options that equations name, with numbers that are not the defaults."""
    if cls is AdaptiveClipping:
        return [AdaptiveClipping(FedProx(mu=0.0), quantile=0.6, lr=0.3, initial=0.5)]
    choices = choices_in(equations_of(cls))
    numbers = {
        field.name: 2 if field.name == "tau" else (0.8 - 0.05 * n) * field.default  # no two equal ones stay equal
        for n, field in enumerate(dataclasses.fields(cls))  # pyright: ignore[reportArgumentType]
        if isinstance(field.default, float) or field.name == "tau"
    }
    return [
        cls(**numbers, **dict(zip(choices, map(literal, values), strict=True)))
        for values in itertools.product(*choices.values())
    ]


def played_by_the_class(algorithm: Algorithm) -> list[torch.Tensor]:
    def number(value: float) -> torch.Tensor:
        return torch.tensor(float(value), dtype=torch.float64)

    server = algorithm.init_server(FACTS.x, driftless.Facts(LAYERS, len(SIZES)))
    clients = [algorithm.init_client(FACTS.x) for _ in SIZES]
    xs = []
    for t, cohort in enumerate(FACTS.rounds, start=1):
        msg = algorithm.broadcast(server)
        sizes = [client.examples if algorithm.weighting == "examples" else 1 for client in cohort]
        common = Round(
            number(t), number(LR), number(sum(STEPS[client.i] for client in cohort) / len(cohort)),
            number(sum(client.examples for client in cohort) / len(cohort)), len(cohort), len(SIZES), LAYERS,
            cohort_gradient=weighted([client.gradient(msg.x) for client in cohort], sizes),
        )  # fmt: skip
        uploads = []
        for client in cohort:
            r = common._replace(
                steps=number(len(client.offsets)), examples=number(client.examples), gradient=client.gradient(msg.x)
            )
            y, local = msg.x, algorithm.init_local(msg, clients[client.i], r)
            for offset in client.offsets:
                step = Step(client.gradient(y, offset), y, client.gradient(msg.x, offset))
                d, local = algorithm.direction(step, local, msg, clients[client.i], r)
                y = y - LR * d
            upload, clients[client.i] = algorithm.upload(y, local, msg, clients[client.i], r)
            uploads.append(upload)
        server = algorithm.update(server, weighted(uploads, sizes), common)
        xs.append(server.x)
    return xs


def weighted(trees: list, sizes: list[int]):
    def average(*leaves: torch.Tensor) -> torch.Tensor:
        return sum((leaf * size for leaf, size in zip(leaves, sizes, strict=True)), torch.zeros(())) / sum(sizes)

    return map_leaves(average, *trees)


def played_by_equations(algorithm: Algorithm, equations: list[Equation]) -> list[torch.Tensor]:
    hyper = {name: getattr(algorithm, name) for name in fields_of(algorithm)}
    return play(equations, hyper, FACTS, algorithm.weighting)


def distance(xs: list[torch.Tensor], others: list[torch.Tensor]) -> float:
    return float((torch.stack(xs) - torch.stack(others)).abs().max())


@for_every_class
def test_rounds_by_the_equations_are_rounds_by_the_class(cls):
    for algorithm in variants(cls):
        assert distance(played_by_the_class(algorithm), played_by_equations(algorithm, round_of(cls))) < 1e-10


@for_every_class
def test_without_any_one_of_its_equations_an_algorithm_is_another_one(cls):
    equations, algorithms = round_of(cls), variants(cls)
    complete = [played_by_equations(algorithm, equations) for algorithm in algorithms]
    for n, equation in enumerate(equations):
        rest = [*equations[:n], *equations[n + 1 :]]
        changed = (differs(algorithm, rest, xs) for algorithm, xs in zip(algorithms, complete, strict=True))
        assert any(changed), f"{equation} changes nothing"


def differs(algorithm: Algorithm, equations: list[Equation], xs: list[torch.Tensor]) -> bool:
    try:
        return distance(played_by_equations(algorithm, equations), xs) > 1e-6
    except KeyError:  # a value that another equation needs
        return True
