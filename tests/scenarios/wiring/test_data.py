"""What clients own: rows of one base station each, inputs that never hold the answer, training rows of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.datasets.windows.drive_bys import Recording
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.datasets.windows.sensor_windows import BeamWindows, BlockageWindows
from sheafedge.datasets.windows.track_windows import tracked_recording
from sheafedge.emulator.contracts import ConfigError, DataError, Learner
from sheafedge.scenarios.recording.record import record_world
from sheafedge.scenarios.schema.neighborhood import assign_groups
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.data import ClientData, load_data, recording_paths
from sheafedge.scenarios.wiring.emulation import build, emulate

N_MEASURED_ROWS = 60  # of a stand-in for measurements: six drive-bys of ten rows


@pytest.fixture(scope="module")
def clients(tiny: Scenario) -> list[ClientData]:
    return load_data(tiny).clients


@pytest.fixture(scope="module")
def crossing() -> Scenario:
    """Four clients of every group at two streets, a few blocked frames in each."""
    edits = {
        "world.n_sites": 2,
        "world.duration_s": 120,
        "clients.n_clients": 4,
        "topology.kind": "complete",
        "data.window": 4,
        "data.horizon": 2,
        "data.stride": 1,
    }
    return load_scenario("blockage").edited(edits)


def stations_of(scenario: Scenario) -> list[Recording]:
    """Rows of every base station that a tracking scenario records, drive-bys that are long enough."""
    with RecordingReader(*recording_paths(scenario)) as reader:
        sensed = [SensedFrames.of(station, ("gps",), keep_powers=True) for station in reader.base_stations]
    min_rows, n_beams = scenario.data.window + 1, scenario.data.n_beams
    return [tracked_recording(frames, min_rows=min_rows).with_n_beams(n_beams) for frames in sensed]


def write_measurements(root: Path, scenario: int = 1) -> None:
    """Files as DeepSense has them, with made-up content."""
    draws = np.random.default_rng(3)
    base_deg = np.tile([33.42, -111.93], (N_MEASURED_ROWS, 1))
    columns = {
        "seq_index": np.repeat(np.arange(6), 10).astype(float),
        "unit1_loc": base_deg,
        "unit2_loc": base_deg + draws.normal(scale=1e-4, size=(N_MEASURED_ROWS, 2)),
        "unit1_pwr_60ghz": draws.uniform(0.1, 0.5, size=(N_MEASURED_ROWS, 64)),
    }
    for field, values in columns.items():
        np.save(root / f"scenario{scenario}_{field}_1-{N_MEASURED_ROWS}.npy", values)


def owners(clients: list[ClientData]) -> dict[tuple[str, int], set[str]]:
    """(recording, drive-by) -> who has rows of it, training and held-out told apart."""
    found = defaultdict(set)
    for index, client in enumerate(clients):
        for part, windows in (("train", client.train), ("test", client.test)):
            for sequence in windows.sequence:
                found[client.recording, int(sequence)].add(f"{part} of client {index}")
    return found


def test_clients_have_inputs_of_their_own_sensors(tiny: Scenario, clients: list[ClientData]) -> None:
    for client, group in zip(clients, assign_groups(tiny.clients, tiny.seed), strict=True):
        owned = tiny.clients.group(group).owned
        assert client.train.modalities == client.test.modalities == owned
        assert tuple(client.train.inputs()) == owned


def test_inputs_are_the_rows_that_they_claim_to_be(tiny: Scenario) -> None:
    """Positions up to now, sweeps before now: the sweep of now holds the label."""
    scenario = tiny.edited({"clients.groups": [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}]})
    (recording,) = stations_of(scenario)
    for client in load_data(scenario).clients:
        inputs, now = client.test.inputs(), client.test.end
        for back in range(scenario.data.window):
            np.testing.assert_array_equal(
                inputs["gps"][:, -1 - back], recording.positions_m[now - back].astype(np.float32)
            )
            sweeps_db = 10 * np.log10(recording.powers[now - 1 - back])
            np.testing.assert_array_equal(inputs["rf"][:, -1 - back], sweeps_db.astype(np.float32))
        np.testing.assert_array_equal(client.test.label, recording.powers[now].argmax(axis=1))
        np.testing.assert_array_equal(client.test.previous_beam, recording.powers[now - 1].argmax(axis=1))


@pytest.mark.parametrize("edits", [{}, {"world.n_sites": 3, "clients.n_clients": 9}, {"data.train_fraction": 0.3}])
def test_no_drive_by_is_shared_between_clients_or_between_training_and_test(
    edits: Mapping[str, Any], tiny: Scenario
) -> None:
    found = owners(load_data(tiny.edited(edits)).clients)
    assert len(found) > 8
    assert [who for who in found.values() if len(who) > 1] == []


def test_the_random_split_shares_drive_bys_between_training_and_test_only(tiny: Scenario) -> None:
    """The negative control of the test above, and what the option is for."""
    found = owners(load_data(tiny.edited({"data.split": "random"})).clients)
    assert all(len({name.split()[-1] for name in who}) == 1 for who in found.values())
    assert sum(len(who) == 2 for who in found.values()) > len(found) / 2


def test_fewer_training_rows_leave_the_held_out_rows_as_they_were(tiny: Scenario) -> None:
    thinned = load_data(tiny.edited({"data.train_fraction": 0.5})).clients
    for few, many in zip(thinned, load_data(tiny).clients, strict=True):
        np.testing.assert_array_equal(few.test.end, many.test.end)
        assert set(few.train.end) < set(many.train.end)


def test_the_seed_decides_the_data(tiny: Scenario, clients: list[ClientData]) -> None:
    again, other = load_data(tiny).clients, load_data(tiny.edited({"seed": 1})).clients
    np.testing.assert_array_equal(again[2].train.measured, clients[2].train.measured)
    assert not np.array_equal(other[2].train.measured[:5], clients[2].train.measured[:5])


def test_sites_differ_and_more_of_them_leave_the_first_as_it_was(tiny: Scenario) -> None:
    first, second = stations_of(tiny.edited({"world.n_sites": 2}))
    (alone,) = stations_of(tiny)
    np.testing.assert_array_equal(first.powers, alone.powers)
    assert first.name != second.name
    assert first.positions_m.mean(axis=0) != pytest.approx(second.positions_m.mean(axis=0), abs=0.1)


def test_a_smaller_codebook_keeps_every_eighth_beam(tiny: Scenario) -> None:
    (all_beams,) = stations_of(tiny.edited({"data.n_beams": 64}))
    (few_beams,) = stations_of(tiny)
    np.testing.assert_array_equal(few_beams.powers, all_beams.powers[:, ::8])


def test_no_more_base_stations_are_recorded_than_there_are_clients(tiny: Scenario) -> None:
    assert {client.recording for client in load_data(tiny.edited({"world.n_sites": 9})).clients} == {
        client.recording for client in load_data(tiny.edited({"world.n_sites": 4})).clients
    }


def test_sensors_that_nobody_owns_are_not_recorded(crossing: Scenario) -> None:
    group = [{"name": "g", "modalities": ["camera"], "share": 1.0}]
    (path,) = recording_paths(crossing.edited({"clients.groups": group, "world.duration_s": 10}))
    with RecordingReader(path) as reader:
        assert reader.base_stations[0].modalities == ("camera",)


# Recordings.


def test_clients_know_which_readings_stand_for_nothing_seen(crossing: Scenario) -> None:
    farther = load_data(crossing.edited({"world.lidar.max_range_m": 14.0})).clients
    for client in farther:
        seen = {modality: {"lidar": 14.0, "camera": 0.0}.get(modality) for modality in client.test.modalities}
        assert client.nothing == {modality: value for modality, value in seen.items() if value is not None}
    with_lidar = next(client for client in farther if "lidar" in client.nothing)
    ranges = with_lidar.test.inputs()["lidar"][:, 0]
    assert ranges.max() == np.float32(14.0)  # what is far away, and what was lost
    assert (ranges == np.float32(14.0)).mean() > 0.1


@pytest.mark.slow
def test_a_recorded_file_gives_what_the_world_gives(crossing: Scenario, tmp_path: Path) -> None:
    record_world(crossing.recorded_world, crossing.seed, tmp_path / "streets.h5")
    from_file = crossing.edited({"data.source": "recording", "data.recordings": [str(tmp_path / "streets.h5")]})
    loaded, live = load_data(from_file), load_data(crossing)
    assert loaded.recordings == (tmp_path / "streets.h5",)
    for one, other in zip(loaded.clients, live.clients, strict=True):
        assert one.recording == other.recording
        for mine, theirs in ((one.train, other.train), (one.test, other.test)):
            np.testing.assert_array_equal(mine.label, theirs.label)
            np.testing.assert_array_equal(mine.end, theirs.end)
            for modality, rows in mine.inputs(slice(0, 8)).items():
                np.testing.assert_array_equal(rows, theirs.inputs(slice(0, 8))[modality])


def test_base_stations_of_several_files_are_shared_out_together(crossing: Scenario, tmp_path: Path) -> None:
    for seed in (3, 4):
        section = crossing.world.model_copy(update={"n_sites": 1, "duration_s": 60.0})
        record_world(section, seed, tmp_path / f"{seed}.h5")
    names = [str(tmp_path / f"{seed}.h5") for seed in (3, 4)]
    clients = load_data(crossing.edited({"data.source": "recording", "data.recordings": names})).clients
    assert [client.recording.split(",")[0] for client in clients] == ["bs00", "bs00", "bs01", "bs01"]
    assert len({client.recording for client in clients}) == 2


def test_a_recording_without_a_sensor_that_a_client_owns_is_refused_by_name(crossing: Scenario, tmp_path: Path) -> None:
    section = crossing.world.model_copy(update={"n_sites": 1, "duration_s": 30.0, "sensors": ("rf",)})
    record_world(section, 3, tmp_path / "blind.h5")
    scenario = crossing.edited({"data.source": "recording", "data.recordings": [str(tmp_path / "blind.h5")]})
    with pytest.raises(DataError, match=r"blind\.h5, bs00 has no field '(lidar|camera)'; it has time_s"):
        load_data(scenario)


# Several sensors, and time.


def spans(samples: BlockageWindows) -> set[int]:
    rows = samples.end[:, None] + np.arange(-samples.n_before, samples.n_after + 1)
    return set(rows.ravel().tolist())


def test_base_stations_that_are_split_by_time_share_no_frame(crossing: Scenario) -> None:
    data = load_data(crossing).clients
    for name in {client.recording for client in data}:
        sides = [spans(side) for one in data if one.recording == name for side in (one.train, one.test)]
        assert len(sides) == 4
        assert len(set.union(*sides)) == sum(len(side) for side in sides)


def test_frames_of_a_base_station_lie_in_memory_once(crossing: Scenario) -> None:
    """Clients with other sensors and another stretch look at the same arrays."""
    owned = defaultdict(list)
    for client in load_data(crossing).clients:
        for modality, frames in client.train.frames.items():
            owned[client.recording, modality].append(frames)
            assert np.shares_memory(frames, client.test.frames[modality])
    shared = [frames for frames in owned.values() if len(frames) > 1]
    assert shared
    assert all(np.shares_memory(frames[0], other) for frames in shared for other in frames[1:])


def images_of(scenario: Scenario) -> list[np.ndarray]:
    """[n_frames, h, w] what every client with a camera sees."""
    return [client.train.frames["camera"] for client in load_data(scenario).clients if "camera" in client.train.frames]


@pytest.mark.parametrize(("images", "alike"), [("plain", True), ("occluded", False), ("views", False)])
def test_two_cameras_on_one_street_see_the_same_unless_they_are_told_not_to(
    images: str, alike: bool, crossing: Scenario
) -> None:
    group = [{"name": "g", "modalities": ["camera"], "share": 1.0}]
    edits = {"clients.groups": group, "world.n_sites": 1, "clients.n_clients": 2, "world.duration_s": 60}
    scenario = crossing.edited({**edits, "data.images": images})
    one, other = images_of(scenario)
    assert np.array_equal(one, other) == alike
    plain = images_of(scenario.edited({"data.images": "plain"}))[0]
    assert np.array_equal(one, plain) == (images == "plain")
    np.testing.assert_array_equal(images_of(scenario)[1], other)  # and the same again
    hidden = (one == 0).mean(axis=(1, 2)) - (plain == 0).mean(axis=(1, 2))
    if images == "occluded":
        assert 0.2 < hidden.min() < hidden.max() < 0.65  # 30 to 60 %, some of which was black before


# Nothing leaks.


def observe_nothing(learner: Learner, round_index: int) -> dict[str, Any]:
    return {}


def forget(*_: object) -> None:
    pass


def trained(scenario: Scenario, data: list[ClientData]) -> dict[str, torch.Tensor]:
    """Everything that clients have after some rounds, normalization included, by name."""
    emulation = build(scenario, data, observe_nothing, forget)
    try:
        emulate(emulation, scenario.rounds)
    finally:
        emulation.close()
    return {
        f"{client.client_id} {model_name} {name}": value
        for client in emulation.clients
        for model_name, model in client.models.items()
        for name, value in model.state_dict().items()
    }


def spoilt(windows: BeamWindows) -> BeamWindows:
    """Rows that nobody could mistake for the true ones."""
    return replace(
        windows,
        frames={modality: frames * 100 + 1000 for modality, frames in windows.frames.items()},
        label=(windows.label + 3) % windows.n_beams,
        measured=windows.measured[::-1] * 5,
    )


@pytest.mark.parametrize("algorithm", ["sheaf_dmfl_att", "dsgd"])
def test_held_out_rows_reach_neither_the_normalization_nor_the_training(
    algorithm: str, tiny: Scenario, clients: list[ClientData]
) -> None:
    scenario = tiny.edited({"algorithm": algorithm})
    before = trained(scenario, clients)
    after = trained(scenario, [replace(client, test=spoilt(client.test)) for client in clients])
    assert [name for name, value in before.items() if not torch.equal(value, after[name])] == []


def test_training_rows_do_reach_them(tiny: Scenario, clients: list[ClientData]) -> None:
    """The negative control of the test above."""
    before = trained(tiny, clients)
    after = trained(tiny, [replace(client, train=spoilt(client.train)) for client in clients])
    unmoved = [name for name, value in before.items() if torch.equal(value, after[name])]
    assert [name for name in unmoved if "scoring" not in name] == []  # with one modality there is nothing to weigh


def test_measured_rows_become_clients_through_the_same_windows(tmp_path: Path, tiny: Scenario) -> None:
    write_measurements(tmp_path)
    edits = {"data.source": "deepsense", "data.root": str(tmp_path), "data.scenarios": [1], "clients.n_clients": 2}
    loaded = load_data(tiny.edited(edits))
    clients = loaded.clients
    assert loaded.recordings == ()
    assert {client.recording for client in clients} == {"deepsense1"}
    assert loaded.positions == {"deepsense1": "raw"}
    with pytest.raises(DataError, match="no file scenario1_unit2_loc_cal"):
        load_data(tiny.edited({**edits, "data.positions": "calibrated"}))
    assert sum(len(client.train) + len(client.test) for client in clients) == 6 * (10 - tiny.data.window)
    assert clients[0].train.input_shapes["rf"] == (4, 8)


def test_rows_that_are_left_out_are_said(tmp_path: Path, tiny: Scenario) -> None:
    write_measurements(tmp_path)
    broken(tmp_path, "nan")
    edits = {"data.source": "deepsense", "data.root": str(tmp_path), "data.scenarios": [1], "clients.n_clients": 2}
    said: list[str] = []
    loaded = load_data(tiny.edited(edits), note=said.append)
    why = "a beam that was not measured (NaN)"
    assert loaded.dropped == {"deepsense1": {why: 1}}
    assert said == [f"deepsense1: 1 rows are left out ({why}: 1); data.strict = true refuses them"]
    n_rows = sum(len(client.train) + len(client.test) for client in loaded.clients)
    assert n_rows == 6 * (10 - tiny.data.window) - 1


def test_labels_dealt_anew_are_the_same_labels_in_another_order_and_held_out_ones_stay(
    tiny: Scenario, clients: list[ClientData]
) -> None:
    dealt = load_data(tiny.edited({"data.shuffled_labels": True})).clients
    for own, other in zip(clients, dealt, strict=True):
        assert (own.train.label != other.train.label).any()
        np.testing.assert_array_equal(np.sort(own.train.label), np.sort(other.train.label))
        np.testing.assert_array_equal(own.test.label, other.test.label)
        for modality, inputs in own.train.inputs().items():
            np.testing.assert_array_equal(other.train.inputs()[modality], inputs)


def test_positions_along_the_arrays_of_measured_sites_need_no_rewritten_files(tmp_path: Path, tiny: Scenario) -> None:
    write_measurements(tmp_path)
    rows: dict[str, Any] = {"data.source": "deepsense", "data.root": str(tmp_path), "data.scenarios": [1]}
    rows["clients.n_clients"] = 2
    turned = {"data.headings_deg": [90.0], "data.position_axes": "array", "data.codebook_order": "counterclockwise"}
    plain, east = (load_data(tiny.edited({**rows, **more})).clients for more in ({}, turned))
    for own, other in zip(plain, east, strict=True):
        n_beams = own.test.n_beams
        # every eighth of 64 beams: the leftmost is number 63 of an array that counts the other way round
        assert (own.test.numbering == other.test.numbering).all()
        assert other.test.powers.shape == own.test.powers.shape == (len(own.test), n_beams)
        if "gps" in own.test.modalities:
            expected = own.test.inputs()["gps"][..., ::-1] * [-1, 1]
            np.testing.assert_allclose(other.test.inputs()["gps"], expected, atol=1e-4)


def test_the_home_folder_may_be_written_as_a_tilde(
    tmp_path: Path, tiny: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_measurements(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    edits = {"data.source": "deepsense", "data.root": "~", "data.scenarios": [1], "clients.n_clients": 2}
    assert len(load_data(tiny.edited(edits)).clients) == 2


def test_recordings_at_home_are_found_too(tmp_path: Path, crossing: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    scenario = crossing.edited({"data.source": "recording", "data.recordings": ["~/streets.h5"]})
    assert recording_paths(scenario) == (tmp_path / "streets.h5",)


def broken(root: Path, how: str) -> None:
    powers = root / f"scenario1_unit1_pwr_60ghz_1-{N_MEASURED_ROWS}.npy"
    if how == "missing":
        powers.unlink()
    elif how == "truncated":
        powers.write_bytes(powers.read_bytes()[:-100])
    elif how == "nan":
        values = np.load(powers)
        values[13, 5] = np.nan
        np.save(powers, values)


@pytest.mark.parametrize(
    ("how", "fragments"),
    [
        ("missing", ("scenario1_unit1_pwr_60ghz", "check data.root and data.scenarios")),
        ("truncated", ("scenario1_unit1_pwr_60ghz", "cannot be read as .npy", "fetch the file again")),
        ("nan", ("scenario1_unit1_pwr_60ghz", "NaN", "first in row 13", "set data.strict = false")),
    ],
)
def test_a_bad_measurement_file_is_named(how: str, fragments: tuple[str, ...], tmp_path: Path, tiny: Scenario) -> None:
    write_measurements(tmp_path)
    broken(tmp_path, how)
    rows = {"data.source": "deepsense", "data.root": str(tmp_path), "data.scenarios": [1], "data.strict": True}
    scenario = tiny.edited(rows)
    with pytest.raises(DataError) as caught:
        load_data(scenario)
    assert [fragment for fragment in fragments if fragment not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


def test_a_folder_that_may_not_be_read_is_a_sentence(
    tmp_path: Path, tiny: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    scenario = tiny.edited({"data.source": "deepsense", "data.root": str(tmp_path), "data.scenarios": [1]})
    with pytest.raises(DataError, match=r"data\.root = .* cannot be read .*Permission denied.*permissions"):
        load_data(scenario)


@pytest.mark.parametrize(
    ("edits", "fragments"),
    [
        ({"clients.n_clients": 9}, ("recording 0 has 15 sequences", "n_clients = 9", "at most 7")),
        ({"data.window": 5000}, ("street", "drive-bys, the longest of", "5001 are needed", "shorten data.window")),
        ({"data.split": "time", "data.gap_frames": 3}, ("data.gap_frames must be 0 or at least 4", "got 3")),
    ],
)
def test_too_little_data_for_the_clients_is_a_sentence(
    edits: Mapping[str, Any], fragments: tuple[str, ...], tiny: Scenario
) -> None:
    with pytest.raises((ConfigError, DataError)) as caught:
        load_data(tiny.edited(edits))
    assert [fragment for fragment in fragments if fragment not in str(caught.value)] == []


def test_a_recording_with_more_base_stations_than_clients_is_a_sentence(crossing: Scenario, tmp_path: Path) -> None:
    record_world(crossing.recorded_world, 0, tmp_path / "two.h5")
    edits = {"data.source": "recording", "data.recordings": [str(tmp_path / "two.h5")], "clients.n_clients": 1}
    with pytest.raises(ConfigError, match="got 1 clients for 2 recordings; use more clients or fewer recordings"):
        load_data(crossing.edited(edits))
