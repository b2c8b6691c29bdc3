"""What lies in a bundle's place need not be files: nothing is waited for, followed, or read beyond what it may be."""

from __future__ import annotations

import io
import os
import shutil
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from doubles.bundles import tiny_bundle
from sheafedge.emulator.edge.bundle import pack_bundle
from sheafedge.emulator.edge.bundle_files import ArchiveFiles, FolderFiles, read_bundle
from sheafedge.emulator.edge.manifest import BundleError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_bundle(tmp_path_factory.mktemp("bundles") / "tiny")
    pack_bundle(folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "tiny"))


def refusal(path: Path) -> str:
    with pytest.raises(BundleError) as refused:
        read_bundle(path)
    return str(refused.value)


def bound_socket(path: Path) -> None:
    """A socket's path is short, whatever that of the test is."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


SPECIAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link to an endless device": (lambda path: path.symlink_to("/dev/zero"), "is a symbolic link"),
    "a link to a file outside": (lambda path: path.symlink_to("/etc/hostname"), "is a symbolic link"),
    "a link to itself": (lambda path: path.symlink_to(path), "is a symbolic link"),
    "a pipe that nobody writes into": (os.mkfifo, "is no regular file"),
    "a folder": (lambda path: path.mkdir(), "is no regular file"),
    "a socket": (bound_socket, "cannot be read"),
    "a hole of 1 TiB": (lambda path: path.touch() or os.truncate(path, 1 << 40), "bytes, more than"),
}


@pytest.mark.parametrize("name", ["manifest.json", "model.onnx", "samples.npz"])
@pytest.mark.parametrize(("make", "said"), SPECIAL.values(), ids=SPECIAL.keys())
def test_only_regular_files_of_the_right_size_are_read(
    folder: Path, name: str, make: Callable[[Path], object], said: str
) -> None:
    (folder / name).unlink()
    make(folder / name)
    assert said in refusal(folder)


def test_the_path_itself_may_be_a_link_but_no_device_and_no_pipe(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert read_bundle(tmp_path / "link")[0].name == "tiny"
    assert "is no regular file" in refusal(Path("/dev/zero"))
    os.mkfifo(tmp_path / "pipe")
    assert "is no regular file" in refusal(tmp_path / "pipe")


def test_a_file_that_grows_after_it_was_opened_is_not_read_to_its_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size is that of the opened file, and one byte more is enough to see that there is more."""
    path = folder / "README.md"
    size, fstat = path.stat().st_size, os.fstat

    def growing(opened: int) -> os.stat_result:
        found = fstat(opened)
        if Path(f"/proc/self/fd/{opened}").readlink() == path:
            os.truncate(path, 1 << 40)
        return found

    monkeypatch.setattr(os, "fstat", growing)
    assert len(FolderFiles(folder).read("README.md", size)) == size + 1
    assert f"README.md has {size + 1} bytes, its manifest says {size}" in refusal_of_grown(folder, path, size)


def refusal_of_grown(folder: Path, path: Path, size: int) -> str:
    os.truncate(path, size)
    return refusal(folder)


def test_a_folder_of_very_many_files_is_not_listed_to_its_end(folder: Path) -> None:
    for index in range(1001):
        (folder / f".{index}").touch()
    assert "more than 1000 files" in refusal(folder)


def test_an_archive_with_a_long_list_of_contents_is_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for index in range(20_000):
            archive.writestr(f"{index:010}", b"")
    assert "list of contents has" in refusal(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_methods_of_bounded_memory_are_unpacked(made: Path, tmp_path: Path, method: int) -> None:
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for file in made.iterdir():
            archive.write(file, file.name)
    assert f"is compressed by method {method}, must be deflate" in refusal(path)


def test_a_file_that_unpacks_to_more_than_it_says_is_cut_and_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(64 << 20))
    data = stream.getvalue().replace(struct.pack("<I", 64 << 20), struct.pack("<I", 1000))
    with pytest.raises(zipfile.BadZipFile, match="CRC"):
        ArchiveFiles(io.BytesIO(data)).read("bomb", 1000)


def test_what_a_library_quotes_cannot_steer_a_terminal(folder: Path) -> None:
    (folder / "\x1b[2Jx").touch()
    assert "\x1b" not in refusal(folder)
