"""Bundles from strangers: opened whole, or refused in one sentence, with bounded time and memory; nothing else."""

from __future__ import annotations

import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from attacks.bundle_attacks import SAMPLE_FILES, SPECIAL_FILES, BundleAttacks, packed
from attacks.conftest import Tally
from doubles.bundles import tiny_bundle, tiny_manifest
from doubles.hostile_models import HOSTILE_MODELS, MANIFEST, hostile_bundle, loop_on_large_inputs
from doubles.served_model import LIMIT_S, at, raw_frames, served
from sheafedge.emulator.edge.bundle import load_bundle
from sheafedge.emulator.edge.bundle_files import SAMPLES_FILE, read_bundle
from sheafedge.emulator.edge.bundle_trial import BundleTrial
from sheafedge.emulator.edge.footprint import peak_bytes
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer
from sheafedge.emulator.edge.golden_samples import read_golden_file
from sheafedge.emulator.edge.manifest import MOST_BYTES, MOST_VALUES, BundleError
from sheafedge.emulator.edge.serving.reloading import BundleReloader

#: Memory that opening may take here: the files, unpacked samples, and as much again for a copy of both.
MOST_GROWTH = 2 * (MOST_BYTES + 4 * MOST_VALUES)
BRIEF = BundleTrial(cpu_s=1, wall_s=50)
#: The limit of a trial, and what a busy machine may take for the rest.
LONGEST_S = 2.0 * BRIEF.wall_s


@dataclass
class Opener:
    """Opens bundles, and notes what should not have happened.

    Attributes:
        longest_s: of a refusal.
        accepted: names of what was opened.
    """

    tally: Tally
    longest_s: float = 0.0
    accepted: list[str] = field(default_factory=list)

    def open(self, what: str, load: Callable[[], object], *, must_refuse: bool = False) -> None:
        """One attack."""
        self.tally.tries += 1
        begun_s = time.monotonic()
        try:
            load()
        except BundleError as refusal:
            if "\n" in str(refusal) or not str(refusal).isprintable():
                self.tally.lose(f"{what}: its refusal is more than a line of text: {refusal!r}")
        except BaseException as error:  # noqa: BLE001 - whatever else comes is what an attack looks for
            self.tally.lose(f"{what}: {type(error).__name__} {error}")
        else:
            self.accepted.append(what)
            if must_refuse:
                self.tally.lose(f"{what}: was accepted")
        spent_s = time.monotonic() - begun_s
        self.longest_s = max(self.longest_s, spent_s)
        if spent_s > LONGEST_S:
            self.tally.lose(f"{what}: took {spent_s:.0f} s")


@pytest.fixture
def opener(tally: Tally) -> Iterator[Opener]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak_bytes() or 0
    one = Opener(tally)
    yield one
    growth = (peak_bytes() or 0) - before
    tally.figures |= {
        "longest_refusal_s": round(one.longest_s, 2),
        "peak_growth_mb": round(growth / 1e6, 1),
        "largest_child_mb": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3, 1),
        "accepted": len(one.accepted),
    }
    if growth > MOST_GROWTH:
        tally.lose(f"opening took {growth} bytes")


def opened(path: Path) -> None:
    """All that happens in the opening process before a model is tried."""
    manifest, content = read_bundle(path)
    read_golden_file(manifest, content[SAMPLES_FILE])


