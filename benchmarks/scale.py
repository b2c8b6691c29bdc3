"""What a client costs in a crowd: time per client and round, and memory per client, from 20 clients to 1000.

    python benchmarks/scale.py [--clients 20 100 300 1000] [--graphs ring regular] [--transports zmq]
        [--rounds 2] [--repeats 7] [--seed 0] [--sampled 1000] [--of 1000 100000]

The scenario is beam_tracking with models as small as they get, one local step per round and links that lose packets, so
that what is timed is the emulator. All clients share the rows of two base stations: data are made once and weigh
nothing. Sizes take turns in one process, each with a crowd of its own that goes on where it stopped. Memory is that of
a fresh process per size and graph: what it grows by while base stations are built and play their rounds.

`--of` draws `--sampled` clients for every round, with a server, out of crowds of these sizes: cost per client that
takes part, and what a client that sleeps takes. `--clients` without numbers leaves the rest out.
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

    def sampled(self, n_clients: int, n_sampled: int, transport: str) -> Emulation:
        """Clients of a server, of which so many are drawn for every round."""
        edits = {"algorithm": "fedavg", "clients.n_clients": n_clients, "clients.sampled": n_sampled}
        data = list(islice(cycle(self.rows), n_clients))
        scenario = self.scenario.edited({**edits, "network.transport": transport, "compute.awake_clients": n_sampled})
        return build(scenario, data, lambda learner, _: learner.health(), lambda *_: None)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = _options(argv)
    crowds = Crowds.of(options.seed)
    if options.memory_of is not None:
        print(json.dumps(_memory_here(crowds, *options.memory_of, options.rounds)))
        return
    if options.sampled_memory_of is not None:
        print(json.dumps(_sampled_memory_here(crowds, options.sampled_memory_of, options)))
        return
    machine = machine_facts()
    figures: dict[str, Any] = {
        "options": {name: value for name, value in vars(options).items() if not name.endswith("memory_of")}
    }
    if options.clients:
        figures |= {
            "traffic_per_client_and_round": {
                graph: _traffic(crowds, options.clients[0], graph, options.rounds) for graph in options.graphs
            },
            "rounds": _times(crowds, options),
            "memory": {graph: _memories(options, graph) for graph in options.graphs},
        }
    if options.of:
        figures["sampled"] = {transport: _sampled(crowds, options, transport) for transport in options.transports}
        figures["memory_of_sampled"] = {
            str(n): _in_a_process(options, "--sampled-memory-of", str(n)) for n in options.of
        }
    print_report("scale", machine, figures)


class Played:
    """One crowd that plays some rounds more in every repeat, as long as the others do."""

    def __init__(self, make: Callable[[], Emulation], rounds: int) -> None:
        begin_s = time.process_time()
        self.emulation = make()
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
                make = partial(crowds.emulation, n_clients, graph, transport)
                crowd = played[n_clients] = Played(make, options.rounds)
                open_until_the_end.callback(crowd.emulation.close)
            arms: dict[str, Arm] = {str(n_clients): crowd.more_rounds for n_clients, crowd in played.items()}
            timings = interleaved(arms, options.repeats)
        built_s = {n_clients: crowd.built_s for n_clients, crowd in played.items()}
        shares = {name: 1.0 / (int(name) * options.rounds) for name in timings}
        figures[f"{graph}/{transport}"] = _figures(timings, built_s, shares)
    return figures


def _sampled(crowds: Crowds, options: argparse.Namespace, transport: str) -> dict[str, Any]:
    """Cost per client that takes part, by the number of all clients."""
    say(f"{options.sampled} of each {options.of}, {transport}")
    with one_torch_thread(), ExitStack() as open_until_the_end:
        played = {}
        for n_clients in options.of:
            crowd = played[n_clients] = Played(
                partial(crowds.sampled, n_clients, options.sampled, transport), options.rounds
            )
            open_until_the_end.callback(crowd.emulation.close)
        timings = interleaved({str(n): crowd.more_rounds for n, crowd in played.items()}, options.repeats)
    shares = dict.fromkeys(timings, 1.0 / (options.sampled * options.rounds))
    return _figures(timings, {n: crowd.built_s for n, crowd in played.items()}, shares)


def _sampled_memory_here(crowds: Crowds, n_clients: int, options: argparse.Namespace) -> dict[str, float]:
    """What this process grows by when such a crowd is built and when it plays rounds, and what sleepers take."""
    with one_torch_thread():
        first = crowds.sampled(N_DATA + 1, N_DATA, "memory")
        emulate(first, 1)
        before = _status_kib("VmRSS")
        emulation = crowds.sampled(n_clients, options.sampled, "memory")
        built = _status_kib("VmRSS")
        emulate(emulation, options.rounds)
        found = {
            "built_mib": round((built - before) / 1024, 1),
            "played_mib": round((_status_kib("VmRSS") - before) / 1024, 1),
            "peak_mib": round((_status_kib("VmHWM") - before) / 1024, 1),
        }
        if emulation.nodes is not None:
            table = emulation.nodes.table
            found |= {"rows": table.n_rows, "bytes_per_row": round(table.row_bytes / max(1, table.n_rows), 1)}
        first.close()
        emulation.close()
    return found


def _figures(
    timings: Mapping[str, Sequence[Timing]], built_s: Mapping[int, float], share: Mapping[str, float]
) -> dict[str, Any]:
    """Of every size; growth is over the smallest, repeat by repeat, so that neighbors in time are compared."""
    wall = {name: [t.wall_s * share[name] for t in seen] for name, seen in timings.items()}
    cpu = {name: [t.cpu_s * share[name] for t in seen] for name, seen in timings.items()}
    first = next(iter(timings))
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
        of_size[str(n_clients)] = _in_a_process(options, "--memory-of", str(n_clients), graph)
        say(f"memory of {n_clients} on a {graph}: {of_size[str(n_clients)]}")
    return of_size


def _in_a_process(options: argparse.Namespace, *asked: str) -> dict[str, Any]:
    code = "import sys; from sheafedge.benchmarks.scale import main; main(sys.argv[1:])"
    told = [*asked, "--rounds", str(options.rounds), "--seed", str(options.seed), "--sampled", str(options.sampled)]
    done = subprocess.run([sys.executable, "-c", code, *told], check=True, capture_output=True, text=True)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout)
    return found


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
    parser.add_argument("--clients", nargs="*", type=int, default=[20, 100, 300, 1000], help="each at least 6")
    parser.add_argument("--sampled", type=int, default=1000, help="clients of a round, of those of --of")
    parser.add_argument("--of", nargs="*", type=int, default=[], help="sizes of crowds with a server")
    parser.add_argument("--graphs", nargs="+", choices=("ring", "regular"), default=["ring", "regular"])
    parser.add_argument("--transports", nargs="+", choices=("zmq", "memory"), default=["zmq"])
    parser.add_argument("--rounds", type=int, default=2, help="per repeat")
    parser.add_argument("--repeats", type=int, default=7, help="of every size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory-of", nargs=2, metavar=("N", "GRAPH"), help="only: memory of this process")
    parser.add_argument("--sampled-memory-of", type=int, metavar="N", help="only: the same of such a crowd")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
