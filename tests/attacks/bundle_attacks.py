"""Bundles that attack who opens them: bytes changed anywhere, and parts replaced behind hashes that are right."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from doubles.bundles import tiny_inputs, tiny_manifest, tiny_model
from numpy.typing import NDArray
from sheafedge.emulator.edge.golden_samples import golden_file
from sheafedge.emulator.edge.manifest import Manifest, tree_digest
from sheafedge.emulator.edge.onnx_session import OnnxSession

#: In the place of any 32 bits: sizes, offsets and counts of archives, arrays and graphs.
_WORDS = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 16, 1 << 28)
#: In the place of any value of a manifest, as JSON.
_VALUES = (
    *("null", "true", "[]", "{}", "-1", "0", "1e308", "-1e308", "NaN", "Infinity", "1e999", str(1 << 63), "9" * 4000),
    *("[[[[[[[[[[1]]]]]]]]]]", '"\\u001b[2J"', '"\\u0000"', '"../../etc/passwd"', '"' + "x" * 5000 + '"'),
    *("[" + "1," * 20_000 + "1]", "[" * 2000 + "]" * 2000, json.dumps([1 << 26] * 5000), '{"a":1,"a":2}'),
    *(str(1 << 26), str(1 << 16), '"rf"', '"lidar"', "[1,1]", "[67108864]", '["a","b"]'),
)


class BundleAttacks:
    """Bundles made from one honest one.

    Args:
        seed: of the draws: the same seed makes the same bundles.
    """

    def __init__(self, seed: int) -> None:
        self._draws = np.random.default_rng(seed)
        self.manifest = tiny_manifest()
        model = tiny_model(self.manifest)
        inputs = tiny_inputs(self.manifest, self.manifest.golden.rows)
        samples = golden_file(inputs, OnnxSession(model).run(inputs))
        self.content = {"model.onnx": model, "samples.npz": samples, "README.md": b"# A tiny model\n"}
        self.honest = packed(self.manifest, self.content)

    def changed_archive(self) -> bytes:
        """Bytes of the archive changed, cut, repeated."""
        return self._changed(self.honest)

    def changed_file(self, name: str) -> bytes:
        """The same of one file, with a manifest that has its right hash and size."""
        return packed(self.manifest, {**self.content, name: self._changed(self.content[name])})

    def changed_manifest(self) -> bytes:
        """A value of the manifest replaced, or a field more or less; its digest is right wherever that can be."""
        tree = json.loads(self.manifest.with_files(self.content).as_json())
        places = list(_places(tree))
        parent, key = places[int(self._draws.integers(len(places)))]
        way = self._draws.integers(8)
        mark = "5b0f8e"
        if way == 0:
            del parent[key]
        elif way == 1 and isinstance(parent, dict):
            parent[f"{key}_"] = mark
        else:
            parent[key] = mark
        text = json.dumps(tree).replace(f'"{mark}"', _VALUES[int(self._draws.integers(len(_VALUES)))])
        try:
            signed = json.loads(text)
            text = json.dumps({**signed, "digest": tree_digest(signed)})
        except (ValueError, RecursionError, AttributeError, TypeError):
            pass  # what cannot be signed is sent as it is
        return packed_files({"manifest.json": text.encode(), **self.content})

    def _changed(self, data: bytes) -> bytes:
        draws, out = self._draws, bytearray(data)
        for _ in range(int(draws.integers(1, 5))):
            if not out:
                break
            place, length = int(draws.integers(len(out))), int(draws.integers(1, 65))
            match draws.integers(6):
                case 0:
                    out[place] ^= 1 << int(draws.integers(8))
                case 1:
                    out[place] = int(draws.integers(256))
                case 2:
                    del out[place : place + length]
                case 3:
                    out[place:place] = out[place : place + length] * int(draws.integers(1, 20))
                case 4:
                    out[place : place + 4] = struct.pack("<I", _WORDS[int(draws.integers(len(_WORDS)))])
                case _:
                    del out[place:]
        return bytes(out)


def packed(manifest: Manifest, content: Mapping[str, bytes]) -> bytes:
    """Archive of these files, with right hashes."""
    return packed_files({"manifest.json": manifest.with_files(content).as_json().encode(), **content})


def packed_files(files: Mapping[str, bytes]) -> bytes:
    """Archive of these files as they are."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """(parent, key) of every value below."""
    keys: list[Any] = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    return [place for key in keys for place in [(tree, key), *_places(tree[key])]]


#: What may lie in the place of a file.
SPECIAL_FILES: Mapping[str, Callable[[Path], object]] = {
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a link out": lambda path: path.symlink_to("/etc/passwd"),
    "a link to a file beside": lambda path: path.symlink_to("README.md"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a hole of 1 TiB": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    "nothing": lambda path: None,
    "an empty file": Path.touch,
}


def _bomb(n_bytes: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("input_lidar", "input_rf", "logits"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                for _ in range(n_bytes >> 20):
                    entry.write(bytes(1 << 20))
    return stream.getvalue()


def _array(header: str) -> bytes:
    empty: NDArray[np.float32] = np.zeros((3, 1), np.float32)
    whole = io.BytesIO()
    np.save(whole, empty)
    text = header.encode() + b"\n"
    array = np.lib.format.magic(1, 0) + struct.pack("<H", len(text)) + text
    return packed_files({"input_lidar.npy": array, "input_rf.npy": array, "logits.npy": array})


#: Contents of `samples.npz` that no honest bundle has.
SAMPLE_FILES: Mapping[str, Callable[[], bytes]] = {
    "1.6 GB of zeros in 1.6 MB": lambda: _bomb(1600 << 20),
    "1e12 numbers": lambda: _array("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000)}"),
    "more numbers than 64 bits count": lambda: _array(
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(1 << 40,) * 9}}}"
    ),
    "objects": lambda: _array("{'descr': '|O', 'fortran_order': False, 'shape': (3, 1)}"),
    "texts of 1 GB each": lambda: _array("{'descr': '<U268435456', 'fortran_order': False, 'shape': (3, 1)}"),
    "records": lambda: _array("{'descr': [('a', '<f4')] * 9, 'fortran_order': False, 'shape': (3, 1)}"),
    "a header without end": lambda: _array("(" * 60_000),
    "nested headers": lambda: _array("{'descr': " + "[" * 900 + "]" * 900 + "}"),
    "no arrays": lambda: packed_files({}),
}
