"""The ONNX runtime as an edge device has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray


class OnnxSession:
    """A loaded model.

    Attributes:
        provider: the execution provider that really runs it, as the session tells; asking for one is no proof.
        input_names: names of the inputs in order.
    """

    def __init__(self, path: Path, *, cuda: bool = False, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3  # errors only: a missing GPU library is reported through `provider`
        wanted: list[Any] = ["CPUExecutionProvider"]
        if cuda:
            wanted.insert(0, ("CUDAExecutionProvider", {"use_tf32": 0}))  # TF32 alone would cost 1e-3 of accuracy
        if cuda and hasattr(onnxruntime, "preload_dlls"):
            onnxruntime.preload_dlls()
        self._session = onnxruntime.InferenceSession(str(path), options, providers=wanted)
        self.provider: str = self._session.get_providers()[0]
        self.input_names: list[str] = [argument.name for argument in self._session.get_inputs()]

    @property
    def metadata(self) -> dict[str, str]:
        """The file's metadata properties."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def run(self, inputs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Logits [batch, n_outputs] of named inputs in physical units."""
        feed: dict[str, Any] = {name: inputs[name] for name in self.input_names}
        logits: NDArray[np.float32] = self._session.run(None, feed)[0]
        return logits
