"""Queue of requests that wait for the model: streams take turns, and old requests give way to new ones."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

from .stream_windows import Sample


@dataclass(frozen=True, slots=True, eq=False)
class InferenceRequest:
    """A request for one answer.

    Attributes:
        client: identity of the client's socket.
        stream, index, time_s: of the frames that came with it.
        sample: inputs at the time of the request.
        arrived_s: when it was taken from the socket, on the server's monotonic clock.
    """

    client: bytes
    stream: str
    index: int
    time_s: float
    sample: Sample
    arrived_s: float


class RequestQueue:
    """A bounded queue per stream, and a bound on all of them.

    An answer about an instant that has passed is worth less than one about now, so where too many wait the oldest of
    the same stream goes. Where too many of all streams wait, the stream with the most gives up its oldest:
    clients with many requests cannot take the place of others.

    Args:
        per_stream: requests of a stream that may wait.
        in_all: of all streams.
    """

    def __init__(self, per_stream: int, in_all: int) -> None:
        self._per_stream, self._in_all = per_stream, in_all
        self._waiting: OrderedDict[str, deque[InferenceRequest]] = OrderedDict()  # whose turn it is comes first
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def put(self, request: InferenceRequest) -> tuple[InferenceRequest, str] | None:
        """Let a request wait; if another must go for it, that one and why: `newer` or `full`."""
        own = self._waiting.setdefault(request.stream, deque())
        own.append(request)
        self._n += 1
        if len(own) > self._per_stream:
            return self._lost(request.stream), "newer"
        if self._n > self._in_all:
            # of equally long queues that of the new request gives way
            most = max(self._waiting, key=lambda name: (len(self._waiting[name]), name == request.stream))
            return self._lost(most), "full"
        return None

    def take(self, most: int) -> list[InferenceRequest]:
        """The next requests to be answered together, one of every stream in turn."""
        taken: list[InferenceRequest] = []
        while self._waiting and len(taken) < most:
            # a stream that was served goes to the back of the queue
            name, own = self._waiting.popitem(last=False)
            taken.append(own.popleft())
            if own:
                self._waiting[name] = own
        self._n -= len(taken)
        return taken

    def _lost(self, stream: str) -> InferenceRequest:
        own = self._waiting[stream]
        lost = own.popleft()
        if not own:
            del self._waiting[stream]
        self._n -= 1
        return lost
