/* The page from `study serve`: what is typed and switched off there, and what it says once nobody answers. */
'use strict';
const { spawn } = require('child_process');
const { study, model, folder, check, shows, say, open, close, until, answered, textOf, textsOf, path } = require('./page_tools');
const { STORY, testTyping, testChanges, replaceText } = require('./page_live');

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
  const text = `${STORY}van <b> & back`;
  await replaceText(page, text);
  await answered(page);
  await page.evaluate(() => change({ off: { L4H1: 0, L2MLP: 0.5 }, query: 8 }));
  await answered(page);
  const shown = () => [...document.querySelectorAll('#tokens .token, #expected .row > *, #boxes .guess, #keys li')].map((part) => part.textContent.trim()).filter(Boolean).join('|');
  await until(page, () => !!shownRun().lens[8] && later.size === 0, null, 'the layers of the place');
  const waiting = page.waitForEvent('download');
  await page.click('#save');
  const download = await waiting;
  check(download.suggestedFilename() === 'attn-The-king-Zorvan-rode-out-Then-king.html', 'a served page is named after its text', download.suggestedFilename());
  const copy = path.join(folder, 'served.html');
  await download.saveAs(copy);
  const saved = await open(`file://${copy}`);
  check(await saved.evaluate(() => source.kind) === 'frozen', 'it only shows');
  const [here, there] = [await page.evaluate(shown), await saved.evaluate(shown)];
  check(here === there && /van/.test(here), 'and shows what the served page did', `${there} for ${here}`);
  check(await saved.isChecked('#without-input') && await saved.locator('main.behind').count() === 0, 'with what is off');
  await saved.uncheck('#without-input');
  await until(saved, () => later.size === 0 && pending === null, null, 'all is on');
  const final = say('lens', text, '--query', '8').rows.at(-1).top[0].probability;
  shows((await textsOf(saved, '#boxes .guess')).at(-1).match(/[\d.]+ %/)[0], final, 'and, switched on, the model as it is', 2e-3);
  await close(saved, 'a saved copy of a served page');
  await page.evaluate(() => change({ off: {} }));
  await answered(page);
}

async function testServe() {
  const { server, url } = await serve();
  try {
    await testTyping(url);
    await testChanges(url);
    const page = await open(url);
    await answered(page);
    await testSaved(page);
    const ended = new Promise((done) => server.on('exit', done));
    server.kill('SIGINT');
    await ended;
    await replaceText(page, 'Is anybody there?');
    await until(page, () => !!problem, null, 'that nobody answers is told');
    const words = await textOf(page, '#tokens-legend .problem');
    check(words.length > 10 && words.length < 200, 'in a line', words);
    check((await page.inputValue('#editor')) === 'Is anybody there?', 'and what was typed stays');
    await page.context().close();
  } finally {
    server.kill('SIGKILL');
  }
}

module.exports = { testServe };
