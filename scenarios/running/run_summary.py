"""Summary of a run: facts, scores, value of prediction, exported models and pictures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...models.algorithms.algorithm import SHARED_MODELS
from ...models.hyper.hyper_learners import generating_server
from ..links.radio_links import RadioLinks
from ..recording.inspection import plot_recording
from ..recording.world_file import WorldFile
from ..value.value_report import value_of_prediction
from ..wiring.emulation import Emulation
from ..wiring.evaluation import baseline_scores, best_model, by_group, over_clients
from ..wiring.started_models import WEIGHTS
from ..wiring.taking_part import late_clients
from .interrupted_run import LINKS
from .onnx_files import export_clients
from .probability_scores import probability_scores
from .progress import RunProgress
from .run_environment import run_environment
from .run_folder import RunFolder
from .run_player import PlayedRun
from .weight_files import write_weights

#: File in the run folder with the graph that a server drew of its clients.
CLIENT_GRAPH = "client_graph.txt"


def run_summary(run: PlayedRun, folder: RunFolder, progress: RunProgress) -> dict[str, Any]:
    """Content of `summary.json`; exported models and pictures are written beside it.

    Raises:
        ConfigError: the folder cannot be written.
        ExportError: an exported model does not compute what torch computes.
    """
    scenario, emulation, task = run.scenario, run.emulation, run.scenario.task_spec
    trained_s = time.perf_counter()
    # models of outside clients are in other processes, so that they have no scores here
    members = emulation.groups_without(run.outside)
    groups = by_group(task, members, run.evaluator.latest)
    baselines = {client.client_id: baseline_scores(task, client) for client in emulation.clients}
    wanted = scenario.export.model
    reported = {group: best_model(task, models, wanted) for group, models in groups.items()}
    value = value_of_prediction(
        scenario, emulation.clients, run.predictions, reported, run.data.recordings, run.outside
    )
    probabilities = probability_scores(scenario, members, run.predictions, reported)
    valued_s = time.perf_counter()
    exports = _export(run, reported, folder, progress)
    exported_s = time.perf_counter()
    _write_client_graph(emulation, folder)
    return {
        **_facts(run),
        "recording_time_s": run.recording_s,
        "wall_time_s": run.training_s,
        "groups": {
            group: {"clients": len(members[group]), "model": best, **groups[group][best]}
            for group, best in reported.items()
        },
        **({"models": groups} if any(name in models for models in groups.values() for name in SHARED_MODELS) else {}),
        "over_clients": over_clients(
            task,
            [
                run.evaluator.latest[client.client_id][reported[group]]
                for group, clients in members.items()
                for client in clients
            ],
        ),
        "baselines": by_group(task, members, baselines),
        **({"probabilities": probabilities} if probabilities else {}),
        **({"value": value, "value_time_s": valued_s - trained_s} if value else {}),
        "traffic": emulation.recorder.traffic_figures,
        **_server(emulation),
        **_joined_late(run, reported),
        **({} if emulation.in_step else {"staleness": emulation.recorder.staleness.as_dict()}),
        "exports": exports,
        "export_time_s": exported_s - valued_s,
        "pictures": _draw(run, folder),
        **({"sheaf": sheaf} if (sheaf := run.watch.summary()) else {}),
        **({} if run.theory is None else {"theory": run.theory.summary()}),
        **run.pacing,
        "warnings": list(run.warnings),
        "environment": {**run_environment(scenario, emulation.executor), "workers": run.n_workers},
    }


def _facts(run: PlayedRun) -> dict[str, Any]:
    scenario, emulation = run.scenario, run.emulation
    return {
        "scenario": scenario.name,
        "task": scenario.task,
        "algorithm": scenario.algorithm,
        "seed": scenario.seed,
        "rounds": scenario.rounds,
        "split": scenario.data.held_out_by,
        "scored": scenario.data.scored,
        **({"positions": dict(run.data.positions)} if run.data.positions else {}),
        **({"dropped": {name: dict(one) for name, one in run.data.dropped.items()}} if run.data.dropped else {}),
        "clients": len(emulation.clients),
        "edges": emulation.graph.number_of_edges(),
        "train_windows": sum(len(client.data.train) for client in emulation.clients),
        "test_windows": sum(len(client.data.test) for client in emulation.clients),
        "virtual_time_s": emulation.env.now,
        "energy_j": sum(emulation.recorder.energy_j.values()),
        "trace_hash": emulation.recorder.trace_hash,
    }


def _server(emulation: Emulation) -> dict[str, Any]:
    """What the server sent, received and spent; empty without one."""
    if (server := emulation.server) is None:
        return {}
    recorder = emulation.recorder
    figures = {
        "up": recorder.up.as_dict(),
        "down": recorder.down.as_dict(),
        "busy_s": recorder.busy_s[server],
        "energy_j": recorder.energy_j[server],
    }
    return {"server": figures}


def _write_client_graph(emulation: Emulation, folder: RunFolder) -> None:
    """Write the edges that a server last drew between its clients, as `topology.edge_list` reads them."""
    server = generating_server(emulation.learners[len(emulation.clients) :])
    if server is None or not server.draws_a_graph:
        return
    lines = [f"{one} {other}\n" for one, other in server.vectors.ends.T.tolist()]
    with folder.writing():
        (folder.path / CLIENT_GRAPH).write_text("".join(lines), encoding="utf-8")


def _joined_late(run: PlayedRun, reported: Mapping[str, str]) -> dict[str, Any]:
    """Scores of clients that joined late beside those of all others, by their models; empty where nobody did."""
    late, task = late_clients(run.scenario), run.scenario.task_spec
    if not late:
        return {}
    clients = run.emulation.clients
    scores = {one.client_id: {"": run.evaluator.latest[one.client_id][reported[one.group]]} for one in clients}
    parts = {
        "late": [client for client in clients if client.client_id in late],
        "others": [client for client in clients if client.client_id not in late],
    }
    means = by_group(task, parts, scores)
    found = {name: {"clients": len(members), **means[name][""]} for name, members in parts.items()}
    return {"joined_late": {"numbers": sorted(late), **found}}


def _export(
    run: PlayedRun, reported: Mapping[str, str], folder: RunFolder, progress: RunProgress
) -> list[dict[str, Any]]:
    """One row per exported model."""
    if not run.scenario.export.onnx:
        return []
    here = [client for client in run.emulation.clients if client.client_id not in run.outside]
    progress.exporting(0, len(here))
    with folder.writing():
        write_weights(here, reported, folder.path / WEIGHTS)
        rows = export_clients(
            run.scenario,
            here,
            run.predictions,
            reported,
            folder.path / "models",
            run.emulation.pool,
            lambda n_done: progress.exporting(n_done, len(here)),
        )
    if run.scenario.training.fitted_biases:
        # those of metrics.jsonl are of the last round, before biases were fitted
        return [{**row, "scores": run.evaluator.latest[row["client"]]} for row in rows]
    return rows


def _draw(run: PlayedRun, folder: RunFolder) -> list[str]:
    """Pictures of the first base stations of the first recording, and of radio links; paths inside the run folder."""
    n_stations = run.scenario.export.pictures
    if not run.data.recordings or n_stations == 0:
        return []
    pictures = folder.path / "pictures"
    with folder.writing():
        drawn = plot_recording(run.data.recordings[0], pictures, tuple(range(n_stations)))
        if run.emulation.radio is not None:
            folder.flush()
            drawn.append(_draw_links(run, run.emulation.radio, folder.path / LINKS, pictures / "links.png"))
    return [f"{pictures.name}/{path.name}" for path in drawn]


def _draw_links(run: PlayedRun, radio: RadioLinks, states: Path, path: Path) -> Path:
    from .link_tracks import draw_run_links

    scenario = run.scenario
    world = WorldFile(scenario.recorded_world, scenario.seed) if scenario.data.source == "world" else None
    draw_run_links(path, radio, states, [client.data for client in run.emulation.clients], world, scenario.name)
    return path
