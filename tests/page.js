/*
 * The page of `study view` in a browser: that it opens without a request or a complaint, that it shows the
 * numbers of the other views, that every control does what it says, by mouse and by keyboard, and that text
 * stays text. tests/test_page.sh runs it with the paths of study, the model and an empty folder.
 */
'use strict';
const { execFileSync } = require('child_process');
const fs = require('fs');
const path = require('path');
const { launch } = require('./browser');

const [study, model, folder] = process.argv.slice(2);
const PROMPT = 'The Eiffel Tower is in Paris. The Eiffel';
const ABLATED = 'L0H0';
let passed = 0;
let failed = 0;
let skipped = 0;

function check(condition, what, details = '') {
  if (condition) passed++;
  else failed++;
  if (!condition) console.log(`FAILED ${what} ${details}`);
}

const NORM_ERROR = 1e-4; // norms of up to 13 are kept in 16 bits

/* Whether a number as shown ("41.3 %", "−2.05", "≈ 0.3") is `value` rounded as it is, but for an error. */
function shows(text, value, what, error = 0) {
  const number = text.replace('−', '-').match(/-?[\d.]+/)?.[0] ?? 'NaN';
  const percent = text.includes('%');
  const decimals = number.split('.')[1]?.length ?? 0;
  if (text.startsWith('<')) {
    check(value * (percent ? 100 : 1) < Number(number), what, `shows ${text}, not ${value}`);
    return;
  }
  const off = Math.abs(Number(number) - value * (percent ? 100 : 1));
  check(off <= 0.51 * 10 ** -decimals + error, what, `shows ${text}, not ${value}`);
}

const json = (...args) => JSON.parse(execFileSync(study, [...args, '--json'], { maxBuffer: 1 << 28 }));
const about = (...args) => json(args[0], model, '-p', PROMPT, ...args.slice(1));
const bits = (nats) => nats / Math.LN2;

function writeOf(file, name, ...args) {
  const page = path.join(folder, name);
  execFileSync(study, ['view', file, ...args, '-o', page]);
  return `file://${page}`;
}

const write = (name, ...args) => writeOf(model, name, ...args);

async function open(browser, url, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  page.complaints = [];
  page.on('console', (message) => page.complaints.push(message.text()));
  page.on('pageerror', (error) => page.complaints.push(String(error)));
  page.on('dialog', (dialog) => {
    page.complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    if (request.url() !== url) page.complaints.push(`request: ${request.url()}`);
  });
  await page.goto(url);
  await settle(page);
  return page;
}

/* Until what was asked for is drawn: two frames. */
const settle = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

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

const textOf = (page, selector) => page.locator(selector).first().innerText();
const textsOf = (page, selector) => page.locator(selector).allInnerTexts();
const token = (i) => `#tokens .token:nth-child(${i + 1})`;

async function testText(page) {
  const score = about('score');
  check((await page.locator('#tokens .token').count()) === score.n_tokens, 'as many tokens as score has');
  check((await textOf(page, '#tokens')) === PROMPT, 'the text is the prompt', await textOf(page, '#tokens'));
  for (const expected of score.positions) {
    await page.hover(token(expected.position));
    const at = `of token ${expected.position}`;
    shows(await textOf(page, '#token [data-key=probability]'), Math.exp(-expected.surprisal_nats), `probability ${at}`);
    shows(await textOf(page, '#token [data-key=rank]'), expected.rank, `rank ${at}`);
    shows(await textOf(page, '#token [data-key=surprisal]'), bits(expected.surprisal_nats), `surprisal ${at}`);
    shows(await textOf(page, '#token [data-key=entropy]'), bits(expected.entropy_nats), `entropy ${at}`);
    const share = Number(await page.locator(token(expected.position)).evaluate((element) => element.style.getPropertyValue('--share')));
    check(Math.abs(share - Math.min(1, bits(expected.surprisal_nats) / 12)) < 0.001, `colour ${at}`);
    const [first] = expected.likelier;
    if (first) shows(await textOf(page, '#token .bars li:first-child span:last-child'), first.probability, `what is likelier in place ${at}`);
  }
  await page.mouse.move(0, 0);
  shows((await textOf(page, '#tokens-legend')).match(/([\d.]+) bits a token/)[1], bits(score.totals.nll_nats), 'bits a token');
}

