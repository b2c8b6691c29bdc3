"""Processes that run jobs in parallel stop when they are terminated, wherever the interrupt arrives."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest
from sheafedge.scenarios.compare.parallel_jobs import interrupt_again


class Finalized:
    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error


@pytest.fixture
def interruptible(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process of jobs: a request to terminate is raised as KeyboardInterrupt."""
    monkeypatch.setattr(sys, "unraisablehook", interrupt_again)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


def test_an_interrupt_that_a_finalizer_swallows_is_repeated(
    interruptible: None, capfd: pytest.CaptureFixture[str]
) -> None:
    held = [Finalized(KeyboardInterrupt)]

    def release_and_wait() -> None:
        held.clear()
        signal.pause()  # until the next signal

    with pytest.raises(KeyboardInterrupt):
        release_and_wait()
    assert capfd.readouterr().err == ""


def test_other_errors_of_finalizers_are_reported_as_usual(
    interruptible: None, capfd: pytest.CaptureFixture[str]
) -> None:
    lost = Finalized(ValueError)
    del lost
    assert "ValueError" in capfd.readouterr().err
