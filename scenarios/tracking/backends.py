"""The trackers themselves; each writes files below its folder, and opens no connection."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .tracker import TrackedRun

#: MLflow refuses other characters in names, more parameters at once, and longer values.
_NOT_IN_NAMES = re.compile(r"[^\w\-. :/]")
MOST_PARAMETERS, LONGEST_PARAMETER = 100, 500


class TensorboardTracker:
    """Event files in `FOLDER/RUN`; `tensorboard --logdir FOLDER` shows all runs."""

    def __init__(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(run.folder / run.name))
        rows = [f"| {name} | {value} |" for name, value in run.settings.items()]
        self._writer.add_text("scenario", "\n".join(["| field | value |", "|---|---|", *rows]))
        self._rounds_done = 0

    def log(self, rounds_done: int, figures: Mapping[str, float]) -> None:
        """See `Tracker.log`."""
        self._rounds_done = rounds_done
        for name, value in figures.items():
            self._writer.add_scalar(name, value, rounds_done)
        self._writer.flush()

    def close(self, final: Mapping[str, float] | None) -> None:
        """See `Tracker.close`."""
        for name, value in (final or {}).items():
            self._writer.add_scalar(name, value, self._rounds_done)
        self._writer.close()


class WandbTracker:
    """An offline run of Weights & Biases in `FOLDER/wandb`; `wandb sync` sends it, if somebody wants that."""

    def __init__(self, run: TrackedRun) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        self._run: Any = wandb.init(
            project=run.project,
            name=run.name,
            dir=str(run.folder),
            mode="offline",
            config=dict(run.settings),
            # what is printed belongs to the terminal of the user
            settings=wandb.Settings(silent=True, console="off"),
        )
        # not its own count of steps, which refuses rounds that are repeated
        self._run.define_metric("rounds_done")
        self._run.define_metric("*", step_metric="rounds_done")

    def log(self, rounds_done: int, figures: Mapping[str, float]) -> None:
        """See `Tracker.log`."""
        self._run.log({"rounds_done": rounds_done, **figures})

    def close(self, final: Mapping[str, float] | None) -> None:
        """See `Tracker.close`."""
        self._run.summary.update(dict(final or {}))
        self._run.finish(exit_code=1 if final is None else 0)


class MlflowTracker:
    """A run in a file store of MLflow in `FOLDER`; `mlflow ui --backend-store-uri FOLDER` shows all runs."""

    def __init__(self, run: TrackedRun) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # recent versions refuse one otherwise
        from mlflow import MlflowClient, entities

        self._entities: Any = entities
        # a client of its own: the functions of the module change settings of the whole process
        self._client: Any = MlflowClient(tracking_uri=run.folder.absolute().as_uri())
        project = self._client.get_experiment_by_name(run.project)
        place = self._client.create_experiment(run.project) if project is None else project.experiment_id
        self._run_id = self._client.create_run(place, run_name=run.name).info.run_id
        self._rounds_done = 0
        parameters = [
            entities.Param(_mlflow_name(name), str(value)[:LONGEST_PARAMETER]) for name, value in run.settings.items()
        ]
        for some in _pieces(parameters, MOST_PARAMETERS):
            self._client.log_batch(self._run_id, params=some)

    def log(self, rounds_done: int, figures: Mapping[str, float]) -> None:
        """See `Tracker.log`."""
        self._rounds_done = rounds_done
        now_ms = int(time.time() * 1000)
        metrics = [
            self._entities.Metric(_mlflow_name(name), value, now_ms, rounds_done) for name, value in figures.items()
        ]
        for some in _pieces(metrics, MOST_PARAMETERS):
            self._client.log_batch(self._run_id, metrics=some)

    def close(self, final: Mapping[str, float] | None) -> None:
        """See `Tracker.close`."""
        if final:
            self.log(self._rounds_done, final)
        self._client.set_terminated(self._run_id, status="KILLED" if final is None else "FINISHED")


def _mlflow_name(name: str) -> str:
    return _NOT_IN_NAMES.sub("-", name)


def _pieces(listed: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (listed[first : first + size] for first in range(0, len(listed), size))
