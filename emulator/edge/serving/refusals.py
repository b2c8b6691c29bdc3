"""How a packet is refused: with a code for programs and a sentence for people."""

from __future__ import annotations

from ...contracts import SheafedgeError
from ..frame_packets import REFUSALS


class FrameRefused(SheafedgeError, ValueError):  # noqa: N818 - it is what happened, as the sender reads it
    """A packet is not taken, and why.

    Args:
        code: of `REFUSALS`.
        sentence: with field, value, and what would be valid.
    """

    def __init__(self, code: str, sentence: str) -> None:
        assert code in REFUSALS
        super().__init__(sentence)
        self.code = code
