"""Manifest of a bundle, and the samples whose answers it promises."""

from __future__ import annotations

import numpy as np
import onnx

from ...emulator.edge.bundle import golden_file
from ...emulator.edge.manifest import Golden, Manifest, OutputSpec, Runtime
from ...emulator.edge.onnx_session import OnnxSession
from ...emulator.edge.precisions import PRECISIONS
from ...emulator.modalities import has_images
from ...models.export.onnx_facts import answer_flops, n_parameters
from ...version import __version__
from ..wiring.data import IMAGES
from .bundle_evidence import Evidence
from .export_source import ExportRequest, ExportSource

#: Number of sample inputs with their expected answers, mostly enough for more than one label.
GOLDEN_ROWS = 4
#: Tolerance relative to the largest logit: float32 sums in another order differ by a hundredth of that, a wrong
#: kernel by far more.
GOLDEN_SHARE = 1e-3
#: Releases of onnxruntime that first read a file of an IR version; operator sets of these years came no later.
_FIRST_RUNTIME = {8: "1.10", 9: "1.15", 10: "1.18", 11: "1.22"}


def golden_samples(source: ExportSource, session: OnnxSession, shown: Evidence) -> tuple[bytes, Golden]:
    """Some held-out rows as a samples file, with the answers of this model on this machine and their tolerance.

    Another processor may round a quantized model differently, by at most as much as quantization changed it here.
    """
    test = source.data.test
    rows = np.unique(np.linspace(0, len(test) - 1, GOLDEN_ROWS).round().astype(np.int64))
    gathered = test.inputs(rows)
    inputs = {str(one.modality): np.ascontiguousarray(gathered[one.modality], np.float32) for one in source.inputs}
    logits = session.run(inputs)
    share = GOLDEN_SHARE * max(1.0, float(np.abs(logits).max()))
    return golden_file(inputs, logits), Golden(len(rows), max(share, shown.largest_difference))


def bundle_manifest(
    source: ExportSource, request: ExportRequest, name: str, model: onnx.ModelProto, shown: Evidence, golden: Golden
) -> Manifest:
    """Manifest of the bundle of a client.

    Args:
        source: client and run.
        request: precision and calibration.
        name: name of the bundle.
        model: ONNX model in this precision.
        shown: scores under every condition.
        golden: number and tolerance of the samples with expected answers.
    """
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
    if has_images(member.modalities) and scenario.data.images != "plain":
        trained[IMAGES] = scenario.data.images
    if PRECISIONS[request.precision].is_calibrated:
        trained |= {"calibration": request.calibration, "calibration_windows": request.calibration_windows}
    return Manifest(
        name=name,
        created_by=f"sheafedge {__version__}",
        task=scenario.task,
        question=task.title,
        precision=request.precision,
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


def _output(source: ExportSource) -> OutputSpec:
    member, task = source.member, source.member.task
    binary = task.n_outputs(member.data) == 1
    return OutputSpec(
        kind="binary" if binary else "classes",
        labels=tuple(task.labels(member.data)),
        meaning=task.output_description(member.data),
        horizon_s=source.data.test.n_after / source.data.rate_hz,
        codebook=() if binary else tuple(member.outputs),
    )
