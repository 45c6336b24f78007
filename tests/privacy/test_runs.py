"""Differential privacy as a setting of runs: solved, stored, resumed, shown."""

from __future__ import annotations

import json
import os
import signal

import pytest
import torch

import driftless
from driftless import LocalTraining
from driftless.algorithms import AdaBest, FedAvg
from driftless.config.build import algorithm_of, simulation_of
from driftless.config.describe import common_lines, describe
from driftless.config.resolution import resolve
from driftless.data.cohorts import Poisson
from driftless.errors import InputError
from driftless.privacy import DifferentialPrivacy, Sampling, epsilon
from driftless.report import tables
from driftless.report.summary import summarise
from driftless.runs.directory import StoredRun
from driftless.runs.run import Interrupted
from runs.runs import AfterRound, assert_same_run, command, resume, small, start

PRIVATE = [
    "algorithm=scaffold", "cohort=poisson:0.1", "privacy.target_epsilon=20", "privacy.clip=0.3",
    "privacy.clip_quantile=0.5", "epochs=none", "steps=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """20 clients, 8 rounds; the fourth cohort is empty with this seed."""
    folder = tmp_path_factory.mktemp("private") / "whole"
    stored = start(folder, *PRIVATE)
    assert 0 in stored.history["cohort"]
    return stored


def test_the_solved_noise_and_delta_are_stored_in_the_runs_configuration(whole):
    privacy = whole.config.privacy
    assert privacy.target_epsilon == 20
    assert privacy.delta == 20**-1.1
    found = epsilon(privacy.noise_multiplier, privacy.delta, 8, Sampling("poisson", 20, 2.0))
    assert 19.9 < found <= 20
    assert "decided at the start" in (whole.path / "config.toml").read_text(encoding="utf-8")


def test_every_row_has_the_epsilon_so_far_and_the_last_that_of_the_run(whole):
    rows = whole.history["epsilon"]
    assert len(rows) == 8
    assert rows == sorted(rows)
    assert 19.9 < rows[-1] <= 20
    assert whole.result["final"]["epsilon"] == rows[-1]


def test_an_interrupted_run_is_resumed_to_the_same_bits(whole, tmp_path):
    for t in (whole.history["cohort"].index(0), whole.history["cohort"].index(0) + 1):  # before and after an empty one
        folder = tmp_path / str(t)
        with pytest.raises(Interrupted):
            start(folder, *PRIVATE, callbacks=[AfterRound([t], lambda: os.kill(os.getpid(), signal.SIGINT))])
        resume(folder)
        said = {event["what"] for event in StoredRun(folder).events}
        assert said == {event["what"] for event in whole.events}
        (folder / "events.jsonl").write_bytes((whole.path / "events.jsonl").read_bytes())  # a notice is said again
        assert_same_run(whole.path, folder)


def test_the_guarantee_is_printed_before_the_run_and_is_an_event(tmp_path, monkeypatch, capsys):
    words = [
        "data.clients=20",
        "partition=iid",
        "model=logistic",
        "rounds=2",
        "cohort=5",
        "steps=1",
        f"output={tmp_path / 'a'}",
    ]
    outcome = command(monkeypatch, capsys, "run", *words, "privacy.noise_multiplier=3", "privacy.clip=0.2")
    assert outcome.code == 0
    said = "differential privacy: epsilon "
    assert said in outcome.err + outcome.out
    (event,) = StoredRun(tmp_path / "a").events
    assert event["what"].startswith(said)
    assert "a client replaced; rdp); noise multiplier 3 (keyed), clip 0.2 of delta" in event["what"]


def test_a_description_names_privacy_only_where_there_is_some():
    words = ["model=logistic", "clients=20", "partition=iid", "steps=1"]
    configs = {"plain": resolve(None, words).config}
    configs["private"] = resolve(None, [*words, "privacy.noise_multiplier=2", "cohort=poisson:0.5"]).config
    found = {name: [describe(config, simulation_of(config))] for name, config in configs.items()}
    assert "differential privacy" not in " ".join(common_lines({"plain": found["plain"]}))
    assert any(line.startswith("differential privacy") for line in common_lines({"private": found["private"]}))
    (line,) = (line for line in common_lines(found) if "differential privacy" in line)
    assert line.endswith("(private)")


def test_a_table_of_runs_has_a_column_epsilon_if_one_of_them_is_private(whole, tmp_path):
    plain = start(tmp_path / "plain", "algorithm=fedavg")
    both = tables.markdown_table(summarise([whole, plain]))
    assert "| epsilon |" in both
    assert f"| {whole.history['epsilon'][-1]:.4g} |" in both
    assert "epsilon" not in tables.markdown_table(summarise([plain]))


def test_the_page_of_a_report_has_epsilon(whole, tmp_path):
    page = driftless.report([whole.path], tmp_path / "report.html")
    text = page.read_text(encoding="utf-8")
    assert "epsilon of differential privacy" in text
    assert "a client added or removed" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["privacy.clip=0.5"], r"privacy\.clip=0\.5 has no effect without noise; set privacy\.target_epsilon"),
        (["privacy.noise_multiplier=1", "server.weighting=examples"], "set weighting=uniform"),
        (["privacy.noise_multiplier=1", "algorithm=mime"], "cannot protect Mime"),
        (["privacy.noise_multiplier=1", "algorithm=fedcm"], r"local\.steps=10"),
        (["privacy.noise_multiplier=1", "privacy.accountant=pld"], "set accountant=rdp, or draw cohorts"),
        (["privacy.noise_multiplier=1", "server.inference=aggregate"], "to which no noise was added"),
        (["privacy.target_epsilon=1", "privacy.noise_multiplier=0.1"], "leave noise_multiplier out"),
    ],
)
def test_settings_that_give_no_guarantee_are_refused_before_the_run(words, message):
    with pytest.raises(InputError, match=message):
        simulation_of(resolve(None, ["model=logistic", "clients=20", "partition=iid", *words]).config)


def test_adaptive_clipping_of_the_server_is_inside_of_privacy():
    config = small("server.clipping=adaptive", "privacy.noise_multiplier=1").config
    algorithm = algorithm_of(config)
    assert isinstance(algorithm, DifferentialPrivacy)
    assert type(algorithm.inner).__name__ == "AdaptiveClipping"


def test_a_run_from_python_is_the_same_as_one_from_settings(tmp_path):
    federation = driftless.load("digits", clients=20, partition="iid", seed=0)
    dp = DifferentialPrivacy(AdaBest(), noise_multiplier=1.0, clip=0.5)
    options = {"rounds": 3, "cohort": 5, "local": LocalTraining(lr=0.1, steps=2, batch_size=10)}
    simulated = driftless.simulate(dp, federation, "logistic", **options)
    stored = driftless.run(dp, federation, "logistic", output=tmp_path / "run", **options)
    assert stored.config.privacy.noise_multiplier == 1.0
    assert stored.config.algorithm.name == "adabest"
    assert stored.history["epsilon"] == simulated.history["epsilon"]
    assert torch.equal(torch.nn.utils.parameters_to_vector(stored.module().parameters()), simulated.inference)


def test_pld_rows_cost_a_few_compositions_and_end_below_rdp():
    federation = driftless.load("digits", clients=20, partition="iid", seed=0)
    last = {}
    for accountant in ("rdp", "pld"):
        dp = DifferentialPrivacy(FedAvg(), 2.0, 0.5, accountant=accountant)
        result = driftless.simulate(dp, federation, "logistic", rounds=4, cohort=Poisson(0.3), evaluate_every=0)
        last[accountant] = result.history.last("epsilon")
    assert last["pld"] < last["rdp"]


def test_the_state_of_a_private_run_is_continued_with_the_noise_of_the_later_rounds():
    federation = driftless.load("digits", clients=20, partition="iid", seed=0)
    dp = DifferentialPrivacy(FedAvg(), 1.0, 0.5)
    whole = driftless.simulate(dp, federation, "logistic", rounds=4, cohort=5, evaluate_every=0)
    half = driftless.simulate(dp, federation, "logistic", rounds=2, cohort=5, evaluate_every=0)
    rest = driftless.simulate(dp, federation, "logistic", rounds=4, cohort=5, evaluate_every=0, state=half.state)
    assert torch.equal(rest.x, whole.x)
    assert json.dumps(rest.history["epsilon"]) == json.dumps(whole.history["epsilon"][2:])