def attack_archives(opener: Opener, path: Path, n: int) -> None:
    attacks = BundleAttacks(seed=1)
    files = attacks.content

    def whole() -> None:
        _, content = read_bundle(path)
        assert content == files, "the content is another one"

    for index in range(n):
        path.write_bytes(attacks.changed_archive())
        opener.open(f"archive {index}", whole)
    for index in range(n):
        path.write_bytes(attacks.changed_manifest())
        opener.open(f"manifest {index}", lambda: opened(path))
    for index in range(n // 2):
        path.write_bytes(attacks.changed_file("samples.npz"))
        opener.open(f"samples {index}", lambda: opened(path))


def attack_files(opener: Opener, folder: Path, special: Sequence[str]) -> None:
    honest = tiny_bundle(folder / "honest")
    for name in ("manifest.json", "model.onnx", "samples.npz", "README.md"):
        for kind in special:
            path = Path(shutil.copytree(honest, folder / "special"))
            (path / name).unlink()
            SPECIAL_FILES[kind](path / name)
            opener.open(f"{kind} as {name}", lambda path=path: opened(path), must_refuse=True)  # type: ignore[misc]
            shutil.rmtree(path)


def attack_samples(opener: Opener, path: Path, kinds: Mapping[str, Callable[[], bytes]]) -> None:
    attacks = BundleAttacks(seed=2)
    for kind, make in kinds.items():
        path.write_bytes(packed(attacks.manifest, {**attacks.content, "samples.npz": make()}))
        opener.open(f"samples: {kind}", lambda: opened(path), must_refuse=True)


def attack_with_models(opener: Opener, folder: Path, names: Sequence[str]) -> None:
    for name in names:
        path = hostile_bundle(folder / "hostile", HOSTILE_MODELS[name]())
        opener.open(f"model: {name}", lambda path=path: load_bundle(path, trial=BRIEF), must_refuse=True)  # type: ignore[misc]
        shutil.rmtree(path)


def test_changed_bundles_are_opened_whole_or_refused(opener: Opener, tmp_path: Path) -> None:
    attack_archives(opener, tmp_path / "b.zip", 60)
    attack_samples(opener, tmp_path / "b.zip", {"1e12": SAMPLE_FILES["1e12 numbers"]})
    attack_files(opener, tmp_path, ["a link to an endless device", "a pipe", "a hole of 1 TiB"])


def test_models_that_do_harm_are_refused(opener: Opener, tmp_path: Path) -> None:
    attack_with_models(opener, tmp_path, ["endless loop", "1e12 numbers while running", "weights in a file beside"])


@pytest.mark.attack
@pytest.mark.timeout(3600)
def test_changed_bundles_at_length(opener: Opener, tmp_path: Path) -> None:
    attack_archives(opener, tmp_path / "b.zip", 1500)
    attack_samples(opener, tmp_path / "b.zip", SAMPLE_FILES)
    attack_files(opener, tmp_path, list(SPECIAL_FILES))


@pytest.mark.attack
@pytest.mark.timeout(3600)
def test_models_at_length(opener: Opener, tmp_path: Path) -> None:
    attack_with_models(opener, tmp_path, list(HOSTILE_MODELS))
    attacks, path = BundleAttacks(seed=3), tmp_path / "b.zip"
    for index in range(200):
        path.write_bytes(attacks.changed_file("model.onnx"))
        opener.open(f"model {index}", lambda: load_bundle(path, trial=BRIEF))


@pytest.mark.attack
@pytest.mark.timeout(3600)
def test_hostile_reloads_hold_up_nobody(opener: Opener, tmp_path: Path) -> None:
    """A server is offered hostile bundles, one after another, while an honest client asks all the time."""
    path, tally = tiny_bundle(tmp_path / "served"), opener.tally
    raw, waits_s, index = raw_frames(tiny_manifest(), 200), [], 0
    reloader = BundleReloader(path, watch_s=None, cuda=False, threads=1, trial=BRIEF)
    try:
        with served(path, reloader=reloader) as server, FrameClient(server.address) as client:
            for name, make in HOSTILE_MODELS.items():
                shutil.rmtree(path)
                hostile_bundle(path, make())
                tally.tries += 1
                n_before = server.counts.total("reloads")
                reloader.ask()
                limit_s = time.monotonic() + LIMIT_S
                while server.counts.total("reloads") == n_before and time.monotonic() < limit_s:
                    begun_s = time.monotonic()
                    client.send("s", index, index / 10, at(raw, index % 200))
                    while (reply := client.receive()) is None and time.monotonic() < limit_s:
                        server.turn(0.002)
                    waits_s.append(time.monotonic() - begun_s)
                    if index > 10 and not isinstance(reply, Answer):
                        tally.lose(f"{name}: an honest question got {reply}")
                    index += 1
                if server.counts.total("reloads", "refused") != n_before + 1:
                    tally.lose(f"{name}: not refused")
    finally:
        reloader.close()
    tally.figures |= {"honest_p99_ms": round(1e3 * float(np.percentile(waits_s, 99)), 1), "honest_asked": index}


@pytest.mark.attack
@pytest.mark.timeout(3600)
def test_questions_that_make_a_model_hang_are_refused_and_the_rest_answered(opener: Opener, tmp_path: Path) -> None:
    """The watch's part is played by a timer: every run that takes a fifth of a second is stopped."""
    path, raw = hostile_bundle(tmp_path / "b", loop_on_large_inputs()), raw_frames(MANIFEST, 60)
    ends, tally = threading.Event(), opener.tally
    with served(path) as server, FrameClient(server.address) as client:

        def watch() -> None:
            while not ends.wait(0.05):
                server.session.stop_longer_than(0.2)

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            for index in range(60):
                tally.tries += 1
                is_bad = index % 20 >= 10
                frames = {name: values + np.float32(1e6 * is_bad) for name, values in at(raw, index).items()}
                client.send("s", index, index / 10, frames)
                limit_s, reply = time.monotonic() + LIMIT_S, None
                while reply is None and time.monotonic() < limit_s:
                    server.turn(0.01)
                    reply = client.receive()
                if reply is None or (index % 20 in {4, 5, 6, 7, 8} and index < 20 and not isinstance(reply, Answer)):
                    tally.lose(f"question {index} got {reply}")
        finally:
            ends.set()
            watching.join()