async function testNext(page, query) {
  const text = about('next', '--top', '20');
  const rows = () => page.locator('#distribution tbody tr').evaluateAll((list) => list.map((row) => [...row.cells].map((cell) => cell.innerText)));
  check((await textOf(page, '#next-summary')).includes(`position ${query}`), 'next is about the chosen position');
  const { temperature_step: step, next } = about('view');
  check((await page.getAttribute('#temperature', 'step')) === String(step) && (await page.getAttribute('#temperature', 'max')) === String(step * next[0].rest.length), 'the slider has the temperatures that the data has');
  for (const [i, row] of (await rows()).entries()) {
    shows(row[2], text.top[i].probability, `p of rank ${i + 1}`);
    shows(row[3], bits(-text.top[i].logprob_nats), `bits of rank ${i + 1}`);
    shows(row[4], text.top[i].logit, `logit of rank ${i + 1}`);
  }
  shows((await textOf(page, '#next-summary')).match(/entropy ([\d.]+) bits/)[1], bits(text.entropy_nats), 'entropy');
  for (const [temperature, topP] of [[0.7, 1], [1.4, 1], [1, 0.5], [0.6, 0.3], [2, 0.05], [2, 0.6]]) {
    await setRange(page, '#temperature', temperature);
    await setRange(page, '#top-p', topP);
    const drawn = about('next', '--top', '20', '--temp', String(temperature), '--top-p', String(topP));
    const inAll = drawn.after.n_kept;
    for (const [i, row] of (await rows()).entries()) {
      shows(row[2], drawn.top[i].probability, `p stays p at temperature ${temperature}`);
      const after = drawn.top[i].after;
      if (row[6] === '–') check(after === 0, `rank ${i + 1} is left out at temperature ${temperature}, top-p ${topP}`);
      else if (!row[6].startsWith('≈')) shows(row[6], after, `drawn, rank ${i + 1}, temperature ${temperature}, top-p ${topP}`);
      else check(inAll > 20 && Math.abs(parseFloat(row[6].slice(1)) / 100 - after) < 0.1 * after, 'about what is drawn');
    }
    const note = await textOf(page, '#next-note');
    if (topP < 1) check(note.includes(inAll > 20 ? 'more than 20 tokens' : `${inAll} token`), 'how many can be drawn', note);
  }
  await setRange(page, '#temperature', 0);
  check((await rows())[0][6].startsWith('100') && (await rows())[1][6] === '–', 'temperature 0 draws the likeliest');
  await click(page, '#next-reset');
  check((await rows())[0].length === 6 && (await page.locator('#temperature').inputValue()) === '1', 'reset takes the filters off');
}

const thumb = (name) => `[data-head=${name}]`;

async function testHeads(page, query) {
  const heads = about('heads');
  const repeat = json('heads', model);
  const note = () => textOf(page, '#head-note');
  for (const [value, scores] of [['text', heads], ['repeat', repeat]]) {
    await page.selectOption('#measured', value);
    for (const head of [scores.heads[0], scores.heads.at(-1)]) {
      await page.hover(thumb(head.name));
      const words = await note();
      shows(words.match(/entropy ([\d.]+)/)[1], bits(head.entropy_nats), `entropy of ${head.name} on ${value}`);
      for (const key of ['prev', 'sink', 'self', 'dup', 'ind']) {
        if (head[key] === null) check(!words.includes(` ${key} `), `${key} is not shown where there is none`);
        else shows(words.match(new RegExp(` ${key} ([\\d.]+)`))[1], head[key], `${key} of ${head.name} on ${value}`);
      }
    }
    for (const key of ['prev', 'ind', 'dup', 'sink', 'entropy_share']) {
      await page.selectOption('#sort', key);
      const order = await page.locator('.thumb').evaluateAll((list) => list.map((button) => button.dataset.head));
      const values = order.map((name) => scores.heads.find((head) => head.name === name)[key] ?? -1);
      check(values.every((x, i) => i === 0 || x <= values[i - 1]), `heads are sorted by ${key} on ${value}`);
      await page.selectOption('#colour', key);
      const share = await page.locator(thumb(order[0])).evaluate((button) => Number(button.style.getPropertyValue('--share')));
      check(Math.abs(share - Math.max(0, values[0])) < 1e-6, `heads are coloured by ${key} on ${value}`);
    }
  }
  await page.selectOption('#sort', 'layer');
  await page.selectOption('#colour', 'none');

  const name = heads.heads.at(-1).name;
  const { layer, head } = heads.heads.at(-1);
  await click(page, thumb(name));
  check((await page.getAttribute(thumb(name), 'aria-pressed')) === 'true', 'a chosen head is marked');
  check((await page.locator('.thumb[aria-pressed=true]').count()) === 1, 'alone');
  const place = ['--layer', String(layer), '--head', String(head)];
  const settings = [['weight', false, []], ['value', false, ['--by', 'value']], ['weight', true, ['--no-sink']], ['value', true, ['--by', 'value', '--no-sink']]];
  for (const [by, noSink, options] of settings) {
    await page.check(`input[name=by][value=${by}]`);
    await page.setChecked('#no-sink', noSink);
    await settle(page);
    const rows = about('attend', ...place, ...options).patterns[0].rows, error = by === 'value' ? NORM_ERROR : 0;
    for (const q of [query, 1]) {
      for (const key of new Set([0, 1, q])) {
        await pointAtCell(page, q, key);
        shows((await textOf(page, '#pattern-note')).match(/(?:weight|‖) L\d+H\d+ ((?:< )?[\d.]+)/)[1], rows[q][key], `${by} of key ${key} for query ${q}, ${options}`, error);
      }
    }
    await page.mouse.move(0, 0);
    await settle(page);
    shows(await textOf(page, '#keys .bars li:first-child span:last-child'), Math.max(...rows[query]), `the heaviest key, ${options}`, error);
  }
  await page.check('input[name=by][value=weight]');
  await page.setChecked('#no-sink', false);
  await pointAtCell(page, 1, query);
  check((await textOf(page, '#pattern-note')).includes('masked'), 'a key after the query is masked');

  await click(page, thumb('L0H0'), { modifiers: ['Shift'] });
  check((await textsOf(page, '#chosen .chip')).join() === `${name},L0H0`, 'shift-click adds a head');
  check((await page.locator('#keys > div').count()) === 2, 'keys of both heads');
  await click(page, thumb(name), { modifiers: ['Shift'] });
  check((await textsOf(page, '#chosen .chip')).join() === 'L0H0', 'and takes it away');
  await page.check('#several');
  await click(page, thumb(name));
  check((await textsOf(page, '#chosen .chip')).join() === `L0H0,${name}`, 'several heads at once: a click adds');
  await page.uncheck('#several');
  await click(page, thumb('L0H0'));
  check((await textsOf(page, '#chosen .chip')).join() === 'L0H0', 'one head at once again');
  await page.check('input[name=shape][value=lines]');
  await settle(page);
  check((await page.isVisible('#lines')) && !(await page.isVisible('#map')), 'lines take the place of the map');
  const box = await page.locator('#lines').boundingBox();
  await page.mouse.move(box.x + 20, box.y + 4 + 22 * 2.5);
  await settle(page);
  check((await textOf(page, '#pattern-note')).startsWith('query 2 '), 'a line’s query', await textOf(page, '#pattern-note'));
  await page.check('input[name=shape][value=map]');
  await settle(page);
}

