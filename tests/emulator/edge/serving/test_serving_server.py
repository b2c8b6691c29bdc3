"""A server answers what the bundle promises, to all in turn, whatever strangers send, and loses nothing unsaid."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import zmq
from doubles.bundles import GOLDEN_ROWS, tiny_bundle, tiny_inputs, tiny_manifest
from doubles.served_model import (
    LIMIT_S,
    at,
    plain_window,
    raw_frames,
    replies,
    served,
    take_without_a_run,
    turn_until_taken,
)
from numpy.testing import assert_allclose
from onnx import TensorProto, helper, numpy_helper
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.bundle import load_bundle, write_bundle
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import (
    TO_SERVER,
    Answer,
    Bye,
    Description,
    Dropped,
    Forgotten,
    FrameRefused,
    Healthy,
    Refused,
    pack_frames,
)
from sheafedge.emulator.edge.golden_samples import golden_file
from sheafedge.emulator.edge.manifest import Manifest
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.emulator.edge.serving.answering import ServedModel
from sheafedge.emulator.edge.serving.server import Server
from sheafedge.emulator.edge.serving.serving_settings import ServingSettings
from sheafedge.emulator.edge.serving.stream_windows import Sample
from sheafedge.emulator.network.transport.curve_keys import make_keys, read_keys
from sheafedge.emulator.network.transport.errors import TransportError
from sheafedge.emulator.network.transport.packets import Packet, pack_packet

N = 20
FRAMES = 4
#: Of a mean over some dozens of float32, in another order.
ROUNDING = 1e-5


@pytest.fixture(scope="module")
def blockage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("bundle") / "blockage", frames=FRAMES)


@pytest.fixture(scope="module")
def beams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("bundle") / "beams", kind="classes", frames=FRAMES)


@pytest.fixture
def server(blockage: Path) -> Iterator[Server]:
    with served(blockage, waiting=N) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[FrameClient]:
    with FrameClient(server.address) as client:
        yield client


MANIFEST = tiny_manifest(frames=FRAMES)


def settled(server: Server) -> None:
    """Every question ended in exactly one way."""
    total = server.counts.total
    ended = total("answers") + total("refused_questions") + total("dropped")
    assert total("questions") == ended + len(server._requests)


def test_golden_samples_sent_frame_by_frame_get_the_promised_logits(blockage: Path, beams: Path) -> None:
    for path in (blockage, beams):
        bundle = load_bundle(path, trial=None)
        with served(path, waiting=100) as server, FrameClient(server.address) as client:
            inputs = tiny_inputs(bundle.manifest, GOLDEN_ROWS)
            expected = bundle.session.run(inputs)
            for row in range(GOLDEN_ROWS):
                for index in range(FRAMES + 1):
                    frames = {}
                    for spec in bundle.manifest.inputs:
                        place = index - 1 + spec.window.lag  # so that the window ends at the last instant
                        if 0 <= place < FRAMES:
                            frames[spec.modality] = inputs[spec.modality][row].take(place, axis=spec.window.axis)
                    if frames:
                        client.send(f"row {row}", index, 0.1 * index, frames, ask=index == FRAMES)
            answers = replies(server, client, GOLDEN_ROWS)
            for row, answer in enumerate(answers):
                assert isinstance(answer, Answer)
                assert answer.stream == f"row {row}"
                assert_allclose(answer.logits, expected[row], rtol=0, atol=bundle.manifest.golden.tolerance)


def test_an_answer_says_all_that_it_should(server: Server, client: FrameClient) -> None:
    raw = raw_frames(MANIFEST, FRAMES)
    for index in range(FRAMES):
        client.send("bs07", index, 100.0 + index / 10, at(raw, index), ask=index == FRAMES - 1)
    (answer,) = replies(server, client, 1)
    assert isinstance(answer, Answer)
    logit = np.mean([plain_window(spec, raw[spec.modality], FRAMES - 1).mean() for spec in MANIFEST.inputs])
    assert_allclose(answer.logits, [logit], atol=ROUNDING)
    assert (answer.stream, answer.index, answer.time_s) == ("bs07", FRAMES - 1, 100.3)
    assert answer.label == MANIFEST.output.labels[int(logit > 0)]
    assert answer.probabilities[1] == pytest.approx(1 / (1 + np.exp(-answer.logits[0])))
    assert sum(answer.probabilities) == pytest.approx(1.0)
    assert answer.probability == answer.probabilities[answer.label_index]
    assert answer.attention == {"lidar": 0.5, "rf": 0.5}
    assert (answer.missing, answer.stale_s, answer.held) == ([], {}, {})
    assert answer.spent_s.keys() == {"queued", "model", "total"}
    assert 0.0 <= answer.spent_s["queued"] <= answer.spent_s["total"]
    assert answer.bundle == "tiny"
    settled(server)


def test_an_answer_of_a_forecast_has_every_time_ahead_by_name(tmp_path: Path, blockage: Path) -> None:
    bundle = load_bundle(tiny_bundle(tmp_path / "ahead", kind="forecast", frames=FRAMES), trial=None)
    raw = raw_frames(bundle.manifest, FRAMES)
    with served(bundle.path) as server, FrameClient(server.address) as client:
        for index in range(FRAMES):
            client.send("s", index, 0.1 * index, at(raw, index), ask=index == FRAMES - 1)
        (answer,) = replies(server, client, 1)
    assert isinstance(answer, Answer)
    figure = np.mean([plain_window(spec, raw[spec.modality], FRAMES - 1).mean() for spec in bundle.manifest.inputs])
    odds = 1 / (1 + np.exp(-figure * np.arange(1, 7) / 2.0))
    assert answer.ahead_s == [0.1, 0.2, 0.3]
    assert_allclose([*answer.forecast["own"], *answer.forecast["neighbor"]], odds, atol=ROUNDING)
    assert answer.label == bundle.manifest.output.labels[int(figure > 0)]
    assert answer.probabilities == pytest.approx([1 - max(odds[:2]), max(odds[:2])], abs=ROUNDING)
    with served(blockage) as server, FrameClient(server.address) as client:
        for index in range(FRAMES):
            client.send("s", index, 0.1 * index, at(raw, index), ask=index == FRAMES - 1)
        (answer,) = replies(server, client, 1)
    assert isinstance(answer, Answer)
    assert (answer.ahead_s, answer.forecast) == ([], {})


def test_a_description_is_the_manifest(server: Server, client: FrameClient, blockage: Path) -> None:
    client.ask_description()
    (description,) = replies(server, client, 1)
    assert isinstance(description, Description)
    assert description.manifest == (blockage / "manifest.json").read_text(encoding="utf-8")
    assert description.digest == json.loads(description.manifest)["digest"]
    assert description.settings["waiting"] == N


def test_a_broken_sensor_is_masked_and_told(server: Server, client: FrameClient) -> None:
    raw = raw_frames(MANIFEST, N)
    for index in range(10):
        frames = at(raw, index) if index < 5 else {"rf": raw["rf"][index]}
        client.send("s", index, index / 10, frames, ask=index >= 5)
    answers = [one for one in replies(server, client, 5) if isinstance(one, Answer)]
    assert [answer.missing for answer in answers] == [[], [], ["lidar"], ["lidar"], ["lidar"]]
    assert [answer.stale_s["lidar"] for answer in answers] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    for answer in answers[2:]:
        assert answer.attention == {"lidar": 0.0, "rf": 1.0}
        assert_allclose(
            answer.logits, [plain_window(MANIFEST.inputs[1], raw["rf"], answer.index).mean()], atol=ROUNDING
        )
    assert server.counts.total("answers_without", "lidar") == 3


def test_without_any_window_there_is_no_answer_but_the_frames_count(server: Server, client: FrameClient) -> None:
    raw = raw_frames(MANIFEST, N)
    for index in range(FRAMES):
        client.send("s", index, 0.0, at(raw, index))
    heard = replies(server, client, FRAMES)
    assert [one.code for one in heard if isinstance(one, Refused)] == ["not_ready"] * (FRAMES - 1)
    assert isinstance(heard[-1], Answer)
    settled(server)


def test_sensors_may_send_by_themselves(server: Server, client: FrameClient) -> None:
    raw = raw_frames(MANIFEST, N)
    with FrameClient(server.address) as other:
        for index in range(FRAMES):
            other.send("s", index, 0.0, {"lidar": raw["lidar"][index]}, ask=False)
        turn_until_taken(server, FRAMES)
        for index in range(FRAMES):
            client.send("s", index, 0.0, {"rf": raw["rf"][index]}, ask=index == FRAMES - 1)
        (answer,) = replies(server, client, 1)
        assert isinstance(answer, Answer)
        assert not answer.missing
        assert other.receive() is None


def test_questions_that_wait_together_are_answered_in_one_run(blockage: Path) -> None:
    """And each gets its own answer."""
    raws = {f"s{number}": raw_frames(MANIFEST, FRAMES, seed=number) for number in range(8)}
    with served(blockage, batch=8) as server, FrameClient(server.address) as client:
        for index in range(FRAMES):
            for stream, raw in raws.items():
                client.send(stream, index, 0.0, at(raw, index), ask=False)
        turn_until_taken(server, 8 * FRAMES)
        for stream in raws:
            client.send(stream, FRAMES, 0.0, {"rf": np.zeros(8)})
        client.ask_health()
        heard = replies(server, client, 9)
        answers = {one.stream: one for one in heard if isinstance(one, Answer)}
        for stream, raw in raws.items():
            rf = np.concatenate([raw["rf"][1:], np.zeros((1, 8))]).mean()
            lidar = np.concatenate([raw["lidar"][1:], raw["lidar"][-1:]]).mean()  # its last frame is held
            assert answers[stream].held == {"lidar": 1}
            assert_allclose(answers[stream].logits, [(rf + lidar) / 2], atol=ROUNDING)
        assert server.counts.total("batches") <= 8


def test_taken_together_means_one_run(blockage: Path) -> None:
    raw = raw_frames(MANIFEST, FRAMES)
    with served(blockage, batch=3, waiting=9) as server, FrameClient(server.address) as client:
        for number in range(7):
            for index in range(FRAMES):
                client.send(f"s{number}", index, 0.0, at(raw, index), ask=False)
        turn_until_taken(server, 7 * FRAMES)
        sample = server._streams.of("s0", 0.0).sample(FRAMES - 1, 0.0)
        for number in range(7):
            client.send(f"s{number}", FRAMES, 0.0, at(raw, 0))
        take_without_a_run(server, 7 * FRAMES + 7)
        assert len(server._requests) == 7
        sizes = []
        run = server._model.answer
        server._model.answer = lambda samples: sizes.append(len(samples)) or run(samples)  # type: ignore[method-assign, func-returns-value]
        assert len(replies(server, client, 7)) == 7
        assert sizes == [3, 3, 1]
        assert len(run([sample] * 5)) == 5


def test_questions_that_give_way_are_told_and_counted(blockage: Path) -> None:
    raw = raw_frames(MANIFEST, N)
    with served(blockage, waiting=2) as server, FrameClient(server.address) as client:
        for index in range(N):
            client.send("s", index, 0.0, at(raw, index))
        take_without_a_run(server, N)
        heard = replies(server, client, N)
        kinds = Counter(type(one) for one in heard)
        assert kinds == {Refused: FRAMES - 1, Dropped: N - FRAMES - 1, Answer: 2}
        assert [one.index for one in heard if isinstance(one, Answer)] == [N - 2, N - 1], "the newest are answered"
        assert {one.reason for one in heard if isinstance(one, Dropped)} == {"newer"}
        assert server.counts.total("dropped", "newer") == N - FRAMES - 1
        settled(server)


def test_a_restarted_sensor_forgets_its_stream(server: Server, client: FrameClient) -> None:
    raw = raw_frames(MANIFEST, N)
    client.send("s", 5000, 0.0, at(raw, 0), ask=False)
    client.send("s", 0, 0.0, at(raw, 0))
    client.forget("s")
    for index in range(FRAMES):
        client.send("s", index, 0.0, at(raw, index), ask=index == FRAMES - 1)
    refused, forgotten, answer = replies(server, client, 3)
    assert isinstance(refused, Refused)
    assert refused.code == "old"
    assert "forget the stream" in refused.sentence
    assert forgotten == Forgotten("s")
    assert isinstance(answer, Answer)


def test_a_client_that_is_gone_holds_up_nobody_and_is_counted(server: Server, client: FrameClient) -> None:
    raw = raw_frames(MANIFEST, N)
    with FrameClient(server.address) as brief:
        for index in range(FRAMES):
            brief.send("gone", index, 0.0, at(raw, index), ask=False)
        turn_until_taken(server, FRAMES)
        brief.send("gone", FRAMES, 0.0, at(raw, FRAMES))
        take_without_a_run(server, FRAMES + 1)
    (asker,) = server._socket.clients
    limit_s = time.monotonic() + LIMIT_S
    while server.counts.total("unsent") == 0:  # until ZeroMQ has noticed
        assert time.monotonic() < limit_s
        server._send(asker, Packet("bye", {"sentence": "are you there?"}))
    while server.counts.total("unsent", "gone") < 2:  # the answer, and the farewell to that stream
        assert time.monotonic() < limit_s
        server.turn(wait_s=0.005)
    client.ask_health()
    assert isinstance(replies(server, client, 1)[0], Healthy)
    settled(server)


def test_the_end_answers_what_was_asked_and_says_goodbye(server: Server, client: FrameClient) -> None:
    raw = raw_frames(MANIFEST, N)
    for index in range(FRAMES + 5):
        client.send("s", index, 0.0, at(raw, index), ask=index >= FRAMES)
    turn_until_taken(server, 1)
    take_without_a_run(server, FRAMES + 5)
    server.finish()
    heard: list[Any] = []
    while not heard or not isinstance(heard[-1], Bye):
        reply = client.receive(LIMIT_S)
        assert reply is not None
        heard.append(reply)
    assert [one.index for one in heard[:-1] if isinstance(one, Answer)] == list(range(FRAMES, FRAMES + 5))
    settled(server)


def test_a_server_that_finishes_is_alive(server: Server, client: FrameClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that reads /healthz must not kill it while it answers what waits."""
    raw, alive = raw_frames(MANIFEST, N), []
    for index in range(FRAMES + 1):
        client.send("s", index, 0.0, at(raw, index), ask=index == FRAMES)
    take_without_a_run(server, FRAMES + 1)
    answer = server._model.answer
    monkeypatch.setattr(server._model, "answer", lambda samples: (alive.append(server.is_alive()), answer(samples))[1])
    server._turned_s -= 3600.0
    assert not server.is_alive()
    server.finish()
    assert alive == [True]


