"""Rules about rows of tables and images: data that no sensor here recorded."""

from __future__ import annotations

from ...emulator.modalities import SENSED_MODALITIES
from .rule import Rule
from .scenario_fields import ScenarioFields

ROW_RULES: tuple[Rule[ScenarioFields], ...] = (
    Rule(
        "clients.groups",
        lambda s: (
            {"group": group.name, "encoder": group.encoder, "sensor": modality}
            for group in s.clients.groups
            for modality in group.modalities
            if group.encoder and modality in SENSED_MODALITIES
        ),
        "clients.groups: {group!r} sets encoder = {encoder!r}, which takes rows of a table or images, but owns"
        " {sensor!r}, whose encoder is fixed; leave it out",
    ),
)
