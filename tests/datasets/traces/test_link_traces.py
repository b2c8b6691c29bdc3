"""Traces of real links: made-up files row by row, hostile ones, and the real ones where this machine has them."""

from __future__ import annotations

import io
import os
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sheafedge.datasets.traces import link_traces, trace_columns
from sheafedge.datasets.traces.link_traces import read_cicv5g, read_mahimahi, read_pensieve, read_receptions
from sheafedge.emulator.contracts import DataError
from sheafedge.emulator.network.channels.traces import OPPORTUNITY_BYTES, RecordedOpportunities

HEADER = "pub_time(ms) sub_time(ms) delay(ms) utmX(m) utmY(m) heading(rad) velocity(m/s) cellid(db) sinr(db) rsrp(db)"
ROWS = [
    "1721200386667 1721200386709 42 328972.92 3463463.80 2.6 6.54 5C4225714 8 -71 ",
    "1721200386722 1721200386746 24 328972.58 3463463.99 2.6 6.50 5C4225714 -3 -90 ",
]

HALF_A_MILLISECOND = 0.5e-3
ROUNDING = 1e-9  # seconds; a millionth of a trace's grain

Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(content: str | bytes) -> Path:
        path = tmp_path / "trace.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def test_a_line_of_mahimahi_is_a_millisecond(write: Write) -> None:
    np.testing.assert_array_equal(read_mahimahi(write("0\n0\n7\n1200\n")), [0.0, 0.0, 0.007, 1.2])


def test_a_line_of_pensieve_is_a_second_and_a_rate(write: Write) -> None:
    trace = read_pensieve(write("0.0\t2.5\n1.01\t0\n2\t1e1\n"))
    np.testing.assert_array_equal(trace.time_s, [0.0, 1.01, 2.0])
    np.testing.assert_array_equal(trace.rate_bps, [2.5e6, 0.0, 1e7])


def test_a_line_of_cicv5g_is_a_round_trip_with_place_and_signal(write: Write) -> None:
    trace = read_cicv5g(write("\n".join([HEADER, *ROWS, ""])))
    np.testing.assert_allclose(trace.time_s, [0.0, 0.055])
    np.testing.assert_array_equal(trace.round_trip_s, [0.042, 0.024])
    np.testing.assert_array_equal(trace.position_m, [[328972.92, 3463463.80], [328972.58, 3463463.99]])
    np.testing.assert_array_equal(trace.speed_m_s, [6.54, 6.5])
    np.testing.assert_array_equal(trace.sinr_db, [8.0, -3.0])
    np.testing.assert_array_equal(trace.rsrp_dbm, [-71.0, -90.0])


def cicv5g(*rows: str) -> str:
    return "\n".join([HEADER, *rows])


