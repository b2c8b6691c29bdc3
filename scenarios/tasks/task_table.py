"""The tasks that a scenario can name. A new one is a file beside this, a row here, and its encoders."""

from __future__ import annotations

from .beam_tasks import BeamPrediction, BeamTracking
from .blockage_task import Blockage
from .outage_task import OutageForecast
from .row_tasks import Classification, NodeClassification, Regression
from .task_spec import SensorTask, Task

#: About what sensors recorded.
SENSOR_TASKS: dict[str, SensorTask] = {
    "blockage": Blockage(),
    "outage_forecast": OutageForecast(),
    "beam_tracking": BeamTracking(),
    "beam_prediction": BeamPrediction(),
}

TASKS: dict[str, Task] = {
    **SENSOR_TASKS,
    "classification": Classification(),
    "node_classification": NodeClassification(),
    "regression": Regression(),
}
