"""What a server and its nodes must have the same: the versions, the algorithm, the model, the local training."""

from __future__ import annotations

import json
from importlib import metadata

from driftless.deploy.protocol import read_json
from driftless.deploy.records import short
from driftless.deploy.refusal import Refused
from driftless.engine.fingerprint import SHOWN, of_object, sha256
from driftless.engine.minibatches import Workload


def facts_of(work: Workload) -> str:
    """As text, with checksums."""
    shapes = [(name, list(value.shape)) for name, value in work.model.parameters(work.model.initial).items()]
    found = {
        "version of driftless": metadata.version("driftless"),
        "algorithm": f"{type(work.algorithm).__name__} {of_object(work.algorithm)[:SHOWN]}",
        "model": sha256(str(shapes).encode())[:SHOWN],
        "precision": str(work.model.initial.dtype),
        "local training": of_object(work.training)[:SHOWN],
        "loss": of_object(work.loss)[:SHOWN],
        "seed": str(work.seed),
    }
    return json.dumps(found)


def check_facts(theirs: str, ours: str) -> None:
    there, here = read_json(theirs, "what both sides must have the same"), json.loads(ours)
    if not isinstance(there, dict):
        raise Refused("what both sides must have the same is not a list of facts")
    for name, value in here.items():
        if there.get(name) != value:
            raise Refused(f"the {name} is {short(there.get(name))} at the server and {value} at the node")
