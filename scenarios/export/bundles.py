"""From a finished run to bundles: one per client and precision, whole, measured, and checked here before use."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import onnx
from numpy.typing import NDArray

from ...emulator.contracts import ConfigError, NodeId, SheafedgeError
from ...emulator.edge.bundle import load_bundle, pack_bundle, write_bundle
from ...emulator.edge.bundle_files import CARD_FILE, MODEL_FILE, SAMPLES_FILE
from ...emulator.edge.onnx_session import OnnxSession
from ...emulator.edge.precisions import PRECISIONS, TRAINED
from ...emulator.edge.signatures import SigningKey
from ...emulator.ownership import owned
from ...models.export.onnx_facts import answer_flops
from ..recording.record import Progress
from ..recording.recording_cache import Note
from .bundle_documents import bundle_manifest, golden_samples, model_card
from .bundle_evidence import HELD_OUT, WITHOUT, Evidence, evidence
from .export_source import ExportRequest, ExportSource, export_sources, in_precision
from .finished_run import FinishedRun
from .precision_choice import AUTO, AnswerTimes, choosing_device, measured_times, modelled_times

#: What to do about a folder that cannot be used.
ELSEWHERE = "choose another with --out"
_STAGE = ".partial-"


class QuantizationError(SheafedgeError):
    """The first score of a quantized model is lower than the trained model's by more than the allowed loss."""


@dataclass(frozen=True, slots=True)
class ExportedBundle:
    """A bundle that was written.

    Attributes:
        folder, archive: paths of the bundle; None: no archive was requested.
        client, group: client that trained the model, and its group.
        precision: precision of its numbers, a name of `PRECISIONS`.
        model_bytes: size of the model in bytes.
        evidence: scores under every condition.
        warnings: sentences for the user.
        choice: sentence on why it has this precision; empty where that was asked for.
    """

    folder: Path
    archive: Path | None
    client: NodeId
    group: str
    precision: str
    model_bytes: int
    evidence: Evidence
    warnings: tuple[str, ...] = ()
    choice: str = ""


