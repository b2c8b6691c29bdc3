"""Encoder of color images by a pretrained ResNet-50, as in the paper; needs torchvision and a file of weights."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import torch
from torch import Tensor, fx, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from ...emulator.contracts import ConfigError

FEATURE_DIM = 2048
IMAGE_PIXELS = 224
#: Mean and spread of ImageNet's red, green and blue, 0 to 1: what the pretrained weights expect.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageNetScale(nn.Module):
    """Normalizer of color images 0 to 255 of any size, enlarged to the size of ImageNet."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", 255.0 * torch.tensor(IMAGENET_MEAN).view(3, 1, 1))
        self.register_buffer("std", 255.0 * torch.tensor(IMAGENET_STD).view(3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """[batch, 3, height, width] -> [batch, 3, 224, 224]."""
        scaled = (images.to(self.mean.dtype) - self.mean) / self.std
        return functional.interpolate(scaled, size=(IMAGE_PIXELS, IMAGE_PIXELS), mode="bilinear")


class FrozenFeatures(nn.Module):
    """A pretrained network that never learns and never updates its running statistics.

    Its normalizations are folded into the convolutions before them, as the exporter would do behind our back.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.scale = ImageNetScale()
        self.backbone = _folded(backbone.eval()).requires_grad_(requires_grad=False)
        self.train(mode=False)

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode, whatever `mode` is."""
        return super().train(mode=False)

    def forward(self, images: Tensor) -> Tensor:
        """[batch, 3, height, width] in 0 to 255 -> [batch, 2048]."""
        features: Tensor = self.backbone(self.scale(images))
        return features


def resnet50_encoder(weights_file: Path, embedding_dim: int, *, tuned: bool = False) -> tuple[nn.Module, nn.Module]:
    """Pretrained ResNet-50 with its classifier replaced by a projection to the embedding.

    Args:
        weights_file: state dictionary of torchvision's resnet50, such as resnet50-11ad3fa6.pth.
        embedding_dim: size of the embedding, l in the paper.
        tuned: train and exchange the whole network, 94 MB per message; otherwise it stands in the place of the
            normalizer, frozen and local, and only the projection is trained and exchanged.

    Returns:
        Normalizer (images 0 to 255, [batch, 3, h, w]) and encoder of a `ClientModel`.

    Raises:
        ConfigError: torchvision is not installed, or the file is missing or holds something else.

    Source: Ghalkha et al. 2025, scenario II; the projection is ours, heads over 2048 features would be too large.
    """
    backbone = _backbone(weights_file)
    projection = nn.Linear(FEATURE_DIM, embedding_dim)
    if tuned:
        return ImageNetScale(), nn.Sequential(backbone, projection)
    return FrozenFeatures(backbone), projection


def _folded(network: nn.Module) -> nn.Module:
    """The same function in evaluation, without the normalizations that follow a convolution."""
    traced = fx.symbolic_trace(network)
    for node in list(traced.graph.nodes):
        source = node.args[0] if node.args else None
        if not (isinstance(source, fx.Node) and node.op == source.op == "call_module" and len(source.users) == 1):
            continue
        convolution, norm = traced.get_submodule(str(source.target)), traced.get_submodule(str(node.target))
        if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            traced.set_submodule(str(source.target), fuse_conv_bn_eval(convolution, norm))
            node.replace_all_uses_with(source)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def _backbone(weights_file: Path) -> nn.Module:
    try:
        from torchvision.models import resnet50  # noqa: PLC0415 - only who asks for it needs it
    except ImportError:
        raise ConfigError(
            "the resnet50 encoder needs torchvision, which is not installed; run `pip install torchvision` in the"
            " version that fits your torch, or use the small camera encoder"
        ) from None
    backbone: nn.Module = resnet50(weights=None)
    try:
        # weights_only: a pickle with other objects would run code
        backbone.load_state_dict(torch.load(weights_file, map_location="cpu", weights_only=True))
    except OSError as error:
        raise ConfigError(
            f"the weights file {weights_file} of the resnet50 encoder cannot be read ({error.strerror}); give the path"
            " of a file such as resnet50-11ad3fa6.pth, downloaded from torchvision's model page"
        ) from None
    except Exception as error:  # noqa: BLE001 - torch raises many kinds for files that hold something else
        first_line = str(error).partition("\n")[0]
        raise ConfigError(
            f"the weights file {weights_file} does not hold a state dictionary of torchvision's resnet50"
            f" ({first_line}); give one such as resnet50-11ad3fa6.pth"
        ) from None
    # after loading: the file has weights of the classifier, too
    backbone.fc = nn.Identity()
    return backbone
