/* The page from `study serve`: what is typed and switched off there, and what it says once nobody answers. */
'use strict';
const { spawn } = require('child_process');
const { study, model, check, open, until, answered, textOf } = require('./page_tools');
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

async function testServe() {
  const { server, url } = await serve();
  try {
    await testTyping(url);
    await testChanges(url);
    const page = await open(url);
    await answered(page);
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
