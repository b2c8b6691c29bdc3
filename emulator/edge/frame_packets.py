"""Wire protocol between sensors and a served model: packets as of the engine, with tables of their own.

`docs/serving.md` explains the protocol; the tables below define it. Clients are DEALER sockets, the server is a
ROUTER. A stream is what one base station sees; `index` counts its instants, for all of its sensors alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contracts import MODALITIES, Modality, SheafedgeError
from ..network.transport.errors import WireError
from ..network.transport.packets import Frame, Packet, PacketSchema

FRAME_VERSION = 1
#: An answer with the probabilities of a thousand labels takes a third of this.
MOST_HEADER_BYTES = 1 << 16
#: Description of a model and report of a server; both go to clients only.
MOST_TEXT_BYTES = 1 << 22
LONGEST_STREAM = 128
LONGEST_BOOT = 64
MOST_INDEX = (1 << 62) - 1

#: How numbers may come; the model gets float32.
DTYPES = ("<f2", "<f4", "<f8", "|u1", "|i1", "<u2", "<i2", "<i4")
_MOST_AXES = 8

_ABOUT: Mapping[str, tuple[type, ...]] = {"stream": (str,), "index": (int,), "time_s": (float,)}

#: From clients to the server.
REQUESTS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    # what sensors saw at one instant, one raw frame per reading; `ask`: whether an answer is wanted now
    # many languages write a time without a fraction as a whole number
    "frames": {**_ABOUT, "time_s": (float, int), "readings": (list,), "ask": (bool,)},
    # a stream begins again, or ends: its window is emptied
    "forget": {"stream": (str,)},
    "describe": {},
    "health": {},
}
#: Fields that a packet may have beside these and the replies'; a client of before has none of them.
OPTIONAL: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    # drawn at the start of the sensor's program: another one says that it has started again, and counts anew
    "frames": {"boot": (str, int)},
    # of a model that forecasts, and of a bundle that says what training looked like
    "answer": {"ahead_s": (list,), "forecast": (dict,), "outside": (dict,), "drifted": (dict,)},
}
#: From the server to clients. Every packet of frames with `ask` gets one of `answer`, `refused` and `dropped`.
REPLIES: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "answer": {
        **_ABOUT,
        "label": (str,),
        "label_index": (int,),
        "probability": (float,),
        "probabilities": (list,),
        "logits": (list,),
        "attention": (dict,),
        "missing": (list,),
        "stale_s": (dict,),
        "held": (dict,),
        "spent_s": (dict,),
        "bundle": (str,),
        "digest": (str,),
    },
    "dropped": {**_ABOUT, "reason": (str,)},
    "refused": {"stream": (str, type(None)), "index": (int, type(None)), "code": (str,), "sentence": (str,)},
    "forgotten": {"stream": (str,)},
    "description": {"manifest": (str,), "digest": (str,), "settings": (dict,)},
    "healthy": {"report": (dict,)},
    "bye": {"sentence": (str,)},
}
TO_SERVER = PacketSchema(FRAME_VERSION, REQUESTS, MOST_HEADER_BYTES, OPTIONAL)
TO_CLIENT = PacketSchema(FRAME_VERSION, REPLIES, MOST_TEXT_BYTES, OPTIONAL)


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of the model about one instant.

    Attributes:
        stream, index, time_s: those of the frames that came with the request.
        label, label_index: chosen.
        probability: probability of the chosen label.
        probabilities: probabilities of all labels, in the order of the manifest.
        logits: logits of the model.
        attention: modality -> its share; empty where the model has none.
        missing: modalities of the model without a whole window, which it did without.
        stale_s: modality -> age of its newest frame, of those that gave none for this instant.
        held: modality -> instants of its window at which there was no frame and the one before stood in.
        spent_s: `queued` from arrival to the model, `model` in it (of the whole batch), `total` until the answer left.
        bundle, digest: name of the bundle, and digest of its manifest.
        ahead_s: times ahead that a forecast is about; empty where the model forecasts nothing.
        forecast: series, such as "own" and "neighbor", -> probability of outage at each of these times.
        outside: modality -> figures about its newest frame outside of those of training, see `input_summaries`.
        drifted: modality, or "answers", -> figures that were not like training in its last full window of the stream.
    """

    stream: str
    index: int
    time_s: float
    label: str
    label_index: int
    probability: float
    probabilities: list[float]
    logits: list[float]
    attention: dict[Modality, float]
    missing: list[Modality]
    stale_s: dict[Modality, float]
    held: dict[Modality, int]
    spent_s: dict[str, float]
    bundle: str
    digest: str
    ahead_s: list[float] = field(default_factory=list)
    forecast: dict[str, list[float]] = field(default_factory=dict)
    outside: dict[Modality, list[str]] = field(default_factory=dict)
    drifted: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A request for an answer was dropped; no answer will come.

    Attributes:
        stream, index, time_s: those of the frames that came with the request; the frames themselves are in the window.
        reason: `newer`: the stream sent further requests, and too many of its wait; `full`: too many of all streams
            wait; `leaving`: the server stops.
    """

    stream: str
    index: int
    time_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A packet was not taken; nothing of it is in any window, except where only the answer is refused.

    Codes `not_ready` and `failed` refuse an answer; the frames are in the window.

    Attributes:
        stream, index: those of the packet, as far as they could be read.
        code: why, for programs; `REFUSALS` has them all.
        sentence: why, for people.
    """

    stream: str | None
    index: int | None
    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A stream can begin again at any index."""

    stream: str


@dataclass(frozen=True, slots=True)
class Description:
    """Description of the served model.

    Attributes:
        manifest: text of its `manifest.json`.
        digest: digest of the manifest, which has the hash of every file.
        settings: settings of the server, such as `hold` and `batch`.
    """

    manifest: str
    digest: str
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Healthy:
    """State of the server: the numbers of its metrics, by name."""

    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bye:
    """The server stops; what it had taken is answered."""

    sentence: str


Reply = Answer | Dropped | Refused | Forgotten | Description | Healthy | Bye
_REPLIES: Mapping[str, type[Reply]] = {
    "answer": Answer,
    "dropped": Dropped,
    "refused": Refused,
    "forgotten": Forgotten,
    "description": Description,
    "healthy": Healthy,
    "bye": Bye,
}

#: Code of a refusal -> what it means.
REFUSALS: Mapping[str, str] = {
    "malformed": "no packet of this protocol, or another version of it",
    "modality": "the model has no such input",
    "shape": "a frame is not of the shape that the model was trained on",
    "values": "a frame holds numbers that are not finite",
    "duplicate": "the sensor gave a frame for this instant already",
    "old": "the instant is further back than the window reaches",
    "boot": "the sensor has started again since",
    "ahead": "the instant is far after the newest, and may be a mistake; taken from the next one on that follows it",
    "streams": "too many streams are served already",
    "not_ready": "no modality has a whole window yet; the frames were taken all the same",
    "failed": "the model itself failed",
}


class FrameRefused(SheafedgeError, ValueError):  # noqa: N818 - it is what happened, as the sender reads it
    """A packet is not taken, and why.

    Args:
        code: a key of `REFUSALS`.
        sentence: sentence with field, value, and what would be valid.
    """

    def __init__(self, code: str, sentence: str) -> None:
        assert code in REFUSALS
        super().__init__(sentence)
        self.code = code


def pack_frames(
    stream: str,
    index: int,
    time_s: float,
    frames: Mapping[Modality, NDArray[Any]],
    *,
    ask: bool = True,
    boot: str | int | None = None,
) -> Packet:
    """Packet of the frames of one instant.

    Args:
        stream: name of whose sensors they are.
        index: number of the instant.
        time_s: time of the instant on the sensors' clock.
        frames: modality -> one frame, as the manifest says in `frame_shape`.
        ask: whether an answer about this instant is requested.
        boot: drawn at the start of the sensors' program; None: not said.

    Raises:
        WireError: numbers of a kind that is not sent.
    """
    readings, raw = [], []
    for modality, values in frames.items():
        # "<i4" is "=i4" on most machines, and numpy writes "=": only the letter and the size are compared
        dtype = next((one for one in DTYPES if np.dtype(one) == values.dtype.newbyteorder("<")), None)
        if dtype is None:
            raise WireError(f"frame of {modality} is {values.dtype}; send one of {', '.join(DTYPES)}")
        contiguous = np.ascontiguousarray(values, dtype=dtype)
        readings.append({"modality": modality, "dtype": dtype, "shape": list(values.shape)})
        raw.append(contiguous.tobytes())
    fields = {"stream": stream, "index": int(index), "time_s": float(time_s), "readings": readings, "ask": ask}
    if boot is not None:
        fields["boot"] = boot
    return Packet("frames", fields, raw)


def unpack_frames(packet: Packet) -> dict[Modality, NDArray[Any]]:
    """Modality -> frame, of a packet of frames; memory is shared with the packet.

    Raises:
        WireError: the description of a frame does not fit the frame.
    """
    _check_about(packet.fields)
    readings: Sequence[Any] = packet.fields["readings"]
    if not 0 < len(readings) <= len(MODALITIES) or len(readings) != len(packet.frames):
        raise WireError(
            f"{len(readings)} readings and {len(packet.frames)} frames; one frame per reading, at least one"
        )
    # Two readings of one modality would silently become one in a dict.
    made = dict(_reading(reading, frame) for reading, frame in zip(readings, packet.frames, strict=True))
    if len(made) != len(readings):
        raise WireError("two readings are of the same modality; send one frame of each per instant")
    return made


def unpack_reply(packet: Packet) -> Reply:
    """Reply in a packet from the server."""
    return _REPLIES[packet.type](**packet.fields)


def _check_about(fields: Mapping[str, Any]) -> None:
    check_stream(fields["stream"])
    if not 0 <= fields["index"] <= MOST_INDEX:
        raise WireError(f"index must lie in 0 to 2^62, got {fields['index']}")
    if not math.isfinite(fields["time_s"]):
        raise WireError(f"time_s must be finite, got {fields['time_s']}")
    if "boot" in fields:
        check_boot(fields["boot"])


def check_stream(name: str) -> None:
    """Refuse what is no name.

    Raises:
        WireError: empty, too long, or not to be printed.
    """
    if not 0 < len(name) <= LONGEST_STREAM or not name.isprintable():
        raise WireError(f"stream must be a name of 1 to {LONGEST_STREAM} printable characters, got {name[:40]!r}")


def check_boot(boot: str | int) -> None:
    """Refuse what is no mark of a start.

    Raises:
        WireError: a text that is empty, too long or not to be printed, or a number out of range.
    """
    if isinstance(boot, int):
        if not 0 <= boot <= MOST_INDEX:
            raise WireError(f"boot must lie in 0 to 2^62, got {boot}")
    elif not 0 < len(boot) <= LONGEST_BOOT or not boot.isprintable():
        raise WireError(
            f"boot must be a number, or a text of 1 to {LONGEST_BOOT} printable characters, got {boot[:40]!r}"
        )


def _reading(reading: object, frame: Frame) -> tuple[Modality, NDArray[Any]]:
    if type(reading) is not dict or reading.keys() != {"modality", "dtype", "shape"}:
        raise WireError("a reading has exactly modality, dtype and shape")
    modality, dtype, shape = reading["modality"], reading["dtype"], reading["shape"]
    if type(modality) is not str or modality not in MODALITIES:
        raise WireError(f"modality must be one of {', '.join(MODALITIES)}, got {str(modality)[:20]!r}")
    if type(dtype) is not str or dtype not in DTYPES:
        raise WireError(f"dtype of {modality} must be one of {', '.join(DTYPES)}, got {str(dtype)[:20]!r}")
    if type(shape) is not list or len(shape) > _MOST_AXES or any(type(n) is not int or n < 1 for n in shape):
        raise WireError(f"shape of {modality} must be a list of at most {_MOST_AXES} sizes, got {str(shape)[:40]}")
    # Whole numbers of Python do not overflow, whatever sizes a client states.
    wanted, found = math.prod(shape) * np.dtype(dtype).itemsize, memoryview(frame).nbytes
    if wanted != found:
        raise WireError(f"frame of {modality} has {found} bytes, its shape and dtype {str(wanted)[:20]}")
    return modality, np.frombuffer(frame, dtype=dtype).reshape(shape)
