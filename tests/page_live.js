/* The page with the engine in it: what is typed, chosen, gone on with, written, taken back, switched off. */
'use strict';
const { model, check, shows, json, say, bits, write, open, openAnswered, close, settle, until, answered, idleDone, hashOf, press, click, setRange, textOf, textsOf, box, folder, writeOf, fs, path, execFileSync } = require('./page_tools');
const gguf = require('./page_gguf');

const STORY = 'The king Zilgan rode out. Then king Zil';
const SEED = '14'; // of texts that go on for long
const ERROR = 2e-3; // nats: the engine in a page rounds in another order than the native one

const near = (a, b, error = ERROR) => Math.abs(a - b) <= error * Math.max(1, Math.abs(b));

/* The numbers that the page has of its text, and those that it shows of the chosen token, against score and next. */
async function checkNumbers(page, text, what) {
  if (!await answered(page)) return;
  const { tokens } = say('tokens', text);
  const score = tokens.length > 1 ? say('score', text) : { tokens, n_tokens: 1, positions: [] };
  const next = say('next', text, '--top', '20');
  const has = await page.evaluate(() => ({
    text: state.text, field: byId('editor').value, ids: run.tokens.map(({ id }) => id), n: run.n, query: state.query,
    positions: run.positions, next: run.next, shown: [...document.querySelectorAll('#tokens .token')].map((span) => span.textContent).join(''), apart: byId('paper').classList.contains('apart'),
  }));
  check(has.text === text && has.field === text, `${what}: the text is in the field`, JSON.stringify(has.field));
  if (!has.apart) check(has.shown === text, `${what}: the tokens spell it`, JSON.stringify(has.shown));
  check(has.ids.join() === score.tokens.map(({ id }) => id).join() && has.n === score.n_tokens, `${what}: its tokens`, has.ids.join());
  const wrong = score.positions.filter(({ position, surprisal_nats: nats, entropy_nats: entropy, rank }) => {
    const known = has.positions[position];
    return !known || !near(known.surprisal_nats, nats) || !near(known.entropy_nats, entropy) || Math.abs(known.rank - rank) > 1 + 0.02 * rank;
  });
  check(wrong.length === 0, `${what}: surprisal, entropy and rank of each token`, JSON.stringify(wrong.slice(0, 2)));
  const { entropy_nats: entropy, log_sum: logSum, top } = has.next.at(-1);
  check(near(entropy, next.entropy_nats), `${what}: entropy of the next token`, `${entropy}, not ${next.entropy_nats}`);
  for (const expected of next.top.slice(0, 8)) {
    const at = top.findIndex((id, i) => i % 2 === 0 && id === expected.id);
    check(at >= 0 && near(Math.exp(top[at + 1] - logSum), expected.probability, ERROR), `${what}: probability of next ${expected.token}`);
  }
  if (has.query !== score.n_tokens - 1) return;
  for (const expected of next.top.slice(0, 4)) shows(await textOf(page, `#expected [data-id="${expected.id}"] .row > span:nth-of-type(2)`), expected.probability, `${what}: next ${expected.token} on the page`, ERROR);
  const last = score.positions.find(({ position }) => position === has.query);
  if (last) shows(await textOf(page, '#token [data-key=surprisal]'), bits(last.surprisal_nats), `${what}: surprisal on the page`, 2 * ERROR);
}

async function replaceText(page, text) {
  await page.focus('#editor');
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(text);
}

async function replaceAnswered(page, text) {
  await replaceText(page, text);
  await answered(page);
}

async function testTyping(live) {
  const page = await openAnswered(live);
  await checkNumbers(page, STORY, 'as it came');
  await page.focus('#editor');
  await page.keyboard.press('Control+End');
  await page.keyboard.type('gan ate.');
  await checkNumbers(page, `${STORY}gan ate.`, 'typed key by key');
  check((await page.evaluate(() => state.query === run.n - 1)), 'the eye follows the caret');
  await page.keyboard.press('Control+Home');
  for (let i = 0; i < 8; i++) await page.keyboard.press('ArrowRight');
  for (let i = 0; i < 4; i++) await page.keyboard.press('Backspace');
  await page.keyboard.type('queen');
  await checkNumbers(page, 'The queen Zilgan rode out. Then king Zilgan ate.', 'deleted and typed in the middle');
  check((await page.evaluate(() => state.query)) === 1, 'the eye is where one types', await page.evaluate(() => state.query));
  for (const [text, what] of [
    ['Once upon a time there was a king. Once upon a', 'pasted'], ['a', 'one token'], ['naïve 😀😀 café', 'emoji'], ['中文很好看。中文很', 'Chinese'], ['שלום עולם, مرحبا', 'right to left'],
    ['one\n\n two\n\tthree', 'line feeds'], ['a​b‮c', 'what is unseen'], ['</script><img src=x onerror=alert(1)>', 'markup'],
  ]) {
    await replaceText(page, text);
    await checkNumbers(page, text, what);
  }
  await replaceText(page, '');
  await settle(page);
  await until(page, () => !asking && wanted.size === 0, null, 'empty text is answered');
  await page.focus('#editor');
  await page.keyboard.type('So it');
  await checkNumbers(page, 'So it', 'after an empty text');
  await close(page, 'typing');
}


