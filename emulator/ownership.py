"""One owner at a time of a name on the disk, by an advisory lock that ends with the process that holds it.

The lock is a `flock` on a small hidden file, which tells who holds it. The system gives it up when its process ends,
however that ends; the file of a process that was killed may stay, and means nothing. The descriptor is not inherited:
a worker process that outlives its engine owns nothing.

Linux and macOS; on NFS from version 3 on where its lock service runs. On a system or a file system without such locks
there is no owner, and nothing is refused.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from .contracts import ConfigError

try:
    import fcntl

    _HAS_LOCKS = True
except ModuleNotFoundError:
    _HAS_LOCKS = False

#: What a file system without locks answers.
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL})
#: What a process writes about itself; anything else in the file is not repeated.
_OWNER = re.compile(r"process \d+ on [\w.-]+ since [\d-]+ [\d:]+")
_ELSEWHERE = "choose another"
#: Never through a link that lies in wait, and never waiting for the other end of a pipe.
_OPEN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
#: How often owners can come and go between two steps here before something else is wrong.
_TRIES = 100


class OwnedError(ConfigError):
    """Another process owns this name, and writes there."""


@contextmanager
def owned(
    path: Path,
    remedy: str = _ELSEWHERE,
    *,
    inside: bool = False,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Context that owns a file or folder.

    Folders that are missing are made, and removed again where nothing came into them.

    Args:
        path: its name, of which the complete path counts.
        remedy: what the user can do instead of waiting, for errors.
        inside: whether the lock lies in the folder, which is then made and kept, or beside a name that is to come into
            being when all of it is there.
        waiting: called with the owner's name if there is one, which is then waited for; None: it is an error.

    Raises:
        OwnedError: another process owns it.
        ConfigError: nothing can be written there.
    """
    lock = _lock_file(path, inside)
    if "\0" in str(path):
        raise ConfigError(f"{str(path)!r} cannot name a file or folder; {remedy}")
    made = [folder for folder in lock.parents if not os.path.lexists(folder)]
    try:
        handle = _taken(lock, path, remedy, waiting)
        try:
            _say_who(handle)
            yield
        finally:
            # removed before it is given up: whoever waits for it sees that it is gone, and makes a new one
            with suppress(OSError):
                lock.unlink()
            os.close(handle)
    finally:
        _remove_empty(made)


def refuse_owned(path: Path, remedy: str = _ELSEWHERE, *, inside: bool = False) -> None:
    """Refuse what another process owns, without owning it; arguments as of `owned`.

    Raises:
        OwnedError: as said.
    """
    try:
        handle = os.open(_lock_file(path, inside), os.O_RDONLY | _OPEN)
    except (OSError, ValueError):  # nobody has ever owned it, or what is wrong is found when it is to be owned
        return
    try:
        if not _locks(handle, wait=False):
            raise _refusal(path, handle, remedy)
    finally:
        os.close(handle)


def _lock_file(path: Path, inside: bool) -> Path:
    absolute = path.absolute()
    return absolute / ".lock" if inside else absolute.with_name(f".{absolute.name}.lock")


def _taken(lock: Path, path: Path, remedy: str, waiting: Callable[[str], None] | None) -> int:
    """Descriptor of the lock file, locked."""
    reason = "it comes and goes"
    for _ in range(_TRIES):
        with ExitStack() as until_taken:
            try:
                lock.parent.mkdir(parents=True, exist_ok=True)
                handle = os.open(lock, os.O_RDWR | os.O_CREAT | _OPEN, 0o666)
                until_taken.callback(os.close, handle)
                is_mine = _locks(handle, wait=False)
                if not is_mine and waiting is not None:
                    waiting(_owner(handle))
                    is_mine = _locks(handle, wait=True)
                if os.path.samestat(os.fstat(handle), lock.stat(follow_symlinks=False)):
                    if not is_mine:
                        raise _refusal(path, handle, remedy)
                    until_taken.pop_all()
                    return handle
            except FileNotFoundError:  # an owner that has ended removed the file, or a folder that it had made
                continue
            except OSError as error:
                reason = error.strerror or str(error)
                break
    raise ConfigError(f"{path} cannot be written ({reason}); make room there, or {remedy}")


def _locks(handle: int, *, wait: bool) -> bool:
    """Whether the file is locked here now; also where its file system has no locks."""
    if not _HAS_LOCKS:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _say_who(handle: int) -> None:
    now = datetime.now().astimezone()
    with suppress(OSError):  # a full disk: the lock is held all the same
        os.ftruncate(handle, 0)
        os.pwrite(
            handle, f"process {os.getpid()} on {socket.gethostname()} since {now:%Y-%m-%d %H:%M:%S}\n".encode(), 0
        )


def _refusal(path: Path, handle: int, remedy: str) -> OwnedError:
    return OwnedError(f"{path} is being written by {_owner(handle)}; wait until it has ended, or {remedy}")


def _owner(handle: int) -> str:
    """Who holds the lock, as far as it has said so."""
    found: Any = None
    with suppress(OSError, UnicodeDecodeError):
        found = _OWNER.match(os.pread(handle, 400, 0).decode())
    return found[0] if found else "another process"


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders, the innermost first, up to one in which there is something."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
