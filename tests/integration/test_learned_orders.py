"""Orders of beams that nobody tells: found, voted on and listened for by clients as a scenario wires them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from doubles.hand_played import play_phase, play_round
from integration.tiny import Walk, rows_of, tiny, walk, wired
from sheafedge.datasets.windows.beam_frames import FoundOrder, found_order
from sheafedge.datasets.windows.sensor_windows import BeamWindows
from sheafedge.emulator.contracts import Message, MessageKind, NodeId
from sheafedge.models.encoders.ordered_beams import OrderedBeams
from sheafedge.models.joint.prediction_turn import predict
from sheafedge.models.sharing.sign_vote import STEPS, Said, Step
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario
from sheafedge.scenarios.wiring import beam_orders
from sheafedge.scenarios.wiring.beam_orders import found_orders
from sheafedge.scenarios.wiring.data import ClientData
from sheafedge.scenarios.wiring.emulation import build, emulate
from sheafedge.scenarios.wiring.members import members_of

LEARNED: dict[str, Any] = {
    "algorithm": "sheaf_diffusion",
    "data.beam_order": "permuted",
    "sheaf.map_start": "learned",
    "sheaf.compression": 1.0,
    "sheaf.listen_rounds": 2,
    "rounds": 4,
    "model.embedding_dim": 16,
    "model.hidden_dim": 16,
}
GPS_ALONE: dict[str, Any] = {"clients.groups": [{"name": "gps", "modalities": ["gps"], "share": 1.0}]}
N_BEAMS = 8


def parts(walked: Walk, client: NodeId) -> Any:
    """Orientation and listening of a client."""
    learner: Any = walked.emulation.learners[client]
    return learner.parts["orientation"], learner.parts["listening"]


def turned(walked: Walk) -> list[bool]:
    return [parts(walked, client.client_id)[0].frame.turned for client in walked.emulation.clients]


def is_true_direction(scenario: Scenario, walked: Walk) -> list[bool]:
    """Whether places rise with the numbers of the codebook, which only the test knows."""
    found = []
    for member, client, is_turned in zip(members_of(scenario), walked.emulation.clients, turned(walked), strict=True):
        places = np.array(client.outputs)
        found.append(bool((np.corrcoef(places, member.numbering)[0, 1] > 0.0) != is_turned))
    return found


def told(scenario: Scenario, monkeypatch: pytest.MonkeyPatch, mirrored: tuple[NodeId, ...] = ()) -> None:
    """Have clients find the orders that they would be told, some of them from the other end."""
    orders = []
    for member in members_of(scenario):
        order = np.argsort(member.numbering)
        orders.append(FoundOrder(order[::-1].copy() if member.client_id in mirrored else order, 1.0))
    found = iter(orders)
    monkeypatch.setattr(beam_orders, "found_order", lambda _: next(found))


def test_clients_agree_on_directions_that_nobody_told_them() -> None:
    """Places agree along edges where a position tells the direction; by chance half of the codebooks would not."""
    scenario = tiny({**LEARNED, "clients.n_clients": 9, "rounds": 1})
    walked = walk(scenario)
    directions = is_true_direction(scenario, walked)
    tells = [directions[c.client_id] for c in walked.emulation.clients if "gps" in c.modalities]
    assert len(tells) >= 5
    assert len(set(tells)) == 1
    assert len(set(turned(walked))) == 2  # there was something to agree on


def test_told_orders_through_the_learned_door_are_aligned_maps_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without sweeps as inputs, which told maps leave in the client's own numbers."""
    scenario = tiny({**LEARNED, **GPS_ALONE})
    told(scenario, monkeypatch)
    learned = walk(scenario)
    aligned = walk(scenario.edited({"sheaf.map_start": "aligned"}))
    assert not any(turned(learned))
    for one, other in zip(learned.states, aligned.states, strict=True):
        for client, state in one.items():
            assert all(torch.equal(values, other[client][name]) for name, values in state.items())
    # the pair: heads that are compared by number end elsewhere
    by_number = walk(scenario.edited({"sheaf.map_start": "structured"}))
    assert not torch.equal(learned.states[-1][0]["head"], by_number.states[-1][0]["head"])