/* The caret chooses the token whose letter stands before it; so do a click, and the buttons beside the position. */
async function testCaret(live) {
  const page = await openAnswered(live);
  const lengths = say('tokens', STORY).tokens.map((one) => one.token.length);
  await page.focus('#editor');
  await page.keyboard.press('Control+Home');
  let end = 0;
  for (const [i, length] of lengths.entries()) {
    end += length;
    await page.evaluate((at) => byId('editor').setSelectionRange(at, at), end);
    await until(page, (query) => state.query === query, i, `the caret behind token ${i} chooses it`);
  }
  const middle = await page.evaluate(() => {
    const { left, right, top, bottom } = document.querySelectorAll('#tokens .token')[5].getBoundingClientRect();
    return [left + (right - left) * 0.7, (top + bottom) / 2];
  });
  await page.mouse.click(...middle);
  await until(page, () => state.query === 5, null, 'a click on the text chooses the token there');
  check((await textOf(page, '#place')).startsWith('position 5 '), 'and the line below says so', await textOf(page, '#place'));
  check(await page.isVisible('#tip'), 'what is known of it stands at the cursor');
  const score = say('score', STORY).positions[4];
  for (const [key, value] of [['probability', Math.exp(-score.surprisal_nats)], ['rank', score.rank], ['surprisal', bits(score.surprisal_nats)], ['entropy', bits(score.entropy_nats)]]) shows(await textOf(page, `#token [data-key=${key}]`), value, `${key} of the chosen token`, ERROR * 3);
  const next = say('next', STORY.slice(0, lengths.slice(0, 6).reduce((a, b) => a + b)));
  shows(await textOf(page, '#expected li:first-child .row > span:nth-of-type(2)'), next.top[0].probability, 'what comes after the chosen token', ERROR);
  await page.mouse.move(0, 0);
  await click(page, '#back');
  check((await page.evaluate(() => state.query)) === 4, 'one position back');
  await click(page, '#forth');
  check((await page.evaluate(() => state.query)) === 5, 'and forth');
  await close(page, 'caret');
}

/* Going on with a likely token, back, another: the tree keeps what was tried. */
async function testBranches(live) {
  const page = await openAnswered(live);
  const [first, second] = say('next', STORY).top;
  await click(page, `#expected [data-id="${first.id}"] button`);
  await checkNumbers(page, STORY + first.token, 'gone on with the likeliest');
  check(await page.evaluate(() => state.query === run.n - 1), 'the eye is on the new token');
  check((await textsOf(page, '#tokens .generated')).join() === first.token, 'which is marked as not typed');
  await click(page, '#step-back');
  await checkNumbers(page, STORY, 'taken back');
  await click(page, `#expected [data-id="${second.id}"] button`);
  await checkNumbers(page, STORY + second.token, 'gone on with the second');
  const items = await page.locator('#tree button').evaluateAll((list) => list.map((button) => [button.innerText, button.getAttribute('aria-current'), button.closest('ul').parentElement.tagName]));
  check(items.length === 3 && items[0][0] === STORY, 'the tree holds the text and both ways on', JSON.stringify(items));
  const shown = ({ token }) => token.replace(/^ /, '␣');
  check([first, second].every((tried) => items.some(([text, , parent]) => text === shown(tried) && parent === 'LI')), 'as branches of it', JSON.stringify(items));
  check(items.filter(([, current]) => current).map(([text]) => text).join() === shown(second), 'and marks where one is');
  await page.getByRole('button', { name: first.token, exact: true }).click();
  await checkNumbers(page, STORY + first.token, 'back to the first branch');
  const place = 3;
  await page.evaluate((query) => chooseQuery(query), place);
  await settle(page);
  const [choice] = say('next', 'The king Zil').top;
  await click(page, `#expected [data-id="${choice.id}"] button`);
  await checkNumbers(page, `The king Zil${choice.token}`, 'gone on in the middle');
  check((await textsOf(page, '#tree button')).length >= 4, 'and what stood behind is in the tree');
  await close(page, 'branches');
}

/* The text that ./run writes with a model's file, by the set of kernels that rounds nothing to eight bits, as the page's does not. */
const runWith = (file, text, n, ...options) => execFileSync(path.join(path.dirname(process.env.RUN ?? process.argv[2]), 'run'), [file, '-p', text, '-n', String(n), ...options], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], env: { ...process.env, ATTN_KERNEL: 'scalar' } }).replace(/\n$/, '');

