"""What is trained, and on which data. Replace these functions by your own."""

import torch

import driftless


def model():
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    )  # fmt: skip


def data(context):
    """The examples of a node, as (inputs, targets). A real node reads its own files here."""
    return everybody().client(context.node_config["partition-id"])


def test_set():
    """The server's own examples, on which each round's model is judged; without any: server_app(model)."""
    return everybody().test


def everybody():
    """Handwritten digits that stand for the data of four nodes."""
    return driftless.load("digits", clients=4, partition="dirichlet", alpha=0.3, seed=0)
