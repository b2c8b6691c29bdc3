"""A new bundle takes over between two answers: nobody notices but by the digest, and what does not fit stays out."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from doubles.bundles import tiny_bundle, tiny_manifest
from doubles.served_model import LIMIT_S, at, plain_window, raw_frames, replies, served, turn_until_taken
from numpy.testing import assert_allclose
from sheafedge.emulator.edge.bundle import Bundle, pack_bundle
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Answer, Reply
from sheafedge.emulator.edge.manifest import BundleError
from sheafedge.emulator.edge.serving import reloading
from sheafedge.emulator.edge.serving.reloading import BundleReloader
from sheafedge.emulator.edge.serving.server import Server

FRAMES = 4
#: Instants of the longest load; it ends when the new model has answered every stream.
N = 20_000
ROUNDING = 1e-5
WATCH_S = 0.02
MANIFEST = tiny_manifest(frames=FRAMES)


@contextmanager
def reloader(path: Path, watch_s: float | None = None) -> Iterator[BundleReloader]:
    made = BundleReloader(path, watch_s=watch_s, cuda=False, threads=1)
    try:
        yield made
    finally:
        made.close()


def replaced(path: Path, other: Path) -> None:
    """As somebody who deploys does it: the new one is whole when it gets its place."""
    path.rename(path.with_name("old"))
    other.rename(path)


def loaded(one: BundleReloader) -> Bundle | BundleError:
    limit_s = time.monotonic() + LIMIT_S
    while (found := one.loaded()) is None:
        assert time.monotonic() < limit_s
        time.sleep(0.002)
    return found


def turned_until_reloaded(server: Server, n: int = 1) -> None:
    limit_s = time.monotonic() + LIMIT_S
    while server.counts.total("reloads") < n:
        assert time.monotonic() < limit_s
        server.turn(wait_s=0.002)


def answered(heard: list[Reply], besides: str = "") -> set[str]:
    """Streams with an answer, of other models than one."""
    return {one.stream for one in heard if isinstance(one, Answer) and one.digest != besides}


def test_reload_under_load_answers_every_question_once_and_the_later_ones_by_the_new_model(tmp_path: Path) -> None:
    path = tiny_bundle(tmp_path / "b", frames=FRAMES)
    new = tiny_bundle(tmp_path / "new", frames=FRAMES, gain=3.0)
    streams, raw, said = {"a", "b", "c"}, raw_frames(MANIFEST, N), []
    with (
        reloader(path) as source,
        served(path, reloader=source, say=said.append, waiting=N, waiting_in_all=3 * N) as server,
        FrameClient(server.address) as client,
    ):
        heard, n_sent, is_replaced = [], 0, False
        old_digest = server._model.digest
        for index in range(N):
            for stream in sorted(streams):
                client.send(stream, index, 0.0, at(raw, index), ask=index >= FRAMES)
                n_sent += index >= FRAMES
            server.turn(wait_s=0.002)  # the load goes on while the new one is read
            while (reply := client.receive()) is not None:
                heard.append(reply)
            if not is_replaced and answered(heard) == streams:
                replaced(path, new)
                source.ask()
                is_replaced = True
            if answered(heard, besides=old_digest) == streams:
                break
        heard += replies(server, client, n_sent - len(heard))
    assert server.counts.total("reloads", "swapped") == 1, said
    answers = [one for one in heard if isinstance(one, Answer)]
    assert len(answers) == len(heard) == n_sent
    assert set(Counter((one.stream, one.index) for one in answers).values()) == {1}
    for stream in streams:
        own = [one for one in answers if one.stream == stream]
        digests = [one.digest for one in own]
        assert digests == sorted(digests, key=lambda digest: digest != old_digest), "once new, always new"
        assert len(set(digests)) == 2
        for one in own:
            gain = 1.0 if one.digest == old_digest else 3.0
            figures = [plain_window(spec, raw[spec.modality], one.index).mean() for spec in MANIFEST.inputs]
            assert_allclose(one.logits, [gain * sum(figures) / 2], atol=ROUNDING)
    assert said == [f"reload: tiny is served from now on, digest {server._model.digest[:12]}"]


def test_the_windows_go_on_under_the_new_model(tmp_path: Path) -> None:
    path, new = tiny_bundle(tmp_path / "b"), tiny_bundle(tmp_path / "new", gain=2.0)
    raw = raw_frames(MANIFEST, FRAMES)
    with reloader(path) as source, served(path, reloader=source) as server, FrameClient(server.address) as client:
        for index in range(FRAMES - 1):
            client.send("s", index, 0.0, at(raw, index), ask=False)
        turn_until_taken(server, FRAMES - 1)
        replaced(path, new)
        source.ask()
        turned_until_reloaded(server)
        client.send("s", FRAMES - 1, 0.0, at(raw, FRAMES - 1))
        (answer,) = replies(server, client, 1)
        assert isinstance(answer, Answer)
        assert not answer.missing
        assert answer.digest == server._model.digest
        assert f'digest="{answer.digest}"' in server.counts.page()


def test_what_does_not_fit_or_is_damaged_stays_out_and_the_old_one_serves_on(tmp_path: Path) -> None:
    path, said = tiny_bundle(tmp_path / "b"), []
    raw = raw_frames(MANIFEST, FRAMES)
    with (
        reloader(path) as source,
        served(path, reloader=source, say=said.append) as server,
        FrameClient(server.address) as client,
    ):
        digest = server._model.digest
        source.ask()
        turned_until_reloaded(server, 1)
        assert said[-1] == "reload: tiny is the same as before"
        replaced(path, tiny_bundle(tmp_path / "longer", frames=FRAMES + 1, name="longer"))
        source.ask()
        turned_until_reloaded(server, 2)
        assert "longer takes other inputs" in said[-1]
        (path / "model.onnx").write_bytes(b"x" * (path / "model.onnx").stat().st_size)
        source.ask()
        turned_until_reloaded(server, 3)
        assert "tiny is served on" in said[-1]
        assert "was changed or damaged" in said[-1]
        shutil.rmtree(path)
        source.ask()
        turned_until_reloaded(server, 4)
        counts = [server.counts.total("reloads", result) for result in ("swapped", "same", "refused")]
        assert counts == [0, 1, 3]
        for index in range(FRAMES):
            client.send("s", index, 0.0, at(raw, index), ask=index == FRAMES - 1)
        (answer,) = replies(server, client, 1)
        assert isinstance(answer, Answer)
        assert answer.digest == digest


def test_a_watched_folder_is_loaded_when_another_takes_its_place(tmp_path: Path) -> None:
    path = tiny_bundle(tmp_path / "b")
    with reloader(path, WATCH_S) as source:
        replaced(path, tiny_bundle(tmp_path / "new", name="other"))
        found = loaded(source)
        assert isinstance(found, Bundle)
        assert found.manifest.name == "other"


def test_a_watched_link_and_a_watched_archive_are_followed(tmp_path: Path) -> None:
    first, second = tiny_bundle(tmp_path / "first"), tiny_bundle(tmp_path / "second", name="other")
    link = tmp_path / "current"
    link.symlink_to(first)
    with reloader(link, WATCH_S) as source:
        (tmp_path / "next").symlink_to(second)
        (tmp_path / "next").replace(link)
        found = loaded(source)
        assert isinstance(found, Bundle)
        assert found.manifest.name == "other"
    archive = pack_bundle(first)
    with reloader(archive, WATCH_S) as source:
        pack_bundle(second).replace(archive)
        found = loaded(source)
        assert isinstance(found, Bundle)
        assert found.manifest.name == "other"


def test_nothing_is_loaded_while_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before a change nor after one that was followed."""
    path = tiny_bundle(tmp_path / "b")
    with reloader(path, 1e-4) as source:
        looks = watched_looks(source, monkeypatch)
        wait_for_looks(looks, 20)
        assert source.loaded() is None
        assert not any(looks)
        replaced(path, tiny_bundle(tmp_path / "new", name="other"))
        found = loaded(source)
        while isinstance(found, BundleError):  # looked at between two renames
            found = loaded(source)
        looks.clear()
        wait_for_looks(looks, 20)
        assert source.loaded() is None
        assert not any(looks)


