"""Whole inputs of the model that other threads wait to have answered, by the one thread that runs it."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..frame_packets import FrameRefused

_MOST_BYTES = 4096
Tensors = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True, eq=False)
class ModelOutputs:
    """All outputs of a run of the model.

    Attributes:
        logits: [n, n_outputs].
        probabilities: [n, n_labels].
        label_index: [n] numbers of the chosen labels.
        attention: [n, n_modalities] shares; None where the model has none.
        forecast: series -> [n, n_ahead] probabilities; empty where the model forecasts nothing.
    """

    logits: NDArray[np.float32]
    probabilities: NDArray[np.float64]
    label_index: NDArray[np.int64]
    attention: NDArray[np.float32] | None
    forecast: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


class NotAnsweredError(Exception):
    """A request that the model was not run for: the server leaves, or has too much to do."""


class TensorRequests:
    """Requests on their way from threads of visitors to the thread of the model.

    Args:
        most: requests that may wait; more are not taken.
    """

    def __init__(self, most: int) -> None:
        self._waiting: queue.Queue[tuple[Tensors, Future[ModelOutputs]]] = queue.Queue(most)
        # A byte ends the server's wait for packets of sensors.
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._is_closed = threading.Event()

    def __len__(self) -> int:
        return self._waiting.qsize()

    def fileno(self) -> int:
        """Can be read where requests wait."""
        return self._woken.fileno()

    def ask(self, inputs: Tensors, timeout_s: float) -> ModelOutputs:
        """Outputs of the model; waits for its thread.

        Raises:
            FrameRefused: the model failed.
            NotAnsweredError: no answer in time, or the server leaves.
        """
        future: Future[ModelOutputs] = Future()
        if self._is_closed.is_set():
            raise NotAnsweredError("the server stops")
        try:
            self._waiting.put_nowait((inputs, future))
        except queue.Full:
            raise NotAnsweredError("too many requests wait; send fewer at once") from None
        if self._is_closed.is_set():  # nobody may look any more
            self.stop()
        with suppress(OSError):  # so many bytes are there that the thread is awake, or it has ended
            self._waker.send(b"\0")
        try:
            return future.result(timeout_s)
        except FutureTimeoutError:
            future.cancel()
            raise NotAnsweredError(f"no answer within {timeout_s:g} s; send fewer requests at once") from None
        except CancelledError:
            raise NotAnsweredError("the server stops") from None

    def take(self) -> tuple[Tensors, Future[ModelOutputs]] | None:
        """The next request that somebody still waits for; None: there is none."""
        with suppress(BlockingIOError):
            self._woken.recv(_MOST_BYTES)
        with suppress(queue.Empty):
            while True:
                inputs, future = self._waiting.get_nowait()
                if future.set_running_or_notify_cancel():
                    return inputs, future
        return None

    def close(self) -> None:
        """Take no more, and free the sockets, which no server may use any more."""
        self.stop()
        self._waker.close()
        self._woken.close()

    def stop(self) -> None:
        """Take no more; those that wait are told that the server stops."""
        self._is_closed.set()
        with suppress(queue.Empty):
            while True:
                self._waiting.get_nowait()[1].cancel()


def settle(future: Future[ModelOutputs], outputs: ModelOutputs | FrameRefused) -> None:
    """Hand the outcome to who waits."""
    if isinstance(outputs, FrameRefused):
        future.set_exception(outputs)
    else:
        future.set_result(outputs)
