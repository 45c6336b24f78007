"""The logistic row against every peer, and with a cohort of 50 against the plain loop.

python benchmarks/logistic.py [--quick]
"""

from __future__ import annotations

from measure import (
    BLOCK,
    DEFAULT,
    FEDLAB,
    FLOWER,
    FLUKE,
    ONE,
    PFL,
    PLAIN,
    SINGLE,
    TUNED,
    WORKERS,
    Claim,
    Section,
    auto_claims,
    contenders,
    script,
)
from rows import LOGISTIC, ROWS


def sections() -> list[Section]:
    # A round takes a millisecond or a tenth of a second: as many rounds as make a turn of roughly a second.
    fast = dict.fromkeys((ONE, WORKERS, DEFAULT, BLOCK), 200)
    slow = dict.fromkeys((SINGLE, PLAIN, TUNED, PFL, FEDLAB, FLUKE), 50)
    ten = Section(
        LOGISTIC,
        contenders(LOGISTIC, {**fast, **slow, FLOWER: 8}),
        (
            Claim("flower", "Flower / driftless", FLOWER, (DEFAULT,), 60),
            Claim("pfl", "pfl / driftless", PFL, (DEFAULT,), 8),
            Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 5),
            *auto_claims(),
            Claim("plain-one", "plain loop / driftless, 1 process", PLAIN, (ONE,), None),
            Claim("plain-tuned", "tuned plain loop / driftless", TUNED, (DEFAULT,), None),
            Claim("fedlab", "FedLab / driftless", FEDLAB, (DEFAULT,), None),
            Claim("fluke", "fluke / driftless", FLUKE, (DEFAULT,), None),
        ),
    )
    fifty = Section(
        ROWS["logistic-50"],
        contenders(ROWS["logistic-50"], {ONE: 50, DEFAULT: 50, PLAIN: 15}),
        (
            Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 12),
            Claim("plain-one", "plain loop / driftless, 1 process", PLAIN, (ONE,), None),
        ),
    )
    return [ten, fifty]


def main() -> None:
    script("logistic", __doc__, sections)


if __name__ == "__main__":
    main()
