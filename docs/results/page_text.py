"""Text of `docs/results.md`: a template, filled with tables of what is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import mean, stdev

from citations import NOT_RUN, cited  # a script beside its modules
from claims import CLAIMS, counted, judged
from controls import controls_of
from edition import Edition
from judged_controls import Judged, control_rows, judged_controls, overview_rows
from ledger import ALL, Ledger, RegimeScores, varied_text
from regimes import REGIMES, SEARCHES, comparison_of, steps_of
from rounds import stopping_rows
from sheafedge.scenarios.compare.comparison import Comparison
from sheafedge.scenarios.compare.difference_tables import p_value_text
from sheafedge.scenarios.compare.result_table import without_zero
from steps import GAIN, StepTable, at_the_edge, lack_part
from verdicts import Difference, against

PAGES = Path(__file__).parents[1]
#: Regime in which a setting varies -> heading of its curves.
CURVES: Mapping[str, str] = {
    "tracking_rounds": "Whether 60 rounds are enough (validation samples)",
    "tracking_loss": "Lost packets",
    "tracking_graphs": "Who is whose neighbor",
    "tracking_clients": "Few base stations and many",
    "tracking_samples": "Few samples and many",
    "digits_clients": "From 5 clients to 200",
    "blockage_rounds": "What more rounds than 20 are worth on the street (validation samples)",
    "blockage_pooled": "How long pooling all samples goes on to gain on the street (validation samples)",
    "drones_rounds": "What more rounds than 20 are worth in the sky (validation samples)",
    "drones_occluded_rounds": "What more rounds than 20 are worth with occluded images (validation samples)",
    "drones_views_rounds": "What more rounds than 20 are worth with different views (validation samples)",
    "drones_pooled": "How long pooling all samples goes on to gain in the sky (validation samples)",
    "drones_occluded_pooled": "How long pooling all samples goes on to gain with occluded images (validation samples)",
    "drones_views_pooled": "How long pooling all samples goes on to gain with different views (validation samples)",
}
CONTROLS_HEADING = """\
## What decides

For every gain that could be claimed, the arm that lacks only the thing praised. Differences with 95 % intervals.
Words are adjusted for all rows of the regime: those over all clients together, and those of groups of clients together.
An interval is of one difference, so that it may exclude 0 where the word is "not shown".
Two p values follow: of the difference alone, and adjusted (Holm).
The last column counts seeds of which the two arms ran on different kinds of processors.

