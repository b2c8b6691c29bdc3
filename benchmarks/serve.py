"""How many frames a second a served bundle answers on one core, and what ten minutes of it cost: prints JSON.

    python benchmarks/serve.py [--bundles DIR/a DIR/a-int8] [--below-ms 20] [--streams 10] [--seconds 5] [--repeats 3]
    python benchmarks/serve.py --soak 600 [--soak-streams 100] [--soak-rate 10]

Without --bundles it runs `blockage` for two rounds and exports its first client, as float32 and int8. The server is a
process of its own on one core, the sensors are on the others. They send at a steady rate whether answers come or not,
and latency counts from the instant at which a question should have been sent, so that a server that falls behind cannot
hide it. A question without an answer counts as one that waits for ever. The highest rate whose 99th percentile stays
below the limit is searched by doubling, then by halving the gap; bundles take turns. Whatever else the machine does
only ever makes latency worse, so a rate counts as kept if it is kept once in --tries.

On a busy machine that figure is the machine's all the same. CPU time per answer, told for the highest rate that was
kept, is the model's and the runtime's own, and 1000 over it is what the core could do if it were free.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sheafedge.benchmarks._load import Heard, Sensors, ServedProcess, serving
from sheafedge.benchmarks._repeats import spread
from sheafedge.benchmarks.machine import machine_facts, print_report, say

_COMMAND = (sys.executable, "-P", "-c", "from sheafedge.scenarios.entry import main; main()")
_FIRST_RATE = 8.0  # questions a second
_HALVINGS = 4  # the rate is known to 2^(1/16), 4 percent
_WARM_UP = 0.1  # share of a soak


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=Path, nargs="+", help="folders of bundles")
    parser.add_argument("--below-ms", type=float, default=20.0)
    parser.add_argument("--streams", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0, help="of every rate that is tried")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tries", type=int, default=3, help="of a rate, until it is kept")
    parser.add_argument("--most-rate", type=float, default=1e5, help="questions a second; no more are tried")
    parser.add_argument("--soak", type=float, help="seconds; no search then")
    parser.add_argument("--soak-streams", type=int, default=100)
    parser.add_argument("--soak-rate", type=float, default=10.0, help="questions a second of every stream")
    chosen = parser.parse_args(arguments)
    machine = machine_facts()
    with tempfile.TemporaryDirectory(prefix="serve-") as folder:
        bundles = chosen.bundles or exported(Path(folder))
        figures = soaks(bundles, chosen) if chosen.soak else searches(bundles, chosen)
    print_report("serve", machine, figures)


def exported(folder: Path) -> list[Path]:
    """Bundles of one client of a short run, float32 and int8."""
    run = folder / "run"
    for arguments in (
        ("run", "blockage", "--set", "rounds=2", "--out", str(run)),
        ("export", str(run), "--clients", "0", "--quantize", "none", "-o", str(folder / "float32")),
        ("export", str(run), "--clients", "0", "--quantize", "int8", "-o", str(folder / "int8"), "--max-loss", "1"),
    ):
        say(f"sheafedge {' '.join(arguments)}")
        subprocess.run([*_COMMAND, *arguments], check=True, stdout=sys.stderr, cwd=folder)  # noqa: S603
    return sorted(path for name in ("float32", "int8") for path in (folder / name).iterdir() if path.is_dir())


def searches(bundles: Sequence[Path], chosen: argparse.Namespace) -> dict[str, Any]:
    """The highest rate of every bundle, again and again in turns."""
    rates: dict[str, list[float]] = {}
    cpu_ms: dict[str, list[float]] = {}
    at_best: dict[str, list[dict[str, float | None]]] = {}
    for repeat in range(chosen.repeats):
        for bundle in bundles:
            with serving(bundle, "--waiting", "4") as served:
                rate, heard, ms = highest_rate(served, chosen)
            say(f"repeat {repeat + 1}/{chosen.repeats}: {bundle.name} {rate:.0f} questions/s, {ms:.2f} ms CPU each")
            rates.setdefault(bundle.name, []).append(rate)
            cpu_ms.setdefault(bundle.name, []).append(ms)
            at_best.setdefault(bundle.name, []).append(quantiles(heard))
    return {
        "below_ms": chosen.below_ms,
        "streams": chosen.streams,
        "seconds_of_a_rate": chosen.seconds,
        "questions_per_s": {name: spread(found) for name, found in rates.items()},
        "cpu_ms_per_answer": {name: spread(found) for name, found in cpu_ms.items()},
        "latency_ms_at_that_rate": at_best,
    }


def highest_rate(served: ServedProcess, chosen: argparse.Namespace) -> tuple[float, Heard, float]:
    """Questions a second that are kept, what became of them, and the server's CPU time per answer then, in ms.

    A server that cannot keep the lowest rate has rate 0.
    """
    sensors = Sensors(served, chosen.streams)
    try:
        sensors.fill_windows()
        sensors.ask(_FIRST_RATE, min(1.0, chosen.seconds))  # warms up
        best, best_heard, best_ms, rate, above = 0.0, Heard(), 0.0, _FIRST_RATE, 0.0
        while not is_narrow(best, above) and rate <= chosen.most_rate:
            for _ in range(chosen.tries):
                cpu_s = served.cpu_s()
                heard = sensors.ask(rate, chosen.seconds)
                if heard.quantile_ms(0.99) < chosen.below_ms:
                    best, best_heard = rate, heard
                    best_ms = 1000.0 * (served.cpu_s() - cpu_s) / len(heard.latency_s)
                    break
            else:
                above = rate
            rate = float(np.sqrt(best * above)) if above else 2.0 * rate
        return best, best_heard, best_ms
    finally:
        sensors.close()


def is_narrow(best: float, above: float) -> bool:
    """Whether the gap between what went well and what did not is small enough, or nothing goes well."""
    return above > 0.0 and (best == 0.0 or above / best < 2 ** (1.5 / 2**_HALVINGS))


def soaks(bundles: Sequence[Path], chosen: argparse.Namespace) -> dict[str, Any]:
    """Memory and counts of every bundle under a load that stays."""
    return {
        "soak_s": chosen.soak,
        "soak_streams": chosen.soak_streams,
        "questions_per_s": chosen.soak_streams * chosen.soak_rate,
        "soaks": {bundle.name: soak(bundle, chosen) for bundle in bundles},
    }


def soak(bundle: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """One bundle; every question must be settled, and both ends must have counted the same."""
    watch: list[tuple[float, float]] = []
    with serving(bundle) as served:
        before = served.resident_mib()
        sensors = Sensors(served, chosen.soak_streams)
        try:
            sensors.fill_windows()
            heard = sensors.ask(chosen.soak_streams * chosen.soak_rate, chosen.soak, watch)
            counted, cpu_s = sensors.report(), served.cpu_s()
        finally:
            sensors.close()
    seconds, mib = np.array(watch).T
    settled = seconds >= _WARM_UP * chosen.soak
    say(f"{bundle.name}: {heard.n_sent} questions, {len(heard.latency_s)} answers, {mib[-1]:.1f} MiB at the end")
    return {
        "questions": heard.n_sent,
        "answers": len(heard.latency_s),
        "dropped_and_told": heard.n_dropped,
        "refused": heard.n_refused,
        "not_settled": heard.n_sent - heard.n_ended,
        "counted_by_the_server": counted,
        "latency_ms": quantiles(heard),
        "cpu_ms_per_answer": round(1000.0 * cpu_s / max(1, len(heard.latency_s)), 3),
        "resident_mib": {
            "before_the_first_frame": round(before, 2),
            "after_warm_up": round(float(mib[settled][0]), 2),
            "end": round(float(mib[-1]), 2),
            "max": round(float(mib.max()), 2),
        },
        "growth_mib_per_minute": round(60.0 * float(np.polyfit(seconds[settled], mib[settled], 1)[0]), 4)
        if settled.sum() > 2
        else None,
    }


def quantiles(heard: Heard) -> dict[str, float | None]:
    """Of the latency of all questions in ms; null: more than that share had no answer."""
    named = {f"p{100 * share:g}": heard.quantile_ms(share) for share in (0.5, 0.95, 0.99)}
    return {name: round(ms, 3) if np.isfinite(ms) else None for name, ms in named.items()}


if __name__ == "__main__":
    main()
