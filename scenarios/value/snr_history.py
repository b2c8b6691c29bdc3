"""Warnings without any sensor: a small network that knows the last readings of the user's own signal alone.

It is the control of every claim about sensors: what it foresees, a base station knows without a camera or a LiDAR.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from ...emulator.contracts import NodeId
from ...emulator.decisions.measurement import MeasurementChain
from ...emulator.edge.label_probabilities import logistic
from ...emulator.radio.waves import Array
from ...emulator.random_streams import named_stream
from ..wiring.torch_setup import one_torch_thread
from .served_stations import ServedStation

#: What the network sees, and how it is trained; a wider or longer trained one foresees no more.
HISTORY_S = 1.2
_WIDTHS = (64, 32)
_EPOCHS, _BATCH, _STEP_SIZE, _DECAY = 30, 256, 2e-3, 1e-4
#: Readings in dB are divided by this, so that inputs are of the order of 1.
_SCALE_DB = 10.0


def snr_history_logits(
    chain: MeasurementChain, stations: Sequence[ServedStation], soon: Sequence[NDArray[np.bool_]], seed: int
) -> list[Array]:
    """Logit of a blockage within the horizon, from the history of the signal of each base station's own user.

    One network for all base stations, trained on the training samples of all of them, whose labels count alike: its
    probabilities are not shifted to one class.

    Args:
        chain: period and noise of the readings; they are not filtered.
        stations: base stations, with the powers of their users.
        soon: [n] of every base station, the right answers of its training samples.
        seed: seed of noise, initial weights and order of the samples.

    Returns:
        Of every base station [n] at its held-out frames.
    """
    labels = [np.asarray(right, dtype=np.float32)[:, None] for right in soon]
    frames = [np.asarray(station.client.data.train.end) for station in stations]
    found = _learned(chain, stations, frames, labels, seed, "history")
    return [logits[:, 0] for logits in found]


def snr_history_forecasts(
    chain: MeasurementChain, stations: Sequence[ServedStation], fades_db: Sequence[float], n_ahead: int, seed: int
) -> list[Array]:
    """Probability that the gain lies below fades in each of the next frames, from the same history.

    Another network of the same kind, with an output per fade and frame, trained on training frames whose labels end
    before the last of them.

    Args:
        chain, stations, seed: as above.
        fades_db: dB below the usual power.
        n_ahead: number of frames.

    Returns:
        Of every base station [n, n_fades, n_ahead] at its held-out frames.
    """
    ends = [np.asarray(station.client.data.train.end) for station in stations]
    # a recording that is hardly longer than the forecast trains on all that it has
    frames = [kept if len(kept := end[end + n_ahead <= end[-1]]) else end for end in ends]
    labels = [
        fades_ahead(station.link.gain_db[:, 0], rows, fades_db, n_ahead).reshape(len(rows), -1).astype(np.float32)
        for station, rows in zip(stations, frames, strict=True)
    ]
    found = _learned(chain, stations, frames, labels, seed, "forecast")
    return [logistic(logits).reshape(len(logits), len(fades_db), n_ahead) for logits in found]


def fades_ahead(
    gain_db: Array, frames: NDArray[np.int64], fades_db: Sequence[float], n_ahead: int
) -> NDArray[np.bool_]:
    """[n, n_fades, n_ahead] whether the gain [n_frames] lies below fades in the frames after these; the last stands."""
    rows = np.minimum(frames[:, None] + np.arange(1, n_ahead + 1), len(gain_db) - 1)
    return np.asarray(gain_db[rows][:, None] < -np.asarray(fades_db)[:, None])


def readings_at_frames(chain: MeasurementChain, station: ServedStation, seed: int) -> Array:
    """[n_frames] dB, noisy reading of the user's own signal at every frame, not filtered; gain over the usual power."""
    noisy, _ = _readings(chain, station, seed)
    return noisy[:: station.link.n_steps]


def _learned(
    chain: MeasurementChain,
    stations: Sequence[ServedStation],
    frames: Sequence[NDArray[np.int64]],
    labels: Sequence[NDArray[np.float32]],
    seed: int,
    stream: str,
) -> list[Array]:
    """Logits [n, n_outputs] at the held-out frames of every base station, learned from labels of some frames."""
    readings = [_readings(chain, station, seed) for station in stations]
    inputs = [_histories(*known) for known in zip(stations, readings, frames, strict=True)]
    with one_torch_thread():
        network = _trained(np.concatenate(inputs), np.concatenate(labels), named_stream(seed, "decision", stream))
        return [
            _answers(network, _histories(station, noisy, station.link.samples.end))
            for station, noisy in zip(stations, readings, strict=True)
        ]


def _readings(chain: MeasurementChain, station: ServedStation, seed: int) -> tuple[Array, int]:
    """[n_frames * k] noisy gains of all frames, and how many of them lie between two readings."""
    gain_db, me = station.link.gain_db, station.client.client_id
    draws = _noise(seed, me)
    step_s = station.link.frame_s / station.link.n_steps
    noisy = gain_db.ravel() + chain.noise_db * draws.standard_normal(gain_db.size)
    return noisy, max(1, round(chain.period_s / step_s))


def _noise(seed: int, client: NodeId) -> np.random.Generator:
    return named_stream(seed, "decision", client, "history")


def _histories(station: ServedStation, readings: tuple[Array, int], frames: NDArray[np.int64]) -> NDArray[np.float32]:
    """[n, n_readings] the last readings up to the instant of each frame, newest first."""
    noisy, apart = readings
    step_s = station.link.frame_s / station.link.n_steps
    n_readings = max(2, round(HISTORY_S / (apart * step_s)))
    # before the recording its first reading stands
    rows = frames[:, None] * station.link.n_steps - apart * np.arange(n_readings)
    return np.asarray(noisy[np.maximum(rows, 0)] / _SCALE_DB, dtype=np.float32)


def _trained(inputs: NDArray[np.float32], labels: NDArray[np.float32], draws: np.random.Generator) -> torch.nn.Module:
    widths = (inputs.shape[1], *_WIDTHS, labels.shape[1])
    layers: list[torch.nn.Module] = []
    for n_in, n_out in pairwise(widths):
        # on no device and from a stream of its own: torch's global generator stays as it is
        layer = torch.nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(draws.normal(0.0, (2.0 / n_in) ** 0.5, (n_out, n_in))))
            layer.bias.zero_()
        layers += [layer, torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.AdamW(network.parameters(), lr=_STEP_SIZE, weight_decay=_DECAY)
    x, y = torch.from_numpy(inputs), torch.from_numpy(labels)
    for _ in range(_EPOCHS):
        order = torch.from_numpy(draws.permutation(len(x)))
        for first in range(0, len(x), _BATCH):
            rows = order[first : first + _BATCH]
            optimizer.zero_grad()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(network(x[rows]), y[rows])
            loss.backward()  # type: ignore[no-untyped-call]  # torch has no annotation
            optimizer.step()
    return network


def _answers(network: torch.nn.Module, inputs: NDArray[np.float32]) -> Array:
    with torch.no_grad():
        return np.asarray(network(torch.from_numpy(inputs)).numpy(), dtype=np.float64)
