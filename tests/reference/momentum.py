"""The momentum methods of the GHBM paper. Default weighting "uniform".

``models[s]`` is x^s, so that round t broadcasts ``models[t - 1]``. What a client keeps uses its unclipped model.
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
    uniform_mean,
    weighted_mean,
    weights_of,
)


def fedcm(problem, x0, cohorts, steps, lr, weighting=None, clip=None, alpha=0.1, server_lr=1.0):
    """d = alpha*g + (1-alpha)*m; m <- (x - x_bar)/(lr*K_bar); x <- x - server_lr*lr*K_bar*m."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        for i in cohort:
            y = x.copy()
            for _ in range(steps_at(steps, t, i)):
                d = alpha * problem.gradient(i, y) + (1 - alpha) * m
                y = y - eta * d
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))

        k_bar = mean_steps(steps, t, cohort)
        m = (x - aggregate) / (eta * k_bar)
        x = x - server_lr * eta * k_bar * m
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m})
    return history


def fedadc(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    beta_local=0.9,
    beta_global=0.9,
    server_lr=1.0,
):
    """d = g + beta_local*m/K; m <- (x - x_bar)/lr + (beta_global - beta_local)*m; x <- x - server_lr*lr*m."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        for i in cohort:
            k_i = steps_at(steps, t, i)
            y = x.copy()
            for _ in range(k_i):
                d = problem.gradient(i, y) + beta_local * m / k_i
                y = y - eta * d
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))

        m = (x - aggregate) / eta + (beta_global - beta_local) * m
        x = x - server_lr * eta * m
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m})
    return history


def ghbm(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    beta=0.9,
    tau=10,
    server_lr=1.0,
    start="zero",
):
    """d = g + beta/(lr*tau*K)*(x^{t-tau-1} - x^{t-1}); x <- x + server_lr*mean(delta)."""
    if start not in ("zero", "clamp"):
        raise ValueError(f"unknown start {start!r}")
    models = [np.array(x0, dtype=float)]
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        x = models[t - 1]
        if t > tau:
            difference = models[t - tau - 1] - models[t - 1]
        elif start == "clamp":
            difference = models[0] - models[t - 1]
        else:
            difference = np.zeros_like(x)
        deltas = []
        for i in cohort:
            k_i = steps_at(steps, t, i)
            y = x.copy()
            for _ in range(k_i):
                d = problem.gradient(i, y) + beta / (eta * tau * k_i) * difference
                y = y - eta * d
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))

        models.append(x + server_lr * delta)
        history.append({"x": models[t], "aggregate": x + delta, "rho": rho})
    return history


def localghbm(problem, x0, cohorts, steps, lr, weighting=None, clip=None, beta=0.9, server_lr=1.0):
    """Each step adds beta/(tau_i*K)*(x - x_old), x_old the model received last time; nothing the first time."""
    x = np.array(x0, dtype=float)
    x_old = {}
    t_last = {}
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        for i in cohort:
            k_i = steps_at(steps, t, i)
            y = x.copy()
            for _ in range(k_i):
                g = problem.gradient(i, y)
                y = y - eta * g
                if i in x_old:
                    y = y + beta / ((t - t_last[i]) * k_i) * (x - x_old[i])
            x_old[i] = x.copy()
            t_last[i] = t
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))
        aggregate = x + delta

        x = x + server_lr * delta
        history.append({"x": x, "aggregate": aggregate, "rho": rho})
    return history


def fedhbm(problem, x0, cohorts, steps, lr, weighting=None, clip=None, beta=1.0, server_lr=1.0):
    """Each step adds beta/(tau_i*K)*(y - y_old), y_old the client's own last model; nothing the first time."""
    x = np.array(x0, dtype=float)
    y_old = {}
    t_last = {}
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        for i in cohort:
            k_i = steps_at(steps, t, i)
            y = x.copy()
            for _ in range(k_i):
                step = -eta * problem.gradient(i, y)
                if i in y_old:
                    step = step + beta / ((t - t_last[i]) * k_i) * (y - y_old[i])
                y = y + step
            y_old[i] = y.copy()
            t_last[i] = t
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))
        aggregate = x + delta

        x = x + server_lr * delta
        history.append({"x": x, "aggregate": aggregate, "rho": rho})
    return history


