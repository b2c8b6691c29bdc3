"""`Trees`: a row of trees, or a hedge, along the far side of a street, as one frozen value that checks itself."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts import ConfigError
from ..ranges import check_ranges


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees between the roadway and the user.

    Attributes:
        spacing_m: distance from trunk to trunk, half a step beside the user; 0: no trees.
        setback_m: distance of the trunks from the far edge of the roadway.
        crown_width_m: width of the crowns along and across the street; with a spacing as small they are a hedge.
        crown_bottom_m, crown_top_m: heights between which there are leaves.
        trunk_width_m: width of the trunks below the crowns; 0: none.
        db_per_m: loss of radio waves per metre of leaves, at first.
        most_db: loss that no depth of leaves exceeds, because some power passes around.

    Raises:
        ConfigError: a value outside its range, or a crown without height.

    Source: sizes and losses are our choice, of the order that is reported from 28 to 60 GHz; trees differ widely.
    """

    spacing_m: float = 0.0
    setback_m: float = 1.0
    crown_width_m: float = 3.0
    crown_bottom_m: float = 2.0
    crown_top_m: float = 6.0
    trunk_width_m: float = 0.25
    db_per_m: float = 4.0
    most_db: float = 30.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        check_ranges("trees", self, _RANGES)
        if not (self.spacing_m == 0.0 or self.spacing_m >= LEAST_SPACING_M):
            raise ConfigError(
                f"trees.spacing_m must be 0, for no trees, or at least {LEAST_SPACING_M:g}, got {self.spacing_m}"
            )
        if self.crown_bottom_m >= self.crown_top_m:
            raise ConfigError(
                f"trees.crown_bottom_m must be below trees.crown_top_m, got {self.crown_bottom_m} and"
                f" {self.crown_top_m}"
            )


LEAST_SPACING_M = 1.0
#: Lowest and highest value of each number.
_RANGES: dict[str, tuple[float, float]] = {
    "spacing_m": (0, 100),
    "setback_m": (0, 50),
    "crown_width_m": (0.2, 20),
    "crown_bottom_m": (0, 30),
    "crown_top_m": (0.2, 40),
    "trunk_width_m": (0, 2),
    "db_per_m": (0, 50),
    "most_db": (0, 100),
}
#: A world without trees.
NO_TREES = Trees()
