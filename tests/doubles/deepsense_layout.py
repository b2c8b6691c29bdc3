"""Real rows of DeepSense, written as its archives hold them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np


def official_layout(root: Path, source: Path, rows: slice) -> None:
    """Scenario 1 as its archive holds it: a table, and a text file per sweep and position."""
    name = f"{source}/scenario1_{{}}_1-2422.npy"
    series = {column: np.load(name.format(column))[rows] for column in ("unit1_pwr_60ghz", "unit1_loc", "unit2_loc")}
    sequence = np.load(name.format("seq_index"))[rows]
    with (root / "scenario1.csv").open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["index", "seq_index", *series])
        for row, number in enumerate(sequence.tolist()):
            files = []
            for column, values in series.items():
                (root / column).mkdir(exist_ok=True)
                files.append(f"./{column}/{row}.txt")
                np.savetxt(root / files[-1], values[row], fmt="%.17g")
            table.writerow([row + 1, number, *files])
