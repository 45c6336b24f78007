from __future__ import annotations

from pathlib import Path

import pytest
import torch

import driftless
from data import write_files as write
from driftless.data.datasets import chitchat, stackoverflow
from driftless.errors import InputError


def posts(folder: Path) -> None:
    train = {"2": ["the cat sat", "the cat"], "1": ["the cat", "the", "dog"], "3": ["only me"]}
    test = {"1": ["the dog"], "9": ["nobody"]}
    splits = {
        part: {user: [{"tokens": sentence.encode(), "score": 3} for sentence in own] for user, own in users.items()}
        for part, users in {"train": train, "test": test, "heldout": {"5": ["held out"]}}.items()
    }
    write.database(folder / "stackoverflow.sqlite", splits)


def test_the_targets_are_the_next_words(folder: Path):
    posts(folder)
    federation = driftless.load("stackoverflow", words=2, length=3, limit_users=2)
    assert federation.client_names == ("1", "2")
    assert federation.classes == 6
    assert federation.inputs.dtype == federation.targets.dtype == torch.int64
    # cat and the occur three and four times: the 1, cat 2, unknown 3, begin 4, end 5
    assert federation.client(0)[0].tolist() == [[4, 1, 2], [4, 1, 5], [4, 3, 5]]
    assert federation.client(0)[1].tolist() == [[1, 2, 5], [1, 5, 0], [3, 5, 0]]
    assert federation.client(1)[1].tolist() == [[1, 2, 3], [1, 2, 5]]
    assert federation.test is not None
    assert federation.test[1].tolist() == [[1, 3, 5]]
    assert federation.client_test is not None
    assert federation.client_test.sizes.tolist() == [1, 0]


def test_the_number_of_examples_of_a_user_and_of_the_test_can_be_limited(folder: Path):
    posts(folder)
    assert driftless.load("stackoverflow", max_examples_per_user=1).sizes.tolist() == [1, 1, 1]
    write.lines(folder / "chitchat_by_user.jsonl.gz", [{"user": "u", "messages": [f"word{i}" for i in range(100)]}])
    federation = driftless.load("chitchat", test_examples=4)
    assert federation.test is not None
    assert len(federation.test[0]) == 4
    assert federation.sizes.tolist() == [80]


def test_the_files_of_tff_are_equal_in_both_forms(folder: Path):
    posts(folder)
    expected = driftless.load("stackoverflow", limit_users=None)
    (folder / "stackoverflow.sqlite").unlink()
    write.h5(
        folder / "stackoverflow_train.h5",
        {
            "2": {"tokens": [b"the cat sat", b"the cat"]},
            "1": {"tokens": [b"the cat", b"the", b"dog"]},
            "3": {"tokens": [b"only me"]},
        },
    )
    write.h5(folder / "stackoverflow_test.h5", {"1": {"tokens": [b"the dog"]}})
    found = driftless.load("stackoverflow", limit_users=None)
    assert torch.equal(found.inputs, expected.inputs)
    assert found.client_names == expected.client_names == ("1", "2", "3")


def test_the_published_word_counts_are_the_vocabulary_where_they_are_here(folder: Path):
    posts(folder)
    write.text(folder / "stackoverflow.word_count", "dog\t90\nthe\t80\ncat\t70\n")
    federation = driftless.load("stackoverflow", words=2, length=3)
    assert federation.classes == 6
    assert federation.client(0)[1].tolist() == [[2, 3, 5], [2, 5, 0], [1, 5, 0]]
    for content, message in (("dog\n", "line 1 of .* is 'dog'; it should be a word and its count"), ("", "is empty")):
        write.text(folder / "stackoverflow.word_count", content)
        with pytest.raises(InputError, match=message):
            driftless.load("stackoverflow")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("stackoverflow", {}, "needs stackoverflow.sqlite.lzma, which is not here"),
        ("stackoverflow", {}, "stackoverflow.sqlite.lzma (several gigabytes) yourself"),
        ("stackoverflow", {"limit_users": 0}, "limit_users must be a whole number of at least 1"),
        ("chitchat", {}, "needs chitchat_by_user.jsonl.gz, which is not here"),
        ("chitchat", {"words": 0}, "words must be a whole number of at least 1"),
        ("chitchat", {"max_examples_per_user": 0.5}, "max_examples_per_user must be a whole number of at least 1"),
    ],
)
def test_options_and_absent_files_are_explained(folder: Path, name: str, options, message: str):
    assert not stackoverflow.is_here()
    assert not chitchat.is_here()
    with pytest.raises(InputError) as error:
        driftless.load(name, **options)
    assert message in str(error.value)


def test_a_loss_without_padding_is_a_mean_over_examples_and_so_can_be_used(folder: Path):
    """As docs/data.md prints it: each example's mean over its words."""

    def without_padding(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        real = (targets != 0).to(outputs.dtype)
        each = -outputs.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        return ((each * real).sum(-1) / real.sum(-1)).mean()

    posts(folder)
    federation = driftless.load("stackoverflow", words=2, length=3)
    model = torch.nn.Sequential(
        torch.nn.Embedding(federation.classes or 0, 4), torch.nn.Linear(4, federation.classes or 0)
    )
    runs = [
        driftless.simulate(
            "fedavg",
            federation,
            model,
            rounds=1,
            cohort=3,
            local=driftless.LocalTraining(lr=0.5, epochs=1, batch_size=2),
            loss=without_padding,
            engine=engine,
        )
        for engine in ("single", "block")
    ]
    torch.testing.assert_close(runs[0].x, runs[1].x)
