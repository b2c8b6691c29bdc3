"""One emulated street as a ray tracer saw it: its geometry as scenes, its paths, and exact losses behind boxes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sheafedge.emulator.world.scene import Facade, Scene, Surroundings


@dataclass(frozen=True)
class Instant:
    """An instant of the street: its scene, what is special about it, the paths found and the loss behind the box.

    `paths` are dicts with the complex gain `re` and `im` and the delay `tau`; `loss_db` are dicts with the loss of the
    direct path by the kind of box that `label` says, `thick` as it is and `sheet` as a thin screen, or None where
    nothing blocks. `model_b_db` is the loss by all boxes, as model B had it when the street was traced.
    """

    label: str
    scene: Scene
    paths: list[dict[str, Any]]
    loss_db: dict[str, float] | None
    model_b_db: float


def ray_traced_instants(folder: Path) -> list[Instant]:
    """Every instant of `street_site0.json`."""
    tree = json.loads((folder / "street_site0.json").read_text(encoding="utf-8"))
    geometry, losses = tree["geometry"], tree["line_of_sight_blockage"]
    by_frame = {loss["j"]: loss for loss in losses if loss}
    return [
        Instant(frame["label"], _scene(geometry, frame), traced["paths"], by_frame.get(index), frame["los_blockage_db"])
        for index, (frame, traced) in enumerate(zip(geometry["frames"], tree["specular_paths"], strict=True))
    ]


def _scene(geometry: dict[str, Any], frame: dict[str, Any]) -> Scene:
    boxes = frame["boxes"]
    n_boxes = len(boxes)

    def of_boxes(name: str) -> Any:
        return np.array([box[name] for box in boxes], dtype=float).reshape(1, n_boxes, 3)

    return Scene(
        time_s=np.array([frame["t"]]),
        center_m=of_boxes("c"),
        size_m=of_boxes("s"),
        velocity_m_per_s=of_boxes("v"),
        kind=np.array([box["kind"] for box in boxes], dtype=np.uint8).reshape(1, n_boxes),
        present=np.ones((1, n_boxes), dtype=bool),
        base_station_m=np.array(geometry["bs"]),
        user_m=np.array([frame["user"]]),
        surroundings=Surroundings(
            facades=tuple(Facade(**wall) for wall in geometry["facades"]), ground_material=geometry["ground"]
        ),
    )
