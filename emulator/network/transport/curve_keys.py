"""Access over tcp: CURVE keys of the engine and its workers, kept as small files, and their authentication.

Everything on the wire is then encrypted, the engine knows that a worker holds the workers' secret key, and a worker
that the engine holds its own. Without keys only loopback addresses are used.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import zmq
from zmq.utils import z85

from ...contracts import ConfigError
from .errors import TransportError

End = Literal["engine", "worker"]
ENDS: tuple[End, End] = ("engine", "worker")

_KEY_LENGTH = 40  # characters of a Z85 key
_DOMAIN = b"sheafedge"
_ZAP_ADDRESS = "inproc://zeromq.zap.01"  # where ZeroMQ sends its requests, see its RFC 27


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """Keys that one end needs.

    Attributes:
        public, secret: the end's own keys, Z85.
        other: the other end's public key, Z85.
    """

    public: bytes
    secret: bytes
    other: bytes

    def __repr__(self) -> str:
        """Without the secret, which must not get into any log."""
        return f"CurveKeys({self.public.decode()})"


def make_keys(folder: Path) -> list[Path]:
    """Two key pairs in a folder: `engine.public`, `engine.secret`, `worker.public` and `worker.secret`.

    Returns:
        the files; the secret ones can be read by their owner only.

    Raises:
        ConfigError: one of them exists, or the folder cannot be written.
    """
    pairs = {end: zmq.curve_keypair() for end in ENDS}
    texts = {f"{end}.{part}": key for end in ENDS for part, key in zip(("public", "secret"), pairs[end], strict=True)}
    if there := [name for name in texts if os.path.lexists(folder / name)]:
        raise ConfigError(f"{folder / there[0]} exists already and is not overwritten; choose another folder for keys")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, key in texts.items():
            # The mode is given at creation: between creating and chmod others could open the file. O_EXCL never
            # overwrites.
            mode = 0o600 if name.endswith("secret") else 0o644
            with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(key + b"\n")
    except OSError as error:
        raise ConfigError(f"keys cannot be written to {folder} ({error.strerror}); choose another folder") from None
    return [folder / name for name in texts]


def read_keys(folder: Path, end: End) -> CurveKeys:
    """Keys of one end.

    Raises:
        ConfigError: a file is missing, holds no key, or shows a secret to others.
    """
    (other,) = (each for each in ENDS if each != end)
    secret = folder / f"{end}.secret"
    keys = CurveKeys(_key(folder / f"{end}.public"), _key(secret), _key(folder / f"{other}.public"))
    if secret.stat().st_mode & 0o077:
        raise ConfigError(f"{secret} can be read by others; chmod 600 it")
    return keys


def _key(path: Path) -> bytes:
    try:
        # Room for a line end; anything longer fails to decode.
        text = path.read_bytes()[: _KEY_LENGTH + 2].strip()
        if len(z85.decode(text)) != 32:
            raise ValueError
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); make keys with: sheafedge keys FOLDER") from None
    except (ValueError, KeyError):
        raise ConfigError(f"{path} holds no key of {_KEY_LENGTH} characters; make keys with: sheafedge keys") from None
    return text


def check_address(address: str, keys: CurveKeys | None, what: str = "hub") -> None:
    """Refuse addresses that unknown processes could connect to.

    Args:
        address: address to bind or connect.
        keys: None: loopback only.
        what: lives there, for the sentence.

    Raises:
        ConfigError: it is no such address, or lies beyond loopback and there are no keys.
    """
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    if address.startswith("ipc://") and len(address) > len("ipc://"):
        return
    if not address.startswith("tcp://") or not host or not (port == "*" or (port.isdecimal() and int(port) < 1 << 16)):
        raise ConfigError(f"{what} address must be tcp://HOST:PORT or ipc://FILE, got {address!r}")
    if keys is None and not is_loopback(host):
        raise ConfigError(
            f"{address} can be reached from other hosts, so it needs keys; make them with sheafedge keys FOLDER, copy"
            " the folder, and give --keys FOLDER on both sides"
        )


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def use_keys(socket: zmq.Socket[bytes], keys: CurveKeys, end: End) -> None:
    """Give a socket the keys of this end; before it binds or connects."""
    socket.curve_publickey, socket.curve_secretkey = keys.public, keys.secret
    if end == "engine":
        socket.curve_server = True
        socket.zap_domain = _DOMAIN
    else:
        socket.curve_serverkey = keys.other


class KeyAuthenticator:
    """Authenticates connections for ZeroMQ (its protocol ZAP): only holders of the workers' secret key may connect.

    Args:
        context: context of the sockets to protect; it has one authenticator.
        keys: keys of the engine.

    Attributes:
        socket: socket to poll; call `answer` when it has a request.
        n_refused: number of connections that were refused.

    Raises:
        TransportError: the context has an authenticator already.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: CurveKeys) -> None:
        self._allowed = z85.decode(keys.other)
        self.n_refused = 0
        self.socket = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        try:
            self.socket.bind(_ZAP_ADDRESS)
        except zmq.ZMQError as error:
            self.socket.close()
            raise TransportError(f"keys cannot be checked in this process ({error})") from None

    def answer(self, most: int = 1) -> None:
        """Reply to requests of ZeroMQ that wait, to so many at most; one at least must wait."""
        self._answer_one()
        for _ in range(most - 1):
            if not self.socket.poll(0):
                return
            self._answer_one()

    def _answer_one(self) -> None:
        parts = self.socket.recv_multipart()
        version, request = parts[0], parts[1] if len(parts) > 1 else b""
        # RFC 27: version, request id, domain, address, identity, mechanism and, for CURVE, one credential: the public
        # key.
        known = len(parts) == 7 and parts[5] == b"CURVE" and parts[6] == self._allowed
        self.n_refused += not known
        # Status codes of RFC 27: 200 success, 400 authentication failure.
        status = (b"200", b"OK") if known else (b"400", b"unknown key")
        self.socket.send_multipart([version, request, *status, b"worker" if known else b"", b""])

    def close(self) -> None:
        """Free the socket."""
        self.socket.close()
