"""Loads and verifies a new bundle beside the one that is served, in a thread of its own."""

from __future__ import annotations

import queue
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ..bundle import Bundle, load_bundle
from ..bundle_trial import BundleTrial, LoadStoppedError
from ..bundle_versions import newest_bundle
from ..manifest import BundleError
from ..signatures import TrustedKey

#: Name, size and time of every file.
_Signature: TypeAlias = tuple[tuple[str, int, int], ...]


class BundleReloader:
    """Hands over a bundle whenever one has been requested, or has appeared in the place of the old one.

    Args:
        path: path of the bundle, or of a folder of versions; a symbolic link that is set anew is a new bundle, too.
        watch_s: real time between two checks for a change; None: only on request.
        cuda, threads, trial, trusted: see `load_bundle`.
    """

    def __init__(
        self,
        path: Path,
        *,
        watch_s: float | None,
        cuda: bool,
        threads: int,
        trial: BundleTrial = BundleTrial(),  # noqa: B008 - frozen
        trusted: TrustedKey | None = None,
    ) -> None:
        self._path, self._watch_s = path, watch_s
        self._cuda, self._threads, self._trusted = cuda, threads, trusted
        self._rejected: set[Path] = set()
        self._loaded: queue.SimpleQueue[Bundle | BundleError] = queue.SimpleQueue()
        self._wake, self._asked, self._ends = threading.Event(), threading.Event(), threading.Event()
        self._seen = _signature(path)
        self._trial = replace(trial, is_stopped=self._ends.is_set)
        self._thread = threading.Thread(target=self._run, name="reload", daemon=True)
        self._thread.start()

    def ask(self) -> None:
        """Load what is there now; not for a signal's handler, which could meet itself in here."""
        self._asked.set()
        self._wake.set()

    def reject(self, version: Path) -> None:
        """Take this version of a folder no more, and load the newest of the others."""
        self._rejected.add(version)
        self.ask()

    def loaded(self) -> Bundle | BundleError | None:
        """Bundle that has been loaded since, or the error; None: nothing new."""
        try:
            return self._loaded.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        """End the thread; a trial of a bundle ends with it, what comes after the trial is waited for."""
        self._ends.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.is_set():
            self._wake.wait(self._watch_s)
            # Before the marks are read: a request that comes now wakes the next turn.
            self._wake.clear()
            if self._ends.is_set():
                return
            # Asked for, a bundle is loaded even where its files look as before.
            is_asked = self._asked.is_set()
            self._asked.clear()
            if is_asked or self._changed():
                self._load()

    def _changed(self) -> bool:
        """Whether other files are there, and have stopped changing since the last check: copies take their time."""
        now = _signature(self._path)
        if now == self._seen or not now:
            return False
        self._ends.wait(self._watch_s)
        return _signature(self._path) == now

    def _load(self) -> None:
        # taken before loading: what changes meanwhile is seen as a further change
        self._seen = _signature(self._path)
        try:
            load = partial(
                load_bundle, cuda=self._cuda, threads=self._threads, trial=self._trial, trusted=self._trusted
            )
            self._loaded.put(newest_bundle(self._path, load, self._rejected, self._loaded.put))
        except LoadStoppedError:  # nobody asks for it any more
            return
        except BundleError as error:
            self._loaded.put(error)


def _signature(path: Path) -> _Signature:
    """Empty where there is nothing."""
    try:
        files = sorted(path.resolve().iterdir()) if path.is_dir() else [path.resolve()]
        facts = [(file, file.stat()) for file in files]
    except OSError:
        return ()
    # The resolved path is part of it, so that a link to another folder with equal files is a change.
    return tuple((str(file), found.st_size, found.st_mtime_ns) for file, found in facts)
