"""The served model over HTTP, by the Open Inference Protocol: whole inputs of the model in, all outputs out.

It answers single requests and knows no streams: who asks here has made the windows. Requests go to the thread that runs
the model for the streams, too, under the same time limit.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import unquote

from ..frame_packets import FrameRefused
from ..onnx_session import LONGEST_RUN_S
from .http_port import HttpPort
from .inference_protocol import BINARY_HEADER, InferenceRefused, ModelInterface, read_query, written_answer
from .metrics import Counts
from .tensor_requests import NotAnsweredError, TensorRequests

#: Longest silence of a visitor, and longest time for all of a request's body, in s.
_SILENCE_S, _BODY_S = 5.0, 10.0
#: Time for an answer: of the model, and of those before it.
_ANSWER_S = 2 * LONGEST_RUN_S
#: Visitors at once; where all places are taken the longest visit ends.
VISITORS = 8
_PIECE_BYTES = 1 << 16
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_MODEL_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/([^/]+))?(/ready|/infer)?")


class HttpAnswer(NamedTuple):
    """Status, body and headers of an answer."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class InferencePage:
    """Routes of the protocol; called from the thread of any visitor.

    Args:
        model: gives what is served now.
        requests: way to the thread of the model.
        is_alive: whether the server still turns.
        counts: counts of the server.
        version: version of sheafedge.
    """

    def __init__(
        self,
        model: Callable[[], ModelInterface],
        requests: TensorRequests,
        is_alive: Callable[[], bool],
        counts: Counts,
        version: str,
    ) -> None:
        self._model, self._requests, self._is_alive = model, requests, is_alive
        self._counts, self._version = counts, version
        self._reading = threading.Lock()

    @property
    def most_body_bytes(self) -> int:
        """Longest body of a request."""
        return self._model().most_body_bytes

    def get(self, path: str) -> HttpAnswer:
        """Answer to GET."""
        model = self._model()
        if path == "/v2":
            return _json(200, {"name": "sheafedge", "version": self._version, "extensions": ["binary_tensor_data"]})
        if path in {"/v2/health/live", "/v2/health/ready"}:
            alive = self._is_alive()
            return _json(200 if alive else 503, {path.rpartition("/")[2]: alive})
        action = self._action(path, model)
        if action == "infer":
            raise InferenceRefused(405, "send this request by POST")
        if action == "ready":
            return _json(200, {"name": model.name, "ready": True})
        return _json(200, model.metadata())

    def check_post(self, path: str) -> None:
        """Refuse a POST before its body is read.

        Raises:
            InferenceRefused: there is nothing to post to.
        """
        if self._action(path, self._model()) != "infer":
            raise InferenceRefused(405, "send this request by GET")

    def post(self, body: bytes, json_bytes: int | None) -> HttpAnswer:
        """Answer to an inference request.

        Raises:
            InferenceRefused: it does not fit the model, or the model failed.
        """
        model = self._model()
        with self._reading:  # one at a time: lists of numbers take many times their bytes
            query = read_query(body, json_bytes, model)
        try:
            found = self._requests.ask(query.inputs, _ANSWER_S)
        except FrameRefused as failure:
            raise InferenceRefused(500, str(failure)) from None
        except NotAnsweredError as error:
            raise InferenceRefused(503, str(error)) from None
        answer, n_json = written_answer(query, model, found)
        if n_json is None:
            return HttpAnswer(200, answer, {"Content-Type": "application/json"})
        return HttpAnswer(200, answer, {"Content-Type": "application/octet-stream", BINARY_HEADER: str(n_json)})

    def count(self, status: int) -> None:
        """Count a request that was answered so."""
        self._counts.add("http_requests", f"{status // 100}xx")

    @staticmethod
    def _action(path: str, model: ModelInterface) -> str:
        """What is wanted of the model: "", "ready" or "infer"."""
        found = _MODEL_PATH.fullmatch(path)
        if found is None:
            raise InferenceRefused(404, "see /v2, /v2/health/live, /v2/health/ready and /v2/models/NAME")
        name, version, action = found.groups()
        if unquote(name) != model.name or version not in {None, model.version}:
            raise InferenceRefused(404, f"the model served here is {model.name}, version {model.version}")
        return (action or "").strip("/")


