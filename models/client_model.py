"""The multimodal model of one client: normalise, encode every modality, fuse, one linear head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from ..emulator.contracts import MODALITIES, Modality, State
from ..emulator.saved_state import SavedState
from .fusion import FUSIONS, head_layout
from .head import apply_head
from .state.module_state import module_state, restore_module
from .state.tensors import restore_tensor, to_array
from .training.training_rows import TrainingRows


class ClientModel(nn.Module):
    """Forward pass (4) or (5), then the head.

    Args:
        normalizers: modality -> module from physical units to network units; local, never averaged.
        encoders: modality -> module to an embedding [batch, embedding_dim]; averaged over the clients that own it.
        fusion: a name of `FUSIONS`.
        embedding_dim: l.
        n_outputs: C.

    >>> parts = {"gps": nn.Identity()}, {"gps": nn.Linear(2, 4)}
    >>> model = ClientModel(*parts, fusion="mean", embedding_dim=4, n_outputs=3)
    >>> model({"gps": torch.zeros(5, 2)}).shape, model.layout.dim
    (torch.Size([5, 3]), 15)
    """

    def __init__(
        self,
        normalizers: Mapping[Modality, nn.Module],
        encoders: Mapping[Modality, nn.Module],
        *,
        fusion: str,
        embedding_dim: int,
        n_outputs: int,
    ) -> None:
        super().__init__()
        # canonical order, whatever order the scenario names them in: fusions index by it
        self.modalities: tuple[Modality, ...] = tuple(m for m in MODALITIES if m in encoders)
        self.normalizers = nn.ModuleDict({str(m): normalizers[m] for m in self.modalities})
        self.encoders = nn.ModuleDict({str(m): encoders[m] for m in self.modalities})
        self.fusion = FUSIONS[fusion](self.modalities, embedding_dim)
        self.layout = head_layout(self.fusion, n_outputs)
        #: Shapes of a one-row sample -> operations of its forward pass. Models of one architecture may share this.
        self.forward_flops: dict[tuple[tuple[int, ...], ...], float] = {}
        self._shapes: tuple[tuple[int, ...], ...] | None = None
        #: Name of a weight -> its factors, where it is the tensor that these make; see `FactoredModel`.
        self.factors: Mapping[str, Sequence[Tensor]] = {}
        # zeros until the wiring fills in the initial head, common or not
        self.head = nn.Parameter(torch.zeros(self.layout.dim))

    def embeddings(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """[batch, n_modalities, embedding_dim], in canonical order of the client's modalities."""
        return torch.stack([self.encoders[m](self.normalizers[m](inputs[m])) for m in self.modalities], dim=1)

    def normalized(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Modality -> what its encoder gets, of inputs in physical units."""
        return {str(m): self.normalizers[m](inputs[m]) for m in self.modalities}

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Logits [batch, n_outputs] of inputs in physical units, one tensor per modality."""
        return self.answer(self.embeddings(inputs))

    def answer(self, embeddings: Tensor) -> Tensor:
        """Logits [batch, n_outputs] of embeddings [batch, n_modalities, embedding_dim]."""
        return self.read(self.fusion(embeddings))

    def read(self, fused: Tensor) -> Tensor:
        """Logits [batch, n_outputs] of what the head reads [batch, width]."""
        return apply_head(self.head, fused, self.layout.n_outputs)

    def tensors(self, inputs: Mapping[Modality, NDArray[np.float32]]) -> dict[str, Tensor]:
        """Modality -> [n, ...] inputs as tensors of the model's device and type."""
        return {str(m): torch.as_tensor(inputs[m]).to(self.head.device, self.head.dtype) for m in self.modalities}

    def reset(self, values: Mapping[str, Tensor], start: Mapping[str, Tensor]) -> None:
        """Become what the model was before its first round, for another client.

        Args:
            values: name -> parameter or buffer of the model.
            start: name -> what it was before the first round.
        """
        if not self.training:  # torch walks through all modules for it
            self.train()
        self.factors = {}
        with torch.no_grad():
            for name, own in values.items():
                own.copy_(start[name])
                own.grad = None

    def scale_by(self, normalizers: Mapping[Modality, nn.Module]) -> None:
        """Scale inputs by other statistics."""
        own = self.normalizers
        for modality in self.modalities:
            own[modality] = normalizers[modality]

    def state(self) -> State:
        """Parameters and buffers that training changes; normalizers never do, and may be a large frozen network."""
        return {
            "head": to_array(self.head),
            "fusion": module_state(self.fusion),
            "encoders": module_state(self.encoders),
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("head", "fusion", "encoders")
        restore_tensor(self.head, parts["head"])
        restore_module(self.fusion, parts["fusion"])
        restore_module(self.encoders, parts["encoders"])

    def step_flops(self, rows: TrainingRows, n_rows: int) -> float:
        """Floating-point operations of one step on so many rows like these, matrix work only.

        Work is proportional to rows, but for graphs, where every pass computes all nodes.
        """
        return self.training_flops(rows) * (1 if self.passes_all else n_rows)

    @property
    def passes_all(self) -> bool:
        """Whether a pass costs as much for one row as for all, as that of a graph does."""
        return any(getattr(encoder, "passes_all", False) for encoder in self.encoders.values())

    def training_flops(self, rows: TrainingRows) -> float:
        """Floating-point operations of one forward and backward pass of one of these rows, matrix work only.

        A backward pass counts as two forward passes: one for the inputs', one for the weights' gradients.
        """
        if self._shapes is None:  # those of all rows that it is ever given
            sample = self.tensors(rows.inputs(np.arange(1)))
            self._shapes = tuple(tuple(sample[m].shape) for m in self.modalities)
            if self._shapes not in self.forward_flops:
                self.forward_flops[self._shapes] = forward_flops(self, sample)
        return 3.0 * self.forward_flops[self._shapes]


def forward_flops(model: nn.Module, inputs: Mapping[str, Tensor] | Tensor) -> float:
    """Floating-point operations of one forward pass of these rows, matrix work only.

    The model is as it was afterwards: running statistics do not move, and it trains again if it did before.
    """
    trained = model.training
    model.eval()
    counter = _OperationCounter()  # type: ignore[no-untyped-call]  # torch leaves its class untyped
    try:
        with counter, torch.no_grad():
            model(inputs)
    finally:
        model.train(trained)
    return counter.total


class _OperationCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # the same
    """Sum of the operations inside the context, by the formulas of torch.

    `FlopCounterMode` of torch also attributes them to modules, by hooks that take longer than a small pass.
    """

    total = 0.0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        out = func(*args, **named)
        if count := flop_registry.get(func.overloadpacket):
            self.total += count(*args, **named, out_val=out)
        return out
