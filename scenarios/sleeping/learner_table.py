"""Learners of many clients of which few are awake: the others are rows of bytes, or nothing before they first train.

A learner's state is all that changes in it (`contracts.Learner.state`), so that one which is built anew and restored
goes on bit for bit. Results do not depend on who is awake.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import Learner, NodeId, State
from ...emulator.saved_state import SavedState
from ...emulator.state_tree import packed_tree, unpacked_tree
from ...models.client_model import ClientModel
from ..links.senders import Cell, link_models
from ..schema.link_models import LINK_MODELS
from ..schema.scenario import Scenario
from .model_pool import ModelPool, Models


def clients_sleep(scenario: Scenario) -> bool:
    """Whether clients of a run are put away while they take no part: of many, and where they hold nothing in common.

    Those with maps to neighbors, a second model, sensors that go on or links that go by events are kept as they are.
    """
    spec, section, links, server = scenario.algorithm_spec, scenario.clients, scenario.links, scenario.server_id
    few_take_part = 0 < section.sampled < section.n_clients > scenario.compute.awake_clients
    made_one_by_one = spec.server_alone is not None or (spec.only_averages and not spec.links_groups)
    stays = scenario.data.mode == "replay" and scenario.topology.kind != "mobile"
    cell = None if server is None else Cell(server, scenario.server)
    shares_a_medium = links.medium != "own" or (cell is not None and cell.section.medium != "own")
    by_load = any(LINK_MODELS[model].depends_on_load for model in link_models(links, cell))
    goes_by_events = links.priorities or shares_a_medium or by_load
    return few_take_part and made_one_by_one and stays and not goes_by_events


class Awake(NamedTuple):
    """A client as it is played.

    Attributes:
        learner: its learner.
        models: name -> the models that it trains.
    """

    learner: Learner
    models: Models


class LearnerTable(Sequence[Learner]):
    """Learners of all clients, by number; what is asked of one that sleeps is answered by a copy of it.

    Args:
        n_clients: number of clients.
        build: builds a client of its models, as it is before its first round.
        pool: gives it the models, and takes back those of clients that fall asleep.
        server: the learner that follows those of the clients, always awake; None: there is none.
    """

    def __init__(
        self, n_clients: int, build: Callable[[NodeId, Models], Awake], pool: ModelPool, server: Learner | None = None
    ) -> None:
        self._n_clients, self._build, self.pool = n_clients, build, pool
        self.server = server
        self._awake: dict[NodeId, Awake] = {}
        self._rows: dict[NodeId, bytes] = {}

    @property
    def n_awake(self) -> int:
        """Clients that are awake now."""
        return len(self._awake)

    @property
    def row_bytes(self) -> int:
        """Bytes of all rows."""
        return sum(map(len, self._rows.values()))

    @property
    def n_rows(self) -> int:
        """Clients that sleep and have trained."""
        return len(self._rows)

    def wake(self, client: NodeId) -> Learner:
        """The learner of a client, to be played; it stays awake until `sleep`."""
        if client == self._n_clients and self.server is not None:
            return self.server
        if client not in self._awake:
            self._awake[client] = self._restored(client, self.pool.taken(client))
            self._rows.pop(client, None)
        return self._awake[client].learner

    def sleep(self, client: NodeId) -> None:
        """Put a client away; its learner is not called any more."""
        awake = self._awake.pop(client)
        self._rows[client] = packed(awake.learner.state())
        self.pool.give_back(client, awake.models)

    def sleep_but(self, kept: Collection[NodeId]) -> list[NodeId]:
        """Put all away but these; returns who was put away."""
        away = [client for client in self._awake if client not in kept]
        for client in away:
            self.sleep(client)
        return away

    def models(self, client: NodeId) -> Mapping[str, ClientModel]:
        """The models of a client as they are now; of one that sleeps, copies."""
        return self._found(client).models

    def state(self) -> State:
        """Rows of all clients that ever were awake, one after the other."""
        rows = {**self._rows, **{client: packed(one.learner.state()) for client, one in self._awake.items()}}
        ordered = sorted(rows)
        return {
            "clients": np.array(ordered, dtype=np.int64),
            "sizes": np.array([len(rows[client]) for client in ordered], dtype=np.int64),
            "rows": np.frombuffer(b"".join(rows[client] for client in ordered), dtype=np.uint8),
            "server": None if self.server is None else self.server.state(),
        }

    def restore(self, saved: SavedState) -> None:
        """Continue from a state, with all clients asleep."""
        parts = saved.parts("clients", "sizes", "rows", "server")
        clients, sizes = (parts[name].array(np.dtype(np.int64), None) for name in ("clients", "sizes"))
        rows = parts["rows"].array(np.dtype(np.uint8), int(sizes.sum()))
        ends = np.cumsum(sizes)
        self._awake.clear()
        self._rows = {
            client: rows[end - size : end].tobytes()
            for client, size, end in zip(clients.tolist(), sizes.tolist(), ends.tolist(), strict=True)
        }
        if self.server is not None:
            self.server.restore(parts["server"].state)

    def __len__(self) -> int:
        return self._n_clients + (self.server is not None)

    @overload
    def __getitem__(self, index: int) -> Learner: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Learner]: ...

    def __getitem__(self, index: int | slice) -> Learner | Sequence[Learner]:
        if isinstance(index, slice):
            return _Some(self, range(len(self))[index])
        node = range(len(self))[index]
        if node == self._n_clients:
            assert self.server is not None, "its number is within the length"
            return self.server
        return self._found(node).learner

    def _found(self, client: NodeId) -> Awake:
        # a copy that is asked for may be kept, so nobody else's models become its own
        return self._awake[client] if client in self._awake else self._restored(client, self.pool.new(client))

    def _restored(self, client: NodeId, models: Models) -> Awake:
        built = self._build(client, models)
        if client in self._rows:
            built.learner.restore(unpacked(self._rows[client]))
        return built


class _Some(Sequence[Learner]):
    """Some learners of a table, each woken when it is asked for."""

    def __init__(self, table: LearnerTable, nodes: Sequence[NodeId]) -> None:
        self._table, self._nodes = table, nodes

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> Learner: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Learner]: ...

    def __getitem__(self, index: int | slice) -> Learner | Sequence[Learner]:
        if isinstance(index, slice):
            return _Some(self._table, self._nodes[index])
        return self._table[self._nodes[index]]


class ModelsOnDemand(Mapping[str, ClientModel]):
    """Models of a client that may sleep, as they are when they are asked for.

    Args:
        names: of the models.
        found: gives all of them.
    """

    def __init__(self, names: Collection[str], found: Callable[[], Mapping[str, ClientModel]]) -> None:
        self._names, self._found = names, found

    def __getitem__(self, name: str) -> ClientModel:
        if name not in self._names:
            raise KeyError(name)
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def packed(state: State) -> bytes:
    """A state as one row of bytes: what `unpacked` reads.

    >>> unpacked(packed({"at": 3, "moments": [np.zeros(2, dtype=np.float32)]}))
    {'at': 3, 'moments': [array([0., 0.], dtype=float32)]}
    """
    text, arrays = packed_tree(state)
    kinds = _kinds(tuple((array.dtype.str, array.shape) for array in arrays))
    head = len(text).to_bytes(4, "little") + len(kinds).to_bytes(4, "little")
    return b"".join([head, text, kinds, *(array.tobytes() for array in arrays)])


@lru_cache(maxsize=256)  # of clients of one group they are the same
def _kinds(of_arrays: tuple[tuple[str, tuple[int, ...]], ...]) -> bytes:
    return json.dumps(of_arrays).encode()


@lru_cache(maxsize=256)
def _layout(kinds: bytes) -> list[tuple[np.dtype[Any], tuple[int, ...], int]]:
    """Type, shape and number of elements of each array of a row."""
    return [(np.dtype(kind), tuple(shape), math.prod(shape)) for kind, shape in json.loads(kinds)]


def unpacked(row: bytes) -> State:
    """The state again; its arrays are views of the row."""
    n_text, n_kinds = int.from_bytes(row[:4], "little"), int.from_bytes(row[4:8], "little")
    text, kinds = row[8 : 8 + n_text], row[8 + n_text : 8 + n_text + n_kinds]
    at = 8 + n_text + n_kinds
    arrays: list[NDArray[Any]] = []
    for dtype, shape, size in _layout(kinds):
        arrays.append(np.frombuffer(row, dtype, size, at).reshape(shape))
        at += size * dtype.itemsize
    return unpacked_tree(text, arrays)
