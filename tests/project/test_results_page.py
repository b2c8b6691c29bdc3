"""The comparisons behind docs/results.md, and the rules by which its claims are judged."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sheafedge.scenarios.compare.comparison import Comparison, loaded_tables, validated_comparison
from sheafedge.scenarios.compare.plan import planned_runs

RESULTS = Path(__file__).parents[2] / "docs" / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the sources are not here: an installed wheel is tested")
FILES = sorted(RESULTS.glob("*.toml"))
SEEDS = ("0", "1", "2", "3", "4")


def module(name: str) -> ModuleType:
    """A script of the page; scripts are no package."""
    spec = importlib.util.spec_from_file_location(name, RESULTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found  # dataclasses look their module up
    spec.loader.exec_module(found)
    return found


def comparison(path: Path) -> Comparison:
    tables = loaded_tables(str(path))
    if tables.get("set", {}).get("data.source") == "deepsense":
        tables["set"]["data.root"] = "anywhere"
    return validated_comparison(tables)


def scores(of_method: Mapping[str, float | tuple[float, ...]], groups: tuple[str, ...]) -> Any:
    """Methods with the same figures in every group: one for all seeds, or one for each."""

    def values(figure: float | tuple[float, ...]) -> dict[str, float]:
        return dict(zip(SEEDS, figure if isinstance(figure, tuple) else (figure,) * len(SEEDS), strict=True))

    entries = [
        {
            "arm": method,
            "n": len(SEEDS),
            "groups": {
                group: {"scores": {"other": {"values": values(0.0)}, "top1": {"values": values(figure)}}}
                for group in (*groups, "all clients")
            },
        }
        for method, figure in of_method.items()
    ]
    return module("claims").Scores({"name": "made up", "entries": entries}, "top1")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_comparison_behind_the_page_can_be_planned(path: Path) -> None:
    runs = planned_runs(comparison(path))
    assert len(runs) == len(comparison(path).methods) * len(comparison(path).seeds) * len(
        comparison(path).varied_values
    )


def test_tables_of_the_page_have_five_seeds() -> None:
    assert all(comparison(path).seeds == (0, 1, 2, 3, 4) for path in FILES if not path.stem.startswith("tune_"))


@pytest.mark.parametrize("name", ["beam_tracking", "drone_beam"])
def test_every_algorithm_of_a_comparison_was_tuned_for_its_scenario(name: str) -> None:
    tune_file, _ = module("make").TUNED[name]
    tuned = set(comparison(RESULTS / f"{tune_file}.toml").methods)
    for path in FILES:
        compared = comparison(path)
        if compared.scenario == name and not path.stem.startswith("tune_"):
            assert {edits["algorithm"] for edits in compared.methods.values()} <= tuned, path.stem


def test_methods_that_claims_speak_of_are_compared() -> None:
    claims = module("claims")
    for claim in claims.CLAIMS:
        methods = comparison(RESULTS / f"{claim.comparison}.toml").methods
        groups = claims.BLOCKAGE_GROUPS if claim.comparison == "blockage" else claims.BEAM_GROUPS
        claim.decide(scores(dict.fromkeys(methods, 0.5), groups))  # no KeyError


def test_a_claim_is_decided_by_the_figures_both_ways() -> None:
    """With five seeds a difference must be larger than its own spread."""
    claims = module("claims")
    better = {"Sheaf-DMFL": 0.7, "Sheaf-DMFL-Att": 0.7, "local, best modality": 0.5, "DSGD": 0.6}
    first = claims.CLAIMS[0]
    decided = {
        "clear": better,
        "reversed": {**better, "DSGD": 0.8},
        "one of the two": {**better, "Sheaf-DMFL": 0.55},
        "within the spread": {**better, "DSGD": (0.6, 0.9, 0.6, 0.6, 0.7)},
    }
    holds = {name: first.decide(scores(of_method, claims.BEAM_GROUPS))[0] for name, of_method in decided.items()}
    assert holds == {"clear": True, "reversed": False, "one of the two": False, "within the spread": False}


def test_a_claim_without_figures_is_not_testable() -> None:
    claims = module("claims")
    assert all(claims.UNTESTED in claim.row({}) for claim in claims.CLAIMS)


def test_ours_is_marked_where_a_rival_is_ahead() -> None:
    claims = module("claims")
    ours = {claims.OURS: 0.6, "local": 0.5, "head averaging": (0.61, 0.59, 0.62, 0.58, 0.6), "centralized": 0.9}
    (row,) = claims.ours_against_the_best({"made up": scores(ours, ("gps",))}, {})
    assert "level" in row
    assert "head averaging" in row  # the centralized reference is no rival
    (row,) = claims.ours_against_the_best({"made up": scores({**ours, "local": 0.7}, ("gps",))}, {})
    assert "**behind**" in row


@pytest.mark.parametrize(
    ("weakest", "dsgd", "holds"),
    [
        pytest.param("DSGD", 0.5, True, id="DSGD, a little below local"),
        pytest.param("local, best modality", 0.52, False, id="local is weaker"),
        pytest.param("DSGD", 0.4, False, id="DSGD, far below local"),
    ],
)
def test_who_is_weakest_on_blockage_must_be_the_one_that_the_claim_names(
    weakest: str, dsgd: float, holds: bool
) -> None:
    claims = module("claims")
    local = (0.49, 0.53, 0.50, 0.52, 0.51)  # mean 0.51, and spread enough to be level with 0.5
    methods = dict.fromkeys((*claims.PAPERS_BASELINES, *claims.SHEAVES), 0.9) | {"DSGD": dsgd, claims.LOCAL: local}
    (claim,) = (claim for claim in claims.CLAIMS if claim.number == 10)
    decided, why = claim.decide(scores(methods, claims.BLOCKAGE_GROUPS))
    assert decided is holds
    assert f"lidar+rf: {weakest}" in why
