"""The laws of an algorithm's methods, looked at without the engine.

A law is a function of the algorithm that gives a sentence for everything that breaks it: which method, what was seen
and what to do. Its docstring is what must hold.
"""

from __future__ import annotations

import copy
import dataclasses
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from driftless.algorithm import Algorithm
from driftless.algorithms.wrapper import Wrapper
from driftless.engine.block import dims_of, dims_of_given
from driftless.engine.local import LocalTraining
from driftless.engine.module_state import check_unchanged, is_same
from driftless.engine.tree import map_leaves, named_leaves
from driftless.engine.unused_names import unused_names
from driftless.errors import InputError, short_repr
from driftless.testing.calls import COHORTS, SIZE, Call, calls
from driftless.testing.trees import described, difference, named_values, structure

TOLERANCE = 1e-10
DTYPES = (torch.float64, torch.float32)
VECTORS = ("d", "model")
"""What must be a vector like the model."""
STATES = ("server", "client", "message", "local", "upload")


def frozen_dataclass(algorithm: Algorithm) -> Iterator[str]:
    """The class is declared as a frozen dataclass, so that its hyper-parameters are known and stay as they are."""
    cls = type(algorithm)
    if "__dataclass_params__" not in vars(cls):
        yield f"{cls.__name__} is not declared as a dataclass: write `@dataclass(frozen=True)` above the class."
    elif not cls.__dataclass_params__.frozen:  # pyright: ignore[reportAttributeAccessIssue]
        yield f"{cls.__name__} is a dataclass, but not frozen: write `@dataclass(frozen=True)`."


def known_names(algorithm: Algorithm) -> Iterator[str]:
    """Every method is one that the engine calls or another method uses: none is misspelt."""
    yield from unused_names(algorithm)


def class_attributes(algorithm: Algorithm) -> Iterator[str]:
    """Class attributes have values that the engine knows; `uniform` and `public` name fields of the upload."""
    allowed = {
        "weighting": ("examples", "uniform"),
        "full_gradient": ("", "after", "before"),
        "anchor_gradient": (False, True),
        "needs_clients": (True, False),
    }
    for name, values in allowed.items():
        if (value := getattr(algorithm, name)) not in values:
            yield f"`{name}` is {short_repr(value)}: set it to one of {', '.join(map(repr, values))}."
    fields = {field.name for field in dataclasses.fields(LocalTraining)}
    for name in sorted(set(algorithm.local_must_be) - fields):
        yield f"`local_must_be` names '{name}', which local training does not have: it has {', '.join(sorted(fields))}."
    yield from unknown_fields(algorithm)


def unknown_fields(algorithm: Algorithm) -> Iterator[str]:
    upload = next((call.returned().get("upload") for call in calls(algorithm) if call.method == "upload"), ())
    paths = {part for path, _ in named_leaves(upload) for part in path.split(".")}
    for name in ("uniform", "public"):
        given = getattr(algorithm, name)
        if not isinstance(given, (set, frozenset)):
            yield f'`{name}` is {short_repr(given)}: write frozenset({{"..."}}) with the names of upload fields.'
            continue
        for field in sorted(given - paths):
            yield (
                f"`{name}` names '{field}', which is not a field of what `upload` returns, {described(upload)}: "
                "correct the name."
            )


def states_of_tensors(algorithm: Algorithm) -> Iterator[str]:
    """States, messages and uploads are tuples of tensors of the model's dtype, without NaN and without a gradient."""
    for dtype in DTYPES:
        for call in calls(algorithm, dtype):
            if call.method == "diagnostics":
                continue
            returned = call.returned()
            if not returned:
                pair = "`d, local`" if call.method == "direction" else "`upload, client`"
                yield f"`{call.method}` returned {described(call.result)}: return the pair {pair}."
            for name, tree in returned.items():
                for path, value in named_values(tree, name).items():
                    if problem := problem_of(value, dtype):
                        yield f"`{call.method}` returned {problem.format(path=f'`{path}`')}"


def problem_of(value: Any, dtype: torch.dtype) -> str | None:
    """What is wrong with a value in a state of a model of this dtype."""
    if value is None:
        return "None as {path}: a state holds tensors only; let a number say 'not yet', such as zeros."
    if isinstance(value, Mapping):
        return "a dict as {path}: write a NamedTuple with these fields."
    if not isinstance(value, Tensor):
        shown = short_repr(value).replace("{", "{{").replace("}", "}}")
        return f"{shown} as {{path}}, which is not a tensor: make it one, such as `x.new_tensor(value)`."
    if value.dtype != dtype:
        was, wanted = (str(kind).removeprefix("torch.") for kind in (value.dtype, dtype))
        return (
            f"{was} as {{path}} for a model of {wanted}: make new tensors from given ones, by `torch.zeros_like(x)`, "
            "`x.new_tensor(value)` or `.to(x.dtype)`."
        )
    if value.requires_grad:
        return "{path} with requires_grad: detach it."
    if value.isnan().any():
        return "NaN in {path}: find the division by zero or the root of a negative number; `torch.where` avoids both."
    return None


