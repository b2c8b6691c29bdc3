"""All codecs by the name that scenarios use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SharingSettings
from .codec import Codec
from .float16 import Float16
from .int8 import Int8
from .plain import Plain
from .top_k import TopK

#: Name -> makes the codec of one shared vector from its start [n].
CODECS: dict[str, Callable[[NDArray[np.floating[Any]], SharingSettings], Codec]] = {
    "float32": lambda _start, _settings: Plain(),
    "float16": lambda _start, _settings: Float16(),
    "int8": lambda start, _settings: Int8(start),
    "top_k": lambda start, settings: TopK(start, settings.fraction),
}
