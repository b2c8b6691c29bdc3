"""The regimes behind docs/results.md, what is kept of their runs, and the rules by which its claims are judged."""

from __future__ import annotations

import argparse
import importlib
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sheafedge.scenarios.compare.plan import planned_runs

RESULTS = Path(__file__).parents[2] / "docs" / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the sources are not here: an installed wheel is tested")
SEEDS = range(6)
SCRIPTS = (
    "tables",
    "ledger",
    "verdicts",
    "claims",
    "controls",
    "citations",
    "repeats",
    "steps",
    "pictures",
    "regimes",
    "make",
)


@pytest.fixture(scope="module")
def scripts() -> Iterator[Mapping[str, ModuleType]]:
    """The scripts of the page, by name; they are no package."""
    sys.path.insert(0, str(RESULTS))
    try:
        yield {name: importlib.import_module(name) for name in SCRIPTS}
    finally:
        sys.path.remove(str(RESULTS))
        for name in SCRIPTS:
            sys.modules.pop(name, None)


def row(scripts: Mapping[str, ModuleType], regime: str, arm: str, seed: int, group: str, score: float) -> Any:
    return scripts["ledger"].Row(regime, arm, "", seed, group, 4, score, 100, 50, 12.5, 3.25, 60.0, "c0de")


def kept(
    scripts: Mapping[str, ModuleType], path: Path, regime: str, scores: Mapping[str, float | tuple[float, ...]]
) -> Any:
    """A ledger in which arms have the same score in every group of a regime: one for all seeds, or one for each."""
    ledger = scripts["ledger"].Ledger(path)
    groups = scripts["claims"].BLOCKAGE if regime == "blockage" else (*scripts["claims"].BEAMS, "rf")
    for arm, figure in scores.items():
        values = figure if isinstance(figure, tuple) else tuple(figure + 0.001 * ((7 * seed) % 5) for seed in SEEDS)
        for seed, value in zip(SEEDS, values, strict=True):
            ledger.put(row(scripts, regime, arm, seed, group, value) for group in (*groups, "all clients"))
    return ledger


def test_every_regime_can_be_planned_with_ten_seeds(scripts: Mapping[str, ModuleType]) -> None:
    make = scripts["make"]
    assert {path.stem for path in RESULTS.glob("*.toml")} == {*make.REGIMES}
    for name in make.REGIMES:
        comparison = make.comparison_of(name)
        assert len(comparison.seeds) == 10
        if comparison.edits.get("data.source") == "deepsense":
            comparison = comparison.edited({"set": {**comparison.edits, "data.root": "anywhere"}})
        runs = planned_runs(comparison.edited({"seeds": [0]}))
        assert [run.refusal for run in runs if run.refusal] == []


def test_every_arm_is_tuned_on_seeds_that_are_not_scored(scripts: Mapping[str, ModuleType]) -> None:
    make = scripts["make"]
    for name, search in make.REGIMES.items():
        comparison = make.comparison_of(name)
        assert comparison.methods.keys() <= make.arms_of_search(search).methods.keys()
        assert not {*make.SEARCHES[search].seeds} & {*comparison.seeds}
        assert comparison.scenario == make.comparison_of(make.SEARCHES[search].regime).scenario


@pytest.mark.parametrize("search", ["measured", "digits", "street", "sky", "orders"])
def test_every_arm_can_be_tuned(scripts: Mapping[str, ModuleType], search: str) -> None:
    make = scripts["make"]
    comparison = make.arms_of_search(search)
    if comparison.edits.get("data.source") == "deepsense":
        comparison = comparison.edited({"set": {**comparison.edits, "data.root": "anywhere"}})
    short = scripts["steps"].shortened(comparison.edited({"seeds": [100]}), make.SEARCHES[search])
    assert [run.refusal for run in planned_runs(short) if run.refusal] == []


def test_arms_that_claims_and_controls_speak_of_are_there(scripts: Mapping[str, ModuleType]) -> None:
    arms = {name: scripts["make"].comparison_of(name).methods.keys() for name in scripts["make"].REGIMES}
    for claim in scripts["claims"].CLAIMS:
        printed = scripts["claims"].AS_PRINTED
        for one in claim.wanted:
            assert {one.arm, one.other, printed.get(one.arm, one.arm)} <= arms[claim.regime], claim.number
    for control in scripts["controls"].CONTROLS:
        assert {control.arm, control.control} <= arms[control.regime], control