def watched_looks(source: BundleReloader, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows by what every look at the files finds."""
    looks: list[bool] = []
    changed = source._changed

    def look() -> bool:
        looks.append(changed())
        return looks[-1]

    monkeypatch.setattr(source, "_changed", look)
    return looks


def wait_for_looks(looks: list[bool], n: int) -> None:
    limit_s = time.monotonic() + LIMIT_S
    while len(looks) < n:
        assert time.monotonic() < limit_s
        time.sleep(0.002)


def test_files_that_still_change_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reloader(tiny_bundle(tmp_path / "b")) as source:
        source._watch_s = 0.0
        seen: list[object] = [("half",), ("more",), ("whole",), ("whole",)]
        monkeypatch.setattr(reloading, "_signature", lambda _: seen.pop(0))
        assert [source._changed(), source._changed()] == [False, True]


def test_a_bundle_that_arrives_file_by_file_is_loaded_once_it_is_whole(tmp_path: Path) -> None:
    """At worst it is looked at too early and refused; the last file sets it right."""
    path, new = tiny_bundle(tmp_path / "b"), tiny_bundle(tmp_path / "new", name="other")
    with reloader(path, WATCH_S) as source:
        for file in sorted(new.iterdir()):
            shutil.copy(file, path)
        found = loaded(source)
        while isinstance(found, BundleError):
            found = loaded(source)
        assert found.manifest.name == "other"
