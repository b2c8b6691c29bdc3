"""Questions: streams take turns, too many give way, and each ends in exactly one way."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from sheafedge.emulator.edge.serving.answering import InferenceRequest, RequestQueue
from sheafedge.emulator.edge.serving.stream_windows import Sample

NOTHING = Sample({}, (), {}, {})


def question(stream: str, index: int) -> InferenceRequest:
    return InferenceRequest(b"client", stream, index, 0.0, NOTHING, 0.0)


def named(questions: list[InferenceRequest]) -> list[tuple[str, int]]:
    return [(one.stream, one.index) for one in questions]


def test_streams_take_turns_and_each_keeps_its_order() -> None:
    waiting = RequestQueue(per_stream=5, in_all=100)
    for index in range(3):
        waiting.put(question("loud", index))
    waiting.put(question("quiet", 0))
    assert named(waiting.take(2)) == [("loud", 0), ("quiet", 0)]
    assert named(waiting.take(10)) == [("loud", 1), ("loud", 2)]
    assert len(waiting) == 0


def test_a_batch_goes_on_where_the_last_one_stopped() -> None:
    waiting = RequestQueue(per_stream=5, in_all=100)
    for index in range(2):
        for stream in "abc":
            waiting.put(question(stream, index))
    assert named(waiting.take(2)) == [("a", 0), ("b", 0)]
    assert named(waiting.take(2)) == [("c", 0), ("a", 1)]
    assert named(waiting.take(2)) == [("b", 1), ("c", 1)]


def test_the_oldest_question_of_the_same_stream_gives_way() -> None:
    waiting = RequestQueue(per_stream=2, in_all=100)
    assert waiting.put(question("a", 0)) is None
    assert waiting.put(question("a", 1)) is None
    lost = waiting.put(question("a", 2))
    assert lost is not None
    assert (lost[0].index, lost[1]) == (0, "newer")
    assert named(waiting.take(9)) == [("a", 1), ("a", 2)]


def test_where_all_together_are_too_many_the_one_with_the_most_gives_way() -> None:
    waiting = RequestQueue(per_stream=3, in_all=4)
    for index in range(3):
        waiting.put(question("loud", index))
    waiting.put(question("quiet", 0))
    lost = waiting.put(question("new", 0))
    assert lost is not None
    assert (lost[0].stream, lost[0].index, lost[1]) == ("loud", 0, "full")


def test_among_equals_who_came_last_gives_way() -> None:
    waiting = RequestQueue(per_stream=3, in_all=2)
    waiting.put(question("a", 0))
    waiting.put(question("b", 0))
    lost = waiting.put(question("c", 0))
    assert lost is not None
    assert lost[0].stream == "c"
    assert named(waiting.take(9)) == [("a", 0), ("b", 0)]


@given(
    steps=st.lists(st.sampled_from("abcd") | st.integers(1, 5), max_size=80),
    per_stream=st.integers(1, 3),
    in_all=st.integers(1, 6),
)
def test_every_question_ends_once_and_the_bounds_hold(steps: list[str | int], per_stream: int, in_all: int) -> None:
    waiting = RequestQueue(per_stream, in_all)
    asked: list[tuple[str, int]] = []
    ended: Counter[tuple[str, int]] = Counter()
    for number, step in enumerate(steps):
        if isinstance(step, int):
            ended.update(named(waiting.take(step)))
        else:
            asked.append((step, number))
            if lost := waiting.put(question(step, number)):
                ended.update(named([lost[0]]))
        assert len(waiting) == len(asked) - ended.total() <= in_all
    ended.update(named(waiting.take(len(waiting))))
    assert ended == Counter(asked)
