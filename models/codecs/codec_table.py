"""Codecs by the name that `sharing.codec` uses.

A new one is a file beside this, a row here, and its name in `settings.SharingSettings`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SharingSettings
from .codec import Codec
from .floats import Float16, Plain
from .int8 import Int8
from .top_k import TopK

#: Name -> makes the codec of one shared vector from its start [n].
CODECS: dict[str, Callable[[NDArray[np.floating[Any]], SharingSettings], Codec]] = {
    "float32": lambda _start, _settings: Plain(),
    "float16": lambda _start, _settings: Float16(),
    "int8": lambda start, _settings: Int8(start),
    "top_k": lambda start, settings: TopK(start, settings.fraction),
}
