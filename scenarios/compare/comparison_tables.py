"""Tables of a comparison, for a terminal and for a Markdown file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...models.algorithms.algorithm import SHARED_MODELS
from ...models.algorithms.algorithm_table import ALGORITHMS
from ..report.shown_scores import heading
from ..tasks.task_spec import Column
from ..tasks.task_table import TASKS
from .difference_tables import difference_tables
from .differences import notes, with_differences
from .result_table import ResultTable, figure_of, group_names, name_cells, name_heads, number, shown_value
from .results import ALL_CLIENTS

_SPLITS = {
    "rows": "rows of the data",
    "sequence": "whole sequences",
    "time": "later time",
    "random": "random samples, which leak",
}


def result_tables(results: Mapping[str, Any]) -> list[ResultTable]:
    """All tables: first score by group, costs, other scores over all, differences to the reference, scores by group."""
    results = results if "statistics" in results else with_differences(results)  # those of before have no intervals
    first, *others = TASKS[results["task"]].columns
    tables = [_score_table(results, first), _cost_table(results), _overall_table(results, others)]
    tables += difference_tables(results)
    return [*tables, *(_score_table(results, column, is_main=False) for column in others)]


def failure_lines(results: Mapping[str, Any]) -> list[str]:
    """One sentence per failure; methods and seeds with the same failure share a line."""
    seeds: dict[tuple[str, str], list[str]] = {}
    for failure in results["failures"]:
        at = f" at {results['vary']} = {shown_value(failure['varied'])}" if results["vary"] else ""
        seeds.setdefault((f"{failure['arm']}{at}", failure["sentence"]), []).append(str(failure["seed"]))
    methods: dict[tuple[str, str], list[str]] = {}
    for (method, sentence), of in seeds.items():
        methods.setdefault((f"seed{'s' if len(of) > 1 else ''} {', '.join(of)}", sentence), []).append(method)
    return [f"{', '.join(of)}, {seed}: {sentence}" for (seed, sentence), of in methods.items()]


def markdown(results: Mapping[str, Any]) -> str:
    """Content of `table.md`."""
    tables = [table.markdown() for table in result_tables(results)]
    failures = [f"- failed: {line}" for line in failure_lines(results)]
    about = [f"{sentence}\n" for sentence in (legend(results), *notes(results))]
    return "\n".join([f"# {results['name']}\n", *about, *failures, *([""] if failures else []), *tables])


def legend(results: Mapping[str, Any]) -> str:
    """Sentences about the scored samples and the meaning of the figures."""
    n_seeds, split = len(results["seeds"]), _SPLITS.get(results["split"], results["split"])
    scored = f"{'validation samples' if results['scored'] == 'validation' else 'held-out samples'} ({split})"
    over = f"mean±standard deviation over {n_seeds} seeds" if n_seeds > 1 else f"seed {results['seeds'][0]}"
    text = f"Scenario {results['scenario']}, {scored}. Means over a group's clients: {over}."
    if tuning := results.get("tuning"):  # results of the first version have none
        text += f" Chosen per method on {tuning['scored']} samples: {', '.join(tuning['grid'])}."
    return text


def _score_table(results: Mapping[str, Any], column: Column, *, is_main: bool = True) -> ResultTable:
    groups = group_names(results)
    rows = []
    for entry in results["entries"]:
        name, *rest = name_cells(results, entry)
        for kind in ("scores", *SHARED_MODELS):
            figures = [figure_of(entry, group, kind, column) for group in groups]
            if kind == "scores" or any(figures):
                label = name if kind == "scores" else f"{name}: {kind}"
                rows.append([label, *rest, *(_spread(figure, column) for figure in figures)])
    for label, baselines in _different_baselines(results):
        known = (baselines.get(group, {}).get(column.key) for group in groups)
        first = [label, *[""] * (len(name_heads(results)) - 1)]
        rows.append([*first, *(_spread(figure, column) for figure in known)])
    return ResultTable(heading(column), [*name_heads(results), *groups], rows, is_main)


def _cost_table(results: Mapping[str, Any]) -> ResultTable:
    # what a client sends and receives differs from its share of all traffic only where a server is at the other end
    served = has_servers(results)
    both_ways = ["MB per client, both ways", "J"] if served else []
    sent = ["MB sent", "by the busiest client"]
    heads = [*name_heads(results), *sent, *both_ways, "simulated s"]
    rows = []
    for entry in results["entries"]:
        facts = entry["facts"]
        # results of before have no such figure
        costs = [_amount(facts["bytes"], 1e-6), _amount(facts.get("busiest_bytes", {"mean": None}), 1e-6)]
        if served:
            costs += [_amount(facts["bytes"], 1e-6 * _ends_per_client(entry)), _amount(facts["energy_j"], 1.0)]
        rows.append([*name_cells(results, entry), *costs, _amount(facts["virtual_time_s"], 1.0)])
    return ResultTable("costs", heads, rows)


def _overall_table(results: Mapping[str, Any], columns: Sequence[Column]) -> ResultTable:
    rows = [
        [
            *name_cells(results, entry),
            *(_spread(figure_of(entry, ALL_CLIENTS, "scores", column), column) for column in columns),
        ]
        for entry in results["entries"]
    ]
    return ResultTable("other scores over all clients", [*name_heads(results), *map(heading, columns)], rows)


def _ends_per_client(entry: Mapping[str, Any]) -> float:
    """Ends of a message that are at a client, per client: both of one among neighbors, one of one with a server."""
    n_clients = entry["groups"][ALL_CLIENTS]["clients"] if entry["n"] else 1
    return (1.0 if _has_server(entry) else 2.0) / n_clients


def has_servers(results: Mapping[str, Any]) -> bool:
    """Whether a method of a comparison has a server."""
    return any(_has_server(entry) for entry in results["entries"])


def _has_server(entry: Mapping[str, Any]) -> bool:
    return entry["algorithm"] in ALGORITHMS and ALGORITHMS[entry["algorithm"]].server


def _spread(figure: Mapping[str, Any] | None, column: Column) -> str:
    """Text such as `.560±.012`; a dash without a value, no ± for one seed."""
    if figure is None or figure["mean"] is None:
        return "-"
    mean = number(figure["mean"], column)
    return mean if figure["sd"] is None else f"{mean}±{number(figure['sd'], column)}"


def _amount(figure: Mapping[str, Any], unit: float) -> str:
    if figure["mean"] is None:
        return "-"
    mean = figure["mean"] * unit
    return f"{mean:,.0f}" if mean >= 100 else f"{mean:.3g}"


def _different_baselines(results: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Mapping[str, Any]]]]:
    """Label, and group -> spreads, of every baseline; methods that share its figures share one entry.

    Baselines differ between methods whose edits change the data, or that failed with some seeds.
    """
    found: list[tuple[str, dict[str, Any]]] = []
    for entry in sorted(results["entries"], key=lambda entry: -entry["n"]):  # entries with most seeds first
        names = dict.fromkeys(name for group in entry["groups"].values() for name in group["baselines"])
        for name in names:
            mine = {group: facts["baselines"][name] for group, facts in entry["groups"].items()}
            if any(_agree(mine, theirs) for label, theirs in found if label.split(" (")[0] == name):
                continue
            is_first = not any(label == name for label, _ in found)
            at = f" at {shown_value(entry['varied'])}" if results["vary"] else ""
            found.append((name if is_first else f"{name} ({entry['arm']}{at})", mine))
    yield from found


def _agree(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether two methods have equal figures on their common seeds."""
    return all(
        # what the other method lacks cannot contradict, so that missing groups, scores and seeds agree
        value == theirs.get(group, {}).get(key, figure)["values"].get(seed, value)
        for group, figures in mine.items()
        for key, figure in figures.items()
        for seed, value in figure["values"].items()
    )
