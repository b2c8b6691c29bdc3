"""What theory says of a run after one round: energy, gradients, spectrum, holonomy, and what the coupling does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from ...emulator.contracts import NodeId
from ...models.sheaf.holonomy import holonomy_defect
from ...models.sheaf.spectrum import laplacian_spectrum
from ..wiring.client import Client
from .client_gradient import ClientGradient
from .sheaf_of_run import RunSheaf


@dataclass(frozen=True, slots=True)
class RoundTheory:
    """Figures of all clients together; what is not defined is None. w are the coupled vectors, f_i the losses.

    Attributes:
        round: number of completed rounds.
        loss: sum over clients of f_i on all training samples.
        energy: w^T L w, the sum over edges of |P_ij w_i - P_ji w_j|^2.
        objective: Psi = loss + lambda / 2 * energy.
        rayleigh: energy / |w|^2, between 0 and the largest eigenvalue.
        consensus_vectors: root mean square over clients of |w_i - mean|; None where sizes differ.
        consensus_encoders: the same of encoders, over clients and modalities.
        gradient_vectors: |grad_w Psi|.
        gradient_maps: |grad_P Psi|, where maps learn.
        gradient_encoders: norm of the sums over clients of the gradients of each modality's encoder, as in Lemma 1.
        gradient_attention: norm of all gradients in what fusions learn.
        largest_eigenvalue, smallest_eigenvalue: of L, the smallest above 0.
        sections: dimension of the kernel of L.
        holonomy, largest_holonomy: mean and largest `holonomy_defect` over cycles; None without any.
        seen: share of |w|^2 that lies where maps can tell it from 0.
        weight_decay: lambda * rayleigh: the weight decay that shrinks the vectors as much as the coupling does.
        shrinking: share of the squared pull that points along the vectors.
        smoothness: largest smoothness of a client's loss in its head; NaN for the objective of a plugin.
    """

    round: int
    loss: float
    energy: float
    objective: float
    rayleigh: float
    consensus_vectors: float | None
    consensus_encoders: float
    gradient_vectors: float
    gradient_maps: float | None
    gradient_encoders: float
    gradient_attention: float
    largest_eigenvalue: float | None
    smallest_eigenvalue: float | None
    sections: int | None
    holonomy: float | None
    largest_holonomy: float | None
    seen: float | None
    weight_decay: float | None
    shrinking: float | None
    smoothness: float

    def as_dict(self) -> dict[str, float | int | None]:
        """Figures by name; those that are not finite are None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


def round_theory(
    rounds_done: int,
    run: RunSheaf,
    clients: Sequence[Client],
    gradients: Mapping[NodeId, ClientGradient],
    *,
    learns_maps: bool,
) -> RoundTheory:
    """Figures after so many rounds.

    Args:
        rounds_done: number of them.
        run: sheaf of the run.
        clients: of the run.
        gradients: of every client's loss.
        learns_maps: whether maps take steps.
    """
    sheaf, vectors, coupling = run.sheaf, run.vectors, run.coupling
    residuals, pulls = sheaf.residuals(vectors), sheaf.laplacian(vectors)
    like = next(iter(vectors.values()))
    energy = 0.5 * _square(residuals.values())
    norm_sq, pull_sq = _square(vectors.values()), _square(pulls.values())
    losses = {i: one.whole if run.whole_models else one.head for i, one in gradients.items()}
    of_maps = sum(float(residuals[i] @ residuals[i]) * float(w @ w) for i, w in vectors.items())
    defects = [holonomy_defect(sheaf, cycle, like) for cycle in run.cycles]
    spectrum = laplacian_spectrum(sheaf, like)
    along = sum(float(pulls[i] @ w) ** 2 / float(w @ w) for i, w in vectors.items() if float(w @ w) > 0.0)
    loss = sum(one.loss for one in gradients.values())
    rayleigh = energy / norm_sq if norm_sq > 0.0 else 0.0
    return RoundTheory(
        round=rounds_done,
        loss=loss,
        energy=energy,
        objective=loss + 0.5 * coupling * energy,
        rayleigh=rayleigh,
        consensus_vectors=_spread(list(vectors.values())),
        consensus_encoders=_encoder_spread(clients),
        gradient_vectors=math.sqrt(_square(losses[i] + coupling * pulls[i] for i in vectors)),
        gradient_maps=coupling * math.sqrt(of_maps) if learns_maps and coupling > 0.0 else None,
        gradient_encoders=_encoder_gradient(gradients.values()),
        gradient_attention=math.sqrt(_square(one.fusion for one in gradients.values())),
        largest_eigenvalue=spectrum.largest,
        smallest_eigenvalue=spectrum.smallest,
        sections=spectrum.sections,
        holonomy=sum(defects) / len(defects) if defects else None,
        largest_holonomy=max(defects, default=None),
        seen=_seen(run),
        weight_decay=coupling * rayleigh if coupling > 0.0 else None,
        shrinking=along / pull_sq if coupling > 0.0 and pull_sq > 0.0 else None,
        smoothness=max(one.head_smoothness for one in gradients.values()),
    )


def _seen(run: RunSheaf) -> float | None:
    """Share of the clients' vectors that lies where maps can tell it from 0; None without edges, or of vectors of 0."""
    clients = sorted({end for edge in run.sheaf.edges for end in edge})
    norm_sq = _square(run.vectors[i] for i in clients)
    if norm_sq == 0.0:
        return None
    return sum(float(run.vectors[i] @ run.sheaf.seen(i, run.vectors[i])) for i in clients) / norm_sq


def _square(vectors: Iterable[Tensor]) -> float:
    return sum(float(vector.double().square().sum()) for vector in vectors)


def _spread(vectors: Sequence[Tensor]) -> float | None:
    """Root mean square distance of vectors from their mean; None where sizes differ."""
    if len({len(vector) for vector in vectors}) > 1:
        return None
    stacked = torch.stack(list(vectors)).double()
    return math.sqrt(float((stacked - stacked.mean(dim=0)).square().sum()) / len(stacked))


def _encoder_spread(clients: Sequence[Client]) -> float:
    """Root mean square over clients and modalities of the distance of an encoder from the mean of its modality."""
    total, n_encoders = 0.0, 0
    for modality in {m for client in clients for m in client.modalities}:
        encoders = [c.models["fused"].encoders[modality] for c in clients if modality in c.modalities]
        flat = [torch.cat([torch.zeros(0), *(p.detach().cpu().reshape(-1) for p in e.parameters())]) for e in encoders]
        distance = _spread(flat)
        if distance is not None:
            total, n_encoders = total + len(flat) * distance**2, n_encoders + len(flat)
    return math.sqrt(total / n_encoders) if n_encoders else 0.0


def _encoder_gradient(gradients: Iterable[ClientGradient]) -> float:
    sums: dict[tuple[str, int], Tensor] = {}
    for one in gradients:
        for modality, gradient in one.encoders.items():
            place = (str(modality), len(gradient))
            sums[place] = sums[place] + gradient if place in sums else gradient.clone()
    return math.sqrt(_square(sums.values()))
