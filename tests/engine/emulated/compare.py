"""Runs on the emulated accelerator and on the CPU; prints those that differ. Usage: python compare.py FOLDER"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import driftless
from driftless import ALGORITHMS, EvaluationSettings, Federation, LocalTraining, Result, simulate
from engine.emulated import accelerator
from engine.problems import classification, network


def on_numbers(device: str, algorithm: str, **options: Any) -> Result:
    local = None if algorithm == "fedsgd" else LocalTraining(lr=0.05, batch_size=2)
    settings = {"rounds": 3, "cohort": 3, "local": local, "device": device, **options}
    return simulate(algorithm, classification([3, 5, 4, 6]), network(dropout=0.2), **settings)


def on_images(device: str, **options: Any) -> Result:
    images = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels, owner = torch.arange(24) % 3, [i // 6 for i in range(24)]
    own = Federation.from_assignment(images, labels, owner)
    federation = Federation.from_assignment(images, labels, owner, test=(images, labels), client_test=own)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 3))
    for p in model.parameters():
        nn.init.normal_(p, generator=torch.Generator().manual_seed(len(p)))
    local = LocalTraining(lr=0.1, batch_size=2, augment="crop-flip", momentum=0.5, clip_norm=1.0, weight_decay=0.1)
    evaluation = EvaluationSettings(["f1"], finetune_steps=2, max_examples=10, cohort=True)
    settings = {"rounds": 2, "cohort": 3, "local": local, "evaluation": evaluation, "device": device, **options}
    return simulate("scaffold", federation, model, **settings)


def differs(run: Callable[[str], Result]) -> bool:
    here, there = run("cpu"), run(accelerator.NAME)
    measured = [[{**row, "seconds": 0, "evaluation_seconds": 0} for row in of.history] for of in (here, there)]
    assert there.engine["device"] == f"{accelerator.NAME}:0"
    return not torch.equal(here.x, there.x) or measured[0] != measured[1]


def main() -> None:
    accelerator.install(Path(sys.argv[1]))
    # A parameter of the user's module cannot get data of this device, as it can of CUDA's.
    module = sys.modules[driftless.simulate.__module__]
    check = module.check_single
    module.check_single = lambda work, model: check(work, model) if work.model.device.type == "cpu" else None
    for engine in ("single", "block"):
        for name, run in cases_of(engine).items():
            accelerator.FREE = 0 if "main memory" in name else 2**33
            sys.stdout.write(f"{engine}, {name}: {'DIFFERS' if differs(run) else 'equal'}\n")


def cases_of(engine: str) -> dict[str, Callable[[str], Result]]:
    cases = {name: partial(on_numbers, algorithm=name, engine=engine) for name in ALGORITHMS}
    for where in ("", ", data in main memory"):
        adabest = partial(on_numbers, algorithm="adabest", engine=engine)
        cases[f"clients' models{where}"] = partial(adabest, inference="clients")
        cases[f"metrics{where}"] = partial(adabest, metrics=["f1", "auroc"])
        cases[f"images{where}"] = partial(on_images, engine=engine)
    return cases


if __name__ == "__main__":
    main()
