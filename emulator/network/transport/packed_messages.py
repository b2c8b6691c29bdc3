"""Messages, slots and phases inside packets: lists of exactly known length and types, numbers in frames beside them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...contracts import MODALITIES, Message, MessageKind, MessageSlot, Modality, Phase
from .errors import WireError
from .packed_trees import aligned
from .packets import Frame
from .wire_header import DTYPES

_NOTHING = type(None)
_MESSAGE = (str, int, int, int, str, (str, _NOTHING), str, int, (int, _NOTHING))
_SLOT = (int, str, int, str, (str, _NOTHING))


def pack_messages(messages: Sequence[Message], frames: list[Frame]) -> list[list[Any]]:
    """[kind, sender, receiver, round, phase, modality, dtype, frame, frame of the mask] of each.

    Messages of a broadcast share their frame. A mask of what was received has a bit per coordinate, the first one
    highest.

    Raises:
        WireError: a payload is no vector of numbers that may cross.
    """
    # By identity: the messages keep their arrays alive, so that no id stands for two.
    places: dict[int, int] = {}
    packed = []
    for message in messages:
        payload = message.payload
        if payload.ndim != 1 or payload.dtype.str not in DTYPES:
            raise WireError(f"payload of {message.kind} must be a vector of {', '.join(DTYPES)}")
        if id(payload) not in places:  # messages of a broadcast share one array, which crosses once
            places[id(payload)] = len(frames)
            frames.append(np.ascontiguousarray(payload).view(np.uint8).data.toreadonly())
        mask = None
        if message.received is not None:
            mask = len(frames)
            frames.append(np.packbits(message.received).data.toreadonly())
        packed.append(
            [
                str(message.kind), message.sender, message.receiver, message.round_index, message.phase,
                message.modality, payload.dtype.str, places[id(payload)], mask,
            ]
        )  # fmt: skip
    return packed


def unpack_messages(packed: list[Any], frames: Sequence[Frame], allowed: Collection[MessageKind]) -> list[Message]:
    """The messages; a payload that several of them name is one array.

    Raises:
        WireError: a list is malformed, a kind was not declared, or frames do not fit.
    """
    arrays: dict[tuple[int, str], NDArray[Any]] = {}
    messages = []
    for fields in packed:
        _check_types("message", fields, _MESSAGE)
        name, sender, receiver, round_index, phase, modality, dtype, place, mask = fields
        kind = _kind(name)
        if kind not in allowed:
            raise WireError(f"node {sender} sends {name!r}, which the algorithm did not declare")
        if (place, dtype) not in arrays:  # so that receivers of a broadcast share its array again
            arrays[place, dtype] = _vector(_frame(frames, place), dtype)
        payload = arrays[place, dtype]
        received = None if mask is None else _mask(_frame(frames, mask), len(payload))
        messages.append(Message(kind, sender, receiver, round_index, phase, payload, _modality(modality), received))
    return messages


def pack_slots(slots: Collection[MessageSlot]) -> list[list[Any]]:
    """[round, phase, sender, kind, modality] of each, in one order whatever the set's is."""
    listed = [[slot.round_index, slot.phase, slot.sender, str(slot.kind), slot.modality] for slot in slots]
    return sorted(listed, key=lambda slot: (*slot[:4], slot[4] or ""))


def unpack_slots(packed: list[Any]) -> frozenset[MessageSlot]:
    """The slots.

    Raises:
        WireError: a list is malformed.
    """
    slots = set()
    for fields in packed:
        _check_types("slot", fields, _SLOT)
        round_index, phase, sender, kind, modality = fields
        slots.add(MessageSlot(round_index, phase, sender, _kind(kind), _modality(modality)))
    return frozenset(slots)


def pack_phases(phases: Sequence[Phase]) -> list[list[Any]]:
    """[name, flops] of each."""
    return [[phase.name, float(phase.flops)] for phase in phases]


def unpack_phases(packed: list[Any]) -> tuple[Phase, ...]:
    """The phases.

    Raises:
        WireError: a list is malformed, or work is not a number from 0 on.
    """
    phases = []
    for fields in packed:
        _check_types("phase", fields, (str, float))
        name, flops = fields
        if not (math.isfinite(flops) and flops >= 0.0):
            raise WireError(f"phase {name!r} costs {flops} operations")
        phases.append(Phase(name, flops))
    return tuple(phases)


def _check_types(what: str, fields: object, types: tuple[Any, ...]) -> None:
    if type(fields) is not list or len(fields) != len(types):
        raise WireError(f"a {what} is a list of {len(types)}")
    for value, expected in zip(fields, types, strict=True):
        if type(value) not in (expected if isinstance(expected, tuple) else (expected,)):
            raise WireError(f"a {what} cannot hold a {type(value).__name__} there")
        # All whole numbers of messages are ids, rounds and places.
        if type(value) is int and value < 0:
            raise WireError(f"a {what} cannot hold a number below 0")


def _kind(name: str) -> MessageKind:
    try:
        return MessageKind(name)
    except ValueError:
        raise WireError(f"unknown message kind {name[:20]!r}; known: {', '.join(MessageKind)}") from None


def _modality(name: str | None) -> Modality | None:
    if name is not None and name not in MODALITIES:
        raise WireError(f"unknown modality {name[:20]!r}; known: {', '.join(MODALITIES)}, or none")
    return name


def _frame(frames: Sequence[Frame], place: int) -> Frame:
    if place >= len(frames):
        raise WireError(f"a message names frame {place} of {len(frames)}")
    return frames[place]


def _vector(frame: Frame, dtype: str) -> NDArray[Any]:
    if dtype not in DTYPES:
        raise WireError(f"payload dtype must be one of {', '.join(DTYPES)}, got {dtype[:20]!r}")
    n_bytes = memoryview(frame).nbytes
    if n_bytes % DTYPES[dtype].itemsize:
        raise WireError(f"{n_bytes} bytes are no whole number of {dtype}")
    return aligned(frame, DTYPES[dtype])


def _mask(frame: Frame, n_elements: int) -> NDArray[np.bool_]:
    packed = np.frombuffer(frame, dtype=np.uint8)
    if len(packed) != (n_elements + 7) // 8:
        raise WireError(f"a mask of {n_elements} coordinates came in {len(packed)} bytes")
    received = np.unpackbits(packed, count=n_elements).astype(np.bool_)
    received.flags.writeable = False
    return received
