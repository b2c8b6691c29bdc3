"""Which columns of a DeepSense table are read: what the table has, and what was chosen among it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ...emulator.contracts import ConfigError, DataError, Modality
from ...emulator.modalities import SENSED_MODALITIES
from ...emulator.regular_file import quoted, shown
from ..data_folder import listed
from .deepsense_sensors import DRONE_COLUMNS
from .deepsense_table import DeepSenseTable
from .image_files import CAN_READ_IMAGES

PositionChoice = Literal["auto", "calibrated", "raw"]
_POSITIONS = {"calibrated": "unit2_loc_cal", "raw": "unit2_loc"}
_LIDAR_FILES = (".mat", ".ply")


@dataclass(frozen=True, slots=True)
class Sources:
    """Names of the columns that are read; None where the table has none, or its sensor was not chosen.

    Attributes:
        power, lidar, camera, radar: columns of paths.
        base_position, user_position: columns of paths to positions.
        positions: "calibrated" or "raw"; "" without positions.
        beam, blockage: columns of labels.
    """

    power: str | None
    lidar: str | None
    camera: str | None
    radar: str | None
    base_position: str | None
    user_position: str | None
    positions: str
    beam: str | None
    blockage: str | None

    def file_columns(self, table: DeepSenseTable) -> list[str]:
        """Columns whose cells point to files that will be read."""
        columns = [self.power, self.base_position, self.user_position, self.lidar, self.radar, self.camera]
        numbers = [self.beam, self.blockage, *(DRONE_COLUMNS if self.user_position else ())]
        columns += [name for name in numbers if name in table.columns and not table.is_inline(name)]
        return [name for name in columns if name]

    def columns(self) -> set[str | None]:
        """All columns that are read; None may be among them."""
        found = {self.power, self.lidar, self.camera, self.radar, self.base_position, self.user_position}
        return found | {self.beam, self.blockage, *DRONE_COLUMNS}


def find_sources(
    table: DeepSenseTable, modalities: Sequence[str], positions: PositionChoice, notes: list[str]
) -> Sources:
    """Columns to read.

    Args:
        table: table of the scenario.
        modalities: sensors that were chosen; none: all that the table has.
        positions: which positions are wanted.
        notes: gets a sentence for everything that is left out or assumed.

    Raises:
        ConfigError: a sensor of no such name.
        DataError: the table lacks a sensor that was chosen, or has neither powers nor beam labels.
    """
    if unknown := [name for name in modalities if name not in SENSED_MODALITIES]:
        raise ConfigError(f"modalities must be among {', '.join(SENSED_MODALITIES)}, got {quoted(unknown[0])}")
    wanted = frozenset(modalities or SENSED_MODALITIES)
    user_position, which = _user_position(table, positions, notes) if "gps" in wanted else (None, "")
    base_position = table.first_column("unit1_loc") if user_position else None
    sources = Sources(
        power=table.column_with_prefix("unit1_pwr") if "rf" in wanted else None,
        lidar=_lidar(table, notes) if "lidar" in wanted else None,
        camera=_camera(table, notes) if "camera" in wanted else None,
        radar=_radar(table, notes) if "radar" in wanted else None,
        base_position=base_position,
        user_position=user_position,
        positions=which,
        beam=table.first_column("unit1_beam", "unit1_beam_index", "beam_index", "beam_index_1"),
        blockage=table.first_column("unit1_blockage", "blockage_label"),
    )
    if user_position and not base_position and not set(DRONE_COLUMNS) <= set(table.columns):
        notes.append(f"{user_position} is stored in degrees: no unit1_loc tells where the base station is")
    _refuse_missing(table, sources, modalities, notes)
    others = [name for name in table.columns if name.startswith("unit") and name not in sources.columns()]
    if others:
        notes.append(f"columns not imported: {listed(others)}")
    return sources


def _refuse_missing(table: DeepSenseTable, sources: Sources, chosen: Iterable[str], notes: Sequence[str]) -> None:
    found: dict[Modality, str | None] = {
        "lidar": sources.lidar,
        "camera": sources.camera,
        "rf": sources.power,
        "gps": sources.user_position,
        "radar": sources.radar,
    }
    if absent := [name for name, column in found.items() if name in chosen and column is None]:
        why = next((f"; {note}" for note in notes if "left out" in note), "")
        raise DataError(
            f"{shown(table.path)} has no {absent[0]} that can be read, which was chosen; columns:"
            f" {listed(list(table.columns))}{why}"
        )
    if sources.power is None and sources.beam is None:
        raise DataError(
            f"{shown(table.path)} has no column unit1_pwr_60ghz of powers and none of beam labels that could be read"
            f" instead; columns: {listed(list(table.columns))}"
        )


def _user_position(table: DeepSenseTable, positions: PositionChoice, notes: list[str]) -> tuple[str | None, str]:
    present = {which: column for which, column in _POSITIONS.items() if column in table.columns}
    if positions != "auto" and positions not in present:
        there = ", ".join(present.values()) or "none"
        raise DataError(
            f"{shown(table.path)} has no {positions} positions ({_POSITIONS[positions]}), but {there}; choose"
            " others with --positions"
        )
    if not present:
        return None, ""
    which = next(iter(present)) if positions == "auto" else positions
    if positions == "auto" and len(present) > 1:
        notes.append(
            "positions are the calibrated ones, unit2_loc_cal; choose those of the receiver, unit2_loc, with"
            " --positions raw"
        )
    return present[which], which


def _lidar(table: DeepSenseTable, notes: list[str]) -> str | None:
    column = table.first_column("unit1_lidar_SCR", "unit1_lidar")
    file = next((cell for cell in table.columns[column] if cell), "") if column else ""
    if column and not file.lower().endswith(_LIDAR_FILES):
        notes.append(
            f"{column} is left out: 2-D sweeps in .mat files and clouds in .ply files are read, not {quoted(file)}"
        )
        return None
    if column and file.lower().endswith(".ply"):
        notes.append(f"{column}: clouds of a 3-D LiDAR come down to the nearest obstacle of every degree")
    return column


def _camera(table: DeepSenseTable, notes: list[str]) -> str | None:
    column = table.first_column("unit1_rgb")
    if column and not CAN_READ_IMAGES:
        notes.append(f"{column} is left out: install Pillow and import again to have the camera")
        return None
    return column


def _radar(table: DeepSenseTable, notes: list[str]) -> str | None:
    column = table.first_column("unit1_radar", "unit1_radar_1")
    if column == "unit1_radar_1" and "unit1_radar_2" in table.columns:
        notes.append(
            "unit1_radar_1 is left out: the table has several frames per row; import the one with a frame each"
        )
        return None
    file = next((cell for cell in table.columns[column] if cell), "") if column else ""
    if column and not file.lower().endswith(".mat"):
        notes.append(f"{column} is left out: raw radar signals in .mat files are read, not {quoted(file)}")
        return None
    return column
