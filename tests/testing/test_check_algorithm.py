"""All laws in one call, and two algorithms that are the same."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

import pytest

from driftless import Algorithm, InputError, Model
from driftless.algorithms import FedAvg, FedProx, Scaffold
from driftless.testing import LAWS, LawBroken, check_algorithm, check_equal
from testing.wrong import BranchesOnATensor, NotADataclass, WithH, WrongSign


def test_an_algorithm_of_the_library_obeys_all_laws():
    check_algorithm(FedAvg)


@dataclass(frozen=True)
class TwoMistakes(BranchesOnATensor):
    uniform = frozenset({"h"})


def test_all_broken_laws_are_listed_with_those_that_could_not_be_checked():
    with pytest.raises(LawBroken) as raised:
        check_algorithm(TwoMistakes())
    assert set(raised.value.broken) == {"class_attributes", "vectorised_calls"}
    assert {"engines_agree", "replayed_steps", "workers_agree"} <= set(raised.value.unchecked)
    text = str(raised.value)
    assert text.startswith("TwoMistakes breaks 2 laws.")
    for part in (*raised.value.broken, "correct the name", "use `torch.where", "Not checked, because of the above"):
        assert part in text


@dataclass(frozen=True)
class Raises(FedAvg):
    def update(self, server, mean, r):
        return Model(server.x + {}["momentum"])


def test_an_error_in_the_algorithms_own_code_is_raised_with_its_own_line():
    with pytest.raises(KeyError, match="momentum") as raised:
        check_algorithm(Raises())
    assert "{}[" in str(traceback.extract_tb(raised.value.__traceback__)[-1].line)
    assert "driftless was checking the law" in "".join(raised.value.__notes__)


class RaisesAndIsNotADataclass(NotADataclass):
    def update(self, server, mean, r):
        return Model(server.x + {}["momentum"])


def test_an_error_beside_a_broken_law_is_the_cause_of_what_is_raised():
    with pytest.raises(LawBroken) as raised:
        check_algorithm(RaisesAndIsNotADataclass())
    assert isinstance(raised.value.__cause__, KeyError)
    assert set(raised.value.broken) == {"frozen_dataclass"}


def test_a_law_can_be_left_out():
    others = sorted(set(LAWS) - {"x_and_delta"})
    with pytest.raises(LawBroken, match="wrong sign"):
        check_algorithm(WrongSign(), without=others)
    check_algorithm(WrongSign(), without=[*others, "x_and_delta"])


@pytest.mark.parametrize("without", [["x_and_delt"], "x_and_delt"])
def test_a_law_that_does_not_exist_cannot_be_left_out(without: object):
    with pytest.raises(InputError, match="unknown law 'x_and_delt'; did you mean 'x_and_delta'"):
        check_algorithm(FedAvg(), without=without)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class NeedsBeta(Algorithm):
    beta: float

    def update(self, server, mean, r):
        return Model(server.x + self.beta * mean.delta)


@pytest.mark.parametrize("given", [NeedsBeta, Algorithm, "fedavg", WithH])
def test_what_is_not_an_algorithm_is_refused_with_what_to_give(given: object):
    with pytest.raises(InputError, match="give "):
        check_algorithm(given)  # pyright: ignore[reportArgumentType]


def test_equal_algorithms_are_found_equal_and_others_different():
    check_equal(FedProx(mu=0.0), "fedavg", weighting="examples")
    with pytest.raises(AssertionError, match=r"FedProx\(mu=0.1.* after round 1, x differs by up to"):
        check_equal(FedProx(mu=0.1), FedAvg(), weighting="uniform")


@dataclass(frozen=True)
class Uniformly(FedAvg):
    weighting = "uniform"


def test_algorithms_that_average_differently_are_equal_with_one_weighting():
    with pytest.raises(AssertionError, match="give weighting= to compare the rest"):
        check_equal(Uniformly(), FedAvg())
    check_equal(Uniformly(), FedAvg(), weighting="uniform")


def test_algorithms_that_first_differ_in_the_second_round_are_found_different():
    """All control variates are zero in the first round."""
    with pytest.raises(AssertionError, match="after round 2"):
        check_equal(Scaffold(), FedAvg(), weighting="uniform")
