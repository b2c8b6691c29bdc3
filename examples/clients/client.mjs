// Sensors of one stream at `sheafedge serve`, in JavaScript: needs Node.js 20.15 or later, and `npm install`.
//
//     node client.mjs [ADDRESS] [INSTANTS]
//
// Sends a frame of every sensor of the model per instant, at its rate, and prints what comes back. All numbers of a
// frame are the number of its instant modulo 10. docs/serving.md specifies the protocol.
import { randomUUID } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { decode, encode } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const [address = "tcp://127.0.0.1:5570", instants = "40"] = process.argv.slice(2);
const PATIENCE_MS = 5000;
const socket = new Dealer({ linger: 0, receiveTimeout: PATIENCE_MS });
socket.connect(address);

// A packet: a header, then one frame of raw numbers per array. Typed arrays have the byte order of the machine,
// which is that of the protocol, little-endian, wherever Node.js runs today.
function send(type, fields, arrays = []) {
  const frames = arrays.map((array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength));
  const checksum = frames.reduce((sum, frame) => crc32(frame, sum), 0);
  return socket.send([encode({ version: 1, type, checksum, ...fields }), ...frames]);
}

async function receive() {
  const [header] = await socket.receive();
  return decode(header);
}

// Prints a reply: answer, dropped and refused settle a question, bye ends all.
function tell(reply) {
  if (reply.type === "answer") {
    const without = reply.missing.length > 0 ? ` without ${reply.missing.join(", ")}` : "";
    console.log(`${reply.index} answer ${reply.label} ${reply.probability.toFixed(3)}${without}`);
    if (reply.forecast === undefined) return; // of outage, at each time ahead
    for (const [name, numbers] of Object.entries({ ahead_s: reply.ahead_s, ...reply.forecast }))
      console.log(`    ${name.padEnd(10)} ${numbers.map((number) => number.toFixed(3).padStart(6)).join("")}`);
  } else if (reply.type === "dropped") {
    console.log(`${reply.index} dropped ${reply.reason}`); // the server had too much to do; the frames are in the window
  } else if (reply.type === "refused") {
    console.log(`${reply.index} refused ${reply.code} ${reply.sentence}`);
  } else if (reply.type === "bye") {
    console.log(`bye ${reply.sentence}`);
    process.exit(0);
  }
}

let sensors;
try {
  await send("describe", {});
  const manifest = JSON.parse((await receive()).manifest);
  sensors = manifest.inputs;
  console.log(manifest.name, ...sensors.map((one) => `${one.modality} [${one.frame_shape.join(", ")}]`));
} catch (error) {
  console.error(`no answer within ${PATIENCE_MS / 1000} s (${error.message}); is the server there?`);
  process.exit(1);
}

// Replies are read while frames are sent: a client need not wait for an answer before it sends on.
let waiting = 0;
let isDone = false;
async function listen() {
  while (!isDone || waiting > 0) {
    try {
      tell(await receive());
      waiting -= 1;
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      if (isDone) return; // nothing came for as long as we wait
    }
  }
}
const listening = listen();

const boot = randomUUID(); // the server begins the windows anew when another one comes
const periodMs = 1000 / sensors[0].rate_hz;
const begunMs = performance.now();
for (let index = 0; index < Number(instants); index++) {
  const frames = sensors.map((one) => new Float32Array(one.frame_shape.reduce((n, size) => n * size, 1)).fill(index % 10));
  const readings = sensors.map((one) => ({ modality: one.modality, dtype: "<f4", shape: one.frame_shape }));
  const time_s = (index * periodMs) / 1000;
  waiting += 1;
  isDone = index + 1 === Number(instants);
  await send("frames", { stream: "sample-javascript", index, time_s, boot, readings, ask: true }, frames);
  await wait(Math.max(0, begunMs + (index + 1) * periodMs - performance.now()));
}
await listening;
socket.close();
if (waiting > 0) console.error("questions are without a reply");
process.exit(waiting > 0 ? 1 : 0);