def test_all_codebooks_upside_down_are_the_same_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gauge: the vote compares neighbors, so that turning everybody's order turns nobody's answer."""
    scenario = tiny({**LEARNED, **GPS_ALONE, "rounds": 1})
    everybody = tuple(range(scenario.clients.n_clients))
    answers = []
    for mirrored in ((), everybody, everybody[2:4]):
        told(scenario, monkeypatch, mirrored)
        answers.append(walk(scenario))
    straight, upside_down, some = answers
    assert turned(upside_down) == turned(straight)
    margins = [[parts(one, i)[0].vote.margin for i in everybody] for one in answers]
    assert margins[1] == pytest.approx(margins[0], rel=1e-5)
    # the pair: only those that hang the other way turn
    assert [a != b for a, b in zip(turned(some), turned(straight), strict=True)] == [i in (2, 3) for i in everybody]


def test_whose_labels_go_with_nothing_exchanges_no_heads() -> None:
    """Negative control: with labels dealt anew nobody votes, and encoders alone are averaged."""
    walked = wired(tiny({**LEARNED, "data.shuffled_labels": True}))
    sent = play_round(walked)
    voting = [client.client_id for client in walked.emulation.clients if parts(walked, client.client_id)[0].votes]
    assert len(voting) <= 1  # one shuffle in a hundred seems clear
    heads = [message for message in sent if message.kind is MessageKind.PROJECTION]
    assert {message.sender for message in heads} <= {*voting}
    assert any(message.kind is MessageKind.ENCODER for message in sent)
    clear = wired(tiny(LEARNED))
    assert sum(parts(clear, i)[0].votes for i in range(5)) == 0
    play_round(clear)
    assert all(parts(clear, i)[0].votes for i in range(5))


def test_an_order_that_is_not_trusted_leaves_a_client_with_averaged_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = iter(range(5))

    def found(powers: Any) -> FoundOrder:
        return replace(found_order(powers), agreement=0.5 if next(orders) == 0 else 1.0)

    monkeypatch.setattr(beam_orders, "found_order", found)
    walked = wired(tiny({**LEARNED, "sheaf.listen_rounds": 0}))
    sent = [message for index in range(2) for message in play_round(walked, index)]
    heads = {(m.sender, m.receiver) for m in sent if m.kind is MessageKind.PROJECTION}
    assert heads
    assert all(0 not in ends for ends in heads)
    assert any(m.sender == 0 for m in sent if m.kind is MessageKind.ENCODER)
    first = walked.emulation.clients[0]
    assert first.outputs == tuple(range(N_BEAMS))
    assert not any(isinstance(one, OrderedBeams) for one in first.models["fused"].normalizers.values())


def test_before_the_first_training_nothing_crosses_but_orientation() -> None:
    """One vector per modality that both ends own, then two numbers per step; orders never cross."""
    walked = wired(tiny(LEARNED))
    names = [phase.name for phase in walked.emulation.learners[0].phases(0)]
    assert names == ["orient", *(f"orient {number}" for number in range(1, len(STEPS) + 1)), "mix"]
    owned = {client.client_id: {*client.modalities} for client in walked.emulation.clients}
    for name in names[:-1]:
        for message in play_phase(walked, name):
            assert message.kind is MessageKind.ORIENTATION
            shared = len(owned[message.sender] & owned[message.receiver])
            assert len(message.payload) == (1 + 16 * shared if name == "orient" else 2)
    assert [phase.name for phase in walked.emulation.learners[0].phases(1)] == ["mix"]
    # where orders are told, the wire refuses such messages
    assert MessageKind.ORIENTATION in tiny(LEARNED).algorithm_spec.kinds
    assert MessageKind.ORIENTATION not in tiny({**LEARNED, "sheaf.map_start": "aligned"}).algorithm_spec.kinds


def test_orders_are_found_in_training_rows_alone() -> None:
    scenario = tiny(LEARNED)
    rows = rows_of(scenario)
    hidden = []
    for client in rows:
        assert isinstance(client.train, BeamWindows)
        measured = np.full_like(client.train.measured, np.nan)
        measured[client.train.end] = client.train.measured[client.train.end]
        hidden.append(replace(client, train=replace(client.train, measured=measured)))
    for one, other in zip(found_orders(scenario, rows), found_orders(scenario, hidden), strict=True):
        assert one is not None
        assert other is not None
        assert np.array_equal(one.order, other.order)


def test_listeners_send_and_train_nothing_and_are_not_waited_for() -> None:
    walked = wired(tiny(LEARNED))
    learners: Any = walked.emulation.learners
    listeners = {c.client_id for c in walked.emulation.clients if c.modalities == ("rf",)}
    assert listeners
    for index in range(4):
        if index == 0:
            for phase in learners[0].phases(0)[:-1]:
                play_phase(walked, phase.name)
            listeners |= {i for i in range(5) if parts(walked, i)[0].vote.listens}
            assert len(listeners) < 5
        sent: list[Message] = [m for learner in learners for m in learner.compute("mix", index)]
        wanted = {(slot.sender, i) for i in range(5) for slot in learners[i].expected("mix", index)}
        senders = {message.sender for message in sent}
        assert wanted == {(message.sender, message.receiver) for message in sent}
        assert senders == ({*range(5)} - listeners if index < 2 else {*range(5)})
        losses = {i: learners[i].health()["loss"] for i in listeners}
        assert all(np.isnan(loss) == (index < 2) for loss in losses.values())
        assert all((parts(walked, i)[1].turned is not None) == (index >= 2) for i in listeners)
        for i in range(5):
            mine = sorted((m for m in sent if m.receiver == i), key=lambda m: (m.sender, m.kind, m.modality or ""))
            learners[i].absorb("mix", index, mine)


ONE_LISTENS: dict[str, Any] = {
    "clients.n_clients": 6,
    "clients.groups": [
        {"name": "rf", "modalities": ["rf"], "share": 0.17},
        {"name": "both", "modalities": ["rf", "gps"], "share": 0.83},
    ],
    "topology.kind": "complete",
    "training.local_steps": 10,
    "rounds": 9,
    "sheaf.listen_rounds": 8,
}


def on_one_side(rows: ClientData) -> ClientData:
    """Rows of users that never leave the first half of the codebook: such a street is not its own mirror image."""
    train = rows.train
    assert isinstance(train, BeamWindows)
    return replace(rows, train=train.take(np.flatnonzero(train.numbering[train.label] < N_BEAMS // 2)))


@pytest.mark.parametrize("is_mirrored", [False, True])
def test_who_listened_ends_with_the_direction_of_its_neighbors(
    is_mirrored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever way its order came out of its sweeps: the one that is upside down turns, the other one does not."""
    scenario = tiny({**LEARNED, **ONE_LISTENS})
    (listener,) = (member.client_id for member in members_of(scenario) if member.modalities == ("rf",))
    told(scenario, monkeypatch, (listener,) if is_mirrored else ())
    data = [on_one_side(rows) for rows in rows_of(scenario)]
    walked = Walk(build(scenario, data, lambda *_: {}, lambda *_: None), [], [])
    orientation, listening = parts(walked, listener)
    hear = orientation.vote.hear

    def in_vain(step: Step, said: Mapping[NodeId, Said]) -> None:
        hear(step, said)
        orientation.vote.sign = 1.0  # the vote cannot know: here it leaves the order as it was found

    monkeypatch.setattr(orientation.vote, "hear", in_vain)
    emulate(walked.emulation, scenario.rounds)
    walked.emulation.close()
    assert orientation.vote.listens
    assert listening.turned == is_mirrored
    assert len(set(is_true_direction(scenario, walked))) == 1