def test_what_is_kept_is_read_back_and_replaced_by_run(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    ledger = kept(scripts, path, "drones", {"local": 0.25, "DSGD": 1 / 3})
    ledger.write()
    again = scripts["ledger"].Ledger(path)
    assert len(again) == len(ledger) == 2 * len(SEEDS) * 5
    assert again.of("drones").values("DSGD", "gps")[0] == pytest.approx(1 / 3, abs=1e-6)
    assert again.has("drones", "DSGD", "", 3)
    assert again.has("drones", "DSGD", "", 3, ["c0de"])
    assert not again.has("drones", "DSGD", "", 3, ["other"])
    assert not again.has("drones", "DSGD", "", 99)
    again.put([row(scripts, "drones", "DSGD", 3, "gps", 0.9)])
    assert len(again) == len(ledger)
    again.keep_only("drones", ["local"])
    assert again.of("drones").arms == ["local"]
    again.write()
    before = path.read_bytes()
    scripts["ledger"].Ledger(path).write()
    assert path.read_bytes() == before


def test_words_follow_from_adjusted_p_values(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    wide = (0.5, 0.7, 0.4, 0.8, 0.45, 0.72)
    scores = {"base": 0.5, "up": 0.6, "down": 0.4, "wide": wide}
    ledger = kept(scripts, tmp_path / "x", "drones", scores)
    noisy = {"base": tuple(0.5 + 0.01 * (seed % 2) for seed in SEEDS)}
    ledger.put(
        row(scripts, "drones", "base", seed, "gps", value) for seed, value in zip(SEEDS, noisy["base"], strict=True)
    )
    found = scripts["verdicts"].against(ledger.of("drones"), "base", 0.0)
    assert {arm: found[arm, "gps"].word for arm in ("up", "down", "wide")} == {
        "up": "better",
        "down": "worse",
        "wide": "not shown",
    }
    alone = scripts["verdicts"].difference(ledger.of("drones"), "up", "base", "gps", 0.0)
    assert alone.word == "not shown"  # until it is adjusted
    assert found["up", "gps"].p_holm >= alone.p


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        pytest.param(0.6, "holds", id="clear"),
        pytest.param(0.8, "does not hold", id="reversed"),
        pytest.param((0.6, 0.9, 0.6, 0.65, 0.7, 0.71), "not shown", id="within the spread"),
        pytest.param(None, "not run yet", id="an arm without scores"),
    ],
)
def test_a_claim_is_decided_by_its_differences(
    scripts: Mapping[str, ModuleType], tmp_path: Path, others: Any, verdict: str
) -> None:
    claims = scripts["claims"]
    claim = claims.CLAIMS[0]
    sheaves = {claims.CONCAT: tuple(0.7 + 0.002 * (seed % 3) for seed in SEEDS)}
    sheaves[claims.ATTENTION] = tuple(0.7 + 0.003 * (seed % 2) for seed in SEEDS)
    scores = {**sheaves, claims.LOCAL: 0.5, claims.DMML: 0.4}
    if others is not None:
        scores[claims.DSGD] = others
    text = claims.judged(claim, kept(scripts, tmp_path / "x", claim.regime, scores), 0.0)
    printed, ours = (cell.strip(" *") for cell in text.split("|")[3:5])
    assert (printed, ours) == ("not run yet", verdict)


