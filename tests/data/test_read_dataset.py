"""`Federation.from_dataset`: whatever form the data have, the federation is the same."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from driftless.data.federation import Federation
from driftless.data.partition import dirichlet, natural, pachinko
from driftless.errors import InputError
from driftless.random import stream

N = 60
INPUTS = np.random.default_rng(0).standard_normal((N, 3)).astype(np.float32)
LABELS = np.arange(N) % 4
USERS = [f"user {i % 7}" for i in range(N)]
TEST = INPUTS[:5], LABELS[:5]


class Items(Dataset):
    """A map-style data set."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]


class NoLength(Dataset):
    def __getitem__(self, i: int) -> Any:
        return INPUTS[i], LABELS[i]


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        return iter(zip(INPUTS, LABELS, strict=True))


def tuples() -> list[tuple[Any, int]]:
    return [(row, int(label)) for row, label in zip(torch.from_numpy(INPUTS), LABELS, strict=True)]


def dicts() -> list[dict[str, Any]]:
    rows = zip(INPUTS.tolist(), LABELS.tolist(), USERS, strict=True)
    return [{"x": row, "label": label, "user": user} for row, label, user in rows]


def hugging_face() -> datasets.Dataset:
    labels = datasets.ClassLabel(num_classes=4)
    kinds = {"x": datasets.List(datasets.Value("float32")), "label": labels, "user": datasets.Value("string")}
    return datasets.Dataset.from_list(dicts(), features=datasets.Features(kinds))


NAMED = {"input": "x", "target": "label"}
FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "arrays": ((INPUTS, LABELS), {}),
    "tensors": ((torch.from_numpy(INPUTS), torch.from_numpy(LABELS)), {}),
    "TensorDataset": (TensorDataset(torch.from_numpy(INPUTS), torch.from_numpy(LABELS)), {}),
    "Dataset of tuples": (Items(tuples()), {}),
    "Subset": (Subset(Items([*tuples(), "never read"]), range(N)), {}),
    "list of tuples": (tuples(), {}),
    "positions": (Items([(0, label, row) for row, label in tuples()]), {"input": 2, "target": 1}),
    "dict of columns": ({"x": INPUTS, "label": LABELS, "user": USERS}, NAMED),
    "Hugging Face": (hugging_face(), NAMED),
    "Hugging Face with a format": (hugging_face().with_format("torch"), NAMED),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_same_data_gives_the_same_federation(form: str):
    dataset, columns = FORMS[form]
    test = TEST if not columns else None
    federation = Federation.from_dataset(dataset, "dirichlet", 6, alpha=0.5, seed=3, test=test, **columns)
    owner = dirichlet(LABELS, 6, 0.5, stream(3, "partition"))
    expected = Federation.from_assignment(INPUTS, LABELS, owner, 6, test=test)
    assert federation.fingerprint == expected.fingerprint


def test_a_list_of_dicts_is_read_by_its_columns():
    federation = Federation.from_dataset(dicts(), "natural", input="x", target="label", user="user")
    assert federation.client_names == tuple(f"user {i}" for i in range(7))
    expected = Federation.from_assignment(INPUTS.astype(np.float64), LABELS, natural(USERS)[0], 7)
    np.testing.assert_allclose(federation.inputs, expected.inputs)
    assert torch.equal(federation.targets, expected.targets)


def test_there_are_a_hundred_clients_by_default():
    assert Federation.from_dataset((np.ones((200, 1)), np.arange(200) % 2), alpha=1.0).clients == 100


def test_the_user_of_each_example_may_be_given_beside_the_data():
    federation = Federation.from_dataset((INPUTS, LABELS), "natural", user=USERS)
    assert federation.sizes.tolist() == np.bincount(np.arange(N) % 7).tolist()
    by_position = Federation.from_dataset(
        Items([(*pair, u) for pair, u in zip(tuples(), USERS, strict=True)]), "natural", user=2
    )
    assert by_position.fingerprint == federation.fingerprint


