"""Samples are read as far as the manifest says, whatever the headers of their arrays claim."""

from __future__ import annotations

import io
import struct
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from doubles.bundles import tiny_inputs, tiny_manifest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sheafedge.emulator.edge.golden_samples import golden_file, read_golden_file
from sheafedge.emulator.edge.manifest import BundleError

MANIFEST = tiny_manifest()
INPUTS = tiny_inputs(MANIFEST, 3)
LOGITS: NDArray[np.float32] = np.array([[1.0], [2.0], [3.0]], np.float32)


def npy(header: str, content: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    length = struct.pack("<H" if version == (1, 0) else "<I", len(header))
    return np.lib.format.magic(*version) + length + header.encode() + content


def samples(**others: bytes) -> bytes:
    """A file whose arrays are right but for these."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in {**{f"input_{name}": array for name, array in INPUTS.items()}, "logits": LOGITS}.items():
            whole = io.BytesIO()
            np.save(whole, values)
            archive.writestr(f"{name}.npy", others.get(name, whole.getvalue()))
    return stream.getvalue()


def refusal(content: bytes) -> str:
    with pytest.raises(BundleError) as refused:
        read_golden_file(MANIFEST, content)
    assert "samples.npz" in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("content", [golden_file(INPUTS, LOGITS), samples()], ids=["ours", "numpy's"])
def test_samples_come_back_as_they_were_written(content: bytes) -> None:
    inputs, logits = read_golden_file(MANIFEST, content)
    assert inputs.keys() == INPUTS.keys()
    for name, values in inputs.items():
        assert_array_equal(values, INPUTS[name])
        assert values.flags.writeable
    assert_array_equal(logits, LOGITS)


def test_an_array_in_the_order_of_fortran_is_read_as_numpy_reads_it() -> None:
    turned = {name: np.asfortranarray(values) for name, values in INPUTS.items()}
    inputs, _ = read_golden_file(MANIFEST, golden_file(turned, LOGITS))
    for name, values in inputs.items():
        assert_array_equal(values, INPUTS[name])
        assert values.flags.c_contiguous


WRONG = {
    "a shape of 4 TB": (
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000)}\n"),
        "must be float32",
    ),
    "a negative shape": (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 1)}\n"), "must be float32"),
    "objects": (npy("{'descr': '|O', 'fortran_order': False, 'shape': (3, 1)}\n", b"cos\nsystem\n"), "is object"),
    "less than it says": (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1)}\n", b"1234"), "has"),
    "more than it says": (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1)}\n", bytes(16)), "has"),
    "a header that calls": (npy("{'descr': __import__('os').getcwd(), 'shape': (3, 1)}\n"), "cannot be read"),
    "a header without end": (npy("(" * 9000), "cannot be read"),
    "a header of 1 MB": (npy(" " * (1 << 20), version=(2, 0)), "bytes, more than"),
    "a version of tomorrow": (npy("{}", version=(2, 0)).replace(b"\x02\x00", b"\x09\x00", 1), "cannot be read"),
    "no array": (b"PK nothing", "cannot be read"),
}


@pytest.mark.parametrize(("array", "said"), WRONG.values(), ids=WRONG.keys())
def test_an_array_that_is_not_as_the_manifest_says_is_refused(array: bytes, said: str) -> None:
    assert said in refusal(samples(logits=array))


def test_more_samples_than_a_device_can_take_are_refused_before_they_are_unpacked() -> None:
    """A file of 1.5 MB held 1.6 GB of zeros, and a manifest that said so."""
    many = replace(MANIFEST, golden=replace(MANIFEST.golden, rows=1 << 22))
    with pytest.raises(BundleError, match=r"would hold \d{9} numbers, more than"):
        read_golden_file(many, b"never opened")


def test_an_array_that_unpacks_to_more_is_not_unpacked() -> None:
    assert "bytes, more than the 10024 that it may have" in refusal(samples(logits=bytes(64 << 20)))
