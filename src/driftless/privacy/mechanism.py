"""Differential privacy of clients: uploads are clipped, and the server adds noise to their mean.

McMahan, Ramage, Talwar, Zhang. Learning Differentially Private Recurrent Language Models. ICLR 2018, arXiv:1710.06963:
DP-FedAvg with a fixed denominator. Adaptive clipping: Andrew, Thakkar, McMahan, Ramaswamy. NeurIPS 2021,
arXiv:1905.03871, Algorithm 1.

    client:  u = all fields of the upload, jointly;  u <- u * min(1, S/norm(u));  b = 1 if norm(u) <= S else 0
    server:  mean = (sum of u + N(0, (z_u S)^2))/m;   m the planned number of clients of a round, whoever came
             share = (sum of (b - 1/2) + N(0, s_b^2))/m + 1/2;   S <- S * exp(-clip_lr*(share - clip_quantile))

z_u = z with a fixed S. With an adaptive S, z_u = (z^-2 - (2 s_b)^-2)^(-1/2), so that both sums together cost as much as
one with noise multiplier z: b - 1/2 is at most 1/2.

The inner algorithm sees only what is public: r.cohort is m, r.examples is 1 on both sides (every client counts the
same), r.steps on the server is K where it is the same for all, and otherwise an error for an algorithm that reads it.
An upload that is not finite counts as zeros. Client states stay on the clients; see docs/privacy.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from driftless.algorithm import Facts, Plan, Round, Scalar, Vector
from driftless.algorithms.checks import choice, fraction, positive
from driftless.algorithms.wrapper import Wrapper
from driftless.engine.round_values import STEPS
from driftless.engine.tree import leaves, named_leaves, with_leaves
from driftless.errors import InputError, check_range
from driftless.privacy.accounting import (
    ACCOUNTANTS,
    NEIGHBOURS,
    Sampling,
    check_supported,
    default_delta,
    epsilon,
    epsilon_so_far,
    noise_for,
)
from driftless.privacy.noise import SOURCES, keyed_normal, secure_normal


class Server(NamedTuple):
    inner: Any
    clip: Scalar
    t: Scalar
    """The last round."""
    unclipped: Scalar
    """The share of uploads that were not clipped, with noise; not used with a fixed norm."""

    @property
    def x(self) -> Vector:
        return self.inner.x


class Message(NamedTuple):
    inner: Any
    clip: Scalar

    @property
    def x(self) -> Vector:
        return self.inner.x


class Upload(NamedTuple):
    inner: Any
    below: Any
    """b - 1/2; () with a fixed norm."""

    @property
    def delta(self) -> Vector:
        return self.inner.delta


class WithoutSteps(Round):
    """Facts of a round in which K differs from client to client."""

    __slots__ = ()

    @property
    def steps(self) -> Scalar:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise InputError(
            "the server of this algorithm uses the mean number of local steps, which tells how many examples clients "
            "have; with differential privacy set the same number for all, such as local.steps=10."
        )


@dataclass(frozen=True)
class DifferentialPrivacy(Wrapper):
    """User-level differential privacy for an algorithm: uploads are clipped, and the server adds noise to their mean.

    Needs `pip install driftless[privacy]`. Give `noise_multiplier` or `target_epsilon`. Epsilon is in every row of the
    history. See docs/privacy.md.

    Attributes:
        inner: The algorithm that is protected; not Mime or MimeMom, whose clients send full gradients before their
            steps.
        noise_multiplier: z, the standard deviation of the noise in the sum of the uploads, relative to the clipping
            norm. None: solved for `target_epsilon`.
        clip: S, the clipping norm; with `clip_quantile`, that of the first round. Default 1.
        target_epsilon: Epsilon after all rounds, for which the noise is solved when the run is planned. None: it
            follows from the noise.
        delta: In (0, 1). None: N^-1.1.
        clip_quantile: The share of uploads that S should not clip: S then follows their norms. None: S is fixed.
        clip_lr: How fast S follows. Default 0.2.
        clip_noise: s_b, the standard deviation of the noise in the number of unclipped uploads. None: m/20, at least z.
        accountant: "rdp" (default) or "pld".
        noise_source: "keyed" (default) by the run's seed, for simulation; "secure", from the operating system, for
            deployment.
        plan: The run; filled in by `for_run`.

    Examples:
        >>> import driftless
        >>> from driftless.data.cohorts import Poisson
        >>> federation = driftless.load("digits", clients=50, seed=0)
        >>> private = driftless.DifferentialPrivacy(driftless.algorithms.FedAvg(), target_epsilon=8)
        >>> result = driftless.simulate(private, federation, "logistic", rounds=2, cohort=Poisson(0.2))
        >>> result.history["epsilon"][-1] <= 8
        True
    """

    noise_multiplier: float | None = None
    clip: float = 1.0
    target_epsilon: float | None = None
    delta: float | None = None
    clip_quantile: float | None = None
    clip_lr: float = 0.2
    clip_noise: float | None = None
    accountant: str = "rdp"
    noise_source: str = "keyed"
    plan: Plan | None = field(default=None, repr=False)

    citation = "McMahan et al., ICLR 2018, arXiv:1710.06963; Andrew et al., NeurIPS 2021, arXiv:1905.03871"
    weighting = "uniform"
    needs_clients = False
    outermost: ClassVar[bool] = True

    def __post_init__(self):
        super().__post_init__()
        if self.inner.full_gradient == "before":
            raise InputError(
                f"DifferentialPrivacy cannot protect {type(self.inner).__name__}: its clients send full gradients in "
                "an exchange of their own, before their uploads. Use mimelite or mimelitemom instead."
            )
        if self.noise_multiplier is None and self.target_epsilon is None:
            raise InputError("DifferentialPrivacy needs noise_multiplier, such as 1.0, or target_epsilon; give one.")
        for name in ("noise_multiplier", "target_epsilon", "delta", "clip_noise"):
            if (value := getattr(self, name)) is not None:
                least_open, most = name != "noise_multiplier", 1 if name == "delta" else math.inf
                label = f"{name} of DifferentialPrivacy"
                check_range(label, value, 0, most, low_open=least_open, high_open=True)
        positive(self, "clip", "clip_lr")
        if self.clip_quantile is not None:
            fraction(self, "clip_quantile")
        choice(self, "accountant", *ACCOUNTANTS)
        choice(self, "noise_source", *SOURCES)

    # Before the run

    def for_run(self, plan):
        if plan.weighting != "uniform":
            raise InputError(
                f"weighting={plan.weighting!r} lets one client count more than another, which differential privacy "
                "does not bound; set weighting=uniform."
            )
        if plan.inference not in (None, "cloud"):
            raise InputError(
                f"inference={plan.inference!r} evaluates a mean of client models to which no noise was added; leave it "
                "out, or set inference=cloud."
            )
        if plan.aggregation != "mean":
            raise InputError(
                f"server.aggregation={plan.aggregation!r} is not a mean: how much one client can change its result is "
                "not what the noise is made for; set server.aggregation=mean."
            )
        planned = replace(self, inner=self.inner.for_run(plan), plan=plan)
        planned.check_inner()
        check_supported(planned.sampling, self.accountant)
        delta = default_delta(plan.clients) if self.delta is None else self.delta
        check_range("delta of DifferentialPrivacy", delta, 0, 1, low_open=True, high_open=True)
        z, target = self.noise_multiplier, self.target_epsilon
        if z is None:
            assert target is not None
            z = noise_for(target, delta, plan.rounds, planned.sampling, self.accountant)
        planned = replace(planned, noise_multiplier=z, delta=delta)
        if target is not None and planned.epsilon(plan.rounds) > target:
            raise InputError(
                f"noise_multiplier={z:g} gives epsilon {planned.epsilon(plan.rounds):.4g} after {plan.rounds} rounds, "
                f"more than target_epsilon={target:g}; leave noise_multiplier out, so that it is solved for."
            )
        if math.isinf(planned.split_noise):
            raise InputError(
                f"clip_noise={self.clip_noise} of DifferentialPrivacy spends the whole noise multiplier of {z:g} on "
                f"the clipping norm; set it to more than {z / 2:g}."
            )
        return planned

    def check_inner(self) -> None:
        """What is uploaded must be numbers, and the inner algorithm's server may only know what is public."""
        server, upload, r = self.trial()
        for name, leaf in named_leaves(upload):
            if not leaf.is_floating_point():
                raise InputError(
                    f"{type(self.inner).__name__} uploads '{name}' as {leaf.dtype}, to which no noise can be added; "
                    "upload it as a float."
                )
        self.inner.update(server, upload, self.of_server(r))

    def trial(self) -> tuple[Any, Any, Round]:
        """The inner algorithm's first server state and the upload of a client that has learned nothing."""
        plan, one = self.planned, torch.ones(())
        x = torch.zeros(plan.layers[-1].stop)
        server = self.inner.init_server(x, Facts(plan.layers, plan.clients))
        r = Round(one, one, one, one, plan.clients, plan.clients, plan.layers, x)
        return server, self.inner_upload(self.inner.broadcast(server), r), r

    def private_fields(self) -> list[str]:
        """Of the inner upload, those that are clipped jointly and get noise; an empty vector is none."""
        _, upload, _ = self.trial()
        return [name for name, leaf in named_leaves(upload) if leaf.numel() and not self.is_public(name)]

    @property
    def planned(self) -> Plan:
        """The plan of the run; raises InputError before `for_run`."""
        if self.plan is None:
            raise InputError(
                "DifferentialPrivacy does not know the run: call for_run(driftless.Plan(...)) before its methods."
            )
        return self.plan

    @property
    def sampling(self) -> Sampling:
        """How cohorts are drawn, as far as it may be counted on.

        A state tells in which rounds its client took part. In cohorts of a fixed size that depends on who else did, so
        that a cohort is not independent of what clients remember: then sampling does not count.
        """
        plan = self.planned
        remembers = bool(leaves(self.inner.init_client(torch.zeros(plan.layers[-1].stop))))
        kind = "" if plan.sampling == "fixed" and remembers else plan.sampling
        return Sampling(kind, plan.clients, plan.cohort)

    def epsilon(self, t: int) -> float:
        """Epsilon after round t of the planned run.

        Args:
            t: The round.
        """
        return epsilon(*self.z_and_delta(), t, self.sampling, self.accountant)

    def z_and_delta(self) -> tuple[float, float]:
        """As `for_run` has decided them."""
        assert self.noise_multiplier is not None
        assert self.delta is not None
        return self.noise_multiplier, self.delta

    @property
    def count_noise(self) -> float:
        """s_b."""
        z = self.noise_multiplier or 0.0
        if z == 0:
            return 0.0
        return max(self.planned.cohort / 20, z) if self.clip_noise is None else self.clip_noise

    @property
    def split_noise(self) -> float:
        """z_u: with an adaptive norm more than z, because the count of unclipped uploads is released, too."""
        z = self.noise_multiplier or 0.0
        if self.clip_quantile is None or z == 0:
            return z
        left = z**-2 - (2 * self.count_noise) ** -2
        return left**-0.5 if left > 0 else math.inf

    def notices(self):
        return (self.guarantee(), *self.inner.notices())

    def guarantee(self) -> str:
        """The privacy of the planned run in one sentence."""
        plan, z = self.planned, self.noise_multiplier
        norm = f"clip {self.clip:g}" if self.clip_quantile is None else f"clip at the {self.clip_quantile:g} quantile"
        means = f"noise multiplier {z:.5g} ({self.noise_source}), {norm} of {' and '.join(self.private_fields())}"
        if not z:
            return f"differential privacy: none, because there is no noise; {means}"
        bound = f"epsilon {self.epsilon(plan.rounds):.4g} at delta {self.delta:.2g} after {plan.rounds} rounds"
        return f"differential privacy: {bound} ({NEIGHBOURS[self.sampling.kind]}; {self.accountant}); {means}"

    # The run

    def init_server(self, x, facts):
        return Server(self.inner.init_server(x, facts), x.new_tensor(self.clip), x.new_zeros(()), x.new_ones(()))

    def broadcast(self, server: Server):
        return Message(self.inner.broadcast(server.inner), server.clip)

    def init_local(self, msg, client, r):
        return self.inner.init_local(msg.inner, client, self.of_client(r))

    def direction(self, step, local, msg, client, r):
        return self.inner.direction(step, local, msg.inner, client, self.of_client(r))

    def upload(self, y, local, msg: Message, client, r):
        upload, client = self.inner.upload(y, local, msg.inner, client, self.of_client(r))
        public = [self.is_public(name) for name, _ in named_leaves(upload)]
        fields = leaves(upload)
        private = [leaf for leaf, known in zip(fields, public, strict=True) if not known]
        norm = torch.stack([torch.linalg.vector_norm(leaf) for leaf in private]).norm()
        below, finite = norm <= msg.clip, norm.isfinite()
        scale = torch.where(below, 1.0, msg.clip / torch.where(below, 1.0, norm))
        sent = [
            torch.zeros_like(leaf) if known else torch.where(finite, scale * leaf, 0.0)
            for leaf, known in zip(fields, public, strict=True)
        ]
        bit = () if self.clip_quantile is None else below.to(norm.dtype) - 0.5
        return Upload(with_leaves(upload, sent), bit), client

    def update(self, server: Server, mean: Upload, r):
        came = r.cohort / self.planned.cohort  # the mean is over those that came, the noise for those that were planned
        fields = self.noised(server, mean.inner, came, r)
        inner = self.inner.update(server.inner, with_leaves(mean.inner, fields), self.of_server(r))
        if self.clip_quantile is None:
            return Server(inner, server.clip, r.t, server.unclipped)
        count_std = self.count_noise / self.planned.cohort
        unclipped = mean.below * came + 0.5 + count_std * self.normal(mean.below, r, len(fields))
        clip = server.clip * torch.exp(-self.clip_lr * (unclipped - self.clip_quantile))
        return Server(inner, clip, r.t, unclipped)

    def noised(self, server: Server, mean: Any, came: float, r: Round) -> list[Tensor]:
        """The fields of the mean upload with noise; public ones as the server works them out by itself."""
        std = server.clip * (self.split_noise / self.planned.cohort)
        named = list(named_leaves(mean))
        public: list[Tensor] = []
        if any(self.is_public(name) for name, _ in named):
            msg = self.inner.broadcast(server.inner)
            public = leaves(self.inner_upload(msg, self.of_server(r._replace(gradient=torch.zeros_like(msg.x)))))
        return [
            public[i] if self.is_public(name) else leaf * came + std * self.normal(leaf, r, i)
            for i, (name, leaf) in enumerate(named)
        ]

    def normal(self, like: Tensor, r: Round, index: int) -> Tensor:
        """Standard normal numbers of the shape of a tensor."""
        if self.noise_source == "secure":
            return secure_normal(like)
        return keyed_normal(like, self.planned.seed, int(r.t), index)

    def inner_upload(self, msg: Any, r: Round) -> Any:
        """Of a client without data: what the facts of the round alone decide."""
        client = self.inner.init_client(msg.x)
        return self.inner.upload(msg.x, self.inner.init_local(msg, client, r), msg, client, r)[0]

    def is_public(self, name: str) -> bool:
        """Whether the server works out this field of the upload by itself."""
        return not self.inner.public.isdisjoint(name.split("."))

    def of_client(self, r: Round) -> Round:
        """The facts of the round as a client of the inner algorithm may know them."""
        return r._replace(cohort=self.planned.cohort, examples=torch.ones_like(r.examples))

    def of_server(self, r: Round) -> Round:
        """The facts of the round as the server of the inner algorithm may know them."""
        known = self.of_client(r)
        if self.planned.steps is None:
            return WithoutSteps(*known)
        return known._replace(steps=torch.full_like(r.steps, STEPS.at(self.planned.steps, int(r.t))))

    def diagnostics(self, server: Server, mean: Upload):
        """Not those of the inner algorithm, which are of the mean without noise."""
        plan = self.planned
        spent = epsilon_so_far(*self.z_and_delta(), int(server.t), plan.rounds, self.sampling, self.accountant)
        found: dict[str, Any] = {"epsilon": torch.tensor(spent, dtype=torch.float64), "clip_level": server.clip}
        return found if self.clip_quantile is None else {**found, "clipped": 1 - server.unclipped}
