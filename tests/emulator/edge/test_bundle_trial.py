"""A bundle that does harm does it in a process with limits, and is refused in one sentence here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from doubles.bundles import tiny_bundle
from doubles.hostile_models import endless_loop, hostile_bundle, slow_products
from sheafedge.emulator.edge import bundle_trial
from sheafedge.emulator.edge.bundle import load_bundle
from sheafedge.emulator.edge.bundle_files import read_bundle
from sheafedge.emulator.edge.bundle_trial import BundleTrial, LoadStoppedError
from sheafedge.emulator.edge.manifest import BundleError, Manifest
from sheafedge.emulator.edge.onnx_session import LONGEST_RUN_S


def manifest_of(path: Path) -> Manifest:
    return read_bundle(path)[0]


def test_an_honest_bundle_passes_and_may_hold_files_with_names_of_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current folder is the bundle, and must not be searched for what the process imports."""
    path = tiny_bundle(tmp_path / "tiny")
    for module in ("numpy", "json", "onnxruntime"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    BundleTrial().run(Path("tiny"), manifest_of(path))


def test_a_model_that_never_answers_is_ended_at_its_limit(tmp_path: Path) -> None:
    """One that the runtime could stop between two nodes, and one that computes inside a node."""
    path = hostile_bundle(tmp_path / "loop", endless_loop())
    # on a busy machine a run may last for longer than any may, before it has had a second of a processor
    within = rf"within (1 s of processor time|{LONGEST_RUN_S:g} s)"
    with pytest.raises(BundleError, match=f"gave no answer to its own samples {within}; do not use it"):
        load_bundle(path, trial=BundleTrial(cpu_s=1))
    path = hostile_bundle(tmp_path / "product", slow_products(8000, 2))
    with pytest.raises(BundleError, match="gave no answer to its own samples within 1 s"):
        load_bundle(path, trial=BundleTrial(wall_s=1))


def test_a_model_without_memory_is_refused(tmp_path: Path) -> None:
    path = tiny_bundle(tmp_path / "tiny")
    with pytest.raises(BundleError, match=r"bundle .*tiny.*"):
        BundleTrial(memory_bytes=0).run(path, manifest_of(path))


def test_a_trial_that_is_told_to_stop_says_nothing_about_the_bundle(tmp_path: Path) -> None:
    path = hostile_bundle(tmp_path / "loop", endless_loop())
    with pytest.raises(LoadStoppedError, match="was not loaded: the program ends"):
        BundleTrial(is_stopped=lambda: True).run(path, manifest_of(path))


def test_a_bundle_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    """What was read here is another one than what was tried: the link was set anew in between."""
    one, other = tiny_bundle(tmp_path / "one"), tiny_bundle(tmp_path / "other", name="other")
    with pytest.raises(BundleError, match="was changed while it was being loaded"):
        BundleTrial().run(other, manifest_of(one))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", r"ended the process that tried it \(SIGSEGV\)"),
        ("raise SystemExit('no such module')", r"\(exit code 1: no such module\)"),
        ("print('no JSON')", r"\(exit code 0: nothing was said\)"),
        ("print('[1]')", r"\(exit code 0: nothing was said\)"),
    ],
)
def test_a_process_that_ends_otherwise_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    (tmp_path / "stand_in.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(bundle_trial, "_PROCESS", "stand_in")
    path = tiny_bundle(tmp_path / "tiny")
    with pytest.raises(BundleError, match=said):
        BundleTrial().run(path, manifest_of(path))


def test_where_no_process_can_be_started_nothing_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    path = tiny_bundle(tmp_path / "tiny")
    with pytest.raises(BundleError, match="cannot be tried in a process of its own"):
        load_bundle(path)
