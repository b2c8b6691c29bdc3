"""Rows of a data set before they are dealt to clients, and the request for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Labels

#: Parts that a data set can put a row into.
Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")


class RowColumns(NamedTuple):
    """Names of the arrays of a file, or of the columns of a table.

    Attributes:
        x: inputs; of an array file one name, of a table its input columns; empty: the array "x", or all columns that
            are none of the others.
        y: what rows are asked about.
        owner: who has each row.
        split: its part: train, validation or test.
    """

    x: tuple[str, ...] = ()
    y: str = "y"
    owner: str = "owner"
    split: str = "split"


@dataclass(frozen=True, slots=True)
class RowRequest:
    """Request for the rows of a data set.

    Attributes:
        root: file or folder that holds them; None for data sets that come with a package.
        classes: whether labels are classes; otherwise they are values.
        columns: names of arrays or columns.
    """

    root: Path | None
    classes: bool
    columns: RowColumns = field(default_factory=RowColumns)


@dataclass(frozen=True, slots=True, eq=False)
class FederatedRows:
    """Rows of a data set.

    Attributes:
        name: for people, such as the name of the file.
        x: [n, n_columns], [n, height, width] or [n, channels, height, width], float32 or uint8.
        y: [n] int64 class from 0, or float32 value.
        class_names: name of every class; empty for values.
        owner: [n] int64 number of the owner of each row, from 0; None: rows have none.
        owner_names: name of every owner.
        split: [n] text, a name of `PARTS`; None: rows are in no parts.
        edges: [2, n_edges] int64 pairs of rows that are neighbors in a graph, every edge in both directions, sorted,
            without loops; None: the rows are no nodes of a graph.
    """

    name: str
    x: NDArray[Any]
    y: Labels
    class_names: tuple[str, ...] = ()
    owner: NDArray[np.int64] | None = None
    owner_names: tuple[str, ...] = ()
    split: NDArray[np.str_] | None = None
    edges: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def has_images(self) -> bool:
        """Whether a row is an image; images can also be taken as rows of a table, pixel by pixel."""
        return self.x.ndim > 2


@dataclass(frozen=True, slots=True)
class RowDataset:
    """One data set that a scenario can name.

    Attributes:
        read: reads its rows.
        root: what `data.root` must name, such as "a .npz or .csv file"; empty: it needs none.
        labels: labels that it has: only classes, only values, or whatever the task asks for.
    """

    read: Callable[[RowRequest], FederatedRows]
    root: str
    labels: Literal["classes", "values", "any"]
