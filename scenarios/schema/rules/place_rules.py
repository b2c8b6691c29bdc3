"""Rules about a run: files that must be where it runs, and options of the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ....emulator.contracts import NodeId
from ....emulator.regular_file import is_regular
from ..scenario_fields import ScenarioFields
from .rule import Case, Rule


class WorkerUse(NamedTuple):
    """A scenario whose clients are to live in worker processes.

    Attributes:
        scenario: which.
        n_workers: processes that share its clients.
    """

    scenario: ScenarioFields
    n_workers: int


class OutsideUse(NamedTuple):
    """A scenario some clients of which are to be played by programs outside of this process.

    Attributes:
        scenario: which.
        clients: ids of those clients.
    """

    scenario: ScenarioFields
    clients: tuple[NodeId, ...]


#: Checked when a run starts, not when a scenario is read: a scenario may be written where its data are not.
FILE_RULES: tuple[Rule[ScenarioFields], ...] = (
    Rule(
        "data.recordings",
        lambda s: _missing_files(s.data.recordings) if s.data.source == "recording" else False,
        "data.recordings names {file}, which is not a file here; make one with the record or import command",
    ),
    Rule(
        "data.root",
        lambda s: s.data.source == "deepsense" and not _is_folder(s.data.root),
        "data.root = {s.data.root!r} is not a folder here; give the folder with the DeepSense .npy files",
    ),
    Rule(
        "data.root",
        lambda s: s.data.source == "rows" and bool(s.data.root) and not _is_there(s.data.root),
        "data.root = {s.data.root!r} is not here; give the path of the data",
    ),
    Rule(
        "links.trace.files",
        lambda s: _missing_files(_traces(s), home=False),
        "links.trace.files names {file}, which is not a file here; give a path to a trace",
    ),
    Rule(
        "model.start_from",
        lambda s: (
            [{"path": path}]
            if s.model.start_from and not _is_there(path := s.model.start_from.replace("{seed}", str(s.seed)))
            else False
        ),
        "model.start_from names {path!r}, which is not here; give the folder of a finished run, or a file of its folder"
        " weights",
    ),
    Rule(
        "model.weights",
        lambda s: _missing_files((s.model.weights,)) if s.model.camera_encoder != "small" else False,
        "model.weights = {file!r} is not a file here; give the path of a file such as resnet50-11ad3fa6.pth, downloaded"
        " from torchvision's model page",
    ),
)

WORKER_RULES: tuple[Rule[WorkerUse], ...] = (
    Rule(
        "export.theory",
        lambda s: s.scenario.export.theory,
        "export.theory needs the models of all clients in one process, for longer than workers wait for the engine;"
        " leave --workers out, or set it to false",
    ),
    Rule(
        "clients.n_clients",
        lambda s: s.n_workers > s.scenario.clients.n_clients,
        "--workers {s.n_workers} is more than clients.n_clients = {s.scenario.clients.n_clients}; use at most one per"
        " client",
    ),
    Rule(
        "algorithm",
        lambda s: s.scenario.algorithm_spec.pooled,
        "algorithm {s.scenario.algorithm!r} trains all clients as one, which cannot be shared among --workers; leave it"
        " out",
    ),
    Rule(
        "topology.kind",
        lambda s: s.scenario.topology.kind == "mobile",
        "topology.kind = 'mobile' changes mixing weights on the engine's clock, which --workers do not have; leave"
        " --workers out, or choose another kind",
    ),
    Rule(
        "data.mode",
        lambda s: s.scenario.data.mode == "live",
        "data.mode = 'live' senses on the engine's clock, which --workers do not have; leave it out, or set data.mode ="
        " 'replay'",
    ),
)

OUTSIDE_RULES: tuple[Rule[OutsideUse], ...] = (
    Rule(
        "clients.n_clients",
        lambda s: (
            {"client": client, "n_clients": s.scenario.clients.n_clients, "last": s.scenario.clients.n_clients - 1}
            for client in s.clients
            if not 0 <= client < s.scenario.clients.n_clients
        ),
        "--outside {client} is no client of this scenario; its {n_clients} clients are 0 to {last}",
    ),
    Rule(
        "clients.n_clients",
        lambda s: set(s.clients) >= set(range(s.scenario.clients.n_clients)),
        "--outside names all clients, and one at least must be emulated; leave one out",
    ),
    Rule(
        "algorithm",
        lambda s: not s.scenario.algorithm_spec.only_averages,
        "algorithm {s.scenario.algorithm!r} needs more than averaging from a client, which --outside clients do not"
        " support; use one that trains, then averages, such as dsgd, dsgd_heads or head_averaging",
    ),
    Rule(
        "export.theory",
        lambda s: s.scenario.export.theory,
        "export.theory needs the models of all clients, and those of --outside clients are elsewhere; set it to false",
    ),
    Rule(
        "sharing.codec",
        lambda s: (s.scenario.sharing.codec, s.scenario.sharing.every, s.scenario.sharing.until) != ("float32", 1, 0),
        "--outside clients send vectors whole and in every round; set sharing.codec = 'float32', sharing.every = 1 and"
        " sharing.until = 0",
    ),
    Rule(
        "network.mode",
        lambda s: (
            s.scenario.network.mode != "synchronous" or s.scenario.topology.kind == "mobile" or bool(s.scenario.faults)
        ),
        "--outside clients keep to the rounds of all and to one set of neighbors; set network.mode = 'synchronous',"
        " choose a topology.kind that stays, and leave faults out",
    ),
    Rule(
        "clients.sampled",
        lambda s: 0 < s.scenario.clients.sampled < s.scenario.clients.n_clients,
        "--outside clients keep to the rounds of all, and clients.sampled = {s.scenario.clients.sampled} draws those of"
        " every round; set it to 0",
    ),
    Rule(
        "network.missing",
        lambda s: s.scenario.network.missing == "wait",
        "network.missing = 'wait' would wait for ever for an --outside client that is gone; use 'skip' or 'stale'",
    ),
)


def _missing_files(names: tuple[str, ...], *, home: bool = True) -> Iterator[Case]:
    for name in dict.fromkeys(names):
        if not is_regular(Path(os.path.expanduser(name) if home else name)):  # noqa: PTH111 - Path's own raises
            yield {"file": name}


def _is_there(name: str) -> bool:
    return _is_folder(name) or is_regular(Path(os.path.expanduser(name)))  # noqa: PTH111 - as above


def _is_folder(name: str) -> bool:
    try:
        return Path(os.path.expanduser(name)).is_dir()  # noqa: PTH111 - as above
    except (OSError, ValueError):  # a name that no file system takes
        return False


def _traces(s: ScenarioFields) -> tuple[str, ...]:
    """Files that edges replay: those of all edges, and those of exceptions."""
    tables = [s.links.settings_of("trace")] if s.links.model == "trace" else []
    edges = s.links.edges if s.server_id is None else (s.server.link,)
    replaying = [edge for edge in edges if (edge.model or s.links.model) == "trace"]
    tables += [getattr(edge, "trace", None) or s.links.settings_of("trace") for edge in replaying]
    return tuple(file for table in tables for file in table.files)
