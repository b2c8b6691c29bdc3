"""Run folder: named `NAME.partial` while it is written, and by its own name when it is complete."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import tomli_w

from ...emulator.contracts import ConfigError, SheafedgeError, State
from ...emulator.network.channels.link_state import LinkState
from ...emulator.ownership import OwnedError, owned, refuse_owned
from ...emulator.whole_file import sync, write_whole
from ..schema.scenario import Scenario
from .checkpoint import has_checkpoint, write_checkpoint
from .interrupted_run import CHECKPOINTS, DIAGNOSTICS, LINKS, Interrupted, target_of, written_bytes
from .link_states import link_line
from .metric_columns import COLUMNS, drop_rounds, write_columns
from .metric_rows import METRICS, has_columns, round_lines

#: Folder of the plugin files of a run, as they were when it began.
PLUGINS = "plugins"
#: What to do about a name that cannot be used.
ELSEWHERE = "choose another with --out"


class RunFolder:
    """Run folder that is being written.

    Attributes:
        path: present path of the folder; after the run its final path.
        target: path of the complete folder.
        metrics: open `metrics.jsonl`.
        links: open `links.jsonl`; None: no message has crossed a radio link.
    """

    def __init__(self, path: Path, target: Path) -> None:
        self.path, self.target = path, target
        # "a": a resumed run continues its files, which were cut to the lines of its checkpoint
        self.metrics: TextIO = (path / METRICS).open("a", encoding="utf-8")
        # runs over other links have none: it is made when there is something to write
        self.links = self._opened_links() if (path / LINKS).exists() else None

    def write_scenario(self, scenario: Scenario) -> None:
        """Write `scenario.toml`: all tables of the scenario, enough to repeat the run, and beside it its plugins."""
        text = tomli_w.dumps(scenario.pinned_tables(f"{PLUGINS}/"))
        with self.writing():
            for plugin in scenario.used_plugins:
                if plugin.text is not None:
                    (self.path / PLUGINS).mkdir(exist_ok=True)
                    write_whole(self.path / PLUGINS / plugin.name, plugin.text)
            write_whole(self.path / "scenario.toml", text)

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Append one line to `metrics.jsonl`."""
        with self.writing():
            self.metrics.write(json.dumps(row) + "\n")

    def keep_columns(self) -> None:
        """Hold the rows of all clients as columns from now on, see `add_round`; a resumed run goes on as it began."""
        with self.writing():
            (self.path / COLUMNS).mkdir(exist_ok=True)

    @property
    def has_columns(self) -> bool:
        """Whether rows are columns, and come a round at a time."""
        return has_columns(self.path)

    def add_round(self, rows: Sequence[Mapping[str, Any]], n_clients: int, *, resting: bool = False) -> None:
        """Write the rows of a round as columns, and their sample and aggregates as lines.

        Args:
            rows: of one round.
            n_clients: of the run.
            resting: whether they are of nodes that took no part in it; these have no lines.
        """
        with self.writing():
            write_columns(self.path / COLUMNS, rows[0]["round"], rows, resting=resting)
        for line in () if resting else round_lines(rows, n_clients):
            self.add_row(line)

    def add_link_states(self, states: Iterable[LinkState]) -> None:
        """Append lines to `links.jsonl`, one per message over a radio link."""
        with self.writing():
            for line in map(link_line, states):
                self.links = self.links or self._opened_links()
                self.links.write(line)

    def write_diagnostics(self, diagnostics: Mapping[str, Any]) -> None:
        """Write `diagnostics.json`: curves and figures of edges, which only reports read."""
        with self.writing():
            write_whole(self.path / DIAGNOSTICS, json.dumps(diagnostics) + "\n")

    def flush(self) -> None:
        """Make what was added readable for others."""
        with self.writing():
            for file in self._open_files:
                file.flush()

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write `summary.json`, after all else is on the disk: where it is, the run is complete."""
        with self.writing():
            self.flush()
            for path in self.path.rglob("*"):
                if path.is_file():
                    sync(path)
            write_whole(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")

    def write_checkpoint(self, rounds_done: int, state: State) -> None:
        """Write a checkpoint after so many rounds; an earlier one stays until this one is complete."""
        with self.writing():
            # lines first: a checkpoint promises that so many bytes of them are on the disk
            for file in self._open_files:
                file.flush()
                os.fsync(file.fileno())
            n_bytes = {f"{Path(file.name).stem}_bytes": file.tell() for file in self._open_files}
            write_checkpoint(self.path / CHECKPOINTS, rounds_done, {**state, **n_bytes})

    def drop_checkpoints(self) -> None:
        """Remove the checkpoints, which only an interrupted run needs."""
        with self.writing():
            shutil.rmtree(self.path / CHECKPOINTS, ignore_errors=True)

    def close(self) -> None:
        """Close the files that grow with the rounds."""
        with self.writing(), ExitStack() as files:
            for file in self._open_files:
                files.callback(file.close)  # all of them, also where the disk has no room for what one still holds

    def _opened_links(self) -> TextIO:
        return (self.path / LINKS).open("a", encoding="utf-8")

    @property
    def _open_files(self) -> tuple[TextIO, ...]:
        return (self.metrics,) if self.links is None else (self.metrics, self.links)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Context for all writing into the folder.

        Raises:
            ConfigError: the disk is full, or the folder was taken away.
        """
        try:
            yield
        except OSError as error:
            raise _unwritable(self.target, error) from error


