"""What a bundle says about itself: manifest, samples whose answers it promises, and the model card that users read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from ...emulator.edge.golden_samples import golden_file
from ...emulator.edge.label_probabilities import label_probabilities
from ...emulator.edge.manifest import Golden, InputSpec, Manifest, OutputSpec, Runtime
from ...emulator.edge.onnx_session import OnnxSession
from ...emulator.edge.precisions import PRECISIONS
from ...emulator.modalities import has_images
from ...models.export.onnx_facts import answer_flops, n_parameters
from ...version import __version__
from ..tasks.calibration_fit import CalibrationScores, calibrated
from ..tasks.task_spec import Answers, DiagnosedTask, Task
from ..wiring.data import IMAGES
from .bundle_evidence import Evidence
from .drift_fit import DriftCounts, client_drift
from .export_source import ExportRequest, ExportSource
from .precision_choice import AnswerTimes

#: Number of sample inputs with their expected answers, mostly enough for more than one label.
GOLDEN_ROWS = 4
#: Tolerance relative to the largest logit: float32 sums in another order differ by a hundredth of that, a wrong
#: kernel by far more.
GOLDEN_SHARE = 1e-3
#: Smallest scale of logits that the share is taken of. A logit near 0 is a difference of terms of order 1 (inputs are
#: normalized, weights are not scaled down), and its rounding error is a share of those terms, not of what is left.
GOLDEN_SCALE = 1.0
#: Releases of onnxruntime that first read a file of an IR version; operator sets of these years came no later.
_FIRST_RUNTIME = {8: "1.10", 9: "1.15", 10: "1.18", 11: "1.22"}
_LIMITS = """\
- It answers for the base station that it was trained at, or one very like it. A neighbour's model is a start, not a
  replacement: measure it on your own rows.
- Inputs are physical units, and normalization is inside. Frames must come at the rate of the table: a window of another
  rate is another input.
- Probabilities hold where labels are as frequent as where it was trained. `output.temperature` and `output.prior_shift`
  make them of logits; labels are chosen by the logits alone.