def mimemom(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    beta=0.9,
    server_lr=1.0,
    form="heavy-ball",
):
    """d = beta*m + (g - g_x + c); m <- beta*m + c; "ema" puts (1-beta) before the bracket and before c."""
    if form not in ("heavy-ball", "ema"):
        raise ValueError(f"unknown form {form!r}")
    new = 1 - beta if form == "ema" else 1.0
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
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
                d = beta * m + new * corrected
                y = y - eta * d
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights)
        aggregate = x + delta

        m = beta * m + new * c
        x = x + server_lr * delta
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m, "c": c})
    return history


def mimelitemom(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    beta=0.9,
    server_lr=1.0,
    form="heavy-ball",
):
    """d = beta*m + g; m <- beta*m + c; "ema" puts (1-beta) before g and before c."""
    if form not in ("heavy-ball", "ema"):
        raise ValueError(f"unknown form {form!r}")
    new = 1 - beta if form == "ema" else 1.0
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
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
                d = beta * m + new * problem.gradient(i, y)
                y = y - eta * d
            deltas.append(y - x)
            full_gradients.append(problem.gradient(i, x))
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights)
        aggregate = x + delta

        c = weighted_mean(full_gradients, weights)
        m = beta * m + new * c
        x = x + server_lr * delta
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m, "c": c})
    return history


def scaffold_momentum(problem, x0, cohorts, steps, lr, weighting=None, clip=None, beta=0.1, server_lr=1.0):
    """d = beta*(g - c_i + c) + (1-beta)*v; c_i' = mean of the client's local gradients; v <- (x - x_bar)/(lr*K_bar)."""
    x = np.array(x0, dtype=float)
    v = np.zeros_like(x)
    c = np.zeros_like(x)
    c_i = np.zeros((problem.N, len(x)))
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        deltas = []
        control_changes = []
        for i in cohort:
            y = x.copy()
            local_gradients = []
            for _ in range(steps_at(steps, t, i)):
                g = problem.gradient(i, y)
                local_gradients.append(g)
                d = beta * (g - c_i[i] + c) + (1 - beta) * v
                y = y - eta * d
            c_new = uniform_mean(local_gradients)
            deltas.append(y - x)
            control_changes.append(c_new - c_i[i])
            c_i[i] = c_new
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))

        k_bar = mean_steps(steps, t, cohort)
        v = (x - aggregate) / (eta * k_bar)
        x = x - server_lr * eta * k_bar * v
        c = c + len(cohort) / problem.N * uniform_mean(control_changes)
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "v": v, "c": c, "c_i": c_i.copy()})
    return history


def server_ghbm(problem, x0, cohorts, steps, lr, weighting=None, clip=None, beta=0.9, tau=10, server_lr=1.0):
    """Clients run SGD; x <- x - server_lr*D + beta/tau*(x^{t-1} - x^{t-tau-1}), clamped at x^0."""
    models = [np.array(x0, dtype=float)]
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        x = models[t - 1]
        deltas = sgd_deltas(problem, x, cohort, steps, lr_at(lr, t), t)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "uniform"))

        d = -delta
        old = models[max(0, t - tau - 1)]
        models.append(x - server_lr * d + beta / tau * (x - old))
        history.append({"x": models[t], "aggregate": x + delta, "rho": rho})
    return history


def ghbm_theory(problem, x0, cohorts, steps, lr, weighting=None, clip=None, beta=0.1, tau=10):
    """d = (1-beta)*m + beta*g; m <- (1-beta)*m + beta/tau*(sum of the last tau rounds' means); x <- x - lr*K_bar*m.

    A round's mean is weighted_mean(sum_k g)/K_bar. The update does not use delta, so clipping changes only what is
    recorded as the aggregate.
    """
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    round_means = []
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        eta = lr_at(lr, t)
        weights = weights_of(problem, cohort, weighting or "uniform")
        deltas = []
        gradient_sums = []
        for i in cohort:
            y = x.copy()
            gradient_sum = np.zeros_like(x)
            for _ in range(steps_at(steps, t, i)):
                g = problem.gradient(i, y)
                gradient_sum = gradient_sum + g
                d = (1 - beta) * m + beta * g
                y = y - eta * d
            deltas.append(y - x)
            gradient_sums.append(gradient_sum)
        deltas, rho = clip_deltas(deltas, rho, clip)
        aggregate = x + weighted_mean(deltas, weights)

        k_bar = mean_steps(steps, t, cohort)
        round_means.append(weighted_mean(gradient_sums, weights) / k_bar)
        total = np.zeros_like(x)
        for s in range(t - tau + 1, t + 1):
            if s >= 1:
                total = total + round_means[s - 1]
        m = (1 - beta) * m + beta * (1 / tau) * total
        x = x - eta * k_bar * m
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m})
    return history
