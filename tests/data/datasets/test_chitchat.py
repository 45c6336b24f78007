from __future__ import annotations

from pathlib import Path

import pytest
import torch

import driftless
from data import write_files as write
from driftless.data.datasets import chitchat
from driftless.errors import InputError


def test_messages_are_split_as_the_sentences_of_stack_overflow_are():
    text = "Hi!! It's a well-known FACT… see https://example.org/A?b=1, ok?"
    words = "hi ! ! it's a well-known fact see <URL> ok ?"
    assert chitchat.tokenise(text) == words.split()
    assert chitchat.tokenise(" é漢 ") == []


def test_chitchat_holds_back_the_last_fifth_of_each_users_messages(folder: Path):
    messages = ["a b", "b", "…", "c", "a", "late"]
    content = [{"user": 7, "messages": messages}, {"user": 8, "messages": ["a"]}, {"user": 9, "messages": []}]
    write.lines(folder / "chitchat_by_user.jsonl.gz", content)
    federation = driftless.load("chitchat", words=5, length=3)
    assert federation.client_names == ("7", "8")
    assert federation.classes == 3 + 4  # a 1, b 2, c 3: the word of the test part is not in the vocabulary
    assert federation.sizes.tolist() == [4, 1]
    assert federation.client(0)[1].tolist() == [[1, 2, 6], [2, 6, 0], [3, 6, 0], [1, 6, 0]]
    assert federation.test is not None
    assert federation.test[1].tolist() == [[4, 6, 0]]
    assert driftless.load("chitchat", min_messages=2).client_names == ("7",)
    with pytest.raises(InputError, match="has min_messages=6 messages with words; lower it"):
        driftless.load("chitchat", min_messages=6)


def test_the_real_messages_are_by_user(real: Path):
    write.need(real / "chitchat_by_user.jsonl.gz")
    federation = driftless.load("chitchat", max_examples_per_user=10)
    assert federation.clients > 1200
    assert federation.classes is not None
    assert federation.sizes.max() == 8
    assert (federation.inputs[:, 0] == federation.classes - 2).all()  # begin
    assert torch.equal(federation.inputs[:, 1:], federation.targets[:, :-1])
