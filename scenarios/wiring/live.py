"""Live mode: base stations that sense while they train, with the samples of the frames sensed so far.

Frames are cut into samples by the same code as those of a finished recording. Held-out rows come from a recording of
the same world, which the sensors repeat bit for bit: only the evaluation uses the future.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_reader import RecordedStation
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...emulator.contracts import ConfigError, DataError, Labels, Modality
from ...emulator.nodes.sensing import TICKS_AT_ONCE
from ..recording.recorded_site import RecordedSite
from ..recording.site_sensors import SiteSensors
from ..recording.world_file import WorldFile
from ..schema.world_section import WorldSection
from .members import Member, image_change, kept_frames


class LiveRows:
    """Training samples of one live base station: those of the frames sensed so far, up to the held-out time.

    Args:
        member: the client.
        sensors: sensors of its base station.
        sensed: frames sensed so far.
        world: world that is sensed.
        warm_up_s: simulated time that it senses before the first round.
        last_end: row of the last training sample; nothing later is ever trained on.

    Attributes:
        sensors: as given; they have sensed the warm-up, before the clock starts.
        world: as given.
        n_sensed_ticks: instants of their clock in it.

    Raises:
        ConfigError: the warm-up is too short for a sample.
    """

    def __init__(
        self,
        member: Member,
        sensors: SiteSensors,
        sensed: SensedFrames,
        world: WorldSection,
        warm_up_s: float,
        last_end: int,
    ) -> None:
        self.sensors, self.world = sensors, world
        self._member, self._sensed, self._last_end = member, sensed, last_end
        # plus one: the instant 0 is sensed too
        self.n_sensed_ticks = min(int(warm_up_s * world.rate_hz) + 1, world.n_ticks)
        for first in range(0, self.n_sensed_ticks, TICKS_AT_ONCE):
            self.take_in(sensors.sense(np.arange(first, min(first + TICKS_AT_ONCE, self.n_sensed_ticks))))
        self._samples: Samples
        try:
            self.begin_round(warm_up_s)
            too_short = "" if len(self) else "no sample is complete by then"
        except DataError as error:  # of a task that cannot make zero samples
            too_short = str(error)
        if too_short:
            raise ConfigError(
                f"live.warm_up_s = {warm_up_s:g} is too short for a first training sample ({too_short}); sense longer"
            )

    def take_in(self, frames: Mapping[str, NDArray[Any]]) -> None:
        """Store new frames of the sensors; training uses them from the next round on."""
        if frames:
            self._sensed.append(frames)

    def begin_round(self, now_s: float) -> None:
        """Cut samples from all stored frames; must not be called while training reads samples."""
        samples = self._member.samples(self._sensed, may_be_empty=True)
        # later frames belong to the held-out time, or to the gap before it
        self._samples = samples.take(np.flatnonzero(samples.end <= self._last_end))

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def label(self) -> Labels:
        """[n] class of every sample."""
        return self._samples.label

    @property
    def end(self) -> NDArray[np.int64]:
        """[n] row of the recording at which every sample ends."""
        return self._samples.end

    @property
    def input_shapes(self) -> Mapping[Modality, tuple[int, ...]]:
        """Shape of one sample, by modality."""
        return self._samples.input_shapes

    def inputs(self, indices: NDArray[np.integer[Any]] | slice = slice(None)) -> Mapping[Modality, NDArray[np.float32]]:
        """Modality -> [n_indices, ...] in physical units."""
        return self._samples.inputs(indices)


def live_rows(world: WorldFile, warm_up_s: float, member: Member, station: RecordedStation, last_end: int) -> LiveRows:
    """Sensors and first training rows of one client.

    Args:
        world: world that is sensed.
        warm_up_s: simulated time that it senses before the first round.
        member: the client.
        station: the same base station, recorded to the end.
        last_end: row of the last sample that a replay would train on; a live run never goes beyond it.
    """
    sensors = SiteSensors(RecordedSite.of(world, station.index))
    sensed = SensedFrames.like(
        station,
        **kept_frames(member.sensor_task, [member.modalities]),
        image_change=image_change(member.data.images, world.seed, member.client_id, member.modalities),
    )
    return LiveRows(member, sensors, sensed, world.section, warm_up_s, last_end)
