"""Everything that a plugin needs beside the parts it is made of: `from sheafedge.plugins import Plugin, ...`.

A plugin is a Python file that defines `PLUGIN = Plugin(...)`, or an entry point of the group `sheafedge.plugins` that
names such a value. `docs/plugins.md` has an example of each kind. Nothing here imports torch.
"""

from __future__ import annotations

from .datasets.rows.federated_rows import FederatedRows, RowDataset, RowRequest
from .emulator.contracts import Channel, ConfigError, DataError, Learner, MessageKind
from .emulator.network.channels.packet_channel import LinkSettings, PacketChannel
from .emulator.network.loss import IidLoss, Lossless, LossProcess
from .models.algorithms.algorithm import Algorithm
from .scenarios.plugins.loading import load_installed, load_plugin
from .scenarios.plugins.plugin import Plugin
from .scenarios.schema.link_models import Direction, LinkModel
from .scenarios.tasks.row_tasks import Classification, Regression
from .scenarios.tasks.task_spec import Column, Outputs, SensorTask, Task

__all__ = [
    "Algorithm",
    "Channel",
    "Classification",
    "Column",
    "ConfigError",
    "DataError",
    "Direction",
    "FederatedRows",
    "IidLoss",
    "Learner",
    "LinkModel",
    "LinkSettings",
    "LossProcess",
    "Lossless",
    "MessageKind",
    "Outputs",
    "PacketChannel",
    "Plugin",
    "Regression",
    "RowDataset",
    "RowRequest",
    "SensorTask",
    "Task",
    "load_installed",
    "load_plugin",
]
