"""FedGBO, MimeLite, Mime, MFL and AdaptiveFedOpt with RMSProp, SGDm and Adam. Default weighting "uniform".

m0 = 0, v0 = 1 and no bias correction. Both statistics are tracked and recorded whatever the optimiser; the one that an
optimiser does not use has no influence.
"""

from __future__ import annotations

import numpy as np

from .base import (
    clip_deltas,
    initial_rho,
    lr_at,
    mean_steps,
    sgd_deltas,
    steps_at,
    weighted_mean,
    weights_of,
)


def update_direction(optimizer, g, m, v, beta, eps):
    """U: the direction of a local step with fixed statistics."""
    if optimizer == "rmsprop":
        return g / (np.sqrt(v) + eps)
    if optimizer == "sgdm":
        return beta * m + (1 - beta) * g
    if optimizer == "adam":
        return (beta * m + (1 - beta) * g) / (np.sqrt(v) + eps)
    raise ValueError(f"unknown optimizer {optimizer!r}")


def track(optimizer, g, m, v, beta, beta2):
    """T: the statistics after seeing the gradient g (squared in v; beta2 for Adam's v)."""
    m_new = beta * m + (1 - beta) * g
    v_new = beta * v + (1 - beta) * g**2
    if optimizer == "adam":
        v_new = beta2 * v + (1 - beta2) * g**2
    return m_new, v_new


def tracked_direction(optimizer, g, m, v, eps):
    """The direction when m and v have already seen g."""
    if optimizer == "rmsprop":
        return g / (np.sqrt(v) + eps)
    if optimizer == "sgdm":
        return m
    if optimizer == "adam":
        return m / (np.sqrt(v) + eps)
    raise ValueError(f"unknown optimizer {optimizer!r}")


def fedgbo(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    optimizer="sgdm",
    beta=0.9,
    beta2=0.99,
    eps=1e-3,
):
    """d = U(g); x' = x_bar; G from the inverse step; T with G."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    v = np.ones_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        for i in cohort:
            y = x.copy()
            for _ in range(steps_at(steps, t, i)):
                d = update_direction(optimizer, problem.gradient(i, y), m, v, beta, eps)
                y = y - eta * d
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))

        x_new = aggregate
        k_bar = mean_steps(steps, t, cohort)
        if optimizer == "rmsprop":
            inverse = (x - x_new) / (eta * k_bar) * (np.sqrt(v) + eps)
        elif optimizer == "sgdm":
            inverse = ((x - x_new) / (eta * k_bar) - beta * m) / (1 - beta)
        else:
            inverse = ((x - x_new) * (np.sqrt(v) + eps) / (eta * k_bar) - beta * m) / (1 - beta)
        m, v = track(optimizer, inverse, m, v, beta, beta2)
        x = x_new
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m, "v": v, "inverse": inverse})
    return history


def mimelite(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    optimizer="sgdm",
    beta=0.9,
    beta2=0.99,
    eps=1e-3,
):
    """d = U(g); x' = x_bar; T with the mean full gradient at x."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    v = np.ones_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        weights = weights_of(problem, cohort, weighting or "uniform")
        deltas = []
        full_gradients = []
        for i in cohort:
            y = x.copy()
            for _ in range(steps_at(steps, t, i)):
                d = update_direction(optimizer, problem.gradient(i, y), m, v, beta, eps)
                y = y - eta * d
            deltas.append(y - x)
            full_gradients.append(problem.gradient(i, x))
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights)

        c = weighted_mean(full_gradients, weights)
        m, v = track(optimizer, c, m, v, beta, beta2)
        x = aggregate
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m, "v": v, "c": c})
    return history


def mime(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    optimizer="sgdm",
    beta=0.9,
    beta2=0.99,
    eps=1e-3,
):
    """As MimeLite, but d = U(g - g_x + c) with c the cohort's mean full gradient at x."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    v = np.ones_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        weights = weights_of(problem, cohort, weighting or "uniform")
        full_gradients = [problem.gradient(i, x) for i in cohort]
        c = weighted_mean(full_gradients, weights)

        deltas = []
        for i in cohort:
            y = x.copy()
            for _ in range(steps_at(steps, t, i)):
                corrected = problem.gradient(i, y) - problem.gradient(i, x) + c
                d = update_direction(optimizer, corrected, m, v, beta, eps)
                y = y - eta * d
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights)

        m, v = track(optimizer, c, m, v, beta, beta2)
        x = aggregate
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m, "v": v, "c": c})
    return history


def mfl(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    optimizer="sgdm",
    beta=0.9,
    beta2=0.99,
    eps=1e-3,
):
    """Every client tracks its own m and v from the server's; the server averages x, m and v."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    v = np.ones_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        weights = weights_of(problem, cohort, weighting or "uniform")
        deltas = []
        client_m = []
        client_v = []
        for i in cohort:
            y = x.copy()
            m_i = m.copy()
            v_i = v.copy()
            for _ in range(steps_at(steps, t, i)):
                g = problem.gradient(i, y)
                m_i, v_i = track(optimizer, g, m_i, v_i, beta, beta2)
                d = tracked_direction(optimizer, g, m_i, v_i, eps)
                y = y - eta * d
            deltas.append(y - x)
            client_m.append(m_i)
            client_v.append(v_i)
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights)

        x = aggregate
        m = weighted_mean(client_m, weights)
        v = weighted_mean(client_v, weights)
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m, "v": v})
    return history


def adaptive_fedopt(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    server_lr=1.0,
    optimizer="sgdm",
    beta=0.9,
    beta2=0.99,
    eps=1e-3,
):
    """Clients run SGD; T with D, then x <- x - server_lr * (m | D/(sqrt(v)+eps) | m/(sqrt(v)+eps))."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    v = np.ones_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        deltas = sgd_deltas(problem, x, cohort, steps, lr_at(lr, t), t)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))
        aggregate = x + delta

        d = -delta
        m, v = track(optimizer, d, m, v, beta, beta2)
        x = x - server_lr * tracked_direction(optimizer, d, m, v, eps)
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m, "v": v})
    return history
