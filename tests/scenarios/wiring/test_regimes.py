"""Clients whose tasks are related and not equal: beams in other orders, codebooks and horizons of other sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from integration.played import parts_of
from integration.tiny import Walk, tiny, walk, wired
from numpy.testing import assert_array_equal
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.datasets.windows.sensed_frames import SensedFrames
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.head import HeadLayout, chosen_outputs
from sheafedge.models.sheaf.vector_coupling import VectorCoupling
from sheafedge.scenarios.running.run import run_scenario
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring.client import Client
from sheafedge.scenarios.wiring.data import ClientData, load_data
from sheafedge.scenarios.wiring.members import kept_frames, members_of

#: Outputs of tasks about sensors follow from the settings, whatever the samples.
ANY: Any = None
ORDERS = ("mirrored", "rotated", "permuted")
#: float64 after a few rounds of plain SGD; the softmax adds up its terms in another order.
ROUNDING = 1e-10
#: Far above every rounding, in the same numbers.
DIFFERENT = 1e-4

DRONES: dict[str, Any] = {
    "rounds": 3,
    "evaluate_every": 3,
    "world.n_sites": 4,
    "world.duration_s": 120,
    "world.sky.min_flight_s": 10,
    "world.sky.max_flight_s": 20,
    "clients.n_clients": 4,
    "clients.groups": [{"name": "gps", "modalities": ["gps"], "share": 1.0}],
    "topology.kind": "complete",
    "data.n_beams": 16,
    "training.local_steps": 2,
    "training.batch_size": 8,
    "training.encoder_optimizer": "sgd",
    "model.width": 0.125,
    "model.embedding_dim": 4,
    "model.hidden_dim": 6,
    "network.transport": "memory",
    "compute.device": "cpu",
    "compute.executor": "serial",
    "export.onnx": False,
    "export.pictures": 0,
    "export.report": False,
}
#: Every client can tell its beams apart as finely as its array allows.
SIZES: list[dict[str, Any]] = [
    {"name": "coarse", "modalities": ["gps"], "share": 0.5, "n_beams": 8},
    {"name": "fine", "modalities": ["gps", "camera"], "share": 0.25},
    {"name": "finest", "modalities": ["gps"], "share": 0.25, "n_beams": 32},
]


def drones(edits: Mapping[str, Any] | None = None) -> Scenario:
    return load_scenario("drone_beam").edited({**DRONES, **(edits or {})})


def model_of(client: Client) -> Any:
    return client.models["fused"]


def heads(walked: Walk) -> list[torch.Tensor]:
    """Of all clients, after the last round."""
    return [walked.states[-1][client.client_id]["head"] for client in walked.emulation.clients]


# How beams are numbered.


def numberings(order: str, n_clients: int = 7, seed: int = 0) -> list[list[int]]:
    scenario = drones({"data.beam_order": order, "clients.n_clients": n_clients, "world.n_sites": 2, "seed": seed})
    return [member.numbering.tolist() for member in members_of(scenario)]


def test_half_of_the_arrays_hang_upside_down_and_the_seed_says_which() -> None:
    designed, mirrored = list(range(16)), list(range(15, -1, -1))
    for n_clients in (1, 2, 7, 20):
        found = numberings("mirrored", n_clients)
        assert found.count(mirrored) == n_clients // 2
        assert found.count(designed) == n_clients - n_clients // 2
    assert numberings("mirrored", 20) != numberings("mirrored", 20, seed=1)


def test_a_rotated_codebook_begins_at_any_beam_and_goes_round() -> None:
    found = numberings("rotated", 200)
    assert all(numbering == [(numbering[0] + k) % 16 for k in range(16)] for numbering in found)
    assert {numbering[0] for numbering in found} == set(range(16))


def test_a_permuted_codebook_is_in_an_order_of_its_own() -> None:
    found = numberings("permuted", 20)
    assert all(sorted(numbering) == list(range(16)) for numbering in found)
    assert len({tuple(numbering) for numbering in found}) == 20


@pytest.mark.parametrize("order", ["rotated", "permuted"])
def test_more_clients_leave_the_numbers_of_the_first_alone(order: str) -> None:
    assert numberings(order, 20)[:7] == numberings(order, 7)


def test_outputs_are_known_by_their_beam_of_the_whole_codebook() -> None:
    for member in members_of(drones({"clients.groups": SIZES, "data.beam_order": "permuted"})):
        step = 64 // member.data.n_beams
        outputs = member.outputs(ANY)
        assert list(outputs) == (step * member.numbering).tolist()
        assert sorted(outputs) == list(range(0, 64, step))
    (warning, *_) = members_of(load_scenario("blockage"))
    assert warning.outputs(ANY) == (0,)


# The same samples in other numbers, wherever they come from.


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows as DeepSense has them, made up: eight drive-bys of ten rows."""
    root, draws = tmp_path_factory.mktemp("rows"), np.random.default_rng(3)
    base_deg = np.tile([33.42, -111.93], (80, 1))
    columns = {
        "seq_index": np.repeat(np.arange(8), 10).astype(float),
        "unit1_loc": base_deg,
        "unit2_loc": base_deg + draws.normal(scale=1e-4, size=(80, 2)),
        "unit1_pwr_60ghz": draws.uniform(0.1, 0.5, size=(80, 64)),
    }
    for field, values in columns.items():
        np.save(root / f"scenario1_{field}_1-80.npy", values)
    return root


