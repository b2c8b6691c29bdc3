"""A folder of data that others made: names in its tables, and links in it, may not lead out of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from ..emulator.contracts import DataError
from ..emulator.regular_file import is_folder, is_regular, quoted, shown

#: Names that a message lists.
LISTED = 12


class DataFolder:
    """Folder below which all files must lie, links followed.

    Args:
        root: folder that the user named; it may itself be a link.

    Raises:
        DataError: it is no folder.
    """

    def __init__(self, root: Path) -> None:
        if not is_folder(root):
            raise DataError(f"data.root must be a folder of data, but {shown(root)} is not a folder")
        self.root = root
        self._real_root = Path(os.path.realpath(root))
        self._is_inside: dict[Path, bool] = {}

    def file(self, path: Path) -> Path:
        """The same path, once it is known to lie in the folder; whether it exists is not checked.

        Raises:
            DataError: a link leads out of the folder.
        """
        # the folder of many files is looked up once; only a file that is a link itself is looked up again
        is_link = os.path.islink(path)  # noqa: PTH114 - Path's own raises for names that no file system takes
        inside = self._lies_inside(path.parent) and (not is_link or self._lies_inside(path))
        if not inside:
            raise DataError(f"{shown(path)} leads out of {shown(self.root)} through a link; put the file in its place")
        return path

    def below(self, folder: Path, cell: str) -> Path:
        """The path that a cell of a table gives, relative to the table's folder.

        Raises:
            DataError: the cell is empty or absolute, or leads out of the folder.
        """
        text = cell.replace("\\", "/")
        relative = PurePosixPath(text)
        if not text or text == "nan" or relative.is_absolute() or ".." in relative.parts or ":" in text:
            raise DataError(f"holds {quoted(text)}, expected a path below {shown(folder)}")
        return self.file(folder / relative)

    def existing(self, paths: Iterable[Path]) -> list[Path]:
        """Those of the paths at which there are regular files, all of them inside."""
        return [self.file(path) for path in paths if is_regular(path)]

    def _lies_inside(self, path: Path) -> bool:
        if path not in self._is_inside:
            self._is_inside[path] = Path(os.path.realpath(path)).is_relative_to(self._real_root)
        return self._is_inside[path]


def listed(names: Sequence[object]) -> str:
    """Names for a message, the first of them if there are many."""
    shown_names = ", ".join(str(name)[:40] for name in names[:LISTED])
    return f"{shown_names} and {len(names) - LISTED} more" if len(names) > LISTED else shown_names
