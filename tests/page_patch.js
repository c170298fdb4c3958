/* Two texts side by side: the grids are those of `study patch`, and what cannot be computed, or was stopped, is said. */
'use strict';
const { check, shows, say, write, open, openAnswered, close, settle, resize, until, answered, hashOf, click, press, textOf, textsOf, folder, path } = require('./page_tools');
const { STORY, replaceAnswered } = require('./page_live');

const OTHER = 'The king Zilban rode out. Then king Zil';
const ERROR = 5e-3; // of an effect: the engine in a page rounds in another order than the native one
const GRIDS = ['resid_pre', 'attn_out', 'mlp_out', 'z'];
const MORE = 'When Mary and John went to the shop, John gave a book to';

/* Until both texts are known. */
const known = (page) => until(page, () => !wanted.has('clean') && !wanted.has('corrupted') && !['clean', 'corrupted'].includes(asking?.kind) && !pending, null, 'both texts are known');
const patched = (page) => until(page, () => !pending && byId('patch-run').textContent === say('patch') && document.querySelectorAll('#patch-grid [role=gridcell]').length > 0, null, 'the grid is there');

async function look(page) {
  await page.evaluate(() => byId('patch').scrollIntoView());
  await until(page, () => byId('clean-pieces').children.length > 0, null, 'the section in sight asks');
  await known(page);
}

const cellsOf = (page) => page.evaluate(() => [...document.querySelectorAll('#patch-grid [data-row]')].map((row) => [...row.querySelectorAll('[data-column]')].map((cell) => [cell.textContent, Number(cell.style.getPropertyValue('--share')), cell.classList.contains('lower')])));

/* A grid against what study says of the same two texts. */
async function checkGrid(page, what, texts, answers) {
  const expected = say('patch', texts[0], '--corrupted', texts[1], ...answers, '--what', what);
  const cells = await cellsOf(page);
  const n = expected.n_tokens;
  check(cells.length * cells[0].length === expected.cells.length && (what === 'z' || cells.length === n), `${what}: a cell for each`, `${cells.length} × ${cells[0].length}`);
  for (const { layer, head, position, effect, same } of expected.cells) {
    const [text, colour, lower] = what === 'z' ? cells[layer][head] : cells[position][layer];
    const place = `${what}, layer ${layer}, ${what === 'z' ? `head ${head}` : `position ${position}`}`;
    check(same === (text === '·'), `${place}: a dot where both runs are the same`, text);
    if (same) continue;
    shows(text, effect, place, ERROR);
    check(Math.abs(colour - Math.min(1, Math.abs(effect))) < 2 * ERROR, `${place}: its colour`, `${colour} for ${effect}`);
    check(lower === (Number(text.replace('−', '-').replace(' %', '')) < 0), `${place}: another colour below 0`);
  }
  return expected;
}

