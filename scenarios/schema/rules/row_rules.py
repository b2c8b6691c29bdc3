"""Rules about rows of tables and images: data that no sensor here recorded."""

from __future__ import annotations

from collections.abc import Iterator

from ....datasets.rows.row_datasets import ROW_DATASETS
from ....emulator.contracts import MessageKind
from ....emulator.modalities import SENSED_MODALITIES
from ...tasks.task_spec import SensorTask
from ..scenario_fields import ScenarioFields
from .rule import Case, Rule

ROW_RULES: tuple[Rule[ScenarioFields], ...] = (
    # --- the task and the source ---
    Rule(
        "data.source",
        lambda s: s.data.source != "rows" and not _is_about_sensors(s),
        "task {s.task!r} is about rows of a data set, but data.source is {s.data.source!r}; set data.source = 'rows'"
        " and data.dataset",
    ),
    Rule(
        "task",
        lambda s: s.data.source == "rows" and _is_about_sensors(s),
        "data.source = 'rows' has no sensors, which task {s.task!r} is about; set task = 'classification',"
        " 'regression' or 'node_classification'",
    ),
    Rule(
        "data.dataset",
        lambda s: [{"known": ", ".join(ROW_DATASETS)}] if s.data.source == "rows" and not s.data.dataset else False,
        "data.dataset is empty; name one of {known}, such as --set data.dataset=file --set data.root=mine.npz",
    ),
    Rule(
        "data.root",
        lambda s: [{"root": _root_of(s)}] if _root_of(s) and not s.data.root else False,
        "data.root is empty; data.dataset = {s.data.dataset!r} needs {root}: --set data.root=PATH",
    ),
    Rule(
        "task",
        lambda s: _labels_of_another_task(s),
        "data.dataset = {s.data.dataset!r} has {labels}, which task {s.task!r} does not ask about; set task ="
        " {other!r}",
    ),
    # --- owners and parts ---
    Rule(
        "data.split",
        lambda s: (s.data.source == "rows") != (s.data.split == "auto") and not _rows_at_random(s),
        "data.split = {s.data.split!r} does not go with data.source = {s.data.source!r}; rows are split 'auto' or"
        " 'random', frames by 'sequence', 'time' or 'random'",
    ),
    Rule(
        "data.owners",
        lambda s: s.task_spec.labels == "values" and s.data.owners in {"classes", "classes_uneven", "dirichlet"},
        "data.owners = {s.data.owners!r} deals classes, which task {s.task!r} does not have; set it to 'natural',"
        " 'equal' or 'auto'",
    ),
    # --- models ---
    Rule(
        "clients.groups",
        lambda s: _several_inputs(s),
        "clients.groups: with data.source = 'rows' all groups have the one input of the data set, but {one!r} has"
        ' {owned} and {other!r} has {others}; give all of them modalities = ["table"] or all ["image"]',
    ),
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
    Rule(
        "clients.groups",
        lambda s: (
            {"group": group.name, "encoder": group.encoder}
            for group in s.clients.groups
            if group.encoder.startswith(("cnn", "vgg")) and "table" in group.modalities
        ),
        "clients.groups: {group!r} sets encoder = {encoder!r}, which takes images, but has rows of a table; set it to"
        " 'mlp' or 'identity', or modalities = [\"image\"]",
    ),
    Rule(
        "clients.groups",
        lambda s: _encoders_of_two_sizes(s),
        "algorithm {s.algorithm!r} averages encoders of {modality!r}, but {one!r} has {one_encoder!r} and {other!r} has"
        " {other_encoder!r}; give all groups one encoder, or keep them out with training.personal_encoders ="
        " [{modality!r}]",
    ),
    # --- graphs ---
    Rule(
        "clients.groups",
        lambda s: (
            {"group": group.name, "encoder": group.encoder}
            for group in s.clients.groups
            if group.encoder and (group.encoder == "gcn") != ("graph" in group.modalities)
        ),
        "clients.groups: {group!r} sets encoder = {encoder!r}, but nodes of a graph, and only they, are taken by 'gcn';"
        " leave it out",
    ),
    Rule(
        "algorithm",
        lambda s: s.algorithm_spec.pooled and _have_graphs(s),
        "algorithm {s.algorithm!r} trains one model for all clients, but a model of a graph knows the graph of one; use"
        " another, such as 'fedavg'",
    ),
    Rule(
        "export.onnx",
        lambda s: s.export.onnx and s.algorithm_spec.paired and _have_graphs(s),
        "export.onnx = true exports one model of a graph per client, but algorithm {s.algorithm!r} answers with"
        " the mean of two; set it to false",
    ),
    # --- values, or several questions at once, instead of classes ---
    Rule(
        "algorithm",
        lambda s: s.task_spec.labels != "classes" and s.algorithm_spec.needs_classes,
        "algorithm {s.algorithm!r} works on classes, which task {s.task!r} does not have; use another, such as"
        " 'sheaf_dmfl'",
    ),
    Rule(
        "training.class_weights",
        lambda s: s.task_spec.labels != "classes" and s.training.class_weights == "balanced",
        "training.class_weights = 'balanced' weighs classes, which task {s.task!r} does not have; set it to 'none'",
    ),
)


def _have_graphs(s: ScenarioFields) -> bool:
    return any("graph" in group.modalities for group in s.clients.groups)


def _is_about_sensors(s: ScenarioFields) -> bool:
    return isinstance(s.task_spec, SensorTask)


def _rows_at_random(s: ScenarioFields) -> bool:
    return s.data.source == "rows" and s.data.split == "random"


def _root_of(s: ScenarioFields) -> str:
    """What `data.root` must name; empty where it is not needed, or another rule asks first."""
    return ROW_DATASETS[s.data.dataset].root if s.data.source == "rows" and s.data.dataset else ""


def _labels_of(s: ScenarioFields) -> str:
    return ROW_DATASETS[s.data.dataset].labels if s.data.source == "rows" and s.data.dataset else "any"


def _asked(s: ScenarioFields) -> str:
    """Labels that the task asks about; "any" where another rule refuses it."""
    return _labels_of(s) if _is_about_sensors(s) else s.task_spec.labels


def _labels_of_another_task(s: ScenarioFields) -> list[Case]:
    labels = _labels_of(s)
    if labels in {"any", _asked(s)}:
        return []
    return [{"labels": labels, "other": "regression" if labels == "values" else "classification"}]


def _several_inputs(s: ScenarioFields) -> list[Case]:
    if s.data.source != "rows" or _is_about_sensors(s):
        return []
    first = s.clients.groups[0]
    for group in s.clients.groups:
        if group.modalities != first.modalities or len(group.modalities) > 1:
            owned, others = (", ".join(one.modalities) for one in (first, group))
            return [{"one": first.name, "owned": owned, "other": group.name, "others": others}]
    return []


def _encoders_of_two_sizes(s: ScenarioFields) -> Iterator[Case]:
    if s.algorithm_spec.kinds.isdisjoint({MessageKind.ENCODER, MessageKind.FACTORS}):
        return
    first = s.clients.groups[0]
    modality = first.modalities[0]
    for group in s.clients.groups:
        shared = modality in group.modalities and modality not in s.training.personal_encoders
        if shared and group.encoder != first.encoder:
            yield {
                "modality": modality,
                "one": first.name,
                "one_encoder": first.encoder or "the task's",
                "other": group.name,
                "other_encoder": group.encoder or "the task's",
            }
            return
