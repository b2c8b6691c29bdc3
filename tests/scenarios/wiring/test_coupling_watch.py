"""What is said about a coupling that is not stable: before a run, on its way, and when it diverges."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from sheafedge.emulator.contracts import DivergedError
from sheafedge.scenarios.running.run import RunResult, run_scenario
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.terminal.run_console import print_result
from sheafedge.scenarios.wiring import coupling_watch as stability
from sheafedge.scenarios.wiring.coupling_watch import StabilityWatch, limit_warnings
from sheafedge.scenarios.wiring.data import load_data
from sheafedge.scenarios.wiring.emulation import build
from torch import Tensor

#: On the tiny scenario, whose heads have squared norms near 4: eta * lambda * s_e is about 8.
OVERSHOOTING = {
    "rounds": 6,
    "sheaf.coupling": 1.0,
    "sheaf.compression": 1.0,
    "sheaf.map_step_size": 1.0,
    "sheaf.clamp_map_step": False,
}

# --- before the first round -------------------------------------------------------------------------------------------


def triangle(rows: int = 3) -> dict[int, dict[int, Tensor]]:
    """Three clients that all hear each other and compare the same coordinates: |L_F| is 3."""
    return {i: {j: torch.arange(rows) for j in range(3) if j != i} for i in range(3)}


def heads(*norms: float) -> dict[int, Tensor]:
    return {i: torch.tensor([norm, 0.0, 0.0], dtype=torch.float64) for i, norm in enumerate(norms)}


def warned(tiny: Scenario, norms: tuple[float, ...] = (1.0, 1.0, 1.0), **edits: Any) -> tuple[str, ...]:
    settings = {"training.head_step_size": 0.1, "sheaf.coupling": 0.1, "sheaf.map_step_size": 0.001, **edits}
    edited = tiny.edited(settings)
    return limit_warnings(edited.training.head_step_size, edited.sheaf, triangle(), heads(*norms))


@pytest.mark.parametrize(("strength", "n_warnings"), [(1.98, 0), (2.02, 1)])
def test_a_head_step_that_no_loss_could_make_stable_is_warned_of(
    strength: float, n_warnings: int, tiny: Scenario
) -> None:
    """Alpha * lambda * |L_F| from 2 on: alpha < 2 / (L + lambda |L_F|) cannot hold for any L."""
    found = warned(tiny, **{"sheaf.coupling": strength / 0.3, "topology.kind": "ring"})
    assert len(found) == n_warnings
    for sentence in found:
        assert "training.head_step_size 0.1 is above 0.099 = 2 / (sheaf.coupling 6.73" in sentence
        assert "norm of the sheaf Laplacian 3" in sentence
        assert "\n" not in sentence


def test_step_sizes_that_are_safe_on_any_graph_of_that_degree_need_no_norm(
    tiny: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a triangle of degree 2 the norm is at most 4 whatever the maps are; it is 3, so that both ways agree."""
    asked: list[float] = []
    monkeypatch.setattr(stability, "sheaf_laplacian_limit", lambda *_: asked.append(3.0) or 3.0)
    for strength_of_4, n_asked in ((1.98, 0), (2.02, 1)):
        assert warned(tiny, **{"sheaf.coupling": strength_of_4 / 0.4}) == ()
        assert len(asked) == n_asked


@pytest.mark.parametrize(("step", "clamped", "n_warnings"), [(0.99, False, 0), (1.01, False, 1), (1.01, True, 0)])
def test_a_free_map_step_beyond_its_limit_names_the_edge_with_the_longest_heads(
    step: float, clamped: bool, n_warnings: int, tiny: Scenario
) -> None:
    edits = {"sheaf.coupling": 0.1, "sheaf.map_step_size": step, "sheaf.clamp_map_step": clamped}
    found = warned(tiny, (1.0, 2.0, 4.0), **edits)  # s_e of clients 1 and 2 is 20, the limit 1
    assert len(found) == n_warnings
    for sentence in found:
        assert "sheaf.map_step_size 1.01 is above 1 = 2 / (sheaf.coupling 0.1 * squared norms 20" in sentence
        assert "clients 1 and 2" in sentence
        assert "sheaf.clamp_map_step = true" in sentence


def test_without_coupling_or_neighbors_nothing_is_too_large(tiny: Scenario) -> None:
    assert warned(tiny, **{"sheaf.coupling": 0.0, "sheaf.clamp_map_step": False, "sheaf.map_step_size": 1e9}) == ()
    alone: dict[int, dict[int, Tensor]] = {0: {}}
    assert limit_warnings(0.1, tiny.edited({"sheaf.coupling": 1.0}).sheaf, alone, heads(1.0)) == ()


