"""Options of the command line for runs in real time; imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...emulator.contracts import ConfigError, NodeId
from ...emulator.network.transport.curve_keys import CurveKeys, check_address, read_keys
from ...emulator.ranges import check_ranges


@dataclass(frozen=True, slots=True)
class RealTime:
    """Options of a run in real time.

    Attributes:
        speed: simulated seconds per real second: 1 is real time, 10 ten times faster than that.
        outside: clients that run in outside processes.
        hub: address at which they join.
        keys: folder of keys for the hub; needed beyond loopback.
        join_s: longest wait for them in real seconds.
        silence_s: real seconds without a message from a client after which another may take its place.

    Raises:
        ConfigError: a number out of range, or one of two options that need each other.
    """

    speed: float = 1.0
    outside: tuple[NodeId, ...] = ()
    hub: str | None = None
    keys: Path | None = None
    join_s: float = 120.0
    silence_s: float = 6.0

    def __post_init__(self) -> None:
        check_ranges("--realtime", self, {"speed": (1e-3, 1e6), "join_s": (0.1, 86_400.0), "silence_s": (0.5, 3600.0)})
        if bool(self.outside) != (self.hub is not None):
            raise ConfigError(
                "--outside CLIENT and --hub tcp://HOST:PORT belong together: the clients that run outside, and the"
                " address where they join"
            )
        if len(set(self.outside)) < len(self.outside):
            raise ConfigError("--outside names a client twice; name each once")
        if self.hub is not None:
            check_address(self.hub, self.curve_keys)

    @property
    def curve_keys(self) -> CurveKeys | None:
        """Keys of the engine; None: messages are not encrypted."""
        return None if self.keys is None else read_keys(self.keys, "engine")


def real_time_wanted(
    speed: float | None, outside: Sequence[NodeId], n_workers: int | None, hub: str | None, keys: Path | None
) -> RealTime | None:
    """Options of the command line as a value; None: no real time.

    Raises:
        ConfigError: outside clients without real time, or beside workers.
    """
    if speed is None:
        if outside:
            raise ConfigError("--outside needs a clock that follows real time; add --realtime 1.0")
        return None
    if not outside:
        return RealTime(speed)
    if n_workers is not None:
        raise ConfigError("--outside and --workers cannot share a run yet; leave --workers out")
    return RealTime(speed, tuple(outside), hub, keys)
