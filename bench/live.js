/* Rows of bench/page.js: how the page with the engine in it feels, default model, one thread, Chromium. */
'use strict';
const { execFileSync } = require('child_process');
const path = require('path');

const WORDS = ' the old man saw a small house near the river and the king rode out to meet his friend in the dark wood while it rained'
  + ' on the tall gate and the red lamp; the tall gate was old and the lamp was small so the man went on to the river near the house and sat';
const OPENINGS = 5;
const KEYS = ' by the fire and sang a song of old';
const HOVER_MS = 3000;

const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];

/* Until the engine answers: ms since the file was opened; and when something was painted first. */
async function openings(browser, url) {
  const ready = [];
  const painted = [];
  for (let i = 0; i < OPENINGS; i++) {
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    await page.goto(url);
    await page.waitForFunction(() => source.ready);
    ready.push(await page.evaluate(() => performance.now()));
    painted.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime));
    await page.close();
  }
  return { ready: median(ready), painted: median(painted) };
}

async function setText(page, text) {
  await page.fill('#editor', text);
  await page.waitForFunction((wanted) => followed === wanted && !pending, text);
  await page.waitForFunction(() => asking === null && wanted.size === 0);
  return page.evaluate(() => run.n);
}

/* From a key's event until everything that follows from it, but what is drawn late, stands on the page: ms. */
const afterKey = (page, letter) => page.evaluate((one) => new Promise((done) => {
  const editor = document.getElementById('editor');
  setTimeout(() => {
    const start = performance.now();
    editor.setRangeText(one, editor.value.length, editor.value.length, 'end');
    editor.dispatchEvent(new Event('input'));
    const look = () => {
      if (followed === editor.value && !pending) done(performance.now() - start);
      else requestAnimationFrame(look);
    };
    look();
  }, 600); // in the rest between two words what is slow is asked for
}), letter);

/* Frames a second while the pointer walks over the boxes of the heads, whose arcs and tooltips it shows. */
async function framesOverHeads(page) {
  const boxes = await page.$$('#boxes .head .enter');
  const places = await Promise.all(boxes.map((box) => box.boundingBox()));
  await page.evaluate(() => {
    window.frames_ = [];
    const tick = (t) => {
      window.frames_.push(t);
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  const start = Date.now();
  for (let i = 0; Date.now() - start < HOVER_MS; i++) {
    const { x, y, width, height } = places[i % places.length];
    await page.mouse.move(x + width / 2, y + height / 2);
    await page.waitForTimeout(25);
  }
  const frames = await page.evaluate(() => window.frames_);
  return (1000 * (frames.length - 1)) / (frames.at(-1) - frames[0]);
}

async function liveTable(browser, study, model, folder) {
  const file = path.join(folder, 'live.html');
  execFileSync(study, ['view', model, '-p', 'The king Zilgan rode out. Then king Zil', '--live', '-o', file], { stdio: 'ignore' });
  const url = `file://${file}`;
  const { ready, painted } = await openings(browser, url);
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.goto(url);
  await page.waitForFunction(() => source.ready);
  const few = await setText(page, `The${WORDS}`);
  const keys = [];
  for (const letter of KEYS) keys.push(await afterKey(page, letter));
  const many = await setText(page, `The${WORDS.repeat(4)}`);
  const frames = await framesOverHeads(page);
  await page.close();
  return [
    `page with engine and model: first paint after ${painted.toFixed(0)} ms, the engine answers after ${ready.toFixed(0)} ms (medians of ${OPENINGS})`,
    `a key at ${few} tokens: ${median(keys).toFixed(0)} ms until all of it is drawn (median of ${keys.length}; asked: 100)`,
    `a head hovered at ${many} tokens: ${frames.toFixed(1)} frames a second (asked: 60)`,
  ];
}

module.exports = { liveTable };
