"""Models of clients that were put away, for the next ones of their kind.

To make modules is most of what it costs to build a client, and of all that is in them only values differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping

from torch import Tensor

from ...emulator.contracts import NodeId
from ...models.client_model import ClientModel
from ...models.joint.joint_network import values_in

#: Name -> model of one client.
Models = Mapping[str, ClientModel]


class ModelPool:
    """Models that are used by one client after the other.

    Args:
        make: client, used models of its kind or none -> its models before its first round.
        kind: client -> equal for clients whose models differ in nothing but values and what scales their inputs.
    """

    def __init__(self, make: Callable[[NodeId, Models], Models], kind: Callable[[NodeId], Hashable]) -> None:
        self._make, self._kind = make, kind
        self._free: defaultdict[Hashable, list[Models]] = defaultdict(list)
        self._starts: dict[Hashable, dict[str, dict[str, Tensor]]] = {}

    def new(self, client: NodeId) -> Models:
        """Models of a client before its first round, built anew."""
        models, kind = self._make(client, {}), self._kind(client)
        if kind not in self._starts:  # what clients of a kind do not start with alike, `make` puts in
            self._starts[kind] = {
                name: {part: values.detach().clone() for part, values in values_in(model).items()}
                for name, model in models.items()
            }
        return models

    def taken(self, client: NodeId) -> Models:
        """The same in models that were given back, where there are some."""
        kind = self._kind(client)
        if not self._free[kind]:
            return self.new(client)
        used = self._free[kind].pop()
        for name, model in used.items():
            model.reset(values_in(model), self._starts[kind][name])
        return self._make(client, used)

    def give_back(self, client: NodeId, models: Models) -> None:
        """Leave the models of a client to others; nobody else uses them any more."""
        self._free[self._kind(client)].append(models)
