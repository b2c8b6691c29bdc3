"""Of a folder of versions the newest that is sound is taken, and others are told apart from it by their names."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from doubles.bundles import tiny_bundle
from sheafedge.emulator.edge.bundle import Bundle, load_bundle, pack_bundle
from sheafedge.emulator.edge.bundle_trial import LoadStoppedError
from sheafedge.emulator.edge.bundle_versions import newest_bundle, version_paths
from sheafedge.emulator.edge.manifest import BundleError

LOAD = partial(load_bundle, trial=None)


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """v1, v2, v10 and some files that are none."""
    folder = tmp_path / "versions"
    for number, name in enumerate(("v1", "v2", "v10")):
        tiny_bundle(folder / name, gain=1.0 + number, name=name)
    (folder / "notes.txt").write_text("not a version")
    (folder / ".partial-v11").mkdir()
    (folder / "empty").mkdir()
    return folder


def damage(version: Path) -> None:
    (version / "model.onnx").write_bytes((version / "model.onnx").read_bytes()[:-1] + b"?")


def test_versions_are_ordered_by_the_numbers_in_their_names(versions: Path) -> None:
    assert [path.name for path in version_paths(versions)] == ["v1", "v2", "v10"]


def test_a_bundle_and_nothing_are_no_folder_of_versions(versions: Path) -> None:
    assert version_paths(versions / "v1") == version_paths(versions / "empty") == version_paths(versions / "no") == []


def test_a_folder_and_its_archive_are_one_version(versions: Path) -> None:
    pack_bundle(versions / "v2")
    assert [path.name for path in version_paths(versions)] == ["v1", "v2", "v10"]
    shutil.rmtree(versions / "v2")
    assert [path.name for path in version_paths(versions)] == ["v1", "v2.zip", "v10"]
    assert newest_bundle(versions, LOAD, rejected={versions / "v10"}).path == versions / "v2.zip"


def test_the_newest_that_is_sound_is_taken_and_the_others_are_told(versions: Path) -> None:
    assert newest_bundle(versions, LOAD).manifest.name == "v10"
    damage(versions / "v10")
    refused: list[BundleError] = []
    assert newest_bundle(versions, LOAD, refuse=refused.append).manifest.name == "v2"
    assert ["v10" in str(error) for error in refused] == [True]


def test_rejected_versions_are_not_even_loaded(versions: Path) -> None:
    loaded: list[Path] = []

    def load(path: Path) -> Bundle:
        loaded.append(path)
        return LOAD(path)

    assert newest_bundle(versions, load, rejected={versions / "v10", versions / "v2"}).manifest.name == "v1"
    assert loaded == [versions / "v1"]


def test_where_none_is_left_one_sentence_says_so(versions: Path) -> None:
    for name in ("v1", "v2", "v10"):
        damage(versions / name)
    with pytest.raises(BundleError, match=r"no version in .* is left that can be served"):
        newest_bundle(versions, LOAD)


def test_a_single_bundle_is_loaded_as_ever(versions: Path) -> None:
    assert newest_bundle(versions / "v1", LOAD).manifest.name == "v1"
    with pytest.raises(BundleError, match=r"there is no manifest.json"):
        newest_bundle(versions / "empty", LOAD)


def test_a_program_that_ends_looks_at_no_further_version(versions: Path) -> None:
    def stopped(path: Path) -> Bundle:
        raise LoadStoppedError(str(path))

    with pytest.raises(LoadStoppedError, match="v10"):
        newest_bundle(versions, stopped)
