"""`TRACKERS`: the trackers that there are, and how the command line asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from ...emulator.contracts import ConfigError
from ..schema.scenario import Scenario
from ..schema.wording import shown
from .backends import MlflowTracker, TensorboardTracker, WandbTracker
from .tracker import TrackedRun, Tracker

#: Folder of all trackers, each of which has a folder of its own with all its runs.
DEFAULT_FOLDER = Path("runs/tracking")


class TrackerRequest(NamedTuple):
    """A tracker that was asked for: its name in `TRACKERS`, and its folder."""

    name: str
    folder: Path


class TrackerKind(NamedTuple):
    """A row of `TRACKERS`: the package that it needs, and what begins a run with it."""

    package: str
    begin: Callable[[TrackedRun], Tracker]


TRACKERS: Mapping[str, TrackerKind] = {
    "tensorboard": TrackerKind("tensorboard", TensorboardTracker),
    "wandb": TrackerKind("wandb", WandbTracker),
    "mlflow": TrackerKind("mlflow", MlflowTracker),
}


def requested_trackers(texts: Sequence[str]) -> list[TrackerRequest]:
    """Trackers of a command line, each "NAME" or "NAME=FOLDER".

    Raises:
        ConfigError: an unknown name, one twice, or one whose package is not installed.
    """
    requests: list[TrackerRequest] = []
    for text in texts:
        name, equals, folder = text.partition("=")
        if name not in TRACKERS:
            raise ConfigError(f"unknown --tracker {shown(name)}; known: {', '.join(TRACKERS)}")
        if equals and not folder:
            raise ConfigError(f"--tracker {text} names no folder; for example --tracker {name}={DEFAULT_FOLDER / name}")
        if name in [request.name for request in requests]:
            raise ConfigError(f"--tracker {name} is given twice; give each tracker once")
        if find_spec(TRACKERS[name].package) is None:
            raise ConfigError(
                f"--tracker {name} needs the package {TRACKERS[name].package}; pip install 'sheafedge[{name}]'"
            )
        requests.append(TrackerRequest(name, Path(folder) if folder else DEFAULT_FOLDER / name))
    return requests


def opener(request: TrackerRequest, scenario: Scenario, run: str) -> Callable[[], Tracker]:
    """What opens a tracker for a run when it begins; its folder is made at once, so that a wrong one is refused.

    Args:
        request: the tracker.
        scenario: scenario of the run.
        run: name of the run folder.

    Raises:
        ConfigError: the folder cannot be made.
    """
    try:
        request.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"folder {request.folder} of --tracker {request.name} cannot be made ({reason}); name another:"
            f" --tracker {request.name}=FOLDER"
        ) from None
    told = TrackedRun(request.folder, scenario.name, run, flat(scenario.model_dump(mode="json", exclude_defaults=True)))
    return partial(TRACKERS[request.name].begin, told)


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys; lists of tables by their places."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
            found |= flat({str(place): one for place, one in enumerate(value)}, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found
