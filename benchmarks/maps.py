"""Factored against dense restriction maps: time per round, memory, and how far they drift apart.

    python benchmarks/maps.py [--rounds N] [--seed N] [--head-sizes N ...] [--compressions X ...] [--threads N]

20 clients on a random 4-regular graph pull their heads towards targets of their own while the sheaf couples them. In a
round every client projects its head, pulls it (11) with one local step, and steps the maps of all its edges (12) with
the residuals of that projection. Both storages start equal and each follows its own rounding; float64 is run on the
smallest case. Dense maps of 4160 x 0.23 take 1.2 GB.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import torch
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.emulator.random_streams import named_stream
from sheafedge.models.head import HeadLayout, initial_head
from sheafedge.models.sheaf.equations import coupled_step, structured_starts
from sheafedge.models.sheaf.map_storage import MAP_STORAGES
from sheafedge.models.sheaf.restriction_maps import RestrictionMaps
from torch import Tensor

N_OUTPUTS = 64
N_CLIENTS, DEGREE = 20, 4
HEAD_STEP_SIZE, COUPLING, MAP_STEP_SIZE = 0.1, 0.1, 0.01
#: The factored maps' history grows: their last rounds are the dearest.
LAST = 10


@dataclass(frozen=True, slots=True)
class Case:
    """One pair of sizes; edge (i, j) has start maps in `starts[i][j]` and `starts[j][i]`."""

    head_dim: int
    compression: float
    dtype: torch.dtype
    rounds: int
    starts: Mapping[int, Mapping[int, Tensor]]
    heads: Sequence[Tensor]
    targets: Sequence[Tensor]


@dataclass(slots=True)
class Outcome:
    """Where one storage of the maps ended, and how long its parts took in every round."""

    maps: list[RestrictionMaps]
    heads: list[Tensor]
    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def figures(self) -> dict[str, Any]:
        """Milliseconds per round of all clients together, and memory."""
        milliseconds = {name: [1e3 * s for s in seconds] for name, seconds in self.seconds.items()}
        return {
            "ms_per_round": statistics.fmean(milliseconds["round"]),
            "ms_per_round_median": statistics.median(milliseconds["round"]),
            f"ms_per_round_last_{LAST}": statistics.fmean(milliseconds["round"][-LAST:]),
            "ms_by_part": {name: statistics.fmean(ms) for name, ms in milliseconds.items() if name != "round"},
            "mib": sum(maps.n_bytes for maps in self.maps) / 2**20,
        }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = _options(argv)
    machine = machine_facts()
    before = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        sizes = [(size, share) for size in sorted(options.head_sizes) for share in sorted(options.compressions)]
        cases = [_measured(_case(options, *size, torch.float32)) for size in sizes]
        cases.append(_measured(_case(options, *sizes[0], torch.float64)))
    finally:
        torch.set_num_threads(before)
    settings = {"clients": N_CLIENTS, "degree": DEGREE, "map_step_size": MAP_STEP_SIZE, "coupling": COUPLING}
    print_report("maps", machine, {"options": vars(options), "settings": settings, "cases": cases})


def _measured(case: Case) -> dict[str, Any]:
    """Both storages, one after the other, then compared; all their memory is free again afterwards."""
    dtype = str(case.dtype).removeprefix("torch.")
    outcomes = {}
    for storage in ("dense", "factored"):
        say(f"head size {case.head_dim}, compression {case.compression:g}, {dtype}: {storage}")
        outcomes[storage] = _play(case, storage)
    figures = {storage: outcome.figures() for storage, outcome in outcomes.items()}
    difference = _largest_differences(outcomes["dense"], outcomes["factored"])
    moved = _largest_map_step(case, outcomes["dense"])
    outcomes.clear()
    gc.collect()
    dense, factored = figures["dense"], figures["factored"]
    return {
        "head_size": case.head_dim,
        "compression": case.compression,
        "edge_stalk_dim": len(next(iter(case.starts[0].values()))),
        "dtype": dtype,
        "rounds": case.rounds,
        **figures,
        "speedup": dense["ms_per_round"] / factored["ms_per_round"],
        "memory_ratio": dense["mib"] / factored["mib"],
        "largest_difference": difference,
        "largest_map_step": moved,
    }


def _play(case: Case, storage: str) -> Outcome:
    maps: list[RestrictionMaps] = [
        MAP_STORAGES[storage](case.starts[client], case.head_dim, dtype=case.dtype) for client in range(N_CLIENTS)
    ]
    outcome = Outcome(maps, [head.clone() for head in case.heads])
    for _ in range(case.rounds):
        _round(case, outcome)
    return outcome


def _round(case: Case, outcome: Outcome) -> None:
    """All clients at once: project, exchange, pull, step."""
    maps, heads = outcome.maps, outcome.heads
    with _timed(outcome, "round"):
        with _timed(outcome, "project"):
            images = [m.project(head) for m, head in zip(maps, heads, strict=True)]
        residuals = [own - _peers(maps, images, client) for client, own in enumerate(images)]
        with _timed(outcome, "pull"):
            pulls = [m.pull(residual) for m, residual in zip(maps, residuals, strict=True)]
        with _timed(outcome, "step"):
            for m, residual, head in zip(maps, residuals, heads, strict=True):
                m.step(MAP_STEP_SIZE * COUPLING * residual, head)
        outcome.heads = [
            coupled_step(head, head - target, pull, step_size=HEAD_STEP_SIZE, coupling=COUPLING)
            for head, target, pull in zip(heads, case.targets, pulls, strict=True)
        ]


@contextmanager
def _timed(outcome: Outcome, part: str) -> Iterator[None]:
    started_s = time.perf_counter()
    yield
    outcome.seconds[part].append(time.perf_counter() - started_s)


def _peers(maps: Sequence[RestrictionMaps], images: Sequence[Tensor], client: int) -> Tensor:
    """[n_rows] what the neighbors project onto the client's edges."""
    return torch.cat([images[neighbor][maps[neighbor].rows[client]] for neighbor in maps[client].rows])


