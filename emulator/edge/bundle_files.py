"""Files of a bundle, read without trust: regular ones only, none outside, and none longer than its manifest says.

A folder or archive may come from a stranger, and may change while it is read. So every file is opened once, what is
checked is what was opened, and no more is read than was declared; the hashes of the manifest are checked at the end.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

from .manifest import MOST_BYTES, BundleError, Manifest
from .manifest_reader import MOST_MANIFEST_BYTES, read_manifest
from .signatures import SIGNATURE_BYTES, TrustedKey

MANIFEST_FILE, MODEL_FILE, SAMPLES_FILE, CARD_FILE = "manifest.json", "model.onnx", "samples.npz", "README.md"
#: Signature of the manifest; a bundle may have one, see `signatures`.
SIGNATURE_FILE = "manifest.sig"
REQUIRED_FILES = (MODEL_FILE, SAMPLES_FILE, CARD_FILE)

#: Of a folder, with the hidden ones, and of an archive's list of contents, which zipfile reads in one piece.
_MOST_ENTRIES, _MOST_LIST_BYTES = 1000, 1 << 20
_CHUNK_BYTES = 1 << 20
#: Others (bzip2, LZMA) can take memory that no size in the archive tells; no bundle was ever written with them.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# A pipe must not be waited for, and a link not be followed; where a system knows no such flag, it has no such files.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class BundleSource(Protocol):
    """What holds the files of a bundle.

    Attributes:
        names: of the files, hidden ones left out.
    """

    names: frozenset[str]

    def read(self, name: str, most_bytes: int) -> bytes:
        """Content of a file of at most so many bytes.

        Raises:
            BundleError: it is longer, or no regular file.
        """
        ...


class FolderFiles:
    """Files of a folder.

    Args:
        path: path of the folder.

    Raises:
        BundleError: too much lies in the folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with os.scandir(path) as entries:
            found = [entry.name for entry in islice(entries, _MOST_ENTRIES + 1)]
        if len(found) > _MOST_ENTRIES:
            raise BundleError(f"more than {_MOST_ENTRIES} files lie in it, which is no bundle")
        self.names = frozenset(name for name in found if not name.startswith("."))

    def read(self, name: str, most_bytes: int) -> bytes:
        """Content of a file; see `BundleSource`."""
        try:
            with _opened(self._path / name, name, _FLAGS | _NO_LINK) as (stream, size):
                _check_size(name, size, most_bytes)
                return stream.read(size + 1)  # one more: a file that grows meanwhile is seen to be longer
        except OSError as error:
            # Linux and macOS say ELOOP of a link, BSD says EMLINK.
            if error.errno in {errno.ELOOP, errno.EMLINK}:
                raise BundleError(f"{name} is a symbolic link; a bundle holds its files itself, copy them") from None
            raise


class ArchiveFiles:
    """Files of a `.zip`.

    Args:
        stream: the archive.

    Raises:
        BundleError: two files have one name, or the list of contents is too long.
        zipfile.BadZipFile: it is no archive.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._archive = zipfile.ZipFile(_BoundedReads(stream))
        entries = self._archive.infolist()
        self.names = frozenset(entry.filename for entry in entries)
        if len(self.names) != len(entries):  # programs differ in which of two they read
            raise BundleError("it holds two files of one name; export it again")

    def read(self, name: str, most_bytes: int) -> bytes:
        """Content of a file; see `BundleSource`."""
        entry = self._archive.getinfo(name)
        if entry.compress_type not in _METHODS:
            raise BundleError(f"{name} is compressed by method {entry.compress_type}, must be deflate; pack it again")
        _check_size(name, entry.file_size, most_bytes)
        content = io.BytesIO()
        with self._archive.open(entry) as stream:
            # zipfile gives no more than the entry declares, and compares its CRC at the end.
            while piece := stream.read(_CHUNK_BYTES):
                content.write(piece)
        return content.getvalue()


class _BoundedReads:
    """A file that is read in small pieces: zipfile takes a list of contents at once, however long it claims to be."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell, self.seekable = stream.seek, stream.tell, stream.seekable

    def read(self, n: int = -1) -> bytes:
        data = self._stream.read(min(n, _MOST_LIST_BYTES) if n >= 0 else _MOST_LIST_BYTES)
        if n > len(data) == _MOST_LIST_BYTES:
            raise BundleError(f"its list of contents has {n} bytes, which none has")
        return data


