"""From a finished run to bundles: one per client, whole, measured, and checked on this machine before use."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal
from uuid import uuid4

import numpy as np
import onnx

from ...emulator.contracts import ConfigError, DataError, Modality, NodeId, SheafedgeError
from ...emulator.edge.bundle import (
    CARD_FILE,
    MODEL_FILE,
    SAMPLES_FILE,
    golden_file,
    load_bundle,
    pack_bundle,
    write_bundle,
)
from ...emulator.edge.manifest import Golden, InputSpec, Manifest, OutputSpec, Precision, Runtime
from ...emulator.edge.onnx_session import OnnxSession
from ...models.export.onnx_facts import answer_flops, n_parameters
from ...models.export.quantize import CalibrationName, float16_model, int8_model
from ...version import __version__
from ..recording.record import Progress
from ..schema.scenario import Scenario
from ..tasks.task_spec import InputDescription
from ..wiring.data import ClientData, load_data
from ..wiring.held_out import IMAGES
from ..wiring.members import Member, members_of
from .bundle_card import model_card
from .bundle_evidence import HELD_OUT, WITHOUT, Answers, Evidence, answers, evidence
from .finished_run import FinishedRun

Quantization = Literal["none", "fp16", "int8"]
PRECISION_OF: Mapping[Quantization, Precision] = {"none": "float32", "fp16": "float16", "int8": "int8"}

#: Sample inputs with the answers that they must get, enough to meet more than one label most times.
GOLDEN_ROWS = 4
#: Of the largest logit: sums of float32 in another order differ by a hundredth of it, a wrong kernel by far more.
GOLDEN_SHARE = 1e-3
#: Of the first score, between what the run wrote down and what its model scores now on rows that are the same.
SAME_SCORE = 0.02
#: Releases of onnxruntime that first read a file of an IR version; operator sets of these years came no later.
_FIRST_RUNTIME = {8: "1.10", 9: "1.15", 10: "1.18", 11: "1.22"}


class QuantizationError(SheafedgeError):
    """A model in fewer bits is so much worse than the trained one that it is not handed out."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What somebody wants exported.

    Attributes:
        clients: whose models; None: all.
        quantize: to how many bits.
        calibration: how activation ranges follow from training windows, for int8.
        calibration_windows: how many of them, spread over the client's own training rows.
        min_agreement: share of held-out samples decided as by the trained model, below which a warning is due.
        max_loss: of the first score, on held-out or shifted rows, above which nothing is written.
        archives: also as one `.zip` each.

    Raises:
        ConfigError: a limit outside [0, 1], or no window.
    """

    clients: tuple[NodeId, ...] | None = None
    quantize: Quantization = "none"
    calibration: CalibrationName = "minmax"
    calibration_windows: int = 256
    min_agreement: float = 0.98
    max_loss: float = 0.02
    archives: bool = True

    def __post_init__(self) -> None:
        for option, value in (("--min-agreement", self.min_agreement), ("--max-loss", self.max_loss)):
            if not 0.0 <= value <= 1.0:
                raise ConfigError(f"{option} must lie in [0, 1], got {value:g}; 0.98 and 0.02 are usual")
        if self.calibration_windows < 1:
            raise ConfigError(f"--windows must be at least 1, got {self.calibration_windows}; 256 are usual")


@dataclass(frozen=True, slots=True)
class Made:
    """A bundle that was written.

    Attributes:
        folder, archive: where it is; no archive where none was wanted.
        client, group: whose it is.
        precision: of its numbers.
        model_bytes: size of the model.
        evidence: how good it is.
        warnings: sentences.
    """

    folder: Path
    archive: Path | None
    client: NodeId
    group: str
    precision: Precision
    model_bytes: int
    evidence: Evidence
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Source:
    """A client of a finished run with its rows, ready to be exported.

    Attributes:
        run: where it trained.
        member: what it owns and is asked.
        data: its rows, cut again.
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

    @property
    def units(self) -> dict[Modality, str]:
        """Of every input."""
        return {one.modality: one.unit for one in self.inputs}

    @cached_property
    def trained(self) -> Answers:
        """What the model of the run answers under every condition."""
        return self.answers(OnnxSession(self.model.SerializeToString()))

    def answers(self, session: OnnxSession) -> Answers:
        """Logits under every condition, see `bundle_evidence.answers`."""
        return answers(session, self.data.test, self.units, self.run.scenario.seed, self.member.client_id)


