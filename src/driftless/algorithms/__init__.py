"""Every algorithm by the name that the command line and the configuration use."""

from __future__ import annotations

from driftless.algorithm import Algorithm
from driftless.algorithms.adabest import AdaBest
from driftless.algorithms.adaptive_fedopt import AdaptiveFedOpt
from driftless.algorithms.clipping import AdaptiveClipping as AdaptiveClipping
from driftless.algorithms.fedavg import FedAvg, FedSGD
from driftless.algorithms.fedcm import FedADC, FedCM
from driftless.algorithms.feddyn import FedDyn
from driftless.algorithms.fedgbo import FedGBO
from driftless.algorithms.fedopt import FedAdagrad, FedAdam, FedAvgM, FedYogi
from driftless.algorithms.fedprox import FedProx
from driftless.algorithms.ghbm import GHBM, FedHBM, LocalGHBM, ServerGHBM
from driftless.algorithms.ghbm_theory import GHBMTheory
from driftless.algorithms.layerwise import FedLamb, FedLars, NormalizedFedAvg
from driftless.algorithms.mfl import MFL
from driftless.algorithms.mime import Mime, MimeLite, MimeLiteMom, MimeMom
from driftless.algorithms.scaffold import Scaffold
from driftless.algorithms.scaffold_momentum import ScaffoldMomentum
from driftless.algorithms.scaffold_slim import ScaffoldSlim

ALGORITHMS: dict[str, type[Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in (
        FedAvg, FedSGD, FedAvgM, FedAdagrad, FedAdam, FedYogi, FedLars, FedLamb, NormalizedFedAvg,
        FedProx, Scaffold, ScaffoldSlim, FedDyn, AdaBest,
        FedGBO, MimeLite, Mime, MFL, AdaptiveFedOpt,
        FedCM, FedADC, GHBM, LocalGHBM, FedHBM, MimeMom, MimeLiteMom, ScaffoldMomentum, ServerGHBM, GHBMTheory,
    )
}  # fmt: skip
