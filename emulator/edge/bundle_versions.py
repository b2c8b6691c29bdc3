"""A folder of versions: bundles side by side, of which the newest that is sound is served."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path

from .bundle import Bundle
from .bundle_files import MANIFEST_FILE
from .bundle_trial import LoadStoppedError
from .manifest import BundleError

#: Entries that are looked at; a device keeps far fewer versions.
_MOST_ENTRIES = 1000


def version_paths(path: Path) -> list[Path]:
    """Bundles in a folder, oldest first by their names; empty where it is a bundle itself, or holds none.

    Numbers in names count as numbers, so that v10 comes after v9. A folder and an archive of one name are one version.
    """
    if not path.is_dir() or (path / MANIFEST_FILE).exists():
        return []
    entries = [one for one in sorted(path.iterdir())[:_MOST_ENTRIES] if not one.name.startswith(".")]
    folders = {one.name: one for one in entries if (one / MANIFEST_FILE).is_file()}
    archives = {one.stem: one for one in entries if one.suffix == ".zip" and one.is_file()}
    return [found for _, found in sorted({**archives, **folders}.items(), key=lambda named: _order(named[0]))]


def newest_bundle(
    path: Path,
    load: Callable[[Path], Bundle],
    rejected: Collection[Path] = (),
    refuse: Callable[[BundleError], None] = lambda _: None,
) -> Bundle:
    """The bundle at a path, or of a folder of versions the newest that is sound.

    Args:
        path: path of a bundle, or of a folder of versions.
        load: loads and verifies one bundle.
        rejected: versions that are not to be taken.
        refuse: called with the error of every newer version that was refused.

    Raises:
        BundleError: there is none.
        LoadStoppedError: loading was told to stop.
    """
    versions = version_paths(path)
    if not versions:
        return load(path)
    for version in reversed(versions):
        if version in rejected:
            continue
        try:
            return load(version)
        except LoadStoppedError:
            raise
        except BundleError as error:
            refuse(error)
    raise BundleError(f"no version in {path} is left that can be served; add one, or start the server again")


def _order(name: str) -> list[tuple[int, int, str]]:
    # numbers before texts, so that both can be compared
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]