def default_targets(name: str, algorithm: str, seed: int) -> Iterator[Path]:
    """New names under `runs/`, from those of the scenario and its algorithm, the seed and the time."""
    stem = f"{name}-{algorithm}-seed{seed}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    names = (Path("runs") / (stem if n == 1 else f"{stem}-{n}") for n in range(1, 1000))
    return (path for path in names if not path.exists())


@contextmanager
def owned_target(out: Path | None, defaults: Iterator[Path]) -> Iterator[Path]:
    """Context that owns the name of a new run folder.

    Args:
        out: the name; None: the first of `defaults` that is free.
        defaults: from `default_targets`.

    Raises:
        OwnedError: another process makes a run of this name.
        ConfigError: it exists, or no folder can be made there.
    """
    with ExitStack() as until_complete:
        if out is not None:
            refuse_unusable(out)
            until_complete.enter_context(owned(out, ELSEWHERE))
            yield out
            return
        for target in defaults:
            refuse_unusable(target)
            with suppress(OwnedError):  # a run that was started in the same second
                until_complete.enter_context(owned(target, ELSEWHERE))
                break
        yield target


def refuse_taken(target: Path) -> None:
    """Refuse, before anything is loaded, a name that is unusable or that another process owns.

    Raises:
        ConfigError: as said.
    """
    refuse_unusable(target)
    refuse_owned(target, ELSEWHERE)


def refuse_unusable(target: Path) -> None:
    """Refuse, before any work, a name under which no run folder can be made.

    Raises:
        ConfigError: it exists, or no folder can be made there.
    """
    try:
        exists = os.path.lexists(target)  # a link that leads nowhere is in the way too
        ground = next(parent for parent in target.absolute().parents if parent.exists())
    except (OSError, ValueError) as error:
        raise _unwritable(target, error) from None
    if exists:
        raise ConfigError(f"output folder {target} exists already; {ELSEWHERE}, or move it away")
    if not ground.is_dir():
        raise ConfigError(f"output folder {target} cannot be made because {ground} is a file; {ELSEWHERE}")
    # also a disk that is mounted for reading only, where permissions say nothing
    if not os.access(ground, os.W_OK | os.X_OK):
        raise ConfigError(f"output folder {target} cannot be made because {ground} takes no new files; {ELSEWHERE}")


