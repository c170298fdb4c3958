/* The page from `study serve`: what is typed and switched off there, and what it says once nobody answers. */
'use strict';
const { spawn } = require('child_process');
const { study, model, folder, check, shows, say, open, openAnswered, close, settle, resize, until, answered, textOf, textsOf, path } = require('./page_tools');
const { STORY, testTyping, testChanges, replaceText, replaceAnswered } = require('./page_live');
const { checkPatch } = require('./page_patch');

/* Starts the server; resolves to it and its address. */
const serve = () => new Promise((done, failed) => {
  const server = spawn(study, ['serve', model, '-p', STORY], { stdio: ['ignore', 'pipe', 'ignore'] });
  let printed = '';
  server.on('error', failed);
  server.on('exit', () => failed(new Error(`study serve ended, having printed ${printed}`)));
  server.stdout.on('data', (bytes) => {
    printed += bytes;
    const address = /http:\S+/.exec(printed);
    if (address && printed.endsWith('\n')) done({ server, url: address[0] });
  });
});

/* Away from its server a saved page only shows: the text, the change and the numbers that were there, and asks nobody. */
async function testSaved(page) {
  const text = `${STORY}gan <b> & back`;
  await replaceAnswered(page, text);
  await page.evaluate(() => change({ off: { L3H4: 0, L2MLP: 0.5 }, query: 8 }));
  await answered(page);
  const shown = () => [...document.querySelectorAll('#tokens .token, #expected .row > *, #boxes .guess, #keys li')].map((part) => part.textContent.trim()).filter(Boolean).join('|');
  await until(page, () => !!shownRun().lens[8] && later.size === 0, null, 'the layers of the place');
  const waiting = page.waitForEvent('download');
  await page.click('#save');
  const download = await waiting;
  check(download.suggestedFilename() === 'attn-The-king-Zilgan-rode-out-Then-king.html', 'a served page is named after its text', download.suggestedFilename());
  const copy = path.join(folder, 'served.html');
  await download.saveAs(copy);
  const saved = await open(`file://${copy}`);
  check(await saved.evaluate(() => source.kind) === 'frozen', 'it only shows');
  const [here, there] = [await page.evaluate(shown), await saved.evaluate(shown)];
  check(here === there && /gan/.test(here), 'and shows what the served page did', `${there} for ${here}`);
  check(await saved.isChecked('#without-input') && await saved.locator('main.behind').count() === 0, 'with what is off');
  await saved.uncheck('#without-input');
  await until(saved, () => later.size === 0 && pending === null, null, 'all is on');
  const final = say('lens', text, '--query', '8').rows.at(-1).top[0].probability;
  shows((await textsOf(saved, '#boxes .guess')).at(-1).match(/[\d.]+ %/)[0], final, 'and, switched on, the model as it is', 2e-3);
  await close(saved, 'a saved copy of a served page');
  await page.evaluate(() => change({ off: {} }));
  await answered(page);
}

/* The list of numbers with their names in a part of the page: {name: text}. */
const listOf = (page, selector) => page.evaluate((of) => Object.fromEntries([...document.querySelectorAll(`${of} li`)].map((li) => [li.firstChild.textContent, li.lastChild.textContent])), selector);

const ERROR = 0.011; // a page feeds the text otherwise than a command, and the weights are quantised

