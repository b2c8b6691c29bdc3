"""Growth of a run with its rounds: resident memory, and size of a checkpoint and of each of its parts.

    python benchmarks/memory.py [--scenario beam_tracking] [--rounds 100] [--every 20]
        [--edits '{"clients.n_clients": 6}']

One run in a process of its own, with a checkpoint after every so many rounds. Resident memory is read where a round
ends, before its checkpoint; the peak includes the writing of checkpoints. Growth is the slope of a line through the
second half of the values: the first rounds still fill caches and the pools of the allocator.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from sheafedge.benchmarks.machine import machine_facts, print_report, say
from sheafedge.emulator.contracts import State
from sheafedge.scenarios.running.checkpoint import read_checkpoint
from sheafedge.scenarios.running.interrupted_run import CHECKPOINTS
from sheafedge.scenarios.running.progress import NoRunProgress
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import load_scenario

#: Exports and pictures come after the rounds.
ROUNDS_ONLY = {"export.onnx": False, "export.pictures": 0}
#: Parts of a checkpoint are told apart down to this depth; lists, as of clients, are summed.
DEPTH = 4
#: Bytes by which counters and decimals differ from one checkpoint to the next.
DIGITS = 256


class MemoryProgress(NoRunProgress):
    """Reads resident memory at the end of every round, and the sizes of checkpoints.

    Args:
        folder: of the checkpoints.
        every: rounds from one checkpoint to the next.

    Attributes:
        resident_mb: [rounds] after each.
        checkpoints: rounds done -> bytes of the file, and of its parts by name.
    """

    def __init__(self, folder: Path, every: int) -> None:
        self._folder, self._every = folder, every
        self.resident_mb: list[float] = []
        self.checkpoints: dict[int, dict[str, int]] = {}

    def round_ended(self, round_index: int, now_s: float, score: float | None) -> None:
        """The checkpoint of the round before is written by now."""
        self.resident_mb.append(_status_mb("VmRSS"))
        if round_index and round_index % self._every == 0:
            checkpoint = read_checkpoint(self._folder)
            self.checkpoints[round_index] = {"file": checkpoint.path.stat().st_size, **_parts(checkpoint.state)}
            say(f"{round_index} rounds: {self.resident_mb[-1]:.0f} MB, {self.checkpoints[round_index]['file']:,} bytes")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = _options(argv)
    machine = machine_facts()
    edits = {**ROUNDS_ONLY, "rounds": options.rounds, "evaluate_every": options.rounds, **options.edits}
    # one round more: the last checkpoint is read at the end of the round behind it
    scenario = load_scenario(options.scenario).edited(
        {**edits, "checkpoint_every": options.every, "rounds": options.rounds + 1}
    )
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "run"
        progress = MemoryProgress(target.with_name("run.partial") / CHECKPOINTS, options.every)
        run_scenario(scenario, target, progress)
    sizes = {rounds: parts["file"] for rounds, parts in progress.checkpoints.items()}
    figures = {
        "options": vars(options),
        "clients": scenario.clients.n_clients,
        "resident_mb": {str(n): progress.resident_mb[n - 1] for n in sizes},
        "peak_mb": _status_mb("VmHWM"),
        "resident_mb_per_round": _slope(range(len(progress.resident_mb)), progress.resident_mb),
        "checkpoint_bytes": {str(n): size for n, size in sizes.items()},
        "checkpoint_bytes_per_round": _slope(list(sizes), list(sizes.values())),
        "checkpoint_parts_that_grow": _growing(progress.checkpoints[min(sizes)], progress.checkpoints[max(sizes)]),
    }
    print_report("memory", machine, figures)


def _parts(state: State, name: str = "", depth: int = 0) -> dict[str, int]:
    """Bytes of every part, numbers and text as JSON would write them."""
    if isinstance(state, dict) and depth < DEPTH:
        found = [_parts(part, f"{name}.{key}".lstrip("."), depth + 1) for key, part in state.items()]
        return {key: size for parts in found for key, size in parts.items()}
    if isinstance(state, list) and depth < DEPTH:
        sums: dict[str, int] = {}
        for element in state:
            for key, size in _parts(element, f"{name}[]", depth).items():
                sums[key] = sums.get(key, 0) + size
        return sums
    return {name: _bytes(state)}


def _growing(first: Mapping[str, int], last: Mapping[str, int]) -> dict[str, list[int]]:
    """Part -> bytes in the first and in the last checkpoint, of parts that differ by more than digits of numbers."""
    return {name: [first.get(name, 0), size] for name, size in last.items() if abs(size - first.get(name, 0)) > DIGITS}


def _bytes(state: State) -> int:
    if isinstance(state, np.ndarray):
        return int(state.nbytes)
    if isinstance(state, dict | list):
        return sum(map(_bytes, state.values() if isinstance(state, dict) else state))
    return len(json.dumps(state))


def _slope(rounds: Sequence[int], values: Sequence[float]) -> float:
    """Change per round, by least squares over the second half."""
    half = len(values) // 2
    if len(values) - half < 2:
        return 0.0
    return float(np.polyfit(rounds[half:], values[half:], 1)[0])


def _status_mb(name: str) -> float:
    """Not `getrusage`, whose maximum survives exec and would be that of the process that started this one."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split(f"{name}:")[1].split()[0]) / 1024


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenario", default="beam_tracking", help="name, or path of a file")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--every", type=int, default=20, help="rounds from one checkpoint to the next")
    parser.add_argument("--edits", type=json.loads, default={}, metavar="JSON", help="fields of the scenario")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
