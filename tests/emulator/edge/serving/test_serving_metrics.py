"""What a server counts can be read by Prometheus, to the letter of its format, and adds up."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from doubles.bundles import tiny_bundle, tiny_manifest
from doubles.served_model import LIMIT_S, at, raw_frames, replies, served
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Healthy
from sheafedge.emulator.edge.serving.metrics import BUCKETS_S, COUNTERS, Counts, Histogram, MetricsPage

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"^({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? ([-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|Inf|NaN))$")
Samples = dict[tuple[str, str], float]


def parsed(page: str) -> Samples:
    """Samples of a page in text format 0.0.4; anything that is not of it fails.

    Source: Prometheus, "Exposition formats", text-based format.
    """
    assert page.endswith("\n")
    kinds: dict[str, str] = {}
    samples: Samples = {}
    family = ""
    for line in page.splitlines():
        if line.startswith("# HELP "):
            assert re.fullmatch(rf"# HELP {NAME} .+", line), line
            continue
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert kind in {"counter", "gauge", "histogram"}
            assert family not in kinds, f"{family} comes twice"
            kinds[family] = kind
            continue
        match = SAMPLE.match(line)
        assert match, line
        name, labels, value = match[1], match[2] or "", float(match[3])
        of_family = (family, *(family + end for end in ("_bucket", "_sum", "_count") if kinds[family] == "histogram"))
        assert name in of_family, f"{name} stands among samples of {family}"
        assert (name, labels) not in samples, f"{line} comes twice"
        assert kinds[family] != "counter" or (name.endswith("_total") and value >= 0)
        samples[name, labels] = value
    for family, kind in kinds.items():
        if kind == "histogram":
            check_histogram(family, samples)
    return samples


def check_histogram(family: str, samples: Samples) -> None:
    buckets = [(labels, value) for (name, labels), value in samples.items() if name == f"{family}_bucket"]
    edges = [float(labels.removeprefix('le="').removesuffix('"').replace("+Inf", "inf")) for labels, _ in buckets]
    values = [value for _, value in buckets]
    assert edges == sorted(edges)
    assert values == sorted(values), "buckets are cumulative"
    assert edges[-1] == float("inf")
    assert values[-1] == samples[f"{family}_count", ""]
    assert samples[f"{family}_sum", ""] >= 0.0


@pytest.mark.parametrize(
    "broken",
    [
        "sheafedge_x 1",
        "# TYPE x counter\nx_total one\n",
        "# TYPE x_total counter\nx_total{a=b} 1\n",
        "# TYPE x_total counter\nx_total 1\nx_total 1\n",
        '# TYPE x gauge\nx{a="b"c"} 1\n',
    ],
)
def test_the_parser_of_this_test_is_strict(broken: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        parsed(broken)


def test_an_untouched_page_has_every_counter_at_zero() -> None:
    samples = parsed(Counts().page())
    for name, (_, label, values) in COUNTERS.items():
        for labels in [f'{label}="{value}"' for value in values] or [""]:
            assert samples[f"sheafedge_{name}_total", labels] == 0.0


def test_names_from_a_bundle_cannot_break_the_page() -> None:
    counts = Counts()
    counts.set_model({"name": 'evil"} 1\nsheafedge_answers_total 9 \\', "digest": "d"})
    samples = parsed(counts.page())
    assert samples["sheafedge_answers_total", ""] == 0.0


def test_a_histogram_counts_on_the_right_side_of_its_edges() -> None:
    histogram = Histogram()
    for seconds in (0.00005, BUCKETS_S[0], 0.00011, 99.0):
        histogram.observe(seconds)
    lines = list(histogram.lines("x"))
    assert lines[0] == 'x_bucket{le="0.0001"} 2'  # "le": less or equal
    assert lines[1] == 'x_bucket{le="0.0002"} 3'
    assert lines[-3:] == ['x_bucket{le="+Inf"} 4', f"x_sum {0.00005 + 0.0001 + 0.00011 + 99.0!r}", "x_count 4"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bundle(tmp_path_factory.mktemp("bundle") / "b")


@pytest.fixture
def page() -> Iterator[MetricsPage]:
    page = MetricsPage("0", Counts(), lambda: True)
    yield page
    page.close()


def fetched(address: str, path: str, method: str = "GET", accept: str = "*/*") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(address, timeout=LIMIT_S)
    try:
        connection.request(method, path, headers={"Accept": accept})
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type") or "", response.read().decode()
    finally:
        connection.close()


#: What Prometheus asks with.
SCRAPER = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


def busy() -> Counts:
    counts = Counts()
    counts.add("questions", n=3)
    counts.add("refused", "shape")
    counts.set_model({"name": 'a "b"\\', "digest": "0"})
    for seconds in (0.00015, 0.3):
        counts.answered(seconds)
        counts.ran(seconds)
    return counts


def test_a_page_in_openmetrics_goes_to_those_who_accept_it() -> None:
    page = MetricsPage("0", busy(), lambda: True)
    try:
        _, kind, text = fetched(page.address, "/metrics", accept=SCRAPER)
        _, plain, other = fetched(page.address, "/metrics")
    finally:
        page.close()
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert text.endswith("\n# EOF\n")
    assert "# TYPE sheafedge_questions counter" in text.splitlines()
    assert "sheafedge_questions_total 3" in text.splitlines()
    assert plain.startswith("text/plain")
    assert "# EOF" not in other
    assert parsed(other)["sheafedge_questions_total", ""] == 3.0


def test_the_parsers_of_prometheus_read_both_pages() -> None:
    pytest.importorskip("prometheus_client", reason="its parsers are not installed: pip install prometheus_client")
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
    from prometheus_client.parser import text_string_to_metric_families as plain

    counts = busy()
    for parser, text in ((openmetrics, counts.page(openmetrics=True)), (plain, counts.page())):
        samples = {
            (sample.name, *sample.labels.values()): sample.value for family in parser(text) for sample in family.samples
        }
        assert samples["sheafedge_questions_total",] == 3.0
        assert samples["sheafedge_refused_total", "shape"] == 1.0
        assert samples["sheafedge_answer_seconds_bucket", "0.0002"] == 1.0
        assert samples["sheafedge_answer_seconds_count",] == 2.0
        assert samples["sheafedge_model_info", 'a "b"\\', "0"] == 1.0


def test_visitors_that_say_nothing_keep_nobody_from_the_page(page: MetricsPage) -> None:
    """More of them than there are places, at every stage of a request; a supervisor must see a healthy server."""
    host, _, port = page.address.rpartition(":")
    slow = []
    for said in (b"", b"GET", b"GET /healthz HTTP/1.1\r\nX: ") * 20:
        slow.append(socket.create_connection((host, int(port)), timeout=LIMIT_S))
        slow[-1].sendall(said)
        assert fetched(page.address, "/healthz")[0] == 200
    assert threading.active_count() < 40
    for visitor in slow:
        visitor.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="this system has no IPv6")
@pytest.mark.parametrize("address", ["[::1]:0", "::1:0"])
def test_the_page_has_addresses_of_version_six(address: str) -> None:
    try:
        page = MetricsPage(address, Counts(), lambda: True)
    except ConfigError as error:
        pytest.skip(str(error))  # compiled in, but switched off
    try:
        assert page.address.startswith("[::1]:")
        assert fetched(page.address, "/healthz")[0] == 200
    finally:
        page.close()


def test_the_page_tells_what_happened(bundle: Path) -> None:
    raw = raw_frames(tiny_manifest(), 12)
    with served(bundle, waiting=9) as server, FrameClient(server.address) as client:
        page = MetricsPage("127.0.0.1:0", server.counts, server.is_alive)
        try:
            for index in range(12):
                frames = at(raw, index) if index < 8 else {"rf": raw["rf"][index]}
                client.send("s", index, 0.0, frames)
            client.send("s", 3, 0.0, at(raw, 3))
            heard = replies(server, client, 13)
            status, kind, text = fetched(page.address, "/metrics")
        finally:
            page.close()
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    samples = parsed(text)

    def total(name: str, labels: str = "") -> float:
        return samples[f"sheafedge_{name}_total", labels]

    assert len(heard) == 13
    assert total("packets") == total("questions") == 13
    assert (total("frames", 'modality="rf"'), total("frames", 'modality="lidar"')) == (12, 8)
    assert total("answers") == samples["sheafedge_answer_seconds_count", ""] == 9
    assert total("refused", 'code="not_ready"') == 3
    assert total("refused", 'code="duplicate"') == 1
    assert total("refused_questions") == 4
    assert total("answers_without", 'modality="lidar"') == 2
    assert samples["sheafedge_model_seconds_count", ""] == total("batches") >= 1
    assert samples["sheafedge_streams", ""] == 1
    (info,) = [labels for name, labels in samples if name == "sheafedge_model_info"]
    assert 'name="tiny"' in info
    assert 'provider="CPUExecutionProvider"' in info


def test_a_client_can_ask_for_the_same_numbers(bundle: Path) -> None:
    with served(bundle) as server, FrameClient(server.address) as client:
        client.forget("s")
        client.ask_health()
        _, healthy = replies(server, client, 2)
        assert isinstance(healthy, Healthy)
        assert healthy.report["packets"] == 2
        assert healthy.report["streams"] == 0


def test_health_is_that_of_the_loop() -> None:
    alive = [True]
    page = MetricsPage("0", Counts(), lambda: alive[0])
    try:
        assert fetched(page.address, "/healthz")[0] == 200
        alive[0] = False
        assert fetched(page.address, "/healthz")[0] == 503
    finally:
        page.close()


def test_a_server_that_does_not_turn_is_not_alive(bundle: Path) -> None:
    with served(bundle) as server:
        server.turn(wait_s=0.0)
        assert server.is_alive()
        server._turned_s -= 60.0
        assert not server.is_alive()
        server.turn(wait_s=0.0)
        assert server.is_alive()


def test_other_paths_and_methods_are_told_where_to_look(page: MetricsPage) -> None:
    assert fetched(page.address, "/")[0] == 404
    assert fetched(page.address, "/metrics?x=1")[0] == 200
    assert fetched(page.address, "/metrics", "POST")[0] == 501


def test_a_visitor_who_says_nothing_or_nonsense_holds_up_nobody(page: MetricsPage) -> None:
    host, _, port = page.address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=LIMIT_S),
        socket.create_connection((host, int(port)), timeout=LIMIT_S) as nonsense,
    ):
        nonsense.sendall(b"\0\xff\r\n\r\n")
        assert fetched(page.address, "/healthz")[0] == 200


def test_only_this_machine_sees_the_page_where_no_host_is_named(page: MetricsPage) -> None:
    assert page.address.startswith("127.0.0.1:")


@pytest.mark.parametrize("address", ["", "x", "127.0.0.1:", "127.0.0.1:99999", "no.such.host.invalid:0"])
def test_an_address_that_cannot_be_used_is_a_sentence(address: str) -> None:
    with pytest.raises(ConfigError, match="--metrics"):
        MetricsPage(address, Counts(), lambda: True)


def test_a_taken_port_is_a_sentence_and_no_thread_is_left(page: MetricsPage) -> None:
    before = threading.active_count()
    with pytest.raises(ConfigError, match="cannot be used"):
        MetricsPage(page.address, Counts(), lambda: True)
    assert threading.active_count() == before
