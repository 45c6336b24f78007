"""When training has blown up, why, and what may help: the messages of a run that diverged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driftless.engine.local import LocalTraining
from driftless.errors import Diverged

ROUNDS_LOST_BEFORE_STOP = 3
FACTOR = 1000
"""A loss that ends above so many times its lowest value, and above this number itself, has grown beyond all measure."""


def lost_rounds(t: int, training: LocalTraining, norm_0: float, norm: float, too_few: str = "") -> Diverged:
    """The last rounds until `t` gave no finite update; `norm_0` and `norm` are of the model at first and now.

    `too_few`: why the clients of the last round were too few for the aggregation.
    """
    first = t - ROUNDS_LOST_BEFORE_STOP + 1
    if too_few:
        remedy = "a larger cohort, or another server.aggregation"
        return Diverged(first, f"stopped at round {t}: rounds {first} to {t} were lost. {too_few}. Try {remedy}.")
    if norm > 100 * max(norm_0, 1.0):
        cause = f"the server model had grown to norm {norm:.3g} (from {norm_0:.3g}): the server's steps are too long"
        remedy = "a smaller server_lr (or beta, mu of the algorithm)"
    else:
        cause = f"local steps with lr={training.lr_at(first):g} blow up from a model of ordinary norm {norm:.3g}"
        remedy = f"a smaller local.lr{clipping(training)}"
    return Diverged(
        first,
        f"diverged at round {first}: rounds {first} to {t} gave no finite update. Likely cause: {cause}. Try {remedy}.",
    )


def grown_loss(rows: Sequence[Mapping[str, float]], training: LocalTraining, evaluated: bool) -> str | None:
    """Why the run that ended with these rows has diverged, though its updates were finite; None: it has not.

    A value that is not finite is missing in its row; so is the training loss of a round that was lost, which has no
    update either. `evaluated`: the last row has a test loss if it is finite.
    """
    remedy = f"Try a smaller local.lr{clipping(training)}."
    measured = {"train_loss": bool(rows) and "norm_update" in rows[-1], "test_loss": evaluated}
    for name, what in (("train_loss", "the training loss"), ("test_loss", "the test loss")):
        known = [(row[name], row["round"]) for row in rows if name in row]
        if measured[name] and name not in rows[-1]:
            return f"diverged: {what} of round {rows[-1]['round']} is not a finite number. {remedy}"
        if known and known[-1][0] > FACTOR * max(1.0, min(known)[0]):
            (low, before), (high, after) = min(known), known[-1]
            return f"diverged: {what} rose from {low:.3g} (round {before}) to {high:.3g} (round {after}). {remedy}"
    return None


def clipping(training: LocalTraining) -> str:
    return "" if training.clip_norm else ", or local.clip_norm=10"
