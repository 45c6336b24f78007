"""Which ranks a launcher has started: torchrun, srun, or a script that has called init_process_group itself."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
from datetime import timedelta
from typing import NamedTuple

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from driftless.errors import InputError, WorkerDied

PATIENCE = timedelta(minutes=10)
"""In which all ranks have to find each other."""
TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
FIRST_PORT, PORTS = 20_000, 10_000
"""From which a step of a SLURM job takes one by its numbers, if MASTER_PORT is not set."""


class Place(NamedTuple):
    """Of this process among those that were started together."""

    rank: int
    size: int


def restarts() -> int:
    """How often torchrun has started the ranks anew, because one of them had failed."""
    return number_in("TORCHELASTIC_RESTART_COUNT") if "TORCHELASTIC_RESTART_COUNT" in os.environ else 0


def may_restart() -> bool:
    return "TORCHELASTIC_MAX_RESTARTS" in os.environ and number_in("TORCHELASTIC_MAX_RESTARTS") > 0


def join() -> Place | None:
    """Connect with the other ranks, unless the script has; None: this process was started alone."""
    if multiprocessing.parent_process() is not None:
        return None  # a process of this rank, which has inherited its environment
    if dist.is_available() and dist.is_initialized():
        place = Place(dist.get_rank(), dist.get_world_size())
        return place if place.size > 1 else None
    place = place_of_launch()
    if place is None or place.size == 1:
        return None
    try:
        store, *_ = next(rendezvous("env://", place.rank, place.size, timeout=PATIENCE))
        # torchrun keeps the store when it restarts the ranks: the addresses of those before are still in it.
        store = dist.PrefixStore(f"driftless {restarts()}", store)  # pyright: ignore[reportPrivateImportUsage]
        dist.init_process_group("gloo", store=store, rank=place.rank, world_size=place.size, timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:  # errors of torch.distributed are RuntimeErrors
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise WorkerDied(
            f"rank {place.rank} of {place.size} did not find the others at {where} (MASTER_ADDR, MASTER_PORT): {error}"
        ) from error
    return place


def place_of_launch() -> Place | None:
    """From the environment; MASTER_ADDR and MASTER_PORT are set afterwards."""
    given = [name for name in TORCHRUN if name in os.environ]
    if "RANK" in given and "WORLD_SIZE" in given:
        place = Place(number_in("RANK"), number_in("WORLD_SIZE"))
        if place.size > 1 and len(given) < len(TORCHRUN):
            raise InputError(
                f"the environment has {', '.join(given)}, so this is one of {place.size} ranks, but not all of "
                f"{', '.join(TORCHRUN)}; start the ranks with torchrun, or unset RANK and WORLD_SIZE."
            )
    elif "SLURM_PROCID" in os.environ and "SLURM_STEP_NUM_TASKS" in os.environ:
        # Of the step: the script of a job has SLURM_NTASKS, too, and is one process.
        place = Place(number_in("SLURM_PROCID"), number_in("SLURM_STEP_NUM_TASKS"))
        if place.size > 1:
            number = number_in("SLURM_JOB_ID") + 101 * number_in("SLURM_STEP_ID")
            port = FIRST_PORT + number % PORTS
            os.environ.setdefault("MASTER_PORT", str(port))
            os.environ["MASTER_ADDR"] = os.environ.get("MASTER_ADDR") or first_host(os.environ["SLURM_STEP_NODELIST"])
    else:
        return None
    if not 0 <= place.rank < place.size:
        raise InputError(f"the environment says that this is rank {place.rank} of {place.size}; ranks count from 0.")
    return place


def first_host(nodes: str) -> str:
    """Of SLURM's short form, such as node[3-5,8]."""
    if "[" not in nodes and "," not in nodes:
        return nodes
    if shutil.which("scontrol") is None:
        raise InputError(
            f"scontrol, which names the hosts of '{nodes}', is not here; set MASTER_ADDR to the name of the first host."
        )
    found = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=False)
    if not found.stdout.split():
        raise InputError(
            f"scontrol does not know the hosts '{nodes}' ({found.stderr.strip()}); set MASTER_ADDR to the first one."
        )
    return found.stdout.split()[0]


def number_in(variable: str) -> int:
    value = os.environ.get(variable, "")
    if not value.isdecimal():
        raise InputError(
            f"the environment variable {variable} is '{value}', not a number; start the ranks with torchrun or srun."
        )
    return int(value)
