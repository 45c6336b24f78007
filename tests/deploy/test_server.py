"""What the server of a federation says to mistakes in its settings, and when nodes do not come."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from flwr.app import RecordDict

import driftless
from deploy.in_process import CLIENTS, Nodes, net, played, settings
from driftless.algorithms import FedAvg, Scaffold
from driftless.deploy import server
from driftless.deploy.flower import Failed, server_app
from driftless.deploy.settings import Deployment, split
from driftless.deploy.task import Task
from driftless.errors import InputError


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"deploy.clients": 0}, "deploy.clients is not set"),
        ({"deploy.clients": -3}, "deploy.clients must be a whole number of at least 1"),
        ({"deploy.deadline": 0.0}, "deploy.deadline must be a number in"),
        ({"deploy.largest_value": float("nan")}, "deploy.largest_value must be a number in"),
        ({"deploy.deadlin": 3}, "did you mean 'deploy.deadline'?"),
        ({"local.epoch": 3}, "did you mean 'epochs'?"),
        ({"data.name": "digits"}, "the nodes have the data"),
        ({"faults.dropout": 0.1}, "faults of its own"),
        ({"dropout": 0.1}, "faults.dropout cannot be set in a federation"),
        ({"server.inference": "clients"}, "does not see the models of clients"),
        ({"algorithm.name": "scafold"}, "did you mean 'scaffold'?"),
        ({"run.cohort": 9}, "larger than the federation of 4 clients"),
        ({"evaluate.finetune_steps": 2}, "finetune_steps"),
        ({"evaluate.cohort": True}, "evaluate.cohort needs the data of clients"),
        ({"privacy.noise_multiplier": 1.0, "server.aggregation": "median"}, "is not a mean"),
    ],
)
def test_a_mistake_in_the_settings_is_one_sentence(change: dict[str, Any], said: str, tmp_path: Path):
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        Nodes(tmp_path, settings(tmp_path) | change).play()
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_the_app_fails_with_the_sentence_alone():
    app = server_app(net)
    context: Any = SimpleNamespace(run_config={"deploy.clients": 2, "local.lrr": 3})
    with pytest.raises(Failed, match="did you mean 'lr'") as failed:
        app(cast(Any, None), context)
    assert failed.value.exit_code >= 100  # what Flower counts as a failure
    assert failed.value.__suppress_context__


def test_settings_of_the_users_own_code_are_left_to_it():
    ours, run = split({"deploy.clients": 2, "app.anything": 7, "local.lr": 0.1})
    assert ours == {"clients": 2}
    assert run == {"local.lr": 0.1}
    assert Deployment(**ours).deadline == 600


def test_a_run_that_has_ended_is_not_played_again(tmp_path: Path):
    nodes, stored = played(tmp_path)
    with pytest.raises(InputError, match="has ended; look at it with: driftless report"):
        nodes.play()
    assert stored.rows == driftless.load_run(stored.path).rows


@pytest.mark.parametrize(
    ("change", "said"),
    [({"deploy.clients": 3}, "has 4 clients, and deploy.clients is 3"), ({"local.lr": 0.2}, "local.lr is 0.1 there")],
)
def test_a_run_is_not_continued_with_other_settings(change: dict[str, Any], said: str, tmp_path: Path):
    _, stored = played(tmp_path)
    (stored.path / "result.json").unlink()
    with pytest.raises(InputError, match=said):
        Nodes(tmp_path, settings(tmp_path) | change).play()


def test_a_folder_with_a_simulated_run_is_not_written_to(tmp_path: Path):
    from laws.entries import classification

    driftless.run("fedavg", classification(), net(), rounds=2, cohort=2, output=tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    with pytest.raises(InputError, match="has ended"):
        Nodes(tmp_path, settings(tmp_path)).play()
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}


def test_nodes_that_do_not_come_are_waited_for_and_then_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "POLL_SECONDS", 0.01)
    nodes = Nodes(tmp_path, settings(tmp_path, deploy__clients=CLIENTS + 1, deploy__join_timeout=0.2))
    with pytest.raises(InputError, match=r"4 of 5 nodes have joined within 0\.2 s; start the others"):
        nodes.play()


def test_the_page_of_a_run_of_nodes_does_not_claim_to_know_their_labels(tmp_path: Path):
    _, stored = played(tmp_path)
    page = driftless.report([stored.path], tmp_path / "page.html").read_text()
    assert "is known to its node only" in page
    assert "regression" not in page


def test_rounds_without_an_answer_are_no_divergence(tmp_path: Path):
    def silent(request: Any, answer: RecordDict) -> RecordDict | str:
        return "not connected" if request.round > 1 else answer

    _, stored = played(tmp_path, change=silent, run__rounds=6)
    assert stored.result["status"] == "finished"
    assert [row["skipped"] for row in stored.rows] == [0, 4, 4, 4, 4, 4]
    assert len({row["norm_x"] for row in stored.rows}) == 1


def test_an_algorithm_and_a_loss_of_the_app_are_used_on_both_sides(tmp_path: Path):
    import torch

    from laws.entries import classification

    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    algorithm = Scaffold(server_lr=0.5)
    nodes = Nodes(tmp_path, settings(tmp_path), Task(net, algorithm=algorithm, loss=loss))
    del nodes.config["algorithm.name"]
    stored = nodes.play()
    federation = classification().select(range(CLIENTS))
    local = driftless.LocalTraining(lr=0.1, epochs=1, batch_size=3)
    other = driftless.run(
        algorithm, federation, net, rounds=4, cohort=CLIENTS, seed=5, local=local, loss=loss, output=tmp_path / "sim"
    )
    torch.testing.assert_close(stored.state["server.x"], other.state["server.x"], rtol=0, atol=1e-6)


def test_private_noise_is_secure_on_nodes_whatever_the_algorithm_says(tmp_path: Path):
    private = driftless.DifferentialPrivacy(FedAvg(), noise_multiplier=1.0, noise_source="keyed")
    nodes = Nodes(tmp_path, settings(tmp_path, run__cohort="poisson:0.9"), Task(net, algorithm=private))
    del nodes.config["algorithm.name"]
    stored = nodes.play()
    assert "(secure)" in stored.events[0]["what"]
    assert all(row["epsilon"] > 0 for row in stored.rows)
    again = Nodes(tmp_path / "again", settings(tmp_path / "again", run__cohort="poisson:0.9"), nodes.task)
    del again.config["algorithm.name"]
    assert again.play().rows[-1]["norm_x"] != stored.rows[-1]["norm_x"]
