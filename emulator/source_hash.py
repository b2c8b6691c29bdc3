"""Hash over source files of this package: what was made by other code is found by it, and made again."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


@lru_cache(maxsize=8)
def source_hash(patterns: tuple[str, ...], without: Collection[str] = frozenset()) -> str:
    """SHA-256 over names and contents of source files, in hexadecimal.

    Comments count as well: to tell what changes a result from what does not would need a parser that is always right.

    Args:
        patterns: glob patterns of files, relative to the package; `**` for all folders below.
        without: files that are left out, relative to the package.

    Example:
        >>> source_hash(("models/sheaf/*.py",)) == source_hash(("models/sheaf/*.py",), frozenset({"models/none.py"}))
        True
    """
    total = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(PACKAGE.glob(pattern)):
            name = path.relative_to(PACKAGE).as_posix()
            if name in without:
                continue
            # the name is hashed too: exchanging the content of two files is a change
            total.update(name.encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
