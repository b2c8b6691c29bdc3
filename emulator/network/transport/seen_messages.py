"""Which messages have come already, so that none is taken twice."""

from __future__ import annotations

from ...contracts import Message, MessageKind, Modality, NodeId
from .errors import WireError
from .wire_header import Header

#: Rounds of a sender that are remembered; what is older than that is of the past, whether it came before or not.
ROUNDS_REMEMBERED = 16
# What one sender may say in a round, and how many senders are told apart: far above any graph, and a bound on memory.
_MOST_PER_ROUND = 1 << 16
_MOST_SENDERS = 1 << 17

_Key = tuple[NodeId, str, MessageKind, Modality | None]


class SeenMessages:
    """Takes each message once: the same slot for the same receiver, and slots long past, are refused."""

    def __init__(self) -> None:
        self._rounds: dict[NodeId, dict[int, set[_Key]]] = {}

    def take(self, message: Header | Message) -> None:
        """Note a message.

        Raises:
            WireError: it came before, belongs to a round long past, or its sender says more than any client does.
        """
        of_sender = self._rounds.get(message.sender)
        if of_sender is None:
            of_sender = self._first_heard(message.sender)
        seen = of_sender.get(message.round_index)
        if seen is None:
            seen = _opened(of_sender, message)
        key = (message.receiver, message.phase, message.kind, message.modality)
        if key in seen:
            raise WireError(
                f"{message.kind} from {message.sender} to {message.receiver} of round {message.round_index} came "
                "before; it was replayed"
            )
        if len(seen) == _MOST_PER_ROUND:
            raise WireError(f"node {message.sender} sends more than {_MOST_PER_ROUND} messages in a round")
        seen.add(key)

    def _first_heard(self, sender: NodeId) -> dict[int, set[_Key]]:
        if len(self._rounds) == _MOST_SENDERS:
            del self._rounds[next(iter(self._rounds))]
        return self._rounds.setdefault(sender, {})


def _opened(of_sender: dict[int, set[_Key]], message: Header | Message) -> set[_Key]:
    """A round of which nothing has come yet; forgets those that it makes old."""
    newest = max(of_sender, default=message.round_index)
    if message.round_index <= newest - ROUNDS_REMEMBERED:
        raise WireError(
            f"{message.kind} from {message.sender} is of round {message.round_index}, long before its round {newest}; "
            "it was replayed"
        )
    for old in [index for index in of_sender if index <= message.round_index - ROUNDS_REMEMBERED]:
        del of_sender[old]
    return of_sender.setdefault(message.round_index, set())