/* The sampler's own rules: what ./run writes with this seed, temperature and top-p. */
async function testWriting(live) {
  const page = await openAnswered(live);
  const runs = (...args) => runWith(model, ...args);
  await page.fill('#seed', SEED);
  await page.locator('#seed').blur();
  await setRange(page, '#temperature', 0.8);
  await setRange(page, '#top-p', 0.9);
  await click(page, '#write');
  check(/Stop/.test(await textOf(page, '#write')), 'what writes can be stopped');
  await until(page, () => run.n >= 12 + 20, null, 'twenty tokens are written');
  await click(page, '#write');
  await answered(page);
  check(/Write/.test(await textOf(page, '#write')), 'and is');
  const stopped = await page.evaluate(() => ({ text: state.text, n: run.n }));
  await settle(page);
  check((await page.evaluate(() => run.n)) === stopped.n, 'stopped, it stays as it is');
  const options = ['-s', SEED, '--temp', '0.8', '--top-p', '0.9'];
  check(stopped.text === runs(STORY, stopped.n - 12, ...options), 'with a seed it writes what ./run does', JSON.stringify(stopped.text));
  check((await textsOf(page, '#tokens .generated')).join('') === stopped.text.slice(STORY.length), 'and what it wrote is underlined');
  await click(page, '#step-on');
  await until(page, (n) => run.n === n && state.text === followed, stopped.n + 1, 'one token more');
  await click(page, '#write');
  await until(page, () => /Write/.test(byId('write').textContent), null, 'it stops by itself');
  await answered(page);
  const whole = await page.evaluate(() => ({ text: state.text, n: run.n }));
  const expected = runs(STORY, whole.n - 12, ...options); // far behind, rounding may have drawn another token
  check(whole.n > stopped.n + 5 && whole.text.slice(0, stopped.text.length + 20) === expected.slice(0, stopped.text.length + 20), 'and goes on as ./run would have', JSON.stringify(whole));
  check(!(await page.isVisible('.problem')) || (await textOf(page, '.problem')) === 'The model ended the text.', 'and has nothing to complain of');
  const { length } = whole.text;
  await click(page, '#step-back');
  await answered(page);
  const shorter = await page.evaluate(() => state.text);
  check(shorter.length < length && whole.text.startsWith(shorter), 'a token is taken back');
  check((await textsOf(page, '#tree button')).length >= 2, 'and kept in the tree');
  await replaceAnswered(page, 'Once upon a time');
  await setRange(page, '#temperature', 0);
  await click(page, '#step-on');
  await until(page, () => run.n === 5 && state.text === followed, null, 'one token, greedily');
  check((await page.evaluate(() => state.text)) === runs('Once upon a time', 1, '--temp', '0'), 'at temperature 0 the likeliest');
  await close(page, 'writing');
}

/* A copy of the default model that asks to be sampled so: numbers by the names of general.sampling. */
function writeAsking(name, keys) {
  const file = path.join(folder, name);
  const whole = fs.readFileSync(model);
  const { end, data } = gguf.parse(whole);
  const added = Object.entries(keys).map(([key, value]) => gguf.floatKey(`general.sampling.${key}`, value));
  whole.writeBigUInt64LE(whole.readBigUInt64LE(16) + BigInt(added.length), 16);
  fs.writeFileSync(file, gguf.join([whole.subarray(0, 24), ...added, whole.subarray(24, end)], [data]));
  return file;
}

/* Writes N tokens behind the story, which stands there again afterwards; they must be those of ./run with these options. */
/* Lets it write n tokens behind the story, or fewer where the model ends its text. */
async function stopBehind(page, n, what) {
  await until(page, (to) => run.n >= to || (run.n > 12 && byId('write').textContent === say('write')), 12 + n, what);
  if ((await textOf(page, '#write')).includes('Stop')) await click(page, '#write');
  await answered(page);
}

async function checkWritten(page, file, what, ...options) {
  const N = 16;
  await page.fill('#seed', SEED);
  await page.locator('#seed').blur();
  await click(page, '#write');
  await stopBehind(page, N, `${N} tokens are written ${what}`);
  await answered(page);
  const { text, n } = await page.evaluate(() => ({ text: state.text, n: run.n }));
  const expected = runWith(file, STORY, n - 12, '-s', SEED, ...options);
  check(text === expected, `it writes what ./run does ${what}`, `${JSON.stringify(text)} for ${JSON.stringify(expected)}`);
  check(!(await page.isVisible('.problem')), `and has nothing to complain of ${what}`);
  await page.evaluate((before) => goTo(before, null), STORY);
  await answered(page);
  return text;
}

