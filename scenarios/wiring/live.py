"""Base stations that sense while they learn: what they have sensed so far, and the sensors that add to it.

Frames are cut into samples by the same code as those of a finished recording. Held-out rows come from a recording of
the same world, which the sensors repeat bit for bit: only the observer has seen the future.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_reader import RecordedStation
from ...datasets.splits.client_rows import ClientRows
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...emulator.contracts import ConfigError, DataError, Modality
from ...emulator.nodes.sensing import TICKS_AT_ONCE
from ..recording.recorded_site import RecordedSite
from ..recording.site_sensors import SiteSensors
from ..schema.scenario import Scenario
from ..schema.world_section import WorldFile
from .kept_frames import image_change, kept_frames
from .members import Member


class LiveRows:
    """Training samples of one base station: those that it can make of what it has sensed, up to the held-out time.

    Args:
        scenario: world and times.
        member: the client.
        sensors: what senses.
        sensed: frames so far.
        last_end: row of the last training sample; nothing later is ever trained on.

    Attributes:
        sensors: as given; they have sensed the warm-up, before the clock starts.
        n_sensed_ticks: instants of their clock in it.

    Raises:
        ConfigError: the warm-up is too short for a sample.
    """

    def __init__(
        self,
        scenario: Scenario,
        member: Member,
        sensors: SiteSensors,
        sensed: SensedFrames,
        last_end: int,
    ) -> None:
        self.sensors = sensors
        self._member, self._sensed, self._last_end = member, sensed, last_end
        world = scenario.recorded_world
        self.n_sensed_ticks = min(int(scenario.live.warm_up_s * world.rate_hz) + 1, world.n_ticks)
        for first in range(0, self.n_sensed_ticks, TICKS_AT_ONCE):
            self.take_in(sensors.sense(np.arange(first, min(first + TICKS_AT_ONCE, self.n_sensed_ticks))))
        self._samples: Samples
        try:
            self.begin_round(scenario.live.warm_up_s)
            too_short = "" if len(self) else "no sample is complete by then"
        except DataError as error:  # of a task that has no word for nothing yet
            too_short = str(error)
        if too_short:
            raise ConfigError(
                f"live.warm_up_s = {scenario.live.warm_up_s:g} is too short for a first training sample ({too_short});"
                " sense longer"
            )

    def take_in(self, frames: Mapping[str, NDArray[Any]]) -> None:
        """What the sensors hand over; training does not see it before the next round."""
        if frames:
            self._sensed.append(frames)

    def begin_round(self, now_s: float) -> None:
        """Make samples of everything that was taken in; nothing is read from here at that moment."""
        samples = self._member.samples(self._sensed, may_be_empty=True)
        self._samples = samples.take(np.flatnonzero(samples.end <= self._last_end))

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def label(self) -> NDArray[np.int64]:
        """[n] class."""
        return self._samples.label

    @property
    def input_shapes(self) -> Mapping[Modality, tuple[int, ...]]:
        """Of one sample."""
        return self._samples.input_shapes

    def inputs(self, indices: NDArray[np.integer[Any]] | slice = slice(None)) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [n_indices, ...] in physical units."""
        return self._samples.inputs(indices)


def live_rows(
    scenario: Scenario,
    member: Member,
    station: RecordedStation,
    recorded: Samples,
    rows: ClientRows,
) -> LiveRows:
    """Sensors and first rows of one client.

    Args:
        station: the same base station, recorded to the end.
        recorded: all samples of the recording.
        rows: which of them a replay would train on; a live run never goes beyond the last of these.
    """
    world = WorldFile(scenario.recorded_world, scenario.seed)
    sensors = SiteSensors(RecordedSite.of(world, station.index))
    sensed = SensedFrames.like(
        station,
        **kept_frames(scenario, [member.modalities]),
        image_change=image_change(scenario, member.client_id, member.modalities),
    )
    return LiveRows(scenario, member, sensors, sensed, last_end=int(recorded.end[rows.train[-1]]))
