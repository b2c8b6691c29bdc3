"""Radio link of every base station's own user over its held-out frames, as recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_reader import RecordedStation, RecordingReader
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensor_windows import BLOCKAGE_LABELS
from ...emulator.contracts import NodeId
from ...emulator.network.channels.radio_settings import RadioSettings
from ...emulator.network.channels.recorded_blockage import filled_shadow_db
from ...emulator.radio.waves import Array
from ..wiring.client import Client

#: Lowest gain in dB below the clear median; a reading of 0 W would be infinitely weak.
DEEPEST_READING_DB = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class ServedLink:
    """Radio link of one user over the held-out frames of its base station.

    Attributes:
        samples: one sample for every frame, in the order of time.
        frame_s: time in s from a frame to the next.
        gain_db: [n_frames, k] received power of all frames of the base station, relative to the median with a clear
            view, at k even steps from each frame until the next; [0, 1] for beams, whose samples hold it.
    """

    samples: Samples
    frame_s: float
    gain_db: Array

    @property
    def stretches(self) -> list[NDArray[np.int64]]:
        """Rows of the samples, cut into unbroken stretches of frames."""
        samples = self.samples
        # a hole in the frames or another drive-by begins a new stretch
        cut = (np.diff(samples.end) != 1) | (np.diff(samples.sequence) != 0)
        return np.split(np.arange(len(samples), dtype=np.int64), np.flatnonzero(cut) + 1)

    @property
    def served_gain_db(self) -> Array:
        """[n, k] the same of the held-out frames."""
        return np.asarray(self.gain_db[self.samples.end])

    @property
    def n_steps(self) -> int:
        """Number of powers from a frame until the next."""
        return int(self.gain_db.shape[1])

    def instants_s(self, rows: NDArray[np.int64]) -> Array:
        """[n] s, instants of these rows as if they were played one after the other, from 0 on."""
        return np.asarray(self.frame_s * np.arange(len(rows)), dtype=np.float64)


def served_links(
    clients: Sequence[Client], recordings: Sequence[Path], radio: RadioSettings, *, with_fades: bool
) -> Mapping[NodeId, ServedLink]:
    """Client -> radio link of its user, of the clients that have held-out frames.

    Args:
        clients: clients of the run.
        recordings: recordings of their base stations; none of gathered rows, whose frames follow each other nominally.
        radio: settings with the depth of a fade that is recorded only as a blockage.
        with_fades: whether the fading of received power is read.
    """
    with ExitStack() as open_files:
        readers = [open_files.enter_context(RecordingReader(path)) for path in recordings]
        stations = [station for reader in readers for station in reader.base_stations]
        seen = sorted({client.data.station_index for client in clients}) if with_fades else []
        gains = {index: _gain_db(stations[index], radio) for index in seen}
        return {
            client.client_id: ServedLink(
                samples=served,
                frame_s=1.0 / client.data.rate_hz,
                gain_db=gains[client.data.station_index] if with_fades else np.zeros((0, 1)),
            )
            for client in clients
            if (served := client.data.served) is not None
        }


def _gain_db(station: RecordedStation, radio: RadioSettings) -> Array:
    """[n_frames, k] received power over its median with a clear view, at k even steps from each frame until the next.

    Of the best beam: the cell follows its user. As it was recorded between frames; else, constant until the next frame,
    where beams were swept; else by the loss of the line of sight, with the reflections that radio links assume; else by
    the label alone.
    """
    label = next((name for name in BLOCKAGE_LABELS if name in station.field_names), None)
    blocked: NDArray[np.bool_] = np.zeros(station.n_frames, dtype=np.bool_) if label is None else station.read(label)
    if "link_power_dbw" in station.field_names:
        power_db = station.read("link_power_dbw").astype(np.float64)
        gain_db = power_db - np.median(power_db[:, 0] if blocked.all() else power_db[~blocked, 0])
        return np.asarray(np.maximum(gain_db, -DEEPEST_READING_DB))
    if "rf" in station.field_names:
        # a beam that was not measured counts as without power, which the median and the maximum survive
        measured = np.nan_to_num(station.read("rf").astype(np.float64), nan=0.0)
        power = np.maximum(measured.max(axis=1), np.finfo(np.float64).tiny)
        # a station that is always blocked has no clear view to compare with; its own median stands in
        gain_db = 10.0 * np.log10(power / np.median(power if blocked.all() else power[~blocked]))
        return np.asarray(np.maximum(gain_db, -DEEPEST_READING_DB))[:, None]
    if "los_loss_db" in station.field_names:
        return -filled_shadow_db(station.read("los_loss_db").astype(np.float64), radio.deepest_fade_db)[:, None]
    return np.where(blocked, -radio.vehicle_loss_db, 0.0)[:, None]
