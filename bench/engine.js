/*
 * How fast the engine of a page is in a browser, on one thread: prompts and generation in tokens a second, beside
 * `./run -t 1` and wllama (npm's @wllama/wllama, if it is installed), all in turns, medians. For bench/page.js.
 */
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const http = require('http');
const path = require('path');

const ROUNDS = 7;
const PREDICTED = 32;
const WORDS = 'the old man saw a small house near the river and the king rode out to meet his friend in the dark wood while it rained on ';
const PROMPT = WORDS.repeat(5).slice(0, 560); // some 140 tokens

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const root = path.join(__dirname, '..');

function rivalFolder() {
  const folders = require.resolve.paths('@wllama/wllama').map((folder) => path.join(folder, '@wllama/wllama'));
  return folders.find((folder) => fs.existsSync(path.join(folder, 'package.json')));
}

/* The engines in the page: the page's own worker, and wllama. */
const PAGE = `<!doctype html><title>bench</title><script type="module">
const base64 = async (url) => {
  const bytes = new Uint8Array(await (await fetch(url)).arrayBuffer());
  let text = '';
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(text);
};
const worker = new Worker('/worker.js');
const waiting = new Map();
worker.onmessage = ({ data }) => {
  if (data.share !== undefined) return;
  waiting.get(data.id)(data);
  waiting.delete(data.id);
};
let last = 0;
const post = (message) => new Promise((done) => {
  waiting.set(++last, done);
  worker.postMessage({ id: last, ...message });
});
const ask = async (...argv) => {
  const { text, error } = await post({ argv: [...argv, '--json'] });
  if (text === undefined) throw new Error(error);
  return JSON.parse(text);
};
window.openOurs = async () => {
  await post({ code: await base64('/attn.wasm') });
  const { error } = await post({ model: await (await fetch('/model')).blob(), name: 'model' });
  if (error) throw new Error(error);
};
/*
 * Tokens a second: a text that is new to it, then a token at a time behind it, the likeliest that is text: an end's name,
 * typed, would be eight tokens.
 */
window.ours = async (text, predicted) => {
  let start = performance.now();
  let answer = await ask('next', '--top', '5', '-p', text);
  const prompt = answer.n_tokens / (performance.now() - start);
  start = performance.now();
  for (let i = 0; i < predicted; i++) {
    text += answer.top.find(({ token }) => !/^<[|/]/.test(token)).token;
    answer = await ask('next', '--top', '5', '-p', text);
  }
  return [prompt * 1000, predicted / (performance.now() - start) * 1000];
};
let rival = null;
window.openRival = async () => {
  const { Wllama } = await import('/wllama/esm/index.js');
  const wasm = '/wllama/esm/wasm/wllama.wasm';
  rival = new Wllama({ default: wasm, 'single-thread/wllama.wasm': wasm }, { suppressNativeLog: true });
  const blob = await (await fetch('/model')).blob();
  await rival.loadModel([blob], { n_threads: 1, n_ctx: 1024, n_batch: 512, n_ubatch: 512, n_gpu_layers: 0, flash_attn: true });
};
window.rival = async (prompt, n) => {
  const { timings } = await rival.createCompletion({ prompt, max_tokens: n, temperature: 0, ignore_eos: true, cache_prompt: false });
  return [timings.prompt_per_second, timings.predicted_per_second];
};
window.ready = true;
</script>`;

function serve(model, rival) {
  const files = { '/model': model, '/worker.js': path.join(root, 'web/worker.js'), '/attn.wasm': path.join(root, 'web/attn.wasm') };
  const server = http.createServer(({ url }, answer) => {
    const file = url.startsWith('/wllama/') && rival ? path.join(rival, path.normalize(url.slice(7))) : files[url];
    const type = url === '/' ? 'text/html' : url.endsWith('.js') ? 'text/javascript' : url.endsWith('.wasm') ? 'application/wasm' : 'application/octet-stream';
    answer.setHeader('content-type', type);
    if (url === '/') answer.end(PAGE);
    else if (file && fs.existsSync(file)) fs.createReadStream(file).pipe(answer);
    else answer.writeHead(404).end();
  });
  return new Promise((done) => server.listen(0, '127.0.0.1', () => done(server)));
}

/* Our own program on one thread, from its own clock. */
function native(study, model, text) {
  const run = path.join(path.dirname(study), 'run');
  const { timings } = JSON.parse(execFileSync(run, [model, '-t', '1', '-p', text, '-n', String(PREDICTED), '--temp', '0', '--json']));
  return [timings.prompt_per_second, timings.predicted_per_second];
}

/* The lines of a table: who, tokens a second of prompts and of generation, and how many times the engine is as fast. */
exports.engineTable = async (browser, study, model) => {
  const rival = rivalFolder();
  const server = await serve(path.resolve(model), rival);
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction(() => window.ready);
  await page.evaluate(() => window.openOurs());
  if (rival) await page.evaluate(() => window.openRival());
  const who = {
    'in Chromium, one thread': (text) => page.evaluate(([t, n]) => window.ours(t, n), [text, PREDICTED]),
    './run -t 1': (text) => native(path.resolve(study), model, text),
    ...(rival && { 'wllama, one thread': (text) => page.evaluate(([t, n]) => window.rival(t, n), [text, PREDICTED]) }),
  };
  const times = Object.fromEntries(Object.keys(who).map((name) => [name, [[], []]]));
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, measure] of Object.entries(who)) {
      const speeds = await measure(`${String.fromCharCode(65 + round)}. ${PROMPT}`);
      speeds.forEach((speed, i) => times[name][i].push(speed));
    }
  await page.close();
  server.close();
  const ours = times['in Chromium, one thread'].map(median);
  const lines = ['tokens a second           prompt   generation   the engine of a page is as fast'];
  for (const [name, speeds] of Object.entries(times)) {
    const [prompt, predicted] = speeds.map(median);
    lines.push(`${name.padEnd(24)}${prompt.toFixed(0).padStart(8)}${predicted.toFixed(0).padStart(13)}`
      + `   x ${(ours[0] / prompt).toFixed(2)} and x ${(ours[1] / predicted).toFixed(2)}`);
  }
  if (!rival) lines.push('wllama is not installed: npm install @wllama/wllama, where NODE_PATH points');
  return lines;
};
