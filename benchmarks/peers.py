"""Rounds per second of other software on the problem of `ring_mlp.py`, beside the emulator and the bare loop.

    python benchmarks/peers.py --python gossipy=gossipy/bin/python --python flower=flower/bin/python

Peers run in processes of their own Pythons, so that nothing of theirs has to be installed with ours; the report says
how to have each, and in one sentence why one was left out. `SHEAFEDGE_PEER_GOSSIPY=gossipy/bin/python` in the
environment does the same as `--python`. Arms take turns; only rounds are timed, and every arm plays some before that.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from sheafedge.benchmarks._peer_runs import PEERS, NotRunError, PeerRuns
from sheafedge.benchmarks._repeats import Timing, spread, timed
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.benchmarks.ring_mlp import (
    ARMS,
    LastStates,
    Problem,
    bare_arm,
    batched_pool,
    emulated_arm,
    ring_problem,
)
from torch import Tensor
from torch.nn.utils import vector_to_parameters


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = _options(argv)
    machine = machine_facts()
    problem = ring_problem(options.seed, options.clients, options.rounds, pool_threads=1)
    states = LastStates()
    with tempfile.TemporaryDirectory() as folder:
        peers = PeerRuns(options.python, options.workers, Path(folder), states)
        peers.give(problem)
        timings, skipped = _take_turns(_arms(problem, states, peers), options.repeats)
    figures = {
        "options": vars(options),
        "arms": {name: ARMS[name] if name in ARMS else PEERS[name].what_runs for name in timings},
        "peers": {name: {**peer.facts(), "versions": peers.versions.get(name)} for name, peer in PEERS.items()},
        "skipped": skipped,
        "rounds_per_s": {arm: spread([options.rounds / one.wall_s for one in seen]) for arm, seen in timings.items()},
        "speed_over_bare": _over_bare(timings, lambda one: one.wall_s),
        "speed_per_cpu_s_over_bare": _over_bare(
            {arm: seen for arm, seen in timings.items() if arm in ARMS or PEERS[arm].one_process},
            lambda one: one.cpu_s,
        ),
        "accuracy_on_own_samples": {arm: _accuracy(problem, states.by_arm[arm]) for arm in timings},
    }
    print_report("peers", machine, figures)


def _arms(problem: Problem, states: LastStates, peers: PeerRuns) -> dict[str, Callable[[], Timing]]:
    """Name -> one repeat."""
    ours: dict[str, Callable[[], Timing]] = {
        "emulated_batched": lambda: timed(
            lambda: emulated_arm(problem, batched_pool(problem), "emulated_batched", states)
        ),
        "bare": lambda: timed(lambda: bare_arm(problem, 1, "bare", states)),
    }
    return ours | {name: partial(peers.timing, name) for name in PEERS}


def _take_turns(
    arms: Mapping[str, Callable[[], Timing]], repeats: int
) -> tuple[dict[str, list[Timing]], dict[str, str]]:
    """Timings of every arm that ran, after a turn that does not count, and a sentence for every other."""
    timings: dict[str, list[Timing]] = {name: [] for name in arms}
    skipped: dict[str, str] = {}
    for turn in range(-1, repeats):
        for name in list(timings):
            if turn < 0 and name in PEERS:
                continue  # their processes warm up by themselves, every time
            try:
                timing = arms[name]()
            except NotRunError as error:
                skipped[name] = str(error)
                del timings[name]
                say(skipped[name])
                continue
            say(f"{'warm-up' if turn < 0 else f'repeat {turn + 1}/{repeats}'}: {name} {timing.wall_s:.3f} s")
            if turn >= 0:
                timings[name].append(timing)
    return timings, skipped


def _over_bare(
    timings: Mapping[str, Sequence[Timing]], seconds: Callable[[Timing], float]
) -> dict[str, dict[str, float]]:
    """How often as fast as the bare loop, repeat by repeat."""
    return {
        arm: spread([seconds(bare) / seconds(one) for bare, one in zip(timings["bare"], seen, strict=True)])
        for arm, seen in timings.items()
        if arm != "bare"
    }


def _accuracy(problem: Problem, states: Tensor) -> float:
    """Mean share of a client's samples that its last model gets right: whether an arm has trained at all."""
    model, shares = problem.model(), []
    with torch.no_grad():
        for state, inputs, labels in zip(states, problem.inputs, problem.labels, strict=True):
            vector_to_parameters(state, model.parameters())
            shares.append(float((model(inputs).argmax(1) == labels).float().mean()))
    return sum(shares) / len(shares)


def _named_python(text: str) -> tuple[str, str]:
    name, _, python = text.partition("=")
    if name not in PEERS or not python:
        known = ", ".join(PEERS)
        raise argparse.ArgumentTypeError(f"{text!r} must be PEER=PATH, PEER one of {known}, PATH its interpreter")
    return name, python


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", metavar="PEER=PATH", type=_named_python, action="append", default=[])
    parser.add_argument("--rounds", type=int, default=10, help="per repeat")
    parser.add_argument("--repeats", type=int, default=5, help="of every arm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, default=20, help="on the ring; at least 3")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes for a peer that uses several")
    options = parser.parse_args(argv)
    variables = {name: os.environ.get(f"SHEAFEDGE_PEER_{name.upper()}") for name in PEERS}
    options.python = {name: python for name, python in variables.items() if python} | dict(options.python)
    return options


if __name__ == "__main__":
    main()
