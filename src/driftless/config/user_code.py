"""Code of the user wherever a name stands for code, with the same rights as ours.

`my.py:Net` is an object or a factory in a file. `python:Net` is the label of an object that a script has given: a
configuration can be read as text anywhere, and played where `using` has the object.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from driftless.algorithm import Algorithm
from driftless.algorithms import ALGORITHMS
from driftless.engine.fingerprint import MODULE_PREFIX
from driftless.errors import InputError, doing, unknown

Base = TypeVar("Base")
PYTHON = "python:"
"""Before the label of an object that a script has given."""
Objects = Mapping[str, Any]
"""Such objects by their labels, `python:` included."""
Parameters = Mapping[str, inspect.Parameter]

_objects: ContextVar[Objects | None] = ContextVar("objects", default=None)
_may_import: ContextVar[bool] = ContextVar("may_import", default=True)


@contextmanager
def using(objects: Objects) -> Generator[None]:
    """Within it the labels of configurations stand for these objects."""
    token = _objects.set(objects)
    try:
        yield
    finally:
        _objects.reset(token)


def in_script() -> bool:
    """Whether a script of the user runs, whose objects other processes do not have."""
    return _objects.get() is not None


def given() -> Objects:
    return _objects.get() or {}


@contextmanager
def text_only() -> Generator[None]:
    """Within it no file of a user is imported: a configuration is read as the text that it is."""
    token = _may_import.set(False)
    try:
        yield
    finally:
        _may_import.reset(token)


def is_in_file(name: object) -> bool:
    return isinstance(name, str) and ".py:" in name


def is_label(name: object) -> bool:
    return isinstance(name, str) and name.startswith(PYTHON)


def is_own(name: object) -> bool:
    """Whether the name stands for code of the user."""
    return is_in_file(name) or is_label(name)


def is_only_text(name: object) -> bool:
    """Whether the name stands for code that must not be imported now, or for an object that is not here."""
    return (is_in_file(name) and not _may_import.get()) or (is_label(name) and name not in given())


def own_object(name: str, usage: str) -> Any:
    """What a name that `is_own` stands for; `usage` is how it is given, for errors."""
    if is_in_file(name):
        return object_in_file(name, usage)
    if name not in given():
        raise InputError(
            f"'{name}' is an object of the script that made this configuration; run that script again to continue "
            f"what it began, or put the object into a file and give {usage}."
        )
    return given()[name]


def parameters_of(factory: object) -> Parameters:
    """The parameters that can be given by name; none for what cannot be called or says nothing about them."""
    try:
        parameters = inspect.signature(factory).parameters if callable(factory) else {}
    except (ValueError, TypeError):
        parameters = {}
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: each for name, each in parameters.items() if each.kind in by_name}


def made_by(name: str, factory: Any, supplied: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """What a factory returns for the options, and for what is supplied as far as it has such parameters."""
    parameters = parameters_of(factory)
    arguments = {key: value for key, value in supplied.items() if key in parameters} | dict(options)
    missing = [key for key, p in parameters.items() if p.default is p.empty and key not in arguments]
    if missing:
        raise InputError(
            f"'{name}' cannot be called without {', '.join(missing)}; set it as an option of its section, or give it a "
            f"default. driftless supplies {', '.join(supplied) or 'nothing'} to a factory with such parameters."
        )
    with doing(f"calling {name}"):
        return factory(**arguments)


# ------------------------------------------------------------------------------------------------------- algorithms


def make_algorithm(name: str, options: Mapping[str, Any]) -> Algorithm:
    try:
        if is_label(name):
            return dataclasses.replace(own_object(name, "algorithm=FILE.py:CLASS"), **options)
        return algorithm_class(name)(**options)
    except TypeError as error:
        raise InputError(
            f"algorithm '{name}' cannot be made: {error}; give a value to each option that has no default."
        ) from error


def algorithm_class(name: str) -> type[Algorithm]:
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    if is_label(name):
        return type(own_object(name, "algorithm=FILE.py:CLASS"))
    if name.endswith(".py"):
        raise InputError(f"'{name}' is a file; write which class of it is meant: algorithm={name}:CLASS.")
    if not is_in_file(name):
        raise unknown("algorithm", name, ALGORITHMS)
    cls = class_in_file(name, Algorithm, "algorithm=FILE.py:CLASS")
    check_dataclass(name, cls)
    return cls


def check_dataclass(name: str, cls: type[Algorithm]) -> None:
    known = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else None
    own = {key for key, kind in vars(cls).get("__annotations__", {}).items() if "ClassVar" not in str(kind)}
    if known is None or not own <= known:
        raise InputError(f"the class '{name}' is not a dataclass; put @dataclass(frozen=True) above it.")


# ------------------------------------------------------------------------------------------------------------ files


def code_hashes(names: Iterable[object]) -> dict[str, str]:
    """The SHA-256 of each user's file that one of the names is in, by the file's path."""
    files = [Path(str(absolute_name(name)).rpartition(":")[0]) for name in names if is_in_file(name)]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()}


def absolute_name(name: Any, beside: Path | None = None) -> Any:
    """`my.py:Net` with the file's full path, so that a run can be resumed from another folder; others as they are.

    `beside`: the folder of the configuration that has the name, where the file is looked for first.
    """
    if isinstance(name, list):
        return [absolute_name(each, beside) for each in name]
    if not is_in_file(name):
        return name
    file, _, attribute = name.rpartition(":")
    if not file.endswith(".py"):
        return name
    path = Path(file) if beside is None or not (beside / file).is_file() else beside / file
    return f"{path.resolve()}:{attribute}"


def object_in_file(text: str, usage: str) -> Any:
    """`my.py:NAME`."""
    path, name = place_in_file(text, usage)
    public = {key: value for key, value in vars(module_of(path)).items() if not key.startswith("__")}
    if name not in public:
        raise unknown(f"name in {path}", name, (key for key in public if not isinstance(public[key], ModuleType)))
    return public[name]


def class_in_file(text: str, base: type[Base], usage: str) -> type[Base]:
    """`my.py:MyClass`, a subclass of `base`."""
    path, name = place_in_file(text, usage)
    classes = {key: value for key, value in vars(module_of(path)).items() if isinstance(value, type)}
    found = {key: cls for key, cls in classes.items() if issubclass(cls, base) and cls is not base}
    if name not in found:
        raise unknown(f"{base.__name__.lower()} class of {path}", name, found)
    return found[name]


def place_in_file(text: str, usage: str) -> tuple[Path, str]:
    file, _, name = text.rpartition(":")
    if not file.endswith(".py"):
        raise InputError(f"'{text}' is not of the form FILE.py:{usage.rpartition(':')[2]}; write {usage}.")
    if not Path(file).is_file():
        raise InputError(f"there is no file '{file}'; {usage} needs the path of a Python file.")
    return Path(file), name


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
    """These very bytes: Python's own import would take those of a cache beside the file.

    Files beside it can be imported, as when Python runs it; they come last, so that they hide no installed package.
    """
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)
    module = ModuleType(f"{MODULE_PREFIX}{path.stem}_{abs(hash(path.resolve()))}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up by name
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        raise InputError(f"'{path}' cannot be imported: {type(error).__name__}: {error}.") from error
    return module
