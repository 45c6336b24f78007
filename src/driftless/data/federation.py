"""The data of all clients in one pair of tensors: rows sorted by client, and a range of rows for each client."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from driftless.data.array_checks import (
    Ints,
    SeveralValues,
    Values,
    as_assignment,
    as_inputs,
    as_targets,
    check_finite,
    check_finite_inputs,
    check_labels,
    check_pair,
)
from driftless.data.client_rows import (
    Pair,
    as_pair,
    converted,
    in_client_order,
    joined,
    listed,
    offsets_of,
    pair_of,
    pairs_of,
    tests_of,
)
from driftless.data.division import AnyPartition, assign, own_division
from driftless.data.fingerprint import fingerprint
from driftless.data.held_out import check_share, held_out_number, hold_out, keep_for_test
from driftless.data.inputs import Inputs, described, map_inputs, select, short_dtype, take
from driftless.data.read_dataset import Column, Labels, Roles, read_examples
from driftless.data.read_frame import read_frame
from driftless.errors import LARGEST_SEED, InputError, check_type, check_whole


@dataclass(frozen=True, eq=False, repr=False)
class Federation:
    """The data of all clients; make one by `load` or by one of the methods `from_...`.

    All examples are in one store, sorted by client: client i owns the rows offsets[i]:offsets[i+1].

    Attributes:
        inputs: A tensor [n, ...]; a tuple or a dict of such tensors if the model has several inputs.
        targets: A tensor [n, ...]: int64 labels, or floats for regression.
        offsets: Where the rows of each client begin, and the end, [clients + 1]; of numpy, because it never moves to a
            device.
        test: Inputs and targets of the common test set; None: there is none.
        validation: Held-out clients, never trained on; None: there are none.
        client_test: A federation with the test data of client i as its client i, which may be empty; None: there are
            none.
        classes: The number of classes; None: regression.
        name: What messages and tables call it.
        client_names: A name for each client; None: they have numbers only.

    Examples:
        >>> import driftless
        >>> federation = driftless.load("digits", clients=20, partition="iid", seed=0)
        >>> federation
        Federation('digits', clients=20, examples=1437, classes=10)
        >>> print(federation.describe())
        digits: 20 clients, 1,437 examples, 10 classes
        inputs [1, 8, 8] float32, targets int64
        examples per client: min 71, median 72, max 72
        label skew: ... (mean total-variation distance between a client's labels and all)
        test: 360 examples
        >>> inputs, labels = federation.client(0)
        >>> len(labels), federation.select([3, 1]).clients
        (72, 2)
    """

    inputs: Inputs
    targets: Tensor
    offsets: Ints
    test: tuple[Inputs, Tensor] | None = None
    validation: Federation | None = None
    client_test: Federation | None = None
    classes: int | None = None
    name: str = "federation"
    client_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_pair(self.inputs, self.targets, "the federation")
        offsets = np.array(self.offsets, dtype=np.int64)  # a copy, because it is made read-only
        if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(self.targets) or (np.diff(offsets) < 0).any():
            raise InputError(
                f"offsets must rise from 0 to the {len(self.targets)} examples, one entry more than clients; "
                "use Federation.from_clients or Federation.from_assignment to have them computed."
            )
        offsets.flags.writeable = False
        object.__setattr__(self, "offsets", offsets)
        make = "make one with driftless.Federation.from_assignment(..., allow_empty=True)"
        check_type("client_test", self.client_test, Federation | None, "a driftless.Federation", make)
        if self.client_names is not None:
            check_type("client_names", self.client_names, Sequence, "a list of names", "give one for each client")
            object.__setattr__(self, "client_names", tuple(self.client_names))
        for what, length in (
            ("client_test", self.client_test.clients if self.client_test else None),
            ("client_names", len(self.client_names) if self.client_names is not None else None),
        ):
            if length not in (None, self.clients):
                raise InputError(
                    f"{what} has {length} clients, the federation {self.clients}; give one entry for each."
                )

    @classmethod
    def from_clients(
        cls,
        clients: Sequence[Pair | Any] | Mapping[Any, Pair | Any],
        *,
        test: Pair | Any = None,
        classes: int | None = None,
        validation: int | float = 0,
        client_test: Sequence[Pair | Any] | Mapping[Any, Pair | Any] | float | None = None,
        input: Column | Sequence[Column] | None = None,
        target: Column | None = None,
        name: str = "federation",
        client_names: Sequence[str] | None = None,
        seed: int = 0,
    ) -> Federation:
        """Make a federation from the data of each client.

        Integer targets are class labels, float targets are regression.

        Args:
            clients: For each client (inputs, targets), or a data set as `from_dataset` takes it; a list, or a dict
                whose keys are the clients' names.
            test: The common test set, likewise; None: there is none.
            classes: The number of classes; None: the largest label + 1.
            validation: Clients that are held out, a number or a fraction of all. Default 0.
            client_test: The test data of each client, None for a client without; or the share of every client's
                examples that is kept for its own test, in [0, 1).
            input: The column of inputs of data sets, by name or position, or a list of them.
            target: The column of targets of data sets.
            name: What messages and tables call it.
            client_names: A name for each client of a list.
            seed: Decides what is held out and kept.

        Examples:
            >>> import torch
            >>> import driftless
            >>> a, b = (torch.randn(8, 5), torch.arange(8) % 3), (torch.randn(20, 5), torch.arange(20) % 3)
            >>> federation = driftless.Federation.from_clients({"a": a, "b": b}, client_test=0.25)
            >>> federation.client_names, federation.sizes, federation.client_test.sizes
            (('a', 'b'), array([ 6, 15]), array([2, 5]))
        """
        given, client_names = listed(clients, client_names)
        roles = Roles(input, target)
        if len(given) == 0:
            raise InputError("a federation needs at least one client, got none; give [(inputs, targets), ...].")
        share = client_test if isinstance(client_test, (int, float)) else 0
        own_test = None
        if client_test is not None and not isinstance(client_test, (int, float)):
            owner = "the test data of client"
            own_test = cls(*joined(pairs_of(tests_of(client_test, clients), roles, owner), owner))
        rows = joined(pairs_of(given, roles, "client"), "client")
        federation = cls(*rows, client_test=own_test, name=name, client_names=client_names)
        federation = _checked(federation, pair_of(test, roles, "the test set"), classes)
        return hold_out(keep_for_test(federation, share, seed), validation, seed)

    @classmethod
    def from_assignment(
        cls,
        inputs: SeveralValues,
        targets: Values,
        assignment: Sequence[Hashable] | Ints | Tensor,
        clients: int | None = None,
        *,
        test: Pair | None = None,
        classes: int | None = None,
        client_test: Federation | None = None,
        name: str = "federation",
        client_names: Sequence[str] | None = None,
        allow_empty: bool = False,
    ) -> Federation:
        """Make a federation from all examples and the client of each; examples keep their order within a client.

        Data that are already sorted by client are used as they are, not copied.

        Args:
            inputs: A tensor or an array [n, ...], or a tuple or a dict of them.
            targets: [n, ...], integers for classes, floats for regression.
            assignment: The client of each example: numbers below `clients`; or, without `clients`, any hashable values,
                each of which is a client of that name: integers in rising order, others in the order of their first
                appearance.
            clients: The number of clients; None: one for each value of `assignment`.
            test: Inputs and targets of the common test set; None: there is none.
            classes: The number of classes; None: the largest label + 1.
            client_test: A federation with the test data of each client; None: there are none.
            name: What messages and tables call it.
            client_names: A name for each client; None: the values of `assignment`, if these are names.
            allow_empty: True allows clients without examples, for a `client_test`. Default False.

        Examples:
            >>> import numpy
            >>> import driftless
            >>> regions = ["north", "south", "north", "east"]
            >>> federation = driftless.Federation.from_assignment(numpy.eye(4), [0, 1, 1, 0], regions)
            >>> federation.client_names, federation.sizes
            (('north', 'south', 'east'), array([2, 1, 1]))
        """
        clients = None if clients is None else check_whole("clients", clients, 1)
        inputs, targets = as_inputs(inputs, "the federation"), as_targets(targets, "the federation")
        check_pair(inputs, targets, "the federation")
        owner, names = as_assignment(assignment, clients, len(targets))
        clients = clients or len(names or ())
        offsets = offsets_of(np.bincount(owner, minlength=clients))
        empty = np.flatnonzero(np.diff(offsets) == 0)
        if len(empty) and not allow_empty:
            raise InputError(
                f"client {empty[0]} has no examples ({len(empty)} of {clients} clients are empty); "
                "leave them out or use fewer clients."
            )
        inputs, targets = in_client_order(inputs, targets, owner)
        names = names if client_names is None else client_names
        federation = cls(inputs, targets, offsets, client_test=client_test, name=name, client_names=names)
        return _checked(federation, test, classes)

    @classmethod
    def from_dataset(
        cls,
        dataset: Any,
        partition: AnyPartition = "dirichlet",
        clients: int | None = None,
        *,
        test: Any = None,
        seed: int = 0,
        validation: int | float = 0,
        client_test: float = 0,
        input: Column | Sequence[Column] | None = None,
        target: Column | None = None,
        user: Labels | None = None,
        coarse: Labels | None = None,
        classes: int | None = None,
        name: str = "federation",
        **options: Any,
    ) -> Federation:
        """Make a federation from one data set, divided among clients by a partition.

        Args:
            dataset: (inputs, targets), a torch data set with a length, a list of (input, target) or of dicts, a dict of
                columns, or a data set of Hugging Face. Each item is read once.
            partition: A name of `driftless list partitions` ("natural" needs `user`), or a function (docs/data.md).
                Default "dirichlet", which needs the option `alpha`.
            clients: The number of clients; None: 100, or with "natural" one for each user.
            test: The common test set, likewise; None: there is none.
            seed: Decides what is drawn: the partition, held-out clients, kept test examples.
            validation: Clients that are held out, a number or a fraction of all. Default 0.
            client_test: The share of every client's examples that is kept for its own test, in [0, 1). Default 0.
            input: The column of inputs, by name or position; a list of names makes the inputs a dict.
            target: The column of targets; None: the last position.
            user: The user of each example: a column, or one value for each.
            coarse: The coarse label of each example, for "pachinko": a column, or one value for each.
            classes: The number of classes; None: what the data set says, or the largest label + 1.
            name: What messages and tables call it.
            **options: The options of the partition, such as `alpha`.

        Examples:
            >>> import torch
            >>> import driftless
            >>> data = torch.utils.data.TensorDataset(torch.randn(200, 4), torch.arange(200) % 5)
            >>> driftless.Federation.from_dataset(data, "dirichlet", clients=10, alpha=0.3)
            Federation('federation', clients=10, examples=200, classes=5)
            >>> rows = [{"x": [1.0, 2.0], "y": "good", "by": "ann"}, {"x": [0.0, 3.0], "y": "bad", "by": "bob"}]
            >>> driftless.Federation.from_dataset(rows, "natural", input="x", target="y", user="by").client_names
            ('ann', 'bob')
        """
        check_whole("seed", seed, 0, most=LARGEST_SEED)
        check_share(client_test)
        division = own_division(partition, clients, options, user, coarse)
        if division.clients is not None:
            held_out_number(validation, division.clients)  # for its checks
        examples = read_examples(dataset, Roles(input, target, user, coarse), test, classes)
        owner, number, names = assign(division, examples, seed)
        federation = cls.from_assignment(
            examples.inputs, examples.targets, owner, number,
            test=examples.test, classes=examples.classes, name=name, client_names=names,
        )  # fmt: skip
        return hold_out(keep_for_test(federation, client_test, seed), validation, seed)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        client: str,
        target: str,
        inputs: Sequence[str] | None = None,
        *,
        test: Any = None,
        classes: int | None = None,
        validation: int | float = 0,
        client_test: float = 0,
        seed: int = 0,
        name: str = "federation",
    ) -> Federation:
        """Make a federation from a data frame of pandas with a row for each example.

        Args:
            frame: The data frame.
            client: The column that says whose row it is.
            target: The column of targets; text is numbered in its sorted order.
            inputs: The columns of inputs, which become one float32 vector for each example; None: all others.
            test: A data frame with these columns; None: there is no test set.
            classes: The number of classes; None: the largest label + 1.
            validation: Clients that are held out, a number or a fraction of all. Default 0.
            client_test: The share of every client's examples that is kept for its own test, in [0, 1). Default 0.
            seed: Decides what is held out and kept.
            name: What messages and tables call it.

        Examples:
            >>> import pandas
            >>> import driftless
            >>> frame = pandas.DataFrame({"user": ["a", "b", "a"], "age": [20, 30, 21], "y": ["no", "yes", "no"]})
            >>> driftless.Federation.from_frame(frame, client="user", target="y")
            Federation('federation', clients=2, examples=3, classes=2)
        """
        check_share(client_test)
        examples = read_frame(frame, client, target, inputs, test, classes)
        federation = cls.from_assignment(
            examples.inputs, examples.targets, examples.users or (), test=examples.test, classes=classes, name=name
        )
        return hold_out(keep_for_test(federation, client_test, seed), validation, seed)

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> Ints:
        """The number of examples of each client, [clients]."""
        sizes = np.diff(self.offsets)
        sizes.flags.writeable = False
        return sizes

    @cached_property
    def first_of_each_label(self) -> Ints:
        """Examples, in rising order; none if the targets are not one label each. Computed once: it sorts all labels."""
        labels = self.targets if self.targets.dim() == 1 and not self.targets.is_floating_point() else self.targets[:0]
        return np.sort(np.unique(labels.cpu().numpy(), return_index=True)[1])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all data in it, however it was made; computed once."""
        return fingerprint(self)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example's input, for which a model that is given by its name is built."""
        if not isinstance(self.inputs, Tensor):
            raise InputError(
                f"federation '{self.name}' has several inputs ({described(self.inputs)}), and models with a name take "
                "one tensor; give an nn.Module whose forward takes these inputs."
            )
        return tuple(self.inputs.shape[1:])

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of one example's target; () for one label."""
        return tuple(self.targets.shape[1:])

    def client(self, i: int) -> tuple[Inputs, Tensor]:
        """The inputs and targets of client i, as views."""
        if not 0 <= i < self.clients:
            raise InputError(f"there is no client {i}; the {self.clients} clients are 0..{self.clients - 1}.")
        rows = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        return take(self.inputs, rows), self.targets[rows]

    def select(self, clients: Sequence[int] | Ints) -> Federation:
        """A federation of these clients only, in this order, with the same test set and no validation clients."""
        ids = np.asarray(clients, dtype=np.int64)
        outside = ids[(ids < 0) | (ids >= self.clients)]
        if len(ids) == 0 or len(outside):
            given = f"client {outside[0]}" if len(outside) else "no client"
            raise InputError(f"{given} was selected; select at least one of the clients 0..{self.clients - 1}.")
        offsets = offsets_of(self.sizes[ids])
        # row r of the result is row r + shift of this federation, with one shift per client
        shift = self.offsets[ids] - offsets[:-1]
        rows = torch.from_numpy(np.arange(offsets[-1]) + np.repeat(shift, self.sizes[ids]))
        return replace(
            self,
            inputs=select(self.inputs, rows),
            targets=self.targets.index_select(0, rows),
            offsets=offsets,
            validation=None,
            client_test=self.client_test.select(ids) if self.client_test else None,
            client_names=tuple(self.client_names[i] for i in ids) if self.client_names else None,
        )

    def label_counts(self) -> Ints:
        """How many labels of each class each client has, [clients, classes]."""
        owner, labels, classes = self._labels()
        counts = np.bincount(owner * classes + labels, minlength=self.clients * classes)
        return counts.reshape(self.clients, classes)

    def label_skew(self) -> float:
        """The mean total-variation distance between a client's label distribution and the federation's, in [0, 1)."""
        owner, labels, classes = self._labels()
        overall = np.bincount(labels, minlength=classes) / len(labels)
        # only the labels that a client has: with many clients and classes the full table would not fit in memory
        pairs, counts = np.unique(owner * classes + labels, return_counts=True)
        held_by, held = np.divmod(pairs, classes)
        own = counts / np.bincount(owner, minlength=self.clients)[held_by]
        # sum over all labels of |own - overall| = 1 + sum over the held ones of (|own - overall| - overall)
        surplus = np.abs(own - overall[held]) - overall[held]
        return float(0.5 + 0.5 * surplus.sum() / len(np.unique(held_by)))

    def _labels(self) -> tuple[Ints, Ints, int]:
        """The client and the label of every target value (an example may have several), and the number of classes."""
        if self.classes is None:
            raise InputError(f"federation '{self.name}' has real-valued targets (regression), so it has no labels.")
        per_example = int(np.prod(self.targets.shape[1:]))
        owner = np.repeat(np.arange(self.clients), self.sizes * per_example)
        return owner, self.targets.reshape(-1).cpu().numpy(), self.classes

    def to(self, dtype: torch.dtype, train_inputs: bool = True) -> Federation:
        """Floating inputs and targets in this dtype, everywhere; integers stay as they are.

        `train_inputs=False` leaves the clients' inputs as they are: what is trained on is converted batch by batch.
        """
        if not dtype.is_floating_point:
            raise InputError(f"dtype must be floating, such as torch.float32 or torch.float64, got {dtype}.")

        return self.map_tensors(lambda values: values.to(dtype) if values.is_floating_point() else values, train_inputs)

    def map_tensors(self, f: Callable[[Tensor], Tensor], train_inputs: bool = True) -> Federation:
        """f of all inputs and targets; `train_inputs=False` leaves the clients' inputs as they are."""
        return replace(
            self,
            inputs=map_inputs(f, self.inputs) if train_inputs else self.inputs,
            targets=f(self.targets),
            test=(map_inputs(f, self.test[0]), f(self.test[1])) if self.test else None,
            validation=self.validation.map_tensors(f) if self.validation else None,
            client_test=self.client_test.map_tensors(f) if self.client_test else None,
        )

    def describe(self) -> str:
        """A summary in a few lines: sizes, their spread, label skew, test data."""
        sizes = self.sizes
        kind = "regression" if self.classes is None else f"{self.classes} classes"
        lines = [
            f"{self.name}: {self.clients:,} clients, {len(self.targets):,} examples, {kind}",
            f"inputs {described(self.inputs)}, targets {short_dtype(self.targets)}",
            f"examples per client: min {sizes.min():,}, median {np.median(sizes):,.10g}, max {sizes.max():,}",
        ]
        if self.classes is not None:
            lines.append(
                f"label skew: {self.label_skew():.2f} (mean total-variation distance between a client's labels and all)"
            )
        lines.append(f"test: {len(self.test[1]):,} examples" if self.test else "test: none")
        if self.client_test:
            lines.append(f"test data of the clients: {len(self.client_test.targets):,} examples")
        if self.validation:
            held = self.validation
            lines.append(f"validation: {held.clients:,} held-out clients, {len(held.targets):,} examples")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"Federation({self.name!r}, clients={self.clients}, examples={len(self.targets)}, classes={self.classes})"
        )


