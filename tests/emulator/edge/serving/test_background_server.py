from __future__ import annotations

import threading
from pathlib import Path

import pytest
from doubles.bundles import tiny_bundle
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.edge.bundle import load_bundle
from sheafedge.emulator.edge.frame_client import FrameClient
from sheafedge.emulator.edge.frame_packets import Description
from sheafedge.emulator.edge.serving.background_server import serve
from sheafedge.emulator.network.transport.errors import TransportError

#: Longest wait for a reply on a busy machine.
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("served") / "bundle"
    tiny_bundle(found)
    return found


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "sheafedge-serve"]


def test_a_bundle_is_served_until_its_block_ends(folder: Path) -> None:
    with serve(load_bundle(folder, trial=None)) as server, FrameClient(server.address) as client:
        client.ask_description()
        assert isinstance(client.receive(LIMIT_S), Description)
        assert server.counts["packets"] == 1
        assert threads()
    server.close()  # a second time, which does nothing
    assert not threads()


def test_what_cannot_be_served_is_raised_where_it_was_asked_for(folder: Path) -> None:
    bundle = load_bundle(folder, trial=None)
    with pytest.raises(ConfigError):
        serve(bundle, "udp://127.0.0.1:5")
    with serve(bundle) as server, pytest.raises(TransportError):
        serve(bundle, server.address)
    assert not threads()
