"""A learner that takes in what another one remembers goes on as that one would, bit for bit: every algorithm.

Learners are asked and told by hand. A state goes through text and bytes on its way, as it would through a file, and
comes back read-only.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from doubles.table_rows import rows
from integration.tiny import Walk, tiny, wired
from sheafedge.emulator.contracts import ConfigError, Learner, Message, NodeId, State
from sheafedge.models.algorithms.algorithm_table import ALGORITHMS
from sheafedge.scenarios.schema.scenario import Scenario, load_scenario

N_BEFORE, N_AFTER = 2, 2

COUPLED: dict[str, dict[str, Any]] = {
    "dense maps": {"sheaf.map_start": "random", "sheaf.map_storage": "dense"},
    "factored random maps": {"sheaf.map_start": "random"},
    "a history that is folded later": {"sheaf.compression": 0.04},
    "a history that was folded": {"sheaf.compression": 0.01},
    "Kronecker maps": {"sheaf.map_storage": "kronecker"},
    "rotating index": {"sheaf.rotate_index": True, "sheaf.map_step_size": 0.0},
    "Kronecker maps with a rotating index": {
        "sheaf.map_storage": "kronecker",
        "sheaf.rotate_index": True,
        "sheaf.map_step_size": 0.0,
    },
    "single exchange": {"sheaf.exchange": "single", "network.missing": "wait"},
    "trust per edge, single exchange": {
        "sheaf.edge_trust": 0.1,
        "sheaf.exchange": "single",
        "network.missing": "wait",
    },
    "unclamped": {"sheaf.clamp_map_step": False},
    "no coupling": {"sheaf.coupling": 0.0},
    "attention of two layers": {"model.fusion": "attention_mlp"},
    "personal encoders": {"training.personal_encoders": ["gps"]},
    "plain steps": {"training.encoder_optimizer": "sgd"},
    "balanced classes": {"training.class_weights": "balanced"},
    "eight bits": {"sharing.codec": "int8"},
    "the largest changes": {"sharing.codec": "top_k", "sharing.fraction": 0.2},
    "large steps of an epoch": {"training.local_steps": 7, "training.batch_size": 64},
}
LISTENING: dict[str, Any] = {
    "data.beam_order": "permuted",
    "sheaf.map_start": "learned",
    "sheaf.compression": 1.0,
    "sheaf.listen_rounds": 3,
}
DIFFUSED: dict[str, dict[str, Any]] = {
    "rotating index": COUPLED["rotating index"],
    "Kronecker maps": COUPLED["Kronecker maps"],
    "trust per edge": {"sheaf.edge_trust": 0.1},
    "listening for an order": LISTENING,
    "listening for an order, same sensors": {**LISTENING, "sheaf.edges": "same_sensors"},
}
VARIANTS = {"sheaf_dmfl": COUPLED, "sheaf_diffusion": DIFFUSED, "group_averaging": {"personal": COUPLED["plain steps"]}}
VARIANTS |= {name: {"eight bits": COUPLED["eight bits"]} for name in ("dsgd_heads", "dpsgd", "dmml_kd")}
CASES: dict[str, Callable[[], Scenario]] = {name: lambda name=name: tiny({"algorithm": name}) for name in ALGORITHMS}
CASES |= {
    f"{name} {variant}": lambda name=name, edits=edits: tiny({"algorithm": name, **edits})
    for name, variants in VARIANTS.items()
    for variant, edits in variants.items()
}

#: Convolutions with running statistics, and dropout that draws.
CONVOLUTIONS: dict[str, Any] = {
    "rounds": 4,
    "world.n_sites": 1,
    "world.duration_s": 30,
    "clients.n_clients": 3,
    "clients.groups": [{"name": "lidar+rf", "modalities": ["lidar", "rf"], "share": 1.0}],
    "topology.kind": "ring",
    "model.width": 0.125,
    "model.embedding_dim": 8,
    "training.local_steps": 1,
    "training.batch_size": 8,
    "sheaf.compression": 0.3,
    "network.transport": "memory",
    "compute.device": "cpu",
    "compute.executor": "serial",
}
#: One algorithm of every way in which models are held.
SEEING = ("sheaf_dmfl_att", "diffused_and_tuned", "dsgd", "centralized")


def seeing(algorithm: str, edits: dict[str, Any] | None = None) -> Callable[[], Scenario]:
    return lambda: load_scenario("blockage").edited({**CONVOLUTIONS, "algorithm": algorithm, **(edits or {})})


CASES |= {f"{name} with dropout": seeing(name) for name in SEEING}
CASES["dpsgd with statistics of its own"] = seeing("dpsgd", {"training.local_statistics": True})

States = dict[NodeId, State]


class Call(NamedTuple):
    """One half of a phase, for all learners."""

    round_index: int
    phase: str
    computes: bool
    ends_round: bool


@dataclass
class Play:
    """Learners, and the messages that are on their way between them."""

    walk: Walk
    on_the_way: list[Message] = field(default_factory=list)

    @property
    def learners(self) -> Sequence[Learner]:
        return self.walk.emulation.learners

    def calls(self, first: int, n_rounds: int) -> list[Call]:
        calls = []
        for round_index in range(first, first + n_rounds):
            names = [phase.name for phase in self.learners[0].phases(round_index)]
            for name in names:
                calls += [
                    Call(round_index, name, computes=True, ends_round=False),
                    Call(round_index, name, computes=False, ends_round=name == names[-1]),
                ]
        return calls

    def make(self, call: Call) -> dict[str, Any]:
        """All that shows of it: messages, and at the end of a round predictions and health."""
        if call.computes:
            self.on_the_way = [m for learner in self.learners for m in learner.compute(call.phase, call.round_index)]
            return leaves({str((m.slot, m.receiver)): m.payload for m in self.on_the_way})
        for learner in self.learners:
            mine = [message for message in self.on_the_way if message.receiver == learner.client_id]
            mine.sort(key=lambda m: (m.sender, m.kind, m.modality or ""))
            learner.absorb(call.phase, call.round_index, mine)
        self.on_the_way = []
        return self.shown() if call.ends_round else {}

    def rounds(self, first: int, n_rounds: int) -> list[dict[str, Any]]:
        return [self.make(call) for call in self.calls(first, n_rounds)]

    def shown(self) -> dict[str, Any]:
        tree: Any = {}
        for learner, client in zip(self.walk.emulation.client_learners, self.walk.emulation.clients, strict=True):
            answers = dict(learner.predict(client.data.test.inputs(slice(0, 8))))
            tree[str(learner.client_id)] = {"health": dict(learner.health()), "answers": answers}
        return leaves(tree)

    def states(self) -> States:
        return {learner.client_id: learner.state() for learner in self.learners}

    def restore(self, states: States) -> None:
        for learner in self.learners:
            learner.restore(states[learner.client_id])


def leaves(state: Any, path: str = "") -> dict[str, Any]:
    """Every bit of a tree, by place; text for numbers, so that what is no number equals itself."""
    if isinstance(state, dict):
        return {k: v for name, part in state.items() for k, v in leaves(part, f"{path}/{name}").items()}
    if isinstance(state, list):
        return {k: v for name, part in enumerate(state) for k, v in leaves(part, f"{path}/{name}").items()}
    if isinstance(state, np.ndarray):
        return {path: (str(state.dtype), state.shape, state.tobytes())}
    return {path: repr(state)}


def of_all(states: States) -> dict[str, Any]:
    return leaves({str(client): state for client, state in states.items()})


def through_a_file(states: States) -> States:
    """Numbers and text as JSON, arrays as bytes that nobody may write to."""
    arrays: dict[str, Any] = {}

    def pack(part: Any, path: str) -> Any:
        if isinstance(part, dict):
            return {name: pack(one, f"{path}/{name}") for name, one in part.items()}
        if isinstance(part, list):
            return [pack(one, f"{path}/{index}") for index, one in enumerate(part)]
        if isinstance(part, np.ndarray):
            arrays[path] = (part.dtype, part.shape, part.tobytes())
            return {"array": path}
        return part

    def unpack(part: Any) -> Any:
        if isinstance(part, list):
            return [unpack(one) for one in part]
        if not isinstance(part, dict):
            return part
        if set(part) == {"array"}:
            dtype, shape, content = arrays[part["array"]]
            return np.frombuffer(content, dtype).reshape(shape)
        return {name: unpack(one) for name, one in part.items()}

    text = json.dumps(pack({str(client): state for client, state in states.items()}, ""))
    return {int(client): state for client, state in unpack(json.loads(text)).items()}


def places(state: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the leaves are."""
    parts = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list) else None
    if parts is None:
        yield path
    else:
        for name, part in parts:
            yield from places(part, (*path, name))


