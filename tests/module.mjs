// Tests of web/attn.wasm in node: node tests/module.mjs STUDY MODEL
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { compiled, Engine } from './engine.mjs';

const [study, model] = process.argv.slice(2);
const here = (path) => new URL(path, import.meta.url);
let passed = 0;
let failed = 0;
const check = (what, holds, told) => {
  if (holds) return;
  failed++;
  console.log(`FAILED ${what}: ${told}`);
};
const test = (run) => {
  const before = failed;
  try {
    run();
  } catch (error) {
    check(run.name, false, error.stack);
  }
  if (failed === before) passed++;
  else failed = before + 1;
};

const names = (list) => list.map(({ module, name, kind }) => `${module ? `${module}.` : ''}${name} ${kind}`).join(', ');

test(function asksForOneCall() {
  const imports = names(WebAssembly.Module.imports(compiled));
  const exports = names(WebAssembly.Module.exports(compiled));
  check('imports', imports === 'wasi_snapshot_preview1.fd_write function', imports);
  check('exports', exports === 'memory memory, _initialize function, room function, free function, open function, ' +
    'ask function', exports);
});

const refused = (what, { code, error }, expected) =>
  check(what, code !== 0 && error.includes(expected) && /^[^\n]+\n$/.test(error), `${code} ${error}`);

test(function refusesInOneLine() {
  const bytes = (text) => Buffer.from(text, 'latin1');
  refused('nothing open', new Engine().ask('next', '--json', '-p', 'a'), 'no model is open');
  refused('an empty file', new Engine().open(bytes('')), 'model: the file is empty');
  refused('a text', new Engine().open(bytes('{"a": 1}')), 'model: not a GGUF file, and a page takes no other');
  refused('a header alone', new Engine().open(bytes('GGUF\x03\0\0\0')), 'model: ');
  for (const n of [5e9, 2 ** 32 + 16, 2 ** 31, -1, NaN]) {
    const engine = new Engine();
    const { code, error } = engine.told(() => engine.room(n));
    check(`${n} bytes`, code === 0 && error.includes('a page has room for models below 2 GiB'), `${code} ${error}`);
  }
});

// Where two answers differ: numbers by more than the tolerance of sets (a rank may be the next; a dot product is eight times its
// score, and a metric the difference of logits of that size), or anything else at all.
function difference(a, b, path) {
  if (typeof a === 'number' && typeof b === 'number')
    return Math.abs(a - b) <= (/[._]rank$/.test(path) ? 1 : 1e-3 * Math.max(/[.](dot|value_nats)$/.test(path) ? 8 : 1, Math.abs(a))) ? '' : `${path}: ${a}, ${b}`;
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object')
    return a === b || path.endsWith('.model') ? '' : `${path}: ${a}, ${b}`;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  for (const key of keys) {
    const found = difference(a[key] ?? null, b[key] ?? null, `${path}.${key}`);
    if (found) return found;
  }
  return '';
}

test(function answersAsStudyDoes() {
  const engine = new Engine();
  const { code, error } = engine.open(readFileSync(model));
  check('the default model', code === 0, error);
  const text = 'The king Zilgan rode out. Then king Zil';
  for (const argv of [['next', '--top', '5'], ['score'], ['heads'], ['attend', '--layer', '4', '--head', '1'], ['lens'],
    ['explain', '--layer', '4', '--head', '1'], ['ablate', '--heads', 'L3H4'], ['tokens'],
    ...['resid', 'z'].map((what) => ['patch', '--what', what, '--corrupted', 'The king Zulgan rode out. Then king Zil', '--answer', 'gan', '--wrong', 'han'])]) {
    const [name, ...options] = [...argv, '-p', text];
    const asked = engine.ask(name, ...options, '--json');
    const printed = execFileSync(study, [name, model, ...options, '--json'], { env: { ...process.env, ATTN_KERNEL: 'scalar' }, stdio: ['ignore', 'pipe', 'ignore'] });
    check(name, asked.code === 0, asked.error);
    if (asked.code === 0) {
      const found = difference(JSON.parse(printed), JSON.parse(asked.text), name);
      check(name, !found, found);
    }
  }
  const pair = ['-p', text, '--corrupted', 'The king Zulgan rode out. Then king Zil', '--answer', 'gan', '--json'];
  refused('edges', engine.ask('patch', ...pair, '--path', 'L0H0:final'), 'edges are not patched in a page');
  refused('pairs of a file', engine.ask('patch', '--pairs', 'a', '--json'), '--pairs names a file');
  refused('a figure', engine.ask('patch', ...pair, '--svg', 'a'), '--svg names a file');
  refused('texts of other lengths', engine.ask('patch', ...pair.with(3, 'The old king Zulgan rode out. Then king Zil')), 'the clean text has 13 tokens and the corrupted one 14');
  refused('no second text', engine.ask('patch', '-p', text, '--answer', 'gan', '--json'), '--corrupted');
  refused('no such position', engine.ask('patch', ...pair, '--from', '13'), '--from 13 --to 13: there are the positions 0 to 12');
  refused('a second model', engine.open(readFileSync(model)), 'a model was opened here');
  refused('what it has not', engine.ask('train', '--json'), "there is no view 'train' here");
  refused('an option that it has not', engine.ask('next', '--json', '--nope', '-p', 'a'), 'unknown option --nope');
  refused('words for people', engine.ask('next', '-p', 'a'), '--json');
  refused('help', engine.ask('next', '--help'), '--json');
});

// Files that are changed at random: an error or an answer, and never a trap. The small ones have no vocabulary.
test(function survivesHostileFiles() {
  let state = 1;
  const random = (n) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return Math.floor((state / 0x80000000) * n);
  };
  const changed = (original, reach, round) => {
    const file = Buffer.from(original);
    for (let i = 0; i <= round % 4; i++) {
      const at = random(reach);
      const values = [0, 1, 0x7f, 0x80, 0xff, file[at] ^ (1 << random(8))];
      file[at] = values[random(values.length)];
    }
    return round % 10 === 9 ? file.subarray(0, random(reach)) : file;
  };
  const attack = (what, file) => {
    const engine = new Engine();
    try {
      const { code, error } = engine.open(file);
      check(what, code === 0 || /^[^\n]+\n$/.test(error), error);
      if (code === 0) for (const view of ['score', 'heads']) engine.ask(view, '--json', '-p', 'abc');
      if (code === 0) engine.ask('patch', '--json', '-p', 'abc', '--corrupted', 'abd', '--answer', '#1', '--what', 'z');
      return code === 0;
    } catch (error) {
      check(what, false, error.stack);
      return false;
    }
  };
  for (const name of ['gpt2-q8_0', 'gpt-oss', 'gemma2', 'granitemoe', 'qwen35', 'lfm2', 'internlm2'])
    for (let round = 0, original = readFileSync(here(`data/reference/${name}.gguf`)); round < 60; round++)
      attack(`${name}, ${round}`, changed(original, 4096, round));
  let opened = 0;
  for (let round = 0, original = readFileSync(model); round < 30; round++)
    opened += attack(`the default model, ${round}`, changed(original, 1000000, round));
  check('some are still models', opened > 5 && opened < 30, opened);
});

console.log(`${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed > 0 ? 1 : 0);
