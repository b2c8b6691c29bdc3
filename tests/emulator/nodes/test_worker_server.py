"""Workers: the same run wherever learners live, errors as what they are, and no wait without an end."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
from doubles.emulation import ScriptedLearner
from doubles.remote_workers import (
    HASTY,
    PATIENT,
    RELEASE,
    RING,
    BareWorker,
    Ring,
    WorkerThread,
    health,
    learners_of_ring,
    played_here,
    remote_hosts,
    serving,
    short_folder,
)
from sheafedge.emulator.contracts import ConfigError, DivergedError, Learner, Message, Phase, State
from sheafedge.emulator.network.transport.curve_keys import make_keys, read_keys
from sheafedge.emulator.network.transport.errors import TransportError, WireError, WorkerLost
from sheafedge.emulator.network.transport.packets import Packet, pack_packet
from sheafedge.emulator.nodes.compute_pool import SerialPool
from sheafedge.emulator.nodes.learner_host import LocalHost
from sheafedge.emulator.nodes.worker_seat import WorkerLimits
from sheafedge.emulator.nodes.worker_server import WorkerServer


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def played_by_workers(n_workers: int, policy: str) -> Ring:
    learners = learners_of_ring()
    with serving(n_workers) as (server, address):
        workers = [WorkerThread(address, learners) for _ in range(n_workers)]
        server.fill("a scenario")
        ring = Ring(remote_hosts(server), policy).play()
    for worker in workers:
        worker.join()
        assert worker.error is None
    return ring


# --- the same run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["skip", "stale"])
@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_a_run_is_the_same_wherever_its_learners_live(n_workers: int, policy: str) -> None:
    """To the bit, with messages that lost coordinates, and with those that were merged from several."""
    here, there = played_here(policy), played_by_workers(n_workers, policy)
    assert there.recorder.trace_hash == here.recorder.trace_hash
    assert json.dumps(there.rows) == json.dumps(here.rows)  # not a number is not equal to itself, but is written alike
    assert here.recorder.traffic.partial_messages > 0


def test_other_policies_and_more_rounds_are_other_runs() -> None:
    """Or the comparison above would compare constants."""
    runs = [played_here("skip"), played_here("stale"), played_here("stale", rounds=4)]
    assert len({run.recorder.trace_hash for run in runs}) == 3


class Slower(ScriptedLearner):
    """Every round costs more than the one before, as maps do that remember their history."""

    def phases(self, round_index: int) -> tuple[Phase, ...]:
        return (Phase("heavy", float(len(self.calls))), Phase("light", 0.0))


def slower() -> dict[int, Slower]:
    return {node: Slower(node, peers, (), lambda: 0.0) for node, peers in RING.items()}


def test_what_a_phase_costs_may_depend_on_what_the_learner_has_done() -> None:
    """A round's costs are known where the learner lives, and nowhere else."""
    pool = SerialPool()
    here = Ring([LocalHost(each, pool, health) for each in slower().values()]).play(3)
    with serving(1) as (server, address):
        WorkerThread(address, slower())
        server.fill("")
        there = Ring(remote_hosts(server)).play(3)
    assert there.recorder.trace_hash == here.recorder.trace_hash
    ends = [now_s for node, _, now_s, _ in there.rows if node == 0]
    assert ends[2] - ends[1] > ends[1] - ends[0] > ends[0]


def test_a_state_comes_home_and_goes_out_again() -> None:
    learners = learners_of_ring()
    with serving(2) as (server, address):
        for _ in range(2):
            WorkerThread(address, learners)
        server.fill("")
        hosts = remote_hosts(server)
        Ring(hosts).play(2)
        states = [host.state().result() for host in hosts]
        assert states == [learner.number for learner in learners.values()]
        for host in hosts:
            host.restore(-1.5).result()
        assert [host.state().result() for host in hosts] == [-1.5] * 4


