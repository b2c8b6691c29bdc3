"""Trained models as ONNX files, each compared with torch on held-out rows in the ONNX runtime."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.rows.row_samples import RowSamples
from ...emulator.contracts import Modality, SheafedgeError
from ...emulator.edge.onnx_session import OnnxSession
from ...emulator.nodes.compute_pool import ComputePool
from ...models.client_model import ClientModel
from ...models.export.graph_export import EDGES_NAME, FEATURES_NAME
from ...models.export.onnx_export import OnnxExporter
from ...models.model_pair import ModelPair
from ..schema.scenario import Scenario
from ..tasks.task_spec import InputDescription
from ..wiring.client import Client
from ..wiring.evaluation import in_pieces
from ..wiring.predictions import Predictions

#: What models of a graph take, in place of rows: all nodes of a graph at once, and logits [nodes, n_outputs] of all.
_GRAPH_INPUTS: dict[str, dict[str, Any]] = {
    FEATURES_NAME: {"shape": ["nodes", "features"], "unit": "as in the data", "meaning": "features of every node"},
    EDGES_NAME: {
        "shape": [2, "edges"],
        "unit": "1",
        "meaning": "numbers of the nodes that an edge joins, from 0; both directions, each once, without loops",
    },
}


class ExportError(SheafedgeError):
    """The outputs of an exported model differ too much from those of torch."""


def export_clients(
    scenario: Scenario,
    clients: Sequence[Client],
    predictions: Predictions,
    reported: Mapping[str, str],
    folder: Path,
    pool: ComputePool,
    exported: Callable[[int], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Export one model per client, and check each against torch.

    Args:
        scenario: scenario of the run.
        clients: clients whose models are exported.
        predictions: answers of torch.
        reported: group -> name of the model that it reports.
        folder: folder of the `.onnx` files, made if absent.
        pool: writes and checks several files side by side.
        exported: called after every model with the number of models that are exported.

    Returns:
        One row per client: client, path inside the run folder, bytes, max_abs_error, provider.

    Raises:
        ExportError: a difference above `export.max_abs_error`.
    """
    folder.mkdir(exist_ok=True)
    answers = predictions.of({client.client_id: client.data.test for client in clients})
    wanted = [
        _ToExport(scenario, client, reported[client.group], answers[client.client_id][reported[client.group]])
        for client in clients
    ]
    exporter = OnnxExporter()
    exporter.trace((one.model, one.shapes) for one in wanted)
    tickets = [pool.submit(partial(_exported, one, exporter, folder)) for one in wanted]
    rows: list[dict[str, Any]] = []
    failed: list[ExportError] = []
    for ticket in tickets:
        try:
            rows.append(ticket.result())
            exported(len(rows))
        except ExportError as error:  # the others are waited for, so that no file is left that was not checked
            failed.append(error)
    if failed:
        raise failed[0]
    return rows


@dataclass(frozen=True, eq=False, slots=True)
class _ToExport:
    """A trained model, with what torch answers about the held-out samples of its client."""

    scenario: Scenario
    client: Client
    name: str
    answers: NDArray[np.floating[Any]]

    @property
    def model(self) -> ClientModel | ModelPair:
        return self.client.answering(self.name)

    @property
    def inputs(self) -> dict[Modality, InputDescription]:
        said = self.scenario.task_spec.input_descriptions(
            self.client.data.test, self.scenario.data_of(self.client.group)
        )
        return {modality: said[modality] for modality in self.model.modalities}

    @property
    def shapes(self) -> dict[Modality, tuple[int, ...]]:
        return {modality: said.shape for modality, said in self.inputs.items()}


def _exported(one: _ToExport, exporter: OnnxExporter, folder: Path) -> dict[str, Any]:
    """Row of one exported model; its file is gone again if it does not compute what torch computes."""
    limit, me = one.scenario.export.max_abs_error, one.client.client_id
    path = folder / f"client-{me:02d}.onnx"
    exporter.export(one.model, one.shapes, path, _metadata(one.scenario, one.client, one.inputs))
    session = OnnxSession(path, cuda=one.model.head.is_cuda)
    error = _largest_difference(session, one)
    if not error <= limit:  # NaN fails too
        path.unlink()
        raise ExportError(_too_different(me, error, float(np.abs(one.answers).max()), limit))
    return {
        "client": me,
        "path": f"{folder.name}/{path.name}",
        "bytes": path.stat().st_size,
        "max_abs_error": error,
        "provider": session.provider,
    }


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


def _largest_difference(session: OnnxSession, one: _ToExport) -> float:
    """Largest absolute difference of two outputs on held-out samples."""
    test = one.client.data.test
    if isinstance(test, RowSamples) and test.graph is not None:
        given: dict[str, Any] = {FEATURES_NAME: test.graph.features, EDGES_NAME: test.graph.edges}
        whole = session.run(given)
        return float(np.abs(whole[test.graph.places(test.rows)] - one.answers).max())
    found = [session.run_all({str(name): rows for name, rows in inputs.items()}) for inputs in in_pieces(test)]
    # Python's max would lose a NaN
    return float(np.abs(np.concatenate(found) - one.answers).max())


def _metadata(scenario: Scenario, client: Client, described: Mapping[Modality, InputDescription]) -> dict[str, str]:
    """Metadata of the file, enough to use it alone; values are JSON where they are not plain text."""
    test = client.data.test
    outputs = scenario.task_spec.outputs(scenario.data_of(client.group), test)
    inputs = {str(modality): text.as_dict() for modality, text in described.items()}
    if isinstance(test, RowSamples) and test.graph is not None:
        inputs = _GRAPH_INPUTS
    return {
        "scenario": scenario.name,
        "algorithm": scenario.algorithm,
        "seed": str(scenario.seed),
        "client": str(client.client_id),
        "group": client.group,
        "trained_on": client.data.recording,
        "modalities": json.dumps(list(described)),
        "inputs": json.dumps(inputs),
        "task": scenario.task,
        "output": outputs.meaning,
        "labels": json.dumps(outputs.labels),
    }
