"""FedAvg, FedSGD and the server optimisers. Clients run plain SGD; D = -mean(delta); default weighting "examples"."""

from __future__ import annotations

import numpy as np

from .base import clip_deltas, initial_rho, lr_at, sgd_deltas, weighted_mean, weights_of


def fedavg(problem, x0, cohorts, steps, lr, weighting=None, clip=None, server_lr=1.0):
    """x <- x - server_lr * D."""
    x = np.array(x0, dtype=float)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        deltas = sgd_deltas(problem, x, cohort, steps, lr_at(lr, t), t)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "examples"))
        aggregate = x + delta

        d = -delta
        x = x - server_lr * d
        history.append({"x": x, "aggregate": aggregate, "rho": rho})
    return history


def fedsgd(problem, x0, cohorts, steps=1, lr=1.0, weighting=None, clip=None, server_lr=1.0):
    """K = 1, full batch, lr = 1 (``steps`` and ``lr`` are not used); x <- x - server_lr * D."""
    x = np.array(x0, dtype=float)
    rho = initial_rho(clip)
    history = []
    for cohort in cohorts:
        deltas = []
        for i in cohort:
            y = x - 1.0 * problem.gradient(i, x)
            deltas.append(y - x)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "examples"))
        aggregate = x + delta

        d = -delta
        x = x - server_lr * d
        history.append({"x": x, "aggregate": aggregate, "rho": rho})
    return history


def fedavgm(problem, x0, cohorts, steps, lr, weighting=None, clip=None, server_lr=1.0, momentum=0.9):
    """m <- momentum*m + D; x <- x - server_lr*m."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        deltas = sgd_deltas(problem, x, cohort, steps, lr_at(lr, t), t)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "examples"))
        aggregate = x + delta

        d = -delta
        m = momentum * m + d
        x = x - server_lr * m
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m})
    return history


def fedadagrad(problem, x0, cohorts, steps, lr, weighting=None, clip=None, server_lr=0.1, eps=1e-3):
    """v <- v + D^2; x <- x - server_lr*D/(sqrt(v)+eps)."""
    x = np.array(x0, dtype=float)
    v = np.zeros_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        deltas = sgd_deltas(problem, x, cohort, steps, lr_at(lr, t), t)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "examples"))
        aggregate = x + delta

        d = -delta
        v = v + d**2
        x = x - server_lr * d / (np.sqrt(v) + eps)
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "v": v})
    return history


def fedadam(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    server_lr=0.01,
    beta1=0.9,
    beta2=0.99,
    eps=1e-3,
    bias_correction="keras",
):
    """m <- beta1*m + (1-beta1)*D; v <- beta2*v + (1-beta2)*D^2; a step of one of three forms."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    v = np.zeros_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        deltas = sgd_deltas(problem, x, cohort, steps, lr_at(lr, t), t)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "examples"))
        aggregate = x + delta

        d = -delta
        m = beta1 * m + (1 - beta1) * d
        v = beta2 * v + (1 - beta2) * d**2
        m_hat = m / (1 - beta1**t)
        v_hat = v / (1 - beta2**t)
        if bias_correction == "keras":
            x = x - server_lr * np.sqrt(1 - beta2**t) / (1 - beta1**t) * m / (np.sqrt(v) + eps)
        elif bias_correction == "torch":
            x = x - server_lr * m_hat / (np.sqrt(v_hat) + eps)
        elif bias_correction == "none":
            x = x - server_lr * m / (np.sqrt(v) + eps)
        else:
            raise ValueError(f"unknown bias_correction {bias_correction!r}")
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m, "v": v})
    return history


def fedyogi(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    server_lr=0.01,
    beta1=0.9,
    beta2=0.99,
    eps=1e-3,
):
    """v <- v - (1-beta2)*D^2*sign(v - D^2), v0 = 1e-6; x <- x - server_lr*m/(sqrt(v)+eps)."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    v = np.full_like(x, 1e-6)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        deltas = sgd_deltas(problem, x, cohort, steps, lr_at(lr, t), t)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "examples"))
        aggregate = x + delta

        d = -delta
        m = beta1 * m + (1 - beta1) * d
        v = v - (1 - beta2) * d**2 * np.sign(v - d**2)
        x = x - server_lr * m / (np.sqrt(v) + eps)
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m, "v": v})
    return history


def fedlars(problem, x0, cohorts, steps, lr, weighting=None, clip=None, server_lr=0.01, momentum=0.9, eps=1e-3):
    """m <- momentum*m + (1-momentum)*D; x_l <- x_l - server_lr*norm(x_l)/(norm(m_l)+eps)*m_l for every layer l."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        deltas = sgd_deltas(problem, x, cohort, steps, lr_at(lr, t), t)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "examples"))
        aggregate = x + delta

        d = -delta
        m = momentum * m + (1 - momentum) * d
        x = x.copy()
        for layer in problem.layers:
            norm_x = np.linalg.norm(x[layer])
            norm_m = np.linalg.norm(m[layer])
            ratio = norm_x / (norm_m + eps)
            if norm_x == 0 or norm_m == 0:
                ratio = 1.0
            x[layer] = x[layer] - server_lr * ratio * m[layer]
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m})
    return history


def fedlamb(
    problem,
    x0,
    cohorts,
    steps,
    lr,
    weighting=None,
    clip=None,
    server_lr=0.01,
    beta1=0.9,
    beta2=0.99,
    eps=1e-3,
):
    """u = m_hat/(sqrt(v_hat)+eps); x_l <- x_l - server_lr*norm(x_l)/norm(u_l)*u_l for every layer l."""
    x = np.array(x0, dtype=float)
    m = np.zeros_like(x)
    v = np.zeros_like(x)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        deltas = sgd_deltas(problem, x, cohort, steps, lr_at(lr, t), t)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "examples"))
        aggregate = x + delta

        d = -delta
        m = beta1 * m + (1 - beta1) * d
        v = beta2 * v + (1 - beta2) * d**2
        m_hat = m / (1 - beta1**t)
        v_hat = v / (1 - beta2**t)
        u = m_hat / (np.sqrt(v_hat) + eps)
        x = x.copy()
        for layer in problem.layers:
            norm_x = np.linalg.norm(x[layer])
            norm_u = np.linalg.norm(u[layer])
            ratio = 1.0
            if norm_x != 0 and norm_u != 0:
                ratio = norm_x / norm_u
            x[layer] = x[layer] - server_lr * ratio * u[layer]
        history.append({"x": x, "aggregate": aggregate, "rho": rho, "m": m, "v": v})
    return history


def normalized_fedavg(problem, x0, cohorts, steps, lr, weighting=None, clip=None, server_lr=1.0):
    """x <- x - server_lr * D/norm(D); no move when D = 0."""
    x = np.array(x0, dtype=float)
    rho = initial_rho(clip)
    history = []
    for t, cohort in enumerate(cohorts, start=1):
        deltas = sgd_deltas(problem, x, cohort, steps, lr_at(lr, t), t)
        deltas, rho = clip_deltas(deltas, rho, clip)
        delta = weighted_mean(deltas, weights_of(problem, cohort, weighting or "examples"))
        aggregate = x + delta

        d = -delta
        norm = np.linalg.norm(d)
        if norm != 0:
            x = x - server_lr * d / norm
        history.append({"x": x, "aggregate": aggregate, "rho": rho})
    return history