def test_a_listener_that_hears_nobody_stays_as_it_is() -> None:
    walked = wired(tiny({**LEARNED, **ONE_LISTENS, "sheaf.listen_rounds": 1}))
    learners: Any = walked.emulation.learners
    for phase in learners[0].phases(0)[:-1]:
        play_phase(walked, phase.name)
    (listener,) = (c.client_id for c in walked.emulation.clients if c.modalities == ("rf",))
    before = parts(walked, listener)[0].frame.turned
    learners[listener].compute("mix", 0)
    learners[listener].absorb("mix", 0, [])
    assert parts(walked, listener)[1].turned is False
    assert parts(walked, listener)[0].frame.turned == before


def test_the_copy_of_a_turned_model_reads_the_codebook_from_the_same_end() -> None:
    edits = {**LEARNED, "rounds": 3}
    tuned = walk(tiny({**edits, "algorithm": "diffused_and_tuned", "sharing.until": 2}))
    alone, before = walk(tiny({**edits, "sharing.until": 2})), walk(tiny({**edits, "rounds": 2}))
    assert any(turned(alone))
    for client, whole, then in zip(*(walked.emulation.clients for walked in (tuned, alone, before)), strict=True):
        assert client.pair is not None
        inputs = client.data.test.inputs(np.arange(5))
        np.testing.assert_array_equal(predict(client.pair.trained, inputs), predict(whole.models["fused"], inputs))
        np.testing.assert_array_equal(predict(client.pair.kept, inputs), predict(then.models["fused"], inputs))


