"""The configuration of a run directory: read as text, or with the code that it names if that is what it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftless.config.options import Values, own_code
from driftless.config.resolution import CODE, Resolved, combine, flat, flatten, read_toml
from driftless.config.sections import Config, is_experiment
from driftless.config.user_code import code_hashes, text_only
from driftless.data import DATASETS
from driftless.data.load import partition_used
from driftless.errors import InputError


def read_stored(file: Path) -> Resolved:
    """The configuration of a run directory as text: code that it names is not imported, and need not be there."""
    with text_only():
        return resolve_all(file)


def resolve_stored(file: Path, trust: bool = False) -> Resolved:
    """The configuration of a run directory; code that it names is imported only if it is what it was then."""
    changed = changed_code(file)
    if changed and not trust:
        raise InputError(f"{changed}; it is not executed. Put it back, or look at it and resume with --trust.")
    return resolve_all(file)


def resolve_all(file: Path) -> Resolved:
    given = flatten(file, read_toml(file))
    return combine([(str(file), earlier_defaults(given) | given)])


def earlier_defaults(given: Mapping[str, Any]) -> Values:
    """What a configuration of a run leaves out that is always written now: it was the default of earlier versions."""
    data = str(given.get("data.name"))
    found: Values = {} if "local.batch_size" in given else {"local.batch_size": None}
    if "local.epochs" not in given and "local.steps" not in given:
        found["local.epochs"] = 1
    if "data.partition" not in given and data in DATASETS:
        used = partition_used(data, None)
        found["data.partition"] = "iid" if used == "dirichlet" else used
    return found


def changed_code(file: Path) -> str:
    """In words, what is different now of the code that the configuration of a run directory names; empty: nothing."""
    code = read_toml(file).get(CODE, {})
    recorded = code if isinstance(code, dict) else {}
    for path, now in code_hashes(own_code(flat(read_stored(file).config))).items():
        then = str(recorded.get(path, "not recorded"))
        if then != now:
            return f"'{path}' is not known to be the code of the run (SHA-256 then: {then[:12]}, now: {now[:12]})"
    return ""


def different_settings(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The keys of the settings by which two runs, or searches, are not the same.

    A setting that one of them does not have, because its version of driftless had none, has its default there.
    """
    defaults = flat(Config())
    return [
        key
        for key in {**there, **here}
        if is_experiment(key) and there.get(key, defaults.get(key)) != here.get(key, defaults.get(key))
    ]
