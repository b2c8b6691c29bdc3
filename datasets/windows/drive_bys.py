"""Recording of one base station in memory: positions and received powers, drive-by after drive-by.

Everything that training reads is a `Recording`, whether it was measured (`deepsense_rows`) or made by an emulated road.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, DataError

#: Length of one degree of latitude on the mean sphere.
M_PER_DEGREE = 111_320.0
#: Codebook sizes that keeping every 1st, 2nd, 4th or 8th of 64 beams gives.
CODEBOOK_SIZES = (64, 32, 16, 8)


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Rows of one scenario in time order, grouped by drive-by; checked when made.

    Attributes:
        name: name in messages and results, such as "deepsense1" or "road0".
        positions_m: [n_rows, 2] float64, of the vehicle relative to the base station, metres: east and north, or to the
            right of its array and ahead of it.
        powers: [n_rows, n_beams] float64, received power of each beam of the sweep, linear, above 0; beam 0 is the
            leftmost, where the order of the codebook is known.
        sequence: [n_rows] int64, which drive-by; the rows of one are contiguous.
        frame_rows: [n_rows] int64, which frame of the base station each row was; None: every frame is a row.
        positions: "calibrated" or "raw", where the source has both kinds; "": it does not tell.
        dropped: reason -> number of rows of the source that were left out.

    Raises:
        DataError: shapes disagree, a value is not finite, a power is not above 0, or a drive-by is interrupted.
    """

    name: str
    positions_m: NDArray[np.float64]
    powers: NDArray[np.float64]
    sequence: NDArray[np.int64]
    frame_rows: NDArray[np.int64] | None = None
    positions: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_shapes()
        self._check_rows("positions_m", ~np.isfinite(self.positions_m), "is not finite")
        self._check_rows("powers", ~(np.isfinite(self.powers) & (self.powers > 0)), "is not a finite number above 0")
        self._check_sequences_contiguous()

    @property
    def n_rows(self) -> int:
        return len(self.powers)

    @property
    def n_beams(self) -> int:
        return int(self.powers.shape[1])

    @property
    def beams(self) -> NDArray[np.int64]:
        """[n_rows] int64, strongest beam of each row's own sweep; the lower index on a tie."""
        return np.asarray(self.powers.argmax(axis=1), dtype=np.int64)

    @property
    def sequence_starts(self) -> NDArray[np.int64]:
        """[n_sequences] int64, first row of each drive-by, ascending."""
        starts: NDArray[np.int64] = np.flatnonzero(np.diff(self.sequence, prepend=self.sequence[0] - 1))
        return starts

    def with_n_beams(self, n_beams: int) -> Recording:
        """Recording with a smaller codebook: every (n / n_beams)-th beam, the first included.

        Raises:
            ConfigError: not one of `CODEBOOK_SIZES`, or more than the recording has.
        """
        if n_beams not in CODEBOOK_SIZES:
            raise ConfigError(f"data.n_beams must be one of {', '.join(map(str, CODEBOOK_SIZES))}, got {n_beams}")
        if self.n_beams % n_beams:
            raise ConfigError(
                f"data.n_beams = {n_beams} cannot be kept from recording {self.name}, which has {self.n_beams} beams; "
                "choose a size that divides it"
            )
        return replace(self, powers=np.ascontiguousarray(self.powers[:, :: self.n_beams // n_beams]))

    def _check_shapes(self) -> None:
        self._check_field("positions_m", self.positions_m, "[n_rows, 2]", np.floating, 2)
        self._check_field("powers", self.powers, "[n_rows, n_beams]", np.floating, 2)
        self._check_field("sequence", self.sequence, "[n_rows]", np.integer, 1)
        if self.positions_m.shape[1] != 2 or self.powers.shape[1] < 2:
            raise DataError(
                f"recording {self.name}: positions_m must have 2 columns and powers at least 2 beams, got shapes "
                f"{self.positions_m.shape} and {self.powers.shape}"
            )
        n_rows = {len(self.positions_m), len(self.powers), len(self.sequence)}
        if len(n_rows) > 1 or 0 in n_rows:
            raise DataError(
                f"recording {self.name}: positions_m, powers and sequence must have the same number of rows, at least "
                f"1, got {len(self.positions_m)}, {len(self.powers)} and {len(self.sequence)}"
            )

    def _check_field(self, field: str, array: NDArray[Any], shape: str, kind: type[Any], n_dims: int) -> None:
        if array.ndim != n_dims or not np.issubdtype(array.dtype, kind):
            raise DataError(
                f"recording {self.name}: {field} must be {shape} of {kind.__name__} numbers, got shape {array.shape} "
                f"of {array.dtype}"
            )

    def _check_rows(self, field: str, bad: NDArray[np.bool_], complaint: str) -> None:
        bad_rows = np.flatnonzero(bad.any(axis=1))
        if len(bad_rows):
            raise DataError(
                f"recording {self.name}: {field} {complaint} in {len(bad_rows)} of {len(bad)} rows, first in row "
                f"{bad_rows[0]} (counted from 0); leave these rows out"
            )

    def _check_sequences_contiguous(self) -> None:
        starts = self.sequence_starts
        ids = self.sequence[starts]
        _, first = np.unique(ids, return_index=True)
        if len(first) < len(ids):
            again = int(np.setdiff1d(np.arange(len(ids)), first)[0])
            raise DataError(
                f"recording {self.name}: sequence {ids[again]} starts again in row {starts[again]} (counted from 0) "
                "after another one; the rows of a drive-by must be contiguous, in time order"
            )