TWO_SIZES: dict[str, Any] = {
    "clients.n_clients": 6,
    "clients.groups": [
        {"name": "gps", "modalities": ["gps"], "share": 0.5, "n_beams": 16},
        {"name": "both", "modalities": ["rf", "gps"], "share": 0.5, "n_beams": 8},
    ],
    "topology.kind": "complete",
}


@pytest.mark.parametrize("mirrored", [(), (0, 1, 2, 3, 4, 5)])
def test_codebooks_of_two_sizes_start_in_agreement_and_compare_the_smaller_one(
    mirrored: tuple[NodeId, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever end of the codebooks is called the first: nobody is told where the first beam of either points."""
    scenario = tiny({**LEARNED, **TWO_SIZES})
    told(scenario, monkeypatch, mirrored)
    walked = wired(scenario)
    clients, learners = walked.emulation.clients, walked.emulation.learners
    sizes = {client.client_id: len(client.outputs) for client in clients}
    assert {*sizes.values()} == {8, 16}
    images: dict[tuple[NodeId, NodeId], Any] = {}
    for client in clients:
        stalk = learners[client.client_id].stalk  # type: ignore[attr-defined]
        maps, seen = stalk.maps(), stalk.maps().project(stalk.vector())
        images |= {(client.client_id, neighbor): seen[rows] for neighbor, rows in maps.rows.items()}
    assert any(sizes[i] != sizes[j] for i, j in images)
    for (i, j), seen in images.items():
        assert len(seen) == min(sizes[i], sizes[j]) * 17
        assert torch.allclose(seen, images[j, i], atol=1e-6)


def test_learned_orders_mix_heads_of_two_sizes() -> None:
    """Clients vote, exchange heads across sizes, and end in one direction; their heads do not stay as they were."""
    scenario = tiny({**LEARNED, **TWO_SIZES})
    walked = walk(scenario)
    assert len(set(is_true_direction(scenario, walked))) == 1
    alone = walk(scenario.edited({"sheaf.diffusion": 1e-9}))
    for client in walked.emulation.clients:
        mixed, own = (one.states[-1][client.client_id]["head"] for one in (walked, alone))
        assert mixed.shape == own.shape
        assert not torch.allclose(mixed, own, atol=1e-3)


@pytest.fixture
def measured(data_folder: Callable[[str], Path]) -> Scenario:
    root = str(data_folder("deepsense"))
    edits = {"data.source": "deepsense", "data.root": root, "data.scenarios": [5], "clients.n_clients": 6}
    return load_scenario("beam_tracking").edited({**edits, "data.beam_order": "permuted"})


def test_measured_sweeps_tell_the_order_and_noise_hides_it(measured: Scenario) -> None:
    """Scenario 5 of DeepSense is found to the beam; with 3 dB of noise in every reading no order repeats."""
    draws = np.random.default_rng(0)
    for member, rows in zip(members_of(measured), rows_of(measured), strict=True):
        assert isinstance(rows.train, BeamWindows)
        clear = found_order(rows.train.powers)
        places = clear.places
        assert max(np.mean(places == member.numbering), np.mean(63 - places == member.numbering)) > 0.9
        noise = 10.0 ** (0.3 * draws.normal(size=rows.train.powers.shape))
        assert clear.is_trusted
        assert not found_order(rows.train.powers * noise).is_trusted