MALFORMED: dict[str, tuple[Callable[[Path], object], str | bytes, str]] = {
    "nothing": (read_mahimahi, "", "holds no rows"),
    "blank lines": (read_pensieve, "\n \n\n", "holds no rows"),
    "a header only": (read_cicv5g, HEADER, "holds no rows"),
    "words": (read_mahimahi, "1\nsoon\n", r"trace\.txt row 2: milliseconds must be a finite number, got 'soon'"),
    "a gap": (read_mahimahi, "1\n\n2\n", r"row 2 has 0 values where 1 are due"),
    "two on a row": (read_mahimahi, "1\n2 3\n", r"row 2 has 2 values where 1 are due"),
    "half a millisecond": (read_mahimahi, "1\n1.5\n", r"row 2: milliseconds must be a whole number, got 1\.5"),
    "back in time": (read_mahimahi, "1\n5\n4\n", r"row 3: milliseconds must be no less than .* \(5\), got 4"),
    "before the beginning": (read_mahimahi, "-1\n5\n", r"row 1: milliseconds must lie from 0 to 1e\+14, got -1"),
    "no time at all": (read_mahimahi, "0\n0\n", r"must end after 0 ms"),
    "infinitely late": (read_mahimahi, "1\ninf\n", r"row 2: milliseconds must be a finite number, got 'inf'"),
    "binary": (read_mahimahi, b"\x00\xff\xfe1\n2\n", r"row 1: milliseconds must be a finite number, got '\\x00"),
    "an endless word": (read_mahimahi, b"1\n" + b"9" * 5000 + b"\n", r"row 2: milliseconds must be a finite number"),
    "a time that stands": (read_pensieve, "0 1\n1 2\n1 3\n", r"row 3: seconds must be above that of the row before"),
    "a rate below zero": (read_pensieve, "0 1\n1 -2\n", r"row 2: Mbit/s must lie from 0 to 1e\+07, got -2"),
    "a rate that is none": (read_pensieve, "0 1\n1 nan\n", r"row 2: Mbit/s must be a finite number, got 'nan'"),
    "no rate at all": (read_pensieve, "0 5\n1 0\n", r"a rate above 0 Mbit/s"),
    "one row": (read_pensieve, "0 5\n", r"a rate above 0 Mbit/s"),
    "another format": (read_cicv5g, "0 1\n", r"row 1 must begin with 'pub_time\(ms\)"),
    "a short row": (read_cicv5g, cicv5g(ROWS[0], "1 2 3"), r"row 3 has 3 values where 10 are due"),
    "an early answer": (
        read_cicv5g,
        cicv5g(ROWS[0], ROWS[1].replace(" 24 ", " -24 ")),
        r"delay must lie from 0 .*, got -24",
    ),
    "rows in disorder": (read_cicv5g, cicv5g(*reversed(ROWS)), r"row 3: pub_time must be above .* \(1721200386722\)"),
    "a rate that overflows": (read_pensieve, "0 1\n1 1e300\n", r"row 2: Mbit/s must lie from 0 to 1e\+07, got 1e\+300"),
    "a gap between blocks": (read_mahimahi, "1\n" * 30 + "\n" * 30 + "2\n", r"row 31 has 0 values where 1 are due"),
    "back in time in another block": (read_mahimahi, "5\n" * 30 + "4\n", r"row 31: .* \(5\), got 4"),
    "a line without an end": (read_mahimahi, "1\n" + "9" * 70_000, r"a line of more than 65536 bytes"),
    "one round trip": (read_cicv5g, cicv5g(ROWS[0]), r"row 2 is the only one"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_trace_is_refused_with_its_file_and_row(
    case: str, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_columns, "BLOCK_BYTES", 16)  # rows are numbered, and compared, across blocks
    read, content, sentence = MALFORMED[case]
    with pytest.raises(DataError, match=sentence) as caught:
        read(write(content))
    assert "trace.txt" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [read_mahimahi, read_pensieve, read_cicv5g, read_receptions])
def test_a_file_that_cannot_be_read_is_named(read: Callable[[Path], object], tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(DataError, match=str(path)):
            read(path)


def test_a_file_that_would_fill_the_memory_is_not_read(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_columns, "MAX_BYTES", 5)
    assert len(read_mahimahi(write("1\n2\n"))) == 2
    with pytest.raises(DataError, match=r"it has 6 bytes, at most 5 are read"):
        read_mahimahi(write("1\n2\n3\n"))


@given(st.lists(st.integers(0, 99_999), min_size=2), st.integers(1, 40), st.integers(0, 3))
def test_a_trace_does_not_depend_on_where_its_blocks_end(instants: list[int], block: int, n_blank: int) -> None:
    ordered = sorted({*instants, 7})
    content = "\n".join(map(str, ordered)) + "\n" * n_blank
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_columns, "BLOCK_BYTES", block)
        path = Path(folder) / "trace.txt"
        path.write_text(content)
        np.testing.assert_array_equal(read_mahimahi(path), np.array(ordered) / 1e3)


def test_memory_holds_the_numbers_of_a_trace_and_one_block(write: Write) -> None:
    n_rows = 400_000
    path = write("0\n" * n_rows + "1\n")
    tracemalloc.start()
    try:
        read_mahimahi(path)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # every row once in its block and once in the whole; words of one block as objects of 35 bytes and a pointer
    words_of_a_block = trace_columns.BLOCK_BYTES // 2 * 60
    assert peak_bytes < 2 * 8 * n_rows + 2 * words_of_a_block
    assert 2 * words_of_a_block < 250 * n_rows  # what all words at once, in lists of lists, took


@pytest.mark.parametrize("read", [read_mahimahi, read_receptions])
def test_what_is_no_file_is_not_waited_for(read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("x" * 6_000)):
        with pytest.raises(DataError, match="read") as caught:
            read(path)
        assert len(str(caught.value)) < 500


# --- receptions -------------------------------------------------------------------------------------------------------


def arrays(**changes: Any) -> dict[str, Any]:
    received = np.array([[True, False, True], [False, False, True]])
    whole = {
        "received": received,
        "rssi": np.where(received, 40, -1).astype(np.int16),
        "noise_dbm": np.array([-20, -10]),
        "tx": np.array(["1-1", "1-2"]),
        "rx": np.array(["2-1", "2-2"]),
    }
    return {name: values for name, values in {**whole, **changes}.items() if values is not None}


def test_receptions_are_read_link_by_link(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "r.npz", **arrays())
    traces = read_receptions(tmp_path / "r.npz")
    np.testing.assert_array_equal(traces.received, arrays()["received"])
    np.testing.assert_array_equal(traces.noise_dbm, [-20.0, -10.0])
    assert traces.receiver.tolist() == ["2-1", "2-2"]


FALSE_ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({"received": None}, "holds no array 'received'; a reception trace has received, rssi"),
    "numbers": ({"received": np.ones((2, 3))}, "received has type float64 and 2 axes"),
    "one link": ({"received": np.ones(3, dtype=bool)}, "received has type bool and 1 axes"),
    "no packet": ({"received": np.ones((2, 0), dtype=bool), "rssi": np.ones((2, 0), dtype=int)}, "so no packet"),
    "other shapes": ({"rssi": np.ones((2, 4), dtype=int)}, r"rssi has shape \(2, 4\) where received \(2, 3\)"),
    "too few names": ({"tx": np.array(["a"])}, r"tx has shape \(1,\)"),
    "objects": ({"tx": np.array([{}, {}], dtype=object)}, "tx has type object"),
    "a lost packet that was heard": ({"rssi": np.full((2, 3), 40)}, "rssi row 1 has a value for a lost packet"),
    "no noise": ({"noise_dbm": np.array([1.0, np.nan])}, "noise_dbm row 2 must lie from -300 to 100, got nan"),
}


