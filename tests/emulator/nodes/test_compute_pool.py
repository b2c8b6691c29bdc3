"""All pools do the same work and hand over the same results and errors; threads do it side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from sheafedge.emulator.contracts import DivergedError
from sheafedge.emulator.nodes.compute_pool import BatchedPool, ComputePool, SerialPool, ThreadPool

GIVE_UP_S = 20.0  # only a broken pool ever waits so long


POOLS: dict[str, Callable[[], ComputePool]] = {
    "serial": SerialPool,
    "1 thread": lambda: ThreadPool(1),
    "3 threads": lambda: ThreadPool(3),
    "batched": lambda: BatchedPool(SerialPool()),
}


@pytest.fixture(params=list(POOLS))
def pool(request: pytest.FixtureRequest) -> Iterator[ComputePool]:
    made = POOLS[request.param]()
    yield made
    made.close()


def test_results_belong_to_their_tickets_in_any_order_of_collecting(pool: ComputePool) -> None:
    tickets = [pool.submit(lambda n=n: n * n) for n in range(20)]
    assert [ticket.result() for ticket in reversed(tickets)] == [n * n for n in reversed(range(20))]


def test_a_result_can_be_collected_twice(pool: ComputePool) -> None:
    ticket = pool.submit(lambda: [1])
    assert ticket.result() is ticket.result()


def test_an_error_is_raised_where_the_result_is_collected(pool: ComputePool) -> None:
    def diverge() -> None:
        raise DivergedError("client 3")

    ticket = pool.submit(diverge)
    assert pool.submit(lambda: "others go on").result() == "others go on"
    with pytest.raises(DivergedError, match="client 3"):
        ticket.result()


def test_closing_twice_is_safe(pool: ComputePool) -> None:
    pool.close()
    pool.close()


def test_the_serial_pool_works_on_the_callers_thread_at_once() -> None:
    done: list[int] = []
    SerialPool().submit(lambda: done.append(threading.get_ident()))
    assert done == [threading.get_ident()]


def test_threads_work_side_by_side_and_away_from_the_caller() -> None:
    meeting = threading.Barrier(2, timeout=GIVE_UP_S)  # breaks if the second job waits for the first

    def meet() -> int:
        meeting.wait()
        return threading.get_ident()

    pool = ThreadPool(2)
    idents = {ticket.result() for ticket in [pool.submit(meet), pool.submit(meet)]}
    pool.close()
    assert len(idents) == 2
    assert threading.get_ident() not in idents


def test_closing_drops_what_has_not_started_and_waits_for_what_has() -> None:
    pool, started, go_on, done = ThreadPool(1), threading.Event(), threading.Event(), []

    def first() -> None:
        started.set()
        go_on.wait(GIVE_UP_S)
        done.append("first")

    pool.submit(first)
    dropped = pool.submit(lambda: done.append("second"))
    assert started.wait(GIVE_UP_S)
    dropped.add_done_callback(lambda _: go_on.set())  # fires when `close` cancels it
    pool.close()
    assert dropped.cancelled()
    assert done == ["first"]
