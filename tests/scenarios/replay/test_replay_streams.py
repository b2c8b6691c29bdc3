"""What is streamed is what was trained on: frames of replay, windowed by the server, are the inputs of training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.track_windows import tracked_rows
from sheafedge.emulator.contracts import ConfigError, DataError, InputWindow, Modality
from sheafedge.emulator.edge.frame_packets import TO_SERVER, pack_frames, unpack_frames
from sheafedge.emulator.edge.manifest import Golden, InputSpec, Manifest, OutputSpec, Runtime
from sheafedge.emulator.edge.serving.stream_windows import StreamWindows
from sheafedge.emulator.network.transport.packets import pack_packet, unpack_packet
from sheafedge.scenarios.replay.sensor_faults import SensorFaults, parsed_break
from sheafedge.scenarios.replay.station_stream import StationStream, station_stream
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.tasks.task_spec import ForecastTask
from sheafedge.scenarios.wiring.data import load_data, recording_paths
from sheafedge.scenarios.wiring.members import Member, kept_frames, members_of

BLOCKAGE: dict[str, Any] = {
    "world.n_sites": 1,
    "world.duration_s": 60,
    "data.window": 4,
    "data.horizon": 2,
    "data.stride": 1,
    "world.radar.n_ranges": 32,
    "clients.groups": [{"name": "all", "modalities": ["lidar", "camera", "rf", "radar"], "share": 1.0}],
}
TRACKING: dict[str, Any] = {
    "world.n_sites": 1,
    "world.duration_s": 200,
    "data.n_beams": 16,
    "data.beam_order": "permuted",
    "clients.groups": [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}],
}
PREDICTION: dict[str, Any] = {
    "world.n_sites": 1,
    "world.duration_s": 240,
    "data.n_beams": 16,
    "data.beam_order": "rotated",
    "data.stride": 1,
    "clients.groups": [{"name": "both", "modalities": ["camera", "gps"], "share": 1.0}],
}
OUTAGE: dict[str, Any] = {
    "world.n_sites": 1,
    "world.duration_s": 60,
    "data.window": 4,
    "data.horizon": 3,
    "data.stride": 1,
    "data.fades_db": [12.0, 7.0],
    "decision.evaluate": False,
    "clients.groups": [{"name": "all", "modalities": ["rf", "signal"], "share": 1.0}],
}
SCENARIOS = {"blockage": BLOCKAGE, "beam_tracking": TRACKING, "drone_beam": PREDICTION, "outage_forecast": OUTAGE}
ALONE = {"clients.n_clients": 1, "topology.kind": "complete"}
HOLD = 2


def scenario_of(name: str) -> Scenario:
    return load_scenario(name).edited({**SCENARIOS[name], **ALONE})


def manifest_of(scenario: Scenario, rate_hz: float) -> Manifest:
    """What an export would say of the only client's model."""
    (member,) = members_of(scenario)
    (client,) = load_data(scenario).clients
    described = member.task.input_descriptions(client.test, member.data)
    inputs = []
    for modality in member.modalities:
        told = described[modality]
        inputs.append(InputSpec(told.window, told.shape, rate_hz, told.unit, told.meaning))
    labels = member.task.outputs(member.data, client.test).labels
    if scenario.task == "blockage":
        output = OutputSpec("binary", labels, "soon", horizon_s=member.data.horizon / rate_hz)
    elif isinstance(member.task, ForecastTask):
        made = member.task.forecast_output(member.data, rate_hz)
        output = replace(made, horizon_s=member.data.horizon / rate_hz)
    else:
        output = OutputSpec("classes", labels, "best", codebook=tuple(map(int, member.outputs(client.test))))
    return Manifest(
        name="model",
        created_by="tests",
        task=scenario.task,
        question="?",
        precision="float32",
        runtime=Runtime(20, 10, "1.20"),
        inputs=tuple(inputs),
        output=output,
        flops=1.0,
        parameters=1,
        trained={"recording": client.recording},
        metrics={},
        golden=Golden(1, 1e-5),
    )


@pytest.fixture(scope="module", params=list(SCENARIOS))
def case(request: pytest.FixtureRequest) -> Iterator[tuple[Scenario, Member, Manifest, StationStream]]:
    scenario = scenario_of(request.param)
    (path,) = recording_paths(scenario)
    with RecordingReader(path) as reader:
        (station,) = reader.base_stations
        manifest = manifest_of(scenario, station.rate_hz)
        yield scenario, members_of(scenario)[0], manifest, station_stream(station, manifest)


