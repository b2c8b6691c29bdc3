"""Waiting for what another thread or process does, without a time that a busy machine could miss."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT_S = 60.0


def wait_for(happened: Callable[[], bool]) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: it did not come to hold.
    """
    limit_s = time.monotonic() + LIMIT_S
    while not happened():
        assert time.monotonic() < limit_s
        time.sleep(0.001)
