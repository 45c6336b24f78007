"""Algorithms by name: ours, or a class in a user's file, `my.py:MyAlgo`, with the same rights."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from driftless.algorithm import Algorithm
from driftless.algorithms import ALGORITHMS
from driftless.errors import InputError, unknown

Base = TypeVar("Base")


def algorithm_class(name: str) -> type[Algorithm]:
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    file, colon, cls = name.rpartition(":")
    if colon and file.endswith(".py"):
        return from_file(Path(file), cls)
    if name.endswith(".py"):
        raise InputError(f"'{name}' is a file; write which class of it is meant: algorithm={name}:CLASS.")
    raise unknown("algorithm", name, ALGORITHMS)


def absolute_name(name: str) -> str:
    """`my.py:MyAlgo` with the file's full path, so that a run can be resumed from another folder."""
    file, colon, cls = name.rpartition(":")
    return f"{Path(file).resolve()}:{cls}" if colon and file.endswith(".py") else name


def from_file(path: Path, name: str) -> type[Algorithm]:
    found = classes_in(path, Algorithm, "algorithm=FILE.py:CLASS")
    if name not in found:
        raise unknown(f"algorithm class of {path}", name, found)
    check_dataclass(path, found[name])
    return found[name]


def classes_in(path: Path, base: type[Base], usage: str) -> dict[str, type[Base]]:
    """The subclasses of `base` in a user's file, by name."""
    if not path.is_file():
        raise InputError(f"there is no file '{path}'; {usage} needs the path of a Python file.")
    classes = {key: value for key, value in vars(module_of(path)).items() if isinstance(value, type)}
    return {key: cls for key, cls in classes.items() if issubclass(cls, base) and cls is not base}


def check_dataclass(path: Path, cls: type[Algorithm]) -> None:
    known = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else None
    own = {key for key, kind in vars(cls).get("__annotations__", {}).items() if "ClassVar" not in str(kind)}
    if known is None or not own <= known:
        raise InputError(f"class {cls.__name__} of '{path}' is not a dataclass; put @dataclass(frozen=True) above it.")


_modules: dict[tuple[Path, int], ModuleType] = {}


def module_of(path: Path) -> ModuleType:
    """The file as a module; it is executed once, and again only when it has changed."""
    key = path.resolve(), path.stat().st_mtime_ns
    if key not in _modules:
        _modules[key] = execute(path)
    return _modules[key]


def execute(path: Path) -> ModuleType:
    module_name = f"driftless_user_{path.stem}_{abs(hash(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(f"'{path}' cannot be imported: {type(error).__name__}: {error}.") from error
    return module
