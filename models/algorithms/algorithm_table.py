"""The algorithms that a scenario can name. A new one is a file beside this, and its maker and row here.

Scenarios are checked against this table before torch is needed, so every maker imports its algorithm when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...emulator.contracts import Learner, MessageKind, NodeId
from .algorithm import Algorithm

if TYPE_CHECKING:
    from ..training.client_setup import ClientSetup


def _sheaf_dmfl(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .sheaf_dmfl import sheaf_dmfl

    return [sheaf_dmfl(setup) for setup in setups]


def _sheaf_diffusion(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .sheaf_diffusion import sheaf_diffusion

    return [sheaf_diffusion(setup) for setup in setups]


def _sheaf_prototypes(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .sheaf_prototypes import sheaf_prototypes

    return [sheaf_prototypes(setup) for setup in setups]


def _sheaf_fmtl(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .sheaf_fmtl import sheaf_fmtl

    return [sheaf_fmtl(setup) for setup in setups]


def _dfedu(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .dfedu import dfedu

    return [dfedu(setup) for setup in setups]


def _head_averaging(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .head_averaging import head_averaging

    return [head_averaging(setup) for setup in setups]


def _averaged_and_tuned(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .averaged_and_tuned import averaged_and_tuned

    return [averaged_and_tuned(setup) for setup in setups]


def _diffused_and_tuned(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .averaged_and_tuned import diffused_and_tuned

    return [diffused_and_tuned(setup) for setup in setups]


def _group_averaging(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .group_averaging import group_averaging

    return [group_averaging(setup) for setup in setups]


def _dpsgd(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .dpsgd import dpsgd

    return [dpsgd(setup) for setup in setups]


def _dsgd(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .dsgd import dsgd

    return [dsgd(setup) for setup in setups]


def _dsgd_heads(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .dsgd import dsgd_heads

    return [dsgd_heads(setup) for setup in setups]


def _fedproto(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .fedproto import fedproto_decentralized

    return fedproto_decentralized(setups)


def _dmml_kd(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .dmml_kd import dmml_kd

    return [dmml_kd(setup) for setup in setups]


def _local(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .local import local

    return [local(setup) for setup in setups]


def _centralized(setups: Sequence[ClientSetup]) -> list[Learner]:
    from .centralized import centralized

    return centralized(setups)


def _with_neighbors(rule: str) -> Callable[[Sequence[ClientSetup]], list[Learner]]:
    """Makes clients with this local rule, a name of `RULES`, that average whole models with neighbors of the group."""

    def learners(setups: Sequence[ClientSetup]) -> list[Learner]:
        from ..rules.rule_table import RULES
        from ..sharing.train_then_mix import with_neighbors

        return with_neighbors(setups, RULES[rule])

    return learners


def _with_server(rule: str) -> Callable[[Sequence[ClientSetup]], list[Learner]]:
    """Makes clients with this local rule, a name of `RULES`, and a server that averages what they exchange."""

    def learners(setups: Sequence[ClientSetup]) -> list[Learner]:
        from ..rules.rule_table import RULES
        from ..sharing.server_learner import with_server

        return with_server(setups, RULES[rule], setups[0].personalization.server_mixing)

    return learners


def _server_alone(rule: str) -> Callable[[Sequence[ClientSetup], Mapping[str, Sequence[NodeId]]], Learner]:
    """Makes the server of clients with this local rule, a name of `RULES`, and none of the clients."""

    def learner(setups: Sequence[ClientSetup], members: Mapping[str, Sequence[NodeId]]) -> Learner:
        from ..rules.rule_table import RULES
        from ..sharing.server_learner import server_alone

        return server_alone(setups, members, RULES[rule], setups[0].personalization.server_mixing)

    return learner


def _served(
    rule: str,
    kinds: frozenset[MessageKind],
    summary: str,
    pull: str = "",
    *,
    personal: bool = False,
    factored: bool = False,
) -> Algorithm:
    """The row of a rule, a name of `RULES`, whose clients exchange with a server."""
    return Algorithm(
        _with_server(rule),
        kinds,
        summary,
        pull=pull,
        personal=personal,
        factored=factored,
        server=True,
        server_alone=_server_alone(rule),
    )


def _generated(kinds: frozenset[MessageKind], summary: str) -> Algorithm:
    """The row of clients whose backbones a server generates, from embeddings where they send any."""
    embeds = MessageKind.EMBEDDING in kinds

    def learners(setups: Sequence[ClientSetup]) -> list[Learner]:
        from ..hyper.hyper_learners import with_generator

        return with_generator(setups, embeds=embeds)

    def server(setups: Sequence[ClientSetup], members: Mapping[str, Sequence[NodeId]]) -> Learner:
        from ..hyper.hyper_learners import generator_alone

        return generator_alone(setups, members, embeds=embeds)

    return Algorithm(learners, kinds, summary, server=True, server_alone=server, generates=True, embeds=embeds)


_ENCODERS = frozenset({MessageKind.ENCODER})
_SHEAF = _ENCODERS | {MessageKind.PROJECTION, MessageKind.REPROJECTION}
_MODELS = _ENCODERS | {MessageKind.HEAD, MessageKind.ATTENTION}
_FACTORS = frozenset({MessageKind.FACTORS, MessageKind.ATTENTION})

ALGORITHMS: dict[str, Algorithm] = {
    "sheaf_dmfl": Algorithm(
        _sheaf_dmfl,
        _SHEAF,
        "sheaf-coupled heads, embeddings concatenated",
        fusion="concat",
        couples_heads=True,
        has_maps=True,
    ),
    "sheaf_dmfl_att": Algorithm(
        _sheaf_dmfl,
        _SHEAF,
        "sheaf-coupled heads, embeddings weighted by attention",
        couples_heads=True,
        has_maps=True,
    ),
    "sheaf_diffusion": Algorithm(
        _sheaf_diffusion,
        _ENCODERS | {MessageKind.PROJECTION},
        "ours: heads diffuse along the sheaf once per round",
        has_maps=True,
        order_kinds=frozenset({MessageKind.ORIENTATION}),
        ends_sharing=True,
    ),
    "diffused_and_tuned": Algorithm(
        _diffused_and_tuned,
        _ENCODERS | {MessageKind.PROJECTION},
        "the same, then trained on alone; answers are means of the diffused and the tuned model",
        has_maps=True,
        order_kinds=frozenset({MessageKind.ORIENTATION}),
        needs_classes=True,
        paired=True,
        tunes=True,
    ),
    "sheaf_prototypes": Algorithm(
        _sheaf_prototypes,
        _SHEAF | {MessageKind.PROTOTYPES},
        "ours: sheaf-coupled heads, and embeddings drawn to class means that neighbors agree on",
        couples_heads=True,
        has_maps=True,
        equal_heads=True,
        needs_classes=True,
    ),
    "sheaf_fmtl": Algorithm(
        _sheaf_fmtl,
        frozenset({MessageKind.PROJECTION, MessageKind.REPROJECTION}),
        "sheaf-coupled whole models of any sizes",
        couples_models=True,
        has_maps=True,
    ),
    "dfedu": Algorithm(
        _dfedu,
        frozenset({MessageKind.MODEL}),
        "whole models drawn to those of neighbors of the group, by the graph's Laplacian",
        couples_models=True,
    ),
    "head_averaging": Algorithm(
        _head_averaging,
        _ENCODERS | {MessageKind.HEAD},
        "encoders and heads averaged with neighbors",
        equal_heads=True,
        only_averages=True,
    ),
    "averaged_and_tuned": Algorithm(
        _averaged_and_tuned,
        _ENCODERS | {MessageKind.HEAD},
        "the same, then trained on alone; answers are means of the averaged and the tuned model",
        equal_heads=True,
        needs_classes=True,
        paired=True,
        tunes=True,
    ),
    "group_averaging": Algorithm(
        _group_averaging,
        _MODELS,
        "whole models averaged over the group, encoders with neighbors; needs to know groups",
        links_groups=True,
        only_averages=True,
    ),
    "dpsgd": Algorithm(_dpsgd, _MODELS, "whole models averaged with neighbors of the group, as in Lian et al. 2017"),
    "dpsgd_adapt_then_combine": Algorithm(
        _with_neighbors("sgd"), _MODELS, "the same, averaged after the local steps", only_averages=True
    ),
    "prox_decentralized": Algorithm(
        _with_neighbors("prox"),
        _MODELS,
        "the same, local steps held near the average",
        pull="proximal",
        only_averages=True,
    ),
    "ditto_decentralized": Algorithm(
        _with_neighbors("ditto"),
        _MODELS,
        "the same, and a personal model drawn to the average",
        pull="attraction",
        personal=True,
        only_averages=True,
    ),
    "pfedme_decentralized": Algorithm(
        _with_neighbors("pfedme"),
        _MODELS,
        "averaged models that follow personal ones, by Moreau envelopes",
        pull="attraction",
        personal=True,
        only_averages=True,
    ),
    "per_fedavg_decentralized": Algorithm(
        _with_neighbors("per_fedavg"),
        _MODELS,
        "averaged models that one own step makes personal",
        personal=True,
        only_averages=True,
    ),
    "tdpfed_decentralized": Algorithm(
        _with_neighbors("tdpfed"),
        _FACTORS,
        "factors of weights, averaged, that follow personal models",
        personal=True,
        factored=True,
        only_averages=True,
    ),
    "dsgd": Algorithm(_dsgd, _ENCODERS, "encoders averaged, best unimodal model", unimodal=True, only_averages=True),
    "dsgd_heads": Algorithm(
        _dsgd_heads,
        _ENCODERS | {MessageKind.HEAD},
        "encoders and heads of one modality averaged, best unimodal model",
        unimodal=True,
        equal_heads=True,
        only_averages=True,
    ),
    "fedproto_decentralized": Algorithm(
        _fedproto,
        frozenset({MessageKind.PROTOTYPES}),
        "models of any sizes, drawn to class means that neighbors agree on",
        equal_heads=True,
        needs_classes=True,
    ),
    "dmml_kd": Algorithm(
        _dmml_kd,
        _ENCODERS | {MessageKind.CLASSIFIER, MessageKind.PROTOTYPES},
        "distillation between modalities, an approximation of Yin et al.",
        fusion="concat",
        equal_outputs=True,
        needs_classes=True,
        even_embedding=True,
        distills=True,
    ),
    "local": Algorithm(_local, frozenset(), "no communication, fused model", only_averages=True),
    "local_unimodal": Algorithm(
        _local, frozenset(), "no communication, best unimodal model", unimodal=True, only_averages=True
    ),
    "fedavg": _served("sgd", _MODELS, "whole models averaged by a server, by their clients' rows"),
    "fedprox": _served("prox", _MODELS, "fedavg, local steps held near the server's model", "proximal"),
    "fedper": _served("fedper", _ENCODERS, "fedavg of encoders, fusion and head personal"),
    "lg_fedavg": _served("lg_fedavg", _MODELS - _ENCODERS, "fedavg of fusion and head, encoders personal"),
    "ditto": _served(
        "ditto", _MODELS, "fedavg, and a personal model drawn to the server's", "attraction", personal=True
    ),
    "pfedme": _served(
        "pfedme",
        _MODELS,
        "a server's model that follows personal ones, by Moreau envelopes",
        "attraction",
        personal=True,
    ),
    "per_fedavg": _served("per_fedavg", _MODELS, "a server's model that one own step makes personal", personal=True),
    "apfl": _served("apfl", _MODELS, "fedavg, and a learned mixture of the server's and an own model", personal=True),
    "pfedhn": _generated(
        frozenset({MessageKind.MODEL, MessageKind.UPDATE}),
        "backbones generated by a server's hypernetwork that knows clients by number, heads personal",
    ),
    "fedsheafhn": _generated(
        frozenset({MessageKind.MODEL, MessageKind.UPDATE, MessageKind.EMBEDDING}),
        "backbones generated from embeddings that diffuse along a learned sheaf on a graph of clients",
    ),
    "tdpfed": _served(
        "tdpfed",
        _FACTORS,
        "a server's model of low-rank weights that follow personal ones",
        personal=True,
        factored=True,
    ),
    "centralized": Algorithm(_centralized, frozenset(), "all rows in one place, a reference", pooled=True),
}
