"""What a run folder may hold after an attack, and how a user goes on from there."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w
from attacks.commands import Command, Source
from integration.tiny import tiny

#: Losses, delays and repeated messages: a state that is not restored to the last bit shows in the trace.
EDITS = {
    "clients.groups": [{"name": "both", "modalities": ["gps", "rf"], "share": 1.0}],  # one graph to trace
    "rounds": 6,
    "checkpoint_every": 1,
    "link.loss_probability": 0.3,
    "link.retry_limit": 1,
    "network.missing": "stale",
    "network.deadline_s": 0.02,
    "evaluate_every": 2,
}
#: Sentences for a user: no line of a traceback is one of them.
_TRACEBACK = re.compile(r"Traceback|^  File |Fatal Python error|Exception ignored|core dumped", re.MULTILINE)


def written_scenario(folder: Path, **edits: Any) -> Path:
    """Scenario file of the run that is attacked."""
    path = folder / "attacked.toml"
    path.write_text(tomli_w.dumps(tiny({**EDITS, **edits}).tables()), encoding="utf-8")
    return path


def contents(folder: Path) -> dict[str, Any]:
    """What a complete run says: rows, trace, scores, models; nothing about this machine or how often it was resumed."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    models = {path.name: path.read_bytes() for path in sorted(folder.glob("models/*"))}
    rows = (folder / "metrics.jsonl").read_bytes()
    return {"rows": rows, "models": models, **{key: summary[key] for key in ("trace_hash", "groups", "traffic")}}


def complaint(command: Command, *codes: int) -> str:
    """What is wrong with the end of a command that may have these exit codes; empty: nothing."""
    code = command.wait()
    if _TRACEBACK.search(command.said):
        return f"exit code {code} with a traceback: {command.said[-2000:]}"
    if code not in codes:
        return f"exit code {code}, not one of {codes}: {command.said[-500:]}"
    return ""


def leftovers(ground: Path) -> Sequence[Path]:
    """Folders of the run `run` that is not complete, those that can go on first."""
    found = [path for path in ground.glob("run.*") if path.is_dir()]
    return sorted(found, key=lambda path: not can_go_on(path))


def can_go_on(folder: Path) -> bool:
    """Whether a folder has what `--resume` needs."""
    return any(folder.glob("checkpoint/round-*")) or (folder / "summary.json").exists()


def next_command(ground: Path, scenario: Path, *options: str) -> list[str]:
    """What a user does next: resume what can go on, or clear away what cannot and begin anew."""
    for folder in leftovers(ground):
        if can_go_on(folder):
            return ["run", "--resume", str(folder), *options]
        shutil.rmtree(folder)
    return ["run", str(scenario), "--out", str(ground / "run"), *options]


def brought_to_its_end(source: Source, ground: Path, scenario: Path, cache: Path, *options: str) -> str:
    """Go on until the run is complete; what went wrong on the way, or is left beside it; empty: nothing."""
    if not (ground / "run").exists():
        command = source.start(*next_command(ground, scenario, *options), cwd=ground, cache=cache)
        if wrong := complaint(command, 0):
            return wrong
    beside = {path.name for path in ground.iterdir()} - {"run"}
    in_cache = {path.name for path in cache.iterdir() if path.suffix != ".lock"}
    if beside or len(in_cache) != 1:
        return f"left beside the run: {beside}, in the cache: {in_cache}"
    return ""
