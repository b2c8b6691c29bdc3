"""From a finished run to bundles: one per client and precision, whole, measured, and checked here before use."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from ...emulator.contracts import ConfigError, NodeId, SheafedgeError
from ...emulator.edge.bundle import load_bundle, pack_bundle, write_bundle
from ...emulator.edge.bundle_files import CARD_FILE, MODEL_FILE, SAMPLES_FILE
from ...emulator.edge.onnx_session import OnnxSession
from ...emulator.edge.precisions import PRECISIONS
from ...emulator.ownership import owned
from ..recording.record import Progress
from ..recording.recording_cache import Note
from .bundle_documents import bundle_manifest, golden_samples, model_card
from .bundle_evidence import HELD_OUT, WITHOUT, Evidence, evidence
from .export_source import ExportRequest, ExportSource, export_sources, in_precision
from .finished_run import FinishedRun

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
    """

    folder: Path
    archive: Path | None
    client: NodeId
    group: str
    precision: str
    model_bytes: int
    evidence: Evidence
    warnings: tuple[str, ...] = ()


def export_bundles(
    run: FinishedRun,
    requests: Sequence[ExportRequest],
    out: Path | None = None,
    *,
    recording: Progress | None = None,
    note: Note | None = None,
    ready: Callable[[NodeId], None] = lambda _: None,
) -> list[ExportedBundle]:
    """Write one bundle per client and precision, all or none.

    Args:
        run: complete run.
        requests: one request per precision; the same clients in all.
        out: folder for them; None: `bundles` inside the run folder.
        recording: called with the progress of a recording that must be made again.
        note: called with a sentence about a cached recording that is damaged, or waited for.
        ready: called with every client that is done.

    Raises:
        OwnedError: another process exports into this folder.
        QuantizationError: a model lost too much by quantization.
        BundleError: a bundle cannot be written, or does not answer as it should.
        ConfigError: no such client, or a bundle of this name is there already.
        DataError: the data are not those of the run any more.
    """
    target = out or run.folder / "bundles"
    clients = _wanted(run, requests[0])
    names = {
        (client, one.precision): f"{run.scenario.name}-client-{client:02d}{PRECISIONS[one.precision].suffix}"
        for one in requests
        for client in clients
    }
    with owned(target, ELSEWHERE, inside=True):
        _refuse_taken(target, list(names.values()))
        # everything is made beside its place and renamed at the end: all bundles or none
        stage = target / f"{_STAGE}{uuid4().hex[:12]}"
        try:
            for killed in target.glob(f"{_STAGE}*"):  # of an export that was killed: here nobody else writes
                shutil.rmtree(killed, ignore_errors=True)
            made = []
            for source in export_sources(run, clients, recording, note):
                client = source.member.client_id
                made += [_made(source, one, stage, names[client, one.precision]) for one in requests]
                ready(client)
            return [_moved(one, target) for one in made]
        except OSError as error:
            raise ConfigError(f"bundles cannot be written to {target} ({error}); {ELSEWHERE}") from None
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _wanted(run: FinishedRun, request: ExportRequest) -> list[NodeId]:
    exported = [row.client for row in run.summary.exports]
    wanted = exported if request.clients is None else list(dict.fromkeys(request.clients))
    for client in wanted:
        run.model_file(client)
    return wanted


def _made(source: ExportSource, request: ExportRequest, stage: Path, name: str) -> ExportedBundle:
    """Bundle of one client and precision: quantized, scored, written into the stage, loaded from there as a check."""
    member = source.member
    model = in_precision(source, request)
    content = model.SerializeToString()
    session = OnnxSession(content)
    if PRECISIONS[request.precision].is_trained:
        shown = evidence(member.task, source.data.test, source.trained)
    else:
        shown = evidence(member.task, source.data.test, source.answers(session), source.trained)
        _refuse_loss(name, shown, request)
    samples, golden = golden_samples(source, session, shown)
    manifest = bundle_manifest(source, request, name, model, shown, golden)
    files = {
        MODEL_FILE: content,
        SAMPLES_FILE: samples,
        CARD_FILE: model_card(manifest, member.task).encode(),
        "scenario.toml": source.run.scenario_text.encode(),
    }
    write_bundle(stage / name, manifest, files)
    archive = pack_bundle(stage / name) if request.archives else None
    # A bundle that a device would refuse is not exported. It needs no trial: its model ran here all the time.
    load_bundle(archive or stage / name, trial=None)
    return ExportedBundle(
        folder=stage / name,
        archive=archive,
        client=member.client_id,
        group=member.group,
        precision=manifest.precision,
        model_bytes=len(content),
        evidence=shown,
        warnings=_warnings(name, shown, request),
    )


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
        raise QuantizationError(
            f"{name}: {shown.score} falls from {trained:.3f} to {found:.3f} ({_where(worst)}), more than --max-loss"
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
