"""Two models of one client that predict together, such as one trained with its neighbors and one on its own rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..emulator.contracts import Modality, State
from ..emulator.saved_state import SavedState
from .client_model import ClientModel
from .head import HeadLayout
from .objectives import class_logits
from .state.tensors import restore_tensor, to_array

#: What is tried when the share of the shared twin is chosen: certainty either way would trust a few rows too much.
SHARES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
#: Models that have seen their rows often are too sure of themselves, the own twin most of all.
TEMPERATURES = (1.0, 2.0, 4.0)


class TwinModel(nn.Module):
    """Mixture of the class probabilities of two models of the same shape.

    Args:
        shared: trained together with neighbors.
        own: trained alone, or as it was before it was.

    Attributes:
        share: [] weight of the shared twin's probabilities, in (0, 1).
        temperatures: [2] of the shared and of the own twin.
    """

    def __init__(self, shared: ClientModel, own: ClientModel) -> None:
        super().__init__()
        self.shared, self.own = shared, own
        self.register_buffer("share", shared.head.detach().new_tensor(0.5))
        self.register_buffer("temperatures", shared.head.detach().new_ones(2))
        self.share: Tensor
        self.temperatures: Tensor

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Of both."""
        return self.shared.modalities

    @property
    def layout(self) -> HeadLayout:
        """Of both heads."""
        return self.shared.layout

    @property
    def head(self) -> nn.Parameter:
        """Of the shared twin: the one that neighbors see."""
        return self.shared.head

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Logits [batch, n_outputs] of the mixture, inputs in physical units."""
        return blended(self.shared(inputs), self.own(inputs), self.share, self.temperatures)

    def choose_share(self, shared: Tensor, own: Tensor, loss: Callable[[Tensor], Tensor]) -> None:
        """Take the mixture with the smallest loss on rows that neither twin was trained on.

        Args:
            shared, own: [n, n_outputs] logits of the twins on these rows.
            loss: logits [n, n_outputs] -> mean loss [].
        """
        best = math.inf
        for share, first, second in itertools.product(SHARES, TEMPERATURES, TEMPERATURES):
            tried = shared.new_tensor(share), shared.new_tensor([first, second])  # on the logits' device
            found = float(loss(blended(shared, own, *tried)))
            if found < best:
                best = found
                self.share.copy_(tried[0])
                self.temperatures.copy_(tried[1])

    def state(self) -> State:
        """Weights of the twins; their parameters belong to the state of their training."""
        return {"share": to_array(self.share), "temperatures": to_array(self.temperatures)}

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts("share", "temperatures")
        restore_tensor(self.share, parts["share"])
        restore_tensor(self.temperatures, parts["temperatures"])


def blended(shared: Tensor, own: Tensor, share: Tensor, temperatures: Tensor) -> Tensor:
    """Logits [batch, n_outputs] of a mixture of two classifiers' probabilities; one output is yes or no.

    Args:
        shared, own: [batch, n_outputs] logits.
        share: [] of the first, in (0, 1).
        temperatures: [2] that their logits are divided by.

    >>> logits = blended(torch.tensor([[4.0]]), torch.tensor([[-4.0]]), torch.tensor(0.5), torch.ones(2))
    >>> logits.item()  # the twins contradict each other
    0.0
    """
    first = _log_probabilities(shared / temperatures[0]) + torch.log(share)
    second = _log_probabilities(own / temperatures[1]) + torch.log1p(-share)
    mixture = torch.logsumexp(torch.stack([first, second]), dim=0)
    # back to one logit: the difference of the two classes
    return mixture[:, 1:] - mixture[:, :1] if shared.shape[1] == 1 else mixture


def _log_probabilities(logits: Tensor) -> Tensor:
    """[batch, n_classes]."""
    return functional.log_softmax(class_logits(logits), dim=1)
