"""TOML of people who mean harm: one sentence, whoever reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.scenarios.recording.world_file import load_world
from sheafedge.scenarios.schema.scenario import load_scenario, parse_assignment
from sheafedge.scenarios.schema.toml_file import MAX_BYTES, MAX_DEPTH, parsed_toml, read_toml
from sheafedge.scenarios.schema.wording import MOST_FIELDS
from sheafedge.scenarios.terminal.compare_arguments import requested_comparison

LONGEST_SENTENCE = 500
READERS: dict[str, Callable[[str], object]] = {
    "scenario": load_scenario,
    "world": load_world,
    "comparison": lambda name: requested_comparison(name).base(),
}
HOSTILE: dict[str, bytes] = {
    "digits without end": b"rounds = " + b"9" * 5000,
    "hexadecimal digits without end": b"rounds = 0x" + b"f" * 10_000,
    "a number of 4000 digits": b"rounds = " + b"9" * 4000,
    "tables without a bottom": b"a" + b".a" * 200_000 + b" = 1",
    "a header without a bottom": b"[world" + b".a" * 5000 + b"]\nx = 1",
    "a spaced key without a bottom": b"a" + b" . 'a'" * 5000 + b" = 1",
    "a comparison without a bottom": b'scenario = "blockage"\n[set]\na' + b".a" * 5000 + b" = 1\n[methods.x]\ny = 1",
    "lists without a bottom": b"rounds = " + b"[" * 20_000,
    "lists deeper than any": b"rounds = " + b"[" * 150 + b"]" * 150,
    "inline tables without a bottom": b"rounds = " + b"{a=" * 20_000,
    "a NUL": b'name = "a\0b"',
    "no UTF-8": b'name = "\xff\xfe"',
    "a byte order mark": b"\xef\xbb\xbfrounds = 1",
    "half a surrogate": b'name = "\\ud800"',
    "no day of any month": b"rounds = 2020-13-45",
    "infinitely few rounds": b"rounds = -inf",
    "a key twice": b"rounds = 1\nrounds = 2",
    "lists for tables": b"task = []\nworld = []\nlink = [1]\nname = {}\n",
    "twenty thousand keys": b"".join(b"k%d = 1\n" % index for index in range(20_000)),
    "a text without end": b'name = "' + b"y" * MAX_BYTES + b'"',
    "a huge seed of a world": b"seed = 0x" + b"f" * 9999 + b'\n[world]\nkind = "street"\n',
    "a comparison of itself": b'scenario = "hostile.toml"\nseeds = [0]\n[methods.a]\nrounds = 1\n',
    "methods that are none": b'scenario = "blockage"\n[methods]\nx = 3\n',
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_answered_in_a_few_sentences(case: str, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.toml"
    path.write_bytes(HOSTILE[case])
    with pytest.raises(ConfigError) as refused:
        READERS[reader](str(path))
    sentences = str(refused.value).splitlines()
    assert len(sentences) <= MOST_FIELDS + 1
    assert max(map(len, sentences)) < LONGEST_SENTENCE + len(str(path))
    assert path.read_bytes() == HOSTILE[case]


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "/dev/zero", ".", "", "\n"])
@pytest.mark.parametrize("reader", READERS)
def test_a_name_that_is_no_file_is_one_sentence(name: str, reader: str) -> None:
    with pytest.raises(ConfigError) as refused:
        READERS[reader](name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["rounds=" + "9" * 5000, "rounds=0x" + "f" * 9999, "a" + ".a" * 5000 + "=1", "rounds=" + "[" * 90 + "]" * 90],
    ids=["digits", "hexadecimal", "key", "lists"],
)
def test_a_hostile_assignment_is_one_sentence(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--set") as refused:
        parse_assignment(text)
    assert len(str(refused.value)) < LONGEST_SENTENCE


def test_what_is_just_shallow_and_short_enough_is_read(tmp_path: Path) -> None:
    """The negative control: the limits are where they say."""
    deep = "a" + ".a" * (MAX_DEPTH - 2) + " = 1"
    assert parsed_toml(deep, "x")
    with pytest.raises(ConfigError, match="deeper than 32"):
        parsed_toml("a." + "a." + deep, "x")
    path = tmp_path / "long.toml"
    path.write_bytes(b"a = 1\r\n#".ljust(MAX_BYTES, b"."))
    assert read_toml(path) == {"a": 1}


def test_sentences_with_many_dots_are_no_deep_tables() -> None:
    text = f"one. two, three. four {'.' * 100} {'1.5, ' * 100}"
    assert parsed_toml(f'summary = "{text}"', "x") == {"summary": text}
