"""The frame of a codebook: a turn changes what a client reads and nothing that its neighbors are sent."""

from __future__ import annotations

import torch
from sheafedge.emulator.saved_state import SavedState
from sheafedge.models.client_model import ClientModel
from sheafedge.models.encoders.ordered_beams import OrderedBeams
from sheafedge.models.sheaf.beam_frame import BeamFrame
from torch import nn

PLACES = (2, 0, 3, 1)
ORDER = torch.argsort(torch.tensor(PLACES))


def model() -> ClientModel:
    parts = {"rf": OrderedBeams(nn.Identity(), ORDER.numpy())}, {"rf": nn.Flatten()}
    made = ClientModel(*parts, fusion="mean", embedding_dim=4, n_outputs=4)
    made.head.data.copy_(torch.randn(made.layout.dim, generator=torch.Generator().manual_seed(1)))
    return made


SWEEPS = {"rf": torch.tensor([[[10.0, 11.0, 12.0, 13.0]]])}


def test_sweeps_are_read_in_the_order_of_places_from_either_end() -> None:
    made = model()
    frame = BeamFrame(PLACES, made, is_trusted=True)
    assert made.embeddings(SWEEPS).flatten().tolist() == [11.0, 13.0, 10.0, 12.0]
    assert frame.place(torch.arange(4)).tolist() == [2, 0, 3, 1]
    frame.turn(made.head.data)
    assert made.embeddings(SWEEPS).flatten().tolist() == [12.0, 10.0, 13.0, 11.0]
    assert frame.place(torch.arange(4)).tolist() == [1, 3, 0, 2]


def test_a_turn_leaves_what_neighbors_see_of_the_head() -> None:
    made = model()
    frame, before = BeamFrame(PLACES, made, is_trusted=True), made.head.detach().clone()
    frame.turn(made.head.data)
    assert torch.equal(frame.upright(made.head.detach()), before)
    # the row of beam 0, at place 2, is now the one that was at place 1, of beam 3
    assert torch.equal(made.head[:4], before[12:16])
    assert not torch.equal(made.head.detach(), before)
    frame.turn(made.head.data)
    assert torch.equal(made.head.detach(), before)
    assert not frame.turned


def test_a_look_the_other_way_changes_nothing_for_good() -> None:
    made = model()
    frame, before = BeamFrame(PLACES, made, is_trusted=True), made.head.detach().clone()
    with frame.other_way():
        assert frame.turned
        assert made.embeddings(SWEEPS).flatten().tolist() == [12.0, 10.0, 13.0, 11.0]
    assert not frame.turned
    assert made.embeddings(SWEEPS).flatten().tolist() == [11.0, 13.0, 10.0, 12.0]
    assert torch.equal(made.head.detach(), before)


def test_a_saved_direction_is_that_of_the_sweeps_too() -> None:
    made, other = model(), model()
    frame = BeamFrame(PLACES, made, is_trusted=True)
    frame.turn(made.head.data)
    restored = BeamFrame(PLACES, other, is_trusted=True)
    for _ in range(2):  # a second time changes nothing
        restored.restore(SavedState(frame.state()))
        assert restored.turned
        assert torch.equal(other.embeddings(SWEEPS), made.embeddings(SWEEPS))
