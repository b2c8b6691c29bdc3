"""How nodes move, for `topology.kind = "mobile"`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .section import Section


class MobilitySection(Section):
    """Nodes that wander about, and talk to those in range.

    Attributes:
        area_m: width and depth of the rectangle that they stay in.
        range_m: how far they reach each other.
        speed_m_per_s: root mean square of their speeds.
        memory_s: time over which a node forgets where it was going.
        step_s: a node may turn so often, and goes straight ahead in between.
    """

    area_m: tuple[Annotated[float, Field(gt=0.0)], Annotated[float, Field(gt=0.0)]] = (200.0, 200.0)
    range_m: Annotated[float, Field(gt=0.0)] = 80.0
    speed_m_per_s: Annotated[float, Field(ge=0.0, le=1000.0)] = 10.0
    memory_s: Annotated[float, Field(gt=0.0)] = 10.0
    step_s: Annotated[float, Field(ge=0.001)] = 0.1
