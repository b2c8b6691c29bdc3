"""Files of others: regular ones of limited size, and messages that repeat little of what was given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sheafedge.emulator.regular_file import (
    SHOWN_CHARACTERS,
    SHOWN_OF_PATH,
    is_folder,
    is_regular,
    open_regular,
    quoted,
    read_regular,
    reason,
    shown,
)

IMPOSSIBLE = {"long": "x" * 300, "very long": "y/" * 3_000, "with a NUL": "a\0b", "missing": "nowhere"}


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OSError, match="it has 5 bytes, at most 4 are read"):
        read_regular(tmp_path / "file", 4)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path / "pipe", "no regular file"),
        (Path("/dev/zero"), "no regular"),
        (tmp_path, "folder"),
    ):
        with pytest.raises(OSError, match=words):
            open_regular(path)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_name_is_an_answer_and_one_short_line(name: str) -> None:
    path = Path(IMPOSSIBLE[name])
    assert not is_regular(path)
    assert not is_folder(path)
    with pytest.raises(OSError, match=r"\S") as caught:  # the words are the system's
        open_regular(path)
    assert 0 < len(reason(caught.value)) <= SHOWN_OF_PATH
    assert "\n" not in reason(caught.value)


def test_messages_repeat_the_beginning_of_a_value_and_both_ends_of_a_path() -> None:
    assert quoted("short") == "'short'"
    assert quoted("a" * 100) == f"'{'a' * SHOWN_CHARACTERS}' and more"
    assert shown("short") == "short"
    long = "a" * 5_000 + "/name.h5"
    assert shown(long).startswith("aaa")
    assert shown(long).endswith("/name.h5")
    assert len(shown(long)) <= SHOWN_OF_PATH + 3