def kept_structure(algorithm: Algorithm) -> Iterator[str]:
    """States, messages and uploads keep their type, fields and shapes from round to round; `d` is like the model."""
    for dtype in DTYPES:
        first: dict[str, tuple[str, Any]] = {}
        for call in calls(algorithm, dtype):
            for name, tree in call.returned().items():
                if name in VECTORS:
                    if structure(tree) != ((SIZE,), dtype):
                        kind = str(dtype).removeprefix("torch.")
                        yield (
                            f"`{call.method}` returned {described(tree)} as {name} for a model of {kind}[{SIZE}]: "
                            "return a vector of the model's shape and dtype."
                        )
                elif name in STATES:
                    method, before = first.setdefault(name, (call.method, tree))
                    if structure(tree) != structure(before):
                        yield (
                            f"`{call.method}` returned the {name} {described(tree)}, after `{method}` had returned "
                            f"{described(before)}: always return the same NamedTuple with tensors of the same shapes."
                        )


def x_and_delta(algorithm: Algorithm) -> Iterator[str]:
    """The server's state and the message have a field `x`; the upload has a field `delta` = y - x."""
    for call in calls(algorithm):
        for name, tree in call.returned().items():
            field = {"server": "x", "message": "x", "upload": "delta"}.get(name)
            if field and not isinstance(getattr(tree, field, None), Tensor):
                yield f"`{call.method}` returned the {name} {described(tree)} without a field `{field}`: add it."
            elif name == "upload":
                yield from problems_of_delta(algorithm, call, tree.delta)


def problems_of_delta(algorithm: Algorithm, call: Call, delta: Tensor) -> Iterator[str]:
    y, msg = call.arguments[0], call.arguments[2]
    moved = y - msg.x
    if isinstance(algorithm, Wrapper):  # may make it shorter
        share = (delta @ moved / (moved @ moved)).clamp(0, 1)
        if float(share) <= 0 or difference(delta, share * moved, TOLERANCE):
            yield "`upload` returned a `delta` that is not y - x, nor a part of it: return `y - msg.x`, or shorten it."
    elif off := difference(delta, moved, 1e-12):
        if not difference(delta, -moved, 1e-12):
            yield "`upload` returned `delta` = x - y, the wrong sign: return `y - msg.x`."
        else:
            yield (
                f"`upload` returned a `delta` that is not y - x ({off}): return "
                "`y - msg.x`, and what else the server needs in fields of its own."
            )


def unchanged_arguments(algorithm: Algorithm) -> Iterator[str]:
    """No method writes into its arguments."""
    for call in calls(algorithm):
        for path in call.written:
            yield (
                f"`{call.method}` wrote into its argument `{path}`: use `{path} + ...` instead of `{path}.add_(...)` "
                f"or `{path} += ...`, or change a copy, `{path}.clone()`."
            )


def unchanged_algorithm(algorithm: Algorithm) -> Iterator[str]:
    """Calling its methods does not change the algorithm."""
    before = copy.deepcopy(algorithm)
    for call in calls(algorithm):
        try:
            check_unchanged(algorithm, before)
        except InputError as error:
            yield f"`{call.method}` changed the algorithm. {error}"
            return


def repeatable_calls(algorithm: Algorithm) -> Iterator[str]:
    """A method that is called again with the same arguments returns the same bits."""
    for call in calls(algorithm):
        if call.written:
            continue
        again = getattr(algorithm, call.method)(*call.arguments)
        if off := call.differs_from(again):
            yield (
                f"`{call.method}` returned something else when it was called again with the same arguments "
                f"({off}): it depends on a counter, a variable that changes or a global random "
                "generator. Keep what changes in a state; for random numbers, make a torch.Generator in the method "
                "and seed it from its arguments."
            )


def separate_clients(algorithm: Algorithm) -> Iterator[str]:
    """What a client computes does not depend on which clients were trained before it in the round."""
    one_way = of_clients(algorithm, list)
    other_way = of_clients(algorithm, lambda cohort: cohort[::-1])
    for (t, client), made in one_way.items():
        for call, twin in zip(made, other_way[t, client], strict=True):
            if off := call.differs_from(twin.result, TOLERANCE):
                yield (
                    f"`{call.method}` returned something else when the clients of a round were trained in another "
                    f"order ({off}): clients must not share anything but the message. Keep what a client needs in its "
                    "own state, and what all need in the server's."
                )
                return


