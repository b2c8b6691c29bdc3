"""Bundles side by side: the precisions of one client's model, or whichever were named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .bench import Contender
from .bundle import Bundle, load_bundle
from .bundle_files import MODEL_FILE
from .device_profiles import DeviceProfile
from .manifest import BundleError
from .precisions import PRECISIONS

Inputs = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Workload:
    """Work of one call on a device.

    Attributes:
        flops: matrix work.
        input_bytes: bytes of inputs that come in.
        weight_bytes: bytes of the model's file.
    """

    flops: float
    input_bytes: float
    weight_bytes: float

    def seconds_on(self, device: DeviceProfile, precision: str) -> float:
        """Modelled time of one call in seconds."""
        return device.answer_seconds(
            self.flops, precision, input_bytes=self.input_bytes, weight_bytes=self.weight_bytes
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """A bundle that takes part.

    Attributes:
        label: label of its row.
        bundle: loaded and checked.
        inputs: one batch of its own samples.
        workload: work of one batch.
    """

    label: str
    bundle: Bundle
    inputs: Inputs
    workload: Workload

    @property
    def precision(self) -> str:
        """Precision of the model's numbers."""
        return self.bundle.manifest.precision

    @property
    def contender(self) -> Contender:
        """The entry as one that answers."""
        session, inputs = self.bundle.session, self.inputs
        return Contender(self.label, lambda: session.answer(inputs))


def with_siblings(path: Path) -> list[Path]:
    """A bundle and those of the same model in other precisions beside it, float32 first."""
    ending = ".zip" if path.suffix == ".zip" and not path.is_dir() else ""
    # Names of bundles end in their precision, so what is left is common to the siblings.
    stem = path.name.removesuffix(ending)
    suffixes = [suffix for precision in PRECISIONS.values() for suffix in precision.suffixes if suffix]
    base = next((stem.removesuffix(one) for one in suffixes if stem.endswith(one)), stem)
    found = []
    for precision in PRECISIONS.values():
        kinds = dict.fromkeys((ending, "", ".zip"))
        places = [path.with_name(base + one + kind) for one in precision.suffixes for kind in kinds]
        places.sort(key=lambda place: place != path)  # of two spellings the one that was named
        found += [place for place in places if place == path or place.exists()][:1]
    return found if path in found else [path, *found]


def open_entries(paths: Sequence[Path], *, batch: int, threads: int, cuda: bool) -> list[Entry]:
    """Load bundles that are to be compared.

    Args:
        paths: one, whose siblings are found; or several, which are taken as they are.
        batch: samples per call.
        threads: inside one answer, on a CPU.
        cuda: run them on a GPU if that can be.

    Raises:
        BundleError: one is damaged, or a sibling is not of the same model.
    """
    places = with_siblings(paths[0]) if len(paths) == 1 else list(dict.fromkeys(paths))
    bundles = [load_bundle(place, cuda=cuda, threads=threads) for place in places]
    if len(paths) == 1:
        _refuse_others(bundles)
    precisions = [bundle.manifest.precision for bundle in bundles]
    alone = len({*precisions}) == len(precisions)
    names = [one if alone else f"{bundle.manifest.name} {one}" for one, bundle in zip(precisions, bundles, strict=True)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BundleError(f"two bundles are both called {twice[0]!r}; name each once")
    return [_entry(name, bundle, batch) for name, bundle in zip(names, bundles, strict=True)]


def _refuse_others(bundles: Sequence[Bundle]) -> None:
    """Beside a bundle may lie one of the same name of another run."""
    first = bundles[0]
    for other in bundles[1:]:
        one, another = first.manifest, other.manifest
        shared = one.trained.keys() & another.trained.keys()  # quantized ones have more keys
        # a temperature is fitted to the answers of each precision
        output = replace(one.output, temperature=another.output.temperature)
        alike = (one.inputs, output) == (another.inputs, another.output)
        if not alike or any(one.trained[key] != another.trained[key] for key in shared):
            raise BundleError(
                f"bundles {first.path} and {other.path} lie side by side but are not of one model; export them again,"
                " or name those that you want to compare"
            )


def _entry(label: str, bundle: Bundle, batch: int) -> Entry:
    manifest = bundle.manifest
    numbers = sum(math.prod(one.shape) for one in manifest.inputs)
    workload = Workload(batch * manifest.flops, batch * 4.0 * numbers, float(len(bundle.content[MODEL_FILE])))
    return Entry(label, bundle, _batch_of(bundle, batch), workload)


def _batch_of(bundle: Bundle, batch: int) -> Inputs:
    """One batch of its own samples, repeated until there are enough."""
    return {name: np.resize(rows, (batch, *rows.shape[1:])) for name, rows in bundle.samples.items()}
