"""Models that clients start from, where a scenario names some: those of a finished run, or one of them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load

from ...emulator.contracts import DataError, Modality, NodeId
from ...emulator.regular_file import is_folder, is_regular, read_regular, reason, shown
from ...models.client_model import ClientModel
from ...models.state.start_weights import StartWeights

#: What a path may hold in place of the number of the run's seed.
SEED = "{seed}"
#: Folder of a run with the weights of its clients, and the name of each.
WEIGHTS, _OF_CLIENT = "weights", re.compile(r"client-(\d+)\.safetensors")
MOST_MODEL_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class StartedModels:
    """Models to start from; each file is read once.

    Attributes:
        files: number of a client -> file of its weights; a single file has the number 0.
        scaling: whether constants that scale inputs are taken, too.
    """

    files: dict[NodeId, Path]
    scaling: bool
    _read: dict[NodeId, StartWeights] = field(default_factory=dict)

    @classmethod
    def at(cls, start_from: str, seed: int, *, scaling: bool) -> StartedModels:
        """Models that `model.start_from` names.

        Raises:
            DataError: there are none.
        """
        path = start_path(start_from, seed)
        if is_regular(path):
            return cls({0: path}, scaling)
        models = path / WEIGHTS
        found = sorted(models.iterdir()) if is_folder(models) else []
        matches = ((_OF_CLIENT.fullmatch(file.name), file) for file in found)
        files = {int(match[1]): file for match, file in matches if match}
        if not files:
            raise DataError(
                f"model.start_from = {start_from!r} holds no trained weights at {shown(path)}; give the folder of a"
                " finished run with export.onnx = true, or a file of its folder weights"
            )
        return cls(files, scaling)

    def put_into(self, model: ClientModel, client_id: NodeId, modalities: Sequence[Modality]) -> None:
        """Give a model of a client the weights to start from.

        Taken is the client of the same number where its model has the same inputs, otherwise the first that has.

        Raises:
            DataError: no model there has these inputs, or its weights do not fit.
        """
        wanted = tuple(str(modality) for modality in modalities)
        numbers = [number for number in (client_id, *sorted(self.files)) if number in self.files]
        for number in numbers:
            weights = self._weights(number)
            if sorted(weights.inputs) == sorted(wanted):
                weights.put_into(model, scaling=self.scaling)
                return
        first = self._weights(numbers[0])
        raise DataError(
            f"model.start_from has no model of {' and '.join(wanted)}, which client {client_id} owns; {first.source} is"
            f" of {' and '.join(first.inputs)}; change clients.groups, or start from another run"
        )

    def _weights(self, number: NodeId) -> StartWeights:
        if number not in self._read:
            file = self.files[number]
            try:
                content = read_regular(file, MOST_MODEL_BYTES)
            except OSError as error:
                raise DataError(f"{shown(file)}, of model.start_from, cannot be read ({reason(error)})") from None
            try:
                self._read[number] = StartWeights(shown(file), load(content))
            except (SafetensorError, KeyError, ValueError, AttributeError, TypeError) as error:
                raise DataError(
                    f"{shown(file)}, of model.start_from, holds no weights ({reason(error)}); give a run folder or a"
                    " file of its folder weights"
                ) from None
        return self._read[number]


def start_path(start_from: str, seed: int) -> Path:
    """Path that `model.start_from` names in a run of this seed."""
    name = start_from.replace(SEED, str(seed))
    return Path(os.path.expanduser(name))  # noqa: PTH111 - Path's own raises for an unknown user
