"""Rules about learning: the algorithm, the coupling of heads, and what is shared how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ....emulator.contracts import MODALITIES
from ....models.factor_settings import LONGEST_STEP
from ..scenario_fields import ScenarioFields
from .rule import Case, Rule

T = TypeVar("T")

#: Of clients that move and have a map for each other: with heads of 4160 numbers their maps grow by 16 MB per round.
MOST_MAPPED_CLIENTS = 32

#: Of `sheaf.map_start`: all entries of such a map mean as much, see `drawn_maps.entry_variance`.
INDEPENDENT_STARTS = ("random", "uniform", "orthonormal", "hadamard")

LEARNING_RULES: tuple[Rule[ScenarioFields], ...] = (
    # --- all clients in step ---
    Rule(
        "network.mode",
        lambda s: s.algorithm_spec.pooled and s.network.mode == "asynchronous",
        "algorithm {s.algorithm!r} trains one model for all clients, which cannot go at a pace of their own; set"
        " network.mode = 'synchronous'",
    ),
    Rule(
        "faults",
        lambda s: ({"kind": fault.kind} for fault in s.faults if s.algorithm_spec.pooled and fault.spec.stops_nodes),
        "algorithm {s.algorithm!r} trains one model for all clients, which cannot be off; leave {kind!r} out of faults",
    ),
    Rule(
        "network.missing",
        lambda s: s.network.mode == "asynchronous" and s.network.missing == "wait",
        "network.missing = 'wait' does not go with network.mode = 'asynchronous', which has no barrier; use 'skip' or"
        " 'stale'",
    ),
    Rule(
        "sheaf.exchange",
        lambda s: s.network.mode == "asynchronous" and s.sheaf.exchange == "single",
        "sheaf.exchange = 'single' does not go with network.mode = 'asynchronous', where the ends of an edge do not see"
        " the same residual; use 'double'",
    ),
    Rule(
        "sheaf.rotate_index",
        lambda s: s.network.mode == "asynchronous" and s.sheaf.rotate_index,
        "sheaf.rotate_index = true does not go with network.mode = 'asynchronous', where neighbors are in other rounds"
        " and compare other coordinates; set it to false",
    ),
    Rule(
        "topology.kind",
        lambda s: s.network.mode == "asynchronous" and s.topology.kind == "mobile",
        "topology.kind = 'mobile' does not go with network.mode = 'asynchronous', where rounds have no common"
        " start at which neighbors are determined; choose another",
    ),
    # --- hidden sensors ---
    Rule(
        "training.hide_sensors",
        lambda s: s.training.hide_sensors > 0.0 and (s.algorithm_spec.factored or s.algorithm_spec.unimodal),
        "training.hide_sensors does not go with algorithm {s.algorithm!r}, which takes several steps on one minibatch"
        " or has a model per sensor; set it to 0 or take another algorithm",
    ),
    Rule(
        "training.hide_sensors",
        lambda s: s.training.hide_sensors > 0.0 and all(len(one.modalities) < 2 for one in s.clients.groups),
        "training.hide_sensors hides one of several sensors, but no group in clients.groups has more than one; set it"
        " to 0",
    ),
    # --- what a lost message does ---
    Rule(
        "sheaf.exchange",
        lambda s: s.network.mode == "synchronous" and s.sheaf.exchange == "single" and s.network.missing != "wait",
        "sheaf.exchange = 'single' needs network.missing = 'wait', got {s.network.missing!r}: both ends of an edge must"
        " see the same residual",
    ),
    Rule(
        "sheaf.rotate_index",
        lambda s: s.sheaf.rotate_index and s.network.missing == "stale",
        "sheaf.rotate_index compares other coordinates in every round, so network.missing = 'stale' would take a"
        " projection for what it is not; use 'skip' or 'wait'",
    ),
    Rule(
        "sharing.codec",
        lambda s: s.sharing.codec == "top_k" and s.network.missing == "stale",
        "sharing.codec = 'top_k' names other coordinates in every message, so network.missing = 'stale' cannot fill the"
        " gaps of one with another; use 'skip' or 'wait'",
    ),
    Rule(
        "sharing.until",
        lambda s: s.sharing.until > 0 and not s.algorithm_spec.may_end_sharing,
        "sharing.until = {s.sharing.until} ends the averaging among neighbors, but algorithm {s.algorithm!r} exchanges"
        " otherwise, too; set it to 0, or use an algorithm such as 'head_averaging'",
    ),
    Rule(
        "sharing.until",
        lambda s: s.sharing.until >= s.rounds,
        "sharing.until = {s.sharing.until} leaves none of {s.rounds} rounds to train on alone; lower it, or set it to"
        " 0",
    ),
    # --- biases after the last round ---
    Rule(
        "training.fitted_biases",
        lambda s: s.training.fitted_biases and s.task_spec.labels != "several",
        "training.fitted_biases = true fits outputs that are yes or no each, and those of task {s.task!r} are not; set"
        " it to false",
    ),
    Rule(
        "training.fitted_biases",
        lambda s: s.training.fitted_biases and not s.algorithm_spec.answers_alone,
        "training.fitted_biases = true shifts models that a client has for itself, and answers of algorithm"
        " {s.algorithm!r} come from others as well; set it to false, or use an algorithm such as 'head_averaging'",
    ),
    Rule(
        "training.fitted_biases",
        lambda s: s.training.fitted_biases and s.clients.sampled > 0,
        "training.fitted_biases = true needs all models at the end, and with clients.sampled = {s.clients.sampled} most"
        " are put away; set it to false",
    ),
    # --- models and maps ---
    Rule(
        "training.personal_encoders",
        lambda s: _personal_encoders_of_nobody(s),
        "training.personal_encoders names {stranger!r}, which no group of clients.groups owns; choose among {owned}",
    ),
    Rule(
        "model.embedding_dim",
        lambda s: s.algorithm_spec.even_embedding and s.model.embedding_dim % 2 == 1,
        "model.embedding_dim must be even for algorithm {s.algorithm!r}, which halves it, got {s.model.embedding_dim}",
    ),
    Rule(
        "sheaf.map_start",
        lambda s: (
            s.algorithm_spec.has_maps
            and not s.algorithm_spec.couples
            and s.sheaf.map_start in ("random", "uniform", "identity_noise")
        ),
        "algorithm {s.algorithm!r} averages along its maps, which sheaf.map_start = {s.sheaf.map_start!r} makes longer"
        " than 1, so that heads can diverge; use 'structured' or 'aligned'",
    ),
    Rule(
        "sheaf.map_step_size",
        lambda s: s.sheaf.rotate_index and s.algorithm_spec.couples and s.sheaf.learns_maps,
        "sheaf.rotate_index draws maps anew every round, and what is redrawn cannot learn with sheaf.map_step_size ="
        " {s.sheaf.map_step_size:g}; set it to 0",
    ),
    # --- whole models as one vector ---
    Rule(
        "training.weight_decay",
        lambda s: s.training.weight_decay != 0.0 and not s.algorithm_spec.couples_models and not _decays_by_adam(s),
        "training.weight_decay is of algorithms that step a whole model as one vector (sheaf_fmtl, dfedu), and"
        " algorithm {s.algorithm!r} is none of them; set it to 0, give a number with training.optimizer = 'adam', or"
        " use sheaf_fmtl with sheaf.coupling = 0",
    ),
    Rule(
        "training.optimizer",
        lambda s: s.training.optimizer == "adam" and _steps_in_its_own_way(s),
        "training.optimizer = 'adam' steps a client's whole model by its own gradient, but algorithm {s.algorithm!r}"
        " has steps of its own; set it to 'parts', or use an algorithm such as 'local', 'dpsgd' or 'fedavg'",
    ),
    Rule(
        "training.weight_decay",
        lambda s: (
            s.training.weight_decay == "as_sheaf"
            and s.algorithm_spec.couples_models
            and not (s.algorithm_spec.has_maps and s.sheaf.map_start in INDEPENDENT_STARTS)
        ),
        "training.weight_decay = 'as_sheaf' stands for coupling through maps whose entries all mean as much, which"
        " algorithm {s.algorithm!r} with sheaf.map_start = {s.sheaf.map_start!r} does not have; use sheaf_fmtl with"
        " 'random', 'uniform', 'orthonormal' or 'hadamard', or give a number",
    ),
    Rule(
        "training.personal_encoders",
        lambda s: bool(s.training.personal_encoders) and s.algorithm_spec.couples_models,
        "training.personal_encoders does not go with algorithm {s.algorithm!r}, which couples all of a model; leave it"
        " out, or use 'sheaf_dmfl'",
    ),
    Rule(
        "sheaf.map_storage",
        lambda s: s.sheaf.map_storage == "kronecker" and s.algorithm_spec.couples_models,
        "sheaf.map_storage = 'kronecker' has one small matrix for all outputs of a head, which algorithm"
        " {s.algorithm!r} with its whole models does not have; use 'factored'",
    ),
    # --- personal models ---
    Rule(
        "personalization",
        lambda s: _pull_too_strong(s),
        "personalization.{pull} {strength:g} * training.head_step_size {s.training.head_step_size:g} = {product:.2g},"
        " and from 2 on a pulled model diverges; lower one of them",
    ),
    Rule(
        "personalization.server_mixing",
        lambda s: s.personalization.server_mixing > 1.0 and not s.algorithm_spec.factored,
        "personalization.server_mixing must lie in (0, 1] with algorithm {s.algorithm!r}, got"
        " {s.personalization.server_mixing:g}; beyond the mean of its clients goes only the server of 'tdpfed'",
    ),
    Rule(
        "personalization.attraction",
        lambda s: _personal_steps_too_long(s),
        "personalization.attraction {s.personalization.attraction:g} * personalization.personal_step_size"
        " {s.personalization.personal_step_size:g} = {product:.3g}, and from {limit:.3g} on a personal model with"
        " Nesterov's momentum diverges; lower one of them",
    ),
    Rule(
        "factors.aggregation",
        lambda s: s.algorithm_spec.factored and s.factors.aggregation == "tensors" and not s.algorithm_spec.server,
        "factors.aggregation = 'tensors' is what a server does, which algorithm {s.algorithm!r} does not have; use"
        " 'factors', or algorithm = 'tdpfed'",
    ),
    Rule(
        "sharing.codec",
        lambda s: s.algorithm_spec.factored and s.factors.aggregation == "tensors" and s.sharing.codec == "top_k",
        "sharing.codec = 'top_k' never sends all factors of a weight, which factors.aggregation = 'tensors' needs; use"
        " another codec, or 'factors'",
    ),
    Rule(
        "export.model",
        lambda s: s.export.model.startswith("compressed") and not s.algorithm_spec.factored,
        "export.model = {s.export.model!r} is made of factors, which algorithm {s.algorithm!r} does not have; set it to"
        " 'personal', or use algorithm = 'tdpfed'",
    ),
    Rule(
        "export.theory",
        lambda s: [{"reason": reason}] if s.export.theory and (reason := _without_theory(s)) else False,
        "export.theory looks at all clients between two rounds, but {reason}; set it to false",
    ),
    Rule(
        "model.start_from",
        lambda s: bool(s.model.start_from) and s.algorithm_spec.generates,
        "model.start_from gives clients trained weights, which algorithm {s.algorithm!r} replaces by generated ones;"
        " leave it out, or use another algorithm",
    ),
    Rule(
        "model.start_scaling",
        lambda s: not s.model.start_from and s.model.start_scaling != "kept",
        "model.start_scaling = {s.model.start_scaling!r} is of models that model.start_from names, which is empty; name"
        " a run, or leave it out",
    ),
    # --- clients that move ---
    Rule(
        "algorithm",
        lambda s: s.topology.kind == "mobile" and s.algorithm_spec.links_groups,
        "algorithm {s.algorithm!r} links all members of a group, which topology.kind = 'mobile' cannot promise; use"
        " another of either",
    ),
    Rule(
        "clients.n_clients",
        lambda s: (
            [{"most": MOST_MAPPED_CLIENTS, "peers": s.clients.n_clients - 1}]
            if s.topology.kind == "mobile" and s.algorithm_spec.has_maps and s.clients.n_clients > MOST_MAPPED_CLIENTS
            else False
        ),
        "algorithm {s.algorithm!r} has a map for every edge that topology.kind = 'mobile' can ever make, {peers} per"
        " client; set clients.n_clients to at most {most}, or use an algorithm without maps",
    ),
)


def _without_theory(s: ScenarioFields) -> str:
    """Why there are no figures of theory; empty: there are."""
    algorithm = s.algorithm_spec
    one_each = not (algorithm.unimodal or algorithm.personal or algorithm.factored or algorithm.pooled)
    if algorithm.server or not one_each:
        return f"algorithm {s.algorithm!r} has a server, or not one model per client"
    if s.network.mode != "synchronous":
        return f"network.mode = {s.network.mode!r} has no such instant"
    if s.clients.sampled or s.topology.kind == "mobile" or s.data.mode == "live":
        return "clients.sampled, topology.kind = 'mobile' or data.mode = 'live' change who or what there is"
    return ""


def _decays_by_adam(s: ScenarioFields) -> bool:
    return s.training.optimizer == "adam" and s.training.weight_decay != "as_sheaf"


def _steps_in_its_own_way(s: ScenarioFields) -> bool:
    spec = s.algorithm_spec
    return spec.couples or spec.has_maps or spec.pooled or spec.factored or spec.paired


def _pull_too_strong(s: ScenarioFields) -> Sequence[Case]:
    pull = s.algorithm_spec.pull if s.training.optimizer == "parts" else ""  # Adam takes no longer steps for it
    strength = getattr(s.personalization, pull) if pull else 0.0
    product = strength * s.training.head_step_size
    return [{"pull": pull, "strength": strength, "product": product}] if product >= 2.0 else []


def _personal_steps_too_long(s: ScenarioFields) -> Sequence[Case]:
    product = s.personalization.attraction * s.personalization.personal_step_size
    too_long = s.algorithm_spec.factored and product >= LONGEST_STEP
    return [{"product": product, "limit": LONGEST_STEP}] if too_long else []


def _personal_encoders_of_nobody(s: ScenarioFields) -> Iterator[Case]:
    owned = {modality for group in s.clients.groups for modality in group.modalities}
    for modality in s.training.personal_encoders:
        if modality not in owned:
            yield {"stranger": modality, "owned": ", ".join(m for m in MODALITIES if m in owned)}
