"""Convolutional networks: the time goes into convolutions, which no simulator can batch better than torch does.

    python benchmarks/cnn.py [--quick]

The network of the AdaBest paper with one and with six local steps, and a ResNet-20 with GroupNorm; also with a busy
process on the machine, which a program of several threads waits for. AdaBest is beside a plain loop of FedAvg, which
does less.
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
    Contender,
    Section,
    auto_claims,
    contenders,
    script,
)
from rows import CNN, CNN_6, RESNET

ADABEST = "driftless default, AdaBest"


def sections() -> list[Section]:
    everyone = (ONE, WORKERS, DEFAULT, BLOCK, SINGLE, PLAIN)
    one_step = (
        Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 1),
        *auto_claims(),
        Claim("workers", "plain loop / driftless with 2 processes", PLAIN, (WORKERS,), 1.1),
        Claim("plain-one", "plain loop / driftless, 1 process", PLAIN, (ONE,), None),
    )
    adabest = Contender(ADABEST, CNN_6, "ours", ("--algorithm", "adabest"))
    six_steps = (*contenders(CNN_6, dict.fromkeys((DEFAULT, PLAIN), 6)), adabest)

    def of_six(target: float) -> tuple[Claim, ...]:
        return (
            Claim("adabest", "plain loop (FedAvg) / driftless (AdaBest)", PLAIN, (ADABEST,), target),
            Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), None),
        )

    of_resnet = (Claim("plain", "plain loop / driftless", PLAIN, (DEFAULT,), 1.1),)
    return [
        Section(CNN, contenders(CNN, dict.fromkeys(everyone, 6)), one_step),
        Section(CNN_6, six_steps, of_six(1.2)),
        Section(CNN_6, six_steps, of_six(3), name="cnn-6-busy", busy=1),
        Section(RESNET, contenders(RESNET, dict.fromkeys((DEFAULT, PLAIN), 4)), of_resnet),
    ]


def main() -> None:
    script("cnn", __doc__, sections)


if __name__ == "__main__":
    main()
