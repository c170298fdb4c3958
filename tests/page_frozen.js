/* The page that only shows: its numbers are those of the other views, and every control does what it says. */
'use strict';
const { model, check, shows, json, say, bits, write, open, close, settle, press, click, setRange, textOf, textsOf, token, thumb } = require('./page_tools');

const PROMPT = 'The Eiffel Tower is in Paris. The Eiffel';
const ABLATED = 'L0H0';
const NORM_ERROR = 1e-4; // norms of up to 13 are kept in 16 bits
const about = (view, ...args) => say(view, PROMPT, ...args);
const last = () => about('score').n_tokens - 1;

let url = null;
const frozen = () => {
  url ??= write('page.html', '-p', PROMPT, '--ablate', ABLATED);
  return url;
};

async function choose(page, name, shape = null) {
  await click(page, thumb(name));
  if (shape) await page.check(`input[name=shape][value=${shape}]`);
  await settle(page);
}

async function testText() {
  const page = await open(frozen());
  const score = about('score');
  check((await page.locator('#tokens .token').count()) === score.n_tokens, 'as many tokens as score has');
  check((await textOf(page, '#tokens')) === PROMPT, 'the text is the prompt', await textOf(page, '#tokens'));
  const alphas = await page.locator('#tokens .token').evaluateAll((list) => list.map((element) => Number(getComputedStyle(element).backgroundColor.match(/([\d.]+)\)$/)?.[1])));
  for (const expected of score.positions) {
    await page.hover(token(expected.position));
    await settle(page);
    const at = `of token ${expected.position}`;
    shows(await textOf(page, '#token [data-key=probability]'), Math.exp(-expected.surprisal_nats), `probability ${at}`);
    shows(await textOf(page, '#token [data-key=rank]'), expected.rank, `rank ${at}`);
    shows(await textOf(page, '#token [data-key=surprisal]'), bits(expected.surprisal_nats), `surprisal ${at}`);
    shows(await textOf(page, '#token [data-key=entropy]'), bits(expected.entropy_nats), `entropy ${at}`);
    const share = Math.min(1, bits(expected.surprisal_nats) / 12);
    check(Math.abs(alphas[expected.position] - 0.75 * share) < 0.01, `colour ${at}`, String(alphas[expected.position]));
    const [first] = expected.likelier;
    if (first) shows(await textOf(page, '#tip .bars li:first-child > span:last-child'), first.probability, `what is likelier in place ${at}`);
  }
  await page.mouse.move(0, 0);
  await settle(page);
  check(await page.isHidden('#tip'), 'what stood at the cursor is gone');
  shows((await textOf(page, '#tokens-legend')).match(/([\d.]+) bits a token/)[1], bits(score.totals.nll_nats), 'bits a token');
  const known = score.positions.find(({ rank }) => rank > 1 && rank <= 10);
  await click(page, token(known.position - 1));
  check((await textOf(page, '#place')).startsWith(`position ${known.position - 1} `), 'a click chooses a token');
  check((await page.locator('#distribution .itself td:first-child').allTextContents()).join() === String(known.rank), 'what follows in the text is marked');
  for (const [items, key] of [['#grid .thumb', 'heads'], ['#tokens .token', 'tokens'], ['#boxes button', 'the model']]) check((await page.locator(`${items}[tabindex="0"]`).count()) === 1, `one stop of Tab among ${key}`);
  const generated = await open(write('generated.html', '-p', 'The Eiffel', '-n', '3'));
  check((await generated.locator('.token.generated').count()) === 3, 'what was generated is marked');
  await close(generated, 'a page of generated text');
  await close(page, 'the text');
}

