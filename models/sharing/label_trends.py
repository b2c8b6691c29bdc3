"""How the features of untrained encoders go with the place of the label: what tells one end of a codebook from another.

Encoders start equal everywhere, so that feature k of a camera is the same picture of the scene at all clients. Where it
rises with the place of the best beam at one client and falls at its neighbor, one of their codebooks is turned.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...emulator.contracts import MODALITY_SPECS, Modality
from ..client_model import ClientModel
from ..sheaf.beam_frame import BeamFrame
from ..training.training_rows import TrainingRows

#: Own rows that are looked at, evenly spread.
MOST_ROWS = 400
#: Rows of one pass.
ROWS_AT_ONCE = 128
#: Shuffles of the places that a modality must be clearer than.
N_SHUFFLES = 99


def spread_rows(rows: TrainingRows) -> NDArray[np.int64]:
    """[at most MOST_ROWS] indices of rows, evenly spread."""
    n_rows = len(rows.label)
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, MOST_ROWS)).astype(np.int64))


def label_trends(
    model: ClientModel, frame: BeamFrame, rows: TrainingRows, draws: np.random.Generator
) -> tuple[dict[Modality, Tensor], bool]:
    """Modality -> correlation [embedding_dim] of its features with the place of the label, and whether any is clear.

    Mirrored sweeps beside mirrored places are the same task, so of sweeps only that part counts which changes its sign
    with the direction of the codebook. A modality is clear if its features go with the places better than with any of
    99 shuffles of them.

    Args:
        model: untrained.
        frame: places of its labels.
        rows: own training rows.
        draws: of the shuffles.
    """
    chosen = spread_rows(rows)
    inputs, places = rows.inputs(chosen), frame.place(torch.from_numpy(rows.label[chosen]))
    features = _features(model, inputs)
    shuffled = torch.from_numpy(np.stack([draws.permutation(len(chosen)) for _ in range(N_SHUFFLES)]))
    trends, clear = {}, False
    for index, modality in enumerate(model.modalities):
        standard = _standard(features[:, index])
        trends[modality] = _trend(standard, places)
        of_shuffles = standard.T @ _standard(places.double()[shuffled].T) / len(chosen)  # [embedding_dim, N_SHUFFLES]
        clear = clear or bool(trends[modality].square().sum() > of_shuffles.square().sum(dim=0).max())
    if frame.reads_sweeps:
        with frame.other_way():
            turned, from_other_end = _features(model, inputs), frame.place(torch.from_numpy(rows.label[chosen]))
        for index, modality in enumerate(model.modalities):
            if MODALITY_SPECS[modality].per_beam:
                trends[modality] = 0.5 * (trends[modality] - _trend(_standard(turned[:, index]), from_other_end))
    return trends, clear


def _features(model: ClientModel, inputs: Mapping[Modality, NDArray[np.float32]]) -> Tensor:
    """[n, n_modalities, embedding_dim] in evaluation mode: dropout must not draw here."""
    model.eval()
    n_rows = len(inputs[model.modalities[0]])
    with torch.no_grad():
        found = [
            model.embeddings(model.tensors({m: inputs[m][first : first + ROWS_AT_ONCE] for m in model.modalities}))
            for first in range(0, n_rows, ROWS_AT_ONCE)
        ]
    model.train()
    return torch.cat(found).double().cpu()


def _trend(standard: Tensor, places: Tensor) -> Tensor:
    """[d] correlation of standardized features [n, d] with places [n]."""
    return standard.T @ _standard(places.double().unsqueeze(1))[:, 0] / len(places)


def _standard(values: Tensor) -> Tensor:
    """[n, d] columns of zero mean and unit spread; what never varies becomes 0."""
    centered = values - values.mean(dim=0)
    spread = centered.square().mean(dim=0).sqrt()
    return torch.where(spread > 1e-9, centered / spread.clamp_min(1e-9), 0.0)