/* The map's own layout, read from the picture: cells are square and fill the canvas from the right. */
async function pointAtCell(page, query, key) {
  const n = await page.locator('#tokens .token').count();
  await page.locator('#map').scrollIntoViewIfNeeded();
  const box = await page.locator('#map canvas').first().boundingBox();
  const cell = await page.evaluate((tokens) => {
    const height = document.querySelector('#map canvas').clientHeight;
    return (height - 80) / tokens;
  }, n);
  await page.mouse.move(box.x + 92 + (key + 0.5) * cell, box.y + 78 + (query + 0.5) * cell);
  await settle(page);
}

async function testLens(page, query) {
  for (const position of [0, query]) {
    const lens = about('lens', '--query', String(position));
    for (const [column, expected] of lens.rows.entries()) {
      await page.hover(`[data-position="${position}"] [data-column="${column}"]`);
      shows(await textOf(page, '#lens-cell [data-key=p]'), expected.final_probability, `lens ${expected.row} at ${position}`);
      shows(await textOf(page, '#lens-cell [data-key=rank]'), expected.final_rank, `rank in lens ${expected.row} at ${position}`);
      const top = await textsOf(page, '#lens-cell .bars li span:last-child');
      check(top.length === 5, 'five tokens of a cell');
      top.forEach((text, i) => shows(text, expected.top[i].probability, `lens ${expected.row}, token ${i}`));
    }
  }
}

async function testSteps(page, query) {
  const name = await page.locator('#step-head option').last().getAttribute('value');
  await page.selectOption('#step-head', name);
  await settle(page);
  check((await textsOf(page, '#chosen .chip')).join() === name, 'the head of the steps is the chosen head');
  const [layer, head] = name.slice(1).split('H');
  const expected = about('explain', '--layer', layer, '--head', head, '--query', String(query)).keys;
  const rows = await page.locator('#step-table tbody tr').evaluateAll((list) => list.map((row) => [...row.cells].map((cell) => cell.innerText)));
  check(rows.length === Math.min(3, about('score').n_tokens - 1 - query) + expected.length, 'a row for each key, and the masked');
  expected.forEach((key, i) => {
    shows(rows[i][2], key.dot, `dot product with key ${i}`);
    shows(rows[i][3], key.score, `score of key ${i}`);
    shows(rows[i][5], key.weight, `weight of key ${i}`);
    shows(rows[i][6], key.value_norm, `length of value ${i}`, NORM_ERROR);
    shows(rows[i][7], key.weighted, `weighted value ${i}`, NORM_ERROR);
  });
  for (const [i, column] of [[1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]) {
    await page.check(`input[name=step][value="${i}"]`);
    await settle(page);
    check((await page.locator('#step-table tbody tr').first().locator('td').nth(column).getAttribute('class')) === 'current', `step ${i} marks its column`);
    check((await textOf(page, '#formulas .formula:not([hidden])')).length > 20, `step ${i} has a formula`);
  }
  await page.check('input[name=step][value="0"]');
}

async function testAblation(page) {
  const ablate = about('ablate', '--heads', ABLATED);
  const before = await textsOf(page, '#distribution td:nth-child(3)');
  check((await textOf(page, '#without')).includes(ABLATED), 'the switch names the heads');
  const title = await page.getAttribute('#without', 'title');
  shows(title.match(/surprisal [+−]([\d.]+)/)[1], Math.abs(bits(ablate.ablation.delta_nll_nats)), 'change in surprisal');
  shows(title.match(/KL ([\d.]+)/)[1], bits(ablate.ablation.kl_nats), 'KL');
  await page.check('#without-input');
  await settle(page);
  const after = await textsOf(page, '#distribution td:nth-child(3)');
  check(before.join() !== after.join(), 'the switch changes the distribution');
  const nll = await page.locator('#tokens .token').evaluateAll((list) => list.slice(1).map((element) => Number(element.getAttribute('aria-label').match(/([\d.]+) bits$/)[1])));
  const mean = nll.reduce((a, b) => a + b, 0) / nll.length;
  check(Math.abs(mean - bits(ablate.ablation.nll_nats)) < 0.006, 'surprisals without the heads', `${mean}`);
  await page.uncheck('#without-input');
  await settle(page);
  check((await textsOf(page, '#distribution td:nth-child(3)')).join() === before.join(), 'and back');
}

async function testKeyboard(browser, url) {
  const page = await open(browser, url);
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.dataset.head || document.activeElement.className);
  await press(page, 'Tab');
  check((await page.evaluate(() => document.activeElement.className)) === 'skip', 'the first stop skips to the text');
  while (!(await focused()).startsWith('token')) await press(page, 'Tab');
  await press(page, 'Home');
  check((await page.getAttribute(token(0), 'aria-selected')) === 'true', 'Home chooses the first token');
  await press(page, 'ArrowRight', 2);
  check((await page.getAttribute(token(2), 'aria-selected')) === 'true', 'right twice: the third');
  check((await textOf(page, '#place')).startsWith('position 2 '), 'and the bar says so');
  check((await textOf(page, '#next-summary')).includes('position 2'), 'and so does the next section');
  while ((await focused()) !== 'temperature') await press(page, 'Tab');
  await press(page, 'ArrowLeft', 4);
  check((await page.inputValue('#temperature')) === '0.6', 'arrows move the temperature');
  while (!/^L\d+H\d+$/.test(await focused())) await press(page, 'Tab');
  await press(page, 'Home');
  await press(page, 'Enter');
  check((await textsOf(page, '#chosen .chip')).join() === 'L0H0', 'Enter chooses a head');
  await press(page, 'ArrowRight');
  await press(page, 'Shift+Enter');
  check((await textsOf(page, '#chosen .chip')).join() === 'L0H0,L0H1', 'Shift-Enter adds one');
  while ((await focused()) !== 'map') await press(page, 'Tab');
  await press(page, 'ArrowDown');
  check((await textOf(page, '#place')).startsWith('position 3 '), 'down chooses the next query');
  while (!(await focused()).startsWith('lens')) await press(page, 'Tab');
  await press(page, 'ArrowLeft');
  check((await page.locator('.lens .pointed').count()) === 1, 'arrows move through the layers');
  await press(page, 'ArrowUp');
  check((await textOf(page, '#lens-cell h3')).includes('after 2 '), 'and the tokens');
  check(page.complaints.length === 0, 'without a complaint', page.complaints.join('; '));
  await page.close();
}

