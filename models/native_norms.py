"""Batch normalization whose values may lie anywhere in memory, on a GPU too."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

#: cuDNN's kernels for channels-last maps read four float32 values at once, from multiples of so many bytes.
ALIGNMENT = 16


class _NativeNorm(_BatchNorm):
    """Normalization by torch's own CUDA kernel, which reads value by value, and not by cuDNN's."""

    def forward(self, maps: Tensor) -> Tensor:
        if torch.compiler.is_exporting():  # an exporter knows batch normalization by the name that `super` calls
            return super().forward(maps)
        self._check_input_dim(maps)  # type: ignore[no-untyped-call]
        factor = self.momentum or 0.0
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a plain mean over all batches
                factor = 1.0 / float(self.num_batches_tracked)
        of_batch = self.training or self.running_mean is None
        kept = (self.running_mean, self.running_var) if self.track_running_stats or not of_batch else (None, None)
        return torch.native_batch_norm(maps, self.weight, self.bias, *kept, of_batch, factor, self.eps)[0]


class NativeBatchNorm1d(_NativeNorm, nn.BatchNorm1d):
    """`nn.BatchNorm1d` without cuDNN."""


class NativeBatchNorm2d(_NativeNorm, nn.BatchNorm2d):
    """`nn.BatchNorm2d` without cuDNN."""


class NativeBatchNorm3d(_NativeNorm, nn.BatchNorm3d):
    """`nn.BatchNorm3d` without cuDNN."""


_NATIVE: dict[type[nn.Module], type[_NativeNorm]] = {
    nn.BatchNorm1d: NativeBatchNorm1d,
    nn.BatchNorm2d: NativeBatchNorm2d,
    nn.BatchNorm3d: NativeBatchNorm3d,
}


def leave_cudnn_where_unaligned(module: nn.Module) -> None:
    """Have those batch normalizations on a GPU whose values are not aligned computed by torch's own kernel.

    Views of a flat vector begin where the view before ends, and cuDNN would fail with "misaligned address". Layers stay
    the same objects, with the same values, and change their class; on a CPU nothing changes.

    Args:
        module: layers of subclasses of torch's classes are left as they are.
    """
    for layer in module.modules():
        native = _NATIVE.get(type(layer))
        if native is not None and any(not _aligned(values) for values in _values(layer)):
            layer.__class__ = native


def _values(layer: nn.Module) -> list[Tensor]:
    found = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
    return [values for values in found if values.is_cuda and values.is_floating_point()]


def _aligned(values: Tensor) -> bool:
    return values.data_ptr() % ALIGNMENT == 0
