"""Paired differences between the methods of a comparison and one of them, with what they can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .results import Values, spread
from .statistics import (
    CONFIDENCE,
    POWER,
    PairedEstimate,
    half_width,
    holm,
    paired_estimate,
    smallest_rank_p,
    smallest_visible_effect,
)

#: Results of versions before there were intervals do not say what their seeds drew.
UNKNOWN: Mapping[str, Any] = {"drawn": "unknown", "test_per_train": 0.0}
_DRAWN = {
    "data": "Every seed records a world of its own, so seeds are independent.",
    "split": "Every seed deals the same data anew into training and held-out samples, so that seeds are not"
    " independent; intervals are widened for that (Nadeau and Bengio 2003, with {test_per_train:.2g} held-out samples"
    " per training sample).",
    "neither": "All seeds have the same data and the same split: intervals stand for another draw of graph, weights and"
    " batches, not for other data.",
    "unknown": "These results do not say whether seeds drew data of their own; intervals take them as independent.",
}


def with_differences(results: Mapping[str, Any]) -> dict[str, Any]:
    """Results with the paired differences of every method to the reference, at the same varied value.

    Without a reference in the comparison it is the first method that has runs. Results of any version are accepted;
    differences in them are replaced.
    """
    reference, n_methods = _reference(results), len(results["comparison"]["arms"])
    found = {key: value for key, value in results.items() if key != "entries"}
    found["resampling"] = dict(results.get("resampling") or UNKNOWN)
    if reference is None or n_methods < 2:
        return {**found, "entries": list(results["entries"])}
    test_per_train = found["resampling"]["test_per_train"]
    entries = [_with_differences(entry, results["entries"], reference, test_per_train) for entry in results["entries"]]
    _adjust([entry for entry in entries if entry["arm"] != reference])
    chosen = not results["comparison"].get("reference")
    statistics = {"confidence": CONFIDENCE, "tests": _n_tests(entries, reference), "reference_by_default": chosen}
    return {**found, "reference": reference, "entries": entries, "statistics": statistics}


def differences(values: Values, reference: Values) -> dict[str, float]:
    """Seed -> paired difference on common seeds; effects of the seed itself, such as an easy split, cancel."""
    return {seed: value - reference[seed] for seed, value in values.items() if seed in reference}


def notes(results: Mapping[str, Any], *, in_paper: bool = False) -> list[str]:
    """Sentences about what the differences of these results stand for, and what their number of seeds can show.

    Args:
        results: with differences.
        in_paper: readers have no command line, so that none of its options is named.
    """
    if "statistics" not in results:
        return []
    facts, drawn = results["statistics"], results["resampling"]
    another = "" if in_paper else " (--reference names another)"
    default = f", the first method{another}" if facts["reference_by_default"] else ""
    adjusted = (
        f", p values of each score and group by Holm's method for {facts['tests']} tests" if facts["tests"] > 1 else ""
    )
    said = f"Differences are to {results['reference']}{default}, seed by seed"
    n = max((entry["n"] for entry in results["entries"]), default=0)
    if n < 2:
        return [f"{said}. One seed shows no spread: there are no intervals and no p values."]
    measures = (
        f"{facts['confidence']:.0%} confidence intervals by Student's t{adjusted}; effect: Hedges' g_z, the difference"
        " in standard deviations of the differences"
    )
    return [
        f"{said}, with {measures}.",
        _DRAWN[drawn["drawn"]].format(**drawn),
        shown_by(n, drawn["test_per_train"]),
    ]


def shown_by(n: int, test_per_train: float) -> str:
    """One sentence or two about what n >= 2 seeds can and cannot show."""
    rank = smallest_rank_p(n)
    ranks = f" (a test of signs or ranks cannot fall below p = {rank:.2g})" if rank > 1.0 - CONFIDENCE else ""
    reach, visible = half_width(n, test_per_train), smallest_visible_effect(n, test_per_train)
    return (
        f"{n} seeds: an interval reaches {reach:.2g} standard deviations of the differences to either side, and only an"
        f" effect of {visible:.2g} is found with probability {POWER:g}; smaller ones are mostly missed, so an interval"
        f" with 0 does not show that methods are equal. That differences are normal is assumed, not tested{ranks}."
    )


def _reference(results: Mapping[str, Any]) -> str | None:
    named: str | None = results["comparison"].get("reference") or results.get("reference")
    # a first method whose runs all failed leaves nothing to compare with
    return named or next((entry["arm"] for entry in results["entries"] if entry["n"]), None)


def _with_differences(
    entry: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], reference: str, test_per_train: float
) -> dict[str, Any]:
    # the reference at the same value: the difference shows the method, not the varied field
    other = next(e for e in entries if e["arm"] == reference and e.get("varied") == entry.get("varied"))
    groups = {}
    for name, group in entry["groups"].items():
        theirs = other["groups"].get(name, {}).get("scores", {})
        found = {
            key: _difference(differences(mine["values"], theirs[key]["values"]), test_per_train)
            for key, mine in group["scores"].items()
            if key in theirs
        }
        groups[name] = {**group, "differences": found}
    return {**entry, "groups": groups}


def _difference(values: Values, test_per_train: float) -> dict[str, Any]:
    estimate: PairedEstimate = paired_estimate(list(values.values()), test_per_train)
    return {
        **spread(values),
        "interval": estimate.interval and list(estimate.interval),
        "effect": estimate.effect,
        "effect_interval": estimate.effect_interval and list(estimate.effect_interval),
        "p": estimate.p,
    }


def _adjust(entries: Sequence[Mapping[str, Any]]) -> None:
    """Adds adjusted p values: a family is one score of one group, of all methods and varied values."""
    for family in _families(entries):
        for difference, p in zip(family, holm([one["p"] for one in family]), strict=True):
            difference["p_holm"] = p


def _families(entries: Sequence[Mapping[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in entries:
        for name, group in entry["groups"].items():
            for key, difference in group["differences"].items():
                found.setdefault((name, key), []).append(difference)
    yield from found.values()


def _n_tests(entries: Sequence[Mapping[str, Any]], reference: str) -> int:
    return sum(1 for entry in entries if entry["arm"] != reference and entry["n"])
