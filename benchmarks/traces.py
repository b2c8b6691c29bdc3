"""How long the readers of link traces take for files of 100 MB, and how much memory: prints JSON.

    python benchmarks/traces.py [--megabytes 100]

Files are made up in the shapes that are published: milliseconds alone, two columns, 13 columns, and a log of 26.
Seconds are those that a core was busy; memory is what Python allocated at most beside the file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sheafedge.benchmarks.machine import machine_facts, print_report
from sheafedge.datasets.traces.link_traces import read_cicv5g, read_gnettrack, read_mahimahi, read_pensieve

_CICV5G = (
    "pub_time(ms) sub_time(ms) delay(ms) utmX(m) utmY(m) heading(rad) velocity(m/s) cellid(db) sinr(db) rsrp(db) "
    "currentX(m) currentY currentHeading(rad)"
)
_GNETTRACK = (
    "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,RSSI,DL_bitrate,UL_bitrate,"
    "State,PINGAVG,PINGMIN,PINGMAX,PINGSTDEV,PINGLOSS,CELLHEX,NODEHEX,LACHEX,RAWCELLID,NRxRSRP,NRxRSRQ"
)
_START = datetime(2019, 12, 16, tzinfo=UTC)


def _mahimahi(row: int) -> str:
    return f"{row * 3 // 2}\n"


def _pensieve(row: int) -> str:
    return f"{row / 10:.2f}\t{row % 97 / 10:.5f}\n"


def _cicv5g(row: int) -> str:
    sent = 1_723_535_284_750 + 54 * row
    place = "328969.559999999997672 3463475.560000000055879 2.015200787583953"
    return f"{sent} {sent + 33} {15 + row % 40} {place} 3.92 5C4225714 3 -73 {place}\n"


def _gnettrack(row: int) -> str:
    stamp = f"{_START + timedelta(seconds=row - row // 7):%Y.%m.%d_%H.%M.%S}"
    return f"{stamp},-8.39,51.89,13,B,2,5G,-92,-11,10.0,12,-,{5000 + row % 97},{row % 9},D,-,-,-,-,-,C,A,B,1,-100,-1\n"


#: Format -> its first line, a row, its reader.
_FORMATS: dict[str, tuple[str, Callable[[int], str], Callable[[Path], Any]]] = {
    "mahimahi": ("", _mahimahi, read_mahimahi),
    "pensieve": ("", _pensieve, read_pensieve),
    "cicv5g": (_CICV5G + "\n", _cicv5g, read_cicv5g),
    "gnettrack": (_GNETTRACK + "\n", _gnettrack, read_gnettrack),
}


def _measured(kind: str, megabytes: float, folder: Path) -> dict[str, float]:
    header, row, read = _FORMATS[kind]
    path, n_bytes, n_rows = folder / kind, len(header), 0
    with path.open("w") as stream:
        stream.write(header)
        while n_bytes < megabytes * 1e6:
            n_bytes += stream.write(row(n_rows))
            n_rows += 1
    began_s = time.process_time()
    read(path)
    busy_s = time.process_time() - began_s
    tracemalloc.start()  # slows down what it watches, so that the time is that of another reading
    read(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    path.unlink()
    return {"rows": n_rows, "seconds": round(busy_s, 2), "peak_mb": round(peak_bytes / 1e6)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Time the readers of link traces.")
    parser.add_argument("--megabytes", type=float, default=100.0, help="size of each file")
    asked = parser.parse_args(arguments)
    machine = machine_facts()
    with tempfile.TemporaryDirectory() as folder:
        formats = {kind: _measured(kind, asked.megabytes, Path(folder)) for kind in _FORMATS}
    print_report("traces", machine, {"megabytes": asked.megabytes, "formats": formats})


if __name__ == "__main__":
    main()
