"""Trackers store what they are told: TensorBoard itself, the others against stand-ins of their interfaces."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from sheafedge.scenarios.tracking.backends import MlflowTracker, TensorboardTracker, WandbTracker
from sheafedge.scenarios.tracking.tracker import TrackedRun, Tracker

#: More settings than MLflow takes at once, and one that is too long for it.
SETTINGS = {"rounds": 2, "long": "x" * 600, **{f"field.{place}": place for place in range(150)}}
ROUNDS = [{"camera+rf/held_out/fused/f1": 0.5, "network/bytes_sent": 1e6}, {"network/bytes_sent": 2e6}]


def told(make: Callable[[TrackedRun], Tracker], folder: Path, *, complete: bool = True) -> None:
    """A run of two rounds."""
    tracker = make(TrackedRun(folder, "blockage", "blockage-1", SETTINGS))
    for place, figures in enumerate(ROUNDS):
        tracker.log(place + 1, figures)
    tracker.close({"final/f1": 0.6} if complete else None)


def test_tensorboard_shows_every_round_and_the_settings(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    told(TensorboardTracker, tmp_path)
    events = EventAccumulator(str(tmp_path / "blockage-1"))
    events.Reload()
    assert [(one.step, one.value) for one in events.Scalars("network/bytes_sent")] == [(1, 1e6), (2, 2e6)]
    assert [(one.step, one.value) for one in events.Scalars("camera+rf/held_out/fused/f1")] == [(1, 0.5)]
    assert events.Scalars("final/f1")[0].step == 2
    text = events.Tensors("scenario/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "| rounds | 2 |" in text


class StandInRun:
    """A run of W&B."""

    def __init__(self) -> None:
        self.logged: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.exit_code: int | None = None

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        """No figures yet."""

    def log(self, figures: dict[str, Any]) -> None:
        self.logged.append(figures)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


@pytest.mark.parametrize("complete", [True, False])
def test_wandb_is_offline_and_learns_how_a_run_ended(
    complete: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, asked = StandInRun(), {}

    def init(**arguments: Any) -> StandInRun:
        asked.update(arguments)
        return run

    module = ModuleType("wandb")
    vars(module).update(init=init, Settings=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_ERROR_REPORTING", raising=False)
    told(WandbTracker, tmp_path, complete=complete)
    assert (asked["mode"], asked["dir"], asked["name"]) == ("offline", str(tmp_path), "blockage-1")
    assert asked["config"] == SETTINGS
    assert run.logged == [{"rounds_done": place + 1, **figures} for place, figures in enumerate(ROUNDS)]
    assert run.summary == ({"final/f1": 0.6} if complete else {})
    assert run.exit_code == (0 if complete else 1)


class StandInClient:
    """A client of MLflow that refuses what MLflow refuses."""

    made: ClassVar[list[StandInClient]] = []

    def __init__(self, tracking_uri: str) -> None:
        self.uri, self.params, self.metrics, self.status = tracking_uri, {}, [], ""  # type: ignore[var-annotated]
        self.made.append(self)

    def get_experiment_by_name(self, name: str) -> None:
        return None

    def create_experiment(self, name: str) -> str:
        return f"experiment of {name}"

    def create_run(self, experiment: str, run_name: str) -> Any:
        return SimpleNamespace(info=SimpleNamespace(run_id=f"{run_name} in {experiment}"))

    def log_batch(self, run: str, params: Any = (), metrics: Any = ()) -> None:
        assert run == "blockage-1 in experiment of blockage"
        assert len(params) <= 100
        for name, value in params:
            assert len(value) <= 500
            self.params[name] = value
        for name, value, _, step in metrics:
            assert "+" not in name
            self.metrics.append((name, value, step))

    def set_terminated(self, run: str, status: str) -> None:
        self.status = status


@pytest.mark.parametrize("complete", [True, False])
def test_mlflow_gets_pieces_that_it_takes_in_a_store_of_files(
    complete: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = ModuleType("mlflow")
    entities = SimpleNamespace(Param=lambda *one: one, Metric=lambda *one: one)
    vars(module).update(MlflowClient=StandInClient, entities=entities)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    for name in ("MLFLOW_DISABLE_TELEMETRY", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.setenv(name, "true")  # so that it is removed again
    told(MlflowTracker, tmp_path, complete=complete)
    client = StandInClient.made.pop()
    assert client.uri == tmp_path.as_uri()
    assert len(client.params) == len(SETTINGS)
    expected = [("camera-rf/held_out/fused/f1", 0.5, 1), ("network/bytes_sent", 1e6, 1), ("network/bytes_sent", 2e6, 2)]
    assert client.metrics == [*expected, *([("final/f1", 0.6, 2)] if complete else [])]
    assert client.status == ("FINISHED" if complete else "KILLED")
