"""Real federations on the loopback address: SuperLink and four SuperNodes, TLS, node authentication.

Several runs share the nodes and are played at the same time, because a SuperNode looks for work only every few seconds.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

pytest.importorskip("flwr")

import driftless
from deploy.flower_federation import PATIENCE, FlowerFederation, wait_until
from driftless.algorithm import Algorithm
from driftless.algorithms import ALGORITHMS, AdaptiveClipping, FedAvg
from driftless.runs.directory import StoredRun
from driftless.runs.files import read_json

LOCAL = driftless.LocalTraining(lr=0.1, epochs=2, batch_size=10)
CLIPPED = {"algorithm__name": "fedavg", "server__clipping": "adaptive", "server__clipping_initial": 0.5}
RUNS: dict[str, tuple[Algorithm, dict[str, object]]] = {
    "adabest": (ALGORITHMS["adabest"](), {}),
    "scaffold": (ALGORITHMS["scaffold"](), {"algorithm__name": "scaffold"}),
    "fedgbo": (ALGORITHMS["fedgbo"](), {"algorithm__name": "fedgbo"}),
    "mime": (ALGORITHMS["mime"](), {"algorithm__name": "mime"}),
    "clipping": (AdaptiveClipping(FedAvg(), initial=0.5), CLIPPED),
}
KILLED = {"algorithm__name": "scaffold", "run__cohort": 2}
LIAR = 3
"""The client that sends what it should not."""
HANGING = 1
"""The client that trains in round 3 and is killed before it answers."""
LIES = {2: "shape", 3: "dtype", 4: "nan", 5: "huge", 6: "another client", 7: "old round"}
"""By round."""
CLIENT = f"""
import pathlib
import time
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from driftless.deploy.flower import client_app
from federation.task import data, model

LIES = {LIES!r}


def lie(message, context, call_next):
    reply = call_next(message, context)
    asked = message.content["driftless"]
    what = LIES.get(asked["round"]) if context.run_config["app.lies"] and asked["client"] == {LIAR} else None
    if what in ("shape", "dtype", "nan", "huge"):
        values = reply.content["upload"]["delta"].numpy()
        changed = {{
            "shape": lambda: values[:-1], "dtype": lambda: values.astype(np.float64),
            "nan": lambda: np.full_like(values, np.nan), "huge": lambda: np.full_like(values, 1e30),
        }}[what]()
        reply.content["upload"]["delta"] = Array(changed)
    elif what == "another client":
        reply.content["driftless"]["client"] = 0
    elif what == "old round":
        reply.content["driftless"]["round"] = 1
    if context.run_config["app.hangs"]:
        hang(asked["round"], asked["client"])
    return reply


def hang(t, client):
    hung, back = pathlib.Path("hung"), pathlib.Path("back")
    if (t, client) == (3, {HANGING}) and not hung.exists():
        hung.touch()  # the state is written, the upload not sent
        time.sleep(1000)
    while (t, client) == (4, 0) and not back.exists():  # so that rounds are left when the other one is back
        time.sleep(0.2)


app = client_app(model, data, mods=[lie])
"""
SETTINGS = """
[tool.flwr.app.config.server]
clipping = "none"
clipping_initial = 1.0