async function testHostile(browser) {
  const texts = [
    '</script><script>alert(1)</script>', '<img src=x onerror=alert(1)>', '<!--<script>', '&lt;b&gt; \'"`${alert(1)}',
    'one\u0001two\u001b[31mthree\u009b5m\ufff9b\ufdd0c\u{1fffe}d\u{e0041}e\u061cf', 'שלום עולם \u202eabc\u202c', '😀 naïve 日本', '  \n\n\t x',
  ];
  const unseen = /[\u0080-\u009f\u061c\u202c\u202e\ufff9\u{e0041}\p{Noncharacter_Code_Point}]/gu;
  const named = path.join(folder, 'm\u202e\u009b5m\u{e0041}.gguf');
  fs.symlinkSync(model, named);
  const page = await open(browser, write('plain.html', '-p', 'x'));
  const script = await page.locator('script:not([type])').textContent();
  check(script.length > 1000 && !/(inner|outer|Adjacent)HTML|document\.write|eval\(|new Function/.test(script), 'no text is read as markup or as script');
  await page.close();
  for (const [i, text] of texts.entries()) {
    const page = await open(browser, writeOf(named, `hostile${i}.html`, '-p', text, '-n', '1'));
    check(page.complaints.length === 0, `${JSON.stringify(text)} stays text`, page.complaints.join('; '));
    check((await page.locator('main script, main img').count()) === 0, 'and makes no element');
    const shown = await page.evaluate(() => [...document.querySelectorAll('#tokens .token:not(.generated)')].map((element) => element.textContent).join(''));
    const expected = text.replace(/\t/g, '⇥').replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0))).replace(unseen, (c) => `⟨${c.codePointAt(0).toString(16).padStart(4, '0')}⟩`).replace(/\n/g, '↵\n');
    check(shown.replace(/⟨[0-9a-f]{2}( [0-9a-f]{2})*⟩/g, '') === expected, 'and is shown whole', `${JSON.stringify(shown)} for ${JSON.stringify(expected)}`);
    const marks = await page.locator('#tokens .mark').allTextContents();
    const pieces = json('score', model, '-p', text).tokens.flatMap(({ hex }) => (hex ? [`⟨${hex.match(/../g).join(' ')}⟩`] : []));
    const places = [await textOf(page, '#facts'), await textOf(page, '#made-by'), await page.title()];
    check(places.every((place) => !place.match(unseen)), "and so is the file's name", JSON.stringify(places));
    check(marks.every((mark) => mark === '↵' || pieces.includes(mark)), 'bytes stand in their order', marks.join());
    await page.close();
  }
}

async function testLooks(browser, url) {
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [360, 1920]) {
      const page = await open(browser, url, { colorScheme, viewport: { width, height: 800 } });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      check(overflow <= 0, `nothing hangs over at ${width} px`, `${overflow} px`);
      check((await page.evaluate(() => document.documentElement.dataset.theme)) === colorScheme, `follows the system: ${colorScheme}`);
      await page.close();
    }
  }
  const page = await open(browser, url, { colorScheme: 'dark' });
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await paper();
  await click(page, '#theme');
  check((await paper()) !== dark && (await textOf(page, '#theme')).includes('light'), 'the theme can be chosen');
  await page.close();
}

