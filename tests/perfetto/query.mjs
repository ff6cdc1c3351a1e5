// Asks Perfetto's trace processor, the program behind ui.perfetto.dev, about a file:
//
//   node query.mjs FOLDER FILE < QUERIES
//
// FOLDER holds Perfetto's `engine_bundle.js` and its .wasm; QUERIES has one SQL query a line. Prints one line of JSON a
// query: an array of rows. It speaks to the engine as the page does: with TraceProcessorRpc messages (protobuf) through
// a port.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process, { argv, exit, stderr, stdout } from "node:process";

const [folder, file] = argv.slice(2);
const queries = readFileSync(0, "utf8").split("\n").filter((line) => line.trim());

const [APPEND, FINALIZE, QUERY] = [1, 2, 3];

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);

/** The fields of a message, in their order: [field, number or bytes]. */
function* fields(message) {
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = Number(next());
    if ((tag & 7) === 0) yield [tag >> 3, next()];
    else if ((tag & 7) === 2) {
      const length = Number(next());
      yield [tag >> 3, message.subarray(at, (at += length))];
    } else throw new Error(`wire type ${tag & 7} in an answer`);
  }
}
const varints = (packed) => {
  const values = [];
  let [value, shift] = [0n, 0n];
  for (const byte of packed) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      values.push(BigInt.asIntN(64, value));
      [value, shift] = [0n, 0n];
    }
  }
  return values;
};

class Rows {
  constructor() {
    this.columns = 0;
    this.cells = [];
    this.last = false;
  }
  take(result) {
    for (const [field, value] of fields(result)) {
      if (field === 1) this.columns++;
      else if (field === 2 && value.length) throw new Error(value.toString());
      else if (field === 3) this.batch(value);
    }
  }
  batch(batch) {
    const [kinds, integers, floats, texts] = [[], [], [], []];
    for (const [field, value] of fields(batch)) {
      if (field === 1) kinds.push(...value);
      else if (field === 2) integers.push(...varints(value));
      else if (field === 3) {
        for (let at = 0; at < value.length; at += 8) floats.push(Buffer.from(value).readDoubleLE(at));
      } else if (field === 5) texts.push(...value.toString().split("\0"));
      else if (field === 6) this.last = value === 1n;
    }
    for (const kind of kinds) this.cells.push([, null, integers, floats, texts][kind]?.shift() ?? null);
  }
  get rows() {
    return Array.from({ length: this.columns && this.cells.length / this.columns }, (_, row) =>
      this.cells.slice(row * this.columns, (row + 1) * this.columns));
  }
}

// What the engine expects of a browser's worker.
process.on("uncaughtException", (error) => {
  // Without the source, which is one line of 100 KB.
  stderr.write(`${String(error?.message ?? error).slice(0, 2000)}\n`);
  exit(1);
});
process.on("unhandledRejection", (error) => {
  throw error;
});
globalThis.process = undefined; // or the engine says that it is not built for Node
globalThis.WorkerGlobalScope = class {};
globalThis.self = globalThis;
globalThis.location = { href: "file:///", protocol: "file:", host: "" };
globalThis.XMLHttpRequest = class {
  open(_, name) {
    this.response = readFileSync(join(folder, name.split("/").pop()));
  }
  send() {}
};
console.warn = () => {};
console.log = () => {};
(0, eval)(readFileSync(join(folder, "engine_bundle.js"), "utf8"));

let waiting;
const port = {
  postMessage(answer) {
    for (const [, message] of fields(Buffer.from(answer))) {
      const parts = Object.fromEntries(fields(message));
      if (parts[5]) throw new Error(parts[5].toString());
      if (parts[203]) waiting.rows.take(parts[203]);
      if (parts[201]) {
        for (const [field, value] of fields(parts[201])) if (field === 2) throw new Error(value.toString());
      }
      if (!parts[203] || waiting.rows.last) waiting.done(waiting.rows);
    }
  },
};
globalThis.onmessage({ data: port });
let sequence = 0;
const ask = (method, args) =>
  new Promise((done) => {
    waiting = { done, rows: new Rows() };
    const message = Buffer.concat([number(1, sequence++), number(2, method), args]);
    port.onmessage({ data: new Uint8Array(bytes(1, message)) });
  });

await new Promise((resolve) => setTimeout(resolve, 0)); // it starts on a promise of its own
const trace = readFileSync(file);
for (let at = 0; at < trace.length; at += 1 << 24) await ask(APPEND, bytes(101, trace.subarray(at, at + (1 << 24))));
await ask(FINALIZE, Buffer.alloc(0));
for (const query of queries) {
  const { rows } = await ask(QUERY, bytes(103, bytes(1, Buffer.from(query))));
  stdout.write(JSON.stringify(rows, (_, value) => (typeof value === "bigint" ? Number(value) : value)) + "\n");
}
