/* GGUF files taken apart and put together again (docs/gguf.md of ggml-org/ggml), for pages of models that nobody publishes. */
'use strict';

const SIZES = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 }; // of a number of each type
const [FLOAT, TEXT, LIST] = [6, 8, 9];
const ALIGNMENT = 32;

/* Where things lie in a file: {keys: {name: {begin, end, items}}, infos: [{name, rest}] of tensors, from `begin` until `end`, data}. */
function parse(bytes) {
  let at = 8;
  const u32 = () => bytes.readUInt32LE((at += 4) - 4);
  const u64 = () => Number(bytes.readBigUInt64LE((at += 8) - 8));
  const text = () => bytes.subarray(at + 8, (at += 8 + Number(bytes.readBigUInt64LE(at))));
  const take = (type) => (type === TEXT ? text() : (at += SIZES[type]));
  const [nTensors, nKeys] = [u64(), u64()];
  const keys = {};
  for (let i = 0; i < nKeys; i++) {
    const name = text().toString();
    const type = u32();
    const [of, n] = type === LIST ? [u32(), u64()] : [type, 1];
    const begin = at;
    const items = Array.from({ length: n }, () => take(of));
    keys[name] = { begin, end: at, items };
  }
  const begin = at;
  const infos = Array.from({ length: nTensors }, () => {
    const name = text().toString();
    const from = at;
    const dimensions = u32();
    at += 8 * dimensions + 12;
    return { name, rest: bytes.subarray(from, at) };
  });
  return { keys, begin, infos, end: at, data: bytes.subarray(at + padding(at).length) };
}

const padding = (size) => Buffer.alloc(-size & (ALIGNMENT - 1));

/* A text as it lies in a file, behind its length. */
function textOf(bytes) {
  const [text, length] = [Buffer.from(bytes), Buffer.alloc(8)];
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text]);
}

/* A key whose value is a float. */
function floatKey(name, value) {
  const rest = Buffer.alloc(8);
  rest.writeUInt32LE(FLOAT);
  rest.writeFloatLE(value, 4);
  return Buffer.concat([textOf(name), rest]);
}

/* The file of a head in pieces, and the data of all tensors. */
function join(pieces, data) {
  const head = Buffer.concat(pieces);
  return Buffer.concat([head, padding(head.length), ...data]);
}

module.exports = { parse, padding, textOf, floatKey, join };
