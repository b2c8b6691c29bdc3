"""What a scenario can say: one frozen value that a person can read, diff and edit.

A scenario is a TOML file. Loading turns it into a tree of frozen values, each checking itself; a variant is an edit of
that value. Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field

from ..emulator.contracts import ConfigError
from ..emulator.network.link import LinkSettings
from ..emulator.world.road import RoadSettings
from ..models.settings import ModelSettings, SheafSettings, TrainingSettings
from .wording import no_table, one_sentence, shown

SHIPPED = Path(__file__).parent

#: A mistyped number of units would fill the memory long before any training; useful layers are far below.
MAX_WIDTH = 16_384
#: Folder names of this length fit every file system, with an ending.
MAX_NAME_LENGTH = 100

#: What data sources hold so far.
RecordedModality = Literal["gps", "rf"]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Fraction = Annotated[float, Field(gt=0.0, lt=1.0)]


def _first_repeated(values: Sequence[Any]) -> Any:
    return next((value for index, value in enumerate(values) if value in values[:index]), None)


class Section(pydantic.BaseModel):
    """A table of a scenario file; unknown keys are errors."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataSection(Section):
    """Where rows come from and how they are shared out.

    Attributes:
        source: "road" simulates cars passing; "deepsense" reads measured rows from `root`.
        root: folder with the DeepSense `.npy` files.
        scenarios: DeepSense scenarios, one recording each.
        n_sites, road: number of simulated recordings, and the site that they vary.
        n_beams: codebook size; below 64 every second, fourth or eighth beam is kept.
        window: samples per input.
        split: "sequence" holds out whole drive-bys; "random" mixes rows and leaks, for published figures only.
        test_fraction: share of a client's drive-bys held out.
        train_fraction: share of the remaining windows trained on.
    """

    source: Literal["road", "deepsense"] = "road"
    root: str = ""
    scenarios: tuple[Annotated[int, Field(ge=1)], ...] = (1, 5, 8)
    n_sites: Annotated[int, Field(ge=1, le=1000)] = 3
    road: RoadSettings = RoadSettings()
    n_beams: Literal[64, 32, 16, 8] = 64
    window: Annotated[int, Field(ge=1)] = 4
    split: Literal["sequence", "random"] = "sequence"
    test_fraction: Fraction = 0.3
    train_fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0

    @pydantic.model_validator(mode="after")
    def _has_root(self) -> Self:
        if self.source == "deepsense" and not self.root:
            raise ConfigError("data.root is empty; give the folder with the DeepSense .npy files: --set data.root=DIR")
        if self.source == "deepsense" and not self.scenarios:
            raise ConfigError("data.scenarios is empty; name at least one, such as --set 'data.scenarios=[1,5,8]'")
        if again := _first_repeated(self.scenarios):
            raise ConfigError(
                f"data.scenarios names {again} twice, so that one client would be tested on what another trains on;"
                " name each scenario once"
            )
        return self


class GroupSection(Section):
    """Clients that own the same modalities.

    Attributes:
        name: in tables.
        modalities: what they own.
        share: of all clients; the shares of a scenario add up to 1.
    """

    name: Annotated[str, Field(min_length=1)]
    modalities: Annotated[tuple[RecordedModality, ...], Field(min_length=1)]
    share: Probability

    @pydantic.model_validator(mode="after")
    def _owns_each_once(self) -> Self:
        if again := _first_repeated(self.modalities):
            raise ConfigError(f"clients.groups: {self.name!r} lists modality {again!r} twice; list it once")
        return self


class ClientsSection(Section):
    """How many base stations, and which sensors they have."""

    n_clients: Annotated[int, Field(ge=1)] = 20
    groups: Annotated[tuple[GroupSection, ...], Field(min_length=1)]

    @pydantic.model_validator(mode="after")
    def _groups_fit_together(self) -> Self:
        if again := _first_repeated([group.name for group in self.groups]):
            raise ConfigError(f"clients.groups has two groups named {again!r}; give each its own name")
        total = sum(group.share for group in self.groups)
        if abs(total - 1.0) > 1e-6:
            raise ConfigError(f"clients.groups: the shares must add up to 1, got {total:g}; change a group's share")
        return self


