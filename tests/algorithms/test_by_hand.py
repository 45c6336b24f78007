"""Two clients, one parameter, exact fractions: the arithmetic that anybody can check with a pencil.

    f_A(w) = 1/2 w^2        gradient  w           one example, z = 1, target 0
    f_B(w) = (w - 4)^2      gradient  2(w - 4)    one example, z = sqrt(2), target 4 sqrt(2)

N = 2, x^0 = 8, lr = 1/4, K = 2, so lr*K = 1/2. The bare local step is

    A: y <- y - 1/4 * y        = 3/4 y
    B: y <- y - 1/4 * 2(y - 4) = 1/2 y + 2

and from x^0 = 8 two bare steps give A: 8 -> 6 -> 9/2 and B: 8 -> 6 -> 5.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import pytest
import torch

from driftless import Federation, LocalTraining
from driftless.algorithms import GHBM, AdaBest, FedGBO, Scaffold

from .problems import Bench, Dot, run_with_result

A, B = 0, 1
TWO_CLIENTS = Bench(
    Federation.from_clients([([[1.0]], [0.0]), ([[sqrt(2)]], [4 * sqrt(2)])]).to(torch.float64), Dot([8.0])
)

with_both_engines = pytest.mark.parametrize("engine", ["single", "block"])


def by_hand(algorithm, cohorts, engine):
    return run_with_result(
        algorithm, TWO_CLIENTS, cohort=cohorts, local=LocalTraining(lr=0.25, steps=2, batch_size=None), engine=engine
    )


def kept(algorithm, result, field) -> torch.Tensor:
    """What A and B keep after the last round."""
    return getattr(result.state.clients.get([A, B], algorithm.init_client(result.x)), field)


def equal(values, *fractions: str) -> bool:
    exact = torch.tensor([float(Fraction(fraction)) for fraction in fractions], dtype=torch.float64)
    return bool((values.reshape(-1) - exact).abs().max() <= 1e-12)


@with_both_engines
@pytest.mark.parametrize("size_adaptive", [False, True])
def test_adabest_as_worked_by_hand(size_adaptive, engine):
    """mu = 1/2, beta = 1/2, cohorts {A, B}, {B}, {A, B}; n_A = n_B, so being size-adaptive makes no difference.

    d = g - h_i; h_i <- h_i/(t - t_last) + mu*(x - y); h <- beta*(x_bar_prev - x_bar); x <- x_bar - h

    Round 1, x = 8, all h_i = 0, x_bar_prev = 8
        A: y = 6, 9/2;  h_A = 1/2*(8 - 9/2) = 7/4
        B: y = 6, 5;    h_B = 1/2*(8 - 5) = 3/2
        x_bar = (9/2 + 5)/2 = 19/4;  h = 1/2*(8 - 19/4) = 13/8;  x = 19/4 - 13/8 = 25/8
    Round 2, x = 25/8, only B, t - t_last = 1
        B: y <- 1/2 y + 2 + 1/4*3/2 = 1/2 y + 19/8:  63/16, 139/32
           h_B = 3/2 + 1/2*(25/8 - 139/32) = 57/64
        x_bar = 139/32;  h = 1/2*(19/4 - 139/32) = 13/64;  x = 278/64 - 13/64 = 265/64
    Round 3, x = 265/64; A was here in round 1, so t - t_last = 2, but its direction uses h_A undivided
        A: y <- 3/4 y + 1/4*7/4 = 3/4 y + 7/16:  907/256, 3169/1024
           h_A = 7/8 + 1/2*(265/64 - 3169/1024) = 2863/2048
        B: y <- 1/2 y + 2 + 1/4*57/64 = 1/2 y + 569/256:  1099/256, 2237/512
           h_B = 57/64 + 1/2*(265/64 - 2237/512) = 795/1024
        x_bar = (3169/1024 + 2237/512)/2 = 7643/2048;  h = 1/2*(139/32 - 7643/2048) = 1253/4096
        x = 15286/4096 - 1253/4096 = 14033/4096
    """
    algorithm = AdaBest(mu=0.5, beta=0.5, size_adaptive=size_adaptive)
    records, result = by_hand(algorithm, [[A, B], [B], [A, B]], engine)
    assert equal(torch.cat([record.aggregate for record in records]), "19/4", "139/32", "7643/2048")
    assert equal(torch.cat([record.server.h for record in records]), "13/8", "13/64", "1253/4096")
    assert equal(torch.cat([record.x for record in records]), "25/8", "265/64", "14033/4096")
    assert equal(result.inference, "7643/2048")
    if not size_adaptive:
        assert equal(kept(algorithm, result, "h"), "2863/2048", "795/1024")


@with_both_engines
def test_scaffold_as_worked_by_hand(engine):
    """Option 2, server_lr = 1, cohorts {A, B}, {B}.

    d = g - c_i + c; c_i' = c_i - c + (x - y)/(K*lr) = c_i - c + 2(x - y); x <- x_bar; c <- c + M/N*mean(c_i' - c_i)

    Round 1, x = 8, all controls 0
        A: y = 6, 9/2;  c_A = 2*(8 - 9/2) = 7     (the mean of its gradients 8 and 6)
        B: y = 6, 5;    c_B = 2*(8 - 5) = 6       (the mean of its gradients 8 and 4)
        x = (9/2 + 5)/2 = 19/4;  c = 2/2*(7 + 6)/2 = 13/2
    Round 2, x = 19/4, only B
        B: d = 2(y - 4) - 6 + 13/2 = 2y - 15/2, y <- 1/2 y + 15/8:  17/4, 4
           c_B = 6 - 13/2 + 2*(19/4 - 4) = 1      (the mean of its gradients 3/2 and 1/2)
        x = 4;  c = 13/2 + 1/2*(1 - 6) = 4        (the mean of c_A = 7 and c_B = 1)
    """
    algorithm = Scaffold()
    records, result = by_hand(algorithm, [[A, B], [B]], engine)
    assert equal(torch.cat([record.x for record in records]), "19/4", "4")
    assert equal(torch.cat([record.server.c for record in records]), "13/2", "4")
    assert equal(kept(algorithm, result, "c"), "7", "1")


@with_both_engines
def test_fedgbo_with_momentum_as_worked_by_hand(engine):
    """sgdm, beta = 1/2, cohorts {A, B}, {A, B}.

    d = 1/2 m + 1/2 g; x' = x_bar; G = ((x - x')/(lr*K) - 1/2 m)/(1/2); m <- 1/2 m + 1/2 G

        A: y <- 7/8 y - 1/8 m
        B: y <- 3/4 y + 1 - 1/8 m

    Round 1, x = 8, m = 0
        A: y = 7, 49/8
        B: y = 7, 25/4
        x' = (49/8 + 50/8)/2 = 99/16
        G = 2*(8 - 99/16)*2 = 29/4                (the mean of the gradients 8, 7 and 8, 6)
        m = 1/2*29/4 = 29/8
    Round 2, x = 99/16, 1/8 m = 29/64
        A: y = 693/128 - 58/128 = 635/128, then 4445/1024 - 464/1024 = 3981/1024
        B: y <- 3/4 y + 35/64:  83/16, 71/16
        x' = (3981/1024 + 4544/1024)/2 = 8525/2048
        G = (2*(12672 - 8525)/2048 - 1856/1024)*2 = (4147/1024 - 1856/1024)*2 = 2291/512
            (the mean of the gradients 99/16, 635/128 and 35/8, 19/8)
        m = 29/16 + 2291/1024 = 4147/1024
    """
    records, _ = by_hand(FedGBO(optimizer="sgdm", beta=0.5), [[A, B], [A, B]], engine)
    m = torch.cat([record.server.statistics.m for record in records])
    assert equal(torch.cat([record.x for record in records]), "99/16", "8525/2048")
    assert equal(m, "29/8", "4147/1024")
    G = (m - 0.5 * torch.tensor([0.0, m[0]])) / 0.5
    assert equal(G, "29/4", "2291/512")


@with_both_engines
@pytest.mark.parametrize(
    ("tau", "start", "second"),
    [(1, "zero", "135/64"), (1, "clamp", "135/64"), (2, "clamp", "709/256"), (2, "zero", "439/128")],
)
def test_ghbm_as_worked_by_hand(tau, start, second, engine):
    """beta = 1/2, server_lr = 1, cohorts {A, B}, {A, B}; a step of round t adds beta/(tau*K)*(x^{t-1} - x^{t-tau-1}).

    Round 1: no momentum, as there is no earlier model than x^0
        x^1 = (9/2 + 5)/2 = 19/4,  x^1 - x^0 = -13/4
    Round 2, tau = 1: the old model is x^0, so both starts agree; each step adds 1/4*(-13/4) = -13/16
        A: y <- 3/4 y - 13/16:      11/4, 5/4
        B: y <- 1/2 y + 19/16:      57/16, 95/32
        x^2 = (40/32 + 95/32)/2 = 135/64
    Round 2, tau = 2, clamp: the old model x^{-1} is read as x^0; each step adds 1/8*(-13/4) = -13/32
        A: y <- 3/4 y - 13/32:      101/32, 251/128
        B: y <- 1/2 y + 51/32:      127/32, 229/64
        x^2 = (251/128 + 458/128)/2 = 709/256
    Round 2, tau = 2, zero: no momentum, as t <= tau
        A: y = 57/16, 171/64
        B: y = 35/8, 67/16
        x^2 = (171/64 + 268/64)/2 = 439/128
    """
    records, _ = by_hand(GHBM(beta=0.5, tau=tau, start=start), [[A, B], [A, B]], engine)
    assert equal(torch.cat([record.x for record in records]), "19/4", second)
