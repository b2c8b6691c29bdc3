"""Live runs: sensors and training share a clock, and nobody learns from what has not happened yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sheafedge.datasets.recordings.recording_reader import RecordedStation, RecordingReader
from sheafedge.datasets.windows.samples import Samples
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.data import ClientData, LoadedData, load_data, recording_paths
from sheafedge.scenarios.wiring.emulation import Emulation, build, emulate
from sheafedge.scenarios.wiring.live import LiveRows
from sheafedge.scenarios.wiring.members import image_change, kept_frames, members_of

ROUNDING_S = 1e-9  # sums of a few times and rates
SMALL: dict[str, Any] = {
    "rounds": 6,
    "evaluate_every": 6,
    "world.n_sites": 3,
    "world.duration_s": 60,
    "clients.n_clients": 3,
    "topology.kind": "complete",
    "data.mode": "live",
    "data.split": "time",
    "data.stride": 1,
    "live.warm_up_s": 15,
    "live.round_every_s": 10,
    "live.handover_s": 1.3,
    "training.local_steps": 2,
    "training.batch_size": 8,
    "model.width": 0.125,
    "model.embedding_dim": 8,
    "model.hidden_dim": 8,
    "network.transport": "memory",
    "compute.executor": "serial",
    "export.onnx": False,
    "export.pictures": 0,
    "export.report": False,
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "blockage": ("blockage", {"data.window": 8, "data.horizon": 3}),
    "cars": (  # which do not come at once
        "beam_tracking",
        {"data.n_beams": 8, "world.duration_s": 160, "live.warm_up_s": 60, "live.round_every_s": 20},
    ),
    "drones": ("drone_beam", {"data.n_beams": 8, "data.images": "views", "world.camera.n_pixels": 32}),
}


def live(kind: str = "blockage", edits: Mapping[str, Any] | None = None) -> Scenario:
    name, own = KINDS[kind]
    return load_scenario(name).edited({**SMALL, **own, **(edits or {})})


@dataclass
class Asked:
    """A batch that training took: when its round had begun, which rows, and what it got."""

    begun_s: float
    indices: np.ndarray[Any, Any]
    inputs: Mapping[Any, np.ndarray[Any, Any]]


@dataclass
class Watched:
    """What went in and out of the rows of one client."""

    pieces: list[Mapping[str, Any]] = field(default_factory=list)
    begun_s: list[float] = field(default_factory=list)
    n_rows: list[int] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)


@dataclass
class Play:
    """A live run from beginning to end, and the same world recorded."""

    scenario: Scenario
    data: LoadedData
    emulation: Emulation
    watched: list[Watched]

    def stations(self) -> Iterator[tuple[ClientData, Watched, RecordedStation]]:
        """Clients beside the base stations that they sense."""
        with RecordingReader(*self.data.recordings) as reader:
            yield from zip(self.data.clients, self.watched, reader.base_stations, strict=True)

    def recorded(self, client_id: int, station: RecordedStation) -> Samples:
        """All samples of the finished recording, as a replay would make them."""
        owned = members_of(self.scenario)[client_id].modalities
        change = image_change(self.scenario.data.images, self.scenario.seed, client_id, owned)
        sensed = SensedFrames.of(station, **kept_frames(self.scenario.task_spec, [owned]), image_change=change)
        return self.scenario.task_spec.samples(sensed, owned, self.scenario.data)


def play(scenario: Scenario) -> Play:
    """Run a scenario with an eye on what its clients sense and train on."""
    seen: dict[int, Watched] = defaultdict(Watched)
    take_in, begin_round, inputs = LiveRows.take_in, LiveRows.begin_round, LiveRows.inputs

    def taken_in(rows: LiveRows, frames: Mapping[str, Any]) -> None:
        seen[id(rows)].pieces.append(frames)
        take_in(rows, frames)

    def begun(rows: LiveRows, now_s: float) -> None:
        begin_round(rows, now_s)
        seen[id(rows)].begun_s.append(now_s)
        seen[id(rows)].n_rows.append(len(rows))

    def asked(rows: LiveRows, indices: Any = slice(None)) -> Mapping[Any, Any]:
        batch = inputs(rows, indices)
        seen[id(rows)].asked.append(Asked(seen[id(rows)].begun_s[-1], np.arange(len(rows))[indices], batch))
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LiveRows, "take_in", taken_in)
        patch.setattr(LiveRows, "begin_round", begun)
        patch.setattr(LiveRows, "inputs", asked)
        data = load_data(scenario)
        emulation = build(scenario, data.clients, lambda learner, _: learner.health(), lambda *_: None)
        try:
            emulate(emulation, scenario.rounds)
        finally:
            emulation.close()
    return Play(scenario, data, emulation, [seen[id(client.train)] for client in data.clients])


@pytest.fixture(
    scope="module",
    params=[kind if kind == "blockage" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS],
)
def played(request: pytest.FixtureRequest) -> Play:
    return play(live(request.param))


def models(emulation: Emulation) -> dict[str, torch.Tensor]:
    return {
        f"{client.client_id} {name} {part}": value
        for client in emulation.clients
        for name, model in client.models.items()
        for part, value in model.state_dict().items()
    }


def test_what_is_sensed_live_is_what_was_recorded_bit_for_bit(played: Play) -> None:
    for _, watched, station in played.stations():
        assert len(watched.pieces) > 30  # the warm-up, and a handover every 1.3 s
        for name in station.field_names:
            pieces = np.concatenate([piece[name] for piece in watched.pieces if piece])  # no car, no frame
            assert_array_equal(pieces, station.read(name))


def test_a_live_buffer_holds_what_replay_reads(played: Play) -> None:
    for client_id, (_, watched, station) in enumerate(played.stations()):
        owned = members_of(played.scenario)[client_id].modalities
        kept = kept_frames(played.scenario.task_spec, [owned])
        replay, grown = SensedFrames.of(station, **kept), SensedFrames.like(station, **kept)
        for piece in watched.pieces:
            grown.append(piece)
        assert grown.columns == replay.columns
        for name in replay.columns:
            assert_array_equal(grown.column(name), replay.column(name))
        for modality in replay.modalities:
            assert_array_equal(grown.frames(modality), replay.frames(modality))


def test_a_batch_holds_the_samples_of_the_recording(played: Play) -> None:
    for client_id, (client, watched, station) in enumerate(played.stations()):
        recorded = played.recorded(client_id, station)
        assert watched.asked
        for batch in watched.asked:
            for modality, rows in recorded.inputs(batch.indices).items():
                assert_array_equal(batch.inputs[modality], rows)
        assert_array_equal(client.train.label, recorded.label[: len(client.train)])


def times_of_rows(scenario: Scenario, station: RecordedStation) -> np.ndarray:
    """[n] instants; tracking numbers rows without the drive-bys that are too short for it."""
    time_s, sequence = station.read("time_s"), station.read("sequence")
    least = scenario.data.window + 1 if scenario.task == "beam_tracking" else 1
    _, member, n_rows = np.unique(sequence, return_inverse=True, return_counts=True)
    long_enough: np.ndarray = time_s[n_rows[member] >= least]
    return long_enough


def test_no_round_trains_on_what_was_not_complete_when_it_began(played: Play) -> None:
    """Every frame that an input or a label comes from had been sensed by then."""
    for client_id, (_, watched, station) in enumerate(played.stations()):
        recorded, time_s = played.recorded(client_id, station), times_of_rows(played.scenario, station)
        for batch in watched.asked:
            assert time_s[recorded.end[batch.indices] + recorded.n_after].max() <= batch.begun_s + ROUNDING_S


def test_later_rounds_train_on_what_came_since(played: Play) -> None:
    """The negative control: samples that were not complete at the first round are used, and not before they are."""
    for watched in played.watched:
        assert watched.n_rows == sorted(watched.n_rows)
        assert watched.n_rows[-1] > 1.3 * watched.n_rows[0]
    newest = {index for watched in played.watched for b in watched.asked for index in b.indices - watched.n_rows[0]}
    assert max(newest) > 0


def test_rounds_begin_when_they_should(played: Play) -> None:
    settings = played.scenario.live
    for watched in played.watched:
        built, *begun_s = watched.begun_s
        assert built == begun_s[0] == settings.warm_up_s
        assert begun_s == pytest.approx([settings.warm_up_s + settings.round_every_s * index for index in range(6)])
    assert played.emulation.env.now > begun_s[-1]


def test_held_out_rows_are_never_trained_on(played: Play) -> None:
    for client_id, (client, watched, station) in enumerate(played.stations()):
        recorded = played.recorded(client_id, station)
        used = recorded.end[np.unique(np.concatenate([batch.indices for batch in watched.asked]))]
        last_used, first_held_out = used.max() + recorded.n_after, client.test.end.min() - recorded.n_before
        assert last_used < first_held_out
        assert watched.n_rows[-1] < len(recorded)  # more had been sensed by then


def test_who_has_sensed_everything_before_the_first_round_learns_as_in_a_replay() -> None:
    waited = live(edits={"live.warm_up_s": 60, "rounds": 2})
    replayed = waited.edited({"data.mode": "replay"})
    runs = []
    for scenario in (waited, replayed):
        data = load_data(scenario).clients
        emulation = build(scenario, data, lambda learner, _: learner.health(), lambda *_: None)
        emulate(emulation, scenario.rounds)
        emulation.close()
        runs.append((data, models(emulation), emulation))
    (live_data, live_models, live_run), (replay_data, replay_models, replay_run) = runs
    for one, other in zip(live_data, replay_data, strict=True):
        assert len(one.train) == len(other.train)
        assert_array_equal(one.train.label, other.train.label)
        assert_array_equal(one.test.end, other.test.end)
        for modality, rows in other.train.inputs().items():
            assert_array_equal(one.train.inputs()[modality], rows)
    assert [name for name, value in live_models.items() if not torch.equal(value, replay_models[name])] == []
    assert live_run.env.now > 60.0 > replay_run.env.now


def trace_of(scenario: Scenario, folder: Path) -> str:
    trace: str = run_scenario(scenario, folder).summary["trace_hash"]
    return trace


@pytest.mark.slow
def test_a_live_run_can_be_repeated_on_any_executor(tmp_path: Path) -> None:
    """Scores are part of the trace; sensing goes on beside the training, and must not depend on who is faster."""
    scenario = live(edits={"rounds": 2})
    serial = trace_of(scenario, tmp_path / "serial")
    assert trace_of(scenario.edited({"compute.executor": "threads"}), tmp_path / "threads") == serial
    assert trace_of(scenario.edited({"live.round_every_s": 4}), tmp_path / "hurried") != serial


def test_another_seed_senses_another_world(tmp_path: Path) -> None:
    scenario = live(edits={"rounds": 1, "world.n_sites": 1, "clients.n_clients": 1})
    one, other = (trace_of(scenario.edited({"seed": seed}), tmp_path / str(seed)) for seed in (0, 1))
    assert one != other


@pytest.mark.parametrize(("kind", "warm_up_s"), [("blockage", 0.5), ("cars", 0.1)])
def test_a_warm_up_too_short_for_a_sample_is_a_sentence(kind: str, warm_up_s: float) -> None:
    with pytest.raises(ConfigError) as caught:
        load_data(live(kind, {"live.warm_up_s": warm_up_s}))
    assert f"live.warm_up_s = {warm_up_s:g} is too short for a first training sample" in str(caught.value)
    assert str(caught.value).endswith("; sense longer")
    assert "\n" not in str(caught.value)


def test_a_live_run_finds_the_recording_of_a_replay() -> None:
    """The observer's held-out rows cost one recording for both."""
    scenario = live()
    assert recording_paths(scenario) == recording_paths(scenario.edited({"data.mode": "replay"}))