/* A finger has no pointer that stays: what it taps is chosen, and stays in the sentence below. */
async function testTouch(browser, url) {
  const page = await open(browser, url, { hasTouch: true });
  const n = await page.locator('#tokens .token').count();
  await page.locator('#map').scrollIntoViewIfNeeded();
  let box = await page.locator('#map canvas').first().boundingBox();
  const cell = (box.height - 80) / n;
  await page.touchscreen.tap(box.x + 92 + 1.5 * cell, box.y + 78 + 2.5 * cell);
  await settle(page);
  check((await textOf(page, '#place')).startsWith('position 2 '), 'a tap on the map chooses the query', await textOf(page, '#place'));
  await page.locator('label:has(input[value=lines])').tap();
  await settle(page);
  box = await page.locator('#lines').boundingBox();
  await page.touchscreen.tap(box.x + 20, box.y + 4 + 22 * 4.5);
  await settle(page);
  check((await textOf(page, '#place')).startsWith('position 4 '), 'a tap on the lines too', await textOf(page, '#place'));
  check(page.complaints.length === 0, 'touch is without a complaint', page.complaints.join('; '));
  await page.close();
}

/* Roles, names, contrast: by the rules of axe-core, where it is installed. */
async function testAccess(browser, url) {
  let axe;
  try {
    axe = require('axe-core').source;
  } catch {
    console.log('skipped: rules of accessibility, without axe-core');
    skipped++;
    return;
  }
  for (const colorScheme of ['light', 'dark']) {
    const page = await open(browser, url, { colorScheme, bypassCSP: true });
    await page.evaluate(axe);
    for (const rule of (await page.evaluate(() => window.axe.run())).violations) {
      check(false, `${rule.id} in ${colorScheme}:`, `${rule.help}: ${rule.nodes.map((node) => node.target.join(' ')).join('; ')}`);
    }
    check(true);
    await page.close();
  }
}

/* The pixels of a canvas, [r, g, b, alpha] at each of the points, in CSS pixels. */
const pixelsOf = (page, selector, points) => page.locator(selector).evaluate((canvas, list) => {
  const context = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return list.map(([x, y]) => [...context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data]);
}, points);

const rgbOf = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

/* Colours of the style sheet, --name-1 and so on, as the page has them now. */
const coloursOf = async (page, names) => (await page.evaluate((list) => {
  const style = getComputedStyle(document.documentElement);
  return list.map((name) => style.getPropertyValue(name).trim());
}, names)).map(rgbOf);

/* From a share in [0, 1] to the colour that stands for it in the map. */
async function heatOf(page) {
  const stops = await coloursOf(page, [0, 1, 2, 3, 4].map((i) => `--heat-${i}`));
  return (share) => {
    const at = (Math.round(255 * share) / 255) * 4;
    const low = Math.min(Math.floor(at), 3);
    return stops[low].map((from, c) => from + (at - low) * (stops[low + 1][c] - from));
  };
}

/* Of pixels, how many are not of their colours (null: transparent), by a few levels each. */
const wrongOf = (pixels, colours) => pixels.filter((pixel, i) => (
  colours[i] ? pixel[3] !== 255 || colours[i].some((c, j) => Math.abs(c - pixel[j]) > 8) : pixel[3] !== 0)).length;

/* That every cell of the map, n × n from (left, top), has its colour, and that those of masked keys have none. */
async function checkMap(page, n, colourAt, what, [left, top, below] = [92, 78, 2]) {
  const cell = (await page.locator('#map canvas').first().evaluate((canvas) => canvas.clientHeight) - top - below) / n;
  const cells = Array.from({ length: n * n }, (_, i) => [Math.floor(i / n), i % n]);
  const pixels = await pixelsOf(page, '#map canvas:first-child', cells.map(([q, k]) => [left + (k + 0.5) * cell, top + (q + 0.5) * cell]));
  const wrong = wrongOf(pixels, cells.map(([q, k]) => (k <= q ? colourAt(q, k) : null)));
  check(wrong === 0, `the picture of ${what}`, `${wrong} of ${n * n} cells have another colour`);
}

/* That every thumbnail shows its head's rows, wherever it stands; where several cells are one, the largest of them. */
async function checkThumbs(page, rowsOf, what) {
  const heat = await heatOf(page);
  let wrong = Infinity;
  await page.locator('#grid').scrollIntoViewIfNeeded();
  for (let tries = 0; tries < 40 && wrong > 0; tries++) { // a few are painted each frame
    await settle(page);
    const places = await page.locator('.thumb').evaluateAll((list) => list.map((button) => {
      const { offsetLeft: x, offsetTop: y, offsetWidth: side } = button.firstElementChild;
      return { name: button.dataset.head, x, y, side };
    }));
    const points = [];
    const colours = [];
    for (const { name, x, y, side } of [places[0], places[1], places.at(-1)]) {
      const rows = rowsOf(name);
      const size = Math.min(64, rows.length);
      const cells = new Float64Array(size * size);
      rows.forEach((row, q) => row.forEach((weight, k) => {
        const cell = Math.floor((q * size) / rows.length) * size + Math.floor((k * size) / rows.length);
        cells[cell] = Math.max(cells[cell], weight);
      }));
      for (let i = 0; i < side; i += 3) {
        for (let j = 0; j < i - 2; j += 3) {
          points.push([x + j, y + i]);
          colours.push(heat(cells[Math.floor(((i + 0.5) * size) / side) * size + Math.floor(((j + 0.5) * size) / side)]));
        }
      }
    }
    wrong = Math.max(0, wrongOf(await pixelsOf(page, '#thumbs', points), colours) - 0.02 * points.length);
  }
  check(wrong === 0, `thumbnails ${what}`, `${wrong} pixels have another colour`);
}