def test_coarse_labels_are_a_column_or_a_list():
    expected = pachinko(LABELS, LABELS // 2, 5, stream(0, "partition"), alpha=0.1)
    listed = Federation.from_dataset((INPUTS, LABELS), "pachinko", 5, coarse=LABELS // 2)
    assert listed.sizes.tolist() == np.bincount(expected).tolist()
    named = Federation.from_dataset(
        {"x": INPUTS, "label": LABELS, "group": LABELS // 2}, "pachinko", 5, coarse="group", **NAMED
    )
    assert named.fingerprint == listed.fingerprint


def test_text_labels_get_the_numbers_of_their_sorted_order_also_in_the_test_set():
    words = ["dog", "ant", "cat", "ant"]
    for labels in (words, np.array(words), np.array(words, dtype=object)):
        federation = Federation.from_dataset(
            (np.arange(4.0)[:, None], labels), "iid", 1, test=(np.ones((2, 1)), ["cat", "bee"])
        )
        assert federation.targets.tolist() == [3, 0, 2, 0]
        assert federation.test is not None
        assert federation.test[1].tolist() == [2, 1]
        assert federation.classes == 4


def test_the_classes_that_hugging_face_knows_are_kept():
    data = hugging_face().select(range(3))
    federation = Federation.from_dataset(data, "iid", 1, test=data, **NAMED)
    assert federation.classes == 4
    assert Federation.from_dataset(data, "iid", 1, classes=9, **NAMED).classes == 9


def test_several_columns_are_a_dict_of_inputs_and_several_positions_a_tuple():
    text = datasets.Dataset.from_dict(
        {"input_ids": [[1, 2], [3, 0], [4, 0]], "attention_mask": [[1, 1], [1, 0], [1, 0]], "label": [0, 1, 0]}
    )
    federation = Federation.from_dataset(text, "iid", 1, input=["input_ids", "attention_mask"], target="label")
    assert isinstance(federation.inputs, dict)
    assert federation.inputs["attention_mask"].tolist() == [[1, 1], [1, 0], [1, 0]]
    assert federation.inputs["input_ids"].dtype == torch.int64
    three = TensorDataset(torch.ones(4, 2), torch.zeros(4, 1), torch.tensor([0, 1, 0, 1]))
    federation = Federation.from_dataset(three, "iid", 2)
    assert isinstance(federation.inputs, tuple)
    assert [tuple(part.shape) for part in federation.inputs] == [(4, 2), (4, 1)]


def test_items_may_be_dicts_or_tuples_of_inputs_with_a_target():
    named = [({"ids": torch.tensor([i, i]), "mask": torch.tensor([True, False])}, i % 2) for i in range(4)]
    federation = Federation.from_dataset(Items(named), "iid", 1)
    assert isinstance(federation.inputs, dict)
    assert federation.inputs["ids"].tolist() == [[i, i] for i in range(4)]
    assert federation.inputs["mask"].dtype == torch.bool
    federation = Federation.from_dataset(Items([(tuple(x.values()), y) for x, y in named]), "iid", 1)
    assert isinstance(federation.inputs, tuple)
    assert federation.inputs[0].tolist() == [[i, i] for i in range(4)]


def test_a_share_of_every_client_and_some_clients_are_held_out():
    federation = Federation.from_dataset((INPUTS, LABELS), "iid", 6, client_test=0.2, validation=2, seed=1)
    assert federation.clients == 4
    assert federation.sizes.tolist() == [8] * 4
    assert federation.client_test is not None
    assert federation.client_test.sizes.tolist() == [2] * 4
    assert federation.validation is not None
    assert federation.validation.clients == 2


def test_a_data_set_is_read_only_after_all_else_was_checked():
    class Unread(Items):
        def __getitem__(self, i: int) -> Any:
            raise AssertionError("the data were read")

    data = Unread(tuples())
    for options in (
        {"alpha": -1.0}, {}, {"alpha": 1.0, "validation": 100}, {"alpha": 1.0, "client_test": 1.5},
        {"alpha": 1.0, "clients": 0}, {"partition": "natural"}, {"alpha": 1.0, "seed": -1}, {"alpha": 1.0, "beta": 2},
    ):  # fmt: skip
        with pytest.raises(InputError):
            Federation.from_dataset(data, **options)


def test_an_error_of_the_data_set_itself_comes_out_with_the_number_of_the_item():
    class Broken(Items):
        def __getitem__(self, i: int) -> Any:
            return self.items[i] if i < 3 else 1 / 0

    with pytest.raises(ZeroDivisionError) as error:
        Federation.from_dataset(Broken(tuples()), "iid", 2)
    assert error.value.__notes__ == ["driftless was reading item 3 of the data set"]


def image() -> Any:
    from PIL import Image

    return Image.new("RGB", (4, 4))


def refused(dataset: Any, message: str, **options: Any) -> None:
    with pytest.raises(InputError, match=message):
        Federation.from_dataset(dataset, **{"partition": "iid", "clients": 2, **options})


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("digits", r"the data set is a str, .* use driftless\.load\('digits', \.\.\.\)"),
        (NoLength(), "the data set is a NoLength without a length; give a map-style data set"),
        (Stream(), r"the data set is a Stream, .*from_dataset\(list\(data\), \.\.\.\)"),
        (iter(tuples()), r"from_dataset\(list\(data\), \.\.\.\)"),
        (DataLoader(Items(tuples())), r"from_dataset\(loader\.dataset, \.\.\.\)"),
        (
            datasets.DatasetDict({"train": hugging_face()}),
            r"one of its parts \(train\).*from_dataset\(parts\['train'\]",
        ),
        (hugging_face().to_pandas(), r"from_frame\(df, client='user', target='y'\)"),
        (None, "the data set is a NoneType, .* make a federation with driftless.load, .*from_clients"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_is_not_a_data_set_is_answered_with_what_would_fit(dataset: Any, message: str):
    refused(dataset, message)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "the data set has no examples"),
        (torch.ones(4, 2), r"an item of the data set is a Tensor; an item must be \(input, target\)"),
        ([(1.0,)], "an item of the data set is a tuple of 1"),
        ([*tuples(), (1, 2, 3)], "item 60 of the data set is a tuple of 3, the first is a tuple of 2"),
        ([(torch.ones(2), 0), (torch.ones(3), 0)], "do not form an array .* pad the shorter ones"),
        ([([1, 2], 0), ([1, 2, 3], 0)], "do not form an array .* pad the shorter ones"),
        (
            [({"a": 1.0}, 0), ({"b": 1.0}, 0)],
            "item 1 of the data set are a dict of b, those of the first a dict of a",
        ),
        ([({"a": 1.0}, 0), (1.0, 0)], "the inputs of item 1 of the data set are a float, .* a dict of a"),
        (
            [((torch.ones(1),) * 2, 0), ((torch.ones(1),), 0)],
            "the inputs of item 1 of the data set are a dict of 0, ",
        ),
        ([(image(), 0)] * 2, "the inputs of the data set are of the type Image; .* transform that returns tensors"),
        ([("text", 0)] * 2, "the inputs of the data set have the type <U4; give numbers: text needs a tokenizer"),
        ([(1.0, "a"), (1.0, 2)], "the targets are text and also 2"),
    ],
)
def test_items_that_do_not_belong_together_are_named(items: Any, message: str):
    refused(items, message)


COLUMNS = {"x": INPUTS, "label": LABELS}


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (COLUMNS, {}, "the data set has the columns x, label; name the one of the targets: target="),
        ({**COLUMNS, "z": INPUTS}, {"target": "label"}, "the columns x, label, z; name the inputs, .*: input="),
        (COLUMNS, {"target": "lable"}, "column of the data set, given as target, 'lable'; did you mean 'label'"),
        (COLUMNS, {"target": "label", "input": ["x", "y"]}, "given as input, 'y'"),
        (COLUMNS, {"target": "label", "input": []}, "name the inputs"),
        (COLUMNS, {"target": "label", "user": "who", "partition": "natural", "clients": None}, "given as user, 'who'"),
        ({"x": ["a"] * 4, "label": [0] * 4}, {"target": "label"}, "the type <U1; give numbers: text needs a tokenizer"),
        ({"x": [[1], [1, 2]], "label": [0, 0]}, {"target": "label"}, "do not form an array .* pad the shorter ones"),
        ({"x": [1, 2], "y": [0]}, {"target": "y"}, "the data set has 2 inputs but 1 targets"),
    ],
)
def test_columns_that_do_not_fit_are_named(columns: Any, options: dict[str, Any], message: str):
    refused(columns, message, **options)


