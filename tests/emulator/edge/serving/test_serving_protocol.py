"""What sensors and servers say: what goes in comes out, to the bit, and nothing else comes out at all."""

from __future__ import annotations

import zlib
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sheafedge.emulator.contracts import MODALITIES, Modality
from sheafedge.emulator.edge.frame_packets import (
    DTYPES,
    LONGEST_BOOT,
    MOST_INDEX,
    OPTIONAL,
    REPLIES,
    REQUESTS,
    TO_CLIENT,
    TO_SERVER,
    Answer,
    pack_frames,
    unpack_frames,
    unpack_reply,
)
from sheafedge.emulator.network.transport.errors import WireError
from sheafedge.emulator.network.transport.packets import Packet, PacketSchema, pack_packet, unpack_packet

arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, max_dims=3, max_side=4))
)


def crossed(packet: Packet, dialect: PacketSchema = TO_SERVER) -> Packet:
    return unpack_packet([bytes(part) for part in pack_packet(packet, dialect)], dialect)


@given(frames=st.dictionaries(st.sampled_from(MODALITIES), arrays, min_size=1), ask=st.booleans())
def test_frames_arrive_to_the_bit(frames: dict[Modality, NDArray[Any]], ask: bool) -> None:
    packet = crossed(pack_frames("bs00", 17, 1.7, frames, ask=ask))
    found = unpack_frames(packet)
    assert list(found) == list(frames)
    for modality, values in frames.items():
        assert found[modality].dtype == values.dtype
        assert found[modality].tobytes() == values.tobytes()
        assert found[modality].shape == values.shape
    assert [packet.fields[name] for name in ("stream", "index", "time_s", "ask")] == ["bs00", 17, 1.7, ask]


def test_frames_that_lie_scattered_in_memory_arrive_in_order() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    assert_array_equal(unpack_frames(crossed(pack_frames("s", 0, 0.0, {"rf": values})))["rf"], values)
    big_endian = np.arange(3, dtype=">f4")
    assert_array_equal(unpack_frames(crossed(pack_frames("s", 0, 0.0, {"rf": big_endian})))["rf"], big_endian)


@pytest.mark.parametrize("dtype", ["complex64", "int64", "bool", "U3"])
def test_numbers_of_other_kinds_are_not_sent(dtype: str) -> None:
    with pytest.raises(WireError, match="send one of"):
        pack_frames("s", 0, 0.0, {"rf": np.zeros(2).astype(dtype)})


GOOD = {"modality": "rf", "dtype": "<f4", "shape": [2]}
FORGED: dict[str, tuple[dict[str, Any], str]] = {
    "no readings": ({"readings": []}, "one frame per reading"),
    "more readings than frames": ({"readings": [GOOD, GOOD | {"modality": "gps"}]}, "one frame per reading"),
    "a reading that is none": ({"readings": [7]}, "exactly modality, dtype and shape"),
    "a field too much": ({"readings": [GOOD | {"unit": "dB"}]}, "exactly modality, dtype and shape"),
    "an unknown modality": ({"readings": [GOOD | {"modality": "sonar"}]}, "modality must be one of"),
    "a modality that is a list": ({"readings": [GOOD | {"modality": [[]]}]}, "modality must be one of"),
    "objects": ({"readings": [GOOD | {"dtype": "|O"}]}, "dtype of rf must be one of"),
    "a dtype of its own": ({"readings": [GOOD | {"dtype": "(1000000,1000000)f8"}]}, "dtype of rf must be one of"),
    "too few bytes": ({"readings": [GOOD | {"shape": [3]}]}, "has 8 bytes, its shape and dtype 12"),
    "a shape of billions": ({"readings": [GOOD | {"shape": [2**40, 2**40]}]}, "has 8 bytes"),
    "a negative size": ({"readings": [GOOD | {"shape": [-1, -2]}]}, "list of at most"),
    "no size": ({"readings": [GOOD | {"shape": [0]}]}, "list of at most"),
    "half a size": ({"readings": [GOOD | {"shape": [2.0]}]}, "list of at most"),
    "a thousand axes": ({"readings": [GOOD | {"shape": [1] * 1000}]}, "list of at most"),
    "a negative index": ({"index": -1}, "index must lie"),
    "an index beyond all": ({"index": 2**63}, "index must lie"),
    "a clock that is no number": ({"time_s": float("nan")}, "time_s must be finite"),
    "no name": ({"stream": ""}, "stream must be a name"),
    "an endless name": ({"stream": "x" * 1000}, "stream must be a name"),
    "a name with a line break": ({"stream": "a\nb"}, "stream must be a name"),
    "a boot of no text": ({"boot": ""}, "boot must be a number"),
    "an endless boot": ({"boot": "x" * 65}, "boot must be a number"),
    "a boot with a line break": ({"boot": "a\nb"}, "boot must be a number"),
    "a negative boot": ({"boot": -1}, "boot must lie"),
    "a boot beyond all": ({"boot": 2**63}, "boot must lie"),
}


