"""Makes `docs/transfer.md`: trains on streets, adapts to measured sites, compares with what never saw a street.

    make transfer [ARGS="--jobs 2 --set world.n_sites=6"]

Every seed has streets, splits and minibatches of its own. Step sizes are chosen per method and number of samples on
validation samples of seeds that are not scored. Stored runs are not repeated, so an interrupted call can be continued.
Measured rows are read from the folder `deepsense` in $SHEAFEDGE_DATA.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from rivals import RIVALS, scores  # noqa: E402 - a script beside its modules
from sheafedge import load_scenario, run_scenario  # noqa: E402
from sheafedge.scenarios.compare.comparing import run_comparison  # noqa: E402
from sheafedge.scenarios.compare.comparison import Comparison, validated_comparison  # noqa: E402
from sheafedge.scenarios.compare.plan import planned_runs  # noqa: E402
from sheafedge.scenarios.compare.statistics import paired_estimate  # noqa: E402
from sheafedge.scenarios.compare.stored_runs import replacing_run, stored_rounds, stored_state  # noqa: E402
from sheafedge.scenarios.compare.tuning import tune  # noqa: E402
from sheafedge.scenarios.schema.scenario import Scenario, parse_assignment  # noqa: E402
from sheafedge.scenarios.terminal.compare_console import ComparisonLines  # noqa: E402
from sheafedge.scenarios.wiring.data import load_data  # noqa: E402

PAGE = HERE.parent / "transfer.md"
SEEDS, TUNING_SEEDS = (0, 1, 2, 3, 4), (100,)
#: Measured sites, what their arrays face (degrees from north), and the shares of their training samples.
SITES, HEADINGS_DEG, SHARES = (1, 5, 8), (83.0, 99.0, 87.0), (0.05, 0.2, 1.0)
STEP, STEP_SIZES = "training.model_step_size", (0.001, 0.003, 0.01)
#: Input -> title, and how the model scales what it gets at a measured site. Positions in meters mean the same at both;
#: the spread of powers in decibels is that of the receiver, and needs no labels.
INPUTS: Mapping[str, tuple[str, str]] = {"gps": ("positions", "kept"), "rf": ("powers of the last sweeps", "own")}
#: Method -> labels of the street that it starts from; None: drawn weights.
METHODS: Mapping[str, bool | None] = {"from scratch": None, "shuffled street": True, "street": False}
KEYS = {"top1": "top-1", "top3": "top-3", "power_loss_db": "power loss, dB"}
TRAINING = {
    "algorithm": "local",
    "network.transport": "memory",
    "topology.kind": "complete",
    "data.position_axes": "array",
    "export.report": False,
    "export.pictures": 0,
}
STREET = {
    **TRAINING,
    "algorithm": "centralized",
    "rounds": 16,
    "evaluate_every": 16,
    "training.local_steps": 50,
    "training.batch_size": 64,
    # of three pairs on held-out drive-bys of the streets of the tuning seed the one with the least power loss
    "training.encoder_step_size": 0.003,
    "training.head_step_size": 0.5,
    "world.blockage": "3gpp_b",  # the channel of the page's figures
    "world.n_sites": 8,
    "world.duration_s": 300,
    "clients.n_clients": 8,
}
MEASURED = {
    **TRAINING,
    "training.optimizer": "adam",
    "rounds": 4,
    "evaluate_every": 4,
    "training.local_steps": 150,
    "data.source": "deepsense",
    "data.scenarios": list(SITES),
    "data.headings_deg": list(HEADINGS_DEG),
    "data.codebook_order": "counterclockwise",
    "clients.n_clients": len(SITES),
}
#: Of a run whose models are never trained: they hold what scales the inputs of its clients.
STILL = {
    "algorithm": "local",
    "rounds": 1,
    "evaluate_every": 1,
    "training.local_steps": 1,
    "training.head_step_size": 0.0,
    "training.encoder_step_size": 0.0,
}
CONSOLE = Console(emoji=False)
#: Seed -> site -> score -> value, of one method or rival at one share.
Outcome = dict[str, dict[str, dict[str, float]]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/transfer"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a field of the streets")
    parser.add_argument("--keep-stale", action="store_true", help="do not repeat runs that other code made")
    parser.add_argument("--page-only", action="store_true", help="write the page from the results that are there")
    options = parser.parse_args(arguments)
    options.out = options.out.absolute()
    stored = options.out / "results.json"
    if not options.page_only:
        folder = os.environ.get("SHEAFEDGE_DATA")
        if folder is None:
            CONSOLE.print("measured samples are needed; set SHEAFEDGE_DATA")
            sys.exit(2)
        measured = {**MEASURED, "data.root": str(Path(folder) / "deepsense")}
        streets = {**STREET, **dict(parse_assignment(text) for text in options.set)}
        place = train_streets(streets, options)
        results = {name: results_of(name, measured, place, options) for name in INPUTS}
        stored.write_text(json.dumps({"street": streets, "inputs": results}, indent=1) + "\n")
    write_page(json.loads(stored.read_text()))


# Streets.


def owning(name: str) -> dict[str, Any]:
    """Clients with this one sensor."""
    return {"clients.groups": [{"name": name, "modalities": [name], "share": 1.0}]}


def train_streets(streets: Mapping[str, Any], options: argparse.Namespace) -> Path:
    """Train a model on the streets of every seed, with true and with shuffled labels; returns their folder.

    The folder is named after the settings, so that measured runs that start from other streets have other names.
    """
    digest = hashlib.sha256(json.dumps(streets, sort_keys=True).encode()).hexdigest()[:8]
    place: Path = options.out / f"streets-{digest}"
    place.mkdir(parents=True, exist_ok=True)
    scales: list[tuple[Scenario, Path]] = []
    wanted: list[tuple[Scenario, Path]] = []
    for seed in (*SEEDS, *TUNING_SEEDS):
        for name in INPUTS:
            edits = {**streets, **owning(name), "seed": seed}
            # inputs of all streets are scaled as those of the first: meters stay meters
            scale = place / f"{name}-scale-{seed}"
            scales.append((load_scenario("beam_tracking").edited({**edits, **STILL}), scale))
            edits["model.start_from"] = str(scale / "weights" / "client-00.safetensors")
            for shuffled in (False, True):
                made = load_scenario("beam_tracking").edited({**edits, "data.shuffled_labels": shuffled})
                wanted.append((made, start_of(place, name, shuffled, seed)))
    for runs in (scales, wanted):
        _train_missing(runs, options)
    return place


def _train_missing(runs: Sequence[tuple[Scenario, Path]], options: argparse.Namespace) -> None:
    fresh = {"stored", "stale"} if options.keep_stale else {"stored"}
    missing = [(one, folder) for one, folder in runs if stored_state(folder, one).kind not in fresh]
    CONSOLE.rule(f"streets: {len(missing)} of {len(runs)} runs are missing")
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for folder in pool.map(_train, *zip(*missing, strict=True)) if missing else ():
            CONSOLE.print(f"trained {folder.name}")


def _train(scenario: Scenario, folder: Path) -> Path:
    with replacing_run(folder):
        run_scenario(scenario, folder)
    return folder


def start_of(place: Path, name: str, shuffled: bool, seed: int | str) -> Path:
    """Folder of the run on the streets of a seed."""
    return place / f"{name}-{'shuffled' if shuffled else 'true'}-{seed}"


# Measured sites.


def results_of(name: str, measured: Mapping[str, Any], place: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Scores of all methods and rivals with one input: without a step, and with every share of the samples."""
    edits = {**measured, **owning(name)}
    methods = {method: start_edits(place, name, labels) for method, labels in METHODS.items()}
    found: dict[str, Any] = {"zero": zero_shot(name, edits, methods, options), "shares": {}}
    for share in SHARES:
        title = f"{name}-{share:g}"
        CONSOLE.rule(title)
        given = {**edits, "data.train_fraction": share}
        comparison = _comparison(title, given, methods)
        with ComparisonLines(CONSOLE, keep_stale=options.keep_stale) as lines:
            grid = {STEP: STEP_SIZES}
            out, seeds = options.out / f"tune-{title}", TUNING_SEEDS
            tuned = tune(comparison, grid, seeds, out, options.jobs, lines, keep_stale=options.keep_stale)
        chosen = {method: tuned["arms"][method]["chosen"] for method in methods}
        comparison = _comparison(title, given, {method: {**methods[method], **chosen[method]} for method in methods})
        found["shares"][f"{share:g}"] = {
            **_compared(comparison, options, title),
            "steps": {method: one[STEP] for method, one in chosen.items()},
            "rivals": rivals_of(name, comparison),
            "samples": _n_samples(comparison),
        }
    return found


