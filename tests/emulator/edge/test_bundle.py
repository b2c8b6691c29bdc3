"""Bundles: whole, unchanged and answering as promised, or refused in one sentence."""

from __future__ import annotations

import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from doubles.bundles import tiny_bundle, tiny_inputs, tiny_manifest, tiny_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import InputWindow
from sheafedge.emulator.edge.bundle import load_bundle, pack_bundle, write_bundle
from sheafedge.emulator.edge.bundle_files import read_bundle
from sheafedge.emulator.edge.golden_samples import golden_file
from sheafedge.emulator.edge.manifest import MOST_BYTES, BundleError, FileFacts, InputSpec, Manifest
from sheafedge.emulator.edge.onnx_session import OnnxSession

REORDERED = 1e-6  # a mean of some dozens of float32 near 1, summed in another order


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle as a folder, and `.zip` beside it; nobody changes them."""
    folder = tiny_bundle(tmp_path_factory.mktemp("bundles") / "tiny")
    pack_bundle(folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(made, tmp_path / "tiny"))


@pytest.fixture
def archive(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made.with_suffix(".zip"), tmp_path / "tiny.zip"))


def refusal(path: Path) -> str:
    with pytest.raises(BundleError) as refused:
        load_bundle(path, trial=None)
    said = str(refused.value)
    assert "\n" not in said
    return said


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}


def rewritten(folder: Path, manifest: Manifest, content: dict[str, bytes]) -> Path:
    """A bundle whose hashes are all right."""
    other = folder.with_name("rewritten")
    write_bundle(other, manifest, content)
    return other


@pytest.mark.parametrize("kind", ["binary", "classes"])
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_a_bundle_comes_back_as_it_was_written(tmp_path: Path, kind: str, packed: bool) -> None:
    folder = tiny_bundle(tmp_path / "deep" / "tiny", kind=kind)  # type: ignore[arg-type]
    bundle = load_bundle(pack_bundle(folder) if packed else folder, trial=None)
    assert replace(bundle.manifest, files={}) == tiny_manifest(kind=kind)  # type: ignore[arg-type]
    assert bundle.content == content_of(folder)
    assert bundle.golden_error == 0.0
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []


def test_what_is_loaded_answers_with_and_without_a_modality(made: Path) -> None:
    bundle = load_bundle(made, trial=None)
    inputs = tiny_inputs(bundle.manifest, 5, seed=3)
    figures = {name: values.reshape(5, -1).mean(axis=1) for name, values in inputs.items()}
    logits, shares = bundle.session.answer(inputs)
    assert_allclose(logits[:, 0], (figures["lidar"] + figures["rf"]) / 2, atol=REORDERED)
    assert shares is not None
    assert_array_equal(shares, np.full((5, 2), 0.5, np.float32))
    without_lidar = {**inputs, "present": np.array([[0.0, 1.0]] * 5, np.float32)}
    assert_allclose(bundle.session.run(without_lidar)[:, 0], figures["rf"], atol=REORDERED)


def test_an_archive_has_the_same_bytes_whenever_it_is_packed(made: Path, folder: Path) -> None:
    assert pack_bundle(folder).read_bytes() == made.with_suffix(".zip").read_bytes()


def test_a_bundle_is_written_once_and_whole(tmp_path: Path, made: Path) -> None:
    manifest, content = read_bundle(made)
    with pytest.raises(BundleError, match="is there already; give"):
        write_bundle(made, manifest, content)
    with pytest.raises(BundleError, match=r"lacks model\.onnx"):
        write_bundle(tmp_path / "other", manifest, {"samples.npz": b"", "README.md": b""})
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BundleError, match="cannot be written"):
        write_bundle(tmp_path / "file" / "tiny", manifest, content)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["manifest.json", "model.onnx", "samples.npz", "README.md"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert name in refusal(folder)


@pytest.mark.parametrize("name", ["model.onnx", "samples.npz", "README.md"])
def test_a_changed_byte_is_noticed(folder: Path, name: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    assert f"{name} was changed or damaged" in refusal(folder)


def test_a_file_that_grew_is_noticed_before_it_is_read(folder: Path) -> None:
    with (folder / "model.onnx").open("ab") as stream:
        stream.truncate(1 << 40)  # a hole: it takes no room
    assert f"model.onnx has {1 << 40} bytes, more than" in refusal(folder)


def test_a_changed_manifest_is_noticed(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"threshold": 0.0', '"threshold": -9.0'))
    assert "changed after it was written" in refusal(folder)


def test_a_file_that_is_not_in_the_manifest_is_noticed(folder: Path) -> None:
    (folder / "more.py").write_text("print()")
    assert "'more.py', of which its manifest knows nothing" in refusal(folder)
    (folder / "more.py").unlink()
    (folder / ".hidden").write_text("what a file browser leaves")
    load_bundle(folder, trial=None)


NO_BUNDLE: dict[str, Callable[[Path], None]] = {
    "nothing": lambda path: None,
    "an empty folder": lambda path: path.mkdir(),
    "an empty file": lambda path: path.write_bytes(b"") and None,
    "another file": lambda path: path.write_bytes(b"ONNX" * 100) and None,
    "an archive of something else": lambda path: zipped(path, {"notes.txt": b"hello"}),
    "a manifest alone": lambda path: zipped(path, {"manifest.json": b"{}"}),
}


def zipped(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("make", NO_BUNDLE.values(), ids=NO_BUNDLE.keys())
def test_what_is_no_bundle_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "thing"
    make(path)
    assert str(path) in refusal(path)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_cut_archive_is_refused(archive: Path, share: float) -> None:
    data = archive.read_bytes()
    archive.write_bytes(data[: int(share * len(data))])
    assert "cannot be read" in refusal(archive)


def test_an_archive_with_two_files_of_one_name_is_refused(archive: Path) -> None:
    with zipfile.ZipFile(archive, "a") as opened, pytest.warns(UserWarning, match="Duplicate name"):
        opened.writestr("model.onnx", b"another")
    assert "two files of one name" in refusal(archive)


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/outside", "a/b.txt", "..", "C:\\x", "a\nb"])
def test_a_name_that_leads_elsewhere_is_refused(made: Path, tmp_path: Path, name: str) -> None:
    manifest, content = read_bundle(made)
    files = {**content, name: b"data"}
    path = tmp_path / "bad.zip"
    zipped(path, {"manifest.json": manifest.with_files(files).as_json().encode(), **files})
    assert "cannot be the name of a file" in refusal(path)
    zipped(path, {"manifest.json": manifest.as_json().encode(), **files})
    assert "of which its manifest knows nothing" in refusal(path)


def test_an_archive_that_says_too_little_of_its_size_fills_nothing(made: Path, tmp_path: Path) -> None:
    """Declared small in archive and manifest, 64 MB when unpacked: what was declared is read, and the hash fails."""
    manifest, content = read_bundle(made)
    small, large = b"0" * 1000, b"0" * (64 << 20)
    path = tmp_path / "bomb.zip"
    listed = manifest.with_files({**content, "notes.txt": small})
    zipped(path, {"manifest.json": listed.as_json().encode(), **content, "notes.txt": large})
    data = path.read_bytes()
    assert data.count(struct.pack("<I", len(large))) == 2  # in the entry's own header and in the directory
    path.write_bytes(data.replace(struct.pack("<I", len(large)), struct.pack("<I", len(small))))
    assert "bomb.zip" in refusal(path)


def test_more_than_a_device_can_take_is_refused_before_it_is_read(made: Path, tmp_path: Path) -> None:
    manifest, content = read_bundle(made)
    large = dict.fromkeys(("a.bin", "b.bin"), FileFacts("0" * 64, MOST_BYTES - 1))
    listed = replace(manifest, files={**manifest.with_files(content).files, **large})
    folder = Path(shutil.copytree(made, tmp_path / "large"))
    (folder / "manifest.json").write_text(listed.as_json())
    for name in large:
        (folder / name).touch()
    assert f"more than the {MOST_BYTES} that a bundle may have" in refusal(folder)


def test_a_model_that_answers_otherwise_is_refused(folder: Path) -> None:
    manifest, content = read_bundle(folder)
    other = rewritten(folder, manifest, {**content, "model.onnx": tiny_model(manifest, gain=1.01)})
    assert "answers its own samples with a difference of" in refusal(other)
    shutil.rmtree(other)
    tolerant = replace(manifest, golden=replace(manifest.golden, tolerance=0.1))
    other = rewritten(folder, tolerant, {**content, "model.onnx": tiny_model(manifest, gain=1.01)})
    bundle = load_bundle(other, trial=None)
    assert 1e-5 < bundle.golden_error < 0.1


def test_a_model_that_answers_nothing_is_refused(folder: Path) -> None:
    manifest, content = read_bundle(folder)
    other = rewritten(folder, manifest, {**content, "model.onnx": tiny_model(manifest, gain=float("nan"))})
    assert "a difference of nan" in refusal(other)


def test_a_model_that_takes_something_else_is_refused(folder: Path) -> None:
    manifest, content = read_bundle(folder)
    model = tiny_model(tiny_manifest(kind="classes"))
    assert "the model takes rf, gps" in refusal(rewritten(folder, manifest, {**content, "model.onnx": model}))


def test_a_model_of_other_shapes_is_refused(folder: Path) -> None:
    """Manifest and samples agree, the model does not."""
    manifest, content = read_bundle(folder)
    wide = InputSpec(InputWindow("rf", 4, axis=0), (4, 9), 10.0, "dB", "")
    other = replace(manifest, inputs=(manifest.inputs[0], wide))
    inputs = tiny_inputs(other, manifest.golden.rows)
    samples = golden_file(inputs, np.zeros((manifest.golden.rows, 1), np.float32))
    assert "cannot answer its own samples" in refusal(rewritten(folder, other, {**content, "samples.npz": samples}))


def test_what_is_no_model_is_refused(folder: Path) -> None:
    manifest, content = read_bundle(folder)
    assert "cannot be loaded" in refusal(rewritten(folder, manifest, {**content, "model.onnx": b"no graph"}))


SAMPLES: dict[str, Callable[[Manifest], bytes]] = {
    "no arrays": lambda manifest: b"PK nothing",
    "a missing input": lambda manifest: golden_file(
        {"rf": tiny_inputs(manifest, 3)["rf"]}, np.zeros((3, 1), np.float32)
    ),
    "too few rows": lambda manifest: golden_file(tiny_inputs(manifest, 2), np.zeros((2, 1), np.float32)),
    "numbers of another kind": lambda manifest: golden_file(
        tiny_inputs(manifest, 3),
        np.zeros((3, 1), np.float64),  # type: ignore[arg-type]
    ),
}


@pytest.mark.parametrize("make", SAMPLES.values(), ids=SAMPLES.keys())
def test_samples_that_do_not_fit_are_refused(folder: Path, make: Callable[[Manifest], bytes]) -> None:
    manifest, content = read_bundle(folder)
    said = refusal(rewritten(folder, manifest, {**content, "samples.npz": make(manifest)}))
    assert "samples.npz" in said
    assert "export it again" in said


def test_python_objects_are_not_read(folder: Path) -> None:
    """An array of objects would be unpickled, which runs whatever somebody put there."""
    manifest, content = read_bundle(folder)
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, values in tiny_inputs(manifest, 3).items():
            one = BytesIO()
            np.save(one, values)
            archive.writestr(f"input_{name}.npy", one.getvalue())
        text = "{'descr': '|O', 'fortran_order': False, 'shape': (3, 1), }\n"
        archive.writestr(
            "logits.npy", np.lib.format.magic(1, 0) + struct.pack("<H", len(text)) + text.encode() + b"cos\nsystem\n"
        )
    said = refusal(rewritten(folder, manifest, {**content, "samples.npz": stream.getvalue()}))
    assert "logits is object [3, 1], must be float32 [3, 1]" in said


def test_a_gpu_that_is_not_there_is_no_error(made: Path) -> None:
    assert isinstance(load_bundle(made, cuda=True, trial=None).session, OnnxSession)


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_to_its_bytes_a_bundle_loads_whole_or_is_refused(
    made: Path, tmp_path: Path, data: st.DataObject
) -> None:
    whole = made.with_suffix(".zip").read_bytes()
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(changed) - 1))
        if data.draw(st.booleans()):
            changed[place] = data.draw(st.integers(0, 255))
        else:
            del changed[place : place + data.draw(st.integers(1, 64))]
    path = tmp_path / "fuzzed.zip"
    path.write_bytes(bytes(changed))
    try:
        _, content = read_bundle(path)
    except BundleError:
        return
    assert content == content_of(made)  # what was hit was not part of any file