def test_a_scenario_is_told_when_it_is_built(tiny: Scenario) -> None:
    def warnings_of(edits: Mapping[str, Any]) -> tuple[str, ...]:
        scenario = tiny.edited(dict(edits))
        emulation = build(scenario, load_data(scenario).clients, lambda *_: {}, lambda *_: None)
        emulation.close()
        return emulation.warnings

    (sentence,) = warnings_of(OVERSHOOTING)
    assert sentence.startswith("sheaf.map_step_size 1 is above ")
    assert warnings_of({**OVERSHOOTING, "algorithm": "local"}) == ()
    assert warnings_of({}) == ()


# --- on the way -------------------------------------------------------------------------------------------------------

HEALTHY = {"loss": 1.0, "sheaf_energy": 1.0, "map_norm": 3.0, "projection_share": 1.0, "largest_map_step": 0.5}


def watched(tiny: Scenario, *rounds: Callable[[int], Mapping[str, float]], **edits: Any) -> StabilityWatch:
    """Two clients; every round says what it changes in the figures of each."""
    watch = StabilityWatch(2, clamps_map_step=tiny.edited(edits).sheaf.clamp_map_step)
    for index, changed in enumerate(rounds):
        for client in range(2):
            watch.see({"client": client, "round": index, **HEALTHY, **changed(client)})
    return watch


def as_ever(client: int) -> Mapping[str, float]:
    return {}


def only_1(**figures: float) -> Callable[[int], Mapping[str, float]]:
    return lambda client: figures if client == 1 else {}


def both(**figures: float) -> Callable[[int], Mapping[str, float]]:
    return lambda client: figures


def test_a_healthy_run_is_left_in_peace(tiny: Scenario) -> None:
    assert watched(tiny, as_ever, both(projection_share=0.11, largest_map_step=1.99), as_ever).warnings == ()


def test_collapsed_maps_are_named_once_with_the_first_client_and_round(tiny: Scenario) -> None:
    (sentence,) = watched(tiny, as_ever, only_1(projection_share=0.09), both(projection_share=0.01)).warnings
    assert sentence.startswith("client 1, round 1: its maps have collapsed, they show 0.09 ")
    assert sentence.endswith("lower sheaf.map_step_size")  # the clamp is on already


def test_a_map_step_outside_its_bound_is_named_once(tiny: Scenario) -> None:
    free = {"sheaf.clamp_map_step": False}
    (sentence,) = watched(tiny, only_1(largest_map_step=2.0), both(largest_map_step=9.0), **free).warnings
    assert sentence.startswith("client 1, round 0: a map step of 2 ")
    assert sentence.endswith("lower sheaf.map_step_size or set sheaf.clamp_map_step = true")


def test_maps_that_lost_much_of_what_they_learned_are_named_once_and_the_summary_has_the_last_bound(
    tiny: Scenario,
) -> None:
    little, much = both(map_truncation=0.002), only_1(map_truncation=0.2)
    assert "map_truncation" not in watched(tiny, as_ever).summary()
    mild = watched(tiny, as_ever, little, only_1(map_truncation=0.003))
    assert mild.warnings == ()
    assert mild.summary()["map_truncation"] == 0.003
    (sentence,) = watched(tiny, as_ever, much, both(map_truncation=0.3)).warnings
    assert sentence.startswith("client 1, round 1: its factored maps may have lost 0.2 of what they have learned")
    assert sentence.endswith("sheaf.map_storage = 'dense' keeps all")


def test_heads_that_drift_apart_while_losses_grow_are_named_with_the_worst_client(tiny: Scenario) -> None:
    grown = {"sheaf_energy": 11.0, "loss": 1.6}
    (sentence,) = watched(tiny, as_ever, only_1(sheaf_energy=22.0, loss=2.5), both(**grown)).warnings
    assert sentence.startswith("client 1, round 1: heads drift apart, the energy of the sheaf has grown from 2 to 23 ")
    assert sentence.endswith("lower training.head_step_size or sheaf.coupling")
    assert watched(tiny, as_ever, both(sheaf_energy=11.0)).warnings == ()  # they learn to differ
    assert watched(tiny, as_ever, both(sheaf_energy=9.0, loss=1.6)).warnings == ()


