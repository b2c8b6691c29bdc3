"""Folder of a complete run: scenario, summary, and last scores of its models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...datasets.data_folder import DataFolder
from ...emulator.contracts import ConfigError, DataError, NodeId
from ...emulator.regular_file import is_regular, read_regular
from ..running.metric_rows import metric_rows
from ..running.stored_run import MAX_SUMMARY_BYTES, StoredMetrics, StoredSummary
from ..schema.scenario import Scenario, stored_scenario
from ..schema.toml_file import MAX_BYTES, read_toml

#: Files without which a folder is none of a complete run.
_FILES = ("scenario.toml", "summary.json", "metrics.jsonl")


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A complete run folder.

    Attributes:
        folder: path of the run folder.
        scenario: scenario of the run.
        scenario_text: content of its `scenario.toml`.
        summary: fields of its `summary.json`.
        last_scores: client -> model -> scores after the last round, and after what was fitted then.
    """

    folder: Path
    scenario: Scenario
    scenario_text: str
    summary: StoredSummary
    last_scores: dict[NodeId, dict[str, dict[str, float | None]]]

    def model_file(self, client: NodeId) -> Path:
        """Path of the ONNX file of a client.

        Raises:
            ConfigError: it has none, or the file is gone.
        """
        paths = {row.client: row.path for row in self.summary.exports}
        if client not in paths:
            known = ", ".join(map(str, sorted(paths)))
            raise ConfigError(f"run {self.folder} has no model of client {client}; it has those of {known}")
        try:
            path = DataFolder(self.folder).below(self.folder, paths[client])
        except DataError as error:
            raise DataError(f"run {self.folder}: the path of client {client} in summary.json {error}") from None
        if not is_regular(path):
            raise DataError(f"run {self.folder} lacks {paths[client]}; run the scenario again")
        return path


def refuse_incomplete(folder: Path) -> None:
    """Refuse a folder without the files that every complete run has.

    Raises:
        ConfigError: one of them is missing.
    """
    if missing := [name for name in _FILES if not is_regular(folder / name)]:
        raise ConfigError(
            f"{folder} is not the folder of a complete run ({missing[0]} is missing); give one under runs/"
        )


def finished_run(folder: Path, *, needs_models: bool = True) -> FinishedRun:
    """Complete run that is stored in a folder.

    Args:
        folder: of the run.
        needs_models: whether a run without exported models is refused.

    Raises:
        ConfigError: it is not the folder of a complete run, or has no models.
        DataError: a file of it is damaged.
    """
    refuse_incomplete(folder)
    path = folder / "scenario.toml"
    try:
        summary = StoredSummary.model_validate_json(read_regular(folder / "summary.json", MAX_SUMMARY_BYTES))
        rows = [StoredMetrics.model_validate(row) for row in metric_rows(folder)]
        text = read_regular(path, MAX_BYTES).decode("utf-8")
    except (OSError, ValueError, KeyError, RuntimeError) as error:  # pydantic's is a ValueError
        why = " ".join(str(error).splitlines()[:3])[:240]
        raise DataError(f"run {folder} cannot be read ({why}); run the scenario again") from None
    if needs_models and not summary.exports:
        raise ConfigError(f"run {folder} handed out no models; run the scenario with export.onnx = true")
    scenario = stored_scenario(read_toml(path), str(path))
    # scores of the last round are those of the models that were exported
    last = {row.client: row.models for row in rows if row.round == summary.rounds - 1}
    last |= {model.client: model.scores for model in summary.exports if model.scores is not None}
    return FinishedRun(folder, scenario, text, summary, last)