/* Writing begins as the model's file asks for; what is chosen on the page goes before it. */
async function testAskedSampling() {
  const file = writeAsking('asks.gguf', { temp: 1.25, top_k: 30, top_p: 0.92, min_p: 0.02, penalty_repeat: 1.3 });
  const url = writeOf(file, 'asks.html', '-p', STORY, '--live');
  const page = await openAnswered(url);
  const shown = async () => [await textOf(page, '#temperature-value'), await textOf(page, '#top-p-value'), await textOf(page, '#sampling-note')].join(' | ');
  check((await shown()) === '1.25 | 0.92 | Temperature, Top-p: as the file asks.', 'the sliders begin as the file asks, and say so', await shown());
  check(await page.isVisible('#other-steps') && await page.isChecked('#plain-steps') && (await textOf(page, '#other-steps')) === 'also top-k 30, min-p 0.02, repeat-penalty 1.3, as the file asks', 'and so does what has no slider', await textOf(page, '#other-steps'));
  check(await page.isDisabled('#next-reset'), 'nothing is to be reset');
  const firstBar = async () => (await textsOf(page, '#expected .row span:last-child'))[0];
  shows(await firstBar(), json('next', file, '-p', STORY).top[0].probability, 'bars show what the model says until somebody samples otherwise');
  const fresh = await hashOf(page);
  check(!/[TP]=|f0=/.test(fresh), 'the address leaves it to the file', fresh);
  const asked = await checkWritten(page, file, 'as the file asks');
  check(asked !== runWith(model, STORY, 16, '-s', SEED), 'which is not the usual');

  await setRange(page, '#temperature', 0.4);
  check((await shown()) === '0.4 | 0.92 | Top-p: as the file asks.', 'a temperature that is chosen is not the file’s', await shown());
  shows(await firstBar(), json('next', file, '-p', STORY, '--draw', '0', '--temp', '0.4', '--repeat-penalty', '1').top[0].after, 'then bars show what is drawn');
  await checkWritten(page, file, 'at a temperature that is chosen', '--temp', '0.4');
  await page.uncheck('#plain-steps');
  await setRange(page, '#top-p', 1);
  check(await page.isHidden('#sampling-note') && await page.isEnabled('#next-reset'), 'then nothing is the file’s');
  await checkWritten(page, file, 'without what the file asks for', '--temp', '0.4', '--top-p', '1', '--top-k', '0', '--min-p', '0', '--repeat-penalty', '1');
  const changed = await hashOf(page);
  check(/T=0\.4&P=1&f0=1/.test(changed), 'the address has what was chosen', changed);
  const again = await openAnswered(url + changed);
  check((await again.evaluate(() => Sampling.options().join(' '))) === await page.evaluate(() => Sampling.options().join(' ')), 'and a link to it asks for the same');
  await close(again, 'a link to what was chosen');
  await click(page, '#next-reset');
  check((await shown()) === '1.25 | 0.92 | Temperature, Top-p: as the file asks.' && await page.isChecked('#plain-steps'), 'reset goes back to the file', await shown());
  await click(page, '#language');
  check((await textOf(page, '#sampling-note')) === '温度, Top-p：按文件的要求。' && (await textOf(page, '#other-steps')).includes('按文件的要求'), 'in Chinese, too', await textOf(page, '#sampling-note'));
  await close(page, 'what the file asks for');

  const filters = { temp: 0.65, top_k: 10, top_p: 0.92, min_p: 0.02 };
  const filtering = writeAsking('filters.gguf', filters);
  const next = json('next', filtering, '-p', STORY, '--draw', '0', '--top', '20');
  check(Math.abs(next.after.temperature - 0.65) < 1e-6 && next.after.top_k === 10, 'study next --draw takes the file’s, too', JSON.stringify(next.after));
  const other = await open(writeOf(filtering, 'filters.html', '-p', STORY));
  await other.evaluate(() => document.querySelectorAll('details').forEach((one) => { one.open = true; }));
  const cells = await other.locator('#distribution tbody tr').evaluateAll((rows) => rows.map((row) => row.lastChild.textContent));
  next.top.forEach(({ after }, i) => {
    if (after === 0) check(cells[i] === '–', `rank ${i + 1} is filtered out`, cells[i]);
    else shows(cells[i], after, `drawn, rank ${i + 1}, as the file asks`);
  });
  check((await textOf(other, '#next-note')).includes(`${next.after.n_kept} can be drawn`), 'and how many can be drawn', await textOf(other, '#next-note'));
  await close(other, 'a page that only shows, as its file asks');

  const nonsense = writeAsking('nonsense.gguf', { top_k: -7 });
  const plain = await openAnswered(writeOf(nonsense, 'nonsense.html', '-p', STORY, '--live'));
  check(await plain.isHidden('#sampling-note') && (await textOf(plain, '#temperature-value')) === '1.0', 'what makes no sense is passed over');
  await setRange(plain, '#temperature', 0.4);
  await checkWritten(plain, model, 'where the file makes no sense', '--temp', '0.4', '--top-p', '1');
  await close(plain, 'a file that makes no sense');
}

/* With a head off the page writes what the changed model does, token by token. */
async function testWritingChanged(live) {
  const N = 12;
  const page = await openAnswered(live);
  await page.fill('#seed', SEED);
  await page.locator('#seed').blur();
  await setRange(page, '#temperature', 0.8);
  const write = async (what) => {
    await click(page, '#write');
    await until(page, (n) => run.n >= n, 12 + N, `${N} tokens are written ${what}`);
    await click(page, '#write');
    await answered(page);
    const ids = await page.evaluate(() => run.tokens.map(({ id }) => id));
    await page.evaluate((text) => goTo(text, null), STORY);
    await answered(page);
    return ids.slice(0, 12 + N);
  };
  const on = await write('with all on');
  await click(page, box('L3H4'));
  await click(page, '#switch');
  await answered(page);
  const off = await write('with a head off');
  const drawn = off.slice(12).map((_, k) => json('next', model, '--ids', off.slice(0, 12 + k).join(), '--ablate', 'L3H4=0', '--draw', String(k), '--seed', SEED, '--temp', '0.8', '--top-p', '1').drawn.id);
  check(drawn.join() === off.slice(12).join(), 'with a head off it writes what next --ablate draws', `${off.slice(12)} for ${drawn}`);
  check(on.slice(12).join() !== drawn.join(), 'which is not what it writes with all on');
  await close(page, 'writing with a head off');
}

