"""The search for step sizes behind docs/results.md: what every arm tries, what is chosen, and what is kept of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from doubles.page_scripts import RESULTS
from sheafedge.emulator.contracts import SheafedgeError
from sheafedge.scenarios.compare.plan import planned_runs

pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="the sources are not here: an installed wheel is tested")


def test_every_arm_is_tuned_on_seeds_that_are_not_scored(scripts: Mapping[str, ModuleType]) -> None:
    make = scripts["make"]
    for name, search in make.REGIMES.items():
        comparison = make.comparison_of(name)
        assert comparison.methods.keys() <= make.arms_of_search(search).methods.keys()
        assert not {*make.SEARCHES[search].seeds} & {*comparison.seeds}
        assert comparison.scenario == make.comparison_of(make.SEARCHES[search].regime).scenario


def test_every_arm_can_be_tuned(scripts: Mapping[str, ModuleType]) -> None:
    make = scripts["make"]
    for name, search in make.SEARCHES.items():
        comparison = make.arms_of_search(name)
        if comparison.edits.get("data.source") == "deepsense":
            comparison = comparison.edited({"set": {**comparison.edits, "data.root": "anywhere"}})
        # the smallest steps: what couples strongly is refused larger ones
        smallest = {key: min(values) for key, values in search.grid.items()}
        comparison = comparison.edited({"seeds": [100], "set": {**comparison.edits, **smallest}})
        short = scripts["steps"].shortened(comparison, search)
        assert [run.refusal for run in planned_runs(short) if run.refusal] == []


def test_a_grid_is_widened_where_the_best_lies_at_its_edge(scripts: Mapping[str, ModuleType]) -> None:
    widened = scripts["steps"].widened
    assert widened({0.001: 0.4, 0.003: 0.5, 0.01: 0.4}) == (0.001, 0.003, 0.01)
    assert widened({0.001: 0.6, 0.003: 0.5, 0.01: 0.4}) == (0.0003, 0.001, 0.003, 0.01)
    assert widened({0.003: 0.5, 0.01: 0.503}) == (0.003, 0.01)
    assert widened({0.0003: 0.5, 0.001: 0.4}) == (0.0003, 0.001)


def searched_arms(
    scripts: Mapping[str, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    arms: Collection[str],
    score: Callable[[str, float, float, int], float],
) -> tuple[Any, list[tuple[str, int]]]:
    """A comparison of arms, and what will be run of it; score: of an arm, steps of encoders, of heads, and a seed."""
    steps, comparison = scripts["steps"], scripts["make"].comparison_of("drones")
    asked: list[tuple[str, int]] = []

    def attempt(name: str, searched: Any, wanted: Mapping[str, Any], seed: int, *, table: Any, **_: Any) -> None:
        for arm, combinations in wanted.items():
            new = [sizes for sizes in combinations if not table.has(name, arm, sizes, seed)]
            asked.extend([(arm, seed)] * len(new))
            table.put(steps.Step(name, arm, e, h, seed, score(arm, e, h, seed), "c0de") for e, h in new)

    monkeypatch.setattr(steps, "_try", attempt)
    methods = {arm: comparison.methods[arm] for arm in arms}
    return comparison.edited({"methods": methods, "reference": ""}), asked


def test_only_arms_with_the_best_at_an_edge_are_searched_further(
    scripts: Mapping[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, make = scripts["steps"], scripts["make"]
    best = {"local": 0.003, "DSGD": 0.03}

    def score(arm: str, encoder: float, head: float, seed: int) -> float:
        """One optimum per arm, and one more seed that likes smaller steps of the heads."""
        return 0.5 - abs(math.log(encoder / best[arm])) / 10 - head * (seed - 100)

    comparison, asked = searched_arms(scripts, monkeypatch, best, score)
    search = replace(make.SEARCHES["sky"], seeds=(100, 101))
    table = steps.StepTable(tmp_path / "steps.csv")
    steps.search_steps("sky", search, comparison, table, tmp_path, 1, {})
    core = math.prod(map(len, search.grid.values()))
    # DSGD goes on to .03 and, since that is the best by far, to .1; in the mean smaller steps of heads win, so that .01
    # is tried, which is clearly the best, and .003, which is not
    assert {one: asked.count(one) for one in asked} == {
        ("local", 100): core + 2 * len(search.grid[steps.ENCODER]),
        ("DSGD", 100): core + 2 * len(search.grid[steps.HEAD]) + 2 * (2 + len(search.grid[steps.ENCODER])),
        ("local", 101): search.finalists + 2,
        ("DSGD", 101): search.finalists + 2,
    }
    assert table.chosen("sky") == {arm: {steps.ENCODER: e, steps.HEAD: 0.003} for arm, e in best.items()}
    assert steps.at_the_edge(table, "sky") == ["local", "DSGD"]  # of the heads
    before = len(asked)
    steps.search_steps("sky", search, comparison, table, tmp_path, 1, {})
    assert len(asked) == before  # nothing is tried twice


def test_an_interrupted_grid_is_completed_before_it_is_widened(scripts: Mapping[str, ModuleType]) -> None:
    steps, search = scripts["steps"], scripts["make"].SEARCHES["sky"]
    encoders, heads = (tuple(search.grid[key]) for key in (steps.ENCODER, steps.HEAD))
    part = {(encoders[0], head): {100: 0.5} for head in heads}
    assert steps.grid_of(search, part, 100) == ([*encoders], [*heads])
    whole = part | {(encoder, head): {100: 0.4} for encoder in encoders[1:] for head in heads}
    assert steps.grid_of(search, whole, 100) == ((0.0003, *encoders), heads)
    failed = part | {(encoder, head): {100: float("nan")} for encoder in encoders[1:] for head in heads}
    assert steps.grid_of(search, failed, 100)[0] == (0.0003, *encoders)


def test_a_run_of_a_search_is_kept_with_what_it_scored(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    steps, make = scripts["steps"], scripts["make"]
    comparison = make.comparison_of("digits_clients")
    methods = {arm: comparison.methods[arm] for arm in ("local", "head averaging")}
    comparison = comparison.edited({"methods": methods, "reference": ""})
    edits = {"rounds": 1, "evaluate_every": 1}
    search = steps.Search("digits_clients", {steps.ENCODER: (0.003,), steps.HEAD: (0.1,)}, (100,), edits)
    searched = steps.shortened(comparison, search)
    table = steps.StepTable(tmp_path / "steps.csv")
    wanted = {arm: [(0.003, 0.1)] for arm in methods}
    steps._try("digits", searched, wanted, 100, table=table, out=tmp_path, jobs=1)
    again = steps.StepTable(tmp_path / "steps.csv")
    assert again.arms("digits") == ["head averaging", "local"]
    for folder in (tmp_path / "runs").glob("*/scenario.toml"):
        assert 'scored = "validation"' in folder.read_text(encoding="utf-8")
    for arm in methods:
        ((sizes, score),) = again.ranked("digits", arm)
        assert sizes == (0.003, 0.1)
        assert 0.0 < score < 1.0


def test_a_search_without_samples_to_score_is_refused_and_keeps_nothing(
    scripts: Mapping[str, ModuleType], tmp_path: Path
) -> None:
    steps = scripts["steps"]
    comparison = scripts["make"].comparison_of("digits_clients")
    comparison = comparison.edited({"methods": {"local": comparison.methods["local"]}, "reference": ""})
    few = steps.Search("digits_clients", {}, (100,), {"clients.n_clients": 900})
    table = steps.StepTable(tmp_path / "steps.csv")
    with pytest.raises(SheafedgeError):
        steps._try(
            "digits",
            steps.shortened(comparison, few),
            {"local": [(0.003, 0.1)]},
            100,
            table=table,
            out=tmp_path,
            jobs=1,
        )
    assert not (tmp_path / "steps.csv").exists()


def test_an_arm_whose_runs_all_failed_has_no_step_sizes(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    steps = scripts["steps"]
    table = steps.StepTable(tmp_path / "steps.csv")
    table.put(steps.Step("sky", arm, 0.01, 0.3, 100, score, "c") for arm, score in (("a", math.nan), ("b", 0.5)))
    assert table.markdown("sky").splitlines()[2:] == [
        "| a | - | - | - | - | 1 | 1 |",
        "| b | 0.01 | 0.3 | .500 | - | 1 | 1 |",
    ]
    assert {*table.chosen("sky")} == {"b"}


def test_what_was_tried_is_read_back(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    steps = scripts["steps"]
    table = steps.StepTable(tmp_path / "steps.csv")
    tried = [(0.001, 0.1, 100, 0.4), (0.003, 0.1, 100, 0.5), (0.01, 0.1, 100, float("nan")), (0.03, 0.1, 100, 0.45)]
    table.put(steps.Step("sky", "local", *one, "c0de") for one in tried)
    table.write()
    again = steps.StepTable(tmp_path / "steps.csv")
    assert again.chosen("sky") == {"local": {steps.ENCODER: 0.003, steps.HEAD: 0.1}}
    assert steps.at_the_edge(again, "sky") == []
    assert "| local | 0.003 | 0.1 | .500 | .450 | 4 | 4 |" in again.markdown("sky")
    # what most seeds tried is chosen from, whatever an easy seed alone has
    more = [(0.001, 0.1, 101, 0.44), (0.03, 0.1, 101, 0.41)]
    again.put(steps.Step("sky", "local", *one, "c0de") for one in more)
    assert again.chosen("sky") == {"local": {steps.ENCODER: 0.03, steps.HEAD: 0.1}}
    assert "| local | 0.03 | 0.1 | .430 | .420 | 4 | 6 |" in again.markdown("sky")


def test_arms_that_lack_a_part_of_the_search_are_named(scripts: Mapping[str, ModuleType], tmp_path: Path) -> None:
    steps = scripts["steps"]
    search = steps.Search("drones", {steps.ENCODER: (0.003, 0.01), steps.HEAD: (0.1, 0.3)}, (100, 101))
    table = steps.StepTable(tmp_path / "steps.csv")
    for arm, seeds in {"local": (100, 101), "DSGD": (100,)}.items():
        grid = itertools.product(*search.grid.values(), seeds)
        table.put(steps.Step("sky", arm, encoder, head, seed, 0.5, "c0de") for encoder, head, seed in grid)
    assert steps.lack_part(search, "sky", table, {}) == ["DSGD"]
    table.put([steps.Step("sky", "local", 0.01, 0.3, 100, 0.6, "c0de")])  # clearly the best, at an edge
    assert steps.lack_part(search, "sky", table, {}) == ["local", "DSGD"]


def test_a_control_tries_what_was_chosen_for_its_arm(
    scripts: Mapping[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else larger steps, which the control did not go on to, could be what gains."""
    steps, make = scripts["steps"], scripts["make"]
    # the arm rises beyond the edge of the grid; its control is level there, and rises behind it
    rises = {"local": (0.001, 0.003, 0.03), "DSGD": (0.001, 0.003, 0.01, 0.03)}

    def score(arm: str, encoder: float, *_: float) -> float:
        return 0.1 * sum(encoder >= step for step in rises[arm])

    comparison, _ = searched_arms(scripts, monkeypatch, rises, score)
    search, chosen = make.SEARCHES["sky"], {}
    for controls in ({}, {"local": ["DSGD"]}):
        table = steps.StepTable(tmp_path / f"steps_{len(controls)}.csv")
        steps.search_steps("sky", search, comparison, table, tmp_path, 1, controls)
        chosen[len(controls)] = {arm: sizes[steps.ENCODER] for arm, sizes in table.chosen("sky").items()}
        assert steps.lack_part(search, "sky", table, controls) == []
    assert chosen == {0: {"local": 0.003, "DSGD": 0.03}, 1: {"local": 0.03, "DSGD": 0.03}}


def test_controls_of_a_search_are_those_of_the_page(scripts: Mapping[str, ModuleType]) -> None:
    controls = scripts["controls"].controls_of("sky")
    assert "as in the paper, gamma .23, SGD" in controls["the same without coupling, SGD"]
    assert "encoders only" not in controls["encoders only"]
    of_orders = scripts["controls"].controls_of("vendors")
    assert "learned orders, same sensors (ours)" not in of_orders["encoders only, learned orders"]  # it is not tuned


def test_every_control_of_the_page_tried_what_was_chosen_for_its_arm(scripts: Mapping[str, ModuleType]) -> None:
    steps = scripts["make"].edition_of([], Path()).steps
    for search in scripts["make"].SEARCHES:
        owed = scripts["steps"].chosen_for_others(steps, search, scripts["controls"].controls_of(search))
        assert owed == {}, search
