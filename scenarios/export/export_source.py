"""What is exported: a request, and clients of a finished run with their rows and models, checked against its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from ...datasets.rows.row_samples import RowSamples
from ...emulator.contracts import PRESENT_NAME, ConfigError, DataError, NodeId
from ...emulator.edge.manifest import InputSpec, OutputSpec
from ...emulator.edge.onnx_session import OnnxSession
from ...emulator.edge.precisions import TRAINED, precision_named
from ...models.export.quantize import MAKERS, Calibration, CalibrationName
from ..recording.record import Progress
from ..recording.recording_cache import Note
from ..tasks.calibration_fit import label_output
from ..tasks.task_spec import ForecastTask
from ..wiring.data import ClientData, load_data
from ..wiring.members import Member, members_of
from .bundle_evidence import HELD_OUT, Answers, answers
from .finished_run import FinishedRun
from .precision_choice import AUTO, choosing_device

#: Largest accepted difference between the first score that the run stored and that of its model on the same rows now.
SAME_SCORE = 0.02


@dataclass(frozen=True, eq=False)
class ExportSource:
    """A client of a finished run with its samples, ready to be exported.

    Attributes:
        run: finished run in which it was trained.
        member: its modalities and task.
        data: its samples, cut again.
        model: its model as the run exported it.
        inputs: what the model takes, in this order.
        reported: name of the model among those that it trained.
    """

    run: FinishedRun
    member: Member
    data: ClientData
    model: onnx.ModelProto
    inputs: tuple[InputSpec, ...]
    reported: str

    @cached_property
    def trained(self) -> Answers:
        """Logits of the model of the run under every condition."""
        return self.answers(OnnxSession(self.model.SerializeToString()))

    @cached_property
    def output(self) -> OutputSpec:
        """Meaning of the logits, with temperature 1."""
        member, test = self.member, self.data.test
        if isinstance(member.task, ForecastTask):
            made = member.task.forecast_output(member.data, self.data.rate_hz)
            above = self.run.scenario.decision.warn_above_logit
            return replace(made, threshold=above, horizon_s=test.n_after / self.data.rate_hz)
        outputs = member.task.outputs(member.data, test)
        balanced = self.run.scenario.training.class_weights == "balanced"
        return replace(
            label_output(outputs, self.data.train.label, balanced=balanced),
            horizon_s=test.n_after / self.data.rate_hz,
            codebook=() if outputs.n == 1 else member.outputs(test),
        )

    def answers(self, session: OnnxSession) -> Answers:
        """Logits under every condition, see `bundle_evidence.answers`."""
        return answers(session, self.data.test, self.inputs, self.run.scenario.seed, self.member.client_id)


def export_sources(
    run: FinishedRun, clients: Sequence[NodeId], recording: Progress | None = None, note: Note | None = None
) -> Iterator[ExportSource]:
    """Clients of a finished run with their samples, in this order; the next ones are answered for meanwhile.

    What models answer under every condition takes nearly all the time of an export, and neither numpy's draws nor the
    ONNX runtime hold the interpreter while they compute.

    Raises:
        DataError: the data are not those of the run any more, or a model cannot be read.
        ConfigError: a client has no model, or one that answers values.
    """
    scenario = run.scenario.edited({"data.mode": "replay"})  # the same rows, all there from the start
    members = members_of(scenario)
    files = {client: run.model_file(client) for client in clients}
    rows = load_data(scenario, recording, note).clients
    # a quick check of the data as a whole, before the scores of every client are compared
    n_held_out = sum(len(one.test) for one in rows)
    if n_held_out != run.summary.test_windows:
        raise DataError(
            f"run {run.folder} held out {run.summary.test_windows} samples, but its data give {n_held_out} now; the"
            " recordings have changed, run the scenario again"
        )
    pool = ThreadPoolExecutor(scenario.compute.threads, thread_name_prefix="export")
    try:
        yield from pool.map(lambda client: _source(run, members[client], rows[client], files[client]), clients)
    finally:
        pool.shutdown(cancel_futures=True)  # where one is refused, the others are not waited for


def _source(run: FinishedRun, member: Member, data: ClientData, file: Path) -> ExportSource:
    try:
        model = onnx.load(file)
    except Exception as error:  # noqa: BLE001 - protobuf raises classes of its own
        raise DataError(f"{file} is no ONNX model ({error}); run the scenario again") from None
    if not (isinstance(member.task, ForecastTask) or member.task.outputs(member.data, data.test).labels):
        asked = "several answers of yes or no" if member.task.labels == "several" else "values"
        raise ConfigError(
            f"bundles hold models whose answers are classes or forecasts of outage, but task {run.scenario.task!r} asks"
            f" for {asked}; take the ONNX files of {run.folder / 'models'}, whose metadata say what their output means"
        )
    if isinstance(data.test, RowSamples) and data.test.graph is not None:
        raise ConfigError(
            f"bundles hold models whose inputs are samples of one shape, but task {run.scenario.task!r} takes whole"
            f" graphs; take the ONNX files of {run.folder / 'models'}, whose metadata say what they take"
        )
    described = member.task.input_descriptions(data.test, member.data)
    # in files of earlier releases it has a default, and is an initializer as well
    optional = {PRESENT_NAME}
    names = [value.name for value in model.graph.input if value.name not in optional]
    if unknown := [name for name in names if name not in described]:
        raise DataError(f"{file} takes {unknown[0]!r}, which client {member.client_id} does not have; run it again")
    inputs = tuple(
        InputSpec(said.window, said.shape, data.rate_hz, said.unit, said.meaning, data.nothing.get(modality))
        for modality, said in described.items()
        if modality in names
    )
    reported = run.summary.groups[member.group].model
    source = ExportSource(run, member, data, model, inputs, reported)
    _check_score(source)
    return source


def _check_score(source: ExportSource) -> None:
    """Compare the score of the model with the one that the run stored.

    Raises:
        DataError: the scores differ, so that model or data are not those of the run.
    """
    member, run = source.member, source.run
    key = member.task.columns[0].key
    written = run.last_scores.get(member.client_id, {}).get(source.reported, {}).get(key)
    found = member.task.scores(source.trained[HELD_OUT], source.data.test)[key]
    # not equal: the run scored in torch, and the ONNX runtime rounds differently
    if written is None or not abs(found - written) <= SAME_SCORE:
        said = "nothing" if written is None else f"{written:.3f}"
        raise DataError(
            f"run {run.folder} wrote down {said} for the {key} of client {member.client_id}, whose model now scores"
            f" {found:.3f}: model or data are not those of the run; run the scenario again"
        )


def in_precision(source: ExportSource, request: ExportRequest) -> onnx.ModelProto:
    """ONNX model of a client in the requested precision, which is no longer `AUTO`."""

    # a function, so that precisions without calibration read no training rows
    def typical() -> Mapping[str, NDArray[np.float32]]:
        train = source.data.train
        # spread evenly: ranges must cover the whole recording, not its beginning
        chosen = np.unique(np.linspace(0, len(train) - 1, request.calibration_windows).round().astype(np.int64))
        gathered = train.inputs(chosen)
        return {str(one.modality): gathered[one.modality] for one in source.inputs}

    return MAKERS[request.precision](source.model, Calibration(typical, request.calibration))


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Request for the models of some clients in one precision.

    Attributes:
        clients: clients whose models are exported; None: all.
        precision: name of a row of `PRECISIONS`; an alias becomes the name. `AUTO`: whichever answers fastest of those
            that lose at most `max_loss`.
        calibration: how activation ranges follow from training windows, where the precision is calibrated.
        calibration_windows: number of these windows, spread over the client's own training rows.
        min_agreement: share of held-out samples decided as by the trained model, below which a warning is due.
        max_loss: largest loss of the first score on held-out or shifted rows; above it nothing is written.
        archives: also as one `.zip` each.
        device: device whose profile says what is fastest; None: measured on this machine.

    Raises:
        ConfigError: no such precision or device, a limit outside [0, 1], or no window.
    """

    clients: tuple[NodeId, ...] | None = None
    precision: str = TRAINED
    calibration: CalibrationName = "minmax"
    calibration_windows: int = 256
    min_agreement: float = 0.98
    max_loss: float = 0.02
    archives: bool = True
    device: str | None = None

    def __post_init__(self) -> None:
        if self.precision != AUTO:
            # the way to set a field of a frozen dataclass in __post_init__
            object.__setattr__(self, "precision", precision_named(self.precision).name)
        choosing_device(self.device)
        for option, value in (("--min-agreement", self.min_agreement), ("--max-loss", self.max_loss)):
            if not 0.0 <= value <= 1.0:
                raise ConfigError(f"{option} must lie in [0, 1], got {value:g}; 0.98 and 0.02 are usual")
        if self.calibration_windows < 1:
            raise ConfigError(f"--windows must be at least 1, got {self.calibration_windows}; 256 are usual")
