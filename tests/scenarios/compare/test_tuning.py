"""Settings are chosen on validation rows, with the same budget for every method, and the test rows stay unseen."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.compare.comparing import run_comparison
from sheafedge.scenarios.compare.comparison import Comparison, loaded_tables, validated_comparison
from sheafedge.scenarios.compare.tuning import tune, with_tuned_settings
from sheafedge.scenarios.schema.scenario import validated
from sheafedge.scenarios.wiring.data import load_data

STEPS = "training.encoder_step_size"
#: The first does not learn.
GRID: dict[str, Any] = {STEPS: [1e-6, 0.01]}


@pytest.fixture(scope="module")
def tuned(two_methods: Comparison, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("tuned")
    longer = two_methods.edited({"set": {**two_methods.edits, "rounds": 4}})
    return folder, tune(longer, GRID, [0], folder)


def test_every_method_tries_every_combination_and_keeps_the_best(tuned: tuple[Path, dict[str, Any]]) -> None:
    folder, tuning = tuned
    assert json.loads((folder / "tuning.json").read_text()) == tuning
    for facts in tuning["arms"].values():
        assert [tried["values"] for tried in facts["tried"]] == [{STEPS: 1e-6}, {STEPS: 0.01}]
        best = max(facts["tried"], key=lambda tried: tried["score"])
        assert facts["chosen"] == best["values"]
    assert "validation samples" in (folder / "tuning.md").read_text()


def test_a_search_never_scores_or_trains_on_test_rows(
    tuned: tuple[Path, dict[str, Any]], two_methods: Comparison
) -> None:
    tested = load_data(two_methods.base()).clients
    for run in (tuned[0] / "runs").iterdir():
        scenario = validated(tomllib.loads((run / "scenario.toml").read_text()))
        assert scenario.data.scored == "validation"
        for client, other in zip(load_data(scenario).clients, tested, strict=True):
            seen = np.concatenate([client.train.end, client.test.end])  # type: ignore[union-attr]
            assert not set(seen) & set(other.test.end)
            assert set(client.test.end) <= set(other.train.end)  # type: ignore[union-attr]


def test_equals_are_settled_for_the_earlier(two_methods: Comparison, tmp_path: Path) -> None:
    """What a lonely learner does not use cannot change its score."""
    alone = two_methods.edited({"methods": {"alone": {"algorithm": "local"}}})
    tuning = tune(alone, {"sheaf.coupling": [0.2, 0.1]}, [0], tmp_path)
    first, second = tuning["arms"]["alone"]["tried"]
    assert first["score"] == second["score"]
    assert tuning["arms"]["alone"]["chosen"] == {"sheaf.coupling": 0.2}


def test_fields_of_one_key_take_the_same_value(two_methods: Comparison, tmp_path: Path) -> None:
    alone = two_methods.edited({"methods": {"alone": {"algorithm": "local"}}})
    tuning = tune(alone, {"sheaf.coupling + training.head_step_size": [1e-6, 0.1]}, [0], tmp_path)
    tried = [one["values"] for one in tuning["arms"]["alone"]["tried"]]
    assert tried == [{"sheaf.coupling": v, "training.head_step_size": v} for v in (1e-6, 0.1)]
    assert "| coupling+head_step_size | alone |" in (tmp_path / "tuning.md").read_text()
    chosen = with_tuned_settings(alone, tmp_path / "tuned.toml").methods["alone"]
    assert chosen == {"algorithm": "local", **tuning["arms"]["alone"]["chosen"]}


def test_what_fails_is_not_chosen(two_methods: Comparison, tmp_path: Path) -> None:
    sgd = {"algorithm": "local", "training.encoder_optimizer": "sgd"}
    tuning = tune(two_methods.edited({"methods": {"alone": sgd}}), {STEPS: [1e12, 0.01]}, [0], tmp_path / "some")
    assert [tried["score"] is None for tried in tuning["arms"]["alone"]["tried"]] == [True, False]
    assert tuning["arms"]["alone"]["chosen"] == {STEPS: 0.01}
    assert "failed" in (tmp_path / "some" / "tuning.md").read_text()
    with pytest.raises(ConfigError, match="no combination of the grid works for method 'alone': client"):
        tune(two_methods.edited({"methods": {"alone": sgd}}), {STEPS: [1e12]}, [0], tmp_path / "none")


@pytest.mark.usefixtures("without_pictures")
def test_a_comparison_takes_the_chosen_settings_by_the_name_of_the_method(
    tuned: tuple[Path, dict[str, Any]], two_methods: Comparison, tmp_path: Path
) -> None:
    folder, tuning = tuned
    comparison = with_tuned_settings(two_methods, folder / "tuned.toml")
    for method, edits in comparison.methods.items():
        assert edits == {**two_methods.methods[method], **tuning["arms"][method]["chosen"]}
    assert comparison.base().data.scored == "held_out"
    results = run_comparison(comparison.edited({"seeds": [0]}), tmp_path)
    assert results["tuning"] == {"grid": GRID, "seeds": [0], "scored": "validation"}
    assert results["scored"] == "held_out"
    assert f"Chosen per method on validation samples: {STEPS}." in (tmp_path / "table.md").read_text()


def test_the_tuned_file_is_a_comparison_itself(tuned: tuple[Path, dict[str, Any]], two_methods: Comparison) -> None:
    written = validated_comparison(loaded_tables(str(tuned[0] / "tuned.toml")))
    assert written.methods == with_tuned_settings(two_methods, tuned[0] / "tuned.toml").methods
    assert written.seeds == two_methods.seeds


def test_what_was_tuned_with_more_or_fewer_edits_is_refused(
    tuned: tuple[Path, dict[str, Any]], two_methods: Comparison
) -> None:
    path = tuned[0] / "tuned.toml"
    for edits, words in (
        ({"algorithm": "local", "rounds": 9}, "method 'alone' has rounds = 9, but was tuned with no rounds in"),
        ({}, "method 'alone' has no algorithm, but was tuned with algorithm = 'local' in"),
        ({"algorithm": "local", STEPS: 0.5}, f"method 'alone' has {STEPS} = 0.5, but was tuned with {STEPS} = "),
    ):
        with pytest.raises(ConfigError) as refused:
            with_tuned_settings(two_methods.edited({"methods": {"alone": edits}}), path)
        assert words in str(refused.value)
        assert "name it differently, or tune it again" in str(refused.value)


def test_a_search_of_before_a_field_was_renamed_is_still_taken(two_methods: Comparison, tmp_path: Path) -> None:
    written = two_methods.edited(
        {
            "methods": {"alone": {"algorithm": "local", "link.blockage_loss": 0.5, "server.sampled": 2}},
            "tuning": {"grid": {"link.blockage_loss": [0.5, 0.9]}, "seeds": [0]},
        }
    )
    (tmp_path / "tuned.toml").write_text(written.text())
    asked = two_methods.edited({"methods": {"alone": {"algorithm": "local", "clients.sampled": 2}}})
    chosen = {"algorithm": "local", "clients.sampled": 2, "link.blocked_loss_probability": 0.5}
    assert with_tuned_settings(asked, tmp_path / "tuned.toml").methods == {"alone": chosen}


def test_a_tuned_file_without_a_setting_of_its_grid_is_refused(two_methods: Comparison, tmp_path: Path) -> None:
    written = two_methods.edited({"tuning": {"grid": {STEPS: [0.5]}, "seeds": [0]}})
    (tmp_path / "tuned.toml").write_text(written.text())
    with pytest.raises(ConfigError, match=rf"tuned\.toml has no {STEPS} for method 'together'"):
        with_tuned_settings(two_methods, tmp_path / "tuned.toml")


def test_an_method_that_was_not_tuned_or_was_another_is_refused(
    tuned: tuple[Path, dict[str, Any]], two_methods: Comparison, tmp_path: Path
) -> None:
    path = tuned[0] / "tuned.toml"
    for methods, words in (
        ({"dsgd": {"algorithm": "dsgd"}}, "has no method 'dsgd', only together, alone; tune it, or leave it out"),
        (
            {"alone": {"algorithm": "dsgd"}},
            "has algorithm = 'dsgd', but was tuned with algorithm = 'local' in",
        ),
    ):
        with pytest.raises(ConfigError) as refused:
            with_tuned_settings(two_methods.edited({"methods": methods, "reference": ""}), path)
        assert words in str(refused.value)
    (tmp_path / "plain.toml").write_text(two_methods.text())
    with pytest.raises(ConfigError, match="holds no tuned settings"):
        with_tuned_settings(two_methods, tmp_path / "plain.toml")


def test_a_grid_may_not_undo_what_makes_an_method(two_methods: Comparison, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="method 'together' sets algorithm, which --grid changes too"):
        tune(two_methods, {"algorithm": ["dsgd"]}, [0], tmp_path)


@pytest.mark.parametrize(
    ("changes", "grid", "words"),
    [
        ({"vary": {"rounds": [1, 2]}}, {"rounds": [1, 2]}, "vary changes rounds, which --grid changes too; leave it"),
        ({"vary": {"rounds": [1, 2]}}, {"sheaf.coupling+rounds": [1]}, "vary changes rounds, which --grid changes too"),
        ({}, {"rounds": []}, "--grid rounds needs at least one value, got none"),
        ({}, {"data.scored": ["held_out"]}, "data.scored must be 'validation' in a search, got 'held_out' for the"),
        ({}, {"data": [{"scored": "held_out"}]}, "data.scored must be 'validation' in a search, got 'held_out'"),
        (
            {"methods": {"peeking": {"algorithm": "local", "data.scored": "held_out"}}, "reference": ""},
            GRID,
            "data.scored must be 'validation' in a search, got 'held_out' for the method 'peeking [",
        ),
    ],
)
def test_a_search_that_cannot_end_well_costs_no_run(
    changes: dict[str, Any], grid: dict[str, Any], words: str, two_methods: Comparison, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        tune(two_methods.edited(changes), grid, [0], tmp_path / "out")
    assert words in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_what_a_comparison_varies_is_left_out_of_its_search_and_stays_in_the_tuned_file(
    two_methods: Comparison, tmp_path: Path
) -> None:
    varied = two_methods.edited({"methods": {"alone": {"algorithm": "local"}}, "vary": {"rounds": [1, 2]}})
    tuning = tune(varied, {STEPS: [0.01]}, [0], tmp_path)
    assert len(tuning["arms"]["alone"]["tried"]) == 1
    written = validated_comparison(loaded_tables(str(tmp_path / "tuned.toml")))
    assert written.vary == {"rounds": (1, 2)}
    assert written.methods == {"alone": {"algorithm": "local", STEPS: 0.01}}
