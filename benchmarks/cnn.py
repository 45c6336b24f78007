"""A convolutional network: the time goes into convolutions, which no simulator can batch better than torch does.

    python benchmarks/cnn.py [--quick]

So the question is whether driftless is ever slower than the plain loop, and what a second worker brings.
"""

from __future__ import annotations

from measure import (
    BLOCK,
    DEFAULT,
    ONE,
    PLAIN,
    SINGLE,
    WORKERS,
    Claim,
    Section,
    auto_claims,
    contenders,
    script,
)
from rows import CNN, ROWS


def sections() -> list[Section]:
    everyone = (ONE, WORKERS, DEFAULT, BLOCK, SINGLE, PLAIN)
    claims = (
        Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 1),
        Claim("workers", "plain loop / driftless with 2 processes", PLAIN, (WORKERS,), 1.1),
        *auto_claims(),
        Claim("plain-one", "plain loop / driftless, 1 process", PLAIN, (ONE,), None),
    )
    six_steps = (Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 1.2),)
    longer = ROWS["cnn-6"]
    return [
        Section(CNN, contenders(CNN, dict.fromkeys(everyone, 6)), claims, turns=6),
        Section(longer, contenders(longer, dict.fromkeys((DEFAULT, PLAIN), 6)), six_steps, turns=6),
    ]


def main() -> None:
    script("cnn", __doc__, sections)


if __name__ == "__main__":
    main()
