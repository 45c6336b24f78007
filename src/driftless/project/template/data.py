"""Your own data: a function that returns a driftless.Federation.

Its parameters are settings: `driftless run config.toml data.clients=50 data.shift=2`.
"""

import numpy as np

from driftless import Federation

CLASSES, FEATURES = 4, 12


def sensors(clients: int = 40, shift: float = 1.0, seed: int = 0) -> Federation:
    """Readings of machines in four states. Each machine has an offset of its own, and is rarely in some of the states.

    Replace it by what reads your files: Federation.from_clients, from_dataset, from_assignment and from_frame take
    arrays, torch data sets, groups and pandas tables.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLASSES, FEATURES))
    machines = [machine(rng, centres, shift, examples) for examples in rng.integers(20, 60, clients)]
    test = [machine(rng, centres, shift, 25) for _ in range(40)]  # other machines than those that are trained on
    readings, states = (np.concatenate(parts) for parts in zip(*test, strict=True))
    return Federation.from_clients(machines, test=(readings, states), name="sensors")


def machine(
    rng: np.random.Generator, centres: np.ndarray, shift: float, examples: int
) -> tuple[np.ndarray, np.ndarray]:
    """The readings [examples, features] and states [examples] of one machine."""
    offset = shift * rng.normal(size=FEATURES)
    states = rng.choice(CLASSES, size=examples, p=rng.dirichlet(np.full(CLASSES, 0.4)))
    readings = centres[states] + 0.5 * offset + rng.normal(size=(examples, FEATURES))
    return readings.astype(np.float32), states
