"""Starts of the sensors of one stream: which one is heard, and which are over."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ...contracts import Modality
from ..frame_packets import FrameRefused

#: Starts of a sensor that are remembered as over. Packets of an earlier one could begin its window anew once more; by
#: then the sensor has started so many times since they were sent.
FORMER_BOOTS = 8


class SensorBoots:
    """The `boot` of every sensor of a stream, and those that it had before.

    Packets on two connections, or kept by a network, may come after those of a later start. A start that is over stays
    over, so that they cannot empty a window that is in use.
    """

    def __init__(self) -> None:
        # modality -> its boots, the one of now last
        self._boots: dict[Modality, deque[str | int]] = {}

    def restarted(self, modalities: Iterable[Modality], boot: str | int | None) -> set[Modality]:
        """Those of the modalities whose sensor has started again; nothing is kept yet, see `take`.

        Args:
            modalities: those of one packet.
            boot: mark of the start, of the same packet; None says nothing, so that nothing begins again.

        Raises:
            FrameRefused: a sensor has started again since this start.
        """
        if boot is None:
            return set()
        found = {modality for modality in modalities if self._latest(modality) != boot}
        for modality in found:
            if boot in self._boots.get(modality, ()):
                raise FrameRefused(
                    "boot",
                    f"{modality} has started again since boot {boot!r}; draw one boot per start, and send a sensor of a"
                    " stream from one program only",
                )
        return found

    def take(self, restarted: Iterable[Modality], boot: str | int | None) -> None:
        """From now on this start is heard, of the modalities that `restarted` found."""
        for modality in restarted:
            assert boot is not None
            self._boots.setdefault(modality, deque(maxlen=FORMER_BOOTS + 1)).append(boot)

    def _latest(self, modality: Modality) -> str | int | None:
        boots = self._boots.get(modality)
        return boots[-1] if boots else None