def _checked(federation: Federation, test: Pair | None, classes: int | None) -> Federation:
    """The federation with its test set and its number of classes, after checking all values."""
    own = federation.client_test
    stores: list[tuple[Inputs, Tensor, Ints | None]] = [(federation.inputs, federation.targets, federation.offsets)]
    like, test_pair = (federation.inputs, federation.targets), None
    if test is not None:
        test_pair = converted(*as_pair(test, "the test set"), like, "the test set")
        stores.append((*test_pair, None))
    if own is not None:
        inputs, targets = converted(own.inputs, own.targets, like, "client_test")
        own = replace(own, inputs=inputs, targets=targets)
        stores.append((inputs, targets, own.offsets))
    for inputs, targets, offsets in stores:
        check_finite_inputs(inputs, offsets)
        check_finite(targets, "targets", offsets)
    classes = _as_classes(classes, [targets for _, targets, _ in stores])
    if classes is not None:
        for _, targets, offsets in stores:
            check_labels(targets, classes, offsets)
    return replace(federation, test=test_pair, client_test=own and replace(own, classes=classes), classes=classes)


def _as_classes(classes: int | None, targets: list[Tensor]) -> int | None:
    if targets[0].is_floating_point():
        if classes is not None:
            raise InputError(
                f"classes={classes} was given with float targets; give integer labels or leave classes out."
            )
        return None
    if classes is not None:
        return check_whole("classes", classes, 1)
    return max((1 + int(t.max()) for t in targets if t.numel()), default=1)
