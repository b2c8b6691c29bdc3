"""`RunResult`: a complete run, with its files as data frames, its models, bundles and report."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...emulator.contracts import DataError, NodeId
from ...emulator.edge.precisions import TRAINED, precision_named
from ...emulator.regular_file import read_regular
from ..export.finished_run import finished_run, refuse_incomplete
from ..running.stored_run import MAX_SUMMARY_BYTES, StoredSummary
from ..schema.scenario import Scenario, stored_scenario
from ..schema.toml_file import read_toml

if TYPE_CHECKING:
    import pandas as pd

    from ..export.bundles import ExportedBundle
    from .trained_model import TrainedModel


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """A complete run: its folder, and what the files in it hold.

    `run_scenario` returns one, `load_run` opens one of before. Nothing is kept in memory: every call reads the folder.

    Attributes:
        folder: path of the run folder.
        summary: content of its `summary.json`.
        warnings: sentences about instabilities during training and about a late clock; the summary also holds those
            from before it.

    Examples:
        >>> from sheafedge import load_run
        >>> result = load_run("runs/digits")  # of sheafedge run digits --set rounds=5 --out runs/digits
        >>> result
        RunResult(runs/digits: digits, sheaf_dmfl, seed 0, 5 rounds)
        >>> result.summary["groups"]["all"]["clients"]
        10
        >>> result.metrics()[["round", "client", "accuracy"]].shape
        (50, 3)
        >>> [bundle.archive.name for bundle in result.export([3], ["float16"])]
        ['digits-client-03-float16.zip']
    """

    folder: Path
    summary: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        said = self.summary
        facts = [str(said[name]) for name in ("scenario", "algorithm") if name in said]
        facts += [f"seed {said['seed']}"] if "seed" in said else []
        facts += [f"{said['rounds']} rounds"] if "rounds" in said else []
        return f"RunResult({self.folder}{': ' if facts else ''}{', '.join(facts)})"

    @property
    def scenario(self) -> Scenario:
        """Scenario of the run, as it stands in its folder.

        Raises:
            ConfigError: it uses a plugin that is not loaded.
        """
        path = self.folder / "scenario.toml"
        return stored_scenario(read_toml(path), str(path))

    def metrics(self, model: str | None = None) -> pd.DataFrame:
        """One row per client and round, and per round one of a server: counters, losses and held-out scores.

        Args:
            model: name of the model whose scores are shown, such as "global"; None: the model that the group of the
                client reports. The column `model` has the name, and is empty where the round was not scored.

        Returns:
            Columns `round`, `client`, `group`, `time_s` (simulated), `bytes_sent` (since the start) and the others of
            `metrics.jsonl`, then the scores of the task.

        Raises:
            ConfigError: pandas is not installed, or no client has a model of this name.
        """
        from .data_frames import metrics_frame

        return metrics_frame(self.folder, self.summary, model)

    def links(self) -> pd.DataFrame:
        """One row per sender and receiver: messages, bytes, losses, delay and rate, measured over the whole run.

        Raises:
            ConfigError: pandas is not installed, or the run is one of before links were measured.
        """
        from .data_frames import links_frame

        return links_frame(self.folder)

    def events(self) -> pd.DataFrame:
        """One row per message over a radio link, in order of time: instant, ends, size, airtime, SINR, fades, losses.

        Raises:
            ConfigError: pandas is not installed, or no message crossed a radio link.
        """
        from .data_frames import events_frame

        return events_frame(self.folder)

    def model(self, client: NodeId) -> TrainedModel:
        """Trained model of a client, from its ONNX file.

        Raises:
            ConfigError: the run exported no model of this client.
        """
        from .trained_model import TrainedModel

        run = finished_run(self.folder)
        return TrainedModel.of(client, run.model_file(client), run.scenario)

    def report(self, *, figures: bool = True) -> Path:
        """Write the report of the run into its folder: `report.html`, one file that fetches nothing.

        Args:
            figures: also write its figures for papers, as SVG and PDF in `figures/`.

        Returns:
            Path of the page.

        Raises:
            ConfigError: the scenario needs a plugin that is not loaded, or the folder cannot be written.
            DataError: a file of the run is damaged.
        """
        from ..report.run_report import write_run_report

        return write_run_report(self.folder, figures=figures)

    def export(
        self,
        clients: Sequence[NodeId] | None = None,
        precisions: Sequence[str] = (TRAINED,),
        out: str | os.PathLike[str] | None = None,
        *,
        max_loss: float = 0.02,
        min_agreement: float = 0.98,
        archives: bool = True,
        device: str | None = None,
    ) -> list[ExportedBundle]:
        """Bundles for devices: model, manifest, test samples and model card; all are written, or none.

        Args:
            clients: clients whose models are exported; None: all.
            precisions: "float32", "float16" or "int8", checked against the trained model; or "auto" alone, the fastest.
            out: folder for the bundles; None: `bundles` inside the run folder.
            max_loss: largest loss of the first score by quantization; above it nothing is written.
            min_agreement: share of samples decided as by the trained model, below which a warning is due.
            archives: also as one `.zip` each.
            device: device whose profile says what is fast; None: measured here.

        Raises:
            QuantizationError: a model lost too much by quantization.
            ConfigError: no such client or precision, or a bundle of this name is there already.
            DataError: the data are not those of the run any more.
        """
        from ..export.bundles import export_bundles
        from ..export.export_source import ExportRequest
        from ..export.precision_choice import AUTO
        from ..wiring.torch_setup import one_torch_thread

        requests = [
            ExportRequest(
                clients=None if clients is None else tuple(clients),
                precision=name,
                max_loss=max_loss,
                min_agreement=min_agreement,
                archives=archives,
                device=device,
            )
            for name in dict.fromkeys(text if text == AUTO else precision_named(text).name for text in precisions)
        ]
        # as in the run, whose scores are compared: sums of another number of threads round differently
        with one_torch_thread():
            return export_bundles(finished_run(self.folder), requests, None if out is None else Path(out))


def load_run(folder: str | os.PathLike[str]) -> RunResult:
    """Result of a run that is complete, from its folder; also of one that an earlier version made.

    Args:
        folder: path of the run folder.

    Raises:
        ConfigError: it is not the folder of a complete run.
        DataError: its summary is damaged.

    Examples:
        >>> from sheafedge import load_run
        >>> load_run("runs/digits").summary["algorithm"]  # of sheafedge run digits --set rounds=5 --out runs/digits
        'sheaf_dmfl'
    """
    path = Path(folder)
    refuse_incomplete(path)
    try:
        summary = json.loads(read_regular(path / "summary.json", MAX_SUMMARY_BYTES))
        StoredSummary.model_validate(summary)
    except (OSError, ValueError, RecursionError) as error:  # pydantic's is a ValueError
        why = " ".join(str(error).splitlines()[:3])[:240]
        raise DataError(f"{path / 'summary.json'} is damaged ({why}); run the scenario again") from None
    return RunResult(path, summary, tuple(summary["warnings"]))
