"""Which beam is best in every frame: the strongest that is kept, or what a label says where there are no powers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, DataError
from ..recordings.site_geometry import stated_n_beams
from .sensed_frames import SensedFrames
from .swept_powers import without_powers


def powers_and_best_beams(sensed: SensedFrames, n_beams: int | None) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """[n, n_kept] powers and [n] best beams: the strongest of these or, without powers, those that are labeled.

    Args:
        sensed: frames of a base station with powers, or with best beams for some or all frames.
        n_beams: every (n / n_beams)-th beam is kept; None keeps all.

    Raises:
        ConfigError: a codebook that does not fit.
        DataError: no beam was measured in a frame that has no label; or fewer beams are wanted than labels are of.
    """
    if not sensed.has_powers:
        n_kept = n_beams or stated_n_beams(sensed.geometry) or 0
        best = sensed.labeled_beams(n_kept)
        return np.full((len(best), n_kept), np.nan, dtype=np.float32), best
    powers = sensed.powers
    n_measured = powers.shape[1]
    kept = n_measured if n_beams is None else n_beams
    if n_measured and (kept < 2 or n_measured % kept):
        raise ConfigError(f"data.n_beams = {kept} cannot be kept of {n_measured} recorded beams; divide by 1, 2, 4, 8")
    if n_measured:
        powers = powers[:, :: n_measured // kept]
    silent = without_powers(powers)
    if not (silent.any() and sensed.is_labeled):
        return powers, _best_beams(powers)
    if kept != n_measured:
        raise DataError(
            f"base station {sensed.name!r} has {int(silent.sum())} frames with a best beam and no powers, the first is"
            f" {int(silent.argmax())}: the best of data.n_beams = {kept} beams is known from powers alone; set"
            f" data.n_beams = {n_measured}, or import with --n-beams {kept}, which drops them"
        )
    best = sensed.labeled_beams(n_measured).copy()
    best[~silent] = _best_beams(powers[~silent])
    return powers, best


def _best_beams(powers: NDArray[np.float32]) -> NDArray[np.int64]:
    """[n] strongest measured beam of each sweep, the lower one on a tie."""
    if not powers.size:
        return np.zeros(len(powers), dtype=np.int64)
    measured = np.where(np.isnan(powers), np.float32(-np.inf), powers)
    best: NDArray[np.int64] = measured.argmax(axis=1).astype(np.int64)
    nothing = np.isneginf(measured[np.arange(len(best)), best])
    if nothing.any():
        raise DataError(f"no beam was measured in frame {int(nothing.argmax())}; leave this frame out")
    return best