/* An arc that is clicked tells why the head looks there; and the next token, which parts raise it. */
async function testWhy(url) {
  const page = await openAnswered(`${url}#h=L3H4`);
  const arc = await page.evaluate(() => {
    const path = [...document.querySelectorAll('#arcs path')].sort((a, b) => b.getAttribute('stroke-width') - a.getAttribute('stroke-width'))[0];
    const middle = path.getPointAtLength(path.getTotalLength() / 2);
    const frame = byId('arcs').getBoundingClientRect();
    return { x: frame.left + middle.x, y: frame.top + middle.y };
  });
  await page.mouse.move(arc.x, arc.y);
  await until(page, () => byId('paper').classList.contains('on-arc'), null, 'an arc can be clicked');
  check(/Why/.test(await textOf(page, '#tip')), 'and says what for');
  await page.mouse.click(arc.x, arc.y);
  await until(page, () => document.querySelectorAll('#why li').length > 0, null, 'why the head looks there');
  check(await page.isChecked('input[name=shape][value=why]') && await page.evaluate(() => state.query === 11 && state.looked === 'L3H4:11>4'), 'of the query under the eye and the arc’s key');
  const score = say('attribute', STORY, '--score', 'L3H4:11>4', '--top', '8');
  const cells = await listOf(page, '#why > div:nth-of-type(1)');
  for (const { query, key, value } of score.strongest.slice(0, 5)) shows(cells[`${query} × ${key}`] ?? '', value, `the pair ${query} × ${key}`, ERROR);
  shows((await textOf(page, '#why .across')).match(/score ([\d.]+)/)[1], score.score, 'the score', ERROR);
  await page.selectOption('#why select', '0');
  check(await answered(page) && await page.evaluate(() => state.looked === 'L3H4:11>0'), 'another key');
  await page.focus('#why select');
  await page.keyboard.press('ArrowDown');
  check(await answered(page) && await page.evaluate(() => state.looked !== 'L3H4:11>0' && document.activeElement === document.querySelector('#why select')), 'the list of keys keeps the focus');
  await page.selectOption('#why select', '0');
  await answered(page);
  const other = say('attribute', STORY, '--score', 'L3H4:11>0', '--top', '8');
  shows((await textOf(page, '#why .across')).match(/score ([−\d.]+)/)[1], other.score, 'its score', ERROR);

  await page.click('#attributed summary');
  await until(page, () => document.querySelectorAll('#attributed li').length > 0, null, 'which parts raise the next token');
  const id = say('next', STORY, '--top', '2').top.map((token) => token.id);
  const checkParts = async (answer, what) => {
    const parts = await listOf(page, '#attributed-parts');
    const { parts: expected } = say('attribute', STORY, '--answer', `#${answer}`);
    const largest = [...expected].sort((a, b) => Math.abs(b.value) - Math.abs(a.value))[0];
    shows(parts[largest.part] ?? '', largest.value, `${what}: ${largest.part}`, ERROR);
  };
  await checkParts(id[0], 'of the likeliest');
  await page.selectOption('#attributed select', String(id[1]));
  await answered(page);
  await checkParts(id[1], 'of another');
  await page.focus('#attributed select');
  await page.keyboard.press('ArrowDown');
  check(await answered(page) && await page.evaluate(() => document.activeElement === document.querySelector('#attributed select')), 'the list of tokens keeps the focus');

  for (const language of ['en', 'zh']) {
    await page.evaluate((one) => change({ language: one }), language);
    for (const width of [360, 768, 1280, 1920]) {
      await resize(page, width, 800);
      check(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), `nothing hangs over at ${width} px, ${language}`);
    }
  }
  await page.evaluate(() => change({ off: { L3H4: 0 } }));
  await answered(page);
  check(await page.locator('#why .of-unchanged').count() === 1 && await page.locator('#attributed .of-unchanged').count() === 1, 'with a change it says that this is of the model without');
  await page.evaluate(() => change({ off: {}, query: 0 }));
  await until(page, () => document.querySelectorAll('#why li').length > 0, null, 'of the first token, too');
  await settle(page);
  await close(page, 'why');
}

/* Nobody answers any more: whatever is asked for says so in the page's language, and nothing waits for ever. */
async function testGone(page) {
  await page.evaluate(() => change({ shape: 'writes', query: 2, heads: ['L0H1'], pinned: true }));
  await until(page, () => /no longer answers/.test(byId('written').textContent), null, 'what a head writes is not waited for');
  await page.evaluate(() => change({ off: { L1H1: 0 } }));
  await until(page, () => /unchanged model.*no longer answers/.test(byId('changes').textContent), null, 'nor what a change does');
  for (const [language, words] of [['en', /^study serve no longer answers/], ['zh', /^study serve 不再应答/]]) {
    await page.evaluate((one) => change({ language: one }), language);
    await settle(page);
    check(words.test(await textOf(page, '#status')), `it is told, ${language}`, await textOf(page, '#status'));
    const waiting = await page.evaluate(() => [...document.querySelectorAll('#written, #changes, #boxes .guess, #lens-grid [role=gridcell], #why, #attributed')].filter((part) => part.checkVisibility() && /^…|…$/.test(part.textContent.trim())).map((part) => part.id || part.className));
    check(waiting.length === 0, `nothing waits, ${language}`, waiting.join());
    check(!/Failed to fetch/.test(await page.evaluate(() => byId('main').innerText)), `and the browser has no say, ${language}`);
  }
  await page.evaluate(() => change({ language: 'en', off: {} }));
  await settle(page);
}

async function testServe() {
  const { server, url } = await serve();
  try {
    await testTyping(url);
    await testChanges(url);
    await testWhy(url);
    const page = await openAnswered(url);
    await testSaved(page);
    const ended = new Promise((done) => server.on('exit', done));
    server.kill('SIGINT');
    await ended;
    await testGone(page);
    await replaceText(page, 'Is anybody there?');
    await until(page, () => !!problem, null, 'that nobody answers is told');
    const words = await textOf(page, '#tokens-legend .problem');
    check(/^study serve no longer answers/.test(words) && words.length < 200, 'in a line', words);
    check((await page.inputValue('#editor')) === 'Is anybody there?', 'and what was typed stays');
    await page.context().close();
  } finally {
    server.kill('SIGKILL');
  }
}

/* Two texts side by side, answered by the server. */
async function testServePatch() {
  const { server, url } = await serve();
  try {
    await checkPatch(url, ['z']);
  } finally {
    server.kill('SIGKILL');
  }
}

module.exports = { testServe, testServePatch };
