"""Classes by name: our algorithms, and a user's algorithms and callbacks, `my.py:MyAlgo`, with the same rights."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from driftless.algorithm import Algorithm
from driftless.algorithms import ALGORITHMS
from driftless.errors import InputError, unknown

Base = TypeVar("Base")
MODULE_PREFIX = "driftless_user_"
"""Of the names of modules made from users' files: how a traceback tells their code from ours."""


def make_algorithm(name: str, options: Mapping[str, Any]) -> Algorithm:
    try:
        return algorithm_class(name)(**options)
    except TypeError as error:
        raise InputError(
            f"algorithm '{name}' cannot be made: {error}; give a value to each option that has no default."
        ) from error


def algorithm_class(name: str) -> type[Algorithm]:
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if name.endswith(".py"):
        raise InputError(f"'{name}' is a file; write which class of it is meant: algorithm={name}:CLASS.")
    if ".py:" not in name:
        raise unknown("algorithm", name, ALGORITHMS)
    cls = class_in_file(name, Algorithm, "algorithm=FILE.py:CLASS")
    check_dataclass(name, cls)
    return cls


_may_import: ContextVar[bool] = ContextVar("may_import", default=True)


@contextmanager
def text_only() -> Generator[None]:
    """Within it no file of a user is imported: a configuration is read as the text that it is."""
    token = _may_import.set(False)
    try:
        yield
    finally:
        _may_import.reset(token)


def is_only_text(name: str) -> bool:
    """Whether the class of this name is in a user's file that must not be imported now."""
    return not _may_import.get() and name not in ALGORITHMS and ".py:" in name


def code_hash(name: str) -> dict[str, str]:
    """Of the user's file that `my.py:MyAlgo` names, the SHA-256 by the file's path; empty for our algorithms."""
    file = Path(absolute_name(name).rpartition(":")[0])
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest()} if ".py:" in name and file.is_file() else {}


def absolute_name(name: str) -> str:
    """`my.py:MyAlgo` with the file's full path, so that a run can be resumed from another folder."""
    file, colon, cls = name.rpartition(":")
    return f"{Path(file).resolve()}:{cls}" if colon and file.endswith(".py") else name


def class_in_file(text: str, base: type[Base], usage: str) -> type[Base]:
    """`my.py:MyClass`, a subclass of `base`; `usage` is how it is given, for errors."""
    file, _, name = text.rpartition(":")
    if not file.endswith(".py"):
        raise InputError(f"'{text}' is not of the form FILE.py:CLASS; write {usage}.")
    if not Path(file).is_file():
        raise InputError(f"there is no file '{file}'; {usage} needs the path of a Python file.")
    classes = {key: value for key, value in vars(module_of(Path(file))).items() if isinstance(value, type)}
    found = {key: cls for key, cls in classes.items() if issubclass(cls, base) and cls is not base}
    if name not in found:
        raise unknown(f"{base.__name__.lower()} class of {file}", name, found)
    return found[name]


def check_dataclass(name: str, cls: type[Algorithm]) -> None:
    known = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else None
    own = {key for key, kind in vars(cls).get("__annotations__", {}).items() if "ClassVar" not in str(kind)}
    if known is None or not own <= known:
        raise InputError(f"the class '{name}' is not a dataclass; put @dataclass(frozen=True) above it.")


_modules: dict[tuple[Path, bytes], ModuleType] = {}


def module_of(path: Path) -> ModuleType:
    """The file as a module; it is executed once, and again only when it has changed."""
    assert _may_import.get(), f"{path} would be imported where only text is needed"
    source = path.read_bytes()
    key = path.resolve(), source
    if key not in _modules:
        _modules[key] = execute(path, source)
    return _modules[key]


def execute(path: Path, source: bytes) -> ModuleType:
    """These very bytes: Python's own import would take those of a cache beside the file."""
    module = ModuleType(f"{MODULE_PREFIX}{path.stem}_{abs(hash(path.resolve()))}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up by name
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        raise InputError(f"'{path}' cannot be imported: {type(error).__name__}: {error}.") from error
    return module