def windowed(stream: StationStream, manifest: Manifest, *, forgets: bool = True) -> dict[float, dict[str, Any]]:
    """Instant in s -> inputs that a server would give the model, of everything that is asked; over the wire's bytes."""
    windows = StreamWindows(manifest.inputs, HOLD)
    made = {}
    for instant in range(len(stream)):
        if stream.begins[instant] and forgets:
            windows = StreamWindows(manifest.inputs, HOLD)
        index, time_s = int(stream.index[instant]), float(stream.time_s[instant])
        sent = pack_packet(pack_frames(stream.name, index, time_s, stream.readings(instant)), TO_SERVER)
        windows.put(index, time_s, unpack_frames(unpack_packet([bytes(part) for part in sent], TO_SERVER)))
        if stream.asks[instant]:
            sample = windows.sample(index, time_s)
            assert not sample.missing
            assert not sample.held
            made[time_s] = dict(sample.inputs)
    return made


def instants_of_training(scenario: Scenario, member: Member, ends: Any) -> Any:
    """[n] when samples end that training cut from the recording."""
    (path,) = recording_paths(scenario)
    with RecordingReader(path) as reader:
        (station,) = reader.base_stations
        time_s, sequence = station.read("time_s"), station.read("sequence")
    if scenario.task == "beam_tracking":  # drive-bys that are too short are left out
        rows = tracked_rows(sequence, member.data.window + 1)
        time_s = time_s[rows]
    return time_s[ends]


def test_a_server_windows_what_is_streamed_to_the_bits_that_training_saw(
    case: tuple[Scenario, Member, Manifest, StationStream],
) -> None:
    scenario, member, manifest, stream = case
    made = windowed(stream, manifest)
    (client,) = load_data(scenario).clients
    n_compared = 0
    for samples in (client.train, client.test):
        expected = samples.inputs()
        for row, time_s in enumerate(instants_of_training(scenario, member, samples.end)):
            for modality in manifest.modalities:
                assert_array_equal(made[float(time_s)][modality], expected[modality][row], strict=True)
            n_compared += 1
    assert n_compared > 100


def test_labels_and_powers_of_what_is_streamed_are_those_of_training(
    case: tuple[Scenario, Member, Manifest, StationStream],
) -> None:
    scenario, member, _, stream = case
    (client,) = load_data(scenario).clients
    at = {
        float(time_s): int(sample) for time_s, sample in zip(stream.time_s, stream.scored, strict=True) if sample >= 0
    }
    instants = instants_of_training(scenario, member, client.test.end)
    same = stream.samples.take(np.array([at[float(time_s)] for time_s in instants]))
    assert_array_equal(same.label, client.test.label)
    if member.task.known_beams(client.test) is not None:
        assert_array_equal(same.powers, client.test.powers)  # type: ignore[attr-defined]


def test_exactly_the_instants_are_asked_that_training_could_have_used(
    case: tuple[Scenario, Member, Manifest, StationStream],
) -> None:
    scenario, member, _, stream = case
    (path,) = recording_paths(scenario)
    with RecordingReader(path) as reader:
        sensed = SensedFrames.of(reader.base_stations[0], **kept_frames(scenario.task_spec, [member.modalities]))
    everything = member.samples(sensed)
    expected = instants_of_training(scenario, member, everything.end)
    assert_array_equal(stream.time_s[stream.asks], expected)


def test_without_forgetting_windows_would_reach_into_the_drive_by_before() -> None:
    """Why streams begin anew: rows of two drive-bys have numbers that follow each other."""
    scenario = scenario_of("beam_tracking")
    (path,) = recording_paths(scenario)
    with RecordingReader(path) as reader:
        manifest = manifest_of(scenario, reader.base_stations[0].rate_hz)
        stream = station_stream(reader.base_stations[0], manifest)
    second = int(np.flatnonzero(stream.begins)[1])
    assert stream.index[second] == stream.index[second - 1] + 1
    careless, told = StreamWindows(manifest.inputs, HOLD), StreamWindows(manifest.inputs, HOLD)
    for instant in range(second + 2):
        index, time_s = int(stream.index[instant]), float(stream.time_s[instant])
        careless.put(index, time_s, stream.readings(instant))
        if instant >= second:
            told.put(index, time_s, stream.readings(instant))
    assert "rf" in careless.sample(index, time_s).inputs
    assert told.sample(index, time_s).missing == ("rf", "gps")


