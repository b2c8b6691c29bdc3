"""Generators of hostile files: mutations of sound ones, and structures that no program of ours writes."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from sheafedge.datasets.recordings.recording_layout import RecordingDescription, StationDescription, standard_field
from sheafedge.datasets.recordings.recording_writer import RecordingWriter

Draws = np.random.Generator
#: Content of a file that no reader may open, and no message may repeat.
SECRET = "root:x:0:0:secret"  # noqa: S105 - a name to look for
POISON = (float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 1e38, -1.0, 0.0, 2.0**31, 2.0**63, 5e-324, 181.0)
WORDS = (
    *("nan", "inf", "-inf", "1e300", "1e-300", "-1", "0", "99999999999999999999", "1_0", "0x10", "", " ", "\t", "\0"),
    *(
        "9" * 5_000,
        "a" * 70_000,
        "[/red]",
        "\x1b[2J",
        "é",
        "../../secret.txt",
        "/etc/passwd",
        "x/" * 3_000,
        "{" * 3_000,
    ),
    *('"', "'", "[" * 2_000, "=", "#", ",", ";", "\n", "\r\n", "true", "null", "-0", "1e", "٣", "{}", "[]", "C:\\x"),
)


def chosen(draws: Draws, values: Any) -> Any:
    """One of some values."""
    return values[int(draws.integers(len(values)))]


def mutated(content: bytes, draws: Draws) -> bytes:
    """Content with a few bits flipped, a piece removed, doubled, moved, blown up or replaced."""
    raw = bytearray(content)
    for _ in range(int(draws.integers(1, 4))):
        first, stop = sorted(draws.integers(0, len(raw) + 1, 2).tolist())
        stop = min(stop, first + 64)
        kind = int(draws.integers(7))
        if kind <= 1 and raw:
            for at in draws.integers(0, len(raw), int(draws.integers(1, 9))):
                raw[at] ^= 1 << int(draws.integers(8))
        elif kind == 2:
            del raw[first:stop]
        elif kind == 3:
            raw[first:first] = raw[first:stop] * int(chosen(draws, (1, 2, 50)))
        elif kind == 4:
            del raw[first:]
        elif kind == 5:
            raw[first:stop] = draws.bytes(stop - first)
        else:
            raw[first:stop] = struct.pack("<d", chosen(draws, POISON))
    return bytes(raw)


def reworded(content: bytes, draws: Draws) -> bytes:
    """Text with some words, values or lines replaced by others."""
    lines = content.decode("utf-8", "replace").split("\n")
    for _ in range(int(draws.integers(1, 4))):
        at = int(draws.integers(len(lines)))
        kind = int(draws.integers(4))
        if kind == 0:
            lines[at] = lines[int(draws.integers(len(lines)))]
        elif kind == 1:
            lines.insert(at, chosen(draws, WORDS))
        else:
            for mark in ("=", ",", ":", "\t", " "):
                parts = lines[at].split(mark)
                if len(parts) > 1:
                    parts[int(draws.integers(len(parts)))] = chosen(draws, WORDS)
                    lines[at] = mark.join(parts)
                    break
            else:
                lines[at] = chosen(draws, WORDS)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def text_or_bytes(content: bytes, draws: Draws) -> bytes:
    """One of both kinds of mutation."""
    return (reworded if draws.random() < 0.6 else mutated)(content, draws)


def write_recording(path: Path, n_frames: int = 40) -> None:
    """A small recording with every kind of field."""
    draws = np.random.default_rng(5)
    shapes = {"lidar": (6, 2), "camera": (4, 4, 3), "rf": (8,), "gps": (2,), "radar": (3, 3), "signal": (5,)}
    labels = ("blocked_geometric", "blocked_power", "los_loss_db", "best_beam", "frame_index")
    fields = (
        *(
            standard_field(name, shape, **({"columns": ("east_m", "north_m")} if name == "gps" else {}))
            for name, shape in shapes.items()
        ),
        *(standard_field(name) for name in labels),
    )
    row = np.arange(n_frames)
    frames = {
        "time_s": row / 10.0,
        "sequence": (row >= n_frames // 2).astype(np.int32),
        "frame_index": row.astype(np.int32),
        "lidar": draws.uniform(0, 6, (n_frames, 6, 2)).astype(np.float32),
        "camera": draws.integers(0, 255, (n_frames, 4, 4, 3)).astype(np.uint8),
        "radar": draws.integers(0, 255, (n_frames, 3, 3)).astype(np.uint8),
        "signal": draws.normal(-90.0, 5.0, (n_frames, 5)).astype(np.float32),
        "rf": draws.uniform(0.1, 1, (n_frames, 8)).astype(np.float32),
        "gps": draws.uniform(-50, 50, (n_frames, 2)),
        "blocked_geometric": draws.random(n_frames) < 0.3,
        "blocked_power": draws.random(n_frames) < 0.3,
        "los_loss_db": draws.uniform(0, 30, n_frames).astype(np.float32),
        "best_beam": draws.integers(0, 8, n_frames).astype(np.int32),
    }
    station = StationDescription("a road", 10.0, fields, {"latitude_deg": 60.0, "longitude_deg": 10.0})
    with RecordingWriter(path, RecordingDescription("[data]\n", None, "attacks", (station,))) as writer:
        writer.append(0, frames)


def _value(file: Any, draws: Draws) -> None:
    name = chosen(draws, sorted(file["bs00"]))
    with np.errstate(all="ignore"):
        rows = file["bs00"][name][()]
        rows.reshape(-1)[int(draws.integers(rows.size))] = np.array(chosen(draws, POISON)).astype(rows.dtype)
    file["bs00"][name][...] = rows


def _order(file: Any, draws: Draws) -> None:
    name = chosen(draws, ("time_s", "sequence", "frame_index"))
    file["bs00"][name][...] = draws.permutation(file["bs00"][name][()])


def _dataset(file: Any, draws: Draws) -> None:
    name = chosen(draws, sorted(file["bs00"]))
    del file["bs00"][name]
    shape = chosen(draws, ((40,), (0,), (40, 8), (10**12,), (40, 4097), (1, 1, 1, 1), (), (2**40, 2**10)))
    kind = chosen(draws, ("f4", "f8", "i4", "u1", "S9", "c16", h5py.string_dtype(), h5py.ref_dtype, "i8", "f2"))
    more = {"chunks": tuple(min(size, 16) or 1 for size in shape), "compression": "gzip"} if shape else {}
    file["bs00"].create_dataset(
        name, shape, kind, **(more if 0 not in shape else {"maxshape": (None,), "chunks": (4,)})
    )


def _attribute(file: Any, draws: Draws) -> None:
    owner = chosen(draws, (file, file["bs00"], file["bs00"]["rf"], file["bs00"]["gps"]))
    name = chosen(draws, sorted(owner.attrs))
    value = chosen(
        draws,
        (
            *POISON, *WORDS, b"\xff\xfe", np.zeros(9), h5py.Empty("f8"), 10**9, -5, b"[" * 20_000, b'{"a": NaN}',
            b'{"latitude_deg": 1e999}', b'{"latitude_deg": 91}', np.bytes_(b"x" * 60_000), b"[1, 2]", True,
        ),
    )  # fmt: skip
    owner.attrs[name] = value if not isinstance(value, str) else np.bytes_(value.replace("\0", "?").encode())


def _link(file: Any, draws: Draws) -> None:
    where = chosen(draws, ("bs00/rf", "bs00/time_s", "bs00", "bs00/extra", "bs01"))
    if where in file:
        del file[where]
    link = chosen(
        draws,
        (h5py.ExternalLink("/etc/passwd", "/x"), h5py.ExternalLink("other.h5", "/bs00"), h5py.SoftLink("/bs00"),
         h5py.SoftLink(f"/{where}"), h5py.SoftLink("/nowhere"), None),
    )  # fmt: skip
    if link is None:
        file.require_group(os.path.dirname(where) or "/")  # noqa: PTH120 - a name in the file
        file[where] = file["/"]  # a circle of hard links
    else:
        file[where] = link


def _bomb(file: Any, draws: Draws) -> None:
    """Every field blown up with zeros, which deflate to a thousandth."""
    n_frames = int(chosen(draws, (200_000, 1_000_000)))
    for name in list(file["bs00"]):
        shape, kind, attrs = file["bs00"][name].shape[1:], file["bs00"][name].dtype, dict(file["bs00"][name].attrs)
        del file["bs00"][name]
        if draws.random() < 0.5 and name not in {"time_s", "sequence"}:
            continue
        made = file["bs00"].create_dataset(
            name, (n_frames, *shape), kind, chunks=(min(n_frames, 1 << 17), *shape), compression="gzip"
        )
        content = zlib.compress(bytes(int(np.prod(made.chunks)) * kind.itemsize))
        for first in range(0, n_frames, made.chunks[0]):
            made.id.write_direct_chunk((first, *(0 for _ in shape)), content)
        for key, value in attrs.items():
            made.attrs[key] = value
    file["bs00"].attrs["n_frames"] = n_frames


def _removed(file: Any, draws: Draws) -> None:
    del file[chosen(draws, ("bs00", "bs00/time_s", "bs00/rf", "bs00/gps", "bs00/best_beam"))]


#: From common to rare: a bomb takes long to make.
STRUCTURES: tuple[Callable[[Any, Draws], None], ...] = (
    *(_value,) * 6, *(_order,) * 2, *(_dataset,) * 5, *(_attribute,) * 7, *(_link,) * 4, *(_removed,) * 1, _bomb,
)  # fmt: skip


def restructured(path: Path, draws: Draws) -> None:
    """Changes the structure or the values of a recording."""
    with h5py.File(path, "r+") as file:
        chosen(draws, STRUCTURES)(file, draws)


def mat_bytes(sweep: np.ndarray) -> bytes:
    """A sweep as a MATLAB file of level 5."""

    def element(kind: int, data: bytes) -> bytes:
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    parts = (
        element(6, struct.pack("<II", 6, 0)),
        element(5, struct.pack("<ii", *sweep.shape)),
        element(1, b"data"),
        element(9, sweep.astype("<f8").tobytes(order="F")),
    )
    return b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + element(14, b"".join(parts))


def nested_mat(content: bytes, draws: Draws) -> bytes:
    """Its elements compressed again and again, or beside many of their own kind."""
    body = content[128:]
    for _ in range(int(chosen(draws, (1, 2, 1_500)))):
        packed = zlib.compress(body)
        body = struct.pack("<II", 15, len(packed)) + packed
    return content[:128] + body * int(chosen(draws, (1, 30)))