# --- errors -----------------------------------------------------------------------------------------------------------


class Sick(ScriptedLearner):
    """Fails in its second round."""

    error: Exception = DivergedError("client 2, round 1: the loss is not finite; lower training.head_step_size")

    def compute(self, phase: str, round_index: int) -> Sequence[Message]:
        if (self.client_id, round_index) == (2, 1):
            raise self.error
        return super().compute(phase, round_index)


class Foreign(Sick):
    """Fails with what no user can put right."""

    error = ZeroDivisionError("a mistake")


def played_by(kind: type[ScriptedLearner]) -> None:
    learners = {node: kind(node, peers, (Phase("mix"),), lambda: 0.0) for node, peers in RING.items()}
    with serving(2) as (server, address):
        for _ in range(2):
            WorkerThread(address, learners)
        server.fill("")
        Ring(remote_hosts(server)).play()


def test_what_a_learner_tells_its_user_arrives_as_what_it_is() -> None:
    with pytest.raises(DivergedError) as told:
        played_by(Sick)
    assert str(told.value) == str(Sick.error)


def test_a_mistake_in_a_worker_says_where_it_was_made() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError") as told:
        played_by(Foreign)
    assert "raise self.error" in str(told.value)


def test_a_row_that_could_not_be_written_is_an_error_and_no_silence() -> None:
    def odd(learner: Learner, round_index: int) -> Mapping[str, Any]:
        return {"sets": {1, 2}}

    with serving(1) as (server, address):
        WorkerThread(address, learners_of_ring(), odd)
        server.fill("")
        with pytest.raises(WireError, match="got a set"):
            Ring(remote_hosts(server)).play()


class Picky(ScriptedLearner):
    def restore(self, state: State) -> None:
        raise ConfigError("state of a learner: the whole must be a number, got text")


def test_a_state_that_does_not_fit_is_refused_by_its_learner() -> None:
    learners = {node: Picky(node, peers, (), lambda: 0.0) for node, peers in RING.items()}
    with serving(1) as (server, address):
        WorkerThread(address, learners)
        server.fill("")
        with pytest.raises(ConfigError, match="must be a number"):
            remote_hosts(server)[0].restore("text").result()


# --- death and silence ------------------------------------------------------------------------------------------------


def lost_while_waiting(server: WorkerServer) -> WorkerLost:
    with pytest.raises(WorkerLost) as told:
        remote_hosts(server)[0].state().result()
    return told.value


@contextmanager
def seated(limits: WorkerLimits) -> Iterator[tuple[WorkerServer, BareWorker]]:
    """A server with these limits, and somebody in its only seat who does nothing by itself."""
    with serving(1, limits) as (server, address), closing(BareWorker(address)) as bare:
        filling = threading.Thread(target=server.fill, args=("a scenario",))
        filling.start()
        bare.sit()
        filling.join()
        yield server, bare


def test_a_worker_that_falls_silent_is_lost() -> None:
    with seated(replace(PATIENT, silence_s=1.0)) as (server, _):
        lost = lost_while_waiting(server)
    assert "silent for 1 s" in str(lost)
    assert (lost.seat, lost.clients) == (0, (0, 1, 2, 3))


def test_heartbeats_alone_keep_a_worker() -> None:
    is_over = threading.Event()
    with seated(replace(PATIENT, silence_s=1.0)) as (server, bare):
        until_s = time.monotonic() + 1.5
        while time.monotonic() < until_s:
            bare.say("alive")
            is_over.wait(0.05)
        assert server.vacant == ()


def test_a_worker_that_lives_but_never_answers_is_lost_too() -> None:
    is_over = threading.Event()
    with seated(replace(PATIENT, answer_s=1.0)) as (server, bare):

        def live() -> None:
            while not is_over.wait(0.05):
                bare.say("alive")

        living = threading.Thread(target=live)
        living.start()
        try:
            assert "answered nothing for 1 s" in str(lost_while_waiting(server))
        finally:
            is_over.set()
            living.join()


