"""Records of a complete run, read from its folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...emulator.contracts import DataError
from ...emulator.regular_file import is_regular, read_regular
from ..export.finished_run import refuse_incomplete
from ..running.metric_rows import metric_rows
from ..running.stored_run import MAX_METRICS_BYTES, MAX_SUMMARY_BYTES, StoredMetrics, StoredSummary
from ..schema.scenario import Scenario, stored_scenario
from ..schema.toml_file import read_toml
from .round_records import Diagnostics, RoundRecords
from .row_table import RowTable

DIAGNOSTICS = "diagnostics.json"


@dataclass(frozen=True, slots=True, eq=False)
class RunRecords(RoundRecords):
    """What a complete run wrote down.

    Attributes:
        folder: path of the run folder.
        scenario: scenario of the run.
    """

    folder: Path
    scenario: Scenario

    @property
    def changed(self) -> dict[str, Any]:
        """Fields of the scenario that differ from their defaults, as nested tables."""
        return self.scenario.model_dump(mode="json", exclude_defaults=True)


def read_records(folder: Path) -> RunRecords:
    """Records in the folder of a complete run.

    Raises:
        ConfigError: it is no folder of a complete run, or needs a plugin.
        DataError: a file in it is damaged.
    """
    refuse_incomplete(folder)
    path = folder / "scenario.toml"
    scenario = stored_scenario(read_toml(path), str(path))
    try:
        summary = json.loads(read_regular(folder / "summary.json", MAX_SUMMARY_BYTES))
        StoredSummary.model_validate(summary)
        diagnostics = Diagnostics()
        if is_regular(folder / DIAGNOSTICS):
            diagnostics = Diagnostics.model_validate_json(read_regular(folder / DIAGNOSTICS, MAX_METRICS_BYTES))
        return _records(folder, scenario, summary, diagnostics, metric_rows(folder))
    except (OSError, ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
        why = " ".join(str(error).splitlines()[:3])[:240]
        raise DataError(f"run {folder} cannot be read ({type(error).__name__}: {why}); run it again") from None


def _records(
    folder: Path,
    scenario: Scenario,
    summary: Mapping[str, Any],
    diagnostics: Diagnostics,
    rows: Iterable[Mapping[str, Any]],
) -> RunRecords:
    columns = scenario.task_spec.columns
    table = RowTable(summary["clients"] + ("server" in summary), summary["rounds"], columns[0].key)
    for row in rows:
        StoredMetrics.model_validate(row)
        table.add(row)
    reported = {group: figures.get("model", "") for group, figures in summary["groups"].items()}
    return RunRecords(
        summary=summary,
        score_columns=tuple(columns),
        groups=tuple(table.groups),
        columns=table.columns(reported),
        scores=table.scores(reported),
        train_scores=table.train_scores(reported),
        residuals=table.residuals(),
        diagnostics=diagnostics,
        folder=folder,
        scenario=scenario,
    )
