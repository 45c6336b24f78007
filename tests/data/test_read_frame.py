from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from driftless.data.federation import Federation
from driftless.errors import InputError


def frame(**columns: Any) -> pd.DataFrame:
    data = {
        "user": ["b", "a", "b", "c", "a"],
        "age": [30, 20, 31, 40, 21],
        "income": [1.5, 2.0, np.pi, 0.0, -1.0],
        "member": [True, False, True, True, False],
        "y": [0, 1, 1, 2, 0],
    }
    return pd.DataFrame(data | columns)


def test_rows_are_examples_and_columns_of_numbers_are_inputs():
    made = Federation.from_frame(frame(), "user", "y", test=frame()[:2])
    assert made.client_names == ("b", "a", "c")
    assert made.sizes.tolist() == [2, 2, 1]
    inputs, targets = made.client(0)
    assert inputs.dtype == torch.float32
    assert inputs.tolist() == [[30, 1.5, 1], [31, pytest.approx(np.pi), 1]]
    assert targets.tolist() == [0, 1]
    assert made.test is not None
    assert made.test[0].tolist() == [[30, 1.5, 1], [20, 2, 0]]
    assert made.classes == 3


def test_inputs_may_be_named_and_clients_be_numbers():
    made = Federation.from_frame(frame(user=[7, 3, 7, 5, 3]), client="user", target="income", inputs=["age"])
    assert made.client_names == ("3", "5", "7")
    assert made.client(2)[0].tolist() == [[30], [31]]
    assert made.classes is None
    assert made.targets.dtype == torch.float32


@pytest.mark.parametrize("kind", [object, "str", "category"])
def test_labels_of_text_get_the_numbers_of_their_sorted_order(kind: Any):
    words = pd.Series(["dog", "ant", "cat", "ant", "dog"], dtype=kind)
    test = frame(y=["bee"] * 5)
    made = Federation.from_frame(frame(y=words), "user", "y", test=test)
    assert made.client(0)[1].tolist() == [3, 2]
    assert made.test is not None
    assert set(made.test[1].tolist()) == {1}


@pytest.mark.parametrize("kind", ["Int64", "Float32", "boolean"])
def test_pandas_own_types_of_numbers_are_numbers(kind: str):
    values = pd.Series([1, 0, 1, 1, 0], dtype=kind)
    made = Federation.from_frame(frame(age=values), "user", "y", inputs=["age"])
    assert made.client(1)[0].tolist() == [[0], [0]]


def test_clients_and_shares_can_be_held_out():
    many = pd.concat([frame()] * 4, ignore_index=True)
    made = Federation.from_frame(many, "user", "y", client_test=0.25, validation=1, seed=0)
    assert made.clients == 2
    assert made.client_test is not None
    assert made.client_test.sizes.tolist() == [number // 3 for number in made.sizes]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (frame(), {"client": "users"}, "unknown column of the data frame 'users'; did you mean 'user'"),
        (frame(), {"target": "z"}, "unknown column of the data frame 'z'"),
        (frame(), {"inputs": ["age", "hight"]}, "unknown column of the data frame 'hight'"),
        (frame(), {"inputs": []}, "no column left for the inputs"),
        (frame(city=["x"] * 5), {}, r"column 'city' of the data frame is .*, not numbers; .* inputs=\['age', 'income'"),
        (frame(day=pd.to_datetime(["2020-01-01"] * 5)), {}, "column 'day' .* is datetime64.*, not numbers"),
        (frame(age=[1, 2, None, 4, None]), {}, r"column 'age' of the data frame has 2 missing values; .*df\.dropna"),
        (frame(age=pd.Series([1, None] * 2 + [1], dtype="Int64")), {}, "column 'age' .* has 2 missing values"),
        (frame(y=["a", None, "b", "a", "b"]), {}, "column 'y' of the data frame has 1 missing values"),
        (frame(user=["a", None, "b", "a", "b"]), {}, "column 'user' of the data frame has 1 missing values"),
        (frame(), {"test": frame().drop(columns="age")}, "unknown column of the test frame 'age'"),
        (frame(), {"test": frame(y=["a"] * 5)}, "text in one and numbers in the other"),
        (frame(), {"test": (1, 2)}, "test must be a data frame, got a tuple"),
        (frame()[:0], {}, "at least one row"),
        ([(1.0, 2)], {}, "the data must be a data frame, got a list; for a list of clients use .*from_clients"),
        ({"user": [1]}, {}, "the data must be a data frame, got a dict; .*from_clients, .* from_dataset"),
    ],
)  # fmt: skip
def test_what_is_not_a_number_or_missing_is_named(data: Any, options: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        Federation.from_frame(data, **{"client": "user", "target": "y", **options})
