"""Flower's simulation on Ray: FedAvg with one core for each of two actors, the way its documentation proposes.

Each actor keeps all examples in memory and trains like the plain loop. Flower sends the model to each client and back.
"""

from __future__ import annotations

import os
from functools import cache

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}  # read when the packages are imported

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from peers import turns
from rows import ROWS, Row, build, tensors, training_loss
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

client_app = ClientApp()


@cache
def kept(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """The model and the examples of a row, made once in each actor."""
    return build(ROWS[name]), *tensors(ROWS[name])


@client_app.train()
def train(message: Message, context: Context) -> Message:
    row = ROWS[message.content["config"]["row"]]
    model, inputs, targets = kept(row.name)
    client = int(context.node_config["partition-id"])
    own_inputs, own_targets = inputs[client], targets[client]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=row.lr)
    steps = 0
    for _ in range(row.epochs):
        for batch in torch.randperm(row.examples).split(row.batch):
            optimizer.zero_grad()
            cross_entropy(model(own_inputs[batch]), own_targets[batch]).backward()
            optimizer.step()
            steps += 1
    metrics = MetricRecord({"num-examples": row.examples, "steps": steps})
    answer = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=answer, reply_to=message)


class Counted(FedAvg):
    """Looks at the number of local steps that the clients report."""

    def __init__(self, row: Row) -> None:
        # A tiny fraction and a minimum: an exact number, also while not all nodes have connected.
        super().__init__(
            fraction_train=1e-9,
            min_train_nodes=row.cohort,
            fraction_evaluate=0.0,
            min_available_nodes=row.clients,
        )
        self.row = row

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        if server_round == 1:
            if len(replies) != self.row.cohort:
                raise RuntimeError(f"{len(replies)} clients took part, but the row has {self.row.cohort}.")
            for reply in replies:
                turns.check_steps(self.row, reply.content["metrics"]["steps"])
        return super().aggregate_train(server_round, replies)


def play(row: Row, clock: turns.Clock) -> dict[str, object]:
    # Actors get what the module `peers.flower` names; from __main__ they would get a copy of all of it in each message.
    from peers.flower import client_app

    model = build(row)
    server_app = ServerApp()

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        def on_round(t: int, arrays: ArrayRecord) -> None:
            """Flower calls this before the first round and after each round."""
            clock.start() if t == 0 else clock.tick()
            if t == clock.rounds:
                model.load_state_dict(arrays.to_torch_state_dict())

        config = ConfigRecord({"row": row.name})
        strategy = Counted(row)
        strategy.start(grid, ArrayRecord(model.state_dict()), clock.rounds, train_config=config, evaluate_fn=on_round)

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}}
    run_simulation(server_app, client_app, row.clients, backend_config=resources)
    return {"loss": training_loss(model, *tensors(row))}


if __name__ == "__main__":
    turns.run("flower", ("flwr", "ray"), play)