def sources(gathered: Path) -> dict[str, Scenario]:
    rows = {"data.source": "deepsense", "data.root": str(gathered), "data.scenarios": [1]}
    return {
        "cars": tiny(),
        "gathered rows": tiny({**rows, "clients.n_clients": 4, "data.window": 2}),
        "drones": drones({"clients.groups": SIZES}),
    }


def assert_only_numbers_differ(own: Any, designed: Any, numbering: np.ndarray) -> None:
    assert_array_equal(own.end, designed.end)
    assert_array_equal(numbering[own.label], designed.label)
    assert_array_equal(own.powers, designed.powers[:, numbering])
    for modality, rows in designed.inputs().items():
        assert_array_equal(own.inputs()[modality], rows[..., numbering] if modality == "rf" else rows)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("source", ["cars", "gathered rows", "drones"])
def test_an_order_of_beams_moves_nothing_else(source: str, order: str, gathered: Path) -> None:
    """Who owns which rows, and every value, are as before; what must be beaten is not easier to beat."""
    scenario = sources(gathered)[source]
    ordered = scenario.edited({"data.beam_order": order})
    before, after = load_data(scenario).clients, load_data(ordered).clients
    members = members_of(ordered)
    assert any((member.numbering != np.arange(len(member.numbering))).any() for member in members)
    for member, designed, own in zip(members, before, after, strict=True):
        assert own.recording == designed.recording
        assert_only_numbers_differ(own.train, designed.train, member.numbering)
        assert_only_numbers_differ(own.test, designed.test, member.numbering)
        baselines = [scenario.task_spec.baselines(data.train, data.test) for data in (designed, own)]
        assert baselines[0] == baselines[1]


def test_live_base_stations_number_what_they_sense_as_what_they_are_scored_on() -> None:
    live = {"data.mode": "live", "data.split": "time", "data.stride": 1, "live.warm_up_s": 20}
    scenario = drones({**live, "data.beam_order": "permuted", "world.duration_s": 60})
    designed = load_data(scenario.edited({"data.beam_order": "same"})).clients
    for member, own, before in zip(members_of(scenario), load_data(scenario).clients, designed, strict=True):
        assert len(own.train.label) > 0
        assert_array_equal(member.numbering[own.train.label], before.train.label)
        assert_array_equal(member.numbering[own.test.label], before.test.label)


def test_alone_a_base_station_learns_the_same_in_any_order() -> None:
    """Starting from a head whose rows are in its order; only rounding tells the runs apart."""
    alone = {"algorithm": "local", "sheaf.map_start": "aligned"}
    plain, ordered = (
        walk(drones({**alone, "data.beam_order": order}), torch.float64) for order in ("same", "permuted")
    )
    assert largest_difference(ordered, plain) < ROUNDING


# Maps and heads that know what outputs are about.