@pytest.fixture
def blockage() -> Iterator[tuple[RecordingReader, Manifest]]:
    scenario = scenario_of("blockage")
    (path,) = recording_paths(scenario)
    with RecordingReader(path) as reader:
        yield reader, manifest_of(scenario, reader.base_stations[0].rate_hz)


def test_a_part_asks_only_where_its_own_windows_are_whole(blockage: tuple[RecordingReader, Manifest]) -> None:
    reader, manifest = blockage
    stream = station_stream(reader.base_stations[0], manifest)
    part = stream.since(10.0).lasting(5.0)
    assert part.time_s[0] == pytest.approx(10.0)
    assert len(part) == 50
    assert_array_equal(np.flatnonzero(~part.asks), [0, 1, 2])
    assert part.begins.sum() == 1
    instants, inputs = np.flatnonzero(part.asks), windowed(part, manifest)
    assert len(inputs) == len(instants)


def test_a_part_of_some_drive_bys_begins_anew_in_each() -> None:
    scenario = scenario_of("beam_tracking")
    (path,) = recording_paths(scenario)
    with RecordingReader(path) as reader:
        manifest = manifest_of(scenario, reader.base_stations[0].rate_hz)
        stream = station_stream(reader.base_stations[0], manifest)
    chosen = np.unique(stream.sequence)[[1, 4]]
    part = stream.within(chosen.tolist())
    assert_array_equal(np.unique(part.sequence), chosen)
    assert part.begins.sum() == 2
    assert len(windowed(part, manifest)) == part.asks.sum()
    assert np.diff(part.time_s).max() > 5.0  # of other drive-bys,
    assert np.diff(part.due_s).max() == pytest.approx(1.0)  # for which nobody waits
    with pytest.raises(ConfigError, match="none of the drive-bys that were held out"):
        stream.within([10_000])


def test_a_part_without_a_whole_window_is_refused(blockage: tuple[RecordingReader, Manifest]) -> None:
    reader, manifest = blockage
    stream = station_stream(reader.base_stations[0], manifest)
    with pytest.raises(ConfigError, match=r"nothing to ask from 1000 s .* change --from"):
        stream.since(1000.0)
    with pytest.raises(ConfigError, match=r"nothing to ask within 0.2 s, .* spans 4 frames; change --seconds"):
        stream.lasting(0.2)


def test_a_recording_without_one_of_the_sensors_is_streamed_without_and_told(
    blockage: tuple[RecordingReader, Manifest],
) -> None:
    reader, manifest = blockage
    gps = InputSpec(InputWindow("gps", 4, axis=0), (4, 2), 10.0, "m", "not recorded in a street")
    stream = station_stream(reader.base_stations[0], replace(manifest, inputs=(*manifest.inputs, gps)))
    assert set(stream.readings(0)) == {"lidar", "camera", "rf", "radar"}
    assert stream.notes == ("bs00 has no gps; the model does without",)
    with pytest.raises(ConfigError, match="takes gps; replay another recording"):
        station_stream(reader.base_stations[0], replace(manifest, inputs=(gps,)))


def test_what_a_bundle_says_was_held_out_is_what_the_client_was_tested_on(
    case: tuple[Scenario, Member, Manifest, StationStream],
) -> None:
    scenario, member, _, stream = case
    (client,) = load_data(scenario).clients
    if scenario.data.split == "time":
        part = stream.since(float(client.held_out["held_out_from_s"]))
    else:
        part = stream.within([int(number) for number in str(client.held_out["held_out_sequences"]).split(",")])
    tested = instants_of_training(scenario, member, client.test.end)
    trained = instants_of_training(scenario, member, client.train.end)
    assert_array_equal(part.time_s[part.asks], tested)
    assert not np.isin(part.time_s, trained).any()


def test_tracked_rows_that_are_held_out_by_time_begin_where_the_first_window_does() -> None:
    scenario = scenario_of("beam_tracking").edited({"data.split": "time"})
    (path,) = recording_paths(scenario)
    (member,), (client,) = members_of(scenario), load_data(scenario).clients
    with RecordingReader(path) as reader:
        manifest = manifest_of(scenario, reader.base_stations[0].rate_hz)
        stream = station_stream(reader.base_stations[0], manifest)
    part = stream.since(float(client.held_out["held_out_from_s"]))
    assert_array_equal(part.time_s[part.asks], instants_of_training(scenario, member, client.test.end))