async function testNext() {
  const page = await open(frozen());
  const text = about('next', '--top', '20');
  const rows = () => page.locator('#distribution tbody tr').evaluateAll((list) => list.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const { temperature_step: step, next } = about('view');
  check((await page.getAttribute('#temperature', 'step')) === String(step) && (await page.getAttribute('#temperature', 'max')) === String(step * next[0].rest.length), 'the slider has the temperatures that the data has');
  for (const [i, row] of (await rows()).entries()) {
    shows(row[2], text.top[i].probability, `p of rank ${i + 1}`);
    shows(row[3], bits(-text.top[i].logprob_nats), `bits of rank ${i + 1}`);
    shows(row[4], text.top[i].logit, `logit of rank ${i + 1}`);
  }
  shows((await textOf(page, '#next-summary')).match(/Entropy ([\d.]+) bits/)[1], bits(text.entropy_nats), 'entropy');
  const bars = await page.locator('#expected .row').evaluateAll((list) => list.map((row) => {
    const bar = row.querySelector('.bar-of');
    const width = getComputedStyle(bar).backgroundSize.match(/([\d.]+(?:e-\d+)?)%/)?.[1];
    return [row.children[0].textContent, Number(width), row.children[2].textContent, bar.getBoundingClientRect().width];
  }));
  bars.slice(0, 8).forEach(([, width, shown], i) => {
    check(Math.abs(width - 100 * text.top[i].probability) < 0.1, `the bar of rank ${i + 1} is as long as it is likely`, `${width} % for ${text.top[i].probability}`);
    shows(shown, text.top[i].probability, `probability of rank ${i + 1} beside its bar`);
  });
  check(new Set(bars.map(([, , , width]) => Math.round(width))).size === 1, 'all bars have one scale');
  shows(bars.at(-1)[2], 1 - text.top.slice(0, 8).reduce((sum, { probability }) => sum + probability, 0), 'and the last is of all others');
  for (const [temperature, topP] of [[0.7, 1], [1.4, 1], [1, 0.5], [0.6, 0.3], [2, 0.05], [2, 0.6]]) {
    await setRange(page, '#temperature', temperature);
    await setRange(page, '#top-p', topP);
    const drawn = about('next', '--top', '20', '--temp', String(temperature), '--top-p', String(topP));
    const inAll = drawn.after.n_kept;
    for (const [i, row] of (await rows()).entries()) {
      shows(row[2], drawn.top[i].probability, `p stays p at temperature ${temperature}`);
      const { after } = drawn.top[i];
      if (row[5] === '–') check(after === 0, `rank ${i + 1} is left out at temperature ${temperature}, top-p ${topP}`);
      else if (!row[5].startsWith('≈')) shows(row[5], after, `drawn, rank ${i + 1}, temperature ${temperature}, top-p ${topP}`);
      else check(inAll > 20 && Math.abs(parseFloat(row[5].slice(1)) / 100 - after) < 0.1 * after, 'about what is drawn');
    }
    const note = await page.locator('#next-note').textContent();
    if (topP < 1) check(note.includes(inAll > 20 ? 'more than 20 tokens' : `${inAll} can be drawn`), 'how many can be drawn', note);
  }
  await setRange(page, '#temperature', 0);
  check((await rows())[0][5].startsWith('100') && (await rows())[1][5] === '–', 'temperature 0 draws the likeliest');
  await click(page, '#next-reset');
  check((await rows())[0].length === 5 && (await page.locator('#temperature').inputValue()) === '1', 'reset takes the filters off');
  await close(page, 'what comes next');
}

async function testHeads() {
  const page = await open(frozen());
  const query = last();
  const [heads, repeat] = [about('heads'), json('heads', model)];
  const words = { prev: 'previous \\(prev\\)', ind: 'induction \\(ind\\)', dup: 'duplicate \\(dup\\)', sink: 'sink', self: 'self', confidence: 'confidence \\(conf\\)' };
  for (const [value, scores] of [['text', heads], ['repeat', repeat]]) {
    await page.selectOption('#measured', value);
    for (const head of [scores.heads[0], scores.heads.at(-1)]) {
      await page.hover(thumb(head.name));
      const note = await textOf(page, '#head-note');
      shows(note.match(/entropy ([\d.]+)/)[1], bits(head.entropy_nats), `entropy of ${head.name} on ${value}`);
      for (const [key, word] of Object.entries(words)) {
        if (head[key] === null) check(!new RegExp(word).test(note), `${key} is not shown where there is none`);
        else shows(note.match(new RegExp(`${word} ([\\d.]+)`))[1], head[key], `${key} of ${head.name} on ${value}`);
      }
      if (head.label) check(note.includes(`${head.name}, `), 'a head that has a name is called by it', note);
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
  const labels = Object.fromEntries(repeat.heads.filter(({ label }) => label).map(({ name, label }) => [name, label]));
  const shown = await page.locator('.thumb').evaluateAll((list) => list.flatMap((button) => (button.querySelector('em').textContent ? [button.dataset.head] : [])));
  check(shown.sort().join() === Object.keys(labels).sort().join() && shown.length > 1, 'heads that have a name are labelled', shown.join());

  const { name, layer, head } = heads.heads.at(-1);
  await choose(page, name);
  check((await page.getAttribute(thumb(name), 'aria-pressed')) === 'true', 'a chosen head is marked');
  check((await page.locator('.thumb[aria-pressed=true]').count()) === 1, 'alone');
  const place = ['--layer', String(layer), '--head', String(head)];
  const settings = [['weight', false, []], ['value', false, ['--by', 'value']], ['weight', true, ['--no-sink']], ['value', true, ['--by', 'value', '--no-sink']]];
  for (const [by, noSink, options] of settings) {
    await page.check(`input[name=by][value=${by}]`);
    await page.setChecked('#no-sink', noSink);
    await settle(page);
    const { rows } = about('attend', ...place, ...options).patterns[0];
    const error = by === 'value' ? NORM_ERROR : 0;
    for (const q of [query, 1]) {
      for (const key of new Set([0, 1, q])) {
        await pointAtCell(page, q, key);
        shows((await textOf(page, '#pattern-note')).match(/(?:weight|‖) L\d+H\d+ ((?:< )?[\d.]+)/)[1], rows[q][key], `${by} of key ${key} for query ${q}, ${options}`, error);
      }
    }
    check((await textOf(page, '#tip')).startsWith('query 1 '), 'and it stands at the cursor', await textOf(page, '#tip'));
    await page.mouse.move(0, 0);
    await settle(page);
    shows(await textOf(page, '#keys .bars li:first-child span:last-child'), Math.max(...rows[query]), `the heaviest key, ${options}`, error);
  }
  await page.check('input[name=by][value=weight]');
  await page.setChecked('#no-sink', false);
  await pointAtCell(page, 1, query);
  check((await textOf(page, '#pattern-note')).includes('masked'), 'a key after the query is masked');
  await testSeveral(page, name);
  await close(page, 'heads');
}

/* Several heads at once, each in a colour of its own. */
async function testSeveral(page, name) {
  const chips = async () => (await textsOf(page, '#chosen .chip')).map((text) => text.split(' ')[0]).join();
  await click(page, thumb('L0H0'), { modifiers: ['Shift'] });
  check((await chips()) === `${name},L0H0`, 'shift-click adds a head');
  check((await page.locator('#keys > div').count()) === 2, 'keys of both heads');
  await click(page, thumb(name), { modifiers: ['Shift'] });
  check((await chips()) === 'L0H0', 'and takes it away');
  await page.check('#several');
  await click(page, thumb(name));
  check((await chips()) === `L0H0,${name}`, 'several heads at once: a click adds');
  await page.uncheck('#several');
  await click(page, thumb('L0H0'));
  check((await chips()) === 'L0H0', 'one head at once again');
  await page.check('input[name=shape][value=lines]');
  await settle(page);
  check((await page.isVisible('#lines')) && !(await page.isVisible('#map')), 'lines take the place of the map');
  const box = await page.locator('#lines').boundingBox();
  await page.mouse.move(box.x + 20, box.y + 4 + 22 * 2.5);
  await settle(page);
  check((await textOf(page, '#pattern-note')).includes('query 2 '), 'a line’s query', await textOf(page, '#pattern-note'));
}

/* The map's own layout: cells are square and fill the canvas from the right. */
async function pointAtCell(page, query, key) {
  await page.locator('#map').scrollIntoViewIfNeeded();
  await settle(page);
  const box = await page.locator('#map canvas').first().boundingBox();
  const cell = (box.height - 80) / (await page.evaluate(() => run.n));
  await page.mouse.move(box.x + 92 + (key + 0.5) * cell, box.y + 78 + (query + 0.5) * cell);
  await settle(page);
}

async function testLens() {
  const page = await open(frozen());
  for (const position of [0, last()]) {
    const lens = about('lens', '--query', String(position));
    const cells = await page.locator(`[data-position="${position}"] [data-column]`).evaluateAll((list) => list.map((element) => [Number(element.style.getPropertyValue('--share')), element.classList.contains('agrees')]));
    for (const [column, expected] of lens.rows.entries()) {
      await page.hover(`[data-position="${position}"] [data-column="${column}"]`);
      shows(await textOf(page, '#lens-cell [data-key=p]'), expected.final_probability, `lens ${expected.row} at ${position}`);
      shows(await textOf(page, '#lens-cell [data-key=rank]'), expected.final_rank, `rank in lens ${expected.row} at ${position}`);
      const top = await textsOf(page, '#lens-cell .bars li span:last-child');
      check(top.length === 5, 'five tokens of a cell');
      top.forEach((text, i) => shows(text, expected.top[i].probability, `lens ${expected.row}, token ${i}`));
      const [share, agrees] = cells[column];
      check(Math.abs(share - expected.final_probability) < 0.001, `colour of lens ${expected.row}`);
      check(agrees === (expected.top[0].id === lens.final.id), `lens ${expected.row} is bold where it agrees`);
    }
  }
  const lens = about('lens', '--query', String(last()));
  const guesses = await page.locator('#boxes .guess').evaluateAll((list) => list.map((box) => box.querySelector('span').textContent));
  guesses.forEach((text, i) => shows(text, lens.rows[i].top[0].probability, `the guess under box ${i} of the model`));
  check(guesses.length === lens.rows.length, 'a guess before and after each layer');
  await close(page, 'layers');
}

async function testAblation() {
  const page = await open(frozen());
  const ablate = about('ablate', '--heads', ABLATED);
  const distribution = () => page.locator('#distribution tr').allTextContents();
  const before = await distribution();
  check((await textOf(page, '#without')).includes(ABLATED), 'the switch names the heads');
  await page.check('#without-input');
  await settle(page);
  check(before.join() !== (await distribution()).join(), 'the switch changes the distribution');
  const nll = await page.locator('#tokens .token').evaluateAll((list) => list.slice(1).map((element) => Number(element.getAttribute('aria-label').match(/([\d.]+) bits$/)[1])));
  const mean = nll.reduce((a, b) => a + b, 0) / nll.length;
  check(Math.abs(mean - bits(ablate.ablation.nll_nats)) < 0.006, 'surprisals without the heads', `${mean}`);
  shows((await textOf(page, '#changes')).match(/surprisal ([+−][\d.]+) bits/)[1], bits(ablate.ablation.delta_nll_nats), 'change in surprisal');
  const [before1] = about('score').positions;
  await page.hover(token(1));
  await settle(page);
  check((await textOf(page, '#token [data-key=probability]')).includes('→'), 'a token tells what it was, and is');
  shows(await textOf(page, '#token [data-key=probability]'), Math.exp(-before1.surprisal_nats), 'what it was');
  const { ablation } = about('view', '--ablate', ABLATED);
  const checkLayers = async (of, what) => {
    const { rows } = of.lens.positions[last()];
    const guesses = await page.locator('#boxes .guess').evaluateAll((list) => list.map((box) => box.querySelector('span').textContent));
    guesses.forEach((text, i) => shows(text, rows[i][3], `${what}: the guess under box ${i} of the model`));
    const cells = await page.locator(`#lens-grid [data-position="${last()}"] [data-column]`).evaluateAll((list) => list.map((cell) => Number(cell.style.getPropertyValue('--share'))));
    cells.forEach((share, i) => check(Math.abs(share - rows[i][0]) < 0.0006, `${what}: layer by layer, column ${i}`, `${share} for ${rows[i][0]}`));
    check(cells.length === rows.length, `${what}: all columns`);
  };
  await page.evaluate((query) => chooseQuery(query), last());
  await settle(page);
  await checkLayers(ablation, 'without the heads');
  await choose(page, 'L5H2', 'writes');
  shows((await textOf(page, '#written .across')).match(/[\d.]+(?=\. )/)[0], ablation.explained.heads[5][2].output_norm, 'what a head writes without them');
  await page.uncheck('#without-input');
  await settle(page);
  await checkLayers(about('view'), 'with all');
  check((await distribution()).join() === before.join(), 'and back');
  const linked = await open(`${frozen()}#off=L3H3%3D0`);
  check(await linked.evaluate(() => Object.keys(state.off).length === 0 && !byId('main').classList.contains('behind')), 'a change that the page does not hold is not made');
  await close(linked, 'a link to another change');
  await close(page, 'ablation');
}

async function testKeyboard() {
  const page = await open(frozen());
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.dataset.head || document.activeElement.className);
  const tabTo = async (what) => {
    for (let i = 0; i < 60; i++) {
      if (what.test(await focused())) return;
      await press(page, 'Tab');
    }
    check(false, `Tab reaches ${what}`);
  };
  await press(page, 'Tab');
  check((await page.evaluate(() => document.activeElement.className)) === 'skip', 'the first stop skips to the text');
  await tabTo(/^token/);
  await press(page, 'Home');
  check((await page.getAttribute(token(0), 'aria-selected')) === 'true', 'Home chooses the first token');
  await press(page, 'ArrowRight', 2);
  check((await page.getAttribute(token(2), 'aria-selected')) === 'true', 'right twice: the third');
  check((await textOf(page, '#place')).startsWith('position 2 '), 'and the line below says so');
  check((await textOf(page, '#next-title')).includes(await page.evaluate(() => labelOf(2))), 'and what comes next is of it');
  await press(page, 'End');
  check((await page.getAttribute(token(last()), 'aria-selected')) === 'true', 'End chooses the last token');
  await press(page, 'Home');
  await press(page, 'ArrowRight', 2);
  await tabTo(/^temperature$/);
  await press(page, 'ArrowLeft', 4);
  check((await page.inputValue('#temperature')) === '0.6', 'arrows move the temperature');
  await tabTo(/^enter/);
  await press(page, 'ArrowRight');
  await press(page, 'Enter');
  check((await textsOf(page, '#chosen .chip')).join().startsWith('L0H1'), 'Enter in the map of the model chooses a head');
  await tabTo(/^map$/);
  await press(page, 'ArrowDown');
  check((await textOf(page, '#place')).startsWith('position 3 '), 'down chooses the next query');
  await tabTo(/^L\d+H\d+$/);
  await press(page, 'Home');
  await press(page, 'Enter');
  check((await textsOf(page, '#chosen .chip')).join() === 'L0H0', 'Enter chooses a head');
  await press(page, 'ArrowRight');
  await press(page, 'Shift+Enter');
  check((await textsOf(page, '#chosen .chip')).map((chip) => chip.split(' ')[0]).join() === 'L0H0,L0H1', 'Shift-Enter adds one', await textsOf(page, '#chosen .chip'));
  await tabTo(/^lens-grid/);
  await press(page, 'ArrowLeft');
  check((await page.locator('.lens .pointed').count()) === 1, 'arrows move through the layers');
  await press(page, 'ArrowUp');
  check((await textOf(page, '#lens-cell h3')).includes('after 2 '), 'and the tokens', await textOf(page, '#lens-cell h3'));
  await close(page, 'the keyboard');
}

module.exports = { PROMPT, about, last, frozen, choose, pointAtCell, testText, testNext, testHeads, testLens, testAblation, testKeyboard };