def largest_difference(ordered: Walk, plain: Walk) -> float:
    """Between the heads of two runs, output by output of the same beam."""
    found = []
    for client, own, designed in zip(ordered.emulation.clients, heads(ordered), heads(plain), strict=True):
        outputs = plain.emulation.clients[client.client_id].outputs
        numbers = [outputs.index(output) for output in client.outputs]
        found.append(float((own - chosen_outputs(designed, model_of(client).layout, numbers)).abs().max()))
    return max(found)


@pytest.fixture(scope="module")
def plain() -> Walk:
    """A run of base stations that all number their beams alike; tests only read it."""
    return walk(drones({"data.beam_order": "same"}), torch.float64)


@pytest.mark.parametrize("order", ORDERS)
def test_with_aligned_maps_orders_of_beams_cost_nothing(order: str, plain: Walk) -> None:
    """The whole run is the one of base stations that agree on their numbers, heads in other orders."""
    aligned = walk(drones({"data.beam_order": order, "sheaf.map_start": "aligned"}), torch.float64)
    assert largest_difference(aligned, plain) < ROUNDING


@pytest.mark.parametrize("order", ORDERS)
def test_maps_matched_by_number_pull_beams_at_other_beams(order: str, plain: Walk) -> None:
    """Negative control: the coupling then makes a difference, and so does the head that all start from."""
    structured = walk(drones({"data.beam_order": order, "sheaf.map_start": "structured"}), torch.float64)
    assert largest_difference(structured, plain) > DIFFERENT


def test_where_all_number_alike_aligned_runs_are_structured_runs_bit_for_bit() -> None:
    for scenario in (drones(), tiny(), tiny({"algorithm": "sheaf_dmfl", "data.n_beams": 64})):
        structured, aligned = (walk(scenario.edited({"sheaf.map_start": kind})) for kind in ("structured", "aligned"))
        assert structured.trace_hash == aligned.trace_hash


def residuals(scenario: Scenario) -> list[float]:
    """Largest |P_ij w_i - P_ji w_j| of every edge before the first round, relative to |P_ij w_i|."""
    built = wired(scenario, torch.float64)
    images: dict[tuple[int, int], torch.Tensor] = {}
    for client, learner in zip(built.emulation.clients, built.emulation.learners, strict=True):
        (coupling,) = parts_of(learner, VectorCoupling)
        maps = coupling.maps
        stacked = maps.project(model_of(client).head.detach())
        images |= {(client.client_id, peer): stacked[rows] for peer, rows in maps.rows.items()}
    built.emulation.close()
    return [
        float((images[i, j] - images[j, i]).abs().max() / images[i, j].abs().max())
        for i, j in built.emulation.graph.edges
    ]


@pytest.mark.parametrize("compression", [0.2, 1.0])
@pytest.mark.parametrize("order", ["same", *ORDERS])
def test_aligned_base_stations_start_in_agreement_whatever_their_orders_and_sizes(
    order: str, compression: float
) -> None:
    edits = {"clients.groups": SIZES, "data.beam_order": order, "sheaf.compression": compression}
    assert max(residuals(drones({**edits, "sheaf.map_start": "aligned"}))) == 0.0
    assert max(residuals(drones({**edits, "sheaf.map_start": "structured"}))) > 0.5  # negative control


def test_a_common_head_is_common_by_beam_and_a_base_station_with_all_beams_has_it_as_ever() -> None:
    structured, aligned = (
        wired(drones({"clients.groups": SIZES, "sheaf.map_start": kind})).emulation
        for kind in ("structured", "aligned")
    )
    whole = next(client for client in aligned.clients if client.group == "finest")
    for client, before in zip(aligned.clients, structured.clients, strict=True):
        layout = HeadLayout(len(whole.outputs), model_of(whole).layout.blocks)
        numbers = [whole.outputs.index(output) for output in client.outputs]
        assert torch.equal(model_of(client).head, chosen_outputs(model_of(whole).head.detach(), layout, numbers))
        if client.group == "finest":
            assert torch.equal(model_of(client).head, model_of(before).head)
    for emulation in (structured, aligned):
        emulation.close()


# Groups that are asked differently.


