"""Claims of the paper, each checked against the results of a comparison.

A difference counts when its mean over seeds is larger than its standard deviation over the same seeds (paired: both
methods share samples, graph and initial values). With five seeds that is a rule of thumb, not a test of significance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

HOLDS, FAILS, UNTESTED = "holds", "does not hold", "not testable here"

CONCAT, ATTENTION = "Sheaf-DMFL", "Sheaf-DMFL-Att"
SHEAVES = (CONCAT, ATTENTION)
LOCAL, DSGD, DMML = "local, best modality", "DSGD", "DMML-KD (approximation)"
#: What the paper compares with; head averaging and the like are ours to add.
PAPERS_BASELINES = (LOCAL, DSGD, DMML)
BEAM_GROUPS = ("gps", "camera", "both")
BLOCKAGE_GROUPS = ("lidar+camera", "lidar+rf", "camera+rf")
#: Largest gap to the centralised figure that Table I prints for images and both.
NEAR = 0.03


class Scores:
    """First score of every method, group and seed of one comparison.

    Args:
        results: content of its `results.json`; nothing varies in it.
        key: of the score that ranks models.
    """

    def __init__(self, results: Mapping[str, Any], key: str) -> None:
        self.name: str = results["name"]
        self._key = key
        self._entries = {entry["arm"]: entry for entry in results["entries"]}

    def methods(self) -> list[str]:
        """Those that ran."""
        return [method for method, entry in self._entries.items() if entry["n"]]

    def groups(self) -> list[str]:
        """Without the mean over all clients."""
        first = next(entry for entry in self._entries.values() if entry["n"])
        return list(first["groups"])[:-1]

    def values(self, method: str, group: str) -> dict[str, float]:
        """Seed -> score."""
        values: dict[str, float] = self._entries[method]["groups"][group]["scores"][self._key]["values"]
        return values

    def mean(self, method: str, group: str) -> float:
        """Over seeds."""
        return fmean(self.values(method, group).values())

    def best(self, methods: Sequence[str], group: str) -> str:
        """Method with the best mean."""
        return max(
            (method for method in methods if method in self.methods()), key=lambda method: self.mean(method, group)
        )

    def gain(self, method: str, other: str, group: str) -> Gain:
        """Of a method over another one, seed by seed."""
        mine, theirs = self.values(method, group), self.values(other, group)
        differences = [mine[seed] - theirs[seed] for seed in mine if seed in theirs]
        return Gain(fmean(differences), stdev(differences) if len(differences) > 1 else 0.0)


@dataclass(frozen=True)
class Gain:
    """A paired difference: mean and standard deviation over seeds."""

    mean: float
    spread: float

    @property
    def counts(self) -> bool:
        """Above 0 by more than its spread."""
        return self.mean > self.spread

    @property
    def counts_against(self) -> bool:
        """Below 0 by more than its spread."""
        return self.mean < -self.spread

    def __str__(self) -> str:
        return f"{self.mean:+.3f}±{self.spread:.3f}".replace("0.", ".")


@dataclass(frozen=True)
class Claim:
    """One line of the checklist.

    Attributes:
        number, text: of the list.
        comparison: whose figures decide; it may be missing, where data are.
        decide: figures -> verdict, and what it rests on.
    """

    number: int
    text: str
    comparison: str
    decide: Callable[[Scores], tuple[bool, str]]

    def row(self, found: Mapping[str, Scores]) -> str:
        """A row of the table."""
        scores = found.get(self.comparison)
        if scores is None:
            return f"| {self.number} | {self.text} | {UNTESTED} | no figures of `{self.comparison}` |"
        holds, why = self.decide(scores)
        return f"| {self.number} | {self.text} | **{HOLDS if holds else FAILS}** | {why} (`{self.comparison}`) |"


def _beats_all(
    scores: Scores, methods: Sequence[str], baselines: Sequence[str], groups: Sequence[str]
) -> tuple[bool, str]:
    """Every method above the best of the baselines, in every group, by more than the spread."""
    holds, said = True, []
    for group in groups:
        best = scores.best(baselines, group)
        gains = [scores.gain(method, best, group) for method in methods]
        holds = holds and all(gain.counts for gain in gains)
        said.append(f"{group}: {', '.join(map(str, gains))} over {best} {scores.mean(best, group):.3f}")
    return holds, "; ".join(said)


def _near_centralized(scores: Scores) -> tuple[bool, str]:
    best = {group: scores.mean(scores.best(SHEAVES, group), group) for group in BEAM_GROUPS}
    gaps = {group: scores.mean("centralized", group) - best[group] for group in BEAM_GROUPS}
    said = ", ".join(f"{group} {gap:+.3f}" for group, gap in gaps.items())
    return all(gaps[group] <= NEAR for group in ("camera", "both")), f"gap to centralized: {said}"


def _dmml_behind(scores: Scores) -> tuple[bool, str]:
    gains = {group: scores.gain(DMML, LOCAL, group) for group in BEAM_GROUPS}
    said = ", ".join(f"{group} {gain}" for group, gain in gains.items())
    return gains["camera"].counts_against and gains["both"].counts_against, f"DMML-KD over local: {said}"


def _attention_helps_gps(scores: Scores) -> tuple[bool, str]:
    gain = scores.gain(ATTENTION, CONCAT, "gps")
    return gain.counts, f"attention over concatenation, gps: {gain}"


def _helps_gps_most(scores: Scores) -> tuple[bool, str]:
    gains = {group: {method: scores.gain(method, LOCAL, group) for method in (DSGD, *SHEAVES)} for group in BEAM_GROUPS}
    most = all(
        gains["gps"][method].counts
        and gains["gps"][method].mean > max(gains[g][method].mean for g in ("camera", "both"))
        for method in (DSGD, *SHEAVES)
    )
    said = "; ".join(f"{group} {', '.join(map(str, of_group.values()))}" for group, of_group in gains.items())
    return most, f"DSGD and both sheaf variants over local: {said}"


def _averaging_hurts(scores: Scores) -> tuple[bool, str]:
    gains = {group: scores.gain(DSGD, LOCAL, group) for group in ("camera", "both")}
    said = ", ".join(f"{group} {gain}" for group, gain in gains.items())
    return all(gain.counts_against for gain in gains.values()), f"DSGD over local: {said}"


def _ordered(better: str, worse: str, *, clearly: bool) -> Callable[[Scores], tuple[bool, str]]:
    """One method above another in all groups, or at least in none clearly below."""

    def decide(scores: Scores) -> tuple[bool, str]:
        gains = {group: scores.gain(better, worse, group) for group in scores.groups()}
        said = ", ".join(f"{group} {gain}" for group, gain in gains.items())
        fine = [gain.counts if clearly else not gain.counts_against for gain in gains.values()]
        return all(fine), f"{better} over {worse}: {said}"

    return decide


def _blockage_order(scores: Scores) -> tuple[bool, str]:
    above, said = _beats_all(scores, SHEAVES, PAPERS_BASELINES, BLOCKAGE_GROUPS)
    over_concat = {group: scores.gain(ATTENTION, CONCAT, group) for group in BLOCKAGE_GROUPS}
    largest = max(over_concat, key=lambda group: over_concat[group].mean)
    lowest = min(scores.mean(method, group) for method in scores.methods() for group in BLOCKAGE_GROUPS)
    gaps = ", ".join(f"{group} {gain}" for group, gain in over_concat.items())
    fine = above and largest == "camera+rf" and lowest > 0.6
    return fine, f"{said}; attention over concatenation: {gaps}; lowest of all methods {lowest:.3f}"


def _dsgd_weakest(scores: Scores) -> tuple[bool, str]:
    among = (*PAPERS_BASELINES, *SHEAVES)
    weakest = {group: min(among, key=lambda method: scores.mean(method, group)) for group in BLOCKAGE_GROUPS}
    gains = {group: scores.gain(DSGD, LOCAL, group) for group in BLOCKAGE_GROUPS}
    level = not any(gain.counts or gain.counts_against for gain in gains.values())
    said = ", ".join(f"{group}: {method}" for group, method in weakest.items())
    over_local = ", ".join(f"{group} {gain}" for group, gain in gains.items())
    holds = level and all(method == DSGD for method in weakest.values())
    return holds, f"weakest of the paper's methods: {said}; DSGD over local: {over_local}"


def _views(scores: Scores) -> tuple[bool, str]:
    among = (*PAPERS_BASELINES, *SHEAVES)
    best = {group: scores.best(among, group) for group in BEAM_GROUPS}
    dsgd = scores.gain(DSGD, LOCAL, "camera")
    kept = {group: scores.gain(ATTENTION, LOCAL, group) for group in BEAM_GROUPS}
    said = ", ".join(f"{group}: {method} {scores.mean(method, group):.3f}" for group, method in best.items())
    gains = ", ".join(f"{group} {gain}" for group, gain in kept.items())
    fine = all(method == ATTENTION for method in best.values()) and dsgd.counts_against
    return fine, f"best of the paper's methods: {said}; DSGD over local, camera: {dsgd}; attention over local: {gains}"


CLAIMS = (
    Claim(
        1,
        "Both sheaf variants beat the paper's decentralised baselines for images and both",
        "drones_occluded",
        lambda scores: _beats_all(scores, SHEAVES, PAPERS_BASELINES, ("camera", "both")),
    ),
    Claim(
        2, f"Near-centralised accuracy for images and both (gap at most {NEAR})", "drones_occluded", _near_centralized
    ),
    Claim(3, "DMML-KD is far behind, below local for images and both", "drones_occluded", _dmml_behind),
    Claim(4, "Attention beats concatenation for GPS-only clients", "drones_occluded", _attention_helps_gps),
    Claim(5, "Collaboration helps GPS most", "drones_occluded", _helps_gps_most),
    Claim(6, "Under occlusion plain averaging hurts image clients", "drones_occluded", _averaging_hurts),
    Claim(7, "gamma 0.23 is above 0.1", "tracking", _ordered("gamma 0.23", "gamma 0.1", clearly=True)),
    Claim(
        8,
        "Structured maps are at least as good as random ones",
        "tracking",
        _ordered("gamma 0.1", "random maps, gamma 0.1", clearly=False),
    ),
    Claim(
        9,
        "Blockage: both sheaf variants above local, DSGD and DMML-KD in all groups, the largest gain of attention for"
        " camera+rf, all methods above 60 %",
        "blockage",
        _blockage_order,
    ),
    Claim(10, "Blockage: DSGD is the weakest, about level with local", "blockage", _dsgd_weakest),
    Claim(
        11,
        "IID beams: Sheaf-DMFL above DSGD and local for images and both",
        "drones",
        lambda scores: _beats_all(scores, (CONCAT,), (DSGD, LOCAL), ("camera", "both")),
    ),
    Claim(12, "Different views: attention best in all groups, DSGD degrades", "drones_views", _views),
)

#: Ours, against every decentralised baseline that needs no knowledge of groups.
OURS = "sheaf twin (ours)"
RIVALS = (
    "local",
    LOCAL,
    DSGD,
    "DSGD, heads too",
    "D-PSGD",
    "D-PSGD, adapt then combine",
    DMML,
    "head averaging",
    "encoders only",
    CONCAT,
    ATTENTION,
)


def ours_against_the_best(found: Mapping[str, Scores], ours: Mapping[str, str]) -> list[str]:
    """Rows: comparison, and per group the figure of ours, the best rival, and the paired difference.

    Args:
        found: comparison -> scores.
        ours: comparison -> name of our method in it, where it is not `OURS`.
    """
    rows = []
    for name, scores in found.items():
        method = ours.get(name, OURS)
        if method not in scores.methods():
            continue
        cells = []
        for group in scores.groups():
            best = scores.best(RIVALS, group)
            gain = scores.gain(method, best, group)
            mark = "**behind**" if gain.counts_against else ("**ahead**" if gain.counts else "level")
            cells.append(f"{scores.mean(method, group):.3f} ({gain} over {best}): {mark}")
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return rows
