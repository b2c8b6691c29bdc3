"""Settings of learning in a scenario: frozen values that check themselves. No torch, so that they load at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ..emulator.contracts import ConfigError, Modality


def require(valid: bool, field: str, value: object, remedy: str) -> None:
    """Refuse a value: "<field> <remedy>, got <value>".

    Raises:
        ConfigError: it is not valid.
    """
    if not valid:
        raise ConfigError(f"{field} {remedy}, got {value!r}")


def require_finite_at_least(field: str, value: float, low: float, hint: str) -> None:
    """Refuse a value that is not finite or too low; errors as of `require`."""
    valid = math.isfinite(value) and value >= low
    require(valid, field, value, f"must be a finite number of at least {low:g} ({hint})")


_DECAYS = "must be a number, or 'as_sheaf' (the control of sheaf_fmtl)"


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Local training between two exchanges.

    Attributes:
        local_steps: minibatch steps per round, S; 1 is the paper's protocol.
        batch_size: windows per step, drawn without replacement inside an epoch.
        head_step_size: step size of the head, alpha of (11).
        encoder_step_size: step size of the encoders, in (15).
        encoder_optimizer: optimizer of the encoders; Adam keeps its moments local.
        optimizer: "parts" steps encoders, fusion and head each by its own step size, the encoders by
            `encoder_optimizer`; "adam" steps all of a model by one Adam, by `model_step_size` and `weight_decay`.
        moments: "kept" lets the moments of Adam go on from round to round, "fresh" begins them anew in every round.
            Which of both is better depends on how far an exchange moves a model.
        attention_step_size: step size of the attention scores, in (17).
        model_step_size: step size of algorithms that step a whole model as one vector (`sheaf_fmtl`, `dfedu`), in place
            of the three others, always by plain SGD; and of `optimizer = "adam"`.
        weight_decay: weight decay of the same algorithms and of that optimizer, which add half of it times the squared
            norm of the model to the local loss. "as_sheaf" is a control: the client trains alone, with the weight decay
            that the coupling through independent random maps comes to in expectation, sheaf.coupling * sum of edge
            dimensions * variance of map entries.
        class_weights: "balanced" gives every class of a client's rows the same weight in the loss, "none" every row.
        fitted_biases: after the last round every client shifts the biases of its head so that its mean probability of
            every output is the share of its own training rows in which that came true; for outputs that are
            probabilities, which encoders that were averaged last have moved.
        local_statistics: keep running statistics of normalization layers out of encoder averaging; for base stations
            whose views differ much.
        personal_encoders: modalities whose encoders never leave their client, whole models included; for sensors whose
            readings mean something else at every client, such as positions along streets of their own. `centralized`,
            which sends nothing, knows no such thing.
        prototype_pull: weight of the distance to neighbors' class means in the local loss, of
            `sheaf_prototypes` and `fedproto_decentralized`.
        distillation_temperature: softmax temperature at which the modalities of a client teach each other, of
            `dmml_kd`; above 0.
        hide_sensors: probability that a training sample loses a sensor, for every sensor of its model alone, never all
            of them; at least 0, below 1. Models learn to do without a lost sensor (modality dropout).
    """

    local_steps: int = 5
    batch_size: int = 32
    head_step_size: float = 0.1
    encoder_step_size: float = 0.003
    encoder_optimizer: Literal["adam", "sgd"] = "adam"
    optimizer: Literal["parts", "adam"] = "parts"
    moments: Literal["kept", "fresh"] = "kept"
    attention_step_size: float = 0.05
    model_step_size: float = 0.05
    weight_decay: float | Literal["as_sheaf"] = 0.0
    class_weights: Literal["none", "balanced"] = "none"
    fitted_biases: bool = False
    local_statistics: bool = False
    personal_encoders: tuple[Modality, ...] = ()
    prototype_pull: float = 1.0
    distillation_temperature: float = 2.0
    hide_sensors: float = 0.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic's documented hook, read once

    def __post_init__(self) -> None:
        require(self.local_steps >= 1, "training.local_steps", self.local_steps, "must be at least 1")
        require(self.batch_size >= 1, "training.batch_size", self.batch_size, "must be at least 1")
        for name in ("head_step_size", "encoder_step_size", "attention_step_size", "model_step_size"):
            require_finite_at_least(f"training.{name}", getattr(self, name), 0.0, "0 freezes that part")
        if isinstance(self.weight_decay, str):
            require(self.weight_decay == "as_sheaf", "training.weight_decay", self.weight_decay, _DECAYS)
        else:
            require_finite_at_least("training.weight_decay", self.weight_decay, 0.0, "0 leaves the loss as it is")
        require_finite_at_least("training.prototype_pull", self.prototype_pull, 0.0, "0 leaves class means aside")
        temperature = self.distillation_temperature
        require(
            0.0 < temperature < math.inf, "training.distillation_temperature", temperature, "must be finite and above 0"
        )
        chance = 0.0 <= self.hide_sensors < 1.0
        require(chance, "training.hide_sensors", self.hide_sensors, "must be at least 0 and below 1; 0 hides none")


