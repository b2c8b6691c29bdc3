"""From what a user wishes to a replay: which base stations, which part of them, to whom, and the report at the end."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markup import escape

from ...datasets.recordings.recording_reader import RecordedStation, RecordingReader
from ...emulator.contracts import ConfigError, SheafedgeError
from ...emulator.edge.frame_client import FrameClient
from ...emulator.edge.manifest import Manifest
from ...emulator.network.transport.curve_keys import CurveKeys, read_keys
from ..running.interrupts import stop_requests
from ..schema.scenario import stored_scenario
from ..schema.toml_file import read_toml
from ..terminal.console_elements import print_warning
from ..terminal.replay_view import ReplayView
from ..wiring.data import recording_paths
from ..wiring.held_out import FROM_S, IMAGES, SEQUENCES
from .replay_report import report, report_lines
from .sensor_faults import SensorFaults, parsed_break
from .session import Pace, Session, described
from .station_stream import StationStream, station_stream
from .stream_book import StreamBook

_DIGEST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says, field by field as its arguments.

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
    as_json: bool = False

    def __post_init__(self) -> None:
        if self.from_s is not None and not 0.0 <= self.from_s < math.inf:
            raise ConfigError(f"--from must be at least 0 s, got {self.from_s:g}")
        if self.seconds is not None and not self.seconds > 0.0:
            raise ConfigError(f"--seconds must be above 0, got {self.seconds:g}")
        self.pace(1)  # says at once what is wrong with it
        self.faults()

    def pace(self, waiting: int) -> Pace:
        """How fast, at a server where so many questions of one stream may wait."""
        try:
            speed = None if self.speed == "max" else float(self.speed)
        except ValueError:
            speed = math.nan
        if speed is not None and not 0.0 < speed < math.inf:
            raise ConfigError(f"--speed must be a number above 0, or max, got {self.speed!r}; 1.0 is real time")
        return Pace(speed, self.in_flight or waiting, self.patience_s)

    def faults(self) -> SensorFaults:
        """New ones, none of which has happened yet."""
        return SensorFaults([parsed_break(text) for text in self.drop], self.loss, self.seed)

    @property
    def curve_keys(self) -> CurveKeys | None:
        """Of this end."""
        return None if self.keys is None else read_keys(self.keys, "worker")


def run_replay(wishes: Wishes) -> bool:
    """Stream, score, and print what was found.

    Returns:
        whether it came to its end; False: somebody stopped it.

    Raises:
        SheafedgeError: of any kind; once frames were sent the summary is printed before.
    """
    console = Console(stderr=wishes.as_json, emoji=False)
    recording = recording_of(wishes.recording)
    with (
        RecordingReader(recording) as reader,  # a file that is none needs no server to be refused
        FrameClient(wishes.address, keys=wishes.curve_keys, timeout_s=wishes.patience_s) as client,
    ):
        served = described(client, wishes.address, wishes.patience_s)
        manifest = served.manifest
        streams, notes = _chosen(wishes, reader.base_stations, manifest)
        for note in notes:
            print_warning(console, note)
        what = (
            f"replaying {recording.name} to {manifest.name} ({manifest.precision},"
            f" {served.digest[:_DIGEST_SHOWN]}) at {wishes.address}"
        )
        view = ReplayView(console, manifest, what, float(max(stream.due_s[-1] for stream in streams)))
        pace = wishes.pace(served.waiting)
        books = [StreamBook(stream, manifest, pace.speed) for stream in streams]
        with stop_requests(view.stopping) as stop:
            session = Session(client, wishes.address, books, pace, wishes.faults(), time.perf_counter, view, stop)
            try:
                with view:
                    session.play()
            except SheafedgeError:
                _print_summary(console, wishes, recording, session, manifest, notes)
                raise
        _print_summary(console, wishes, recording, session, manifest, notes)
        return not stop.is_made


def recording_of(path: Path) -> Path:
    """The recording that is meant: this file, or what the run in this folder was trained on.

    Raises:
        ConfigError: it is a folder, but of no run with one recording.
    """
    if not path.is_dir():
        return path
    file = path / "scenario.toml"
    if not file.is_file():
        raise ConfigError(f"{path} is a folder without scenario.toml; give a recording, or the folder of a run")
    scenario = stored_scenario(read_toml(file), str(file))
    recordings = () if scenario.data.source == "deepsense" else recording_paths(scenario)
    if len(recordings) != 1:
        named = ", ".join(map(str, recordings)) or "gathered rows, which hold no frames"
        raise ConfigError(f"{path} was trained on {named}; give one recording")
    return recordings[0]


def _chosen(
    wishes: Wishes, stations: Sequence[RecordedStation], manifest: Manifest
) -> tuple[list[StationStream], list[str]]:
    """The base stations that are streamed, the part of each, and what a reader of the scores must know."""
    own = next((one for one in stations if _is_where_trained(one, manifest)), None)
    streams: list[StationStream] = []
    notes: list[str] = []
    for station in _stations(wishes.station, stations, own):
        stream = station_stream(station, manifest, wishes.label)
        notes += stream.notes
        streams.append(_part(wishes, stream, manifest, is_own=station is own))
        notes += _told(wishes, stream.name, manifest, is_own=station is own)
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


def _part(wishes: Wishes, stream: StationStream, manifest: Manifest, *, is_own: bool) -> StationStream:
    trained = manifest.trained
    if wishes.from_s is not None:
        stream = stream.since(wishes.from_s)
    elif is_own and wishes.part == "held-out" and SEQUENCES in trained:
        stream = stream.within(_numbers(str(trained[SEQUENCES])))
    elif is_own and wishes.part == "held-out" and FROM_S in trained:
        stream = stream.since(float(trained[FROM_S]))
    return stream if wishes.seconds is None else stream.lasting(wishes.seconds)


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(
            f"the served model says that drive-bys {text[:40]!r} were held out, which are no numbers; use --part all"
        ) from None


def _told(wishes: Wishes, name: str, manifest: Manifest, *, is_own: bool) -> Iterator[str]:
    """What makes scores better or worse than they will be."""
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
    elif _holds_trained(wishes, trained):
        yield f"{manifest.name} was trained on a part of what is streamed of {name}; scores flatter it"


def _holds_trained(wishes: Wishes, trained: Mapping[str, str | int | float]) -> bool:
    """Whether rows are asked for that training saw."""
    if wishes.from_s is None:
        return wishes.part == "all"
    return wishes.from_s < float(trained.get(FROM_S, math.inf))


def _print_summary(
    console: Console, wishes: Wishes, recording: Path, session: Session, manifest: Manifest, notes: Sequence[str]
) -> None:
    found = {"recording": str(recording), **report(session, manifest, notes)}
    if wishes.as_json:
        Console(highlight=False).print_json(json.dumps(found, allow_nan=False))
        return
    heading = f"{found['recording_s']:.1f} s of {recording.name} in {found['wall_s']:.1f} s"
    console.print(f"[bold]{escape(manifest.name)}[/bold]  {escape(heading)}", soft_wrap=True, highlight=False)
    for name, line in report_lines(found, session.books[0].stream.task).items():
        console.print(f"{name:10} {escape(line)}", soft_wrap=True, highlight=False)
