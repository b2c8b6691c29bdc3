"""Processes of parallel jobs stop when they are terminated, wherever the interrupt arrives; one that dies is told."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path

import pytest
from sheafedge.emulator.contracts import SheafedgeError
from sheafedge.scenarios.compare.jobs import Job
from sheafedge.scenarios.compare.parallel_jobs import JobProcesses, interrupt_again
from sheafedge.scenarios.schema.scenario import load_scenario

#: What is said about a killed process.
DIED = r"^a process of --jobs 1 died \(exit code -9\), .* use fewer --jobs, the same command continues$"


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


@pytest.fixture
def impossible(tmp_path: Path) -> Job:
    """A job that fails at once: its folder would lie below a file."""
    (tmp_path / "file").write_text("mine")
    return Job(load_scenario("digits"), tmp_path / "file" / "run", "")


def kill_the_only_child() -> None:
    (child,) = active_children()
    child.kill()
    child.join()


def test_a_process_that_dies_before_it_has_read_its_job_is_told_in_one_sentence(impossible: Job) -> None:
    with JobProcesses(1) as pool:
        pool.begin(impossible)
        kill_the_only_child()  # which still imports, with the job in its pipe
        with pytest.raises(SheafedgeError, match=DIED):
            list(pool.next_ended())


def test_a_process_that_dies_while_it_is_idle_is_told_with_the_next_job(impossible: Job) -> None:
    with JobProcesses(1) as pool:
        pool.begin(impossible)
        ((_, outcome),) = pool.next_ended()
        assert outcome.error
        kill_the_only_child()
        with pytest.raises(SheafedgeError, match=DIED):
            pool.begin(impossible)
