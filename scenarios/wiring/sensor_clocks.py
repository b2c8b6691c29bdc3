"""Which frames the clients' sensors show under the clock drifts of `[[faults]]`."""

from __future__ import annotations

from ...datasets.windows.clock_drift import ClockDrift, rows_seen
from ...datasets.windows.sensed_frames import SensedFrames
from ...emulator.contracts import ConfigError
from ..schema.scenario import Scenario
from .members import Member


def as_clocks_show(scenario: Scenario, member: Member, sensed: SensedFrames) -> SensedFrames:
    """What a client takes for its frames; labels, received powers and all other sensors keep the right time.

    Raises:
        ConfigError: the clock of a sensor is to drift that the client does not have, or that gives the labels too.
    """
    shown = sensed
    for fault in scenario.faults:
        if fault.kind != "clock_drift" or member.client_id not in fault.nodes:
            continue
        modality = fault.modality
        if modality is None or modality not in member.modalities:
            raise ConfigError(
                f"faults: 'clock_drift' names modality {modality!r} of client {member.client_id}, which has"
                f" {', '.join(member.modalities)}; choose one of these"
            )
        if modality in scenario.task_spec.swept:
            raise ConfigError(
                f"faults: 'clock_drift' of {modality!r} has nothing to shift in task {scenario.task!r}, whose answers"
                " come from the same sweeps as its inputs; choose another modality, or leave it out"
            )
        drift = ClockDrift(fault.ppm, fault.jump_s, fault.at_s or 0.0)
        rows = rows_seen(sensed.column("time_s"), sensed.column("sequence"), drift)
        shown = shown.showing(modality, rows)
    return shown
