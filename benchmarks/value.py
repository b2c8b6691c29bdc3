"""What prediction is worth under other rules: trains the scenarios, plays users on what the models say, prints JSON.

    python benchmarks/value.py [--scenarios blockage drone_beam] [--seeds 0 1 2] [--draw value.png]

Every scenario is trained once per seed; then its users are played again and again, with one rule changed at a time. A
figure is the sum over all base stations, per seed in the order of the seeds. The page `docs/value.md` shows it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sheafedge.benchmarks.machine import machine_facts, print_report
from sheafedge.emulator.decisions.handover import HANDOVER_KINDS
from sheafedge.scenarios.report.figure_style import series_style
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.value.handover_ladder import RULES
from sheafedge.scenarios.value.served_stations import ServedStation, served_stations
from sheafedge.scenarios.value.user_links import served_links
from sheafedge.scenarios.value.value_report import DECISIONS, value_of_stations
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import build, emulate
from sheafedge.scenarios.wiring.members import client_devices
from sheafedge.scenarios.wiring.predictions import Predictions
from sheafedge.scenarios.wiring.torch_setup import one_torch_thread

ANSWERS_MS = (5, 50, 100, 150, 200, 300, 400, 500, 700)
#: One setting at a time.
SETTINGS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "handover": {
        "decision.warn_above": (0.5, 0.7, 0.8, 0.9, 0.95),
        "decision.handover.prepare_s": (0.05, 0.1, 0.2),
        "decision.handover.prepared_interruption_s": (0.015, 0.025, 0.04, 0.062),
        "decision.handover.command_lost_below_db": (-100.0, -6.0, -4.0, -2.0),
        "decision.measurement.filter_coefficient": (0, 4),
        "decision.neighbor_below_db": (0.0, 6.0, 10.0),
        "decision.clear_snr_db": (10.0, 15.0, 20.0),
        "decision.link.needed_bps": (0.0, 45e6),
    },
    "beam": {
        "decision.beams.candidates": (1, 3),
        "decision.beams.beam_s": (0.005 / 64, 0.02 / 64),
        "decision.beams.report_s": (0.02, 0.1),
        "decision.beams.drop_db": (1.0, 3.0, 6.0),
        "decision.clear_snr_db": (10.0, 15.0, 20.0),
    },
}
#: Bars that reach so high hide the others.
LOGARITHMIC_MS = 10e3
#: What answers that come later are shown to cost: key, scale, title.
CURVES = {
    "handover": ("outage_ms_per_min", 1e3, "outage, s per minute"),
    "beam": ("rate_bps", 1e6, "throughput, Mbit/s"),
}
#: Bars differ in hatches beside their colors, for readers who see few colors.
HATCHES = ("", "///", "...", "xx", "++")
#: Policies of a decision in the order of the bars; without answers, and on answers.
WAYS = {"handover": RULES, "beam": ("nothing", "reactive", "predictive", "oracle")}
COMPARED = {decision: row.compared for decision, row in DECISIONS.items()}


def trained(scenario: Scenario) -> list[ServedStation]:
    """The models of a whole run, and their answers about held-out frames."""
    data = load_data(scenario)
    with one_torch_thread():
        emulation = build(scenario, data.clients, lambda learner, _: learner.health(), lambda *_: None)
        try:
            emulate(emulation, scenario.rounds)
            reported = dict.fromkeys(emulation.groups, "fused")
            with_fades = DECISIONS[scenario.task_spec.decision].reads_fades
            links = served_links(
                emulation.clients, data.recordings, scenario.links.settings_of("radio"), with_fades=with_fades
            )
            devices = client_devices(scenario.compute, scenario.clients, scenario.seed)
            return served_stations(
                emulation.clients, Predictions(emulation.learners, emulation.pool), reported, links, devices
            )
        finally:
            emulation.close()


def played(scenario: Scenario, served: Sequence[ServedStation]) -> dict[str, Any]:
    """As shipped, under every other rule, and on devices that take longer."""
    return {
        **_figures(scenario, served),
        "rules": {
            field: {f"{level:g}": _figures(scenario.edited({field: level}), served) for level in levels}
            for field, levels in SETTINGS[scenario.task_spec.decision].items()
        },
        "kinds": {
            kind: _figures(
                scenario.edited({f"decision.handover.{name}": value for name, value in changes.items()}), served
            )
            for kind, changes in (HANDOVER_KINDS.items() if scenario.task_spec.decision == "handover" else ())
        },
        "answer_ms": {
            f"{ms}": _figures(scenario, [station.answering_after(ms / 1e3) for station in served]) for ms in ANSWERS_MS
        },
    }


def _figures(scenario: Scenario, served: Sequence[ServedStation]) -> dict[str, Any]:
    groups = [group.name for group in scenario.clients.groups]
    value = value_of_stations(scenario.task_spec, scenario.decision, served, groups, scenario.seed)
    rungs = {
        row["rule"]: {key: row[key] for key in row if key not in ("rule", "events")} for row in value.get("ladder", ())
    }
    return {**{name: value[name] for name in ("decision", "groups", "everybody")}, "ladder": rungs}


def collected(of_seeds: Sequence[Any]) -> Any:
    """The same tree, with a list over the seeds in the place of every number; what some lack is left out."""
    if not isinstance(of_seeds[0], dict):
        return list(of_seeds)
    return {
        key: collected([one[key] for one in of_seeds]) for key in of_seeds[0] if all(key in one for one in of_seeds)
    }


def draw(path: Path, results: Mapping[str, Any]) -> None:
    """Outage under every way of deciding, and what is left of it when answers take longer."""
    figure = Figure(figsize=(5.6 * len(results), 7.0), layout="constrained")
    axes = figure.subplots(2, len(results), squeeze=False)
    for column, (name, found) in enumerate(results.items()):
        _bars(axes[0, column], name, found)
        _curves(axes[1, column], found)
    figure.savefig(path, dpi=130)


def _bars(ax: Axes, name: str, found: Mapping[str, Any]) -> None:
    groups, ways = found["groups"], WAYS[found["decision"][0]]
    for index, way in enumerate(ways):
        seeds = np.array([groups[group][way]["outage_ms_per_min"] for group in groups]) / 1e3
        where = np.arange(len(groups)) + (index - (len(ways) - 1) / 2) * 0.8 / len(ways)
        spread = [seeds.mean(1) - seeds.min(1), seeds.max(1) - seeds.mean(1)]
        look = {"color": series_style(index).color, "hatch": HATCHES[index % len(HATCHES)], "edgecolor": "white"}
        ax.bar(
            where,
            seeds.mean(1),
            0.8 / len(ways),
            yerr=spread,
            label=way.replace("_", " "),
            error_kw={"lw": 1.0},
            **look,
        )
    ax.set_xticks(range(len(groups)), list(groups))
    ax.set_ylabel("outage, s per minute")
    ax.set_title(name)
    if max(found["everybody"]["nothing"]["outage_ms_per_min"]) > LOGARITHMIC_MS:
        ax.set_yscale("symlog", linthresh=0.1)
    ax.legend(fontsize="small")


def _curves(ax: Axes, found: Mapping[str, Any]) -> None:
    key, scale, title = CURVES[found["decision"][0]]
    without, acting = COMPARED[found["decision"][0]]
    ms = [float(answer) for answer in found["answer_ms"]]
    slower = found["answer_ms"].values()
    for index, group in enumerate(found["groups"]):
        style = series_style(index)
        seeds = np.array([one["groups"][group][acting][key] for one in slower]) / scale
        look = {"color": style.color, "ls": style.line, "marker": style.marker, "ms": 4}
        ax.plot(ms, seeds.mean(1), label=f"{acting.replace('_', ' ')}: {group}", **look)
        ax.fill_between(ms, seeds.min(1), seeds.max(1), color=style.color, alpha=0.2)
    for way, style in ((without, "--"), ("oracle", ":")):
        mean = np.mean(found["everybody"][way][key]) / scale
        ax.axhline(mean, color="black", ls=style, lw=1, label=way.replace("_", " "))
    ax.set_xlabel("from frame to answer, ms")
    ax.set_ylabel(title)
    ax.legend(fontsize="small")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, play, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", nargs="+", default=["blockage", "drone_beam"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--edits", type=json.loads, default={}, help="JSON, such as '{\"rounds\": 1}'")
    parser.add_argument("--draw", type=Path)
    asked, machine = parser.parse_args(arguments), machine_facts()
    results = {name: collected(list(_of_seeds(name, asked.seeds, asked.edits))) for name in asked.scenarios}
    if asked.draw:
        draw(asked.draw, results)
    print_report("value", machine, {"seeds": asked.seeds, "scenarios": results})


def _of_seeds(name: str, seeds: Sequence[int], edits: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for seed in seeds:
        scenario = load_scenario(name).edited({**edits, "seed": seed})
        yield played(scenario, trained(scenario))


if __name__ == "__main__":
    main()