/* Heads and MLPs off, or scaled: the numbers of ablate. */
async function testChanges(live) {
  const page = await openAnswered(live);
  await idleDone(page);
  const checkChange = async (list, what) => {
    await answered(page);
    const { ablation, baseline, next } = say('ablate', STORY, '--heads', list);
    const { expected } = await page.evaluate(() => ({ expected: run.without.positions.slice(1).map((known) => known.surprisal_nats) }));
    const nll = expected.reduce((a, b) => a + b, 0) / expected.length;
    check(near(nll, ablation.nll_nats), `${what}: surprisal`, `${nll}, not ${ablation.nll_nats}`);
    shows((await textOf(page, '#changes')).match(/surprisal ([+−][\d.]+) bits/)[1], bits(ablation.nll_nats - baseline.nll_nats), `${what}: its change on the page`, ERROR);
    for (const { id, ablated, baseline: before } of next) {
      const row = page.locator(`#expected [data-id="${id}"] .row`);
      if (await row.count() === 0) continue;
      shows(await row.locator('> span').nth(1).innerText(), ablated, `${what}: probability on the page`, ERROR);
      const [share, old] = await row.locator('.bar-of').evaluate((bar) => ['--share', '--before'].map((name) => Number(bar.style.getPropertyValue(name))));
      check(Math.abs(share - ablated) < ERROR && Math.abs(old - before) < ERROR, `${what}: the bar, and what it was`);
    }
    const view = say('view', STORY, '--ablate', list, '--parts', 'predictions');
    const places = await page.evaluate(() => [...document.querySelectorAll('#tokens .token')].map((span) => [Number(span.style.getPropertyValue('--share')), span.classList.contains('worse')]));
    view.ablation.positions.forEach((after, i) => {
      if (i === 0) return;
      const delta = bits(after.surprisal_nats - view.positions[i].surprisal_nats);
      check(Math.abs(places[i][0] - Math.min(1, Math.abs(delta) / 4)) < 0.004 && (Math.abs(delta) < 0.01 || places[i][1] === delta > 0), `${what}: the colour of token ${i}`, `${places[i]} for ${delta}`);
    });
  };
  await click(page, box('L3H4'));
  check((await textsOf(page, '#chosen .chip')).join().startsWith('L3H4'), 'a box of the model chooses the head');
  await click(page, '#switch');
  await checkChange('L3H4', 'L3H4 off');
  const top = say('ablate', STORY, '--heads', 'L3H4').next.find(({ token }) => token === 'gan');
  const moved = await textOf(page, '#changes .moved');
  check(moved.includes('gan'), 'what moved most is said', moved);
  shows(moved.match(/([\d.]+ %)/)[1], top.baseline, 'from', ERROR);
  check((await page.locator('.box.off').count()) === 1, 'its box is crossed out');
  for (const factor of [0.97, 0.997, 0.99999]) { // two numbers are never told as one
    await page.evaluate((by) => change({ off: { L3H4: by } }), factor);
    await answered(page);
    const [, from, to] = (await textOf(page, '#changes .moved')).match(/: ([\d.]+) % → ([\d.]+) %$/) ?? [];
    check(from !== to && from !== undefined, `a change by little, L3H4 × ${factor}`, `${from} → ${to}`);
  }
  await page.evaluate(() => change({ off: { L3H4: 0 } }));
  await answered(page);
  await page.hover(box('L5H2'));
  await click(page, '[data-part=L5H2] .cut');
  await checkChange('L3H4,L5H2', 'two heads off');
  await click(page, '#changes .off-chip >> nth=0');
  await checkChange('L5H2', 'one on again');
  await click(page, '#changes .off-chip');
  await answered(page);
  check((await page.isHidden('#changes')) && (await page.locator('.box.off').count()) === 0, 'all on again');
  await click(page, box('L2MLP'));
  await page.locator('#flow input[type=range]').fill('0.5');
  await settle(page);
  await checkChange('L2MLP=0.5', 'an MLP halved');
  check((await textsOf(page, '.scaled .enter span')).join().includes('×0.5'), 'and its box says so');
  await page.locator('#flow input[type=range]').fill('2');
  await settle(page);
  await checkChange('L2MLP=2', 'an MLP doubled');
  await page.locator(box('L0H3')).focus();
  await press(page, 'x');
  await checkChange('L0H3=0,L2MLP=2', 'a head off by the keyboard');
  await page.focus('#editor');
  await page.keyboard.press('Control+End');
  await page.keyboard.type('gan');
  await answered(page);
  const { ablation } = say('ablate', `${STORY}gan`, '--heads', 'L0H3=0,L2MLP=2');
  const nll = await page.evaluate(() => run.without.positions.slice(1).reduce((sum, known) => sum + known.surprisal_nats, 0) / (run.n - 1));
  check(near(nll, ablation.nll_nats), 'what is typed keeps the change', `${nll}, not ${ablation.nll_nats}`);
  await close(page, 'changes');
}

const floatsOf = (base64) => {
  const bytes = Buffer.from(base64, 'base64');
  return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i));
};
const normOf = ([scale, base64], at) => scale * Buffer.from(base64, 'base64').readUInt16LE(2 * at);

