"""A recording of one corner that a tiny bundle can be asked about, whose right answers can be told by hand.

Every frame of rf is 0.9 W or, where the model is to warn, 10 W in all beams; LiDAR sees something a millimeter away
everywhere. So the tiny model's logit is above 0 exactly where one of the last frames of its window is loud.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sheafedge.datasets.recordings.recording_layout import RecordingDescription, StationDescription, standard_field
from sheafedge.datasets.recordings.recording_writer import RecordingWriter

RATE_HZ, N_RAYS, N_BEAMS = 10.0, 6, 8
QUIET_W, LOUD_W = 0.9, 10.0


def record_corner(path: Path, blocked: str, loud: str, *, stations: int = 1, sequence: Sequence[int] = ()) -> Path:
    """Write a recording.

    Args:
        path: of the new file.
        blocked: a letter per frame, `#` where the line of sight is blocked.
        loud: a letter per frame, `!` where rf is loud.
        stations: that all record the same.
        sequence: of every frame; empty: one unbroken stretch.
    """
    n = len(blocked)
    powers = np.where(np.array([one == "!" for one in loud]), LOUD_W, QUIET_W)
    frames = {
        "time_s": np.arange(n) / RATE_HZ,
        "sequence": np.array(sequence or [0] * n, dtype=np.int32),
        "lidar": np.full((n, N_RAYS, 2), 1e-3, dtype=np.float32),
        "rf": np.repeat(powers[:, None], N_BEAMS, axis=1).astype(np.float32),
        "blocked_geometric": np.array([one == "#" for one in blocked]),
    }
    fields = tuple(standard_field(name, rows.shape[1:]) for name, rows in frames.items())
    described = [StationDescription(f"corner {index}", RATE_HZ, fields) for index in range(stations)]
    with RecordingWriter(path, RecordingDescription("", 1, "tests", tuple(described))) as writer:
        for index in range(stations):
            writer.append(index, frames)
    return path
