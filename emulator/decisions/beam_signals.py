"""Signals of every beam at users that one base station after the other follows, and the service on beams of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..radio.waves import Array
from .access_link import AccessLink
from .service import Service

#: Signal where there is no user any more; nothing is served there.
_NOBODY_DB = -100.0


@dataclass(frozen=True, slots=True, eq=False)
class BeamSignals:
    """Signals of every beam at n users, in the order of the codebook; the last frames of shorter stays are fillings.

    Attributes:
        frame_s: time from a frame to the next.
        of_beams: [n_users, n_frames, n_beams, 4] from each frame until the next: signal-to-noise ratio in dB, dB below
            that of the best beam, bits per second that it carries, and 1 where this is less than the user needs.
        length: [n_users] frames for which each user is there, from the first on.
    """

    frame_s: float
    of_beams: Array
    length: NDArray[np.int64]

    @classmethod
    def of(cls, snr_db: Sequence[Array], frame_s: float, link: AccessLink) -> BeamSignals:
        """Signals of users [n_frames, n_beams] each, as a link turns them into rates."""
        length = np.array([len(one) for one in snr_db], dtype=np.int64)
        filled = np.full((len(snr_db), int(length.max()), snr_db[0].shape[1]), _NOBODY_DB)
        for user, one in enumerate(snr_db):
            filled[user, : len(one)] = one
        rate_bps, lost_db = link.rate_bps(filled), filled.max(axis=2, keepdims=True) - filled
        return cls(frame_s, np.stack([filled, lost_db, rate_bps, link.in_outage(rate_bps)], axis=3), length)

    @property
    def snr_db(self) -> Array:
        """[n_users, n_frames, n_beams] signal-to-noise ratio."""
        return self.of_beams[..., 0]

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.length)

    @property
    def n_frames(self) -> int:
        """Frames of the longest stay."""
        return int(self.of_beams.shape[1])

    @property
    def n_beams(self) -> int:
        """Number of beams of the codebook."""
        return int(self.of_beams.shape[2])

    @property
    def best(self) -> NDArray[np.int64]:
        """[n_users, n_frames] strongest beam."""
        return np.asarray(self.snr_db.argmax(axis=2), dtype=np.int64)

    def on(self, beam: NDArray[np.int64]) -> list[Service]:
        """Service of every user on a beam per frame [n_users, n_frames], from its first instant on and at no cost."""
        served = np.take_along_axis(self.of_beams, beam[:, :, None, None], axis=2)[:, :, 0]
        services = []
        for user, n in enumerate(self.length.tolist()):
            _, lost_db_s, bits, outage_s = (served[user, :n].sum(axis=0) * self.frame_s).tolist()
            services.append(Service(n * self.frame_s, outage_s, bits=bits, lost_db_s=lost_db_s))
        return services
