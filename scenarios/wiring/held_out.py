"""Which part of a recording a client's training never saw, in words that survive without the run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...datasets.splits.client_rows import Split
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames

#: What a bundle says in `Manifest.trained`; the last, where images were changed before training saw them.
FROM_S, SEQUENCES, IMAGES = "held_out_from_s", "held_out_sequences", "images"


def held_out(split: Split, test: Samples, sensed: SensedFrames) -> Mapping[str, str | float]:
    """What a bundle says of it, so that a replay can keep to it.

    Args:
        split: how rows were held out.
        test: those of one client.
        sensed: all that its base station recorded.

    Returns:
        with "time" `held_out_from_s`: seconds from the first frame of the recording to the first of a held-out window;
        with "sequence" `held_out_sequences`: numbers of drive-bys or flights, separated by commas; with "random"
        nothing, since rows beside all of them were trained on.
    """
    if split == "sequence":
        return {SEQUENCES: ",".join(map(str, np.unique(test.sequence)))}
    if split == "random":
        return {}
    time_s = sensed.column("time_s")
    first = int(test.end[0]) - test.n_before
    return {FROM_S: float(time_s[test.frame_rows[first]] - time_s[0])}
