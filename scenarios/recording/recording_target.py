"""Whether a recording file can be written under a name, found out before minutes of recording."""

from __future__ import annotations

from pathlib import Path

from ...emulator.contracts import ConfigError
from ...emulator.regular_file import is_folder, shown

#: File systems take 255 bytes; while it is written the file has a longer name.
LONGEST_NAME = 200


def refuse_target(out: Path) -> None:
    """Refuse an output path that cannot be written.

    Args:
        out: path of the recording file.

    Raises:
        ConfigError: its folder does not exist, its name is too long, or it exists already.
    """
    if not is_folder(out.parent):
        raise ConfigError(f"--out {shown(out)} lies in a folder that does not exist; make {shown(out.parent)} first")
    if len(out.name.encode()) > LONGEST_NAME:
        raise ConfigError(f"--out {shown(out)} has a name of over {LONGEST_NAME} bytes; choose a shorter one")
    if is_folder(out):
        raise ConfigError(f"--out {out} is a folder; name a file in it, such as {out / 'recording.h5'}")
    if out.exists():
        raise ConfigError(f"--out {out} exists already; name another file, or move that one away")