def of_clients(algorithm: Algorithm, order: Any) -> dict[tuple[int, int], list[Call]]:
    """The calls of each client in each round."""
    found: dict[tuple[int, int], list[Call]] = {(t, i): [] for t, each in enumerate(COHORTS, start=1) for i in each}
    for call in calls(algorithm, order=order):
        if call.client is not None and call.t:
            found[call.t, call.client].append(call)
    return found


def diagnostics_of_numbers(algorithm: Algorithm) -> Iterator[str]:
    """`diagnostics` returns a dict of names and numbers."""
    for call in calls(algorithm):
        if call.method != "diagnostics":
            continue
        if not isinstance(call.result, Mapping):
            yield f"`diagnostics` returned {described(call.result)}: return a dict, such as {{'level': server.level}}."
            continue
        for name, value in call.result.items():
            is_number = isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)
            if not isinstance(name, str) or not is_number:
                yield f"`diagnostics` returned {described(value)} as {name!r}: return one number under each name."


def server_lr(algorithm: Algorithm) -> Iterator[str]:
    """`with_server_lr`, if there is a `server_lr`, changes this and nothing else."""
    before = getattr(algorithm, "server_lr", None)
    if before is None:
        return
    other = algorithm.with_server_lr(0.123)
    if type(other) is not type(algorithm) or other.server_lr != 0.123:  # pyright: ignore[reportAttributeAccessIssue]
        yield "`with_server_lr(0.123)` did not return the algorithm with `server_lr` = 0.123: make `server_lr` a field."
    elif not is_same(other.with_server_lr(before), algorithm):
        yield "`with_server_lr` changed more than `server_lr`: return `dataclasses.replace(self, server_lr=...)`."


def vectorised_calls(algorithm: Algorithm) -> Iterator[str]:
    """`init_local`, `direction` and `upload` work on a block of clients at once, by `torch.func.vmap`."""
    for call in calls(algorithm):
        if call.method not in ("init_local", "direction", "upload") or call.written:
            continue
        own, given = call.arguments[:-3], call.arguments[-3:]
        dims = (*(dims_of(part, 0) for part in own), *dims_of_given(given))
        block = tuple(map(in_block, call.arguments, dims))
        try:
            lifted = vmap(getattr(algorithm, call.method), in_dims=dims, randomness="error")(*block)
        except Exception as error:  # the plain call has just worked
            yield f"`{call.method}` cannot work on a block of clients: {reason(error)}{line_of(error)}."
            continue
        for row in range(2):
            if off := call.differs_from(map_leaves(lambda leaf, row=row: leaf[row], lifted), TOLERANCE):
                yield f"`{call.method}` computes something else for a block of clients than for one ({off})."


def in_block(argument: Any, dims: Any) -> Any:
    """Two clients with the same tensors, where clients have their own."""
    return map_leaves(lambda leaf, dim: leaf if dim is None else torch.stack([leaf, leaf]), argument, dims)


REASONS = {
    "data-dependent control flow": "it branches on the value of a tensor; use `torch.where(condition, a, b)` instead",
    ".item()": "it reads a number out of a tensor; compute with the tensor itself, and choose by `torch.where`",
    "random operation": "it draws random numbers from torch's global generator, which clients would share",
    "must only return Tensors": "it returns something that is not a tensor; return tensors only",
    "inplace arithmetic": "it writes into a tensor in place; make a new tensor instead",
}
"""What vmap says, and what it means here."""


def reason(error: Exception) -> str:
    known = (ours for theirs, ours in REASONS.items() if theirs in str(error))
    return next(known, f"vmap cannot lift it: {str(error).splitlines()[0] if str(error) else type(error).__name__}")


def line_of(error: Exception) -> str:
    """The last line outside of torch and driftless."""
    lines = [
        frame.line
        for frame in traceback.extract_tb(error.__traceback__)
        if "/torch/" not in frame.filename.replace("\\", "/") and frame.filename != __file__
    ]
    return f" (in the line `{lines[-1]}`)" if lines and lines[-1] else ""


METHOD_LAWS = (
    frozen_dataclass,
    known_names,
    states_of_tensors,
    kept_structure,
    x_and_delta,
    class_attributes,
    unchanged_arguments,
    unchanged_algorithm,
    repeatable_calls,
    separate_clients,
    vectorised_calls,
    diagnostics_of_numbers,
    server_lr,
)
