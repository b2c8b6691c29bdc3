"""What one base station saw in held-out seconds: its street, its beams, and the warnings of its exported model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...datasets.recordings.recording_reader import RecordedStation, RecordingReader
from ...datasets.windows.samples import Samples
from ...emulator.contracts import ConfigError, DataError, NodeId
from ...emulator.edge.onnx_session import OnnxSession
from ...emulator.radio.antenna import steering_vector
from ...emulator.regular_file import reason
from ...emulator.world.scene import Scene, blockers
from ..recording.recorded_site import RecordedSite
from ..recording.world_file import WorldFile
from ..schema.scenario import Scenario
from ..tasks.task_spec import ForecastTask, SensorTask
from ..wiring.data import ClientData, load_data
from ..wiring.evaluation import in_pieces
from ..wiring.members import Member, members_of

#: Base stations that are shown where no clients are named.
SHOWN = 2
#: Share of a film before the blockage that it shows.
BEFORE = 0.4
#: Directions at which the main lobe of a beam is looked for: half a degree apart near broadside.
_SINES = np.linspace(-1.0, 1.0, 361)


@dataclass(frozen=True, slots=True, eq=False)
class StationFilm:
    """Frames of one base station.

    Attributes:
        client: client that it is in the run.
        name: description of the base station.
        scene: its surroundings at F instants.
        blocked: [F] bool, whether a box stands in the line of sight.
        event: what its model warns of, such as "blockage".
        warned: [F] bool, whether it warns; None: its answers are no warnings, or it has no model.
        best_sine: [F] direction sine of the best beam; None where no beams were recorded.
        chosen_sine: [F] that of the beam that its model chooses; None as for `warned`.
    """

    client: NodeId
    name: str
    scene: Scene
    blocked: NDArray[np.bool_]
    event: str
    warned: NDArray[np.bool_] | None
    best_sine: NDArray[np.float64] | None
    chosen_sine: NDArray[np.float64] | None

    def __len__(self) -> int:
        return len(self.scene)


def station_films(
    scenario: Scenario, models: Mapping[NodeId, Path], clients: Sequence[NodeId], n_frames: int, every: int
) -> list[StationFilm]:
    """Films of some clients, each of held-out frames around a blockage if there is one.

    Args:
        scenario: scenario of the run, with a world.
        models: client -> its exported model; others have no warnings.
        clients: clients to show; none: the first of `SHOWN` base stations.
        n_frames: largest number of frames of a film.
        every: every so many frames of the recording one is shown.

    Raises:
        ConfigError: no such client, or a scenario without a world.
        DataError: a model or a recording is damaged.
    """
    if scenario.data.source != "world":
        raise ConfigError(
            f"an animation shows an emulated world, and scenario {scenario.name!r} has none (data.source ="
            f" {scenario.data.source!r}); take a run of blockage, beam_tracking or drone_beam"
        )
    if unknown := [client for client in clients if not 0 <= client < scenario.clients.n_clients]:
        raise ConfigError(
            f"--client {unknown[0]} is not in the run; its clients are 0 to {scenario.clients.n_clients - 1}"
        )
    scenario = scenario.edited({"data.mode": "replay"})  # the same rows, all there from the start
    members, data = members_of(scenario), load_data(scenario)
    world = WorldFile(scenario.recorded_world, scenario.seed)
    clients = clients or _first_clients([one.station_index for one in data.clients])
    with ExitStack() as files:
        readers = [files.enter_context(RecordingReader(path)) for path in data.recordings]
        stations = [station for reader in readers for station in reader.base_stations]
        return [
            _film(
                members[client],
                data.clients[client],
                stations[data.clients[client].station_index],
                world,
                models.get(client),
                scenario.decision.warn_above_logit,
                (n_frames, every),
            )
            for client in clients
        ]


def _first_clients(stations: Sequence[int]) -> list[NodeId]:
    """The first client of each of the first base stations, given that of every client: others see the same street."""
    return [stations.index(station) for station in sorted(set(stations))[:SHOWN]]


def _film(
    member: Member,
    data: ClientData,
    station: RecordedStation,
    world: WorldFile,
    model: Path | None,
    warn_above_logit: float,
    length: tuple[int, int],
) -> StationFilm:
    n_frames, every = length
    samples = data.test if data.served is None else data.served
    samples = samples.take(np.arange(0, len(samples), every))
    rows = samples.frame_rows[samples.end]
    site = RecordedSite.of(world, station.index)
    scene = site.scene(station.read("time_s")[rows])
    blocked = np.asarray(blockers(scene).any(axis=1))
    shown = shown_frames(blocked, samples.sequence, n_frames)
    cut = samples.take(np.arange(shown.start, shown.stop))
    warned, chosen = _answers(member, cut, model, warn_above_logit)
    sines = _main_sines(site.codebook)
    best = station.read("best_beam")[rows[shown]] if "best_beam" in station.field_names else None
    return StationFilm(
        client=member.client_id,
        name=site.name,
        scene=scene.frames(shown),
        blocked=blocked[shown],
        event="outage" if isinstance(member.task, ForecastTask) else "blockage",
        warned=warned,
        best_sine=None if best is None else sines[best],
        # a smaller codebook has every second, fourth or eighth beam of the recorded one
        chosen_sine=None if chosen is None else sines[chosen * (len(sines) // member.data.n_beams)],
    )


def shown_frames(blocked: NDArray[np.bool_], sequence: NDArray[np.int64], n_frames: int) -> slice:
    """Frames of one sequence around the blockage nearest to the middle; the longest sequence where there is none.

    Args:
        blocked: [n] bool, in the order of time.
        sequence: [n] unbroken stretch of every frame.
        n_frames: largest number of frames.

    >>> shown_frames(np.array([False] * 6 + [True] * 2 + [False] * 4), np.zeros(12, dtype=np.int64), 5)
    slice(4, 9, None)
    """
    begins = np.flatnonzero(blocked[1:] & ~blocked[:-1] & (sequence[1:] == sequence[:-1])) + 1
    if begins.size:
        begin = int(begins[np.abs(begins - len(blocked) // 2).argmin()])
        of_sequence = np.flatnonzero(sequence == sequence[begin])
        first = begin - round(BEFORE * n_frames)
    else:
        numbers, counts = np.unique(sequence, return_counts=True)
        of_sequence = np.flatnonzero(sequence == numbers[counts.argmax()])
        first = int(of_sequence[0])
    low, stop = int(of_sequence[0]), int(of_sequence[-1]) + 1
    first = max(low, min(first, stop - n_frames))
    return slice(first, min(first + n_frames, stop))


def _answers(
    member: Member, samples: Samples, model: Path | None, warn_above_logit: float
) -> tuple[NDArray[np.bool_] | None, NDArray[np.int64] | None]:
    """[F] warnings and [F] chosen beams of the codebook, as far as the task's answers are such."""
    task = member.task
    if model is None or not isinstance(task, SensorTask):
        return None, None
    try:
        session = OnnxSession(model)
    except Exception as error:  # noqa: BLE001 - onnxruntime has a class of its own for every cause
        raise DataError(f"{model} is no model of a run ({reason(error)}); run the scenario again") from None
    pieces = [
        session.run({str(name): values for name, values in inputs.items() if name in session.input_names})
        for inputs in in_pieces(samples)
    ]
    logits = np.concatenate(pieces)
    # as a replay counts them: forecasts warn where users are prepared, others from the even chance on
    if isinstance(task, ForecastTask):
        return task.warning_logits(logits) > warn_above_logit, None
    if task.decision == "handover":
        return logits[:, 0] > 0.0, None
    beams = task.known_beams(samples)
    return None, None if beams is None else beams.numbering[logits.argmax(axis=1)]


def _main_sines(codebook: NDArray[np.complex128]) -> NDArray[np.float64]:
    """[n_beams] direction sine in which each beam has the most power."""
    gains = np.abs(steering_vector(_SINES, codebook.shape[1]) @ codebook.conj().T)
    return np.asarray(_SINES[gains.argmax(axis=0)])
