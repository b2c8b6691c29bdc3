"""Files that are whole or not there: what was under the name stays until the new content is safe on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4


def write_whole(path: Path, text: str) -> None:
    """Write a text, in the place of an older one if there is one.

    Raises:
        OSError: it cannot be written; the older one is as it was.
    """
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden file beside a target, which takes the target's name when the block ends well, and is removed if not.

    Raises:
        OSError: it cannot be written; what was under the target's name is as it was.
    """
    partial = path.with_name(f".partial-{uuid4().hex[:12]}-{path.name}")
    try:
        yield partial
        sync(partial)
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file's content is on the disk: a name must not outlive a power cut that the content did not.

    Raises:
        OSError: it does not get there.
    """
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
