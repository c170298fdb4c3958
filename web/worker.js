/*
 * The engine in a thread of its own: attn.wasm (wasm/ask.c), whose memory this script fills and reads. The one call of a
 * system that it makes is to print.
 *
 * Messages in: {id, code} compiles the engine; {id, model: base64 or file, name} opens a model; {id, argv} asks. Out:
 * {id, text} or {id, error}; {id, share} on the way.
 */
'use strict';

const PIECE = 1 << 24; // bytes of a file at a time

let module = null;
let engine = null; // exports
let printed = { 1: [], 2: [] };

const view = () => new DataView(engine.memory.buffer);
const bytes = (at, n) => new Uint8Array(engine.memory.buffer, at, n);

/* WASI's: the buffers of a list, end to end, to a stream. */
function fd_write(stream, list, n, written) {
  let total = 0;
  for (let i = 0; i < n; i++) {
    const [at, length] = [view().getUint32(list + 8 * i, true), view().getUint32(list + 8 * i + 4, true)];
    printed[stream].push(bytes(at, length).slice());
    total += length;
  }
  view().setUint32(written, total, true);
  return 0;
}

function taken(stream) {
  const pieces = printed[stream];
  printed[stream] = [];
  const decoder = new TextDecoder();
  return pieces.map((piece) => decoder.decode(piece, { stream: true })).join('') + decoder.decode();
}

function decoded(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const result = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) result[i] = text.charCodeAt(i);
  return result;
}

/* Room in the engine's memory; 0 when there is none, with a message. */
const roomFor = (n) => engine.room(n) >>> 0;

/* A text as C has it. */
function passed(text) {
  const encoded = new TextEncoder().encode(`${text}\0`);
  const at = roomFor(encoded.length);
  if (at) bytes(at, encoded.length).set(encoded);
  return at;
}

/* A fresh instance, for what an earlier model left goes with the old one. Returns 0, or not. */
async function open(file, name, report) {
  engine = null;
  engine = (await WebAssembly.instantiate(module, { wasi_snapshot_preview1: { fd_write } })).exports;
  engine._initialize();
  const all = typeof file === 'string' ? decoded(file) : null;
  const size = all ? all.length : file.size;
  const at = roomFor(size);
  if (!at) return 1;
  for (let from = 0; from < size; from += PIECE) {
    const end = Math.min(from + PIECE, size);
    bytes(at + from, end - from).set(all ? all.subarray(from, end) : new Uint8Array(new FileReaderSync().readAsArrayBuffer(file.slice(from, end))));
    report(end / size);
  }
  return engine.open(at, size, passed(name));
}

function ask(argv) {
  if (argv.some((word) => word.includes('\0'))) throw new Error('a text has a zero byte'); // it would end there
  const texts = argv.map(passed);
  const list = roomFor(4 * argv.length);
  let code = 1;
  if (list && texts.every(Boolean)) {
    texts.forEach((at, i) => view().setUint32(list + 4 * i, at, true));
    code = engine.ask(argv.length, list);
  }
  for (const at of [...texts, list]) engine.free(at);
  return code;
}

onmessage = async ({ data: { id, code, model, name, argv } }) => {
  printed = { 1: [], 2: [] };
  let failed = true;
  let error = '';
  try {
    if (code !== undefined) {
      module = await WebAssembly.compile(decoded(code));
      failed = false;
    } else if (model !== undefined) {
      failed = (await open(model, name, (share) => postMessage({ id, share }))) !== 0;
    } else {
      failed = ask(argv) !== 0;
    }
  } catch (thrown) {
    error = String(thrown.message ?? thrown);
  }
  const told = taken(2).trim();
  postMessage(failed ? { id, error: told || error } : { id, text: taken(1) });
};