def leaf(state: Any, place: tuple[Any, ...]) -> Any:
    for name in place:
        state = state[name]
    return state


def changed(state: State, place: tuple[Any, ...], value: Any) -> Any:
    """The state with another leaf."""
    if not place:
        return value
    new: Any = copy.copy(state)
    new[place[0]] = changed(new[place[0]], place[1:], value)
    return new


def fresh(case: str) -> Play:
    return Play(wired(CASES[case]()))


@dataclass(frozen=True)
class Recorded:
    """States after some rounds, and what came after them."""

    play: Play
    before: States
    bits_before: dict[str, Any]
    shown: list[dict[str, Any]]
    after: States


@cache
def recorded(case: str) -> Recorded:
    play = fresh(case)
    play.rounds(0, N_BEFORE)
    before = play.states()
    bits = of_all(before)
    shown = play.rounds(N_BEFORE, N_AFTER)
    return Recorded(play, before, bits, shown, play.states())


every_case = pytest.mark.parametrize("case", rows(CASES))
every_algorithm = pytest.mark.parametrize("algorithm", rows())


# --- it goes on bit for bit -----------------------------------------------------------------------------------------


@every_case
def test_a_learner_goes_on_where_another_one_was(case: str) -> None:
    whole, resumed = recorded(case), fresh(case)
    given = through_a_file(whole.before)
    resumed.restore(given)
    assert of_all(resumed.states()) == whole.bits_before
    assert resumed.rounds(N_BEFORE, N_AFTER) == whole.shown
    assert of_all(resumed.states()) == of_all(whole.after)
    assert of_all(given) == of_all(whole.before) == whole.bits_before  # what learners do later does not reach a state