def test_margins_make_near_and_level(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    claims = scripts["claims"]
    near = next(claim for claim in claims.CLAIMS if claim.number == 2)
    below = {
        name: {claims.ATTENTION: tuple(0.7 - gap + 0.002 * (seed % 3) for seed in SEEDS), "centralized": 0.7}
        for name, gap in (("near", 0.015), ("far", 0.06))
    }
    verdicts = {
        name: claims.judged(near, kept(scripts, tmp_path / name, near.regime, scores), 0.0).split("|")[4].strip(" *")
        for name, scores in below.items()
    }
    assert verdicts == {"near": "holds", "far": "does not hold"}


def test_a_grid_is_widened_where_the_best_lies_at_its_edge(scripts: Mapping[str, ModuleType]) -> None:
    widened = scripts["steps"].widened
    assert widened({0.001: 0.4, 0.003: 0.5, 0.01: 0.4}) == (0.001, 0.003, 0.01)
    assert widened({0.001: 0.6, 0.003: 0.5, 0.01: 0.4}) == (0.0003, 0.001, 0.003, 0.01)
    assert widened({0.003: 0.5, 0.01: 0.503}) == (0.003, 0.01)
    assert widened({0.0003: 0.5, 0.001: 0.4}) == (0.0003, 0.001)


def test_only_arms_with_the_best_at_an_edge_are_searched_further(
    scripts: Mapping[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, make = scripts["steps"], scripts["make"]
    best = {"local": 0.003, "DSGD": 0.03}
    asked: list[tuple[str, ...]] = []

    def tune(comparison: Any, grid: Mapping[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        asked.append(tuple(comparison.methods))
        arms = {}
        for arm in comparison.methods:
            tried = [
                {"values": {steps.ENCODER: e, steps.HEAD: h}, "score": 0.5 - abs(math.log(e / best[arm])) / 10}
                for e in grid[steps.ENCODER]
                for h in grid[steps.HEAD]
            ]
            arms[arm] = {"tried": tried, "chosen": max(tried, key=lambda one: one["score"])["values"]}
        return {"arms": arms}

    monkeypatch.setattr(steps, "tune", tune)
    comparison = make.comparison_of("drones")
    comparison = comparison.edited({"methods": {arm: comparison.methods[arm] for arm in best}, "reference": ""})
    table, options = steps.StepTable(tmp_path / "steps.csv"), argparse.Namespace(jobs=1, keep_stale=False)
    steps.search_steps("sky", make.SEARCHES["sky"], comparison, table, tmp_path, options)
    assert asked == [("local", "DSGD"), ("DSGD",), ("DSGD",)]
    assert {arm: one[steps.ENCODER] for arm, one in table.chosen("sky").items()} == best
    assert steps.at_the_edge(table.of("sky")) == ["local", "DSGD"]  # all heads are level


def test_what_was_tried_is_read_back(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    steps = scripts["steps"]
    table = steps.StepTable(tmp_path / "steps.csv")
    tried = [(0.001, 0.1, 0.4, False), (0.003, 0.1, 0.5, True), (0.01, 0.1, float("nan"), False)]
    table.put(steps.Step("sky", "local", *one, "c0de") for one in tried)
    table.write()
    again = steps.StepTable(tmp_path / "steps.csv")
    assert again.chosen("sky") == {"local": {steps.ENCODER: 0.003, steps.HEAD: 0.1}}
    assert steps.at_the_edge(again.of("sky")) == []
    assert steps.at_the_edge([one for one in again.of("sky") if one.score == one.score]) == ["local"]
    assert "| local | 0.003 | 0.1 | .500 | 3 | .400 |" in again.markdown("sky")


def test_no_search_stopped_while_an_edge_was_clearly_the_best(scripts: Mapping[str, ModuleType]) -> None:
    steps = scripts["steps"]
    table = steps.StepTable(RESULTS / "steps.csv")
    for search in scripts["make"].SEARCHES:
        for arm in table.chosen(search):
            mine = [one for one in table.of(search) if one.arm == arm and one.score == one.score]
            for size in ("encoder", "head"):
                best: dict[float, float] = {}
                for one in mine:
                    best[getattr(one, size)] = max(one.score, best.get(getattr(one, size), 0.0))
                assert steps.widened(best) == tuple(sorted(best)), (search, arm, size)


def test_the_page_is_what_is_kept_makes_of_it(scripts: Mapping[str, ModuleType]) -> None:
    make = scripts["make"]
    kept_here = (scripts["ledger"].Ledger(make.SCORES), scripts["steps"].StepTable(make.STEPS))
    written = make.page(*kept_here, scripts["repeats"].Repeats(make.REPEATS))
    assert make.PAGE.read_text(encoding="utf-8") == written


def test_a_page_of_new_scores_has_tables_and_controls(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    make = scripts["make"]
    arms = make.comparison_of("drones_permuted").methods
    # what the sentences of the page say of this regime holds: arms further down are better, and the told ones best
    rising = sorted(arms, key=lambda arm: arm == "head averaging, told the orders")
    scores = {
        arm: tuple(0.4 + 0.01 * index + 0.001 * ((seed * (index + 2)) % 5) for seed in SEEDS)
        for index, arm in enumerate(rising)
    }
    ledger = kept(scripts, tmp_path / "x", "drones_permuted", scores)
    written = make.page(ledger, scripts["steps"].StepTable(tmp_path / "y"), scripts["repeats"].Repeats(tmp_path / "z"))
    assert "## What decides" in written
    assert "| `drones_permuted` | a start that is common by beam |" in written
    assert "Seeds 0, 1, 2, 3, 4, 5; differences to *encoders only*; code c0de." in written
    assert "| head averaging, told the orders | 6 |" in written


def test_the_overview_has_a_column_per_regime_and_says_what_was_not_run(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    arms = dict.fromkeys(("as in the paper, gamma .1", "Sheaf-DMFL-Att", "head averaging", "local"), 0.4)
    scores = {
        **arms,
        "the same without coupling": 0.4,
        "local, twice the steps": 0.4,
        "encoders only": tuple(0.5 + 0.01 * (seed % 3) for seed in SEEDS),
    }
    ledger = kept(scripts, tmp_path / "x", "blockage", scores)
    ledger.put([row(scripts, "blockage", "as in the paper, gamma .23", 0, "all clients", 0.4)])
    head, _, *rows = scripts["controls"].overview_rows("sharing", ledger, {"blockage": 0.0, "drones": 0.0})
    assert list(scripts["controls"].overview_rows("orders", ledger, {"blockage": 0.0})) == []
    assert head == "| What is praised | `blockage` (n = 6) |"
    words = dict(row.strip("| ").split(" | ") for row in rows)
    assert words["sharing encoders"].endswith("**better**")
    assert words["the coupling, with our settings"].endswith("**worse**")
    assert words["twice the compute"].endswith("not shown")
    assert words["the coupling, as printed, gamma .23"].endswith("not shown (n = 1)")
    del scores["head averaging"]
    rows = scripts["controls"].overview_rows(
        "sharing", kept(scripts, tmp_path / "y", "blockage", scores), {"blockage": 0.0}
    )
    assert "| averages of heads | not run |" in [*rows]


def test_curves_have_a_column_per_value_and_a_picture(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    make, ledger = scripts["make"], scripts["ledger"].Ledger(tmp_path / "x")
    assert make._curves_text("tracking_graphs", ledger) == ""
    for number, kind in enumerate(("ring", "complete")):
        rows = (row(scripts, "tracking_graphs", arm, 0, "all clients", 0.25 + number / 4) for arm in ("local", "x"))
        ledger.put(replace(one, varied=kind) for one in rows)
    text = make._curves_text("tracking_graphs", ledger)
    assert "| arm | ring | complete |" in text
    assert "| local | .250 | .500 |" in text
    scripts["pictures"].draw_curves(
        make._varied("tracking_graphs", ledger), "topology.kind", ["local", "x"], tmp_path / "curves"
    )
    assert (tmp_path / "curves.png").stat().st_size > 1000


def cited(scripts: Mapping[str, ModuleType], ledger: Any, text: str) -> str:
    make = scripts["make"]
    regimes = {name: make.comparison_of(name) for name in ("drones", "tracking_graphs")}
    found: str = scripts["citations"].cited(text, ledger, regimes, dict.fromkeys(regimes, 0.0))
    return found


def test_sentences_are_filled_from_the_scores(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    scores = {"local": tuple(0.4 + 0.002 * (seed % 3) for seed in SEEDS), "encoders only": 0.5}
    ledger = kept(scripts, tmp_path / "x", "drones", scores)
    row_of_curve = row(scripts, "tracking_graphs", "local", 0, "all clients", 0.25)
    ledger.put([replace(row_of_curve, varied="ring")])

    def text(field: str) -> str:
        return cited(scripts, ledger, "{{" + field + "}}")

    assert text("n drones") == "6"
    assert text("m drones | local") == ".402"
    assert text("mb drones | local | gps") == "12"
    assert text("s drones | local") == "3.2"
    assert text("v tracking_graphs | ring | local") == ".250"
    assert text("d drones | encoders only | local").startswith("+.100 [")
    assert text("d drones | encoders only | local | gps | = better").endswith(", better")
    ledger.put([row(scripts, "drones", "encoders only", 5, "all clients", 0.9)])
    assert text("d drones | encoders only | local").startswith("+.166 [")
    assert text("d drones | encoders only | local | seeds 0 to 4 | = better").startswith("+.100 [")
    ledger.put([row(scripts, "drones", "encoders only", 5, "all clients", 0.51)])
    assert text("r drones | local | = worse").endswith(", worse")
    assert text("d drones | DSGD | local | = better") == "*not run yet*"


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("d drones | encoders only | local | = worse", "it is .*, better"),
        ("d drones | encoders only | locl", "there is no arm 'locl'"),
        ("d drones | encoders only | local | gsp", "there is no group 'gsp'"),
        ("m drone | local", "there is no regime 'drone'"),
    ],
)
def test_a_sentence_that_the_scores_do_not_bear_is_refused(
    scripts: Mapping[str, ModuleType], tmp_path: Path, field: str, reason: str
) -> None:
    scores = {"local": tuple(0.4 + 0.002 * (seed % 3) for seed in SEEDS), "encoders only": 0.5}
    ledger = kept(scripts, tmp_path / "x", "drones", scores)
    with pytest.raises(scripts["citations"].CitationError, match=reason):
        cited(scripts, ledger, "{{" + field + "}}")


def test_no_verdict_of_the_page_is_typed_by_hand(scripts: Mapping[str, ModuleType]) -> None:
    """Intervals of regimes that are scored stand in the template as fields; those of a removed method are history."""
    template = (RESULTS / "page.md").read_text(encoding="utf-8")
    summary = template[template.index("## In short") : template.index("## The paper's claims")]
    typed = [line for line in re.sub(r"\{\{[^}]*\}\}", "", summary).splitlines() if re.search(r"\[[+-]\.\d", line)]
    assert len(typed) == 1
    assert "seeds 0 to 4" in typed[0]


def test_runs_that_later_code_makes_again_are_compared(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    repeats = scripts["repeats"].Repeats(tmp_path / "repeats.csv")
    for arm, again in (("local", 0.4), ("DSGD", 0.403), ("APFL", 0.398)):
        for group in ("gps", "all clients"):
            old = row(scripts, "drones", arm, 0, group, 0.4)
            repeats.note(old, replace(old, score=again, code="cafe"))
            repeats.note(old, old)  # the same code: nothing to tell
    repeats.write()
    again = scripts["repeats"].Repeats(tmp_path / "repeats.csv")
    assert len(again.rows) == 3
    *_, line = again.markdown(["tracking", "drones"])
    assert line == "| `drones` | c0de | cafe | 3 | 1 | +0.0005 ± 0.0035 | +.003 | APFL, DSGD |"


def test_older_runs_stand_where_the_version_of_the_page_repeats_their_arm(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    ledger, repeats = scripts["ledger"].Ledger(tmp_path / "s.csv"), scripts["repeats"].Repeats(tmp_path / "r.csv")
    old = {arm: row(scripts, "drones", arm, 1, "all clients", 0.4) for arm in ("local", "DSGD", "APFL")}
    ledger.put(old.values())
    ledger.put([row(scripts, "drones", "local", 1, "gps", 0.4)])  # of a run that is there
    for arm, again in (("local", 0.4), ("DSGD", 0.403)):
        first = replace(old[arm], seed=0)
        made = replace(first, score=again, code="cafe")
        ledger.put([made])
        repeats.note(first, made)
    *_, line = repeats.standing(ledger, ["tracking", "drones"], "cafe")
    assert line == "| `drones` | 5 | 2 | 1 | 2 | DSGD, APFL |"
    # a repeat that differs once is none, and neither is that of another version
    repeats.note(old["local"], replace(old["local"], score=0.41, code="cafe"))
    assert not repeats.repeated("drones", "local", "c0de", "cafe")
    assert not repeats.repeated("drones", "local", "c0de", "beef")
