"""Random streams keyed by (seed, purpose, round, client).

Each consumer of randomness asks for its own stream by name, so the order of execution, the engine, the number of
workers and an interruption cannot change what is drawn. Philox is counter-based: opening a stream costs microseconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch


def key(seed: int, purpose: str, round: int = 0, client: int = 0) -> int:
    """A 128-bit key; equal inputs give equal keys on every machine.

    Args:
        seed: The seed of the run.
        purpose: What is drawn, a name of its own for each use.
        round: The round, 0 where there is none.
        client: The client, 0 where there is none.

    Returns:
        The key.

    Examples:
        >>> from driftless.random import key
        >>> len({key(0, "cohort", round=1), key(0, "cohort", round=1), key(0, "cohort", round=2)})
        2
    """
    name = f"{seed}/{purpose}/{round}/{client}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=16).digest(), "little")


def stream(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """The random numbers of one use: equal arguments give equal numbers, in any order and in any process.

    Args:
        seed: The seed of the run.
        purpose: What is drawn, a name of its own for each use.
        round: The round, 0 where there is none.
        client: The client, 0 where there is none.

    Returns:
        A generator of numpy at the beginning of its stream.

    Examples:
        >>> from driftless.random import stream
        >>> float(stream(0, "mine", round=3).random()) == float(stream(0, "mine", round=3).random())
        True
    """
    return np.random.Generator(np.random.Philox(key=key(seed, purpose, round, client)))


def streams(seed: int, purpose: str, round: int, clients: Iterable[int]) -> Iterator[np.random.Generator]:
    """The stream of each client, one at a time: a tenth of the time of opening them singly.

    It is the same generator every time, set back to the beginning of the next stream.
    """
    philox = np.random.Philox(key=0)
    generator, beginning = np.random.Generator(philox), philox.state
    for client in clients:
        words = key(seed, purpose, round, client).to_bytes(16, "little")
        beginning["state"]["key"] = np.frombuffer(words, dtype="<u8")
        philox.state = beginning
        yield generator


def key63(seed: int, purpose: str, round: int = 0, client: int = 0) -> int:
    """The key as a non-negative 63-bit integer: fits a torch int64 and `torch.manual_seed`."""
    return key(seed, purpose, round, client) >> 65


@contextmanager
def torch_stream(seed: int, purpose: str, round: int = 0, client: int = 0) -> Generator[None]:
    """Inside the `with` block, torch's own generator is in a keyed state; the caller's comes back after.

    Of accelerators, only the generator of CUDA is keyed, once CUDA is in use.

    Args:
        seed: The seed of the run.
        purpose: What is drawn, a name of its own for each use.
        round: The round, 0 where there is none.
        client: The client, 0 where there is none.

    Yields:
        Nothing.

    Examples:
        >>> import torch
        >>> from driftless.random import torch_stream
        >>> with torch_stream(0, "mine"):
        ...     first = torch.randn(3)
        >>> with torch_stream(0, "mine"):
        ...     again = torch.randn(3)
        >>> first.equal(again)
        True
    """
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices):
        set_seed = torch.manual_seed if devices else torch.default_generator.manual_seed
        set_seed(key63(seed, purpose, round, client))
        yield
