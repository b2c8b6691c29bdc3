"""Figures inside sentences of the page: filled from the scores, and refused where a sentence says what they do not.

A template cites by fields in double braces, parts of which are parted by |:

    {{d REGIME | ARM | OTHER}}             difference over all clients, interval, word: a row of *What decides*
    {{d REGIME | ARM | OTHER | GROUP}}     the same in a group of clients
    {{d ... | seeds 4 to 9}}               the same of these seeds alone
    {{r REGIME | ARM}}                     difference to the reference of the regime, adjusted for all arms of its table
    {{m REGIME | ARM}}                     mean score over all clients; with a group as third part: in that group
    {{n REGIME}}                           number of seeds
    {{v REGIME | VALUE | ARM}}             mean score over all clients at one value of the setting that varies
    {{a REGIME | VALUE}}                   the same in the mean over all arms
    {{mb REGIME | ARM}}, {{s REGIME | ARM}}, {{j REGIME | ARM}}   megabytes, simulated seconds and joules of a run

`{{d ... | = better}}` says which word the sentence around it means. Where the scores have another one, the page is not
written before somebody has mended the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from judged_controls import Judged, judged_controls  # a script beside its modules
from ledger import ALL, Ledger, RegimeScores
from sheafedge.scenarios.compare.comparison import Comparison
from sheafedge.scenarios.compare.result_table import without_zero
from verdicts import Difference, against

NOT_RUN = "*not run yet*"
FIELD = re.compile(r"\{\{(d|r|m|n|v|a|mb|s|j) ([^{}]+)\}\}")
#: Kind of field -> cost of a run, and its format.
COSTS = {"mb": ("megabytes", ",.0f"), "s": ("virtual_s", ".1f"), "j": ("joules", ".0f")}
SEEDS = re.compile(r"seeds (\d+) to (\d+)")


class CitationError(Exception):
    """Sentences of the template that its scores do not bear; one per line."""


@dataclass(frozen=True, slots=True)
class Citation:
    """One field.

    Attributes:
        kind: what it asks for.
        regime, varied: where; no value where nothing varies.
        arms: whose scores.
        group: of clients.
        seeds: first and last that count; None: all.
        meant: word that the sentence means; empty: any.
    """

    kind: str
    regime: str
    varied: str
    arms: tuple[str, ...]
    group: str
    seeds: tuple[int, int] | None
    meant: str

    @classmethod
    def of(cls, match: re.Match[str]) -> Citation:
        """A field as it stands in the template."""
        kind, (regime, *parts) = match[1], [part.strip() for part in match[2].split("|")]
        meant = parts.pop()[2:] if parts and parts[-1].startswith("= ") else ""
        span = SEEDS.fullmatch(parts[-1]) if parts else None
        seeds = None if span is None else (int(span[1]), int(span[2]))
        parts = parts[:-1] if seeds else parts
        varied = parts.pop(0) if kind in ("v", "a") else ""
        n_arms = {"d": 2, "n": 0, "a": 0}.get(kind, 1)
        return cls(kind, regime, varied, tuple(parts[:n_arms]), (*parts[n_arms:], ALL)[0], seeds, meant)


def cited(
    text: str,
    ledger: Ledger,
    comparisons: Mapping[str, Comparison],
    test_per_train: Mapping[str, float],
    judged: Mapping[str, Judged],
) -> str:
    """A text with its citations filled.

    Args:
        text: the template.
        ledger: of all regimes.
        comparisons: regime -> its file.
        test_per_train: regime -> see `difference`.
        judged: regime -> its differences, of all seeds.

    Raises:
        CitationError: a citation names a regime, arm or group that there is none of, or means another word.
    """
    wrong: list[str] = []

    def filled(match: re.Match[str]) -> str:
        one = Citation.of(match)
        try:
            scores = ledger.of(one.regime, one.varied)
            if one.seeds is not None:
                scores = scores.of_seeds(*one.seeds)
            if not _is_run(one, scores, comparisons):
                return NOT_RUN
            if one.kind == "r":
                found = against(scores, comparisons[one.regime].reference, test_per_train[one.regime])
                return _said(one, found[one.arms[0], one.group])
            if one.kind == "d":
                ratio = test_per_train[one.regime]
                of_regime = judged[one.regime] if one.seeds is None else judged_controls(scores, ratio)
                return _said(one, _difference(one, of_regime))
            return _figure(one, scores)
        except CitationError as error:
            wrong.append(f"{match[0]}: {error}")
            return match[0]

    result = FIELD.sub(filled, text)
    if wrong:
        raise CitationError("\n".join(wrong))
    return result


def _is_run(one: Citation, scores: RegimeScores, comparisons: Mapping[str, Comparison]) -> bool:
    """Whether all of its arms have scores: what was not run yet is a gap, what no table has is a slip."""
    if one.regime not in comparisons:
        raise CitationError(f"there is no regime {one.regime!r}")
    if unknown := {*one.arms} - comparisons[one.regime].methods.keys():
        raise CitationError(f"there is no arm {sorted(unknown)[0]!r}")
    if not scores.arms or not {*one.arms} <= {*scores.arms}:
        return one.kind == "n"
    if scores.arms and one.group not in scores.groups:
        raise CitationError(f"there is no group {one.group!r}")
    return True


def _figure(one: Citation, scores: RegimeScores) -> str:
    if one.kind == "n":
        return str(max((len(scores.values(arm, ALL)) for arm in scores.arms), default=0))
    if one.kind == "a":
        return _score(fmean(fmean(scores.values(arm, ALL).values()) for arm in scores.arms))
    (arm,) = one.arms
    if one.kind in COSTS:
        name, form = COSTS[one.kind]
        return format(scores.costs(arm)[name], form)
    return _score(fmean(scores.values(arm, one.group).values()))


def _score(value: float) -> str:
    return without_zero(f"{value:.3f}")


def _difference(one: Citation, judged: Judged) -> Difference:
    if (*one.arms, one.group) not in judged:
        raise CitationError("it is no row of what decides; add it to CONTROLS")
    return judged[(*one.arms, one.group)]


def _said(one: Citation, found: Difference) -> str:
    if one.meant and found.word != one.meant:
        raise CitationError(f"it is {found}, {found.word}")
    return f"{found}, {found.word}"
