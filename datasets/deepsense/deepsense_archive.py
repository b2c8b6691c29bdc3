"""Where the table of a DeepSense scenario lies: in the named folder, or in one of those that archives unpack to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ...emulator.contracts import DataError
from ...emulator.regular_file import is_folder, is_regular, shown
from ..data_folder import DataFolder, listed

#: Folders between the one that is named and the table: `Scenario9/development_dataset/scenario9_dev/`.
MOST_FOLDERS = 3
#: Of a folder with many thousands of files only so many entries are looked at.
MOST_ENTRIES = 100_000
_INNER = re.compile(r"(development|challenge|dev)_?(dataset|data|set)?", re.IGNORECASE)


def find_table(folder: DataFolder, scenario: int) -> Path:
    """The CSV of a scenario, in a folder of data or in its own folder below; upper and lower case do not matter.

    Raises:
        DataError: the folder holds no such CSV, or several, or one that is a link out of it.
    """
    root = folder.root
    stem = re.compile(rf"scenario_?0*{scenario}(_dev)?", re.IGNORECASE)
    folders = list(_folders(root, stem, MOST_FOLDERS))
    tables = [path for one in folders for path in _entries(one) if path.suffix.lower() == ".csv"]
    found = folder.existing(path for path in tables if stem.fullmatch(path.stem))
    if not found:
        present = sorted(path.name for path in tables if is_regular(path))
        raise DataError(
            f"no scenario{scenario}.csv or scenario{scenario}_dev.csv in {shown(root)} "
            f"(CSV files there: {listed(present) or 'none'}); check the folder and the scenario number"
        )
    if len(found) > 1:
        names = ", ".join(path.relative_to(root).as_posix() for path in found)
        raise DataError(
            f"several tables of scenario {scenario} in {shown(root)}: {shown(names)}; name the folder of one, or keep"
            " one of them"
        )
    return found[0]


def _folders(folder: Path, stem: re.Pattern[str], n_deeper: int) -> Iterator[Path]:
    """The folder, and those below it that the archives of this scenario unpack to."""
    yield folder
    if n_deeper:
        for path in _entries(folder):
            if (stem.fullmatch(path.name) or _INNER.fullmatch(path.name)) and is_folder(path) and not path.is_symlink():
                yield from _folders(path, stem, n_deeper - 1)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(path for path, _ in zip(folder.iterdir(), range(MOST_ENTRIES), strict=False))
    except OSError as error:
        raise DataError(f"{shown(folder)} cannot be listed ({error.strerror}); check its permissions") from None
