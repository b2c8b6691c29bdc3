"""Metrics of a server: its counts, and the page that shows them to Prometheus and to supervisors, over plain HTTP.

The text is Prometheus' exposition format 0.0.4, or OpenMetrics 1.0 for those who accept it. Every question ends in
exactly one way, so at any instant

    questions = answers + refused questions + dropped + waiting

and equal sums on both sides show that nothing was lost.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler

from ...contracts import MODALITIES
from ..footprint import resident_bytes
from ..frame_packets import REFUSALS
from .http_port import HttpPort

#: Upper ends of the histograms' buckets, in seconds: around what an edge device takes for one answer.
BUCKETS_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
DROPS = ("newer", "full", "leaving")
UNSENT = ("gone", "full")
DRIFT = ("like_training", "drifted")
STATUSES = ("2xx", "4xx", "5xx")
RELOADS = ("swapped", "same", "refused", "rolled_back")

#: Counter -> its help, its label, and every value of that label.
COUNTERS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "packets": ("Packets from clients, good or bad.", "", ()),
    "frames": ("Sensor frames taken into a window.", "modality", MODALITIES),
    "questions": ("Packets of frames that ask for an answer and could be read.", "", ()),
    "answers": ("Questions answered.", "", ()),
    "answers_without": ("Answers for which this modality was missing.", "modality", MODALITIES),
    "answers_outside": ("Answers whose frame of this modality lies outside of training.", "modality", MODALITIES),
    "drift_windows": ("Full windows of an input or of the answers of a stream.", "result", DRIFT),
    "refused": ("Packets and questions refused.", "code", tuple(REFUSALS)),
    "refused_questions": ("Questions among those that were refused.", "", ()),
    "dropped": ("Requests dropped from the queue, with a reply to their clients.", "reason", DROPS),
    "unsent": ("Replies that did not reach their client: gone, or it takes nothing.", "reason", UNSENT),
    "streams_evicted": ("Idle streams that gave their place to new ones.", "", ()),
    "batches": ("Runs of the model.", "", ()),
    "reloads": ("New bundles that were looked at.", "result", RELOADS),
    "cut_off": ("Connections cut off, because they sent far more than is taken.", "", ()),
    "abandoned": ("Packets thrown away unread: their clients are gone, and too many are left.", "", ()),
    "http_requests": ("Requests of the Open Inference Protocol, by the kind of their status.", "status", STATUSES),
    "strangers": ("Connections without a known key.", "", ()),
}
_PREFIX = "sheafedge_"
_NO_LABEL = ""
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OPENMETRICS = "application/openmetrics-text"
_OPENMETRICS_TYPE = f"{_OPENMETRICS}; version=1.0.0; charset=utf-8"
#: Longest silence of a visitor in s.
_VISIT_S = 2.0
#: Visitors at once. Where all places are taken the longest visit ends, so that none keeps `/healthz` from others.
_VISITORS = 16


class Histogram:
    """Histogram of durations."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BUCKETS_S, seconds)] += 1
        self._sum_s += seconds

    def lines(self, name: str) -> Iterable[str]:
        """Cumulative, as Prometheus wants them."""
        below = 0
        # The format has cumulative buckets, the last without an upper end.
        for edge, count in zip((*map(str, BUCKETS_S), "+Inf"), self._counts, strict=True):
            below += count
            yield f'{name}_bucket{{le="{edge}"}} {below}'
        yield f"{name}_sum {self._sum_s!r}"
        yield f"{name}_count {below}"


