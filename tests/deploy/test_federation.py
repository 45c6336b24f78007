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
LIES = {2: "shape", 3: "dtype", 4: "nan", 5: "huge", 6: "another client", 7: "old round"}
"""By round."""
CLIENT = f"""
import dataclasses
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
    return reply


app = client_app(model, data, mods=[lie])
"""
SETTINGS = """
[tool.flwr.app.config.server]
clipping = "none"
clipping_initial = 1.0

[tool.flwr.app.config.app]
lies = false
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


def simulated(folder: Path, algorithm: Algorithm) -> StoredRun:
    """The run that the nodes play, in the simulator."""
    from driftless.deploy.template.federation.task import everybody, model

    return driftless.run(algorithm, everybody(), model, rounds=8, cohort=2, seed=0, local=LOCAL, output=folder)


def assert_equal_models(deployed: StoredRun, simulated: StoredRun) -> None:
    assert set(deployed.state) == set(simulated.state)
    for name, value in simulated.state.items():
        assert float((deployed.state[name] - value).abs().max()) <= 1e-6, name


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


def test_a_killed_node_is_left_out_and_continues_with_its_state(federation: FlowerFederation, runs: dict[str, Path]):
    for directory in runs.values():
        federation.ended(directory)
    directory = federation.begin("runs/lost", algorithm__name="scaffold", run__cohort=4, deploy__deadline=40)
    wait_until(lambda: federation.rounds(directory) >= 2, "two rounds")
    federation.kill_node(1)
    killed_after = federation.rounds(directory)
    wait_until(lambda: lost(directory, 1), "a round without client 1")
    federation.start_node(1)
    deployed = federation.ended(directory)
    assert len(deployed.rows) == 8
    rounds = lost(directory, 1)
    assert rounds
    assert min(rounds) > killed_after
    assert max(rounds) < 8, "it did not come back"
    assert all("no answer" in e["what"] or "not connected" in e["what"] for e in deployed.events)
    run = read_json(directory / "nodes.json")["run"]
    states = (federation.folder / "driftless-state" / run).glob("client-1-node-*/round-*")
    assert max(path.name for path in states) == "round-00000008.safetensors"


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
