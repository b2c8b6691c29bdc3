"""What is asked of trackers is checked before anything runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.schema.scenario import load_scenario
from sheafedge.scenarios.tracking import tracker_table
from sheafedge.scenarios.tracking.tracker_table import TrackerRequest, flat, opener, requested_trackers


@pytest.fixture
def all_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_table, "find_spec", lambda package: sys)


@pytest.mark.usefixtures("all_installed")
def test_a_tracker_has_a_folder_of_its_own_or_the_one_that_was_named() -> None:
    assert requested_trackers(["tensorboard", "mlflow=a=b"]) == [
        TrackerRequest("tensorboard", Path("runs/tracking/tensorboard")),
        TrackerRequest("mlflow", Path("a=b")),
    ]


@pytest.mark.usefixtures("all_installed")
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["tensorbord"], "unknown --tracker 'tensorbord'; known: tensorboard, wandb, mlflow"),
        (["wandb="], "--tracker wandb= names no folder; for example --tracker wandb=runs/tracking/wandb"),
        (["wandb", "wandb=b"], "--tracker wandb is given twice; give each tracker once"),
    ],
)
def test_a_mistake_is_one_sentence(asked: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as told:
        requested_trackers(asked)
    assert str(told.value) == words


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_table, "find_spec", lambda package: None)
    with pytest.raises(ConfigError) as told:
        requested_trackers(["mlflow"])
    assert str(told.value) == "--tracker mlflow needs the package mlflow; pip install 'sheafedge[mlflow]'"


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot be made .* name another: --tracker wandb=FOLDER"):
        opener(TrackerRequest("wandb", tmp_path / "file" / "below"), load_scenario("digits"), "run")


def test_settings_are_dotted_fields_with_lists_of_tables_by_place() -> None:
    tables = {"rounds": 3, "clients": {"groups": [{"name": "a"}, {"name": "b"}]}, "data": {"scenarios": [1, 5]}}
    assert flat(tables) == {
        "rounds": 3,
        "clients.groups.0.name": "a",
        "clients.groups.1.name": "b",
        "data.scenarios": [1, 5],
    }
