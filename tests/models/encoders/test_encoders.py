"""Encoders of the paper's scenarios: physical units in, one embedding out, on any thread, and through ONNX."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sheafedge.emulator.contracts import ConfigError, Message, MessageKind, Modality
from sheafedge.emulator.edge.onnx_session import OnnxSession
from sheafedge.models.client_model import ClientModel, forward_flops
from sheafedge.models.encoders.dropout import SeededDropout
from sheafedge.models.encoders.map_encoder import (
    beam_map_encoder,
    camera_encoder,
    drone_camera_encoder,
    lidar_encoder,
    radar_encoder,
)
from sheafedge.models.encoders.mlp import position_mlp
from sheafedge.models.encoders.normalize import CameraScale, LidarScale, StandardizeColumns, StandardizePower
from sheafedge.models.encoders.resnet import FEATURE_DIM, resnet50_encoder
from sheafedge.models.export.onnx_export import OnnxExporter
from sheafedge.models.flat import FlatModule
from sheafedge.models.objectives import cross_entropy
from sheafedge.models.settings import TrainingSettings
from sheafedge.models.sharing.gossip import mix
from sheafedge.models.sharing.vector_gossip import VectorGossip, shared_encoders
from sheafedge.models.training.local_training import LocalTraining
from sheafedge.models.training.training_rows import RowsInMemory
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

RUNTIMES = 1e-4  # the project's promise for float32; one summation order against another
KERNELS = 1e-4  # float32 gradients of about 1; the two memory orders use different convolution kernels
FLOAT32 = 1e-5  # means and spreads of values about 1, rounded to float32
STANDARD_ERRORS = 5.0  # one false alarm in 3 million
EMBEDDING_DIM = 8
TINY = 0.13  # share of the paper's channels


class MakeEncoder(Protocol):
    def __call__(
        self,
        shape: Any,
        embedding_dim: int,
        generator: torch.Generator,
        *,
        dropout: float = ...,
        width: float = ...,
        channels_last: bool = ...,
    ) -> nn.Module: ...


@dataclass(frozen=True)
class Kind:
    """A convolutional encoder, the shape of one sample, and its parameters at paper size."""

    make: MakeEncoder
    shape: tuple[int, ...]
    n_parameters: int


def conv_parameters(*channels: int) -> int:
    """3 x 3 kernels and biases, and the scale and shift of batch normalisation, counted by hand."""
    return sum(9 * n_in * n_out + 3 * n_out for n_in, n_out in pairwise(channels))


KINDS = {
    "lidar": Kind(lidar_encoder, lidar_encoder.shape, conv_parameters(2, 16, 32, 64) + 512 * 64 + 64),
    "camera": Kind(
        camera_encoder,
        camera_encoder.shape,
        conv_parameters(16, 32, 64, 128) + 8192 * 256 + 256 + 256 * 64 + 64,
    ),
    "rf": Kind(beam_map_encoder, beam_map_encoder.shape, conv_parameters(1, 16, 32, 64, 128) + 2048 * 64 + 64),
    "drone": Kind(
        drone_camera_encoder, drone_camera_encoder.shape, conv_parameters(3, 16, 32, 64, 128) + 2048 * 64 + 64
    ),
    "radar": Kind(radar_encoder, radar_encoder.shape, conv_parameters(16, 16, 32, 64) + 64 * 8 * 8 * 64 + 64),
}
every_kind = pytest.mark.parametrize("name", KINDS)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def encoder(name: str, seed: int = 0, **options: Any) -> nn.Module:
    """An encoder with few channels and reproducible values."""
    kind = KINDS[name]
    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(seed)
        return kind.make(kind.shape, EMBEDDING_DIM, generator(seed), **{"width": TINY, **options})


def samples(name: str, batch: int, seed: int = 0) -> Tensor:
    """Inputs as a normalizer hands them over."""
    return torch.randn(batch, *KINDS[name].shape, generator=generator(100 + seed))


# --- shapes -----------------------------------------------------------------------------------------------------------


@every_kind
def test_an_encoder_of_paper_size_has_the_parameters_that_the_table_implies(name: str) -> None:
    made = KINDS[name].make(KINDS[name].shape, 64, generator())
    assert sum(parameter.numel() for parameter in made.parameters()) == KINDS[name].n_parameters


def test_a_position_report_passes_a_two_layer_perceptron() -> None:
    made = position_mlp(64)
    assert made(torch.zeros(3, 4)).shape == (3, 64)
    assert sum(parameter.numel() for parameter in made.parameters()) == 4 * 128 + 128 + 128 * 64 + 64


@every_kind
def test_operations_are_those_that_torch_counts(name: str) -> None:
    made, inputs, counter = encoder(name), samples(name, 1), FlopCounterMode(display=False)
    counted = forward_flops(made, inputs)
    made.eval()
    with counter, torch.no_grad():
        made(inputs)
    assert counted == counter.get_total_flops() > 0


@every_kind
@pytest.mark.parametrize("batch", [1, 5])
def test_a_batch_becomes_embeddings_and_trains_even_if_it_is_one_row(name: str, batch: int) -> None:
    made = encoder(name)
    embedding = made(samples(name, batch))
    assert embedding.shape == (batch, EMBEDDING_DIM)
    embedding.square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in made.parameters())
    assert all(torch.isfinite(value).all() for value in made.state_dict().values())


def test_the_beam_map_keeps_its_sweeps_apart_in_the_first_two_blocks() -> None:
    made = encoder("rf")
    maps = made[0](samples("rf", 2))
    sizes = []
    for block in made[1]:
        maps = block(maps)
        sizes.append(tuple(maps.shape[2:]))
    assert sizes == [(16, 32), (16, 16), (8, 8), (4, 4)]


def test_the_drone_encoder_tells_where_in_the_image_the_drone_is() -> None:
    """An average over the map could not: here the same patch stands left and right, far from the borders."""
    made = encoder("drone").eval()
    images = torch.zeros(2, 3, 64, 64)
    images[0, :, 24:32, 16:24], images[1, :, 24:32, 32:40] = 1.0, 1.0
    left, right = made(images)
    assert (left - right).abs().max() > 100 * FLOAT32


@pytest.mark.parametrize(
    ("name", "shape"),
    [("lidar", (2, 8, 8)), ("camera", (16, 8, 8)), ("rf", (4, 16)), ("drone", (3, 16, 16)), ("radar", (4, 16, 8))],
)
def test_samples_too_small_to_pool_are_refused_by_name(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"samples of shape .* are too small .* longer window"):
        KINDS[name].make(shape, EMBEDDING_DIM, generator(), width=TINY)
    twice = (*shape[:-1], 2 * shape[-1])
    KINDS[name].make(twice, EMBEDDING_DIM, generator(), width=TINY)(torch.zeros(1, *twice))


# --- order in memory --------------------------------------------------------------------------------------------------


@every_kind
def test_the_order_in_memory_changes_no_value(name: str) -> None:
    slow, fast = (encoder(name, channels_last=flag) for flag in (False, True))
    outputs = [made(samples(name, 4)) for made in (slow, fast)]
    for output in outputs:
        output.square().mean().backward()
    assert_allclose(outputs[0].detach(), outputs[1].detach(), atol=KERNELS)
    for a, b in zip(slow.parameters(), fast.parameters(), strict=True):
        assert_allclose(a.grad, b.grad, atol=KERNELS)


@every_kind
@pytest.mark.parametrize("channels_last", [False, True])
def test_maps_lie_in_the_order_that_was_asked_for(name: str, channels_last: bool) -> None:
    """On a flat vector too, where weights have lost the order that the encoder was made with."""
    made = encoder(name, channels_last=channels_last)
    FlatModule(made)
    maps = made[1](made[0](samples(name, 4)))
    assert maps.is_contiguous(memory_format=torch.channels_last) == channels_last


# --- dropout ----------------------------------------------------------------------------------------------------------


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    p, n = 0.3, 200_000
    output = SeededDropout(p, generator())(torch.ones(n))
    assert set(output.unique().tolist()) == {0.0, np.float32(1.0 / (1.0 - p))}
    error = np.sqrt(p * (1.0 - p) / n)
    assert abs(float((output == 0.0).float().mean()) - p) < STANDARD_ERRORS * error
    assert abs(float(output.mean()) - 1.0) < STANDARD_ERRORS * error / (1.0 - p)


def test_gradients_pass_where_values_pass() -> None:
    values = torch.ones(100, requires_grad=True)
    output = SeededDropout(0.4, generator())(values)
    output.sum().backward()
    assert torch.equal(values.grad, output.detach())


def test_dropout_is_the_identity_in_evaluation_and_draws_nothing() -> None:
    draws = generator()
    before = draws.get_state()
    values = torch.randn(20, generator=generator(1))
    assert SeededDropout(0.5, draws).eval()(values) is values
    assert SeededDropout(0.0, draws)(values) is values
    assert torch.equal(draws.get_state(), before)


def test_dropout_leaves_the_global_generator_alone_and_draws_anew_each_time() -> None:
    before = torch.random.get_rng_state()
    dropout = SeededDropout(0.5, generator())
    assert not torch.equal(dropout(torch.ones(50)), dropout(torch.ones(50)))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not torch.equal(*(SeededDropout(0.5, generator(seed))(torch.ones(50)) for seed in (1, 2)))


def test_draws_do_not_depend_on_how_the_input_lies_in_memory() -> None:
    ones = torch.ones(2, 3, 4, 5)
    other = ones.contiguous(memory_format=torch.channels_last)
    assert torch.equal(SeededDropout(0.5, generator())(ones), SeededDropout(0.5, generator())(other))


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5])
def test_an_impossible_share_is_refused(p: float) -> None:
    with pytest.raises(ConfigError, match=r"dropout must lie in \[0, 1\)"):
        SeededDropout(p, generator())


def trained(dropout: nn.Module, turn: Callable[[], object] = lambda: None) -> list[Tensor]:
    """What a small net with this dropout gives in some steps; `turn` waits for the others before each."""
    outputs = []
    for _ in range(30):
        turn()
        outputs.append(dropout(torch.ones(64)))
    return outputs


def side_by_side(modules: list[nn.Module]) -> list[list[Tensor]]:
    """Every module in its own thread, in lockstep, so that draws really interleave."""
    meet = Barrier(len(modules))
    with ThreadPoolExecutor(len(modules)) as threads:
        return list(threads.map(lambda module: trained(module, meet.wait), modules))


def test_two_clients_on_two_threads_draw_what_they_draw_one_after_the_other() -> None:
    alone = [trained(SeededDropout(0.5, generator(seed))) for seed in (1, 2)]
    together = side_by_side([SeededDropout(0.5, generator(seed)) for seed in (1, 2)])
    for expected, found in zip(alone, together, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_with_the_dropout_of_torch_they_would_not() -> None:
    """Negative control: the global generator hands its numbers to whoever comes first."""
    with torch.random.fork_rng(devices=[]):
        torch.random.manual_seed(0)
        alone = [trained(nn.Dropout(0.5)) for _ in range(2)]
        torch.random.manual_seed(0)
        together = side_by_side([nn.Dropout(0.5) for _ in range(2)])
    assert not all(torch.equal(a, b) for x, y in zip(alone, together, strict=True) for a, b in zip(x, y, strict=True))


@every_kind
def test_a_client_trains_alike_whoever_trains_beside_it(name: str) -> None:
    def steps(made: nn.Module) -> Tensor:
        flat = FlatModule(made)
        optimizer = torch.optim.SGD([flat.trainable], lr=0.05)
        for step in range(3):
            made(samples(name, 4, step)).square().mean().backward()
            optimizer.step()
            flat.gradient.zero_()
        return flat.vector

    alone = [steps(encoder(name, seed)) for seed in (1, 2)]
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(steps, [encoder(name, seed) for seed in (1, 2)]))
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
    assert not torch.equal(alone[0], steps(encoder(name, 1, dropout=0.0)))  # dropout took part


@pytest.mark.gpu
def test_dropout_follows_its_input_to_the_gpu() -> None:
    ones = torch.ones(1000, device="cuda")
    first, second = (SeededDropout(0.5, generator(3)) for _ in range(2))
    assert torch.equal(first(ones), second(ones))
    assert not torch.equal(first(ones), first(ones))


# --- running statistics in gossip -------------------------------------------------------------------------------------


def variances(module: nn.Module) -> Tensor:
    return torch.cat([m.running_var for m in module.modules() if isinstance(m, nn.BatchNorm2d)])


@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(1e-30, 1e6), lost=st.booleans())
def test_averaging_keeps_variances_from_getting_negative(seed: int, scale: float, lost: bool) -> None:
    rng = np.random.default_rng(seed)
    n_peers = int(rng.integers(1, 6))
    own, *peers = torch.from_numpy((scale * rng.exponential(size=(n_peers + 1, 50))).astype(np.float32))
    own[:10], peers[0][5:15] = 0.0, 0.0
    masks = [torch.from_numpy(rng.random(50) < 0.5) if lost else None for _ in peers]
    weights = [1.0 / (1.0 + n_peers)] * n_peers  # the own share is never smaller with these weights
    mixed = mix(own, list(zip(peers, masks, strict=True)), weights)
    assert (mixed >= 0.0).all()
    assert torch.isfinite(mixed).all()


def exchange(first: FlatModule, second: FlatModule) -> None:
    """Both clients average their camera encoders, as in a round."""
    gossips = [
        VectorGossip(i, shared_encoders({"camera": flat}, {"camera": {1 - i: 0.5}}))
        for i, flat in enumerate((first, second))
    ]
    sent: list[list[Message]] = [gossip.messages("mix", 0) for gossip in gossips]
    for gossip, arrived in zip(gossips, reversed(sent), strict=True):
        assert all(message.kind == MessageKind.ENCODER for message in arrived)
        gossip.absorb(arrived)


def moved_encoders(**flags: bool) -> list[tuple[nn.Module, FlatModule]]:
    """Two camera encoders that have seen different data, a different number of times."""
    clients = []
    for seed, n_batches in ((1, 1), (2, 3)):
        made = encoder("camera", seed)
        for step in range(n_batches):
            made((1.0 + seed) * samples("camera", 4, step))
        clients.append((made, FlatModule(made, **flags)))
    return clients


def test_neighbors_share_running_statistics_and_can_go_on_training() -> None:
    (one, flat), (other, peer) = moved_encoders()
    expected = (variances(one) + variances(other)) / 2.0
    exchange(flat, peer)
    assert_allclose(variances(one), expected, rtol=FLOAT32)
    assert torch.equal(variances(one), variances(other))
    counts = [m.num_batches_tracked for m in one.modules() if isinstance(m, nn.BatchNorm2d)]
    assert all(int(count) == 1 and count.dtype == torch.int64 for count in counts)  # local, and read by nobody
    assert torch.equal(one.eval()(samples("camera", 3)), other.eval()(samples("camera", 3)))
    before = variances(one).clone()
    one.train()(samples("camera", 4))
    assert (variances(one) >= 0.0).all()
    assert not torch.equal(variances(one), before)


def test_local_statistics_stay_where_they_are_while_weights_are_averaged() -> None:
    (one, flat), (other, peer) = moved_encoders(share_buffers=False)
    n_parameters = sum(parameter.numel() for parameter in one.parameters())
    assert flat.vector.shape == flat.trainable.shape == (n_parameters,)
    before = [variances(module).clone() for module in (one, other)]
    exchange(flat, peer)
    assert torch.equal(flat.vector, peer.vector)
    assert torch.equal(variances(one), before[0])
    assert torch.equal(variances(other), before[1])
    assert not torch.equal(before[0], before[1])


@pytest.mark.parametrize("local", [False, True])
def test_a_scenario_can_keep_statistics_local(local: bool) -> None:
    encoders: dict[Modality, nn.Module] = {"rf": encoder("rf")}
    model = ClientModel({"rf": nn.Identity()}, encoders, fusion="mean", embedding_dim=EMBEDDING_DIM, n_outputs=2)
    rows = RowsInMemory({"rf": samples("rf", 6).numpy()}, np.arange(6) % 2)
    settings = TrainingSettings(batch_size=4, local_statistics=local)
    training = LocalTraining(0, model, rows, cross_entropy, settings, np.random.default_rng(0))
    extra = len(training.encoders["rf"].vector) - len(training.encoders["rf"].trainable)
    assert extra == (0 if local else 2 * len(variances(model)))
    start, statistics = training.encoders["rf"].trainable.clone(), variances(model).clone()
    for _ in range(2):  # the head starts at zero, so the first step gives the encoder no gradient
        training.backward()
        training.set_head(training.head - training.head_gradient)
        training.step_encoders()
    assert not torch.equal(training.encoders["rf"].trainable, start)
    assert not torch.equal(variances(model), statistics)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_the_optimizer_never_touches_running_statistics(kind: type[torch.optim.Optimizer]) -> None:
    made = encoder("rf")
    flat = FlatModule(made)
    optimizer = kind([flat.trainable], lr=0.1, weight_decay=0.1)  # decay would shrink whatever it reaches
    made(samples("rf", 4)).square().mean().backward()
    start, statistics = flat.trainable.clone(), flat.vector[len(flat.trainable) :].clone()
    optimizer.step()
    assert torch.equal(flat.vector[len(flat.trainable) :], statistics)
    assert not torch.equal(flat.trainable, start)


# --- physical units ---------------------------------------------------------------------------------------------------


def test_lidar_range_and_angle_are_scaled_by_the_limits_of_the_sensor() -> None:
    sweeps = torch.zeros(1, 2, 4, 3)
    sweeps[0, 0, :, 0], sweeps[0, 1, :, 2] = 20.0, -torch.pi / 2
    scaled = LidarScale(max_range_m=20.0)(sweeps)
    assert_allclose(scaled[0, 0, 0], [1.0, 0.0, 0.0])
    assert_allclose(scaled[0, 1, 0], [0.0, 0.0, -0.5], rtol=FLOAT32)
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match=r"lidar\.max_range_m must be a positive"):
            LidarScale(max_range_m=wrong)


def test_images_are_scaled_to_one_from_bytes_as_from_floats() -> None:
    images = np.array([0, 51, 255], dtype=np.uint8).reshape(1, 1, 1, 3)
    scaled = CameraScale()(torch.from_numpy(images))
    assert scaled.dtype == torch.float32
    assert_allclose(scaled.ravel(), [0.0, 0.2, 1.0], atol=FLOAT32)
    assert torch.equal(scaled, CameraScale()(torch.from_numpy(images.astype(np.float32))))


def test_images_can_be_standardised_by_any_sample_of_training_rows() -> None:
    rows = np.random.default_rng(0).integers(40, 90, size=(20, 16, 8, 8), dtype=np.uint8)
    scaled = CameraScale(rows)(torch.from_numpy(rows))
    assert abs(float(scaled.mean())) < FLOAT32
    assert abs(float(scaled.std(correction=0)) - 1.0) < FLOAT32
    assert torch.isfinite(CameraScale(np.zeros_like(rows))(torch.from_numpy(rows))).all()  # a camera in the dark


def test_standardised_powers_keep_the_level_of_a_sweep() -> None:
    """A blockage takes 20 dB off all beams: it must still show."""
    rows = np.random.default_rng(0).normal(-60.0, 8.0, size=(200, 16, 64)).astype(np.float32)
    scale = StandardizePower(rows)
    scaled = scale(torch.from_numpy(rows))
    assert abs(float(scaled.mean())) < FLOAT32
    assert abs(float(scaled.std(correction=0)) - 1.0) < FLOAT32
    blocked = scale(torch.from_numpy(rows - 20.0))
    assert_allclose(scaled - blocked, 20.0 / rows.std(), rtol=1e-3)
    assert torch.isfinite(StandardizePower(np.zeros((2, 16, 64)))(scaled)).all()


def test_position_columns_are_standardised_each_in_its_own_unit() -> None:
    rng = np.random.default_rng(0)
    spreads = [2e-4, 3e-4, 20.0, 0.0]  # degrees, degrees, meters, and a drone that holds its height
    rows = (rng.normal(size=(500, 4)) * spreads + [1e-3, 0.0, 80.0, 35.0]).astype(np.float32)
    scaled = StandardizeColumns(rows)(torch.from_numpy(rows))
    assert_allclose(scaled.mean(dim=0), 0.0, atol=1e-4)  # float32 sums of 500 terms about 1
    assert_allclose(scaled.std(dim=0, correction=0), [1.0, 1.0, 1.0, 0.0], atol=1e-4)


# --- hand-out ---------------------------------------------------------------------------------------------------------


def deployable(name: str, modality: Modality) -> ClientModel:
    """A client whose statistics and head have moved, ready to be written."""
    rows = physical(name, 20)
    normalizers: Mapping[str, nn.Module] = {
        "lidar": LidarScale(),
        "camera": CameraScale(rows),
        "drone": CameraScale(),
        "rf": StandardizePower(rows),
        "radar": StandardizePower(rows),
    }
    encoders: dict[Modality, nn.Module] = {modality: encoder(name)}
    model = ClientModel(
        {modality: normalizers[name]}, encoders, fusion="attention", embedding_dim=EMBEDDING_DIM, n_outputs=2
    )
    FlatModule(model.encoders[modality])
    with torch.no_grad():
        model.head.copy_(torch.randn(model.head.shape, generator=generator()))
        model({modality: torch.from_numpy(rows)})
    return model


def physical(name: str, batch: int) -> np.ndarray:
    shape = (batch, *KINDS[name].shape)
    low, high = {"lidar": (0.0, 16.0), "rf": (-90.0, -50.0), "radar": (0.0, 60.0)}.get(name, (0.0, 255.0))
    return np.random.default_rng(9).uniform(low, high, size=shape).astype(np.float32)


@pytest.mark.parametrize(
    "name", [name if name in {"rf", "gps"} else pytest.param(name, marks=pytest.mark.slow) for name in KINDS]
)
def test_every_encoder_goes_through_onnx_for_any_batch(name: str, tmp_path: Path) -> None:
    modality: Modality = "camera" if name == "drone" else name
    model, path = deployable(name, modality), tmp_path / "client.onnx"
    OnnxExporter().export(model, {modality: KINDS[name].shape}, path, {})
    session, reference = OnnxSession(path), copy.deepcopy(model).eval()
    for batch in (1, 5):
        rows = physical(name, batch)
        with torch.no_grad():
            expected = reference({modality: torch.from_numpy(rows)}).numpy()
        assert_allclose(session.run({modality: rows}), expected, atol=RUNTIMES, rtol=0.0)
    with torch.no_grad():
        noisy = model({modality: torch.from_numpy(physical(name, 5))}).numpy()
    assert np.abs(noisy - expected).max() > 10 * RUNTIMES  # the file is the model in evaluation, not in training


# --- ResNet-50 --------------------------------------------------------------------------------------------------------


def test_resnet_without_torchvision_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(ConfigError, match=r"resnet50 encoder needs torchvision.*pip install torchvision"):
        resnet50_encoder(tmp_path / "weights.pth", EMBEDDING_DIM)


class StandIn(nn.Module):
    """Built like torchvision's network: convolution, normalisation, and a classifier called fc."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.grow = nn.Conv2d(4, FEATURE_DIM, 1)
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(FEATURE_DIM, 1000)

    def forward(self, images: Tensor) -> Tensor:
        return self.fc(torch.flatten(self.grow(self.pool(torch.relu(self.bn(self.conv(images))))), 1))


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torchvision whose resnet50 is the stand-in: it is not needed to test what we build on it."""
    package, models = ModuleType("torchvision"), ModuleType("torchvision.models")
    models.resnet50 = lambda weights: StandIn()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


@pytest.mark.usefixtures("torchvision")
def test_resnet_with_wrong_weights_says_which_file_and_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.pth .*cannot be read.*resnet50-11ad3fa6\.pth"):
        resnet50_encoder(tmp_path / "missing.pth", EMBEDDING_DIM)
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "other.pth")
    (tmp_path / "text.pth").write_text("no weights", encoding="utf-8")
    for name in ("other", "text"):
        with pytest.raises(ConfigError, match=rf"{name}\.pth does not hold a state dictionary"):
            resnet50_encoder(tmp_path / f"{name}.pth", EMBEDDING_DIM)


@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("tuned", [False, True])
def test_only_a_tuned_resnet_trains_and_travels(tmp_path: Path, tuned: bool) -> None:
    weights = StandIn()
    torch.save(weights.state_dict(), tmp_path / "weights.pth")
    normalizer, made = resnet50_encoder(tmp_path / "weights.pth", EMBEDDING_DIM, tuned=tuned)
    normalizer.train()
    images = torch.from_numpy(physical("drone", 3))
    assert made(normalizer(images)).shape == (3, EMBEDDING_DIM)
    n_projection = FEATURE_DIM * EMBEDDING_DIM + EMBEDDING_DIM
    n_backbone = sum(p.numel() for name, p in weights.named_parameters() if not name.startswith("fc"))
    assert len(FlatModule(made).trainable) == n_projection + (n_backbone if tuned else 0)
    assert not any(parameter.requires_grad for parameter in normalizer.parameters())
    assert not any(module.training for module in normalizer.modules()) or tuned


@pytest.mark.usefixtures("torchvision")
def test_a_frozen_resnet_goes_through_onnx(tmp_path: Path) -> None:
    torch.save(StandIn().state_dict(), tmp_path / "weights.pth")
    normalizer, made = resnet50_encoder(tmp_path / "weights.pth", EMBEDDING_DIM)
    model = ClientModel({"camera": normalizer}, {"camera": made}, fusion="mean", embedding_dim=8, n_outputs=2)
    with torch.no_grad():
        model.head.copy_(torch.randn(model.head.shape, generator=generator()))
    OnnxExporter().export(model, {"camera": (3, 64, 64)}, tmp_path / "client.onnx", {})
    rows = physical("drone", 3)
    with torch.no_grad():
        expected = model({"camera": torch.from_numpy(rows)}).numpy()
    assert_allclose(OnnxSession(tmp_path / "client.onnx").run({"camera": rows}), expected, atol=RUNTIMES, rtol=0.0)
    assert_array_equal(np.isfinite(expected), True)
