"""The server that generates its clients' models, and learns from what local steps have changed them by."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from ...emulator.contracts import DataError, Message, MessageKind, NodeId, State
from ...emulator.saved_state import SavedState
from ..client_model import forward_flops
from ..codecs.codec import Codec
from ..codecs.codec_table import CODECS
from ..hyper_settings import HyperSettings
from ..sharing.payload import to_payload, to_tensor
from ..state.module_state import module_state, optimizer_state, restore_module, restore_optimizer, stream_states
from ..state.tensors import restored_tensor, to_array
from ..training.client_setup import ClientSetup
from .client_vectors import ClientVectors
from .generated_parts import common_width, generated_parts
from .hypernetwork import ModelGenerator
from .schedule import HyperSchedule


class HyperServer:
    """A generator W = H(S(X0; theta); phi), the clients' vectors X0, and one step on both per exchange.

    The gradient of a client's loss with respect to w is about -dw, up to its step size, so that

        theta, phi <- Adam step on theta, phi with the gradient of -<dw, W>

    with theta and phi in groups of their own. Nothing flows into X0. Where a number of dw did not arrive, and for
    clients that were not heard, it is 0; where nobody was heard, there is no step.

    Source: Liang et al. 2025, (12) to (15) with the sign corrected: as printed, the rule ascends.

    Args:
        setups: of the first client of every group at least, by number.
        members: group -> all of its clients.
        schedule: who sends what when.
        settings: of the generator and of its steps.

    Attributes:
        parts: what is generated.
        generator: S and H.
        vectors: X0 and its graph.
    """

    def __init__(
        self,
        setups: Sequence[ClientSetup],
        members: Mapping[str, Sequence[NodeId]],
        schedule: HyperSchedule,
        settings: HyperSettings,
    ) -> None:
        first = setups[0]
        self._schedule, self._like = schedule, first.models["fused"].head.detach()
        self._server, n_clients = schedule.participation.server, sum(map(len, members.values()))
        self.parts, self._parts_of = generated_parts(setups, members, schedule.participation.seed)
        width = common_width(setups) if schedule.refresh_every else n_clients
        self.vectors = ClientVectors(n_clients, width, settings, schedule, self._like)
        self.generator = ModelGenerator(width, self.parts, settings, schedule.participation.seed)
        self.generator.to(self._like)
        self._optimizer = torch.optim.Adam(self.generator.step_groups(settings), fused=True)
        self._sharing = first.sharing
        self._codecs: dict[NodeId, Codec] = {}  # of clients that have been sent anything; some remember whole models
        self._exchange: int | None = None  # in which models were generated that the server has not learned from yet
        self._streams: State = None  # of dropouts, before that
        self._rows: list[Tensor] = []
        self._answers: list[Tensor] = []
        self._changes: dict[NodeId, Tensor] = {}
        self._heard, self._refused, self._owed = 0, 0, 0.0
        self._forward_flops: dict[int, float] = {}

    @property
    def flops(self) -> float:
        """Of the next models, and of the step since the last ones: a backward pass counts as two forward ones."""
        return self._generation_flops() + self._owed

    @property
    def n_parameters(self) -> int:
        """Of the generator."""
        return sum(parameter.numel() for parameter in self.generator.parameters())

    @property
    def draws_a_graph(self) -> bool:
        """Whether anything diffuses along edges between clients."""
        return self.generator.diffusion is not None

    def with_backbone(self, clients: Collection[NodeId]) -> list[NodeId]:
        """Those of the clients that anything is generated for, by number."""
        return [client for client in sorted(clients) if self._parts_of[client]]

    def generate(self, round_index: int) -> None:
        """Generate models of all clients of an exchange, and keep what the step will need."""
        exchange = self._schedule.exchange(round_index)
        if self._schedule.refreshes(exchange):
            self.vectors.refresh(exchange)
        self._streams = stream_states(self.generator)
        self._answer(exchange)
        self._owed = 0.0

    def messages(self, phase: str, round_index: int) -> list[Message]:
        """A model to every client that receives one in this round."""
        learned = self._schedule.participation.opening(round_index)
        models = self._models(learned, self._rows, self._answers)
        if newcomers := self._schedule.receives(round_index) - learned:
            models |= self._models_of_newcomers(newcomers)
        return [
            Message(
                MessageKind.MODEL,
                self._server,
                client,
                round_index,
                phase,
                self._codec(client).encode(to_payload(models[client])),
            )
            for client in sorted(models)
        ]

    def absorb(self, arrived: Sequence[Message]) -> None:
        """Keep updates for the step, and embeddings for the next graph; what is not finite is refused.

        Raises:
            DataError: a payload has another size than the client's backbone or embedding.
        """
        for message in arrived:
            client = message.sender
            if message.kind is MessageKind.EMBEDDING:
                vector = to_tensor(message.payload, self._like)
                if len(vector) != self.vectors.width:
                    raise DataError(f"client {client} sent an embedding of {len(vector)}, not {self.vectors.width}")
                if self._is_finite(vector):
                    self.vectors.note(client, vector, self._schedule.exchange(message.round_index))
                continue
            size = len(self._start(client))
            values, known = self._codec(client).decode(message.payload, message.received, size)
            change = to_tensor(values, self._like)
            if len(change) != size:
                raise DataError(f"client {client} sent an update of {len(change)} numbers for a backbone of {size}")
            if known is not None:  # a lost number may be anything, NaN too
                change = torch.where(to_tensor(known, self._like), change, 0.0)
            if self._is_finite(change):
                self._changes[client] = change.clone()

    def step(self, round_index: int) -> None:
        """One step on the generator by the updates of an exchange; none where it was off when that opened."""
        if self._changes and self._exchange == self._schedule.exchange(round_index):
            self._optimizer.zero_grad()
            gradients = [torch.zeros_like(answer) for answer in self._answers]
            for client, change in self._changes.items():
                for part, values in self._split(client, change):
                    row = (self._rows[part] == client).nonzero()
                    if len(row):
                        gradients[part][int(row)] = -values  # the printed rule has the other sign, and ascends
            torch.autograd.backward(self._answers, gradients)
            self._optimizer.step()
            self._owed = 2.0 * self._generation_flops()
        self._heard = len(self._changes)
        self._changes, self._exchange, self._answers = {}, None, []

    def figures(self) -> Mapping[str, float]:
        """Clients that the last step heard, messages that were refused so far, and the graph of clients."""
        found: dict[str, float] = {"heard": self._heard, "refused": self._refused}
        if self._schedule.refresh_every:
            found |= self.vectors.figures()
        diffusion = self.generator.diffusion
        if diffusion is not None and not math.isnan(diffusion.energy):
            found["dirichlet_energy"] = diffusion.energy
        return found

    def state(self) -> State:
        generator, waits = module_state(self.generator), self._exchange is not None
        if waits:  # answers are generated again from here
            generator["dropout"] = self._streams
        diffusion = self.generator.diffusion
        return {
            "generator": generator,
            "optimizer": optimizer_state(self._optimizer),
            "vectors": self.vectors.state(),
            "codecs": {str(client): codec.state() for client, codec in self._codecs.items()},
            "exchange": self._exchange,
            "changes": {str(client): to_array(change) for client, change in self._changes.items()},
            "heard": self._heard,
            "refused": self._refused,
            "owed": self._owed,
            "energy": None if diffusion is None else diffusion.energy,
        }

    def restore(self, saved: SavedState) -> None:
        parts = saved.parts(
            *("generator", "optimizer", "vectors", "codecs", "exchange", "changes"),
            *("heard", "refused", "owed", "energy"),
        )
        restore_module(self.generator, parts["generator"])
        restore_optimizer(self._optimizer, parts["optimizer"])
        self.vectors.restore(parts["vectors"])
        self._codecs = {}
        for client, one in self._by_client(parts["codecs"]):
            self._codec(client).restore(one)
        of_clients = self._by_client(parts["changes"])
        self._changes = {client: restored_tensor(one, self._start(client)) for client, one in of_clients}
        self._heard, self._refused = parts["heard"].count(), parts["refused"].count()
        self._owed = parts["owed"].number()
        self._exchange, self._answers = None, []
        if parts["exchange"].state is not None:
            self._streams = parts["generator"].part("dropout").state
            self._answer(parts["exchange"].count())
        if self.generator.diffusion is not None:
            self.generator.diffusion.energy = parts["energy"].number()

    def _by_client(self, saved: SavedState) -> list[tuple[NodeId, SavedState]]:
        """Parts of a state that are named after clients."""
        for name, one in saved.named().items():
            if name not in map(str, self._parts_of):
                one.refuse("belong to a client of this server", repr(name[:20]))
        return [(int(name), one) for name, one in saved.named().items()]

    def _codec(self, client: NodeId) -> Codec:
        """Codec of the models that a client is sent; it also reads that client's updates."""
        if client not in self._codecs:
            self._codecs[client] = CODECS[self._sharing.codec](to_payload(self._start(client)), self._sharing)
        return self._codecs[client]

    def _answer(self, exchange: int) -> None:
        """Generate models of an exchange with the vectors as they are, keeping the graph of what was computed."""
        chosen = self._schedule.participation.drawn(exchange)
        self._exchange, self._rows = exchange, self._rows_of(chosen)
        self._answers = self.generator(self.vectors.values, self.vectors.known, self.vectors.ends, self._rows)

    def _models_of_newcomers(self, clients: Collection[NodeId]) -> dict[NodeId, Tensor]:
        """Models of clients that join late: nothing is learned from them, and nothing drawn."""
        values, known, ends = self.vectors.with_newcomers(clients)
        rows = self._rows_of(clients)
        self.generator.eval()
        with torch.no_grad():
            answers = self.generator(values, known, ends, rows)
        self.generator.train()
        return self._models(clients, rows, answers)

    def _models(
        self, clients: Collection[NodeId], rows: Sequence[Tensor], answers: Sequence[Tensor]
    ) -> dict[NodeId, Tensor]:
        """Of each client the [P] vector that its parts make."""
        found = {}
        for client in self.with_backbone(clients):
            own = [answers[part][int((rows[part] == client).nonzero())] for part in self._parts_of[client]]
            found[client] = torch.cat(own).detach()
        return found

    def _rows_of(self, clients: Collection[NodeId]) -> list[Tensor]:
        """Of every part: those of the clients that have it, by number."""
        chosen = [sorted(part.owners.intersection(clients)) for part in self.parts]
        return [torch.tensor(owners, dtype=torch.int64, device=self._like.device) for owners in chosen]

    def _split(self, client: NodeId, vector: Tensor) -> list[tuple[int, Tensor]]:
        """Numbers of a client's parts, with their values."""
        numbers = self._parts_of[client]
        return list(zip(numbers, torch.split(vector, [len(self.parts[n].start) for n in numbers]), strict=True))

    def _start(self, client: NodeId) -> Tensor:
        """Answer for a client's backbone that all begin with; its length is that of models and updates."""
        own = [self.parts[number].start for number in self._parts_of[client]]
        return torch.cat(own) if own else self._like.new_empty(0)

    def _is_finite(self, vector: Tensor) -> bool:
        fine = bool(torch.isfinite(vector).all())
        self._refused += not fine
        return fine

    def _generation_flops(self) -> float:
        """Of the models of one exchange on the graph as it is, matrix work only."""
        if not self.parts:  # models are heads alone, such as linear ones: nothing is generated
            return 0.0
        n_edges = self.vectors.ends.shape[1]
        if n_edges not in self._forward_flops:
            rows = self._rows_of(self._schedule.participation.drawn(0))
            passed = _OnGraph(self.generator, self.vectors, rows)
            self._forward_flops = {n_edges: forward_flops(passed, self.vectors.values)}
        return self._forward_flops[n_edges]


class _OnGraph(torch.nn.Module):
    """The generator as a function of the clients' vectors alone."""

    def __init__(self, generator: ModelGenerator, vectors: ClientVectors, rows: Sequence[Tensor]) -> None:
        super().__init__()
        self.generator, self._vectors, self._rows = generator, vectors, rows

    def forward(self, values: Tensor) -> Tensor:
        found = self.generator(values, self._vectors.known, self._vectors.ends, self._rows)
        return torch.cat([answer.reshape(-1) for answer in found])