@contextmanager
def open_run_folder(target: Path) -> Iterator[RunFolder]:
    """Context in which a new run folder is written; the way in which the block ends decides its name.

    Complete: `target`. Interrupted: `target.interrupted`, with a note. Failed: `target.failed`, with the reason. The
    exception then carries a note that says where. Killed: `target.partial`.

    Raises:
        ConfigError: `target` exists, or cannot be written.
    """
    refuse_unusable(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = RunFolder(_made(target), target)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unwritable(target, error) from None
    with _named_by_its_end(folder):
        yield folder


@contextmanager
def reopened_run_folder(interrupted: Interrupted) -> Iterator[RunFolder]:
    """Context in which the folder of an interrupted run is continued; rows after its checkpoint are removed.

    Raises:
        ConfigError: its name is taken by now, or it cannot be written.
    """
    target = interrupted.target
    refuse_unusable(target)
    try:
        path = interrupted.path
        # back to .partial while it is written: the old name would claim that the run has ended
        if ".partial" not in path.name:
            path = path.rename(_free_name(target, "partial"))
        # INTERRUPTED.txt or FAILED.txt of the earlier end
        for note in path.glob("*.txt"):
            note.unlink()
        (path / "summary.json").unlink(missing_ok=True)  # of a run that now has more rounds, and is not complete
        if has_columns(path):
            drop_rounds(path / COLUMNS, interrupted.checkpoint.rounds_done)
        for name, n_bytes in written_bytes(interrupted.checkpoint).items():
            if n_bytes > 0 or (path / name).exists():
                with (path / name).open("r+b") as file:
                    file.truncate(n_bytes)
        folder = RunFolder(path, target)
    except OSError as error:
        raise _unwritable(target, error) from None
    with _named_by_its_end(folder):
        yield folder


def complete(folder: Path, *, keep_checkpoint: bool = False) -> Path:
    """Give a run folder that lacks nothing but its name, because its process was killed, that name.

    Returns:
        Its path now.

    Raises:
        ConfigError: the name is taken, or it cannot be renamed.
    """
    target = target_of(folder)
    refuse_unusable(target)
    try:
        for note in folder.glob("*.txt"):
            note.unlink()
        if not keep_checkpoint:
            shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        return folder.rename(target)
    except OSError as error:
        raise _unwritable(target, error) from None


@contextmanager
def _named_by_its_end(folder: RunFolder) -> Iterator[None]:
    try:
        yield
        folder.close()
        refuse_unusable(folder.target)  # another process may have made it meanwhile
        with folder.writing():
            folder.path.rename(folder.target)
    except KeyboardInterrupt as error:
        note = "Interrupted from the keyboard; metrics.jsonl holds the rounds until then."
        _set_aside(folder, "interrupted", note, error)
        raise
    except BaseException as error:
        reason = str(error) if isinstance(error, SheafedgeError) else f"{type(error).__name__}: {error}"
        _set_aside(folder, "failed", reason, error)
        raise


def _made(target: Path) -> Path:
    """New folder beside the target, with a number if another run has taken the name."""
    while True:
        path = _free_name(target, "partial")
        with suppress(FileExistsError):
            path.mkdir()
            return path


def _free_name(target: Path, ending: str) -> Path:
    names = (f"{target.name}.{ending}" + ("" if n == 1 else f"-{n}") for n in range(1, 1000))
    return next(path for path in map(target.with_name, names) if not os.path.lexists(path))


def _set_aside(folder: RunFolder, ending: str, note: str, error: BaseException) -> None:
    """Rename an incomplete folder, as far as the disk allows, and note on the error where it is."""
    with suppress(SheafedgeError):  # the name alone says what happened
        folder.close()
    with suppress(OSError):
        (folder.path / f"{ending.upper()}.txt").write_text(note + "\n", encoding="utf-8")
    aside = _free_name(folder.target, ending)
    try:
        folder.path = folder.path.rename(aside)
    except OSError:
        aside = folder.path
    error.add_note(f"results so far are in {aside}")
    if has_checkpoint(aside / CHECKPOINTS):  # a full disk leaves a folder without any
        error.add_note(f"continue with: sheafedge run --resume {shlex.quote(str(aside))}")


def _unwritable(target: Path, error: Exception) -> ConfigError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return ConfigError(
        f"output folder {target} cannot be written ({reason}); make room there, or choose another with --out"
    )
