"""Parts and settings of one client, from which an algorithm makes its learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...emulator.contracts import Modality, NodeId
from ..client_model import ClientModel
from ..factor_settings import FactorSettings
from ..hyper_settings import HyperSettings
from ..model_pair import ModelPair
from ..objectives import Objective
from ..personalization_settings import PersonalizationSettings
from ..settings import SharingSettings, SheafSettings, TrainingSettings
from ..sheaf.beam_frame import BeamFrame
from ..sheaf.map_starts import MapStart
from .participation import Participation
from .training_rows import TrainingRows


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """One client before its first round.

    Mixing weights may be others in every round, where neighbors move; learners read them when they mix.

    Attributes:
        client_id: its node id.
        group: name of its group; clients of a group own the same modalities.
        models: the fused model as {"fused": model}, several of them by the names of `local_rule`, or one unimodal model
            per modality, as the algorithm needs.
        pair: the fused model with a second one of the same start, for algorithms that need it.
        rows: training rows.
        objective: what local training minimizes.
        batch_draws: model name -> stream that its minibatches come from.
        mixing: modality -> neighbor -> mixing weight of (6), neighbors that own the modality only.
        head_mixing: neighbor -> mixing weight over the whole graph, for what all clients have in common.
        sheaf_mixing: the same along the edges of the sheaf, which may be fewer (`sheaf.edges`).
        group_mixing: neighbor of the same group -> mixing weight inside the group.
        map_starts: neighbor -> initial restriction map, see `restriction_maps`.
        sheaf_decay: weight decay that the coupling through such maps comes to in expectation, see `drawn_maps`.
        frame: where its beams lie along its codebook, for clients that found this out by themselves; else None.
        redrawn_maps: round -> the same for a later round, where maps are drawn anew every round; else None.
        participation: the server and who takes part when, for algorithms that have one; else None.
        training, sheaf, sharing, personalization, hyper, factors: settings of the scenario.
        common_draws: name -> stream that is the same at all clients, for what all draw alike.
    """

    client_id: NodeId
    group: str
    models: Mapping[str, ClientModel]
    rows: TrainingRows
    objective: Objective
    batch_draws: Mapping[str, np.random.Generator]
    training: TrainingSettings
    sheaf: SheafSettings
    sharing: SharingSettings = field(default_factory=SharingSettings)
    personalization: PersonalizationSettings = field(default_factory=PersonalizationSettings)
    hyper: HyperSettings = field(default_factory=HyperSettings)
    factors: FactorSettings = field(default_factory=FactorSettings)
    common_draws: Callable[[str], np.random.Generator] = lambda name: np.random.default_rng(list(name.encode()))
    mixing: Mapping[Modality, Mapping[NodeId, float]] = field(default_factory=dict)
    head_mixing: Mapping[NodeId, float] = field(default_factory=dict)
    sheaf_mixing: Mapping[NodeId, float] = field(default_factory=dict)
    group_mixing: Mapping[NodeId, float] = field(default_factory=dict)
    pair: ModelPair | None = None
    map_starts: Mapping[NodeId, MapStart] = field(default_factory=dict)
    sheaf_decay: float = 0.0
    redrawn_maps: Callable[[int], Mapping[NodeId, MapStart]] | None = None
    participation: Participation | None = None
    frame: BeamFrame | None = None
