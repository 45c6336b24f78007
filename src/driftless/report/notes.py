"""What a reader should know about the runs before trusting a curve, and on which machines they ran."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from driftless.report.curves import Curve, Run
from driftless.report.overview import seeds_text

SHOWN = 6
"""Seeds, rounds or clients that are named before "and 12 more"."""


class Note(NamedTuple):
    text: str
    command: str = ""
    """What to do about it."""


def notes_of(curves: Sequence[Curve]) -> list[Note]:
    notes: list[Note] = []
    for curve in curves:
        for run in curve.runs:
            notes += endings(curve, run)
        notes += failures(curve) + events(curve)
        notes += [
            Note(f"{curve.label}, seed {run.seed}: more than one run; {run.stored.path} is not counted.")
            for run in curve.repeated
        ]
    seeds = {tuple(curve.seeds) for curve in curves}
    if len(seeds) > 1:
        each = "; ".join(f"{curve.label}: {seeds_text(curve.seeds)}" for curve in curves)
        notes.append(Note(f"The curves do not have the same seeds ({each}), so their bands are over different draws."))
    return notes


def endings(curve: Curve, run: Run) -> list[Note]:
    """Of a run that did not finish."""
    who = f"{curve.label}, seed {run.seed}"
    reason = str((run.stored.result or {}).get("reason") or "")
    if run.status == "diverged":
        return [Note(f"{who}: {reason or f'diverged after round {run.played}.'}")]
    if run.status == "stopped":
        return [Note(f"{who}: stopped after round {run.played} of {run.budget}{f': {reason}' if reason else ''}.")]
    if run.status == "unfinished":
        text = f"{who}: not finished, {run.played} of {run.budget} rounds so far."
        return [Note(text, f"driftless resume {shlex.quote(str(run.stored.path))}")]
    return []


def failures(curve: Curve) -> list[Note]:
    found: list[str] = []
    for run in curve.runs:
        rounds = run.rounds[run.column("failure") > 0].tolist()
        if rounds:
            found.append(f"seed {run.seed} in round{'s' if len(rounds) > 1 else ''} {first_few(rounds)}")
    return [Note(f"{curve.label}: training accuracy halved within a round, {'; '.join(found)}.")] if found else []


def events(curve: Curve) -> list[Note]:
    """One note for all events of a kind, over all seeds."""
    kinds: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for run in curve.runs:
        for event in run.stored.events:
            kinds.setdefault(str(event.get("what", "event")), []).append((run.seed, event))
    notes: list[Note] = []
    for what, found in kinds.items():
        clients = sorted({client for _, event in found for client in event.get("clients") or []})
        seeds = sorted({seed for seed, _ in found})
        rounds = sorted({int(event["round"]) for _, event in found if "round" in event})
        who = f"; clients {first_few(clients)}" if clients else ""
        often = how_often(found)
        notes.append(
            Note(f"{curve.label}: {what} ({often}; seeds {first_few(seeds)}; rounds {first_few(rounds)}{who}).")
        )
    return notes


def how_often(events: Sequence[tuple[int, dict[str, Any]]]) -> str:
    """ "312 times in 60 rounds", once for each client; rounds of several seeds add up."""
    times = sum(max(1, len(event.get("clients") or [])) for _, event in events)
    if times > len(events):
        return f"{times:,} times in {len(events):,} round{'s' if len(events) > 1 else ''}"
    return f"{times:,} times" if times > 1 else "once"


def first_few(values: Sequence[int]) -> str:
    shown = ", ".join(map(str, values[:SHOWN]))
    return shown if len(values) <= SHOWN else f"{shown} and {len(values) - SHOWN} more"


def ending_early(curves: Iterable[Curve]) -> list[str]:
    """The labels of curves that are over fewer seeds, or none, towards their end."""
    return [curve.label for curve in curves if len({run.played for run in curve.runs}) > 1 or all_diverged(curve)]


def all_diverged(curve: Curve) -> bool:
    return all(run.status == "diverged" for run in curve.runs)


def environments(curves: Iterable[Curve]) -> list[tuple[str, str]]:
    """Versions and machines; where runs differ, all values."""
    found: dict[str, list[str]] = {}
    for curve in curves:
        for run in curve.runs:
            for key, value in environment_of(run).items():
                text = shlex.join(map(str, value)) if isinstance(value, list) else str(value)
                if text not in found.setdefault(key, []):
                    found[key].append(text)
    return [(key, time_span(texts) if key == "started" else "; ".join(texts)) for key, texts in found.items()]


def time_span(times: Sequence[str]) -> str:
    return times[0] if len(times) == 1 else f"{min(times)} to {max(times)}"


def environment_of(run: Run) -> dict[str, Any]:
    try:
        return dict(run.stored.environment)
    except (OSError, ValueError):
        return {"environment.json": f"cannot be read in {run.stored.path}"}
