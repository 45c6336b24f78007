"""Recurrent networks that predict the next token, after the whole sequence or at each of its steps."""

from __future__ import annotations

from torch import Tensor, nn

from driftless.models.keras_initialization import initialize_like_keras
from driftless.models.task import Task, require_sequence


class Recurrent(nn.Module):
    """Embedding, recurrent layers, and a linear read-out of the last state, or of every state."""

    def __init__(self, embed: nn.Embedding, recur: nn.LSTM | nn.GRU, read: nn.Module, every_step: bool) -> None:
        super().__init__()
        self.embed = embed
        self.recur = recur
        self.read = read
        self.every_step = every_step

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.is_floating_point():
            raise TypeError("tokens must be whole numbers")
        states = self.recur(self.embed(tokens.long()))[0]
        return self.read(states if self.every_step else states[:, -1])


def gru_fedgbo(task: Task) -> nn.Module:
    """FedGBO, Shakespeare: embedding of 8, two GRU layers of 128; 162,887 parameters for 79 characters."""
    vocabulary, every_step = require_sequence("gru-fedgbo", task)
    gru = nn.GRU(8, 128, num_layers=2, batch_first=True)
    return Recurrent(nn.Embedding(vocabulary, 8), gru, nn.Linear(128, vocabulary), every_step)


def lstm_ghbm(task: Task) -> nn.Module:
    """GHBM, Shakespeare: embedding of 8, two LSTM layers of 100; 133,520 parameters for 80 characters."""
    vocabulary, every_step = require_sequence("lstm-ghbm", task)
    lstm = nn.LSTM(8, 100, num_layers=2, batch_first=True)
    return Recurrent(nn.Embedding(vocabulary, 8), lstm, nn.Linear(100, vocabulary), every_step)


def lstm_large_cohort(task: Task) -> nn.Module:
    """Large cohorts, Shakespeare: embedding of 8, two LSTM layers of 256; 820,522 parameters for 90 characters."""
    vocabulary, every_step = require_sequence("lstm-large-cohort", task)
    lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
    return initialize_like_keras(Recurrent(nn.Embedding(vocabulary, 8), lstm, nn.Linear(256, vocabulary), every_step))


def lstm_stackoverflow(task: Task) -> nn.Module:
    """GHBM, large cohorts, Stack Overflow: embedding of 96, LSTM of 670, linear 96; 4,050,748 parameters."""
    vocabulary, every_step = require_sequence("lstm-stackoverflow", task)
    lstm = nn.LSTM(96, 670, batch_first=True)
    read = nn.Sequential(nn.Linear(670, 96), nn.Linear(96, vocabulary))
    return initialize_like_keras(Recurrent(nn.Embedding(vocabulary, 96), lstm, read, every_step))
