"""What it costs to measure beams, and when the one that was found is in use.

Two ways of the standard: synchronization bursts, which are sent on a schedule and hold all beams, and reference signals
on request (CSI-RS), which measure any beams at any time. Beams of the receiver are out of scope: it has its best one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..contracts import ConfigError
from ..ranges import check_ranges

#: Periods of synchronization bursts in s, TS 38.213, clause 4.1; initial access assumes the third.
SSB_PERIODS_S = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
#: Beams of a full burst above 6 GHz, TS 38.213, clause 4.1.
SSB_BEAMS = 64
#: An OFDM symbol at 120 kHz, cyclic prefix included: a slot of 125 us has 14.
_SYMBOL_S = 125e-6 / 14
#: Codebooks have a power of two of beams, which these divide evenly.
WIDE_SPLITS = (2, 4, 8, 16, 32)
_RANGES = {
    "ssb_beam_s": (0.0, 0.01),
    "ssb_burst_s": (0.0, 0.1),
    "csi_rs_beam_s": (0.0, 0.01),
    "report_delay_s": (0.0, 1.0),
    "indication_s": (0.0, 1.0),
    "notice_s": (0.0, 10.0),
}


class Cost(NamedTuple):
    """Cost of one measurement.

    Attributes:
        airtime_s: time in which no data are sent.
        ready_s: time from its beginning until the beam that it found is in use.
    """

    airtime_s: float
    ready_s: float


@dataclass(frozen=True, slots=True)
class BeamMeasurement:
    """How a base station measures beams.

    Attributes:
        ssb_period_s: from a synchronization burst to the next, for the sweep as configured.
        ssb_beam_s: airtime of a beam in a burst: a synchronization block of 4 symbols.
        ssb_burst_s: a burst of 64 beams is sent within so long, one of fewer beams within its share; data are sent
            between its blocks.
        csi_rs_beam_s: airtime of a beam that is measured on request: one symbol.
        report_delay_s: from the end of a measurement to its report.
        indication_s: from the choice of a beam until both ends use it; for beams that a model answers as well.
        notice_s: a beam that has become weak is noticed after so long.
        wide_split: beams that a hierarchical sweep compares in each stage.

    Raises:
        ConfigError: a value is impossible.

    Source: bursts of up to 64 blocks within a half frame, and their periods, 3GPP TS 38.213, clause 4.1; 4 symbols of a
    block, TS 38.211, clause 7.4.3.1. From memory: CSI-RS of one symbol, TS 38.211, Table 7.4.1.5.3-1, rows 1 and 2; 3
    ms from the acknowledged command to the new beam, TS 38.214, clause 5.1.5. Assumed: time to a report, and to notice.
    """

    ssb_period_s: float = 0.02
    ssb_beam_s: float = 4 * _SYMBOL_S
    ssb_burst_s: float = 0.005
    csi_rs_beam_s: float = _SYMBOL_S
    report_delay_s: float = 0.002
    indication_s: float = 0.003
    notice_s: float = 0.02
    wide_split: int = 8

    def __post_init__(self) -> None:
        check_ranges("decision.beams", self, _RANGES)
        for name, choices in (("ssb_period_s", SSB_PERIODS_S), ("wide_split", WIDE_SPLITS)):
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"decision.beams.{name} must be one of {', '.join(f'{one:g}' for one in choices)}, got"
                    f" {getattr(self, name)}"
                )

    def on_request(self, n_beams: int, n_stages: int = 1) -> Cost:
        """Cost of measuring so many beams by CSI-RS, in stages that each wait for the report of the one before."""
        airtime_s = n_beams * self.csi_rs_beam_s
        return Cost(airtime_s, airtime_s + n_stages * self.report_delay_s + self.indication_s)

    def burst(self, n_beams: int) -> Cost:
        """Cost of one synchronization burst with so many beams."""
        return Cost(
            n_beams * self.ssb_beam_s, n_beams / SSB_BEAMS * self.ssb_burst_s + self.report_delay_s + self.indication_s
        )

    @property
    def trust(self) -> Cost:
        """Cost of taking a beam without measuring it."""
        return Cost(0.0, self.indication_s)