def open_inference_port(address: str, page: InferencePage) -> HttpPort:
    """Port of the protocol.

    Args:
        address: HOST:PORT, or PORT on loopback; port 0 takes a free one.
        page: what it answers.

    Raises:
        ConfigError: it is no address, or taken.
    """

    class OfThisPage(_HttpRequest):
        answers = page

    return HttpPort("--http", address, OfThisPage, VISITORS)


class _HttpRequest(BaseHTTPRequestHandler):
    """One request of a visitor, whose connection then ends."""

    answers: InferencePage
    timeout = _SILENCE_S
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(lambda: self.answers.get(self.path.partition("?")[0]))

    def do_POST(self) -> None:
        self._answer(self._posted)

    def handle_expect_100(self) -> bool:
        """Only who will be listened to is told to go on."""
        try:
            self._announced()
        except InferenceRefused:
            return True  # `do_POST` says why
        return super().handle_expect_100()

    def _posted(self) -> HttpAnswer:
        n_bytes, json_bytes = self._announced()
        return self.answers.post(self._body(n_bytes), json_bytes)

    def _announced(self) -> tuple[int, int | None]:
        """Length of the body, and of its JSON if raw numbers follow."""
        self.answers.check_post(self.path.partition("?")[0])
        length, most = self.headers.get("Content-Length"), self.answers.most_body_bytes
        if length is None or "Transfer-Encoding" in self.headers:
            raise InferenceRefused(411, "say how long the body is, by Content-Length")
        n_bytes = _count(length, "Content-Length")
        if n_bytes > most:
            raise InferenceRefused(413, f"a request has at most {most} bytes, this one {n_bytes}; send fewer samples")
        split = self.headers.get(BINARY_HEADER)
        return n_bytes, None if split is None else _count(split, BINARY_HEADER)

    def _body(self, n_bytes: int) -> bytes:
        until_s = time.monotonic() + _BODY_S
        body = bytearray()
        try:
            while len(body) < n_bytes:
                piece = self.rfile.read1(min(_PIECE_BYTES, n_bytes - len(body)))
                if not piece:
                    raise InferenceRefused(400, f"the body has {len(body)} bytes, Content-Length says {n_bytes}")
                body += piece
                if time.monotonic() > until_s:
                    raise TimeoutError
        except TimeoutError:
            raise InferenceRefused(408, f"the body did not come within {_BODY_S:g} s") from None
        return bytes(body)

    def _answer(self, make: Callable[[], HttpAnswer]) -> None:
        try:
            self._check_host()
            answer = make()
        except InferenceRefused as refusal:
            answer = _json(refusal.status, {"error": " ".join(str(refusal).split())})
        self.answers.count(answer.status)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)
        self.close_connection = True

    def _check_host(self) -> None:
        """On loopback, a page of elsewhere whose name was made to lead here must not read answers (DNS rebinding)."""
        asked = re.sub(r":\d*$", "", self.headers.get("Host", "")).lower()
        bound = str(self.connection.getsockname()[0])
        if (bound.startswith("127.") or bound == "::1") and asked not in _LOOPBACK:
            raise InferenceRefused(403, f"this server is asked as {' or '.join(_LOOPBACK)}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named there
        """Log nothing: requests are counted."""


def _count(text: str, name: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise InferenceRefused(400, f"{name} must be a number of bytes, got {text[:40]!r}")
    return int(text)


def _json(status: int, fields: Mapping[str, Any]) -> HttpAnswer:
    return HttpAnswer(status, json.dumps(fields).encode(), {"Content-Type": "application/json"})
