"""The laws that every algorithm obeys, for your own: `check_algorithm(MyAlgorithm())`."""

from __future__ import annotations

from driftless.testing.check import LAWS, Law, LawBroken, check_algorithm, check_equal

__all__ = ["LAWS", "Law", "LawBroken", "check_algorithm", "check_equal"]
