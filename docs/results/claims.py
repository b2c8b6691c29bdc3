"""Claims of the paper as differences that must be shown, judged with the paper's settings and with ours.

A claim holds if all its differences are shown in the direction that it says, does not hold if one is shown the other
way, and is not shown otherwise. That one of several is shown the other way could be chance, so that p values are
adjusted for their number by Holm's method there. That all are shown in its direction could not, and needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ledger import Ledger, RegimeScores  # a script beside its modules
from sheafedge.scenarios.compare.statistics import holm, paired_estimate
from verdicts import is_shown, signed

HOLDS, FAILS, NOT_SHOWN, NOT_RUN = "holds", "does not hold", "not shown", "not run yet"

CONCAT, ATTENTION = "Sheaf-DMFL", "Sheaf-DMFL-Att"
SHEAVES = (CONCAT, ATTENTION)
LOCAL, DSGD, DMML = "local, best modality", "DSGD", "DMML-KD (approximation)"
BASELINES = (LOCAL, DSGD, DMML)
#: Arm with our settings -> the same with those of the paper.
AS_PRINTED: Mapping[str, str] = {
    CONCAT: "as in the paper, concatenation",
    ATTENTION: "as in the paper, gamma .1",
    "gamma .1": "as in the paper, gamma .1",
    "gamma .23": "as in the paper, gamma .23",
    "random maps, gamma .1": "as in the paper, random maps",
}
BEAMS, BLOCKAGE = ("gps", "camera", "both"), ("lidar+camera", "lidar+rf", "camera+rf")
IMAGES = ("camera", "both")
#: Largest gap to the centralized figure that Table I prints for images and both; and what "as good as" may be below.
NEAR, LEVEL = 0.03, 0.01


@dataclass(frozen=True, slots=True)
class Wanted:
    """A difference that a claim needs: arm less other, above a margin.

    Attributes:
        arm, other, group: see there.
        above: the margin.
        than: the same difference in another group is subtracted; empty: none.
    """

    arm: str
    other: str
    group: str
    above: float = 0.0
    than: str = ""

    def values(self, scores: RegimeScores, named: Mapping[str, str]) -> list[float]:
        """Per seed the difference less the margin."""
        arm, other = named.get(self.arm, self.arm), named.get(self.other, self.other)

        def gain(group: str) -> dict[int, float]:
            mine, theirs = scores.values(arm, group), scores.values(other, group)
            return {seed: mine[seed] - theirs[seed] for seed in mine if seed in theirs}

        gains = gain(self.group)
        if not self.than:
            return [value - self.above for value in gains.values()]
        less = gain(self.than)
        return [value - less[seed] - self.above for seed, value in gains.items() if seed in less]

    def __str__(self) -> str:
        than = f" less the same for {self.than}" if self.than else ""
        return f"{self.arm} over {self.other}, {self.group}{than}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A line of the list.

    Attributes:
        number, text: of it.
        source: table or figure of the paper.
        regime: whose scores decide.
        wanted: all that must be shown.
        printed_only: whether the regime has no arms with our settings that it could be judged by.
    """

    number: int
    text: str
    source: str
    regime: str
    wanted: tuple[Wanted, ...]
    printed_only: bool = False


def beats(arms: Sequence[str], others: Sequence[str], groups: Sequence[str], above: float = 0.0) -> tuple[Wanted, ...]:
    """Every arm over every other one in every group."""
    return tuple(
        Wanted(arm, other, group, above) for group in groups for arm in arms for other in others if arm != other
    )


_TABLE_I = (
    Claim(
        1,
        "Both sheaf variants beat the paper's decentralized baselines for images and both",
        "Table I",
        "drones_occluded",
        beats(SHEAVES, BASELINES, IMAGES),
    ),
    Claim(
        2,
        f"Near-centralized accuracy for images and both (gap below {NEAR})",
        "Table I",
        "drones_occluded",
        beats((ATTENTION,), ("centralized",), IMAGES, -NEAR),
    ),
    Claim(
        3, "DMML-KD is below local for images and both", "Table I", "drones_occluded", beats((LOCAL,), (DMML,), IMAGES)
    ),
    Claim(
        4,
        "Attention beats concatenation for GPS-only clients",
        "Table I, Fig. 7a",
        "drones_occluded",
        beats((ATTENTION,), (CONCAT,), ("gps",)),
    ),
    Claim(
        5,
        "Collaboration helps GPS most",
        "Table I",
        "drones_occluded",
        tuple(Wanted(arm, LOCAL, "gps", than=group) for arm in (DSGD, *SHEAVES) for group in IMAGES),
    ),
    Claim(
        6,
        "Under occlusion plain averaging hurts image clients",
        "Table I",
        "drones_occluded",
        beats((LOCAL,), (DSGD,), IMAGES),
    ),
)
_FIG_5 = (
    Claim(
        9,
        "Blockage: both sheaf variants above local, DSGD and DMML-KD in all groups, attention gains most for camera+rf",
        "Fig. 5",
        "blockage",
        beats(SHEAVES, BASELINES, BLOCKAGE)
        + tuple(Wanted(ATTENTION, CONCAT, "camera+rf", than=group) for group in BLOCKAGE[:2]),
    ),
    Claim(
        10, "Blockage: DSGD is the weakest", "Fig. 5a", "blockage", beats((LOCAL, DMML, *SHEAVES), (DSGD,), BLOCKAGE)
    ),
)
_FIG_9 = (
    Claim(
        12,
        "Different views: attention best in all groups, DSGD degrades",
        "Fig. 9",
        "drones_views",
        beats((ATTENTION,), (*BASELINES, CONCAT), BEAMS) + beats((LOCAL,), (DSGD,), ("camera",)),
    ),
)


