"""The rules of docs/theory.md, their regimes, and the words by which their predictions are judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from doubles.page_scripts import page_scripts, score_row
from sheafedge.scenarios.compare.plan import planned_runs

THEORY = Path(__file__).parents[2] / "docs" / "theory"
pytestmark = pytest.mark.skipif(not THEORY.is_dir(), reason="the sources are not here: an installed wheel is tested")
SCRIPTS = ("make", "ledger", "panel", "pilot", "rule", "verdict")


@pytest.fixture(scope="module")
def scripts() -> Iterator[Mapping[str, ModuleType]]:
    """The scripts of the page, by name; they are no package."""
    with page_scripts([THEORY, THEORY.parent / "results"], SCRIPTS) as found:
        yield found


def pilot(scripts: Mapping[str, ModuleType], **scores: float) -> Any:
    told = {f"told_{name}": scores[name] for name in ("own", "mixed") if name in scores}
    zeros = dict.fromkeys(("samples", "neighbor", "alike", "told_neighbor", "told_alike"), 0.0)
    return scripts["pilot"].Pilot(regime="tracking", seed=100, **{**zeros, **told, **scores})


def test_all_arms_of_all_regimes_can_run(scripts: Mapping[str, ModuleType]) -> None:
    found = scripts["panel"].regimes()
    known = [regime.known_to for regime in found.values()]
    # the five of the first design, the sixteen that tested it, and those that test both
    assert [known.count(kind) for kind in (("pilots", "race"), ("race",), ())] == [5, 16, 16]
    for regime in found.values():
        runs = planned_runs(regime.comparison([0]))
        assert [run.refusal for run in runs] == [""] * len(regime.arms)


@pytest.mark.parametrize(
    ("scores", "maps_differ", "kind"),
    [
        ({"local": 0.5, "own": 0.505, "mixed": 0.4}, False, "alone"),
        ({"local": 0.5, "own": 0.52, "mixed": 0.4}, False, "averaging"),
        ({"local": 0.5, "own": 0.4, "mixed": 0.52}, False, "averaging"),
        ({"local": 0.5, "own": 0.52, "mixed": 0.4, "told_mixed": 0.53}, True, "sheaf"),
        ({"local": 0.5, "own": 0.54, "mixed": 0.4, "told_mixed": 0.53}, True, "averaging"),
        ({"local": 0.5, "own": 0.4, "mixed": 0.4, "told_mixed": 0.505}, True, "alone"),
    ],
)
def test_the_rule_asks_for_a_gain_and_then_for_its_cause(
    scores: dict[str, float], maps_differ: bool, kind: str, scripts: Mapping[str, ModuleType]
) -> None:
    assert scripts["rule"].predicted([pilot(scripts, **scores)], maps_differ=maps_differ) == kind


@pytest.mark.parametrize(
    ("local", "encoders", "heads", "sheaf", "kind"),
    [
        (0.50, 0.60, 0.70, 0.60, "averaging"),
        (0.50, 0.60, 0.70, 0.704, "averaging"),  # dearer, and hardly ahead
        (0.50, 0.60, 0.70, 0.706, "sheaf"),
        (0.70, 0.60, 0.704, 0.60, "alone"),
        (0.698, 0.703, 0.60, 0.706, "averaging"),
    ],
)
def test_a_race_is_won_by_the_cheapest_near_the_leader(
    local: float, encoders: float, heads: float, sheaf: float, kind: str, scripts: Mapping[str, ModuleType]
) -> None:
    rule, regime = scripts["rule"], scripts["panel"].regimes()["drones_views"]
    means = {"local": local, "encoders only": encoders, "head averaging": heads, "Sheaf-DMFL-Att": sheaf}
    rows = [
        # seeds differ, and their mean decides
        score_row(scripts, regime.name, arm, seed, score + 0.1 * (-1) ** seed)
        for arm, score in means.items()
        for seed in rule.RACE_SEEDS
    ]
    scores = scripts["ledger"].RegimeScores
    assert rule.raced(scores(regime.name, rows), regime) == kind
    assert rule.raced(scores(regime.name, rows[1:]), regime) is None  # a run of a race is missing


def test_a_kind_is_level_where_the_interval_holds_no_difference(scripts: Mapping[str, ModuleType]) -> None:
    regime = scripts["panel"].regimes()["drones_views"]  # every seed has data of its own
    scores = {"local": 0.30, "encoders only": 0.50, "head averaging": 0.52, "Sheaf-DMFL-Att": 0.515}
    rows = [
        # the sheaf is now before and now behind averaging, local is behind everywhere
        score_row(scripts, regime.name, arm, seed, score + (0.02 * (-1) ** seed if "Sheaf" in arm else 0.0))
        for arm, score in scores.items()
        for seed in range(4)
    ]
    found = scripts["verdict"].outcome(scripts["ledger"].RegimeScores(regime.name, rows), regime)
    assert (found.winner, found.best["averaging"], found.level) == (
        "averaging",
        "head averaging",
        frozenset({"averaging", "sheaf"}),
    )
    missing = scripts["ledger"].RegimeScores(regime.name, rows[1:])  # arms of different seeds are not compared
    assert scripts["verdict"].outcome(missing, regime) is None


def test_the_tables_of_the_page_are_those_of_its_files(
    scripts: Mapping[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (THEORY.parent / "theory.md").read_text(encoding="utf-8")
    make, written = scripts["make"], tmp_path / "theory.md"
    old_table = "| `tracking` | 5 | 0.400 (local) |"
    assert old_table in page
    written.write_text(page.replace(old_table, "| `tracking` | 9 | 0.900 (local) |"), encoding="utf-8")
    monkeypatch.setattr(make, "PAGE", written)
    make.main(["--parts", "table"])
    assert written.read_text(encoding="utf-8") == page