def test_a_worker_that_says_goodbye_is_lost_at_once() -> None:
    with seated(PATIENT) as (server, bare):
        bare.say("leaving", sentence="it was interrupted")
        assert "it left, because it was interrupted" in str(lost_while_waiting(server))


def test_whoever_asks_after_a_loss_hears_of_it() -> None:
    with seated(PATIENT) as (server, bare):
        bare.say("leaving", sentence="of a whim")
        lost_while_waiting(server)
        lost_while_waiting(server)


def test_a_process_that_ended_is_lost_with_its_exit_code() -> None:
    how = "it ended by itself with exit code 3"
    with serving(1, PATIENT, ended=lambda _: how) as (server, _), pytest.raises(WorkerLost, match=how):
        server.fill("")


def test_a_process_whose_connection_goes_before_its_exit_code_is_known_is_lost_with_that() -> None:
    how, asked, came = "it was ended by SIGKILL", list[int](), list[BareWorker]()

    def ended(_seat: int) -> str | None:
        if came and came[0].socket.closed:  # the server asks before there is anybody
            asked.append(1)
        return how if len(asked) > 3 else None

    with serving(1, PATIENT, ended=ended) as (server, address), closing(BareWorker(address)) as bare:
        came.append(bare)
        filling = threading.Thread(target=server.fill, args=("",))
        filling.start()
        bare.sit()
        filling.join()
        bare.close()
        with pytest.raises(WorkerLost, match=how):
            remote_hosts(server)[0].state().result()


def test_another_worker_takes_the_seat_of_the_lost_one() -> None:
    """And what it restores goes on as if nothing had happened."""
    learners, again = learners_of_ring(), learners_of_ring()
    with serving(2, PATIENT) as (server, address), closing(BareWorker(address)) as bare:
        WorkerThread(address, learners, seat=0)
        filling = threading.Thread(target=server.fill, args=("",))
        filling.start()
        bare.sit(seat=1)
        filling.join()
        states = {node: learners[node].number for node in (0, 2)} | {node: float(node) for node in (1, 3)}
        bare.say("leaving", sentence="of a whim")
        hosts = remote_hosts(server)
        with pytest.raises(WorkerLost):
            hosts[1].state().result()
        assert server.vacant == (1,)
        WorkerThread(address, again)
        server.fill("")
        for host in hosts:
            host.restore(states[host.client_id]).result()
        assert [host.state().result() for host in hosts] == [states[node] for node in RING]


def test_a_reply_to_a_request_that_was_given_up_is_dropped() -> None:
    with (
        serving(2, PATIENT) as (server, address),
        closing(BareWorker(address)) as lost,
        closing(BareWorker(address)) as late,
    ):
        filling = threading.Thread(target=server.fill, args=("",))
        filling.start()
        lost.sit(seat=0)
        late.sit(seat=1)
        filling.join()
        hosts = remote_hosts(server)
        requests = [hosts[0].state(), hosts[1].state()]
        ticket = late.hear("state").fields["ticket"]
        lost.say("leaving", sentence="of a whim")
        for request in requests:
            with pytest.raises(WorkerLost):
                request.result()
        late.say("state_done", ticket=ticket, tree="1", arrays=[])
        WorkerThread(address, learners_of_ring())
        server.fill("")
        request = hosts[1].state()
        late.say("state_done", ticket=late.hear("state").fields["ticket"], tree="2", arrays=[])
        assert request.result() == 2
        assert server.n_refused == 0


def test_an_engine_to_which_too_few_come_gives_up_with_the_command_to_start_more() -> None:
    with serving(2, HASTY) as (server, address):
        worker = WorkerThread(address, learners_of_ring())
        with pytest.raises(TransportError, match=r"1 of 2 workers did not join .* sheafedge worker --hub"):
            server.fill("")
    worker.join()


