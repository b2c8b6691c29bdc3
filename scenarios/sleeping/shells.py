"""Models of clients that were put away, for the next ones of their kind: most of what waking costs is to make modules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from torch import Tensor

from ...emulator.contracts import NodeId
from ...models.client_model import ClientModel
from ...models.joint.joint_network import values_in

#: Name -> model of one client.
Models = Mapping[str, ClientModel]


class Shells:
    """Models that clients of one architecture wear one after the other.

    Args:
        make: client, used models of its kind or none -> its models before its first round.
        kind: client -> equal for clients whose models differ in nothing but values and what scales their inputs.
    """

    def __init__(self, make: Callable[[NodeId, Models], Models], kind: Callable[[NodeId], Hashable]) -> None:
        self._make, self._kind = make, kind
        self._free: dict[Hashable, list[Models]] = {}
        self._starts: dict[Hashable, dict[str, dict[str, Tensor]]] = {}

    @property
    def n_free(self) -> int:
        """Clients whose models nobody wears."""
        return sum(map(len, self._free.values()))

    def new(self, client: NodeId) -> Models:
        """Models of a client before its first round, that are nobody else's before or after."""
        models, kind = self._make(client, {}), self._kind(client)
        if kind not in self._starts:  # encoders of a kind start equal, and heads are put in beside
            self._starts[kind] = {
                name: {part: values.detach().clone() for part, values in values_in(model).items()}
                for name, model in models.items()
            }
        return models

    def worn(self, client: NodeId) -> Models:
        """The same, of models that were given back where there are some."""
        kind = self._kind(client)
        free = self._free.get(kind)
        if not free:
            return self.new(client)
        used = free.pop()
        for name, model in used.items():
            model.begin_anew(values_in(model), self._starts[kind][name])
        return self._make(client, used)

    def give_back(self, client: NodeId, models: Models) -> None:
        """Let others wear the models of a client that nobody uses any more."""
        self._free.setdefault(self._kind(client), []).append(models)
