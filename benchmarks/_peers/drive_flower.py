"""One repeat by Flower's simulation: FedAvg over all clients, whose apps run on the workers of Ray."""

from __future__ import annotations

import os
from collections.abc import Sequence

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # read when flwr is imported; a benchmark reports to nobody

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from given import Clock, drive, read_given, train_an_epoch
from torch import nn


def client_app_of(path: str) -> ClientApp:
    """An epoch on the model that the server sent."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        given, client = read_given(path), int(context.node_config["partition-id"])
        model = given.model()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        round_index = int(message.content["config"]["server-round"])
        draws = torch.Generator().manual_seed((given.seed * 1_000_003 + round_index) * 1_000_003 + client)
        train_an_epoch(model, given, client, draws)
        metrics = MetricRecord({"num-examples": given.inputs.shape[1]})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return Message(content=content, reply_to=message)

    return app


def run(path: str) -> tuple[Clock, Sequence[nn.Module]]:
    """The clock over the rounds after the first, and the server's model once per client."""
    given, clock, model = read_given(path), Clock(), read_given(path).model()
    app = ServerApp()

    def after_round(round_index: int, _: ArrayRecord) -> None:
        if round_index == 1:
            clock.start()
        elif round_index == given.rounds + 1:
            clock.stop()

    @app.main()
    def main(grid: Grid, _: Context) -> None:
        rule = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=len(given.inputs))
        start = ArrayRecord(model.state_dict())
        result = rule.start(grid=grid, initial_arrays=start, num_rounds=given.rounds + 1, evaluate_fn=after_round)
        model.load_state_dict(result.arrays.to_torch_state_dict())

    run_simulation(
        server_app=app,
        client_app=client_app_of(path),
        num_supernodes=len(given.inputs),
        backend_config={
            "init_args": {"num_cpus": given.workers, "include_dashboard": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    return clock, [model] * len(given.inputs)


if __name__ == "__main__":
    drive(run, ["flwr", "ray", "torch"])
