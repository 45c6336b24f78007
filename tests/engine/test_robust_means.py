"""Each rule against the same rule again, in NumPy, written from the equations of docs/defences.md alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from driftless import Aggregation
from driftless.engine import robust_means
from driftless.engine.aggregation import Aggregated
from driftless.engine.sums import UploadRows
from driftless.engine.tree import leaves, map_leaves

TOLERANCE = 1e-12
UNIFORM = frozenset({"control"})


class Upload(NamedTuple):
    """A vector that is weighted, one that is not, one in a shape of its own, an empty one, and a number."""

    delta: Tensor
    control: Tensor
    inner: tuple[Tensor, ...]
    number: Tensor


def rows_of(n: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> UploadRows:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)

    uploads = Upload(normal(n, 7) + 3, 2 * normal(n, 5), (normal(n, 2, 3), normal(n, 0)), normal(n))
    return UploadRows(uploads, torch.randint(1, 9, (n,), generator=g).to(dtype))


# --- the rules again: on lists of fields, each an array [clients, numbers] with weights of its own


Fields = list[tuple[np.ndarray, np.ndarray]]
"""Values and weights of each field."""


def fields_of(rows: UploadRows) -> Fields:
    weights, ones = rows.weights.numpy(), np.ones(len(rows.weights))
    uploads: Upload = rows.uploads
    named = [
        (uploads.delta, weights),
        (uploads.control, ones),
        (uploads.inner[0], weights),
        (uploads.inner[1], weights),
    ]
    return [(leaf.numpy().reshape(len(ones), -1), own) for leaf, own in [*named, (uploads.number, weights)]]


def joint(fields: Fields) -> np.ndarray:
    """Without the last field, the number."""
    return np.concatenate([values for values, _ in fields[:-1]], axis=1)


def mean_reference(fields: Fields) -> list[np.ndarray]:
    return [(own[:, None] * values).sum(0) / own.sum() for values, own in fields]


def median_reference(fields: Fields) -> list[np.ndarray]:
    return [np.median(values, axis=0) for values, _ in fields]


def trimmed_reference(fields: Fields, trim: int) -> list[np.ndarray]:
    result = []
    for values, own in fields:
        means = []
        for column in values.T:
            kept = np.argsort(column)[trim : len(column) - trim]
            means.append(np.average(column[kept], weights=own[kept]))
        result.append(np.array(means))
    return result


def krum_reference(fields: Fields, attackers: int, keep: int) -> list[np.ndarray]:
    vectors, n = joint(fields), len(fields[0][0])
    scores = []
    for i in range(n):
        squared = sorted(((vectors[i] - vectors[j]) ** 2).sum() for j in range(n) if j != i)
        scores.append(sum(squared[: n - attackers - 2]))
    chosen = np.argsort(scores)[:keep]
    return mean_reference([(values[chosen], own[chosen]) for values, own in fields])


def geometric_median_reference(fields: Fields) -> list[np.ndarray]:
    vectors = joint(fields)
    distance = np.sqrt(((vectors - np.median(vectors, axis=0)) ** 2).sum(1))
    smallest = 1e-6 * np.median(distance)
    influence, before = 1 / np.maximum(distance, smallest), np.zeros(len(vectors))
    influence /= influence.max()
    while np.abs(influence - before).max() > 1e-6:
        centre = np.concatenate(mean_reference([(values, own * influence) for values, own in fields[:-1]]))
        distance = np.sqrt(((vectors - centre) ** 2).sum(1))
        influence, before = 1 / np.maximum(distance, smallest), influence
        influence /= influence.max()
    return mean_reference([(values, own * influence) for values, own in fields])


def bounded_reference(fields: Fields, bound: float | None) -> list[np.ndarray]:
    norms = np.linalg.norm(joint(fields), axis=1)
    bound = float(np.median(norms)) if bound is None else bound
    scale = np.minimum(1, bound / norms)[:, None]
    return mean_reference([*((values * scale, own) for values, own in fields[:-1]), fields[-1]])


CASES: dict[str, tuple[Aggregation, Callable[[Fields], list[np.ndarray]]]] = {
    "mean": (Aggregation(), mean_reference),
    "median": (Aggregation("median"), median_reference),
    "trimmed by nothing": (Aggregation("trimmed-mean", trim=0), mean_reference),
    "trimmed by a number": (Aggregation("trimmed-mean", trim=2), lambda f: trimmed_reference(f, 2)),
    "trimmed by a share": (
        Aggregation("trimmed-mean", trim=0.25),
        lambda f: trimmed_reference(f, -(-len(f[0][0]) // 4)),
    ),
    "krum": (Aggregation("krum", attackers=2), lambda f: krum_reference(f, 2, 1)),
    "krum against most": (Aggregation("krum"), lambda f: krum_reference(f, (len(f[0][0]) - 3) // 2, 1)),
    "multi-krum": (Aggregation("multi-krum", attackers=2, keep=3), lambda f: krum_reference(f, 2, 3)),
    "multi-krum of all but": (
        Aggregation("multi-krum", attackers=1),
        lambda f: krum_reference(f, 1, len(f[0][0]) - 3),
    ),
    "multi-krum of all": (Aggregation("multi-krum", attackers=0, keep=9), mean_reference),
    "geometric median": (Aggregation("geometric-median"), geometric_median_reference),
    "norm bound": (Aggregation("norm-bound", bound=6.0), lambda f: bounded_reference(f, 6.0)),
    "norm bound at the median": (Aggregation("norm-bound"), lambda f: bounded_reference(f, None)),
    "norm bound above all": (Aggregation("norm-bound", bound=1e9), mean_reference),
}
every_rule = pytest.mark.parametrize("name", CASES)


@every_rule
@pytest.mark.parametrize("n", [9, 12])
def test_a_rule_is_what_its_equations_say(name: str, n: int):
    aggregation, reference = CASES[name]
    if name == "multi-krum of all" and n > 9:
        aggregation = Aggregation("multi-krum", attackers=0, keep=n)
    for seed in range(3):
        rows = rows_of(n, seed)
        found = leaves(aggregation.of(rows, UNIFORM).mean)
        for one, other in zip(found, reference(fields_of(rows)), strict=True):
            np.testing.assert_allclose(one.numpy().reshape(-1), other, rtol=0, atol=TOLERANCE)


@every_rule
def test_the_mean_has_the_shapes_and_types_of_one_upload(name: str):
    rows = rows_of(9, dtype=torch.float32)
    result: Aggregated = CASES[name][0].of(rows, UNIFORM)
    assert type(result.mean) is Upload
    for one, stacked in zip(leaves(result.mean), leaves(rows.uploads), strict=True):
        assert (one.shape, one.dtype) == (stacked.shape[1:], torch.float32)


@every_rule
def test_the_order_of_the_clients_does_not_matter(name: str):
    rows = rows_of(9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(5))
    aggregation = CASES[name][0]
    one, other = (
        leaves(aggregation.of(each, UNIFORM).mean) for each in (rows, map_leaves(lambda leaf: leaf[order], rows))
    )
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=TOLERANCE)


@every_rule
def test_of_equal_uploads_it_is_their_upload(name: str):
    one = rows_of(1)
    rows = map_leaves(lambda leaf: leaf.expand(9, *leaf.shape[1:]).clone(), one)
    for found, leaf in zip(leaves(CASES[name][0].of(rows, UNIFORM).mean), leaves(one.uploads), strict=True):
        scale = 6 / np.linalg.norm(joint(fields_of(one))) if name == "norm bound" and leaf.dim() > 1 else 1.0
        torch.testing.assert_close(found, min(1.0, scale) * leaf[0], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("numbers", [1, 20, 60])
def test_columns_are_computed_in_parts_with_the_same_result(numbers: int, monkeypatch: pytest.MonkeyPatch):
    rows = rows_of(9)
    whole = {name: leaves(aggregation.of(rows, UNIFORM).mean) for name, (aggregation, _) in CASES.items()}
    monkeypatch.setattr(robust_means, "MOST_NUMBERS", numbers)
    for name, (aggregation, _) in CASES.items():
        for one, other in zip(leaves(aggregation.of(rows, UNIFORM).mean), whole[name], strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE)


ATTACKS = {"far": 1e6, "huge": 1e30, "beyond the squares of double precision": 1e200}
ROBUST = [
    Aggregation("median"),
    Aggregation("trimmed-mean", trim=0.3),
    Aggregation("krum", attackers=0.3),
    Aggregation("multi-krum", attackers=0.3),
    Aggregation("geometric-median"),
]


def attacked(value: float) -> tuple[UploadRows, Upload]:
    """Twenty clients that differ by about 0.1, six of which send the value; and the mean of the others."""
    rows = map_leaves(lambda leaf: 0.1 * leaf, rows_of(20))
    honest = map_leaves(lambda leaf: leaf[6:].mean(0), rows.uploads)
    rows.uploads.delta[:6], rows.uploads.control[:6] = value, -value
    return rows, honest


@pytest.mark.parametrize("value", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("aggregation", ROBUST, ids=str)
def test_with_thirty_percent_of_attackers_it_stays_near_the_honest_and_the_mean_does_not(
    aggregation: Aggregation, value: float
):
    rows, honest = attacked(value)
    for one, other in zip(leaves(aggregation.of(rows, UNIFORM).mean), leaves(honest), strict=True):
        assert torch.linalg.vector_norm(one - other) < 0.7
    mean = Aggregation().of(rows, UNIFORM).mean
    assert torch.linalg.vector_norm(mean.delta - honest.delta) > value / 10


@pytest.mark.parametrize("value", ATTACKS.values(), ids=ATTACKS)
def test_bounded_attackers_move_the_mean_by_no_more_than_the_bound(value: float):
    rows, _ = attacked(value)
    found = Aggregation("norm-bound", bound=0.5).of(rows, frozenset()).mean
    joint_vector = torch.cat([leaf.flatten() for leaf in leaves(found)[:-1]])
    assert torch.linalg.vector_norm(joint_vector) <= 0.5 * (1 + TOLERANCE)


def test_the_geometric_median_has_the_least_sum_of_distances():
    rows = rows_of(11)
    rows = UploadRows(rows.uploads, torch.ones(11, dtype=torch.float64))
    vectors = joint(fields_of(rows))
    found = robust_means.geometric_median(rows.uploads, rows.weights, frozenset())
    point = np.concatenate([leaf.numpy().reshape(-1) for leaf in leaves(found)[:-1]])

    def total(at: np.ndarray) -> float:
        return float(np.linalg.norm(vectors - at, axis=1).sum())

    rng = np.random.default_rng(0)
    assert all(total(point) <= total(point + 1e-2 * rng.normal(size=point.shape)) for _ in range(200))
    towards = (vectors - point) / np.linalg.norm(vectors - point, axis=1)[:, None]
    assert np.linalg.norm(towards.sum(0)) < 1e-4, "the unit vectors towards the clients cancel"


def test_the_geometric_median_of_a_majority_at_one_point_is_that_point():
    rows = rows_of(9)
    same = map_leaves(lambda leaf: torch.cat([leaf[:1].expand(6, *leaf.shape[1:]), leaf[6:]]), rows.uploads)
    found = robust_means.geometric_median(same, torch.ones(9, dtype=torch.float64), frozenset())
    torch.testing.assert_close(found.delta, rows.uploads.delta[0], rtol=0, atol=1e-9)


def test_krum_chooses_whole_uploads():
    rows = rows_of(9)
    found = Aggregation("krum", attackers=2).of(rows, UNIFORM).mean
    chosen = [i for i in range(9) if torch.equal(rows.uploads.delta[i], found.delta)]
    assert len(chosen) == 1
    assert torch.equal(rows.uploads.control[chosen[0]], found.control)
    assert torch.equal(rows.uploads.inner[0][chosen[0]], found.inner[0])
    assert float(rows.uploads.number[chosen[0]]) == float(found.number)


def test_the_row_says_the_bound_and_how_many_uploads_were_above_it():
    rows = rows_of(12)
    norms = np.linalg.norm(joint(fields_of(rows)), axis=1)
    found = Aggregation("norm-bound", bound=float(np.sort(norms)[7])).of(rows, UNIFORM).row
    assert found == {"norm_bound": float(np.sort(norms)[7]), "bounded": 4 / 12}
    assert Aggregation("norm-bound").of(rows, UNIFORM).row["norm_bound"] == pytest.approx(np.median(norms), rel=1e-14)


def test_distances_are_those_of_all_pairs():
    rows = rows_of(6)
    vectors, found = joint(fields_of(rows)), robust_means.squared_distances(rows.uploads)
    for i, j in itertools.product(range(6), range(6)):
        assert float(found[i, j]) == pytest.approx(((vectors[i] - vectors[j]) ** 2).sum(), rel=1e-13)