async function testPictures(browser, url) {
  const page = await open(browser, url);
  const { patterns, tokens } = about('attend');
  const n = tokens.length;
  const rowsOf = (name) => patterns.find(({ layer, head }) => name === `L${layer}H${head}`).rows;
  const [one, two] = ['L0H0', await page.locator('.thumb').last().getAttribute('data-head')];
  await click(page, thumb(two));
  let heat = await heatOf(page);
  await checkMap(page, n, (q, k) => heat(rowsOf(two)[q][k]), two);
  await page.check('input[name=by][value=value]');
  await settle(page);
  const values = about('attend', '--by', 'value', '--layer', two.match(/\d+/)[0], '--head', two.match(/\d+$/)[0]).patterns[0].rows;
  const largest = Math.max(...values.flat());
  await checkMap(page, n, (q, k) => heat(values[q][k] / largest), `${two} by value`);
  shows(await textOf(page, '#pattern-scale span:last-child'), largest, 'what the darkest is');
  await page.check('input[name=by][value=weight]');
  await page.selectOption('#sort', 'prev');
  await checkThumbs(page, rowsOf, 'sorted');

  await page.evaluate(() => { // what is written on canvas, and where
    const { fillText } = CanvasRenderingContext2D.prototype;
    window.written = [];
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
      window.written.push({ text, x, y });
      fillText.call(this, text, x, y, ...rest);
    };
  });
  await click(page, '#theme');
  await click(page, '#theme');
  heat = await heatOf(page);
  await checkMap(page, n, (q, k) => heat(rowsOf(two)[q][k]), `${two} in the dark`);
  await checkThumbs(page, rowsOf, 'in the dark');
  const cell = (await page.locator('#map canvas').first().evaluate((canvas) => canvas.clientHeight) - 80) / n;
  const labels = (await page.evaluate(() => window.written)).filter(({ x }) => x === 87).slice(-n);
  check(labels.every(({ text, y }, i) => text === tokens[i].token.replace(/^ /, '␣') && Math.abs(y - 78 - (i + 0.5) * cell) < 0.01), 'names of the rows', JSON.stringify(labels));

  await click(page, thumb(one), { modifiers: ['Shift'] });
  const [paper, first, second] = await coloursOf(page, ['--heat-0', '--head-1', '--head-2']);
  const over = (under, colour, share) => under.map((c, i) => c + (colour[i] - c) * share);
  await checkMap(page, n, (q, k) => over(over(paper, first, rowsOf(two)[q][k]), second, rowsOf(one)[q][k]), 'two heads');

  await pointAtCell(page, 3, 1);
  await page.mouse.down();
  await page.mouse.up();
  await page.mouse.move(0, 0);
  await settle(page);
  check((await textOf(page, '#place')).startsWith('position 3 '), 'a click on the map chooses the query');
  const height = await page.locator('#map canvas').last().evaluate((canvas) => canvas.clientHeight);
  const column = await pixelsOf(page, '#map canvas:last-child', Array.from({ length: Math.floor(height) }, (_, y) => [91.5, y]));
  const marked = column.flatMap((pixel, y) => (pixel[3] > 0 ? [y] : []));
  check(Math.abs(marked[0] - (78 + 3 * cell)) < 2 && Math.abs(marked.at(-1) - (78 + 4 * cell)) < 2, 'and its row is marked', marked.join());

  await click(page, thumb(two));
  await page.check('input[name=shape][value=lines]');
  await settle(page);
  const width = await page.locator('#lines').evaluate((element) => element.clientWidth);
  const side = Math.min(150, width * 0.32);
  const inkAt = async (x) => (await pixelsOf(page, '#lines canvas:last-child', tokens.map((_, i) => [x, 15 + 22 * i]))).map((pixel) => pixel[3]);
  const [left, right] = [await inkAt(side + 8), await inkAt(width - side - 8)];
  check(left.every((ink, i) => (ink > 0) === (i === 3)), 'lines start left, at the query', left.join());
  check(right.every((ink, i) => (i <= 3 && rowsOf(two)[3][i] > 0.05 ? ink > 0 : i <= 3 || ink === 0)), 'and end right, at the keys', right.join());
  const box = await page.locator('#lines').boundingBox();
  await page.mouse.move(box.x + box.width - 20, box.y + 4 + 22 * 2.5);
  await settle(page);
  check(/query 3 .* → key 2 /.test(await textOf(page, '#pattern-note')), 'a line’s key', await textOf(page, '#pattern-note'));
  await page.check('input[name=shape][value=map]');

  await page.setViewportSize({ width: 700, height: 900 });
  await settle(page);
  await checkMap(page, n, (q, k) => heat(rowsOf(two)[q][k]), 'a narrower window');
  check(await page.locator('#map').evaluate((map) => map.firstElementChild.clientWidth === map.clientWidth), 'the map fits it');
  check(page.complaints.length === 0, 'pictures are without a complaint', page.complaints.join('; '));
  await page.close();
}

