"""What clients own: whole drive-bys, inputs that never hold the answer, statistics of training rows only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sheafedge.datasets.windows import Windows
from sheafedge.emulator.contracts import ConfigError, DataError, Learner
from sheafedge.scenarios.build import build
from sheafedge.scenarios.data import ClientData, input_descriptions, load_clients, load_recordings, model_inputs
from sheafedge.scenarios.run import emulate
from sheafedge.scenarios.schema import Scenario

N_MEASURED_ROWS = 60  # of a stand-in for measurements: six drive-bys of ten rows


@pytest.fixture(scope="module")
def clients(tiny: Scenario) -> list[ClientData]:
    return load_clients(tiny)


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


def test_every_input_has_the_shape_that_its_description_promises(tiny: Scenario, clients: list[ClientData]) -> None:
    described = input_descriptions(tiny.data)
    inputs = model_inputs(clients[0].train)
    assert set(inputs) == set(described) == {"gps", "rf"}
    for modality, values in inputs.items():
        assert values.shape[1:] == described[modality]["shape"]
        assert values.dtype == np.float32
        assert described[modality]["unit"]


def test_inputs_are_the_rows_that_they_claim_to_be(tiny: Scenario, clients: list[ClientData]) -> None:
    """Positions up to now, sweeps before now: the sweep of now holds the label."""
    (recording,) = load_recordings(tiny.data, tiny.seed)
    for client in clients:
        inputs, now = model_inputs(client.test), client.test.row
        for back in range(tiny.data.window):
            np.testing.assert_array_equal(
                inputs["gps"][:, -1 - back], recording.positions_m[now - back].astype(np.float32)
            )
            sweeps_db = 10 * np.log10(recording.powers[now - 1 - back])
            np.testing.assert_array_equal(inputs["rf"][:, -1 - back], sweeps_db.astype(np.float32))
        np.testing.assert_array_equal(client.test.label, recording.powers[now].argmax(axis=1))
        np.testing.assert_array_equal(client.test.previous_beam, recording.powers[now - 1].argmax(axis=1))


@pytest.mark.parametrize("edits", [{}, {"data.n_sites": 3, "clients.n_clients": 9}, {"data.train_fraction": 0.3}])
def test_no_drive_by_is_shared_between_clients_or_between_training_and_test(
    edits: Mapping[str, Any], tiny: Scenario
) -> None:
    found = owners(load_clients(tiny.edited(edits)))
    assert len(found) > 8
    assert [who for who in found.values() if len(who) > 1] == []


def test_the_random_split_shares_drive_bys_between_training_and_test_only(tiny: Scenario) -> None:
    """The negative control of the test above, and what the option is for."""
    found = owners(load_clients(tiny.edited({"data.split": "random"})))
    assert all(len({name.split()[-1] for name in who}) == 1 for who in found.values())
    assert sum(len(who) == 2 for who in found.values()) > len(found) / 2


def test_fewer_training_rows_leave_the_held_out_rows_as_they_were(tiny: Scenario) -> None:
    whole = tiny.edited({"data.road.n_passes": 40})
    thinned = load_clients(whole.edited({"data.train_fraction": 0.5}))
    for few, many in zip(thinned, load_clients(whole), strict=True):
        np.testing.assert_array_equal(few.test.row, many.test.row)
        assert set(few.train.row) < set(many.train.row)


def test_the_seed_decides_the_data(tiny: Scenario, clients: list[ClientData]) -> None:
    again, other = load_clients(tiny), load_clients(tiny.edited({"seed": 1}))
    np.testing.assert_array_equal(again[2].train.gps, clients[2].train.gps)
    assert not np.array_equal(other[2].train.gps[:5], clients[2].train.gps[:5])


def test_sites_differ_and_more_of_them_leave_the_first_as_it_was(tiny: Scenario) -> None:
    first, second = load_recordings(tiny.edited({"data.n_sites": 2}).data, 0)
    (alone,) = load_recordings(tiny.data, 0)
    np.testing.assert_array_equal(first.powers, alone.powers)
    assert first.name != second.name
    assert first.positions_m[:, 1].mean() != pytest.approx(second.positions_m[:, 1].mean(), abs=0.1)


def test_a_smaller_codebook_keeps_every_eighth_beam(tiny: Scenario) -> None:
    (all_beams,) = load_recordings(tiny.edited({"data.n_beams": 64}).data, 0)
    (few_beams,) = load_recordings(tiny.data, 0)
    np.testing.assert_array_equal(few_beams.powers, all_beams.powers[:, ::8])


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


def spoilt(windows: Windows) -> Windows:
    """Rows that nobody could mistake for the true ones."""
    return replace(
        windows,
        gps=windows.gps * 100 + 1000,
        rf=windows.rf * 3 - 77,
        label=(windows.label + 3) % windows.n_beams,
        powers=windows.powers[::-1] * 5,
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
    clients = load_clients(tiny.edited(edits))
    assert {client.recording for client in clients} == {"deepsense1"}
    assert sum(len(client.train) + len(client.test) for client in clients) == 6 * (10 - tiny.data.window)
    assert clients[0].train.rf.shape[1:] == (4, 8)


def test_the_home_folder_may_be_written_as_a_tilde(
    tmp_path: Path, tiny: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_measurements(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    data = tiny.edited({"data.source": "deepsense", "data.root": "~", "data.scenarios": [1]}).data
    assert load_recordings(data, 0)[0].n_rows == N_MEASURED_ROWS


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
        ("nan", ("scenario1_unit1_pwr_60ghz", "NaN", "first in row 13", "leave these rows out")),
    ],
)
def test_a_bad_measurement_file_is_named(how: str, fragments: tuple[str, ...], tmp_path: Path, tiny: Scenario) -> None:
    write_measurements(tmp_path)
    broken(tmp_path, how)
    scenario = tiny.edited({"data.source": "deepsense", "data.root": str(tmp_path), "data.scenarios": [1]})
    with pytest.raises(DataError) as caught:
        load_clients(scenario)
    assert [fragment for fragment in fragments if fragment not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


def test_a_folder_that_may_not_be_read_is_a_sentence(
    tmp_path: Path, tiny: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", refuse)
    data = tiny.edited({"data.source": "deepsense", "data.root": str(tmp_path), "data.scenarios": [1]}).data
    with pytest.raises(DataError, match=r"data\.root = .* cannot be read .*Permission denied.*permissions"):
        load_recordings(data, 0)


@pytest.mark.parametrize(
    ("edits", "fragments"),
    [
        ({"clients.n_clients": 9}, ("recording 0 has 16 drive-bys", "n_clients = 9", "at most 8")),
        ({"data.n_sites": 5}, ("n_clients", "4 clients for 5 recordings", "more clients or fewer recordings")),
        ({"data.window": 8}, ("recording road0", "data.window = 8", "at most 7")),
    ],
)
def test_too_little_data_for_the_clients_is_a_sentence(
    edits: Mapping[str, Any], fragments: tuple[str, ...], tiny: Scenario
) -> None:
    with pytest.raises((ConfigError, DataError)) as caught:
        load_clients(tiny.edited(edits))
    assert [fragment for fragment in fragments if fragment not in str(caught.value)] == []
