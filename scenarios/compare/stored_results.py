"""Stored results of a comparison: its `results.json`, checked once for its report and for Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import ConfigDict, Field

from ...emulator.contracts import ConfigError, DataError
from ...emulator.regular_file import read_regular, reason
from ..schema.wording import shown
from ..tasks.task_table import TASKS
from .comparison import FORMER_METHODS
from .differences import with_differences
from .results import ALL_CLIENTS

RESULTS = "results.json"
#: Results of hundreds of methods and seeds take some megabytes.
MAX_RESULTS_BYTES = 1 << 28

#: A seed as a key of JSON, below 2^63.
_Seed = Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]


class _ResultPart(pydantic.BaseModel):
    """Part of the results; what is not listed is kept and not checked."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Spread(_ResultPart):
    mean: float | None
    sd: float | None
    n: int
    values: dict[_Seed, float]


class _Group(_ResultPart):
    clients: int
    scores: dict[str, _Spread]
    baselines: dict[str, dict[str, _Spread]]


class _Costs(_ResultPart):
    """What runs cost; every version has written these three."""

    __pydantic_extra__: dict[str, _Spread]
    bytes: _Spread
    virtual_time_s: _Spread
    energy_j: _Spread


class _ResultEntry(_ResultPart):
    arm: str
    varied: Any = None
    algorithm: str
    n: int
    runs: dict[_Seed, str]
    groups: dict[str, _Group]
    facts: _Costs
    warnings: list[str]


class _Failure(_ResultPart):
    arm: str
    varied: Any
    seed: int
    sentence: str


class _Compared(_ResultPart):
    arms: dict[str, dict[str, Any]]
    set: dict[str, Any] = {}
    vary: dict[str, list[Any]] = {}
    reference: str | None = None


class _Resampling(_ResultPart):
    drawn: Literal["data", "split", "neither", "unknown"]
    test_per_train: float


class _Tuning(_ResultPart):
    grid: dict[str, Any]
    scored: str


class _Results(_ResultPart):
    name: str
    scenario: str
    task: str
    split: str
    scored: str
    seeds: Annotated[list[int], Field(min_length=1)]
    reference: str | None
    vary: str | None
    tuning: _Tuning | None = None
    entries: list[_ResultEntry]
    failures: list[_Failure]
    comparison: _Compared
    resampling: _Resampling | None = None
    environment: dict[str, Any]

    @pydantic.model_validator(mode="after")
    def _is_whole(self) -> Self:
        values = self.comparison.vary.get(self.vary, []) if self.vary else [None]
        compared = [(method, value) for value in values for method in self.comparison.arms]
        if [(entry.arm, entry.varied) for entry in self.entries] != compared:
            raise ValueError(f"its entries are not those of its {FORMER_METHODS} at every varied value")
        for entry in self.entries:
            if entry.n != len(entry.facts.bytes.values.keys() & entry.runs.keys()):
                raise ValueError(f"an entry of {shown(entry.arm)} has not the {entry.n} runs that it counts")
            if entry.n and ALL_CLIENTS not in entry.groups:
                raise ValueError(f"an entry of {shown(entry.arm)} lacks the group {ALL_CLIENTS!r}")
        for reference in (self.reference, self.comparison.reference):
            if reference and reference not in self.comparison.arms:
                raise ValueError(f"its reference {shown(reference)} is none of its {FORMER_METHODS}")
        return self


def stored_results(folder: Path) -> dict[str, Any]:
    """Content of `results.json` of a comparison, with differences whatever version wrote it.

    Raises:
        DataError: the file is missing, damaged, or not written by a comparison.
        ConfigError: its task is one of a plugin that is not loaded.
    """
    path = folder / RESULTS
    try:
        results: dict[str, Any] = json.loads(read_regular(path, MAX_RESULTS_BYTES))
        _Results.model_validate(results)
    except (OSError, ValueError, RecursionError) as error:  # pydantic's is a ValueError
        raise DataError(
            f"{path} is no result of a comparison ({_complaint(error)}); sheafedge compare with the same arguments"
            " writes it again"
        ) from None
    if results["task"] not in TASKS:
        raise ConfigError(
            f"{path}: unknown task {shown(results['task'])}; known: {', '.join(TASKS)}; add --plugin FILE, the plugin"
            " that the comparison was made with"
        )
    return with_differences(results)


def _complaint(error: Exception) -> str:
    """First thing that is wrong with a file, with the place where pydantic found it."""
    if not isinstance(error, pydantic.ValidationError):
        return reason(error)
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ").partition(" or instance of ")[0]
    return f"{place}: {message}" if place else message
