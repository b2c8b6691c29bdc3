"""What a scenario says about computing: the real device, the emulated devices, and the files that models go into."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import Field

from ...emulator.edge.profile_file import profile_of, profile_table, read_profile, read_table
from .section import Probability, Section


class StragglersSection(Section):
    """Clients that are slow for no reason that anybody sees: other work, heat, a bad day.

    Attributes:
        share: share of all clients, drawn once.
        factor: factor by which all their computing takes longer.
    """

    share: Probability = 0.0
    factor: Annotated[float, Field(ge=1.0, le=1e6)] = 4.0


class ComputeSection(Section):
    """Where work runs, really and in simulated time.

    Attributes:
        device: torch device; "auto" takes a GPU where there is one.
        executor: how the real work of clients is computed: "batched", equal models by one call; "threads", a client per
            thread; "serial", one client after the other. "auto" takes batches of small models and on a GPU, and threads
            where an encoder convolves on a CPU or workers train. Threads change no bit of a result; batches round
            differently.
        threads: number of threads that compute clients, or batches of them.
        tf32: let a GPU round factors of float32 products to 10 bits, which is faster; convolutions too.
        map_memory_gb: most that dense restriction maps of all clients may hold, in gigabytes; those of large models
            are refused before they are drawn.
        awake_clients: with `clients.sampled`, most clients of which all are kept as they are; of more, those that take
            no part in a round are put away as their states. The results are the same.
        lost_worker: with --workers, when one dies: "stop" with a sentence, or "restart" them from the last checkpoint.
        profile: emulated device that simulated compute time comes from; the name of one, or a file that
            `sheafedge bench --save-profile` wrote.
        profiles: devices of the scenario's own, name -> table or file; a file is read once, and its table kept here.
        stragglers: clients that take longer than their device.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    executor: Literal["auto", "batched", "threads", "serial"] = "auto"
    threads: Annotated[int, Field(ge=1)] = 2
    tf32: bool = False
    map_memory_gb: Annotated[float, Field(gt=0.0, le=1e6)] = 4.0
    awake_clients: Annotated[int, Field(ge=0)] = 2000
    lost_worker: Literal["stop", "restart"] = "stop"
    profile: str = "edge_cpu"
    profiles: dict[str, dict[str, Any]] = Field(default_factory=dict)
    stragglers: StragglersSection = StragglersSection()

    @pydantic.model_validator(mode="before")
    @classmethod
    def _takes_files_in(cls, table: Any) -> Any:
        """So that a run folder repeats a run where the file is not."""
        if not isinstance(table, dict):
            return table
        profile, profiles = table.get("profile"), table.get("profiles", {})
        if not isinstance(profiles, dict):
            return table
        own = {name: read_table(Path(found)) if isinstance(found, str) else found for name, found in profiles.items()}
        if isinstance(profile, str) and profile.endswith(".toml"):
            found = read_profile(Path(profile))
            profile, own[found.name] = found.name, profile_table(found)
        return {**table, "profiles": own} | ({} if profile is None else {"profile": profile})

    @pydantic.field_validator("profiles")
    @classmethod
    def _are_devices(cls, profiles: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for name, table in profiles.items():
            profile_of(name, table)
        return profiles


class ExportSection(Section):
    """Hand-out of trained models, and what a run folder says about its clients.

    Attributes:
        onnx: write one ONNX file per client.
        model: which of a client's models a run reports and hands out: the "personal" one where there is one, or, of
            algorithms that exchange factors, the "compressed local" or "compressed global" one, as a chain of small
            operators.
        max_abs_error: largest difference to torch on held-out rows that passes.
        pictures: number of base stations whose scene is drawn into the run folder.
        report: write `report.html` at the end of `sheafedge run`.
        client_lines: most clients of which each has a line per round in `metrics.jsonl`; with more, their figures are
            columns in the folder `metrics`, and lines are of 20 clients and of aggregates over groups.
        theory: compute, before the first and after every scored round, what theory says of the run: energy, spectrum
            and holonomy of its sheaf, gradients over all training samples, and the bound of Theorem 1.
    """

    onnx: bool = True
    model: Literal["personal", "compressed local", "compressed global"] = "personal"
    max_abs_error: Annotated[float, Field(gt=0.0)] = 1e-4
    pictures: Annotated[int, Field(ge=0)] = 1
    report: bool = True
    client_lines: Annotated[int, Field(ge=0)] = 1000
    theory: bool = False
