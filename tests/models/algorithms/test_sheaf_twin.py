"""The sheaf twin: what neighbors shape, what nobody else does, and which of the two a client trusts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from doubles.hand_played import Vectors, play_round, scattered, vectors_of
from integration.played import parts_of
from integration.tiny import Walk, tiny, wired
from numpy.testing import assert_array_equal
from sheafedge.datasets.windows.sensor_windows import BeamWindows
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.export.onnx_export import OnnxExporter
from sheafedge.models.training.training_rows import PartlyPrivateRows
from sheafedge.models.twin_model import SHARES
from sheafedge.scenarios.wiring.client import Client

RUNTIMES = 1e-4  # the project's promise for float32

TWIN: dict[str, Any] = {"algorithm": "sheaf_twin", "rounds": 6}


def private_of(client: Client) -> BeamWindows:
    assert isinstance(client.private, BeamWindows)
    return client.private


def own_of(walk: Walk) -> dict[int, Vectors]:
    found = {}
    for client in walk.emulation.clients:
        assert client.twin is not None
        own = [v.detach().numpy().ravel() for v in client.twin.own.parameters()]
        found[client.client_id] = {"own": np.concatenate(own).copy()}
    return found


# --- rows kept aside --------------------------------------------------------------------------------------------------


def asked_rows(walk: Walk, monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """A list that fills with the ends of the windows that training sees, one set per call."""
    seen: list[set[int]] = []
    whole = BeamWindows.inputs

    def watched(self: BeamWindows, indices: Any = slice(None)) -> Any:
        seen.append(set(self.end[indices].tolist()))
        return whole(self, indices)

    monkeypatch.setattr(BeamWindows, "inputs", watched)
    return seen


def test_private_rows_are_trained_on_after_the_release_and_never_before(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = scattered({**TWIN, "training.local_steps": 12})
    learner, client = walk.emulation.learners[0], walk.emulation.clients[0]
    private = set(private_of(client).end.tolist())
    seen = asked_rows(walk, monkeypatch)
    met = []
    for round_index in range(6):
        seen.clear()
        learner.compute("mix", round_index)
        assert len(seen) >= 24  # two twins of twelve steps
        met.append(any(batch & private for batch in seen))
        learner.absorb("mix", round_index, ())
    assert met == [False, False, False, True, True, True]


def test_the_choice_is_made_on_private_rows_and_stands_after_the_release() -> None:
    walk = scattered(TWIN)
    shares = []
    for round_index in range(6):
        play_round(walk, round_index)
        shares.append([tuple(map(float, (c.twin.share, *c.twin.temperatures))) for c in walk.emulation.clients])  # type: ignore[union-attr]
    assert shares[3] == shares[4] == shares[5] == shares[2]
    assert {share for share, *_ in shares[0]} <= set(SHARES)
    assert shares[0] != [(0.5, 1.0, 1.0)] * len(walk.emulation.clients)


def test_with_one_round_rows_stay_private() -> None:
    walk = scattered({**TWIN, "rounds": 1})
    play_round(walk)
    learner = walk.emulation.learners[0]
    (rows,) = parts_of(learner, PartlyPrivateRows)
    assert not rows.released


def knowing(client: Client, which: str) -> None:
    """Heads that make one twin right on nearly all private rows of one label, and the other one wrong."""
    twin, label = client.twin, np.bincount(private_of(client).label).argmax()
    assert twin is not None
    for name, model in (("shared", twin.shared), ("own", twin.own)):
        model.head.data.zero_()
        n_outputs = model.layout.n_outputs
        model.head.data[-n_outputs + (label if name == which else (label + 1) % n_outputs)] = 9.0


@pytest.mark.parametrize("which", ["shared", "own"])
def test_the_twin_that_is_right_on_private_rows_is_trusted(which: str) -> None:
    walk = scattered({**TWIN, "clients.n_clients": 5})
    learner, client = walk.emulation.learners[0], walk.emulation.clients[0]
    data = private_of(client)
    data.label[:] = np.bincount(data.label).argmax()
    knowing(client, which)
    learner.absorb("mix", 0, ())
    assert client.twin is not None
    assert float(client.twin.share) == pytest.approx(max(SHARES) if which == "shared" else min(SHARES))
    answer = learner.predict(data.inputs())["fused"]
    assert (answer.argmax(axis=1) == data.label[0]).all()


# --- the twins --------------------------------------------------------------------------------------------------------


def test_the_own_twin_hears_nobody() -> None:
    walks = [scattered(TWIN) for _ in range(2)]
    for round_index in range(3):
        play_round(walks[0], round_index)
        for learner in walks[1].emulation.learners:
            learner.compute("mix", round_index)
            learner.absorb("mix", round_index, ())
    together, deaf = (own_of(walk) for walk in walks)
    for i, parts in together.items():
        assert_array_equal(parts["own"], deaf[i]["own"])
    shared, alone = (vectors_of(walk) for walk in walks)
    assert not any(np.array_equal(shared[i]["head"], alone[i]["head"]) for i in shared)


def test_the_shared_twin_is_sheaf_diffusion_on_the_rows_that_are_left() -> None:
    twins, plain = scattered(TWIN), scattered({**TWIN, "algorithm": "sheaf_diffusion"})
    sent, others = play_round(twins), play_round(plain)
    assert [message.slot for message in sent] == [message.slot for message in others]
    assert [message.payload.shape for message in sent] == [message.payload.shape for message in others]


@pytest.mark.slow
def test_what_is_handed_out_answers_as_both_twins_together(tmp_path: Path) -> None:
    walk = wired(tiny(TWIN))
    for round_index in range(6):
        play_round(walk, round_index)
    exporter = OnnxExporter()
    differences = []
    for client, learner in list(zip(walk.emulation.clients, walk.emulation.learners, strict=True))[:3]:
        assert client.twin is not None
        test = client.data.test
        path = tmp_path / f"{client.client_id}.onnx"
        exporter.export(client.twin, {m: test.input_shapes[m] for m in client.modalities}, path, {})
        found = OnnxSession(path).run({str(m): rows for m, rows in test.inputs().items()})
        expected = learner.predict(test.inputs())["fused"]
        assert np.abs(found - expected).max() < RUNTIMES
        with torch.no_grad():
            tensors = client.twin.shared.tensors(test.inputs())
            differences.append(float((client.twin.shared.eval()(tensors) - torch.from_numpy(expected)).abs().max()))
    assert max(differences) > 100 * RUNTIMES  # one twin alone would not pass
