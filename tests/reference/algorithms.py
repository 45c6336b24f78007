"""Every reference under the name of its algorithm."""

from __future__ import annotations

from collections.abc import Callable

from .base import Problem
from .drift import adabest, feddyn, fedprox, scaffold, scaffold_slim
from .fedgbo import adaptive_fedopt, fedgbo, mfl, mime, mimelite
from .fedopt import (
    fedadagrad,
    fedadam,
    fedavg,
    fedavgm,
    fedlamb,
    fedlars,
    fedsgd,
    fedyogi,
    normalized_fedavg,
)
from .momentum import (
    fedadc,
    fedcm,
    fedhbm,
    ghbm,
    ghbm_theory,
    localghbm,
    mimelitemom,
    mimemom,
    scaffold_momentum,
    server_ghbm,
)

REFERENCES: dict[str, Callable] = {
    "fedavg": fedavg,
    "fedsgd": fedsgd,
    "fedavgm": fedavgm,
    "fedadagrad": fedadagrad,
    "fedadam": fedadam,
    "fedyogi": fedyogi,
    "fedlars": fedlars,
    "fedlamb": fedlamb,
    "normalized-fedavg": normalized_fedavg,
    "fedprox": fedprox,
    "scaffold": scaffold,
    "scaffold-slim": scaffold_slim,
    "feddyn": feddyn,
    "adabest": adabest,
    "fedgbo": fedgbo,
    "mimelite": mimelite,
    "mime": mime,
    "mfl": mfl,
    "adaptive-fedopt": adaptive_fedopt,
    "fedcm": fedcm,
    "fedadc": fedadc,
    "ghbm": ghbm,
    "localghbm": localghbm,
    "fedhbm": fedhbm,
    "mimemom": mimemom,
    "mimelitemom": mimelitemom,
    "scaffold-momentum": scaffold_momentum,
    "server-ghbm": server_ghbm,
    "ghbm-theory": ghbm_theory,
}

__all__ = [
    "REFERENCES",
    "Problem",
    "adabest",
    "adaptive_fedopt",
    "fedadagrad",
    "fedadam",
    "fedadc",
    "fedavg",
    "fedavgm",
    "fedcm",
    "feddyn",
    "fedgbo",
    "fedhbm",
    "fedlamb",
    "fedlars",
    "fedprox",
    "fedsgd",
    "fedyogi",
    "ghbm",
    "ghbm_theory",
    "localghbm",
    "mfl",
    "mime",
    "mimelite",
    "mimelitemom",
    "mimemom",
    "normalized_fedavg",
    "scaffold",
    "scaffold_momentum",
    "scaffold_slim",
    "server_ghbm",
]
