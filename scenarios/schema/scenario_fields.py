"""All fields of a scenario, and what follows from them alone. Nothing here imports torch."""

from __future__ import annotations

from typing import Annotated

import pydantic
from pydantic import Field

from ...emulator.contracts import MODALITIES, ConfigError, Modality, NodeId
from ...emulator.plugin_sources import LoadedPlugin, plugins_of
from ...models.algorithms.algorithm import Algorithm
from ...models.algorithms.algorithm_table import ALGORITHMS
from ...models.factor_settings import FactorSettings
from ...models.hyper_settings import HyperSettings
from ...models.personalization_settings import PersonalizationSettings
from ...models.settings import ModelSettings, SharingSettings, SheafSettings, TrainingSettings
from ..tasks.task_spec import SensorTask, Task
from ..tasks.task_table import TASKS
from .clients_section import ClientsSection
from .compute_section import ComputeSection, ExportSection
from .data_section import DataSection, LiveSection
from .decision_section import DecisionSection
from .fault_section import FaultSection
from .link_numbers import LinkSection
from .link_section import LinksSection
from .network_section import MobilitySection, NetworkSection, ServerSection, TopologySection
from .section import FolderName, Section
from .wording import known_name
from .world_section import WorldSection

#: A mistyped number of units would fill the memory long before any training; useful layers are far below.
MAX_WIDTH = 16_384


class ScenarioFields(Section):
    """The fields of a scenario, each checked on its own; `Scenario` checks that they go together.

    Attributes:
        name: name of the scenario, also in names of run folders.
        summary: one line about it, for listings.
        task: what base stations learn.
        algorithm: how they learn together; `sheafedge algorithms` describes each.
        seed: root of all random streams; another seed is another repetition.
        rounds: number of training rounds.
        evaluate_every: number of rounds between two evaluations on held-out samples; the last round is always
            evaluated.
        checkpoint_every: number of rounds between two checkpoints, which are kept while the run lasts; 0: none.
        keep_checkpoint: keep the last checkpoint in the folder of the complete run, so that it can train on with more
            rounds: `sheafedge run --resume FOLDER --set rounds=90`.
        plugins: files and installed plugins that must be loaded, such as "my_method.py".
        world: what is recorded, for `data.source = "world"`.
        data, live, clients, topology, mobility, model, training, sheaf, sharing, personalization: see there.
        hyper, factors: see there.
        link, links, network, server, compute, export, decision, faults: see there.
    """

    name: FolderName
    summary: str = ""
    task: str
    algorithm: str = "sheaf_dmfl_att"
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    rounds: Annotated[int, Field(ge=1)] = 60
    evaluate_every: Annotated[int, Field(ge=1)] = 1
    checkpoint_every: Annotated[int, Field(ge=0)] = 10
    keep_checkpoint: bool = False
    plugins: tuple[str, ...] = ()
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
    personalization: PersonalizationSettings = PersonalizationSettings()
    hyper: HyperSettings = HyperSettings()
    factors: FactorSettings = FactorSettings()
    link: LinkSection = LinkSection()
    links: LinksSection = LinksSection()
    network: NetworkSection = NetworkSection()
    server: ServerSection = ServerSection()
    compute: ComputeSection = ComputeSection()
    export: ExportSection = ExportSection()
    decision: DecisionSection = DecisionSection()
    faults: tuple[FaultSection, ...] = ()

    @pydantic.field_validator("algorithm")
    @classmethod
    def _is_an_algorithm(cls, name: str) -> str:
        return known_name("algorithm", name, sorted(ALGORITHMS))

    @pydantic.field_validator("task")
    @classmethod
    def _is_a_task(cls, name: str) -> str:
        return known_name("task", name, TASKS)

    @pydantic.field_validator("model")
    @classmethod
    def _is_of_reasonable_size(cls, model: ModelSettings) -> ModelSettings:
        for field in ("hidden_dim", "embedding_dim"):
            if getattr(model, field) > MAX_WIDTH:
                raise ConfigError(f"model.{field} must be at most {MAX_WIDTH}, got {getattr(model, field)}; try 128")
        return model

    @property
    def task_spec(self) -> Task:
        """The task as a value."""
        return TASKS[self.task]

    @property
    def algorithm_spec(self) -> Algorithm:
        """The algorithm as a value, with the kinds of messages that it sends in this scenario."""
        found = ALGORITHMS[self.algorithm]
        return found.finding_orders if self.sheaf.map_start == "learned" else found

    @property
    def server_id(self) -> NodeId | None:
        """Number of the server; None where the algorithm has none."""
        return self.clients.n_clients if self.algorithm_spec.server else None

    @property
    def used_plugins(self) -> tuple[LoadedPlugin, ...]:
        """Plugins that provide what the scenario names."""
        models = {("link model", name) for name in (*self.links.models, self.server.link.model or "")}
        rows = {("algorithm", self.algorithm), ("task", self.task), ("data set", self.data.dataset)}
        return plugins_of(rows | models | {("objective", self.task_spec.objective)})

    @property
    def fusion(self) -> str:
        """How models with several modalities fuse them, a name of `FUSIONS`.

        Rows are one input: there is nothing to weigh, and scores of attention would be parameters that do nothing.
        """
        if self.model.fusion == "default" and self.data.source == "rows":
            return "concat"
        return self.algorithm_spec.fusion if self.model.fusion == "default" else self.model.fusion

    def data_of(self, group: str) -> DataSection:
        """The data section as the members of a group are asked about it."""
        section = self.clients.group(group)
        own = {"n_beams": section.n_beams, "horizon": section.horizon}
        return self.data.model_copy(update={field: value for field, value in own.items() if value is not None})

    @property
    def recorded_modalities(self) -> tuple[Modality, ...]:
        """What the clients own and the task needs."""
        task = self.task_spec
        used = {modality for group in self.clients.groups for modality in group.modalities}
        used |= {*task.needs} if isinstance(task, SensorTask) else set()
        return tuple(modality for modality in MODALITIES if modality in used)

    @property
    def recorded_world(self) -> WorldSection:
        """The part of the world that this run looks at: no more base stations than clients, no sensor in vain."""
        assert self.world is not None, "asked of scenarios with data.source = 'world' only"
        n_sites = min(self.world.n_sites, self.clients.n_clients)
        return self.world.model_copy(update={"n_sites": n_sites, "sensors": self.recorded_modalities})
