"""What a scenario can say: one frozen value that a person can read, diff and edit.

A scenario is a TOML file. Loading turns it into a tree of frozen values, each checking itself; a variant is an edit of
that value. Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field

from ...emulator.contracts import MODALITIES, ConfigError, Modality
from ...emulator.edge.profile_file import profile_of, profile_table, read_profile, read_table
from ...emulator.modalities import has_images
from ...models.settings import ModelSettings, SharingSettings, SheafSettings, TrainingSettings
from ..tasks.task_spec import TaskSpec
from ..tasks.task_table import TASKS
from .data_section import CodebookSize, DataSection, LiveSection, first_repeated
from .decision_section import DecisionSection
from .fault_section import FaultSection, check_faults
from .former_names import with_present_names
from .link_numbers import LinkSection
from .link_section import LinksSection, check_links
from .mobility_section import MobilitySection
from .section import Probability, Section
from .toml_file import MAX_DEPTH, is_file, read_toml, refuse_absurd
from .wording import no_table, one_sentence, shown
from .world_section import WorldSection

SHIPPED = Path(__file__).parents[1] / "shipped"

#: A mistyped number of units would fill the memory long before any training; useful layers are far below.
MAX_WIDTH = 16_384
#: Folder names of this length fit every file system, with an ending.
MAX_NAME_LENGTH = 100


class GroupSection(Section):
    """Clients that own the same modalities and are asked the same.

    Attributes:
        name: in tables.
        modalities: what they own.
        share: of all clients; the shares of a scenario add up to 1.
        n_beams, horizon: of their question, where it is not that of `[data]`.
        profile: emulated device, where it is not that of `[compute]`.
    """

    name: Annotated[str, Field(min_length=1)]
    modalities: Annotated[tuple[Modality, ...], Field(min_length=1)]
    share: Probability
    n_beams: CodebookSize | None = None
    horizon: Annotated[int, Field(ge=1)] | None = None
    profile: str | None = None

    @pydantic.model_validator(mode="after")
    def _owns_each_once(self) -> Self:
        if again := first_repeated(self.modalities):
            raise ConfigError(f"clients.groups: {self.name!r} lists modality {again!r} twice; list it once")
        return self


class ClientsSection(Section):
    """How many base stations, and which sensors they have."""

    n_clients: Annotated[int, Field(ge=1)] = 20
    groups: Annotated[tuple[GroupSection, ...], Field(min_length=1)]

    @pydantic.model_validator(mode="after")
    def _groups_fit_together(self) -> Self:
        if again := first_repeated([group.name for group in self.groups]):
            raise ConfigError(f"clients.groups has two groups named {again!r}; give each its own name")
        total = sum(group.share for group in self.groups)
        if abs(total - 1.0) > 1e-6:
            raise ConfigError(f"clients.groups: the shares must add up to 1, got {total:g}; change a group's share")
        return self


class TopologySection(Section):
    """Who is whose neighbor; edges join only clients that share a modality. Where they are "mobile", `[mobility]` tells
    who is in range of whom when a round begins.
    """

    kind: Literal["erdos_renyi", "ring", "regular", "star", "complete", "edge_list", "mobile"] = "erdos_renyi"
    edge_probability: Probability = 0.3
    degree: Annotated[int, Field(ge=1)] = 4
    edge_list: str = ""

    @pydantic.model_validator(mode="after")
    def _has_file(self) -> Self:
        if self.kind == "edge_list" and not self.edge_list:
            raise ConfigError("topology.edge_list is empty; give a file with one edge 'i j' per line")
        return self


class NetworkSection(Section):
    """How messages travel and what a missing one means.

    Attributes:
        mode: "synchronous" has all begin a phase together; "asynchronous" lets each go on at its own pace, with the
            newest that it has heard.
        transport: "zmq" or "memory"; the same trajectory.
        address: of the ZeroMQ hub; empty picks an in-process one.
        missing: "skip" does without, "stale" uses the neighbor's last words, "wait" repeats until delivered.
            Asynchronous clients use a message once, or with "stale" until a newer one comes.
        deadline_s: simulated time after the start of a phase when missing messages are given up; not used in
            asynchronous mode.
    """

    mode: Literal["synchronous", "asynchronous"] = "synchronous"

    transport: Literal["zmq", "memory"] = "zmq"
    address: str = ""
    missing: Literal["skip", "stale", "wait"] = "skip"
    deadline_s: Annotated[float, Field(gt=0.0)] = 0.1


class StragglersSection(Section):
    """Clients that are slow for no reason that anybody sees: other work, heat, a bad day.

    Attributes:
        share: of all clients, drawn once.
        factor: that all their computing takes longer.
    """

    share: Probability = 0.0
    factor: Annotated[float, Field(ge=1.0, le=1e6)] = 4.0


class ComputeSection(Section):
    """Where work runs, really and in simulated time.

    Attributes:
        device: torch device; "auto" takes a GPU where there is one.
        executor, threads: pool of the real work; every job's arithmetic runs on one thread.
        lost_worker: with --workers, when one dies: "stop" with a sentence, or "restart" them from the last checkpoint.
        profile: emulated device that simulated compute time comes from; the name of one, or a file that
            `sheafedge bench --save-profile` wrote.
        profiles: devices of the scenario's own, name -> table or file; a file is read once, and its table kept here.
        stragglers: clients that take longer than their device.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    executor: Literal["threads", "serial"] = "threads"
    threads: Annotated[int, Field(ge=1)] = 2
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
    """Hand-out of trained models.

    Attributes:
        onnx: write one file per client.
        max_abs_error: largest difference to torch on held-out rows that passes.
        pictures: base stations whose scene is drawn into the run folder.
    """

    onnx: bool = True
    max_abs_error: Annotated[float, Field(gt=0.0)] = 1e-4
    pictures: Annotated[int, Field(ge=0)] = 1


