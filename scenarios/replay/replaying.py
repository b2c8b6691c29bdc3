"""From a request to a replay: which base stations, which part of them, to which server, and the report at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from ...datasets.recordings.recording_reader import RecordedStation, RecordingReader
from ...emulator.contracts import ConfigError, SheafedgeError
from ...emulator.edge.frame_client import FrameClient
from ...emulator.edge.manifest import Manifest
from ...emulator.network.transport.curve_keys import CurveKeys, read_keys
from ...emulator.regular_file import is_folder, is_regular
from ..running.interrupts import stop_requests
from ..schema.scenario import stored_scenario
from ..schema.toml_file import read_toml
from ..tasks.task_spec import Task
from ..wiring.data import FROM_S, IMAGES, SEQUENCES, recording_paths
from .replay_report import report
from .sensor_faults import SensorFaults, parsed_break
from .session import Pace, Session, SessionView, described
from .station_stream import StationStream, station_stream
from .stream_book import StreamBook

_DIGEST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Recording, server and speed of a replay; fields are the arguments of the command line.

    Raises:
        ConfigError: a number that means nothing.
    """

    recording: Path
    address: str
    speed: str = "1.0"
    station: str = ""
    part: Literal["held-out", "all"] = "held-out"
    from_s: float | None = None
    seconds: float | None = None
    drop: tuple[str, ...] = ()
    loss: float = 0.0
    seed: int = 0
    label: str = ""
    in_flight: int | None = None
    patience_s: float = 5.0
    keys: Path | None = None

    def __post_init__(self) -> None:
        if self.from_s is not None and not 0.0 <= self.from_s < math.inf:
            raise ConfigError(f"--from must be at least 0 s, got {self.from_s:g}")
        if self.seconds is not None and not self.seconds > 0.0:
            raise ConfigError(f"--seconds must be above 0, got {self.seconds:g}")
        self.pace(1)  # any number of waiting requests: only to check the speed at construction
        self.faults()

    def pace(self, waiting: int) -> Pace:
        """Pace of a replay to a server that queues up to `waiting` requests of one stream.

        Raises:
            ConfigError: a speed that is no positive number and not `max`.
        """
        try:
            speed = None if self.speed == "max" else float(self.speed)
        except ValueError:
            speed = math.nan
        if speed is not None and not 0.0 < speed < math.inf:
            raise ConfigError(f"--speed must be a number above 0, or max, got {self.speed!r}; 1.0 is real time")
        return Pace(speed, self.in_flight or waiting, self.patience_s)

    def faults(self) -> SensorFaults:
        """Fault generator at the start of its random streams.

        Raises:
            ConfigError: an invalid --drop, --loss or --seed.
        """
        return SensorFaults([parsed_break(text) for text in self.drop], self.loss, self.seed)

    @property
    def curve_keys(self) -> CurveKeys | None:
        """Key pair of the client, read from `keys`; None: messages are not encrypted."""
        return None if self.keys is None else read_keys(self.keys, "worker")