@dataclass(frozen=True, slots=True)
class SharingSettings:
    """How vectors that neighbors average (encoders, and in some algorithms heads and more) are sent; not projections.

    Attributes:
        codec: "float32" sends them whole; "float16" rounds to half precision; "int8" to 8 bits, with error feedback;
            "top_k" sends only the coordinates that changed most since they were sent last.
        fraction: share of the coordinates that "top_k" sends, in (0, 0.5].
        every: rounds from one exchange to the next, the first at the end of so many; 1 exchanges in every round. A
            number of rounds that it does not divide ends with models that were not averaged last.
        until: rounds with exchanges, after which clients train on alone, so that their models become their own; 0: all,
            of "averaged_and_tuned" and "diffused_and_tuned" four fifths of them.
    """

    codec: Literal["float32", "float16", "int8", "top_k"] = "float32"
    fraction: float = 0.1
    every: int = 1
    until: int = 0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - as above

    def __post_init__(self) -> None:
        require(
            0.0 < self.fraction <= 0.5,
            "sharing.fraction",
            self.fraction,
            "must lie in (0, 0.5] (a coordinate sent alone takes 8 bytes, so 0.5 sends as much as 'float32')",
        )
        require(self.every >= 1, "sharing.every", self.every, "must be at least 1 (4 shares in every fourth round)")
        require(self.until >= 0, "sharing.until", self.until, "must be at least 0 (40 shares in the first 40 rounds)")

    def in_round(self, round_index: int) -> bool:
        """Whether this round ends with an exchange."""
        return (round_index + 1) % self.every == 0 and not self.is_over(round_index)

    def is_over(self, round_index: int) -> bool:
        """Whether clients train alone from here on."""
        return 0 < self.until <= round_index


