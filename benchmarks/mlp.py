"""The MLP row against every peer, and with a cohort of all 100 clients against the plain loop.

    python benchmarks/mlp.py [--quick]

Also checks once that the peers do the same work: each counts its local steps, and after a few rounds all have a similar
training loss.
"""

from __future__ import annotations

from measure import (
    BLOCK,
    DEFAULT,
    FEDLAB,
    FLOWER,
    FLUKE,
    MATMUL,
    NOT_INSTALLED,
    ONE,
    PFL,
    PLAIN,
    PLAYERS,
    SINGLE,
    TUNED,
    WORKERS,
    Claim,
    Missing,
    Section,
    auto_claims,
    contenders,
    measured,
    play_alone,
    publish,
    quick_from_command_line,
)
from rows import MLP, ROWS

AGREEMENT_ROUNDS = 4
AGREEMENT = 0.25  # how far a training loss may be from the plain loop's; the orders of the batches differ


def sections() -> list[Section]:
    rounds = 6
    everyone = (ONE, WORKERS, DEFAULT, BLOCK, SINGLE, PLAIN, TUNED, FLOWER, PFL, FEDLAB, FLUKE, MATMUL)
    ten = Section(
        MLP,
        contenders(MLP, dict.fromkeys(everyone, rounds)),
        (
            Claim("flower", "Flower / driftless", FLOWER, (DEFAULT,), 3),
            Claim("pfl", "pfl / driftless", PFL, (DEFAULT,), 3),
            Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 3),
            *auto_claims(),
            Claim("plain-one", "plain loop / driftless, 1 process", PLAIN, (ONE,), 3),
            Claim("matmul", "driftless, 1 process / bare matrix products", ONE, (MATMUL,), 2, at_most=True),
            Claim("plain-tuned", "tuned plain loop / driftless", TUNED, (DEFAULT,), None),
            Claim("workers", "plain loop / driftless with 2 processes", PLAIN, (WORKERS,), None),
            Claim("fedlab", "FedLab / driftless", FEDLAB, (DEFAULT,), None),
            Claim("fluke", "fluke / driftless", FLUKE, (DEFAULT,), None),
        ),
    )
    quiet = Section(
        MLP,
        contenders(MLP, dict.fromkeys((DEFAULT, PLAIN, PFL, FLOWER), 2 * rounds)),
        (
            Claim("flower", "Flower / driftless", FLOWER, (DEFAULT,), 5),
            Claim("pfl", "pfl / driftless", PFL, (DEFAULT,), 4),
            Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 4),
        ),
        name="mlp-quiet",
        alone=True,
    )
    everyone = (ONE, WORKERS, DEFAULT, PLAIN)
    hundred = Section(
        ROWS["mlp-all"],
        contenders(ROWS["mlp-all"], dict.fromkeys(everyone, 3)),
        (
            Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 4),
            Claim("plain-one", "plain loop / driftless, 1 process", PLAIN, (ONE,), None),
        ),
        turns=3,
    )
    return [ten, quiet, hundred]


def agreement(labels: tuple[str, ...]) -> dict[str, float]:
    """The training loss of each peer after a few rounds; ends the program if one differs from the plain loop."""
    losses = dict[str, float]()
    for label in labels:
        peer, options = PLAYERS[label]
        try:
            report = play_alone(MLP, peer, AGREEMENT_ROUNDS, (*options, "--count") if peer == "ours" else options)
        except Missing as reason:
            if str(reason) != NOT_INSTALLED:
                raise SystemExit(f"{label}: {reason}") from None
            continue
        losses[label] = report["loss"]
    print(f"\nTraining loss after {AGREEMENT_ROUNDS} rounds of {MLP.steps} steps a client; each peer counts its steps")
    for label, loss in losses.items():
        print(f"  {label:17}  {loss:.4f}")
        if abs(loss / losses[PLAIN] - 1) > AGREEMENT:
            raise SystemExit(f"{label} reaches the training loss {loss:.4f}, the plain loop {losses[PLAIN]:.4f}.")
    return losses


def main() -> None:
    quick = quick_from_command_line(__doc__)
    losses = agreement((PLAIN, DEFAULT) if quick else (PLAIN, DEFAULT, FLOWER, PFL, FEDLAB, FLUKE))
    publish("mlp", [measured(section, quick=quick) for section in sections()], quick=quick, losses=losses)


if __name__ == "__main__":
    main()