def start_edits(place: Path, name: str, shuffled: bool | None) -> dict[str, Any]:
    """Fields of a method that starts from a street; none of one that does not."""
    if shuffled is None:
        return {}
    path = str(start_of(place, name, shuffled, "{seed}"))
    return {"model.start_from": path, "model.start_scaling": INPUTS[name][1]}


def zero_shot(
    name: str, edits: Mapping[str, Any], methods: Mapping[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Scores before any step at the measured sites."""
    still = {**edits, "rounds": 1, "evaluate_every": 1, "training.local_steps": 1, STEP: 0.0}
    started = {method: one for method, one in methods.items() if one}
    return _compared(_comparison(f"{name}-zero", still, started), options, f"{name}-zero")


def _comparison(title: str, edits: Mapping[str, Any], methods: Mapping[str, Any]) -> Comparison:
    tree = {"name": title, "scenario": "beam_tracking", "seeds": list(SEEDS), "set": edits, "methods": methods}
    return validated_comparison(tree)


def _compared(comparison: Comparison, options: argparse.Namespace, title: str) -> dict[str, Any]:
    with ComparisonLines(CONSOLE, keep_stale=options.keep_stale) as lines:
        folder = options.out / title
        results = run_comparison(comparison, folder, options.jobs, lines, keep_stale=options.keep_stale)
    outcomes: dict[str, Outcome] = {method: {} for method in comparison.methods}
    for run in planned_runs(comparison):
        *_, (_, rows) = stored_rounds(folder / "runs" / run.name)
        outcomes[run.method][str(run.seed)] = {str(SITES[row["client"]]): row["models"]["fused"] for row in rows}
    return {"methods": outcomes, "test_per_train": results["resampling"]["test_per_train"]}


def _loaded(comparison: Comparison) -> Iterator[tuple[int, Any]]:
    for seed in comparison.seeds:
        yield seed, load_data(comparison.base().edited({"seed": seed})).clients


def rivals_of(name: str, comparison: Comparison) -> dict[str, Outcome]:
    """Scores of what is no network, on the same samples."""
    found: dict[str, Outcome] = {rival: {} for rival in RIVALS[name]}
    for seed, clients in _loaded(comparison):
        for rival, (answer, _) in RIVALS[name].items():
            by_site = zip(SITES, clients, strict=True)
            found[rival][str(seed)] = {
                str(site): dict(scores(answer(rows.train, rows.test), rows.test)) for site, rows in by_site
            }
    return found


def _n_samples(comparison: Comparison) -> list[int]:
    """Training samples of every site, mean over seeds."""
    counts = [[len(rows.train) for rows in clients] for _, clients in _loaded(comparison)]
    return np.mean(counts, axis=0).round().astype(int).tolist()


# The page.


def write_page(results: Mapping[str, Any]) -> None:
    """Fill the template."""
    text = (HERE / "page.md").read_text(encoding="utf-8")
    tables = {"scores": scores_table, "sites": sites_table, "differences": differences_table, "steps": steps_table}

    def filled(match: re.Match[str]) -> str:
        return tables[match[1]](results["inputs"][match[2]], match[2])

    PAGE.write_text(re.sub(r"\{\{(\w+) (\w+)\}\}", filled, text), encoding="utf-8")
    CONSOLE.print(f"wrote {PAGE}")


def per_seed(outcome: Outcome, key: str, site: str | None = None) -> list[float]:
    """Score of every seed: of a site, or the mean over all."""
    return [
        float(np.mean([one[key] for where, one in sites.items() if site in {None, where}]))
        for sites in outcome.values()
    ]


def _spread(values: Sequence[float], key: str) -> str:
    digits = 2 if key.endswith("_db") else 3
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def _rows(found: Mapping[str, Any], name: str) -> Iterator[tuple[str, str, Outcome]]:
    """Samples in words, method, and its scores, in the order of the tables."""
    first = next(iter(found["shares"].values()))
    for rival, (_, learns) in RIVALS[name].items():
        if not learns:
            yield "none", rival, first["rivals"][rival]
    for method, outcome in found["zero"]["methods"].items():
        yield "none", method, outcome
    for share, part in found["shares"].items():
        words = f"{float(share):.0%}"
        for rival, (_, learns) in RIVALS[name].items():
            if learns:
                yield words, rival, part["rivals"][rival]
        for method, outcome in part["methods"].items():
            yield words, method, outcome


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *rows))


def scores_table(found: Mapping[str, Any], name: str) -> str:
    """Mean over sites, ± standard deviation over seeds."""
    rows = [
        [words, method, *(_spread(per_seed(outcome, key), key) for key in KEYS)]
        for words, method, outcome in _rows(found, name)
    ]
    return _table(["measured samples", "method", *KEYS.values()], rows)


def sites_table(found: Mapping[str, Any], name: str) -> str:
    """Top-1 of every site."""
    rows = [
        [words, method, *(_spread(per_seed(outcome, "top1", str(site)), "top1") for site in SITES)]
        for words, method, outcome in _rows(found, name)
    ]
    return _table(["measured samples", "method", *(f"scenario {site}" for site in SITES)], rows)


def differences_table(found: Mapping[str, Any], name: str) -> str:
    """Paired differences of the street's model to every other method with the same samples."""
    rows = []
    for share, part in found["shares"].items():
        ours = part["methods"]["street"]
        before = {"street, no samples": found["zero"]["methods"]["street"]}
        for method, outcome in {**part["methods"], **part["rivals"], **before}.items():
            if method != "street":
                cells = [_difference(ours, outcome, key, part["test_per_train"]) for key in KEYS]
                rows.append([f"{float(share):.0%}", method, *cells])
    none = found["zero"]
    for method, outcome in {**_sampleless(found, name), **none["methods"]}.items():
        if method != "street":
            cells = [_difference(none["methods"]["street"], outcome, key, none["test_per_train"]) for key in KEYS]
            rows.insert(0, ["none", method, *cells])
    return _table(["measured samples", "street minus", *KEYS.values()], rows)


def _sampleless(found: Mapping[str, Any], name: str) -> dict[str, Outcome]:
    rivals = next(iter(found["shares"].values()))["rivals"]
    return {rival: rivals[rival] for rival, (_, learns) in RIVALS[name].items() if not learns}


def _difference(ours: Outcome, other: Outcome, key: str, test_per_train: float) -> str:
    pairs = zip(per_seed(ours, key), per_seed(other, key), strict=True)
    differences = [mine - theirs for mine, theirs in pairs]
    estimate = paired_estimate(differences, test_per_train)
    digits = 2 if key.endswith("_db") else 3
    low, high = estimate.interval or (float("nan"), float("nan"))
    signs = sum(one > 0 for one in differences)
    return f"{np.mean(differences):+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}], {signs}/{len(differences)}"


def steps_table(found: Mapping[str, Any], _name: str) -> str:
    """Samples per site, and the step sizes that were chosen."""
    rows = [
        [
            f"{float(share):.0%}",
            ", ".join(map(str, part["samples"])),
            *(f"{part['steps'][method]:g}" for method in METHODS),
        ]
        for share, part in found["shares"].items()
    ]
    return _table(["measured samples", "of scenarios 1, 5, 8", *METHODS], rows)


if __name__ == "__main__":
    main()