| Regime | What is praised | Arm | Control | Difference | Seeds of two processors |
|---|---|---|---|---|---|"""


def page(template: str, edition: Edition, differences: Mapping[str, Judged]) -> str:
    """A template with what is kept; errors as of `cited`.

    Args:
        template: its fields are those of `cited`, and names of parts, as {{table tracking}}.
        edition: whose scores, step sizes and versions fill it.
        differences: see `judged_everywhere`.
    """
    ledger, steps, repeats = edition.ledger, edition.steps, edition.repeats
    comparisons = {name: comparison_of(name) for name in REGIMES}
    ratios = {name: test_per_train(name, ledger) for name in REGIMES}
    text = cited(template, ledger, comparisons, ratios, differences)
    parts: Mapping[str, Callable[[str], str]] = {
        "arms": lambda _: "\n".join(_arms_text()),
        "claims": lambda _: "\n".join(judged(claim, ledger, ratios[claim.regime]) for claim in CLAIMS),
        "counts": lambda _: counted(ledger, ratios),
        "overview": lambda name: _overview_text(name, differences),
        "repeats": lambda _: "\n".join(repeats.markdown(REGIMES)),
        "standing": lambda _: "\n".join(edition.standing(REGIMES)),
        "stopping": lambda _: "\n".join(stopping_rows(ledger)),
        "version": lambda _: edition.versions[0][:8],
        "versions": lambda _: ", ".join(version[:8] for version in edition.versions),
        "controls": lambda _: _controls_text(differences),
        "curves": lambda name: _curves_text(name, ledger, steps),
        "steps": lambda name: "\n\n".join(_steps_text(steps, name)),
        "verdicts": lambda name: "\n".join(_verdicts_of(name)),
        "table": lambda name: "\n\n".join(_tables(name, ledger, steps)),
    }
    return re.sub(r"\{\{(\w+) ?([\w/.-]*)\}\}", lambda match: parts[match[1]](match[2]), text)


def judged_everywhere(ledger: Ledger) -> dict[str, Judged]:
    """Regime -> differences of what decides there."""
    return {name: judged_controls(ledger.of(name), test_per_train(name, ledger)) for name in REGIMES}


def _overview_text(name: str, differences: Mapping[str, Judged]) -> str:
    """Picture and table of what decides everywhere; empty where nothing was run."""
    rows = [*overview_rows(name, differences)]
    if not rows:
        return ""
    picture = f"![Differences of what decides, with their intervals: the table below](figures/results-{name}.png)"
    return "\n".join([picture, "", *rows])


def _arms_text() -> Iterator[str]:
    """A row per arm and its settings, without those of its whole regime, and the regimes that have it so."""
    regimes: dict[tuple[str, str], list[str]] = {}
    for name in REGIMES:
        for arm, edits in comparison_of(name).methods.items():
            settings = ", ".join(f"`{key} = {json.dumps(value)}`" for key, value in edits.items())
            regimes.setdefault((arm, settings), []).append(f"`{name}`")
    yield "| arm | settings | regimes |"
    yield "|---" * 3 + "|"
    for (arm, settings), names in sorted(regimes.items(), key=lambda one: one[0][0].lower()):
        yield f"| {arm} | {settings} | {', '.join(names)} |"


def _verdicts_of(name: str) -> Iterator[str]:
    """Rows of the table of verdicts of another page of this folder's parent, each with a link to it."""
    text = (PAGES / name).read_text(encoding="utf-8")
    table = text[text.index("## Verdicts") :].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]  # behind the heads
    for row in rows:
        yield f"| [{name}]({name}) {row}"


def _controls_text(differences: Mapping[str, Judged]) -> str:
    """The section of the controls; empty until a regime was run."""
    rows = [*control_rows(differences)]
    if not rows:
        return ""
    return "\n".join([CONTROLS_HEADING, *rows]) + "\n\n"


def test_per_train(regime: str, ledger: Ledger) -> float:
    """Held-out samples per training sample where seeds deal the same samples anew, else 0."""
    measured = comparison_of(regime).edits.get("data.source") == "deepsense"
    return ledger.of(regime, *_varied_values(regime)[:1]).test_per_train if measured else 0.0


def _varied_values(regime: str) -> list[str]:
    """Values of the varied field, as texts; an empty one where nothing varies."""
    return [varied_text(value) for value in comparison_of(regime).varied_values]


def varied_scores(regime: str, ledger: Ledger) -> dict[str, RegimeScores]:
    """Value of the varied field -> scores, of values that have any."""
    found = {value: ledger.of(regime, value) for value in _varied_values(regime)}
    return {value: scores for value, scores in found.items() if scores.arms}


def _curves_text(regime: str, ledger: Ledger, steps: StepTable) -> str:
    """Heading, a row per arm over the values of a setting, and the picture; empty where nothing was run."""
    comparison, found = comparison_of(regime), varied_scores(regime, ledger)
    if not found:
        return ""
    seeds = sorted({seed for scores in found.values() for arm in scores.arms for seed in scores.values(arm, ALL)})
    codes = sorted({code for scores in found.values() for code in scores.codes})
    rows = [
        (
            f"Scores over all clients; `{comparison.varied_key}` in the columns; seeds"
            f" {', '.join(map(str, seeds))}; code {', '.join(code[:8] for code in codes)}."
        ),
        "",
        *(f"{said}\n" for said in [_of_other_sizes(regime, found.values(), steps)] if said),
        "| arm | " + " | ".join(found) + " |",
        "|---" * (1 + len(found)) + "|",
        *(
            f"| {arm} | {' | '.join(_spread(scores, arm, ALL) for scores in found.values())} |"
            for arm in comparison.methods
        ),
        "",
        f"![{CURVES[regime]}: scores against the setting and against costs](figures/results-{regime}.png)",
    ]
    return f"### {CURVES[regime]}\n\n" + "\n".join(rows) + "\n\n"