def _after_40(claims: Sequence[Claim], regime: str) -> Iterator[Claim]:
    """Each, and the same in the regime of 40 rounds."""
    for one in claims:
        yield from (one, replace(one, text="the same after 40 rounds", regime=regime))


CLAIMS = (
    *_after_40(_TABLE_I, "drones_occluded_long"),
    Claim(
        7,
        "gamma .23 is above .1",
        "Table II",
        "drones",
        beats((AS_PRINTED["gamma .23"],), (AS_PRINTED["gamma .1"],), BEAMS),
        printed_only=True,
    ),
    Claim(
        7,
        "the same on measured beams",
        "Table II",
        "tracking",
        beats(("gamma .23",), ("gamma .1",), ("gps", "rf", "both")),
    ),
    Claim(
        8,
        f"Structured maps are as good as random ones (at most {LEVEL} below)",
        "Table II",
        "tracking",
        beats(("gamma .1",), ("random maps, gamma .1",), ("gps", "rf", "both"), -LEVEL),
    ),
    *_after_40(_FIG_5, "blockage_long"),
    Claim(
        11,
        "IID beams: Sheaf-DMFL above DSGD and local for images and both",
        "Fig. 7",
        "drones",
        beats((CONCAT,), (DSGD, LOCAL), IMAGES),
    ),
    *_after_40(_FIG_9, "drones_views_long"),
)


def judged(claim: Claim, ledger: Ledger, test_per_train: float) -> str:
    """A row: verdicts with the paper's settings and with ours, each with the differences that decide it."""
    scores = ledger.of(claim.regime)
    printed = _decided(claim, scores, test_per_train, AS_PRINTED)
    ours = "-" if claim.printed_only else _decided(claim, scores, test_per_train, {})
    return f"| {claim.number} | {claim.text} ({claim.source}) | `{claim.regime}` | {printed} | {ours} |"


def counted(ledger: Ledger, test_per_train: Mapping[str, float]) -> str:
    """How many rows have which verdict with the paper's settings.

    Args:
        ledger: of all regimes.
        test_per_train: regime -> see `paired_estimate`.
    """
    words = [_verdict(one, ledger.of(one.regime), test_per_train[one.regime], AS_PRINTED)[0] for one in CLAIMS]
    said = {HOLDS: "hold", FAILS: "do not hold", NOT_SHOWN: "are not shown", NOT_RUN: "are not run yet"}
    counts = ", ".join(
        f"{words.count(word)} {plural}" for word, plural in said.items() if word != NOT_RUN or word in words
    )
    return f"of {len(words)} rows {counts}"


def _decided(claim: Claim, scores: RegimeScores, test_per_train: float, named: Mapping[str, str]) -> str:
    """Verdict, and the differences that decide it."""
    word, decisive = _verdict(claim, scores, test_per_train, named)
    marked = f"**{word}**" if word in (HOLDS, FAILS) else word
    return f"{marked}: {'; '.join(decisive)}" if decisive else marked


def _verdict(
    claim: Claim, scores: RegimeScores, test_per_train: float, named: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Word, and the differences that keep the claim from holding, or the smallest of those that make it."""
    values = [one.values(scores, named) for one in claim.wanted]
    if not all(values):
        return NOT_RUN, []
    estimates = [paired_estimate(each, test_per_train) for each in values]
    p_values = [one.p for one in estimates]
    means = [fmean(each) for each in values]
    said = list(_said(claim.wanted, means, [one.interval for one in estimates]))
    against = [text for text, mean, p in zip(said, means, holm(p_values), strict=True) if mean < 0.0 and is_shown(p)]
    if against:
        return FAILS, against[:3]
    missing = [text for text, mean, p in zip(said, means, p_values, strict=True) if mean <= 0.0 or not is_shown(p)]
    if missing:
        return NOT_SHOWN, missing[:3]
    return HOLDS, [said[means.index(min(means))]]


def _said(
    wanted: Sequence[Wanted], means: Sequence[float], intervals: Sequence[tuple[float, float] | None]
) -> Iterator[str]:
    for one, mean, interval in zip(wanted, means, intervals, strict=True):
        bounds = "" if interval is None else f" [{signed(interval[0] + one.above)}, {signed(interval[1] + one.above)}]"
        yield f"{one}: {signed(mean + one.above)}{bounds}"