def export_bundles(
    run: FinishedRun,
    wishes: Sequence[Wishes],
    out: Path | None = None,
    *,
    recording: Progress | None = None,
    ready: Callable[[NodeId], None] = lambda _: None,
) -> list[Made]:
    """Write one bundle per client and precision, all or none.

    Args:
        run: complete.
        wishes: what is wanted, once per precision; the same clients in all.
        out: folder for them; None: `bundles` inside the run folder.
        recording: is told how far a recording is that must be made again.
        ready: is told of every client that is done.

    Raises:
        QuantizationError: a model lost too much by quantization.
        BundleError: a bundle cannot be written, or does not answer as it should.
        ConfigError: no such client, or a bundle of this name is there already.
        DataError: the data are not those of the run any more.
    """
    target = out or run.folder / "bundles"
    clients = _wanted(run, wishes[0])
    names = {
        (client, one.quantize): _bundle_name(run.scenario, client, one.quantize) for one in wishes for client in clients
    }
    _refuse_taken(target, list(names.values()))
    stage = target / f".partial-{uuid4().hex[:12]}"
    is_new = not target.exists()
    try:
        made = []
        for source in sources(run, clients, recording):
            client = source.member.client_id
            made += [_made(source, one, stage, names[client, one.quantize]) for one in wishes]
            ready(client)
        return [_moved(one, target) for one in made]
    except OSError as error:
        raise ConfigError(f"bundles cannot be written to {target} ({error}); choose another with --out") from None
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if is_new:
            with suppress(OSError):  # bundles are in it
                target.rmdir()


def sources(run: FinishedRun, clients: Sequence[NodeId], recording: Progress | None = None) -> Iterator[Source]:
    """Clients of a finished run with their rows, one by one.

    Raises:
        DataError: the data are not those of the run any more, or a model cannot be read.
        ConfigError: a client has no model.
    """
    scenario = run.scenario.edited({"data.mode": "replay"})  # the same rows, all there from the start
    members = members_of(scenario)
    files = {client: run.model_file(client) for client in clients}
    rows = load_data(scenario, recording).clients
    n_held_out = sum(len(one.test) for one in rows)
    if n_held_out != run.summary.test_windows:
        raise DataError(
            f"run {run.folder} held out {run.summary.test_windows} samples, but its data give {n_held_out} now; the"
            " recordings have changed, run the scenario again"
        )
    for client in clients:
        yield _source(run, members[client], rows[client], files[client])


def quantized(source: Source, wishes: Wishes) -> onnx.ModelProto:
    """The model in as many bits as is wanted."""
    if wishes.quantize == "none":
        return source.model
    if wishes.quantize == "fp16":
        return float16_model(source.model)
    train = source.data.train
    chosen = np.unique(np.linspace(0, len(train) - 1, wishes.calibration_windows).round().astype(np.int64))
    gathered = train.inputs(chosen)
    typical = {str(one.modality): gathered[one.modality] for one in source.inputs}
    return int8_model(source.model, typical, calibration=wishes.calibration)


def _wanted(run: FinishedRun, wishes: Wishes) -> list[NodeId]:
    everybody = [row.client for row in run.summary.exports]
    wanted = everybody if wishes.clients is None else list(dict.fromkeys(wishes.clients))
    for client in wanted:
        run.model_file(client)
    return wanted


def _bundle_name(scenario: Scenario, client: NodeId, quantize: Quantization) -> str:
    ending = "" if quantize == "none" else f"-{quantize}"
    return f"{scenario.name}-client-{client:02d}{ending}"


