"""The regimes behind docs/results.md, what is kept of their runs, and the rules by which its claims are judged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from doubles.page_scripts import RESULTS, SEEDS, judged, kept, page_of, score_row
from sheafedge.scenarios.compare.comparison import Comparison
from sheafedge.scenarios.compare.plan import planned_runs

pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the sources are not here: an installed wheel is tested")


def anywhere(comparison: Comparison) -> Comparison:
    """The comparison with a folder for measured samples, which is not read."""
    if comparison.edits.get("data.source") != "deepsense":
        return comparison
    return comparison.edited({"set": {**comparison.edits, "data.root": "anywhere"}})


def test_every_regime_can_be_planned_with_ten_seeds_or_more_and_curves_with_three(
    scripts: Mapping[str, ModuleType],
) -> None:
    make = scripts["make"]
    assert {path.stem for path in RESULTS.glob("*.toml")} == {*make.REGIMES}
    for name in make.REGIMES:
        comparison = anywhere(make.comparison_of(name))
        n_seeds = len(comparison.seeds)
        assert n_seeds == 3 if name in scripts["page_text"].CURVES else n_seeds >= 10
        chosen = make.steps_of(make.REGIMES[name], scripts["steps"].StepTable(RESULTS / "steps.csv"))
        runs = planned_runs(make.with_steps(comparison, chosen).edited({"seeds": [0]}))
        assert [run.refusal for run in runs if run.refusal] == []


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
    run, sizes = ("drones", "DSGD", "", 3), (0.01, 0.1)
    row = again.made(run, sizes)
    assert row is not None
    assert (row.seed, row.group, row.code, row.processor) == (3, "all clients", "c0de", "P, V")
    assert again.made(run, (0.01, 0.3)) is None  # other step sizes are another run
    assert again.made(("drones", "DSGD", "", 99), sizes) is None
    again.put([score_row(scripts, "drones", "DSGD", 3, 0.9, "gps")])
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
        score_row(scripts, "drones", "base", seed, value, "gps")
        for seed, value in zip(SEEDS, noisy["base"], strict=True)
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
    ledger = kept(scripts, tmp_path / "x", claim.regime, scores)
    text = claims.judged(claim, ledger, 0.0)
    printed, ours = (cell.strip().partition(":")[0].strip("*") for cell in text.split("|")[4:6])
    assert (printed, ours) == ("not run yet", verdict)


def test_claims_are_counted_by_their_verdicts_with_the_papers_settings(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    claims = scripts["claims"]
    ratios = {claim.regime: 0.0 for claim in claims.CLAIMS}
    # claims 3 and 6 have no arms of settings, in a regime where the others need some
    spread = tuple(0.002 * (seed % 3) for seed in SEEDS)
    scores = {claims.LOCAL: tuple(0.5 + more for more in spread), claims.DMML: 0.4, claims.DSGD: 0.6}
    counts = claims.counted(kept(scripts, tmp_path / "x", "drones_occluded", scores), ratios)
    assert counts == "of 22 rows 1 hold, 1 do not hold, 0 are not shown, 20 are not run yet"


def test_margins_make_near_and_level(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    claims = scripts["claims"]
    near = next(claim for claim in claims.CLAIMS if claim.number == 2)
    below = {
        name: {claims.ATTENTION: tuple(0.7 - gap + 0.002 * (seed % 3) for seed in SEEDS), "centralized": 0.7}
        for name, gap in (("near", 0.015), ("far", 0.06))
    }
    verdicts = {
        name: claims.judged(near, kept(scripts, tmp_path / name, near.regime, scores), 0.0).split("|")[5]
        for name, scores in below.items()
    }
    assert verdicts["near"].startswith(" **holds**: Sheaf-DMFL-Att over centralized, ")
    assert verdicts["far"].startswith(" **does not hold**: Sheaf-DMFL-Att over centralized, camera: -.060 [")


def test_scores_of_other_step_sizes_than_the_chosen_ones_are_named(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    steps = scripts["steps"]
    table = steps.StepTable(tmp_path / "steps.csv")
    table.put(steps.Step("sky", arm, 0.01, head, 100, 0.5, "c0de") for arm, head in (("local", 0.1), ("DSGD", 0.3)))
    ledger = kept(scripts, tmp_path / "x", "drones", {"local": 0.5, "DSGD": 0.5})
    said = [text for text in scripts["page_text"]._tables("drones", ledger, table) if "later search" in text]
    assert said == ["Of step sizes that a later search replaced, and to be made again: DSGD."]


def test_the_pages_are_what_is_kept_makes_of_them(scripts: Mapping[str, ModuleType]) -> None:
    published, text = scripts["make"].edition_of([], Path()), scripts["page_text"]
    template, ledger = published.template.read_text(encoding="utf-8"), published.ledger
    written = text.page(template, published, text.judged_everywhere(ledger))
    assert published.page.read_text(encoding="utf-8") == written
    by_seed = scripts["by_seed"].page_by_seed(ledger, published.page.name)
    assert published.by_seed.read_text(encoding="utf-8") == by_seed
    assert f"({published.by_seed.name})" in template
    assert {*re.findall(r"\{\{curves (\w+)\}\}", template)} == {*text.CURVES}


def test_scores_of_single_seeds_are_a_table_per_regime_and_value(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    ledger = scripts["ledger"].Ledger(tmp_path / "x")
    ledger.put(
        score_row(scripts, "drones", arm, seed, 0.25 + seed / 10) for arm in ("local", "DSGD") for seed in (0, 2)
    )
    ledger.put([score_row(scripts, "drones", "local", 4, 0.5), score_row(scripts, "drones", "local", 4, 0.1, "gps")])
    ledger.put([replace(score_row(scripts, "tracking_loss", "encoders only", 1, 0.125), varied="0.5")])
    _, said, *sections = scripts["by_seed"].page_by_seed(ledger, "here.md").split("\n\n")
    assert "[here.md](here.md)" in said
    assert [one.strip() for one in sections] == [
        "## `tracking_loss`, link.loss_probability = 0.5",
        "| arm | 1 |\n|---|---|\n| encoders only | .125 |",
        "## `drones`",
        "| arm | 0 | 2 | 4 |\n|---|---|---|---|\n| local | .250 | .450 | .500 |\n| DSGD | .250 | .450 | - |",
    ]


@pytest.mark.parametrize(
    ("scores", "rounds"),
    [
        pytest.param({10: 0.3, 20: 0.4, 40: 0.405, 80: 0.408}, 20, id="what follows brings little"),
        pytest.param({10: 0.3, 20: 0.4, 40: 0.405, 80: 0.42}, None, id="the last is still better"),
        pytest.param({10: 0.4, 20: 0.395, 40: 0.409}, 10, id="a dip does not count"),
    ],
)
def test_rounds_are_enough_where_none_of_the_longer_trainings_brings_more(
    scripts: Mapping[str, ModuleType], scores: Mapping[int, float], rounds: int | None
) -> None:
    assert scripts["rounds"].enough(scores) == rounds


def test_the_stopping_rule_speaks_of_the_rounds_that_regimes_have(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    make, ledger = scripts["make"], scripts["ledger"].Ledger(tmp_path / "x")
    for curve, (regime, rounds, others) in scripts["rounds"].ROUNDS.items():
        assert scripts["regimes"].comparison_of(curve).varied_key == "rounds"
        for name in (regime, *others):
            runs = planned_runs(anywhere(make.comparison_of(name)).edited({"seeds": [0]}))
            of_arms = {run.method: run.scenario.rounds for run in runs}
            if curve.endswith("_pooled"):
                assert of_arms["centralized, three times the rounds"] == rounds
            else:
                assert {n for arm, n in of_arms.items() if "times the rounds" not in arm} == {rounds}
    for at, gain in ((10, -0.1), (20, 0.0), (40, 0.04), (80, 0.04)):
        gains = (("local", gain), ("head averaging", 0.0))
        rows = [score_row(scripts, "drones_rounds", arm, 0, 0.4 + more) for arm, more in gains]
        # a seed that not all points have says nothing
        more = [score_row(scripts, "drones_rounds", "local", 1, 0.9)] if at == 80 else []
        ledger.put(replace(row, varied=str(at)) for row in rows + more)
    *_, row = scripts["rounds"].stopping_rows(ledger)
    assert row.startswith("| `drones` | `drones_permuted`, ")
    assert row.endswith("| 20 (.400) | 40 | +.020 | local (+.040) |")
    for at, score in ((20, 0.4), (60, 0.5), (120, 0.505), (240, 0.508)):
        ledger.put([replace(score_row(scripts, "drones_pooled", "centralized", 0, score), varied=str(at))])
    *_, row = scripts["rounds"].stopping_rows(ledger)
    assert row == "| `drones`, *centralized* alone | none | 60 (.500) | 60 | +.008 | none |"


def test_a_page_of_new_scores_has_tables_and_controls(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    make, text = scripts["make"], scripts["page_text"]
    # its sentences are true of the scores that are kept, not of these
    template = re.sub(
        r" \| = (better|worse|not shown)", "", make.edition_of([], Path()).template.read_text(encoding="utf-8")
    )
    scores = {
        arm: tuple(0.4 + 0.01 * index + 0.0005 * ((seed * (index + 2)) % 17) for seed in SEEDS)
        for index, arm in enumerate(make.comparison_of("drones_permuted").methods)
    }
    kept(scripts, tmp_path / "scores.csv", "drones_permuted", scores).write()
    found = page_of(scripts, tmp_path, "cafe")
    written = text.page(template, found, text.judged_everywhere(found.ledger))
    assert "## What decides" in written
    assert "| `drones_permuted` | a start that is common by beam |" in written
    assert "Seeds 0, 1, 2, 3, 4, 5; differences to *encoders only*; code c0de." in written
    assert "| head averaging, told the orders | 6 |" in written


def overview_rows(scripts: Mapping[str, ModuleType], name: str, ledger: Any, regimes: Iterable[str]) -> list[str]:
    return [*scripts["judged_controls"].overview_rows(name, judged(scripts, ledger, regimes))]


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
    ledger.put([score_row(scripts, "blockage", "as in the paper, gamma .23", 0, 0.4)])
    head, _, *rows = overview_rows(scripts, "sharing", ledger, ("blockage", "drones"))
    assert overview_rows(scripts, "orders", ledger, ("blockage",)) == []
    assert head == "| What is praised | `blockage` (n = 6) |"
    words = dict(row.strip("| ").split(" | ") for row in rows)
    assert words["sharing encoders, common initial heads, over twice the steps"].endswith("**better**")
    assert words["the coupling, with our settings"].endswith("**worse**")
    assert words["twice the compute"].endswith("not shown")
    assert words["the coupling, as printed, gamma .23"].endswith("not shown (n = 1)")
    del scores["head averaging"]
    again = kept(scripts, tmp_path / "y", "blockage", scores)
    assert "| averages of heads | not run |" in overview_rows(scripts, "sharing", again, ("blockage",))

    columns = scripts["judged_controls"].overview("sharing", judged(scripts, ledger, ("blockage", "drones")))
    things = scripts["controls"].OVERVIEWS["sharing"]
    (panel,) = scripts["pictures"].overview_figure(things, columns).axes
    drawn = {things[round(bar[0].get_ydata()[0])]: bar[0] for bar in panel.containers}
    # one seed has no interval
    assert {*things} - {*drawn} == {thing for thing, words_of in words.items() if words_of.endswith("(n = 1)")}
    gain, loss = (
        drawn["sharing encoders, common initial heads, over twice the steps"],
        drawn["the coupling, with our settings"],
    )
    assert gain.get_xdata()[0] > 0.0 > loss.get_xdata()[0]
    assert (gain.get_marker(), loss.get_marker(), drawn["twice the compute"].get_marker()) == (">", "<", "o")


def test_rows_count_seeds_of_which_both_arms_ran_on_different_processors(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    ledger = kept(scripts, tmp_path / "x", "drones", {"local": 0.25, "local, twice the steps": 0.5})
    groups = ledger.of("drones").groups
    elsewhere = (score_row(scripts, "drones", "local", seed, 0.3, group) for seed in (1, 4) for group in groups)
    ledger.put(replace(row, processor="Q, V") for row in elsewhere)
    (row,) = scripts["judged_controls"].control_rows(judged(scripts, ledger, ("drones",)))
    assert row.startswith("| `drones` | twice the compute | local, twice the steps | local | ")
    assert row.endswith("better (p <.001, <.001) | 2 |")


def test_every_arm_is_listed_with_its_settings(scripts: Mapping[str, ModuleType]) -> None:
    rows = [*scripts["page_text"]._arms_text()][2:]
    twice = '| local, twice the steps | `algorithm = "local"`, `training.local_steps = 10` | `tracking`, `'
    assert any(row.startswith(twice) for row in rows)
    named = {row.split(" | ")[0].removeprefix("| ") for row in rows}
    assert named == {arm for name in scripts["make"].REGIMES for arm in scripts["make"].comparison_of(name).methods}


def test_curves_have_a_column_per_value_and_a_picture(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    page_text, ledger = scripts["page_text"], scripts["ledger"].Ledger(tmp_path / "x")
    steps = scripts["steps"].StepTable(tmp_path / "steps.csv")
    assert page_text._curves_text("tracking_graphs", ledger, steps) == ""
    for number, kind in enumerate(("ring", "complete")):
        rows = (score_row(scripts, "tracking_graphs", arm, 0, 0.25 + number / 4) for arm in ("local", "x"))
        ledger.put(replace(one, varied=kind) for one in rows)
    text = page_text._curves_text("tracking_graphs", ledger, steps)
    assert "| arm | ring | complete |" in text
    assert "| local | .250 | .500 |" in text
    scripts["pictures"].draw_curves(
        page_text.varied_scores("tracking_graphs", ledger), "topology.kind", ["local", "x"], tmp_path / "curves"
    )
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_fresh_seeds_ask_the_same_of_the_same_arms(scripts: Mapping[str, ModuleType]) -> None:
    comparison_of = scripts["make"].comparison_of
    asked = comparison_of("drones_sizes_scarce")
    others = [
        comparison_of(name)
        for name in ("drones_sizes", "drones_sizes_fresh", "drones_sizes_trust", "drones_sizes_same")
    ]
    for again in others[1:]:
        assert again.edits == asked.edits
        shared = again.methods.keys() & asked.methods.keys()
        assert len(shared) == 2
        assert all(again.methods[arm] == asked.methods[arm] for arm in shared)
    seeds = [seed for one in (asked, *others) for seed in one.seeds]
    assert len(seeds) == len({*seeds})


@pytest.mark.parametrize(
    ("first", "fresh"), [("drones_permuted", "drones_permuted_fresh"), ("drones_sizes_long", "drones_sizes_recut")]
)
def test_fresh_seeds_of_orders_ask_the_same_of_the_same_arms(
    scripts: Mapping[str, ModuleType], first: str, fresh: str
) -> None:
    comparison_of, regimes = scripts["make"].comparison_of, scripts["make"].REGIMES
    asked, again = comparison_of(first), comparison_of(fresh)
    assert again.edits == asked.edits
    assert again.methods.items() <= asked.methods.items()
    assert not {*again.seeds} & {seed for other in regimes if other != fresh for seed in comparison_of(other).seeds}


#: Regime with the worlds, samples and rounds of another -> that one, and the one whose arms it has.
_PAIRED = {
    "drones_long_sgd": ("drones_long", "drones"),
    "drones_views_tuned": ("drones_views_long", "drones_views_long"),
    "drones_views_sgd": ("drones_views_long", "drones"),
}


@pytest.mark.parametrize(
    ("name", "longer", "rounds"),
    [
        *(
            (name, f"{name}_long", 40)
            for name in ("blockage", "drones", "drones_occluded", "drones_views", "drones_permuted", "drones_sizes")
        ),
        ("drones_views", "drones_views_80", 80),
    ],
)
def test_longer_runs_have_more_rounds_seeds_of_their_own_and_else_the_same_arms(
    scripts: Mapping[str, ModuleType], name: str, longer: str, rounds: int
) -> None:
    comparison_of, regimes = scripts["make"].comparison_of, scripts["make"].REGIMES
    asked, again = comparison_of(name), comparison_of(longer)
    assert again.edits == {**asked.edits, "rounds": rounds, "evaluate_every": rounds}
    assert again.methods.items() <= asked.methods.items()
    others = {
        seed for other in regimes if other != longer and other not in _PAIRED for seed in comparison_of(other).seeds
    }
    assert not {*again.seeds} & others


@pytest.mark.parametrize("name", _PAIRED)
def test_paired_regimes_have_the_same_worlds_after_as_many_rounds(scripts: Mapping[str, ModuleType], name: str) -> None:
    comparison_of = scripts["make"].comparison_of
    again, (longer, of_arms) = comparison_of(name), _PAIRED[name]
    assert (again.edits, again.seeds) == (comparison_of(longer).edits, comparison_of(longer).seeds)
    assert again.methods.items() <= comparison_of(of_arms).methods.items()
