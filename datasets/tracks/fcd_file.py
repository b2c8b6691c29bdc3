"""Reader of SUMO's floating-car data: `<fcd-export>` with a `<timestep>` per instant, as `sumo --fcd-output` writes it.

The file is parsed as a stream, so its size does not matter. Files with a document type are refused: nothing that SUMO
writes has one, and entities in it could unpack to gigabytes or name other files.

Source: SUMO user documentation, Simulation/Output/FCDOutput; the schema is data/xsd/fcd_file.xsd of SUMO.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any, BinaryIO
from xml.parsers import expat

from ...emulator.contracts import DataError
from ...emulator.regular_file import open_regular, quoted, reason, shown
from .track_table import MOST_M, MOST_S, TrackCollector, TrackTable, TrackWindow, parsed_number

#: Bytes that are parsed at once; an element of SUMO has some hundred.
PIECE_BYTES = 1 << 18
MOST_ELEMENT_BYTES = 1 << 20
#: A packed file that unpacks to more than the first may be at most so many times smaller; those of SUMO are 10 to 20.
UNPACKED_BYTES, MOST_UNPACKED = 1 << 26, 200
MOST_DEPTH = 16
_PEOPLE = {"vehicle": False, "person": True}


def read_fcd(path: Path, window: TrackWindow) -> TrackTable:
    """Vehicles and people of a file of floating-car data, plain or packed by gzip (`.gz`).

    Args:
        path: path of the file.
        window: what is kept of it; reading stops after its last instant.

    Raises:
        DataError: the file cannot be read, is no floating-car data, has a document type, is too large, or an element
            lacks a number; names file and line.
    """
    parsing = _Parsing(path, window)
    try:
        with open_regular(path) as raw:
            if path.suffix == ".gz":
                most_bytes = max(UNPACKED_BYTES, MOST_UNPACKED * os.fstat(raw.fileno()).st_size)
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    parsing.read(unpacked, most_bytes)
            else:
                parsing.read(raw, os.fstat(raw.fileno()).st_size)
    except FileNotFoundError:
        raise DataError(f"no tracks at {shown(path)}; give world.tracks.file the path of a file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{shown(path)} cannot be unpacked ({reason(error)}); it is damaged or no gzip file") from None
    except OSError as error:
        raise DataError(f"{shown(path)} cannot be read ({reason(error)}); give a file of floating-car data") from None
    return parsing.collector.table("front")


class _Done(Exception):  # noqa: N818 - no error
    """The last instant of the window has passed; it never leaves this module."""


class _Parsing:
    """State while a file is parsed."""

    def __init__(self, path: Path, window: TrackWindow) -> None:
        self.collector = TrackCollector(path, window)
        self._path, self._window = path, window
        self._parents: list[str] = []
        self._time_s: float | None = None
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._started
        self._parser.EndElementHandler = self._ended
        self._parser.StartDoctypeDeclHandler = self._has_doctype
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def read(self, stream: BufferedIOBase | BinaryIO, most_bytes: int) -> None:
        """Parse to the end, or to the end of the window."""
        n_bytes = 0
        try:
            while piece := stream.read(PIECE_BYTES):
                n_bytes += len(piece)
                self._parser.Parse(piece, False)
                if n_bytes > most_bytes:
                    raise DataError(
                        f"{shown(self._path)} unpacks to over {MOST_UNPACKED} times its size, which tracks do not; pack"
                        " it again"
                    )
                # of an element that does not end, expat would keep everything
                if n_bytes - max(self._parser.CurrentByteIndex, 0) > PIECE_BYTES + MOST_ELEMENT_BYTES:
                    raise DataError(
                        f"{self._where()}: an element has over {MOST_ELEMENT_BYTES >> 20} MB; it has no end"
                    )
            self._parser.Parse(b"", True)
        except _Done:
            pass
        except expat.ExpatError as error:
            raise DataError(
                f"{shown(self._path)}:{error.lineno}: it is no XML here ({expat.ErrorString(error.code)}); write it"
                " again with sumo --fcd-output"
            ) from None
        except (ValueError, LookupError) as error:  # an encoding that Python does not have
            raise DataError(f"{self._where()}: it cannot be read as XML ({reason(error)}); write it in UTF-8") from None

    def _where(self) -> str:
        return f"{shown(self._path)}:{self._parser.CurrentLineNumber}"

    def _has_doctype(self, *_: Any) -> None:
        raise DataError(f"{self._where()}: the file has a document type, which no floating-car data has; remove it")

    def _started(self, name: str, attributes: Mapping[str, str]) -> None:
        if not self._parents and name != "fcd-export":
            raise DataError(
                f"{self._where()}: the file begins with {quoted(name)}, floating-car data with 'fcd-export'"
            )
        if len(self._parents) >= MOST_DEPTH:
            raise DataError(f"{self._where()}: elements lie over {MOST_DEPTH} deep; it is no floating-car data")
        parent = self._parents[-1] if self._parents else ""
        self._parents.append(name)
        if name == "timestep" and parent == "fcd-export":
            self._begin(self._number(name, attributes, "time", MOST_S))
        elif name in _PEOPLE and parent == "timestep" and not attributes.get("vehicle"):  # who rides is in its box
            self._sample(name, attributes)

    def _ended(self, _: str) -> None:
        self._parents.pop()

    def _begin(self, time_s: float) -> None:
        if self._time_s is not None and time_s <= self._time_s:
            raise DataError(f"{self._where()}: the time step {time_s:g} s follows {self._time_s:g} s; steps must rise")
        if time_s > self._window.last_s + self._window.margin_s:
            raise _Done
        self._time_s = time_s
        self.collector.covers(time_s)

    def _sample(self, element: str, attributes: Mapping[str, str]) -> None:
        if self._time_s is None or "id" not in attributes:
            raise DataError(f"{self._where()}: a {element} has no id, or stands before the first time step")
        self.collector.add(
            self._parser.CurrentLineNumber,
            attributes["id"],
            attributes.get("type", ""),
            _PEOPLE[element],
            self._time_s,
            self._number(element, attributes, "x", MOST_M),
            self._number(element, attributes, "y", MOST_M),
            self._number(element, attributes, "angle", 1e4),
        )

    def _number(self, element: str, attributes: Mapping[str, str], name: str, most: float) -> float:
        if name not in attributes:
            raise DataError(f"{self._where()}: a {element} has no attribute {name}; write x, y and angle of all")
        return parsed_number(self._where(), f"{name} of a {element}", attributes[name], most)
