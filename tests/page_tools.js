/* For all tests of the page: checks, pages that are written and opened, what `study` says, and waiting. */
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const path = require('path');

const [study, given, folder] = process.argv.slice(2);
const model = path.join(folder, 'model.gguf');
let wait_ms = 180000; // for an answer; after one that did not come, less
const POLL_MS = 10;
const DRAW_MS = 200;
const counts = { passed: 0, failed: 0, skipped: 0 };

function check(condition, what, details = '') {
  if (condition) counts.passed++;
  else {
    counts.failed++;
    console.log(`FAILED ${what} ${details}`);
  }
}

/*
 * The tests know the options of sampling, so theirs is the default model without its own: keys of another name, as long. And they
 * count in letters of the text, so that no BOS stands before it: the key's type and value stand behind its name.
 */
const bytes = fs.readFileSync(given);
for (let at = 0; (at = bytes.indexOf('general.sampling.', at)) >= 0;) bytes.write('generic', at);
const BOS = 'tokenizer.ggml.add_bos_token';
bytes[bytes.indexOf(BOS) + BOS.length + 4] = 0;
fs.writeFileSync(model, bytes);

/* Whether a number as shown ("41.3 %", "−2.05", "≈ 0.3") is `value` rounded as it is, but for an error. */
function shows(text, value, what, error = 0) {
  const number = String(text).replace('−', '-').match(/-?[\d.]+/)?.[0] ?? 'NaN';
  const scale = String(text).includes('%') ? 100 : 1;
  const decimals = number.split('.')[1]?.length ?? 0;
  const right = /^<|‹/.test(text) ? value * scale < Number(number) + error : Math.abs(Number(number) - value * scale) <= 0.51 * 10 ** -decimals + error * scale;
  check(right, what, `shows ${text}, not ${value}`);
}

const json = (...args) => JSON.parse(execFileSync(study, [...args, '--json'], { maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'] }));
const bits = (nats) => nats / Math.LN2;

/* Of a text: what a view says of it with the default model. */
const say = (view, text, ...args) => json(view, model, '-p', text, ...args);

/* Writes a page of a model file; returns its address. */
function writeOf(file, name, ...args) {
  const page = path.join(folder, name);
  execFileSync(study, ['view', file, ...args, '-o', page], { stdio: 'pipe' });
  return `file://${page}`;
}

const write = (name, ...args) => writeOf(model, name, ...args);

let browser = null;
const setBrowser = (one) => {
  browser = one;
};

/* Opens a page that keeps whatever it complains of, and any request but for itself, what lies under it, and blobs. */
async function open(url, { on = browser, ...options } = {}) {
  const page = await on.newPage({ viewport: { width: 1280, height: 900 }, locale: 'en-US', ...options });
  page.setDefaultTimeout(wait_ms);
  page.complaints = [];
  page.on('console', (message) => page.complaints.push(message.text()));
  page.on('pageerror', (error) => page.complaints.push(String(error.stack)));
  page.on('dialog', (dialog) => {
    page.complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    const of = request.url();
    if (!of.startsWith(url.split('#')[0]) && !of.startsWith('blob:')) page.complaints.push(`request: ${of.slice(0, 200)}`);
  });
  await page.goto(url);
  await settle(page);
  return page;
}

async function close(page, what) {
  check(page.complaints.length === 0, `${what}: no complaint and no request`, page.complaints.join('; ').slice(0, 1000));
  await page.context().close();
}

/* Until what was asked for is drawn: two frames, and what waits for a quiet moment without waiting for it. */
const settle = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  try {
    if (later.size > 0) drawLate();
  } finally {
    done();
  }
}))));

/* Until the page has been told of the new size and has drawn itself in it. It learns of it from an observer of its own,
   which answers before the one made here. */
