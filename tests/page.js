/*
 * The page of `study view` in a browser: that it opens without a request or a complaint, that it shows the
 * numbers of the other views, that every control does what it says, by mouse and by keyboard, and that text
 * stays text. tests/test_page.sh runs it with the paths of study, the model and an empty folder.
 */
'use strict';
const { execFileSync } = require('child_process');
const path = require('path');
const { chromium } = require('playwright-core');

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

/* Whether a number as shown ("41.3 %", "−2.05", "≈ 0.3") is `value` rounded as it is. */
function shows(text, value, what) {
  const number = text.replace('−', '-').match(/-?[\d.]+/)?.[0] ?? 'NaN';
  const percent = text.includes('%');
  const decimals = number.split('.')[1]?.length ?? 0;
  if (text.startsWith('<')) {
    check(value * (percent ? 100 : 1) < Number(number), what, `shows ${text}, not ${value}`);
    return;
  }
  const off = Math.abs(Number(number) - value * (percent ? 100 : 1));
  check(off <= 0.51 * 10 ** -decimals, what, `shows ${text}, not ${value}`);
}

const json = (...args) => JSON.parse(execFileSync(study, [...args, '--json'], { maxBuffer: 1 << 28 }));
const about = (...args) => json(args[0], model, '-p', PROMPT, ...args.slice(1));
const bits = (nats) => nats / Math.LN2;

function write(name, ...args) {
  const file = path.join(folder, name);
  execFileSync(study, ['view', model, ...args, '-o', file]);
  return `file://${file}`;
}

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
  for (const [i, row] of (await rows()).entries()) {
    shows(row[2], text.top[i].probability, `p of rank ${i + 1}`);
    shows(row[3], bits(-text.top[i].logprob_nats), `bits of rank ${i + 1}`);
    shows(row[4], text.top[i].logit, `logit of rank ${i + 1}`);
  }
  shows((await textOf(page, '#next-summary')).match(/entropy ([\d.]+) bits/)[1], bits(text.entropy_nats), 'entropy');
  for (const [temperature, topP] of [[0.7, 1], [1.4, 1], [1, 0.5], [0.6, 0.3], [2, 0.05]]) {
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
    const rows = about('attend', ...place, ...options).patterns[0].rows;
    for (const q of [query, 1]) {
      for (const key of new Set([0, 1, q])) {
        await pointAtCell(page, q, key);
        shows((await textOf(page, '#pattern-note')).match(/(?:weight|‖) L\d+H\d+ ((?:< )?[\d.]+)/)[1], rows[q][key], `${by} of key ${key} for query ${q}, ${options}`);
      }
    }
    await page.mouse.move(0, 0);
    await settle(page);
    shows(await textOf(page, '#keys .bars li:first-child span:last-child'), Math.max(...rows[query]), `the heaviest key, ${options}`);
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
    shows(rows[i][6], key.value_norm, `length of value ${i}`);
    shows(rows[i][7], key.weighted, `weighted value ${i}`);
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
  check((await textOf(page, '#next-summary')).includes('position 2'), 'and so does the next view');
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
    'one\u0001two\u001b[31mthree', 'שלום עולם \u202eabc\u202c', '😀 naïve 日本', '  \n\n\t x',
  ];
  for (const [i, text] of texts.entries()) {
    const page = await open(browser, write(`hostile${i}.html`, '-p', text, '-n', '1'));
    check(page.complaints.length === 0, `${JSON.stringify(text)} stays text`, page.complaints.join('; '));
    check((await page.locator('main script, main img').count()) === 0, 'and makes no element');
    const shown = await page.evaluate(() => [...document.querySelectorAll('#tokens .token:not(.generated)')].map((element) => element.textContent).join(''));
    const expected = text.replace(/\t/g, '⇥').replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0))).replace(/[\u202c\u202e]/g, (c) => `⟨${c.charCodeAt(0).toString(16)}⟩`).replace(/\n/g, '↵\n');
    check(shown.replace(/⟨[0-9a-f]{2}( [0-9a-f]{2})*⟩/g, '') === expected, 'and is shown whole', `${JSON.stringify(shown)} for ${JSON.stringify(expected)}`);
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

(async () => {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args });
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
  await testKeyboard(browser, url);
  await testHostile(browser);
  await testLooks(browser, url);
  await testAccess(browser, url);
  const generated = await open(browser, write('generated.html', '-p', 'The Eiffel', '-n', '3'));
  check((await generated.locator('.token.generated').count()) === 3, 'what was generated is marked');
  await browser.close();
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  process.exit(failed > 0 ? 1 : 0);
})();
