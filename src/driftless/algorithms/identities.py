"""Which algorithm becomes which other one for special hyper-parameters, each with the test that proves it."""

from __future__ import annotations

from typing import NamedTuple

from driftless.algorithms import ALGORITHMS

NAMES = {cls.__name__: name for name, cls in ALGORITHMS.items()}


class Identity(NamedTuple):
    """Both sides take the same trajectory, given the same weighting of clients.

    A hyper-parameter that both have and neither names is the same on both sides, any other has its default; letters
    such as b and s are any values.
    """

    special: str
    equals: str
    when: str
    """Conditions in words; empty: always."""
    test: str
    """The test that proves it."""

    @property
    def names(self) -> tuple[str, str]:
        """Of both sides, in ALGORITHMS."""
        special, equals = (NAMES[side.partition("(")[0]] for side in (self.special, self.equals))
        return special, equals


DRIFT = "tests/algorithms/test_drift_identities.py::"
MOMENTUM = "tests/algorithms/test_momentum_identities.py::"
MORE = "tests/algorithms/test_identities.py::"

IDENTITIES: tuple[Identity, ...] = (
    # FedAvg and what reduces to it
    Identity(
        "FedSGD()",
        "FedAvg()",
        "one full-batch local step, lr = 1",
        MORE + "test_fedsgd_is_fedavg_with_one_full_batch_step_of_length_one",
    ),
    Identity("FedAvgM(momentum=0)", "FedAvg()", "", DRIFT + "test_fedavgm_without_momentum_is_fedavg"),
    Identity("FedProx(mu=0)", "FedAvg()", "", DRIFT + "test_fedprox_without_mu_is_fedavg"),
    Identity(
        "Scaffold()",
        "FedAvg()",
        "all control variates are held at 0",
        DRIFT + "test_scaffold_with_its_controls_held_at_zero_is_fedavg",
    ),
    Identity("AdaBest(mu=0, beta=0)", "FedAvg()", "", DRIFT + "test_adabest_without_mu_and_beta_is_fedavg"),
    Identity("FedCM(alpha=1)", "FedAvg()", "", MORE + "test_without_its_momentum_an_algorithm_is_fedavg"),
    Identity("MimeLiteMom(beta=0)", "FedAvg()", "", MORE + "test_without_its_momentum_an_algorithm_is_fedavg"),
    Identity("GHBM(beta=0)", "FedAvg()", "", MOMENTUM + "test_ghbm_without_beta_is_fedavg"),
    Identity("LocalGHBM(beta=0)", "FedAvg()", "", MORE + "test_without_its_momentum_an_algorithm_is_fedavg"),
    Identity("FedHBM(beta=0)", "FedAvg()", "", MORE + "test_without_its_momentum_an_algorithm_is_fedavg"),
    Identity("ServerGHBM(beta=0)", "FedAvg()", "", MORE + "test_without_its_momentum_an_algorithm_is_fedavg"),
    # SCAFFOLD, FedDyn, AdaBest
    Identity(
        "ScaffoldSlim()", "Scaffold()", "equal K, uniform mean", DRIFT + "test_the_exact_scaffold_slim_is_scaffold"
    ),
    Identity(
        'ScaffoldSlim(retention="paper")',
        "Scaffold()",
        "one client in each round",
        DRIFT + "test_the_papers_scaffold_slim_is_scaffold_only_for_cohorts_of_one",
    ),
    Identity("ScaffoldMomentum(beta=1)", "Scaffold()", "", DRIFT + "test_scaffold_momentum_with_beta_one_is_scaffold"),
    Identity(
        "AdaBest(beta=1, size_adaptive=False)",
        "FedDyn()",
        "all clients take part in each round, FedDyn without its proximal term",
        DRIFT + "test_with_everyone_adabest_with_beta_one_is_feddyn_without_its_proximal_term",
    ),
    # FedGBO and its rivals
    Identity(
        'AdaptiveFedOpt(server_lr=s, optimizer="sgdm", beta=b)',
        "FedAvgM(server_lr=s*(1 - b), momentum=b)",
        "",
        MOMENTUM + "test_adaptive_fedopt_with_momentum_is_fedavgm_with_a_smaller_server_lr",
    ),
    Identity(
        "FedGBO()",
        "MimeLite()",
        "one full-batch local step",
        MOMENTUM + "test_fedgbo_is_mimelite_at_one_full_batch_step",
    ),
    Identity(
        "Mime()", "MimeLite()", "one full-batch local step", MORE + "test_mime_is_mimelite_at_one_full_batch_step"
    ),
    Identity(
        'MFL(optimizer="sgdm")',
        'FedGBO(optimizer="sgdm")',
        "one local step",
        MORE + "test_mfl_with_momentum_is_fedgbo_at_one_local_step",
    ),
    Identity(
        'MimeLite(optimizer="sgdm")',
        'MimeLiteMom(form="ema")',
        "",
        MORE + "test_mime_with_momentum_is_its_form_of_the_ghbm_paper",
    ),
    Identity(
        'Mime(optimizer="sgdm")',
        'MimeMom(form="ema")',
        "",
        MORE + "test_mime_with_momentum_is_its_form_of_the_ghbm_paper",
    ),
    Identity(
        'FedGBO(optimizer="sgdm", beta=b)', "FedCM(alpha=1 - b)", "", MOMENTUM + "test_fedgbo_with_momentum_is_fedcm"
    ),
    # The momentum methods
    Identity(
        "FedCM(alpha=a, server_lr=s)",
        "GHBM(beta=(1 - a)/s, tau=1, server_lr=s)",
        "equal K, constant lr, which is a times as large for GHBM",
        MOMENTUM + "test_fedcm_is_ghbm_of_the_last_round",
    ),
    Identity(
        "FedADC(beta_local=b, beta_global=b, server_lr=s)",
        "GHBM(beta=b/s, tau=1, server_lr=s)",
        "constant lr",
        MOMENTUM + "test_fedadc_with_equal_momenta_is_ghbm_of_the_last_round",
    ),
    Identity(
        "FedADC(beta_local=0, beta_global=b)",
        "FedAvgM(momentum=b)",
        "constant lr",
        MORE + "test_fedadc_without_local_momentum_is_fedavgm",
    ),
    Identity(
        "GHBMTheory(beta=a, tau=1)",
        "FedCM(alpha=a)",
        "equal K",
        MOMENTUM + "test_the_analysed_ghbm_of_the_last_round_is_fedcm",
    ),
    Identity(
        "ServerGHBM(beta=b, tau=1)",
        "FedAvgM(momentum=b)",
        "",
        MOMENTUM + "test_server_ghbm_of_the_last_round_is_fedavgm",
    ),
    Identity(
        "LocalGHBM()",
        "GHBM(tau=p)",
        "clients take part in turns, each every p rounds",
        MOMENTUM + "test_localghbm_is_ghbm_under_cyclic_participation",
    ),
)
