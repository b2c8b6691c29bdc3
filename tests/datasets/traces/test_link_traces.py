"""Traces of real links: made-up files row by row, hostile ones, and the real ones where this machine has them."""

from __future__ import annotations

import io
import os
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sheafedge.datasets.traces import link_traces, trace_columns
from sheafedge.datasets.traces.link_traces import (
    read_cicv5g,
    read_gnettrack,
    read_mahimahi,
    read_pensieve,
    read_receptions,
)
from sheafedge.datasets.traces.trace_rows import instants
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


def test_a_line_of_cicv5g_is_a_round_trip(write: Write) -> None:
    trace = read_cicv5g(write("\n".join([HEADER, *ROWS, ""])))
    np.testing.assert_allclose(trace.time_s, [0.0, 0.055])
    np.testing.assert_array_equal(trace.round_trip_s, [0.042, 0.024])


def cicv5g(*rows: str) -> str:
    return "\n".join([HEADER, *rows])


def gnettrack(*stamps: str, rate: int = 7) -> str:
    """A log as the application writes it, shortened to some of its columns."""
    rows = [f"{stamp},-8.39,51.89,B,5G,-,{rate}" for stamp in stamps]
    return "\n".join(["Timestamp,Longitude,Latitude,Operatorname,NetworkMode,RSSI,DL_bitrate", *rows, ""])


