"""Session of a replay: sends frames when they are due, takes replies when they arrive, and stops waiting in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from ...emulator.contracts import Modality
from ...emulator.edge.frame_packets import Answer, Bye, Description, Dropped, Forgotten, Refused, Reply
from ...emulator.edge.manifest import Manifest
from ...emulator.edge.manifest_reader import read_manifest
from ...emulator.real_time_clock import Lag
from ..running.interrupts import StopRequest
from .sensor_faults import SensorFaults
from .stream_book import ReplayError, StreamBook

#: Longest wait at a time: requests to stop are checked and the view is updated afterwards.
NAP_S = 0.1
#: Drawing fits in between two turns that are so far apart.
ROOM_S = 0.05
#: Longest wait for the last answers of a replay that is stopped, and for a server to confirm that it has forgotten
#: everything, which spoils nothing if it has not.
LEAVE_S = 1.0


class ServerConnection(Protocol):
    """Connection of a replay to a server of models; a `FrameClient` is one."""

    def send(
        self, stream: str, index: int, time_s: float, frames: Mapping[Modality, NDArray[Any]], *, ask: bool = True
    ) -> None: ...

    def forget(self, stream: str) -> None: ...

    def ask_description(self) -> None: ...

    def receive(self, timeout_s: float = 0.0) -> Reply | None: ...


class Clock(Protocol):
    """Clock of real time in s; tests replace it."""

    def __call__(self) -> float:
        """Seconds from any origin; never goes back."""
        ...


class SessionView(Protocol):
    """View of a running session."""

    def look(self, session: Session, now_s: float, *, idle: bool) -> None:
        """Update the view, at once if `idle`: then that delays neither an answer nor a frame."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """Speed of a replay, and its limits on waiting.

    Attributes:
        speed: seconds of the recording in a second of the wall clock; None: as fast as answers come.
        in_flight: questions of one base station that may wait for an answer, where `speed` is None.
        patience_s: longest wait for a sign of life while questions are open.
    """

    speed: float | None = 1.0
    in_flight: int = 1
    patience_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Served:
    """Description of a server.

    Attributes:
        manifest: manifest of its model.
        digest: digest of the manifest.
        waiting: questions of one stream that may wait there before the oldest gives way.
    """

    manifest: Manifest
    digest: str
    waiting: int


def described(connection: ServerConnection, address: str, patience_s: float) -> Served:
    """Description of the server at the other end.

    Raises:
        ReplayError: no description arrives in time.
        BundleError: the description holds no manifest.
    """
    connection.ask_description()
    while (reply := connection.receive(patience_s)) is not None:  # nothing else was asked, so this is one turn or few
        if isinstance(reply, Description):
            # a server that names no limit takes one request at a time
            waiting = reply.settings.get("waiting")
            return Served(
                read_manifest(reply.manifest), reply.digest, waiting if isinstance(waiting, int) and waiting > 0 else 1
            )
    raise ReplayError(
        f"{address} said nothing within {patience_s:g} s; start a server there with: sheafedge serve BUNDLE --bind"
        f" {address}"
    )


class Session:
    """Streams base stations side by side.

    Args:
        connection: connection to the server of the model.
        address: address of the server, for messages.
        books: one book per base station.
        pace: speed, and limits on waiting.
        faults: sensor failures and frame losses.
        clock: clock of real time.
        view: updated while replies are awaited.
        stop: whether the replay is to end early.

    Attributes:
        books, pace, faults, address: as given.
        n_frames: number of frames sent so far.
        refusals: code -> packets that were not taken.
        first_refusal: sentence of the first one.
        digests: digest of a bundle -> answers that it gave.
        since_s: seconds of the recording that were streamed, rests between stretches shortened.
        wall_s: seconds that it took.
        lag: how late frames left; empty where no clock is kept.
    """

    def __init__(
        self,
        connection: ServerConnection,
        address: str,
        books: Sequence[StreamBook],
        pace: Pace,
        faults: SensorFaults,
        clock: Clock,
        view: SessionView,
        stop: StopRequest,
    ) -> None:
        self.books, self.pace, self.faults, self.address = list(books), pace, faults, address
        self._connection, self._clock, self._view, self._stop = connection, clock, view, stop
        self._by_name = {book.stream.name: book for book in books}
        self._start_s = self._received_s = clock()
        self.n_frames = 0
        self.refusals: Counter[str] = Counter()
        self.first_refusal = ""
        self.digests: Counter[str] = Counter()
        self.since_s = self.wall_s = 0.0
        self.lag = Lag()

    @property
    def n_awaited(self) -> int:
        """Questions without a reply, of all base stations."""
        return sum(book.n_awaited for book in self.books)

    def play(self) -> None:
        """Stream everything, and wait for the last answers; what is not answered then counts as unanswered.

        Raises:
            ReplayError: the server fell silent or left.
        """
        self._start_s = self._received_s = self._clock()
        try:
            for due_s, book, instant in self._agenda():
                self._wait_for_turn(due_s, book)
                if self._stop.is_made:
                    break
                self._send(due_s, book, instant)
            # also after a stop: answers that are on their way still count
            self._await_rest()
            self._clear_windows()
        # also after an error: the report covers what was answered until then
        finally:
            self.wall_s = self._clock() - self._start_s
            for book in self.books:
                book.give_up()

    def _agenda(self) -> list[tuple[float, StreamBook, int]]:
        """Instants of all base stations and their turns, in order."""
        return sorted(
            ((float(due_s), book, instant) for book in self.books for instant, due_s in enumerate(book.stream.due_s)),
            key=lambda turn: turn[0],  # stable: base stations of one instant in their order
        )

    def _wait_for_turn(self, due_s: float, book: StreamBook) -> None:
        """Take replies until it is time; a replay at a speed never waits for them."""
        if self.pace.speed is not None:
            until_s = self._start_s + due_s / self.pace.speed
            self._receive_until(until_s)
            while not self._stop.is_made and self._clock() < until_s:
                self._receive_until(until_s)
            self.lag.add(self._clock() - until_s)  # how late this machine is, apart from the latency of answers
            return
        self._receive_until(self._clock())
        while book.n_awaited >= self.pace.in_flight and not self._stop.is_made:
            self._receive_until(self._clock() + NAP_S)

    def _await_rest(self) -> None:
        """Take the last answers; after a request to stop, for at most `LEAVE_S`."""
        stopped_s = self._clock()
        while self.n_awaited and not (self._stop.is_made and self._clock() - stopped_s >= LEAVE_S):
            self._receive_until(self._clock() + NAP_S)

    def _clear_windows(self) -> None:
        """Empty the windows at the server, for other clients; its confirmation is not awaited for long."""
        for book in self.books:
            self._connection.forget(book.stream.name)
        until_s = self._clock() + LEAVE_S
        n_left = len(self.books)
        while n_left and (reply := self._connection.receive(max(0.0, until_s - self._clock()))) is not None:
            n_left -= isinstance(reply, Forgotten)

    def _send(self, due_s: float, book: StreamBook, instant: int) -> None:
        stream = book.stream
        self.since_s = due_s
        # windows must not reach over a gap: the server would fill them with frames of the stretch before
        if stream.begins[instant]:
            self._connection.forget(stream.name)
        readings = self.faults.arriving(stream.name, self.since_s, stream.readings(instant))
        if not readings:
            book.note_withheld(instant)
            return
        asked = bool(stream.asks[instant])
        if not self.n_awaited:
            self._received_s = self._clock()  # silence is counted from the first open question
        sent_s = self._clock()
        index, time_s = int(stream.index[instant]), float(stream.time_s[instant])
        self._connection.send(stream.name, index, time_s, readings, ask=asked)
        book.note_sent(instant, sent_s, asked=asked)
        self.n_frames += len(readings)

    def _receive_until(self, until_s: float) -> None:
        """Take the replies that have arrived; wait for the next until `until_s`, but at most `NAP_S`."""
        now_s = self._clock()
        self._view.look(self, now_s, idle=not self.n_awaited and until_s - now_s >= ROOM_S)
        wait_s = max(0.0, min(until_s - self._clock(), NAP_S))
        reply = self._connection.receive(wait_s)
        # all that has arrived already, without waiting
        while reply is not None:
            self._received_s = self._clock()
            self._take(reply)
            reply = self._connection.receive(0.0)
        if self.n_awaited and self._clock() - self._received_s > self.pace.patience_s:
            raise ReplayError(
                f"{self.address} has been silent for {self.pace.patience_s:g} s with {self.n_awaited} questions open;"
                " see whether the server still runs, or give it longer with --patience"
            )

    def _take(self, reply: Reply) -> None:
        match reply:
            case Answer():
                self.digests[reply.digest] += 1
                if book := self._by_name.get(reply.stream):
                    book.note_answer(reply, self._received_s)
            case Dropped():
                if book := self._by_name.get(reply.stream):
                    book.note_dropped(reply.index)
            case Refused():
                self._take_refusal(reply)
            case Bye():
                raise ReplayError(f"the server at {self.address} has left: {reply.sentence}")
            case _:  # confirmations of emptied windows, and descriptions that were not requested
                pass

    def _take_refusal(self, refusal: Refused) -> None:
        self.refusals[refusal.code] += 1
        self.first_refusal = self.first_refusal or refusal.sentence
        book = self._by_name.get(refusal.stream or "")
        if book is not None and refusal.index is not None:
            book.note_refused(refusal.index)
