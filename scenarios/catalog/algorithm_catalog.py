"""Every algorithm that a scenario can name, in words: with whom clients learn, what they send, what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...models.algorithms.algorithm import Algorithm
from ...models.algorithms.algorithm_table import ALGORITHMS
from ..schema.wording import known_name

#: What a row of the table says of an algorithm -> what that asks of a scenario.
_NEEDS = {
    "needs_classes": "a task with classes",
    "equal_heads": "neighbors whose heads have one layout (equal outputs and equal embeddings)",
    "equal_outputs": "neighbors with equally many classes",
    "embeds": "groups whose heads read embeddings of one width",
    "even_embedding": "an even model.embedding_dim",
    "links_groups": "edges between all members of a group, which it adds to the graph",
}


@dataclass(frozen=True, slots=True)
class AlgorithmEntry:
    """One algorithm.

    Attributes:
        name: as in `algorithm = "NAME"`.
        summary: one line.
        partners: with whom clients learn: "neighbors", "a server", "nobody", "all in one place".
        sends: kinds of messages.
        trains: what a client trains and reports.
        needs: what it asks of a scenario.
        fields: fields and tables that it reads beside those that all algorithms read.
    """

    name: str
    summary: str
    partners: str
    sends: tuple[str, ...]
    trains: str
    needs: tuple[str, ...]
    fields: tuple[str, ...]


def algorithm_entry(name: str) -> AlgorithmEntry:
    """Description of an algorithm.

    Raises:
        ConfigError: there is none of this name.
    """
    row = ALGORITHMS[known_name("algorithm", name, sorted(ALGORITHMS))]
    return AlgorithmEntry(
        name,
        row.summary,
        _partners(row),
        tuple(sorted(kind.value for kind in row.kinds)),
        _trained(row),
        tuple(text for field, text in _NEEDS.items() if getattr(row, field)),
        tuple(_fields(row)),
    )


def algorithm_entries() -> tuple[AlgorithmEntry, ...]:
    """All algorithms in the order of their table; those of loaded plugins too."""
    return tuple(map(algorithm_entry, ALGORITHMS))


def _partners(row: Algorithm) -> str:
    if row.server:
        return "a server"
    if row.pooled:
        return "all in one place"
    return "neighbors" if row.kinds else "nobody"


def _trained(row: Algorithm) -> str:
    found = {
        "one model per modality, of which the best is reported": row.unimodal,
        "a shared model of factors and a dense personal one; the personal one is reported": row.factored,
        "a shared and a personal model; the personal one is reported": row.personal,
        "one model of all modalities, of which a server generates all but the head": row.generates,
        "two models, of which one trains on alone in the last rounds; answers are their mean": row.paired,
    }
    return next((said for said, holds in found.items() if holds), "one model of all modalities")


def _fields(row: Algorithm) -> Iterator[str]:
    has_means = row.needs_classes and any(kind.value == "prototypes" for kind in row.kinds)
    read = {
        "sheaf": row.has_maps,
        "sheaf.coupling": row.couples and not row.has_maps,
        "training.model_step_size": row.couples_models,
        f"personalization.{row.pull}": bool(row.pull),
        "personalization": row.personal and not row.pull,
        "hyper": row.generates,
        "factors": row.factored,
        "server": row.server,
        "training.distillation_temperature": row.distills,
        "training.prototype_pull": has_means and not row.distills,
        "sharing.until": row.tunes,
    }
    yield from (field for field, is_read in read.items() if is_read)