def test_rows_of_different_lengths_in_hugging_faces_columns_are_named():
    ragged = datasets.Dataset.from_dict({"x": [[1], [1, 2]], "label": [0, 0]})
    refused(ragged, "have the type object; give rows of equal shape: pad the shorter ones", target="label")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": USERS}, "user was given, and partition 'iid' has no use for the user of each example"),
        ({"coarse": LABELS}, "coarse was given, and partition 'iid' has no use for coarse labels"),
        ({"partition": "natural"}, "needs the user of each example, and the data set has none; give user="),
        ({"partition": "natural", "user": USERS}, "makes one client per user, so clients=2 has no use"),
        ({"partition": "natural", "user": USERS[:5], "clients": None}, "user has 5 entries for 60 examples"),
        (
            {"partition": "natural", "user": [[0]] * N, "clients": None},
            "users must be names or numbers",
        ),
        ({"partition": "natural", "user": [None] * N, "clients": None}, r"users is missing \(None\) for some examples"),
        ({"partition": "pachinko"}, "needs coarse labels, and the data set has none; give coarse="),
        ({"alpha": 1}, "partition 'iid' has no alpha; it is an option of partition dirichlet"),
        ({"sharps": 1}, "unknown option of the data set / partition 'iid' 'sharps'"),
        ({"test": (INPUTS[:, :2], LABELS)}, r"the inputs of the test set have the shape \[2\]"),
        ({"test": (INPUTS, ["a"] * N)}, "text in one and numbers in the other"),
        ({"partition": 3}, "partition is 3; give the name of a partition"),
        ({"client_test": 1}, r"client_test, .* must be a number in \[0, 1\)"),
    ],
)
def test_settings_that_do_not_fit_are_named(options: dict[str, Any], message: str):
    refused((INPUTS, LABELS), message, **options)
