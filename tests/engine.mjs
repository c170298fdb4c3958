// web/attn.wasm in node, as a page has it: its memory holds the model's file, and fd_write is its only import.
import { readFileSync } from 'node:fs';

export const compiled = new WebAssembly.Module(readFileSync(new URL('../web/attn.wasm', import.meta.url)));

export class Engine {
  constructor() {
    this.written = ['', '', ''];
    const fd_write = (file, list, n, to) => {
      const view = new DataView(this.exports.memory.buffer);
      let total = 0;
      for (let i = 0; i < n; i++) {
        const at = view.getUint32(list + 8 * i, true);
        const length = view.getUint32(list + 8 * i + 4, true);
        this.written[file] += Buffer.from(this.bytes(at, length)).toString('latin1');
        total += length;
      }
      view.setUint32(to, total, true);
      return 0;
    };
    this.exports = new WebAssembly.Instance(compiled, { wasi_snapshot_preview1: { fd_write } }).exports;
    this.exports._initialize();
  }

  bytes(at, n) {
    return new Uint8Array(this.exports.memory.buffer, at, n);
  }

  room(n) {
    return this.exports.room(n) >>> 0;
  }

  // {code, text, error} of what was called.
  told(call) {
    this.written = ['', '', ''];
    const code = call();
    const [, text, error] = this.written.map((bytes) => Buffer.from(bytes, 'latin1').toString());
    return { code, text, error };
  }

  open(file) {
    const at = this.room(file.length);
    this.bytes(at, file.length).set(file);
    return this.told(() => this.exports.open(at, file.length, 0));
  }

  ask(...argv) {
    const words = argv.map((word) => Buffer.from(`${word}\0`));
    const room = this.room(words.reduce((n, word) => n + word.length, 4 * words.length));
    let at = room + 4 * words.length;
    words.forEach((word, i) => {
      new DataView(this.exports.memory.buffer).setUint32(room + 4 * i, at, true);
      this.bytes(at, word.length).set(word);
      at += word.length;
    });
    const answer = this.told(() => this.exports.ask(words.length, room));
    this.exports.free(room);
    return answer;
  }
}