def test_who_gets_no_answer_before_the_end_is_told(blockage: Path) -> None:
    raw = raw_frames(MANIFEST, N)
    with served(blockage, waiting=9, finish_s=0.0) as server, FrameClient(server.address) as client:
        for index in range(FRAMES):
            client.send("s", index, 0.0, at(raw, index), ask=index == FRAMES - 1)
        take_without_a_run(server, FRAMES)
        server.finish()
        dropped, bye = client.receive(LIMIT_S), client.receive(LIMIT_S)
        assert dropped == Dropped("s", FRAMES - 1, 0.0, "leaving")
        assert isinstance(bye, Bye)
        settled(server)


def test_a_model_that_fails_refuses_and_serves_on(
    server: Server, client: FrameClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = raw_frames(MANIFEST, N)
    for index in range(FRAMES):
        client.send("s", index, 0.0, at(raw, index), ask=False)

    def broken(_inputs: object) -> None:
        raise RuntimeError("out of memory\nat some place")

    with monkeypatch.context() as patch:
        patch.setattr(server._model.bundle.session, "answer", broken)
        client.send("s", FRAMES, 0.0, at(raw, FRAMES))
        (refused,) = replies(server, client, 1)
    assert refused == Refused("s", FRAMES, "failed", "the model failed: out of memory")
    client.send("s", FRAMES + 1, 0.0, at(raw, FRAMES + 1))
    assert isinstance(replies(server, client, 1)[0], Answer)
    settled(server)


# --- strangers -------------------------------------------------------------------------------------------------------


def test_a_message_of_very_many_parts_is_refused_and_holds_up_nobody(server: Server, client: FrameClient) -> None:
    with zmq.Context() as context, context.socket(zmq.DEALER) as bad:
        bad.setsockopt(zmq.LINGER, 0)
        bad.connect(server.address)
        bad.send_multipart([b"x"] * 1000)
        turn_until_taken(server, 1)
        client.ask_health()
        (healthy,) = replies(server, client, 1)
        assert isinstance(healthy, Healthy)
        assert (healthy.report["packets"], healthy.report["refused"]) == (2, {"malformed": 1})


def test_a_frame_that_is_far_too_long_is_not_even_received(server: Server, client: FrameClient) -> None:
    """ZeroMQ hangs up on who announces it; the others are served on."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as bad:
        bad.setsockopt(zmq.LINGER, 0)
        bad.connect(server.address)
        bad.send_multipart([b"x" * 10_000_000])
        client.ask_health()
        assert isinstance(replies(server, client, 1)[0], Healthy)
        assert server.counts.total("packets") == 1


# --- models of other kinds -------------------------------------------------------------------------------------------


def test_a_model_of_one_modality_has_nothing_to_mask(tmp_path: Path) -> None:
    spec = MANIFEST.inputs[1]
    manifest = rebuilt(inputs=(spec,), drift=None)
    path = plain_bundle(tmp_path / "one", manifest)
    raw = raw_frames(manifest, N)
    with served(path) as server, FrameClient(server.address) as client:
        for index in range(FRAMES):
            client.send("s", index, 0.0, at(raw, index), ask=index == FRAMES - 1)
        (answer,) = replies(server, client, 1)
        assert isinstance(answer, Answer)
        assert answer.attention == {}
        assert_allclose(answer.logits, [plain_window(spec, raw["rf"], FRAMES - 1).mean()], atol=ROUNDING)


def test_a_model_that_cannot_mask_waits_until_all_are_there(tmp_path: Path) -> None:
    manifest = rebuilt(inputs=MANIFEST.inputs)
    raw = raw_frames(manifest, N)
    with served(plain_bundle(tmp_path / "two", manifest)) as server, FrameClient(server.address) as client:
        for index in range(FRAMES):
            client.send("s", index, 0.0, {"rf": raw["rf"][index]}, ask=index == FRAMES - 1)
        (refused,) = replies(server, client, 1)
        assert isinstance(refused, Refused)
        assert refused.code == "not_ready"
        assert "no whole window yet of lidar" in refused.sentence


def test_bundles_of_several_rates_are_not_served(tmp_path: Path) -> None:
    slow = replace(MANIFEST.inputs[1], rate_hz=1.0)
    path = plain_bundle(tmp_path / "slow", rebuilt(inputs=(MANIFEST.inputs[0], slow)))
    with pytest.raises(ConfigError, match="inputs of 2 rates"), served(path):
        pass


def rebuilt(**changes: Any) -> Manifest:
    return replace(MANIFEST, name="plain", **changes)


def plain_bundle(folder: Path, manifest: Manifest) -> Path:
    """The sum of the means of all inputs, without `present` and shares."""
    nodes, constants, figures = [], [], []
    for one in manifest.inputs:
        axes = numpy_helper.from_array(np.arange(1, 1 + len(one.shape)), f"{one.modality}_axes")
        nodes.append(helper.make_node("ReduceMean", [one.modality, axes.name], [f"{one.modality}_mean"], keepdims=0))
        constants.append(axes)
        figures.append(f"{one.modality}_mean")
    last = numpy_helper.from_array(np.array([1]), "last")
    nodes += [helper.make_node("Sum", figures, ["sum"]), helper.make_node("Unsqueeze", ["sum", "last"], ["logits"])]
    graph = helper.make_graph(
        nodes,
        "plain",
        [
            helper.make_tensor_value_info(str(one.modality), TensorProto.FLOAT, ["batch", *one.shape])
            for one in manifest.inputs
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [*constants, last],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    content = bytes(model.SerializeToString())
    inputs = tiny_inputs(manifest, GOLDEN_ROWS)
    golden = golden_file(inputs, OnnxSession(content).run(inputs))
    write_bundle(folder, manifest, {"model.onnx": content, "samples.npz": golden, "README.md": b"plain\n"})
    return folder


def test_a_time_may_be_a_whole_number(blockage: Path) -> None:
    """JavaScript has no other way to write 3.0."""
    raw = raw_frames(MANIFEST, 4)
    with served(blockage) as server, FrameClient(server.address) as client:
        for index in range(4):
            packet = pack_frames("s", index, 0.0, at(raw, index), ask=index == 3)
            whole = packet._replace(fields={**packet.fields, "time_s": index})
            client._socket.send_multipart(pack_packet(whole, TO_SERVER))
        (answer,) = replies(server, client, 1)
    assert isinstance(answer, Answer)
    assert (answer.time_s, type(answer.time_s)) == (3.0, float)


def test_an_answer_states_the_probability_of_its_manifest(blockage: Path, tmp_path: Path) -> None:
    """The label is that of the logit; temperature and prior move the probability alone."""
    bundle = load_bundle(blockage, trial=None)
    shifted = replace(bundle.manifest.output, temperature=2.0, prior_shift=(0.0, -3.0))
    made = replace(bundle, manifest=replace(bundle.manifest, output=shifted))
    sample = Sample({name: rows[0] for name, rows in bundle.samples.items()}, (), {}, {})
    (plain,), (found,) = (ServedModel(one).answer([sample]) for one in (bundle, made))
    assert (found.logits, found.label_index) == (plain.logits, plain.label_index)
    expected = 1.0 / (1.0 + np.exp(-(found.logits[0] / 2.0 - 3.0)))
    assert found.probabilities[1] == pytest.approx(expected)
    assert found.probabilities[1] != pytest.approx(plain.probabilities[1], abs=0.01)


def test_logits_that_are_no_numbers_are_no_answer(blockage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(blockage) as server:
        fed = server._streams.of("s", 0.0)
        for index in range(FRAMES):
            fed.put(index, 0.0, at(raw_frames(MANIFEST, FRAMES), index))
        monkeypatch.setattr(server._model.bundle.session, "answer", lambda _: (np.array([[np.nan]]), None))
        with pytest.raises(FrameRefused, match="not finite"):
            server._model.answer([fed.sample(FRAMES - 1, 0.0)])


# --- addresses and keys ----------------------------------------------------------------------------------------------


def test_keys_let_in_who_has_them_and_nobody_else(blockage: Path, tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        make_keys(tmp_path / name)
    keys = read_keys(tmp_path / "ours", "engine")
    with served(blockage, keys=keys) as server:
        with FrameClient(server.address, keys=read_keys(tmp_path / "ours", "worker")) as client:
            client.ask_health()
            assert isinstance(replies(server, client, 1)[0], Healthy)
        knocking = read_keys(tmp_path / "theirs", "worker")
        theirs = type(knocking)(knocking.public, knocking.secret, keys.public)  # knows whom to ask for
        with FrameClient(server.address, keys=theirs) as stranger:
            stranger.ask_health()
            limit_s = time.monotonic() + LIMIT_S
            while server.counts.total("strangers") == 0:
                assert time.monotonic() < limit_s
                server.turn(wait_s=0.005)
        assert server.counts.total("packets") == 1


def test_beyond_this_host_keys_are_needed(blockage: Path) -> None:
    with pytest.raises(ConfigError, match="can be reached from other hosts"), served(blockage, "tcp://0.0.0.0:*"):
        pass
    with pytest.raises(ConfigError, match="server address must be"):
        FrameClient("http://localhost:80")


def test_a_taken_address_is_a_sentence_and_leaves_nothing_behind(blockage: Path, server: Server) -> None:
    with pytest.raises(TransportError, match="cannot be bound"), served(blockage, server.address):
        pass


def test_the_file_of_an_ipc_address_goes_with_the_server(blockage: Path, tmp_path: Path) -> None:
    place = tmp_path / "s.ipc"
    with served(blockage, f"ipc://{place}") as server, FrameClient(server.address) as client:
        client.ask_health()
        replies(server, client, 1)
        assert place.exists()
    assert not place.exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("batch", 0), ("waiting", 0), ("waiting_in_all", 0), ("streams", 0), ("hold", -1), ("idle_s", -1.0)),
        *(("finish_s", float("nan")), ("idle_s", float("inf"))),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=field):
        ServingSettings(**{field: value})  # type: ignore[arg-type]