/* All grids, of the two texts that it begins with: what a cell says, by pointer and by keys; other answers. */
async function checkPatch(url, grids = GRIDS) {
  const page = await openAnswered(url);
  check(await page.evaluate(() => byId('corrupted-pieces').children.length === 0), 'nothing is asked for out of sight');
  await look(page);
  check((await page.inputValue('#corrupted')) === OTHER, 'an example has its other text', await page.inputValue('#corrupted'));
  check((await textsOf(page, '#clean-pieces .other')).join() === 'gan' && (await textsOf(page, '#corrupted-pieces .other')).join() === 'ban', 'tokens that differ are marked');
  const [right, wrong] = [STORY, OTHER].map((text) => say('next', text).top[0]);
  check((await page.inputValue('#answer')) === String(right.id) && (await page.inputValue('#wrong')) === String(wrong.id), 'the answers are the likeliest of each');
  const answers = ['--answer', `#${right.id}`, '--wrong', `#${wrong.id}`];
  await click(page, '#patch-run');
  for (const what of grids) {
    await page.check(`input[name=patched][value=${what}]`);
    await patched(page);
    await checkGrid(page, what, [STORY, OTHER], answers);
  }
  await page.check('input[name=patched][value=resid_pre]');
  await patched(page);
  const { cells, clean_nats: clean, corrupted_nats: corrupted } = await checkGrid(page, 'resid_pre', [STORY, OTHER], answers);
  await page.hover('#patch-grid [data-row="4"] [data-column="2"]');
  await settle(page);
  const cell = cells.find(({ layer, position }) => layer === 2 && position === 4);
  const told = await textOf(page, '#tip');
  check(told === await textOf(page, '#patch-cell') && /the residual stream of 4 “gan” before layer 2/.test(told), 'a cell is told at the cursor and beside the grid', told);
  const numbers = told.match(/from (\S+) to (\S+): ([\d.]+ %) .* (\S+)\.$/)?.slice(1) ?? [];
  [corrupted, cell.value_nats, cell.effect, clean].forEach((value, i) => shows(numbers[i] ?? '', value, `number ${i} of a cell in words`, i === 2 ? ERROR : 0.02));
  const far = cells.filter(({ same, effect }) => !same && effect < -0.005).sort((a, b) => a.effect - b.effect)[0];
  await page.hover(`#patch-grid [data-row="${far.position}"] [data-column="${far.layer}"]`);
  check(/further off/.test(await textOf(page, '#patch-cell')), 'what leads away says so', await textOf(page, '#patch-cell'));
  await page.focus('#patch-grid');
  await press(page, 'Home');
  check(/same bits in both runs.*before layer \d/.test(await textOf(page, '#patch-cell')), 'what is the same says that a patch changes nothing', await textOf(page, '#patch-cell'));
  await press(page, 'End');
  await press(page, 'ArrowRight', 9);
  const last = cells.at(-1);
  shows((await textOf(page, '#patch-cell')).match(/([\d.]+ %) of the way/)[1], Math.abs(last.effect), 'keys lead to the last cell', ERROR);
  check((await page.locator('#patch-grid .pointed').count()) === 1, 'which alone is marked');

  await page.selectOption('#wrong', '-1');
  await patched(page);
  const alone = await checkGrid(page, 'resid_pre', [STORY, OTHER], answers.slice(0, 2));
  const runs = (await textOf(page, '#patch-runs')).match(/: (\S+) in the clean run, (\S+) in/).slice(1);
  shows(runs[0], alone.clean_nats / Math.LN2, 'a probability alone is told in bits', 0.02);
  shows(runs[1], alone.corrupted_nats / Math.LN2, 'of both runs', 0.02);
  const second = say('next', STORY).top[1].id;
  await page.selectOption('#answer', String(second));
  await patched(page);
  await checkGrid(page, 'resid_pre', [STORY, OTHER], ['--answer', `#${second}`]);
  await page.evaluate(() => change({ off: { L3H4: 0 } }));
  await answered(page);
  check(await page.isVisible('#patch-unchanged'), 'with something off it says that this is of the unchanged model');
  await page.evaluate(() => change({ off: {} }));

  for (const language of ['en', 'zh']) {
    await page.evaluate((one) => change({ language: one }), language);
    for (const [width, height] of [[1440, 900], [1366, 768], [1024, 768], [390, 844], [360, 800]]) {
      await resize(page, width, height);
      check(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), `nothing hangs over at ${width} px, ${language}`);
      const cut = await page.locator('#patch-grid [role=gridcell]').evaluateAll((list) => list.filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent));
      check(cut.length === 0, `no number of the grid is cut at ${width} px, ${language}`, cut.join());
    }
  }
  check(/^取自原文运行|^两次运行完全相同/.test(await textOf(page, '#patch-cell')), 'in Chinese, too', await textOf(page, '#patch-cell'));
  await close(page, 'two texts');
}

async function testPatch(live) {
  await checkPatch(live);
}

