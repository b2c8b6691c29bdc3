"""Checkpoint files: whole or not there, the one before kept, and nothing but a tree of numbers and texts inside."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from numpy.testing import assert_array_equal
from safetensors.numpy import save
from sheafedge.emulator.contracts import DataError
from sheafedge.emulator.state_tree import packed_tree, unpacked_tree
from sheafedge.scenarios.running.checkpoint import read_checkpoint, write_checkpoint

TREE = {
    "numbers": [1, -2.5, float("inf"), True, None, "text", 2**62],
    "nested": {"empty": {}, "list": [[], ["array", 0]], "array": np.arange(6.0).reshape(2, 3)},
    "scalar": np.array(3.0, dtype=np.float32),
    "mask": np.array([True, False]),
    "nothing": np.zeros((0, 4), dtype=np.int64),
}


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for mine, yours in zip(one, other, strict=True):
            assert_same(mine, yours)
    else:
        assert type(one) is type(other)
        assert one == other


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path / "checkpoint", 12, TREE)
    found = read_checkpoint(tmp_path / "checkpoint")
    assert (found.path, found.rounds_done) == (path, 12)
    assert_same(TREE, found.state)


@pytest.mark.parametrize("strange", [{1: "a"}, object(), {"a": np.array(["text"])}, 1j, b"raw", np.float64(1.0)])
def test_only_plain_trees_are_written(strange: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="must be"):
        write_checkpoint(tmp_path / "checkpoint", 1, {"state": strange})
    assert list(tmp_path.glob("checkpoint/*")) == []


NO_TREES = [
    b"[",
    b'["array", 7]',
    b'["array"]',
    b'["array", "0"]',
    b'["array", -1]',
    b'["object", 0]',
    b"[]",
    b"[{}, 1]",
]
TOO_DEEP = [b'["list", ' * 100 + b"1" + b"]" * 100, b"[" * 100_000]


@pytest.mark.parametrize("text", [*NO_TREES, *TOO_DEEP])
def test_only_trees_are_read(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a tree of state|Expecting"):
        unpacked_tree(text, [np.zeros(1)])


def test_arrays_keep_their_places() -> None:
    text, arrays = packed_tree([np.zeros(1), {"a": np.ones(2)}])
    assert [array.size for array in arrays] == [1, 2]
    assert_same(unpacked_tree(text, arrays), [np.zeros(1), {"a": np.ones(2)}])


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    paths = [write_checkpoint(tmp_path, rounds, {"at": rounds}) for rounds in (9, 10, 100_000, 1_000_000)]
    assert set(tmp_path.iterdir()) == set(paths[-2:])
    assert read_checkpoint(tmp_path).state == {"at": 1_000_000}


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "a bit":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif how == "cut":
        path.write_bytes(content[:-1])
    else:
        path.write_bytes(b"")


@pytest.mark.parametrize("how", ["a bit", "cut", "empty"])
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_read(how: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1, {"at": 1})
    damage(write_checkpoint(tmp_path, 2, {"at": 2}), how)
    assert read_checkpoint(tmp_path).state == {"at": 1}


def test_without_a_whole_checkpoint_the_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no checkpoint that can be read .*start the run anew"):
        read_checkpoint(tmp_path / "none")
    damage(write_checkpoint(tmp_path, 1, {}), "a bit")
    with pytest.raises(DataError, match="does not match its checksum"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"\xff" * 8, save({"0": np.zeros(1)}), save({"tree": np.zeros(3)})]
)
def test_a_hostile_file_with_the_right_checksum_is_an_error(content: bytes, tmp_path: Path) -> None:
    name = f"round-000001-{xxhash.xxh3_128_hexdigest(content)}.safetensors"
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="holds no checkpoint that can be read"):
        read_checkpoint(tmp_path)


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, 1, {"at": 1})

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_checkpoint(tmp_path, 2, {"at": 2})
    assert [path.suffix for path in tmp_path.iterdir()] == [".safetensors"]
    assert read_checkpoint(tmp_path).state == {"at": 1}


def test_what_a_killed_run_left_half_written_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / ".partial-abc-round").write_bytes(b"half")
    write_checkpoint(tmp_path, 1, {})
    assert len(list(tmp_path.iterdir())) == 1