def test_a_worker_without_an_engine_gives_up() -> None:
    worker = WorkerThread(f"tcp://127.0.0.1:{free_port()}", {}, limits=HASTY)
    worker.join()
    assert "no engine answered" in str(worker.error)


def test_a_worker_whose_engine_falls_silent_ends() -> None:
    with short_folder() as folder, zmq.Context() as context, context.socket(zmq.ROUTER) as engine:
        engine.bind(f"ipc://{folder}/turns")
        worker = WorkerThread(f"ipc://{folder}/turns", {}, limits=replace(PATIENT, silence_s=0.5))
        identity, *_ = engine.recv_multipart()
        engine.send_multipart([identity, *pack_packet(Packet("alive", {}))])
        worker.join()
    assert "has been silent for 0.5 s" in str(worker.error)


@pytest.mark.parametrize(
    ("release", "seat", "sentence"),
    [
        ("0.0.1", None, "install one release everywhere"),
        (RELEASE, 7, "all workers that the engine waits for are there"),
    ],
)
def test_a_worker_that_does_not_fit_is_told_why(release: str, seat: int | None, sentence: str) -> None:
    with serving(1) as (_, address):
        worker = WorkerThread(address, {}, release=release, seat=seat)
        worker.join()
    assert sentence in str(worker.error)


def test_nothing_is_left_where_workers_joined() -> None:
    with short_folder() as folder:
        server = WorkerServer(f"ipc://{folder}/turns", [[0]], RELEASE, PATIENT)
        assert [path.name for path in folder.iterdir()] == ["turns"]
        server.close()
        server.close()
        assert list(folder.iterdir()) == []
    assert not [thread for thread in threading.enumerate() if thread.name == "worker server"]


def test_an_address_that_cannot_be_used_is_named() -> None:
    with pytest.raises(TransportError, match="cannot join at"):
        WorkerServer("ipc:///no/such/folder/turns", [[0]], RELEASE, PATIENT)


# --- strangers --------------------------------------------------------------------------------------------------------


def rude_packets() -> list[list[bytes]]:
    """What somebody without a seat may throw: noise, and answers to questions that others were asked."""
    draws = np.random.default_rng(5)
    noise = [
        [draws.bytes(int(n))] * int(k) for n, k in zip(draws.integers(0, 99, 60), draws.integers(1, 5, 60), strict=True)
    ]
    rows = [
        Packet("look_done", {"ticket": ticket, "row": {"loss": 0.0}, "phases": [["heavy", 9.0]]})
        for ticket in range(200)
    ]
    rows += [Packet("turn_done", {"ticket": n, "messages": [], "expected": []}) for n in range(200)]
    rows += [Packet("leaving", {"sentence": "x"}), Packet("failed", {"ticket": None, "error": "E", "sentence": "x"})]
    rows += [Packet("hello", {"release": RELEASE, "name": "stranger", "seat": 0})]
    return noise + [[bytes(part) for part in pack_packet(row)] for row in rows]


