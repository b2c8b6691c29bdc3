"""Places of outside clients: who gets one, what they are asked, and that nothing they do stops the engine."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from doubles.outside_player import OutsidePlayer
from sheafedge.emulator.contracts import Message, MessageKind, Phase
from sheafedge.emulator.network.transport.curve_keys import make_keys, read_keys
from sheafedge.emulator.network.transport.errors import TransportError, WireError
from sheafedge.emulator.network.transport.packed_messages import pack_messages, unpack_messages
from sheafedge.emulator.network.transport.packets import Frame, Packet, pack_packet
from sheafedge.emulator.nodes.outside_place import OutsidePlace, OutsideVector, VectorName
from sheafedge.emulator.nodes.outside_server import OutsideServer

SOON_S, JOIN_S = 10.0, 60.0
#: A second's worth; the hub's own battery has more.
N_MUTATED = 3000
VECTOR = OutsideVector(
    VectorName("mix", MessageKind.ENCODER, "gps"),
    np.arange(6, dtype=np.float32),
    [("weight", (2, 3))],
    {1: 0.25, 4: 0.5},
)
PLACE = OutsidePlace(3, n_rounds=5, speed=2.0, deadline_s=0.5, phases=[Phase("mix", 10.0)], vectors=[VECTOR])


@pytest.fixture
def server() -> Iterator[OutsideServer]:
    server = OutsideServer("tcp://127.0.0.1:*", [3], silence_s=SOON_S)
    yield server
    server.close()


def seated(server: OutsideServer, player: OutsidePlayer) -> Packet:
    player.join(3)
    server.fill({3: PLACE}, join_s=JOIN_S)
    return player.hear("place")


QUESTION = {"round": 0, "phase": "mix", "arrived": None, "messages": []}


def ask(server: OutsideServer) -> Future[Any] | None:
    return server.request(3, "turn", QUESTION, (), lambda answer: len(answer.fields["messages"]))


def asked(server: OutsideServer) -> Future[Any]:
    ticket = ask(server)
    assert ticket is not None
    return ticket


def answer(player: OutsidePlayer, question: Packet) -> None:
    player.say("turn_done", {"ticket": question.fields["ticket"], "messages": [], "expected": []})


def test_whoever_joins_is_told_all_that_it_must_know(server: OutsideServer) -> None:
    with OutsidePlayer(server.address) as player:
        place = seated(server, player)
    assert place.fields == {
        "client": 3,
        "rounds": 5,
        "speed": 2.0,
        "deadline_s": 0.5,
        "silence_s": SOON_S,
        "neighbors": [1, 4],
        "phases": [["mix", 10.0]],
        "shared": [["mix", "encoder", "gps", "<f4", 6, [["weight", [2, 3]]], 0, [[1, 0.25], [4, 0.5]]]],
    }
    np.testing.assert_array_equal(np.frombuffer(place.frames[0], "<f4"), VECTOR.start)


def test_a_question_is_answered(server: OutsideServer) -> None:
    with OutsidePlayer(server.address) as player:
        seated(server, player)
        ticket = asked(server)
        answer(player, player.hear("turn"))
        assert ticket.result(SOON_S) == 0
    assert server.name(3) == "player"
    assert server.counts(3) == {"joined": 1, "late": 0, "refused": 0}


def test_nobody_is_asked_twice_at_a_time_and_a_late_answer_is_counted(server: OutsideServer) -> None:
    with OutsidePlayer(server.address) as player:
        seated(server, player)
        ticket = asked(server)
        server.give_up(3)
        assert ask(server) is None
        answer(player, player.hear("turn"))
        ticket.result(SOON_S)
        assert server.counts(3)["late"] == 1
        assert ask(server) is not None


def test_an_empty_place_is_not_asked(server: OutsideServer) -> None:
    assert ask(server) is None


def test_nobody_comes(server: OutsideServer) -> None:
    with pytest.raises(TransportError, match="no process joined as outside client 3 at tcp:"):
        server.fill({3: PLACE}, join_s=0.2)


def test_a_place_is_not_taken_from_who_is_there(server: OutsideServer) -> None:
    with OutsidePlayer(server.address) as player, OutsidePlayer(server.address) as other:
        seated(server, player)
        other.join(3, "other")
        assert "played by another process" in other.hear("refused").fields["sentence"]
        ticket = asked(server)
        answer(player, player.hear("turn"))
        assert ticket.result(SOON_S) == 0
    assert server.n_strangers == 1


def test_who_leaves_makes_room_and_is_waited_for_no_longer(server: OutsideServer) -> None:
    with OutsidePlayer(server.address) as player, OutsidePlayer(server.address) as other:
        seated(server, player)
        ticket = asked(server)
        player.say("leaving", {"sentence": "enough"})
        assert ticket.result(SOON_S) is None
        other.join(3, "other")
        other.hear("place")
        assert server.name(3) == "other"
        assert server.counts(3)["joined"] == 2


def test_who_hangs_up_without_a_word_is_waited_for_no_longer(server: OutsideServer) -> None:
    with OutsidePlayer(server.address) as player:
        seated(server, player)
        ticket = asked(server)
    with OutsidePlayer(server.address) as other:
        assert ticket.result(SOON_S) is None
        other.join(3, "other")
        other.hear("place")


def test_who_falls_silent_makes_room_for_who_wants_it() -> None:
    server = OutsideServer("tcp://127.0.0.1:*", [3], silence_s=0.0)
    try:
        with OutsidePlayer(server.address) as player, OutsidePlayer(server.address) as other:
            seated(server, player)
            ticket = asked(server)
            assert ask(server) is None, "who needs long is not gone"
            other.join(3, "other")
            other.hear("place")
            assert ticket.result(SOON_S) is None
            player.hear("turn")
            player.say("alive", {})
            assert "must join first" in player.hear("refused").fields["sentence"]
    finally:
        server.close()


def test_a_client_that_is_not_played_outside_is_refused(server: OutsideServer) -> None:
    with OutsidePlayer(server.address) as player:
        player.join(2)
        assert "these are: 3" in player.hear("refused").fields["sentence"]


NONSENSE: dict[str, list[Frame]] = {
    "nothing": [b""],
    "no msgpack": [b"\xc1" * 9],
    "another version": [msgpack.packb({"version": 9, "type": "alive", "checksum": 0})],
    "an unknown type": [msgpack.packb({"version": 1, "type": "dance", "checksum": 0})],
    "a wrong checksum": [msgpack.packb({"version": 1, "type": "alive", "checksum": 5}), b"numbers"],
    "an answer to nothing": [
        msgpack.packb({"version": 1, "type": "turn_done", "checksum": 0, "ticket": 77, "messages": [], "expected": []})
    ],
    "an engine's question": [msgpack.packb({"version": 1, "type": "stop", "checksum": 0})],
}


@pytest.mark.parametrize("parts", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_is_refused_and_the_conversation_goes_on(server: OutsideServer, parts: list[Frame]) -> None:
    with OutsidePlayer(server.address) as player, OutsidePlayer(server.address) as stranger:
        seated(server, player)
        stranger.say_parts(parts)
        stranger.hear("refused")
        player.say_parts(parts)
        player.hear("refused")
        ticket = asked(server)
        answer(player, player.hear("turn"))
        assert ticket.result(SOON_S) == 0
    assert (server.counts(3)["refused"], server.n_strangers) == (1, 1)


TOO_MUCH: dict[str, tuple[list[Frame], str]] = {
    "a long header": ([bytes((1 << 16) + 1)], "is longer than 65536"),
    "a deep header": ([b"\x91" * 20 + b"\0"], "more than 9 levels"),
    "many items": ([msgpack.packb([0] * 5000)], "too many items"),
    "many parts": (
        [msgpack.packb({"version": 1, "type": "alive", "checksum": 0}), *[b""] * 1024],
        "at most 1024 parts",
    ),
}


@pytest.mark.parametrize(("parts", "sentence"), TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_who_sends_too_much_hears_why_and_loses_place_and_connection(
    server: OutsideServer, parts: list[Frame], sentence: str
) -> None:
    with OutsidePlayer(server.address) as player, OutsidePlayer(server.address) as other:
        seated(server, player)
        ticket = asked(server)
        player.say_parts(parts)
        player.hear("turn")
        assert sentence in player.hear("refused").fields["sentence"]
        assert ticket.result(SOON_S) is None
        assert player.hung_up()
        other.join(3, "other")
        other.hear("place")
        answered = asked(server)
        answer(other, other.hear("turn"))
        assert answered.result(SOON_S) == 0
    assert server.counts(3) == {"joined": 2, "late": 0, "refused": 1}


def test_a_header_that_is_longer_than_a_process_without_a_place_needs_is_refused(server: OutsideServer) -> None:
    with OutsidePlayer(server.address) as player:
        player.join(3, "x" * (1 << 16))
        assert "is longer than 65536" in player.hear("refused").fields["sentence"]
        assert player.hung_up()
    assert server.n_strangers == 1


def test_who_has_left_is_hung_up_on(server: OutsideServer) -> None:
    """Else it could join again and again, and never read what it is sent with its place."""
    with OutsidePlayer(server.address) as player:
        seated(server, player)
        player.say("leaving", {"sentence": "enough"})
        assert player.hung_up()
    assert (server.counts(3)["refused"], server.n_strangers) == (0, 0)


def test_an_answer_that_is_none_is_not_waited_for(server: OutsideServer) -> None:
    def refuse(_: Packet) -> None:
        raise WireError("not what was asked")

    with OutsidePlayer(server.address) as player:
        seated(server, player)
        ticket = server.request(3, "look", {"round": 0, "arrived": None, "messages": []}, (), refuse)
        assert ticket is not None
        question = player.hear("look")
        player.say("look_done", {"ticket": question.fields["ticket"], "row": {}, "phases": []})
        assert player.hear("refused").fields["sentence"] == "not what was asked"
        assert ticket.result(SOON_S) is None


def test_clients_hear_that_it_is_over(server: OutsideServer) -> None:
    with OutsidePlayer(server.address) as player:
        seated(server, player)
        ticket = asked(server)
        server.close()
        player.hear("turn")
        player.hear("stop")
        assert ticket.result(SOON_S) is None
        server.close()


def test_an_address_that_is_in_use_is_refused(server: OutsideServer) -> None:
    with pytest.raises(TransportError, match="cannot join at"):
        OutsideServer(server.address, [3])


def test_with_keys_only_who_holds_them_comes_in(tmp_path: Path) -> None:
    make_keys(tmp_path)
    server = OutsideServer("tcp://127.0.0.1:*", [3], SOON_S, read_keys(tmp_path, "engine"))
    try:
        with OutsidePlayer(server.address) as stranger:
            stranger.join(3)
            with pytest.raises(TransportError, match="no process joined"):
                server.fill({3: PLACE}, join_s=0.5)
        with OutsidePlayer(server.address, read_keys(tmp_path, "worker")) as player:
            seated(server, player)
    finally:
        server.close()


# --- what a client may send ------------------------------------------------------------------------------------------


def message(receiver: int = 1, **changed: Any) -> Message:
    fields = {"kind": MessageKind.ENCODER, "sender": 3, "round_index": 2, "phase": "mix", "modality": "gps"}
    return Message(**{**fields, "payload": np.ones(6, np.float32), "receiver": receiver, **changed})


def test_a_client_may_send_all_that_it_shares_or_less() -> None:
    PLACE.check([message(1), message(4)], "mix", 2)
    PLACE.check([message(4)], "mix", 2)
    PLACE.check([], "mix", 2)


FOREIGN = {
    "another client's": ([message(sender=1)], "another client"),
    "an old round's": ([message(round_index=1)], "another client, round or phase"),
    "another phase's": ([message(phase="project")], "another client, round or phase"),
    "a stranger's": ([message(receiver=2)], "shares no encoder of gps with 2"),
    "another modality": ([message(modality="rf")], "shares no encoder of rf"),
    "another kind": ([message(kind=MessageKind.HEAD, modality=None)], "shares no head with 1"),
    "twice": ([message(), message()], "twice to 1"),
    "too short": ([message(payload=np.ones(5, np.float32))], "must be 6 numbers of <f4, got 5"),
    "another type": ([message(payload=np.ones(6, np.float64))], "got 6 of <f8"),
    "no number": ([message(payload=np.full(6, np.nan, np.float32))], "is not finite"),
    "with holes": ([message(received=np.ones(6, np.bool_))], "shares no encoder"),
}


@pytest.mark.parametrize(("messages", "sentence"), FOREIGN.values(), ids=FOREIGN.keys())
def test_what_is_not_shared_is_refused(messages: list[Message], sentence: str) -> None:
    with pytest.raises(WireError, match=sentence):
        PLACE.check(messages, "mix", 2)


def test_neighbors_are_expected_to_send_what_they_share() -> None:
    assert {(slot.sender, slot.modality) for slot in PLACE.expected("mix", 2)} == {(1, "gps"), (4, "gps")}
    assert PLACE.expected("project", 2) == frozenset()


def mutated(parts: list[Frame], draws: np.random.Generator) -> list[Frame]:
    """A packet with bytes changed, cut, repeated or swapped, frame by frame or as a whole."""
    changed = [bytearray(part) for part in parts]
    for _ in range(int(draws.integers(1, 4))):
        at = int(draws.integers(len(changed)))
        place = int(draws.integers(len(changed[at]) + 1))
        what = int(draws.integers(5))
        if what == 0 and place < len(changed[at]):
            changed[at][place] = int(draws.integers(256))
        elif what == 1:
            del changed[at][place:]
        elif what == 2:
            changed[at] += changed[at][:place]
        elif what == 3:
            changed.append(bytearray(draws.bytes(place)))
        elif len(changed) > 1:
            del changed[at]
    return [bytes(part) for part in changed]


def all_is_read(player: OutsidePlayer, stranger: OutsidePlayer) -> None:
    """Until the server has come to the end of what both have said, who hear all its answers meanwhile."""
    player.say("restore_done", {"ticket": 0})
    stranger.join(99)
    for end, last in ((player, "'restore_done' answers no question"), (stranger, "client 99 is not")):
        while last not in end.hear("refused", "turn").fields.get("sentence", ""):
            pass


def read_turn(answer: Packet) -> None:
    """As a station reads it."""
    messages = unpack_messages(answer.fields["messages"], answer.frames, frozenset({MessageKind.ENCODER}))
    PLACE.check(messages, "mix", 2)


def test_a_hail_of_mutated_packets_is_survived(server: OutsideServer) -> None:
    """From somebody with a place and from a stranger; afterwards a question is answered as ever."""
    draws = np.random.default_rng(5)
    fields = {"ticket": 0, "messages": pack_messages([message(1), message(4)], frames := []), "expected": []}
    whole = [
        pack_packet(Packet("turn_done", fields, frames)),
        pack_packet(Packet("look_done", {"ticket": 1, "row": {"loss": 0.5}, "phases": []})),
        pack_packet(Packet("join", {"name": "mutant", "client": 3})),
        pack_packet(Packet("alive", {})),
    ]
    with OutsidePlayer(server.address) as player, OutsidePlayer(server.address) as stranger:
        seated(server, player)
        assert server.request(3, "turn", QUESTION, (), read_turn) is not None
        for count in range(N_MUTATED):
            parts = mutated(whole[int(draws.integers(len(whole)))], draws)
            stranger.say_parts(parts)
            player.say_parts(parts)
            if count % 50 == 49:  # who reads nothing loses its place
                all_is_read(player, stranger)
        player.say("leaving", {"sentence": "enough"})
        assert player.hung_up()
        with OutsidePlayer(server.address) as other:
            other.join(3, "other")
            other.hear("place")
            ticket = asked(server)
            answer(other, other.hear("turn"))
            assert ticket.result(SOON_S) == 0
    assert server.counts(3)["refused"] > N_MUTATED / 2
    assert server.n_strangers > N_MUTATED / 2
