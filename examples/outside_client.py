"""A client of a running emulation, in a process of its own and without sheafedge: numpy, msgpack and pyzmq suffice.

    sheafedge run beam_tracking --set algorithm=dsgd --set network.deadline_s=0.5 \
        --realtime 1.0 --outside 3 --hub tcp://127.0.0.1:5555
    python outside_client.py tcp://127.0.0.1:5555 3

It averages what it hears with the weights that it is told, as all clients of this algorithm do, and between two
averages trains the encoders that are small perceptrons, here on made-up rows. docs/protocol.md tells what is said.
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
N_ROWS, N_STEPS, STEP_SIZE = 64, 5, 0.05


# --- what is said ----------------------------------------------------------------------------------------------------


def packed(kind, fields, frames=()):
    """The frames of a packet: a header, and the numbers that it refers to."""
    checksum = 0
    for frame in frames:
        checksum = zlib.crc32(frame, checksum)
    return [msgpack.packb({"version": VERSION, "type": kind, "checksum": checksum, **fields}), *frames]


def unpacked(parts):
    """Header and frames of a packet."""
    header, frames = msgpack.unpackb(parts[0]), parts[1:]
    if header["version"] != VERSION:
        raise SystemExit(f"the emulation speaks version {header['version']}, this client {VERSION}")
    if header["checksum"] != zlib.crc32(b"".join(frames)):
        raise SystemExit("numbers were changed on their way")
    return header, frames


# --- what is learned -------------------------------------------------------------------------------------------------


class Vector:
    """A vector that is averaged with neighbors, such as all parameters of an encoder."""

    def __init__(self, told, frames, draws):
        self.phase, self.kind, self.modality, self.dtype, self.length, self.parts, frame, weights = told
        self.values = np.frombuffer(frames[frame], self.dtype).copy()
        self.weights = dict(weights)
        shapes = [tuple(shape) for _, shape in self.parts]
        self.is_perceptron = len(shapes) == 4 and [len(shape) for shape in shapes] == [2, 1, 2, 1]
        if self.is_perceptron:  # weight, bias, weight, bias; the task is made up: which side of a plane is it on?
            self.inputs = draws.normal(size=(N_ROWS, shapes[0][1]))
            self.answers = (self.inputs @ draws.normal(size=shapes[0][1]) > 0).astype(float)
            self.head = np.zeros(shapes[2][0])  # stays here

    def train(self):
        """A few steps of gradient descent; returns the loss before the last one."""
        loss = 0.0
        for _ in range(N_STEPS):
            w1, b1, w2, b2 = self.arrays()
            hidden = np.maximum(self.inputs @ w1.T + b1, 0.0)
            embedding = hidden @ w2.T + b2
            chance = 1.0 / (1.0 + np.exp(-(embedding @ self.head)))
            loss = -np.mean(np.log(np.where(self.answers > 0, chance, 1.0 - chance) + 1e-12))
            error = (chance - self.answers) / N_ROWS
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

    def mix(self, heard):
        """Average with those that were heard, {neighbor: (values, mask)}; who is missing leaves its weight here."""
        mixed = self.values.astype(float)
        for neighbor, (values, mask) in heard.items():
            mixed += self.weights[neighbor] * np.where(mask, values - self.values, 0.0)
        self.values = mixed.astype(self.dtype)


class Client:
    """One client among the others."""

    def __init__(self, place, frames):
        self.client, self.n_rounds = place["client"], place["rounds"]
        draws = np.random.default_rng(self.client)
        self.vectors = [Vector(told, frames, draws) for told in place["shared"]]
        self.first_phase = place["phases"][0][0]
        self.loss, self.n_heard = 0.0, 0

    def turn(self, asked, frames):
        """Train where a round begins, and tell neighbors; returns fields and frames of the answer."""
        self.hear(asked, frames)
        if asked["phase"] == self.first_phase:
            losses = [vector.train() for vector in self.vectors if vector.is_perceptron]
            self.loss, self.n_heard = float(np.mean(losses)) if losses else 0.0, 0
        messages, numbers = [], []
        for vector in (vector for vector in self.vectors if vector.phase == asked["phase"]):
            frame = len(numbers)
            numbers.append(vector.values.tobytes())
            for neighbor in vector.weights:
                about = [vector.kind, self.client, neighbor, asked["round"], asked["phase"]]
                messages.append([*about, vector.modality, vector.dtype, frame, None])
        return {"messages": messages, "expected": []}, numbers

    def look(self, asked, frames):
        """The last of a round: hear once more, and tell figures for the table of the run."""
        self.hear(asked, frames)
        print(f"round {asked['round'] + 1}/{self.n_rounds}  heard {self.n_heard}  loss {self.loss:.4f}", flush=True)
        return {"row": {"loss": self.loss, "heard": self.n_heard}, "phases": []}, []

    def hear(self, asked, frames):
        """Average what came in the phase that has ended."""
        for vector in self.vectors:
            heard = {}
            for kind, sender, _, _, phase, modality, dtype, frame, mask in asked["messages"]:
                if (kind, phase, modality) == (vector.kind, vector.phase, vector.modality):
                    bits = None if mask is None else np.frombuffer(frames[mask], np.uint8)
                    there = True if bits is None else np.unpackbits(bits, count=vector.length).astype(bool)
                    heard[sender] = np.frombuffer(frames[frame], dtype), there
            vector.mix(heard)
            self.n_heard += len(heard)


# --- the conversation ------------------------------------------------------------------------------------------------


def converse(socket, number, patience_s):
    """Take part until the emulation ends."""
    socket.send_multipart(packed("join", {"name": f"outside_client.py, pid {os.getpid()}", "client": number}))
    client, heard_s, beat_s = None, time.monotonic(), time.monotonic()
    while True:
        if socket.poll(500):
            header, frames = unpacked(socket.recv_multipart())
            heard_s = time.monotonic()
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
        if now_s - beat_s > 1.0:  # else another may take our place after a while
            socket.send_multipart(packed("alive", {}))
            beat_s = now_s
        if now_s - heard_s > patience_s:
            raise SystemExit(f"the emulation has been silent for {patience_s:g} s")


def main():
    """Join, take part, leave."""
    parser = argparse.ArgumentParser(description="Play one client of a running emulation.")
    parser.add_argument("hub", help="as given to sheafedge run --hub, such as tcp://127.0.0.1:5555")
    parser.add_argument("client", type=int, help="as given to sheafedge run --outside")
    parser.add_argument("--keys", type=Path, help="folder made by sheafedge keys; needed beyond this host")
    parser.add_argument("--patience-s", type=float, default=60.0, help="longest silence of the emulation")
    asked = parser.parse_args()
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.linger = 500
    if asked.keys:
        socket.curve_publickey = (asked.keys / "worker.public").read_bytes().strip()
        socket.curve_secretkey = (asked.keys / "worker.secret").read_bytes().strip()
        socket.curve_serverkey = (asked.keys / "engine.public").read_bytes().strip()
    socket.connect(asked.hub)
    try:
        converse(socket, asked.client, asked.patience_s)
    finally:
        socket.send_multipart(packed("leaving", {"sentence": "done"}))
        socket.close()
        context.term()


if __name__ == "__main__":
    main()