@pytest.mark.parametrize(("changes", "sentence"), FORGED.values(), ids=FORGED.keys())
def test_frames_that_are_not_what_they_say_are_refused(changes: dict[str, Any], sentence: str) -> None:
    packet = pack_frames("s", 0, 0.0, {"rf": np.zeros(2, np.float32)})
    unpack_frames(crossed(packet))
    with pytest.raises(WireError, match=sentence):
        unpack_frames(crossed(packet._replace(fields={**packet.fields, **changes})))


@given(boot=st.one_of(st.integers(0, MOST_INDEX), st.text("ab", min_size=1, max_size=LONGEST_BOOT)))
def test_a_packet_may_say_which_start_of_its_sensors_it_is_of(boot: str | int) -> None:
    frames = {"rf": np.zeros(2, np.float32)}
    packet = crossed(pack_frames("s", 0, 0.0, frames, boot=boot))
    unpack_frames(packet)
    assert packet.fields["boot"] == boot
    assert "boot" not in crossed(pack_frames("s", 0, 0.0, frames)).fields


@pytest.mark.parametrize("boot", [True, None, 1.5, b"x", ["x"]])
def test_a_boot_of_another_type_is_refused(boot: object) -> None:
    packet = pack_frames("s", 0, 0.0, {"rf": np.zeros(2, np.float32)})
    header = {"version": 1, "type": "frames", "checksum": zlib.crc32(packet.frames[0]), **packet.fields, "boot": boot}
    with pytest.raises(WireError, match="boot of 'frames' must be str"):
        unpack_packet([msgpack.packb(header), bytes(packet.frames[0])], TO_SERVER)


def test_only_frames_may_have_a_boot() -> None:
    with pytest.raises(WireError, match="unknown fields: boot"):
        pack_packet(Packet("forget", {"stream": "s", "boot": "x"}), TO_SERVER)


def test_two_frames_of_one_sensor_in_a_packet_are_refused() -> None:
    packet = pack_frames("s", 0, 0.0, {"rf": np.zeros(2, np.float32)})
    twice = packet._replace(fields={**packet.fields, "readings": [GOOD, GOOD]}, frames=[*packet.frames, *packet.frames])
    with pytest.raises(WireError, match="same modality"):
        unpack_frames(crossed(twice))


def test_another_version_is_told_so() -> None:
    parts = pack_packet(Packet("health", {}), TO_SERVER)
    header = msgpack.packb(msgpack.unpackb(parts[0]) | {"version": 9})
    with pytest.raises(WireError, match="speaks version '9', this end 1"):
        unpack_packet([header], TO_SERVER)


def test_a_damaged_frame_does_not_match_its_checksum() -> None:
    header, frame = pack_packet(pack_frames("s", 0, 0.0, {"rf": np.zeros(2, np.float32)}), TO_SERVER)
    with pytest.raises(WireError, match="checksum"):
        unpack_packet([header, bytes([bytes(frame)[0] ^ 1, *bytes(frame)[1:]])], TO_SERVER)


def test_neither_end_takes_what_only_the_other_says() -> None:
    assert not REQUESTS.keys() & REPLIES.keys()
    for name in REQUESTS:
        with pytest.raises(WireError, match="no packet is of type"):
            unpack_packet([msgpack.packb({"version": 1, "type": name, "checksum": 0})], TO_CLIENT)


def test_an_answer_comes_out_as_it_went_in() -> None:
    answer = Answer(
        *("bs00", 3, 0.3, "blocked", 1, 0.75, [0.25, 0.75], [1.1], {"rf": 1.0}, ["lidar"]),
        *({"lidar": 0.4}, {"rf": 1}, {"queued": 0.1, "model": 0.2, "total": 0.3}, "tiny", "abc"),
    )
    fields = {name: getattr(answer, name) for name in answer.__dataclass_fields__}
    assert unpack_reply(crossed(Packet("answer", fields), TO_CLIENT)) == answer


def test_every_reply_has_a_type_of_its_own() -> None:
    for name, fields in REPLIES.items():
        made = unpack_reply(Packet(name, {field: types[0]() for field, types in fields.items()}))
        assert {*made.__dataclass_fields__} == {*fields, *OPTIONAL.get(name, {})}