def read_bundle(path: Path, trusted: TrustedKey | None = None) -> tuple[Manifest, dict[str, bytes]]:
    """Manifest and files of a bundle whose hashes fit, with its signature where it has one; the model is not loaded.

    Args:
        path: path of the folder, or of the `.zip`; it may be a symbolic link, the files of a folder may not.
        trusted: key that must have signed it; None: signatures are not looked at.

    Raises:
        BundleError: it is incomplete, changed or no bundle.
    """
    if not path.exists():
        raise BundleError(f"no bundle at {path}; give a folder or a .zip that sheafedge export made")
    try:
        if path.is_dir():
            return _checked(FolderFiles(path), trusted)
        with _opened(path, path.name, _FLAGS) as (stream, _):
            return _checked(ArchiveFiles(stream), trusted)
    # Sentences of our own need only the path; errors of libraries get the general one.
    except BundleError as error:
        raise BundleError(f"bundle {path}: {error}") from None
    except Exception as error:  # noqa: BLE001 - zipfile passes on whatever its decompressors raise
        raise BundleError(
            f"bundle {path} cannot be read ({shown_error(error)}); give a folder or a .zip that sheafedge export made"
        ) from None


def shown_error(error: Exception) -> str:
    """First line of a library's error; it may quote a file, so what would steer a terminal is left out."""
    line = (str(error).splitlines() or [""])[0][:300]
    return "".join(sign for sign in line if sign.isprintable()) or type(error).__name__


@contextmanager
def _opened(path: Path, name: str, flags: int) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file and its size, both of the same opening."""
    opened = os.open(path, flags)
    try:
        facts = os.fstat(opened)
        if not stat.S_ISREG(facts.st_mode):
            raise BundleError(f"{name} is no regular file; export it again")
        with open(opened, "rb", closefd=False) as stream:
            yield stream, facts.st_size
    finally:
        os.close(opened)


def _check_size(name: str, found: int, most_bytes: int) -> None:
    if found > most_bytes:
        raise BundleError(f"{name} has {found} bytes, more than the {most_bytes} that it may have; copy it again")


def _checked(files: BundleSource, trusted: TrustedKey | None) -> tuple[Manifest, dict[str, bytes]]:
    if MANIFEST_FILE not in files.names:
        raise BundleError(f"there is no {MANIFEST_FILE}; give a folder or a .zip that sheafedge export made")
    written = files.read(MANIFEST_FILE, MOST_MANIFEST_BYTES)
    signature = files.read(SIGNATURE_FILE, SIGNATURE_BYTES) if SIGNATURE_FILE in files.names else None
    if trusted is not None:  # before anything of the manifest is believed
        trusted.check(written, signature)
    manifest = read_manifest(written)
    wanted = {*manifest.files, *REQUIRED_FILES, MANIFEST_FILE}
    if missing := sorted(wanted - files.names):
        raise BundleError(f"it is incomplete: {missing[0]} is missing; copy it again")
    # Every file must be covered by a hash, or a changed one could be added unseen.
    if unknown := sorted(files.names - set(manifest.files) - {MANIFEST_FILE, SIGNATURE_FILE}):
        raise BundleError(f"it holds {unknown[0][:80]!r}, of which its manifest knows nothing; export it again")
    if (total := sum(facts.bytes for facts in manifest.files.values())) > MOST_BYTES:
        raise BundleError(f"its files would have {total} bytes, more than the {MOST_BYTES} that a bundle may have")
    content = {name: _whole(name, manifest, files) for name in manifest.files}
    return manifest, content if signature is None else {**content, SIGNATURE_FILE: signature}


def _whole(name: str, manifest: Manifest, files: BundleSource) -> bytes:
    facts = manifest.files[name]
    data = files.read(name, facts.bytes)
    if len(data) != facts.bytes:
        raise BundleError(f"{name} has {len(data)} bytes, its manifest says {facts.bytes}; copy it again")
    if hashlib.sha256(data).hexdigest() != facts.sha256:
        raise BundleError(f"{name} was changed or damaged: its hash does not fit; copy it again")
    return data
