"""The script behind docs/edge_results.md: its scenarios can be run, and its tables say what the figures say."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from sheafedge.scenarios.export.bundle_evidence import HELD_OUT
from sheafedge.scenarios.wiring.members import members_of

PAGES = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.skipif(not PAGES.is_dir(), reason="the sources are not here: an installed wheel is tested")


@pytest.fixture(scope="module")
def make() -> ModuleType:
    """The script; scripts are no package."""
    spec = importlib.util.spec_from_file_location("edge_make", PAGES / "edge" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["edge_make"] = found
    spec.loader.exec_module(found)
    return found


def test_every_scenario_of_the_page_is_valid(make: ModuleType) -> None:
    for name in make.SMALLER:
        for seed in make.SEEDS[name]:
            assert make._scenario(name, seed).seed == seed


def test_the_counterparts_keep_one_sensor_each_and_all_else(make: ModuleType) -> None:
    joint = make._scenario("blockage", 0)
    before = members_of(joint)
    kept = [members_of(make.with_one_sensor(joint, index)) for index in (0, 1)]
    for client, member in enumerate(before):
        assert tuple(members[client].modalities[0] for members in kept) == member.modalities
        assert {members[client].group for members in kept} == {member.group}
        assert all(len(members[client].modalities) == 1 for members in kept)


def test_one_newcomer_of_every_group_is_off_for_good_and_leaves_neighbors_in_it(make: ModuleType) -> None:
    joint = make._scenario("blockage", 0)
    newcomers = make.newcomers_of(joint)
    groups = [member.group for member in members_of(joint)]
    assert sorted(groups[client] for client in newcomers) == sorted(set(groups))
    assert all(groups.count(groups[client]) > 1 for client in newcomers)
    (fault,) = make.without_newcomers(joint).faults
    assert (fault.kind, list(fault.nodes), fault.is_for_good) == ("node_off", newcomers, True)


def test_tables_say_what_the_figures_say(make: ModuleType, tmp_path: Path) -> None:
    for seed, score in ((0, 0.7), (1, 0.8)):
        bits = {
            "variant": make.SHIPPED_VARIANT,
            "client": 0,
            "size": 0.25,
            "float32": 0.8,
            "agreement": 0.9 + score / 10,
        }
        rows = [{**bits, "condition": HELD_OUT, "score": score}, {**bits, "condition": "noise", "score": 0.8}]
        lost = {
            "client": 0,
            "lost": "lidar",
            "kept": "rf",
            "both": 0.9,
            "masked": score - 0.2,
            "hidden_both": 0.85,
            "hidden_masked": score,
            "alone": 0.6,
            "persistence": 0.5,
        }
        late = {"client": 1, "group": "a", "lost": "", "neighbours": [score, 0.6], "own": 0.9, "persistence": 0.5}
        arrivals = [
            {
                "client": 1,
                "group": "a",
                "samples": n,
                "steps": steps,
                "tuned": [score, 0.6],
                "alone": 0.5 if n else None,
            }
            for n in (0, 16)
            for steps in (20, 100)
        ]
        for name, figures in (("bits", rows), ("lost", [lost]), ("late", [late]), ("arrival", arrivals)):
            (tmp_path / f"{name}-blockage-{seed}.json").write_text(json.dumps(figures))
    assert "| held out | 2 | 0.800 | 0.750 | -0.050 | -0.100 | 0.975 | 0.970 |" in make._bits_table(
        tmp_path, "blockage"
    )
    assert "1 of 2 models lose more than 0.02 in a condition that is checked (held out 1)." in make._bits_table(
        tmp_path, "blockage"
    )
    assert "0.25 | -0.100 | -0.100 | 0.970 | +0.000 | +0.000 | 0.970 |" in make._calibration_table(tmp_path)
    masked = "0.900 ± 0.000 | 0.550 ± 0.071 | 0.850 ± 0.000 | 0.750 ± 0.071 | 0.600 ± 0.000 | +0.150 ± 0.071 | 0.500"
    assert f"| rf | lidar | 2 | {masked} |" in make._lost_table(tmp_path)
    curve = make.arrival_table(make._read(tmp_path, "arrival-blockage"))
    assert "| a | 0 | 2 | 0.675 ± 0.035 |  | 0.675 ± 0.035 |  |" in curve
    assert "| a | 16 | 2 | 0.675 ± 0.035 | 0.500 ± 0.000 | 0.675 ± 0.035 | 0.500 ± 0.000 |" in curve
    assert "| a | nothing | 2 | 0.675 ± 0.035 | 0.900 ± 0.000 | +0.225 ± 0.035 | 0.500 |" in make._late_table(tmp_path)


def test_the_page_has_all_of_its_tables() -> None:
    template, page = ((PAGES / name).read_text() for name in ("edge/page.md", "edge_results.md"))
    holes = [line for line in template.splitlines() if line.startswith("<!-- ")]
    assert len(holes) == 5
    assert not [hole for hole in holes if hole in page]
