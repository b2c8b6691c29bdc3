"""Boxes that stand for the vehicles and people of traffic simulators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from .scene import Kind

TrackClassName = Literal[
    "passenger", "taxi", "delivery", "emergency", "truck", "trailer", "bus", "coach", "tram",
    "motorcycle", "moped", "bicycle", "pedestrian",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrackClass:
    """Class of vehicles or people.

    Attributes:
        kind: kind of its box: what sensors and radio take it for.
        size_m: length, width and height.
    """

    kind: Kind
    size_m: tuple[float, float, float]


#: Two-wheelers are of the kind of people: they scatter, and do not mirror as bodywork does.
#: Source: sizes are SUMO's defaults of each vehicle class; people are as wide as in our own streets.
TRACK_CLASSES: Mapping[TrackClassName, TrackClass] = {
    "passenger": TrackClass(Kind.CAR, (5.0, 1.8, 1.5)),
    "taxi": TrackClass(Kind.CAR, (5.0, 1.8, 1.5)),
    "delivery": TrackClass(Kind.VAN, (6.5, 2.16, 2.86)),
    "emergency": TrackClass(Kind.VAN, (6.5, 2.16, 2.86)),
    "truck": TrackClass(Kind.VAN, (7.1, 2.4, 2.4)),
    "trailer": TrackClass(Kind.BUS, (16.5, 2.55, 4.0)),
    "bus": TrackClass(Kind.BUS, (12.0, 2.5, 3.4)),
    "coach": TrackClass(Kind.BUS, (14.0, 2.6, 4.0)),
    "tram": TrackClass(Kind.BUS, (22.0, 2.4, 3.2)),
    "motorcycle": TrackClass(Kind.PEDESTRIAN, (2.2, 0.9, 1.5)),
    "moped": TrackClass(Kind.PEDESTRIAN, (2.1, 0.8, 1.7)),
    "bicycle": TrackClass(Kind.PEDESTRIAN, (1.6, 0.65, 1.7)),
    "pedestrian": TrackClass(Kind.PEDESTRIAN, (0.4, 0.4, 1.72)),
}
#: Names that SUMO and its tools give to types, and other words for the same.
_SYNONYMS: Mapping[str, TrackClassName] = {
    "DEFAULT_VEHTYPE": "passenger",
    "DEFAULT_TAXITYPE": "taxi",
    "DEFAULT_BIKETYPE": "bicycle",
    "DEFAULT_PEDTYPE": "pedestrian",
    "car": "passenger",
    "van": "delivery",
    "person": "pedestrian",
}


def class_of(kind: str, is_person: bool, own: Mapping[str, TrackClassName]) -> TrackClass | None:
    """Class of a type by its name; None for a name that says nothing.

    Args:
        kind: the file's name of the type; empty: the usual one, a passenger car or a pedestrian.
        is_person: whether the file lists it among people.
        own: classes of types that the user has named, which come first.
    """
    if kind in own:
        return TRACK_CLASSES[own[kind]]
    if not kind:
        return TRACK_CLASSES["pedestrian" if is_person else "passenger"]
    # tools of SUMO write prefixes, as in veh_passenger or bus_bus
    for name in (kind, kind.rpartition("_")[2]):
        known = _SYNONYMS.get(name) or next((one for one in get_args(TrackClassName) if one == name), None)
        if known:
            return TRACK_CLASSES[known]
    return None
