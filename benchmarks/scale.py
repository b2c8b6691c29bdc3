"""What a client costs in a crowd: time per client and round, and memory per client, from 20 clients to 1000.

    python benchmarks/scale.py [--clients 20 100 300 1000] [--graphs ring regular] [--transports zmq]
        [--rounds 2] [--repeats 7] [--seed 0]

The scenario is beam_tracking with models as small as they get, one local step per round and links that lose packets, so
that what is timed is the emulator. All clients share the rows of two base stations: data are made once and weigh
nothing. Sizes take turns in one process, each with a crowd of its own that goes on where it stopped. Memory is that of
a fresh process per size and graph: what it grows by while base stations are built and play their rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

from sheafedge.benchmarks._repeats import Arm, Timing, interleaved, spread
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.data import ClientData, load_data
from sheafedge.scenarios.wiring.emulation import Emulation, build, emulate
from sheafedge.scenarios.wiring.torch_setup import one_torch_thread

#: Clients whose rows everybody shares.
N_DATA = 2
#: Small crowds are built several times over, so that what is measured stands out from what a process wastes.
CLIENTS_IN_MEMORY = 300
TINY = {
    "clients.n_clients": N_DATA,
    "clients.groups": [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}],
    "world.n_sites": N_DATA,
    "world.duration_s": 60,
    "data.n_beams": 8,
    "data.window": 2,
    "model.embedding_dim": 4,
    "model.hidden_dim": 8,
    "training.local_steps": 1,
    "training.batch_size": 8,
    "topology.degree": 4,
    "compute.device": "cpu",
    "export.onnx": False,
}


@dataclass(frozen=True, slots=True)
class Crowds:
    """Emulations of any number of clients over the same rows."""

    scenario: Scenario
    rows: Sequence[ClientData]

    @classmethod
    def of(cls, seed: int) -> Crowds:
        """The tiny scenario; its recording is made or found."""
        scenario = load_scenario("beam_tracking").edited({**TINY, "seed": seed})
        return cls(scenario, load_data(scenario).clients)

    def emulation(self, n_clients: int, graph: str, transport: str) -> Emulation:
        """Everything of a run; its base stations report their health to nobody."""
        edits = {"clients.n_clients": n_clients, "topology.kind": graph, "network.transport": transport}
        data = list(islice(cycle(self.rows), n_clients))
        return build(self.scenario.edited(edits), data, lambda learner, _: learner.health(), lambda *_: None)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = _options(argv)
    crowds = Crowds.of(options.seed)
    if options.memory_of is not None:
        print(json.dumps(_memory_here(crowds, *options.memory_of, options.rounds)))
        return
    machine = machine_facts()
    figures = {
        "options": {name: value for name, value in vars(options).items() if name != "memory_of"},
        "traffic_per_client_and_round": {
            graph: _traffic(crowds, options.clients[0], graph, options.rounds) for graph in options.graphs
        },
        "rounds": _times(crowds, options),
        "memory": {graph: _memories(options, graph) for graph in options.graphs},
    }
    print_report("scale", machine, figures)


class Played:
    """One crowd that plays some rounds more in every repeat, as long as the others do."""

    def __init__(self, crowds: Crowds, n_clients: int, graph: str, transport: str, rounds: int) -> None:
        begin_s = time.process_time()
        self.emulation = crowds.emulation(n_clients, graph, transport)
        self.built_s = time.process_time() - begin_s
        self._rounds, self._next_round = rounds, 0

    @contextmanager
    def more_rounds(self) -> Iterator[Callable[[], None]]:
        """The next rounds, to be timed."""
        first, self._next_round = self._next_round, self._next_round + self._rounds
        yield partial(emulate, self.emulation, self._next_round, first)


def _times(crowds: Crowds, options: argparse.Namespace) -> dict[str, Any]:
    """Graph / transport -> what building and playing costs at every size, and how that grows."""
    figures = {}
    for graph, transport in product(options.graphs, options.transports):
        say(f"{graph}, {transport}")
        with one_torch_thread(), ExitStack() as open_until_the_end:
            played = {}
            for n_clients in options.clients:
                crowd = played[n_clients] = Played(crowds, n_clients, graph, transport, options.rounds)
                open_until_the_end.callback(crowd.emulation.close)
            arms: dict[str, Arm] = {str(n_clients): crowd.more_rounds for n_clients, crowd in played.items()}
            timings = interleaved(arms, options.repeats)
        built_s = {n_clients: crowd.built_s for n_clients, crowd in played.items()}
        figures[f"{graph}/{transport}"] = _figures(timings, built_s, options)
    return figures


def _figures(
    timings: Mapping[str, Sequence[Timing]], built_s: Mapping[int, float], options: argparse.Namespace
) -> dict[str, Any]:
    """Of every size; growth is over the smallest, repeat by repeat, so that neighbors in time are compared."""
    share = {name: 1.0 / (int(name) * options.rounds) for name in timings}
    wall = {name: [t.wall_s * share[name] for t in seen] for name, seen in timings.items()}
    cpu = {name: [t.cpu_s * share[name] for t in seen] for name, seen in timings.items()}
    first = str(options.clients[0])
    return {
        "ms_per_client_and_round": {name: spread([1e3 * s for s in seen]) for name, seen in wall.items()},
        "cpu_ms_per_client_and_round": {name: spread([1e3 * s for s in seen]) for name, seen in cpu.items()},
        "growth": {name: _growth(seen, wall[first]) for name, seen in wall.items()},
        "cpu_growth": {name: _growth(seen, cpu[first]) for name, seen in cpu.items()},
        "cpu_ms_to_build_a_client": {str(n): 1e3 * s / n for n, s in built_s.items()},
    }


def _growth(large: Sequence[float], small: Sequence[float]) -> dict[str, float]:
    return spread([a / b for a, b in zip(large, small, strict=True)])


def _traffic(crowds: Crowds, n_clients: int, graph: str, rounds: int) -> dict[str, float]:
    emulation = crowds.emulation(n_clients, graph, "memory")
    try:
        emulate(emulation, rounds)
    finally:
        emulation.close()
    counts = emulation.recorder.traffic.as_dict()
    return {name: count / (n_clients * rounds) for name, count in counts.items() if name != "by_kind"}


def _memories(options: argparse.Namespace, graph: str) -> dict[str, Any]:
    """What a client weighs at every size, each measured in a process of its own."""
    of_size = {}
    for n_clients in options.clients:
        code = "import sys; from sheafedge.benchmarks.scale import main; main(sys.argv[1:])"
        told = ["--memory-of", str(n_clients), graph, "--rounds", str(options.rounds), "--seed", str(options.seed)]
        done = subprocess.run([sys.executable, "-c", code, *told], check=True, capture_output=True, text=True)  # noqa: S603
        of_size[str(n_clients)] = json.loads(done.stdout)
        say(f"memory of {n_clients} on a {graph}: {of_size[str(n_clients)]}")
    return of_size


def _memory_here(crowds: Crowds, n_clients: str, graph: str, rounds: int) -> dict[str, float]:
    """Growth of this process per client, over one that has played before and still holds what it played with."""
    n, copies = int(n_clients), max(1, CLIENTS_IN_MEMORY // int(n_clients))
    with one_torch_thread(), ExitStack() as open_until_the_end:

        def play(n_clients: int, graph: str) -> None:
            emulation = crowds.emulation(n_clients, graph, "zmq")
            open_until_the_end.callback(emulation.close)  # which also keeps it
            emulate(emulation, rounds)

        play(N_DATA + 1, "ring")
        before = _status_kib("VmRSS")
        for _ in range(copies):
            play(n, graph)
        return {
            "kib_per_client": round((_status_kib("VmRSS") - before) / (copies * n), 1),
            "peak_kib_per_client": round((_status_kib("VmHWM") - before) / (copies * n), 1),
        }


def _status_kib(name: str) -> int:
    """Not `getrusage`, whose maximum survives exec and would be that of the process that started this one."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split(f"{name}:")[1].split()[0])


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", nargs="+", type=int, default=[20, 100, 300, 1000], help="each at least 6")
    parser.add_argument("--graphs", nargs="+", choices=("ring", "regular"), default=["ring", "regular"])
    parser.add_argument("--transports", nargs="+", choices=("zmq", "memory"), default=["zmq"])
    parser.add_argument("--rounds", type=int, default=2, help="per repeat")
    parser.add_argument("--repeats", type=int, default=7, help="of every size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory-of", nargs=2, metavar=("N", "GRAPH"), help="only: memory of this process")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
