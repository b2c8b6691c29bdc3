"""WISDM: activities from the accelerometer of a phone, one owner per person who carried it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...emulator.contracts import DataError
from ...emulator.regular_file import quoted, shown
from .federated_rows import FederatedRows, RowRequest
from .file_rows import csv_lines

#: Features between user and label; "?" stands for a peak distance that was not found.
N_FEATURES = 43
_FILES = "wisdm*.csv"


def wisdm_rows(request: RowRequest) -> FederatedRows:
    """Rows `id, user, 43 features, activity` without a header line, owned by users.

    A feature that is "?" becomes the mean of its column over all rows, since most models take no gaps.

    Args:
        request: its root is the file, or a folder with one `wisdm*.csv`.

    Raises:
        DataError: the file is missing or not of this form.

    Source: J. Kwapisz, G. Weiss, S. Moore, "Activity recognition using cell phone accelerometers", 2010, version 1.1,
    transformed.
    """
    assert request.root is not None, "a rule of the scenario"
    path = _file(request.root)
    lines = csv_lines(path)
    for row, line in enumerate(lines):
        if len(line) != N_FEATURES + 3:
            raise DataError(f"{shown(path)}: row {row} has {len(line)} cells; WISDM rows have {N_FEATURES + 3}")
    try:
        features = np.array([[_number(cell) for cell in line[2:-1]] for line in lines], dtype=np.float64)
        user = np.array([int(line[1]) for line in lines], dtype=np.int64)
    except ValueError as error:
        raise DataError(f"{shown(path)} holds {quoted(str(error))}; fetch it again") from None
    if len(lines) == 0 or np.isnan(features).all(axis=0).any():
        raise DataError(f"{shown(path)} holds no rows, or a feature that is always missing; fetch it again")
    features = np.where(np.isnan(features), np.nanmean(features, axis=0), features)
    names, activity = np.unique([line[-1].strip() for line in lines], return_inverse=True)
    users, owner = np.unique(user, return_inverse=True)
    return FederatedRows(
        "wisdm",
        features.astype(np.float32),
        activity.astype(np.int64),
        tuple(names.tolist()),
        owner.astype(np.int64),
        tuple(f"user {number}" for number in users),
    )


def _file(root: Path) -> Path:
    if not root.is_dir():
        return root
    found = sorted(root.glob(_FILES))
    if len(found) != 1:
        raise DataError(f"{shown(root)} holds {len(found)} files {_FILES}; name the file itself: data.root")
    return found[0]


def _number(cell: str) -> float:
    return float("nan") if cell.strip() == "?" else float(cell)
