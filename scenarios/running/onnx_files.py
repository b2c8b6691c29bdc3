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
        error = _largest_difference(session, client, learner, name)
        if not error <= scenario.export.max_abs_error:  # NaN fails too
            path.unlink()
            raise ExportError(
                f"exported model of client {client.client_id} differs from torch by {error:.3g} on held-out rows, more"
                f" than export.max_abs_error = {scenario.export.max_abs_error:g}, and is not handed out; raise that"
                " limit if you can live with the difference"
            )
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


def _largest_difference(session: OnnxSession, client: Client, learner: Learner, name: str) -> float:
    test = client.data.test
    expected = predicted(learner, test)[name]
    pieces = [session.run({str(name): values for name, values in inputs.items()}) for inputs in in_pieces(test)]
    return float(np.abs(np.concatenate(pieces) - expected).max())  # Python's max would lose a NaN


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
