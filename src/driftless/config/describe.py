"""What a run does, in a few words by topic: the values that are in effect, whether they were given or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from driftless.config.sections import Config
from driftless.data.cohorts import sampling_of
from driftless.data.datasets import DATASETS
from driftless.data.load import partition_used
from driftless.data.partition import PARTITIONS
from driftless.engine.faults import DEFAULT_SCALE, Faults
from driftless.engine.local import LocalTraining
from driftless.engine.simulation import Simulation
from driftless.privacy import DifferentialPrivacy

Description = dict[str, str]
"""A text for each topic."""
OFTEN_SHOWN = ("lr", "lr_decay", "epochs", "steps", "batch_size")


def describe(config: Config, simulation: Simulation) -> Description:
    """`simulation` is the one of this configuration."""
    federation, needed = simulation.federation, simulation.memory_needed
    algorithm, data, model = (
        section.name.rpartition("/")[2] for section in (config.algorithm, config.data, config.model)
    )
    size = simulation.cohort.size(1, federation.clients)
    return {
        "algorithm": algorithm + in_brackets(config.algorithm.model_extra or {}),
        "rounds": f"{simulation.rounds:,} rounds",
        "cohort": f"cohort {'about ' * (sampling_of(simulation.cohort) == 'poisson')}{size} of {federation.clients:,}",
        **({"faults": text} if (text := faults_text(simulation.faults, int(simulation.attackers.sum()))) else {}),
        "local": f"local: {training_text(simulation.training, simulation.rounds)}",
        "data": f"{data}: {clients_text(simulation)}{partition_text(config)}",
        "model": f"{model}, {simulation.model.size:,} parameters",
        "weighting": weighting_text(simulation),
        "privacy": privacy_text(simulation),
        "memory": needed.text(simulation.store) + needed.checkpoints_text(),
    }


def privacy_text(simulation: Simulation) -> str:
    """The guarantee at the end of the planned rounds; empty without one."""
    algorithm = simulation.algorithm
    return algorithm.guarantee() if isinstance(algorithm, DifferentialPrivacy) else ""


def lines(description: Description) -> list[str]:
    """Of one run: what is done, with which data and model, and what it needs."""
    first, own = ("algorithm", "rounds", "cohort", "faults", "local"), (("privacy",), ("memory",))
    rest = tuple(topic for topic in description if topic not in first and (topic,) not in own)
    parts = ([description[topic] for topic in topics if description.get(topic)] for topics in (first, rest, *own))
    return ["; ".join(part) for part in parts if part]


def common_lines(descriptions: Mapping[str, Sequence[Description]]) -> list[str]:
    """Of runs by their names: what all share, then a line for each topic in which the names differ.

    A topic in which the runs of one name differ, because it is swept, is left out.
    """
    topics = {topic: None for name in descriptions.values() for each in name for topic in each}
    descriptions = {  # faults are described only where there are some
        name: [{topic: each.get(topic, f"no {topic}") for topic in topics} for each in of]
        for name, of in descriptions.items()
    }
    every = [each for name in descriptions.values() for each in name]
    steady = [topic for topic in topics if all(len({each[topic] for each in d}) == 1 for d in descriptions.values())]
    shared = {topic: every[0][topic] for topic in steady if len({each[topic] for each in every}) == 1}
    return lines(shared) + [by_name(descriptions, topic) for topic in steady if topic not in shared]


def by_name(descriptions: Mapping[str, Sequence[Description]], topic: str) -> str:
    """ "weighted by examples (fedavg, scaffold); weighted uniformly (adabest)"."""
    names: dict[str, list[str]] = {}
    for name, (first, *_) in descriptions.items():
        names.setdefault(first[topic], []).append(name)
    called_so = {text for text, of in names.items() if of == text.split()[:1]}  # an algorithm by its own name
    return "; ".join(text if text in called_so else f"{text} ({', '.join(of)})" for text, of in names.items() if text)


def training_text(training: LocalTraining, rounds: int) -> str:
    """ "5 epochs of batches of 10, lr 0.1", and what else is not as usual."""
    first, last = training.steps_at(1), training.steps_at(rounds)
    number, unit = (training.epochs, "epoch") if first is None else (last, "step")
    number = number if first in (None, last) else f"{first} to {last}"
    batches = "the full local batch" if training.batch_size is None else f"batches of {training.batch_size}"
    first, last = training.lr_at(1), training.lr_at(rounds)
    rate = f"{first:g}" if first == last else f"{first:g} to {last:g}"
    others = [f for f in fields(LocalTraining) if f.name not in OFTEN_SHOWN and getattr(training, f.name) != f.default]
    parts = [f"{number} {unit}{'s' if number != 1 else ''} of {batches}", f"lr {rate}"]
    return ", ".join([*parts, *(f"{f.name.replace('_', ' ')} {said(getattr(training, f.name))}" for f in others)])


def faults_text(faults: Faults, attackers: int) -> str:
    """ "faults: dropout 0.2, deadline 50, 10 attackers (sign-flip, scale 1)"; empty without any."""
    parts: list[str] = []
    if isinstance(faults.dropout, tuple):
        parts.append("dropout by client")
    elif faults.dropout:
        parts.append(f"dropout {faults.dropout:g}{in_brackets(given(spread=faults.dropout_spread))}")
    if faults.availability == "client":
        options = {"mean": faults.availability_mean, "spread": faults.availability_spread}
        parts.append(f"availability by client{in_brackets(options)}")
    elif faults.availability == "diurnal":
        options = {"mean": faults.availability_mean, "swing": faults.availability_swing}
        options |= {"day": faults.availability_day, "zones": faults.availability_zones}
        parts.append(f"diurnal availability{in_brackets(options)}")
    named = given(over_selection=faults.over_selection if faults.over_selection > 1 else 0, deadline=faults.deadline)
    parts += [f"{name.replace('_', '-')} {said(value)}" for name, value in named.items()]
    if faults.trace is not None:
        parts.append(f"trace {Path(faults.trace).name}")
    if attackers:
        scale = f", scale {said(faults.scale)}" if faults.attack in DEFAULT_SCALE else ""
        parts.append(f"{attackers:,} attackers ({faults.attack}{scale})")
    return f"faults: {', '.join(parts)}" if parts else ""


def given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value}


def weighting_text(simulation: Simulation) -> str:
    """ "weighted by examples", and how uploads are aggregated if not by their mean."""
    text = "weighted by examples" if simulation.weighting == "examples" else "weighted uniformly"
    aggregation = simulation.aggregation
    return f"{text}, aggregated by {aggregation}" if aggregation.needs_all_uploads else text


def clients_text(simulation: Simulation) -> str:
    held_out = simulation.federation.validation
    clients = simulation.federation.clients
    text = f"{clients:,} client{'s' if clients != 1 else ''}"
    return f"{text} and {held_out.clients:,} held out" if held_out else text


def partition_text(config: Config) -> str:
    """ ", dirichlet (alpha=0.1, sizes=balanced)"; nothing for data that come as clients."""
    data = config.data
    used = partition_used(data.name, data.partition) if data.name in DATASETS else data.partition
    if used not in PARTITIONS:
        return "" if used is None else f", {used}"
    given = data.model_extra or {}
    return f", {used}{in_brackets({key: given.get(key, p.default) for key, p in PARTITIONS[used].options.items()})}"


def in_brackets(options: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'{key}={said(options[key])}' for key in sorted(options))})" if options else ""


def said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
