/* By keyboard: what was pressed has the focus still when what holds it is drawn anew, so that it can be pressed again. */
'use strict';
const { check, say, openAnswered, close, settle, until, answered, press } = require('./page_tools');
const { STORY } = require('./page_live');

/* The element that has the focus, by its id, or what it says, or else its name. */
const focused = (page) => page.evaluate(() => {
  const { id, textContent, tagName } = document.activeElement;
  return id || textContent.trim().slice(0, 40) || tagName;
});

async function testFocus(live) {
  const page = await openAnswered(`${live}#h=L3H4`);
  const pressOn = async (selector, key) => {
    await page.focus(selector);
    await press(page, key);
    await answered(page);
  };
  const has = async (selector, what) => check(await page.evaluate((one) => document.activeElement === document.querySelector(one), selector), `${what} keeps the focus`, await focused(page));

  await page.focus('#flow input[type=range]');
  for (const factor of [1.25, 1.5, 1.75]) {
    await press(page, 'ArrowRight');
    await answered(page);
    check(await page.evaluate((expected) => state.off.L3H4 === expected, factor), `a step of the scale leads to ${factor}`, JSON.stringify(await page.evaluate(() => state.off)));
  }
  await has('#flow input[type=range]', 'the scale');
  await pressOn('#switch', 'Enter');
  await has('#switch', 'what switches a head');
  await press(page, 'Enter');
  await answered(page);
  check(await page.evaluate(() => state.off.L3H4 === 0), 'and switches it back');

  await page.evaluate(() => change({ off: { L3H4: 0, L2H1: 0 } }));
  await answered(page);
  await pressOn('#changes .off-chip', 'Enter');
  check(/^L2H1/.test(await focused(page)), 'after a part that is on again the next one has the focus', await focused(page));
  await press(page, 'Enter');
  await answered(page);
  check((await focused(page)) === 'sentence' && await page.isHidden('#changes'), 'after the last of them the text has', await focused(page));

  await page.evaluate(() => change({ temperature: 0.5 }));
  await settle(page);
  await pressOn('#next-reset', 'Enter');
  await has('#next-reset', 'what resets');
  await pressOn('#telling button', 'Enter');
  check((await focused(page)) === 'telling' && await page.evaluate(() => !state.pinned), 'what follows the text leads to what it says then', await focused(page));

  const [first] = say('next', STORY).top;
  await pressOn('#expected button', 'Enter');
  check(await page.evaluate((text) => followed === text, STORY + first.token), 'a token that is gone on with', await page.evaluate(() => followed));
  await has('#expected button', 'the likeliest token');
  await page.focus('#expected li:nth-child(2) button');
  const barOf = () => page.evaluate(() => document.activeElement.closest('li')?.dataset.id);
  const id = await barOf();
  await page.evaluate(() => change({ temperature: 0.7 }));
  await settle(page);
  check(id !== undefined && (await barOf()) === id, 'a bar that is drawn anew keeps the focus', await focused(page));
  await pressOn('#tree button', 'Enter');
  await has('#tree button', 'a text that was tried');
  check(await page.evaluate((text) => followed === text, STORY), 'which is back');

  await page.evaluate(() => chooseQuery(1));
  await settle(page);
  await pressOn('#back', 'Enter');
  await has('#back', 'the button to the place before, at the first,');
  await page.keyboard.press('Tab');
  await press(page, 'Enter');
  check(await page.evaluate(() => state.query === 1), 'and so Tab leads to the one to the next', await focused(page));
  await close(page, 'the focus');
}

/* What is pressed before the numbers of the text are there is done when they are. */
async function testPressedTwice(live) {
  const page = await openAnswered(live);
  await page.focus('#step-on');
  const n = await page.evaluate(() => run.n);
  await press(page, 'Enter', 3);
  await until(page, (expected) => run.n === expected && state.text === followed, n + 3, 'three presses write three tokens');
  await answered(page);
  check((await focused(page)) === 'step-on', 'and the button keeps the focus', await focused(page));
  await page.focus('#step-back');
  await press(page, 'Enter', 2);
  await until(page, (expected) => run.n === expected && state.text === followed, n + 1, 'two take two back');
  await answered(page);
  check((await focused(page)) === 'step-back', 'and that button, too', await focused(page));
  await page.focus('#write');
  await press(page, 'Enter');
  await until(page, (expected) => run.n > expected, n + 3, 'it writes');
  await page.evaluate(() => byId('step-back').click());
  check(await page.evaluate(() => byId('write').textContent) === 'Stop', 'while it writes nothing is taken back');
  await press(page, 'Enter');
  await answered(page);
  check(/Write/.test(await page.evaluate(() => byId('write').textContent)) && (await focused(page)) === 'write', 'and the same key stops it', await focused(page));
  await close(page, 'what is pressed twice');
}

module.exports = { testFocus, testPressedTwice };
