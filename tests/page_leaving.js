/* The page with the engine in it: what is said of tokens that are not listed, and what comes back when one leaves something. */
'use strict';
const { check, say, write, open, openAnswered, close, settle, until, answered, click, press, textOf } = require('./page_tools');
const { STORY, replaceText } = require('./page_live');

const ALL = 'L3H4,L4H0,L5H0,L5H3,L5H6';
const off = (page, list) => page.evaluate((names) => change({ off: Object.fromEntries(names.split(',').map((name) => [name, 0])) }), list);

/* A token that falls out of the list of the likeliest is known to be no likelier than the list's last. */
async function testUnlisted(live) {
  const page = await openAnswered(live);
  await off(page, ALL);
  await answered(page);
  const listed = say('view', STORY, '--ablate', ALL, '--parts', 'predictions').ablation.next.at(-1).top.filter((_, i) => i % 2 === 0);
  const gan = say('next', STORY, '--top', '1').top[0].id;
  check(!listed.includes(gan), 'what is told of the likeliest does not have the answer any more');
  const moved = await textOf(page, '#changes .moved');
  check(moved.includes('gan') && /99\.\d % → < [\d.]+ %$/.test(moved), 'it moved most, all the same', moved);
  const truth = say('next', STORY, '--top', '1000').top;
  const rows = await page.evaluate(() => [...document.querySelectorAll('#expected li[data-id]')].map((row) => [Number(row.dataset.id), row.querySelector('.row').lastChild.textContent]));
  const { top: flat, log_sum: logSum } = say('view', STORY, '--ablate', ALL, '--parts', 'predictions', '--top', '100').ablation.next.at(-1);
  const now = new Map(flat.filter((_, i) => i % 2 === 0).map((id, i) => [id, Math.exp(flat[2 * i + 1] - logSum)]));
  let bounded = 0;
  for (const [id, told] of rows) {
    const before = truth.find((token) => token.id === id)?.probability ?? 0;
    const after = now.get(id);
    const points = Number(told.match(/[\d.]+/)?.[0] ?? 0) / 100;
    if (after === undefined) continue;
    bounded += told.startsWith('≥');
    check(told.startsWith('≥') ? points <= after - before + 0.0006 : Math.abs(points - Math.abs(after - before)) < 0.0006, `what is told of ${id} is true`, `${told}, ${before} → ${after}`);
  }
  check(bounded > 0, 'a bound is told as one');
  await close(page, 'unlisted');
}

/* The tour gives back what it has changed; and what was typed before it, or before an example, stays to be gone back to. */
async function testTourGivesBack(live) {
  const page = await openAnswered(live);
  await replaceText(page, 'My own text');
  await settle(page);
  await answered(page);
  await click(page, '#tour-start');
  await answered(page);
  check(await page.evaluate(() => tried.includes('My own text')), 'the text that was typed stands under what was tried');
  for (const step of [1, 6]) {
    await page.evaluate((to) => change({ tour: to }), step);
    await settle(page);
    await answered(page);
  }
  await click(page, '#guide-switch');
  await answered(page);
  check(await page.evaluate(() => Object.keys(state.off).length > 0 && state.temperature === 1), 'the tour changes things');
  await click(page, '#guide button.main');
  await settle(page);
  const left = await page.evaluate(() => [Object.keys(state.off).length, state.temperature, state.plainSteps, document.activeElement.id]);
  check(JSON.stringify(left) === JSON.stringify([0, null, false, 'editor']), 'and gives them back, with the focus in the text', JSON.stringify(left));
  await click(page, '#tour-start');
  await settle(page);
  await press(page, 'Escape');
  await settle(page);
  check(await page.evaluate(() => document.activeElement.id) === 'tour-start', 'Escape leads back to where it began');
  await replaceText(page, 'Another text of mine');
  await settle(page);
  await answered(page);
  await page.selectOption('#example', { index: 2 });
  await answered(page);
  check(await page.evaluate(() => tried.includes('Another text of mine')), 'an example leaves what was typed, too');
  await close(page, 'leaving the tour');
}

/* A text with a zero byte is refused; the layer that was chosen stays; two texts are those of the page. */
async function testSmallTruths(live) {
  const page = await openAnswered(live);
  await page.evaluate(() => goTo('a\0b'));
  await until(page, () => problem !== null);
  check((await page.evaluate(() => problem)).includes('zero byte'), 'a zero byte is refused', await page.evaluate(() => problem));
  await page.evaluate((text) => goTo(text), STORY);
  await answered(page);
  await page.focus('#lens-grid');
  for (let i = 0; i < 6; i++) await press(page, 'ArrowLeft');
  const told = await textOf(page, '#lens-cell h3');
  await press(page, 'ArrowUp');
  await off(page, 'L2H1');
  await answered(page);
  check(told.startsWith('0_pre') && (await textOf(page, '#lens-cell h3')).startsWith('0_pre'), 'the first column stays chosen', await textOf(page, '#lens-cell h3'));
  await close(page, 'small truths');
  const plain = await open(write('plain.html', '-p', STORY, '--bos', '--live')); // which this model does not put there itself
  await answered(plain);
  await plain.evaluate(() => byId('patch').scrollIntoView());
  await until(plain, () => document.querySelectorAll('#clean-pieces > *').length > 0);
  const pieces = await plain.evaluate(() => [run.n, document.querySelectorAll('#clean-pieces > *').length]);
  check(pieces[0] === pieces[1], 'the clean text has the tokens of the text above', JSON.stringify(pieces));
  const begun = () => [run.n, run.tokens[0].id, run.bos];
  const before = await plain.evaluate(begun);
  await plain.evaluate((text) => goTo(`${text}!`), STORY);
  await answered(plain);
  check(JSON.stringify(await plain.evaluate(begun)) === JSON.stringify([before[0] + 1, before[1], true]), 'the BOS stays when a letter is typed', JSON.stringify(before));
  await close(plain, 'two texts with BOS');
}

/* The address goes along while the model writes. */
async function testAddressWriting(live) {
  const page = await openAnswered(live);
  const before = await textOf(page, '#write');
  await click(page, '#write');
  await until(page, (text) => decodeURIComponent(location.hash.replace(/\+/g, ' ')).includes(`${text}gan`), STORY);
  check((await textOf(page, '#write')) !== before, 'before it has ended');
  await click(page, '#write');
  await close(page, 'the address while writing');
}

module.exports = { testUnlisted, testTourGivesBack, testSmallTruths, testAddressWriting };
