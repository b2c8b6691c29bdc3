// A browser that has what examples/clients/browser/index.html asks of it, and no more: node page_in_node.mjs PAGE BUNDLE
// prints the text of every element that the page has filled, as one line of JSON.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [page, bundle, scratch] = process.argv.slice(2);

class Element {
  constructor() {
    Object.assign(this, { textContent: "", children: [], elements: {} });
  }
  append(...children) {
    this.children.push(...children);
  }
  replaceChildren(...children) {
    this.children = children;
  }
  addEventListener() {}
  get text() {
    return this.children.length > 0 ? this.children.map((child) => child.text ?? child) : this.textContent;
  }
}

const elements = {};
globalThis.document = { getElementById: (id) => (elements[id] ??= new Element()), createElement: () => new Element() };
globalThis.location = { search: `?bundle=${encodeURIComponent(bundle)}` };
globalThis.fetch = async (url) => new Response(readFileSync(url));

const runtime = path.join(path.dirname(page), "../node_modules/onnxruntime-web/dist/ort.node.min.mjs");
const script = /<script type="module">(.*?)<\/script>/s.exec(readFileSync(page, "utf8"))[1];
const module = path.join(scratch, "page.mjs");
writeFileSync(module, script.replace(/"[^"]*onnxruntime-web[^"]*"/, JSON.stringify(pathToFileURL(runtime).href)));
await import(pathToFileURL(module).href);
console.log(JSON.stringify(Object.fromEntries(Object.entries(elements).map(([id, one]) => [id, one.text]))));
