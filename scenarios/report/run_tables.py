"""Tables of a run's report: what was run, scores, nodes, links, traffic, faults, value of prediction."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .html_page import PageFacts, PageTable
from .network_figures import merged_edges
from .round_records import Array, RoundRecords, last_known
from .run_records import RunRecords

#: Rows of a table of nodes or links, the most that a reader goes through.
MOST_ROWS = 60
MOST_LINKS = 12


def run_facts(records: RunRecords) -> PageFacts:
    """What was run, on what, and how long it took."""
    summary, scenario, environment = records.summary, records.scenario, records.summary["environment"]
    groups = ", ".join(f"{figures['clients']} {group}" for group, figures in summary["groups"].items())
    facts = {
        "scenario": f"{scenario.name} – {scenario.summary}" if scenario.summary else scenario.name,
        "task": scenario.task_spec.title,
        "algorithm": scenario.algorithm,
        "seed": str(scenario.seed),
        "clients": f"{summary['clients']} ({groups}){' and a server' if 'server' in summary else ''}",
        "network": f"{summary.get('edges', '?')} edges, {records.scenario.network.mode}",
        "samples": _samples(summary),
        "simulated": f"{summary['rounds']} rounds in {summary['virtual_time_s']:.2f} s, {summary['energy_j']:,.1f} J of"
        " computing",
        "real time": f"data {summary.get('recording_time_s', 0.0):.1f} s, training {summary['wall_time_s']:.1f} s,"
        f" export {summary.get('export_time_s', 0.0):.1f} s",
        "software": _software(environment),
        "machine": ", ".join(
            str(part)
            for part in (
                environment.get("device"),
                environment.get("processor"),
                environment.get("machine"),
                f"{environment['cpus']} CPU cores" if "cpus" in environment else None,
                f"{environment['workers']} workers" if environment.get("workers") else None,
            )
            if part
        ),
        "trace hash": summary["trace_hash"],
        "repeat with": f"sheafedge run {shlex.quote(str(records.folder / 'scenario.toml'))}",
    }
    return PageFacts(facts)


def _samples(summary: Mapping[str, Any]) -> str:
    train = f"{summary['train_windows']:,} for training, " if "train_windows" in summary else ""
    split = f" (split by {summary['split']})" if "split" in summary else ""
    kind = "validation" if summary.get("scored") == "validation" else "held out"
    return f"{train}{summary['test_windows']:,} {kind}{split}"


#: What names the sources that a run was made with -> key of the environment.
_SOURCES = {"commit": "commit", "sources": "code"}


def _software(environment: Mapping[str, Any]) -> str:
    sources = [f"{name} {environment[key]}" for name, key in _SOURCES.items() if key in environment]
    code = f" ({', '.join(sources)})" if sources else ""
    python = f", Python {environment['python']}" if "python" in environment else ""
    plugins = "".join(f", plugin {name} {digest}" for name, digest in environment.get("plugins", {}).items())
    return f"sheafedge {environment['sheafedge']}{code}, torch {environment['torch']}{python}{plugins}"


def changed_fields(tables: Mapping[str, Any]) -> PageTable:
    """Fields of a scenario that differ from their defaults, given as nested tables."""
    rows = [[key, _shown(value)] for key, value in _flat(tables) if key not in {"name", "summary"}]
    return PageTable(["field", "value"], rows, "Fields of the scenario that differ from their defaults")


def _flat(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            for index, one in enumerate(value):
                yield from _flat(one, f"{prefix}{key}[{index}].")
        else:
            yield f"{prefix}{key}", value


def _shown(value: Any) -> str:
    if isinstance(value, float) and abs(value) >= 1e6:
        return f"{value:g}"
    # the comma of a list of numbers gives a browser a place to break the line
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 200 else f"{text[:197]}..."


def score_table(records: RoundRecords) -> PageTable:
    """Scores of every group, of all its models where there are several, and of predictions without a model."""
    columns = [column for column in records.score_columns if not column.over_clients]
    rows: list[list[str]] = []
    best: set[tuple[int, int]] = set()
    for group, figures in records.summary["groups"].items():
        reported = figures["model"]
        models = {reported: figures, **records.summary.get("models", {}).get(group, {})}
        baselines = records.summary["baselines"].get(group, {})
        for name, scores in {**models, **baselines}.items():
            first = name == reported
            title = f"{group} ({figures['clients']})" if first else ""
            rows.append([title, name, *(_score(scores.get(column.key), column.form) for column in columns)])
            if first:
                best |= {(len(rows) - 1, place) for place in range(len(columns) + 2)}
    return PageTable(
        ["group (clients)", "model", *(column.title for column in columns)],
        rows,
        note="Mean over the clients of a group. Bold: the model that the group reports; the others are alternatives and"
        " predictions without a model.",
        best=frozenset(best),
    )


def _score(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def node_table(records: RoundRecords) -> PageTable:
    """A row per node: last score, bytes, energy and time."""
    last = last_known(records.scores)
    form = records.first.form
    shown = range(min(len(records.groups), MOST_ROWS))
    columns: list[tuple[str, list[str]]] = [
        ("node", [str(node) for node in shown]),
        ("group", [records.groups[node] for node in shown]),
        (records.first.title, [form.format(last[node]) if np.isfinite(last[node]) else "–" for node in shown]),
    ]
    for name, title, factor, digits in (
        ("bytes_sent", "sent [MB]", 1e-6, 2),
        ("energy_j", "energy [J]", 1.0, 2),
    ):
        if records.has(name):
            columns.append((title, _column(factor * records.last(name), digits)))
    for name, title in (
        ("compute_s", "computing [s]"),
        ("airtime_s", "transmitting [s]"),
        ("waiting_s", "waiting [s]"),
    ):
        if records.has(name):
            columns.append((title, _column(np.nansum(records.columns[name], axis=1), 3)))
    left = len(records.groups) - len(shown)
    note = "Bytes, energy and times over the whole run; times are simulated."
    return PageTable(
        [title for title, _ in columns],
        [list(cells) for cells in zip(*(cells[: len(shown)] for _, cells in columns), strict=True)],
        note=note + (f" The other {left} nodes are in metrics.jsonl." if left else ""),
    )


def _column(values: Array, digits: int) -> list[str]:
    return [f"{value:,.{digits}f}" if np.isfinite(value) else "–" for value in values]


def link_table(records: RoundRecords) -> PageTable:
    """Edges that lost most."""
    edges = merged_edges(records.diagnostics.edges)
    worst = sorted(edges.items(), key=lambda item: (-item[1].loss, item[0]))[:MOST_LINKS]
    rows = [
        [
            f"{one} – {other}",
            f"{edge.messages:,}",
            f"{1e-6 * edge.bytes:,.2f}",
            f"{edge.lost_messages:,}",
            f"{100.0 * edge.loss:.2f}",
            "–" if edge.mean_delay_s is None else f"{1e3 * edge.mean_delay_s:.2f}",
            "–" if edge.rate_bps is None else f"{1e-6 * edge.rate_bps:,.1f}",
        ]
        for (one, other), edge in worst
    ]
    head = ["edge", "messages", "MB", "lost messages", "lost packets [%]", "mean delay [ms]", "rate [Mbit/s]"]
    which = "Edges that lost most" if worst[0][1].loss else "Edges, none of which lost packets"
    caption = f"{which}, {len(rows)} of {len(edges):,}" if len(rows) < len(edges) else "Edges"
    return PageTable(head, rows, caption, note="Both directions together; delay and rate of the slower one.")


#: Counters of `traffic` in the summary -> what they count.
_COUNTERS = {
    "messages": "messages",
    "lost_messages": "messages lost",
    "dropped_messages": "dropped by full queues",
    "dropped_by_faults": "dropped by faults",
    "corrupted_messages": "corrupted and refused",
    "partial_messages": "received in part",
    "late_messages": "late",
    "overtaken_messages": "overtaken by newer ones",
    "waiting_messages": "still queued at the end",
    "packets": "packets",
    "lost_packets": "packets lost",
    "retransmissions": "packets sent again",
}


def traffic_facts(records: RoundRecords) -> PageFacts:
    """Counters of messages; those of 0 are left out."""
    traffic = records.summary["traffic"]
    facts = {"bytes": f"{1e-6 * traffic['bytes']:,.2f} MB"} if "bytes" in traffic else {}
    facts |= {title: f"{traffic[key]:,}" for key, title in _COUNTERS.items() if traffic.get(key)}
    return PageFacts(facts | _server_facts(records.summary.get("server", {})))


def _server_facts(server: Mapping[str, Any]) -> dict[str, str]:
    facts = {}
    for way, title in (("up", "to the server"), ("down", "from the server")):
        if figures := server.get(way):
            facts[title] = (
                f"{figures['messages']:,} messages, {1e-6 * figures['bytes']:,.2f} MB, {figures['lost_messages']:,}"
                f" lost; {1e3 * figures['mean_s']:.1f} ms on their way, at most {1e3 * figures['max_s']:.1f} ms"
            )
    return facts


def fault_table(tables: Mapping[str, Any]) -> PageTable:
    """Faults among the fields of a scenario that differ from their defaults; without rows where there are none."""
    rows = []
    for fault in tables.get("faults", []):
        others = "; ".join(f"{key} = {_shown(value)}" for key, value in fault.items() if key != "kind")
        rows.append([str(fault["kind"]).replace("_", " "), others])
    return PageTable(["fault", "settings"], rows)


def off_facts(records: RoundRecords) -> dict[str, str]:
    """Rounds at whose end nodes were off."""
    if not records.has("off"):
        return {}
    n_off = np.nansum(records.columns["off"], axis=1).astype(int)
    nodes = ", ".join(f"node {node}: {n_off[node]}" for node in np.flatnonzero(n_off))
    return {f"rounds, of {records.n_rounds}, at whose end it was off": nodes} if nodes else {}


def deadline_table(value: Mapping[str, Any]) -> PageTable:
    """Deadlines and warnings of every group."""
    rows: list[Sequence[str]] = []
    for group, figures in value["groups"].items():
        facts = figures["deadline"]
        warned = (
            [
                f"{facts['blockages']:,}",
                f"{facts['in_time']:,}",
                f"{facts['late']:,}",
                f"{facts['missed']:,}",
                f"{facts['median_lead_ms']:.0f}" if "median_lead_ms" in facts else "–",
                f"{facts['false_alarms_per_min']:.1f}",
            ]
            if facts.get("blockages")
            else []
        )
        rows.append([group, f"{facts['met_by']} of {figures['clients']}", f"{facts['answer_ms']:.1f}", *warned])
    n_cells = max(map(len, rows))
    head = ["group", "deadline met by", "answer [ms]"]
    head += ["blockages", "in time", "late", "missed", "median lead [ms]", "false alarms per min"][: n_cells - 3]
    return PageTable(head, [[*row, *["–"] * (n_cells - len(row))] for row in rows])
