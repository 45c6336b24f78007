"""How a peer is timed: rounds in turns, one line of JSON at the end.

    python -m peers.plain mlp 20                          (in benchmarks/)
    python -m peers.plain mlp 23 --warmup 3 --turns 4

With turns, the peer stops after the warm-up and after each turn until it gets a line on its standard input. So the
caller can let several peers play in rotation, and whatever disturbs the machine disturbs all of them alike.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata

import torch
from rows import ROWS, Row
from torch.optim.optimizer import register_optimizer_step_post_hook

# What a peer prints must not mix with the protocol: its standard output becomes standard error.
_protocol = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


class Clock:
    """Takes the time of each round and hands over at the end of a turn."""

    def __init__(self, rounds: int, warmup: int, turns: int) -> None:
        per_turn = (rounds - warmup) // turns if turns else 0
        self._ends = {warmup + turn * per_turn for turn in range(turns)}
        self.rounds = rounds
        self.seconds: list[float] = []
        self._start = time.perf_counter()

    def start(self) -> None:
        """Call where the first round begins."""
        self._start = time.perf_counter()

    def tick(self) -> None:
        """Call at the end of each round, which is the beginning of the next."""
        self.seconds.append(time.perf_counter() - self._start)
        if len(self.seconds) in self._ends:
            send({"played": len(self.seconds)})
            if not sys.stdin.readline():
                raise SystemExit("The caller has gone.")
        self._start = time.perf_counter()


def send(message: Mapping[str, object]) -> None:
    print(json.dumps(message), file=_protocol, flush=True)


def versions(*packages: str) -> dict[str, str]:
    return {name: metadata.version(name) for name in (*packages, "torch", "numpy")}


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("row", choices=ROWS)
    arguments.add_argument("rounds", type=int)
    arguments.add_argument("--warmup", type=int, default=0, help="rounds before the first turn")
    arguments.add_argument("--turns", type=int, default=0, help="turns of equal length after the warm-up")
    return arguments


class StepCounter:
    """Counts the steps of all torch optimizers of this process until stopped: for one round, then out of the way."""

    def __init__(self) -> None:
        self.steps = 0
        self._handle = register_optimizer_step_post_hook(self._count)

    def _count(self, *_: object) -> None:
        self.steps += 1

    def stop(self) -> int:
        self._handle.remove()
        return self.steps


def check_steps(row: Row, steps: float) -> None:
    """Does a client make as many local steps as the row says?"""
    if steps != row.steps:
        raise RuntimeError(f"{row.name}: {steps} local steps a client, but the row has {row.steps}.")


def run(
    peer: str,
    packages: tuple[str, ...],
    play: Callable[..., Mapping[str, object]],
    arguments: argparse.ArgumentParser | None = None,
) -> None:
    """The main function of a peer: play(row, clock, **its own options), then report."""
    options = vars((arguments or parser()).parse_args())
    row = ROWS[options.pop("row")]
    clock = Clock(options.pop("rounds"), options.pop("warmup"), options.pop("turns"))
    extra = play(row, clock, **options)
    if len(clock.seconds) != clock.rounds:
        raise RuntimeError(f"{peer}: {len(clock.seconds)} rounds were timed, {clock.rounds} were asked for.")
    seen = {**versions(*packages), "threads": str(torch.get_num_threads())}
    send({"peer": peer, "versions": seen, "seconds": clock.seconds, **extra})
