"""Samples of one client that are rows of a data set: no frames, no windows, no time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import InputWindow, Labels, Modality
from ..windows.samples import Windows
from .graph_edges import GraphPart
from .pooled_ridge import PooledRidge, Scale


class TargetScale(NamedTuple):
    """Values are learned as (value - mean) / std, with numbers that all clients have in common.

    Attributes:
        mean: of the training rows of all clients, in the unit of the values.
        std: their standard deviation.
    """

    mean: float = 0.0
    std: float = 1.0


#: Of classes, which are learned as they are.
UNSCALED = TargetScale()


@dataclass(frozen=True, slots=True, eq=False)
class RowSamples:
    """Rows of one client, in random order.

    Attributes:
        x: [n_all, ...] inputs of the whole data set, float32 or uint8, shared by all clients.
        y: [n_all] int64 classes or float32 values of the whole data set.
        rows: [n] rows of this client.
        modality: "table", "image" or "graph"; images taken as a table are flattened, pixel by pixel.
        class_names: name of every class; empty for values.
        scale: mean and standard deviation by which inputs are scaled, of the shape of one input or [].
        target: how values are scaled.
        turns: of every image by 90 degrees, counterclockwise.
        ridge: ridge regression on the training rows of all clients, a baseline of values; None: there is none.
        graph: the part of the graph that the client has, for nodes of one; an input is the number of a node in it.
    """

    x: NDArray[Any]
    y: Labels
    rows: NDArray[np.int64]
    modality: Modality
    class_names: tuple[str, ...] = ()
    scale: Scale | None = None
    target: TargetScale = UNSCALED
    turns: int = 0
    ridge: PooledRidge | None = None
    graph: GraphPart | None = None

    @property
    def windows(self) -> Windows:
        """Every input is one row."""
        return {self.modality: InputWindow(self.modality)}

    @property
    def label(self) -> Labels:
        """[n] int64 class, or float32 scaled value."""
        if self.class_names:
            return self.y[self.rows]
        return ((self.y[self.rows] - self.target.mean) / self.target.std).astype(np.float32)

    @property
    def end(self) -> NDArray[np.int64]:
        """[n] place of each row among these: there is no time."""
        return np.arange(len(self.rows), dtype=np.int64)

    @property
    def sequence(self) -> NDArray[np.int64]:
        """[n] every row stands alone."""
        return self.end

    @property
    def n_before(self) -> int:
        return 0

    @property
    def n_after(self) -> int:
        return 0

    @property
    def frame_rows(self) -> NDArray[np.int64]:
        """[n] row of the data set."""
        return self.rows

    @property
    def modalities(self) -> tuple[Modality, ...]:
        return (self.modality,)

    @property
    def input_shapes(self) -> Mapping[Modality, tuple[int, ...]]:
        if self.graph is not None:
            return {self.modality: (1,)}
        if self.modality == "table":
            return {self.modality: (int(np.prod(self.x.shape[1:])),)}
        return {self.modality: self.inputs(slice(0, 1))[self.modality].shape[1:] if len(self) else self.x.shape[1:]}

    def __len__(self) -> int:
        return len(self.rows)

    def inputs(self, indices: NDArray[np.integer[Any]] | slice = slice(None)) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [n_indices, ...] in the units of the data set; of a graph, numbers of nodes [n_indices, 1]."""
        if self.graph is not None:
            return {self.modality: self.graph.places(self.rows[indices])[:, None].astype(np.float32)}
        batch = self.x[self.rows[indices]]
        if self.turns:
            batch = np.rot90(batch, self.turns, axes=(-2, -1))
        if self.modality == "table":
            batch = batch.reshape(len(batch), -1)
        return {self.modality: np.ascontiguousarray(batch, dtype=np.float32)}

    @property
    def truth(self) -> NDArray[np.float64]:
        """[n] right values in their own unit."""
        return self.y[self.rows].astype(np.float64)

    def values(self, scaled: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Values in their own unit, from scaled ones."""
        return np.asarray(scaled, dtype=np.float64) * self.target.std + self.target.mean

    def take(self, indices: NDArray[np.integer[Any]]) -> Self:
        """The samples at these indices, in this order."""
        return replace(self, rows=self.rows[indices])
