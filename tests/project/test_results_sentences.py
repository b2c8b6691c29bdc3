"""What sentences of docs/results.md say, against the scores that are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from doubles.page_scripts import RESULTS, SEEDS, judged, kept, score_row
from sheafedge.scenarios.compare.plan import planned_runs
from sheafedge.scenarios.schema.neighborhood import neighborhood_of

pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the sources are not here: an installed wheel is tested")
CURVE = (("local", 0.25), ("head averaging", 0.35))


def cited(scripts: Mapping[str, ModuleType], ledger: Any, text: str) -> str:
    make = scripts["make"]
    regimes = {name: make.comparison_of(name) for name in ("drones", "tracking_graphs")}
    ratios = dict.fromkeys(regimes, 0.0)
    found: str = scripts["citations"].cited(text, ledger, regimes, ratios, judged(scripts, ledger, regimes))
    return found


def test_sentences_are_filled_from_the_scores(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    scores = {
        "local": tuple(0.4 + 0.002 * (seed % 3) for seed in SEEDS),
        "local, twice the steps": 0.5,
        "encoders only": 0.5,
    }
    ledger = kept(scripts, tmp_path / "x", "drones", scores)
    row_of_curve = score_row(scripts, "tracking_graphs", "local", 0, 0.25)
    ledger.put(replace(row_of_curve, varied="ring", arm=arm, score=score) for arm, score in CURVE)

    def text(field: str) -> str:
        return cited(scripts, ledger, "{{" + field + "}}")

    assert text("n drones") == "6"
    assert text("m drones | local") == ".402"
    assert text("mb drones | local | gps") == "12"
    assert text("s drones | local") == "3.2"
    assert text("v tracking_graphs | ring | local") == ".250"
    assert text("a tracking_graphs | ring") == ".300"
    assert text("a tracking_graphs | star") == "*not run yet*"
    assert text("d drones | local, twice the steps | local").startswith("+.100 [")
    assert text("d drones | local, twice the steps | local | gps | = better").endswith(", better")
    ledger.put([score_row(scripts, "drones", "local, twice the steps", 5, 0.9)])
    assert text("d drones | local, twice the steps | local").startswith("+.166 [")
    assert text("d drones | local, twice the steps | local | seeds 0 to 4 | = better").startswith("+.100 [")
    ledger.put([score_row(scripts, "drones", "local, twice the steps", 5, 0.51)])
    assert text("r drones | local | = worse").endswith(", worse")
    assert text("d drones | encoders only | the same without coupling | = better") == "*not run yet*"


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("d drones | local, twice the steps | local | = worse", "it is .*, better"),
        ("d drones | encoders only | locl", "there is no arm 'locl'"),
        ("d drones | local, twice the steps | local | gsp", "there is no group 'gsp'"),
        ("m drone | local", "there is no regime 'drone'"),
    ],
)
def test_a_sentence_that_the_scores_do_not_bear_is_refused(
    scripts: Mapping[str, ModuleType], tmp_path: Path, field: str, reason: str
) -> None:
    scores = {
        "local": tuple(0.4 + 0.002 * (seed % 3) for seed in SEEDS),
        "local, twice the steps": 0.5,
        "encoders only": 0.5,
    }
    ledger = kept(scripts, tmp_path / "x", "drones", scores)
    with pytest.raises(scripts["citations"].CitationError, match=reason):
        cited(scripts, ledger, "{{" + field + "}}")


def test_no_figure_of_a_finding_is_typed_by_hand(scripts: Mapping[str, ModuleType]) -> None:
    """Scores stand in the template as fields, or beside a link to their page; those of a removed method are history."""
    template = (RESULTS / "page.md").read_text(encoding="utf-8")
    findings = template[template.index("## Findings") : template.index("## The paper's claims")]
    settings = r"\{\{[^}]*\}\}|gamma \.\d+|\(\.\d+, \.\d+\)"
    points = re.sub(settings, "", findings).split("\n- ")
    typed = [point for point in points if re.search(r"(?<![\w.])[+-]?\.\d", point) and "](" not in point]
    assert [point.splitlines()[0][:26] for point in typed] == ["**The sheaf twin is remove"]


def test_seeds_without_neighbors_of_one_group_are_as_many_as_the_page_says(scripts: Mapping[str, ModuleType]) -> None:
    comparison = scripts["make"].comparison_of("drones_sizes_same")
    alone = 0
    for run in planned_runs(comparison.edited({"methods": {"local": {"algorithm": "local"}}, "reference": ""})):
        graph, groups = neighborhood_of(run.scenario)[1:]
        alone += not any(groups[a] == groups[b] == "gps" for a, b in graph.edges)
    assert (alone, len(comparison.seeds)) == (16, 20)
    text = (RESULTS / "page.md").read_text(encoding="utf-8")
    assert "in sixteen of the twenty seeds no two of them are neighbors" in " ".join(text.split())


def test_no_group_is_worse_where_heads_mix_among_the_same_sensors(scripts: Mapping[str, ModuleType]) -> None:
    """As the page says, of every regime that has the arm, each adjusted for its own rows."""
    make, arm = scripts["make"], "learned orders, same sensors (ours)"
    ledger = make.edition_of([], Path()).ledger
    words = {
        (name, control, group): one.word
        for name in make.REGIMES
        for (of_arm, control, group), one in scripts["judged_controls"]
        .judged_controls(ledger.of(name), scripts["page_text"].test_per_train(name, ledger))
        .items()
        if of_arm == arm and control.startswith("encoders only, learned orders")
    }
    regimes = {name for name, *_ in words}
    assert len(regimes) == 9
    assert len(words) == 9 * 4  # three groups, and all clients
    assert "worse" not in words.values()
