"""Readers of what others measured on real links: capacity of cells, rates of streams, delays of messages."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import DataError
from .trace_table import check_order, columns_of, trace_rows

_CICV5G_HEADER = "pub_time(ms) sub_time(ms) delay(ms)"
_CICV5G_COLUMNS = {"pub_time": 0, "delay": 2, "utmX": 3, "utmY": 4, "velocity": 6, "sinr": 8, "rsrp": 9}


class RateTrace(NamedTuple):
    """Capacity over time.

    Attributes:
        time_s: [n] strictly ascending.
        rate_bps: [n] measured over the time that ends at each instant.
    """

    time_s: NDArray[np.float64]
    rate_bps: NDArray[np.float64]


class DelayTrace(NamedTuple):
    """Round trips of messages of a vehicle.

    Attributes:
        time_s: [n] when each was sent, from 0, strictly ascending.
        round_trip_s: [n] until its answer was there.
        position_m: [n, 2] east and north, UTM.
        speed_m_s: [n].
        sinr_db, rsrp_dbm: [n] what the modem said.
    """

    time_s: NDArray[np.float64]
    round_trip_s: NDArray[np.float64]
    position_m: NDArray[np.float64]
    speed_m_s: NDArray[np.float64]
    sinr_db: NDArray[np.float64]
    rsrp_dbm: NDArray[np.float64]


def read_mahimahi(path: Path) -> NDArray[np.float64]:
    """[n] seconds at each of which one packet of 1500 bytes may leave, ascending, many of them equal.

    A line is such an instant in whole milliseconds. The trace begins anew at its last one.

    Raises:
        DataError: a row that is no instant, is before the one above it, or no instant after 0.

    Source: mahimahi, `mm-link`(1).
    """
    rows = trace_rows(path)
    time_ms = columns_of(path, rows, {"milliseconds": 0}, width=1, first_row=1)["milliseconds"]
    if wrong := np.flatnonzero(time_ms != np.floor(time_ms)).tolist():
        raise DataError(f"{path} row {wrong[0] + 1} must be a whole number of milliseconds, got {time_ms[wrong[0]]:g}")
    check_order(path, "milliseconds", time_ms, strictly=False, first_row=1, lowest=0.0)
    if time_ms[-1] == 0.0:
        raise DataError(f"{path} row {len(rows)} must be after 0 ms, for a trace that lasts no time has no rate")
    return time_ms / 1e3


def read_pensieve(path: Path) -> RateTrace:
    """A trace of "seconds Mbit/s".

    Raises:
        DataError: a row of other width, a time that does not ascend, a negative rate, or nothing but zeros.

    Source: Mao, Netravali, Alizadeh: Neural Adaptive Video Streaming with Pensieve, 2017; its `cooked_traces`.
    """
    columns = columns_of(path, trace_rows(path), {"seconds": 0, "Mbit/s": 1}, width=2, first_row=1)
    time_s, rate = columns["seconds"], columns["Mbit/s"]
    check_order(path, "seconds", time_s, strictly=True, first_row=1)
    if wrong := np.flatnonzero(rate < 0.0).tolist():
        raise DataError(f"{path} row {wrong[0] + 1}: Mbit/s must be 0 or more, got {rate[wrong[0]]:g}")
    if not (rate[1:] > 0.0).any():
        raise DataError(f"{path} row 2 or a later one must have a rate above 0 Mbit/s; nothing would ever pass")
    return RateTrace(time_s, rate * 1e6)


def read_cicv5g(path: Path) -> DelayTrace:
    """A run of the CICV5G set: round trips over a commercial 5G network with position and signal.

    Raises:
        DataError: another header, a row of other width, a time that does not ascend, or a negative delay.

    Source: CICV5G, the header line of its files.
    """
    rows = trace_rows(path, header=_CICV5G_HEADER)
    columns = columns_of(path, rows, _CICV5G_COLUMNS, width=10, first_row=2)
    check_order(path, "pub_time", columns["pub_time"], strictly=True, first_row=2)
    delay_ms = columns["delay"]
    if wrong := np.flatnonzero(delay_ms < 0.0).tolist():
        raise DataError(f"{path} row {wrong[0] + 2}: delay must be 0 ms or more, got {delay_ms[wrong[0]]:g}")
    if len(rows) < 2:
        raise DataError(f"{path} row 2 is the only one; a trace of delays has two or more")
    return DelayTrace(
        (columns["pub_time"] - columns["pub_time"][0]) / 1e3,
        delay_ms / 1e3,
        np.stack([columns["utmX"], columns["utmY"]], axis=1),
        columns["velocity"],
        columns["sinr"],
        columns["rsrp"],
    )