/* Clicks on tokens, what follows in the text, colours, the switch. */
async function testChoice(browser, url) {
  const page = await open(browser, url);
  const { positions } = about('score');
  const known = positions.find(({ rank }) => rank > 1 && rank <= 10);
  await click(page, token(known.position - 1));
  check((await textOf(page, '#place')).startsWith(`position ${known.position - 1} `), 'a click chooses a token');
  check((await textsOf(page, '#distribution .itself td:first-child')).join() === String(known.rank), 'what follows in the text is marked');
  for (const items of ['.thumb', '.token']) check((await page.locator(`${items}[tabindex="0"]`).count()) === 1, `one ${items} is a stop of Tab`);
  await press(page, 'End');
  check((await page.getAttribute(token(positions.at(-1).position), 'aria-selected')) === 'true', 'End chooses the last token');
  const alphas = await page.locator('#tokens .token').evaluateAll((list) => list.map((element) => Number(getComputedStyle(element).backgroundColor.match(/([\d.]+)\)$/)[1])));
  for (const { position, surprisal_nats: nats } of positions) {
    check(Math.abs(alphas[position] - 0.75 * Math.min(1, bits(nats) / 12)) < 0.01, `colour as seen, of token ${position}`, String(alphas[position]));
  }
  await page.check('#without-input');
  for (const expected of positions.slice(0, 3)) {
    await page.hover(token(expected.position));
    const p = await textOf(page, '#token [data-key=probability]');
    check((await textsOf(page, '#token .bars .itself span:last-child')).join() === p, `alternatives without the heads, token ${expected.position}`);
    shows(await textOf(page, '#token [data-key=with-all]'), Math.exp(-expected.surprisal_nats), 'probability with all heads');
  }
  await page.uncheck('#without-input');
  const query = positions.at(-1).position;
  const lens = about('lens', '--query', String(query));
  const cells = await page.locator(`[data-position="${query}"] [data-column]`).evaluateAll((list) => list.map((element) => [Number(element.style.getPropertyValue('--share')), element.classList.contains('agrees')]));
  for (const [column, expected] of lens.rows.entries()) {
    const [share, agrees] = cells[column];
    check(Math.abs(share - expected.final_probability) < 0.001, `colour of lens ${expected.row}`);
    check(agrees === (expected.top[0].id === lens.final.id), `lens ${expected.row} is bold where it agrees`);
  }
  await page.close();
}

/* The rows of "step by step" against explain, for the head and the query that are chosen. */
async function checkSteps(page, expected, what) {
  const rows = await page.locator('#step-table tbody tr:not(.out)').evaluateAll((list) => list.map((row) => [Number(row.dataset.key), ...[...row.cells].map((cell) => cell.innerText)]));
  const byKey = new Map(expected.map((item) => [item.key, item]));
  for (const [key, , , dot, score, , weight, norm] of rows) {
    const item = byKey.get(key);
    if (item.dot === null) check(dot === '–', `no dot product with key ${key}, ${what}`, dot);
    else shows(dot, item.dot, `dot product with key ${key}, ${what}`);
    shows(score, item.score, `score of key ${key}, ${what}`);
    shows(weight, item.weight, `weight of key ${key}, ${what}`);
    check(Math.abs(parseFloat(norm) - item.value_norm) < 0.001, `length of value ${key}, ${what}`, norm); // kept in 16 bits
  }
  return rows.map(([key]) => key);
}

/* A text too long for the scores of all queries: weights from bytes, pictures of several cells in one. */
async function testLong(browser) {
  const text = 'The Eiffel Tower is in Paris. '.repeat(14);
  const page = await open(browser, write('long.html', '-p', text));
  const { patterns, tokens } = json('attend', model, '-p', text);
  const n = tokens.length;
  const rowsOf = (name) => patterns.find(({ layer, head }) => name === `L${layer}H${head}`).rows;
  await page.selectOption('#sort', 'prev'); // rows with long runs of zeros
  const name = await page.locator('.thumb').first().getAttribute('data-head');
  await click(page, thumb(name));
  const rows = rowsOf(name);
  const heat = await heatOf(page);
  await checkMap(page, n, (q, k) => heat(rows[q][k]), 'a long text', [2, 2, 2]);
  await checkThumbs(page, rowsOf, 'of a long text');
  const [layer, head] = name.slice(1).split('H');
  const expected = json('explain', model, '-p', text, '--layer', layer, '--head', head, '--query', String(n - 1)).keys;
  const kept = await checkSteps(page, expected, 'in a long text');
  const others = expected.filter((_, key) => !kept.includes(key)).map(({ weight }) => weight);
  check(kept.length === 40 && Math.max(...others) <= Math.min(...kept.map((key) => expected[key].weight)), 'the heaviest 40 keys are in the table');
  shows((await textOf(page, '#step-note')).match(/left out: ([\d.]+)/)[1], others.reduce((a, b) => a + b, 0), 'weight of the others');

  for (const query of [0, 40, n - 2]) {
    await click(page, token(query));
    const items = await page.locator('#keys .bars li').evaluateAll((list) => list.map((item) => [item.firstElementChild.innerText, item.lastElementChild.innerText]));
    const keys = items.filter(([place]) => !/ others?$/.test(place));
    for (const [place, value] of keys) check(Math.abs(parseFloat(value) - rows[query][parseInt(place, 10)]) < 0.51 / 255 + 0.0005, `weight of key ${place} for query ${query}, from a byte`, value);
    check(rows[query][parseInt(keys[0][0], 10)] > Math.max(...rows[query]) - 1 / 255, 'the heaviest stands first');
    if (query === 0) check(keys[0][1] === '1.000', 'a weight of 1 is 1', keys[0][1]);
    else check(Math.abs(items.reduce((sum, [, value]) => sum + parseFloat(value.replace('< ', '')), 0) - 1) < 0.5 * n / 255, 'with the others all of it', JSON.stringify(items));
  }
  await click(page, '#step-note button');
  check((await textOf(page, '#place')).startsWith(`position ${n - 1} `), 'a button leads to the query whose scores are kept');
  await page.locator('#lens-grid').evaluate((frame) => frame.scrollTo(0, 0));
  await settle(page);
  check((await page.locator('[data-position="0"] [data-column="0"]').count()) === 1 && (await page.locator(`[data-position="${n - 1}"]`).count()) === 0, 'rows of the lens come and go');
  check(page.complaints.length === 0, 'a long text is without a complaint', page.complaints.join('; '));
  await page.close();
}

