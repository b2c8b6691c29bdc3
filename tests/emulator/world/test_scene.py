"""A scene's plain geometry: which boxes stand in the line of sight."""

from __future__ import annotations

import pytest
from doubles.radio_scenes import street
from sheafedge.emulator.world.scene import Kind, blockers

TALL_M = (4.0, 2.0, 6.0)


@pytest.mark.parametrize(("carrier", "blocks"), [(Kind.TARGET, False), (Kind.CAR, True)])
def test_the_box_that_carries_the_transmitter_never_blocks_it(carrier: Kind, blocks: bool) -> None:
    boxes = [(carrier, 0.0, 20.0, TALL_M), (Kind.BUS, 0.0, 10.0, TALL_M), (Kind.BUS, 9.0, 10.0, TALL_M)]
    scene = street(boxes, station=(0.0, 0.0, 5.0), user=(0.0, 20.0, 1.5))
    assert blockers(scene).tolist() == [[blocks, True, False]]
