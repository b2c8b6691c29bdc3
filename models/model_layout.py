"""What every coordinate of a whole model's vector means, and which of them two models have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .client_model import ClientModel
from .head import HeadLayout, shared_coordinates


@dataclass(frozen=True, slots=True)
class ModelLayout:
    """Meaning of the coordinates of `WholeModel.vector`: parameters of encoders, then of the fusion, then the head.

    Attributes:
        blocks: (name, shape) of all parameters before the head, in order. Those of a fusion are named by modality,
            because clients own different ones.
        head: of the head behind them.

    >>> layout = ModelLayout((("gps.0.weight", (3, 2)),), HeadLayout(2, (("fused", 3),)))
    >>> layout.dim
    14
    """

    blocks: tuple[tuple[str, tuple[int, ...]], ...]
    head: HeadLayout

    @property
    def dim(self) -> int:
        """Coordinates of the whole vector."""
        return sum(_size(shape) for _, shape in self.blocks) + self.head.dim


#: What a sheaf may couple, and what its coordinates mean.
Layout = HeadLayout | ModelLayout


def model_layout(model: ClientModel) -> ModelLayout:
    """Layout of the vector of a model."""
    blocks = [(f"encoder {name}", tuple(parameter.shape)) for name, parameter in model.encoders.named_parameters()]
    # one modality alone is not weighed: no parameters of the fusion are trained, see `trained_part`
    for name, parameter in model.fusion.named_parameters() if len(model.modalities) > 1 else ():
        # one slice for every modality, in canonical order
        blocks += [(f"fusion {name} {modality}", tuple(parameter.shape[1:])) for modality in model.modalities]
    return ModelLayout(tuple(blocks), model.layout)


def common_coordinates(
    own: Layout, peer: Layout, own_outputs: Sequence[int] | None = None, peer_outputs: Sequence[int] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Coordinates that two heads, or two whole models, have in common.

    Parameters of encoders and fusions are the same where name and shape are, heads as in `shared_coordinates`.

    Args:
        own, peer: of one kind.
        own_outputs, peer_outputs: [n_outputs] what every class of each is about; None: its number.

    Returns:
        two [n_shared] arrays of indices, into the own and into the peer's vector; equal positions mean the same.
    """
    if isinstance(own, HeadLayout) or isinstance(peer, HeadLayout):
        assert isinstance(own, HeadLayout)
        assert isinstance(peer, HeadLayout)
        return shared_coordinates(own, peer, own_outputs, peer_outputs)
    own_at, peer_at = _places(own), _places(peer)
    common = [block for block in own.blocks if block in peer_at]
    in_own, in_peer = shared_coordinates(own.head, peer.head, own_outputs, peer_outputs)
    return (
        _indices(common, own_at, in_own + own.dim - own.head.dim),
        _indices(common, peer_at, in_peer + peer.dim - peer.head.dim),
    )


def _indices(
    common: Sequence[tuple[str, tuple[int, ...]]],
    first: Mapping[tuple[str, tuple[int, ...]], int],
    in_head: NDArray[np.int64],
) -> NDArray[np.int64]:
    """[n_shared] coordinates of these blocks, then those of the head."""
    of_blocks = [np.arange(first[block], first[block] + _size(block[1]), dtype=np.int64) for block in common]
    return np.concatenate([*of_blocks, in_head])


def _places(layout: ModelLayout) -> dict[tuple[str, tuple[int, ...]], int]:
    """Block -> first coordinate."""
    places, at = {}, 0
    for name, shape in layout.blocks:
        places[name, shape] = at
        at += _size(shape)
    return places


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))
