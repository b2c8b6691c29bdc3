"""Training and held-out rows of every client, from the data section of a scenario."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...datasets.deepsense.deepsense_rows import GATHERED_RATE_HZ, load_deepsense_rows
from ...datasets.recordings.recording_reader import RecordedStation, RecordingReader
from ...datasets.splits.client_rows import ClientRows, Split
from ...datasets.splits.partition import assign_clients, partition
from ...datasets.windows.drive_bys import Recording
from ...datasets.windows.samples import Samples
from ...datasets.windows.sensed_frames import SensedFrames
from ...datasets.windows.sensor_windows import BLOCKAGE_LABELS, BeamWindows, BlockageWindows
from ...datasets.windows.track_windows import tracking_windows
from ...emulator.contracts import DataError, Modality
from ...emulator.network.channels.recorded_blockage import BlockedTimes
from ...emulator.random_streams import named_stream
from ..recording.record import Progress
from ..recording.recording_cache import Note, cached_recording
from ..recording.world_file import WorldFile
from ..schema.data_section import DataSection
from ..schema.scenario import Scenario
from .faults import shown_frames
from .live import LiveRows, live_rows
from .members import ImageChangeName, Member, image_change, kept_frames, members_of
from .row_data import client_rows

#: Keys of `Manifest.trained` in a bundle; the last, where images were changed before training.
FROM_S, SEQUENCES, IMAGES = "held_out_from_s", "held_out_sequences", "images"


@dataclass(frozen=True, slots=True, eq=False)
class ClientData:
    """Training and held-out rows of one client.

    Attributes:
        recording: name of the recording that its samples come from.
        train: training samples; in live mode those of the frames sensed so far.
        test: held-out samples, used by scores only.
        blocked: instants at which the line of sight is blocked; None where they are not recorded.
        station_index: index of the base station among those of all recordings.
        served: samples of every frame of the held-out stretches, without a stride, in the order of time; None where
            there are no such stretches.
        rate_hz: nominal number of frames per second.
        held_out: part of the recording that `test` covers, see `held_out_part`; empty without a short description.
        nothing: modality -> reading where its sensor saw nothing; those without one are left out.
    """

    recording: str
    train: Samples | LiveRows
    test: Samples
    blocked: BlockedTimes | None = None
    station_index: int = 0
    served: Samples | None = None
    rate_hz: float = GATHERED_RATE_HZ
    held_out: Mapping[str, str | float] = field(default_factory=dict)
    nothing: Mapping[Modality, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedData:
    """Data of all clients, and the files that they come from.

    Attributes:
        clients: data of every client, ordered by client id.
        recordings: paths of the recordings; none for gathered rows.
        positions: recording of gathered rows -> "calibrated" or "raw".
        dropped: recording of gathered rows -> reason -> rows that were left out; without those that lost none.
    """

    clients: list[ClientData]
    recordings: tuple[Path, ...] = ()
    positions: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def load_data(scenario: Scenario, progress: Progress | None = None, note: Note | None = None) -> LoadedData:
    """Training and held-out rows of every client.

    Args:
        scenario: scenario with data section, clients and task.
        progress: called while a missing recording is made.
        note: called with a sentence about a cached recording that is damaged, or waited for, and about rows that are
            left out.

    Raises:
        ConfigError: too many clients or too few frames for the split.
        DataError: a file is missing or holds impossible values.
    """
    if scenario.data.source == "rows":
        return LoadedData([ClientData(*one, station_index=client) for client, one in enumerate(client_rows(scenario))])
    if scenario.data.source == "deepsense":
        gathered = _gathered(scenario.data)
        rows = _gathered_rows(scenario.data, gathered, members_of(scenario), scenario.seed)
        positions = {one.name: one.positions for one in gathered}
        dropped = {one.name: one.dropped for one in gathered if one.dropped}
        for name, reasons in dropped.items():
            if note is not None:
                said = ", ".join(f"{why}: {count}" for why, count in reasons.items())
                note(f"{name}: {sum(reasons.values())} rows are left out ({said}); data.strict = true refuses them")
        return LoadedData(_with_labels(scenario, rows), positions=positions, dropped=dropped)
    paths = recording_paths(scenario, progress, note)
    with ExitStack() as open_files:
        readers = [open_files.enter_context(RecordingReader(path)) for path in paths]
        stations = [station for reader in readers for station in reader.base_stations]
        return LoadedData(_with_labels(scenario, _recorded_rows(scenario, stations)), paths)


def _with_labels(scenario: Scenario, clients: list[ClientData]) -> list[ClientData]:
    """The same data, with the labels to train on dealt anew where the scenario asks for it."""
    if not scenario.data.shuffled_labels:
        return clients
    dealt = []
    for client_id, rows in enumerate(clients):
        train = rows.train
        assert isinstance(train, BeamWindows | BlockageWindows), "refused with the scenario: of windows only"
        label = named_stream(scenario.seed, "shuffled_labels", client_id).permutation(train.label)
        dealt.append(replace(rows, train=replace(train, label=label)))
    return dealt


def recording_paths(scenario: Scenario, progress: Progress | None = None, note: Note | None = None) -> tuple[Path, ...]:
    """Paths of the recordings of a scenario; that of a world is recorded if it is missing."""
    if scenario.data.source == "world":
        # one thread beside the caller's: a run has two at least
        world, seed = scenario.recorded_world, scenario.seed
        return (cached_recording(world, seed, progress=progress, threads=1, note=note),)
    return tuple(_path(name) for name in scenario.data.recordings)


def _recorded_rows(scenario: Scenario, stations: Sequence[RecordedStation]) -> list[ClientData]:
    data, members = scenario.data, members_of(scenario)
    # before frames are read: a wrong number of clients is refused at once
    assignment = assign_clients([_size(station, data) for station in stations], len(members))
    sensed = _sensed_frames(data.images, scenario.seed, members, stations, assignment)
    samples: list[Samples] = []
    of_every_frame: list[Samples] = []
    for member, frames in zip(members, sensed, strict=True):
        # sensors with a fault show wrong frames in training and in test alike
        shown = shown_frames(scenario.faults, member, frames)
        samples.append(member.samples(shown))
        # a served model answers every frame, also those that a stride leaves out of training
        of_every_frame.append(samples[-1] if data.stride == 1 else member.samples_of_every_frame(shown))
    shares = _partition(data, scenario.seed, samples, assignment)
    blocked = [_blocked_times(station) for station in stations]
    return [
        ClientData(
            recording=f"bs{rows.recording_index:02d}, {stations[rows.recording_index].name}",
            train=live_rows(
                WorldFile(scenario.recorded_world, scenario.seed),
                scenario.live.warm_up_s,
                members[client_id],
                stations[client_id],
                last_end=int(samples[client_id].end[rows.train[-1]]),
            )
            if data.mode == "live"
            else samples[client_id].take(rows.train),
            test=samples[client_id].take(rows.test),
            blocked=blocked[rows.recording_index],
            station_index=rows.recording_index,
            served=None
            if data.split == "random"
            else _held_out_frames(of_every_frame[client_id], samples[client_id].take(rows.test)),
            rate_hz=stations[rows.recording_index].rate_hz,
            held_out=held_out_part(_frames_split(data), samples[client_id].take(rows.test), sensed[client_id]),
            nothing=_nothing_seen(stations[rows.recording_index], members[client_id]),
        )
        for client_id, rows in enumerate(shares)
    ]


def _sensed_frames(
    images: ImageChangeName,
    seed: int,
    members: Sequence[Member],
    stations: Sequence[RecordedStation],
    assignment: Sequence[int],
) -> list[SensedFrames]:
    """Frames of every client; clients of one base station share them, as long as nothing changes their images.

    Args:
        images: value of `data.images`.
        seed: root seed of the run.
        members: all clients.
        stations: base stations of all recordings.
        assignment: station of every client.
    """
    frames: dict[tuple[int, int | None], SensedFrames] = {}
    sensed = []
    for index, member in zip(assignment, members, strict=True):
        change = image_change(images, seed, member.client_id, member.modalities)
        # changed images belong to one client; frames without a change are read once per base station
        key = (index, None if change is None else member.client_id)
        if key not in frames:
            sharers = (
                [member] if change else [one for one, its in zip(members, assignment, strict=True) if its == index]
            )
            kept = kept_frames(member.sensor_task, [one.modalities for one in sharers])
            frames[key] = SensedFrames.of(stations[index], **kept, image_change=change)
        sensed.append(frames[key])
    return sensed


def _nothing_seen(station: RecordedStation, member: Member) -> dict[Modality, float]:
    found = {modality: station.nothing_seen(modality) for modality in member.modalities}
    return {modality: value for modality, value in found.items() if value is not None}


def held_out_part(split: Split, test: Samples, sensed: SensedFrames) -> Mapping[str, str | float]:
    """The part of a recording that was held out from the training of a client, as bundles record it for replays.

    Args:
        split: how rows were held out.
        test: held-out samples of one client.
        sensed: everything that its base station recorded.

    Returns:
        with "time" `held_out_from_s`: seconds from the first frame of the recording to the first of a held-out window;
        with "sequence" `held_out_sequences`: numbers of drive-bys or flights, separated by commas; with "random"
        nothing, since rows beside all of them were trained on.
    """
    if split == "sequence":
        return {SEQUENCES: ",".join(map(str, np.unique(test.sequence)))}
    if split == "random":
        return {}
    time_s = sensed.column("time_s")
    # the first frame of the first window: a replay from there fills that window with held-out frames only
    first = int(test.end[0]) - test.n_before
    return {FROM_S: float(time_s[test.frame_rows[first]] - time_s[0])}


def _held_out_frames(every: Samples, test: Samples) -> Samples:
    """Samples of every frame between held-out ones: of the same sequences and the same time."""
    held_out = np.isin(every.sequence, test.sequence) & (every.end >= test.end[0]) & (every.end <= test.end[-1])
    return every.take(np.flatnonzero(held_out))


def _gathered(data: DataSection) -> list[Recording]:
    root, zeros = _path(data.root), (0.0,) * len(data.scenarios)
    try:
        return [
            load_deepsense_rows(
                root,
                number,
                data.positions,
                heading_deg=heading_deg,
                codebook_order=data.codebook_order,
                strict=data.strict,
            )
            for number, heading_deg in zip(data.scenarios, data.headings_deg or zeros, strict=True)
        ]
    except OSError as error:
        raise DataError(f"data.root = {data.root!r} cannot be read ({error}); check its permissions") from None


def _gathered_rows(
    data: DataSection, recordings: Sequence[Recording], members: Sequence[Member], seed: int
) -> list[ClientData]:
    windows = {
        (index, n_beams): tracking_windows(recording.with_n_beams(n_beams), data.window)
        for n_beams in {member.data.n_beams for member in members}
        for index, recording in enumerate(recordings)
    }
    # sequences do not depend on the size of the codebook: any member's windows do
    n_sequences = [
        len(np.unique(windows[i, members[0].data.n_beams].every(data.stride).sequence)) for i in range(len(recordings))
    ]
    assignment = assign_clients(n_sequences, len(members))
    owned = [
        windows[index, member.data.n_beams].owned_by(member.modalities)
        for index, member in zip(assignment, members, strict=True)
    ]
    # a served model answers every row, also those that a stride leaves out of training
    of_every_row = [member.numbered(one) for member, one in zip(members, owned, strict=True)]
    samples = [member.numbered(one.every(data.stride)) for member, one in zip(members, owned, strict=True)]
    return [
        ClientData(
            recordings[rows.recording_index].name,
            client.take(rows.train),
            client.take(rows.test),
            station_index=rows.recording_index,
            served=None if data.split == "random" else _held_out_frames(every, client.take(rows.test)),
        )
        for every, client, rows in zip(of_every_row, samples, _partition(data, seed, samples, assignment), strict=True)
    ]


def _partition(data: DataSection, seed: int, samples: Sequence[Samples], assignment: Sequence[int]) -> list[ClientRows]:
    return partition(
        samples,
        assignment,
        named_stream(seed, "partition"),
        split=_frames_split(data),
        test_fraction=data.test_fraction,
        train_fraction=data.train_fraction,
        gap_frames=data.gap_frames,
        validation_fraction=data.validation_fraction if data.scored == "validation" else None,
    )


def _frames_split(data: DataSection) -> Split:
    assert data.split != "auto", "refused with the scenario: of rows only"
    return data.split


def _blocked_times(station: RecordedStation) -> BlockedTimes | None:
    label = next((name for name in BLOCKAGE_LABELS if name in station.field_names), None)
    if label is None:
        return None
    loss_db = station.read("los_loss_db").astype(np.float64) if "los_loss_db" in station.field_names else None
    time_s, blocked = station.read("time_s"), station.read(label)
    order = np.argsort(time_s, kind="stable")  # a clock may start again with a drive-by
    return BlockedTimes(time_s[order], blocked[order], None if loss_db is None else loss_db[order])


def _size(station: RecordedStation, data: DataSection) -> int:
    """Number of parts that a recording can be divided into: frames, or drive-bys."""
    return station.n_frames if data.split == "time" else len(np.unique(station.read("sequence")))


def _path(name: str) -> Path:
    return Path(os.path.expanduser(name))  # noqa: PTH111 - Path's own raises for an unknown user
