"""What correcting the drift costs: the round of a corrected algorithm over FedAvg's.

python benchmarks/corrected.py [--quick]
"""

from __future__ import annotations

from measure import Claim, Contender, Section, script
from rows import LOGISTIC, MLP, Row

CORRECTED = ("adabest", "scaffold", "feddyn", "ghbm", "fedhbm", "fedgbo")


def section(row: Row, rounds: int, limit: float) -> Section:
    players = tuple(
        Contender(name, row, "ours", ("--algorithm", name), rounds=rounds) for name in ("fedavg", *CORRECTED)
    )
    claims = tuple(Claim(name, f"{name} / fedavg", name, ("fedavg",), limit, at_most=True) for name in CORRECTED)
    return Section(row, players, claims, turns=7, name=f"corrected-{row.name}")


def sections() -> list[Section]:
    return [section(MLP, 6, 1.08), section(LOGISTIC, 100, 1.15)]


def main() -> None:
    script("corrected", __doc__, sections)


if __name__ == "__main__":
    main()