#: Files as they are published, beside those of ten columns: a wider first line and rows, wider rows alone, a sheet
#: saved as CSV by two programs, and one with tabs and cells that were empty.
WIDER = " 328969.38 3463475.67 2.01"
SHAPES = {
    "13 columns": "\n".join([f"{HEADER} currentX(m) currentY currentHeading(rad)", *(row + WIDER for row in ROWS)]),
    "10 names, 12 values": "\n".join([HEADER, *(f"{row} 328969.38 3463475.67" for row in ROWS)]),
    "commas": "\n".join([HEADER.replace(" ", ","), *(row.strip().replace(" ", ",") for row in ROWS)]),
    "a sheet": "\ufeff" + "\r\n".join([HEADER.replace(" ", ";"), *(row.strip().replace(" ", ";") for row in ROWS), ""]),
    "quotes": "\n".join(['"' + one.strip().replace(" ", '","') + '"' for one in (HEADER, *ROWS)]),
    "tabs": "\n".join(
        [f"{HEADER} more".replace(" ", "\t"), *(row.replace(" ", "\t") + "\t" for row in ROWS), "\t", ""]
    ),
    "other columns": "delay(ms),pub_time(ms)\n42,1721200386667\n24,1721200386722\n",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_published_shape_of_cicv5g_says_the_same(shape: str, write: Write) -> None:
    trace = read_cicv5g(write(SHAPES[shape]))
    np.testing.assert_allclose(trace.time_s, [0.0, 0.055])
    np.testing.assert_array_equal(trace.round_trip_s, [0.042, 0.024])


def test_rates_of_one_instant_become_their_mean_and_of_delays_the_last_counts(write: Write) -> None:
    rates = read_pensieve(write("0 9\n0 3\n1 1\n1 2\n1 6\n2 5\n"))
    np.testing.assert_array_equal(rates.time_s, [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(rates.rate_bps, [6e6, 3e6, 5e6])
    delays = read_cicv5g(write("pub_time(ms) delay(ms)\n100 1\n100 2\n150 3\n150 4\n"))
    np.testing.assert_array_equal(delays.time_s, [0.0, 0.05])
    np.testing.assert_array_equal(delays.round_trip_s, [0.002, 0.004])


def test_a_log_of_gnettrack_has_seconds_and_rates_of_both_directions(write: Write) -> None:
    log = (
        "Timestamp,NetworkMode,DL_bitrate,UL_bitrate,State\n"
        "2019.12.31_23.59.59,5G,5000,7,D\n2020.01.01_00.00.00,LTE,100,8,D\n"
        "2020.01.01_00.00.00,5G,300,10,I\n2020.01.01_00.00.07,5G,0,11,D\n"
    )
    down = read_gnettrack(write(log))
    np.testing.assert_array_equal(down.time_s - down.time_s[0], [0.0, 1.0, 8.0])
    assert down.time_s[0] == datetime(2019, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
    np.testing.assert_array_equal(down.rate_bps, [5e6, 2e5, 0.0])
    np.testing.assert_array_equal(read_gnettrack(write(log), "uplink").rate_bps, [7e3, 9e3, 11e3])


FIRST_DAY = datetime(1970, 1, 2, tzinfo=UTC).replace(tzinfo=None)


@given(st.lists(st.datetimes(FIRST_DAY, FIRST_DAY + timedelta(days=80_000)), min_size=1, max_size=30))
def test_instants_are_those_of_the_calendar(moments: list[datetime]) -> None:
    whole = [moment.replace(microsecond=0, tzinfo=UTC) for moment in moments]
    words = [f"{moment:%Y.%m.%d_%H.%M.%S}".encode() for moment in whole]
    np.testing.assert_array_equal(instants(words), [moment.timestamp() for moment in whole])


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
    "a time that falls": (
        read_pensieve,
        "0 1\n2 2\n1 3\n",
        r"row 3: seconds must be no less than that of the row before",
    ),
    "a time that stands": (read_pensieve, "1 1\n1 2\n1 3\n", r"has one instant in all rows, 1;"),
    "a clock of a spreadsheet": (read_pensieve, "0 1\n" + "1.7e9 1\n" * 101, r"row 2 begins 101 rows of one instant"),
    "a rate below zero": (read_pensieve, "0 1\n1 -2\n", r"row 2: Mbit/s must lie from 0 to 1e\+07, got -2"),
    "a rate that is none": (read_pensieve, "0 1\n1 nan\n", r"row 2: Mbit/s must be a finite number, got 'nan'"),
    "no rate at all": (read_pensieve, "0 5\n1 0\n", r"row 2 or a later one must have a rate above 0"),
    "one row": (read_pensieve, "0 5\n", r"has one instant"),
    "another format": (read_cicv5g, "0 1\n", r"row 1 must name a column 'pub_time\(ms\)', got '0 1'"),
    "delays in seconds": (read_cicv5g, HEADER.replace("delay(ms)", "delay(s)"), r"must name a column 'delay\(ms\)'"),
    "a workbook": (read_cicv5g, b"PK\x03\x04" + bytes(90), r"is a workbook or an archive, whatever its name"),
    "an empty cell": (
        read_cicv5g,
        "pub_time(ms),x,delay(ms)\n1,,2\n2,,\n",
        r"row 3: delay must be a finite number, got ''",
    ),
    "a short row of a sheet": (read_cicv5g, "pub_time(ms),delay(ms),x\n1,2,\n2,3\n", r"row 3 has 2 values where 3 are"),
    "rows of two widths": (read_cicv5g, cicv5g(ROWS[0] + " 1 2", ROWS[1]), r"row 3 has 10 values where 12 are due"),
    "no date": (read_gnettrack, gnettrack("2019.12.16_13.40.04", "13.40.05"), r"row 3: Timestamp must be a time like"),
    "a day that is none": (read_gnettrack, gnettrack("2019.02.30_13.40.04"), r"row 2: Timestamp must be a time like"),
    "an hour that is none": (read_gnettrack, gnettrack("2019.02.03_24.40.04"), r"got '2019\.02\.03_24\.40\.04'"),
    "no uplink": (partial(read_gnettrack, direction="uplink"), gnettrack("2019.02.03_04.40.04"), r"column 'UL_bitrate"),
    "no rate of one row": (
        read_gnettrack,
        gnettrack("2019.12.16_13.40.04", "2019.12.16_13.40.05").replace(",7\n", ",-\n"),
        r"row 2: DL_bitrate must be a finite number, got '-'",
    ),
    "a short row": (read_cicv5g, cicv5g(ROWS[0], "1 2 3"), r"row 3 has 3 values where 10 are due"),
    "an early answer": (
        read_cicv5g,
        cicv5g(ROWS[0], ROWS[1].replace(" 24 ", " -24 ")),
        r"delay must lie from 0 .*, got -24",
    ),
    "rows in disorder": (
        read_cicv5g,
        cicv5g(*reversed(ROWS)),
        r"row 3: pub_time must be no less than .* \(1721200386722\), got 1721200386667; give runs",
    ),
    "a rate that overflows": (read_pensieve, "0 1\n1 1e300\n", r"row 2: Mbit/s must lie from 0 to 1e\+07, got 1e\+300"),
    "a gap between blocks": (read_mahimahi, "1\n" * 30 + "\n" * 30 + "2\n", r"row 31 has 0 values where 1 are due"),
    "back in time in another block": (read_mahimahi, "5\n" * 30 + "4\n", r"row 31: .* \(5\), got 4"),
    "a line without an end": (read_mahimahi, "1\n" + "9" * 70_000, r"a line of more than 65536 bytes"),
    "one round trip": (read_cicv5g, cicv5g(ROWS[0]), r"has one instant in all rows"),
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


@pytest.mark.parametrize("read", [read_mahimahi, read_pensieve, read_gnettrack, read_cicv5g, read_receptions])
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


def test_memory_holds_two_columns_of_a_wide_table_and_one_block(write: Write) -> None:
    """Rows of 13 columns, 35 MB of them."""
    n_rows = 150_000
    row = "{} 9 20 " + " ".join(["3463475.560000000055879"] * 10) + "\n"
    path = write(f"{HEADER} a b c\n" + "".join(row.format(50 * at) for at in range(n_rows)))
    assert path.stat().st_size > 35e6
    tracemalloc.start()
    try:
        trace = read_cicv5g(path)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(trace.time_s) == n_rows
    # one block: its words as objects, and where they begin in 8 bytes each; ten columns of 8 bytes a row
    assert peak_bytes < 16 * trace_columns.BLOCK_BYTES + 10 * 8 * n_rows < path.stat().st_size


@pytest.mark.parametrize("read", [read_mahimahi, read_receptions])
def test_what_is_no_file_is_not_waited_for(read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("x" * 6_000)):
        with pytest.raises(DataError, match="read") as caught:
            read(path)
        assert len(str(caught.value)) < 500


# --- receptions -------------------------------------------------------------------------------------------------------


RECEIVED = np.array([[True, False, True], [False, False, True]])


@pytest.mark.parametrize("values", [RECEIVED, RECEIVED.astype(np.uint8), RECEIVED.astype(np.int64)])
def test_receptions_are_read_link_by_link(values: NDArray[Any], tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "r.npz", received=values)
    np.testing.assert_array_equal(read_receptions(tmp_path / "r.npz").received, RECEIVED)


def test_one_link_needs_one_axis_and_other_arrays_are_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", received=RECEIVED[0], rssi=np.array([{}], dtype=object))
    np.testing.assert_array_equal(read_receptions(tmp_path / "r.npz").received, RECEIVED[:1])


FALSE_ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({"arrived": RECEIVED}, "holds no array 'received' among its 1;"),
    "fractions": ({"received": np.ones((2, 3))}, "received has type float64 and 2 axes"),
    "one packet of no link": ({"received": np.array(True)}, r"received has shape \(\)"),
    "a cube": ({"received": np.ones((2, 2, 2), dtype=bool)}, r"received has shape \(2, 2, 2\), due is"),
    "no packet": ({"received": np.ones((2, 0), dtype=bool)}, r"received has shape \(2, 0\)"),
    "objects": ({"received": np.array([{}, {}], dtype=object)}, "received has type object"),
    "signal strengths": ({"received": np.array([[0, 1], [1, -70]])}, "received row 2 must be 0 or 1, got -70"),
}


@pytest.mark.parametrize("case", FALSE_ARRAYS)
def test_false_arrays_are_refused(case: str, tmp_path: Path) -> None:
    arrays, sentence = FALSE_ARRAYS[case]
    np.savez(tmp_path / "r.npz", **arrays)
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
    np.savez_compressed(tmp_path / "r.npz", received=RECEIVED)
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
