"""The learner of a server, and those of its clients, for any local rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...emulator.contracts import MODALITIES, Learner, Message, NodeId, State
from ...emulator.saved_state import Parts, SavedState
from ..rules.local_rule import LocalRule
from ..state.tensors import restore_tensor, to_array
from ..training.client_setup import ClientSetup
from ..training.participation import Participation
from .chained_learner import ChainedLearner, ChainPhase
from .received_vectors import ReceivedVectors, are_whole
from .server_average import server_average, taken_over
from .server_exchange import BROADCAST, COLLECT, receiving, sending
from .vector_gossip import SharedVector, VectorGossip, Weights, consensus_figures


def with_server(
    setups: Sequence[ClientSetup], rule_of: Callable[[ClientSetup], LocalRule], mixing: float = 1.0
) -> list[Learner]:
    """Learners of clients that exchange with a server, and last that of the server where all clients are given.

    Workers make the learners of some clients only; the server's lives where all of them are made.

    Args:
        setups: of the clients.
        rule_of: makes the local rule of a client.
        mixing: of the server, see `server_average`.
    """
    rules = [rule_of(setup) for setup in setups]
    shared = [rule.shared(_server_weights(setup)) for rule, setup in zip(rules, setups, strict=True)]
    learners: list[Learner] = [_client(*parts) for parts in zip(setups, rules, shared, strict=True)]
    participation = _participation(setups[0])
    if len(setups) == len(participation.n_rows):
        members: dict[str, list[NodeId]] = {}
        for setup in setups:
            members.setdefault(setup.group, []).append(setup.client_id)
        learners.append(_server(setups, shared, members, mixing))
    return learners


def server_alone(
    setups: Sequence[ClientSetup],
    members: Mapping[str, Sequence[NodeId]],
    rule_of: Callable[[ClientSetup], LocalRule],
    mixing: float = 1.0,
) -> Learner:
    """The learner of a server whose clients are made elsewhere, or later; equal to the one that `with_server` makes.

    Args:
        setups: of the first client of every group, by number.
        members: group -> all of its clients.
        rule_of, mixing: as for `with_server`.
    """
    return _server(setups, [rule_of(setup).shared(_server_weights(setup)) for setup in setups], members, mixing)


def _participation(setup: ClientSetup) -> Participation:
    assert setup.participation is not None, "given to all clients of algorithms with a server"
    return setup.participation


def _server_weights(setup: ClientSetup) -> Weights:
    """A client has its server as its only neighbor; encoders that stay personal have none."""
    only = {_participation(setup).server: 1.0}
    shared = [modality for modality in MODALITIES if modality not in setup.training.personal_encoders]
    return Weights(dict.fromkeys(shared, only), only)


def _client(setup: ClientSetup, rule: LocalRule, shared: Sequence[SharedVector]) -> ChainedLearner:
    me, participation = setup.client_id, _participation(setup)
    server = frozenset({participation.server})

    def takes_part(round_index: int) -> bool:
        return me in participation.clients(round_index)

    def opens(round_index: int) -> bool:
        return me in participation.opening(round_index)

    # the rounds of an exchange are counted by the participation
    vectors = VectorGossip(me, shared, replace(setup.sharing, every=1), combine=taken_over)
    down = receiving(vectors, lambda round_index: server if opens(round_index) else ())
    up = sending(vectors, lambda round_index: server if me in participation.closing(round_index) else ())
    # a client with a single model has that of the server only until it trains it
    fused = setup.models.get("fused")
    is_whole = fused is not None and are_whole(shared, fused)
    received = ReceivedVectors([one.vector for one in shared] if is_whole else [])

    def finish(_round_index: int) -> None:
        rule.received()
        received.note()

    return ChainedLearner(
        me,
        [
            ChainPhase(BROADCAST, [down], finish=finish, active=opens),
            ChainPhase(COLLECT, [up], work=rule.train, flops=lambda: rule.flops, active=takes_part),
        ],
        parts=Parts(models=rule, vectors=vectors, received=received),
        models=partial(received.predict, rule.predict) if is_whole else rule.predict,
        figures=lambda: {**rule.health(), **consensus_figures([vectors])},
    )


def _server(
    setups: Sequence[ClientSetup],
    shared: Sequence[Sequence[SharedVector]],
    members: Mapping[str, Sequence[NodeId]],
    mixing: float,
) -> ChainedLearner:
    participation = _participation(setups[0])
    server = ServerVectors(setups, shared, members, mixing)

    def averaged_before(round_index: int) -> bool:
        return round_index > 0 and bool(participation.opening(round_index))

    down = sending(server.exchanged, participation.opening)
    up = receiving(server.exchanged, participation.closing, server.absorb)
    share = len(participation.clients(0)) / len(participation.n_rows)
    return ChainedLearner(
        participation.server,
        [
            # what it heard in the round before is averaged when it has all of it, so that is when it takes time
            ChainPhase(BROADCAST, [down], flops=lambda: share * server.flops, active=averaged_before),
            ChainPhase(COLLECT, [up]),
        ],
        parts=Parts(server=server),
        models=lambda _inputs: {},
        figures=server.figures,
    )


class ServerVectors:
    """The vectors of a server, and how many clients its last average heard.

    Encoders, or their factors, are averaged over all clients that own the modality; heads and attention over those of
    one group, because other groups have others.

    Args:
        setups: of the first client of every group at least, by number.
        shared: their shared vectors, in the same order; the first client that has one gives it its start.
        members: group -> all of its clients.
        mixing: see `server_average`.
    """

    def __init__(
        self,
        setups: Sequence[ClientSetup],
        shared: Sequence[Sequence[SharedVector]],
        members: Mapping[str, Sequence[NodeId]],
        mixing: float,
    ) -> None:
        participation = _participation(setups[0])
        self.vectors: dict[str, SharedVector] = {}
        weights: dict[str, dict[NodeId, float]] = {}
        groups: dict[str, set[str]] = {}
        for setup, vectors in zip(setups, shared, strict=True):
            # a personal encoder has no weights, not even that of the server
            for one in (one for one in vectors if one.weights):
                of_group = f" of {setup.group}" if one.modality is None else ""
                name = f"{one.kind} {one.modality or ''}".rstrip() + of_group
                of_vector = weights.setdefault(name, {})
                if name not in self.vectors:
                    start, label = one.vector.detach().clone(), str(len(self.vectors))
                    combine = None if one.at_server is None else one.at_server.combine(mixing)
                    self.vectors[name] = replace(one, vector=start, weights=of_vector, label=label, combine=combine)
                groups.setdefault(name, set()).add(setup.group)
        for name, of_vector in weights.items():
            clients = sorted(client for group in groups[name] for client in members[group])
            of_vector.update((client, float(participation.n_rows[client])) for client in clients)
        sharing = replace(setups[0].sharing, every=1)
        self.exchanged = VectorGossip(
            participation.server, list(self.vectors.values()), sharing, combine=server_average(mixing)
        )
        self._heard = 0

    @property
    def flops(self) -> float:
        """A multiplication and an addition per element of every client, and what combinations of their own take."""
        vectors = self.vectors.values()
        beside = sum(one.at_server.flops(len(one.weights)) for one in vectors if one.at_server is not None)
        return 2.0 * sum(len(one.vector) * len(one.weights) for one in vectors) + beside

    def absorb(self, arrived: Sequence[Message]) -> None:
        """Average what arrived."""
        self._heard = len({message.sender for message in arrived})
        self.exchanged.absorb(arrived)

    def figures(self) -> Mapping[str, float]:
        """Clients that the last average heard, and how far their mean was from the vectors before it."""
        return {"heard": self._heard, **consensus_figures([self.exchanged])}

    def state(self) -> State:
        vectors = {name: to_array(one.vector) for name, one in self.vectors.items()}
        return {"vectors": vectors, "exchanged": self.exchanged.state(), "heard": self._heard}

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("vectors", "exchanged", "heard")
        for name, one in parts["vectors"].parts(*self.vectors).items():
            restore_tensor(self.vectors[name].vector, one)
        self.exchanged.restore(parts["exchanged"])
        self._heard = parts["heard"].count()
