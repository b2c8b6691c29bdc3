"""Sensors of one stream at `sheafedge serve`, without sheafedge: needs pyzmq, msgpack and numpy.

    python client.py [ADDRESS] [INSTANTS] [samples.npz]

Sends a frame of every sensor of the model per instant, at its rate, and prints what comes back. Frames are those of the
first test sample of a bundle, again and again, or without one all numbers of a frame are the number of its instant
modulo 10. docs/serving.md specifies the protocol.
"""

import json
import secrets
import sys
import time
import zlib

import msgpack
import numpy as np
import zmq

PATIENCE_S = 5.0


def send(socket, kind, fields, arrays=()):
    """Send a packet: a header, then one frame of raw numbers per array."""
    frames = [np.ascontiguousarray(array, "<f4").tobytes() for array in arrays]
    header = {"version": 1, "type": kind, "checksum": zlib.crc32(b"".join(frames)), **fields}
    socket.send_multipart([msgpack.packb(header), *frames])


def receive(socket, timeout_s):
    """Header of the next packet; None: there was none in time."""
    return msgpack.unpackb(socket.recv()) if socket.poll(max(0, round(1000 * timeout_s))) else None


def sensors_of(socket):
    """Inputs of the served model, from its manifest."""
    send(socket, "describe", {})
    reply = receive(socket, PATIENCE_S)
    if reply is None:
        sys.exit(f"no answer within {PATIENCE_S:g} s; is the server there?")
    manifest = json.loads(reply["manifest"])
    print(manifest["name"], *(f"{one['modality']} {one['frame_shape']}" for one in manifest["inputs"]))
    return manifest["inputs"]


def frame(sensor, index, samples):
    """What a sensor sees at an instant [*frame_shape]."""
    if samples is None:
        return np.full(sensor["frame_shape"], index % 10)
    window = samples[f"input_{sensor['modality']}"][0]
    axis = sensor["frame_axis"]
    return window if axis is None else window.take(index % sensor["frames"], axis=axis)


def tell(reply):
    """Print a reply: answer, dropped and refused settle a question, bye ends all."""
    if reply["type"] == "answer":
        without = f"without {', '.join(reply['missing'])}" if reply["missing"] else ""
        print(reply["index"], "answer", reply["label"], f"{reply['probability']:.3f}", without)
        if "forecast" in reply:  # of outage, at each time ahead
            for name, numbers in {"ahead_s": reply["ahead_s"], **reply["forecast"]}.items():
                print(f"    {name:10}", "".join(f"{number:6.3f}" for number in numbers))
    elif reply["type"] == "dropped":  # the server had too much to do; the frames are in the window
        print(reply["index"], "dropped", reply["reason"])
    elif reply["type"] == "refused":
        print(reply["index"], "refused", reply["code"], reply["sentence"])
    elif reply["type"] == "bye":
        print("bye", reply["sentence"])
        sys.exit(0)


def main(address="tcp://127.0.0.1:5570", instants="40", samples=None):
    """Send so many instants, then wait for the last answers."""
    boot = secrets.token_hex(8)  # the server begins the windows anew when another one comes
    arrays = None if samples is None else np.load(samples)
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(address)
        sensors = sensors_of(socket)
        period_s = 1.0 / sensors[0]["rate_hz"]
        waiting, begun_s = 0, time.monotonic()
        for index in range(int(instants)):
            frames = [frame(sensor, index, arrays) for sensor in sensors]
            readings = [
                {"modality": sensor["modality"], "dtype": "<f4", "shape": sensor["frame_shape"]} for sensor in sensors
            ]
            about = {"stream": "sample-python", "index": index, "time_s": index * period_s, "boot": boot}
            send(socket, "frames", {**about, "readings": readings, "ask": True}, frames)
            waiting += 1
            # a sensor keeps its pace, whether answers come or not
            due_s = begun_s + (index + 1) * period_s
            while (reply := receive(socket, due_s - time.monotonic())) is not None:
                tell(reply)
                waiting -= 1
        while waiting and (reply := receive(socket, PATIENCE_S)) is not None:
            tell(reply)
            waiting -= 1
    if waiting:
        sys.exit("questions are without a reply")


if __name__ == "__main__":
    main(*sys.argv[1:])