class TopologySection(Section):
    """Who is whose neighbor; edges join only clients that share a modality."""

    kind: Literal["erdos_renyi", "ring", "regular", "star", "complete", "edge_list"] = "erdos_renyi"
    edge_probability: Probability = 0.3
    degree: Annotated[int, Field(ge=1)] = 4
    edge_list: str = ""

    @pydantic.model_validator(mode="after")
    def _has_file(self) -> Self:
        if self.kind == "edge_list" and not self.edge_list:
            raise ConfigError("topology.edge_list is empty; give a file with one edge 'i j' per line")
        return self


class LinkSection(Section):
    """What every direction of every edge is like.

    Attributes:
        rate_bps, propagation_s, processing_s, packet_bytes, retry_limit, retry_interval_s: see `LinkSettings`.
        loss_model: "iid", or "gilbert_elliott" for bursts of `mean_burst_packets` with the same long-run loss.
        loss_probability: share of transmissions lost in the long run.
    """

    rate_bps: float = 1e8
    propagation_s: float = 0.005
    processing_s: float = 0.001
    packet_bytes: int = 1200
    retry_limit: Annotated[int, Field(le=1000)] = 1
    retry_interval_s: float = 0.008
    loss_model: Literal["iid", "gilbert_elliott"] = "iid"
    loss_probability: Probability = 0.0
    mean_burst_packets: Annotated[float, Field(ge=1.0)] = 4.0

    @pydantic.model_validator(mode="after")
    def _is_possible(self) -> Self:
        self.settings()
        share, burst = self.loss_probability, self.mean_burst_packets
        if self.loss_model == "gilbert_elliott" and 0.0 < share < 1.0 and share / ((1.0 - share) * burst) > 1.0:
            raise ConfigError(
                f"link.mean_burst_packets = {burst:g} is too short for link.loss_probability = {share:g};"
                f" bursts must last at least {share / (1.0 - share):.3g} packets"
            )
        return self

    def settings(self, *, until_delivered: bool = False) -> LinkSettings:
        """Timing of a link; `until_delivered` lifts the retry limit."""
        return LinkSettings(
            rate_bps=self.rate_bps,
            propagation_s=self.propagation_s,
            processing_s=self.processing_s,
            packet_bytes=self.packet_bytes,
            retry_limit=None if until_delivered else self.retry_limit,
            retry_interval_s=self.retry_interval_s,
        )


class NetworkSection(Section):
    """How messages travel and what a missing one means.

    Attributes:
        transport: "zmq" or "memory"; the same trajectory.
        address: of the ZeroMQ hub; empty picks an in-process one.
        missing: "skip" does without, "stale" uses the neighbor's last words, "wait" repeats until delivered.
        deadline_s: simulated time after the start of a phase when missing messages are given up.
    """

    transport: Literal["zmq", "memory"] = "zmq"
    address: str = ""
    missing: Literal["skip", "stale", "wait"] = "skip"
    deadline_s: Annotated[float, Field(gt=0.0)] = 0.1