@dataclass(frozen=True, slots=True)
class SheafSettings:
    """The coupling of heads, or of whole models in algorithms that couple those.

    Attributes:
        coupling: lambda of (7), for mean losses; 0 leaves clients alone and sends no projections.
        edges: neighbors between which heads or models are compared: "all", or those with the "same_sensors", as heads
            of clients with other sensors read other inputs. Encoders are shared with all that own the modality.
        compression: gamma in (0, 1], share of the coordinates that an edge compares: of the mean size of two heads, or
            of the smaller of two models.
        map_step_size: eta of (12); 0 freezes the maps and spares the second exchange.
        clamp_map_step: limit eta per edge to 1 / (lambda (|w_i|^2 + |w_j|^2)); costs one float per message.
        map_start: "structured" (rows of the identity, outputs of the same number at both ends), "aligned" (the same for
            outputs that are about the same, however each end numbers them; a common initial head is common in this
            sense then), "learned" (aligned, by orders that base stations find in their own sweeps), or drawn: "random"
            (Gaussian), "uniform", "orthonormal" rows, "identity_noise" (the first rows of the identity and noise), all
            dense, or "hadamard" (orthonormal rows that are never built).
        map_scale: size of the entries of drawn maps: standard deviation of "random" ones and of the noise of
            "identity_noise", bound of "uniform" ones, root mean square of the others; 0: 1/sqrt(d_i), 0.01,
            sqrt(3/d_i), and 1/sqrt(d_i), with which orthonormal rows have length 1.
        map_share: "end" draws the maps of both ends of an edge apart, "edge" draws one map of what both have in common.
        rotate_index: draw the rows of structured or aligned maps anew every round, the same at both ends, so that an
            edge comes to compare all that it can, a share of it at a time; such maps cannot learn.
        map_storage: "factored" (exact, small), "dense" (as the equations read), or "kronecker": maps I_C x R that treat
            all outputs alike and keep that form when they learn; compression is then the share of columns of the head.
        exchange: "double" sends projections before and after the head step, as the paper does; "single" derives the
            first from the last round's second, the same iterates for half the head traffic; needs links that deliver.
        edge_trust: kappa > 0 lets every edge pull less the more its ends differ, 1 / (1 + residual / kappa)^2 with the
            relative residual (0 in agreement, about 1 for unrelated heads): a quarter of the pull is left where it is
            kappa. 0 trusts all neighbors alike. Needs heads that start in agreement, as common ones do.
        diffusion: share of the way to the neighbors' mean that `sheaf_diffusion` goes per round, in (0, 1].
        listen_rounds: rounds in which a client that cannot tell the direction of its codebook only listens to its
            neighbors, before it asks their models, with `map_start = "learned"`; 0: it never asks.
    """

    coupling: float = 0.1
    edges: Literal["all", "same_sensors"] = "all"
    compression: float = 1.0
    map_step_size: float = 0.001
    clamp_map_step: bool = True
    map_start: Literal[
        "structured", "aligned", "learned", "random", "uniform", "orthonormal", "identity_noise", "hadamard"
    ] = "structured"
    map_scale: float = 0.0
    map_share: Literal["end", "edge"] = "end"
    rotate_index: bool = False
    map_storage: Literal["factored", "dense", "kronecker"] = "factored"
    exchange: Literal["double", "single"] = "double"
    edge_trust: float = 0.0
    diffusion: float = 1.0
    listen_rounds: int = 5

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - as above

    def __post_init__(self) -> None:
        require_finite_at_least("sheaf.coupling", self.coupling, 0.0, "0 switches the coupling off")
        require(
            0.0 < self.compression <= 1.0,
            "sheaf.compression",
            self.compression,
            "must lie in (0, 1] (0.1 keeps one coordinate per ten head parameters)",
        )
        require_finite_at_least("sheaf.map_step_size", self.map_step_size, 0.0, "0 freezes the maps")
        require_finite_at_least("sheaf.edge_trust", self.edge_trust, 0.0, "0 trusts all neighbors alike")
        if self.rotate_index and self.draws_maps:
            raise ConfigError(
                f"sheaf.rotate_index draws rows of the identity anew, which sheaf.map_start = {self.map_start!r} does"
                " not have; use 'structured' or 'aligned'"
            )
        require_finite_at_least("sheaf.map_scale", self.map_scale, 0.0, "0 follows from the size of the models")
        require(
            self.map_scale == 0.0 or self.draws_maps,
            "sheaf.map_scale",
            self.map_scale,
            f"must be 0 with sheaf.map_start = {self.map_start!r}, whose rows have length 1",
        )
        if self.map_share == "edge":
            require(
                self.draws_maps,
                "sheaf.map_start",
                self.map_start,
                "is the same at both ends of an edge anyway; leave sheaf.map_share out, or use 'hadamard'",
            )
        require(
            0.0 < self.diffusion <= 1.0, "sheaf.diffusion", self.diffusion, "must lie in (0, 1] (1 goes all the way)"
        )
        require(
            self.listen_rounds >= 0, "sheaf.listen_rounds", self.listen_rounds, "must be at least 0 (0: nobody listens)"
        )

        if self.map_storage == "kronecker":
            for field, needed in (("map_start", "structured"), ("exchange", "double")):
                require(
                    getattr(self, field) == needed,
                    f"sheaf.{field}",
                    getattr(self, field),
                    f"must be {needed!r} with sheaf.map_storage = 'kronecker'",
                )

    @property
    def draws_maps(self) -> bool:
        """Whether maps are drawn, and no rows of the identity that neighbors agree on."""
        return self.map_start not in ("structured", "aligned", "learned")

    @property
    def learns_maps(self) -> bool:
        """Whether (12) ever changes a map, and the second exchange is needed."""
        return self.coupling > 0.0 and self.map_step_size > 0.0