[tool.flwr.app.config.app]
lies = false
hangs = false
"""


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerFederation]:
    made = FlowerFederation(tmp_path_factory.mktemp("federation"))
    (made.folder / "federation" / "client.py").write_text(CLIENT)
    settings = made.folder / "pyproject.toml"
    settings.write_text(settings.read_text() + SETTINGS)
    with made:
        yield made


@pytest.fixture(scope="module")
def runs(federation: FlowerFederation) -> dict[str, Path]:
    """All runs but those in which a node is killed, begun together."""
    begun = {name: federation.begin(f"runs/{name}", run__cohort=2, **settings) for name, (_, settings) in RUNS.items()}
    begun["killed"] = federation.begin("runs/killed", **KILLED)
    begun["lies"] = federation.begin("runs/lies", algorithm__name="fedavg", app__lies=True, run__cohort=4)
    return begun


def simulated(folder: Path, algorithm: Algorithm, cohort: int = 2, faults: driftless.Faults | None = None) -> StoredRun:
    """The run that the nodes play, in the simulator."""
    from driftless.deploy.template.federation.task import everybody, model

    return driftless.run(
        algorithm, everybody(), model, rounds=8, cohort=cohort, seed=0, local=LOCAL, faults=faults, output=folder
    )


def assert_equal_models(deployed: StoredRun, simulated: StoredRun) -> None:
    torch.testing.assert_close(deployed.state, simulated.state, rtol=0, atol=1e-6)


def test_a_killed_server_app_is_continued_to_the_same_model(
    federation: FlowerFederation, runs: dict[str, Path], tmp_path: Path
):
    directory = runs["killed"]
    wait_until(lambda: federation.rounds(directory) >= 2, "two rounds")
    federation.kill_server_app(directory)
    played = federation.rounds(directory)
    assert played < 8
    assert not (directory / "result.json").exists()
    federation.begin("runs/killed", **KILLED)
    deployed = federation.ended(directory)
    assert [row["round"] for row in deployed.rows] == list(range(1, 9))
    assert_equal_models(deployed, simulated(tmp_path / "simulated", ALGORITHMS["scaffold"]()))


@pytest.mark.parametrize("name", RUNS)
def test_nodes_come_to_the_model_of_the_simulator(
    name: str, federation: FlowerFederation, runs: dict[str, Path], tmp_path: Path
):
    deployed = federation.ended(runs[name])
    other = simulated(tmp_path / "simulated", RUNS[name][0])
    assert deployed.events == []
    assert len(deployed.rows) == 8
    assert_equal_models(deployed, other)
    assert deployed.history["test_accuracy"] == pytest.approx(other.history["test_accuracy"], abs=0.01)


def test_each_lie_of_a_node_is_left_out_and_named(federation: FlowerFederation, runs: dict[str, Path]):
    deployed = federation.ended(runs["lies"])
    assert len(deployed.rows) == 8
    found = {event["round"]: event["what"] for event in deployed.events if event["clients"] == [LIAR]}
    assert list(found) == list(LIES)
    words = ["shape [", "dtype float64", "not finite", "1e+30", "claims to be of client 0", "of round 1"]
    for said, word in zip(found.values(), words, strict=True):
        assert word in said
    assert [row["skipped"] for row in deployed.rows] == [int(t in LIES) for t in range(1, 9)]
    assert deployed.history[-1]["test_accuracy"] > 0.6


def test_a_run_of_nodes_is_reported_like_any_other(federation: FlowerFederation, runs: dict[str, Path], tmp_path: Path):
    federation.ended(runs["adabest"])
    page = driftless.report([runs["adabest"]], tmp_path / "report.html")
    assert "adabest" in page.read_text()
    ended = subprocess.run(
        [sys.executable, "-m", "driftless", "resume", str(runs["adabest"])], capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert "flwr run" in ended.stderr


def test_a_node_with_an_unknown_key_is_refused(federation: FlowerFederation, runs: dict[str, Path]):
    federation.make_keys(federation.number + 1)  # the last one is not registered
    federation.start_node(federation.number)
    process = federation.processes.pop(f"node-{federation.number}")
    process.wait(PATIENCE)
    assert process.returncode != 0
    assert federation.log(f"node-{federation.number}") != ""
    listed = federation.flwr("supernode", "list")
    assert listed.count("online") == federation.number


def test_a_killed_node_is_left_out_and_continues_with_its_state(
    federation: FlowerFederation, runs: dict[str, Path], tmp_path: Path
):
    for directory in runs.values():
        federation.ended(directory)
    settings = {"algorithm__name": "scaffold", "run__cohort": 4, "deploy__deadline": 300, "app__hangs": True}
    directory = federation.begin("runs/lost", **settings)
    wait_until((federation.folder / "hung").exists, "round 3")
    federation.kill_node(HANGING)
    wait_until(lambda: lost(directory, HANGING), "a round without it")
    wait_until(lambda: is_back(federation, HANGING), "the node")
    (federation.folder / "back").touch()
    deployed = federation.ended(directory)
    assert len(deployed.rows) == 8
    rounds = lost(directory, HANGING)
    assert rounds[0] == 3
    assert rounds[-1] < 8, "it did not come back"
    # the last one is Flower's, which notices after a while that the node is silent
    reasons = ("no answer before the deadline", "not connected", "Node Unavailable")
    assert all(any(reason in event["what"] for reason in reasons) for event in deployed.events)
    run = read_json(directory / "nodes.json")["run"]
    states = (federation.folder / "driftless-state" / run).glob(f"client-{HANGING}-node-*/round-*")
    assert max(path.name for path in states) == "round-00000008.safetensors"
    trace = tmp_path / "trace.csv"
    missed = [f"{event['round']},{client},dropout" for event in deployed.events for client in event["clients"]]
    trace.write_text("\n".join(["round,client,fault", *missed]))
    faults = driftless.Faults(trace=str(trace))
    assert_equal_models(deployed, simulated(tmp_path / "simulated", ALGORITHMS["scaffold"](), cohort=4, faults=faults))


def is_back(federation: FlowerFederation, node: int) -> bool:
    """Flower refuses a node for as long as it takes the one that was killed to be alive."""
    process = federation.processes.get(f"node-{node}")
    if process is None or process.poll() is not None:
        federation.start_node(node)
    return federation.flwr("supernode", "list").count("online") == federation.number


def lost(directory: Path, client: int) -> list[int]:
    return [e["round"] for e in StoredRun(directory).events if client in e["clients"]]


def test_what_is_sent_to_nodes_holds_no_keys_and_no_runs(federation: FlowerFederation):
    federation.flwr("build", "--app", ".")
    (bundle,) = federation.folder.glob("*.fab")
    names = zipfile.ZipFile(bundle).namelist()
    assert "federation/client.py" in names
    assert all(name.endswith((".py", ".toml", "CONTENT")) or name.startswith(".info") for name in names)
    assert not any("key" in name or name.startswith(("runs", "driftless-state")) for name in names)
    bundle.unlink()
