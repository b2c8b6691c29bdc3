"""Opening of files that others made: regular ones of limited size, at paths that may be anything.

A path out of a scenario, a table or a command line may name a pipe, a device, a folder, a link to elsewhere, or nothing
that a file system takes. Whoever opens it gets a file whose size is known and bounded, or one sentence.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

#: Characters of a value from a file that a message repeats: the rest may be another file's content, or fill a screen.
SHOWN_CHARACTERS = 40
#: Characters of a path that a message repeats.
SHOWN_OF_PATH = 240
#: A pipe without a writer would be waited for without this; files of Windows would be translated without the other.
_OPENING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: Path, most_bytes: int | None = None) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: any path.
        most_bytes: largest size; None: any.

    Raises:
        OSError: it cannot be opened, is no regular file, or is larger; `reason` has the words.
    """
    try:
        descriptor = os.open(path, _OPENING)
    except ValueError as error:  # a NUL in the name
        raise OSError(str(error)) from None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError("it is a folder" if stat.S_ISDIR(facts.st_mode) else "it is no regular file")
        if most_bytes is not None and facts.st_size > most_bytes:
            raise OSError(f"it has {facts.st_size} bytes, at most {most_bytes} are read")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Content of a regular file.

    Raises:
        OSError: as `open_regular`, also where the file grows while it is read.
    """
    with open_regular(path, most_bytes) as stream:
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(f"it has more than the {most_bytes} bytes that are read at most")
    return content


def is_regular(path: Path) -> bool:
    """Whether there is a regular file of this name; False also for impossible names."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether there is a folder of this name; False also for impossible names."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def reason(error: BaseException) -> str:
    """First line of what an error says, short, without the path that the message around it names."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return " ".join(text.split("\n", 1)[0].split())[:SHOWN_OF_PATH].rstrip(".")


def quoted(value: object) -> str:
    """A value from a file, in quotes and cut to `SHOWN_CHARACTERS`."""
    text = str(value)
    return repr(text) if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]!r} and more"


def shown(path: Path | str) -> str:
    """A path for a message: printable, and whole or its beginning and its end."""
    text = "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(path))
    half = SHOWN_OF_PATH // 2
    return text if len(text) <= SHOWN_OF_PATH else f"{text[:half]}...{text[-half:]}"
