"""Compute-time model of edge devices: three rough classes, and boards that can be bought.

The three classes are orders of magnitude. A board is modelled by two calibration factors: what the reference machine
was measured to need for products and for all else, times how much faster that machine's core multiplies matrices and
copies memory than the board's in published benchmarks. `docs/devices.md` shows how well that fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """Cost model of one inference of a trained model, on one core of a device and in one precision.

    Its time is a sum: a fixed overhead, multiplications, work in proportion to the size of the inputs (scaling,
    intermediate values that leave the nearest cache), and weights that are read once.

    Attributes:
        precision: name of a row of `PRECISIONS`.
        flops_per_s: floating-point operations of matrix work per second.
        input_bytes_per_s: bytes of float32 inputs, in physical units, per second.
        weight_bytes_per_s: bytes of weights, as they are stored, per second.
        overhead_s: fixed time of an inference, however small.
    """

    precision: str
    flops_per_s: float
    input_bytes_per_s: float
    weight_bytes_per_s: float
    overhead_s: float

    def seconds(self, flops: float, input_bytes: float = 0.0, weight_bytes: float = 0.0) -> float:
        """Modelled time of one inference in seconds.

        Args:
            flops: floating-point operations of its matrix work.
            input_bytes: bytes of the inputs of one sample, as float32.
            weight_bytes: bytes of the model as it is stored.
        """
        moved_s = input_bytes / self.input_bytes_per_s + weight_bytes / self.weight_bytes_per_s
        return self.overhead_s + flops / self.flops_per_s + moved_s


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """Speed and power draw of an edge device in simulated time.

    Attributes:
        name: name of the device in scenarios.
        flops_per_s: sustained rate on small training steps, not the data sheet's peak.
        overhead_s: fixed time of starting any piece of work.
        power_w: power drawn while computing.
        source: source of the figures.
        kind: "measured" on such a device, or "modelled" from figures of others.
        answers: cost of inference, one entry per precision; empty: that of training work of as many operations.
    """

    name: str
    flops_per_s: float
    overhead_s: float
    power_w: float
    source: str = field(default="modelled", compare=False)
    kind: Literal["measured", "modelled"] = field(default="modelled", compare=False)
    answers: tuple[AnswerCost, ...] = ()

    def seconds(self, flops: float) -> float:
        """Simulated duration of a piece of training work, in seconds.

        >>> DeviceProfile("board", flops_per_s=1e9, overhead_s=0.5, power_w=5.0).seconds(2e9)
        2.5
        """
        return self.overhead_s + flops / self.flops_per_s

    def answer_seconds(
        self, flops: float, precision: str = "float32", *, input_bytes: float = 0.0, weight_bytes: float = 0.0
    ) -> float:
        """Simulated duration of one inference of a trained model, in seconds.

        Args:
            flops: floating-point operations of its matrix work.
            precision: precision of the model's numbers; without figures of this device it counts as float32.
            input_bytes: bytes of the inputs of one sample, as float32.
            weight_bytes: bytes of the model as it is stored.
        """
        costs = {cost.precision: cost for cost in self.answers}
        if cost := costs.get(precision) or costs.get("float32"):
            return cost.seconds(flops, input_bytes, weight_bytes)
        return self.seconds(flops)

    def slowed(self, factor: float) -> DeviceProfile:
        """The same device when everything takes so many times as long."""
        return replace(
            self,
            flops_per_s=self.flops_per_s / factor,
            overhead_s=self.overhead_s * factor,
            answers=tuple(_slowed(cost, factor) for cost in self.answers),
        )


def _slowed(cost: AnswerCost, factor: float) -> AnswerCost:
    return AnswerCost(
        cost.precision,
        cost.flops_per_s / factor,
        cost.input_bytes_per_s / factor,
        cost.weight_bytes_per_s / factor,
        cost.overhead_s * factor,
    )


_MODELLED = "modelled: an order of magnitude for small training steps, not a measurement of a product"

_CLASSES = (
    DeviceProfile("edge_cpu", flops_per_s=5e9, overhead_s=0.002, power_w=6.0, source=_MODELLED),
    DeviceProfile("edge_gpu", flops_per_s=2e11, overhead_s=0.005, power_w=15.0, source=_MODELLED),
    DeviceProfile("server_cpu", flops_per_s=5e10, overhead_s=0.001, power_w=65.0, source=_MODELLED),
)

#: One core of the machine that everything was measured on, in CPU time; `benchmarks/devices.py` measures it again.
REFERENCE = DeviceProfile(
    "reference_core",
    flops_per_s=6.6e10,
    overhead_s=3e-4,
    power_w=10.0,
    source="measured: one core of an AMD EPYC of the Zen 5 family (AVX-512, VNNI), onnxruntime 1.31",
    kind="measured",
    answers=(
        AnswerCost("float32", 2.76e11, 2.52e9, 2.7e10, 6.2e-5),
        AnswerCost("float16", 2.11e11, 2.41e9, 2.7e10, 7.2e-5),
        AnswerCost("int8", 5.49e11, 3.81e9, 2.7e10, 1.87e-4),
    ),
)
#: Its float32 matrix product of 1024 x 1024 in onnxruntime, and its copying of memory at the best of times.
REFERENCE_GFLOPS = 200.0
REFERENCE_COPY_BYTES_PER_S = 2.7e10


@dataclass(frozen=True, slots=True)
class _Board:
    """Published measurements of a board.

    Attributes:
        linpack_gflops: rate of one core in double precision; float32 has twice as many.
        copy_bytes_per_s: memcpy of one thread.
        gains: precision -> how much faster than in float32 its cores multiply, where the reference has no figure.
        power_w: power at the plug, all cores busy: more than one core draws.
        source: source of the four.
    """

    name: str
    linpack_gflops: float
    copy_bytes_per_s: float
    gains: Mapping[str, float]
    power_w: float
    source: str


_HPL = "HPL and watts: github.com/geerlingguy/top500-benchmark, README"
_A76_INT8 = "int8 gain of cores with a dot-product instruction: assumed"

_BOARDS = (
    _Board(
        "raspberry_pi_4",
        linpack_gflops=11.889 / 4,
        copy_bytes_per_s=2.24e9,
        gains={"int8": 1.8},
        power_w=7.2,
        source=f"Cortex-A72 1.8 GHz; {_HPL} (11.889 Gflops on 4 cores, 7.2 W); memcpy:"
        " github.com/ThomasKaiser/sbc-bench, Results.md (arm64, 1800 MHz); int8: ResNet-18 in 176 ms to 98 ms,"
        " github.com/Tencent/ncnn/issues/3485",
    ),
    _Board(
        "raspberry_pi_5",
        linpack_gflops=30.249 / 4,
        copy_bytes_per_s=4.64e9,
        gains={"int8": 2.0},
        power_w=11.0,
        source=f"Cortex-A76 2.4 GHz; {_HPL} (30.249 Gflops on 4 cores, 11 W); memcpy:"
        f" github.com/ggml-org/whisper.cpp/issues/89; {_A76_INT8}",
    ),
    _Board(
        "orange_pi_5",
        # A76 and A55 share the result in proportion to their peaks: 2 and 1 pipes of 128 bits, 2.4 and 1.8 GHz
        linpack_gflops=53.333 / 4 * (2 * 2.4) / (2 * 2.4 + 1.8),
        copy_bytes_per_s=1.014e10,
        gains={"int8": 2.0},
        power_w=11.5,
        source=f"RK3588S, one Cortex-A76 2.4 GHz; {_HPL} (53.333 Gflops on 4 A76 and 4 A55, 11.5 W); memcpy:"
        f" github.com/ggml-org/whisper.cpp/issues/89; {_A76_INT8}",
    ),
    _Board(
        "jetson_orin_nano",
        # no HPL is published: a Cortex-A78AE core against the A76 above in one float32 product, 28.8 to 38.4 Gflops
        linpack_gflops=30.249 / 4 * 28.8 / 38.4,
        copy_bytes_per_s=6.73e9,
        gains={"int8": 2.0},
        power_w=15.0,
        source="its CPU, one Cortex-A78AE 1.5 GHz, not its GPU; float32 product beside an Orange Pi 5:"
        " github.com/ggml-org/whisper.cpp/issues/89; memcpy: github.com/ThomasKaiser/sbc-bench/issues/65; power: the"
        f" module's 15 W mode; {_A76_INT8}",
    ),
    _Board(
        "intel_n100",
        linpack_gflops=62.851 / 4,
        copy_bytes_per_s=9.9e9,
        gains={"int8": 2.0},
        power_w=25.0,
        source=f"3.4 GHz, AVX2 and AVX-VNNI; {_HPL} (LattePanda Mu, 62.851 Gflops on 4 cores, 25 W); memcpy:"
        " github.com/ThomasKaiser/sbc-bench/issues/65; int8 gain: assumed",
    ),
)


def _modelled(board: _Board) -> DeviceProfile:
    # float32 has twice the rate of the double precision that LINPACK measures
    slower = REFERENCE_GFLOPS / (2.0 * board.linpack_gflops)
    # All that is no product, overheads included, is scaled by the speed of memory.
    farther = REFERENCE_COPY_BYTES_PER_S / board.copy_bytes_per_s
    whole = next(cost.flops_per_s for cost in REFERENCE.answers if cost.precision == "float32") / slower
    answers = tuple(
        AnswerCost(
            cost.precision,
            flops_per_s=whole * board.gains[cost.precision]
            if cost.precision in board.gains
            else cost.flops_per_s / slower,
            input_bytes_per_s=cost.input_bytes_per_s / farther,
            weight_bytes_per_s=cost.weight_bytes_per_s / farther,
            overhead_s=cost.overhead_s * farther,
        )
        for cost in REFERENCE.answers
    )
    return DeviceProfile(
        board.name,
        flops_per_s=REFERENCE.flops_per_s / slower,
        overhead_s=REFERENCE.overhead_s * farther,
        power_w=board.power_w,
        source=f"modelled: products take {slower:.1f} times and all else {farther:.1f} times as long as on"
        f" {REFERENCE.name}; {board.source}",
        answers=answers,
    )


#: Boards, modelled; one core each.
BOARDS: dict[str, DeviceProfile] = {board.name: _modelled(board) for board in _BOARDS}

#: Named devices of scenarios.
DEVICE_PROFILES: dict[str, DeviceProfile] = {profile.name: profile for profile in (*_CLASSES, *BOARDS.values())}