def _source(run: FinishedRun, member: Member, data: ClientData, file: Path) -> Source:
    try:
        model = onnx.load(file)
    except Exception as error:  # noqa: BLE001 - protobuf raises classes of its own
        raise DataError(f"{file} is no ONNX model ({error}); run the scenario again") from None
    described = member.task.input_descriptions(data.test, member.data)
    optional = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in optional]
    if strangers := [name for name in names if name not in described]:
        raise DataError(f"{file} takes {strangers[0]!r}, which client {member.client_id} does not have; run it again")
    inputs = tuple(_input(said, data.rate_hz) for modality, said in described.items() if modality in names)
    reported = run.summary.groups[member.group].model
    source = Source(run, member, data, model, inputs, reported)
    _check_score(source)
    return source


def _input(described: InputDescription, rate_hz: float) -> InputSpec:
    window = described.window
    return InputSpec(
        modality=window.modality,
        shape=described.shape,
        frame_shape=window.frame_shape(described.shape),
        frames=window.frames,
        frame_axis=window.axis,
        lag=window.lag,
        rate_hz=rate_hz,
        unit=described.unit,
        meaning=described.meaning,
    )


def _check_score(source: Source) -> None:
    """Hold the model against what the run wrote down about it.

    Raises:
        DataError: it scores otherwise, so that model or data are not those of the run.
    """
    member, run = source.member, source.run
    key = member.task.columns[0].key
    written = run.last_scores.get(member.client_id, {}).get(source.reported, {}).get(key)
    found = member.task.scores(source.trained[HELD_OUT], source.data.test)[key]
    if written is None or not abs(found - written) <= SAME_SCORE:
        said = "nothing" if written is None else f"{written:.3f}"
        raise DataError(
            f"run {run.folder} wrote down {said} for the {key} of client {member.client_id}, whose model now scores"
            f" {found:.3f}: model or data are not those of the run; run the scenario again"
        )


def _made(source: Source, wishes: Wishes, stage: Path, name: str) -> Made:
    """Quantize, measure, write into the stage, and load from there."""
    member = source.member
    model = quantized(source, wishes)
    content = model.SerializeToString()
    session = OnnxSession(content)
    if wishes.quantize == "none":
        shown = evidence(member.task, source.data.test, source.trained)
    else:
        shown = evidence(member.task, source.data.test, source.answers(session), source.trained)
        _refuse_loss(name, shown, wishes)
    samples, golden = _golden(source, session, shown)
    manifest = _manifest(source, wishes, name, model, shown, golden)
    files = {
        MODEL_FILE: content,
        SAMPLES_FILE: samples,
        CARD_FILE: model_card(manifest, member.task).encode(),
        "scenario.toml": source.run.scenario_text.encode(),
    }
    write_bundle(stage / name, manifest, files)
    archive = pack_bundle(stage / name) if wishes.archives else None
    load_bundle(archive or stage / name)
    return Made(
        folder=stage / name,
        archive=archive,
        client=member.client_id,
        group=member.group,
        precision=manifest.precision,
        model_bytes=len(content),
        evidence=shown,
        warnings=_warnings(name, shown, wishes),
    )


def _refuse_loss(name: str, shown: Evidence, wishes: Wishes) -> None:
    """Hold a quantized model against the trained one, where all its sensors are there.

    Raises:
        QuantizationError: it lost too much.
    """
    worst = max((one for one in shown.scores if not one.startswith(WITHOUT)), key=shown.loss)
    if not shown.loss(worst) <= wishes.max_loss:
        found, trained = shown.scores[worst][shown.score], shown.trained[worst][shown.score]
        raise QuantizationError(
            f"{name}: {shown.score} falls from {trained:.3f} to {found:.3f} ({_said(worst)}), more than --max-loss"
            f" {wishes.max_loss:g}, and nothing is written; raise that limit if you can live with it, try another"
            " --calibration, or --quantize fp16"
        )


