"""Images of handwritten digits: the small ones that come with scikit-learn, and MNIST."""

from __future__ import annotations

import numpy as np

from ...emulator.contracts import ConfigError, DataError
from ...emulator.regular_file import open_regular, reason, shown
from .federated_rows import FederatedRows, RowRequest

_NAMES = tuple(str(digit) for digit in range(10))


def digits_rows(_request: RowRequest) -> FederatedRows:
    """1,797 images of 8 x 8 grey levels from 0 to 16.

    Raises:
        ConfigError: scikit-learn, which brings them, is not installed.

    Source: test set of E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998.
    """
    try:
        from sklearn.datasets import load_digits  # noqa: PLC0415 - an extra that most users do not need
    except ImportError:
        raise ConfigError(
            "data.dataset = 'digits' comes with scikit-learn, which is not installed; run: pip install"
            " 'sheafedge[examples]', or give data of your own with data.dataset = 'file'"
        ) from None
    found = load_digits()
    images = np.asarray(found.images, dtype=np.float32)
    return FederatedRows("digits", images, np.asarray(found.target, dtype=np.int64), _NAMES)


def mnist_rows(request: RowRequest) -> FederatedRows:
    """60,000 training and 10,000 test images of 28 x 28 grey levels, from `mnist.npz`, in their published parts.

    Raises:
        DataError: the file is missing or not as published.

    Source: Y. LeCun, C. Cortes, C. Burges, the MNIST database.
    """
    assert request.root is not None, "a rule of the scenario"
    path = request.root / "mnist.npz" if request.root.is_dir() else request.root
    try:
        with open_regular(path) as stream, np.load(stream, allow_pickle=False) as archive:
            parts = {part: (archive[f"x_{part}"], archive[f"y_{part}"]) for part in ("train", "test")}
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise DataError(
            f"{shown(path)} cannot be read as MNIST ({reason(error)}); it needs the arrays x_train, y_train, x_test and"
            " y_test"
        ) from None
    x, y = (np.concatenate([arrays[at] for arrays in parts.values()]) for at in (0, 1))
    if x.dtype != np.uint8 or x.shape[1:] != (28, 28) or y.shape != x.shape[:1] or y.max() > 9:
        raise DataError(f"{shown(path)} holds {x.dtype} images {list(x.shape)}; MNIST has uint8 images of 28 x 28")
    split = np.repeat(np.array(list(parts)), [len(labels) for _, labels in parts.values()])
    return FederatedRows("mnist", x, y.astype(np.int64), _NAMES, split=split)
