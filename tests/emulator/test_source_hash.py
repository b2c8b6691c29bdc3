"""The hash of sources changes with the content, the name and the choice of the files, and with nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sheafedge.emulator import source_hash as module
from sheafedge.emulator.source_hash import source_hash


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two files of code and a table, which lie in a package of their own."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "one.py").write_text("ONE = 1")
    (tmp_path / "models" / "two.py").write_text("TWO = 2")
    (tmp_path / "models" / "table.csv").write_text("1,2")
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    source_hash.cache_clear()
    yield tmp_path
    source_hash.cache_clear()


def hashed(patterns: tuple[str, ...] = ("models/*.py",), without: frozenset[str] = frozenset()) -> str:
    source_hash.cache_clear()
    return source_hash(patterns, without)


def test_other_content_names_and_choices_are_other_hashes(package: Path) -> None:
    one, two = package / "models" / "one.py", package / "models" / "two.py"
    seen = {hashed(), hashed(("models/*",)), hashed(without=frozenset({"models/two.py"}))}
    one.write_text("ONE = 3")
    seen.add(hashed())
    one.write_text("TWO = 2")
    two.write_text("ONE = 1")
    seen.add(hashed())  # contents exchanged
    one.rename(package / "models" / "three.py")
    seen.add(hashed())
    assert len(seen) == 6


def test_the_same_files_have_the_same_hash(package: Path) -> None:
    before = hashed()
    (package / "models" / "notes.txt").write_text("not matched")
    (package / "models" / "one.py").touch()
    assert hashed() == before
