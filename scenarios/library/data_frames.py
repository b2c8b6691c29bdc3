"""Files of a run folder as data frames of pandas, the extra [analysis]."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...emulator.contracts import ConfigError, DataError
from ...emulator.network.channels.link_state import LinkState
from ...emulator.regular_file import is_regular, read_regular
from ..running.interrupted_run import DIAGNOSTICS, LINKS
from ..running.link_states import read_link_states
from ..running.metric_rows import METRICS, metric_rows
from ..running.stored_run import MAX_SUMMARY_BYTES

if TYPE_CHECKING:
    import pandas as pd


#: Columns of `metrics.jsonl` with a number for every model.
_OF_MODELS = ("train_loss", "held_out_loss")


def metrics_frame(folder: Path, summary: Mapping[str, Any], model: str | None = None) -> pd.DataFrame:
    """Frame of the rows of a run: one per node and round, as its folder has them.

    Args:
        folder: a complete run folder.
        summary: its `summary.json`.
        model: name of the model whose scores are shown; None: the one that the client's group reports.

    Raises:
        ConfigError: pandas is not installed, or no client has a model of this name.
        DataError: the file is damaged.
    """
    reported = {group: figures["model"] for group, figures in summary["groups"].items()}
    rows = list(_rows(folder))
    known = dict.fromkeys(name for row in rows for name in row.get("models", {}))
    if model is not None and model not in known:
        raise ConfigError(f"no client of {folder} has a model {model!r}; its models are {', '.join(known)}")
    return frame_of([_flat(row, model or reported.get(row["group"])) for row in rows])


def _flat(row: dict[str, Any], model: str | None) -> dict[str, Any]:
    """A line with the figures of one model as columns; they are missing where the round was not scored."""
    models = row.pop("models", {})
    row.update({name: row[name].get(model) for name in _OF_MODELS if isinstance(row.get(name), dict)})
    scores = models.get(model, {})
    # the columns of the line keep their names
    named = {f"held_out_{key}" if key in row else key: value for key, value in scores.items()}
    return {**row, "model": model if model in models else None, **named}


def links_frame(folder: Path) -> pd.DataFrame:
    """Frame of `edges` in `diagnostics.json`: one row per sender and receiver.

    Raises:
        ConfigError: pandas is not installed, or the run did not count its links.
        DataError: the file is damaged.
    """
    path, again = folder / DIAGNOSTICS, "run the scenario again"
    edges = None
    try:
        if is_regular(path):
            edges = json.loads(read_regular(path, MAX_SUMMARY_BYTES)).get("edges")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}); {again}") from None
    if edges is None:
        raise ConfigError(f"run {folder} did not count what its links carried, as earlier versions; {again}")
    return frame_of(edges)


def events_frame(folder: Path) -> pd.DataFrame:
    """Frame of `links.jsonl`: one row per message over a radio link, in order of time; see `LinkState`.

    Raises:
        ConfigError: pandas is not installed, or no message crossed a radio link.
        DataError: the file is damaged.
    """
    path = folder / LINKS
    if not is_regular(path):
        raise ConfigError(
            f"run {folder} has no {LINKS}: only messages over radio links are recorded one by one; run it with"
            " links.model = 'radio', or take links() for the totals of every link"
        )
    try:
        states = [state._asdict() for state in read_link_states(path)]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}); run the scenario again") from None
    # a line is written when its client ends the round
    frame = frame_of(states, LinkState._fields)
    return frame.sort_values("time_s", kind="stable", ignore_index=True)


def frame_of(rows: Iterable[Mapping[str, Any]], columns: Iterable[str] = ()) -> pd.DataFrame:
    """Frame of rows; the columns are those named, or all in the order of their first row.

    Raises:
        ConfigError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise ConfigError("data frames need pandas; install it: pip install 'sheafedge[analysis]'") from None
    named = list(columns)
    return pd.DataFrame([dict(row) for row in rows], columns=named or None)


def _rows(folder: Path) -> Iterable[dict[str, Any]]:
    try:
        yield from metric_rows(folder)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:  # nested too deeply is a RuntimeError
        raise DataError(f"{folder / METRICS} cannot be read ({error}); run the scenario again") from None
