"""What a row of the table of algorithms says: how learners are made, what they send, and what they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...emulator.contracts import Learner, MessageKind, NodeId

if TYPE_CHECKING:
    from ..training.client_setup import ClientSetup

#: Names of the models of a client that holds several: its own; the one that is exchanged, as the last exchange left it;
#: and, where factors of weights are exchanged, the tensors that these make, as trained here and as received last.
PERSONAL, GLOBAL = "personal", "global"
COMPRESSED_LOCAL, COMPRESSED_GLOBAL = "compressed local", "compressed global"
#: Those that are scored beside the one that is reported.
SHARED_MODELS = (GLOBAL, COMPRESSED_LOCAL, COMPRESSED_GLOBAL)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What one algorithm needs and sends, and the maker of its learners.

    Attributes:
        learners: makes the learners of all clients of a run.
        kinds: message kinds that it declares; the wire refuses all others.
        summary: one line for listings.
        fusion: of its multimodal model.
        unimodal: it trains one model per modality instead, and reports the best.
        personal: clients hold a personal model beside the one that they exchange; the personal one is reported.
        couples_heads: heads pull at each other in every step, so the coupling's step sizes matter.
        couples_models: the same with whole models, stepped as one vector by `training.model_step_size`.
        has_maps: it needs restriction maps.
        order_kinds: kinds that it sends beside the others where clients find out how their numbers of beams correspond,
            `sheaf.map_start = "learned"`; empty: they cannot.
        equal_heads: it averages heads of neighbors, or class means of what they read, which must have one layout.
        needs_classes: it averages or compares what is known of classes, so that it cannot learn values.
        equal_outputs: it averages what neighbors know of their classes, which must be as many.
        even_embedding: it halves the embedding of every modality.
        distills: modalities of a client teach each other, by `training.distillation_temperature`.
        only_averages: a client trains, then averages vectors with its neighbors, so a program outside of this process
            can play it.
        paired: clients hold two models of one start, and answer with the mean of their probabilities.
        tunes: clients train on alone in the last rounds, by `sharing.until`, whether that is set or not.
        ends_sharing: they do where it is set, as those that only average do.
        pull: field of `[personalization]` by which local steps pull a model to the shared one; empty: they do not.
        factored: clients exchange factors of their weights, see `FactorSettings`.
        pooled: all clients share one model and one trainer: they train in step, and live in one process.
        links_groups: members of a group are linked with each other, whatever the graph.
        server_alone: makes the learner of the server without those of the clients, given the first client of every
            group and the members of all; None: `learners` is the only way.
        generates: the server makes its clients' models by a network, by the settings of `[hyper]`.
        embeds: it knows clients by embeddings that they send, and draws a graph of them; else by their numbers.
        server: clients exchange with a server alone, a node of its own behind them; its learner is the last.
    """

    learners: Callable[[Sequence[ClientSetup]], list[Learner]]
    kinds: frozenset[MessageKind]
    summary: str
    fusion: str = "attention"
    unimodal: bool = False
    personal: bool = False
    couples_heads: bool = False
    couples_models: bool = False
    has_maps: bool = False
    order_kinds: frozenset[MessageKind] = frozenset()
    equal_heads: bool = False
    equal_outputs: bool = False
    needs_classes: bool = False
    even_embedding: bool = False
    distills: bool = False
    only_averages: bool = False
    links_groups: bool = False
    pull: str = ""
    factored: bool = False
    pooled: bool = False
    generates: bool = False
    embeds: bool = False
    server: bool = False
    server_alone: Callable[[Sequence[ClientSetup], Mapping[str, Sequence[NodeId]]], Learner] | None = None
    paired: bool = False
    tunes: bool = False
    ends_sharing: bool = False

    @property
    def finding_orders(self) -> Algorithm:
        """The same where clients find out orders of beams."""
        return replace(self, kinds=self.kinds | self.order_kinds)

    @property
    def may_end_sharing(self) -> bool:
        """Whether `sharing.until` means anything."""
        return self.only_averages or self.tunes or self.ends_sharing

    @property
    def answers_alone(self) -> bool:
        """Whether a client answers with whole models that nobody else has, and that it trains itself."""
        return not (self.server or self.personal or self.paired or self.pooled or self.factored)

    @property
    def couples(self) -> bool:
        """Whether neighbors pull in every step, at heads or at whole models."""
        return self.couples_heads or self.couples_models
