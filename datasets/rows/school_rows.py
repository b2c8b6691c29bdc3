"""Inner London Education Authority: examination scores of pupils, one owner per school."""

from __future__ import annotations

import numpy as np

from ...emulator.contracts import DataError
from ...emulator.regular_file import shown
from ..matlab_file import read_mat_cells
from .federated_rows import FederatedRows, RowRequest


def school_rows(request: RowRequest) -> FederatedRows:
    """15,362 pupils of 139 schools: 28 columns (year, gender, ethnic group, school) and an examination score.

    Args:
        request: its root is `school.mat` with the cells X and Y of one school each, or its folder.

    Raises:
        DataError: the file is missing or not of this form.

    Source: the School data of J. Zhou, J. Chen, J. Ye, "MALSAR", 2011.
    """
    assert request.root is not None, "a rule of the scenario"
    path = request.root / "school.mat" if request.root.is_dir() else request.root
    x, y = (read_mat_cells(path, name) for name in ("X", "Y"))
    if len(x) != len(y) or any(rows.shape != (len(scores), x[0].shape[1]) for rows, scores in zip(x, y, strict=True)):
        raise DataError(f"{shown(path)}: cells X and Y do not hold the same pupils; fetch the file again")
    sizes = [len(rows) for rows in x]
    return FederatedRows(
        "school",
        np.concatenate(x).astype(np.float32),
        np.concatenate(y)[:, 0].astype(np.float32),
        owner=np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
        owner_names=tuple(f"school {number}" for number in range(1, len(sizes) + 1)),
    )
