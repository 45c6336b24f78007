"""What a run was started with: a run directory is not continued with something else."""

from __future__ import annotations

from pathlib import Path

from driftless.engine.fingerprint import MEANING, fingerprints
from driftless.engine.simulation import Simulation
from driftless.errors import InputError
from driftless.runs.files import read_json

FINGERPRINT = "fingerprint.json"
REMEDIES = {
    "x0": " A module that is made anew begins elsewhere: set torch.manual_seed before, or give the class or a function."
}


def check_same(directory: Path, simulation: Simulation, without: tuple[str, ...] = ()) -> None:
    """Raise if the run in the directory was started with something else; `without`: what need not be the same."""
    if not (directory / FINGERPRINT).exists():  # of an earlier version
        return
    there = read_json(directory / FINGERPRINT)
    here = fingerprints(simulation)
    for name, meaning in MEANING.items():
        if name not in without and there.get(name, here.get(name)) != here.get(name):
            raise InputError(
                f"the run in '{directory}' was started with something else: {meaning} changed since then. Put it back "
                f"as it was, or choose another output.{REMEDIES.get(name, '')}"
            )
