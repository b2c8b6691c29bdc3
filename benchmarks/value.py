"""What prediction is worth under other rules: trains the scenarios, plays users on what the models say, prints JSON.

    python benchmarks/value.py [--scenarios blockage drone_beam] [--seeds 0 1 2] [--vary filters] [--draw value.png]

Every scenario is trained once per seed; then its users are played again and again, with one rule changed at a time. A
figure is the sum over all base stations, per seed in the order of the seeds; `over_stations` has means over the base
stations of all seeds, and paired differences over them. `scores` are those of the answers that rules act on, about all
held-out frames, as means over the base stations; `horizons` has those of forecasts for every frame ahead, over the
frames of all base stations. The pages `docs/value.md` and `docs/value_settings.md` show it.
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
from sheafedge.emulator.radio.waves import Array
from sheafedge.scenarios.report.figure_style import series_style
from sheafedge.scenarios.running.fitted_biases import fit_biases
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.tasks.task_spec import Answers, DiagnosedTask, mean_scores
from sheafedge.scenarios.value import beam_ladder
from sheafedge.scenarios.value.handover_ladder import COMPARED_WITH, RULES, paired
from sheafedge.scenarios.value.served_stations import ServedStation, served_stations
from sheafedge.scenarios.value.user_links import served_links
from sheafedge.scenarios.value.value_report import DECISIONS, value_of_stations
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import build, emulate
from sheafedge.scenarios.wiring.members import client_devices
from sheafedge.scenarios.wiring.predictions import Predictions
from sheafedge.scenarios.wiring.torch_setup import one_torch_thread

#: What can be varied: rules of the decision, filters of readings, kinds of prepared handover, times of answers.
VARIED = ("rules", "filters", "kinds", "answer_ms")
ANSWERS_MS = (5, 50, 100, 150, 200, 300, 400, 500, 700)
#: One setting at a time.
SETTINGS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "handover": {
        "decision.warn_above": (0.1, 0.3, 0.5, 0.8),
        "decision.handover.prepare_s": (0.05, 0.1, 0.2),
        "decision.handover.prepared_interruption_s": (0.015, 0.025, 0.04, 0.062),
        "decision.handover.command_lost_below_db": (-100.0, -6.0, -4.0, -2.0),
        "decision.neighbor_below_db": (0.0, 6.0, 10.0),
        "decision.clear_snr_db": (10.0, 15.0, 20.0),
        "decision.link.needed_bps": (0.0, 45e6),
    },
    "beam": {
        "decision.beams.csi_rs_beam_s": (3e-5, 1e-4, 3e-4),
        "decision.beams.report_delay_s": (0.002, 0.01),
        "decision.beams.wide_split": (2, 4),
        "decision.clear_snr_db": (5.0, 25.0),
    },
}
#: Layer-3 filters k and X in s: the standard's default coefficient below 6 GHz and in millimeter waves.
FILTERS = ((4, 0.2), (4, 0.4))
#: Rule -> rules that it is compared with beside the tuned reaction or the tuned sweep.
RIVALS: Mapping[str, Sequence[str]] = {
    "planner_model": ("planner_without_forecast", "planner_snr_history"),
    "prepare_on_warning": ("way_back_prepared", "prepare_on_snr_history", "always_prepared"),
    beam_ladder.MODEL: beam_ladder.RIVALS,
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
WAYS = {"handover": RULES, "beam": beam_ladder.RULES}
COMPARED = {decision: row.compared for decision, row in DECISIONS.items()}


def trained(scenario: Scenario) -> list[ServedStation]:
    """The models of a whole run, and their answers about held-out frames."""
    data = load_data(scenario)
    with one_torch_thread():
        emulation = build(scenario, data.clients, lambda learner, _: learner.health(), lambda *_: None)
        try:
            emulate(emulation, scenario.rounds)
            if scenario.training.fitted_biases:
                fit_biases(emulation)
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


def played(scenario: Scenario, served: Sequence[ServedStation], varied: Sequence[str]) -> dict[str, Any]:
    """As shipped, and under whatever is varied."""
    ways = {
        "rules": lambda: {
            field: {f"{level:g}": _figures(scenario.edited({field: level}), served) for level in levels}
            for field, levels in SETTINGS[scenario.task_spec.decision].items()
        },
        "filters": lambda: _filtered(scenario, served),
        "kinds": lambda: _of_kinds(scenario, served),
        "answer_ms": lambda: {
            f"{ms}": _figures(scenario, [station.answering_after(ms / 1e3) for station in served]) for ms in ANSWERS_MS
        },
    }
    return {**_figures(scenario, served), **_scored(scenario, served), **{name: ways[name]() for name in varied}}


def _scored(scenario: Scenario, served: Sequence[ServedStation]) -> dict[str, Any]:
    """Scores of the served answers, and of forecasts those of every frame ahead."""
    task = scenario.task_spec
    answers = [Answers(one.logits, one.link.samples, 1.0 / one.link.frame_s) for one in served]
    found: dict[str, Any] = {"scores": mean_scores([task.scores(one.logits, one.samples) for one in answers])}
    curves = task.diagnostics(answers) if isinstance(task, DiagnosedTask) else {}
    return found | ({"horizons": curves["horizons"]} if "horizons" in curves else {})


def _filtered(scenario: Scenario, served: Sequence[ServedStation]) -> dict[str, Any]:
    if scenario.task_spec.decision != "handover":
        return {}
    chain = "decision.measurement."
    return {
        f"k = {coefficient}, X = {seconds:g} s": _figures(
            scenario.edited({f"{chain}filter_coefficient": coefficient, f"{chain}filter_sample_s": seconds}), served
        )
        for coefficient, seconds in FILTERS
    }


def _of_kinds(scenario: Scenario, served: Sequence[ServedStation]) -> dict[str, Any]:
    if scenario.task_spec.decision != "handover":
        return {}
    return {
        kind: _figures(scenario.edited({f"decision.handover.{name}": value for name, value in changes.items()}), served)
        for kind, changes in HANDOVER_KINDS.items()
    }


def _figures(scenario: Scenario, served: Sequence[ServedStation]) -> dict[str, Any]:
    groups = [group.name for group in scenario.clients.groups]
    value = value_of_stations(scenario.task_spec, scenario.decision, served, groups, scenario.seed)
    kept = ("decision", "groups", "everybody", "planner_model_at_equal_throughput", "model_less")
    of_groups = {
        group: {
            "ladder": _rungs(one),
            "model_less": one["model_less"],
            "equal_beams": {f"{row['beams']}": row for row in one["equal_beams"]},
        }
        for group, one in value.get("of_groups", {}).items()
    }
    rungs = _rungs(value)
    of_stations = {
        rule: np.array([[one[rule]["outage_ms_per_min"], one[rule]["rate_bps"] / 1e6] for one in value["clients"]])
        for rule in rungs
    }
    found = {name: value[name] for name in kept if name in value}
    return {**found, "ladder": rungs, "of_groups": of_groups, "over_stations": of_stations}


def _rungs(value: Mapping[str, Any]) -> dict[str, Any]:
    """Rule -> its numbers."""
    return {
        row["rule"]: {key: row[key] for key in row if key not in ("rule", "events", "settings")}
        for row in value["ladder"]
    }


def over_stations(of_seeds: Sequence[Mapping[str, Array]]) -> dict[str, Any]:
    """Rule -> means over the base stations of all seeds, and paired differences to the rules it is compared with.

    Args:
        of_seeds: of every seed, rule -> [n_stations, 2] outage in ms per minute and throughput in Mbit/s.
    """
    together = {rule: np.concatenate([one[rule] for one in of_seeds]) for rule in of_seeds[0]}
    return {
        rule: {
            "base_stations": len(found),
            "outage_ms_per_minute": float(found[:, 0].mean()),
            "throughput_mbit_s": float(found[:, 1].mean()),
            "less": {
                other: {
                    **paired("outage", (found - together[other])[:, 0]),
                    **paired("throughput", (found - together[other])[:, 1]),
                }
                for other in (COMPARED_WITH, beam_ladder.COMPARED_WITH, *RIVALS.get(rule, ()))
                if other in together and other != rule
            },
        }
        for rule, found in together.items()
    }


def collected(of_seeds: Sequence[Any]) -> Any:
    """The same tree, with a list over the seeds in the place of every number; what some lack is left out."""
    if not isinstance(of_seeds[0], dict):
        return list(of_seeds)
    return {
        key: over_stations([one[key] for one in of_seeds])
        if key == "over_stations"
        else collected([one[key] for one in of_seeds])
        for key in of_seeds[0]
        if all(key in one for one in of_seeds)
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
    groups = found["groups"]
    ways = [way for way in WAYS[found["decision"][0]] if all(way in of_group for of_group in groups.values())]
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
    parser.add_argument("--vary", nargs="*", choices=VARIED, default=VARIED, help="of these; without any: nothing")
    parser.add_argument("--draw", type=Path, help="picture of outage, and of later answers")
    asked, machine = parser.parse_args(arguments), machine_facts()
    if asked.draw and "answer_ms" not in asked.vary:
        parser.error("--draw shows what later answers cost; add answer_ms to --vary, or leave --vary out")
    results = {name: collected(list(_of_seeds(name, asked))) for name in asked.scenarios}
    if asked.draw:
        draw(asked.draw, results)
    print_report("value", machine, {"seeds": asked.seeds, "scenarios": results})


def _of_seeds(name: str, asked: argparse.Namespace) -> Iterable[dict[str, Any]]:
    for seed in asked.seeds:
        scenario = load_scenario(name).edited({**asked.edits, "seed": seed})
        yield played(scenario, trained(scenario), asked.vary)


if __name__ == "__main__":
    main()