def test_rows_held_out_at_random_cannot_be_streamed_alone() -> None:
    (client,) = load_data(scenario_of("beam_tracking").edited({"data.split": "random"})).clients
    assert client.held_out == {}


def test_another_rate_is_told(blockage: tuple[RecordingReader, Manifest]) -> None:
    reader, manifest = blockage
    slower = tuple(replace(one, rate_hz=5.0) for one in manifest.inputs)
    stream = station_stream(reader.base_stations[0], replace(manifest, inputs=slower))
    assert len(stream.notes) == len(manifest.inputs)
    assert "its windows span another time" in stream.notes[0]


def test_frames_of_another_shape_are_refused_before_anything_is_sent(
    blockage: tuple[RecordingReader, Manifest],
) -> None:
    reader, manifest = blockage
    lidar = InputSpec(InputWindow("lidar", 4, axis=1), (2, 4, 100), 10.0, "m", "fewer rays")
    with pytest.raises(DataError, match=r"frames of lidar of shape \[2, 216\], the served model takes \[2, 100\]"):
        station_stream(reader.base_stations[0], replace(manifest, inputs=(lidar,)))


def test_models_that_nobody_can_score_are_refused(blockage: tuple[RecordingReader, Manifest]) -> None:
    reader, manifest = blockage
    with pytest.raises(ConfigError, match="'weather', which replay cannot score"):
        station_stream(reader.base_stations[0], replace(manifest, task="weather"))
    three = OutputSpec("classes", ("a", "b", "c"), "beams")
    with pytest.raises(ConfigError, match="chooses among 3 beams"):
        station_stream(reader.base_stations[0], replace(manifest, output=three))


def test_forecasts_of_other_times_or_receivers_are_refused() -> None:
    scenario = scenario_of("outage_forecast")
    (path,) = recording_paths(scenario)
    with RecordingReader(path) as reader:
        (station,) = reader.base_stations
        manifest = manifest_of(scenario, station.rate_hz)
        forecast = manifest.output.forecast
        assert forecast is not None
        for other in (replace(forecast, series=("own", "far")), replace(forecast, ahead_s=(0.1, 0.2), warned=1)):
            served = replace(manifest, output=replace(manifest.output, forecast=other))
            with pytest.raises(ConfigError, match=r"replay knows own and neighbor at each of the next 3 frames"):
                station_stream(station, served)


def test_beams_that_are_in_no_codebook_are_refused() -> None:
    scenario = scenario_of("beam_tracking")
    (path,) = recording_paths(scenario)
    with RecordingReader(path) as reader:
        manifest = manifest_of(scenario, reader.base_stations[0].rate_hz)
        twice = replace(manifest.output, codebook=(0, 0, *manifest.output.codebook[2:]))
        with pytest.raises(ConfigError, match="not 16 beams of a codebook of 64"):
            station_stream(reader.base_stations[0], replace(manifest, output=twice))


def test_where_a_recording_lies_does_not_matter(tmp_path: Path, blockage: tuple[RecordingReader, Manifest]) -> None:
    reader, manifest = blockage
    copied = tmp_path / "copy.h5"
    copied.write_bytes(reader.path.read_bytes())
    with RecordingReader(copied) as other:
        here, there = (station_stream(one.base_stations[0], manifest) for one in (reader, other))
    assert_array_equal(here.index, there.index)
    assert_array_equal(here.readings(7)["rf"], there.readings(7)["rf"])


def test_a_broken_sensor_is_silent_from_its_first_instant_up_to_its_last_and_alone() -> None:
    faults = SensorFaults([parsed_break("lidar@1-2")])
    readings: dict[Modality, Any] = {"lidar": np.zeros(1), "rf": np.zeros(1)}
    arrived = [set(faults.arriving("s", at_s, readings)) for at_s in (0.9, 1.0, 1.9, 2.0)]
    assert arrived == [{"lidar", "rf"}, {"rf"}, {"rf"}, {"lidar", "rf"}]
    assert (faults.n_broken, faults.n_lost) == (2, 0)
