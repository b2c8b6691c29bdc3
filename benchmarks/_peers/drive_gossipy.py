"""One repeat of the ring by gossipy: `GossipSimulator` with PUSH, models merged on receipt and then trained."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from given import Clock, Given, drive, read_given
from gossipy import set_seed
from gossipy.core import AntiEntropyProtocol, CreateModelMode, StaticP2PNetwork
from gossipy.data import DataDispatcher
from gossipy.data.handler import ClassificationDataHandler
from gossipy.model import TorchModel
from gossipy.model.handler import TorchModelHandler
from gossipy.node import GossipNode
from gossipy.simul import GossipSimulator
from torch import Tensor, nn

#: Time steps of a round, as in gossipy's own examples; every node sends in one of them.
STEPS_PER_ROUND = 100


class GivenModel(TorchModel):
    """The two layers, as gossipy wants to hold them."""

    def __init__(self, given: Given) -> None:
        super().__init__()
        self.layers = given.model()

    def init_weights(self) -> None:
        """They are those of the start already."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits [n_samples, n_classes]."""
        return self.layers(inputs)


def simulator_of(given: Given) -> GossipSimulator:
    """No message is lost or late, all nodes are online, and nothing is evaluated."""
    n_clients, n_samples = given.labels.shape
    data = ClassificationDataHandler(given.inputs.flatten(0, 1), given.labels.flatten(), test_size=0.0)
    dispatcher = DataDispatcher(data, n=n_clients, eval_on_user=False, auto_assign=False)
    dispatcher.set_assignments([list(range(i * n_samples, (i + 1) * n_samples)) for i in range(n_clients)], None)
    handler = TorchModelHandler(
        net=GivenModel(given),
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": given.step_size},
        criterion=nn.CrossEntropyLoss(),
        local_epochs=1,
        batch_size=given.batch_size,
        create_model_mode=CreateModelMode.MERGE_UPDATE,
    )
    network = StaticP2PNetwork(n_clients, topology=given.adjacency.astype(int))
    nodes = GossipNode.generate(
        data_dispatcher=dispatcher, p2p_net=network, model_proto=handler, round_len=STEPS_PER_ROUND, sync=True
    )
    return GossipSimulator(nodes, dispatcher, delta=STEPS_PER_ROUND, protocol=AntiEntropyProtocol.PUSH)


def run(path: str) -> tuple[Clock, Sequence[nn.Module]]:
    """The clock over the rounds, and the last models."""
    given = read_given(path)
    set_seed(given.seed)
    simulator = simulator_of(given)
    simulator.init_nodes(seed=given.seed)
    simulator.start(n_rounds=1)
    clock = Clock()
    clock.start()
    simulator.start(n_rounds=given.rounds)
    clock.stop()
    return clock, [simulator.nodes[client].model_handler.model for client in range(len(given.labels))]


if __name__ == "__main__":
    drive(run, ["gossipy-dfl", "torch"])