def _warnings(name: str, shown: Evidence, wishes: Wishes) -> tuple[str, ...]:
    low = {condition: share for condition, share in shown.agreement.items() if share < wishes.min_agreement}
    if not low:
        return ()
    where = ", ".join(f"{_said(condition)} {share:.3f}" for condition, share in low.items())
    return (f"{name} decides less often like the trained model than --min-agreement {wishes.min_agreement:g}: {where}",)


def _said(condition: str) -> str:
    return "held-out rows" if condition == HELD_OUT else condition


def _golden(source: Source, session: OnnxSession, shown: Evidence) -> tuple[bytes, Golden]:
    """Some held-out rows with what this very model answers here.

    Another processor may round otherwise: by as much as fewer bits have changed here, which the evidence allows for.
    """
    test = source.data.test
    rows = np.unique(np.linspace(0, len(test) - 1, GOLDEN_ROWS).round().astype(np.int64))
    gathered = test.inputs(rows)
    inputs = {str(one.modality): np.ascontiguousarray(gathered[one.modality], np.float32) for one in source.inputs}
    logits = session.run(inputs)
    share = GOLDEN_SHARE * max(1.0, float(np.abs(logits).max()))
    return golden_file(inputs, logits), Golden(len(rows), max(share, shown.largest_difference))


def _manifest(
    source: Source, wishes: Wishes, name: str, model: onnx.ModelProto, shown: Evidence, golden: Golden
) -> Manifest:
    run, member, data = source.run, source.member, source.data
    scenario, task = run.scenario, member.task
    baselines = task.baselines(data.train, data.test)
    trained: dict[str, str | int | float] = {
        "scenario": scenario.name,
        "algorithm": scenario.algorithm,
        "model": source.reported,
        "seed": scenario.seed,
        "rounds": run.summary.rounds,
        "client": member.client_id,
        "group": member.group,
        "recording": data.recording,
        "windows": len(data.train),
        **data.held_out,
        "trace_hash": run.summary.trace_hash,
        "sheafedge": run.summary.environment.sheafedge,
        "torch": run.summary.environment.torch,
    }
    if "camera" in member.modalities and scenario.data.images != "plain":
        trained[IMAGES] = scenario.data.images
    if wishes.quantize == "int8":
        trained |= {"calibration": wishes.calibration, "calibration_windows": wishes.calibration_windows}
    return Manifest(
        name=name,
        created_by=f"sheafedge {__version__}",
        task=scenario.task,
        question=task.title,
        precision=PRECISION_OF[wishes.quantize],
        runtime=Runtime(
            opset=next(one.version for one in model.opset_import if one.domain == ""),
            ir_version=model.ir_version,
            onnxruntime=_FIRST_RUNTIME[model.ir_version],
        ),
        inputs=source.inputs,
        output=_output(source),
        flops=answer_flops(source.model),
        parameters=n_parameters(source.model),
        trained=trained,
        metrics={**shown.as_metrics(), "baselines": baselines},
        golden=golden,
    )


def _output(source: Source) -> OutputSpec:
    member, task = source.member, source.member.task
    binary = task.n_outputs(member.data) == 1
    return OutputSpec(
        kind="binary" if binary else "classes",
        labels=tuple(task.labels(member.data)),
        meaning=task.output_description(member.data),
        horizon_s=source.data.test.n_after / source.data.rate_hz,
        codebook=() if binary else tuple(member.outputs),
    )


def _refuse_taken(target: Path, names: Sequence[str]) -> None:
    """Find out early, before any work.

    Raises:
        ConfigError: one of the names is taken.
    """
    for name in names:
        for path in (target / name, target / f"{name}.zip"):
            if path.exists():
                raise ConfigError(f"bundle {path} is there already; choose another folder with --out, or remove it")


def _moved(made: Made, target: Path) -> Made:
    """From the stage to where it is wanted."""
    folder = made.folder.rename(target / made.folder.name)
    archive = None if made.archive is None else made.archive.rename(target / made.archive.name)
    return replace(made, folder=folder, archive=archive)
