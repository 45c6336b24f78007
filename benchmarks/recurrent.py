"""Recurrent networks over 80 characters: torch's own recurrent kernels cannot be batched over clients.

    python benchmarks/recurrent.py [--quick]

An LSTM of two layers of 100 and a GRU of two layers of 128: does `auto` choose well, and is driftless faster than the
plain loop?
"""

from __future__ import annotations

from measure import BLOCK, DEFAULT, ONE, PLAIN, SINGLE, WORKERS, Claim, Section, auto_claims, contenders, script
from rows import GRU, LSTM, Row


def section(row: Row) -> Section:
    everyone = (ONE, WORKERS, DEFAULT, BLOCK, SINGLE, PLAIN)
    claims = (
        Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 1.1),
        *auto_claims(),
        Claim("workers", "plain loop / driftless with 2 processes", PLAIN, (WORKERS,), 1.1),
        Claim("plain-one", "plain loop / driftless, 1 process", PLAIN, (ONE,), None),
    )
    return Section(row, contenders(row, dict.fromkeys(everyone, 4)), claims)


def sections() -> list[Section]:
    return [section(LSTM), section(GRU)]


def main() -> None:
    script("recurrent", __doc__, sections)


if __name__ == "__main__":
    main()
