"""A client of a running emulation in its own process, without sheafedge: it needs numpy, msgpack and pyzmq.

    sheafedge run beam_tracking --set algorithm=dsgd --set network.deadline_s=0.5 \
        --realtime 1.0 --outside 3 --hub tcp://127.0.0.1:5555
    python outside_client.py tcp://127.0.0.1:5555 3

It averages received vectors with the given mixing weights, as all clients of this algorithm do. Between two averages it
trains those encoders that are small perceptrons, here on synthetic samples. docs/protocol.md specifies the protocol.
"""

import argparse
import math
import os
import time
import zlib
from pathlib import Path

import msgpack
import numpy as np
import zmq

VERSION = 1
N_SAMPLES, N_STEPS, STEP_SIZE = 64, 5, 0.05


# --- packets ---------------------------------------------------------------------------------------------------------


def packed(kind, fields, frames=()):
    """Frames of a packet: header, and the numbers that it refers to."""
    checksum = 0
    for frame in frames:
        checksum = zlib.crc32(frame, checksum)
    return [msgpack.packb({"version": VERSION, "type": kind, "checksum": checksum, **fields}), *frames]


def unpacked(parts):
    """Header and frames of a packet."""
    header, frames = msgpack.unpackb(parts[0]), parts[1:]
    if header["version"] != VERSION:
        raise SystemExit(f"the emulation uses protocol version {header['version']}, this client {VERSION}")
    if header["checksum"] != zlib.crc32(b"".join(frames)):
        raise SystemExit("a packet has a wrong checksum")
    return header, frames


# --- learning --------------------------------------------------------------------------------------------------------


class Vector:
    """A vector that is averaged with neighbors, such as all parameters of an encoder."""

    def __init__(self, description, frames, draws):
        self.phase, self.kind, self.modality, self.dtype, self.length, self.parts, frame, weights = description
        self.values = np.frombuffer(frames[frame], self.dtype).copy()
        self.weights = dict(weights)
        shapes = [tuple(shape) for _, shape in self.parts]
        self.is_perceptron = len(shapes) == 4 and [len(shape) for shape in shapes] == [2, 1, 2, 1]
        if self.is_perceptron:  # weight, bias, weight, bias; synthetic task: on which side of a plane is a point?
            self.inputs = draws.normal(size=(N_SAMPLES, shapes[0][1]))
            self.answers = (self.inputs @ draws.normal(size=shapes[0][1]) > 0).astype(float)
            self.head = np.zeros(shapes[2][0])  # not shared

    def train(self):
        """A few steps of gradient descent; returns the loss before the last one."""
        loss = 0.0
        for _ in range(N_STEPS):
            w1, b1, w2, b2 = self.arrays()
            hidden = np.maximum(self.inputs @ w1.T + b1, 0.0)
            embedding = hidden @ w2.T + b2
            chance = 1.0 / (1.0 + np.exp(-(embedding @ self.head)))
            loss = -np.mean(np.log(np.where(self.answers > 0, chance, 1.0 - chance) + 1e-12))
            error = (chance - self.answers) / N_SAMPLES
            to_embedding = np.outer(error, self.head)
            to_hidden = (to_embedding @ w2) * (hidden > 0)
            gradients = (to_hidden.T @ self.inputs, to_hidden.sum(0), to_embedding.T @ hidden, to_embedding.sum(0))
            self.head -= STEP_SIZE * (error @ embedding)
            step = np.concatenate([gradient.ravel() for gradient in gradients])
            self.values -= (STEP_SIZE * step).astype(self.dtype)
        return float(loss)

    def arrays(self):
        """The arrays that the vector is made of."""
        at, arrays = 0, []
        for _, shape in self.parts:
            n = math.prod(shape)
            arrays.append(self.values[at : at + n].reshape(shape).astype(float))
            at += n
        return arrays

    def mix(self, received):
        """Average with {neighbor: (values, mask)}; the weight of a missing neighbor stays with the own values."""
        mixed = self.values.astype(float)
        for neighbor, (values, mask) in received.items():
            mixed += self.weights[neighbor] * np.where(mask, values - self.values, 0.0)
        self.values = mixed.astype(self.dtype)