def _largest_differences(dense: Outcome, factored: Outcome) -> dict[str, float]:
    """Of any entry of any map, of the projections of the same heads, and of the heads that both arrived at."""
    triples = [(neighbor, d, f) for d, f in zip(dense.maps, factored.maps, strict=True) for neighbor in d.rows]
    return {
        "maps": max(float((d.dense(n) - f.dense(n)).abs().max()) for n, d, f in triples),
        "projections": max(
            float((d.project(head) - f.project(head)).abs().max())
            for d, f, head in zip(dense.maps, factored.maps, dense.heads, strict=True)
        ),
        "heads": max(float((a - b).abs().max()) for a, b in zip(dense.heads, factored.heads, strict=True)),
    }


def _largest_map_step(case: Case, outcome: Outcome) -> float:
    """How far any entry of the first client's maps is from its start: what equal storages have in common."""
    starts = MAP_STORAGES["dense"](case.starts[0], case.head_dim, dtype=case.dtype)
    return max(float((outcome.maps[0].dense(n) - starts.dense(n)).abs().max()) for n in starts.rows)


def _case(options: argparse.Namespace, head_dim: int, compression: float, dtype: torch.dtype) -> Case:
    layout = HeadLayout(N_OUTPUTS, (("fused", head_dim // N_OUTPUTS - 1),))
    draws = torch.Generator().manual_seed(options.seed)
    starts: dict[int, dict[int, Tensor]] = {client: {} for client in range(N_CLIENTS)}
    for a, b in nx.random_regular_graph(DEGREE, N_CLIENTS, seed=options.seed).edges:
        edge = named_stream(options.seed, "restriction_maps", min(a, b), max(a, b))
        starts[a][b], starts[b][a] = structured_starts(layout, layout, compression, edge)
    heads = [initial_head(layout, draws).to(dtype) for _ in range(N_CLIENTS)]
    targets = [initial_head(layout, draws).to(dtype) for _ in range(N_CLIENTS)]
    return Case(layout.dim, compression, dtype, options.rounds, starts, heads, targets)


def _head_size(text: str) -> int:
    size = int(text)
    if size % N_OUTPUTS or size < 2 * N_OUTPUTS:
        raise argparse.ArgumentTypeError(f"must be a multiple of {N_OUTPUTS} from {2 * N_OUTPUTS} on, got {size}")
    return size


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=95, help="from 96 on, histories are truncated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--head-sizes", type=_head_size, nargs="+", default=[2112, 4160], metavar="N")
    parser.add_argument("--compressions", type=float, nargs="+", default=[0.1, 0.23], metavar="X")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