@pytest.mark.parametrize("case", ["local", "sheaf_dmfl", "centralized with dropout"])
def test_without_the_state_it_would_go_elsewhere(case: str) -> None:
    """Or the test above would show nothing."""
    assert fresh(case).rounds(N_BEFORE, N_AFTER) != recorded(case).shown


@every_algorithm
def test_a_state_can_be_taken_between_any_two_calls_and_given_to_a_learner_that_went_elsewhere(algorithm: str) -> None:
    """Messages that are on their way are not the learner's: whoever stores a state stores them too."""
    original, other = fresh(algorithm), recorded(algorithm).play
    taken, shown = [], []
    calls = original.calls(0, 2)
    for call in calls:
        taken.append((original.states(), original.on_the_way))
        shown.append(original.make(call))
    for at in reversed(range(len(calls))):
        states, on_the_way = taken[at]
        other.restore(states)
        other.on_the_way = on_the_way
        assert [other.make(call) for call in calls[at : at + 3]] == shown[at : at + 3]


def test_histories_of_maps_are_folded_where_these_cases_say_so() -> None:
    def folded(case: str) -> tuple[bool, bool]:
        states = recorded(f"sheaf_dmfl a history that {case}")
        both = (states.before[1], states.after[1])
        before, after = (leaf(state, ("coupling", "maps", "matrix")) is not None for state in both)
        return before, after

    assert folded("was folded") == (True, True)
    assert folded("is folded later") == (False, True)


# --- what a state is ------------------------------------------------------------------------------------------------

PLAIN = (int, float, str, bool, type(None))


@every_case
def test_a_state_is_a_plain_tree(case: str) -> None:
    for state in recorded(case).before.values():
        for place in places(state):
            value = leaf(state, place)
            assert all(type(name) in {str, int} for name in place)
            if isinstance(value, np.ndarray):
                assert value.dtype.kind in "fiub"
                assert value.flags.c_contiguous
            else:
                assert type(value) in PLAIN
                assert not isinstance(value, int) or abs(value) < 2**63


def test_only_the_first_client_holds_the_pooled_model() -> None:
    first, *others = recorded("centralized").before.values()
    assert isinstance(first, dict)
    assert others
    assert not any(others)


# --- every part of it counts ----------------------------------------------------------------------------------------

