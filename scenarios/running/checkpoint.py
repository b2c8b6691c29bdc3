"""Checkpoints of a run: one file each, complete or not there, named after its own checksum; the last two are kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash
from safetensors import SafetensorError
from safetensors.numpy import load

from ...emulator.contracts import DataError, State
from ...emulator.state_tree import packed_tree, unpacked_tree
from ...emulator.whole_file import replacing
from .tensor_file import tensor_pieces

#: Version of the content of a checkpoint; files of another version cannot be read.
FORMAT = 1
KEPT = 2

_NAME = re.compile(r"round-(\d{6,})-([0-9a-f]{32})\.safetensors")
_TREE = "tree"


class Checkpoint(NamedTuple):
    """Content of a checkpoint file.

    Attributes:
        path: path of the file.
        rounds_done: number of rounds that had ended.
        state: tree that was written.
    """

    path: Path
    rounds_done: int
    state: State


def write_checkpoint(folder: Path, rounds_done: int, state: State) -> Path:
    """Write a checkpoint beside earlier ones, then remove all but the last two.

    Whatever interrupts this, the file is complete or not there, and the one before is untouched.

    Args:
        folder: folder of the run's checkpoints, made if absent.
        rounds_done: number of rounds that have ended.
        state: tree of plain values and arrays.

    Raises:
        OSError: no room, or no right to write.
    """
    text, arrays = packed_tree(state)
    named = {str(index): array for index, array in enumerate(arrays)}
    pieces = tensor_pieces({_TREE: np.frombuffer(text, dtype=np.uint8), **named})
    checksum = xxhash.xxh3_128()
    for piece in pieces:
        checksum.update(piece)
    path = folder / f"round-{rounds_done:06d}-{checksum.hexdigest()}.safetensors"
    folder.mkdir(exist_ok=True)
    with replacing(path) as partial, partial.open("wb") as stream:
        stream.writelines(pieces)
    _sync_folder(folder)
    for old in [*list(_newest_first(folder))[KEPT:], *folder.glob(".partial-*")]:  # the latter of runs that were killed
        old.unlink()
    return path


def read_checkpoint(folder: Path) -> Checkpoint:
    """Newest checkpoint that is complete.

    Raises:
        DataError: there is none.
    """
    wrong = "it has none"
    # the checkpoint before is kept for the case that the newest was damaged on the disk
    for path in _newest_first(folder):
        try:
            return _read(path)
        except (OSError, ValueError, SafetensorError) as error:
            wrong = f"{path.name} is damaged: {error}"
    raise DataError(f"{folder} holds no checkpoint that can be read ({wrong}); start the run anew")


def has_checkpoint(folder: Path) -> bool:
    """Whether there is any, complete when it was written."""
    return any(_newest_first(folder))


def _read(path: Path) -> Checkpoint:
    match = _NAME.fullmatch(path.name)
    assert match is not None, "only such names are listed"
    content = path.read_bytes()
    # before parsing: the checksum in the name finds a torn file
    if xxhash.xxh3_128_hexdigest(content) != match[2]:
        raise ValueError("its content does not match its checksum")
    named: dict[str, Any] = load(content)
    text = named.pop(_TREE, None)
    if text is None or set(named) != set(map(str, range(len(named)))):
        raise ValueError("it holds no tree of state")
    arrays = [named[str(index)] for index in range(len(named))]
    return Checkpoint(path, int(match[1]), unpacked_tree(text.tobytes(), arrays))


def _newest_first(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return iter(())
    whole = [(int(match[1]), path) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))]
    return (path for _, path in sorted(whole, reverse=True))


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that the new name is on the disk before older files are removed."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
