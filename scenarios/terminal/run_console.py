"""Tables and facts at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...models.algorithms.algorithm import SHARED_MODELS
from ..library.run_result import RunResult
from ..tasks.task_spec import Task
from ..tasks.task_table import TASKS
from ..value.beam_ladder import COMPARED_WITH as SWEEP_TUNED
from ..value.handover_ladder import rule_title
from .console_elements import data_table, print_facts, print_warning

#: Facts that hold paths and hashes, to be copied from the terminal.
_WHOLE = ("models", "pictures", "folder", "trace")
#: Limits that let tables fit 80 columns: with many score columns titles wrap; names of algorithms never do.
MANY_FIGURES, FIGURE_WIDTH, WIDEST_ALGORITHM = 3, 9, 14
_LADDER_NOTE = "±: standard error of paired differences over base stations; prepared: share of the time in the own cell"
_BEAM_NOTE = "±: standard error of paired differences over base stations; measuring: share of the time without data"
#: Powers that change less often than handovers are measured, once in 20 ms, show onsets of blockages as steps.
_FINE_HZ = 50.0


def print_result(console: Console, result: RunResult) -> None:
    """Prints scores and baselines, value of prediction, traffic, times, paths, and warnings about stability."""
    summary = result.summary
    console.print(_score_table(summary))
    _print_value(console, summary.get("value", {}))
    print_facts(console, _facts(result), whole=_WHOLE)
    for warning in result.warnings:
        print_warning(console, warning)


def _print_value(console: Console, value: Mapping[str, Any]) -> None:
    """Prints the value of prediction, if it was evaluated."""
    if "ladder" in value:
        of_beams = value["decision"] == "beam"
        console.print(beam_table(value) if of_beams else ladder_table(value))
        for line in beam_lines(value) if of_beams else ():
            console.print(f"beams {escape(line)}", soft_wrap=True)
        for line in deadline_lines(value):
            console.print(f"deadline {escape(line)}", soft_wrap=True)


def _queued(traffic: Mapping[str, int]) -> str:
    """Text about messages dropped by or still in queues; empty if there are none."""
    dropped, waiting = traffic["dropped_messages"], traffic["waiting_messages"]
    return (f"; {dropped:,} messages dropped by full queues" if dropped else "") + (
        f"; {waiting:,} still queued at the end" if waiting else ""
    )


def _facts(result: RunResult) -> dict[str, str]:
    summary, traffic = result.summary, result.summary["traffic"]
    return {
        "traffic": f"{traffic['messages']:,} messages, {traffic['bytes'] / 1e6:,.1f} MB",
        "losses": f"{traffic['lost_messages']:,} messages lost, {traffic['partial_messages']:,} received in part,"
        f" {traffic['late_messages']:,} late; {traffic['lost_packets']:,} packets lost,"
        f" {traffic['retransmissions']:,} retransmitted{_queued(traffic)}",
        **_served(summary),
        **_joined_late(summary),
        "time": f"{summary['virtual_time_s']:.1f} s simulated ({summary['energy_j']:.0f} J of computing); real time:"
        f" data {summary['recording_time_s']:.1f} s, training {summary['wall_time_s']:.1f} s,"
        f"{_valued(summary)} export {summary['export_time_s']:.1f} s",
        "models": _export_line(result.folder, summary["exports"]),
        "pictures": ", ".join(str(result.folder / name) for name in summary["pictures"]) or "none",
        **_paced(summary),
        "folder": str(result.folder),
        "trace": summary["trace_hash"],
    }


def _served(summary: Mapping[str, Any]) -> dict[str, str]:
    """Traffic of the server, either way, and its computing; empty without one."""
    if not (server := summary.get("server")):
        return {}
    ways = (
        f"{way} {server[way]['bytes'] / 1e6:,.1f} MB, {server[way]['mean_s'] * 1e3:,.1f} ms per message"
        f" ({server[way]['max_s'] * 1e3:,.1f} at most)"
        for way in ("up", "down")
    )
    return {"server": f"{'; '.join(ways)}; {server['busy_s']:.2f} s and {server['energy_j']:.1f} J of computing"}


def _joined_late(summary: Mapping[str, Any]) -> dict[str, str]:
    """First score of clients that joined late, and of the others; empty where nobody did."""
    if not (parts := summary.get("joined_late")):
        return {}
    first = TASKS[summary["task"]].columns[0]
    late, others = (first.form.format(parts[name][first.key]) for name in ("late", "others"))
    return {
        "joined": f"{parts['late']['clients']} clients late, {first.title} {late}; the other"
        f" {parts['others']['clients']}, {others}"
    }


def _valued(summary: Mapping[str, Any]) -> str:
    """Time that the value of prediction took; empty for tasks whose answers control nothing."""
    return f" value of prediction {summary['value_time_s']:.1f} s," if "value_time_s" in summary else ""


def _paced(summary: Mapping[str, Any]) -> dict[str, str]:
    """Lateness of the paced clock and statistics of outside clients; empty for a run with neither."""
    facts = {}
    if pace := summary.get("realtime"):
        facts["pace"] = (
            f"{pace['speed']:g} simulated seconds per real second; events {pace['lag_mean_s'] * 1e3:.1f} ms late on"
            f" average, {pace['lag_max_s'] * 1e3:.0f} ms at most"
        )
    if outside := summary.get("outside"):
        facts["outside"] = "; ".join(
            f"client {one['client']} answered {one['turns_in_time']} of {one['turns']} turns in time, "
            f"{one['late']} answers"
            f" late, {one['refused']} refused"
            for one in outside
        )
    return facts


_SPLITS = {
    "sequence": "held-out drive-bys",
    "time": "held-out time",
    "rows": "held-out rows",
    "random": "a random split (leaks between training and test; for comparison only)",
}
_VALIDATION = {
    "sequence": "validation drive-bys, not the test",
    "time": "validation time, not the test",
    "rows": "validation rows, not the test",
    "random": "random validation samples, not the test (leaks)",
}


def _score_table(summary: Mapping[str, Any]) -> Table:
    task = TASKS[summary["task"]]
    scored_on = (_VALIDATION if summary["scored"] == "validation" else _SPLITS)[summary["split"]]
    title = f"{task.title} On {scored_on} ({summary['test_windows']:,} samples)"
    known = {key for scores in summary["groups"].values() for key in scores}
    lacking = [
        f"{one.title} is not available: {one.absent}" for one in task.columns if one.absent and one.key not in known
    ]
    # titles and baselines may be those of a plugin, with units such as [m]
    table = data_table(escape(title), caption=escape("; ".join(lacking)))
    table.add_column("group (clients)", overflow="fold")
    table.add_column("model", overflow="fold", min_width=WIDEST_ALGORITHM)
    width = FIGURE_WIDTH if len(task.columns) > MANY_FIGURES else None
    for column in task.columns:
        table.add_column(escape(column.title), justify="right", max_width=width)
    for group, scores in summary["groups"].items():
        # algorithms without a fused model train one per modality, of which the best is reported
        model = summary["algorithm"] if scores["model"] == "fused" else f"{summary['algorithm']}: {scores['model']}"
        name = f"{escape(group)} ({scores['clients']})"
        table.add_row(name, f"[bold]{model}[/bold]", *_figures(task, scores))
        models = summary.get("models", {}).get(group, {})
        for other in (one for one in SHARED_MODELS if one in models and one != scores["model"]):
            table.add_row("", f"the {other} model", *_figures(task, models[other]))
        for name, baseline in summary["baselines"][group].items():
            is_last = name == list(summary["baselines"][group])[-1]
            table.add_row("", f"[dim]{escape(name)}[/dim]", *_figures(task, baseline), end_section=is_last)
    return table


def _figures(task: Task, scores: Mapping[str, float]) -> list[str]:
    return [column.form.format(scores[column.key]) if column.key in scores else "-" for column in task.columns]


def _export_line(folder: Path, exports: list[Mapping[str, Any]]) -> str:
    if not exports:
        return "none (export.onnx = false)"
    providers = ", ".join(sorted({export["provider"] for export in exports}))
    error = max(export["max_abs_error"] for export in exports)
    size = sum(export["bytes"] for export in exports)
    where = folder / Path(exports[0]["path"]).parent
    return f"{len(exports)} ONNX files, {size / 1e6:.1f} MB in {where}; at most {error:.1e} from torch on {providers}"


def ladder_table(value: Mapping[str, Any]) -> Table:
    """Table of the rules of handover, from doing nothing to foresight, each compared with the tuned reaction."""
    powers_hz = value["powers_hz"]
    coarse = f"; powers at {powers_hz:g} Hz: record them at 100 with --set world.link_rate_hz=100"
    caption = _LADDER_NOTE + (coarse if powers_hz < _FINE_HZ else "")
    table = data_table("Value of prediction: handover", caption=caption)
    table.add_column("rule", no_wrap=True)
    for title in ("outage\nms/min", "against\ntuned", "Mbit/s", "against\ntuned", "pre-\npared"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in value["ladder"]:
        is_base = row["rule"] == "reactive_tuned"
        table.add_row(
            rule_title(row["rule"]),
            f"{row['outage_ms_per_minute']:,.0f}",
            "-" if is_base else f"{row['outage_difference']:+,.0f} ±{row['outage_standard_error']:.0f}",
            f"{row['throughput_mbit_s']:.1f}",
            "-" if is_base else f"{row['throughput_difference']:+.2f} ±{row['throughput_standard_error']:.2f}",
            f"{row['prepared_share']:.0%}" if "prepared_share" in row else "-",
        )
    return table


def beam_table(value: Mapping[str, Any]) -> Table:
    """Table of the rules of beams, from doing nothing to foresight, each compared with the tuned sweep."""
    table = data_table("Value of prediction: beams", caption=_BEAM_NOTE)
    table.add_column("rule", no_wrap=True)
    for title in ("Mbit/s", "against\ntuned sweep", "power\nlost, dB", "mea-\nsuring"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in value["ladder"]:
        difference = f"{row['throughput_difference']:+.2f} ±{row['throughput_standard_error']:.2f}"
        table.add_row(
            rule_title(row["rule"]),
            f"{row['throughput_mbit_s']:.2f}",
            "-" if row["rule"] == SWEEP_TUNED else difference,
            f"{row['lost_db']:.3f}",
            f"{row['measuring_share']:.2%}",
        )
    return table


def beam_lines(value: Mapping[str, Any]) -> list[str]:
    """One sentence per group: throughput on the model's first beams against every tuned rival."""
    return [
        f"{group}: model first k against "
        + ", ".join(
            f"{rule_title(rule)} {less['throughput_difference']:+.2f} ±{less['throughput_standard_error']:.2f}"
            for rule, less in figures["model_less"].items()
        )
        + " Mbit/s"
        for group, figures in value["of_groups"].items()
    ]


def deadline_lines(value: Mapping[str, Any]) -> list[str]:
    """One sentence per group: deadlines met, blockages predicted in time, false alarms."""
    return [f"{name}: {_deadline(figures)}" for name, figures in value["groups"].items()]


def _deadline(figures: Mapping[str, Any]) -> str:
    facts = figures["deadline"]
    met = f"met by {facts['met_by']} of {figures['clients']} devices ({facts['answer_ms']:.1f} ms per answer)"
    # tasks without warnings, and recordings without a blockage in the held-out time
    if not facts.get("blockages"):
        return met
    lead = f", median lead {facts['median_lead_ms']:.0f} ms" if "median_lead_ms" in facts else ""
    return (
        f"{met}; of {facts['blockages']} blockages {facts['in_time']} predicted in time, {facts['late']} late,"
        f" {facts['missed']} missed{lead}; {facts['false_alarms_per_min']:.1f} false alarms per minute"
    )
