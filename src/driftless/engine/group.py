"""The ranks of a run and what they send each other, on the public interface of torch.distributed with gloo."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

TIMEOUT = timedelta(days=7)
"""A round may take long; a rank that died is noticed by its closed connection or by watch.py, not by a time-out."""
CUT = 1
"""A tag that no message has."""


class Disconnected(RuntimeError):
    """Another rank cannot be reached."""


@contextmanager
def connected() -> Generator[None]:
    """What torch raises when a connection is lost is a RuntimeError like many others."""
    try:
        yield
    except RuntimeError as error:
        raise Disconnected(str(error)) from error


class Group(NamedTuple):
    """The ranks of a run; of size 1 it sends nothing."""

    pg: Any
    """Of torch.distributed; need not be its default group, which may be the user's."""
    rank: int
    size: int

    def broadcast(self, values: list[Tensor]) -> None:
        """From rank 0, into the others' tensors, which are contiguous."""
        if self.size > 1:
            with connected():
                for value in values:
                    sent = value.cpu().contiguous()  # gloo sends what is in main memory
                    dist.broadcast(sent, group=self.pg, group_src=0)
                    if self.rank > 0 and sent.data_ptr() != value.data_ptr():
                        value.copy_(sent)

    def send(self, values: list[Tensor], to: int) -> None:
        self.finish(self.begin_send(values, to))

    def begin_send(self, values: list[Tensor], to: int) -> list[Any]:
        """Send while this rank goes on; the tensors must not change until `finish`."""
        with connected():
            return [dist.isend(value.cpu().contiguous(), group=self.pg, group_dst=to) for value in values]

    def finish(self, sent: list[Any]) -> None:
        with connected():
            for each in sent:
                each.wait()

    def receive(self, values: list[Tensor], source: int) -> list[Tensor]:
        with connected():
            for value in values:
                room = value if value.device.type == "cpu" else torch.empty_like(value, device="cpu")
                received(self.pg, room, source).wait()
                if room is not value:
                    value.copy_(room)
        return values

    def broadcast_text(self, text: str = "") -> str:
        """Rank 0's text, on all ranks."""
        content = tensor_of(text)
        length = torch.tensor([len(content)], device="cpu")
        self.broadcast([length])
        content = content if self.rank == 0 else content.new_empty(int(length))
        self.broadcast([content])
        return text_of(content)

    def send_text(self, text: str, to: int) -> None:
        content = tensor_of(text)
        self.send([torch.tensor([len(content)], device="cpu"), *([content] if text else [])], to)

    def receive_text(self, source: int) -> str:
        (length,) = self.receive([torch.zeros(1, dtype=torch.long, device="cpu")], source)
        if not int(length):
            return ""
        return text_of(self.receive([torch.empty(int(length), dtype=torch.uint8, device="cpu")], source)[0])

    def collect_texts(self, text: str) -> list[str]:
        """The texts of all ranks, at rank 0."""
        if self.rank > 0:
            self.send_text(text, 0)
            return []
        return [text, *(self.receive_text(rank) for rank in range(1, self.size))]

    def cut(self) -> None:
        """Close the connections, so that whatever waits for another rank raises Disconnected, in any thread.

        torch.distributed cannot interrupt a wait; but gloo closes a connection on which a wait has timed out.
        """
        for rank in set(range(self.size)) - {self.rank}:
            with suppress(RuntimeError):
                received(self.pg, torch.empty(1, device="cpu"), rank, CUT).wait(timedelta(milliseconds=1))


def received(pg: Any, value: Tensor, source: int, tag: int = 0) -> dist.Work:
    work = dist.irecv(value, group=pg, group_src=source, tag=tag)
    assert work is not None, "this rank is of the group"
    return work


def tensor_of(text: str) -> Tensor:
    return torch.from_numpy(np.array(bytearray(text.encode()), dtype=np.uint8))


def text_of(content: Tensor) -> str:
    return content.numpy().tobytes().decode()
