"""Runs in real time, and clients of them that are played outside: by a double, and by the example that ships."""

from __future__ import annotations

import ast
import json
import signal
import socket
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubles.outside_player import OutsidePlayer
from rich.console import Console
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.network.transport.errors import TransportError
from sheafedge.scenarios.running.progress import NoRunProgress
from sheafedge.scenarios.running.run import RunResult, resume_run, run_scenario
from sheafedge.scenarios.schema.scenario import Scenario
from sheafedge.scenarios.terminal.run_console import print_result
from sheafedge.scenarios.wiring.emulation import Emulation
from sheafedge.scenarios.wiring.members import members_of
from sheafedge.scenarios.wiring.pacing import Pacing
from sheafedge.scenarios.wiring.real_time_options import RealTime, real_time_wanted

EXAMPLE = Path(__file__).parents[3] / "examples" / "outside_client.py"
N_ROUNDS = 4
#: The clock goes so much faster than the wall. Simulated seconds of a phase are then as many twentieths of real ones.
SPEED = 20.0
#: Real patience with a process that is to end.
PATIENCE_S = 20.0


def averaging(tiny: Scenario, patience_s: float) -> Scenario:
    """Four clients that average encoders; an outside one has so many real seconds for an answer."""
    edits = {"algorithm": "dsgd", "rounds": N_ROUNDS, "evaluate_every": N_ROUNDS}
    return tiny.edited({**edits, "network.deadline_s": patience_s * SPEED, "link.loss_probability": 0.0})


def gps_only(scenario: Scenario) -> int:
    """The client that owns positions and nothing else."""
    return next(member.client_id for member in members_of(scenario) if member.modalities == ("gps",))


def free_hub() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{one.getsockname()[1]}"


