"""What an own algorithm defines and nothing uses: a misspelt method, or one that another framework would call.

A method counts as a mistake if neither the engine nor the class's own code has its name. Class attributes, class
methods and static methods are often meant for the user's other code, so only those are reported whose name is close to
one that the engine knows. Names with an underscore, properties, fields and classes are never reported.
"""

from __future__ import annotations

import difflib
import inspect
from functools import cached_property
from types import CodeType
from typing import Any

from driftless.algorithm import Algorithm

KNOWN = sorted({name for name in vars(Algorithm) if not name.startswith("_")} | {"server_lr", "inner"})
OF_OTHERS = {
    "aggregate": "update", "aggregate_fit": "update", "server_update": "update", "server_step": "update",
    "configure_fit": "broadcast", "initialize_parameters": "init_server", "client_update": "direction or upload",
    "client_step": "direction", "local_update": "direction", "local_step": "direction", "fit": "direction",
}  # fmt: skip
"""Names that other frameworks use, and ours."""
CLOSE = 0.8
"""boadcast and broadcast: 0.94; updated and update: 0.92; upload and update: 0.67."""


def unused_names(algorithm: Algorithm) -> tuple[str, ...]:
    """A sentence about each class that has such names: the algorithm's, and that of the one it wraps."""
    cls, inner = type(algorithm), getattr(algorithm, "inner", None)
    sentences = unused_names(inner) if isinstance(inner, Algorithm) else ()
    found = [name for name, value in own(cls).items() if is_mistake(name, value) and not is_used(cls, name)]
    if not found:
        return sentences
    sentence = (
        f"{cls.__name__} defines {', '.join(map(described, found))}, which the engine does not know and no method of "
        f"the class uses. The engine knows {', '.join(KNOWN)}. Begin names that are yours alone with an underscore."
    )
    return (sentence, *sentences)


def own(cls: type[Algorithm]) -> dict[str, Any]:
    """What the class and its bases below Algorithm define, other than fields and what the engine knows."""
    known = {*KNOWN, *getattr(cls, "__dataclass_fields__", ())}
    bases = cls.__mro__[: cls.__mro__.index(Algorithm)]
    defined = {name: value for part in reversed(bases) for name, value in vars(part).items()}
    return {name: value for name, value in defined.items() if not name.startswith("_") and name not in known}


def is_mistake(name: str, value: Any) -> bool:
    if isinstance(value, (type, property, cached_property)):
        return False
    if name in OF_OTHERS or closest(name):
        return True
    return inspect.isfunction(inspect.unwrap(value)) and not isinstance(value, (classmethod, staticmethod))


def is_used(cls: type, name: str) -> bool:
    """Whether the name is in the code of the class and its bases, apart from methods of this name."""
    values = [value for part in cls.__mro__ for method, value in vars(part).items() if method != name]
    return any(name in names_in(code) for value in values if (code := code_of(value)))


def code_of(value: Any) -> CodeType | None:
    for attribute in ("__func__", "fget", "func"):  # of a class method, a property, a cached property
        value = getattr(value, attribute, value)
    return getattr(inspect.unwrap(value), "__code__", None)


def names_in(code: CodeType) -> set[str]:
    """Also texts, which `getattr` may be given, and the names in functions inside."""
    inside = [names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return {*code.co_names, *(text for text in code.co_consts if isinstance(text, str))}.union(*inside)


def described(name: str) -> str:
    if name in OF_OTHERS:
        return f"'{name}' (here it is called {OF_OTHERS[name]})"
    near = closest(name)
    return f"'{name}' (did you mean '{near}'?)" if near else f"'{name}'"


def closest(name: str) -> str | None:
    return next(iter(difflib.get_close_matches(name.lower(), KNOWN, n=1, cutoff=CLOSE)), None)