/* Pages of some layers, and of a model whose heads share keys and values. */
async function testParts(browser) {
  const shared = path.join(__dirname, 'data/reference/llama-f32.gguf');
  for (const [file, layers, options, text] of [[model, [1, 3], ['--layers', '1,3'], PROMPT], [shared, [0, 1], [], 'some words']]) {
    const output = path.join(folder, 'parts.html');
    execFileSync(study, ['view', file, '-p', text, ...options, '-o', output]);
    const page = await open(browser, `file://${output}`);
    const names = await page.locator('#step-head option').evaluateAll((list) => list.map((option) => option.value));
    const nHeads = names.length / 2;
    check(names.join() === layers.flatMap((layer) => Array.from({ length: nHeads }, (_, head) => `L${layer}H${head}`)).join(), 'heads of the layers that are kept', names.join());
    for (const name of [names[2], names.at(-1)]) {
      const [layer, head] = name.slice(1).split('H');
      await page.selectOption('#step-head', name);
      await settle(page);
      const { keys } = json('explain', file, '-p', text, '--layer', layer, '--head', head);
      check((await checkSteps(page, keys, `${name} of ${path.basename(file)}`)).length === keys.length, `all keys of ${name}`);
    }
    check(page.complaints.length === 0, 'parts are without a complaint', page.complaints.join('; '));
    await page.close();
  }
}

/* Families whose scores are not q·k/√d_head, whose queries have a window, or whose heads have learned sinks. */
async function testFamilies(browser) {
  const text = ['-z', path.join(__dirname, 'data/study/letters.gguf'), '-p', 'the tin man sat'];
  for (const [family, formula] of [['gpt-oss', ''], ['bloom', 'slope·(query − k), slope = 0.'], ['gemma2', '2.5·tanh(q·k_k / √d_head / 2.5)'], ['granite', 'q·k_k·0.4']]) {
    const file = path.join(__dirname, `data/reference/${family}.gguf`);
    const page = await open(browser, writeOf(file, `${family}.html`, ...text));
    await page.selectOption('#step-head', 'L0H1');
    await settle(page);
    const explained = json('explain', file, ...text, '--layer', '0', '--head', '1');
    const kept = await checkSteps(page, explained.keys, family);
    check(kept.join() === explained.keys.map(({ key }) => key).join(), `${family}: the keys that the query sees`);
    const place = await textOf(page, '#step-place');
    check(place.includes(formula) && place.includes('score_k') === (formula !== ''), `${family}: how scores are made`, place);
    check(place.includes('window of 5') === (explained.window === 5), `${family}: the window`, place);
    const feet = await textsOf(page, '#step-table tfoot tr');
    check(feet.at(-1).includes('1.0000') && feet.length === (explained.learned_sink === null ? 1 : 2), `${family}: the sum`, feet.join('; '));
    if (explained.learned_sink !== null) {
      shows(feet[0].match(/[\d.]+$/)?.[0] ?? feet[0].split('\t').at(-2), explained.learned_sink, `${family}: the learned sink`);
      const last = (await textsOf(page, '#keys .bars li')).at(-1);
      check(last.startsWith('learned sink'), `${family}: the learned sink stands below the keys`, last);
    }
    check(page.complaints.length === 0, `${family}: no complaint`, page.complaints.join('; '));
    await page.close();
  }
}

(async () => {
  const browser = await launch();
  const url = write('page.html', '-p', PROMPT, '--ablate', ABLATED);
  const page = await open(browser, url);
  const query = about('score').n_tokens - 1;
  await testText(page);
  await testNext(page, query);
  await testHeads(page, query);
  await testLens(page, query);
  await testSteps(page, query);
  await testAblation(page);
  await click(page, '#back');
  check((await textOf(page, '#place')).startsWith(`position ${query - 1} `), 'one position back');
  await testSteps(page, query - 1);
  check(page.complaints.length === 0, 'no complaint and no request', page.complaints.join('; '));
  await testPictures(browser, url);
  await testChoice(browser, url);
  await testLong(browser);
  await testParts(browser);
  await testFamilies(browser);
  await testKeyboard(browser, url);
  await testHostile(browser);
  await testLooks(browser, url);
  await testTouch(browser, url);
  await testAccess(browser, url);
  const generated = await open(browser, write('generated.html', '-p', 'The Eiffel', '-n', '3'));
  check((await generated.locator('.token.generated').count()) === 3, 'what was generated is marked');
  await browser.close();
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  process.exit(failed > 0 ? 1 : 0);
})();
