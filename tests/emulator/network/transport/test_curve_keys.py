"""Keys for workers on other hosts: made once, read with care, and asked for wherever strangers could come."""

from __future__ import annotations

from pathlib import Path

import pytest
from sheafedge.emulator.contracts import ConfigError
from sheafedge.emulator.network.transport.curve_keys import CurveKeys, check_address, is_loopback, make_keys, read_keys


def test_the_two_ends_know_each_other_and_not_each_others_secrets(tmp_path: Path) -> None:
    make_keys(tmp_path)
    engine, worker = read_keys(tmp_path, "engine"), read_keys(tmp_path, "worker")
    assert (engine.other, worker.other) == (worker.public, engine.public)
    assert len({engine.public, engine.secret, worker.public, worker.secret}) == 4


def test_a_worker_needs_no_secret_of_the_engine(tmp_path: Path) -> None:
    make_keys(tmp_path)
    (tmp_path / "engine.secret").unlink()
    read_keys(tmp_path, "worker")
    with pytest.raises(ConfigError, match=r"engine\.secret cannot be read"):
        read_keys(tmp_path, "engine")


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    for path in make_keys(tmp_path):
        assert path.stat().st_mode & 0o777 == (0o600 if path.suffix == ".secret" else 0o644)
    assert read_keys(tmp_path, "worker").secret.decode() not in repr(read_keys(tmp_path, "worker"))
    (tmp_path / "worker.secret").chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_keys(tmp_path, "worker")


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in make_keys(tmp_path)}
    (tmp_path / "engine.public").unlink()
    with pytest.raises(ConfigError, match="exists already"):
        make_keys(tmp_path)
    assert not (tmp_path / "engine.public").exists()
    assert all(path.read_bytes() == key for path, key in before.items() if path.exists())


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 41, b'"' * 40, bytes(40)])
def test_what_is_no_key_is_named(content: bytes, tmp_path: Path) -> None:
    make_keys(tmp_path)
    (tmp_path / "engine.public").write_bytes(content)
    with pytest.raises(ConfigError, match=r"engine\.public holds no key"):
        read_keys(tmp_path, "worker")


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("localhost", True), ("[::1]", True), ("0.0.0.0", False),  # noqa: S104 - nothing is bound here
        ("10.0.0.7", False), ("engine.example", False), ("*", False), ("127.0.0.1.example", False),
    ],
)  # fmt: skip
def test_only_this_machine_is_loopback(host: str, is_ours: bool) -> None:
    assert is_loopback(host) is is_ours
    keys = CurveKeys(b"public", b"secret", b"other")
    check_address(f"tcp://{host}:5555", keys)
    if is_ours:
        check_address(f"tcp://{host}:5555", None)
    else:
        with pytest.raises(ConfigError, match="sheafedge keys"):
            check_address(f"tcp://{host}:5555", None)


@pytest.mark.parametrize(
    "address",
    ["", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:99999", "udp://127.0.0.1:5", "ipc://"],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="tcp://HOST:PORT"):
        check_address(address, None)