class Counts:
    """Numbers of one server; written by its thread, read by any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # All labels exist from the start with 0, so that Prometheus sees the first increment as one.
        self._counters = {name: dict.fromkeys(values or (_NO_LABEL,), 0) for name, (_, _, values) in COUNTERS.items()}
        self._gauges: dict[str, tuple[str, float]] = {}
        self._info: Mapping[str, str] = {}
        self._answer_s, self._model_s = Histogram(), Histogram()

    def add(self, name: str, label: str = _NO_LABEL, n: int = 1) -> None:
        """Count something of `COUNTERS`."""
        with self._lock:
            self._counters[name][label] += n

    def set_total(self, name: str, value: int) -> None:
        """Set a counter that is kept elsewhere."""
        with self._lock:
            self._counters[name][_NO_LABEL] = value

    def set_gauge(self, name: str, meaning: str, value: float) -> None:
        """A number that goes up and down."""
        with self._lock:
            self._gauges[name] = (meaning, value)

    def set_model(self, info: Mapping[str, str]) -> None:
        """Set the labels of the served model."""
        with self._lock:
            self._info = dict(info)

    def answered(self, total_s: float) -> None:
        """Count an answer that took so long."""
        with self._lock:
            self._counters["answers"][_NO_LABEL] += 1
            self._answer_s.observe(total_s)

    def ran(self, model_s: float) -> None:
        """Count a run of the model."""
        with self._lock:
            self._counters["batches"][_NO_LABEL] += 1
            self._model_s.observe(model_s)

    def total(self, name: str, label: str | None = None) -> int:
        """Total of one label, or of all."""
        with self._lock:
            values = self._counters[name]
            return sum(values.values()) if label is None else values[label]

    def report(self) -> dict[str, int | float | dict[str, int]]:
        """Counters and gauges by name, for a client; labels of which nothing was counted are left out."""
        with self._lock:
            counters: dict[str, int | float | dict[str, int]] = {
                name: values[_NO_LABEL] if _NO_LABEL in values else {label: n for label, n in values.items() if n}
                for name, values in self._counters.items()
            }
            return counters | {name: value for name, (_, value) in self._gauges.items()}

    def page(self, *, openmetrics: bool = False) -> str:
        """Text for Prometheus; in OpenMetrics the family of a counter has no `_total`, and the text an end."""
        with self._lock:
            lines = [*self._counter_lines(openmetrics), *self._gauge_lines(), *self._histogram_lines()]
        return "\n".join([*lines, "# EOF"] if openmetrics else lines) + "\n"

    def _counter_lines(self, openmetrics: bool) -> Iterable[str]:
        for name, (meaning, label, _) in COUNTERS.items():
            full = f"{_PREFIX}{name}_total"
            yield from _head(full.removesuffix("_total") if openmetrics else full, meaning, "counter")
            for value, n in self._counters[name].items():
                yield f'{full}{{{label}="{value}"}} {n}' if label else f"{full} {n}"

    def _gauge_lines(self) -> Iterable[str]:
        for name, (meaning, value) in {**self._gauges, **_memory()}.items():
            yield from _head(_PREFIX + name, meaning, "gauge")
            yield f"{_PREFIX}{name} {value!r}"
        yield from _head(f"{_PREFIX}model_info", "The model that is served; always 1.", "gauge")
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in self._info.items())
        yield f"{_PREFIX}model_info{{{labels}}} 1"

    def _histogram_lines(self) -> Iterable[str]:
        for name, meaning, histogram in (
            ("answer_seconds", "From a question's arrival to its answer.", self._answer_s),
            ("model_seconds", "In one run of the model, of all questions of its batch.", self._model_s),
        ):
            yield from _head(_PREFIX + name, meaning, "histogram")
            yield from histogram.lines(_PREFIX + name)


def _head(name: str, meaning: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"


def _escaped(value: str) -> str:
    # The three characters that label values escape in the text format 0.0.4; the backslash first.
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _memory() -> dict[str, tuple[str, float]]:
    resident = resident_bytes()
    return {} if resident is None else {"resident_bytes": ("Memory of this process.", resident)}


class MetricsPage:
    """A small web server in threads of its own.

    Args:
        address: HOST:PORT, or PORT on loopback; port 0 takes a free one.
        counts: counts of the server, shown on the page.
        is_alive: whether the server still turns.

    Attributes:
        address: HOST:PORT in use.

    Raises:
        ConfigError: it is no address, or taken.
    """

    def __init__(self, address: str, counts: Counts, is_alive: Callable[[], bool]) -> None:

        class Page(BaseHTTPRequestHandler):
            timeout = _VISIT_S

            def do_GET(self) -> None:
                openmetrics = _OPENMETRICS in self.headers.get("Accept", "")
                status, text = _answer(self.path, counts, is_alive, openmetrics=openmetrics)
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", _OPENMETRICS_TYPE if openmetrics else _CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named there
                """Log nothing: the page is read every few seconds."""

        self._port = HttpPort("--metrics", address, Page, _VISITORS)
        self.address = self._port.address

    def close(self) -> None:
        """Free the port."""
        self._port.close()


def _answer(path: str, counts: Counts, is_alive: Callable[[], bool], *, openmetrics: bool) -> tuple[int, str]:
    where = path.partition("?")[0]
    if where == "/metrics":
        return 200, counts.page(openmetrics=openmetrics)
    if where == "/healthz":
        # 503 makes supervisors restart the process; the page's own thread still answers when the server hangs.
        return (200, "ok\n") if is_alive() else (503, "the server does not turn\n")
    return 404, "see /metrics and /healthz\n"
