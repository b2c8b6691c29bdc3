"""How much of the machine a whole emulated round of blockage uses for its matrix work, and how much its bare steps do.

Share of the peak = floating-point operations of all clients' forward and backward passes, as torch counts them, over
wall time, over the rate at which the pool's threads, each on its own, multiply large matrices. The three take turns.
The same over the CPU time of all threads leaves out what is waited for, and other work on the machine changes it less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from sheafedge.benchmarks._blockage import Workload, bare_rounds, emulated_rounds
from sheafedge.benchmarks._repeats import interleaved, spread
from sheafedge.emulator.nodes.compute_pool import ThreadPool
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

MATRIX = 1024


def measure_whole_round(workload: Workload, repeats: int, products: int) -> dict[str, Any]:
    """Figures of rounds and bare steps at this scenario's settings, each repeat against its own matrix products.

    Args:
        workload: one repeat of it plays all rounds of its scenario.
        repeats: of all three.
        products: of matrices, per thread and repeat; enough to take as long as the rounds do.
    """
    flops = _flops_of_a_round(workload)
    threads = workload.scenario.compute.threads
    arms = {
        "round": lambda: emulated_rounds(workload),
        "bare_steps": lambda: bare_rounds(workload),
        "matmul": lambda: _products(threads, products),
    }
    timings = interleaved(arms, repeats)
    work = dict.fromkeys(("round", "bare_steps"), flops * workload.scenario.rounds)
    work["matmul"] = threads * products * 2.0 * MATRIX**3
    wall_rates = {name: [work[name] / t.wall_s for t in seen] for name, seen in timings.items()}
    cpu_rates = {name: [work[name] / t.cpu_s for t in seen] for name, seen in timings.items()}
    return {
        "clients": len(workload.data),
        "threads": threads,
        "rounds": workload.scenario.rounds,
        "local_steps": workload.scenario.training.local_steps,
        "gflop_per_round": round(flops / 1e9, 3),
        "seconds_per_round": {
            name: spread([t.wall_s / workload.scenario.rounds for t in timings[name]])
            for name in ("round", "bare_steps")
        },
        "matmul_gflop_per_s": spread([rate / 1e9 for rate in wall_rates["matmul"]]),
        "share_of_matmul": _shares(wall_rates),
        "cpu_share_of_matmul": _shares(cpu_rates),
    }


def _shares(rates: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Repeat by repeat: neighbors in time are compared with each other."""
    return {
        name: spread([rate / peak for rate, peak in zip(rates[name], rates["matmul"], strict=True)])
        for name in ("round", "bare_steps")
    }


def _flops_of_a_round(workload: Workload) -> float:
    """Forward and backward passes of all clients' local steps."""
    counter = FlopCounterMode(display=False)
    with counter:
        for client in workload.bare():
            client.run(workload.scenario.training.local_steps)
    return float(counter.get_total_flops())


@contextmanager
def _products(threads: int, products: int) -> Iterator[Callable[[], None]]:
    """Large matrix products, one at a time on each thread."""
    pool = ThreadPool(threads)
    matrices = [torch.randn(MATRIX, MATRIX) for _ in range(threads)]
    try:
        yield partial(_multiply_all, pool, matrices, products)
    finally:
        pool.close()


def _multiply_all(pool: ThreadPool, matrices: Sequence[Tensor], products: int) -> None:
    for ticket in [pool.submit(partial(_multiply, matrix, products)) for matrix in matrices]:
        ticket.result()


def _multiply(matrix: Tensor, products: int) -> None:
    out = torch.empty_like(matrix)
    for _ in range(products):
        torch.mm(matrix, matrix, out=out)
