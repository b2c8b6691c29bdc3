"""Client of a served model: sends frames of sensors, receives answers. Needs numpy, msgpack and pyzmq only.

with FrameClient("tcp://127.0.0.1:5570") as client:
    client.send("bs00", 17, 1.7, {"lidar": lidar, "rf": rf})
    reply = client.receive(timeout_s=1.0)
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import zmq
from numpy.typing import NDArray

from ..contracts import ConfigError, Modality
from ..network.transport.curve_keys import CurveKeys, check_address, use_keys
from ..network.transport.errors import TransportError, WireError
from ..network.transport.packets import Packet, pack_packet, unpack_packet
from ..network.transport.sockets import open_socket, send_frames
from .frame_packets import MOST_TEXT_BYTES, TO_CLIENT, TO_SERVER, Reply, check_boot, pack_frames, unpack_reply


class FrameClient:
    """Connection to one server of models; belongs to the thread that made it, as its socket does.

    Args:
        address: address of the server, tcp://HOST:PORT or ipc://FILE.
        keys: keys of this end; needed beyond this host.
        timeout_s: longest wait for room to send; a server that is not there yet is waited for by ZeroMQ itself, which
            keeps a thousand packets until then.
        boot: mark of this start of the sensors, sent with all frames, so that they are heard at once where they count
            from 0 again; give the one of before to a client that goes on counting. None: drawn at random.

    Attributes:
        boot: the mark.

    Raises:
        ConfigError: it is no address, one beyond this host and there are no keys, or no such mark.
        TransportError: it cannot be connected.

    Examples:
        >>> import json
        >>> from sheafedge import FrameClient, load_run, serve
        >>> (made,) = load_run("runs/digits").export([1])  # of sheafedge run digits --set rounds=5 --out runs/digits
        >>> with serve(made.folder) as server, FrameClient(server.address) as client:
        ...     client.ask_description()
        ...     json.loads(client.receive(timeout_s=60.0).manifest)["name"]
        'digits-client-01'
    """

    def __init__(
        self, address: str, *, keys: CurveKeys | None = None, timeout_s: float = 5.0, boot: str | int | None = None
    ) -> None:
        check_address(address, keys, "server")
        self.boot = secrets.token_hex(8) if boot is None else boot
        try:
            check_boot(self.boot)
        except WireError as error:
            raise ConfigError(str(error)) from None
        self.address, self._timeout_s = address, timeout_s
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        # The longest frame that a server sends is the text of a description.
        self._socket = open_socket(self._context, zmq.DEALER, timeout_s, MOST_TEXT_BYTES)
        try:
            if keys is not None:
                use_keys(self._socket, keys, "worker")
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise TransportError(f"{address} cannot be connected ({error}); give tcp://HOST:PORT of a server") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self, stream: str, index: int, time_s: float, frames: Mapping[Modality, NDArray[Any]], *, ask: bool = True
    ) -> None:
        """Send the frames of one instant; does not wait for the answer.

        Args:
            stream: name of whose sensors they are.
            index: number of the instant, one more each time.
            time_s: time of the instant on the sensors' clock.
            frames: modality -> one frame of the manifest's `frame_shape`.
            ask: whether an answer about this instant is requested; separate sensors request it with their last frame.

        Raises:
            WireError: numbers of a kind that is not sent.
            TransportError: the server takes nothing in time.
        """
        self.say(pack_frames(stream, index, time_s, frames, ask=ask, boot=self.boot))

    def forget(self, stream: str) -> None:
        """Empty the windows of a stream, which can begin again at any index; the reply is `Forgotten`."""
        self.say(Packet("forget", {"stream": stream}))

    def ask_description(self) -> None:
        """Request a description of the served model; the reply is a `Description`."""
        self.say(Packet("describe", {}))

    def ask_health(self) -> None:
        """Request the state of the server; the reply is `Healthy`."""
        self.say(Packet("health", {}))

    def say(self, packet: Packet) -> None:
        """Send any packet of the protocol.

        Raises:
            WireError: it is none.
            TransportError: the server takes nothing in time.
        """
        parts = pack_packet(packet, TO_SERVER)
        try:
            send_frames(self._socket, parts)
        except zmq.Again:
            raise TransportError(
                f"{self.address} took nothing within {self._timeout_s:g} s; is the server there?"
            ) from None
        except zmq.ZMQError as error:
            raise TransportError(f"the socket to {self.address} is gone ({error})") from None

    def receive(self, timeout_s: float = 0.0) -> Reply | None:
        """Next reply of the server; None: none in time.

        Args:
            timeout_s: longest wait.

        Raises:
            WireError: the other end uses another protocol.
            TransportError: the socket is gone.
        """
        try:
            if not self._socket.poll(max(0, round(1000 * timeout_s)), zmq.POLLIN):
                return None
            parts = self._socket.recv_multipart()
        except zmq.ZMQError as error:
            raise TransportError(f"the socket to {self.address} is gone ({error})") from None
        try:
            return unpack_reply(unpack_packet(parts, TO_CLIENT))
        except WireError as error:
            raise WireError(f"{self.address} is no server of models: {error}") from None

    def close(self) -> None:
        """Free the socket; what was not sent yet is lost."""
        self._socket.close(linger=0)  # otherwise the program would wait for a server that is gone
        self._context.term()