class Client:
    """State of the client: its vectors, and figures of the current round."""

    def __init__(self, place, frames):
        self.client, self.n_rounds = place["client"], place["rounds"]
        draws = np.random.default_rng(self.client)
        self.vectors = [Vector(description, frames, draws) for description in place["shared"]]
        self.first_phase = place["phases"][0][0]
        self.loss, self.n_received = 0.0, 0

    def turn(self, request, frames):
        """Train at the start of a round, and send vectors to neighbors; returns fields and frames of the reply."""
        self.absorb(request, frames)
        if request["phase"] == self.first_phase:
            losses = [vector.train() for vector in self.vectors if vector.is_perceptron]
            self.loss, self.n_received = float(np.mean(losses)) if losses else 0.0, 0
        messages, numbers = [], []
        for vector in (vector for vector in self.vectors if vector.phase == request["phase"]):
            frame = len(numbers)
            numbers.append(vector.values.tobytes())
            for neighbor in vector.weights:
                about = [vector.kind, self.client, neighbor, request["round"], request["phase"]]
                messages.append([*about, vector.modality, vector.dtype, frame, None])
        return {"messages": messages, "expected": []}, numbers

    def look(self, request, frames):
        """End of a round: absorb the last messages, and report figures for metrics.jsonl."""
        self.absorb(request, frames)
        print(
            f"round {request['round'] + 1}/{self.n_rounds}  heard {self.n_received}  loss {self.loss:.4f}", flush=True
        )
        return {"row": {"loss": self.loss, "heard": self.n_received}, "phases": []}, []

    def absorb(self, request, frames):
        """Average the messages received in the phase that has ended."""
        for vector in self.vectors:
            received = {}
            for kind, sender, _, _, phase, modality, dtype, frame, mask in request["messages"]:
                if (kind, phase, modality) == (vector.kind, vector.phase, vector.modality):
                    bits = None if mask is None else np.frombuffer(frames[mask], np.uint8)
                    mask_values = True if bits is None else np.unpackbits(bits, count=vector.length).astype(bool)
                    received[sender] = np.frombuffer(frames[frame], dtype), mask_values
            vector.mix(received)
            self.n_received += len(received)


# --- main loop -------------------------------------------------------------------------------------------------------


def run(socket, number, timeout_s):
    """Join, answer requests until the emulation ends."""
    socket.send_multipart(packed("join", {"name": f"outside_client.py, pid {os.getpid()}", "client": number}))
    client, received_s, beat_s = None, time.monotonic(), time.monotonic()
    while True:
        if socket.poll(500):
            header, frames = unpacked(socket.recv_multipart())
            received_s = time.monotonic()
            kind = header["type"]
            if kind == "place":
                client = Client(header, frames)
                print(f"client {number}: {len(client.vectors)} vectors, neighbors {header['neighbors']}", flush=True)
            elif kind in ("turn", "look"):
                fields, numbers = getattr(client, kind)(header, frames)
                socket.send_multipart(packed(f"{kind}_done", {"ticket": header["ticket"], **fields}, numbers))
            elif kind == "refused":
                raise SystemExit(f"refused: {header['sentence']}")
            elif kind == "stop":
                return
        now_s = time.monotonic()
        if now_s - beat_s > 1.0:  # heartbeat: otherwise another program may take this place
            socket.send_multipart(packed("alive", {}))
            beat_s = now_s
        if now_s - received_s > timeout_s:
            raise SystemExit(f"no packet from the emulation for {timeout_s:g} s")


def main():
    """Command line: connect, run, disconnect."""
    parser = argparse.ArgumentParser(description="Take the place of one client of a running emulation.")
    parser.add_argument("hub", help="as given to sheafedge run --hub, such as tcp://127.0.0.1:5555")
    parser.add_argument("client", type=int, help="as given to sheafedge run --outside")
    parser.add_argument("--keys", type=Path, help="folder made by sheafedge keys; needed beyond this host")
    parser.add_argument(
        "--patience-s", type=float, default=60.0, help="give up after this many seconds without a packet"
    )
    options = parser.parse_args()
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.linger = 500
    if options.keys:
        socket.curve_publickey = (options.keys / "worker.public").read_bytes().strip()
        socket.curve_secretkey = (options.keys / "worker.secret").read_bytes().strip()
        socket.curve_serverkey = (options.keys / "engine.public").read_bytes().strip()
    socket.connect(options.hub)
    try:
        run(socket, options.client, options.patience_s)
    finally:
        socket.send_multipart(packed("leaving", {"sentence": "done"}))
        socket.close()
        context.term()


if __name__ == "__main__":
    main()