/* Texts that cannot be compared, and those of strangers: a sentence, and both rows of tokens. */
async function testPatchRefusals(live) {
  const page = await openAnswered(live);
  await look(page);
  const refusal = () => textOf(page, '#patch-refusal');
  await page.fill('#corrupted', STORY);
  await known(page);
  check((await refusal()).startsWith('Both texts are the same 12 tokens'), 'the same text', await refusal());
  check(await page.isHidden('#patch-controls'), 'leaves nothing to press');
  await page.fill('#corrupted', 'The old king Zilban rode out. Then king Zil');
  await known(page);
  check((await refusal()).startsWith('The first text has 12 tokens and the second one 13;'), 'other lengths', await refusal());
  check((await textsOf(page, '#clean-pieces bdi')).length === 12 && (await textsOf(page, '#corrupted-pieces bdi')).length === 13, 'both rows of tokens stand there');
  check((await textsOf(page, '#clean-pieces .other')).join() === '␣king,␣Z,il,gan' && (await textsOf(page, '#corrupted-pieces .other')).join() === '␣old,␣king,␣Z,il,ban', 'with what lies between what is alike', await textsOf(page, '#corrupted-pieces .other'));
  await page.fill('#corrupted', '');
  await known(page);
  check((await refusal()).length > 10 && !/undefined/.test(await refusal()), 'an empty text', await refusal());
  await page.fill('#corrupted', 'long '.repeat(3000));
  await known(page);
  check((await refusal()).length > 10, 'a text beyond the context', await refusal());
  const HOSTILE = '</textarea><img src=x onerror=alert(1)> \u202e中文\u0000';
  await page.fill('#corrupted', HOSTILE);
  await known(page);
  check((await page.evaluate(() => document.querySelectorAll('main img, main script').length)) === 0 && (await page.inputValue('#corrupted')).startsWith('</textarea>'), 'markup stays text');
  await replaceAnswered(page, MORE);
  await look(page);
  check((await page.inputValue('#corrupted')) === HOSTILE.replace('\u0000', '\u0000'), 'what was typed stays when the first text changes');
  await page.fill('#corrupted', MORE.replace('John gave', 'Mary gave'));
  await known(page);
  await click(page, '#patch-run');
  await patched(page);
  const ids = [MORE, MORE.replace('John gave', 'Mary gave')].map((text) => say('next', text).top[0].id);
  await checkGrid(page, 'resid_pre', [MORE, MORE.replace('John gave', 'Mary gave')], ['--answer', `#${ids[0]}`, '--wrong', `#${ids[1]}`]);
  await replaceAnswered(page, 'Something else.');
  await known(page);
  check(await page.isHidden('#patch-result'), 'another text takes the grid away');
  await close(page, 'texts that do not fit');
}

/* A long one can be stopped: what is done stays, and the page goes on answering. */
async function testPatchStops(live) {
  const page = await openAnswered(live);
  const long = `${'The tall gate and the red lamp. '.repeat(7)}The tall`;
  await replaceAnswered(page, long);
  await look(page);
  await page.fill('#corrupted', long.replace('tall', 'long'));
  await known(page);
  await click(page, '#patch-run');
  await until(page, () => document.querySelectorAll('#patch-grid [role=gridcell]').length > 0 && [...document.querySelectorAll('#patch-grid [data-column]')].some((cell) => cell.textContent), null, 'the first cells are there');
  check((await textOf(page, '#patch-run')) === 'Stop', 'it can be stopped');
  await click(page, '#patch-run');
  const done = () => page.evaluate(() => [...document.querySelectorAll('#patch-grid [data-column]')].filter((cell) => cell.textContent).length);
  const all = await page.locator('#patch-grid [data-column]').count();
  const n = await done();
  check(n > 0 && n < all && (await textOf(page, '#patch-progress')) === `Stopped: ${n} of ${all} places are there.`, 'and says how much is there', `${n} of ${all}: ${await textOf(page, '#patch-progress')}`);
  await click(page, '#patch-run');
  await until(page, (before) => [...document.querySelectorAll('#patch-grid [data-column]')].filter((cell) => cell.textContent).length > before, n, 'it goes on where it was');
  await click(page, '#patch-run');
  const further = await done();
  check(further > n && further < all, 'and is stopped again', `${further} of ${all}`);
  await page.evaluate(() => document.querySelector('#patch-grid [data-row="2"] [data-column="5"]').scrollIntoView({ block: 'center' }));
  await page.hover('#patch-grid [data-row="2"] [data-column="5"]');
  check(/^Not computed: the residual stream of 2 “␣?\S+” before layer 5\.$/.test(await textOf(page, '#patch-cell')), 'a cell that is not there says so', await textOf(page, '#patch-cell'));
  await replaceAnswered(page, 'Who is there?');
  check((await done()) === further || await page.isHidden('#patch-result'), 'nothing comes behind');
  check((await page.evaluate(() => followed)) === 'Who is there?', 'and the engine answers what is typed next');
  await close(page, 'a grid that is stopped');
}

