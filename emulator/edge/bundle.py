"""A bundle: one trained model with all that a device needs to run it, as a folder or one `.zip`.

    manifest.json   what the model is, see manifest.py, with the hash of every other file and of itself
    model.onnx      from physical units to logits
    samples.npz     input_NAME [rows, ...] per input, logits [rows, n_outputs]: what must come out on every device
    README.md       the model card, for people
    manifest.sig    signature of manifest.json, where somebody has signed it, see signatures.py

Files beside these, such as the scenario of the run, are listed in the manifest like all others.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from ..whole_file import replacing, sync
from .bundle_files import (
    MANIFEST_FILE,
    MODEL_FILE,
    REQUIRED_FILES,
    SAMPLES_FILE,
    SIGNATURE_FILE,
    read_bundle,
    shown_error,
)
from .bundle_trial import BundleTrial
from .golden_samples import read_golden_file
from .manifest import BundleError, Manifest
from .onnx_session import LONGEST_RUN_S, OnnxSession
from .signatures import SigningKey, TrustedKey

# The earliest time that an entry of a ZIP archive can have.
_NO_TIME = (1980, 1, 1, 0, 0, 0)  # the same bundle gives the same archive, whenever it is packed


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bundle:
    """A bundle that is whole, and whose model answers here as it did where it was made: `load_bundle` makes it.

    Attributes:
        path: path of the folder or the archive.
        manifest: description of the model.
        content: name -> bytes of every file but the manifest, its signature included.
        session: the loaded model.
        samples: input -> [rows, ...] samples whose answers the bundle promises.
        golden_error: largest difference of the model's logits here to the promised ones.

    Examples:
        >>> from sheafedge import load_bundle, load_run
        >>> (made,) = load_run("runs/digits").export([2])  # of sheafedge run digits --set rounds=5 --out runs/digits
        >>> bundle = load_bundle(made.folder)
        >>> bundle
        Bundle(digits-client-02: table [64] -> 10 labels, float32)
        >>> bundle.manifest.inputs[0].meaning
        'one row, its columns in the order of the data'
    """

    path: Path
    manifest: Manifest
    content: Mapping[str, bytes]
    session: OnnxSession
    samples: Mapping[str, NDArray[np.float32]]
    golden_error: float

    def __repr__(self) -> str:
        said = self.manifest
        inputs = ", ".join(f"{one.modality} {list(one.shape)}" for one in said.inputs)
        answers = f"{len(said.output.labels)} labels"
        if (forecast := said.output.forecast) is not None:
            answers = f"{', '.join(forecast.series)} to {forecast.ahead_s[-1]:g} s ahead"
        return f"Bundle({said.name}: {inputs} -> {answers}, {said.precision})"


def load_bundle(
    path: str | os.PathLike[str],
    *,
    cuda: bool = False,
    threads: int = 1,
    trial: BundleTrial | None = BundleTrial(),  # noqa: B008 - frozen
    trusted: TrustedKey | None = None,
) -> Bundle:
    """Bundle from a folder or archive, after every hash and the answers to its own samples were checked.

    Args:
        path: path of the folder, or of the `.zip`.
        cuda: run it on a GPU if that can be.
        threads: threads of the model on a CPU.
        trial: limits of the process in which the bundle is loaded and answers first, on a CPU; None: there is no such
            process, because this program has just made the bundle itself.
        trusted: key that must have signed the bundle; None: signatures are not looked at.

    Raises:
        BundleError: it is incomplete, changed, no bundle, not signed by the trusted key, or its model does not answer
            here as it should.
        LoadStoppedError: the trial was told to stop.

    Examples:
        >>> from sheafedge import load_bundle, load_run
        >>> (made,) = load_run("runs/digits").export([1])  # of sheafedge run digits --set rounds=5 --out runs/digits
        >>> bundle = load_bundle(made.archive)
        >>> bundle.session.run(bundle.samples).shape == (len(bundle.samples["table"]), 10)
        True
    """
    path = Path(path)
    manifest, content = read_bundle(path, trusted)
    if trial is not None:
        trial.run(path, manifest)
    try:
        samples, expected = read_golden_file(manifest, content[SAMPLES_FILE])
        session = _session(manifest, content[MODEL_FILE], cuda, threads)
        error = _golden_error(manifest, session, samples, expected)
    except BundleError as refusal:
        raise BundleError(f"bundle {path}: {refusal}") from None
    return Bundle(path, manifest, content, session, samples, error)


def write_bundle(
    folder: Path, manifest: Manifest, content: Mapping[str, bytes], signing: SigningKey | None = None
) -> Manifest:
    """Write a bundle into a new folder, all or nothing.

    Args:
        folder: must not be there yet.
        manifest: without facts about files, which are added here.
        content: name -> bytes, at least those of `REQUIRED_FILES`.
        signing: key that signs it; None: it is not signed.

    Raises:
        BundleError: the folder is there already, a file is missing, or it cannot be written.
    """
    if missing := [name for name in REQUIRED_FILES if name not in content]:
        raise BundleError(f"bundle {folder} lacks {missing[0]}")
    if folder.exists():
        raise BundleError(f"bundle {folder} is there already; give another folder or remove it")
    whole = manifest.with_files(content)
    written = whole.as_json().encode()
    signature = {} if signing is None else {SIGNATURE_FILE: signing.sign(written)}
    # written under a hidden name and renamed when whole: a device never sees half a bundle
    partial = folder.with_name(f".partial-{uuid4().hex[:12]}-{folder.name}")
    try:
        partial.mkdir(parents=True)
        for name, data in {**content, **signature, MANIFEST_FILE: written}.items():
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


def _session(manifest: Manifest, model: bytes, cuda: bool, threads: int) -> OnnxSession:
    try:
        session = OnnxSession(model, cuda=cuda, threads=threads)
    except Exception as error:  # noqa: BLE001 - onnxruntime has a class of its own for every cause
        raise BundleError(
            f"its model cannot be loaded ({shown_error(error)}); it needs onnxruntime {manifest.runtime.onnxruntime} or"
            " later"
        ) from None
    # In order, too, because columns of `present` and shares of attention are those of the manifest.
    if session.input_names != list(manifest.modalities):
        found = ", ".join(session.input_names)[:200]
        raise BundleError(
            f"the model takes {found}, its manifest says {', '.join(manifest.modalities)}; export it again"
        )
    return session


def _golden_error(
    manifest: Manifest,
    session: OnnxSession,
    inputs: Mapping[str, NDArray[np.float32]],
    expected: NDArray[np.float32],
) -> float:
    """Largest difference to the promised logits.

    Raises:
        BundleError: above the tolerance, or no answer in time.
    """
    # Of a model that draws at random, an answer in the trial is no promise of one here.
    timer = threading.Timer(LONGEST_RUN_S, session.stop_longer_than, (0.0,))
    timer.daemon = True
    until_s = time.monotonic() + LONGEST_RUN_S
    timer.start()
    try:
        found = session.run(inputs)
    except Exception as error:  # noqa: BLE001 - as on loading
        if time.monotonic() >= until_s:  # the timer has stopped it
            raise BundleError(
                f"its model gave no answer to its own samples within {LONGEST_RUN_S:g} s; do not use it"
            ) from None
        raise BundleError(f"its model cannot answer its own samples ({shown_error(error)}); do not use it") from None
    finally:
        timer.cancel()
    difference = float(np.abs(found - expected).max()) if found.shape == expected.shape else np.inf
    if not difference <= manifest.golden.tolerance:  # NaN fails too
        raise BundleError(
            f"on this machine the model answers its own samples with a difference of {difference:.3g}, more than"
            f" {manifest.golden.tolerance:g}; do not use it here"
        )
    return difference
