"""A bundle: one trained model with all that a device needs to run it, as a folder or one `.zip`.

    manifest.json   what the model is, see manifest.py, with the hash of every other file and of itself
    model.onnx      from physical units to logits
    samples.npz     input_NAME [rows, ...] per input, logits [rows, n_outputs]: what must come out on every device
    README.md       the model card, for people

Files beside these, such as the scenario of the run, are listed in the manifest like all others.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from ..whole_file import replacing, sync
from .manifest import MOST_BYTES, BundleError, Manifest
from .manifest_reader import read_manifest
from .onnx_session import OnnxSession

MANIFEST_FILE, MODEL_FILE, SAMPLES_FILE, CARD_FILE = "manifest.json", "model.onnx", "samples.npz", "README.md"
REQUIRED_FILES = (MODEL_FILE, SAMPLES_FILE, CARD_FILE)
INPUT_PREFIX, LOGITS = "input_", "logits"

MOST_MANIFEST_BYTES = 1 << 22
# The earliest time that an entry of a ZIP archive can have.
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the same bundle gives the same archive, whenever it is packed


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A bundle that is whole, and whose model answers here as it did where it was made.

    Attributes:
        path: path of the folder or the archive.
        manifest: description of the model.
        content: name -> bytes of every file but the manifest.
        session: the loaded model.
        samples: input -> [rows, ...] samples whose answers the bundle promises.
        golden_error: largest difference of the model's logits here to the promised ones.
    """

    path: Path
    manifest: Manifest
    content: Mapping[str, bytes]
    session: OnnxSession
    samples: Mapping[str, NDArray[np.float32]]
    golden_error: float


def load_bundle(path: Path, *, cuda: bool = False, threads: int = 1) -> Bundle:
    """Bundle from a folder or archive, after every hash and the answers to its own samples were checked.

    Args:
        path: path of the folder, or of the `.zip`.
        cuda: run it on a GPU if that can be.
        threads: threads of the model on a CPU.

    Raises:
        BundleError: it is incomplete, changed, no bundle, or its model does not answer here as it should.
    """
    manifest, content = read_bundle(path)
    try:
        session = OnnxSession(content[MODEL_FILE], cuda=cuda, threads=threads)
    except Exception as error:  # noqa: BLE001 - onnxruntime has a class of its own for every cause
        reason = _first_line(error)
        raise BundleError(
            f"bundle {path}: its model cannot be loaded ({reason}); it needs onnxruntime"
            f" {manifest.runtime.onnxruntime} or later"
        ) from None
    _check_signature(path, manifest, session)
    samples, expected = _golden_samples(path, manifest, content[SAMPLES_FILE])
    return Bundle(path, manifest, content, session, samples, _golden_error(path, manifest, session, samples, expected))


def read_bundle(path: Path) -> tuple[Manifest, dict[str, bytes]]:
    """Manifest and files of a bundle whose hashes fit; the model is not loaded.

    Raises:
        BundleError: it is incomplete, changed or no bundle.
    """
    if not path.exists():
        raise BundleError(f"no bundle at {path}; give a folder or a .zip that sheafedge export made")
    try:
        if path.is_dir():
            return _checked(path, _Folder(path))
        with zipfile.ZipFile(path) as archive:
            return _checked(path, _Archive(archive))
    # Sentences of our own pass; only errors of libraries get the general one.
    except BundleError:
        raise
    except Exception as error:  # noqa: BLE001 - zipfile passes on whatever its decompressors raise
        raise BundleError(
            f"bundle {path} cannot be read ({error}); give a folder or a .zip that sheafedge export made"
        ) from None


def write_bundle(folder: Path, manifest: Manifest, content: Mapping[str, bytes]) -> Manifest:
    """Write a bundle into a new folder, all or nothing.

    Args:
        folder: must not be there yet.
        manifest: without facts about files, which are added here.
        content: name -> bytes, at least those of `REQUIRED_FILES`.

    Raises:
        BundleError: the folder is there already, a file is missing, or it cannot be written.
    """
    if missing := [name for name in REQUIRED_FILES if name not in content]:
        raise BundleError(f"bundle {folder} lacks {missing[0]}")
    if folder.exists():
        raise BundleError(f"bundle {folder} is there already; give another folder or remove it")
    whole = manifest.with_files(content)
    # written under a hidden name and renamed when whole: a device never sees half a bundle
    partial = folder.with_name(f".partial-{uuid4().hex[:12]}-{folder.name}")
    try:
        partial.mkdir(parents=True)
        for name, data in {**content, MANIFEST_FILE: whole.as_json().encode()}.items():
            (partial / name).write_bytes(data)
            # Before the rename, or a power failure could leave a folder of the right name with incomplete files.
            sync(partial / name)
        partial.rename(folder)
    except OSError as error:
        raise BundleError(f"bundle {folder} cannot be written ({error})") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return whole


def pack_bundle(folder: Path) -> Path:
    """Pack a bundle's folder into one `.zip` beside it, the same bytes whenever that is done.

    Raises:
        BundleError: the folder is no whole bundle, or the archive cannot be written.
    """
    manifest, content = read_bundle(folder)
    target = folder.with_name(f"{folder.name}.zip")
    try:
        with replacing(target) as partial, zipfile.ZipFile(partial, "w") as archive:
            for name, data in {MANIFEST_FILE: manifest.as_json().encode(), **content}.items():
                entry = zipfile.ZipInfo(name, _NO_TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                # The upper half holds the Unix mode; with 0 some programs unpack files that cannot be opened.
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, data)
    except OSError as error:
        raise BundleError(f"bundle {target} cannot be written ({error})") from None
    return target


