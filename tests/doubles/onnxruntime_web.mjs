// Runs a model in onnxruntime-web: node onnxruntime_web.mjs FOLDER_OF_PACKAGES MODEL < cases.json > answers.json
// A case is {input: {shape, data}}, an answer {output: {shape, data}}.
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [packages, model] = process.argv.slice(2);
const ort = await import(pathToFileURL(path.join(packages, "onnxruntime-web/dist/ort.node.min.mjs")).href);
const session = await ort.InferenceSession.create(readFileSync(model));
const answers = [];
for (const one of JSON.parse(readFileSync(0, "utf8"))) {
  const inputs = Object.entries(one).map(([name, { shape, data }]) => [name, new ort.Tensor("float32", Float32Array.from(data), shape)]);
  const outputs = Object.entries(await session.run(Object.fromEntries(inputs)));
  answers.push(Object.fromEntries(outputs.map(([name, { dims, data }]) => [name, { shape: dims, data: Array.from(data) }])));
}
console.log(JSON.stringify(answers));