TRAINING = ("training",)
OF_ONE_MODEL = {
    "head": ("model", "head"),
    "encoder": ("model", "encoders", "values", "rf.1.weight"),
    "moments": ("optimizer", 0, "exp_avg"),
    "steps": ("optimizer", 0, "step"),
    "place in the epoch": ("minibatches", "at"),
    "order of the epoch": ("minibatches", "order"),
}


def nudged(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value - 2
    changed_array = value.copy().reshape(-1)
    changed_array[0] += changed_array.dtype.type(1)
    return changed_array[::-1].reshape(value.shape) if value.dtype.kind == "i" else changed_array.reshape(value.shape)


@pytest.mark.parametrize("part", OF_ONE_MODEL)
def test_a_state_that_differs_in_one_entry_leads_elsewhere(part: str) -> None:
    whole, resumed = recorded("sheaf_dmfl"), fresh("sheaf_dmfl")
    place, state = TRAINING + OF_ONE_MODEL[part], whole.before[0]
    value = leaf(state, place)
    other = value[::-1].copy() if part == "order of the epoch" else nudged(value)
    resumed.restore({**whole.before, 0: changed(state, place, other)})
    assert resumed.rounds(N_BEFORE, N_AFTER) != whole.shown


def test_maps_that_differ_in_one_entry_lead_elsewhere() -> None:
    whole, resumed = recorded("sheaf_dmfl"), fresh("sheaf_dmfl")
    for part in ("heads", "residuals"):
        place = ("coupling", "maps", part)
        state = changed(whole.before[0], place, nudged(leaf(whole.before[0], place)))
        resumed.restore({**whole.before, 0: state})
        assert resumed.rounds(N_BEFORE, N_AFTER) != whole.shown


DRAWING = {
    "order of batches": ("sheaf_dmfl large steps of an epoch", ("training", "minibatches", "draws")),
    "dropout": ("sheaf_dmfl_att with dropout", ("training", "model", "encoders", "dropout")),
}


@pytest.mark.parametrize("stream", DRAWING)
def test_streams_that_begin_anew_lead_elsewhere(stream: str) -> None:
    case, place = DRAWING[stream]
    whole, resumed = recorded(case), fresh(case)
    anew = resumed.states()
    states = {i: changed(state, place, leaf(anew[i], place)) for i, state in whole.before.items()}
    resumed.restore(states)
    assert resumed.rounds(N_BEFORE, N_AFTER) != whole.shown


def test_running_statistics_that_begin_anew_lead_elsewhere() -> None:
    case = "dpsgd with statistics of its own"
    whole, resumed = recorded(case), fresh(case)
    states = copy.deepcopy(whole.before)
    for state in states.values():
        values = leaf(state, ("models", "fused", "model", "encoders", "values"))
        for name in [name for name in values if name.endswith("running_var")]:
            values[name] = np.ones_like(values[name])
    resumed.restore(states)
    assert resumed.rounds(N_BEFORE, N_AFTER) != whole.shown


# --- what does not fit ----------------------------------------------------------------------------------------------


def refused(learner: Learner, state: State) -> str:
    """The sentence with which a learner refuses a state; it must not have changed the learner."""
    before = leaves(learner.state())
    with pytest.raises(ConfigError, match=r"^state of a learner: .* must .*, got .*; restore") as error:
        learner.restore(state)
    assert leaves(learner.state()) == before
    return str(error.value)


@every_algorithm
def test_a_state_of_another_size_is_refused(algorithm: str) -> None:
    larger = wired(tiny({"algorithm": algorithm, "model.embedding_dim": 6})).emulation.learners[0]
    said = refused(larger, recorded(algorithm).before[0])
    assert "of shape" in said


OTHERS = {
    "sheaf_dmfl": ("local", "sheaf_dmfl_att", "sheaf_diffusion", "centralized", "sheaf_dmfl Kronecker maps"),
    "dpsgd": ("dsgd", "dpsgd_adapt_then_combine", "diffused_and_tuned"),
    "dsgd": ("local", "dmml_kd"),
    "centralized": ("local", "sheaf_prototypes"),
    "sheaf_dmfl Kronecker maps": ("sheaf_dmfl", "sheaf_dmfl dense maps"),
    "sheaf_dmfl dense maps": ("sheaf_dmfl", "sheaf_dmfl Kronecker maps"),
    "sheaf_dmfl plain steps": ("sheaf_dmfl",),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_state_of_another_algorithm_is_refused(case: str) -> None:
    learner = recorded(case).play.learners[0]
    for other in OTHERS[case]:
        refused(learner, recorded(other).before[0])


def test_a_client_beside_the_pool_refuses_what_only_the_first_one_holds() -> None:
    learners, states = recorded("centralized").play.learners, recorded("centralized").before
    refused(learners[1], states[0])
    refused(learners[0], states[1])


WRONG: tuple[Any, ...] = (
    {"no": "part"},
    "no such thing",
    [1, 2, 3],
    np.zeros((1, 2, 3, 4, 5), dtype=np.int8),
    np.array(["text"]),
    {},
)


@pytest.mark.parametrize(
    "case", ["sheaf_prototypes", "dpsgd", "diffused_and_tuned", "dmml_kd", "dsgd with dropout", "centralized"]
)
def test_a_state_with_one_wrong_part_is_refused_and_changes_nothing(case: str) -> None:
    """Wherever the wrong part stands, all that is read before it is taken back."""
    learner = recorded(case).play.learners[0]
    good = recorded(case).before[0]
    for index, place in enumerate(places(good)):
        value, wrong = leaf(good, place), WRONG[index % len(WRONG)]
        if index % 2 and isinstance(value, np.ndarray) and value.ndim and value.size:
            wrong = np.concatenate([value, value])
        if value is not None:
            refused(learner, changed(good, place, wrong))


HOSTILE: dict[str, tuple[tuple[Any, ...], Any]] = {
    "an order with a row twice": (("training", "minibatches", "order"), 0),
    "a place behind the epoch": (("training", "minibatches", "at"), 10**9),
    "a place before it": (("training", "minibatches", "at"), -1),
    "a stream of too many bits": (("training", "minibatches", "draws", "state"), "f" * 33),
    "a stream of endless text": (("training", "minibatches", "draws", "increment"), "f" * 10**6),
    "a negative stream": (("training", "minibatches", "draws", "state"), "-0x1"),
    "a half draw too long": (("training", "minibatches", "draws", "half"), 2**32),
    "a number that is a truth": (("training", "loss"), True),
    "a coordinate that a head does not have": (("coupling", "maps", "index"), 10**6),
    "a negative coordinate": (("coupling", "maps", "index"), -1),
    "maps without a start": (("coupling", "maps", "index"), None),
    "nothing at all": ((), None),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_values_that_fit_in_shape_only_are_refused(what: str) -> None:
    place, value = HOSTILE[what]
    whole = recorded("sheaf_dmfl")
    state = whole.before[0]
    if isinstance(leaf(state, place), np.ndarray) and value is not None:
        value = np.full_like(leaf(state, place), value)
    refused(whole.play.learners[0], changed(state, place, value))


@pytest.mark.parametrize("device", ["cuda:77", "meta", "nowhere", ""])
def test_a_stream_on_a_device_that_is_not_here_is_refused(device: str) -> None:
    whole = recorded("sheaf_dmfl_att with dropout")
    state = whole.before[0]
    place = next(place for place in places(state) if place[-1] == "device")
    refused(whole.play.learners[0], changed(state, place, device))


def test_a_stream_of_torch_that_stands_nowhere_is_refused() -> None:
    whole = recorded("sheaf_dmfl_att with dropout")
    state = whole.before[0]
    place = (*next(place for place in places(state) if place[-1] == "device")[:-1], "state")
    good = leaf(state, place)
    for bad in (good[:-1], np.zeros_like(good), np.full_like(good, 255)):
        refused(whole.play.learners[0], changed(state, place, bad))


def test_a_refusal_says_where_and_what() -> None:
    whole = recorded("diffused_and_tuned")
    place = ("sharing", "models", "fused", "model", "head")
    said = refused(whole.play.learners[0], changed(whole.before[0], place, np.zeros(3, dtype=np.float32)))
    assert said == (
        "state of a learner: sharing.models.fused.model.head must be float32 of shape [40], got float32 of shape [3];"
        " restore a state only into the client and scenario that it was taken from"
    )
