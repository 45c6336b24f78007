"""A comparison in words: what was run, what came out, what happened on the way, how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from driftless.config.resolution import Config
from driftless.report.curves import Curve, Run, Settings, differences, is_experiment, settings_of, shown
from driftless.report.names import short
from driftless.report.summary import Row, Summary
from driftless.report.tables import times
from driftless.runs.directory import CONFIG

VARIES = "differs"
SHOWN = 6
"""Runs, rounds or clients that are named before "and 12 more"."""

LONGEST = 1000
ALGORITHM = "algorithm."


class Setting(NamedTuple):
    key: str
    values: list[str]
    """One for each curve, or a single one."""


class Note(NamedTuple):
    """Something that happened."""

    text: str
    command: str = ""
    """What to do about it."""


def title_of(curves: Sequence[Curve]) -> str:
    """ "fedavg, scaffold and ghbm on digits"; many names become their number."""
    names = list(dict.fromkeys(curve.algorithm for curve in curves))
    data = list(dict.fromkeys(curve.settings["data.name"] for curve in curves))
    what = listed(names) if len(names) <= 3 else f"{len(names)} algorithms"
    return f"{what} on {listed(data) if len(data) <= 3 else f'{len(data)} data sets'}"


def facts(curves: Sequence[Curve], clients: int | None = None) -> list[tuple[str, str]]:
    """What was run, as (name, description); what differs is said to differ.

    `clients` is their number where the settings leave it to the data set.
    """
    described = [
        describe(curve.settings | {"data.clients": curve.settings.get("data.clients") or clients}) for curve in curves
    ]
    lines = [(name, common([each[name] for each in described])) for name in described[0]]
    seeds = list(dict.fromkeys(tuple(curve.seeds) for curve in curves))
    runs = sum(len(curve.runs) for curve in curves)
    return [*lines, ("Seeds", numbers(seeds[0]) if len(seeds) == 1 else VARIES), ("Runs", f"{runs}")]


def common(parts: Sequence[dict[str, str]]) -> str:
    """The parts that all curves share, and the names of those that differ."""
    names = dict.fromkeys(name for each in parts for name in each)
    texts = {name: {each.get(name) for each in parts} for name in names}
    return ", ".join(parts[0][name] if len(found) == 1 else f"{name} {VARIES}" for name, found in texts.items())


def describe(settings: Settings) -> dict[str, dict[str, str]]:
    """The settings that a reader asks for first, in parts that may differ each for itself."""
    get = settings.get
    data = {"data set": str(get("data.name"))}
    data |= {"clients": f"{get('data.clients')} clients"} if get("data.clients") else {}
    known = ("data.name", "data.clients", "data.partition", "data.validation")
    options = {k[5:]: f"{k[5:]} = {short(v)}" for k, v in settings.items() if k.startswith("data.") and k not in known}
    return {
        "Data": data,
        "Partition": {"partition": str(get("data.partition") or "default")} | options,
        "Model": {"model": str(get("model.name"))},
        "Cohort": {"cohort": cohort_text(get("run.cohort"))},
        "Rounds": {"number": f"{get('run.rounds')}"},
        "Local training": describe_local(settings),
    }


def describe_local(settings: Settings) -> dict[str, str]:
    get = settings.get
    epochs, steps, batch = get("local.epochs"), get("local.steps"), get("local.batch_size")
    parts = {"lr": f"lr {short(get('local.lr'))}"}
    parts["length"] = f"{epochs} epochs" if epochs else f"{steps} steps" if steps else "one epoch"
    parts["batch size"] = f"batches of {batch}" if batch else "full batch"
    parts |= {"lr decay": f"lr decay {short(get('local.lr_decay'))}"} if get("local.lr_decay", 1.0) != 1.0 else {}
    parts |= {"weight decay": f"weight decay {short(get('local.weight_decay'))}"} if get("local.weight_decay") else {}
    augment = get("local.augment", "none")
    return parts | ({"augmentation": f"{augment} augmentation"} if augment != "none" else {})


def cohort_text(cohort: object) -> str:
    if isinstance(cohort, int):
        return f"{cohort} clients a round"
    if isinstance(cohort, float):
        return f"{cohort:.4g} of the clients a round"
    return "given for each round" if isinstance(cohort, list) else str(cohort)


def settings_tables(curves: Sequence[Curve]) -> tuple[list[Setting], list[Setting]]:
    """(those that differ between the curves, with a value for each; those that all share).

    Of the algorithm, whose name the labels show, the options that differ are one setting: few algorithms share them.
    """
    settings = [curve.settings for curve in curves]
    differ = differences(settings)
    options = [key for key in differ if key.startswith(ALGORITHM) and key != f"{ALGORITHM}name"]
    differing = [Setting("algorithm options", [options_text(each, options) for each in settings])] if options else []
    differing += [Setting(k, [shown(each, k) for each in settings]) for k in differ if not k.startswith(ALGORITHM)]
    shared = [Setting(k, [short(v)]) for k, v in settings[0].items() if k not in differ and is_experiment(k)]
    return differing, shared


def options_text(settings: Settings, keys: Iterable[str]) -> str:
    given = [f"{key.removeprefix(ALGORITHM)} = {short(settings[key])}" for key in keys if key in settings]
    return ", ".join(given) or "default"


def findings(summary: Summary) -> list[str]:
    """The result in a sentence or two; no claim that the spread over seeds does not carry."""
    if summary.headline is None or len(summary.targets) > 1:
        return []
    known = [row for row in summary.rows if row.final is not None]
    if len(known) < 2:
        return []
    return [ending(summary, known[0], known[1]), *soonest(summary)]


def ending(summary: Summary, first: Row, second: Row) -> str:
    assert summary.headline is not None
    assert first.final is not None
    assert second.final is not None
    extreme = "highest" if summary.headline.better == "high" else "lowest"
    text = f"{first.label} ends with the {extreme} {summary.headline.name}, {spread_text(first)}"
    gap = abs(first.final.mean - second.final.mean)
    if first.final.std is None or second.final.std is None:
        return (
            f"{text}, before {second.label} with {spread_text(second)}; one seed each does not show how sure that is."
        )
    if gap <= first.final.std + second.final.std:
        return f"{text}; {second.label} ({spread_text(second)}) is no further away than the seeds spread."
    return f"{text}, before {second.label} with {spread_text(second)}."


def spread_text(row: Row) -> str:
    assert row.final is not None
    std = "" if row.final.std is None else f" ± {row.final.std:.4f}"
    return f"{row.final.mean:.4f}{std}"


def soonest(summary: Summary) -> list[str]:
    """Which curve reaches the target first, when there is a FedAvg to compare it with."""
    (target,) = summary.targets or [None]
    if target is None or target.baseline is None:
        return []
    costs = [(row.costs["rounds"], row) for row in summary.rows if "rounds" in row.costs]
    whole = [(cost.value, cost, row) for cost, row in costs if cost.reached == cost.seeds and cost.relative is not None]
    if not whole:
        return []
    _, cost, row = min(whole, key=lambda entry: entry[0])
    if row.label == target.baseline:
        return [f"Nothing reaches {target.value:.4g} sooner than {row.label}."]
    sent = row.costs.get("megabytes")
    traffic = f" and {times(sent.relative)} the traffic" if sent and sent.relative is not None else ""
    bound = "at most " if cost.bound else ""
    return [
        f"{row.label} reaches {target.value:.4g} first, after {cost.value:.1f} rounds: "
        f"{bound}{times(cost.relative or 0)} the rounds{traffic} of {target.baseline}."
    ]


def happenings(curves: Sequence[Curve]) -> list[Note]:
    """What a reader should know before believing a curve."""
    notes: list[Note] = []
    for curve in curves:
        for run in curve.runs:
            notes += endings(curve, run)
        notes += failures(curve) + events(curve)
        notes += [Note(f"{curve.label}, seed {r.stored.seed}: there twice; {r.stored.path} is not counted.")
                  for r in curve.repeated]  # fmt: skip
    seeds = {tuple(curve.seeds) for curve in curves}
    if len(seeds) > 1:
        each = "; ".join(f"{curve.label}: {numbers(curve.seeds)}" for curve in curves)
        notes.append(Note(f"The curves do not have the same seeds ({each}), so their bands compare different draws."))
    return notes


def endings(curve: Curve, run: Run) -> list[Note]:
    who = f"{curve.label}, seed {run.stored.seed}"
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
            found.append(f"seed {run.stored.seed} in round{'s' if len(rounds) > 1 else ''} {some(rounds)}")
    return [Note(f"{curve.label}: training accuracy halved within a round, {'; '.join(found)}.")] if found else []


def events(curve: Curve) -> list[Note]:
    """Events of the same kind together, over all seeds."""
    kinds: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for run in curve.runs:
        for event in run.stored.events:
            kinds.setdefault(str(event.get("what", "event")), []).append((run.stored.seed, event))
    notes: list[Note] = []
    for what, found in kinds.items():
        clients = sorted({client for _, event in found for client in event.get("clients") or []})
        seeds = sorted({seed for seed, _ in found})
        rounds = sorted({int(event["round"]) for _, event in found if "round" in event})
        who = f"; clients {some(clients)}" if clients else ""
        often = f"{len(found)} times" if len(found) > 1 else "once"
        notes.append(Note(f"{curve.label}: {what} ({often}; seeds {some(seeds)}; rounds {some(rounds)}{who})."))
    return notes


def fewer_seeds(curves: Iterable[Curve]) -> list[str]:
    """The labels of curves that are over fewer seeds, or none, towards their end."""
    return [curve.label for curve in curves if len({run.played for run in curve.runs}) > 1 or all_diverged(curve)]


def all_diverged(curve: Curve) -> bool:
    return all(run.status == "diverged" for run in curve.runs)


def commands(curves: Sequence[Curve]) -> list[str]:
    """One comparison where the curves differ in nothing but the algorithm, otherwise one for each curve.

    Seeds that do not follow one another, and single ones, are runs.
    """
    differ = differences([curve.settings for curve in curves])
    seeds = {(tuple(curve.seeds), data_seed(curve)) for curve in curves}
    if differ == [f"{ALGORITHM}name"] and len(seeds) == 1 and in_a_row(curves[0].seeds):
        text = compare_command([curve.algorithm for curve in curves], curves[0])
        if len(text) <= LONGEST:
            return [text]
    return [command for curve in curves for command in curve_commands(curve)]


def curve_commands(curve: Curve) -> list[str]:
    """Of a curve that nothing can be compared with."""
    if len(curve.seeds) > 1 and in_a_row(curve.seeds) and data_seed(curve) != VARIES:
        text = compare_command([curve.algorithm], curve)
        if len(text) <= LONGEST:
            return [text]
    return [run_command(run) for run in curve.runs]


def compare_command(algorithms: Sequence[str], curve: Curve) -> str:
    fixed = data_seed(curve)
    own = [text for text in overrides(curve.settings) if not text.startswith(f"{ALGORITHM}name=")]
    own += [f"data.seed={fixed}"] if fixed is not None else []
    own += [f"seed={curve.seeds[0]}"] if curve.seeds[0] else []
    return line(["driftless", "compare", *algorithms, *own, f"seeds={len(curve.seeds)}"])


def data_seed(curve: Curve) -> int | str | None:
    found = {run.stored.config.data.seed for run in curve.runs}
    return found.pop() if len(found) == 1 else VARIES


def in_a_row(values: Sequence[int]) -> bool:
    return list(values) == list(range(values[0], values[0] + len(values)))


def run_command(run: Run) -> str:
    """With its settings in words, or, where that is too long to read, with its stored configuration."""
    text = line(["driftless", "run", *overrides(settings_of(run.stored.config))])
    return text if len(text) <= LONGEST else line(["driftless", "run", str(run.stored.path / CONFIG)])


def overrides(settings: Settings) -> list[str]:
    """`key=value` for everything that is not the default."""
    default = settings_of(Config())
    ours = {key: value for key, value in settings.items() if is_experiment(key) and value != default.get(key)}
    return [f"{key}={value_text(value)}" for key, value in ours.items()]


def value_text(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def line(words: Iterable[str]) -> str:
    return " ".join(shlex.quote(word) for word in words)


def listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def numbers(values: Sequence[int]) -> str:
    """0, 1, 2 -> "0 to 2"."""
    return f"{values[0]} to {values[-1]}" if in_a_row(values) and len(values) > 2 else ", ".join(map(str, values))


def some(values: Sequence[int]) -> str:
    shown = ", ".join(map(str, values[:SHOWN]))
    return shown if len(values) <= SHOWN else f"{shown} and {len(values) - SHOWN} more"


def machines(curves: Iterable[Curve]) -> list[tuple[str, str]]:
    """Versions and machine; where runs differ, all values."""
    found: dict[str, list[str]] = {}
    for curve in curves:
        for run in curve.runs:
            for key, value in environment(run).items():
                text = line(map(str, value)) if isinstance(value, list) else str(value)
                if text not in found.setdefault(key, []):
                    found[key].append(text)
    return [(key, span(texts) if key == "started" else "; ".join(texts)) for key, texts in found.items()]


def span(times: Sequence[str]) -> str:
    return times[0] if len(times) == 1 else f"{min(times)} to {max(times)}"


def environment(run: Run) -> dict[str, Any]:
    try:
        return dict(run.stored.environment)
    except (OSError, ValueError):
        return {"environment.json": f"cannot be read in {run.stored.path}"}
