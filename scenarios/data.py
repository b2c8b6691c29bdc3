"""From a scenario's data section to what every client owns: training rows and held-out rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..datasets.deepsense_rows import load_deepsense_rows
from ..datasets.partition import partition
from ..datasets.recording import Recording
from ..datasets.windows import Windows, make_windows
from ..emulator.contracts import DataError, Modality
from ..emulator.engine import named_stream
from ..emulator.world.road import drive_bys, site_settings
from .schema import DataSection, Scenario


@dataclass(frozen=True, slots=True, eq=False)
class ClientData:
    """Rows of one client.

    Attributes:
        recording: name of the recording that its drive-bys come from.
        train, test: windows it learns from, and windows that only the scoring sees.
    """

    recording: str
    train: Windows
    test: Windows


def load_recordings(data: DataSection, seed: int) -> list[Recording]:
    """All recordings of a scenario, with its codebook size.

    Raises:
        DataError: a file is missing or holds impossible values.
    """
    if data.source == "deepsense":
        root = Path(os.path.expanduser(data.root))  # noqa: PTH111 - Path's own raises for an unknown user
        try:
            recordings = [load_deepsense_rows(root, scenario) for scenario in data.scenarios]
        except OSError as error:
            raise DataError(f"data.root = {data.root!r} cannot be read ({error}); check its permissions") from None
    else:
        recordings = [_road(data, site, seed) for site in range(data.n_sites)]
    return [recording.with_n_beams(data.n_beams) for recording in recordings]


def load_clients(scenario: Scenario) -> list[ClientData]:
    """What every client owns, ordered by client id."""
    data = scenario.data
    recordings = load_recordings(data, scenario.seed)
    windows = [make_windows(recording, data.window) for recording in recordings]
    owned = partition(
        windows,
        scenario.clients.n_clients,
        named_stream(scenario.seed, "partition"),
        split=data.split,
        test_fraction=data.test_fraction,
        train_fraction=data.train_fraction,
    )
    return [
        ClientData(
            recording=recordings[rows.recording_index].name,
            train=windows[rows.recording_index].take(rows.train),
            test=windows[rows.recording_index].take(rows.test),
        )
        for rows in owned
    ]


def model_inputs(windows: Windows) -> dict[Modality, NDArray[np.float32]]:
    """What models may see of windows, by modality, in physical units."""
    return {"gps": windows.gps, "rf": windows.rf}


def input_descriptions(data: DataSection) -> Mapping[Modality, Mapping[str, Any]]:
    """Shape, unit and meaning of every input, for people and for exported models."""
    return {
        "gps": {
            "shape": (data.window, 2),
            "unit": "m",
            "meaning": f"last {data.window} positions up to now, east and north of the base station, oldest first",
        },
        "rf": {
            "shape": (data.window, data.n_beams),
            "unit": "dB",
            "meaning": f"received power of every beam in the {data.window} sweeps before now, oldest first",
        },
    }


def _road(data: DataSection, site: int, seed: int) -> Recording:
    draws = named_stream(seed, "road", site)
    passes = drive_bys(site_settings(site, draws, data.road), draws)
    return Recording(f"road{site}", passes.positions_m, passes.powers, passes.sequence)
