"""The learners of clients whose backbones a server generates, and that of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...emulator.contracts import Learner, Message, MessageKind, MessageSlot, NodeId
from ...emulator.saved_state import Parts
from ..sharing.chained_learner import ChainedLearner, ChainPhase, FunctionExchange
from ..sharing.server_exchange import BROADCAST, COLLECT
from ..training.client_setup import ClientSetup
from .hyper_client import HyperClient
from .hyper_server import HyperServer
from .schedule import HyperSchedule

_DOWN = frozenset({MessageKind.MODEL})


def with_generator(setups: Sequence[ClientSetup], *, embeds: bool) -> list[Learner]:
    """Learners of clients, and last that of the server where all clients are given.

    Workers make the learners of some clients only; the server's lives where all of them are made.

    Args:
        setups: of the clients.
        embeds: whether the server knows clients by embeddings that they send, or by their numbers.
    """
    schedule = _schedule(setups[0], embeds)
    learners: list[Learner] = [_client(setup, schedule) for setup in setups]
    if len(setups) == len(schedule.participation.n_rows):
        members: dict[str, list[NodeId]] = {}
        for setup in setups:
            members.setdefault(setup.group, []).append(setup.client_id)
        learners.append(generator_alone(setups, members, embeds=embeds))
    return learners


def generator_alone(setups: Sequence[ClientSetup], members: Mapping[str, Sequence[NodeId]], *, embeds: bool) -> Learner:
    """The learner of a server whose clients are made elsewhere, or later; equal to the one of `with_generator`.

    Args:
        setups: of the first client of every group, by number.
        members: group -> all of its clients.
        embeds: as for `with_generator`.
    """
    schedule, settings = _schedule(setups[0], embeds), setups[0].hyper
    if not embeds:  # numbers of clients say nothing of who is near whom
        settings = replace(settings, diffusion="none", attention=False)
    server = HyperServer(setups, members, schedule, settings)

    def expected(phase: str, round_index: int) -> frozenset[MessageSlot]:
        updates = server.with_backbone(schedule.updates(round_index))
        slots = [(client, MessageKind.UPDATE) for client in updates]
        slots += [(client, MessageKind.EMBEDDING) for client in schedule.embeddings(round_index)]
        return frozenset(MessageSlot(round_index, phase, client, kind) for client, kind in slots)

    down = FunctionExchange(_DOWN, server.messages, lambda _phase, _round: frozenset(), lambda _arrived: None)
    up = FunctionExchange(_up(embeds), lambda _phase, _round: (), expected, server.absorb)
    return ChainedLearner(
        schedule.participation.server,
        [
            ChainPhase(
                BROADCAST,
                [down],
                work=server.generate,
                # the step on what was heard before is charged here too: it is made when all of it is there
                flops=lambda: server.flops,
                active=lambda round_index: bool(schedule.participation.opening(round_index)),
            ),
            ChainPhase(
                COLLECT,
                [up],
                finish=server.step,
                active=lambda round_index: bool(schedule.participation.closing(round_index)),
            ),
        ],
        parts=Parts(server=server),
        models=lambda _inputs: {},
        figures=server.figures,
    )


def generating_server(learners: Sequence[Learner]) -> HyperServer | None:
    """The server among learners that generates models; None where there is none."""
    parts = learners[-1].parts if learners and isinstance(learners[-1], ChainedLearner) else None
    found = parts["server"] if isinstance(parts, Parts) and "server" in set(parts) else None
    return found if isinstance(found, HyperServer) else None


def _schedule(setup: ClientSetup, embeds: bool) -> HyperSchedule:
    participation, hyper = setup.participation, setup.hyper
    assert participation is not None, "given to all clients of algorithms with a server"
    # they join with the exchange that opens in this round, or next after it
    joins = -(-hyper.join_round // participation.every)
    return HyperSchedule(participation, hyper.refresh_every if embeds else 0, participation.late, joins)


def _up(embeds: bool) -> frozenset[MessageKind]:
    return frozenset({MessageKind.UPDATE, MessageKind.EMBEDDING} if embeds else {MessageKind.UPDATE})


def _client(setup: ClientSetup, schedule: HyperSchedule) -> ChainedLearner:
    me, server = setup.client_id, schedule.participation.server
    client = HyperClient(setup, schedule)

    def receives(round_index: int) -> bool:
        return me in schedule.receives(round_index)

    def expected(phase: str, round_index: int) -> frozenset[MessageSlot]:
        comes = receives(round_index) and client.size > 0
        return frozenset({MessageSlot(round_index, phase, server, MessageKind.MODEL)} if comes else ())

    def train(round_index: int) -> None:
        if schedule.has_joined(me, round_index):
            client.train_head(round_index)
        else:
            client.train(round_index)

    def messages(phase: str, round_index: int) -> list[Message]:
        sent = []
        if me in schedule.updates(round_index) and client.size > 0:
            sent.append(client.update(phase, round_index))
        if me in schedule.embeddings(round_index):
            sent.append(client.embedding(phase, round_index))
        return sent

    def sending_flops(round_index: int) -> float:
        of_update = client.update_flops if me in schedule.updates(round_index) else 0.0
        return of_update + (client.embedding_flops if me in schedule.embeddings(round_index) else 0.0)

    down = FunctionExchange(_DOWN, lambda _phase, _round: (), expected, client.receive)
    up = FunctionExchange(
        _up(schedule.refresh_every > 0), messages, lambda _phase, _round: frozenset(), lambda _arrived: None
    )
    return ChainedLearner(
        me,
        [
            ChainPhase(BROADCAST, [down], work=client.begin, finish=client.take_over, active=receives),
            ChainPhase(
                COLLECT,
                [up],
                work=train,
                flops=lambda: client.flops,
                more_flops=sending_flops,
                active=lambda round_index: schedule.trains(me, round_index),
            ),
        ],
        parts=Parts(client=client),
        models=client.predict,
        figures=client.health,
    )
