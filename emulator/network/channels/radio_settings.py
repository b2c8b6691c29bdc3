"""Settings of the radio between base stations."""

from __future__ import annotations

from dataclasses import dataclass

from ...contracts import ConfigError
from ...radio.link_adaptation import BlockRates
from ...ranges import check_ranges

_RANGES = {
    "carrier_hz": (0.5e9, 100e9),
    "bandwidth_hz": (1e6, 10e9),
    "tx_power_dbm": (-50.0, 80.0),
    "antenna_gain_dbi": (-10.0, 60.0),
    "beamwidth_deg": (1.0, 360.0),
    "front_to_back_db": (0.0, 60.0),
    "noise_figure_db": (0.0, 30.0),
    "implementation_loss_db": (0.0, 30.0),
    "inter_site_distance_m": (20.0, 5000.0),
    "vehicle_loss_db": (0.0, 60.0),
    "deepest_fade_db": (0.1, 100.0),
    "overhead_share": (0.0, 0.9),
    "slot_s": (1e-6, 1e-2),
    "report_slots": (1, 1000),
    "report_delay_s": (0.0, 1.0),
    "target_bler": (0.001, 0.5),
    "outer_loop_step_db": (0.0, 3.0),
    "transmissions": (1, 16),
    "round_trip_slots": (0, 1000),
    "retry_interval_s": (0.0, 10.0),
    "packet_bytes": (8, 65_536),
    "processing_s": (0.0, 10.0),
}


@dataclass(frozen=True, slots=True)
class RadioSettings:
    """The radio of every direction of every edge; the defaults are a wireless backhaul at 60 GHz.

    Attributes:
        carrier_hz: middle of the band. What recordings know of blockers is known at the carrier of their world.
        bandwidth_hz: width of the band, which all stations share.
        tx_power_dbm: power of a transmission.
        antenna_gain_dbi: on the axis of a beam, at either end.
        beamwidth_deg: width of a beam at half power, at either end.
        front_to_back_db: largest loss of a beam off its axis.
        noise_figure_db: noise figure of receivers.
        implementation_loss_db: SINR that receivers need beyond the block error curves.
        inter_site_distance_m: spacing of the synthetic layout, a triangular lattice with small offsets.
        neighbors_in_sight: neighbors were placed so that they see each other; False: with the standard's probability.
        shadowing: add the standard's shadow fading to the path loss, drawn once for each pair.
        vehicle_loss_db: depth of a fade where a recording knows only that its line of sight is blocked.
        deepest_fade_db: largest loss of a blocked end: reflections fill deeper shadows.
        interference: transmissions that overlap in time disturb each other.
        overhead_share: share of the symbols for pilots and control.
        slot_s: duration of a block; 125 us at 120 kHz between subcarriers.
        report_slots: number of blocks that use one report of the channel's quality.
        report_delay_s: age of a report when it is used.
        target_bler: block error rate of first copies that the outer loop aims at.
        outer_loop_step_db: down for a failed block.
        transmissions: copies of a block at most, the first included.
        round_trip_slots: number of slots from one copy of a block to the next.
        retry_interval_s: from the arrival of a message with holes until what is missing is sent again, where
            `network.missing = "wait"` needs every message.
        packet_bytes: size of all packets but a message's last; a multiple of 8, so that no number is cut in two.
        processing_s: fixed delay after the last bit, beside the way through the air.

    Raises:
        ConfigError: a value is impossible.

    Source: overhead, 3GPP TS 38.306, clause 4.1.2, downlink above 24 GHz; deepest fade, the fall of the best beam
    behind vehicles that measured streets show (15 to 25 dB).
    """

    carrier_hz: float = 60e9
    bandwidth_hz: float = 400e6
    tx_power_dbm: float = 20.0
    antenna_gain_dbi: float = 24.0
    beamwidth_deg: float = 10.0
    # A_max of TR 38.901, Table 7.3-1.
    front_to_back_db: float = 30.0
    noise_figure_db: float = 7.0
    implementation_loss_db: float = 2.0
    inter_site_distance_m: float = 150.0
    neighbors_in_sight: bool = True
    shadowing: bool = True
    vehicle_loss_db: float = 20.0
    deepest_fade_db: float = 25.0
    interference: bool = True
    overhead_share: float = 0.18
    # TS 38.211, Table 4.3.2-1: 8 slots per subframe of 1 ms at 120 kHz.
    slot_s: float = 125e-6
    report_slots: int = 40
    report_delay_s: float = 0.002
    # The error rate that CQI indices of Table 5.2.2.1-2 stand for, TS 38.214, clause 5.2.2.1.
    target_bler: float = 0.1
    outer_loop_step_db: float = 0.1
    transmissions: int = 4
    round_trip_slots: int = 8
    retry_interval_s: float = 0.01
    packet_bytes: int = 1200
    processing_s: float = 0.001

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        check_ranges("links.radio", self, _RANGES)
        if self.packet_bytes % 8:
            raise ConfigError(f"links.radio.packet_bytes must be a multiple of 8, got {self.packet_bytes}; try 1200")
        # Refuses blocks that are too small for the lowest rate now, and not when the first link is built.
        self.block_rates()

    def block_rates(self) -> BlockRates:
        """Rates and sizes of a block at every CQI."""
        return BlockRates.of(
            self.bandwidth_hz * self.slot_s * (1.0 - self.overhead_share),
            target=self.target_bler,
            implementation_loss_db=self.implementation_loss_db,
        )
