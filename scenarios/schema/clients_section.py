"""What a scenario says about its clients: how many there are, in which groups, and what each group owns and learns."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import pydantic
from pydantic import Field

from ...emulator.contracts import MODALITIES, ConfigError, Modality
from ...models.settings import RowEncoder
from .data_section import CodebookSize, first_repeated
from .section import Probability, Section


class GroupSection(Section):
    """Clients that own the same modalities, have models of one shape, and are asked the same.

    Attributes:
        name: name of the group in tables.
        modalities: sensors that its clients own.
        share: share of all clients; the shares of a scenario add up to 1.
        n_beams, horizon: own `data.n_beams` and `data.horizon` of the group, where they differ from those of `[data]`.
        profile: emulated device, where it is not that of `[compute]`.
        encoder: encoder of rows of a table, of images or of nodes of a graph; empty: that of the task.
    """

    name: Annotated[str, Field(min_length=1)]
    modalities: Annotated[tuple[Modality, ...], Field(min_length=1)]
    share: Probability
    n_beams: CodebookSize | None = None
    horizon: Annotated[int, Field(ge=1)] | None = None
    profile: str | None = None
    encoder: Literal["", RowEncoder] = ""

    @pydantic.model_validator(mode="after")
    def _owns_each_once(self) -> Self:
        if again := first_repeated(self.modalities):
            raise ConfigError(f"clients.groups: {self.name!r} lists modality {again!r} twice; list it once")
        return self

    @property
    def owned(self) -> tuple[Modality, ...]:
        """The modalities in the one order that all of sheafedge keeps."""
        return tuple(modality for modality in MODALITIES if modality in self.modalities)


class ClientsSection(Section):
    """How many base stations, and which sensors they have.

    Attributes:
        n_clients: number of clients (base stations).
        sampled: clients drawn anew for every round (with `sharing.every`, for so many rounds together), without
            replacement; 0: all take part in every one. Who takes no part neither trains nor sends nor is waited for,
            and is not observed; after the last round all are.
        groups: groups of clients with the same sensors and models.
    """

    n_clients: Annotated[int, Field(ge=1)] = 20
    sampled: Annotated[int, Field(ge=0)] = 0
    groups: Annotated[tuple[GroupSection, ...], Field(min_length=1)]

    @pydantic.model_validator(mode="after")
    def _groups_fit_together(self) -> Self:
        if again := first_repeated([group.name for group in self.groups]):
            raise ConfigError(f"clients.groups has two groups named {again!r}; give each its own name")
        total = sum(group.share for group in self.groups)
        if abs(total - 1.0) > 1e-6:
            raise ConfigError(f"clients.groups: the shares must add up to 1, got {total:g}; change a group's share")
        return self

    def group(self, name: str) -> GroupSection:
        """The group of this name."""
        return next(group for group in self.groups if group.name == name)
