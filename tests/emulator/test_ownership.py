"""A name on the disk has one owner; who was killed owns nothing, and no lock file outlives its owner without need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.ownership import OwnedError, owned, refuse_owned

#: Owns the first argument, says so, and lives until its standard input ends; the second: where the lock lies.
_OWNER = """
import sys
from pathlib import Path
from sheafedge.emulator.ownership import owned
with owned(Path(sys.argv[1]), inside=sys.argv[2] == "inside"):
    print("owned", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_owner(path: Path, where: str = "beside") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-P", "-c", _OWNER, str(path), where]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "owned\n"
        yield process
        process.stdin.close()


@pytest.mark.parametrize("inside", [False, True], ids=["beside", "inside"])
def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path, inside: bool) -> None:
    with another_owner(tmp_path / "run", "inside" if inside else "beside") as process:
        for refused in (refuse_owned, lambda *given, inside: owned(*given, inside=inside).__enter__()):
            with pytest.raises(OwnedError) as caught:
                refused(tmp_path / "run", "choose another with --out", inside=inside)
            assert f"run is being written by process {process.pid} on " in str(caught.value)
            assert str(caught.value).endswith("; wait until it has ended, or choose another with --out")


def test_who_was_killed_owns_nothing(tmp_path: Path) -> None:
    with another_owner(tmp_path / "run") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (tmp_path / ".run.lock").exists()
        refuse_owned(tmp_path / "run")
        with owned(tmp_path / "run"):
            assert f"process {os.getpid()} " in (tmp_path / ".run.lock").read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == []


def test_one_process_owns_a_name_once(tmp_path: Path) -> None:
    with owned(tmp_path / "run"), pytest.raises(OwnedError, match=f"by process {os.getpid()} on "):
        owned(tmp_path / "run").__enter__()
    with owned(tmp_path / "run"), owned(tmp_path / "other"), owned(tmp_path / "run", inside=True):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_was_started_inherits_nothing(tmp_path: Path) -> None:
    """An orphaned worker must not keep the folder of a run whose engine was killed."""
    with owned(tmp_path / "run"):
        child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    with child:
        with owned(tmp_path / "run"):
            assert child.poll() is None
        assert child.stdin is not None
        child.stdin.write(b"\n")


def test_who_waits_owns_it_next(tmp_path: Path) -> None:
    begun, order = threading.Event(), list[str]()

    def wait() -> None:
        with owned(tmp_path / "run", waiting=lambda owner: (order.append(owner), begun.set())[0]):
            order.append("second")
            assert (tmp_path / ".run.lock").exists()

    with owned(tmp_path / "run"):
        second = threading.Thread(target=wait)
        second.start()
        assert begun.wait(60)
        order.append("first")
    second.join()
    assert order[1:] == ["first", "second"]
    assert order[0].startswith(f"process {os.getpid()} on ")
    assert list(tmp_path.iterdir()) == []


def test_only_folders_that_stayed_empty_are_removed_again(tmp_path: Path) -> None:
    with owned(tmp_path / "a" / "b" / "run"):
        pass
    assert list(tmp_path.iterdir()) == []
    with owned(tmp_path / "a" / "b", inside=True):
        (tmp_path / "a" / "b" / "table.md").touch()
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["table.md"]


def test_a_link_or_a_pipe_in_the_place_of_the_lock_file_is_refused_or_harmless(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    (tmp_path / ".run.lock").symlink_to(victim)
    with pytest.raises(ConfigError, match=r"run cannot be written \(Too many levels of symbolic links\)"):
        owned(tmp_path / "run").__enter__()
    assert victim.read_text(encoding="utf-8") == "mine"
    os.mkfifo(tmp_path / ".pipe.lock")
    with owned(tmp_path / "pipe"):
        pass


@pytest.mark.parametrize("name", ["a\0b", "n" * 300])
def test_an_impossible_name_is_one_sentence(tmp_path: Path, name: str) -> None:
    refuse_owned(tmp_path / name)
    with pytest.raises(ConfigError, match=r"cannot (name a|be written \(File name too long\)).*; .*choose another$"):
        owned(tmp_path / name).__enter__()


def test_what_somebody_else_wrote_into_the_lock_file_is_not_repeated(tmp_path: Path) -> None:
    with owned(tmp_path / "run"):
        (tmp_path / ".run.lock").write_text("\x1b[31m" * 50, encoding="utf-8")
        with pytest.raises(OwnedError, match=r"is being written by another process; wait"):
            refuse_owned(tmp_path / "run")
