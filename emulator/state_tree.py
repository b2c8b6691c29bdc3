"""Plain trees of state as JSON and arrays: what checkpoints and workers pass on, and all that can come out of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .contracts import State

_ARRAY, _LIST = "array", "list"  # first items of JSON lists, which distinguish the two
_PLAIN = frozenset({bool, int, float, str})
_MAX_DEPTH = 64  # far deeper than any state; what is nested deeper was not made here


def packed_tree(tree: State) -> tuple[bytes, list[NDArray[Any]]]:
    """A tree as JSON, and its arrays in the order in which the JSON counts them.

    Raises:
        TypeError: something in it is not plain.
    """
    arrays: list[NDArray[Any]] = []
    return json.dumps(_encoded(tree, arrays)).encode(), arrays


def unpacked_tree(text: bytes, arrays: Sequence[NDArray[Any]]) -> State:
    """The tree again.

    Raises:
        ValueError: this is not what `packed_tree` makes.
    """
    try:
        return _decoded(json.loads(text), arrays, 0)
    except (KeyError, IndexError, TypeError, RecursionError) as error:
        raise ValueError(f"not a tree of state ({type(error).__name__}: {error})") from None


def _encoded(tree: State, arrays: list[NDArray[Any]]) -> Any:
    if tree is None or type(tree) in _PLAIN:
        return tree
    # Booleans, integers and floats only: arrays of objects would need pickle.
    if isinstance(tree, np.ndarray) and tree.dtype.kind in "biuf":
        arrays.append(tree)
        return [_ARRAY, len(arrays) - 1]
    if isinstance(tree, Mapping):
        if strange := [key for key in tree if type(key) is not str]:
            raise TypeError(f"keys of state must be texts, got {strange[0]!r}")
        return {key: _encoded(value, arrays) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_LIST, *(_encoded(value, arrays) for value in tree)]
    raise TypeError(f"state must be plain, got a {type(tree).__name__}")


def _decoded(encoded: Any, arrays: Sequence[NDArray[Any]], depth: int) -> State:
    if depth > _MAX_DEPTH:
        raise ValueError("not a tree of state: nested too deeply")
    if isinstance(encoded, dict):
        return {key: _decoded(value, arrays, depth + 1) for key, value in encoded.items()}
    if not isinstance(encoded, list):
        return encoded
    match encoded:
        case [kind, *values] if kind == _LIST:
            return [_decoded(value, arrays, depth + 1) for value in values]
        case [kind, int(index)] if kind == _ARRAY and 0 <= index < len(arrays):
            return arrays[index]
    raise ValueError("not a tree of state: a list is neither a list nor an array")


def state_digest(state: State) -> str:
    """Digest of a state, so that two processes can compare theirs without sending them: equal to the last bit."""
    text, arrays = packed_tree(state)
    digest = hashlib.blake2b(text, digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()
