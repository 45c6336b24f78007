"""What correcting the drift costs: the round of a corrected algorithm over FedAvg's, on the MLP row.

python benchmarks/corrected.py [--quick]
"""

from __future__ import annotations

from measure import Claim, Contender, Section, script
from rows import MLP

CORRECTED = ("adabest", "scaffold", "feddyn", "ghbm", "fedhbm", "fedgbo")
LIMIT = 1.10


def section(mode: str, options: tuple[str, ...]) -> Section:
    names = ("fedavg", *CORRECTED)
    players = tuple(Contender(f"{name}, {mode}", MLP, "ours", ("--algorithm", name, *options)) for name in names)
    base = players[0].label
    claims = tuple(
        Claim(f"{name}-{mode}", f"{name} / fedavg, {mode}", f"{name}, {mode}", (base,), LIMIT, at_most=True)
        for name in CORRECTED
    )
    return Section(MLP, players, claims, turns=6)


def sections() -> list[Section]:
    return [section("default", ()), section("1 process", ("--workers", "1"))]


def main() -> None:
    script("corrected", __doc__, sections)


if __name__ == "__main__":
    main()
