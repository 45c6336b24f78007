"""Who is compared, by name: an algorithm, or a variant of one such as `weak=fedprox,mu=0.01`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from driftless.algorithms import ALGORITHMS
from driftless.compare.options import Compare
from driftless.config.options import SECTIONS
from driftless.config.resolution import MAIN_KEY
from driftless.config.user_code import absolute_name, algorithm_class, is_in_file
from driftless.data import DATASETS, PARTITIONS
from driftless.errors import InputError

FORM = "NAME=ALGORITHM,KEY=VALUE,..., such as weak=fedprox,mu=0.01"
NAME = re.compile(r"\w[\w.+-]*")
LONGEST_NAME = 60
RESERVED = ("comparison.json", "report.html")
"""Files beside the folders that have these names."""
KEYS = {*MAIN_KEY, *Compare.model_fields, *(key for section in SECTIONS.values() for key in section.model_fields)}
"""What a word `KEY=VALUE` may set whatever is compared."""


@dataclass(frozen=True)
class Variant:
    """An algorithm with settings of its own; a plain algorithm has its own name and no settings."""

    name: str
    algorithm: str
    settings: tuple[str, ...] = ()
    """`key=value`, keys as on the command line."""
    in_file: bool = False
    """Then the settings of the command line win over its own."""
    table: Mapping[str, Any] = field(default_factory=dict)
    """Its settings in `[compare.settings]`."""


def is_variant(word: str) -> bool:
    """Whether `NAME=...` is meant as a variant and not to set a key; parse_variant checks it."""
    name, equals, text = word.partition("=")
    section, dot, _ = name.strip().partition(".")
    if not equals or (section in {*SECTIONS, "compare", "sweep"} if dot else section in KEYS):
        return False
    first, _, rest = text.partition(",")
    return is_algorithm(first.strip()) or "=" in rest or "," in name


def is_algorithm(text: str) -> bool:
    return text in ALGORITHMS or is_in_file(text)


def parse_variant(word: str) -> Variant:
    name, _, text = (part.strip() for part in word.partition("="))
    algorithm, *settings = split_at_commas(text)
    check_name(name)
    for setting in settings:
        if "=" not in setting:
            raise InputError(
                f"'{setting}' in '{word}' is not of the form KEY=VALUE; a variant is {FORM}. "
                "Write a value that holds commas in brackets or quotes, as in cohort=[[0,1],[2,3]]."
            )
    return checked(Variant(name, algorithm, tuple(settings)))


def split_at_commas(text: str) -> list[str]:
    """Commas inside brackets and quotes do not part."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "[{") - (character in "]}")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    if depth or quote:
        raise InputError(f"a bracket or a quote is not closed in '{text}'; close it.")
    return [part.strip() for part in parts]


def is_name(text: str) -> bool:
    """Whether it may name a variant, and with it a folder and a curve."""
    return bool(NAME.fullmatch(text)) and len(text) <= LONGEST_NAME and text not in RESERVED


def check_name(name: str) -> None:
    if not is_name(name):
        raise InputError(
            f"'{name}' cannot name a variant, which is {FORM}. Its name is that of a folder: at most {LONGEST_NAME} "
            "letters, digits and . _ + -, a letter or a digit first."
        )


def checked(variant: Variant) -> Variant:
    """The name must not be taken for something else, and the algorithm must exist."""
    name, algorithm = variant.name, variant.algorithm
    check_name(name)
    if name in ALGORITHMS and name != algorithm:
        raise InputError(f"'{name}' is itself an algorithm, so it cannot name a variant of '{algorithm}'; rename it.")
    if name in KEYS | options():
        raise InputError(
            f"'{name}={algorithm}' may mean the setting '{name}' or a variant of that name; rename the variant, "
            f"e.g. {algorithm.rpartition(':')[2]}-{name}."
        )
    algorithm_class(algorithm)
    return variant


def options() -> set[str]:
    """The hyper-parameters of all algorithms, and the options of all data sets and partitions."""
    found = {each.name for cls in ALGORITHMS.values() for each in fields(cls)}  # pyright: ignore[reportArgumentType]
    return found.union(*(source.options for source in (*DATASETS.values(), *PARTITIONS.values())))


def contenders(words: Sequence[str], compare: Compare) -> list[Variant]:
    """Those that the command line names, or else the file; a name may be defined in the file and used here."""
    defined = [parse_variant(word) for word in words if "=" in word]
    defined += [replace(parse_variant(text), in_file=True) for text in compare.algorithms if "=" in text]
    for name, table in compare.settings.items():
        if isinstance(table.get("algorithm"), str):
            defined.append(checked(Variant(name, table["algorithm"], in_file=True)))
    refuse_repeated([variant.name for variant in defined])
    known = {variant.name: variant for variant in defined}
    for name in compare.settings:
        if name not in known:
            algorithm_class(name)
    names = [word.partition("=")[0].strip() for word in words or compare.algorithms]
    if not names:
        raise InputError("no algorithm to compare; name some, e.g. driftless compare fedavg scaffold adabest.")
    refuse_repeated(names)
    return [with_table(known.get(name, Variant(name, name)), compare.settings.get(name, {})) for name in names]


def refuse_repeated(names: Iterable[str]) -> None:
    """Names that differ only in case would share a folder on some systems."""
    seen: dict[str, str] = {}
    for name in names:
        same = absolute_name(name).casefold()
        if same in seen:
            raise InputError(f"'{name}' is named twice{like(name, seen[same])}; name each algorithm or variant once.")
        seen[same] = name


def like(name: str, other: str) -> str:
    return "" if name == other else f", also as '{other}'"


def with_table(variant: Variant, table: Mapping[str, Any]) -> Variant:
    return replace(variant, table={key: value for key, value in table.items() if not is_definition(key, value)})


def is_definition(key: str, value: object) -> bool:
    """Of a variant: `algorithm = "fedprox"`, not a table of hyper-parameters."""
    return key == "algorithm" and isinstance(value, str)


def folder_names(names: Iterable[str]) -> dict[str, str]:
    """The name itself; for `my.py:MyAlgo`, "my-MyAlgo", for another one that would be called so, "my-MyAlgo-2"."""
    names = list(names)
    folders = {name: name for name in names if not is_in_file(name)}
    for name in names:
        if name not in folders:
            file, _, cls = name.rpartition(":")
            folders[name] = free(f"{Path(file).stem}-{cls}", folders.values())
    return folders


def free(name: str, taken: Iterable[str]) -> str:
    """The name, or with -2, -3, ... behind it if it is taken; upper and lower case are the same."""
    others = {each.casefold() for each in taken}
    numbered = (f"{name}-{number}" if number > 1 else name for number in range(1, len(others) + 2))
    return next(each for each in numbered if each.casefold() not in others)
