"""An LSTM of two layers of 100 over 80 characters: torch's own recurrent kernel cannot be batched over clients.

    python benchmarks/recurrent.py [--quick]

So the question is whether `auto` chooses well, and whether driftless is ever slower than the plain loop.
"""

from __future__ import annotations

from measure import BLOCK, DEFAULT, ONE, PLAIN, SINGLE, WORKERS, Claim, Section, auto_claims, contenders, script
from rows import LSTM


def sections() -> list[Section]:
    everyone = (ONE, WORKERS, DEFAULT, BLOCK, SINGLE, PLAIN)
    claims = (
        Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 1),
        Claim("workers", "plain loop / driftless with 2 processes", PLAIN, (WORKERS,), 1.1),
        *auto_claims(),
        Claim("plain-one", "plain loop / driftless, 1 process", PLAIN, (ONE,), None),
    )
    return [Section(LSTM, contenders(LSTM, dict.fromkeys(everyone, 4)), claims)]


def main() -> None:
    script("recurrent", __doc__, sections)


if __name__ == "__main__":
    main()
