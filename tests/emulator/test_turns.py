"""Turns of equal keys are computed by one call, all others alone; errors go to the jobs that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future

import pytest
from sheafedge.emulator.nodes.compute_pool import BatchedPool, SerialPool, ThreadPool
from sheafedge.emulator.turns import play, run_jobs


class Noted:
    """A turn that notes with whom it was computed."""

    at_once = 3

    def __init__(self, name: str, key: Hashable, seen: list[tuple[str, ...]], error: Exception | None = None) -> None:
        self.name, self.key, self._seen, self._error = name, key, seen, error

    def run(self) -> None:
        self.run_with([])

    def run_with(self, others: Sequence[Noted]) -> None:
        self._seen.append((self.name, *(other.name for other in others)))
        for turn in (self, *others):
            if turn._error is not None:
                raise turn._error


class Another(Noted):
    """A turn of another type, whose keys mean something else."""


def at_once(job: Callable[[], None]) -> Future[None]:
    return SerialPool().submit(job)


def test_without_anybody_who_gathers_a_turn_is_computed_at_once() -> None:
    seen: list[tuple[str, ...]] = []
    play(Noted("a", 1, seen))
    assert seen == [("a",)]


def test_turns_of_equal_type_and_key_are_computed_together_in_the_order_of_their_jobs() -> None:
    seen: list[tuple[str, ...]] = []
    turns = [
        Noted("a", 1, seen),
        Noted("b", 2, seen),
        Another("c", 1, seen),
        Noted("d", 1, seen),
        Noted("e", None, seen),
        Noted("f", None, seen),
        Noted("g", 2, seen),
    ]
    run_jobs([lambda turn=turn: play(turn) for turn in turns], at_once)
    assert sorted(seen) == [("a", "d"), ("b", "g"), ("c",), ("e",), ("f",)]


@pytest.mark.parametrize(("n_turns", "sizes"), [(1, [1]), (3, [3]), (4, [2, 2]), (7, [2, 2, 3]), (9, [3, 3, 3])])
def test_many_turns_are_computed_in_groups_of_about_one_size(n_turns: int, sizes: list[int]) -> None:
    seen: list[tuple[str, ...]] = []
    run_jobs([lambda n=n: play(Noted(str(n), 1, seen)) for n in range(n_turns)], at_once)
    assert [len(names) for names in seen] == sizes
    assert [name for names in seen for name in names] == [str(n) for n in range(n_turns)]


def test_jobs_that_come_to_another_turn_are_gathered_again() -> None:
    seen: list[tuple[str, ...]] = []
    ended: list[str] = []

    def job(name: str, n_turns: int) -> None:
        for number in range(n_turns):
            play(Noted(f"{name}{number}", "same", seen))
        ended.append(name)

    run_jobs([lambda n=n, name=name: job(name, n) for name, n in (("a", 1), ("b", 3), ("c", 2))], at_once)
    assert seen == [("a0", "b0", "c0"), ("b1", "c1"), ("b2",)]
    assert ended == ["a", "c", "b"]


def test_an_error_of_a_turn_is_raised_in_every_job_that_it_was_computed_for_and_in_no_other() -> None:
    seen: list[tuple[str, ...]] = []
    found: dict[str, str] = {}

    def job(turn: Noted) -> None:
        try:
            play(turn)
        except ValueError as error:
            found[turn.name] = str(error)

    wrong = ValueError("no such layer")
    turns = [Noted("a", 1, seen), Noted("b", 1, seen, wrong), Noted("c", 2, seen), Noted("d", None, seen, wrong)]
    run_jobs([lambda turn=turn: job(turn) for turn in turns], at_once)
    assert found == {"a": "no such layer", "b": "no such layer", "d": "no such layer"}


@pytest.mark.parametrize("alone", [SerialPool, lambda: ThreadPool(2)])
def test_a_pool_computes_what_waits_when_the_first_result_is_asked_for(alone: Callable[[], SerialPool]) -> None:
    seen: list[tuple[str, ...]] = []
    pool = BatchedPool(alone())

    def job(turn: Noted, answer: int) -> int:
        play(turn)
        return answer

    tickets = [pool.submit(lambda n=n: job(Noted(str(n), n % 2, seen), 10 * n)) for n in range(5)]
    assert seen == []
    assert tickets[3].result() == 30
    assert all(ticket.done() for ticket in tickets)
    assert [ticket.result() for ticket in tickets] == [0, 10, 20, 30, 40]
    assert sorted(seen) == [("0", "2", "4"), ("1", "3")]
    late = pool.submit(lambda: job(Noted("late", 1, seen), 7))
    assert late.result() == 7
    assert seen[-1] == ("late",)
    pool.close()


def test_what_never_ran_is_dropped_when_the_pool_is_closed() -> None:
    pool, ran = BatchedPool(SerialPool()), []
    pool.submit(lambda: ran.append(1))
    pool.close()
    assert ran == []
