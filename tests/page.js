/*
 * The page of `study view` in a browser: that it opens without a request or a complaint, that it shows the numbers of the
 * other views, that every control does what it says, by mouse and by keyboard, and that text stays text; as a page that
 * only shows, and with the engine in it. tests/test_page.sh runs it with the paths of study, the model and an empty
 * folder; names of parts behind them run only those.
 */
'use strict';
const { launch } = require('./browser');
const { counts, check, given, setBrowser, write, writeOf } = require('./page_tools');

const FILES = ['frozen', 'pictures', 'live', 'patch', 'keyboard', 'typing', 'leaving', 'state', 'tour', 'look', 'words', 'large', 'serve'];
const parts = Object.assign({}, ...FILES.map((name) => require(`./page_${name}`)));

const AT_ONCE = 2; // a page in front of another waits for its engine, too

const running = new Set();
process.on('SIGTERM', () => {
  console.log(`not ended: ${[...running].join(', ')}`);
  process.exit(143);
});

async function runTest([name, test], live, whole) {
  const begun = Date.now();
  running.add(name);
  try {
    await test(live, whole);
  } catch (error) {
    check(false, `${name} ran to its end:`, error.stack);
  }
  running.delete(name);
  if (process.env.TIMES) console.log(`${name} ${((Date.now() - begun) / 1000).toFixed(1)} s`);
}

(async () => {
  const browser = await launch();
  setBrowser(browser);
  const live = write('live.html', '-p', parts.STORY, '--live');
  const whole = writeOf(given, 'whole.html', '-p', parts.STORY, '--live'); // its own sampling takes room, which tests of layout need
  const chosen = process.argv.slice(5);
  const left = Object.entries(parts).filter(([name]) => name.startsWith('test') && (chosen.length === 0 || chosen.includes(name)));
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (left.length > 0) await runTest(left.shift(), live, whole);
  }));
  await browser.close();
  console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  process.exit(counts.failed > 0 ? 1 : 0);
})();
