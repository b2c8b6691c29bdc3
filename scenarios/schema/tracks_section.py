"""Section `world.tracks`: vehicles and people of a street out of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from ...emulator.world.track_classes import TrackClassName
from .section import Section

#: Folder of the tracks that come with the package.
SHIPPED_TRACKS = Path(__file__).parents[1] / "shipped" / "tracks"
_Finite = Annotated[float, Field(ge=-1e8, le=1e8)]


class TracksSection(Section):
    """Vehicles and people of a street out of a file, in the place of those that are drawn.

    Attributes:
        file: floating-car data of SUMO (`.xml`, `.xml.gz`), or a table (`.csv`) with the columns time_s, id, kind, x_m,
            y_m, heading_deg; a name that ships, such as "two_lanes"; empty: traffic is drawn at random.
        start_s: instant of the file's clock at which the recording begins.
        places: where base stations stand in coordinates of the file, and where they face: x in m, y in m, and degrees
            clockwise from the file's +y; one for each, or one for all.
        classes: names of types in the file, and the class of SUMO whose size and kind they have.
    """

    file: Annotated[str, Field(max_length=4096)] = ""
    start_s: Annotated[float, Field(ge=-1e9, le=1e10)] = 0.0
    places: Annotated[
        tuple[tuple[_Finite, _Finite, _Finite], ...],
        Field(min_length=1, max_length=1000, examples=["places = [[120.0, 48.5, 90.0]]"]),
    ] = ((0.0, 0.0, 0.0),)
    classes: Annotated[
        dict[str, TrackClassName], Field(max_length=1000, examples=['classes = { gas = "passenger" }'])
    ] = Field(default_factory=dict)

    @property
    def path(self) -> Path:
        """File of the tracks: the one that ships, if it is named so."""
        shipped = SHIPPED_TRACKS / f"{self.file}.xml.gz"
        return shipped if Path(self.file).name == self.file and shipped.is_file() else Path(self.file)

    def place(self, index: int) -> tuple[float, float, float]:
        """Place of a base station by its number."""
        return self.places[index if len(self.places) > 1 else 0]
