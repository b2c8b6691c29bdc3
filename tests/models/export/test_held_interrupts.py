"""Interrupts wait until torch's exporter is done: nothing is raised below its operators, and nothing is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
import torch
from sheafedge.models.export.deployed_model import Part
from sheafedge.models.export.held_interrupts import held_interrupts
from sheafedge.models.export.traced_parts import traced_parts
from torch import nn

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """Numbers of the signals that reach their handlers."""
    numbers: list[int] = []
    before = {number: signal.signal(number, lambda number, _: numbers.append(number)) for number in BOTH}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_reach_their_handlers_at_the_end_in_the_order_in_which_they_came(heard: list[int]) -> None:
    handlers = [signal.getsignal(number) for number in BOTH]
    with held_interrupts():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
            signal.raise_signal(number)
        assert heard == []
    assert heard == [signal.SIGTERM, signal.SIGINT, signal.SIGINT]
    assert [signal.getsignal(number) for number in BOTH] == handlers


def test_without_a_signal_nothing_happens_and_later_ones_reach_their_handlers(heard: list[int]) -> None:
    with held_interrupts():
        pass
    assert heard == []
    signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM]


@held_interrupts()
def fail_interrupted() -> NoReturn:
    signal.raise_signal(signal.SIGTERM)
    raise ValueError("of the model")


def test_an_error_does_not_lose_them(heard: list[int]) -> None:
    with pytest.raises(ValueError, match="of the model"):
        fail_interrupted()
    assert heard == [signal.SIGTERM]


def test_what_comes_between_the_end_and_the_last_handler_reaches_it(
    heard: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_handler = signal.signal

    def interrupted(number: int, handler: Any) -> Any:
        found = set_handler(number, handler)
        if number == signal.SIGINT and ended:  # SIGTERM has not got its handler back
            signal.raise_signal(signal.SIGTERM)
        return found

    ended = False
    monkeypatch.setattr(signal, "signal", interrupted)
    with held_interrupts():
        ended = True
    assert heard == [signal.SIGTERM]


@pytest.mark.parametrize("action", [signal.SIG_IGN, signal.SIG_DFL])
def test_actions_of_the_system_stay(action: signal.Handlers) -> None:
    before = signal.signal(signal.SIGTERM, action)
    try:
        with held_interrupts():
            assert signal.getsignal(signal.SIGTERM) is action
    finally:
        signal.signal(signal.SIGTERM, before)


def test_in_another_thread_it_does_nothing(heard: list[int]) -> None:
    def in_thread() -> None:
        with held_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[Any] = []
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
    assert heard == []


class Interrupted(nn.Module):
    """A layer during whose trace the user presses Ctrl-C."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        signal.raise_signal(signal.SIGINT)
        return rows + 1.0


def test_an_interrupt_during_a_trace_comes_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    export = torch.onnx.export
    programs: list[Any] = []

    def kept(*args: Any, **options: Any) -> Any:
        programs.append(export(*args, **options))
        return programs[-1]

    monkeypatch.setattr(torch.onnx, "export", kept)
    layer = Part(Interrupted(), shapes=((3,),), reads=("rows",), makes=("sums",), holds={}, name="layer")
    with pytest.raises(KeyboardInterrupt):
        traced_parts([layer])
    assert len(programs) == 1