/* With a head off: each number that the page shows at its last token, against `study view --ablate`; and how many of them moved. */
async function checkTruth(page, text, list, name, what) {
  const { n_tokens: n, ablation, vocabulary, ...before } = say('view', text, '--ablate', list);
  const { tokens } = say('tokens', text);
  const last = n - 1;
  const [layer, head] = name.slice(1).split('H').map(Number);
  const labelOf = (id) => (typeof vocabulary[id] === 'string' ? vocabulary[id].replace(/^ /, '␣').replace(/\n/g, '↵') : `⟨${vocabulary[id].hex}⟩`);
  let moved = 0;
  const compare = (shown, value, old, of, error = ERROR) => {
    shows(shown, value, `${what}: ${of}`, error);
    if (Math.abs(value - old) > 0.01) moved++;
  };
  await page.evaluate((query) => chooseQuery(query), last);
  await page.evaluate((one) => change({ heads: [one], part: one, pinned: true, shape: 'map' }), name);
  await answered(page);
  await until(page, () => !!shownRun().lens[state.query] && wanted.size === 0 && pending === null && later.size === 0, null, 'the layers are there');
  check(await page.locator('main.behind').count() === 0, `${what}: nothing is dimmed`);

  const guesses = await textsOf(page, '#boxes .guess');
  ablation.lens.positions[last].rows.forEach((row, i) => {
    compare(guesses[i].match(/[\d.]+ %/)[0], row[3], before.lens.positions[last].rows[i][3], `the guess under layer ${i - 1}`);
    check(guesses[i].startsWith(labelOf(row[2])), `${what}: its token`, guesses[i]);
  });
  compare(await textOf(page, '#boxes .ending[data-part=logits] span'), ablation.lens.positions[last].rows.at(-1)[3], before.lens.positions[last].rows.at(-1)[3], 'the last box');
  const flow = await textOf(page, '#flow .dim');
  const [length, stream] = flow.match(/[\d.]+(?= to|\.$)/g);
  compare(length, normOf(ablation.writes.heads[layer][head], last), normOf(before.writes.heads[layer][head], last), `what ${name} writes`, 0.3);
  compare(stream, normOf(ablation.writes.resid[layer], last), normOf(before.writes.resid[layer], last), 'the stream', 0.3);

  const scores = (view) => floatsOf(view.steps.scores[layer][head]).slice((last * (last + 1)) / 2);
  const softmax = (row) => {
    const powers = row.map((x) => Math.exp(x - Math.max(...row)));
    return powers.map((x) => x / powers.reduce((sum, y) => sum + y, 0));
  };
  const [weights, old] = [softmax(scores(ablation)), softmax(scores(before))];
  for (const line of (await textsOf(page, '#keys li:not(.dim)')).slice(0, 3)) {
    const key = Number(line.match(/^\d+/)[0]);
    compare(line.match(/[\d.]+$/)[0], weights[key], old[key], `the weight on key ${key}`);
  }
  const most = weights.indexOf(Math.max(...weights));
  compare((await textOf(page, '#telling')).match(/[\d.]+(?=\D*$)/)[0], weights[most], old[most], 'the sentence over the text');

  await page.evaluate(() => change({ shape: 'steps' }));
  await settle(page);
  const rows = await page.locator('#step-table tbody tr:not(.out)').evaluateAll((list) => list.map((row) => [...row.cells].map((cell) => cell.textContent)));
  for (const [key, , , score, , weight] of rows) {
    compare(score, scores(ablation)[key], scores(before)[key], `score of key ${key}`, 0.02);
    compare(weight, weights[key], old[key], `weight of key ${key}, step by step`);
  }
  await page.evaluate(() => change({ shape: 'writes' }));
  await until(page, () => !!document.querySelector('#written li'), null, 'what it writes');
  const effects = (view) => {
    const { raised, lowered } = view.explained.heads[layer][head];
    return [...raised, ...lowered].reduce((all, x, i, flat) => (i % 2 ? all : [...all, [x, flat[i + 1]]]), []);
  };
  const written = await page.locator('#written li').evaluateAll((list) => list.map((li) => [Number(li.dataset.id), li.lastElementChild.textContent]));
  const want = new Map(effects(ablation));
  const was = new Map(effects(before));
  check(written.filter(([id]) => want.has(id)).length >= written.length - 1, `${what}: the tokens that it raises and lowers`, written.join(' '));
  for (const [id, shown] of written) if (want.has(id)) compare(shown, want.get(id), was.get(id) ?? 0, `effect on token ${id}`, 0.03);
  compare((await textOf(page, '#written .across')).match(/[\d.]+(?=\. )/)[0], ablation.explained.heads[layer][head].output_norm, before.explained.heads[layer][head].output_norm, 'its length', 0.3);

  await until(page, () => shownRun().lens.length === run.n && shownRun().lens.every(Boolean) && pending === null && later.size === 0
    && [...document.querySelectorAll('#lens-grid [data-column]')].every((cell) => cell.textContent !== '…'), null, 'all layers are there');
  await settle(page);
  const cells = await page.locator('#lens-grid .lens-rows .lens-row').evaluateAll((list) => list.map((row) => [Number(row.dataset.position), [...row.querySelectorAll('[data-column]')].map((cell) => [cell.textContent, Number(cell.style.getPropertyValue('--share'))])]));
  for (const [position, row] of cells) {
    ablation.lens.positions[position].rows.forEach(([p, , id, best, second, next], i) => {
      check(Math.abs(row[i][1] - p) < 2 * ERROR + 0.001 || best - next < 4 * ERROR, `${what}: layer by layer, row ${position}, column ${i}`, `${row[i]} for ${p}`);
      if (best - next > 4 * ERROR) check(row[i][0] === labelOf(id), `${what}: token of row ${position}, column ${i}`, `${row[i]} for ${labelOf(id)} ${second}`);
    });
  }
  compare(await textOf(page, '#lens-cell [data-key=p]'), ablation.lens.positions[last].rows.at(-1)[0], before.lens.positions[last].rows.at(-1)[0], 'the cell beside it');

  const named = await page.evaluate(() => [byId('named-of').checkVisibility(), ...[...document.querySelectorAll('#boxes em')].filter((em) => em.textContent).map((em) => getComputedStyle(em).opacity)]);
  check(named.length > 1 && named.every((opacity, i) => (i === 0 ? opacity : Number(opacity) < 0.5)), `${what}: the strip's names are dimmed and marked as the unchanged model's`, named.join());
  await page.evaluate(() => byId('heads').scrollIntoView());
  check(await page.isVisible('#measured-of') && /unchanged model/.test(await textOf(page, '#head-note')), `${what}: scores on random tokens are marked as the unchanged model's`);
  await page.selectOption('#measured', 'text');
  await until(page, () => !!shownRun().heads.text && pending === null && later.size === 0, null, 'scores on the text');
  check(await page.isHidden('#measured-of'), `${what}: those on this text are not`);
  const at = ablation.text.columns.indexOf('confidence');
  const place = layer * before.n_head + head;
  compare((await textOf(page, '#head-note')).match(/conf\) ([\d.]+)/)[1], ablation.text.rows[place][at], before.heads.text.rows[place][at], 'confidence of the head');
  await page.selectOption('#measured', 'repeat');
  await page.evaluate(() => change({ shape: 'map' }));
  check(moved > 5, `${what}: the change is in these numbers`, `${moved} moved; ${tokens.length}`);
}

