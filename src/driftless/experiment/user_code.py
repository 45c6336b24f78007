"""Algorithms by name: ours, or a class in a user's file, `my.py:MyAlgo`, with the same rights."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

from driftless.algorithm import Algorithm
from driftless.algorithms import ALGORITHMS
from driftless.errors import InputError, unknown


def algorithm_class(name: str) -> type[Algorithm]:
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    file, colon, cls = name.rpartition(":")
    if colon and file.endswith(".py"):
        return from_file(Path(file), cls)
    raise unknown("algorithm", name, ALGORITHMS)


def from_file(path: Path, name: str) -> type[Algorithm]:
    if not path.is_file():
        raise InputError(f"there is no file '{path}'; algorithm=FILE.py:CLASS needs the path of a Python file.")
    module_name = f"driftless_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"'{path}' cannot be imported: {type(error).__name__}: {error}.") from error
    classes = {key: value for key, value in vars(module).items() if isinstance(value, type)}
    found = {key: cls for key, cls in classes.items() if issubclass(cls, Algorithm) and cls is not Algorithm}
    if name not in found:
        raise unknown(f"algorithm class of {path}", name, found)
    if not dataclasses.is_dataclass(found[name]):
        raise InputError(f"class {name} of '{path}' is not a dataclass; put @dataclass(frozen=True) above it.")
    return found[name]