class Scenario(Section):
    """Everything that decides a run.

    Attributes:
        name, summary: for people.
        task: what base stations are to learn, a name of `tasks.table.TASKS`.
        algorithm: how they learn together.
        seed: of every draw.
        rounds: of training.
        evaluate_every: score every so many rounds, and always in the last.
        checkpoint_every: keep what is needed to go on every so many rounds, while the run lasts; 0: never.
        world: what is recorded, for `data.source = "world"`.
        data, live, clients, topology, mobility, model, training, sheaf, sharing: see there.
        link, links, network, compute, export, decision, faults: see there.

    Examples:
        >>> from sheafedge import load_scenario
        >>> lossy = load_scenario("blockage").edited({"link.loss_probability": 0.2})
        >>> lossy.link.loss_probability, lossy.rounds
        (0.2, 20)
    """

    name: str
    summary: str = ""
    task: Literal["blockage", "beam_tracking", "beam_prediction"]
    algorithm: str = "sheaf_dmfl_att"
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    rounds: Annotated[int, Field(ge=1)] = 60
    evaluate_every: Annotated[int, Field(ge=1)] = 1
    checkpoint_every: Annotated[int, Field(ge=0)] = 10
    world: WorldSection | None = None
    data: DataSection = DataSection()
    live: LiveSection = LiveSection()
    clients: ClientsSection
    topology: TopologySection = TopologySection()
    mobility: MobilitySection = MobilitySection()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    sheaf: SheafSettings = SheafSettings()
    sharing: SharingSettings = SharingSettings()
    link: LinkSection = LinkSection()
    links: LinksSection = LinksSection()
    network: NetworkSection = NetworkSection()
    compute: ComputeSection = ComputeSection()
    export: ExportSection = ExportSection()
    decision: DecisionSection = DecisionSection()
    faults: tuple[FaultSection, ...] = ()

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
    def _data_fit_the_task(self) -> Self:
        for group in self.clients.groups:
            self.task_spec.check(self.data_of(group.name))
            if strangers := [modality for modality in group.modalities if modality not in self.task_spec.modalities]:
                raise ConfigError(
                    f"clients.groups: {group.name!r} has {strangers[0]!r}, which task {self.task!r} cannot use; choose"
                    f" among {', '.join(self.task_spec.modalities)}"
                )
        if self.model.camera_encoder != "small" and self.task != "beam_prediction":
            raise ConfigError(
                f"model.camera_encoder = {self.model.camera_encoder!r} takes single images, which task {self.task!r}"
                " does not have; set it to 'small'"
            )
        if self.data.images != "plain" and not any(has_images(group.modalities) for group in self.clients.groups):
            raise ConfigError(
                f"data.images = {self.data.images!r} changes what cameras see, but no group of clients.groups has a"
                " camera; set it to 'plain'"
            )
        if self.data.source == "deepsense" and self.task != "beam_tracking":
            raise ConfigError(
                f"data.source = 'deepsense' holds rows for task 'beam_tracking' only, got task {self.task!r}; import"
                " the folder (sheafedge import deepsense) and set data.source = 'recording'"
            )
        if self.data.source != "world":
            return self
        if self.world is None:
            raise ConfigError("data.source = 'world' needs a table [world], such as kind = \"street\"")
        possible = self.world.recordable
        if missing := [modality for modality in self.recorded_modalities if modality not in possible]:
            raise ConfigError(
                f"task {self.task!r} and its clients need {missing[0]!r}, which this world does not record"
                f" ({', '.join(possible)}); set world.sensors, or change clients.groups"
            )
        if self.data.mode == "live" and self.world.n_sites < self.clients.n_clients:
            raise ConfigError(
                f"data.mode = 'live' has every client sense a base station of its own, but world.n_sites ="
                f" {self.world.n_sites} for clients.n_clients = {self.clients.n_clients}; make both equal"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _groups_are_asked_what_fits(self) -> Self:
        possible = self.task_spec.group_fields
        for group in self.clients.groups:
            for field in ("n_beams", "horizon"):
                if getattr(group, field) is not None and field not in possible:
                    raise ConfigError(
                        f"clients.groups: {group.name!r} sets {field} = {getattr(group, field)}, which task"
                        f" {self.task!r} does not ask about; its groups may set {', '.join(possible)}"
                    )
        for modality in self.task_spec.swept:
            owners = [group.name for group in self.clients.groups if modality in group.modalities]
            sizes = {name: self.data_of(name).n_beams for name in owners}
            if other := [name for name in owners if sizes[name] != sizes[owners[0]]]:
                raise ConfigError(
                    f"clients.groups: {owners[0]!r} has n_beams = {sizes[owners[0]]} and {other[0]!r} has n_beams ="
                    f" {sizes[other[0]]}, but both encode sweeps of all their beams ({modality!r}), and encoders of one"
                    " modality must have one size; give both the same n_beams"
                )
        return self

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.link.blocked_loss_probability > 0.0 and self.data.source == "deepsense":
            raise ConfigError(
                f"link.blocked_loss_probability = {self.link.blocked_loss_probability:g} needs to know when links are"
                " blocked, which data.source = 'deepsense' does not say; use a world or a recording, or set it to 0"
            )
        if self.sheaf.exchange == "single" and self.network.missing != "wait":
            raise ConfigError(
                f"sheaf.exchange = 'single' needs network.missing = 'wait', got {self.network.missing!r}: both ends of"
                " an edge must see the same residual"
            )
        owned = {modality for group in self.clients.groups for modality in group.modalities}
        if strangers := [modality for modality in self.training.personal_encoders if modality not in owned]:
            raise ConfigError(
                f"training.personal_encoders names {strangers[0]!r}, which no group of clients.groups owns; choose"
                f" among {', '.join(modality for modality in MODALITIES if modality in owned)}"
            )
        if self.sheaf.rotate_index and self.network.missing == "stale":
            raise ConfigError(
                "sheaf.rotate_index compares other coordinates in every round, so network.missing = 'stale' would take"
                " a projection for what it is not; use 'skip' or 'wait'"
            )
        if self.sharing.codec == "top_k" and self.network.missing == "stale":
            raise ConfigError(
                "sharing.codec = 'top_k' names other coordinates in every message, so network.missing = 'stale' cannot"
                " fill the gaps of one with another; use 'skip' or 'wait'"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _links_fit_the_rest(self) -> Self:
        check_links(
            self.links,
            self.link,
            n_clients=self.clients.n_clients,
            groups=[group.name for group in self.clients.groups],
            waits=self.network.missing == "wait",
            is_live=self.data.mode == "live",
        )
        return self

    @pydantic.model_validator(mode="after")
    def _faults_can_happen(self) -> Self:
        check_faults(
            self.faults,
            n_clients=self.clients.n_clients,
            waits=self.network.missing == "wait",
            in_step=self.network.mode == "synchronous",
        )
        drifts = any(fault.kind == "clock_drift" for fault in self.faults)
        if drifts and (self.data.mode == "live" or self.data.source == "deepsense"):
            found = "data.mode = 'live'" if self.data.mode == "live" else "data.source = 'deepsense'"
            raise ConfigError(
                f"faults: 'clock_drift' shifts recorded frames by their time stamps, which {found} does not allow;"
                " replay a world or a recording, or leave it out"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _has_rounds_in_common(self) -> Self:
        if self.network.mode == "synchronous":
            return self
        refused = {
            "network.missing = 'wait'": (self.network.missing == "wait", "it has no barrier; use 'skip' or 'stale'"),
            "sheaf.exchange = 'single'": (
                self.sheaf.exchange == "single",
                "the ends of an edge do not see the same residual; use 'double'",
            ),
            "sheaf.rotate_index = true": (
                self.sheaf.rotate_index,
                "neighbors are in other rounds and compare other coordinates; set it to false",
            ),
            "topology.kind = 'mobile'": (
                self.topology.kind == "mobile",
                "rounds have no common start at which neighbors are determined; choose another",
            ),
        }
        for said, (is_asked, reason) in refused.items():
            if is_asked:
                raise ConfigError(f"{said} does not go with network.mode = 'asynchronous', where {reason}")
        return self

    @property
    def task_spec(self) -> TaskSpec:
        """The task as a value."""
        return TASKS[self.task]

    def data_of(self, group: str) -> DataSection:
        """The data section as the members of a group are asked about it."""
        section = next(section for section in self.clients.groups if section.name == group)
        own = {"n_beams": section.n_beams, "horizon": section.horizon}
        return self.data.model_copy(update={field: value for field, value in own.items() if value is not None})

    @property
    def recorded_modalities(self) -> tuple[Modality, ...]:
        """What the clients own and the task needs."""
        used = {modality for group in self.clients.groups for modality in group.modalities} | {*self.task_spec.needs}
        return tuple(modality for modality in MODALITIES if modality in used)

    @property
    def recorded_world(self) -> WorldSection:
        """The part of the world that this run looks at: no more base stations than clients, no sensor in vain."""
        assert self.world is not None, "asked of scenarios with data.source = 'world' only"
        n_sites = min(self.world.n_sites, self.clients.n_clients)
        return self.world.model_copy(update={"n_sites": n_sites, "sensors": self.recorded_modalities})

    def tables(self) -> dict[str, Any]:
        """Plain tables, lists and values, as a file holds them; what is not set is not there."""
        return self.model_dump(mode="json", exclude_none=True)

    def edited(self, edits: Mapping[str, Any]) -> Scenario:
        """A variant: the same scenario with some dotted keys set, such as {"link.loss_probability": 0.05}.

        Raises:
            ConfigError: a key or value that does not fit.
        """
        tree = self.tables()
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

    Examples:
        >>> from sheafedge import load_scenario
        >>> load_scenario("blockage").algorithm
        'sheaf_dmfl_att'
    """
    shipped = shipped_scenarios()
    path = shipped.get(name_or_path, Path(name_or_path))
    if not is_file(path):
        close = difflib.get_close_matches(name_or_path, shipped, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ConfigError(
            f"unknown scenario {shown(name_or_path)}; give a TOML file or one of: {', '.join(shipped)}{hint}"
        )
    tree = read_toml(path)
    try:
        return validated({"name": path.stem, **tree})
    except ConfigError as error:
        raise ConfigError(str(error) if name_or_path in shipped else f"{path}: {error}") from None


def stored_scenario(tables: Mapping[str, Any], source: str) -> Scenario:
    """The scenario that a run of this or of an earlier version wrote down, such as a run folder's `scenario.toml`.

    Args:
        tables: of the file.
        source: how messages name it.

    Raises:
        ConfigError: an impossible value.
    """
    try:
        return validated(with_present_names(tables))
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def parse_assignment(text: str) -> tuple[str, Any]:
    """Key and value of `--set key=value`; values are TOML, and what is not TOML is a string.

    Raises:
        ConfigError: no '=' in it, or what no field is called or takes.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or key.count(".") > MAX_DEPTH:
        raise ConfigError(f"--set takes key=value, got {shown(text)}; for example --set link.loss_probability=0.05")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return key.strip(), value.strip()
    except ValueError:  # what Python says about thousands of digits
        raise ConfigError(f"--set {key.strip()}: a number of thousands of digits; no field takes one") from None
    refuse_absurd(parsed, f"--set {key.strip()}")
    return key.strip(), parsed["value"] if len(parsed) == 1 else value.strip()  # a line break would open another field
