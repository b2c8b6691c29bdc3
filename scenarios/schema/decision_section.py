"""What a scenario can say about acting on predictions: the user's link, and the rules of handover and of beams."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from ...emulator.decisions.access_link import AccessLink
from ...emulator.decisions.beam_measurement import BeamMeasurement
from ...emulator.decisions.handover import HandoverRule
from ...emulator.decisions.measurement import MeasurementChain
from .section import Section


class DecisionSection(Section):
    """How a user is served on what the trained models say, once training is over.

    Attributes:
        evaluate: evaluate it at the end of every run.
        clear_snr_db: SNR of a user with a clear view, or on its best beam: the median. The recording tells how far its
            powers fall from there, which is all that measured powers without a unit can tell.
        neighbor_below_db: how much less a user has of the neighboring cell, with a clear view of both.
        warn_above: an answer warns when it gives a blockage more than this probability.
        link: link of the user.
        measurement: how the powers of the two cells are measured; for warnings of blockages.
        handover: rule of handover between the two cells; likewise.
        beams: what it costs to measure the beams of the cell; for predictions of beams.
    """

    evaluate: bool = True
    clear_snr_db: Annotated[float, Field(ge=-20.0, le=60.0)] = 15.0
    neighbor_below_db: Annotated[float, Field(ge=-20.0, le=40.0)] = 6.0
    warn_above: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    link: AccessLink = AccessLink()
    measurement: MeasurementChain = MeasurementChain()
    handover: HandoverRule = HandoverRule()
    beams: BeamMeasurement = BeamMeasurement()

    @property
    def warn_above_logit(self) -> float:
        """The same of a logit."""
        return math.log(self.warn_above / (1.0 - self.warn_above))

    @property
    def outage_fades_db(self) -> tuple[float, float]:
        """Fades below the usual power that mean outage, dB: of the own cell, and of the neighbor, which has less."""
        own_db = self.clear_snr_db - self.link.outage_below_db
        return own_db, own_db - self.neighbor_below_db
