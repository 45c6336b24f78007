"""The laws of runs: an algorithm in the engine, on the small problems."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace

from driftless.algorithm import Algorithm
from driftless.errors import Diverged
from driftless.result import Result
from driftless.testing.problems import IN_BLOCKS, NETWORK, UNEQUAL, Trace, play, trace
from driftless.testing.trees import difference

TOLERANCE = 1e-10
SMALLEST_MOVE = 1e-3
LARGEST_NORM = 100.0


def moving_model(algorithm: Algorithm) -> Iterator[str]:
    """Every round moves the model, and it stays finite: otherwise the other laws would say nothing."""
    for setting in (UNEQUAL, NETWORK):
        try:
            models = [record.x for record in trace(algorithm, setting.one_by_one).records]
        except Diverged as error:
            yield f"on {setting.problem} the run diverged: {error}"
            continue
        for t, x in enumerate(models, start=1):
            if not x.isfinite().all() or x.norm() >= LARGEST_NORM:
                yield (
                    f"on {setting.problem} the model has the norm {float(x.norm()):.3g} after round {t}: look for a "
                    "wrong sign in `direction` or `update`, or check it with smaller step sizes."
                )
                break
        for t, (before, after) in enumerate(itertools.pairwise(models), start=2):
            if (move := float((before - after).norm())) < SMALLEST_MOVE:
                yield (
                    f"on {setting.problem} round {t} moves the model by {move:.2g} only: `update` must return a new "
                    "`x`; or check it with larger step sizes."
                )
                break


def engines_agree(algorithm: Algorithm) -> Iterator[str]:
    """Clients that are trained together in blocks come to what they come to one after the other."""
    yield from itertools.islice((sentence for name in IN_BLOCKS for sentence in engines_disagree(algorithm, name)), 1)


def engines_disagree(algorithm: Algorithm, name: str) -> Iterator[str]:
    """In one of the settings of IN_BLOCKS."""
    one_by_one, together = (trace(algorithm, setting) for setting in (IN_BLOCKS[name].one_by_one, IN_BLOCKS[name]))
    if off := runs_differ(algorithm, one_by_one, together, TOLERANCE):
        yield (
            f"with {name}, a block of clients comes to another result than one client after the other ({off}): a "
            "method depends on something besides its arguments, or writes into them."
        )


def replayed_steps(algorithm: Algorithm) -> Iterator[str]:
    """Recorded steps that are replayed give the same bits as the methods themselves."""
    setting = IN_BLOCKS["equal step counts"]  # the shapes are recorded in the first steps and then repeat
    replayed, written = (trace(algorithm, replace(setting, replay=replay)) for replay in (True, False))
    if off := runs_differ(algorithm, written, replayed):
        yield (
            f"replayed steps differ from the steps as written ({off}): a method depends on something besides its "
            "arguments, or writes into them."
        )


def repeatable_runs(algorithm: Algorithm) -> Iterator[str]:
    """The same seed gives the same bits, also after another run."""
    for setting in (NETWORK, NETWORK.one_by_one):
        first = trace(algorithm, setting)
        play(algorithm, replace(NETWORK.one_by_one, seed=1))
        if off := runs_differ(algorithm, first, play(algorithm, setting)):
            yield (
                f"the same run gives another result when it is repeated ({off}): the algorithm remembers something of "
                "an earlier run, or draws from a global random generator."
            )
            return


def resumed_runs(algorithm: Algorithm) -> Iterator[str]:
    """A run that continues from its state after any round equals the run in one piece, to the bit."""
    setting = UNEQUAL.one_by_one
    whole = trace(algorithm, setting)
    play(algorithm, replace(setting, seed=1))  # what is kept outside of the states is now of another run
    for record in whole.records[:-1]:
        rest = play(algorithm, setting, state=record.state)
        if off := runs_differ(algorithm, Trace(whole.records[record.round :], whole.result), rest):
            yield (
                f"a run that continues after round {record.round} ends in another result ({off}): something that the "
                "next round needs is not in the server's or the client's state. Put it there."
            )
            return


def workers_agree(algorithm: Algorithm) -> Iterator[str]:
    """Two processes that share the clients of a round come to the same bits as one. Checked on Linux only."""
    if sys.platform != "linux":
        return
    alone = replace(UNEQUAL, block_size=1, rounds=2)
    if off := runs_differ(algorithm, trace(algorithm, alone), play(algorithm, replace(alone, workers=2))):
        yield (
            f"two processes come to another result than one ({off}): methods share something that is not in their "
            "arguments, such as a global variable."
        )


def runs_differ(algorithm: Algorithm, one: Trace, other: Trace, tolerance: float = 0.0) -> str | None:
    """The first thing that differs: models and states of the server in each round, then the states of the clients."""
    if len(one.records) != len(other.records):
        return f"{len(one.records)} and {len(other.records)} rounds"
    for a, b in zip(one.records, other.records, strict=True):
        pair = ((a.x, a.aggregate, a.server), (b.x, b.aggregate, b.server))
        for name, left, right in zip(("x", "the mean of the client models", "the server's state"), *pair, strict=True):
            if off := difference(left, right, tolerance):
                return f"{name} of round {a.round}: {off}"
    clients = one.result.state.clients.clients
    if clients != other.result.state.clients.clients:
        return "other clients have a state"
    states = [states_of(algorithm, run.result, clients) for run in (one, other)]
    off = difference(states[0], states[1], tolerance)
    return f"the clients' states: {off}" if off else None


def states_of(algorithm: Algorithm, result: Result, clients: list[int]) -> object:
    """The states of these clients, stacked."""
    return result.state.clients.get(clients, algorithm.init_client(result.x))


def first_difference(one: Algorithm, other: Algorithm, weighting: str | None, tolerance: float) -> str | None:
    """Where the models of two algorithms part; None if they do not."""
    for setting in (UNEQUAL.one_by_one, replace(NETWORK.one_by_one, weighting=None, rounds=4)):
        overrides = {} if weighting is None else {"weighting": weighting}
        traces = (play(algorithm, setting, **overrides) for algorithm in (one, other))
        for a, b in zip(*(run.records for run in traces), strict=True):
            for name, left, right in (("x", a.x, b.x), ("the mean of the client models", a.aggregate, b.aggregate)):
                off = float((left - right).abs().max())
                if not off <= tolerance:  # also if it is not a number
                    return f"on {setting.problem}, after round {a.round}, {name} differs by up to {off:.2g}"
    return None


RUN_LAWS = (moving_model, engines_agree, replayed_steps, repeatable_runs, resumed_runs, workers_agree)
