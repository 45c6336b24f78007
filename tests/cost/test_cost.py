"""Costs are derived: checked by hand, against what a run really sends, and against the papers' tables."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from functools import cache
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn

import driftless
from driftless import ALGORITHMS
from driftless.algorithms import MFL, AdaBest, AdaptiveClipping, FedAvg, FedGBO, FedLars, FedProx, Mime, Scaffold
from driftless.cost import Counting, Rehearsal, as_rows, cost_table, measure, rich_table, vectors
from driftless.errors import InputError
from driftless.papers import cost_tables
from laws.entries import ENTRIES

P = 1000
DOCUMENT = Path(__file__).parents[2] / "docs" / "cost.md"
STATED = {  # (down, up, kept by the client); that docstrings say so: tests/algorithms/test_docstrings.py
    "fedavg": (1, 1, 0),
    "fedsgd": (1, 1, 0),
    "fedavgm": (1, 1, 0),
    "fedadagrad": (1, 1, 0),
    "fedadam": (1, 1, 0),
    "fedyogi": (1, 1, 0),
    "fedlars": (1, 1, 0),
    "fedlamb": (1, 1, 0),
    "normalized-fedavg": (1, 1, 0),
    "fedprox": (1, 1, 0),
    "scaffold": (2, 2, 1),
    "scaffold-slim": (2, 1, 1),
    "feddyn": (1, 1, 1),
    "adabest": (1, 1, 1),
    "fedgbo": (2, 1, 0),
    "mimelite": (2, 2, 0),
    "mime": (3, 2, 0),
    "mfl": (2, 2, 0),
    "adaptive-fedopt": (1, 1, 0),
    "fedcm": (2, 1, 0),
    "fedadc": (2, 1, 0),
    "ghbm": (2, 1, 0),
    "localghbm": (1, 1, 1),
    "fedhbm": (1, 1, 1),
    "mimemom": (3, 2, 0),
    "mimelitemom": (2, 2, 0),
    "scaffold-momentum": (3, 2, 1),
    "server-ghbm": (1, 1, 0),
    "ghbm-theory": (2, 2, 0),
}


def operations(algorithm, stage):
    """Vector operations of a stage by kind, in units of the vector."""
    cost = measure(algorithm, P)
    return {kind: flops / P for kind, flops in getattr(cost, stage).items()}


def test_the_stated_vectors_are_those_of_all_algorithms():
    assert set(STATED) == set(ALGORITHMS)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_derived_vectors_are_the_stated_ones(name):
    assert vectors(ALGORITHMS[name]())[:3] == STATED[name]


@pytest.mark.parametrize(
    ("name", "expected"), [("fedgbo", (3, 1)), ("mimelite", (3, 2)), ("mime", (4, 2)), ("mfl", (3, 3))]
)
def test_adam_has_one_vector_of_statistics_more(name, expected):
    assert vectors(ALGORITHMS[name](optimizer="adam"))[:2] == expected


@pytest.mark.parametrize("name", ENTRIES)
def test_counting_on_meta_tensors_is_counting_on_real_ones(name):
    counted = []
    for device in ("meta", "cpu"):
        x = torch.ones(12, device=device)
        rehearsal = Rehearsal(ENTRIES[name], x, (slice(0, 5), slice(5, 12)), examples=3)
        with Counting() as counting:
            rehearsal.broadcast()
            rehearsal.full_gradient()
            rehearsal.step()
            upload, _ = rehearsal.upload()
            rehearsal.update(upload)
        counted.append(counting.operations)
    assert counted[0] == counted[1]
    assert all(flops % 12 == 0 for flops in counted[0].values())


def test_fedavg_is_one_axpy_a_step_and_one_on_the_server():
    assert operations(FedAvg(), "step") == {"multiply": 1, "add": 1}  # y - lr*g
    assert operations(FedAvg(), "round") == {"add": 1}  # y - x
    assert operations(FedAvg(), "server") == {"multiply": 1, "add": 1}  # x + server_lr*delta


def test_fedprox_adds_a_difference_a_product_and_a_sum_to_each_step():
    assert operations(FedProx(), "step") == {"multiply": 2, "add": 3}  # y - lr*(g + mu*(y - x))


def test_scaffold_by_hand():
    assert operations(Scaffold(), "step") == {"multiply": 1, "add": 3}  # y - lr*(g - c_i + c)
    # c_i - c + (x - y)/(K*lr), y - x, c_i' - c_i
    assert operations(Scaffold(), "round") == {"add": 5, "divide": 1}
    assert operations(Scaffold(), "server") == {"multiply": 2, "add": 2}


def test_mfl_with_adam_by_hand():
    # m: 2 products, 1 sum; v: 2 products, 1 square, 1 sum; m/(sqrt(v) + eps); y - lr*d
    expected = {"multiply": 5, "add": 4, "square": 1, "root": 1, "divide": 1}
    assert operations(MFL(optimizer="adam"), "step") == expected


def test_norms_of_layers_add_up_to_norms_of_the_vector():
    model = nn.Linear(9, 10)
    cost = measure(FedLars(), model)
    assert cost.parameters == 100
    # m: 2 products, 1 sum; two norms: a square and a sum each; the ratio's product; x - server_lr*u
    assert cost.server == {"multiply": 400, "add": 400, "square": 200}


def test_what_is_free_and_what_is_counted():
    x, number = torch.ones(4, device="meta"), torch.ones((), device="meta")
    with Counting() as free:
        _ = (-x, x.clone(), x[1:], torch.zeros_like(x), x > 0, torch.where(x > 0, x, 0.0), torch.cat([x, x]))
        _ = (number * number, number.sqrt(), x.to(torch.float64), x.sign())
    assert free.operations.total() == 0
    with Counting() as counted:
        _ = (x.add(x, alpha=2.0), x.clone().mul_(3), x.exp(), torch.stack([x, x, x]).sum(0), x.norm(), x.dot(x))
    assert counted.operations == {"add": 4 + 8 + 4 + 4, "multiply": 4 + 4 + 4, "other": 4, "square": 4}
    with Counting() as product:
        _ = torch.ones(2, 3, device="meta") @ torch.ones(3, 5, device="meta")
    assert product.operations == {"product": 2 * 2 * 3 * 5}


def example(*shape: int):
    return torch.zeros(1, *shape), torch.zeros(1, dtype=torch.long)


def test_the_gradient_of_an_mlp_by_hand():
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 10))
    cost = measure(FedAvg(), model, example(64), steps=3, batch_size=7)
    # Forward and the weights' gradients: 2*B*in*out each; the gradient of its input only for the second layer.
    assert cost.gradient_flops == 2 * 7 * (2 * 64 * 100 + 3 * 100 * 10)
    assert cost.model_flops == 3 * cost.gradient_flops
    assert cost.client_flops == cost.model_flops + (3 * 2 + 1) * cost.parameters


def test_the_gradient_of_a_convolution_by_hand():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 10))
    cost = measure(FedAvg(), model, example(3, 8, 8), batch_size=5)
    convolution, linear = 2 * 5 * (6 * 6 * 4) * (3 * 3 * 3), 2 * 5 * (4 * 6 * 6) * 10
    assert cost.gradient_flops == 2 * convolution + 3 * linear


def test_mime_pays_for_a_second_gradient_each_step_and_for_a_full_one():
    model = nn.Linear(20, 3)
    plain = measure(FedAvg(), model, example(20), steps=4, batch_size=5, examples=50)
    mime = measure(Mime(), model, example(20), steps=4, batch_size=5, examples=50)
    assert plain.gradients == 1
    assert mime.gradients == 2
    assert mime.full_gradient_flops == 10 * plain.gradient_flops
    assert mime.model_flops == (4 * 2 + 10) * plain.gradient_flops


def test_fedsgd_is_one_step_on_all_examples():
    cost = measure(ALGORITHMS["fedsgd"](), nn.Linear(20, 3), example(20), steps=4, batch_size=5, examples=50)
    assert (cost.steps, cost.batch_size, cost.examples) == (1, 50, 50)


def test_a_batch_has_no_more_examples_than_the_client():
    assert measure(FedAvg(), P, batch_size=32, examples=14).batch_size == 14


def test_models_with_dropout_and_with_recurrence_are_counted():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.recur, self.drop, self.read = nn.GRU(4, 6, batch_first=True), nn.Dropout(0.5), nn.Linear(6, 2)

        def forward(self, inputs):
            return self.read(self.drop(self.recur(inputs)[0][:, -1]))

    cost = measure(FedAvg(), Recurrent(), example(5, 4), batch_size=3)
    forward = 2 * 3 * (5 * 3 * 6 * (4 + 6) + 6 * 2)
    assert cost.gradient_flops is not None
    assert 2 * forward < cost.gradient_flops <= 3 * forward


def test_a_billion_parameters_take_neither_memory_nor_time():
    resource = pytest.importorskip("resource")
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    model = nn.Linear(31_623, 31_623, bias=False, device="meta")
    cost = measure(AdaBest(), model, example(31_623))
    assert cost.parameters == 31_623**2 > 1e9
    assert cost.bytes.down == 4 * cost.parameters + 4
    assert time.perf_counter() - start < 5
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 200e6


def test_the_users_module_stays_as_it_is():
    model = nn.Linear(20, 3)
    weight = model.weight
    measure(FedAvg(), model, example(20))
    assert model.weight is weight
    assert weight.device.type == "cpu"


def test_bytes_are_exact_numbers_that_are_no_vectors_included():
    cost = measure(AdaBest(), P)
    # The mean number of examples goes down and n_i up; t_last is kept; the server has 5 numbers.
    assert cost.bytes == (4 * P + 4, 4 * P + 4, 4 * P + 4, 3 * 4 * P + 5 * 4)
    assert measure(AdaptiveClipping(FedAvg()), P).bytes[:2] == (4 * P + 4, 4 * P + 4)
    assert measure(FedAvg(), P, dtype=torch.float64).bytes.down == 8 * P


@pytest.mark.parametrize("name", ["fedavg", "adabest", "scaffold", "mime", "mfl"])
def test_bytes_are_those_that_a_run_reports(name):
    federation = driftless.load("digits", clients=4)
    result = driftless.simulate(name, federation, "logistic", rounds=1, cohort=2, engine="single", evaluate_every=0)
    (cost,) = cost_table([name], model="logistic")
    row = result.history[0]
    assert (row["bytes_down"], row["bytes_up"]) == (2 * cost.bytes.down, 2 * cost.bytes.up)


def test_without_names_the_table_has_every_algorithm():
    costs = cost_table()
    assert [cost.algorithm for cost in costs] == list(ALGORITHMS)
    rows = json.loads(json.dumps(as_rows(costs)))
    assert rows[0]["client_flops"] == costs[0].client_flops
    assert rows[0]["vectors_down"] == 1
    text = printed(rich_table(costs))
    assert all(name in text for name in ALGORITHMS)
    assert "fedsgd: K = 1, B = 320" in text


def test_the_table_of_the_documentation_is_what_the_command_prints():
    document = [line.split() for line in DOCUMENT.read_text(encoding="utf-8").splitlines()]
    lines = [line.split() for line in printed(rich_table(cost_table())).splitlines()[: len(ALGORITHMS) + 1]]
    outdated = [" ".join(line) for line in lines if line not in document]
    assert not outdated, "docs/cost.md is outdated: put the output of `driftless cost` into it"


def test_a_table_of_variants_has_the_names_they_are_given():
    costs = cost_table({"adam": FedGBO(optimizer="adam"), "sgdm": FedGBO()}, model="logistic", steps=2, batch_size=4)
    assert [(cost.algorithm, cost.vectors.down) for cost in costs] == [("adam", 3), ("sgdm", 2)]


def test_flops_of_a_model_that_is_only_a_number_are_not_known():
    cost = measure(FedAvg(), P)
    assert cost.gradient_flops is cost.model_flops is cost.client_flops is None
    assert "-" in printed(rich_table([cost]))


def test_mistakes_are_explained(tmp_path: Path):
    with pytest.raises(InputError, match="did you mean 'scaffold'"):
        cost_table(["scafold"])
    with pytest.raises(InputError, match="steps must be a whole number"):
        cost_table(["fedavg"], steps=0)
    with pytest.raises(InputError, match="use model 'logistic'"):
        cost_table(["fedavg"], model="linear")
    file = tmp_path / "my.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from driftless.algorithms import FedAvg\n"
        "@dataclass(frozen=True)\n"
        "class Mine(FedAvg):\n"
        "    def update(self, server, mean, r):\n"
        "        return server if mean.delta.norm().item() > 1 else super().update(server, mean, r)\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError, match="must not look at values"):
        cost_table([f"{file}:Mine"])


def printed(table) -> str:
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


@cache
def compared():
    return {cell[:3]: cell for cell in cost_tables.comparison()}


def test_every_published_number_is_reproduced_or_its_difference_is_explained():
    assert len(compared()) == 177
    assert {where for where, cell in compared().items() if not cell.agrees} == set(cost_tables.DIFFERENCES)


def test_the_overheads_of_ghbm_are_those_of_its_table_but_for_mimemom():
    overheads = [cell.derived for cell in compared().values() if cell.table == "GHBM Table 4"]
    assert overheads == [1, 2, 1, 2.5, 1.5, 1]


def test_fedgbos_flops_are_reproduced_to_half_a_percent_where_table_9_is_not_swapped():
    cells = [cell for where, cell in compared().items() if where[0] in ("FedGBO Table 4", "FedGBO Table 10")]
    right = [c for c in cells if c.agrees and not (c.algorithm == "mfl" and "adam" not in c.column)]
    assert len(cells) == 88
    assert len(right) == 70
    assert all(c.ratio == pytest.approx(1, abs=0.005) for c in right)


def test_with_the_rows_of_table_9_swapped_back_mfl_is_reproduced_too():
    for (table, algorithm, column), cell in compared().items():
        if algorithm == "mfl" and table in ("FedGBO Table 4", "FedGBO Table 9", "FedGBO Table 10"):
            other = re.sub("rmsprop|sgdm", lambda name: "sgdm" if name[0] == "rmsprop" else "rmsprop", column)
            swapped = compared()[table, algorithm, other]
            assert cell.derived == pytest.approx(swapped.printed, rel=0.005)


def test_our_rmsprop_and_adam_square_the_gradient_that_the_paper_forgets():
    ours = {name: sum(operations(MFL(optimizer=name), "step").values()) for name in ("rmsprop", "sgdm", "adam")}
    assert ours == {"rmsprop": 9, "sgdm": 5, "adam": 12}


def test_a_comparison_can_be_of_some_algorithms():
    some = cost_tables.comparison(["adabest"])
    assert {cell.algorithm for cell in some} == {"adabest"}
    text = printed(cost_tables.rich_comparison(some))
    assert "division of h_i by t - t_last" in text
    assert "AdaBest Table 4" in printed(cost_tables.rich_summary(some))
