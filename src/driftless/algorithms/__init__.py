"""Every algorithm by the name that the command line and the configuration use.

The docstring of a class has its idea, paper, equations, hyper-parameters, vectors and deviations. Equations stand in
the order in which a round computes them: `<-` changes what is kept until the next round, `=` names a value of this one,
and every local step ends with y <- y - lr*d. mean is over the clients of the round, sum_k over a client's local steps,
sum_s over rounds; x[s] is x after round s, x[l] the layer l of x; grad(f_i, x) is the gradient of all examples of
client i. What is kept starts at 0 unless a line says otherwise. docs/algorithms.md explains the other symbols.
"""

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
