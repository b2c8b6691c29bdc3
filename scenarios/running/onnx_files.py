"""Trained models as ONNX files, each compared with torch on held-out rows in the ONNX runtime."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...emulator.contracts import Learner, Modality, SheafedgeError
from ...emulator.edge.onnx_session import OnnxSession
from ...models.export.onnx_export import OnnxExporter
from ..schema.scenario import Scenario
from ..tasks.task_spec import InputDescription
from ..wiring.client import Client
from ..wiring.evaluation import in_pieces, predicted


class ExportError(SheafedgeError):
    """The outputs of an exported model differ too much from those of torch."""


def export_clients(
    scenario: Scenario,
    clients: Sequence[Client],
    learners: Sequence[Learner],
    reported: Mapping[str, str],
    folder: Path,
    exported: Callable[[int], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Export one model per client, and check each against torch.

    Args:
        reported: group -> name of the model that it reports.
        scenario: scenario of the run.
        clients: clients whose models are exported.
        learners: trained learners of these clients, in the same order.
        folder: folder of the `.onnx` files, made if absent.
        exported: called after every model with the number of models that are exported.

    Returns:
        One row per client: client, path inside the run folder, bytes, max_abs_error, provider.

    Raises:
        ExportError: a difference above `export.max_abs_error`.
    """
    folder.mkdir(exist_ok=True)
    exporter = OnnxExporter()
    rows = []
    for client, learner in zip(clients, learners, strict=True):
        name = reported[client.group]
        model = client.answering(name)
        path = folder / f"client-{client.client_id:02d}.onnx"
        inputs = scenario.task_spec.input_descriptions(client.data.test, scenario.data_of(client.group))
        described = {modality: inputs[modality] for modality in model.modalities}
        shapes = {modality: described[modality].shape for modality in model.modalities}
        exporter.export(model, shapes, path, _metadata(scenario, client, described))
        session = OnnxSession(path, cuda=model.head.is_cuda)
        error, largest = _largest_difference(session, client, learner, name)
        if not error <= scenario.export.max_abs_error:  # NaN fails too
            path.unlink()
            raise ExportError(_too_different(client.client_id, error, largest, scenario.export.max_abs_error))
        rows.append(
            {
                "client": client.client_id,
                "path": f"{folder.name}/{path.name}",
                "bytes": path.stat().st_size,
                "max_abs_error": error,
                "provider": session.provider,
            }
        )
        exported(len(rows))
    return rows


def _too_different(client: int, error: float, largest: float, limit: float) -> str:
    """Sentence about a model that is not handed out."""
    apart = float(np.spacing(np.float32(largest)))
    if apart > limit:
        return (
            f"outputs of client {client}'s trained model reach {largest:.3g}, where float32 numbers are {apart:.2g}"
            f" apart, so that no exported model can be within export.max_abs_error = {limit:g} of torch; training has"
            " probably diverged: lower its step sizes"
        )
    return (
        f"exported model of client {client} differs from torch by {error:.3g} on held-out rows, more than"
        f" export.max_abs_error = {limit:g}, and is not handed out; raise that limit if you can live with the"
        " difference"
    )


def _largest_difference(session: OnnxSession, client: Client, learner: Learner, name: str) -> tuple[float, float]:
    """Largest absolute difference of two outputs, and largest absolute output of torch."""
    test = client.data.test
    expected = predicted(learner, test)[name]
    pieces = [session.run({str(name): values for name, values in inputs.items()}) for inputs in in_pieces(test)]
    # Python's max would lose a NaN
    return float(np.abs(np.concatenate(pieces) - expected).max()), float(np.abs(expected).max())


def _metadata(scenario: Scenario, client: Client, described: Mapping[Modality, InputDescription]) -> dict[str, str]:
    """Metadata of the file, enough to use it alone; values are JSON where they are not plain text."""
    outputs = scenario.task_spec.outputs(scenario.data_of(client.group), client.data.test)
    return {
        "scenario": scenario.name,
        "algorithm": scenario.algorithm,
        "seed": str(scenario.seed),
        "client": str(client.client_id),
        "group": client.group,
        "trained_on": client.data.recording,
        "modalities": json.dumps(list(described)),
        "inputs": json.dumps({str(modality): text.as_dict() for modality, text in described.items()}),
        "task": scenario.task,
        "output": outputs.meaning,
        "labels": json.dumps(outputs.labels),
    }
