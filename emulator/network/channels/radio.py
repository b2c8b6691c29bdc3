"""A radio link: its SINR over time, by path loss, blockage and interference, decides its rate and its losses.

A message goes out in blocks, one for every slot. A stretch of up to `report_slots` blocks shares one report of the
channel, which is old by then, and one rate chosen by it and by the outer loop. Every block meets the SINR of its own
slot, and a failed one is repeated a round trip later and combined with its earlier copies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...contracts import NodeId, State, Transmission
from ...radio.block_error import transmit_blocks
from ...radio.link_adaptation import BlockRates, OuterLoop
from ...radio.waves import SPEED_OF_LIGHT_M_PER_S, Array
from ...saved_state import SavedState
from .air import Air
from .link_state import LinkState, Stretch, link_state, lost_packets
from .radio_settings import RadioSettings

#: Instants of the clock [...] -> loss [...] in dB by blockage at a station.
Fade = Callable[[Array], Array]


class RadioChannel:
    """Radio channel of one direction of an edge.

    Args:
        settings: parameters of the radio.
        rates: `settings.block_rates()`, shared by all channels.
        air: the band, shared by all channels.
        link: number of this direction in the band.
        ends: sender and receiver.
        distance_m: distance between them.
        fades: loss by blockage at sender and receiver.
        draws: the link's own random stream.
        on_state: called with the state of the link, once for every message.

    Attributes:
        distance_m: as given.
        outer_loop: offset of the outer loop link adaptation.
    """

    def __init__(
        self,
        settings: RadioSettings,
        rates: BlockRates,
        air: Air,
        link: int,
        ends: tuple[NodeId, NodeId],
        distance_m: float,
        fades: tuple[Fade, Fade],
        draws: np.random.Generator,
        on_state: Callable[[LinkState], None],
    ) -> None:
        self.outer_loop = OuterLoop(settings.target_bler, settings.outer_loop_step_db)
        self.distance_m = distance_m
        self._settings, self._rates, self._air, self._link = settings, rates, air, link
        self._ends, self._fades, self._draws, self._on_state = ends, fades, draws, on_state
        # Both follow the last bit and keep the link free for others.
        self._fixed_delay_s = distance_m / SPEED_OF_LIGHT_M_PER_S + settings.processing_s
        self._signal_dbm = air.signal_dbm(link)

    @property
    def packet_bytes(self) -> int:
        """Size of the packets that it cuts messages into."""
        return self._settings.packet_bytes

    def transmit(self, start_s: float, size_bytes: int) -> Transmission:
        """Fate of a message of this size, sent from this instant on.

        A packet is lost with any block that holds part of it. Repeated blocks push later ones back, by less than a
        stretch; the SINR of these blocks is taken as if they were not delayed.
        """
        now_s, left_bytes = start_s, size_bytes
        stretches: list[Stretch] = []
        while left_bytes > 0 or not stretches:  # an empty message takes a block, too
            stretches.append(stretch := self._send(now_s, left_bytes))
            now_s += stretch.airtime_s
            left_bytes -= len(stretch.copies) * stretch.block_bytes
        # As interference to others a transmission keeps the sender's fade of its start.
        self._air.occupied(self._link, start_s, now_s, float(stretches[0].fade_db[0]))
        n_packets = max(1, -(-size_bytes // self.packet_bytes))
        lost = lost_packets(stretches, size_bytes, self.packet_bytes)
        self._on_state(link_state(start_s, self._ends, size_bytes, stretches, (n_packets, len(lost))))
        return Transmission(
            airtime_s=now_s - start_s,
            delay_s=max(stretch.decoded_s for stretch in stretches) - now_s + self._fixed_delay_s,
            lost_packets=lost,
            n_packets=n_packets,
            n_retransmissions=sum(int((stretch.copies - 1).sum()) for stretch in stretches),
        )

    def state(self) -> State:
        return self.outer_loop.offset_db

    def restore(self, saved: SavedState) -> None:
        self.outer_loop.offset_db = saved.number()

    def snr_db(self, time_s: Array) -> Array:
        """[n] instants -> [n] dB of signal over noise, without interference."""
        return self._sinr_db(np.zeros(np.shape(time_s)), self._fades_db(time_s))

    def _sinr_db(self, interference_mw: Array, fades_db: Array) -> Array:
        """[...] from interference [...] and fades [2, ...] of both ends; the receiver's weakens interference too."""
        # What stands before the receiver stands before its interferers, too, since its beam looks one way.
        shielded_mw = interference_mw * 10.0 ** (-fades_db[1] / 10.0)
        noise_db = 10.0 * np.log10(self._air.noise_mw + shielded_mw)
        return np.asarray(self._signal_dbm - fades_db.sum(axis=0) - noise_db)

    def _fades_db(self, time_s: Array) -> Array:
        """[2, ...] of sender and receiver at instants [...]."""
        return np.stack([fade(time_s) for fade in self._fades])

    def _reported_db(self, now_s: float) -> float:
        """SINR in dB that the receiver has reported last, `report_delay_s` old."""
        then_s = np.asarray(now_s - self._settings.report_delay_s)
        return float(self._sinr_db(self._air.interference_mw(self._link, then_s), self._fades_db(then_s)))

    def _send(self, now_s: float, left_bytes: int) -> Stretch:
        """The next blocks of a message, at one rate."""
        settings, rates = self._settings, self._rates
        rate = rates.choose(self._reported_db(now_s) + self.outer_loop.offset_db)
        block_bytes = int(rates.block_bytes[rate])
        n_blocks = min(settings.report_slots, max(1, -(-left_bytes // block_bytes)))
        # [n_blocks, transmissions] slot of every copy, as if all copies were sent
        # All copies are drawn, whether sent or not, so that the stream advances by the size of the stretch alone.
        slot = np.arange(n_blocks)[:, None] + settings.round_trip_slots * np.arange(settings.transmissions)
        time_s: Array = now_s + slot * np.float64(settings.slot_s)
        fades_db, interference_mw = self._fades_db(time_s), self._air.interference_mw(self._link, time_s)
        sinr_db = self._sinr_db(interference_mw, fades_db)
        ten_percent_db, width_db = float(rates.ten_percent_db[rate]), float(rates.width_db[rate])
        copies, lost = transmit_blocks(sinr_db, ten_percent_db, width_db, self._draws)
        sent_slots = np.cumsum(copies)
        # Copies of a block leave a round trip apart; blocks behind them use the slots in between.
        decoded_slots = sent_slots + settings.round_trip_slots * (copies - 1)
        stretch = Stretch(
            rate=rate,
            block_bytes=block_bytes,
            copies=copies,
            lost=lost,
            sinr_db=sinr_db[:, 0],
            fade_db=fades_db[:, :, 0].max(axis=1),
            interference_db=10.0 * float(np.log10(1.0 + interference_mw[:, 0].max() / self._air.noise_mw)),
            airtime_s=int(sent_slots[-1]) * settings.slot_s,
            decoded_s=now_s + int(decoded_slots.max()) * settings.slot_s,
        )
        n_failed = int(np.count_nonzero(stretch.failed))
        self.outer_loop.update(n_blocks - n_failed, n_failed)
        return stretch