/* The other text, what is patched and the answers stand in the address, and so in a saved page. */
async function testPatchAddress(live) {
  const page = await openAnswered(live);
  await look(page);
  await page.fill('#corrupted', 'The king Zolgan rode out. Then king Zil');
  await known(page);
  await page.check('input[name=patched][value=mlp_out]');
  await page.selectOption('#wrong', '-1');
  const hash = await hashOf(page);
  check(/c=The\+king\+Zolgan/.test(hash) && /g=mlp_out/.test(hash) && /cw=-1/.test(hash), 'the address has it', hash);
  const again = await openAnswered(live + hash);
  await look(again);
  check((await again.inputValue('#corrupted')) === 'The king Zolgan rode out. Then king Zil' && await again.isChecked('input[name=patched][value=mlp_out]') && (await again.inputValue('#wrong')) === '-1', 'and a link brings it back');
  await close(again, 'a link to two texts');
  for (const hostile of ['#c=%3Cimg%20src%3Dx%3E%00&g=constructor&ca=1e99&cw=-7', '#c=&ca=999999999&cw=3&g=z', `#c=${'a'.repeat(9000)}`]) {
    const other = await openAnswered(live + hostile);
    await look(other);
    check(await other.evaluate(() => document.querySelectorAll('main img').length === 0 && ['resid_pre', 'z'].includes(state.patched)), `a hostile address harms nothing: ${hostile.slice(0, 30)}`);
    await close(other, 'a hostile address of two texts');
  }
  const waiting = page.waitForEvent('download');
  await page.click('#save');
  const copy = path.join(folder, 'two-texts.html');
  await (await waiting).saveAs(copy);
  const saved = await openAnswered(`file://${copy}`);
  await look(saved);
  check((await saved.inputValue('#corrupted')) === 'The king Zolgan rode out. Then king Zil', 'a saved page has it, and its engine');
  await click(saved, '#patch-run');
  await patched(saved);
  check((await cellsOf(saved)).flat().every(([text]) => text !== ''), 'and computes it again');
  await close(saved, 'a saved page of two texts');
  await close(page, 'the address of two texts');

  const still = await open(write('still.html', '-p', STORY));
  check(await still.isHidden('#two-texts') && await still.isHidden('#patch-result'), 'a page that only shows has no second text');
  check(/study view --live/.test(await textOf(still, '#patch-missing')) && /study patch/.test(await textOf(still, '#patch-missing')), 'and says what has', await textOf(still, '#patch-missing'));
  await click(still, '#attributed summary');
  check(/study serve/.test(await textOf(still, '#attributed-parts')) && /study attribute/.test(await textOf(still, '#attributed-parts')), 'nor which parts raise a token, and says who tells', await textOf(still, '#attributed-parts'));
  await close(still, 'a page that only shows');
}

module.exports = { checkPatch, testPatch, testPatchRefusals, testPatchStops, testPatchAddress };