def losses(result: RunResult) -> Mapping[int, list[float]]:
    """Client -> training loss of every round, as the run has recorded it."""
    found = defaultdict(list)
    for line in (result.folder / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        found[row["client"]].append(row["report"].get("loss", 0.0) if "outside" in row else row["loss"])
    return found


@contextmanager
def in_the_background(play: Any) -> Iterator[None]:
    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


# --- the clock -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["synchronous", "asynchronous"])
def test_a_run_in_real_time_leaves_the_trace_of_any_other(tiny: Scenario, tmp_path: Path, mode: str) -> None:
    scenario = tiny.edited({"network.mode": mode})
    usual = run_scenario(scenario, tmp_path / "usual").summary
    paced = run_scenario(scenario, tmp_path / "paced", real_time=RealTime(speed=1.0)).summary
    assert paced["trace_hash"] == usual["trace_hash"]
    assert paced["virtual_time_s"] == usual["virtual_time_s"]
    lag = paced["realtime"]
    assert lag["speed"] == 1.0
    assert lag["events"] > 0
    assert 0.0 <= lag["lag_mean_s"] <= lag["lag_max_s"]
    assert "realtime" not in usual
    assert "outside" not in paced


class StopsSoon(NoRunProgress):
    """Somebody at the keyboard who has changed their mind."""

    def started(self, emulation: Emulation) -> None:
        main = threading.main_thread().ident
        assert main is not None
        self.keyboard = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
        self.keyboard.start()


def test_a_slow_run_stops_when_it_is_told_to_and_goes_on_later(tiny: Scenario, tmp_path: Path) -> None:
    """A round that would take hours on the wall is played to its end at once, and the rest of the run resumed."""
    usual = run_scenario(tiny, tmp_path / "usual").summary
    slow, somebody = tmp_path / "slow", StopsSoon()
    with pytest.raises(KeyboardInterrupt):
        run_scenario(tiny.edited({"checkpoint_every": 1}), slow, somebody, real_time=RealTime(speed=1e-3))
    somebody.keyboard.join()
    resumed = resume_run(slow.with_name("slow.interrupted"), real_time=RealTime(speed=1e3)).summary
    assert resumed["trace_hash"] == usual["trace_hash"]
    assert resumed["realtime"]["events"] > 0


def test_a_clock_that_was_late_is_said_with_the_speed_that_can_be_kept() -> None:
    pacing = Pacing(1, 0.1, RealTime(speed=1.0), None)
    clock = pacing.clock(0, 0.0)
    clock.lag.add(0.4)
    assert pacing.warnings() == ()
    assert pacing.summary()["realtime"]["kept"] is True
    clock.lag.add(3.0)
    clock.lag_by_speed.add(1.0, 4.0)  # four seconds of computing for one: a delay of half a second at 1 / 3.5
    (warning,) = pacing.warnings()
    assert "up to 3.0 s late, 1.7 s on average, and did not keep --realtime 1;" in warning
    assert "keeps --realtime 0.25 to within 0.5 s" in warning
    figures = pacing.summary()["realtime"]
    assert figures["kept"] is False
    assert figures["speed_kept"] == pytest.approx(10**-0.6)
    clock.lag_by_speed.add(0.0, 1e6)
    assert "even at a thousandth of that speed" in pacing.warnings()[0]


WRONG: dict[str, tuple[Any, str]] = {
    "no pace": (lambda: RealTime(speed=0.0), "--realtime.speed must lie in"),
    "nowhere to join": (lambda: RealTime(outside=(3,)), "belong together"),
    "nobody to join": (lambda: RealTime(hub="tcp://127.0.0.1:5"), "belong together"),
    "one twice": (lambda: RealTime(outside=(3, 3), hub="tcp://127.0.0.1:5"), "names a client twice"),
    "no keys beyond this host": (lambda: RealTime(outside=(3,), hub="tcp://10.0.0.1:5"), "needs keys"),
    "no clock": (lambda: real_time_wanted(None, [3], None, "tcp://127.0.0.1:5", None), "add --realtime"),
    "workers": (lambda: real_time_wanted(1.0, [3], 2, "tcp://127.0.0.1:5", None), "leave --workers out"),
}


@pytest.mark.parametrize(("ask", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_played_outside_is_said_at_once(ask: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ask()


UNFIT: dict[str, tuple[dict[str, Any], tuple[int, ...], str]] = {
    "no such client": ({}, (4,), "its 4 clients are 0 to 3"),
    "nobody is left": ({}, (0, 1, 2, 3), "one at least must be emulated"),
    "waiting for ever": ({"network.missing": "wait"}, (3,), "'skip' or 'stale'"),
    "fewer bits": ({"sharing.codec": "float16"}, (3,), "sharing.codec = 'float32'"),
    "not in every round": ({"sharing.every": 2}, (3,), "sharing.every = 1"),
    "more than averages": ({"algorithm": "sheaf_dmfl"}, (3,), "needs more than averaging from a client"),
}


@pytest.mark.parametrize(("edits", "outside", "sentence"), UNFIT.values(), ids=UNFIT.keys())
def test_a_scenario_that_outside_clients_cannot_share_is_refused(
    tiny: Scenario, tmp_path: Path, edits: dict[str, Any], outside: tuple[int, ...], sentence: str
) -> None:
    scenario = tiny.edited({"algorithm": "dsgd", **edits})
    with pytest.raises(ConfigError, match=sentence):
        run_scenario(scenario, tmp_path / "run", real_time=RealTime(1.0, outside, "tcp://127.0.0.1:*"))
    assert not list(tmp_path.iterdir())


def test_a_run_that_nobody_joins_ends_with_a_sentence(tiny: Scenario, tmp_path: Path) -> None:
    nobody = RealTime(1.0, (3,), "tcp://127.0.0.1:*", join_s=0.2)
    with pytest.raises(TransportError, match="no process joined as outside client 3"):
        run_scenario(tiny.edited({"algorithm": "dsgd"}), tmp_path / "run", real_time=nobody)
    assert not list(tmp_path.iterdir())


# --- a client that says nothing, or nonsense -------------------------------------------------------------------------


def play_badly(hub: str, client: int, numbers: float | None) -> None:
    """Take every turn with an encoder of these numbers; without any, take none."""
    with OutsidePlayer(hub) as player:
        player.join(client)
        place = player.hear("place").fields
        _, kind, modality, dtype, length, _, _, weights = place["shared"][0]
        while (packet := player.hear("turn", "look", "refused", "stop")).type != "stop":
            ticket = packet.fields.get("ticket")
            if packet.type == "turn" and numbers is not None:
                about = [packet.fields["round"], "mix", modality, dtype, 0, None]
                messages = [[kind, client, neighbor, *about] for neighbor, _ in weights]
                encoder = np.full(length, numbers, dtype).tobytes()
                player.say("turn_done", {"ticket": ticket, "messages": messages, "expected": []}, [encoder])
            elif packet.type == "look":
                player.say("look_done", {"ticket": ticket, "row": {}, "phases": []})


def run_with(scenario: Scenario, out: Path, numbers: float | None) -> RunResult:
    client, hub = gps_only(scenario), free_hub()
    with in_the_background(lambda: play_badly(hub, client, numbers)):
        return run_scenario(scenario, out, real_time=RealTime(SPEED, (client,), hub))


@pytest.fixture(scope="module")
def silent(tiny: Scenario, tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run whose outside client joins and says nothing."""
    return run_with(averaging(tiny, patience_s=0.2), tmp_path_factory.mktemp("silent") / "run", None)


def test_the_run_goes_on_without_a_client_that_says_nothing(silent: RunResult, tiny: Scenario) -> None:
    (outside,) = silent.summary["outside"]
    assert outside == {
        "client": gps_only(averaging(tiny, 0.2)), "name": "player",
        "turns": N_ROUNDS, "turns_in_time": 0, "joined": 1, "late": 0, "refused": 0,
    }  # fmt: skip
    console = Console(file=StringIO(), width=200)
    print_result(console, silent)
    assert isinstance(console.file, StringIO)
    assert f"answered 0 of {N_ROUNDS} turns in time" in console.file.getvalue()
    assert "gps" not in silent.summary["groups"], "nobody here knows how well it does"
    assert all(len(rounds) == N_ROUNDS for rounds in losses(silent).values())


def test_numbers_that_are_none_do_as_much_as_silence(silent: RunResult, tiny: Scenario, tmp_path: Path) -> None:
    poisoned = run_with(averaging(tiny, patience_s=0.5), tmp_path / "run", float("nan"))
    (outside,) = poisoned.summary["outside"]
    assert outside["turns_in_time"] == 0
    assert outside["refused"] > 0
    assert losses(poisoned) == losses(silent)


# --- the example that ships ------------------------------------------------------------------------------------------


@contextmanager
def example(hub: str, client: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(EXAMPLE), hub, str(client), "--patience-s", str(PATIENCE_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.checkout
def test_what_the_example_sends_is_used_by_its_neighbors_alone(
    silent: RunResult, tiny: Scenario, tmp_path: Path
) -> None:
    scenario, hub = averaging(tiny, patience_s=2.0), free_hub()
    client = gps_only(scenario)
    with example(hub, client) as process:
        result = run_scenario(scenario, tmp_path / "run", real_time=RealTime(SPEED, (client,), hub))
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert said.count("\nround ") == N_ROUNDS
    (outside,) = result.summary["outside"]
    assert outside["turns"] == N_ROUNDS
    assert outside["turns_in_time"] > 0
    with_it, without_it = losses(result), losses(silent)
    share_gps = {m.client_id for m in members_of(scenario) if "gps" in m.modalities} - {client}
    others = {m.client_id for m in members_of(scenario)} - share_gps - {client}
    assert share_gps
    assert others, "whoever shares nothing with it is the negative control"
    for neighbor in share_gps:
        assert with_it[neighbor] != without_it[neighbor]
    for stranger in others:
        assert with_it[stranger] == without_it[stranger]
    assert with_it[client][-1] > 0.0, "its own report is in the table of the run"


@pytest.mark.checkout
def test_killing_the_example_does_not_stop_the_run(tiny: Scenario, tmp_path: Path) -> None:
    # A message takes a fifth of a real second, so that rounds are not over before anybody can be killed.
    scenario, hub = averaging(tiny, patience_s=0.7).edited({"link.propagation_s": 0.2 * SPEED}), free_hub()
    client = gps_only(scenario)

    def kill_in_the_middle(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("round 2/"):
                process.kill()

    with example(hub, client) as process, in_the_background(lambda: kill_in_the_middle(process)):
        result = run_scenario(scenario, tmp_path / "run", real_time=RealTime(SPEED, (client,), hub))
    (outside,) = result.summary["outside"]
    assert process.returncode < 0, "it was killed"
    assert 0 < outside["turns_in_time"] < outside["turns"] == N_ROUNDS
    assert all(len(rounds) == N_ROUNDS for rounds in losses(result).values())


@pytest.mark.checkout
def test_the_example_needs_numpy_msgpack_and_zeromq_alone() -> None:
    tree = ast.parse(EXAMPLE.read_text(encoding="utf-8"))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    tops = {name.split(".")[0] for name in names}
    assert tops - set(sys.stdlib_module_names) == {"numpy", "msgpack", "zmq"}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"__import__", "exec", "eval"}
