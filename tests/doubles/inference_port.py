"""A served model with a port for the Open Inference Protocol, and its plain visitors."""

from __future__ import annotations

import http.client
import json
import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from doubles.served_model import LIMIT_S, served
from numpy.typing import NDArray
from sheafedge.emulator.edge.serving.inference_page import VISITORS, InferencePage, open_inference_port
from sheafedge.emulator.edge.serving.server import Server
from sheafedge.emulator.edge.serving.tensor_requests import TensorRequests

MODEL = "/v2/models/tiny"


class Port(NamedTuple):
    """A server at work, and where it is asked."""

    server: Server
    address: str
    ends: threading.Event


@contextmanager
def inference_port(bundle: Path, **options: Any) -> Iterator[Port]:
    """Serve a bundle in a thread of its own for as long as the block lasts."""
    ends, made = threading.Event(), queue.Queue[Server]()
    tensors = TensorRequests(VISITORS)

    def serve() -> None:  # sockets belong to the thread that made them
        with served(bundle, tensors=tensors, **options) as server:
            made.put(server)
            while not ends.is_set():
                server.turn(wait_s=LIMIT_S)  # so long that only a request can end it
            server.finish()

    thread = threading.Thread(target=serve)
    thread.start()
    server = made.get(timeout=LIMIT_S)
    page = InferencePage(lambda: server.interface, tensors, server.is_alive, server.counts, "1.2.3")
    port = open_inference_port("0", page)
    try:
        yield Port(server, port.address, ends)
    finally:
        ends.set()
        tensors._waker.send(b"\0")
        thread.join()
        port.close()
        tensors.close()


def asked(
    address: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of what comes back; POST where there is a body."""
    connection = http.client.HTTPConnection(address, timeout=LIMIT_S)
    try:
        connection.request("GET" if body is None else "POST", path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, dict(response.headers), response.read()
    finally:
        connection.close()


def listed(inputs: Mapping[str, NDArray[Any]], datatype: str = "FP32", **fields: Any) -> bytes:
    """A request in JSON."""
    tensors = [
        {"name": name, "shape": list(values.shape), "datatype": datatype, "data": values.tolist()}
        for name, values in inputs.items()
    ]
    return json.dumps({"inputs": tensors, **fields}).encode()


def raw(inputs: Mapping[str, NDArray[np.float32]], **fields: Any) -> tuple[bytes, dict[str, str]]:
    """The same with raw numbers, and its header."""
    tensors = [
        {
            "name": name,
            "shape": list(values.shape),
            "datatype": "FP32",
            "parameters": {"binary_data_size": values.nbytes},
        }
        for name, values in inputs.items()
    ]
    text = json.dumps({"inputs": tensors, **fields}).encode()
    body = b"".join([text, *(np.ascontiguousarray(values).tobytes() for values in inputs.values())])
    return body, {"Inference-Header-Content-Length": str(len(text))}
