"""Faults between a sensor and a served model: sensors that break, and frames that are lost on the way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...emulator.contracts import MODALITY_SPECS, SENSED_MODALITIES, ConfigError, Modality
from ...emulator.random_streams import named_stream

#: Sensors whose losses come from one stream, an instant after the other. Those that worlds record on request have one
#: each, so that a new modality leaves the losses of the others as they were.
_DRAWN_TOGETHER = tuple(modality for modality in SENSED_MODALITIES if not MODALITY_SPECS[modality].on_request)
_NUMBER = r"\d+(?:\.\d*)?"
_BROKEN = re.compile(rf"([a-z]+)(?:@({_NUMBER})(?:-({_NUMBER}))?)?")


@dataclass(frozen=True, slots=True)
class BrokenSensor:
    """Failure of a sensor from `from_s` to `until_s`, in seconds of the recording after the first streamed frame."""

    modality: Modality
    from_s: float = 0.0
    until_s: float = inf


def parsed_break(text: str) -> BrokenSensor:
    """Sensor failure that an argument of `--drop` describes.

    >>> parsed_break("lidar@30-60")
    BrokenSensor(modality='lidar', from_s=30.0, until_s=60.0)

    Raises:
        ConfigError: it says something else.
    """
    found = _BROKEN.fullmatch(text)
    if found is None or found[1] not in SENSED_MODALITIES:
        raise ConfigError(
            f"--drop {text!r} is no sensor and time; give one of {', '.join(SENSED_MODALITIES)}, such as lidar,"
            " lidar@30 or lidar@30-60 (seconds of the recording after the replay begins)"
        )
    from_s, until_s = float(found[2] or 0.0), float(found[3] or inf)
    if until_s <= from_s:
        raise ConfigError(f"--drop {text!r} ends before it begins; give the earlier time first")
    return BrokenSensor(cast("Modality", found[1]), from_s, until_s)


class SensorFaults:
    """Sensor failures and random frame losses of a replay; every base station has a random stream of its own.

    Args:
        broken: sensors that break.
        loss_probability: probability that a frame is lost, independently of the others.
        seed: seed of the losses.

    Attributes:
        n_lost: frames so far that were lost at random.
        n_broken: frames so far that a broken sensor did not give.

    Raises:
        ConfigError: a probability outside of [0, 1), or a negative seed.
    """

    def __init__(self, broken: Sequence[BrokenSensor] = (), loss_probability: float = 0.0, seed: int = 0) -> None:
        if not 0.0 <= loss_probability < 1.0:
            raise ConfigError(
                f"--loss must lie in [0, 1), got {loss_probability:g}; 0.1 loses every tenth frame of each sensor"
            )
        if seed < 0:
            raise ConfigError(f"--seed must be at least 0, got {seed}; the default is 0")
        self._broken, self._loss, self._seed = tuple(broken), loss_probability, seed
        self._draws: dict[tuple[str, ...], np.random.Generator] = {}
        self.n_lost = self.n_broken = 0

    def arriving(
        self, stream: str, since_s: float, readings: Mapping[Modality, NDArray[Any]]
    ) -> dict[Modality, NDArray[Any]]:
        """Frames of an instant that arrive.

        Args:
            stream: name of the base station; its instants must be given in order.
            since_s: seconds of the recording after the first streamed frame.
            readings: modality -> frame that its sensor gave.
        """
        # before the losses: a frame that was never sent is not counted as lost
        working = {modality: frame for modality, frame in readings.items() if not self._is_broken(modality, since_s)}
        self.n_broken += len(readings) - len(working)
        if not self._loss:
            return working
        # drawn for all of them at every instant: a broken sensor leaves the losses of the others as they were
        lost = dict(zip(_DRAWN_TOGETHER, self._drawn(stream, len(_DRAWN_TOGETHER)), strict=True))
        lost |= {one: self._drawn(stream, 1, one)[0] for one in working if one not in lost}
        arriving = {modality: frame for modality, frame in working.items() if not lost[modality]}
        self.n_lost += len(working) - len(arriving)
        return arriving

    def _drawn(self, stream: str, n: int, *sensor: Modality) -> list[bool]:
        """Whether each of n frames is lost: those of the sensors drawn together, or of one with a stream of its own."""
        key = (stream, *sensor)
        if key not in self._draws:
            self._draws[key] = named_stream(self._seed, "replay", "loss", *key)
        lost: list[bool] = (self._draws[key].random(n) < self._loss).tolist()
        return lost

    def _is_broken(self, modality: Modality, since_s: float) -> bool:
        return any(one.modality == modality and one.from_s <= since_s < one.until_s for one in self._broken)
