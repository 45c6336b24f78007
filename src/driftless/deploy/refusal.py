"""What a side does with a message that it cannot accept."""

from __future__ import annotations


class Refused(Exception):
    """A message or a file is not what it must be. The text says why, in words for an event of the run."""
