"""HDF5 files of strangers: opened, checked as a whole, and closed again whatever goes wrong."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py

from ...emulator.regular_file import open_regular
from .recording_checks import refusing


class CheckedFile(ABC):
    """File that is open for reading from its checks until it is closed. Every format derives its reader.

    Args:
        path: path of the file.
        what: what messages call such a file.
        remedy: what to do where there is none.

    Attributes:
        path: path of the file.

    Raises:
        DataError: the file is missing, damaged, or refused by the checks of its format.
    """

    def __init__(self, path: Path, what: str, remedy: str) -> None:
        self.path = path
        self._file: Any = None
        try:
            with refusing(path, what, remedy):
                open_regular(path).close()  # a pipe or a device would be read for ever
                # best effort: file systems without locks can be read too
                self._file = h5py.File(path, "r", locking="best-effort")
                self._read_and_check()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _read_and_check(self) -> None:
        """Read what the file says of itself, and refuse what is not as its format says."""

    def close(self) -> None:
        """Free the file; what was not read by now cannot be read any more."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
