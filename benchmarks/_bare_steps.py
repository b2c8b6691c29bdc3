"""Local steps of one client in plain torch: no engine, links, messages, flat views or learner classes.

The model, its rows and `BatchOrder` are the project's; loss, optimizer and the three steps are written out.
"""

from __future__ import annotations

import torch
from sheafedge.emulator.random_streams import named_stream
from sheafedge.models.objectives import balanced_weights
from sheafedge.models.training.minibatches import BatchOrder
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.wiring.client import Client
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector


class BareSteps:
    """A client of the scenario blockage that trains for itself.

    Args:
        scenario: with one logit and balanced classes, as shipped.
        client: fresh, with a fused model that no learner has touched.
    """

    def __init__(self, scenario: Scenario, client: Client) -> None:
        self._rows, self._training = client.data.train, scenario.training
        self._model = client.models["fused"]
        parameters = list(self._model.encoders.parameters())
        self._optimizer = torch.optim.Adam(parameters, lr=self._training.encoder_step_size, fused=True)
        draws = named_stream(scenario.seed, "batches", client.client_id, "fused")
        self._batches = BatchOrder(len(self._rows), self._training.batch_size, draws)
        self._class_weights = torch.from_numpy(balanced_weights(self._rows.label, 2)).to(self._model.head.dtype)

    def run(self, n_steps: int) -> None:
        """So many minibatches: backward pass, then encoders (15), attention (17), and the head by its own gradient."""
        sgd = {
            self._model.head: self._training.head_step_size,
            **dict.fromkeys(self._model.fusion.parameters(), self._training.attention_step_size),
        }
        for _ in range(n_steps):
            self._model.zero_grad()
            self._loss().backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            for parameter, step_size in sgd.items():
                assert parameter.grad is not None
                parameter.data.sub_(parameter.grad, alpha=step_size)

    def state(self) -> Tensor:
        """All that it learns, as one vector."""
        return state_of(self._model)

    def _loss(self) -> Tensor:
        batch = self._batches.next(len(self._rows))
        gathered = self._rows.inputs(batch).items()
        inputs = {str(modality): torch.from_numpy(rows).to(self._model.head.dtype) for modality, rows in gathered}
        labels = torch.from_numpy(self._rows.label[batch])
        logits = self._model(inputs)[:, 0]
        return functional.binary_cross_entropy_with_logits(
            logits, labels.to(logits.dtype), weight=self._class_weights[labels]
        )


def state_of(model: nn.Module) -> Tensor:
    """Every parameter of a model, as one vector."""
    return parameters_to_vector(model.parameters()).detach().clone()
