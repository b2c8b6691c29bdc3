"""Model card of a bundle: what users should know before a device relies on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...emulator.edge.manifest import InputSpec, Manifest
from ..tasks.task_spec import TaskSpec

_LIMITS = """\
- It answers for the base station that it was trained at, or one very like it. A neighbour's model is a start, not a
  replacement: measure it on your own rows.
- Inputs are physical units, and normalization is inside. Frames must come at the rate of the table: a window of another
  rate is another input.
- Logits are not calibrated probabilities.
- `samples.npz` holds a few rows that this base station sensed. Treat the bundle as you treat its recordings."""


def model_card(manifest: Manifest, task: TaskSpec) -> str:
    """Model card of a bundle as Markdown; every figure is one of the manifest."""
    held_out = f"{manifest.metrics['samples']} samples of its own recording that training never saw."
    parts: dict[str, list[str]] = {
        f"# {manifest.name}": [_origin(manifest)],
        "## Inputs": list(_inputs(manifest)),
        "## Output": _output(manifest),
        "## How good it is": [held_out, "", *_figures(manifest, task)],
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


def _output(manifest: Manifest) -> list[str]:
    output = manifest.output
    meaning = f"{output.meaning[:1].upper()}{output.meaning[1:]}."
    ahead = f" Horizon: {output.horizon_s:g} s." if output.horizon_s else ""
    return [f"{meaning}{ahead} Labels: {_labels(output.labels)}.", *_optional(manifest)]


def _use(manifest: Manifest) -> list[str]:
    runtime = manifest.runtime
    needs = f"Needs onnxruntime {runtime.onnxruntime} or later (opset {runtime.opset})."
    return [
        f"{needs} {manifest.parameters:,} parameters, {manifest.flops / 1e6:.3g} million operations per answer.",
        "",
        "```",
        f"sheafedge bench {manifest.name}.zip",
        f"sheafedge serve {manifest.name}.zip --bind tcp://127.0.0.1:5600",
        "```",
    ]


def _inputs(manifest: Manifest) -> Iterator[str]:
    yield "| Input | Shape | Rate | Unit | Meaning |"
    yield "|---|---|---|---|---|"
    for one in manifest.inputs:
        shape = " × ".join(map(str, one.shape))
        yield f"| `{one.modality}` | {shape} | {one.rate_hz:g} Hz{_frames(one)} | {one.unit} | {one.meaning} |"


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
            "If a sensor fails, give zeros for it and the input `present` [batch, number of inputs], 0 for what is"
            " missing and 1 for the rest; without `present`, all are there. Where the model weighs its sensors, a"
            " second output `attention` says how much each one counted."
        )


def _figures(manifest: Manifest, task: TaskSpec) -> Iterator[str]:
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
