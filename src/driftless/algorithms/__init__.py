"""Every algorithm by the name that the command line and the configuration use."""

from __future__ import annotations

from driftless.algorithm import Algorithm
from driftless.algorithms.adabest import AdaBest
from driftless.algorithms.adaptive_fedopt import AdaptiveFedOpt
from driftless.algorithms.clipping import AdaptiveClipping
from driftless.algorithms.fedavg import FedAvg, FedSGD
from driftless.algorithms.fedcm import FedADC, FedCM
from driftless.algorithms.feddyn import FedDyn
from driftless.algorithms.fedgbo import FedGBO
from driftless.algorithms.fedopt import FedAdagrad, FedAdam, FedAvgM, FedYogi
from driftless.algorithms.fedprox import FedProx
from driftless.algorithms.ghbm import GHBM, FedHBM, GHBMTheory, LocalGHBM, ServerGHBM
from driftless.algorithms.layerwise import FedLamb, FedLars, NormalizedFedAvg
from driftless.algorithms.mfl import MFL
from driftless.algorithms.mime import Mime, MimeLite, MimeLiteMom, MimeMom
from driftless.algorithms.scaffold import Scaffold, ScaffoldSlim
from driftless.algorithms.scaffold_momentum import ScaffoldMomentum

ALGORITHMS: dict[str, type[Algorithm]] = {
    "fedavg": FedAvg,
    "fedsgd": FedSGD,
    "fedavgm": FedAvgM,
    "fedadagrad": FedAdagrad,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedlars": FedLars,
    "fedlamb": FedLamb,
    "normalized-fedavg": NormalizedFedAvg,
    "fedprox": FedProx,
    "scaffold": Scaffold,
    "scaffold-slim": ScaffoldSlim,
    "feddyn": FedDyn,
    "adabest": AdaBest,
    "fedgbo": FedGBO,
    "mimelite": MimeLite,
    "mime": Mime,
    "mfl": MFL,
    "adaptive-fedopt": AdaptiveFedOpt,
    "fedcm": FedCM,
    "fedadc": FedADC,
    "ghbm": GHBM,
    "localghbm": LocalGHBM,
    "fedhbm": FedHBM,
    "mimemom": MimeMom,
    "mimelitemom": MimeLiteMom,
    "scaffold-momentum": ScaffoldMomentum,
    "server-ghbm": ServerGHBM,
    "ghbm-theory": GHBMTheory,
}

__all__ = [
    "ALGORITHMS",
    "AdaptiveClipping",
    "AdaBest",
    "AdaptiveFedOpt",
    "FedADC",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedCM",
    "FedDyn",
    "FedGBO",
    "FedHBM",
    "FedLamb",
    "FedLars",
    "FedProx",
    "FedSGD",
    "FedYogi",
    "GHBM",
    "GHBMTheory",
    "LocalGHBM",
    "MFL",
    "Mime",
    "MimeLite",
    "MimeLiteMom",
    "MimeMom",
    "NormalizedFedAvg",
    "Scaffold",
    "ScaffoldMomentum",
    "ScaffoldSlim",
    "ServerGHBM",
]