- `samples.npz` holds a few rows that this base station sensed. Treat the bundle as you treat its recordings."""


def golden_samples(source: ExportSource, session: OnnxSession, shown: Evidence) -> tuple[bytes, Golden]:
    """Some held-out rows as a samples file, with the answers of this model on this machine and their tolerance.

    Another processor may round a quantized model differently, by at most as much as quantization changed it here.
    """
    test = source.data.test
    rows = np.unique(np.linspace(0, len(test) - 1, GOLDEN_ROWS).round().astype(np.int64))
    gathered = test.inputs(rows)
    inputs = {str(one.modality): np.ascontiguousarray(gathered[one.modality], np.float32) for one in source.inputs}
    logits = session.run(inputs)
    share = GOLDEN_SHARE * max(GOLDEN_SCALE, float(np.abs(logits).max()))
    return golden_file(inputs, logits), Golden(len(rows), max(share, shown.largest_difference))


def bundle_manifest(
    source: ExportSource,
    request: ExportRequest,
    name: str,
    model: onnx.ModelProto,
    session: OnnxSession,
    shown: Evidence,
    golden: Golden,
    logits: NDArray[np.float32],
    times: AnswerTimes | None = None,
) -> Manifest:
    """Manifest of the bundle of a client.

    Args:
        source: client and run.
        request: precision and calibration.
        name: name of the bundle.
        model: ONNX model in this precision.
        session: the same, loaded.
        shown: scores under every condition.
        golden: number and tolerance of the samples with expected answers.
        logits: [n, n_outputs] what it answers to the held-out samples.
        times: times by which its precision was chosen; None: it was asked for.
    """
    run, member, data = source.run, source.member, source.data
    scenario, task = run.scenario, member.task
    baselines = task.baselines(data.train, data.test)
    output, calibration = calibrated(source.output, logits, data.test.label.astype(np.int64))
    drift, drift_seen = client_drift(source, output, session, logits)
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
        output=output,
        flops=answer_flops(source.model),
        parameters=n_parameters(source.model),
        trained=trained,
        metrics={
            **shown.as_metrics(),
            "baselines": baselines,
            **_calibration(calibration),
            **_ahead(source, output, logits),
            **_drift(drift_seen),
            **_speed(times),
        },
        golden=golden,
        drift=drift,
    )


def _calibration(scores: CalibrationScores | None) -> dict[str, Any]:
    return {} if scores is None else {"calibration": scores.as_metrics()}


def _ahead(source: ExportSource, output: OutputSpec, logits: NDArray[np.float32]) -> dict[str, Any]:
    """Series of a forecast -> time ahead -> scores of its probabilities; empty of other models."""
    task, forecast = source.member.task, output.forecast
    if forecast is None or not isinstance(task, DiagnosedTask):
        return {}
    found = task.diagnostics([Answers(logits / output.temperature, source.data.test, source.data.rate_hz)])["horizons"]
    by_time = {
        name: {
            f"{ahead_s:g} s": {key: values[k] for key, values in found[name].items() if values[k] is not None}
            for k, ahead_s in enumerate(forecast.ahead_s)
        }
        for name in forecast.series
    }
    return {"ahead": by_time}


def _drift(counts: DriftCounts | None) -> dict[str, Any]:
    return {} if counts is None else {"drift": counts.as_metrics()}


def _speed(times: AnswerTimes | None) -> dict[str, Any]:
    if times is None:
        return {}
    each = {precision: round(1e3 * seconds, 6) for precision, seconds in times.seconds.items()}
    return {"answer_ms": {"where": times.where, **each}}


def model_card(manifest: Manifest, task: Task) -> str:
    """Model card of a bundle as Markdown; every figure is one of the manifest."""
    held_out = f"{manifest.metrics['samples']} samples of its own recording that training never saw."
    parts: dict[str, list[str]] = {
        f"# {manifest.name}": [_origin(manifest)],
        "## Inputs": list(_inputs(manifest)),
        "## Output": _output_lines(manifest),
        "## How good it is": [
            held_out,
            "",
            *_figures(manifest, task),
            *_calibrated(manifest),
            *_by_time(manifest),
            *_drifted(manifest),
        ],
        "## Limits": [_LIMITS],
        "## Use": _use(manifest),
    }
    return "\n".join(line for title, lines in parts.items() for line in (title, "", *lines, ""))


def _origin(manifest: Manifest) -> str:
    trained = manifest.trained
    return (
        f"{manifest.question} A model in {manifest.precision} that client {trained['client']} of scenario"
        f" `{trained['scenario']}` (group {trained['group']}, {trained['recording']}) trained with"
        f" `{trained['algorithm']}` in {trained['rounds']} rounds, seed {trained['seed']}. `scenario.toml` beside"
        " this file repeats the run."
    )


def _output_lines(manifest: Manifest) -> list[str]:
    output = manifest.output
    meaning = f"{output.meaning[:1].upper()}{output.meaning[1:]}."
    ahead = f" Horizon: {output.horizon_s:g} s." if output.horizon_s else ""
    return [f"{meaning}{ahead} Labels: {_labels(output.labels)}.{_warned(output)}", *_optional(manifest)]


def _warned(output: OutputSpec) -> str:
    if (forecast := output.forecast) is None:
        return ""
    odds = label_probabilities(np.full((1, output.n_outputs), output.threshold), output)[0, 1]
    return (
        f" The second label is a warning: the probability for {forecast.series[0]} at one of the first"
        f" {forecast.warned} times is above {odds:.3g}; the largest of these is said with it."
    )


def _use(manifest: Manifest) -> list[str]:
    runtime = manifest.runtime
    needs = f"Needs onnxruntime {runtime.onnxruntime} or later (opset {runtime.opset})."
    return [
        f"{needs} {manifest.parameters:,} parameters, {manifest.flops / 1e6:.3g} million operations per answer.",
        *_chosen(manifest),
        "",
        "```",
        f"sheafedge bench {manifest.name}.zip",
        f"sheafedge serve {manifest.name}.zip",
        "```",
    ]


def _chosen(manifest: Manifest) -> Iterator[str]:
    if found := manifest.metrics.get("answer_ms"):
        each = ", ".join(f"{name} {ms:.3g} ms" for name, ms in found.items() if name != "where")
        yield f"Its precision was chosen by the time of an answer on {found['where']}, one thread: {each}."


def _inputs(manifest: Manifest) -> Iterator[str]:
    yield "| Input | Shape | Rate | Unit | Meaning | Nothing seen |"
    yield "|---|---|---|---|---|---|"
    for one in manifest.inputs:
        shape = " × ".join(map(str, one.shape))
        nothing = "" if one.nothing is None else f"{one.nothing:g}"
        rate = f"{one.rate_hz:g} Hz{_frames(one)}"
        yield f"| `{one.modality}` | {shape} | {rate} | {one.unit} | {one.meaning} | {nothing} |"


def _frames(one: InputSpec) -> str:
    window = one.window
    if window.axis is None:
        return ""
    ending = "" if window.lag == 0 else f", the newest {window.lag} before now"
    return f", {window.frames} frames along axis {window.axis}{ending}"


def _labels(labels: Sequence[str]) -> str:
    return ", ".join(labels) if len(labels) <= 4 else f"{labels[0]} to {labels[-1]}, see manifest.json"


def _optional(manifest: Manifest) -> Iterator[str]:
    if len(manifest.inputs) > 1:
        yield ""
        yield (
            "One more input, `present` [batch or 1, number of inputs], is 1 for every sensor that is there. If a sensor"
            " fails, give what stands for nothing seen, or zeros, and 0 in its place of `present`. Where the model"
            " weighs its sensors, a second output `attention` says how much each one counted."
        )


def _figures(manifest: Manifest, task: Task) -> Iterator[str]:
    """Lines of the score table, a row per condition; a quantized model beside the trained one."""
    metrics = manifest.metrics
    columns = [column for column in task.columns if column.key in metrics["held_out"]]
    trained = metrics.get("float32")
    extra = ["agrees with float32", f"{columns[0].title} of float32"] if trained else []
    yield "| " + " | ".join(["", *(column.title for column in columns), *extra]) + " |"
    yield "|---" * (1 + len(columns) + len(extra)) + "|"
    for title, keys in _conditions(metrics):
        scores = _at(metrics, keys)
        cells = [column.form.format(scores[column.key]) if column.key in scores else "" for column in columns]
        if trained:
            first = columns[0]
            cells += [f"{_at(metrics['agreement'], keys):.3f}", first.form.format(_at(trained, keys)[first.key])]
        yield "| " + " | ".join([title, *cells]) + " |"
    for name, scores in metrics["baselines"].items():
        cells = [column.form.format(scores[column.key]) if column.key in scores else "" for column in columns]
        yield "| " + " | ".join([f"no model: {name}", *cells, *["" for _ in extra]]) + " |"


def _calibrated(manifest: Manifest) -> Iterator[str]:
    """Lines on the probabilities, before and after."""
    if not (found := manifest.metrics.get("calibration")):
        return
    yield ""
    is_forecast = manifest.output.forecast is not None
    yield f"| Probabilities | expected calibration error{', worst output' if is_forecast else ''} | Brier score |"
    yield "|---|---|---|"
    plain = "logistic function of the logits" if is_forecast else "softmax of the logits"
    for title, key in ((plain, "before"), ("as served", "after")):
        yield f"| {title} | {found['ece'][key]:.3f} | {found['brier'][key]:.3f} |"
    yield ""
    yield (
        f"Temperature {manifest.output.temperature:.3g}. Every half of the held-out samples is scored with the"
        " temperature of the other half."
    )


def _by_time(manifest: Manifest) -> Iterator[str]:
    """Lines on the probabilities of a forecast, a row per time ahead."""
    forecast, found = manifest.output.forecast, manifest.metrics.get("ahead")
    if forecast is None or not found:
        return
    scores = {"brier": "Brier", "ece": "ECE", "auc": "AUC"}
    yield ""
    yield "| Ahead | " + " | ".join(f"{name}: {title}" for name in forecast.series for title in scores.values()) + " |"
    yield "|---" * (1 + len(scores) * len(forecast.series)) + "|"
    for ahead_s in forecast.ahead_s:
        rows = [found[name][f"{ahead_s:g} s"] for name in forecast.series]
        cells = [f"{row[key]:.3f}" if key in row else "" for row in rows for key in scores]
        yield f"| {ahead_s:g} s | " + " | ".join(cells) + " |"
    yield ""
    yield "Probabilities as served. AUC is left out where outage never or always came."


def _drifted(manifest: Manifest) -> Iterator[str]:
    """Lines on how often held-out samples are taken for drift."""
    if not (found := manifest.metrics.get("drift")):
        return
    yield ""
    yield (
        f"A server compares inputs and answers with those of training. Of the held-out samples, {found['outside']} of"
        f" {found['answers']} lie outside, and {found['drifted']} of {found['windows']} windows count as drifted."
    )


def _conditions(metrics: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "held out", ("held_out",)
    for name in metrics["shifted"]:
        yield f"held out, {name}", ("shifted", name)
    for name in metrics["without"]:
        yield f"held out, without {name}", ("without", name)


def _at(tree: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        tree = tree[key]
    return tree
