"""Users with one good beam per frame, whose service can be counted by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sheafedge.emulator.decisions.access_link import AccessLink
from sheafedge.emulator.decisions.beam_signals import BeamSignals

FRAME_S = 0.2
LINK = AccessLink()
GOOD_DB, WEAK_DB, DEAD_DB = 15.0, 10.0, -30.0
N_BEAMS = 8


def moving(best_beam: list[int], others_db: float = DEAD_DB) -> BeamSignals:
    """One user, one good beam per frame."""
    return BeamSignals.of([signals_db(best_beam, others_db)], FRAME_S, LINK)


def signals_db(best_beam: list[int], others_db: float = DEAD_DB) -> NDArray[np.float64]:
    """[n_frames, n_beams]."""
    snr_db = np.full((len(best_beam), N_BEAMS), others_db)
    snr_db[np.arange(len(best_beam)), best_beam] = GOOD_DB
    return snr_db
