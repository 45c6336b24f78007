"""The head of the page: what was run, and the result in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence

from driftless.report.curves import Curve
from driftless.report.metrics import short
from driftless.report.settings import Settings
from driftless.report.summary import Row, Summary
from driftless.report.tables import times

DIFFERS = "differs"


def title_of(curves: Sequence[Curve]) -> str:
    """ "fedavg, scaffold and ghbm on digits"; more than three names are counted instead."""
    names = list(dict.fromkeys(curve.name for curve in curves))
    data = list(dict.fromkeys(curve.settings["data.name"] for curve in curves))
    algorithms = listed(names) if len(names) <= 3 else f"{len(names)} algorithms"
    return f"{algorithms} on {listed(data) if len(data) <= 3 else f'{len(data)} data sets'}"


def facts(curves: Sequence[Curve], clients: int | None = None) -> list[tuple[str, str]]:
    """What was run, as (name, description).

    `clients` is their number where the settings leave it to the data set.
    """
    described = [
        describe(curve.settings | {"data.clients": curve.settings.get("data.clients") or clients}) for curve in curves
    ]
    lines = [(name, common([each[name] for each in described])) for name in described[0]]
    seeds = list(dict.fromkeys(tuple(curve.seeds) for curve in curves))
    runs = sum(len(curve.runs) for curve in curves)
    return [*lines, ("Seeds", seeds_text(seeds[0]) if len(seeds) == 1 else DIFFERS), ("Runs", f"{runs}")]


def common(parts: Sequence[dict[str, str]]) -> str:
    """The parts that all curves share, and the names of those that differ."""
    names = dict.fromkeys(name for each in parts for name in each)
    texts = {name: {each.get(name) for each in parts} for name in names}
    return ", ".join(parts[0][name] if len(found) == 1 else f"{name} {DIFFERS}" for name, found in texts.items())


def describe(settings: Settings) -> dict[str, dict[str, str]]:
    """The settings that a reader asks for first: {heading: {part: text}}."""
    get = settings.get
    data = {"data set": str(get("data.name"))}
    data |= {"clients": f"{get('data.clients')} clients"} if get("data.clients") else {}
    known = ("data.name", "data.clients", "data.partition", "data.validation", "data.client_test")
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
    lr = get("local.lr")
    parts = {"lr": f"lr {short(lr[0])} to {short(lr[-1])}" if isinstance(lr, list) and lr else f"lr {short(lr)}"}
    steps = f"{steps[0]} to {steps[-1]}" if isinstance(steps, list) and steps else steps
    parts["length"] = f"{epochs} epochs" if epochs else f"{steps} steps" if steps else "one epoch"
    parts["batch size"] = f"batches of {batch}" if batch else "full batch"
    parts |= {"lr decay": f"lr decay {short(get('local.lr_decay'))}"} if get("local.lr_decay", 1.0) != 1.0 else {}
    parts |= {"weight decay": f"weight decay {short(get('local.weight_decay'))}"} if get("local.weight_decay") else {}
    parts |= {"momentum": f"momentum {short(get('local.momentum'))}"} if get("local.momentum") else {}
    augment = get("local.augment", "none")
    return parts | ({"augmentation": f"{augment} augmentation"} if augment != "none" else {})


def cohort_text(cohort: object) -> str:
    if isinstance(cohort, int):
        return f"{cohort} clients a round"
    if isinstance(cohort, float):
        return f"{cohort:.4g} of the clients a round"
    return "given for each round" if isinstance(cohort, list) else str(cohort)


def findings(summary: Summary) -> list[str]:
    """The result in a sentence or two; no claim that the spread over seeds does not support."""
    if summary.headline is None or len(summary.targets) > 1:
        return []
    known = [row for row in summary.rows if row.final is not None]
    if len(known) < 2:
        return []
    return [best_two(summary, known[0], known[1]), *first_to_target(summary)]


def best_two(summary: Summary, first: Row, second: Row) -> str:
    assert summary.headline is not None
    assert first.final is not None
    assert second.final is not None
    extreme = "highest" if summary.headline.better == "high" else "lowest"
    text = f"{first.label} ends with the {extreme} {summary.headline.name}, {final_text(first)}"
    if first.final.std is None or second.final.std is None:
        return f"{text}, before {second.label} with {final_text(second)}; with one seed each the order is uncertain."
    if not is_better(first, second):
        return f"{text}; the difference to {second.label} ({final_text(second)}) is not distinguishable over the seeds."
    return f"{text}, before {second.label} with {final_text(second)}."


def is_better(first: Row, second: Row) -> bool:
    """Whether the paired difference says so, in one direction or the other."""
    ours = [each.verdict == "better" for each in first.differences if each.reference == second.label]
    theirs = [each.verdict == "worse" for each in second.differences if each.reference == first.label]
    return any(ours + theirs)


def final_text(row: Row) -> str:
    assert row.final is not None
    std = "" if row.final.std is None else f" ± {row.final.std:.4f}"
    return f"{row.final.mean:.4f}{std}"


def first_to_target(summary: Summary) -> list[str]:
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
        return [f"No algorithm reaches {target.value:.4g} sooner than {row.label}."]
    sent = row.costs.get("megabytes")
    traffic = f" and {times(sent.relative)} the traffic" if sent and sent.relative is not None else ""
    bound = "at most " if cost.bound else ""
    return [
        f"{row.label} reaches {target.value:.4g} first, after {cost.value:.1f} rounds: "
        f"{bound}{times(cost.relative or 0)} the rounds{traffic} of {target.baseline}."
    ]


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def seeds_text(seeds: Sequence[int]) -> str:
    """0, 1, 2 -> "0 to 2"."""
    return f"{seeds[0]} to {seeds[-1]}" if are_consecutive(seeds) and len(seeds) > 2 else ", ".join(map(str, seeds))


def are_consecutive(numbers: Sequence[int]) -> bool:
    return list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))