def test_what_strangers_throw_changes_nothing() -> None:
    thrown, is_over = rude_packets(), threading.Event()
    with serving(2) as (server, address):
        learners = learners_of_ring()
        for _ in range(2):
            WorkerThread(address, learners)
        server.fill("")
        stranger = BareWorker(address)

        def throw() -> None:
            while not is_over.is_set():
                for parts in thrown:
                    stranger.socket.send_multipart(parts)
                is_over.wait(0.01)

        throwing = threading.Thread(target=throw)
        throwing.start()
        try:
            ring = Ring(remote_hosts(server)).play(5)
        finally:
            is_over.set()
            throwing.join()
            stranger.close()
        assert server.n_refused > 0
    assert ring.recorder.trace_hash == played_here().recorder.trace_hash


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("turn_done", {"messages": [], "expected": [[1, "heavy", 1, "encoder", "gps"]]}),
        ("turn_done", {"messages": [["encoder", 0, 1, 0, "heavy", "gps", "<f4", 0, None]], "expected": []}),
        ("turn_done", {"messages": [["head", 0, 1, 0, "heavy", None, "<f4", 0, None]], "expected": []}),
        ("look_done", {"row": {}, "phases": []}),
        ("state_done", {"tree": "null", "arrays": []}),
        ("hello", {"release": RELEASE, "name": "", "seat": None}),
    ],
)
def test_a_worker_that_answers_nonsense_is_told_so(kind: str, fields: dict[str, Any]) -> None:
    """And whoever waits for its answer goes on waiting for a better one."""
    with seated(PATIENT) as (server, bare):
        ticket = remote_hosts(server)[0].compute(None, "heavy", 0)
        asked = bare.hear("turn").fields["ticket"]
        bare.say(kind, **fields, **({} if kind == "hello" else {"ticket": asked}))
        assert bare.hear("refused").fields["sentence"] == server.last_refusal
        assert not ticket.done()
        bare.say("turn_done", ticket=asked, messages=[], expected=[])
        assert ticket.result().messages == []


def test_a_worker_cannot_be_ready_before_it_was_welcome() -> None:
    with serving(1, PATIENT) as (_, address), closing(BareWorker(address)) as bare:
        clients = list(RING)
        bare.say("hello", release=RELEASE, name="bare", seat=None)
        bare.say("ready", clients=clients, starts=["" for _ in clients])
        assert "ready for something else" in bare.hear("refused").fields["sentence"]


def test_an_answer_counts_once() -> None:
    with seated(PATIENT) as (server, bare):
        ticket = remote_hosts(server)[0].state()
        asked = bare.hear("state").fields["ticket"]
        for tree in ("1", "2"):
            bare.say("state_done", ticket=asked, tree=tree, arrays=[])
        assert "answers no question" in bare.hear("refused").fields["sentence"]
        assert ticket.result() == 1


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two sets of keys."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("ours", "theirs")}
    for folder in folders.values():
        make_keys(folder)
    return folders


def test_who_holds_the_workers_key_may_join(keys: dict[str, Path]) -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    learners = learners_of_ring()
    with serving(1, address=address, keys=read_keys(keys["ours"], "engine")) as (server, _):
        WorkerThread(address, learners, keys=read_keys(keys["ours"], "worker"))
        server.fill("")
        ring = Ring(remote_hosts(server)).play()
    assert ring.recorder.trace_hash == played_here().recorder.trace_hash


def mixed(keys: dict[str, Path], folder: Path) -> Path:
    """A stranger's own keys with our engine's public one, which is no secret."""
    for name in ("worker.public", "worker.secret"):
        (folder / name).write_bytes((keys["theirs"] / name).read_bytes())
        (folder / name).chmod(0o600)
    (folder / "engine.public").write_bytes((keys["ours"] / "engine.public").read_bytes())
    return folder


@pytest.mark.parametrize("stranger", ["another key", "no key", "another engine"])
def test_strangers_cannot_join(stranger: str, keys: dict[str, Path], tmp_path: Path) -> None:
    folder = {"another key": mixed(keys, tmp_path), "another engine": keys["theirs"]}.get(stranger)
    address = f"tcp://127.0.0.1:{free_port()}"
    limits = WorkerLimits(join_s=1.0, silence_s=0.5, answer_s=0.5, beat_s=0.05)
    with serving(1, limits, address=address, keys=read_keys(keys["ours"], "engine")) as (server, _):
        worker = WorkerThread(
            address, learners_of_ring(), limits=limits, keys=read_keys(folder, "worker") if folder else None
        )
        with pytest.raises(TransportError, match="1 of 1 workers did not join") as told:
            server.fill("")
        worker.join()
    assert "no engine answered" in str(worker.error)
    assert ("strangers were turned away" in str(told.value)) == (stranger == "another key")
