"""Links of a scenario: `[links]`, the exceptions `[[links.edges]]`, and the queues before links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import pydantic
from pydantic import AfterValidator, Field

from ...emulator.contracts import ConfigError, NodeId
from .link_models import LINK_MODELS, LinkModel
from .link_numbers import LinkSection
from .section import Probability, Section
from .wording import known_name

ModelName = Annotated[str, AfterValidator(lambda name: known_name("links.model", name, LINK_MODELS))]


class _OpenTables(Section):
    """Tables of models: those of the package are fields, those of plugins are found when a scenario is read."""

    model_config = pydantic.ConfigDict(extra="allow")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _of_plugins(cls, tables: Any) -> Any:
        """Tables with the settings of plugins' models in the place of theirs; unknown names are refused."""
        if not isinstance(tables, dict):
            return tables
        others = {name: table for name, table in tables.items() if name not in cls.model_fields}
        if not others:
            return tables
        known: dict[str, Any] = {
            name: (model.settings, ...) for name, model in cls.models_with_tables().items() if name in others
        }
        # its errors say where in this section they are, and it refuses what is no table of a model
        made = pydantic.create_model("_PluginTables", __base__=Section, **known).model_validate(others)
        return {**tables, **{name: getattr(made, name) for name in known}}

    @classmethod
    def models_with_tables(cls) -> Mapping[str, LinkModel[Any]]:
        """Models that may have a table here."""
        return {name: model for name, model in LINK_MODELS.items() if model.settings is not NoneType}


class _OpenEdgeTables(_OpenTables):
    """The same for single edges, without models whose settings hold for all of them."""

    @classmethod
    def models_with_tables(cls) -> Mapping[str, LinkModel[Any]]:
        """Models that may have a table here."""
        return {name: model for name, model in super().models_with_tables().items() if not model.is_shared}


if TYPE_CHECKING:  # a type checker cannot read a table: to it no model has one of its own
    _LinkTables = _OpenTables
    _EdgeTables = _OpenEdgeTables
else:
    _LinkTables = pydantic.create_model(
        "_LinkTables",
        __base__=_OpenTables,
        **{name: (model.settings, model.settings()) for name, model in _OpenTables.models_with_tables().items()},
    )
    _EdgeTables = pydantic.create_model(
        "_EdgeTables",
        __base__=_OpenEdgeTables,
        **{name: (model.settings | None, None) for name, model in _OpenEdgeTables.models_with_tables().items()},
    )


class BlocksSection(Section):
    """Resource blocks of a shared medium.

    Attributes:
        slot_s: length of a slot in s.
        n_blocks: number of blocks per slot.
    """

    slot_s: Annotated[float, Field(gt=0.0)] = 0.0005
    n_blocks: Annotated[int, Field(ge=1, le=100_000)] = 50


class EdgeSettings(_EdgeTables):
    """Settings of some edges that differ from those of the others.

    Attributes:
        model: link model of both directions.
        rate_bps, propagation_s, processing_s, retry_limit, retry_interval_s, loss_probability, mean_burst_packets,
            blocked_loss_probability: see `LinkSection`.

    It also has a field for the table of every model whose settings may differ between edges.
    """

    model: ModelName | None = None
    rate_bps: float | None = None
    propagation_s: float | None = None
    processing_s: float | None = None
    retry_limit: Annotated[int, Field(le=1000)] | None = None
    retry_interval_s: float | None = None
    loss_probability: Probability | None = None
    mean_burst_packets: Annotated[float, Field(ge=1.0)] | None = None
    blocked_loss_probability: Probability | None = None


class EdgeSection(EdgeSettings):
    """Exception: some edges, and their settings.

    Attributes:
        clients: two client ids, in any order.
        groups: two groups, or the same one twice: all edges between their members.
    """

    clients: Annotated[tuple[NodeId, ...], Field(min_length=2, max_length=2)] | None = None
    groups: Annotated[tuple[str, ...], Field(min_length=2, max_length=2)] | None = None

    @pydantic.model_validator(mode="after")
    def _names_edges(self) -> Self:
        if (self.clients is None) == (self.groups is None):
            raise ConfigError('links.edges needs clients = [i, j] or groups = ["a", "b"], one of the two')
        if self.clients is not None and self.clients[0] == self.clients[1]:
            raise ConfigError(f"links.edges: clients = {list(self.clients)} is no edge; give two clients")
        return self

    def joins(self, ends: frozenset[NodeId], groups: list[str]) -> bool:
        """Whether the exception names this edge, given its ends and the sorted groups of its ends."""
        return ends == frozenset(self.clients) if self.clients is not None else groups == sorted(self.groups or ())


class LinksSection(_LinkTables):
    """The model of every edge, and the queues of its messages.

    Attributes:
        model: link model of every edge that `edges` does not name.
        queue_bytes: total size of messages that may wait at a sender; further ones are dropped. 0: no limit.
        transmitter: "per_edge", every direction sends independently; "per_node", a node sends one thing at a time.
        medium: "own"; or all radios share one, by "processor_sharing" or in "round_robin" over `blocks`.
        blocks: resource blocks of the medium, for "round_robin".
        priorities: head and map vectors go before encoders, which are sent in chunks.
        chunk_packets: number of packets of such a chunk.
        edges: exceptions, the last that names an edge counts.

    It also has a field for the table of every model in `LINK_MODELS` that has settings; see `settings_of`.
    """

    model: ModelName = "constant"
    queue_bytes: Annotated[int, Field(ge=0)] = 0
    transmitter: Literal["per_edge", "per_node"] = "per_edge"
    medium: Literal["own", "processor_sharing", "round_robin"] = "own"
    blocks: BlocksSection = BlocksSection()
    priorities: bool = False
    chunk_packets: Annotated[int, Field(ge=1)] = 16
    edges: tuple[EdgeSection, ...] = ()

    @property
    def models(self) -> frozenset[str]:
        """Names of all models that some edge may have."""
        return frozenset({self.model, *(edge.model for edge in self.edges if edge.model is not None)})

    def settings_of(self, model: str) -> Any:
        """Content of the table of a model; None where it has none."""
        found = getattr(self, model, None)
        # of a plugin's model, whose table a scenario may leave out: the package's are there with their defaults
        return LINK_MODELS[model].settings() if found is None else found


@dataclass(frozen=True, slots=True)
class EdgeModel:
    """Model and numbers of one edge, exceptions applied; both directions are alike.

    Attributes:
        model: model of its channels.
        settings: settings of this model.
        link: numbers that the model does not bring itself.
    """

    model: LinkModel[Any]
    settings: Any
    link: LinkSection


#: What an exception may set of `[link]`.
_LINK_FIELDS = tuple(field for field in LinkSection.model_fields if field in EdgeSettings.model_fields)


def edge_model(links: LinksSection, link: LinkSection, exception: EdgeSettings | None = None) -> EdgeModel:
    """Model and numbers of an edge with this exception, or without one.

    Raises:
        ConfigError: numbers of the exception that are impossible together with the rest.
    """
    if exception is None:
        return EdgeModel(LINK_MODELS[links.model], links.settings_of(links.model), link)
    changes = {field: value for field in _LINK_FIELDS if (value := getattr(exception, field)) is not None}
    numbers = link.model_copy(update=changes)
    numbers.settings()  # model_copy checks nothing
    name = exception.model or links.model
    own = getattr(exception, name, None)
    return EdgeModel(LINK_MODELS[name], links.settings_of(name) if own is None else own, numbers)