/* One truth at a time: with something off each part of the page is of the changed model, from one pass; or it says that it is not. */
async function testOneTruth(live) {
  const page = await openAnswered(live);
  await page.evaluate(() => change({ off: { L1MLP: 0, L3H4: 0 } }));
  await answered(page);
  await checkTruth(page, STORY, 'L1MLP=0,L3H4=0', 'L5H2', 'an MLP and a head off');
  await page.focus('#editor');
  await page.keyboard.press('Control+End');
  await page.keyboard.type('ba, ');
  await answered(page);
  await checkTruth(page, `${STORY}ba, `, 'L1MLP=0,L3H4=0', 'L2H3', 'typed on');
  await page.evaluate(() => change({ off: { L0H3: 2 } }));
  await checkTruth(page, `${STORY}ba, `, 'L0H3=2', 'L3H4', 'a head doubled');
  await page.evaluate((text) => goTo(text, null), 'The');
  await answered(page);
  const one = json('view', model, '-p', 'The', '--from', '0', '--ablate', 'L0H3=2', '--parts', 'predictions').ablation.next[0];
  shows(await textOf(page, '#expected li:first-child .row > span:nth-of-type(2)'), Math.exp(one.top[1] - one.log_sum), 'after a single token, too', ERROR);

  await page.evaluate((text) => goTo(text, null), STORY);
  await answered(page);
  const states = await page.evaluate(async () => {
    const { ask } = source.answerer;
    let release;
    const gate = new Promise((done) => (release = done));
    source.answerer.ask = async (...args) => {
      await gate;
      return ask(...args);
    };
    const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 500))));
    const seen = () => ['#tokens', '#next', '#model .strip', '#flow', '#pattern', '#lens'].map((part) => Number(getComputedStyle(document.querySelector(part)).opacity));
    change({ off: { L3H4: 0 } });
    await frames();
    const waiting = { opacities: seen(), words: byId('changes').innerText };
    release();
    source.answerer.ask = ask;
    return waiting;
  });
  check(states.opacities.every((opacity) => opacity < 0.6), 'until its numbers are there, the old ones are dimmed', states.opacities.join());
  check(/unchanged model/.test(states.words), 'and said to be the unchanged model’s', states.words);
  await answered(page);
  await checkTruth(page, STORY, 'L3H4=0', 'L5H2', 'then');
  await page.evaluate(() => change({ off: {} }));
  await until(page, () => [...document.querySelectorAll('#boxes .guess')].at(-1)?.textContent.includes('%'), null, 'the layers of the model as it is');
  const final = say('lens', STORY).rows.at(-1).final_probability;
  shows((await textsOf(page, '#boxes .guess')).at(-1).match(/[\d.]+ %/)[0], final, 'with all on, the model as it is again', ERROR);
  await close(page, 'one truth');
}