def test_energy_grows_from_the_first_round_that_has_any(tiny: Scenario) -> None:
    """Heads that start equal have none; what came of it is compared with the round after."""
    without = both(sheaf_energy=0.0)
    assert watched(tiny, without, without, both(loss=1.6), as_ever).warnings == ()
    assert len(watched(tiny, without, as_ever, both(sheaf_energy=11.0, loss=1.6)).warnings) == 1


def test_the_summary_tells_how_the_coupling_began_and_ended(tiny: Scenario) -> None:
    end = both(sheaf_energy=2.0, map_norm=4.0)
    summary = watched(tiny, as_ever, only_1(largest_map_step=1.5), end, only_1(projection_share=0.5)).summary()
    assert summary == pytest.approx(
        {
            "energy_first": 2.0,
            "energy_last": 2.0,
            "map_norm_first": 18.0**0.5,
            "map_norm_last": 18.0**0.5,
            "projection_share_first": 1.0,
            "projection_share_last": 0.5,
            "largest_map_step": 1.5,
        }
    )


def test_algorithms_without_coupled_heads_have_nothing_to_watch(tiny: Scenario) -> None:
    watch = StabilityWatch(1, clamps_map_step=tiny.sheaf.clamp_map_step)
    watch.see({"client": 0, "round": 0, "loss": 1.0})
    assert (watch.warnings, watch.summary()) == ((), {})


# --- whole runs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def overshot(tiny: Scenario, tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return run_scenario(tiny.edited(OVERSHOOTING), tmp_path_factory.mktemp("runs") / "overshot")


def test_a_run_whose_maps_overshoot_says_so_in_its_summary_and_at_its_end(overshot: RunResult) -> None:
    (sentence,) = overshot.warnings
    assert ": a map step of " in sentence
    written = json.loads((overshot.folder / "summary.json").read_text())
    assert written["warnings"][-1] == sentence
    assert len(written["warnings"]) == 2  # that the first heads were too long for it was known before
    assert written["sheaf"]["largest_map_step"] > 2.0
    said = io.StringIO()
    print_result(Console(file=said), overshot)
    assert said.getvalue().count("warning:") == 1
    assert f"warning: {sentence}" in said.getvalue()


def test_a_run_as_shipped_warns_of_nothing(tiny: Scenario, tmp_path: Path) -> None:
    result = run_scenario(tiny.edited({"rounds": 6}), tmp_path / "run")
    assert result.summary["warnings"] == []
    sheaf = result.summary["sheaf"]
    assert 0.0 < sheaf["energy_first"] < sheaf["energy_last"]
    assert 0.9 < sheaf["projection_share_last"] < 1.1
    assert 0.0 < sheaf["largest_map_step"] < 0.1
    rows = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    last = [row for row in rows if row["round"] == 5]
    assert sum(row["sheaf_energy"] for row in last) == pytest.approx(sheaf["energy_last"])
    assert np.linalg.norm([row["map_norm"] for row in last]) == pytest.approx(sheaf["map_norm_last"])


def test_a_run_without_coupled_heads_has_no_word_about_a_sheaf(tiny: Scenario, tmp_path: Path) -> None:
    assert "sheaf" not in run_scenario(tiny.edited({"algorithm": "local"}), tmp_path / "run").summary


def diverged(tiny: Scenario, edits: Mapping[str, Any], folder: Path) -> str:
    with pytest.raises(DivergedError) as caught:
        run_scenario(tiny.edited(dict(edits)), folder)
    return str(caught.value)


def test_a_run_that_diverges_names_the_bound_that_it_has_broken(tiny: Scenario, tmp_path: Path) -> None:
    said = diverged(tiny, {**OVERSHOOTING, "rounds": 30, "sheaf.map_step_size": 1e3}, tmp_path / "run")
    assert " after a map step of " in said
    assert "stable below 2, and always with sheaf.clamp_map_step = true" in said
    assert "\n" not in said


def test_a_run_that_diverges_for_another_reason_blames_no_bound(tiny: Scenario, tmp_path: Path) -> None:
    wild = {"rounds": 30, "training.encoder_optimizer": "sgd", "training.encoder_step_size": 1e30}
    said = diverged(tiny, wild, tmp_path / "run")
    assert "left the finite numbers" in said
    assert "stable below" not in said
    assert "sheaf.coupling" in said


def test_a_run_without_a_coupling_is_not_told_to_lower_it(tiny: Scenario, tmp_path: Path) -> None:
    wild = {"rounds": 30, "algorithm": "local", "training.encoder_optimizer": "sgd", "training.encoder_step_size": 1e30}
    said = diverged(tiny, wild, tmp_path / "run")
    assert "lower training.head_step_size" in said
    assert "sheaf.coupling" not in said
