from __future__ import annotations

from pathlib import Path

import pytest
import torch

import driftless
from data import write_files as write
from driftless.data.datasets import sent140
from driftless.errors import InputError


def day(number: int) -> str:
    return f"Sun May {number:02d} 04:30:56 PDT 2009"


def users(folder: Path, *entries: tuple[list[int], list[str], list[str]]) -> None:
    content = [{"user": i, "labels": y, "texts": t, "dates": d} for i, (y, t, d) in enumerate(entries)]
    write.lines(folder / "sent140_users.jsonl.gz", content)


def test_a_bag_counts_the_most_frequent_words_of_the_training_part(folder: Path):
    users(folder, ([1, 0, 1], ["good Good day", "bad day", "good &amp; bad night"], [day(1), day(2), day(3)]))
    counts = driftless.load("sent140", words=2, bag="counts")
    assert counts.inputs.tolist() == [[2, 0], [0, 1], [1, 1]]  # good 3; bad and day 2 each: by the alphabet
    counts = driftless.load("sent140", words=3, bag="counts")
    assert counts.inputs.tolist() == [[2, 0, 1], [0, 1, 1], [1, 1, 0]]
    assert counts.inputs.dtype == torch.float32
    assert counts.targets.tolist() == [1, 0, 1]
    assert counts.classes == 2
    binary = driftless.load("sent140", words=3, bag="binary")
    assert binary.inputs.tolist() == [[1, 0, 1], [0, 1, 1], [1, 1, 0]]
    normalised = driftless.load("sent140", words=3)
    torch.testing.assert_close(normalised.inputs, counts.inputs / counts.inputs.sum(1, keepdim=True))


def test_the_last_fifth_by_date_is_for_the_test_and_its_words_are_not_counted(folder: Path):
    dates = [day(9), day(2), "Mon Jun 01 00:00:00 PDT 2009", day(3), day(4)]
    users(folder, ([1, 0, 0, 1, 1], ["e a", "b a", "late late a", "c a", "d a"], dates), ([1], ["a"], [day(1)]))
    federation = driftless.load("sent140", words=10, bag="counts")
    assert federation.sizes.tolist() == [4, 1]
    assert federation.test is not None
    assert federation.test[1].tolist() == [0]
    # a, b, c, d, e: the word of the test part has no place
    assert federation.client(0)[0].argmax(1).tolist() == [0] * 4
    assert federation.inputs[:, :6].sum(0).tolist() == [5, 1, 1, 1, 1, 0]
    assert federation.test[0].tolist() == [[1] + [0] * 9]
    assert federation.client_test is not None
    assert federation.client_test.sizes.tolist() == [1, 0]


def test_a_random_fifth_is_the_same_in_every_run_and_of_all_dates(folder: Path):
    numbers = range(1, 31)
    users(folder, ([0] * 30, [f"a w{i}" for i in numbers], [day(i) for i in numbers]))
    runs = [driftless.load("sent140", bag="counts", split="random") for _ in range(2)]
    assert torch.equal(runs[0].inputs, runs[1].inputs)
    assert runs[0].test is not None
    assert (len(runs[0].inputs), len(runs[0].test[0])) == (24, 6)
    by_date = driftless.load("sent140", bag="counts")
    assert not torch.equal(runs[0].inputs.nonzero(), by_date.inputs.nonzero())


def test_tweets_without_known_words_and_users_with_few_tweets_are_left_out(folder: Path):
    users(folder, ([1, 1, 0], ["a a", "@ #", "a"], [day(1)] * 3), ([0], ["a"], [day(1)]))
    assert driftless.load("sent140", words=1).sizes.tolist() == [2, 1]
    assert driftless.load("sent140", words=1, min_tweets=2).client_names == ("0",)
    with pytest.raises(InputError, match="no user has min_tweets=9 tweets; lower it"):
        driftless.load("sent140", min_tweets=9)


def tweet(text: str, number: int = 1) -> list[str]:
    return ["17", day(number), "NO_QUERY", "ann", text, "training"]


