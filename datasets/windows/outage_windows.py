"""Samples for forecasts of outage: windows of all sensors, and whether the user's power lies below fades afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError, Modality
from .sensed_frames import SensedFrames
from .sensor_windows import BLOCKAGE_INPUTS, BLOCKAGE_LABELS, BlockageWindows, check_inputs, windows_before

#: Shows what comes, or how it is now.
OUTAGE_INPUTS: tuple[Modality, ...] = (*BLOCKAGE_INPUTS, "signal")


def outage_windows(
    sensed: SensedFrames,
    modalities: Sequence[Modality],
    length: int,
    horizon: int,
    fades_db: Sequence[float],
    *,
    stride: int = 1,
    may_be_empty: bool = False,
) -> BlockageWindows:
    """Every window of what was sensed, with a label per fade and frame ahead.

    "Blocked" is a frame at which the power lies below the first fade.

    Args:
        sensed, modalities, length, stride, may_be_empty: see `blockage_windows`; modalities among `OUTAGE_INPUTS`.
        horizon: frames ahead that are labeled, each by itself.
        fades_db: dB below the median power of frames with a clear line of sight.

    Returns:
        Samples whose label is [n, n_fades * horizon] int64: 1 where the power at frame t + 1 + k lies below fade f, in
        column f * horizon + k.

    Raises:
        ConfigError, DataError: as `blockage_windows`; the user's power was not recorded.
    """
    check_inputs("outage", modalities, OUTAGE_INPUTS)
    below = _below(sensed, fades_db)
    samples = windows_before(sensed, modalities, below[0], length, horizon, stride=stride, may_be_empty=may_be_empty)
    ahead = samples.end[:, None] + np.arange(1, horizon + 1)
    label = below[:, ahead].swapaxes(0, 1).reshape(len(samples), -1)
    return replace(samples, label=label.astype(np.int64))


def _below(sensed: SensedFrames, fades_db: Sequence[float]) -> NDArray[np.bool_]:
    """[n_fades, n_frames] whether the power lies below each fade at each frame."""
    if sensed.n_frames and "link_power_dbw" not in sensed.columns:
        raise DataError(
            f"base station {sensed.name!r} has no recorded power of its user, which forecasts of outage are about;"
            " record it with world.link_rate_hz = 100"
        )
    if not sensed.n_frames:
        return np.zeros((len(fades_db), 0), dtype=np.bool_)
    power_db = sensed.column("link_power_dbw")[:, 0].astype(np.float64)
    label = next((name for name in BLOCKAGE_LABELS if name in sensed.columns), None)
    clear = np.ones(len(power_db), dtype=np.bool_) if label is None else ~sensed.column(label)
    # a base station that is always blocked has no clear view to compare with
    usual_db = np.median(power_db[clear] if clear.any() else power_db)
    return np.asarray(power_db - usual_db < -np.asarray(fades_db)[:, None])
