"""Every command of `compose.yaml`, in its order and with its arguments, on this machine instead of in containers."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).resolve().parents[2]
#: Instead of a day's worth of training.
SMALL = {"ROUNDS": "2", "SECONDS_OF_STREET": "60"}
GIVE_UP_S = 240.0  # only broken code, on a very busy machine, ever takes so long
COMMAND = [sys.executable, "-c", "from sheafedge.scenarios.entry import main; main()"]


def services() -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    return found


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def filled_in(text: str, ports: Mapping[str, str]) -> str:
    """Variables as a shell that knows `SMALL` would give them, hosts and ports of this machine."""
    text = text.replace("$$", "$")
    text = re.sub(r"\$\{(\w+)(?::-(.*?))?\}", lambda found: SMALL.get(found[1], found[2] or ""), text)
    return re.sub(r"\b(hub|serve|0\.0\.0\.0):(\d+)", lambda found: f"127.0.0.1:{ports[found[2]]}", text)


def argv(service: Mapping[str, Any], ports: Mapping[str, str], folder: Path) -> list[str]:
    words = [filled_in(word, ports) for word in service["command"]]
    if service.get("entrypoint") != ["sh", "-c"]:
        return [*COMMAND, *words]
    script = folder / "sheafedge"
    if not script.exists():  # a script that another service runs cannot be written
        script.write_text(
            f"#!/bin/sh\nexec {sys.executable} -c 'from sheafedge.scenarios.entry import main; main()' \"$@\"\n"
        )
        script.chmod(0o755)
    return ["sh", "-c", *words]


def in_order(found: Mapping[str, Any]) -> list[str]:
    """Whoever is needed comes first."""
    order: list[str] = []
    while len(order) < len(found):
        ready = [name for name in found if name not in order and set(found[name].get("depends_on", {})) <= set(order)]
        assert ready, "services wait for each other"
        order += ready
    return order


@contextmanager
def ended(started: list[subprocess.Popen[str]]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.communicate()


class Composed:
    """The services of one `docker compose up`, started in their order on this machine.

    Attributes:
        said: service -> what it printed, once it has ended.
    """

    def __init__(self, folder: Path) -> None:
        self.said: dict[str, str] = {}
        self.running: dict[str, list[subprocess.Popen[str]]] = {}
        self.everybody: list[subprocess.Popen[str]] = []
        self._services, self._folder = services(), folder
        self._ports = {port: free_port() for port in ("5555", "5560", "9100")}

    def up(self) -> None:
        for name in in_order(self._services):
            for needed, how in self._services[name].get("depends_on", {}).items():
                if how["condition"] == "service_completed_successfully":
                    for other in [worker for worker in self.running if needed == "hub" and worker == "worker"]:
                        self.finish(other)
                    self.finish(needed)
            for _ in range(self._services[name].get("deploy", {}).get("replicas", 1)):
                process = subprocess.Popen(
                    argv(self._services[name], self._ports, self._folder),
                    cwd=self._folder,
                    env={
                        **os.environ,
                        "PATH": f"{self._folder}:{os.environ['PATH']}",
                        "XDG_CACHE_HOME": str(self._folder / "cache"),
                    },
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                self.running.setdefault(name, []).append(process)
                self.everybody.append(process)

    def finish(self, name: str) -> None:
        for process in self.running.pop(name, []):
            out, err = process.communicate(timeout=GIVE_UP_S)
            self.said[name] = out
            assert process.returncode == 0, f"{name}: {out}\n{err}"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_command_does_its_part_and_a_second_time_only_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for trains in (True, False):
        composed = Composed(tmp_path)
        with ended(composed.everybody):
            composed.up()
            composed.finish("replay")
            assert "onsets" in composed.said["replay"]
            composed.running["serve"][0].send_signal(signal.SIGTERM)
            composed.finish("serve")
            assert not composed.running
        assert ("trace" in composed.said["hub"]) is trains
        assert bool(composed.said["export"]) is trains


def test_the_edge_image_installs_the_edge_set_and_nothing_of_torch() -> None:
    """Listed in the Dockerfile, because there is no way to install an extra without the package's own dependencies."""
    edge = (ROOT / "Dockerfile").read_text(encoding="utf-8").partition("AS edge")[2].partition("AS trainer")[0]
    installed = re.findall(r"constraints\.txt ((?:[a-z]+ ?)+)", edge)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    names = {re.match(r"[a-z]+", line)[0] for line in extras["edge"]}  # type: ignore[index]
    assert [set(line.split()) for line in installed] == [names]


def test_every_service_waits_only_for_services_that_there_are() -> None:
    found = services()
    assert set(in_order(found)) == set(found)
    assert {service["image"] for service in found.values()} == {"sheafedge", "sheafedge-edge"}
