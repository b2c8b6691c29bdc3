"""Memory of this process, where the system tells."""

from __future__ import annotations

from pathlib import Path


def resident_bytes() -> int | None:
    """Resident now; None where the system does not tell."""
    return _status_bytes("VmRSS:")


def peak_bytes() -> int | None:
    """Largest resident so far; not of `getrusage`, whose maximum survives exec and would be that of the starter."""
    return _status_bytes("VmHWM:")


def _status_bytes(key: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), None)
