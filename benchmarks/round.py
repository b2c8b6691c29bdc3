"""What training costs at paper size, beside a large matrix product: single steps, and whole rounds of blockage.

    python benchmarks/round.py [--repeats 15] [--batch 32] [--width 1.0] [--round-repeats 5] [--products 100]
        [--rounds 2] [--clients 20] [--seconds 60] [--threads 2]

A step is a forward and a backward pass of one encoder or client on one torch thread, without the optimizer. A whole
round is all 20 clients' local step of one minibatch, optimizers, coupling, averaging, links and ZeroMQ included, on a
pool of threads. The arms of each part, matrix products among them, take turns, so that all meet the same machine.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from sheafedge.benchmarks._blockage import Workload
from sheafedge.benchmarks._repeats import spread
from sheafedge.benchmarks._whole_round import MATRIX, measure_whole_round
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.map_encoder import (
    MapEncoder,
    beam_map_encoder,
    camera_encoder,
    drone_camera_encoder,
    lidar_encoder,
)
from sheafedge.models.encoders.mlp import position_mlp
from sheafedge.models.flat import FlatModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

EMBEDDING_DIM = 64
MAP_ENCODERS: dict[str, MapEncoder] = {
    "lidar": lidar_encoder,
    "camera": camera_encoder,
    "rf": beam_map_encoder,
    "drone_camera": drone_camera_encoder,
}
SHAPES: dict[str, tuple[int, ...]] = {name: one.shape for name, one in MAP_ENCODERS.items()} | {"drone_gps": (4,)}
GROUPS = {"lidar+camera": ("lidar", "camera"), "lidar+rf": ("lidar", "rf"), "camera+rf": ("camera", "rf")}


def make_encoder(name: str, width: float, channels_last: bool) -> nn.Module:
    """One encoder, with its values on a flat vector as in training."""
    encoder: nn.Module = position_mlp(EMBEDDING_DIM)
    if (make := MAP_ENCODERS.get(name)) is not None:
        draws = torch.Generator().manual_seed(0)
        encoder = make(make.shape, EMBEDDING_DIM, draws, width=width, channels_last=channels_last)
    FlatModule(encoder)
    return encoder


def encoder_step(encoder: nn.Module, batch: Tensor) -> None:
    """Forward and backward of one encoder; the loss is any."""
    encoder(batch).square().mean().backward()


def group_step(model: ClientModel, batch: Mapping[str, Tensor], labels: Tensor) -> None:
    """Forward and backward of a whole client, as `LocalTraining.backward` does it."""
    functional.cross_entropy(model(batch), labels).backward()  # type: ignore[no-untyped-call]


def make_steps(batch_size: int, width: float) -> tuple[dict[str, Callable[[], None]], dict[str, int]]:
    """Every arm's step by name, and the parameters of every encoder."""
    steps: dict[str, Callable[[], None]] = {}
    parameters: dict[str, int] = {}
    inputs = {name: torch.randn(batch_size, *shape) for name, shape in SHAPES.items()}
    for channels_last in (True, False):
        order = "channels_last" if channels_last else "channels_first"
        for name, batch in inputs.items():
            encoder = make_encoder(name, width, channels_last)
            parameters[name] = sum(parameter.numel() for parameter in encoder.parameters())
            if name != "drone_gps" or channels_last:  # it has no maps
                steps[f"{name}/{order}"] = functools.partial(encoder_step, encoder, batch)
        for name, members in GROUPS.items():
            model = _client(members, width, channels_last)
            labels = torch.arange(batch_size) % 2
            steps[f"{name}/{order}"] = functools.partial(group_step, model, inputs, labels)
    return steps, parameters


def _client(members: Sequence[str], width: float, channels_last: bool) -> ClientModel:
    encoders: Any = {name: make_encoder(name, width, channels_last) for name in members}
    normalizers: Any = {name: nn.Identity() for name in members}
    return ClientModel(normalizers, encoders, fusion="attention", embedding_dim=EMBEDDING_DIM, n_outputs=2)


def count_flops(step: Callable[[], None]) -> int:
    """Matrix work of one step, forward and backward, as torch counts it."""
    counter = FlopCounterMode(display=False)
    with counter:
        step()
    return int(counter.get_total_flops())


def measure(steps: Mapping[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every step, taking turns, after two rounds that are thrown away."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(-2, repeats):
        for name, step in steps.items():
            begin_s = time.perf_counter()
            step()
            if repeat >= 0:
                seconds[name].append(time.perf_counter() - begin_s)
        say(f"repeat {repeat + 1}/{repeats}")
    return seconds


def figures_of(seconds: Mapping[str, list[float]], flops: Mapping[str, int]) -> dict[str, Any]:
    """Per step and order: milliseconds, GFLOP/s, and the share of the matrix product's rate."""
    peak = flops["matmul"] / statistics.median(seconds["matmul"])
    figures: dict[str, Any] = {}
    for name, taken in seconds.items():
        if name == "matmul":
            continue
        rate = flops[name] / statistics.median(taken)
        figures[name] = {
            "ms": {key: round(1e3 * value, 3) for key, value in spread(taken).items()},
            "gflop": round(flops[name] / 1e9, 3),
            "gflop_per_s": round(rate / 1e9, 3),
            "share_of_matmul": round(rate / peak, 3),
        }
    return {"matmul_gflop_per_s": round(peak / 1e9, 1), "steps": figures}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=float, default=1.0, help="multiplies the channels of all encoders")
    parser.add_argument("--round-repeats", type=int, default=5, help="of whole rounds")
    parser.add_argument("--products", type=int, default=100, help="of matrices, beside every repeat of whole rounds")
    parser.add_argument("--rounds", type=int, default=2, help="per repeat")
    parser.add_argument("--clients", type=int, default=20, help="of whole rounds")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the recording that whole rounds learn from")
    parser.add_argument("--threads", type=int, default=2, help="of the pool in whole rounds")
    options = parser.parse_args(arguments)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        machine = machine_facts()
        steps, parameters = make_steps(options.batch, options.width)
        matrix = torch.randn(MATRIX, MATRIX)
        steps["matmul"] = functools.partial(_multiply, matrix)
        flops = {name: count_flops(step) for name, step in steps.items()}
        figures = figures_of(measure(steps, options.repeats), flops)
        figures["whole_round"] = measure_whole_round(_workload(options), options.round_repeats, options.products)
    finally:
        torch.set_num_threads(threads)
    print_report("round", machine, {"batch": options.batch, "width": options.width, "parameters": parameters} | figures)


def _workload(options: argparse.Namespace) -> Workload:
    """Blockage with a single minibatch per round: what a round costs beyond it shows most."""
    return Workload.of(
        {
            "rounds": options.rounds,
            "clients.n_clients": options.clients,
            "world.duration_s": options.seconds,
            "model.width": options.width,
            "training.local_steps": 1,
            "training.batch_size": options.batch,
            "compute.threads": options.threads,
        }
    )


def _multiply(matrix: Tensor) -> None:
    torch.mm(matrix, matrix)


if __name__ == "__main__":
    main()