def _tables(regime: str, ledger: Ledger, steps: StepTable) -> Iterator[str]:
    comparison = comparison_of(regime)
    scores = ledger.of(regime)
    if not scores.arms:
        yield NOT_RUN
        return
    seeds = sorted({seed for arm in scores.arms for seed in scores.values(arm, ALL)})
    yield (
        f"Seeds {', '.join(map(str, seeds))}; differences to *{comparison.reference}*; code"
        f" {', '.join(code[:8] for code in scores.codes)}."
    )
    lacking = [arm for arm in comparison.methods if arm not in scores.arms]
    if lacking:
        yield f"Not run yet: {'; '.join(lacking)}."
    if said := _of_other_sizes(regime, [scores], steps):
        yield said
    yield "\n".join(_table(scores, comparison, test_per_train(regime, ledger)))


def _of_other_sizes(regime: str, scores: Iterable[RegimeScores], steps: StepTable) -> str:
    """Sentence on arms whose scores are of step sizes that a later search replaced; empty: there are none."""
    made = {(arm, sizes) for one in scores for arm in one.arms for sizes in one.sizes(arm)}
    chosen = {arm: tuple(sizes.values()) for arm, sizes in steps_of(REGIMES[regime], steps).items()}
    arms = sorted({arm for arm, sizes in made if sizes != chosen.get(arm, sizes)})
    return f"Of step sizes that a later search replaced, and to be made again: {'; '.join(arms)}." if arms else ""


def _table(scores: RegimeScores, comparison: Comparison, ratio: float) -> Iterator[str]:
    """A row per arm: means and standard deviations, difference over all clients, and what a run costs."""
    found = against(scores, comparison.reference, ratio) if comparison.reference in scores.arms else {}
    heads = ["arm", "n", *scores.groups, f"less {comparison.reference}", "p (Holm)", "", "MB", "simulated s", "J"]
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    for arm in (arm for arm in comparison.methods if arm in scores.arms):
        cells = [_spread(scores, arm, group) for group in scores.groups]
        costs = scores.costs(arm)
        said = _said(found.get((arm, ALL)))
        n = len(scores.values(arm, ALL))
        spent = (f"{costs['megabytes']:.0f}", f"{costs['virtual_s']:.1f}", f"{costs['joules']:.0f}")
        yield f"| {' | '.join([arm, str(n), *cells, *said, *spent])} |"


def _spread(scores: RegimeScores, arm: str, group: str) -> str:
    values = list(scores.values(arm, group).values())
    if not values:
        return "-"
    spread = f"±{without_zero(f'{stdev(values):.3f}')}" if len(values) > 1 else ""
    return without_zero(f"{mean(values):.3f}") + spread


def _said(one: Difference | None) -> tuple[str, str, str]:
    if one is None:
        return "", "", ""
    return str(one), p_value_text(one.p_holm), one.marked


def _steps_text(steps: StepTable, search: str) -> Iterator[str]:
    if not steps.arms(search):
        yield NOT_RUN
        return
    how = SEARCHES[search]
    first, *others = how.seeds
    edits = "".join(f", {key} = {value}" for key, value in (how.edits or {}).items())
    edges = "; ".join(at_the_edge(steps, search)) or "none"
    lacking = "; ".join(lack_part(how, search, steps, controls_of(search)))
    to_try = f" Part of the grid is to be tried yet by: {lacking}." if lacking else ""
    alike = "".join(f" *{arm}* has those of *{other}*." for arm, other in how.alike.items())
    more = f"; the {how.finalists} best of an arm also with seed {', '.join(map(str, others))}" if others else ""
    grid = " x ".join("{" + ", ".join(f"{value:g}" for value in values) + "}" for values in how.grid.values())
    yield (
        f"Validation samples of seed {first}{edits}{more}. Every arm tries {grid} (encoder x head), and goes on where"
        f" an edge is better than the rest by more than {GAIN:g}; a control tries what was chosen for its arm, too."
        f" Chosen at an edge, by no more than that: {edges}.{alike}{to_try}"
    )
    yield steps.markdown(search)