async function resize(page, width, height) {
  await page.setViewportSize({ width, height });
  await page.evaluate((size) => new Promise((done) => {
    const look = () => {
      if (innerWidth !== size[0] || innerHeight !== size[1]) return requestAnimationFrame(look);
      return new ResizeObserver((_, observer) => {
        observer.disconnect();
        done();
      }).observe(document.documentElement);
    };
    look();
  }), [width, height]);
  await settle(page);
}

/* Of the page, where it waits in vain: whom the engine answers, and what it has not been asked yet. */
const waits = () => JSON.stringify({ text: state.text, followed, ready: source.ready, asking: asking && asking.kind, wanted: [...wanted.keys()], pending: pending !== null, later: later.size });

/* How far the page says that a grid has come, which is computed piece by piece. */
const progress = () => document.getElementById('patch-progress')?.textContent;

/* Until a condition holds on the page; the page's policy forbids Playwright's own way. A busy machine may take a minute for
   what takes a second on a quiet one, and a grid many of these: each piece of it that comes begins the time anew. Drawing takes
   time from what is waited for, so it is hurried on only now and then. */
async function until(page, condition, argument, what = String(condition)) {
  const place = new Error();
  let end = Date.now() + wait_ms;
  let come = null;
  for (let draw = Date.now() + DRAW_MS; Date.now() < end;) {
    const holds = await page.evaluate(condition, argument);
    if (holds || Date.now() > draw) {
      await settle(page);
      const now = await page.evaluate(progress);
      if (now !== come) [come, end] = [now, Date.now() + wait_ms];
      draw = Date.now() + DRAW_MS;
    } else await new Promise((done) => setTimeout(done, POLL_MS));
    if (holds) return true;
  }
  wait_ms = 20000;
  check(false, `in time: ${what}`, `${await page.evaluate(waits).catch(String)} ${place.stack}`);
  return false;
}

/* Until the engine has answered all that concerns the text: its numbers, the change, the place. */
const answered = (page) => until(page, () => source.ready && state.text === followed && !pending && wanted.size === 0
  && (!asking || ['heads', 'rest'].includes(asking.kind)) && (Object.keys(state.off).length === 0 || run.n < 2 || isChanged()), null, 'the engine answers');

/* … and what it looks up when it has nothing else to do. */
const idleDone = (page) => until(page, () => source.ready && state.text === followed && !pending && wanted.size === 0 && !asking
  && !!run.heads.repeat && run.lens.length === run.n && run.lens.every(Boolean), null, 'the engine has nothing left to do');

/* Opens a page with an engine, and waits for its answers. */
async function openAnswered(url, options) {
  const page = await open(url, options);
  await answered(page);
  return page;
}

async function press(page, key, times = 1) {
  for (let i = 0; i < times; i++) await page.keyboard.press(key);
  await settle(page);
}

async function click(page, selector, options) {
  await page.click(selector, options);
  await settle(page);
}

async function setRange(page, selector, value) {
  await page.locator(selector).fill(String(value));
  await settle(page);
}

/* The address of the page as it is now, behind the #. */
async function hashOf(page) {
  await page.evaluate(() => byId('copy-link').click());
  return page.evaluate(() => location.hash);
}

/* Without the marks that isolate a token from the line it stands in. */
const plain = (text) => text.replace(/[\u2068\u2069]/g, '');
const textOf = async (page, selector) => plain(await page.locator(selector).first().innerText());
const textsOf = async (page, selector) => (await page.locator(selector).allInnerTexts()).map(plain);
const token = (i) => `#tokens .token:nth-child(${i + 1})`;
const thumb = (name) => `.thumb[data-head=${name}]`;
const box = (name) => `#boxes .enter[data-part=${name}]`;

module.exports = {
  study, given, model, folder, counts, check, shows, json, say, bits, writeOf, write, setBrowser, open, openAnswered, close, settle, resize, until, answered, idleDone, hashOf, press, click,
  setRange, textOf, textsOf, token, thumb, box, fs, path, execFileSync,
};