@pytest.mark.parametrize("case", FALSE_ARRAYS)
def test_false_arrays_are_refused(case: str, tmp_path: Path) -> None:
    changes, sentence = FALSE_ARRAYS[case]
    np.savez(tmp_path / "r.npz", **arrays(**changes))
    with pytest.raises(DataError, match=sentence):
        read_receptions(tmp_path / "r.npz")


def member(content: bytes) -> bytes:
    """An npz file whose array `received` is this."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("received.npy", content)
    return stream.getvalue()


def header_of(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "|b1", "fortran_order": False, "shape": shape})
    return stream.getvalue()


HOSTILE = {
    "no zip": b"what is this",
    "an empty file": b"",
    "half a file": member(header_of((2, 3)) + bytes(6))[:60],
    "no array": member(b"hello"),
    "a header that is code": member(b"\x93NUMPY\x01\x00\x20\x00__import__('os').getpid()        "),
    "a header that promises a terabyte": member(header_of((1 << 20, 1 << 20)) + bytes(100)),
    "negative lengths": member(header_of((-5, 3)) + bytes(100)),
    "fewer values than it says": member(header_of((200, 300)) + bytes(100)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_an_error_and_no_crash(case: str, write: Write) -> None:
    with pytest.raises(DataError, match=r"trace\.txt"):
        read_receptions(write(HOSTILE[case]))


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "r.npz", **arrays())
    monkeypatch.setattr(link_traces, "MAX_ARRAY_BYTES", 5)
    with pytest.raises(DataError, match=r"received has shape \(2, 3\) and so 6 bytes; at most 5 are read"):
        read_receptions(tmp_path / "r.npz")


# --- the real ones ----------------------------------------------------------------------------------------------------


def test_real_traces_have_the_sizes_and_means_that_are_known_of_them(link_traces_root: Path) -> None:
    capacity = {path.name: read_mahimahi(path) for path in (link_traces_root / "mahimahi").iterdir()}
    assert len(capacity["ATT-LTE-driving.down"]) == 338_895
    assert capacity["Verizon-LTE-short.up"][-1] == 140.0

    rates = [read_pensieve(path) for path in sorted((link_traces_root / "pensieve").iterdir())]
    assert len(rates) == 127
    assert all(1e4 < trace.rate_bps.mean() < 1e9 for trace in rates)

    runs = [read_cicv5g(path) for path in sorted((link_traces_root / "cicv5g_urban").glob("*/*/*.txt"))]
    assert len(runs) == 24
    assert all(0.010 < float(np.median(run.round_trip_s)) < 0.030 for run in runs)

    receptions = read_receptions(link_traces_root / "rutgers_noise_-20_-10.npz")
    assert receptions.received.shape == (1624, 300)
    assert receptions.received.mean() == pytest.approx(0.7785, abs=5e-5)


@pytest.mark.parametrize("file", ["Verizon-LTE-short.up", "ATT-LTE-driving-2016.down", "Verizon-EVDO-driving.up"])
def test_a_real_trace_is_replayed_to_the_millisecond(file: str, link_traces_root: Path) -> None:
    """A sender that never pauses sends one packet at every recorded instant, and goes on at the beginning."""
    recorded_s = read_mahimahi(link_traces_root / "mahimahi" / file)
    last = recorded_s[-3000:]  # of the first replay, and then of the second
    pace, now_s = RecordedOpportunities(recorded_s), float(last[0]) - HALF_A_MILLISECOND
    departures = []
    for _ in range(6000):
        now_s += pace(now_s, OPPORTUNITY_BYTES)
        departures.append(now_s)
    first = int(np.searchsorted(recorded_s, last[0]))
    expected = np.concatenate([recorded_s[first:], recorded_s + recorded_s[-1]])[:6000]
    np.testing.assert_allclose(departures, expected, rtol=0.0, atol=ROUNDING)
    assert np.abs(np.array(departures) - np.roll(expected, 1)).max() > HALF_A_MILLISECOND  # negative control
