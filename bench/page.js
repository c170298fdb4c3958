/*
 * How fast the page of `study view` is in a browser without a GPU: node bench/page.js ./study MODEL [TOKENS…]
 * (256 and 1024). First the engine in it (engine.js), beside ./run and wllama, and how the page with it feels (live.js). Then the page's size, the time from opening
 * to the last drawing, and frames per second while the pointer moves over the pattern: medians of five. Needs what
 * tests/test_page.sh needs; wllama comes from npm: npm install --prefix FOLDER @wllama/wllama playwright-core, and
 * NODE_PATH=FOLDER/node_modules. Without it its rows are left out.
 */
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const { launch } = require('../tests/browser');
const { engineTable } = require('./engine');
const { liveTable } = require('./live');

const [study, model, ...lengths] = process.argv.slice(2);
const WORDS = 'the tower stands near a river and the people who live there walk along it when the evening comes '.split(' ');

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

/* A text of at least n tokens, whatever the vocabulary. */
const textOf = (n) => Array.from({ length: n }, (_, i) => WORDS[(i * 7 + ((i * i) % 5)) % (WORDS.length - 1)]).join(' ');

function write(folder, n) {
  const prompt = path.join(folder, 'prompt.txt');
  const file = path.join(folder, `page-${n}.html`);
  let words = n;
  const count = () => {
    fs.writeFileSync(prompt, textOf(words));
    return JSON.parse(execFileSync(study, ['score', model, '-f', prompt, '--json'], { maxBuffer: 1 << 28 })).n_tokens;
  };
  for (let tokens = count(); tokens > n; tokens = count()) words -= Math.max(1, Math.floor((tokens - n) / 2));
  const start = performance.now();
  execFileSync(study, ['view', model, '-f', prompt, '-o', file]);
  return { file, seconds: (performance.now() - start) / 1000, n: count() };
}

async function open(browser, file) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(`file://${file}`);
  const ms = await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))));
  return { page, ms };
}

/* Frames a second while a pointer event comes with each. */
async function framesOver(page, selector) {
  await page.locator(selector).scrollIntoViewIfNeeded();
  return page.evaluate((where) => new Promise((done) => {
    const element = document.querySelector(where);
    const box = element.getBoundingClientRect();
    const start = performance.now();
    let frames = 0;
    const step = () => {
      const t = (performance.now() - start) / 1000;
      if (t > 1) return done(frames / t);
      frames++;
      element.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: box.x + box.width * (0.1 + 0.5 * t), clientY: box.y + box.height * (0.3 + 0.6 * t) }));
      return requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }), selector);
}

(async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'page-'));
  const browser = await launch();
  for (const line of await engineTable(browser, study, model)) console.log(line);
  for (const line of await liveTable(browser, study, model, folder)) console.log(line);
  for (const wanted of lengths.length > 0 ? lengths.map(Number) : [256, 1024]) {
    const { file, seconds, n } = write(folder, wanted);
    const times = [];
    const map = [];
    const lines = [];
    for (let i = 0; i < 5; i++) {
      const { page, ms } = await open(browser, file);
      times.push(ms);
      map.push(await framesOver(page, '#map'));
      await page.check('input[name=shape][value=lines]');
      lines.push(await framesOver(page, '#lines'));
      await page.close();
    }
    console.log(`${n} tokens: written in ${seconds.toFixed(1)} s, ${(fs.statSync(file).size / 1e6).toFixed(2)} MB, drawn after ${median(times).toFixed(0)} ms, `
      + `${median(map).toFixed(0)} frames/s over the map, ${median(lines).toFixed(0)} over the lines`);
  }
  await browser.close();
  fs.rmSync(folder, { recursive: true });
})();