/* An answer about a text that has just been replaced, before a frame was drawn, says nothing about the new one. */
async function testOrder(live) {
  const page = await openAnswered(live);
  const text = 'A king said that the gate was red and the lamp';
  await page.evaluate(async ([old, next]) => {
    const { ask } = source.answerer;
    const frame = window.requestAnimationFrame;
    let release = null;
    source.answerer.ask = (argv, signal) => (argv[0] === 'tokens' ? new Promise((done) => {
      release = () => done(ask(argv, signal));
    }) : ask(argv, signal));
    change({ text: old });
    while (!release) await new Promise((done) => setTimeout(done, 20));
    window.requestAnimationFrame = (draw) => setTimeout(() => frame(draw), 1500);
    change({ text: next });
    source.answerer.ask = ask;
    release();
    await new Promise((done) => setTimeout(done, 1500));
    window.requestAnimationFrame = frame;
  }, ['The king said that the gate was tall', text]);
  await checkNumbers(page, text, 'a text typed while another was asked about');
  const shown = await page.evaluate(() => headNames().map((name) => Array.from(run.weightsAt(name, run.n - 1))));
  const { patterns } = say('attend', text, '--query', String(shown[0].length - 1));
  check(shown.every((row, i) => row.every((weight, key) => Math.abs(weight - patterns[i].rows[0][key]) < 0.005)), 'its patterns');
  await close(page, 'the order of answers');
}

/* Scores of rows that an edit replaced are gone, also where the new rows are too many to keep theirs. */
async function testOldScores(live) {
  const page = await openAnswered(live);
  const [before, after] = ['a', 'the'].map((word) => `${word} king said that the gate was tall, and the lamp was red. ${'Then the queen rode out of the gate and the king sat by the lamp. '.repeat(4)}`.trim());
  await replaceAnswered(page, before.slice(0, 150));
  await replaceAnswered(page, after);
  const query = 20;
  const shown = await page.evaluate((at) => headNames().map((name) => Array.from(run.weightsAt(name, at))), query);
  const { patterns } = say('attend', after, '--query', String(query));
  const wrong = shown.flatMap((row, i) => row.filter((weight, key) => Math.abs(weight - patterns[i].rows[0][key]) > 0.005));
  check(wrong.length === 0, 'after an edit a row’s weights are those of the new text', `${wrong.length} are not`);
  await close(page, 'old scores');
}

/* Long texts, up to the context's end and beyond. */
async function testLengths(live) {
  const page = await openAnswered(live);
  const long = 'The king said that the gate was tall, and the lamp was red. '.repeat(17).slice(0, 1000);
  await replaceText(page, long);
  await checkNumbers(page, long, 'a thousand letters');
  const full = 'word '.repeat(1400);
  await replaceText(page, full);
  await until(page, () => !!document.querySelector('#tokens-legend .problem'), null, 'too long a text is refused');
  const words = await textOf(page, '#tokens-legend .problem').catch(() => '');
  check(/1024/.test(words) && !/-[-a-z]/.test(words), 'in words of the page', words);
  await replaceText(page, STORY);
  await checkNumbers(page, STORY, 'after too long a text');
  const whole = `The${' word'.repeat(1023)}`;
  await replaceAnswered(page, whole);
  check((await page.evaluate(() => run.n)) === 1024, 'a text may fill the context');
  await page.evaluate(() => byId('write').click());
  await until(page, () => /Write/.test(byId('write').textContent) && !asking && wanted.size === 0 && !pending, null, 'where the context ends, writing stops');
  check((await page.evaluate(() => state.text)) === whole && await page.isVisible('.problem'), 'and says so', await page.evaluate(() => `${state.text.slice(-20)} ${problem}`));
  await replaceText(page, '');
  await until(page, () => !asking && wanted.size === 0 && !pending, null, 'no text is answered');
  const none = await textOf(page, '#tokens-legend .problem');
  check(!/-p|--bos/.test(none), 'an empty text is met in words of the page', none);
  const left = await page.evaluate(() => ['#telling', '#token', '#place', '#expected', '#next', '#boxes', '#flow', '#look', '#heads', '#lens', '#tokens'].filter((part) => /[^\s\u200b]/.test(document.querySelector(part).innerText)));
  check(left.length === 0 && !/\d/.test(none) && !/[1-9]\d* tokens/.test(await textOf(page, '#facts')), 'and leaves no number standing', `${left} ${await textOf(page, '#facts')}`);
  check(await page.evaluate(() => [...document.querySelectorAll('#arcs, #strip-thumbs, #thumbs, #map canvas')].every((picture) => !picture.checkVisibility({ visibilityProperty: true }))), 'nor a picture');
  await replaceText(page, STORY);
  await checkNumbers(page, STORY, 'after no text');
  check(await page.isVisible('#expected') && await page.isVisible('#boxes') && await page.isVisible('#lens-grid'), 'with all that was gone');
  await close(page, 'lengths');
}

module.exports = { testAskedSampling, STORY, checkNumbers, replaceText, replaceAnswered, testTyping, testCaret, testBranches, testWriting, testWritingChanged, testChanges, testOneTruth, testOrder, testOldScores, testLengths };
