"""A small folder of a drone scenario in the layout of DeepSense 23: images, positions, beam labels, powers or none."""

from __future__ import annotations

import csv
from collections.abc import Container
from pathlib import Path

import numpy as np
from PIL import Image

N_BEAMS = 64
BASE_DEG = (33.42, -111.93)
M_PER_DEGREE = 111_320.0
#: Images are larger on disk; the import averages them down.
IMAGE_SIZE = (96, 54)


def drone_folder(root: Path, n_rows: int, n_flights: int, powers_in: Container[int], seed: int = 0) -> np.ndarray:
    """Writes `scenario23_dev/` below the root.

    Args:
        root: folder that exists.
        n_rows: samples of all flights, which have equal numbers of them.
        n_flights: number of flights, `seq_index`.
        powers_in: rows, from 0, that have a power file; cells of the others are empty.
        seed: of the flights.

    Returns:
        [n_rows] best beams from 0, whose labels in the table count from 1.
    """
    draws, folder = np.random.default_rng(seed), root / "scenario23_dev"
    in_flight = np.arange(n_rows) % (n_rows // n_flights) / (n_rows // n_flights)
    azimuth_deg = 40.0 * np.sin(2.0 * np.pi * (in_flight + draws.random(n_flights).repeat(n_rows // n_flights)))
    distance_m, height_m = draws.uniform(40.0, 50.0, n_rows), draws.uniform(18.0, 22.0, n_rows)
    best = np.rint((azimuth_deg + 45.0) / 90.0 * (N_BEAMS - 1)).astype(int)
    rows = []
    for row in range(n_rows):
        east_m, north_m = distance_m[row] * np.sin(np.radians([azimuth_deg[row], azimuth_deg[row] + 90.0]))
        place = BASE_DEG[0] + north_m / M_PER_DEGREE, BASE_DEG[1] + east_m / M_PER_DEGREE / np.cos(np.radians(33.42))
        texts = {
            "unit1_loc": BASE_DEG,
            "unit2_loc": place,
            "unit2_distance": (distance_m[row],),
            "unit2_height": (height_m[row],),
        }
        if row in powers_in:
            texts["unit1_pwr_60ghz"] = tuple(0.8 * np.exp(-(((np.arange(N_BEAMS) - best[row]) / 3.0) ** 2)) + 0.01)
        cells = {"index": row + 1, "unit1_rgb": _image(folder, row, azimuth_deg[row]), "unit1_pwr_60ghz": ""}
        cells |= {column: _text(folder, column, row, values) for column, values in texts.items()}
        stamp = f"['10-{row // 600:02d}-{row // 10 % 60:02d}-{100 * (row % 10):03d}']"
        flight = 1 + row // (n_rows // n_flights)
        rows.append({**cells, "unit1_beam_index": best[row] + 1, "seq_index": flight, "time_stamp[UTC]": stamp})
    with (folder / "scenario23_dev.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return best


def _text(folder: Path, column: str, row: int, values: tuple[float, ...]) -> str:
    unit, _, name = column.partition("_")
    file = folder / unit / name / f"{name}_{row}.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(f"{value:.9f}" for value in values), encoding="ascii")
    return f"./{unit}/{name}/{file.name}"


def _image(folder: Path, row: int, azimuth_deg: float) -> str:
    """A dark drone before a bright sky, where it is."""
    width, height = IMAGE_SIZE
    pixels = np.full((height, width, 3), 220, dtype=np.uint8)
    column = round((azimuth_deg / 95.0 + 0.5) * (width - 1))
    pixels[20:30, max(column - 4, 0) : column + 5] = 20
    file = folder / "unit1" / "camera_data" / f"image_BS1_{row}.jpg"
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file)
    return f"./unit1/camera_data/{file.name}"
