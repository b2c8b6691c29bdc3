"""Results of a comparison: means and standard deviations over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...models.algorithms.algorithm import SHARED_MODELS
from ...version import __version__
from .comparison import FORMER_METHODS, Comparison
from .jobs import JobOutcome
from .plan import PlannedRun
from .resampling import resampling
from .stored_runs import stored_rounds, stored_summary

#: The mean over the clients of all groups, beside the groups.
ALL_CLIENTS = "all clients"
#: Facts of a run beside its scores. Busiest: the client that offered most bytes to links, in all.
FACTS = ("messages", "bytes", "busiest_bytes", "lost_messages", "virtual_time_s", "energy_j", "wall_time_s")

#: Endings of statistics over the clients of a group, which have no mean over groups.
NO_MEANS = ("_std", "_worst_decile")

#: Seed, as text because of JSON -> value.
Values = Mapping[str, float]
#: Group -> its number of clients, the model that it reports, its figures.
Groups = Mapping[str, Mapping[str, Any]]


def results_of(
    comparison: Comparison, runs: Sequence[PlannedRun], folder: Path, failed: Mapping[str, JobOutcome]
) -> dict[str, Any]:
    """Content of `results.json` without differences between methods, which `with_differences` adds.

    Args:
        comparison: the comparison.
        runs: all its runs; every run that is not in `failed` has a folder.
        folder: parent of the run folders.
        failed: name of a failed run -> its outcome.
    """
    summaries = {run.name: _with_busiest(folder / run.name) for run in runs if run.name not in failed}
    entries = [
        _entry([run for run in runs if (run.method, run.value) == (method, value)], summaries, comparison)
        for value in comparison.varied_values
        for method in comparison.methods
    ]
    scenario = runs[0].scenario
    return {
        "name": comparison.name,
        "scenario": scenario.name,
        "task": scenario.task,
        "split": scenario.data.held_out_by,
        "scored": scenario.data.scored,
        "seeds": list(comparison.seeds),
        "reference": comparison.reference or None,
        "vary": comparison.varied_key or None,
        "tuning": comparison.tuning and comparison.tuning.model_dump(mode="json"),
        "entries": entries,
        "failures": [_failure(run, failed[run.name]) for run in runs if run.name in failed],
        "comparison": _json_tables(comparison),
        "resampling": resampling(scenario, list(summaries.values())),
        "environment": _environment([summary["environment"] for summary in summaries.values()]),
    }


def _with_busiest(folder: Path) -> dict[str, Any]:
    """Summary of a run with the bytes that its busiest client has sent."""
    summary = stored_summary(folder)
    sent: dict[int, int] = {}
    for row in (row for _, rows in stored_rounds(folder) for row in rows):
        if row["client"] < summary["clients"]:  # the number of a server follows
            sent[row["client"]] = max(sent.get(row["client"], 0), row["bytes_sent"])  # sums so far
    return {**summary, "busiest_bytes": max(sent.values(), default=0)}


def _environment(environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all runs share; a list of all values where they differ, as runs on several machines or stale ones do."""
    if not environments:
        return {"sheafedge": __version__}
    found: dict[str, Any] = {}
    # a method without a plugin is not made by other software than one with it
    plugins = {name: digest for one in environments for name, digest in one.get("plugins", {}).items()}
    for name in [name for name in environments[0] if name != "plugins"]:
        values = list(dict.fromkeys(one.get(name) for one in environments))
        found[name] = values[0] if len(values) == 1 else values
    return {**found, **({"plugins": plugins} if plugins else {})}


def complete_runs(entry: Mapping[str, Any]) -> dict[str, str]:
    """Seed -> name of the run folder, of the seeds with which an entry of `results.json` did not fail."""
    done = entry["facts"]["bytes"]["values"]
    return {seed: name for seed, name in entry["runs"].items() if seed in done}


def spread(values: Values) -> dict[str, Any]:
    """Mean, sample standard deviation (None for one seed), number of seeds, and the values themselves."""
    listed = list(values.values())
    return {
        "mean": float(np.mean(listed)) if listed else None,
        # sample standard deviation: seeds are a sample of all that could be drawn
        "sd": float(np.std(listed, ddof=1)) if len(listed) > 1 else None,
        "n": len(listed),
        "values": dict(values),
    }


