"""Partitions: pure functions from labels to the client of each example.

Every function returns an int64 array [n], gives each example to exactly one client and leaves no client empty.
The Dirichlet partitions differ only in their label weights; `allocate` turns these into an assignment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from driftless.data.array_checks import Ints, numbered
from driftless.errors import InputError, check_choice, check_range, check_whole

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Restrict: TypeAlias = Callable[[Floats, Mask], Floats]
Generator: TypeAlias = np.random.Generator

SUPPLIED = ("n", "labels", "coarse", "users", "clients", "rng")  # parameters that `load` fills in


def iid(n: int, clients: int, rng: Generator) -> Ints:
    """Deal the examples at random; sizes differ by at most one.

    Args:
        n: The number of examples.
        clients: The number of clients.
        rng: Random numbers.

    Returns:
        The client of each example, [n].

    Examples:
        >>> import numpy as np
        >>> from driftless.data.partition import iid
        >>> np.bincount(iid(10, 4, np.random.default_rng(0)))
        array([3, 3, 2, 2])
    """
    _check_enough(n, clients)
    return rng.permutation(n) % clients


def dirichlet(
    labels: npt.ArrayLike, clients: int, alpha: float, rng: Generator, sizes: str = "balanced", sigma: float = 0.3
) -> Ints:
    """Draw the label probabilities of each client from Dirichlet(alpha, ..., alpha).

    This is the protocol of FedDyn and AdaBest.

    Args:
        labels: The label of each example.
        clients: The number of clients.
        alpha: The concentration, above 0: small gives each client few labels.
        rng: Random numbers.
        sizes: "balanced" (default), the sizes of clients differ by at most one; or "lognormal".
        sigma: With "lognormal", the standard deviation of the logarithm of a size. Default 0.3.

    Returns:
        The client of each example, [n].

    Examples:
        >>> import numpy as np
        >>> from driftless.data.partition import dirichlet
        >>> owner = dirichlet([0, 1, 2] * 20, clients=4, alpha=0.1, rng=np.random.default_rng(0))
        >>> np.bincount(owner)
        array([15, 15, 15, 15])
    """
    check_options("dirichlet", alpha=alpha, sizes=sizes, sigma=sigma)
    codes = _codes(labels, clients)
    weights = _log_dirichlet(np.full(codes.max() + 1, float(alpha)), clients, rng)
    if sizes == "balanced":
        numbers = _balanced(len(codes), clients)
    else:
        logs = sigma * rng.standard_normal(clients)
        numbers = apportion(np.exp(logs - logs.max()), len(codes))
    return allocate(codes, numbers, weights, rng)


def prior_dirichlet(labels: npt.ArrayLike, clients: int, alpha: float, rng: Generator) -> Ints:
    """Draw the label probabilities of each client from Dirichlet(alpha * global distribution) (Hsu et al. 2019).

    Sizes are balanced.

    Args:
        labels: The label of each example.
        clients: The number of clients.
        alpha: The concentration, at least 0. 0 is the limit, the worst case of the GHBM experiments: each client has a
            single label.
        rng: Random numbers.

    Returns:
        The client of each example, [n].

    Examples:
        >>> import numpy as np
        >>> from driftless.data.partition import prior_dirichlet
        >>> labels = np.array([0, 1, 2] * 20)
        >>> owner = prior_dirichlet(labels, clients=6, alpha=0, rng=np.random.default_rng(0))
        >>> [len(set(labels[owner == client].tolist())) for client in range(6)]
        [1, 1, 1, 1, 1, 1]
    """
    check_options("prior-dirichlet", alpha=alpha)
    codes = _codes(labels, clients)
    if alpha == 0:
        return _single_label(codes, clients, rng)
    concentration = alpha * np.bincount(codes) / len(codes)
    return allocate(codes, _balanced(len(codes), clients), _log_dirichlet(concentration, clients, rng), rng)


def shards(labels: npt.ArrayLike, clients: int, rng: Generator, shards_per_client: int = 2) -> Ints:
    """Sort by label, cut into equal shards, and deal these at random (McMahan et al. 2017).

    Args:
        labels: The label of each example.
        clients: The number of clients.
        rng: Random numbers.
        shards_per_client: At least 1. Default 2.

    Returns:
        The client of each example, [n].

    Examples:
        >>> import numpy as np
        >>> from driftless.data.partition import shards
        >>> np.bincount(shards([0, 1, 2, 3] * 10, clients=5, rng=np.random.default_rng(0)))
        array([8, 8, 8, 8, 8])
    """
    check_options("shards", shards_per_client=shards_per_client)
    codes = _codes(labels, clients)
    n = len(codes)
    number = min(n, clients * shards_per_client)  # a shard has at least one example
    owner_of_shard = rng.permutation(number) % clients
    assignment = np.empty(n, dtype=np.int64)
    assignment[_shuffled_by_label(codes, rng)] = owner_of_shard[np.arange(n) * number // n]
    return assignment


def pachinko(
    labels: npt.ArrayLike,
    coarse: npt.ArrayLike | None,
    clients: int,
    rng: Generator,
    alpha: float = 0.1,
    beta: float = 10.0,
) -> Ints:
    """Pachinko allocation over coarse and fine labels, balanced sizes (Reddi et al. 2021).

    Each client draws Dirichlet(alpha) over the coarse labels and Dirichlet(beta) over the fine labels of each.

    Args:
        labels: The fine label of each example.
        coarse: The coarse label of each example; None is an error that says where they come from.
        clients: The number of clients.
        rng: Random numbers.
        alpha: The concentration over coarse labels, above 0. Default 0.1.
        beta: The concentration over the fine labels of a coarse one, above 0. Default 10.

    Returns:
        The client of each example, [n].

    Examples:
        >>> import numpy as np
        >>> from driftless.data.partition import pachinko
        >>> fine = np.arange(40) % 4
        >>> np.bincount(pachinko(fine, fine // 2, clients=5, rng=np.random.default_rng(0)))
        array([8, 8, 8, 8, 8])
    """
    check_options("pachinko", alpha=alpha, beta=beta)
    codes = _codes(labels, clients)
    parent = _parents(codes, coarse)  # [fine]
    fine = _log_dirichlet(np.full(len(parent), float(beta)), clients, rng)
    # normalised within each coarse label, so that the mass of a coarse label is the one drawn for it
    within = fine - _log_sum_by_parent(fine, parent)[:, parent]
    top = _log_dirichlet(np.full(parent.max() + 1, float(alpha)), clients, rng)
    weights = within + top[:, parent]
    return allocate(codes, _balanced(len(codes), clients), weights, rng, partial(_siblings_first, parent=parent))


def natural(users: Iterable[Hashable] | Tensor) -> tuple[Ints, tuple[str, ...]]:
    """One client per user, in the order of first appearance.

    Args:
        users: The user of each example.

    Returns:
        The client of each example, [n], and the users' names.

    Examples:
        >>> from driftless.data.partition import natural
        >>> natural(["ann", "bob", "ann"])
        (array([0, 1, 0]), ('ann', 'bob'))
    """
    return numbered(users, "users")


def allocate(labels: Ints, sizes: Ints, priors: Floats, rng: Generator, restrict: Restrict | None = None) -> Ints:
    """Fill sizes[i] slots of client i with labels drawn by its prior, without replacement.

    `labels` are 0..classes-1, `sizes` sum to their number, `priors` are log weights [clients, classes] (no need to
    normalise; logarithms, as the weights of a small alpha underflow). All slots draw at once, in a random order; where
    a label is drawn more often than it occurs, the late slots draw again from `restrict(priors, available)`. Each pass
    exhausts at least one label, so there are at most `classes` passes.
    """
    supply = np.bincount(labels, minlength=priors.shape[1])
    owner = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    label_of_slot = np.empty(len(labels), dtype=np.int64)
    pending = np.arange(len(labels))
    while len(pending):
        waiting, row = np.unique(owner[pending], return_inverse=True)
        weights = (restrict or _available_only)(priors[waiting], supply > 0)
        drawn = _draw(weights, row, supply, rng)
        served = _rank_within(drawn) < supply[drawn]
        label_of_slot[pending[served]] = drawn[served]
        supply = supply - np.bincount(drawn[served], minlength=len(supply))
        pending = pending[~served]
    assignment = np.empty(len(labels), dtype=np.int64)
    # examples are shuffled as well, so that late slots do not get the last examples of a file
    assignment[_shuffled_by_label(labels, rng)] = owner[np.argsort(label_of_slot, kind="stable")]
    return assignment


def _available_only(priors: Floats, available: Mask) -> Floats:
    return np.where(available, priors, -np.inf)


def _siblings_first(priors: Floats, available: Mask, parent: Ints) -> Floats:
    """The mass of an exhausted fine label goes to its siblings; a coarse label with none left is removed."""
    left = np.where(available, priors, -np.inf)
    before, after = _log_sum_by_parent(priors, parent), _log_sum_by_parent(left, parent)
    gain = np.where(np.isfinite(after), before - np.where(np.isfinite(after), after, 0), 0)
    return left + gain[:, parent]


def _draw(weights: Floats, row: Ints, supply: Ints, rng: Generator) -> Ints:
    """One label for each slot from the log weights of its row, by inverting all cumulative distributions at once."""
    without_mass = weights.max(axis=1, keepdims=True) == -np.inf
    with np.errstate(divide="ignore"):
        weights = np.where(without_mass, np.log(supply), weights)
    mass = np.exp(weights - weights.max(axis=1, keepdims=True))
    cdf = np.cumsum(mass, axis=1)
    cdf /= cdf[:, -1:]
    # row i is moved to [i, i+1], so that one sorted array holds all rows; rounding must not lead into the next row
    ladder = (cdf + np.arange(len(cdf))[:, None]).ravel()
    point = np.minimum(row + rng.random(len(row)), np.nextafter(row + 1.0, 0.0))
    return np.searchsorted(ladder, point, side="right") - row * weights.shape[1]


def _rank_within(values: Ints) -> Ints:
    """For each entry, how many earlier entries have the same value."""
    order = np.argsort(values, kind="stable")
    counts = np.bincount(values)
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank


def _shuffled_by_label(codes: Ints, rng: Generator) -> Ints:
    """The indices of the examples sorted by label, in random order within a label."""
    order = rng.permutation(len(codes))
    return order[np.argsort(codes[order], kind="stable")]


def _log_dirichlet(concentration: Floats, clients: int, rng: Generator) -> Floats:
    """The logarithms of Dirichlet draws relative to the largest of each row, [clients, classes].

    Gamma(a) = Gamma(a + 1) U^(1/a) in logarithms is finite where the gamma variates of a small a are all zero.
    """
    a = np.maximum(concentration, 1e-300)  # below, 1/a overflows; the draw is one-hot long before
    shape = (clients, len(a))
    logs = np.log(rng.standard_gamma(a + 1, shape)) - rng.standard_exponential(shape) / a
    return logs - logs.max(axis=1, keepdims=True)  # so that the heaviest labels keep their digits in sums


def _log_sum_by_parent(weights: Floats, parent: Ints) -> Floats:
    """log sum exp over the fine labels of each coarse label, [rows, coarse]."""
    order = np.argsort(parent, kind="stable")
    starts = np.searchsorted(parent[order], np.arange(parent.max() + 1))
    ordered = weights[:, order]
    top = np.maximum.reduceat(ordered, starts, axis=1)
    top = np.where(np.isfinite(top), top, 0)  # all -inf: any finite reference will do
    total = np.add.reduceat(np.exp(ordered - top[:, parent[order]]), starts, axis=1)
    with np.errstate(divide="ignore"):
        return np.log(total) + top


def _parents(codes: Ints, coarse: npt.ArrayLike | None) -> Ints:
    if coarse is None:
        raise InputError(
            "pachinko needs coarse labels, got none; choose a data set that has them, give the coarse label of each "
            "example as `coarse`, or use partition 'dirichlet'."
        )
    _, groups = np.unique(np.asarray(coarse), return_inverse=True)
    if groups.shape != codes.shape:
        raise InputError(
            f"coarse has the shape {list(groups.shape)} for {len(codes)} labels; give one coarse label per example."
        )
    parent = np.empty(codes.max() + 1, dtype=np.int64)
    parent[codes] = groups
    strays = np.flatnonzero(parent[codes] != groups)
    if len(strays):
        raise InputError(
            f"example {strays[0]} has its fine label under another coarse label than other examples do; "
            "give every fine label exactly one coarse label."
        )
    return parent


def _single_label(codes: Ints, clients: int, rng: Generator) -> Ints:
    """Clients are shared out to labels in proportion to their counts, the examples of a label evenly to its clients."""
    counts = np.bincount(codes)
    if clients < len(counts):
        raise InputError(
            f"alpha=0 gives every client a single label and needs at least {len(counts)} clients for {len(counts)} "
            f"labels, got {clients}; use more clients or a small alpha such as 0.01."
        )
    clients_of = apportion(counts.astype(np.float64), clients)
    first = np.cumsum(clients_of) - clients_of
    order = _shuffled_by_label(codes, rng)
    label = codes[order]
    turn = (np.arange(len(codes)) - (np.cumsum(counts) - counts)[label]) % clients_of[label]
    assignment = np.empty(len(codes), dtype=np.int64)
    assignment[order] = rng.permutation(clients)[first[label] + turn]
    return assignment


def apportion(weights: Floats, total: int) -> Ints:
    """`total` in proportion to `weights` by largest remainder, at least 1 each."""
    order = np.argsort(-weights, kind="stable")
    sorted_weights = weights[order]
    # the j largest share what is left when the others have 1 each; the largest j whose shares are all at least 1
    left = total - len(weights) + np.arange(1, len(weights) + 1)
    largest = np.flatnonzero(sorted_weights * left >= np.cumsum(sorted_weights))[-1] + 1
    quota = sorted_weights[:largest] / sorted_weights[:largest].sum() * left[largest - 1]
    shares = np.ones(len(weights), dtype=np.int64)
    shares[:largest] = np.maximum(np.floor(quota), 1)
    by_remainder = np.argsort(shares[:largest] - quota, kind="stable")
    shares[by_remainder[: total - shares.sum()]] += 1
    result = np.empty_like(shares)
    result[order] = shares
    return result


def _balanced(n: int, clients: int) -> Ints:
    return n // clients + (np.arange(clients) < n % clients)


def _codes(labels: npt.ArrayLike, clients: int) -> Ints:
    """The labels as 0..k-1 without gaps."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise InputError(
            f"this partition needs one integer label per example, got {array.dtype} of shape {list(array.shape)}; "
            "use partition 'iid' for regression and for sequences."
        )
    _check_enough(len(array), clients)
    return np.unique(array, return_inverse=True)[1].astype(np.int64, copy=False)


def _check_enough(n: int, clients: int) -> None:
    if n < check_whole("clients", clients, 1):
        raise InputError(f"{n} examples are too few for {clients} clients; use at most {n} clients.")


def check_options(
    partition: str, alpha: Any = 1, beta: Any = 1, sizes: Any = "balanced", sigma: Any = 0, shards_per_client: Any = 1
) -> None:
    """Raise unless the options are allowed; also called before any data are loaded."""
    check_range("alpha", alpha, 0, np.inf, low_open=partition != "prior-dirichlet", high_open=True)
    check_range("beta", beta, 0, np.inf, low_open=True, high_open=True)
    check_range("sigma", sigma, 0, np.inf, high_open=True)
    check_choice("sizes", sizes, ("balanced", "lognormal"))
    check_whole("shards_per_client", shards_per_client, 1)


@dataclass(frozen=True)
class Partition:
    """An entry of `PARTITIONS`, used by `load` and `driftless list partitions`.

    Attributes:
        assign: The function, from labels to the client of each example.
        summary: One line for `driftless list partitions`.

    Examples:
        >>> from driftless.data import PARTITIONS
        >>> PARTITIONS["shards"].needs, list(PARTITIONS["shards"].options)
        (('labels', 'clients', 'rng'), ['shards_per_client'])
    """

    assign: Callable[..., Ints | tuple[Ints, tuple[str, ...]]]
    summary: str

    @property
    def needs(self) -> tuple[str, ...]:
        """The parameters that `load` fills in, from SUPPLIED."""
        return tuple(name for name in inspect.signature(self.assign).parameters if name in SUPPLIED)

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """The parameters that the user may set; one whose default is `Parameter.empty` must be set."""
        parameters = inspect.signature(self.assign).parameters
        return {name: parameter for name, parameter in parameters.items() if name not in SUPPLIED}


PARTITIONS: dict[str, Partition] = {
    "iid": Partition(iid, "examples dealt at random, sizes equal"),
    "dirichlet": Partition(
        dirichlet, "label probabilities of each client from Dirichlet(alpha); small alpha = few labels per client"
    ),
    "prior-dirichlet": Partition(
        prior_dirichlet, "Dirichlet(alpha * global label distribution); alpha=0 = a single label per client"
    ),
    "shards": Partition(shards, "sorted by label, cut into shards, dealt at random"),
    "pachinko": Partition(
        pachinko, "Dirichlet(alpha) over coarse labels, Dirichlet(beta) over the fine labels in each"
    ),
    "natural": Partition(natural, "one client per user of the data set"),
}
"""The partitions by the names that `load`, `Federation.from_dataset` and the command line use."""
DEFAULT_OPTIONS: dict[str, dict[str, object]] = {"dirichlet": {"alpha": 0.1}}
"""Of a partition that is the default of a data set and was not named."""


def partitions_with(option: str) -> list[str]:
    return [name for name, partition in PARTITIONS.items() if option in partition.options]