class ComputeSection(Section):
    """Where work runs, really and in simulated time.

    Attributes:
        device: torch device; "auto" takes a GPU where there is one.
        executor, threads: pool of the real work; every job's arithmetic runs on one thread.
        profile: emulated device that simulated compute time comes from.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    executor: Literal["threads", "serial"] = "threads"
    threads: Annotated[int, Field(ge=1)] = 2
    profile: str = "edge_cpu"


class ExportSection(Section):
    """Hand-out of trained models.

    Attributes:
        onnx: write one file per client.
        max_abs_error: largest difference to torch on held-out rows that passes.
    """

    onnx: bool = True
    max_abs_error: Annotated[float, Field(gt=0.0)] = 1e-4


class Scenario(Section):
    """Everything that decides a run."""

    name: str
    summary: str = ""
    algorithm: str = "sheaf_dmfl_att"
    seed: Annotated[int, Field(ge=0)] = 0
    rounds: Annotated[int, Field(ge=1)] = 60
    evaluate_every: Annotated[int, Field(ge=1)] = 1
    data: DataSection = DataSection()
    clients: ClientsSection
    topology: TopologySection = TopologySection()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    sheaf: SheafSettings = SheafSettings()
    link: LinkSection = LinkSection()
    network: NetworkSection = NetworkSection()
    compute: ComputeSection = ComputeSection()
    export: ExportSection = ExportSection()

    @pydantic.field_validator("name")
    @classmethod
    def _can_name_a_folder(cls, name: str) -> str:
        printable = all(character.isprintable() and character not in "/\\" for character in name)
        if not name.strip() or name.startswith(".") or not printable or len(name) > MAX_NAME_LENGTH:
            raise ConfigError(
                f"name must be able to name a run folder, got {shown(name)}; use up to {MAX_NAME_LENGTH} letters,"
                " digits, '-' and '_'"
            )
        return name

    @pydantic.field_validator("model")
    @classmethod
    def _is_of_reasonable_size(cls, model: ModelSettings) -> ModelSettings:
        for field in ("hidden_dim", "embedding_dim"):
            if getattr(model, field) > MAX_WIDTH:
                raise ConfigError(f"model.{field} must be at most {MAX_WIDTH}, got {getattr(model, field)}; try 128")
        return model

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.network.missing == "wait" and self.link.loss_probability >= 1.0:
            raise ConfigError(
                "network.missing = 'wait' never ends with link.loss_probability = 1; use 'skip' or lower the loss"
            )
        if self.sheaf.exchange == "single" and self.network.missing != "wait":
            raise ConfigError(
                f"sheaf.exchange = 'single' needs network.missing = 'wait', got {self.network.missing!r}: both ends of"
                " an edge must see the same residual"
            )
        return self

    def edited(self, edits: Mapping[str, Any]) -> Scenario:
        """A variant: the same scenario with some dotted keys set, such as {"link.loss_probability": 0.05}.

        Raises:
            ConfigError: a key or value that does not fit.
        """
        tree = self.model_dump(mode="json")
        for key, value in edits.items():
            *parents, last = key.split(".")
            table: Any = tree
            for depth, parent in enumerate(parents, start=1):
                table = table.setdefault(parent, {})
                if not isinstance(table, dict):
                    raise ConfigError(no_table(key, ".".join(parents[:depth]), table))
            table[last] = value
        return validated(tree)


def validated(tree: Mapping[str, Any]) -> Scenario:
    """A scenario from plain tables.

    Raises:
        ConfigError: in one sentence, the first thing that is wrong.
    """
    try:
        return Scenario.model_validate(tree)
    except pydantic.ValidationError as error:
        raise ConfigError(one_sentence(error, Scenario)) from None


def shipped_scenarios() -> dict[str, Path]:
    """Name -> file of every scenario that comes with the package."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}


def load_scenario(name_or_path: str) -> Scenario:
    """A shipped scenario by name, or a TOML file by path.

    Raises:
        ConfigError: no such scenario, not TOML, or an impossible value.
    """
    shipped = shipped_scenarios()
    path = shipped.get(name_or_path, Path(name_or_path))
    if not _is_file(path):
        close = difflib.get_close_matches(name_or_path, shipped, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ConfigError(
            f"unknown scenario {shown(name_or_path)}; give a TOML file or one of: {', '.join(shipped)}{hint}"
        )
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not a readable TOML file ({error}); repair or replace it") from None
    try:
        return validated({"name": path.stem, **tree})
    except ConfigError as error:
        raise ConfigError(str(error) if name_or_path in shipped else f"{path}: {error}") from None


def parse_assignment(text: str) -> tuple[str, Any]:
    """Key and value of `--set key=value`; values are TOML, and what is not TOML is a string.

    Raises:
        ConfigError: no '=' in it.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set takes key=value, got {text!r}; for example --set link.loss_probability=0.05")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return key.strip(), value.strip()
    return key.strip(), parsed["value"] if len(parsed) == 1 else value.strip()  # a line break would open another field


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file system takes
        return False
