"""The served model over HTTP: its own answers, in JSON and raw; nonsense is refused, slow visitors wait alone."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubles.bundles import tiny_bundle, tiny_inputs
from doubles.inference_port import MODEL, Port, asked, inference_port, listed, raw
from doubles.served_model import LIMIT_S, at, raw_frames
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.bundle import Bundle, load_bundle
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer
from sheafedge.emulator.edge.label_probabilities import (
    decided_labels,
    forecast_probabilities,
    label_probabilities,
)
from sheafedge.emulator.edge.serving.inference_page import VISITORS, open_inference_port
from sheafedge.emulator.edge.serving.inference_protocol import DATATYPES, MOST_ROWS
from sheafedge.emulator.edge.serving.tensor_requests import NotAnsweredError, TensorRequests

#: float32 in one batch and another.
ROUNDING = 1e-6
N = 3


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return load_bundle(tiny_bundle(tmp_path_factory.mktemp("bundle") / "tiny"), trial=None)


@pytest.fixture(scope="module")
def port(bundle: Bundle) -> Iterator[Port]:
    with inference_port(bundle.path) as port:
        yield port


def outputs(body: bytes) -> dict[str, Any]:
    return {one["name"]: np.array(one["data"]).reshape(one["shape"]) for one in json.loads(body)["outputs"]}


def expected(bundle: Bundle, inputs: Any) -> dict[str, Any]:
    logits, shares = bundle.session.answer(inputs)
    return {
        "logits": logits,
        "probabilities": label_probabilities(logits, bundle.manifest.output),
        "label_index": decided_labels(logits, bundle.manifest.output),
        "attention": shares,
    }


def check(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        assert_allclose(found[name], values, atol=ROUNDING, rtol=0)


def test_a_forecast_is_an_output_per_series(tmp_path: Path) -> None:
    bundle = load_bundle(tiny_bundle(tmp_path / "ahead", kind="forecast"), trial=None)
    inputs = tiny_inputs(bundle.manifest, N)
    with inference_port(bundle.path) as port:
        told = json.loads(asked(port.address, MODEL)[2])["outputs"]
        status, _, body = asked(port.address, f"{MODEL}/infer", listed(inputs))
    assert [one["name"] for one in told if one["shape"] == [-1, 3]] == ["forecast_own", "forecast_neighbor"]
    assert status == 200
    odds = forecast_probabilities(bundle.session.run(inputs), bundle.manifest.output)
    assert_allclose(outputs(body)["forecast_own"], odds["own"], atol=ROUNDING)
    assert_allclose(outputs(body)["forecast_neighbor"], odds["neighbor"], atol=ROUNDING)
    assert outputs(body)["probabilities"].shape == (N, 2)


def test_the_model_and_its_server_say_what_they_are(port: Port, bundle: Bundle) -> None:
    def told(path: str) -> Any:
        status, headers, body = asked(port.address, path)
        assert (status, headers["Content-Type"]) == (200, "application/json")
        return json.loads(body)

    assert told("/v2") == {"name": "sheafedge", "version": "1.2.3", "extensions": ["binary_tensor_data"]}
    assert told("/v2/health/live") == {"live": True}
    assert told("/v2/health/ready") == {"ready": True}
    version = bundle.manifest.digest[:12]
    assert told(f"{MODEL}/ready") == {"name": "tiny", "ready": True}
    assert (
        told(MODEL)
        == told(f"{MODEL}/versions/{version}")
        == {
            "name": "tiny",
            "versions": [version],
            "platform": "onnx_onnxv1",
            "inputs": [
                {"name": "lidar", "datatype": "FP32", "shape": [-1, 2, 4, 6]},
                {"name": "rf", "datatype": "FP32", "shape": [-1, 4, 8]},
                {"name": "present", "datatype": "FP32", "shape": [-1, 2]},
            ],
            "outputs": [
                {"name": "logits", "datatype": "FP32", "shape": [-1, 1]},
                {"name": "probabilities", "datatype": "FP32", "shape": [-1, 2]},
                {"name": "label_index", "datatype": "INT64", "shape": [-1]},
                {"name": "attention", "datatype": "FP32", "shape": [-1, 2]},
            ],
        }
    )


def test_inputs_in_json_get_the_answers_of_the_model(port: Port, bundle: Bundle) -> None:
    inputs = tiny_inputs(bundle.manifest, N)
    status, headers, body = asked(port.address, f"{MODEL}/infer", listed(inputs, id="mine"))
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(body)["id"] == "mine"
    assert json.loads(body)["model_version"] == bundle.manifest.digest[:12]
    check(outputs(body), expected(bundle, inputs))
    flat = json.loads(listed(inputs))
    for one in flat["inputs"]:
        one["data"] = np.array(one["data"]).ravel().tolist()
    check(outputs(asked(port.address, f"{MODEL}/infer", json.dumps(flat).encode())[2]), expected(bundle, inputs))


def test_raw_inputs_get_raw_answers_where_they_are_asked_for(port: Port, bundle: Bundle) -> None:
    inputs = tiny_inputs(bundle.manifest, N)
    wanted = expected(bundle, inputs)
    body, split = raw(inputs)
    check(outputs(asked(port.address, f"{MODEL}/infer", body, split)[2]), wanted)
    ask = [{"name": "attention"}, {"name": "logits", "parameters": {"binary_data": True}}]
    body, split = raw(inputs, outputs=ask)
    status, headers, answer = asked(port.address, f"{MODEL}/infer", body, split)
    n_json = int(headers["Inference-Header-Content-Length"])
    assert (status, headers["Content-Type"]) == (200, "application/octet-stream")
    attention, logits = json.loads(answer[:n_json])["outputs"]
    assert_allclose(np.reshape(attention["data"], attention["shape"]), wanted["attention"], atol=ROUNDING)
    assert logits["parameters"] == {"binary_data_size": len(answer) - n_json}
    found = np.frombuffer(answer[n_json:], "<f4").reshape(logits["shape"])
    assert_allclose(found, wanted["logits"], atol=ROUNDING, rtol=0)
    body, split = raw(inputs, parameters={"binary_data_output": True})
    headers = asked(port.address, f"{MODEL}/infer", body, split)[1]
    assert headers["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize("rows", [1, N])
def test_a_sensor_that_is_gone_is_said_by_present(port: Port, bundle: Bundle, rows: int) -> None:
    inputs = tiny_inputs(bundle.manifest, N)
    present = np.tile(np.float32([0, 1]), (rows, 1))
    body = asked(port.address, f"{MODEL}/infer", listed(inputs | {"present": present}))[2]
    wanted = expected(bundle, inputs | {"present": present})
    check(outputs(body), wanted)
    assert_array_equal(outputs(body)["attention"][:, 0], 0.0)
    assert not np.allclose(wanted["logits"], expected(bundle, inputs)["logits"])


@pytest.mark.parametrize("datatype", DATATYPES)
def test_numbers_of_every_datatype_become_float32(port: Port, bundle: Bundle, datatype: str) -> None:
    inputs = {name: np.abs(values * 20).round() for name, values in tiny_inputs(bundle.manifest, 1).items()}
    wanted = expected(bundle, inputs)
    whole = {name: values.astype(int) for name, values in inputs.items()}
    check(outputs(asked(port.address, f"{MODEL}/infer", listed(whole, datatype))[2]), wanted)
    fields = json.loads(listed({}))
    fields["inputs"] = [
        {
            "name": name,
            "shape": list(values.shape),
            "datatype": datatype,
            "parameters": {"binary_data_size": values.size * np.dtype(DATATYPES[datatype]).itemsize},
        }
        for name, values in inputs.items()
    ]
    text = json.dumps(fields).encode()
    body = text + b"".join(values.astype(DATATYPES[datatype]).tobytes() for values in inputs.values())
    check(
        outputs(asked(port.address, f"{MODEL}/infer", body, {"Inference-Header-Content-Length": str(len(text))})[2]),
        wanted,
    )


def forged(change: Any) -> Any:
    def make(request: dict[str, Any]) -> dict[str, Any]:
        change(request)
        return request

    return make


FORGED: dict[str, tuple[Any, str]] = {
    "no inputs": (forged(lambda r: r.pop("inputs")), "inputs lack lidar, rf"),
    "one input": (forged(lambda r: r["inputs"].pop()), "inputs lack rf"),
    "an unknown input": (forged(lambda r: r["inputs"][0].update(name="sonar")), "inputs must be each of"),
    "an input twice": (forged(lambda r: r["inputs"].append(r["inputs"][0])), "inputs must be each of"),
    "inputs that are no objects": (forged(lambda r: r.update(inputs=[1])), "inputs must be a list of objects"),
    "another shape": (forged(lambda r: r["inputs"][1].update(shape=[3, 8, 4])), "shape of rf must be [n, 4, 8]"),
    "no sample": (forged(lambda r: r["inputs"][1].update(shape=[0, 4, 8])), "1 to 8 samples"),
    "half a sample": (forged(lambda r: r["inputs"][1].update(shape=[1.0, 4, 8])), "shape of rf must be"),
    "too many samples": (forged(lambda r: r["inputs"][1].update(shape=[10**9, 4, 8])), "1 to 8 samples"),
    "more of one input": (forged(lambda r: r["inputs"][1].update(shape=[1, 4, 8], data=[0] * 32)), "same number"),
    "another datatype": (forged(lambda r: r["inputs"][1].update(datatype="BYTES")), "datatype of rf must be one of"),
    "too few numbers": (forged(lambda r: r["inputs"][1].update(data=[1.0])), "must be 96 numbers"),
    "texts": (forged(lambda r: r["inputs"][1].update(data=["1"] * 96)), "must be 96 numbers"),
    "lists of unequal lengths": (forged(lambda r: r["inputs"][1].update(data=[[1], [1, 2]])), "must be 96 numbers"),
    "a number beyond float32": (forged(lambda r: r["inputs"][1].update(data=[1e300] * 96)), "finite numbers"),
    "a fraction of a whole number": (
        forged(lambda r: r["inputs"][1].update(datatype="INT8", data=[0.5] * 96)),
        "whole numbers",
    ),
    "a number beyond its datatype": (
        forged(lambda r: r["inputs"][1].update(datatype="UINT8", data=[300] * 96)),
        "whole numbers",
    ),
    "raw numbers that are not there": (
        forged(lambda r: r["inputs"][1].update(parameters={"binary_data_size": 384})),
        "must have 384 raw bytes",
    ),
    "an unknown output": (forged(lambda r: r.update(outputs=[{"name": "x"}])), "outputs must be some of"),
    "an endless id": (forged(lambda r: r.update(id="x" * 200)), "id must be a text"),
    "parameters that are a list": (forged(lambda r: r.update(parameters=[])), "parameters must be an object"),
}


@pytest.mark.parametrize(("change", "sentence"), FORGED.values(), ids=FORGED)
def test_requests_that_do_not_fit_are_refused_in_one_sentence(
    port: Port, bundle: Bundle, change: Any, sentence: str
) -> None:
    request = change(json.loads(listed(tiny_inputs(bundle.manifest, N))))
    status, _, body = asked(port.address, f"{MODEL}/infer", json.dumps(request).encode())
    assert status == 400
    assert sentence in json.loads(body)["error"]


@pytest.mark.parametrize("present", [[[0, 0]], [[0.5, 1]], [[1, 1]] * 2])
def test_what_is_present_is_one_or_zero(port: Port, bundle: Bundle, present: Any) -> None:
    inputs = tiny_inputs(bundle.manifest, N) | {"present": np.array(present, np.float32)}
    status, _, body = asked(port.address, f"{MODEL}/infer", listed(inputs))
    assert status == 400
    assert "present must be 1 or 0 in 1 or 3 rows" in json.loads(body)["error"]


BODIES = {
    "nothing": b"",
    "no JSON": b"\xff\xfe\x00",
    "a list": b"[]",
    "NaN": b'{"id": NaN}',
    "deep": b"[" * 50_000,
    "a long number": b'{"id": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies_that_are_no_request_are_refused(port: Port, body: bytes) -> None:
    status, _, answer = asked(port.address, f"{MODEL}/infer", body)
    assert status == 400
    assert json.loads(answer)["error"]


def test_mutated_requests_are_answered_or_refused_and_the_server_lives(port: Port, bundle: Bundle) -> None:
    draws = np.random.default_rng(0)
    inputs = tiny_inputs(bundle.manifest, 1)
    binary, split = raw(inputs)
    valid = ((listed(inputs), {}), (binary, split))
    seen = set()
    for _ in range(200):
        body, headers = valid[int(draws.integers(2))]
        changed = bytearray(body)
        for place in draws.integers(len(changed), size=int(draws.integers(1, 4))):
            changed[place] = int(draws.integers(256))
        if draws.integers(4) == 0:
            del changed[int(draws.integers(len(changed))) :]
        if headers and draws.integers(4) == 0:
            headers = {name: str(draws.integers(-5, 2 * len(body))) for name in headers}
        status, _, answer = asked(port.address, f"{MODEL}/infer", bytes(changed), headers)
        assert status in {200, 400}
        seen.add(status)
        assert status == 200 or json.loads(answer)["error"]
    assert seen == {200, 400}
    check(outputs(asked(port.address, f"{MODEL}/infer", listed(inputs))[2]), expected(bundle, inputs))


def test_other_paths_methods_and_names_are_told_what_there_is(port: Port) -> None:
    assert asked(port.address, "/")[0] == 404
    assert b"the model served here is tiny" in asked(port.address, "/v2/models/other")[2]
    assert asked(port.address, f"{MODEL}/versions/2")[0] == 404
    assert asked(port.address, f"{MODEL}/infer")[0] == 405
    assert asked(port.address, MODEL, b"{}")[0] == 405
    assert asked(port.address, "/v2", headers={"Host": "elsewhere.example"})[0] == 403
    assert asked(port.address, "/v2", headers={"Host": "localhost:8000"})[0] == 200


def announced(port: Port, *lines: str) -> tuple[int, str]:
    """Status and error of a request of which only the head is sent."""
    host, _, number = port.address.rpartition(":")
    with socket.create_connection((host, int(number)), timeout=LIMIT_S) as visitor:
        head = [f"POST {MODEL}/infer HTTP/1.1", "Host: localhost", *lines, "", ""]
        visitor.sendall("\r\n".join(head).encode())
        response = http.client.HTTPResponse(visitor)
        response.begin()
        return response.status, json.loads(response.read())["error"]


def test_a_body_is_refused_by_its_length_before_it_is_read(port: Port, bundle: Bundle) -> None:
    most = port.server.interface.most_body_bytes
    assert most > len(listed(tiny_inputs(bundle.manifest, MOST_ROWS)))
    assert announced(port, f"Content-Length: {most + 1}")[0] == 413
    assert announced(port, f"Content-Length: {most + 1}", "Expect: 100-continue")[0] == 413
    assert announced(port, "Content-Length: -1")[0] == 400
    assert announced(port, "Content-Length: 1" + "0" * 40)[0] == 400
    assert announced(port)[0] == 411
    assert announced(port, "Transfer-Encoding: chunked")[0] == 411


def test_visitors_who_send_their_body_slowly_keep_nobody_out(port: Port, bundle: Bundle) -> None:
    host, _, number = port.address.rpartition(":")
    head = f"POST {MODEL}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n".encode()
    slow = []
    for said in (b"", b"POST", head, head + b"{") * VISITORS:
        slow.append(socket.create_connection((host, int(number)), timeout=LIMIT_S))
        slow[-1].sendall(said)
    inputs = tiny_inputs(bundle.manifest, 1)
    check(outputs(asked(port.address, f"{MODEL}/infer", listed(inputs))[2]), expected(bundle, inputs))
    assert threading.active_count() < 4 * VISITORS
    for visitor in slow:
        visitor.close()


def test_a_body_that_does_not_come_in_time_is_refused(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sheafedge.emulator.edge.serving.inference_page._BODY_S", 0.0)
    host, _, number = port.address.rpartition(":")
    with socket.create_connection((host, int(number)), timeout=LIMIT_S) as visitor:
        visitor.sendall(f"POST {MODEL}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n[".encode())
        assert visitor.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_streams_and_whole_inputs_are_answered_side_by_side_and_counted(port: Port, bundle: Bundle) -> None:
    frames = raw_frames(bundle.manifest, 4)
    inputs = tiny_inputs(bundle.manifest, 1)
    before = port.server.counts.total("http_requests", "2xx"), port.server.counts.total("batches")
    with FrameClient(port.server.address) as client:
        for index in range(4):
            client.send("bs00", index, index / 10, at(frames, index), ask=index == 3)
            assert asked(port.address, f"{MODEL}/infer", listed(inputs))[0] == 200
        assert isinstance(client.receive(timeout_s=LIMIT_S), Answer)
    assert port.server.counts.total("http_requests", "2xx") == before[0] + 4
    assert port.server.counts.total("batches") == before[1] + 5


def test_a_model_that_fails_or_hangs_is_said_to(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    with inference_port(bundle.path) as port:
        session = port.server.session
        body = listed(tiny_inputs(bundle.manifest, 1))

        def hang(*_: Any) -> Any:
            raise RuntimeError("Exiting due to terminate flag being set to true.")

        monkeypatch.setattr(session, "answer", hang)
        status, _, answer = asked(port.address, f"{MODEL}/infer", body)
        assert status == 500
        assert "the model failed: Exiting due to terminate" in json.loads(answer)["error"]
        monkeypatch.setattr("sheafedge.emulator.edge.serving.inference_page._ANSWER_S", 0.01)
        release = threading.Event()
        monkeypatch.setattr(session, "answer", lambda *_: release.wait(LIMIT_S))
        try:
            status, _, answer = asked(port.address, f"{MODEL}/infer", body)
        finally:
            release.set()
        assert status == 503
        assert "no answer within 0.01 s" in json.loads(answer)["error"]
        assert port.server.counts.total("http_requests", "5xx") == 2


def test_a_server_that_stops_answers_what_waits_and_refuses_the_rest(bundle: Bundle) -> None:
    with inference_port(bundle.path) as port:
        port.ends.set()
        status = 200
        until_s = time.monotonic() + LIMIT_S
        body = listed(tiny_inputs(bundle.manifest, 1))
        while status == 200 and time.monotonic() < until_s:  # one of them wakes it, the next ones find it gone
            status, _, answer = asked(port.address, f"{MODEL}/infer", body)
        assert status == 503
        assert json.loads(answer)["error"] == "the server stops"


def test_more_requests_than_may_wait_are_refused_and_those_given_up_are_not_run() -> None:
    tensors = TensorRequests(1)
    with pytest.raises(NotAnsweredError, match="no answer within 0 s"):
        tensors.ask({}, 0.0)
    with pytest.raises(NotAnsweredError, match="too many requests wait"):
        tensors.ask({}, 0.0)
    assert len(tensors) == 1
    assert tensors.take() is None
    tensors.close()


@pytest.mark.parametrize("address", ["", "x", "127.0.0.1:99999"])
def test_an_address_that_cannot_be_used_is_a_sentence(address: str, port: Port) -> None:
    with pytest.raises(ConfigError, match="--http"):
        open_inference_port(address, None)  # type: ignore[arg-type]