def test_leafs_files_are_read_in_their_own_split(folder: Path):
    train = {"ann": ([tweet("good good"), tweet("bad")], [4, 0]), "bob": ([tweet("good")], [1])}
    write.leaf(folder / "sent140" / "data" / "train" / "a.json", train)
    write.leaf(folder / "sent140" / "data" / "test" / "a.json", {"bob": ([tweet("bad")], [0])})
    federation = driftless.load("sent140", words=2, bag="counts")
    assert federation.inputs.tolist() == [[2, 0], [0, 1], [1, 0]]
    assert federation.targets.tolist() == [1, 0, 1]
    assert federation.client_names == ("ann", "bob")
    assert federation.test is not None
    assert federation.test[0].tolist() == [[0, 1]]


def test_a_single_file_of_leaf_is_split_by_date(folder: Path):
    tweets = [tweet(f"w{number}", number) for number in (5, 1, 3, 2, 4)]
    write.leaf(folder / "sent140.json", {"ann": (tweets, [4, 0, 0, 0, 0])})
    federation = driftless.load("sent140", words=4, bag="counts")
    assert federation.targets.tolist() == [0, 0, 0, 0]
    assert federation.test is None  # its only word does not occur in the training part
    tweets = [tweet(f"w{number} x", number) for number in (5, 1, 3, 2, 4)]
    write.leaf(folder / "sent140.json", {"ann": (tweets, [4, 0, 0, 0, 0])})
    federation = driftless.load("sent140", words=4)
    assert federation.test is not None
    assert federation.test[1].tolist() == [1]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (([1, 0], ["a"], [day(1)]), "has 2 labels, 1 texts and 1 dates; give one of each"),
        (([2], ["a"], [day(1)]), "has the label 2; a tweet is 0 (negative), or 1 or 4 (positive)"),
        (([1], ["a"], ["2009-05-17"]), "has the date '2009-05-17'; write it like 'Sun May 17"),
    ],
)
def test_a_wrong_tweet_names_the_user_and_the_file(folder: Path, entry, message: str):
    users(folder, entry)
    with pytest.raises(InputError) as error:
        driftless.load("sent140")
    assert message in str(error.value)
    assert f"user 0 in {folder / 'sent140_users.jsonl.gz'}" in str(error.value)


def test_leaf_without_texts_and_absent_files_are_explained(folder: Path):
    assert not sent140.is_here()
    with pytest.raises(InputError, match=r"needs sent140_users\.jsonl\.gz, which is not here"):
        driftless.load("sent140")
    write.leaf(folder / "sent140.json", {"ann": ([[1, 2]], [0])})
    assert sent140.is_here()
    with pytest.raises(InputError, match=r"user 'ann' .* is not tweets: each is a list whose entry 4 is the text"):
        driftless.load("sent140")
    with pytest.raises(InputError, match="bag must be one of 'normalised', 'counts', 'binary', got 'tfidf'"):
        driftless.load("sent140", bag="tfidf")


def test_bags_that_do_not_fit_in_memory_are_refused_before_they_are_made(folder: Path):
    users(folder, ([1] * 1000, ["a"] * 1000, [day(1)] * 1000))
    with pytest.raises(InputError, match=r"the bags of 10{9} words of 1,000 tweets need .* GiB are free; lower words"):
        driftless.load("sent140", words=10**9)


def test_the_real_tweets_become_bags_of_each_user(real: Path):
    write.need(real / "sent140_users.jsonl.gz")
    federation = driftless.load("sent140", words=500, source="users")
    assert federation.clients > 2800
    assert federation.test is not None
    assert federation.client_test is not None
    total = len(federation.inputs) + len(federation.test[0])
    assert 15_000 < total <= 16_025
    assert torch.allclose(federation.inputs.sum(1), torch.ones(len(federation.inputs)))
    assert federation.client_test.sizes[federation.sizes < 4].max() <= 1