class _Folder:
    """Files of a folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.sizes = {entry.name: entry.stat().st_size for entry in path.iterdir() if not entry.name.startswith(".")}

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()


class _Archive:
    """Files of a `.zip`."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        entries = archive.infolist()
        self.sizes = {entry.filename: entry.file_size for entry in entries}
        if len(self.sizes) != len(entries):  # programs differ in which of two they read
            raise BundleError(f"bundle {archive.filename} holds two files of one name; export it again")

    def read(self, name: str) -> bytes:
        with self._archive.open(name) as stream:
            # One byte more than stated shows that there is more, without reading all of it.
            return stream.read(self.sizes[name] + 1)  # what an archive says of itself need not be true


def _checked(path: Path, files: _Folder | _Archive) -> tuple[Manifest, dict[str, bytes]]:
    if MANIFEST_FILE not in files.sizes:
        raise BundleError(f"bundle {path} has no {MANIFEST_FILE}; give a folder or a .zip that sheafedge export made")
    # checked before anything is read, so that a hostile archive cannot fill the memory
    if files.sizes[MANIFEST_FILE] > MOST_MANIFEST_BYTES:
        raise BundleError(f"bundle {path}: {MANIFEST_FILE} has {files.sizes[MANIFEST_FILE]} bytes, which none has")
    try:
        manifest = read_manifest(files.read(MANIFEST_FILE))
    except BundleError as error:
        raise BundleError(f"bundle {path}: {error}") from None
    wanted = {*manifest.files, *REQUIRED_FILES, MANIFEST_FILE}
    if missing := sorted(wanted - set(files.sizes)):
        raise BundleError(f"bundle {path} is incomplete: {missing[0]} is missing; copy it again")
    # Every file must be covered by a hash, or a changed one could be added unseen.
    if unknown := sorted(set(files.sizes) - set(manifest.files) - {MANIFEST_FILE}):
        raise BundleError(f"bundle {path} holds {unknown[0]!r}, of which its manifest knows nothing; export it again")
    if sum(facts.bytes for facts in manifest.files.values()) > MOST_BYTES:
        raise BundleError(f"bundle {path} would hold more than {MOST_BYTES} bytes, which none does")
    return manifest, {name: _whole(path, name, manifest, files) for name in manifest.files}


def _whole(path: Path, name: str, manifest: Manifest, files: _Folder | _Archive) -> bytes:
    facts = manifest.files[name]
    if facts.bytes != files.sizes[name]:
        raise BundleError(
            f"bundle {path}: {name} has {files.sizes[name]} bytes, its manifest says {facts.bytes}; copy it again"
        )
    data = files.read(name)
    if hashlib.sha256(data).hexdigest() != facts.sha256:
        raise BundleError(f"bundle {path}: {name} was changed or damaged: its hash does not fit; copy it again")
    return data


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _check_signature(path: Path, manifest: Manifest, session: OnnxSession) -> None:
    # In order, too, because columns of `present` and shares of attention are those of the manifest.
    if session.input_names != list(manifest.modalities):
        raise BundleError(
            f"bundle {path}: the model takes {', '.join(session.input_names)}, its manifest says"
            f" {', '.join(manifest.modalities)}; export it again"
        )


def _golden_error(
    path: Path,
    manifest: Manifest,
    session: OnnxSession,
    inputs: Mapping[str, NDArray[np.float32]],
    expected: NDArray[np.float32],
) -> float:
    """Largest difference to the promised logits.

    Raises:
        BundleError: above the tolerance.
    """
    try:
        found = session.run(inputs)
    except Exception as error:  # noqa: BLE001 - as on loading
        reason = _first_line(error)
        raise BundleError(f"bundle {path}: its model cannot answer its own samples ({reason}); do not use it") from None
    difference = float(np.abs(found - expected).max()) if found.shape == expected.shape else np.inf
    if not difference <= manifest.golden.tolerance:  # NaN fails too
        raise BundleError(
            f"bundle {path}: on this machine the model answers its own samples with a difference of {difference:.3g},"
            f" more than {manifest.golden.tolerance:g}; do not use it here"
        )
    return difference


def _golden_samples(
    path: Path, manifest: Manifest, samples: bytes
) -> tuple[dict[str, NDArray[np.float32]], NDArray[np.float32]]:
    try:
        # Bundles travel, and a pickle could run code.
        with np.load(io.BytesIO(samples), allow_pickle=False) as arrays:
            inputs = {one.modality: arrays[INPUT_PREFIX + one.modality] for one in manifest.inputs}
            expected = arrays[LOGITS]
    except Exception as error:  # noqa: BLE001 - a damaged archive raises whatever its parts raise
        raise BundleError(f"bundle {path}: {SAMPLES_FILE} cannot be read ({error}); export it again") from None
    rows = manifest.golden.rows
    wanted: dict[str, tuple[int, ...]] = {one.modality: (rows, *one.shape) for one in manifest.inputs}
    wanted[LOGITS] = (rows, manifest.output.n_outputs)
    given: dict[str, NDArray[np.float32]] = {**{str(name): array for name, array in inputs.items()}, LOGITS: expected}
    for name, array in given.items():
        if array.shape != wanted[name] or array.dtype != np.float32:
            raise BundleError(
                f"bundle {path}: {name} of {SAMPLES_FILE} is {array.dtype} {list(array.shape)}, must be float32"
                f" {list(wanted[name])}; export it again"
            )
    return {str(name): array for name, array in inputs.items()}, expected


def golden_file(inputs: Mapping[str, NDArray[np.float32]], logits: NDArray[np.float32]) -> bytes:
    """Content of `samples.npz`."""
    stream = io.BytesIO()
    arrays = {INPUT_PREFIX + name: values for name, values in inputs.items()} | {LOGITS: logits}
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()
