"""`samples.npz` of a bundle: inputs, and the logits that the model must answer them with on every device.

    input_NAME  [rows, ...] float32 per input
    logits      [rows, n_outputs] float32

numpy's own reader allocates whatever an array's header says. Here the manifest says what must come, and the file is
read only as far as that.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .bundle_files import SAMPLES_FILE, ArchiveFiles, shown_error
from .manifest import MOST_VALUES, BundleError, Manifest

INPUT_PREFIX, LOGITS = "input_", "logits"

#: numpy refuses headers of more than 10,000 characters itself; magic, version and length stand before them.
_MOST_HEADER_BYTES = 10_000 + 12
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}

Samples = dict[str, NDArray[np.float32]]


def golden_file(inputs: Mapping[str, NDArray[np.float32]], logits: NDArray[np.float32]) -> bytes:
    """Content of `samples.npz`."""
    stream = io.BytesIO()
    arrays = {INPUT_PREFIX + name: values for name, values in inputs.items()} | {LOGITS: logits}
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def read_golden_file(manifest: Manifest, content: bytes) -> tuple[Samples, NDArray[np.float32]]:
    """Inputs by name [rows, ...], and the promised logits [rows, n_outputs].

    Raises:
        BundleError: an array is missing, or is not what the manifest says; or they are too large.
    """
    rows = manifest.golden.rows
    shapes = {INPUT_PREFIX + one.modality: (rows, *one.shape) for one in manifest.inputs}
    shapes[LOGITS] = (rows, manifest.output.n_outputs)
    if (n_values := sum(map(math.prod, shapes.values()))) > MOST_VALUES:
        raise BundleError(f"{SAMPLES_FILE} would hold {n_values} numbers, more than {MOST_VALUES}; export it again")
    try:
        archive = ArchiveFiles(io.BytesIO(content))
        arrays = {name: _array(archive, name, shape) for name, shape in shapes.items()}
    except BundleError as error:
        raise BundleError(f"{SAMPLES_FILE}: {error}") from None
    except Exception as error:  # noqa: BLE001 - a damaged archive raises whatever its parts raise
        raise BundleError(f"{SAMPLES_FILE} cannot be read ({shown_error(error)}); export it again") from None
    expected = arrays.pop(LOGITS)
    return {name.removeprefix(INPUT_PREFIX): values for name, values in arrays.items()}, expected


def _array(archive: ArchiveFiles, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    n_values = math.prod(shape)
    data = archive.read(f"{name}.npy", _MOST_HEADER_BYTES + 4 * n_values)
    stream = io.BytesIO(data)
    found, is_fortran, dtype = _HEADERS[np.lib.format.read_magic(stream)](stream)
    if found != shape or dtype != np.float32:
        raise BundleError(
            f"{name} is {str(dtype)[:40]} {str(list(found))[:80]}, must be float32 {list(shape)}; export it again"
        )
    if len(data) != stream.tell() + 4 * n_values:
        raise BundleError(f"{name} has {len(data)} bytes, not those of {n_values} numbers; export it again")
    values = np.frombuffer(data, np.float32, offset=stream.tell())
    # A copy, because others may write into it and torch warns of arrays that it cannot write into.
    return np.array(values.reshape(shape, order="F" if is_fortran else "C"), order="C")
