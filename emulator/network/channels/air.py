"""The band that all radios share: transmissions in progress, and the interference that they cause."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...contracts import ConfigError, NodeId, State
from ...radio.link_budget import noise_floor_dbm, off_beam_loss_db
from ...radio.waves import Array
from ...saved_state import SavedState
from .radio_settings import RadioSettings

Direction = tuple[NodeId, NodeId]

#: Transmissions that put less than this share of its noise into a receiver are left out; a thousand would be 0.4 dB.
INAUDIBLE = 1e-4


class Air:
    """Received powers between stations whose beams point along their links.

    Of every direction only the last transmission is remembered. Three things do not disturb a receiver: its own
    transmissions, those of its sender to others (which share that sender's power, not this band), and whatever
    begins after its own message did.

    Args:
        settings: powers, beams and noise.
        places_m: [n_stations, 2]; node ids are rows.
        loss_db: [n_stations, n_stations] long-term loss between any two.
        directions: sender and receiver of every link; their order numbers them.

    Raises:
        ConfigError: a link is too long for the path loss model.
    """

    def __init__(
        self, settings: RadioSettings, places_m: Array, loss_db: Array, directions: Sequence[Direction]
    ) -> None:
        self._settings, self._loss_db = settings, loss_db
        self.noise_mw = 10.0 ** (noise_floor_dbm(settings.bandwidth_hz, settings.noise_figure_db) / 10.0)
        across = places_m[None] - places_m[:, None]
        self._bearing_rad = np.arctan2(across[..., 1], across[..., 0])  # [from, to]
        ends = np.array(directions, dtype=np.int64).reshape(-1, 2)
        self._sender, self._receiver = ends[:, 0], ends[:, 1]
        # Infinite beyond 5 km, where TR 38.901 Table 7.4.1-1 ends, see `station_loss_db`.
        if np.isinf(loss_db[self._sender, self._receiver]).any():
            far = int(np.isinf(loss_db[self._sender, self._receiver]).argmax())
            raise ConfigError(
                f"base stations {ends[far, 0]} and {ends[far, 1]} are neighbors more than 5 km apart; lower"
                " links.radio.inter_site_distance_m"
            )
        # Before its first transmission a direction has an empty interval.
        self._start_s = np.full(len(ends), np.inf)
        self._until_s = np.full(len(ends), -np.inf)
        self._fade_db = np.zeros(len(ends))
        self._interferers_of: dict[int, tuple[NDArray[np.int64], Array]] = {}

    def signal_dbm(self, link: int) -> float:
        """Power in dBm that the receiver of a link gets from its sender while nothing blocks it."""
        settings = self._settings
        loss_db = self._loss_db[self._sender[link], self._receiver[link]]
        return float(settings.tx_power_dbm + 2.0 * settings.antenna_gain_dbi - loss_db)

    def occupied(self, link: int, start_s: float, until_s: float, fade_db: float) -> None:
        """Add a transmission of a link, between two instants, weakened by the blockage at its sender."""
        self._start_s[link], self._until_s[link], self._fade_db[link] = start_s, until_s, fade_db

    def state(self) -> State:
        return [values.copy() for values in (self._start_s, self._until_s, self._fade_db)]

    def restore(self, saved: SavedState) -> None:
        for values, one in zip((self._start_s, self._until_s, self._fade_db), saved.listed(3), strict=True):
            values[:] = one.array(values.dtype, len(values))

    def interference_mw(self, link: int, time_s: Array) -> Array:
        """[...] instants -> [...] mW of interference at the receiver of a link, before blockage at the receiver."""
        if not self._settings.interference:
            return np.zeros(time_s.shape)
        others, leaked_mw = self._interferers(link)
        start_s, until_s = self._start_s[others], self._until_s[others]
        on_air = np.flatnonzero((start_s <= time_s.max()) & (until_s > time_s.min()))
        if not on_air.size:
            return np.zeros(time_s.shape)
        faded_mw = leaked_mw[on_air] * 10.0 ** (-self._fade_db[others[on_air]] / 10.0)
        # Its end is not part of a transmission, so that of two in a row only one counts at their border.
        overlaps = (start_s[on_air] <= time_s[..., None]) & (time_s[..., None] < until_s[on_air])
        return np.asarray(overlaps @ faded_mw)

    def _interferers(self, link: int) -> tuple[NDArray[np.int64], Array]:
        """Links that interfere with the receiver of this one, and their power in mW; computed once per link."""
        if link not in self._interferers_of:
            me, source = self._receiver[link], self._sender[link]
            # See above: neither the receiver's own transmissions nor those of its sender disturb it.
            others = np.flatnonzero((self._sender != source) & (self._sender != me))
            leaked_mw = 10.0 ** (self._leaked_dbm(others, me, source) / 10.0)
            audible = leaked_mw > INAUDIBLE * self.noise_mw
            self._interferers_of[link] = others[audible], leaked_mw[audible]
        return self._interferers_of[link]

    def _leaked_dbm(self, others: NDArray[np.int64], me: NodeId, source: NodeId) -> Array:
        """[n_others] power that clear transmissions to others put into a station that listens to its source."""
        settings, bearing = self._settings, self._bearing_rad
        sender = self._sender[others]
        # Off the axis at the interferer, whose beam points to its own receiver, and at this receiver, whose beam points
        # to its source.
        off_rad = np.stack(
            [bearing[sender, me] - bearing[sender, self._receiver[others]], bearing[me, sender] - bearing[me, source]]
        )
        off_db = off_beam_loss_db(off_rad, settings.beamwidth_deg, settings.front_to_back_db).sum(axis=0)
        gains_dbm = settings.tx_power_dbm + 2.0 * settings.antenna_gain_dbi
        return np.asarray(gains_dbm - off_db - self._loss_db[sender, me])
