"""Any learners on the real emulator, made of the pieces that a scenario uses too, and what they learned on the way."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reference.sheaf_dmfl import Edge, ReferenceState, Trajectory
from sheafedge.emulator.contracts import Learner, Message, MessageKind, NodeId, Transport
from sheafedge.emulator.edge.device_profiles import DeviceProfile
from sheafedge.emulator.engine import Barrier, EmulatorEnvironment
from sheafedge.emulator.network.channels.packet_channel import LinkSettings, PacketChannel
from sheafedge.emulator.network.fifo import Fifo
from sheafedge.emulator.network.loss import IidLoss
from sheafedge.emulator.network.network import Network
from sheafedge.emulator.network.transport.wire import Wire
from sheafedge.emulator.network.transport.wire_transport import MemoryTransport
from sheafedge.emulator.network.transport.zmq_transport import ZmqTransport
from sheafedge.emulator.nodes.base_station import BaseStation, play_rounds
from sheafedge.emulator.nodes.compute_pool import ComputePool, SerialPool, ThreadPool
from sheafedge.emulator.nodes.inbox import Inbox
from sheafedge.emulator.nodes.learner_host import LocalHost
from sheafedge.emulator.nodes.missing import MISSING_POLICIES
from sheafedge.emulator.nodes.station_context import StationContext
from sheafedge.emulator.recorder import Recorder
from sheafedge.emulator.saved_state import Parts
from sheafedge.models.algorithms.sheaf_diffusion import HeadDiffusion
from sheafedge.models.client_model import ClientModel
from sheafedge.models.fusion import AttentionFusion, AttentionMlpFusion
from sheafedge.models.hyper.hyper_server import HyperServer
from sheafedge.models.sharing.chained_learner import ChainedLearner
from sheafedge.models.sharing.server_learner import ServerVectors
from sheafedge.models.sheaf.vector_coupling import VectorCoupling
from torch import Tensor

INSTANT = LinkSettings(rate_bps=math.inf)
"""No airtime, no delay: a message is there in the instant in which it is sent."""

State = dict[str, Tensor]  # of one client: "head", "encoder gps 0.weight", "attention rf", "map to 3", ...


@dataclass(frozen=True)
class Setting:
    """Everything around the learners; the default is the network that the paper assumes.

    Attributes:
        link: of every direction of every edge.
        loss: share of packets lost.
        missing, deadline_s: what is done about messages that do not come, and when.
        transport: makes one.
        n_threads: of the compute pool; 0 computes on the engine's thread.
        seed: of the losses.
        flops_per_s: node -> speed of its device; others compute 1e9 operations in a second.
    """

    link: LinkSettings = INSTANT
    loss: float = 0.0
    missing: str = "skip"
    deadline_s: float | None = None
    transport: Callable[[Wire], Transport] = MemoryTransport
    n_threads: int = 0
    seed: int = 0
    flops_per_s: Mapping[NodeId, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Played:
    """What a run left.

    Attributes:
        states: [round][client], after everything of the round was absorbed.
        recorder: traffic, and a trace hash that covers the states.
        ended_s: simulated instant of the end.
    """

    states: list[dict[NodeId, State]]
    recorder: Recorder
    ended_s: float


def play(
    learners: Sequence[Learner],
    edges: Iterable[Edge],
    kinds: frozenset[MessageKind],
    n_rounds: int,
    state_of: Callable[[Learner], State],
    setting: Setting,
) -> Played:
    """Run learners on the emulator, and look at each of them after every round."""
    states: list[dict[NodeId, State]] = [{} for _ in range(n_rounds)]

    def observe(learner: Learner, round_index: int) -> Mapping[str, Any]:
        state = state_of(learner)
        states[round_index][learner.client_id] = state
        return {"state": digest(state)}

    env = EmulatorEnvironment(setting.seed)
    recorder = Recorder(kinds, lambda *_: None)
    policy = MISSING_POLICIES[setting.missing]
    inboxes = {learner.client_id: Inbox(env, policy(), recorder) for learner in learners}
    deliver: dict[NodeId, Callable[[Message], None]] = {node: inbox.put for node, inbox in inboxes.items()}
    link = replace(setting.link, retry_limit=None) if policy.waits else setting.link
    ends = sorted(end for i, j in edges for end in ((i, j), (j, i)))
    channels = {end: PacketChannel(link, IidLoss(setting.loss, env.stream("link", *end))) for end in ends}
    links = {end: Fifo(env).link(channel) for end, channel in channels.items()}
    transport = setting.transport(Wire(kinds))
    pool: ComputePool = ThreadPool(setting.n_threads) if setting.n_threads else SerialPool()
    context = StationContext(
        env=env,
        network=Network(env, transport, links, deliver, recorder),
        barrier=Barrier(env, len(learners)),
        recorder=recorder,
        deadline_s=setting.deadline_s,
    )
    try:
        stations = []
        for learner in learners:
            node = learner.client_id
            device = DeviceProfile("test", setting.flops_per_s.get(node, 1e9), overhead_s=0.0, power_w=1.0)
            host = LocalHost(learner, pool, observe)
            stations.append(BaseStation(host, device, inboxes[node], context))
        play_rounds(env, stations, range(n_rounds))
    finally:
        pool.close()
        transport.close()
    return Played(states, recorder, env.now)


def digest(state: State) -> str:
    """Hash of every bit of a state."""
    whole = hashlib.blake2b(digest_size=16)
    for name, value in sorted(state.items()):
        whole.update(name.encode() + value.cpu().numpy().tobytes())
    return whole.hexdigest()


# --- states ---------------------------------------------------------------------------------------------------------


def state_of_model(model: ClientModel) -> State:
    """Copies of all that a model learns."""
    state = {"head": model.head.detach().clone()}
    for name in model.modalities:
        for part, values in model.encoders[name].state_dict().items():  # running statistics too: neighbors average them
            state[f"encoder {name} {part}"] = values.detach().clone()
    if isinstance(model.fusion, AttentionFusion):
        rows = zip(model.modalities, model.fusion.scoring.detach(), strict=True)
        state |= {f"attention {name}": row.clone() for name, row in rows}
    elif isinstance(model.fusion, AttentionMlpFusion):
        state |= {f"attention {part}": values.detach().clone() for part, values in model.fusion.state_dict().items()}
    return state


def maps_of(learner: Learner) -> State:
    """Copies of the restriction maps that a learner holds, if it holds any."""
    return {
        f"map to {j}": coupling.maps.dense(j).clone()
        for coupling in parts_of(learner, VectorCoupling | HeadDiffusion)
        for j in coupling.maps.rows
    }


def vectors_of_server(learner: Learner) -> State:
    """Copies of the vectors that a server holds, by their kinds, modalities and groups; or of what generates models."""
    for server in parts_of(learner, HyperServer):
        return {name: values.detach().clone() for name, values in server.generator.named_parameters()}
    (server,) = parts_of(learner, ServerVectors)
    return {name: one.vector.clone() for name, one in server.vectors.items()}


def parts_of(learner: Learner, kind: Any) -> list[Any]:
    """Parts of this class that a learner holds, at any depth."""

    def found(part: object) -> Iterator[Any]:
        if isinstance(part, kind):
            yield part
        elif isinstance(part, Parts):
            yield from (one for name in part for one in found(part[name]))

    return list(found(learner.parts)) if isinstance(learner, ChainedLearner) else []


def state_in_reference(state: ReferenceState, client: NodeId) -> State:
    """The same names for what the reference holds of one client."""
    named = {"head": state.heads[client]}
    for k, layers in state.encoders[client].items():
        for index, (weight, bias) in enumerate(layers):  # modules 1 and 3 of Flatten, Linear, ReLU, Linear
            named |= {f"encoder {k} {2 * index + 1}.weight": weight, f"encoder {k} {2 * index + 1}.bias": bias}
    named |= {f"attention {k}": beta for k, beta in state.attention[client].items()}
    return named | {f"map to {j}": restriction for (i, j), restriction in state.maps.items() if i == client}


def largest_difference(one: Sequence[Mapping[NodeId, State]], other: Sequence[Mapping[NodeId, State]]) -> float:
    """Over all rounds, clients and numbers; the two must hold the same names and shapes."""
    assert len(one) == len(other)
    worst = 0.0
    for round_one, round_other in zip(one, other, strict=True):
        assert round_one.keys() == round_other.keys()
        for client, state in round_one.items():
            assert state.keys() == round_other[client].keys()
            for name, values in state.items():
                assert values.shape == round_other[client][name].shape, name
                worst = max(worst, float((values - round_other[client][name]).abs().max()))
    return worst


def over_zmq(wire: Wire) -> Transport:
    """A ZeroMQ hub and worker inside the process."""
    return ZmqTransport(wire)


def of_reference(trajectory: Trajectory) -> list[dict[NodeId, State]]:
    """The states of all rounds under the names that `play` gives them."""
    return [{client: state_in_reference(state, client) for client in state.heads} for state in trajectory.states]