def groups_with_all(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Groups of a run as in its summary, and the mean over all clients."""
    groups = summary["groups"]
    # statistics over clients do not follow from those of groups; runs of before have none over all clients
    spread_over_all = summary.get("over_clients", {})
    return {**groups, ALL_CLIENTS: {"clients": summary["clients"], **_over_clients(groups, groups), **spread_over_all}}


def _over_clients(figures: Groups, groups: Groups) -> dict[str, float]:
    """Means over all clients from means per group; standard deviations cannot be combined and are left out."""
    keys = dict.fromkeys(key for scores in figures.values() for key in score_keys(scores) if not key.endswith(NO_MEANS))
    means = {}
    for key in keys:
        # groups without this figure are left out of its mean instead of counting as 0
        weights = {group: groups[group]["clients"] for group, scores in figures.items() if key in scores}
        means[key] = sum(weights[group] * figures[group][key] for group in weights) / sum(weights.values())
    return means


def score_keys(scores: Mapping[str, Any]) -> list[str]:
    """Names of the figures of a group."""
    return [key for key in scores if key not in ("clients", "model")]


def _entry(runs: Sequence[PlannedRun], summaries: Mapping[str, Any], comparison: Comparison) -> dict[str, Any]:
    """Entry of one method at one value of the varied field."""
    first = runs[0]
    of_seed = {str(run.seed): summaries[run.name] for run in runs if run.name in summaries}
    varied = {"varied": first.value} if comparison.vary else {}
    return {
        "arm": first.method,
        **varied,
        "algorithm": first.scenario.algorithm,
        "edits": comparison.methods[first.method],
        "n": len(of_seed),
        "runs": {str(run.seed): run.name for run in runs},
        "groups": _groups(of_seed),
        "facts": {fact: spread({seed: _fact(one, fact) for seed, one in of_seed.items()}) for fact in FACTS},
        "warnings": sorted({warning for one in of_seed.values() for warning in one["warnings"]}),
    }


def _groups(summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if not summaries:
        return {}
    groups = {seed: groups_with_all(summary) for seed, summary in summaries.items()}
    baselines = {seed: _baselines(summary) for seed, summary in summaries.items()}
    shared = {name: {seed: _of_model(name, one) for seed, one in summaries.items()} for name in SHARED_MODELS}
    return {
        name: {
            "clients": of_first["clients"],
            "models": {seed: groups[seed][name]["model"] for seed in groups if "model" in groups[seed][name]},
            "scores": _spreads({seed: groups[seed][name] for seed in groups}),
            **{
                model: _spreads({seed: one[name] for seed, one in of_seed.items()})
                for model, of_seed in shared.items()
                if all(of_seed.values())
            },
            "baselines": {
                baseline: _spreads({seed: baselines[seed][baseline][name] for seed in baselines})
                for baseline in next(iter(baselines.values()))
            },
        }
        for name, of_first in next(iter(groups.values())).items()
    }


def _of_model(name: str, summary: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Group -> figures of a model of this name that clients hold beside the reported one; empty where there is none."""
    models = summary.get("models", {})
    found = {group: of_group[name] for group, of_group in models.items() if name in of_group}
    if not found or len(found) < len(models):
        return {}
    return {**found, ALL_CLIENTS: _over_clients(found, summary["groups"])}


def _baselines(summary: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, float]]]:
    """Baseline -> group -> figures."""
    names = dict.fromkeys(name for baselines in summary["baselines"].values() for name in baselines)
    found = {}
    for name in names:
        by_group = {group: baselines[name] for group, baselines in summary["baselines"].items()}
        found[name] = {**by_group, ALL_CLIENTS: _over_clients(by_group, summary["groups"])}
    return found


def _spreads(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Figure -> its mean and spread over seeds, from seed -> figures."""
    keys = dict.fromkeys(key for one in scores.values() for key in score_keys(one))
    return {key: spread({seed: one[key] for seed, one in scores.items() if key in one}) for key in keys}


def _fact(summary: Mapping[str, Any], fact: str) -> float:
    value: float = summary[fact] if fact in summary else summary["traffic"][fact]
    return value


def _json_tables(comparison: Comparison) -> dict[str, Any]:
    """Tables of the comparison with the former name of `methods`: the keys of results.json never change."""
    tables = comparison.tables()
    return {(FORMER_METHODS if key == "methods" else key): value for key, value in tables.items()}


def _failure(run: PlannedRun, done: JobOutcome) -> dict[str, Any]:
    return {"arm": run.method, "varied": run.value, "seed": run.seed, "error": done.error, "sentence": done.sentence}
