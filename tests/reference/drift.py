"""FedProx, SCAFFOLD, SCAFFOLD/m, FedDyn and AdaBest. Default weighting "uniform".

The state of the clients is kept as one row per client ("c_i", "h_i") and is recorded after every round.
It always uses the unclipped local model y.
"""

from __future__ import annotations

import numpy as np

from .base import (
    clip_deltas,
    initial_rho,
    lr_at,
    mean_steps,
    steps_at,
    uniform_mean,
    weighted_mean,
    weights_of,
)


def fedprox(problem, x0, cohorts, steps, lr, weighting=None, clip=None, mu=0.01, server_lr=1.0):
    """d = g + mu*(y - x); x <- x + server_lr*mean(delta)."""
    x = np.array(x0, dtype=float)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        for i in cohort:
            y = x.copy()
            for _ in range(steps_at(steps, t, i)):
                d = problem.gradient(i, y) + mu * (y - x)
                y = y - eta * d
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))
        aggregate = x + delta

        x = x + server_lr * delta
        history.append({"x": x, "aggregate": aggregate, "rho": rho})
    return history


def scaffold(problem, x0, cohorts, steps, lr, weighting=None, clip=None, server_lr=1.0, option=2, size_adaptive=False):
    """d = g - c_i + c; c <- c + M/N*mean(c_i' - c_i), the last mean always uniform.

    Size-adaptive: with w_i = n_i over the mean of all n, clients take c/w_i for c, and c is the mean of w_i*c_i over
    all clients. The recorded "c" is the mean of n_i*c_i.
    """
    if option not in (1, 2):
        raise ValueError(f"unknown option {option!r}")
    x = np.array(x0, dtype=float)
    c = np.zeros_like(x)
    c_i = np.zeros((problem.N, len(x)))
    sizes = np.array([problem.examples(i) for i in range(problem.N)])
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        control_changes = []
        for i in cohort:
            k_i = steps_at(steps, t, i)
            y = x.copy()
            c_here = c / (sizes[i] / sizes.mean()) if size_adaptive else c
            for _ in range(k_i):
                d = problem.gradient(i, y) - c_i[i] + c_here
                y = y - eta * d
            c_new = c_i[i] - c_here + (x - y) / (k_i * eta)
            if option == 1:
                c_new = problem.gradient(i, x)
            deltas.append(y - x)
            control_changes.append(c_new - c_i[i])
            c_i[i] = c_new
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))
        aggregate = x + delta

        x = x + server_lr * delta
        recorded = c = c + len(cohort) / problem.N * uniform_mean(control_changes)
        if size_adaptive:
            c = uniform_mean([size / sizes.mean() * control for size, control in zip(sizes, c_i, strict=True)])
            recorded = sizes.mean() * c
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "c": recorded, "c_i": c_i.copy()})
    return history


def scaffold_slim(problem, x0, cohorts, steps, lr, weighting=None, clip=None, retention="exact"):
    """d = g - c_i + h; h <- (N-M)/N*h + M/(K_bar*lr*N)*(x - x_bar); x <- x_bar."""
    if retention not in ("exact", "paper"):
        raise ValueError(f"unknown retention {retention!r}")
    x = np.array(x0, dtype=float)
    h = np.zeros_like(x)
    c_i = np.zeros((problem.N, len(x)))
    n_clients = problem.N
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        for i in cohort:
            k_i = steps_at(steps, t, i)
            y = x.copy()
            for _ in range(k_i):
                d = problem.gradient(i, y) - c_i[i] + h
                y = y - eta * d
            c_i[i] = c_i[i] - h + (x - y) / (k_i * eta)
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))

        m_cohort = len(cohort)
        k_bar = mean_steps(steps, t, cohort)
        factor = (n_clients - m_cohort) / n_clients
        if retention == "paper":
            factor = (n_clients - 1) / n_clients
        h = factor * h + m_cohort / (k_bar * eta * n_clients) * (x - aggregate)
        x = aggregate
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "h": h, "c_i": c_i.copy()})
    return history


def feddyn(problem, x0, cohorts, steps, lr, weighting=None, clip=None, mu=0.02, size_adaptive=False):
    """d = g - h_i - mu*(x - y); h_i <- h_i + mu*(x - y); h <- h + M/N*(x - x_bar); x <- x_bar - h.

    Size-adaptive: with H_i the sum of all x - y of a client, d = g - mu_i*H_i - mu_i*(x - y), mu_i = mu*r/n_i, r the
    mean of n over the participations of earlier rounds; mu_i = mu in the first. The recorded "h_i" is mu*H_i, "r" is
    the one known after the round.
    """
    x = np.array(x0, dtype=float)
    h = np.zeros_like(x)
    moved = np.zeros((problem.N, len(x)))
    took_part = []
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        for i in cohort:
            y = x.copy()
            mu_i = mu
            if size_adaptive and t > 1:
                mu_i = mu * np.mean(took_part) / problem.examples(i)
            for _ in range(steps_at(steps, t, i)):
                d = problem.gradient(i, y) - mu_i * moved[i] - mu_i * (x - y)
                y = y - eta * d
            moved[i] = moved[i] + (x - y)
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))

        h = h + len(cohort) / problem.N * (x - aggregate)
        x = aggregate - h
        took_part += [problem.examples(i) for i in cohort]
        r = np.mean(took_part)
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "h": h, "h_i": mu * moved, "r": r})
    return history


def adabest(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    mu=0.02,
    beta=0.96,
    size_adaptive=True,
):
    """d = g - h_i; h_i <- h_i/(t - t_last) + mu*(x - y); h <- beta*(x_bar_prev - x_bar); x <- x_bar - h.

    Size-adaptive: h_i without mu and d = g - mu*r/n_i*h_i, r the mean of n over the participations of earlier rounds.
    The recorded "r" is the one known after the round.
    """
    x = np.array(x0, dtype=float)
    previous_aggregate = x.copy()
    h_i = np.zeros((problem.N, len(x)))
    t_last = [0] * problem.N
    total_examples = 0
    participations = 0
    r = 0.0
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        for i in cohort:
            mu_i = mu * r / problem.examples(i)
            y = x.copy()
            for _ in range(steps_at(steps, t, i)):
                d = problem.gradient(i, y) - h_i[i]
                if size_adaptive:
                    d = problem.gradient(i, y) - mu_i * h_i[i]
                y = y - eta * d
            if size_adaptive:
                h_i[i] = h_i[i] / (t - t_last[i]) + (x - y)
            else:
                h_i[i] = h_i[i] / (t - t_last[i]) + mu * (x - y)
            t_last[i] = t
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))

        h = beta * (previous_aggregate - aggregate)
        x = aggregate - h
        previous_aggregate = aggregate
        for i in cohort:
            total_examples = total_examples + problem.examples(i)
            participations = participations + 1
        r = total_examples / participations
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "h": h, "h_i": h_i.copy(), "r": r})
    return history
