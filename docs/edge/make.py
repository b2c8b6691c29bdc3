"""Makes the tables of `docs/edge_results.md`: fewer bits, a lost sensor, a base station that joins late and tunes.

    make edge [ARGS="--runs runs/edge --only blockage"]

Runs and figures that are there already are not made again: it continues where it stopped, and one machine can run what
another has not. Scenarios are smaller than as shipped (`SMALLER`), so that all of it takes an hour of two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich.console import Console

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from arrivals import arrival_table, tuned_on_arrival  # noqa: E402 - a script beside its modules
from measures import (  # noqa: E402
    Figures,
    fewer_bits,
    late_joiners,
    lost_sensors,
    newcomers_of,
    with_one_sensor,
    without_newcomers,
)
from sheafedge.scenarios.export.bundle_evidence import HELD_OUT, WITHOUT  # noqa: E402
from sheafedge.scenarios.export.export_source import ExportRequest  # noqa: E402
from sheafedge.scenarios.export.finished_run import FinishedRun, finished_run  # noqa: E402
from sheafedge.scenarios.running.run import run_scenario  # noqa: E402
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario  # noqa: E402
from sheafedge.scenarios.tasks.task_table import TASKS  # noqa: E402
from sheafedge.scenarios.wiring.torch_setup import one_torch_thread  # noqa: E402

PAGE = HERE.parent / "edge_results.md"

_EIGHT = {"world.n_sites": 8, "clients.n_clients": 8, "topology.kind": "complete"}
#: Scenario -> what is changed, so that three seeds take minutes.
SMALLER: Mapping[str, Mapping[str, Any]] = {
    "blockage": _EIGHT,
    "drone_beam": {**_EIGHT, "rounds": 20},
    "beam_tracking": {},
}
ALWAYS = {"compute.executor": "serial", "export.pictures": 0}
#: Ways to make a model smaller that are compared.
VARIANTS: Mapping[str, ExportRequest] = {
    "float16": ExportRequest(precision="float16"),
    "int8, minmax": ExportRequest(precision="int8"),
    "int8, percentile": ExportRequest(precision="int8", calibration="percentile"),
}
SHIPPED_VARIANT = "int8, minmax"
#: Scenario -> seeds; the drones' images take longest.
SEEDS: Mapping[str, Sequence[int]] = {"blockage": (0, 1, 2), "drone_beam": (0, 1, 2), "beam_tracking": (0, 1, 2)}
#: Where sensors are lost, and base stations join late.
FEWER_SENSORS = "blockage"
#: Probability by which a run hides each sensor of a training sample.
HIDDEN = 0.3

CONSOLE = Console(emoji=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/edge"), help="folder of runs and figures")
    parser.add_argument("--seeds", type=int, nargs="*", help="only these of the scenario's")
    parser.add_argument("--only", nargs="*", default=list(SMALLER), metavar="SCENARIO", help="run only these")
    parser.add_argument("--no-runs", action="store_true", help="write the page from what is there")
    options = parser.parse_args(arguments)
    options.runs.mkdir(parents=True, exist_ok=True)
    with one_torch_thread():
        for name in [] if options.no_runs else options.only:
            for seed in options.seeds or SEEDS[name]:
                _all_of(options.runs, name, seed)
    _write_page(options.runs)


def _all_of(runs: Path, name: str, seed: int) -> None:
    """Every run and figure of one scenario and seed."""
    joint = _run(runs, f"{name}-joint-{seed}", _scenario(name, seed))
    variants = VARIANTS if seed == 0 else {SHIPPED_VARIANT: VARIANTS[SHIPPED_VARIANT]}
    _figures(runs, f"bits-{name}-{seed}", lambda: fewer_bits(joint, variants))
    if name == FEWER_SENSORS:
        single = [
            _run(runs, f"{name}-{kept}-{seed}", with_one_sensor(joint.scenario, index))
            for index, kept in enumerate(("first", "second"))
        ]
        hidden = _run(runs, f"{name}-hidden-{seed}", joint.scenario.edited({"training.hide_sensors": HIDDEN}))
        _figures(runs, f"lost-{name}-{seed}", lambda: lost_sensors(joint, hidden, single))
        absent = _run(runs, f"{name}-late-{seed}", without_newcomers(joint.scenario))
        _figures(runs, f"late-{name}-{seed}", lambda: late_joiners(joint, absent, single))
        newcomers = newcomers_of(joint.scenario)
        _figures(runs, f"arrival-{name}-{seed}", lambda: tuned_on_arrival(joint.scenario, absent, newcomers))


def _scenario(name: str, seed: int) -> Scenario:
    return load_scenario(name).edited({**SMALLER[name], **ALWAYS, "seed": seed})


def _run(runs: Path, name: str, scenario: Scenario) -> FinishedRun:
    folder = runs / name
    if not folder.exists():
        CONSOLE.print(f"running {name}")
        run_scenario(scenario, folder)
    return finished_run(folder)


def _figures(runs: Path, name: str, make: Callable[[], list[Figures]]) -> None:
    path = runs / f"{name}.json"
    if not path.exists():
        CONSOLE.print(f"measuring {name}")
        path.write_text(json.dumps(make(), indent=1) + "\n", encoding="utf-8")


# --- the page --------------------------------------------------------------------------------------------------------


def _write_page(runs: Path) -> None:
    text = (HERE / "page.md").read_text(encoding="utf-8")
    tables = {
        "bits": "\n\n".join(filter(None, (_bits_table(runs, name) for name in SMALLER))),
        "calibration": _calibration_table(runs),
        "lost": _lost_table(runs),
        "late": _late_table(runs),
        "arrival": arrival_table(_read(runs, f"arrival-{FEWER_SENSORS}")),
    }
    for name, table in tables.items():
        text = text.replace(f"<!-- {name} -->", table)
    PAGE.write_text(text, encoding="utf-8")
    CONSOLE.print(f"wrote {PAGE}")


def _read(runs: Path, name: str) -> dict[int, list[Figures]]:
    """Seed -> rows of a kind of figures."""
    paths = {int(path.stem.rsplit("-", 1)[1]): path for path in sorted(runs.glob(f"{name}-*.json"))}
    return {seed: json.loads(path.read_text(encoding="utf-8")) for seed, path in paths.items()}


def _bits_table(runs: Path, name: str) -> str:
    """Rows: conditions; what the shipped variant costs."""
    by_seed = _read(runs, f"bits-{name}")
    found = [
        {**row, "seed": seed} for seed, rows in by_seed.items() for row in rows if row["variant"] == SHIPPED_VARIANT
    ]
    title = TASKS[load_scenario(name).task].columns[0].title
    lines = [f"`{name}`, {title}:", "", "| Condition | models | float32 | int8 | change | worst | agreement | lowest |"]
    lines.append("|---" * 8 + "|")
    for condition in dict.fromkeys(row["condition"] for row in found):
        rows = [row for row in found if row["condition"] == condition]
        change = [row["score"] - row["float32"] for row in rows]
        agreement = [row["agreement"] for row in rows]
        cells = [
            condition,
            str(len(rows)),
            f"{fmean(row['float32'] for row in rows):.3f}",
            f"{fmean(row['score'] for row in rows):.3f}",
            _change(fmean(change)),
            _change(min(change)),
            f"{fmean(agreement):.3f}",
            f"{min(agreement):.3f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", _refused(found)]) if found else ""


def _refused(rows: Sequence[Figures]) -> str:
    """Sentence on the models whose export in this variant fails unless more loss is allowed."""
    most = VARIANTS[SHIPPED_VARIANT].max_loss
    checked = [row for row in rows if not row["condition"].startswith(WITHOUT)]
    lost: dict[str, set[tuple[int, int]]] = {}
    for row in checked:
        if row["float32"] - row["score"] > most:
            lost.setdefault(row["condition"], set()).add((row["seed"], row["client"]))
    models = {(row["seed"], row["client"]) for row in checked}
    where = ", ".join(f"{condition} {len(some)}" for condition, some in lost.items())
    n_lost = len(set().union(*lost.values()))
    sentence = f"{n_lost} of {len(models)} models lose more than {most:g} in a condition that is checked"
    return f"{sentence} ({where})." if where else f"{sentence}."


def _calibration_table(runs: Path) -> str:
    """Rows: scenario and variant; held-out rows, and the mean over shifted ones."""
    lines = [
        "| | size | held out: change | worst | agreement | shifted: change | worst | agreement |",
        "|---" * 8 + "|",
    ]
    for name in SMALLER:
        found = _read(runs, f"bits-{name}").get(0, [])  # the others have the shipped variant only
        for variant in VARIANTS:
            rows = [row for row in found if row["variant"] == variant and not row["condition"].startswith(WITHOUT)]
            if rows:
                held_out = [row for row in rows if row["condition"] == HELD_OUT]
                shifted = [row for row in rows if row["condition"] != HELD_OUT]
                size = f"{fmean(row['size'] for row in rows):.2f}"
                cells = [f"`{name}` {variant}", size, *_changes(held_out), *_changes(shifted)]
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _changes(rows: Sequence[Figures]) -> Iterator[str]:
    change = [row["score"] - row["float32"] for row in rows]
    yield _change(fmean(change))
    yield _change(min(change))
    yield f"{fmean(row['agreement'] for row in rows):.3f}"


def _lost_table(runs: Path) -> str:
    """Rows: what was lost and what is left; mean over clients, spread over seeds."""
    found = _read(runs, f"lost-{FEWER_SENSORS}")
    pairs = dict.fromkeys((row["kept"], row["lost"]) for rows in found.values() for row in rows)
    titles = ("all sensors", "masked", "hidden: all", "hidden: masked", "trained without it", "ahead by", "persistence")
    lines = ["| Left | lost | models | " + " | ".join(titles) + " |", "|---" * 10 + "|"]
    for kept, lost in pairs:
        by_seed = {s: [row for row in rows if (row["kept"], row["lost"]) == (kept, lost)] for s, rows in found.items()}
        by_seed = {seed: rows for seed, rows in by_seed.items() if rows}
        ahead = [fmean(row["hidden_masked"] - row["alone"] for row in rows) for rows in by_seed.values()]
        keys = ("both", "masked", "hidden_both", "hidden_masked", "alone")
        means = [_spread(fmean(r[key] for r in rows) for rows in by_seed.values()) for key in keys]
        count = sum(map(len, by_seed.values()))
        persistence = fmean(row["persistence"] for rows in by_seed.values() for row in rows)
        cells = [kept, lost, str(count), *means, _signed(ahead), f"{persistence:.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) if found else ""


def _late_table(runs: Path) -> str:
    """Rows: what the newcomer owns."""
    found = _read(runs, f"late-{FEWER_SENSORS}")
    titles = (
        "Newcomer's group",
        "lacks",
        "newcomers",
        "a neighbor's model",
        "its own, had it been there",
        "behind by",
    )
    lines = ["| " + " | ".join([*titles, "persistence"]) + " |", "|---" * 7 + "|"]
    kinds = dict.fromkeys((row["group"], row["lost"]) for rows in found.values() for row in rows)
    for group, lost in kinds:
        rows = [row for seed in found.values() for row in seed if (row["group"], row["lost"]) == (group, lost)]
        taken = [fmean(row["neighbours"]) for row in rows]
        behind = [row["own"] - mean for row, mean in zip(rows, taken, strict=True)]
        cells = [
            group,
            lost or "nothing",
            str(len(rows)),
            _spread(taken),
            _spread(row["own"] for row in rows),
            _signed(behind),
            f"{fmean(row['persistence'] for row in rows):.3f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _change(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}"  # never -0.000


def _spread(values: Iterable[float]) -> str:
    values = list(values)
    return f"{fmean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def _signed(values: Sequence[float]) -> str:
    return _change(fmean(values)) + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