class RunningReplay(SessionView, Protocol):
    """View of a replay, from the first frame to the end; a context manager."""

    def stopping(self) -> None:
        """Called once, when the replay is asked to stop."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ReplayScreen(Protocol):
    """Where a replay is shown; the command line has one."""

    def warn(self, note: str) -> None:
        """Show what a reader of the scores must know."""
        ...

    def view(self, manifest: Manifest, what: str, total_s: float) -> RunningReplay:
        """View of a replay that begins: the served model, what is streamed, and for how many seconds."""
        ...

    def show_report(self, manifest: Manifest, recording: Path, found: Mapping[str, Any], task: Task) -> None:
        """Show the report at the end; `found` is that of `replay_report.report`, and the recording."""
        ...


def run_replay(request: ReplayRequest, screen: ReplayScreen) -> bool:
    """Stream a recording to a served model, score the answers, and show the report.

    Returns:
        True: everything was streamed; False: the replay was stopped.

    Raises:
        SheafedgeError: of any kind; once frames were sent the report is shown before.
    """
    recording = recording_of(request.recording)
    with (
        RecordingReader(recording) as reader,  # a file that is none needs no server to be refused
        FrameClient(request.address, keys=request.curve_keys, timeout_s=request.patience_s) as client,
    ):
        served = described(client, request.address, request.patience_s)
        manifest = served.manifest
        streams, notes = _chosen(request, reader.base_stations, manifest)
        for note in notes:
            screen.warn(note)
        what = (
            f"replaying {recording.name} to {manifest.name} ({manifest.precision},"
            f" {served.digest[:_DIGEST_SHOWN]}) at {request.address}"
        )
        view = screen.view(manifest, what, float(max(stream.due_s[-1] for stream in streams)))
        pace = request.pace(served.waiting)
        books = [StreamBook(stream, manifest, pace.speed) for stream in streams]
        with stop_requests(view.stopping) as stop:
            session = Session(client, request.address, books, pace, request.faults(), time.perf_counter, view, stop)
            # the report is shown before the error, because the answers so far are worth as much as any
            try:
                with view:
                    session.play()
            except SheafedgeError:
                _show(screen, recording, session, manifest, notes)
                raise
        _show(screen, recording, session, manifest, notes)
        return not stop.is_made


def recording_of(path: Path) -> Path:
    """Path of the recording: the given file, or the recording that the run in a given folder was trained on.

    Raises:
        ConfigError: it is a folder, but of no run with one recording.
    """
    if not is_folder(path):
        return path
    file = path / "scenario.toml"
    if not is_regular(file):
        raise ConfigError(f"{path} is a folder without scenario.toml; give a recording, or the folder of a run")
    scenario = stored_scenario(read_toml(file), str(file))
    # rows of the source "deepsense" are read from a folder and hold no frames that could be streamed
    recordings = () if scenario.data.source == "deepsense" else recording_paths(scenario)
    if len(recordings) != 1:
        named = ", ".join(map(str, recordings)) or "gathered rows, which hold no frames"
        raise ConfigError(f"{path} was trained on {named}; give one recording")
    return recordings[0]


def _chosen(
    request: ReplayRequest, stations: Sequence[RecordedStation], manifest: Manifest
) -> tuple[list[StationStream], list[str]]:
    """The base stations that are streamed, the part of each, and what a reader of the scores must know."""
    # what was held out is known of the recorded base station that the model was trained at, and of no other
    own = next((one for one in stations if _is_where_trained(one, manifest)), None)
    streams: list[StationStream] = []
    notes: list[str] = []
    for station in _stations(request.station, stations, own):
        stream = station_stream(station, manifest, request.label)
        notes += stream.notes
        streams.append(_part(request, stream, manifest, is_own=station is own))
        notes += _notes(request, stream.name, manifest, is_own=station is own)
    if images := manifest.trained.get(IMAGES):
        notes.append(
            f"{manifest.name} was trained on images that are {images} (data.images), those of the recording are plain;"
            " scores are not those of its bundle"
        )
    return streams, notes


def _is_where_trained(station: RecordedStation, manifest: Manifest) -> bool:
    return manifest.trained.get("recording") == f"bs{station.index:02d}, {station.name}"


def _stations(
    wanted: str, stations: Sequence[RecordedStation], own: RecordedStation | None
) -> Sequence[RecordedStation]:
    if wanted == "all":
        return stations
    if not wanted:
        return [own or stations[0]]
    chosen = [station for station in stations if wanted in {f"bs{station.index:02d}", str(station.index)}]
    if not chosen:
        raise ConfigError(
            f"--station {wanted!r} is none of this recording; it has bs00 to bs{len(stations) - 1:02d}, or give all"
        )
    return chosen


def _part(request: ReplayRequest, stream: StationStream, manifest: Manifest, *, is_own: bool) -> StationStream:
    trained = manifest.trained
    if request.from_s is not None:
        stream = stream.since(request.from_s)
    elif is_own and request.part == "held-out" and SEQUENCES in trained:
        stream = stream.within(_numbers(str(trained[SEQUENCES])))
    elif is_own and request.part == "held-out" and FROM_S in trained:
        stream = stream.since(float(trained[FROM_S]))
    return stream if request.seconds is None else stream.lasting(request.seconds)


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"the served model says that drive-bys {text[:40]!r} were held out, which are no numbers; use --part all"
        ) from None


def _notes(request: ReplayRequest, name: str, manifest: Manifest, *, is_own: bool) -> Iterator[str]:
    """Sentences about everything that makes the scores differ from those at an unseen time."""
    trained = manifest.trained
    if not is_own:
        if "recording" in trained:
            yield f"{name} is not where {manifest.name} was trained ({trained['recording']}); scores may be lower"
        return
    if SEQUENCES not in trained and FROM_S not in trained:
        yield (
            f"{manifest.name} was trained on a part of {name}, and its bundle does not say which; scores flatter it"
            " wherever it was"
        )
    elif _holds_trained(request, trained):
        yield f"{manifest.name} was trained on a part of what is streamed of {name}; scores flatter it"


def _holds_trained(request: ReplayRequest, trained: Mapping[str, str | int | float]) -> bool:
    """Whether the streamed part overlaps the training part."""
    if request.from_s is None:
        return request.part == "all"
    # without a time, whole drive-bys were held out, and any later part holds drive-bys of training
    return request.from_s < float(trained.get(FROM_S, math.inf))


def _show(screen: ReplayScreen, recording: Path, session: Session, manifest: Manifest, notes: Sequence[str]) -> None:
    found = {"recording": str(recording), **report(session, manifest, notes)}
    screen.show_report(manifest, recording, found, session.books[0].stream.task)
