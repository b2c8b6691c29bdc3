"""Diagnostics of a run: what its edges did, and curves of its models on held-out samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...emulator.recorder import Recorder
from ..tasks.task_spec import Answers, DiagnosedTask
from ..wiring.client import Client
from ..wiring.predictions import Predictions
from .run_player import PlayedRun


def run_diagnostics(run: PlayedRun) -> dict[str, Any]:
    """Content of `diagnostics.json`.

    Returns:
        `edges`: a row per direction, see `EdgeTraffic.as_dict`; none for a run that went on from a checkpoint of before
        edges were counted. `held_out`: group -> model -> curves that the task makes; without clients whose models are
        in other processes.
    """
    emulation, task = run.emulation, run.scenario.task_spec
    found: dict[str, Any] = {}
    if emulation.recorder.counts_edges:
        found["edges"] = _edges(emulation.recorder)
    if isinstance(task, DiagnosedTask):
        members = emulation.groups_without(run.outside)
        found["held_out"] = {group: _curves(task, clients, run.predictions) for group, clients in members.items()}
    return found


def _edges(recorder: Recorder) -> list[dict[str, Any]]:
    edges = sorted(recorder.edges.items())
    return [{"sender": sender, "receiver": receiver, **one.as_dict()} for (sender, receiver), one in edges]


def _curves(task: DiagnosedTask, clients: Sequence[Client], predictions: Predictions) -> dict[str, Mapping[str, Any]]:
    """Model -> curves over the held-out samples of all clients of a group."""
    answers: dict[str, list[Answers]] = {}
    found = predictions.of({client.client_id: client.data.test for client in clients})
    for client in clients:
        data = client.data
        for model, logits in found[client.client_id].items():
            answers.setdefault(model, []).append(Answers(logits, data.test, data.rate_hz))
    return {model: task.diagnostics(of_model) for model, of_model in answers.items()}