@pytest.mark.slow
def test_groups_with_codebooks_of_their_own_train_together_and_are_handed_out(tmp_path: Path) -> None:
    positions = [{**group, "modalities": ["gps"]} for group in SIZES]  # images take seconds to trace
    edits = {"clients.groups": positions, "data.beam_order": "mirrored", "sheaf.map_start": "aligned"}
    scenario = drones({**edits, "export.onnx": True})
    result = run_scenario(scenario, tmp_path / "run")
    summary = result.summary
    assert summary["traffic"]["messages"] > 0
    n_beams = {"coarse": 8, "fine": 16, "finest": 32}
    for group in n_beams:
        for scores in (summary["groups"][group], *summary["baselines"][group].values()):
            assert 0.0 <= scores["top1"] <= scores["top3"] <= 1.0
            assert np.isfinite(scores["power_loss_db"])
    clients = load_data(scenario).clients
    for row, client, member in zip(summary["exports"], clients, members_of(scenario), strict=True):
        session = OnnxSession(result.folder / row["path"])
        answer = session.run({str(name): rows for name, rows in client.test.inputs(slice(0, 3)).items()})
        assert answer.shape == (3, n_beams[member.group])
        assert json.loads(session.metadata["labels"]) == [f"beam {k}" for k in range(n_beams[member.group])]
        assert f"[batch, {n_beams[member.group]}]" in session.metadata["output"]
        assert "numbers that this base station gives" in session.metadata["output"]


@pytest.mark.parametrize(
    "edits",
    [
        {"sheaf.map_start": "structured"},
        {"sheaf.map_start": "random", "sheaf.compression": 0.3},
        {"algorithm": "sheaf_dmfl", "sheaf.map_start": "aligned"},
        {"algorithm": "dsgd"},
        {"data.beam_order": "rotated", "sheaf.map_start": "aligned", "sheaf.map_storage": "dense"},
    ],
)
def test_heads_of_different_size_train_together(edits: dict[str, Any]) -> None:
    """Encoders are averaged across them; stalks are as large as the smaller head at most."""
    walked = walk(drones({"clients.groups": SIZES, **edits}))
    for losses in walked.losses:
        assert np.isfinite(list(losses.values())).all()
    assert walked.emulation.recorder.traffic.messages > 0
    for client in walked.emulation.clients:
        n_beams = {"coarse": 8, "fine": 16, "finest": 32}[client.group]
        assert all(model.layout.n_outputs == n_beams == client.data.test.n_beams for model in client.models.values())  # type: ignore[attr-defined]


def warned(horizons: Mapping[str, int]) -> list[ClientData]:
    groups = [
        {"name": name, "modalities": ["rf"], "share": 1 / len(horizons), "horizon": horizon}
        for name, horizon in horizons.items()
    ]
    edits = {"clients.groups": groups, "clients.n_clients": 4, "world.n_sites": 2, "world.duration_s": 90}
    return load_data(load_scenario("blockage").edited({**edits, "topology.kind": "complete"})).clients


def test_groups_may_look_ahead_differently_far() -> None:
    scenario_clients = warned({"soon": 1, "late": 8})
    found = sorted(client.test.n_after for client in scenario_clients)
    assert found == [1, 1, 8, 8]
    assert all(client.train.n_after == client.test.n_after for client in scenario_clients)  # type: ignore[union-attr]


def test_a_longer_look_ahead_is_another_question() -> None:
    """Negative control: more windows end in a blockage the farther ahead one looks."""
    shares = [np.mean([client.test.label.mean() for client in warned({"all": horizon})]) for horizon in (1, 8)]
    assert shares[0] < shares[1]


def test_samples_of_a_member_are_those_of_its_group() -> None:
    scenario = drones({"clients.groups": SIZES, "data.beam_order": "rotated"})
    member = members_of(scenario)[0]
    with RecordingReader(*load_data(scenario).recordings) as reader:
        sensed = SensedFrames.of(reader.base_stations[0], **kept_frames(scenario.task_spec, [member.modalities]))
    samples: Any = member.samples(sensed)
    plain: Any = replace(member, data=member.data.model_copy(update={"beam_order": "same"})).samples(sensed)
    assert samples.n_beams == member.data.n_beams
    assert_array_equal(member.numbering[samples.label], plain.label)
