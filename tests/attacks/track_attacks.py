"""Hostile files of tracks: sound ones reworded, cut, swapped and packed, and XML that means harm."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
from attacks.file_attacks import POISON, SECRET, WORDS, Draws, chosen, mutated, text_or_bytes
from sheafedge.datasets.recordings.recording_reader import RecordingReader
from sheafedge.scenarios.recording.record import record_world
from sheafedge.scenarios.schema.world_section import WorldSection

OUT = "road.h5"
_SUMO, _PACKED, _TABLE = "sumo.xml", "packed.xml.gz", "mine.csv"
_HEADING = "time_s,id,kind,x_m,y_m,heading_deg,speed"


def _samples() -> list[tuple[float, str, str, float, float, float]]:
    """A car, a bus and somebody on foot, twice a second for six seconds."""
    times_s = np.arange(0.0, 6.1, 0.5).tolist()
    return [
        sample
        for time_s in times_s
        for sample in (
            (time_s, "a", "car", 8.0 * (time_s - 3.0), 3.95, 90.0),
            (time_s, "b", "bus", 20.0 - 7.0 * time_s, 7.45, 270.0),
            (time_s, "w", "pedestrian", -20.0 + time_s, 10.6, 90.0),
        )
    ]


def _fcd() -> bytes:
    lines = ["<fcd-export>"]
    for time_s, name, kind, x_m, y_m, angle in _samples():
        if name == "a":
            lines += [*(["</timestep>"] if time_s else []), f'<timestep time="{time_s:.2f}">']
        element = "person" if name == "w" else "vehicle"
        lines.append(f'<{element} id="{name}" x="{x_m:.2f}" y="{y_m:.2f}" angle="{angle:.2f}" type="{kind}"/>')
    return "\n".join([*lines, "</timestep>", "</fcd-export>", ""]).encode()


def write_sound_tracks(folder: Path) -> None:
    """The same tracks as floating-car data, packed and not, and as a table."""
    (folder / _SUMO).write_bytes(_fcd())
    (folder / _PACKED).write_bytes(gzip.compress(_fcd(), mtime=0))
    rows = [",".join(map(str, (*sample, 8))) for sample in _samples()]
    (folder / _TABLE).write_text("\n".join([_HEADING, *rows, ""]))
    (folder / "secret.txt").write_text(SECRET)


def _entities(content: bytes, draws: Draws) -> bytes:
    """Entities that grow, name files, or fetch from elsewhere."""
    kind = int(draws.integers(3))
    if kind == 0:
        laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "ha"}">' for i in range(12))
        return f"<!DOCTYPE f [{laughs}]>".encode() + content.replace(b'"a"', b'"&l11;"')
    what = 'SYSTEM "secret.txt"' if kind == 1 else 'SYSTEM "http://127.0.0.1:9/x"'
    return f"<!DOCTYPE f [<!ENTITY x {what}>]>".encode() + content.replace(b"<vehicle", b"&x;<vehicle", 1)


def _nested(content: bytes, draws: Draws) -> bytes:
    return content.replace(b"<vehicle", b"<a>" * int(chosen(draws, (3, 50, 100_000))) + b"<vehicle", 1)


def _endless(content: bytes, draws: Draws) -> bytes:
    return content[: len(content) // 2] + b'<vehicle id="' + b"x" * int(chosen(draws, (1_000, 3_000_000)))


def _valued(content: bytes, draws: Draws) -> bytes:
    """One number, or one word, replaced by another."""
    marks = [at for at, byte in enumerate(content) if byte in b'",']
    first = int(chosen(draws, marks[:-1]))
    stop = next(at for at in marks if at > first)
    value = str(chosen(draws, (*POISON, *WORDS))).encode("utf-8", "surrogatepass")
    return content[: first + 1] + value + content[stop:]


def _swapped(content: bytes, draws: Draws) -> bytes:
    lines = content.split(b"\n")
    one, other = draws.integers(0, len(lines), 2).tolist()
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _encoded(content: bytes, draws: Draws) -> bytes:
    return content.decode().encode(chosen(draws, ("utf-16", "utf-32", "cp037", "utf-7")))


_TEXT: tuple[Callable[[bytes, Draws], bytes], ...] = (
    *(text_or_bytes,) * 4, *(_valued,) * 4, _swapped, _encoded, _endless,
)  # fmt: skip
_XML = (*_TEXT, _entities, _nested)


def harm_sumo(folder: Path, draws: Draws) -> None:
    """The plain file, and the packed one: in its bytes, or in what is packed."""
    path = folder / chosen(draws, (_SUMO, _SUMO, _PACKED))
    other = folder / (_PACKED if path.name == _SUMO else _SUMO)
    other.unlink()
    if path.name == _PACKED and draws.random() < 0.5:
        path.write_bytes(mutated(path.read_bytes(), draws))
        return
    content = chosen(draws, _XML)(_fcd(), draws)
    path.write_bytes(gzip.compress(content) if path.name == _PACKED else content)


def harm_table(folder: Path, draws: Draws) -> None:
    """Words, numbers, columns, rows and bytes of the table."""
    path = folder / _TABLE
    path.write_bytes(chosen(draws, _TEXT)(path.read_bytes(), draws))


def read_sumo(folder: Path) -> str:
    """The whole recording of a world whose traffic is the file."""
    found = [one for one in (folder / _SUMO, folder / _PACKED) if one.exists()]
    return next((complaint for one in found if (complaint := _recorded(folder, one))), "")


def read_table(folder: Path) -> str:
    """The whole recording of a world whose traffic is the table."""
    return _recorded(folder, folder / _TABLE)


def tracked_world(tracks: Path) -> WorldSection:
    """A short world whose traffic is a file."""
    return WorldSection.model_validate(
        {
            "n_sites": 1,
            "duration_s": 4.0,
            "vary_sites": False,
            "sensors": ("lidar", "rf"),
            "codebook": {"n_beams": 8},
            "tracks": {"file": str(tracks), "start_s": 1.0},
        }
    )


def _recorded(folder: Path, tracks: Path) -> str:
    before = {one.name for one in folder.iterdir()}
    try:
        record_world(tracked_world(tracks), 0, folder / OUT, threads=0)
    finally:
        left = sorted({one.name for one in folder.iterdir()} - before - {OUT})
    with RecordingReader(folder / OUT) as reader:
        fields = {name: reader.base_stations[0].read(name) for name in ("rf", "lidar", "los_loss_db")}
    (folder / OUT).unlink()
    if left:
        return f"{left[0]} was left behind"
    return "" if all(np.isfinite(values).all() for values in fields.values()) else "values that no sensor gives"