#: Encoders of rows of a table, of images and of nodes of a graph, from which groups of clients choose;
#: `encoders.encoder_table` makes them.
RowEncoder = Literal[
    "identity", "mlp", "mlp_tdp", "cnn_fmtl", "cnn_fmtl_small", "cnn_fmtl_medium", "cnn_fmtl_large", "vgg8", "gcn"
]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Shape of the clients' models.

    Attributes:
        embedding_dim: l, size of every modality's embedding.
        hidden_dim: width of the hidden layer of perceptrons.
        width: multiplies the channels of convolutional encoders; 1 is the paper's size.
        dropout: share that convolutional encoders, of images and of graphs, drop; not set: each encoder's own, as in
            the paper.
        block_order: order inside the blocks of convolutional encoders. "norm_last", as in the paper: convolution, ReLU,
            pooling, normalization; "norm_first": convolution, normalization, ReLU, pooling, which exported models
            compute without a step for the normalization.
        camera_encoder: encoder of single images: "small" suits 64 x 64; "resnet50" is the paper's, needs torchvision
            and `weights`, stays frozen and trains a projection; "resnet50_tuned" trains and exchanges all of it.
        weights: file of pretrained weights for "resnet50", a state dictionary of torchvision's.
        fusion: "default" is the algorithm's own; the others are for ablations ("attention_mlp" scores modalities with a
            small network in place of one vector).
        head_start: "common" gives every client the same initial head (of its layout), "independent" does not.
        start_from: folder of a finished run, or a file of its folder `weights`, whose weights clients start with in
            place of drawn ones; "{seed}" in it stands for the seed of this run. A client takes the model of the client
            of its own number where that has the same inputs, otherwise the first that has; empty: weights are drawn.
        start_scaling: with `start_from`, the constants that scale inputs are "kept" as they were there, or taken from
            the client's "own" training samples.
    """

    embedding_dim: int = 64
    hidden_dim: int = 128
    width: float = 1.0
    dropout: float | None = None
    block_order: Literal["norm_last", "norm_first"] = "norm_last"
    camera_encoder: Literal["small", "resnet50", "resnet50_tuned"] = "small"
    weights: str = ""
    fusion: Literal["default", "attention", "attention_mlp", "concat", "mean"] = "default"
    head_start: Literal["common", "independent"] = "common"
    start_from: str = ""
    start_scaling: Literal["kept", "own"] = "kept"

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - as above

    def __post_init__(self) -> None:
        require(self.embedding_dim >= 1, "model.embedding_dim", self.embedding_dim, "must be at least 1")
        require(self.hidden_dim >= 1, "model.hidden_dim", self.hidden_dim, "must be at least 1")
        require(0.0 < self.width <= 16.0, "model.width", self.width, "must lie in (0, 16] (1 is the paper's size)")
        dropout_fits = self.dropout is None or 0.0 <= self.dropout < 1.0
        require(dropout_fits, "model.dropout", self.dropout, "must lie in [0, 1) (0 switches it off)")
        needs_weights = self.camera_encoder != "small"
        if needs_weights and not self.weights:
            raise ConfigError(
                f"model.camera_encoder = {self.camera_encoder!r} needs model.weights, a file of pretrained weights"
                " such as resnet50-11ad3fa6.pth; or use 'small'"
            )
