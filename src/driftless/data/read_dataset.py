"""Any data set that a user has, as tensors: torch's, lists of items, columns by name, Hugging Face's.

All are read as a table. Its columns have names (items that are dicts, columns of Hugging Face) or are the positions in
the items (tuples).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset

from driftless.data.array_checks import SeveralValues, Values, as_input, as_inputs, as_targets, check_pair
from driftless.data.constructors import advice
from driftless.data.examples import Examples
from driftless.data.inputs import Inputs
from driftless.errors import InputError, doing, unknown

Column: TypeAlias = str | int
Labels: TypeAlias = Column | Sequence[Hashable] | npt.NDArray[Any] | Tensor
"""A column, or one value for each example."""


class Roles(NamedTuple):
    """Which columns are what."""

    input: Column | Sequence[Column] | None = None
    """Several columns of names are a dict of inputs, several positions a tuple. None: all that have no other role."""
    target: Column | None = None
    """None: the last position."""
    user: Labels | None = None
    coarse: Labels | None = None


class Table(NamedTuple):
    columns: list[Column]
    read: Callable[[list[Column]], Mapping[Column, Any]]
    """The values of some columns, one for each example."""
    classes: Callable[[Column], int | None] = lambda _: None
    """How many classes the data set itself says that a column has."""


class RawExamples(NamedTuple):
    """Inputs, and the other columns as they are given."""

    inputs: Inputs
    targets: Any
    users: Any = None
    coarse: Any = None
    classes: int | None = None


def read_examples(dataset: Any, roles: Roles, test: Any = None, classes: int | None = None) -> Examples:
    """Text labels get the numbers of their sorted order, in the test set the same."""
    train = read_raw(dataset, roles, "the data set")
    tests = [] if test is None else [read_raw(test, roles._replace(user=None, coarse=None), "the test set")]
    targets, *test_targets = numbered_labels([train.targets, *(part.targets for part in tests)])
    targets = as_targets(targets, "the data set")
    check_pair(train.inputs, targets, "the data set")
    for what, values in (("user", train.users), ("coarse", train.coarse)):
        if values is not None and len(values) != len(targets):
            raise InputError(f"{what} has {len(values)} entries for {len(targets)} examples; give one for each.")
    return Examples(
        train.inputs,
        targets,
        test=(tests[0].inputs, as_targets(test_targets[0], "the test set")) if tests else None,
        classes=train.classes if classes is None else classes,
        coarse=None if train.coarse is None else np.asarray(train.coarse),
        users=train.users,
    )


def read_pair(dataset: Any, roles: Roles, owner: str) -> tuple[Inputs, Values]:
    """The inputs and targets of one client or of a test set."""
    raw = read_raw(dataset, roles, owner)
    return raw.inputs, raw.targets


def read_raw(dataset: Any, roles: Roles, owner: str) -> RawExamples:
    table = table_of(dataset, owner)
    inputs, target = chosen_columns(table.columns, roles, owner)
    labels = {name: value for name, value in (("user", roles.user), ("coarse", roles.coarse)) if value is not None}
    for name, value in labels.items():
        if isinstance(value, (str, int)):
            check_column(table.columns, value, name, owner)
    several = isinstance(inputs, list)
    wanted = [*(inputs if several else [inputs]), target, *(v for v in labels.values() if isinstance(v, (str, int)))]
    values = table.read(list(dict.fromkeys(wanted)))
    read = {name: values[value] if isinstance(value, (str, int)) else value for name, value in labels.items()}
    return RawExamples(
        named_or_numbered({name: values[name] for name in inputs}, owner) if several else one(values[inputs], owner),
        values[target],
        read.get("user"),
        read.get("coarse"),
        table.classes(target),
    )


# -------------------------------------------------------------------------------------------------------------- columns


def table_of(dataset: Any, owner: str) -> Table:
    is_splits = isinstance(dataset, Mapping) and any(hasattr(part, "column_names") for part in dataset.values())
    if isinstance(dataset, Mapping) and not is_splits:
        return Table(list(dataset), lambda columns: {column: dataset[column] for column in columns})
    if hasattr(dataset, "select_columns") and hasattr(dataset, "__len__") and not is_splits:
        return of_hugging_face(dataset)
    if isinstance(dataset, TensorDataset):
        return of_columns(dataset.tensors)
    if isinstance(dataset, tuple) and len(dataset) == 2:
        return of_columns(dataset)
    is_items = hasattr(dataset, "__getitem__") and not isinstance(dataset, (str, bytes, Mapping, IterableDataset))
    if not is_items or hasattr(dataset, "iloc"):
        raise InputError(f"{owner} is a {type(dataset).__name__}, which has no examples by number; {advice(dataset)}.")
    return of_items(dataset, owner)


def of_columns(parts: Sequence[Any]) -> Table:
    return Table(list(range(len(parts))), lambda columns: {i: parts[i] for i in columns})


def of_hugging_face(dataset: Any) -> Table:
    def classes(column: Column) -> int | None:
        names = getattr(dataset.features[column], "names", None)  # of a ClassLabel
        return len(names) if names else None

    def read(columns: list[Column]) -> Mapping[Column, Any]:
        return dataset.select_columns(columns).with_format("numpy")[:]

    return Table(list(dataset.column_names), read, classes)


def of_items(dataset: Any, owner: str) -> Table:
    try:
        number = len(dataset)
    except TypeError:
        raise InputError(
            f"{owner} is a {type(dataset).__name__} without a length; give a map-style data set, which has __len__, "
            "or list(dataset)."
        ) from None
    if number == 0:
        raise InputError(f"{owner} has no examples; give at least one.")

    def item(i: int) -> Any:
        with doing(f"reading item {i} of {owner}"):
            return dataset[i]

    first = item(0)
    if not isinstance(first, (tuple, list, Mapping)) or len(first) < 2:
        raise InputError(
            f"an item of {owner} is {kind_of(first)}; an item must be (input, target), or a dict of columns of which "
            "one is the target."
        )
    columns = column_names(first)

    def read(wanted: list[Column]) -> Mapping[Column, Any]:
        values: dict[Column, list[Any]] = {column: [] for column in wanted}
        for i in range(number):
            row = item(i)
            if not isinstance(row, (tuple, list, Mapping)) or column_names(row) != columns:
                raise InputError(
                    f"item {i} of {owner} is {kind_of(row)}, the first is {kind_of(first)}; give all items the same "
                    "columns."
                )
            for column, column_values in values.items():
                column_values.append(row[column])  # pyright: ignore
        return values

    return Table(columns, read)


def column_names(item: Any) -> list[Column]:
    return sorted(item) if isinstance(item, Mapping) else list(range(len(item)))


def kind_of(item: Any) -> str:
    if isinstance(item, Mapping):
        return f"a dict of {', '.join(map(str, item)) or 'nothing'}"
    if isinstance(item, (tuple, list)):
        return f"a {type(item).__name__} of {len(item)}"
    return f"a {type(item).__name__}"


def chosen_columns(columns: list[Column], roles: Roles, owner: str) -> tuple[Column | list[Column], Column]:
    """The inputs' columns (a list if they are several) and the target's."""
    by_position = all(isinstance(column, int) for column in columns)
    labels = [column for column in (roles.user, roles.coarse) if isinstance(column, (str, int))]
    free = [column for column in columns if column not in labels]
    target = roles.target
    if target is None:
        if not by_position or not free:
            raise InputError(f"{owner} has the columns {listed(columns)}; name the one of the targets: target=...")
        target = free[-1]
    check_column(columns, target, "target", owner)
    inputs, rest = roles.input, [column for column in free if column != target]
    if inputs is None and (len(rest) == 1 or by_position):
        inputs = rest[0] if len(rest) == 1 else rest
    if not isinstance(inputs, (str, int, list, tuple)) or inputs in ([], ()):
        raise InputError(
            f"{owner} has the columns {listed(columns)}; name the inputs, one or a list of several: input=..."
        )
    for column in [inputs] if isinstance(inputs, (str, int)) else inputs:
        check_column(columns, column, "input", owner)
    return inputs if isinstance(inputs, (str, int)) else list(inputs), target


def check_column(columns: list[Column], column: Any, role: str, owner: str) -> None:
    if column not in columns or isinstance(column, bool):
        raise unknown(f"column of {owner}, given as {role},", str(column), map(str, columns))


def listed(columns: Sequence[Column]) -> str:
    return ", ".join(map(str, columns))


# --------------------------------------------------------------------------------------------------------------- values


def named_or_numbered(values: Mapping[Column, Any], owner: str) -> Inputs:
    """Several columns: a dict if they have names, a tuple if they have positions."""
    if all(isinstance(column, str) for column in values):
        return as_inputs({str(column): part for column, part in values.items()}, owner)
    return tuple(as_input(part, f"the values of input {column} of {owner}") for column, part in values.items())


def one(values: Any, owner: str) -> Inputs:
    """One column, whose values may be dicts or tuples of tensors themselves."""
    first = values[0] if isinstance(values, list) and values else None
    if isinstance(first, Mapping):
        return as_inputs(transposed(values, owner), owner)
    if isinstance(first, tuple) and all(isinstance(part, (Tensor, np.ndarray)) for part in first):
        return named_or_numbered(transposed([dict(enumerate(row)) for row in values], owner), owner)
    if first is not None and not isinstance(first, (Tensor, np.ndarray, np.generic, int, float, str, list, tuple)):
        raise InputError(
            f"the inputs of {owner} are of the type {type(first).__name__}; give tensors, arrays or numbers: a "
            "data set of images needs a transform that returns tensors."
        )
    return as_inputs(values, owner)


def transposed(rows: list[Any], owner: str) -> dict[Any, list[Any]]:
    """A list for each key."""
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping) or row.keys() != rows[0].keys():
            raise InputError(
                f"the inputs of item {i} of {owner} are {kind_of(row)}, those of the first {kind_of(rows[0])}; give "
                "all items the same inputs."
            )
    return {key: [row[key] for row in rows] for key in rows[0]}


def numbered_labels(targets: list[Any]) -> list[Values]:
    """Text labels of several data sets by their place in the sorted list of all; other targets as they are."""
    arrays = [texts(values) for values in targets]
    if all(array is None for array in arrays):
        return targets
    if any(array is None for array in arrays):
        raise InputError("the targets of the data set and of the test set are text in one and numbers in the other.")
    names = np.unique(np.concatenate([array for array in arrays if array is not None]))
    return [np.searchsorted(names, array) for array in arrays if array is not None]


def texts(values: SeveralValues) -> npt.NDArray[Any] | None:
    """The values as an array of text; None if they are something else."""
    if isinstance(values, Tensor) or (isinstance(values, list) and not any(isinstance(one, str) for one in values)):
        return None
    array = np.asarray(values, dtype=object if isinstance(values, list) else None)
    if array.dtype.kind == "O" and any(isinstance(one, str) for one in array.flat):
        strange = next((one for one in array.flat if not isinstance(one, str)), None)
        if strange is not None:
            raise InputError(f"the targets are text and also {strange!r}; give labels of one kind.")
        array = array.astype(str)
    return array if array.dtype.kind == "U" and array.ndim == 1 else None
