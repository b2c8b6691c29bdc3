"""The tasks that a scenario can name. A new one is a file beside this, a row here, and its encoders."""

from __future__ import annotations

from collections.abc import Mapping

from .beams import BeamPrediction, BeamTracking
from .blockage import Blockage
from .task import Task

TASKS: Mapping[str, Task] = {
    "blockage": Blockage(),
    "beam_tracking": BeamTracking(),
    "beam_prediction": BeamPrediction(),
}
