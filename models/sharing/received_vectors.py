"""The vectors of a client as its server sent them, beside what the client goes on to make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from ...emulator.contracts import MessageKind, State
from ...emulator.saved_state import SavedState
from ..algorithms.algorithm import GLOBAL
from ..client_model import ClientModel
from ..state.tensors import restore_tensor, to_array
from .chained_learner import Inputs, Logits
from .vector_gossip import SharedVector


class ReceivedVectors:
    """Copies of shared vectors, made whenever they were received; before that, those of the start.

    Args:
        vectors: views of a model; they keep the values that the client gives them.
    """

    def __init__(self, vectors: Sequence[Tensor]) -> None:
        self._vectors = list(vectors)
        self._received = [vector.clone() for vector in self._vectors]

    def note(self) -> None:
        """Keep the values as they are now."""
        for kept, vector in zip(self._received, self._vectors, strict=True):
            kept.copy_(vector)

    def predict(self, models: Callable[[Inputs], Logits], inputs: Inputs) -> Logits:
        """Logits of the client's model, and under "global" those of the model as it was received."""
        now = models(inputs)
        trained = [vector.clone() for vector in self._vectors]
        self._fill(self._received)
        try:
            (received,) = models(inputs).values()
        finally:
            self._fill(trained)
        return {**now, GLOBAL: received}

    def state(self) -> State:
        return [to_array(kept) for kept in self._received]

    def restore(self, saved: SavedState) -> None:
        for kept, one in zip(self._received, saved.listed(len(self._received)), strict=True):
            restore_tensor(kept, one)

    def _fill(self, values: Sequence[Tensor]) -> None:
        for vector, one in zip(self._vectors, values, strict=True):
            vector.copy_(one)


def are_whole(shared: Sequence[SharedVector], model: ClientModel) -> bool:
    """Whether these vectors, without personal ones, are all that the model learns."""
    found = {(one.kind, one.modality) for one in shared if one.weights}
    whole = {(MessageKind.HEAD, None), *((MessageKind.ENCODER, modality) for modality in model.modalities)}
    if len(model.modalities) > 1 and any(True for _ in model.fusion.parameters()):
        whole.add((MessageKind.ATTENTION, None))
    return whole <= found