def export_bundles(
    run: FinishedRun,
    requests: Sequence[ExportRequest],
    out: Path | None = None,
    *,
    recording: Progress | None = None,
    note: Note | None = None,
    ready: Callable[[NodeId], None] = lambda _: None,
    signing: SigningKey | None = None,
) -> list[ExportedBundle]:
    """Write one bundle per client and precision, all or none.

    Args:
        run: complete run.
        requests: one request per precision; the same clients in all.
        out: folder for them; None: `bundles` inside the run folder.
        recording: called with the progress of a recording that must be made again.
        note: called with a sentence about a cached recording that is damaged, or waited for.
        ready: called with every client that is done.
        signing: key that signs all bundles; None: they are not signed.

    Raises:
        OwnedError: another process exports into this folder.
        QuantizationError: a model lost too much by quantization.
        BundleError: a bundle cannot be written, or does not answer as it should.
        ConfigError: no such client, or a bundle of this name is there already.
        DataError: the data are not those of the run any more.
    """
    target = out or run.folder / "bundles"
    clients = _wanted(run, requests[0])
    wanted = _precisions(requests)
    with owned(target, ELSEWHERE, inside=True):
        _refuse_taken(target, [_name(run, client, precision) for client in clients for precision in wanted])
        # everything is made beside its place and renamed at the end: all bundles or none
        stage = _Stage(target / f"{_STAGE}{uuid4().hex[:12]}", signing)
        try:
            for killed in target.glob(f"{_STAGE}*"):  # of an export that was killed: here nobody else writes
                shutil.rmtree(killed, ignore_errors=True)
            made = []
            for source in export_sources(run, clients, recording, note):
                client = source.member.client_id
                made += [_requested(source, one, stage) for one in requests]
                ready(client)
            return [_moved(one, target) for one in made]
        except OSError as error:
            raise ConfigError(f"bundles cannot be written to {target} ({error}); {ELSEWHERE}") from None
        finally:
            shutil.rmtree(stage.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Stage:
    """Folder in which bundles are made, and the key that signs them."""

    folder: Path
    signing: SigningKey | None


def _wanted(run: FinishedRun, request: ExportRequest) -> list[NodeId]:
    exported = [row.client for row in run.summary.exports]
    wanted = exported if request.clients is None else list(dict.fromkeys(request.clients))
    for client in wanted:
        run.model_file(client)
    return wanted


def _precisions(requests: Sequence[ExportRequest]) -> list[str]:
    """Precisions that bundles of these requests can have.

    Raises:
        ConfigError: `AUTO` beside others, whose bundles could get the same name.
    """
    asked = [one.precision for one in requests]
    if AUTO in asked and len(asked) > 1:
        raise ConfigError("--quantize auto chooses one precision and stands alone; leave it out to name several")
    return list(PRECISIONS) if AUTO in asked else asked


def _name(run: FinishedRun, client: NodeId, precision: str) -> str:
    return f"{run.scenario.name}-client-{client:02d}{PRECISIONS[precision].suffix}"


@dataclass(frozen=True, eq=False, slots=True)
class _Candidate:
    """A client's model in one precision, with its scores."""

    request: ExportRequest
    name: str
    model: onnx.ModelProto
    content: bytes
    session: OnnxSession
    shown: Evidence
    logits: NDArray[np.float32]


def _candidate(source: ExportSource, request: ExportRequest) -> _Candidate:
    """A model in the precision of a request, quantized and scored.

    Raises:
        QuantizationError: it lost too much.
    """
    member = source.member
    name = _name(source.run, member.client_id, request.precision)
    model = in_precision(source, request)
    content = model.SerializeToString()
    session = OnnxSession(content)
    if PRECISIONS[request.precision].is_trained:
        found = source.trained
        shown = evidence(member.task, source.data.test, source.output, found)
    else:
        found = source.answers(session)
        shown = evidence(member.task, source.data.test, source.output, found, source.trained)
        _refuse_loss(name, shown, request)
    return _Candidate(request, name, model, content, session, shown, found[HELD_OUT])


def _requested(source: ExportSource, request: ExportRequest, stage: _Stage) -> ExportedBundle:
    """Bundle of one client as requested; `AUTO` makes it in every precision and takes the fastest."""
    if request.precision == AUTO:
        return _chosen(source, request, stage)
    made = _candidate(source, request)
    if PRECISIONS[request.precision].is_trained:
        return _made(source, made, stage)
    trained = _candidate(source, replace(request, precision=TRAINED))
    times = _times(source, request, [trained, made])
    return _made(source, made, stage, times, is_chosen=False)


def _chosen(source: ExportSource, request: ExportRequest, stage: _Stage) -> ExportedBundle:
    made: dict[str, _Candidate] = {}
    lost = []
    for precision in PRECISIONS:
        try:
            made[precision] = _candidate(source, replace(request, precision=precision))
        except QuantizationError:  # the others are left; float32 is never refused
            lost.append(precision)
    times = _times(source, request, list(made.values()))
    return _made(source, made[times.fastest(made)], stage, times, is_chosen=True, lost=lost)


def _times(source: ExportSource, request: ExportRequest, made: Sequence[_Candidate]) -> AnswerTimes:
    """Times of one answer in several precisions, as the request says: here, or on a device."""
    sample = source.data.test.inputs(np.array([0]))
    inputs = {str(one.modality): np.ascontiguousarray(sample[one.modality], np.float32) for one in source.inputs}
    if device := choosing_device(request.device):
        sizes = {one.request.precision: len(one.content) for one in made}
        return modelled_times(device, answer_flops(source.model), sum(one.nbytes for one in inputs.values()), sizes)
    return measured_times({one.request.precision: one.session for one in made}, inputs)


def _made(
    source: ExportSource,
    one: _Candidate,
    stage: _Stage,
    times: AnswerTimes | None = None,
    *,
    is_chosen: bool = False,
    lost: Sequence[str] = (),
) -> ExportedBundle:
    """Bundle of one client and precision: written into the stage, and loaded from there as a check."""
    name, shown, request = one.name, one.shown, one.request
    samples, golden = golden_samples(source, one.session, shown)
    manifest = bundle_manifest(
        source, request, name, one.model, one.session, shown, golden, one.logits, times if is_chosen else None
    )
    files = {
        MODEL_FILE: one.content,
        SAMPLES_FILE: samples,
        CARD_FILE: model_card(manifest, source.member.task).encode(),
        "scenario.toml": source.run.scenario_text.encode(),
    }
    folder = stage.folder / name
    write_bundle(folder, manifest, files, stage.signing)
    archive = pack_bundle(folder) if request.archives else None
    # A bundle that a device would refuse is not exported. It needs no trial: its model ran here all the time.
    load_bundle(archive or folder, trial=None)
    choice = ""
    if is_chosen and times is not None:
        refused = "".join(f"; {precision} loses more than --max-loss {request.max_loss:g}" for precision in lost)
        choice = f"{name}: {times.reason(request.precision)}{refused}"
    return ExportedBundle(
        folder=folder,
        archive=archive,
        client=source.member.client_id,
        group=source.member.group,
        precision=manifest.precision,
        model_bytes=len(one.content),
        evidence=shown,
        warnings=(*_warnings(name, shown, request), *_slow(name, request, times)),
        choice=choice,
    )


def _slow(name: str, request: ExportRequest, times: AnswerTimes | None) -> tuple[str, ...]:
    """A warning where a quantized model answers later than the trained one."""
    if times is None or request.precision == TRAINED or times.slowdown(request.precision) <= 1.0:
        return ()
    slower = times.slowdown(request.precision)
    sentence = (
        f"{name} takes {slower:.2f} times as long as float32 ({times.as_text()}); it saves memory, not time:"
        " take float32, or let --quantize auto choose"
    )
    return (sentence,)


def _refuse_loss(name: str, shown: Evidence, request: ExportRequest) -> None:
    """Compare a quantized model with the trained one under all conditions with all its sensors.

    Raises:
        QuantizationError: it lost too much.
    """
    # without a sensor scores differ by chance; there the agreement counts, as a warning
    worst = max((one for one in shown.scores if not one.startswith(WITHOUT)), key=shown.loss)
    # "not <=" instead of ">": a score that is NaN fails too
    if not shown.loss(worst) <= request.max_loss:
        found, trained = shown.scores[worst][shown.score], shown.trained[worst][shown.score]
        moves = "falls" if shown.first.better == "higher" else "rises"
        raise QuantizationError(
            f"{name}: {shown.score} {moves} from {trained:.3f} to {found:.3f} ({_where(worst)}), more than --max-loss"
            f" {request.max_loss:g}, and nothing is written; raise that limit if you can live with it, try another"
            " --calibration, or --quantize float16"
        )


def _warnings(name: str, shown: Evidence, request: ExportRequest) -> tuple[str, ...]:
    low = {condition: share for condition, share in shown.agreement.items() if share < request.min_agreement}
    if not low:
        return ()
    where = ", ".join(f"{_where(condition)} {share:.3f}" for condition, share in low.items())
    least = request.min_agreement
    return (f"{name} agrees with the trained model on fewer samples than --min-agreement {least:g}: {where}",)


def _where(condition: str) -> str:
    return "held-out samples" if condition == HELD_OUT else condition


def _refuse_taken(target: Path, names: Sequence[str]) -> None:
    """Refuse names that are taken, before any work.

    Raises:
        ConfigError: one of the names is taken.
    """
    for name in names:
        for path in (target / name, target / f"{name}.zip"):
            if path.exists():
                raise ConfigError(f"bundle {path} is there already; choose another folder with --out, or remove it")


def _moved(made: ExportedBundle, target: Path) -> ExportedBundle:
    """The bundle after it has moved from the stage to its folder."""
    folder = made.folder.rename(target / made.folder.name)
    archive = None if made.archive is None else made.archive.rename(target / made.archive.name)
    return replace(made, folder=folder, archive=archive)
