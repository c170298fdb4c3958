/* The state in the address and in a saved copy; files that are dropped, good and hostile ones; hostile vocabularies. */
'use strict';
const { model, folder, check, json, write, writeOf, open, openAnswered, close, settle, until, answered, idleDone, hashOf, click, setRange, textOf, box, fs, path, study } = require('./page_tools');
const gguf = require('./page_gguf');
const { STORY, checkNumbers, replaceText, replaceAnswered } = require('./page_live');

const REFERENCE = path.join(__dirname, 'data/reference');
const KEPT = ['text', 'written', 'query', 'part', 'heads', 'shape', 'by', 'noSink', 'sort', 'colour', 'measured', 'off', 'temperature', 'topP', 'seed', 'theme', 'large', 'language', 'tour'];
const stateOf = (page) => page.evaluate((keys) => JSON.stringify(keys.map((key) => [key, key === 'off' ? Object.entries(state.off).sort() : state[key]])), KEPT);

/* Chooses something of everything. */
async function compose(page) {
  await replaceAnswered(page, `${STORY}gan rode back. “Naïve & 中文 #=?%+”`);
  await page.evaluate(() => chooseQuery(9));
  await click(page, box('L2H2'));
  await click(page, '#switch');
  await click(page, box('L1MLP'));
  await page.locator('#flow input[type=range]').fill('0.25');
  await click(page, box('L3H4'), { modifiers: ['Shift'] });
  await page.check('input[name=shape][value=lines]');
  await page.check('input[name=by][value=value]');
  await page.check('#no-sink');
  await setRange(page, '#temperature', 0.7);
  await setRange(page, '#top-p', 0.85);
  await page.fill('#seed', '9000000000000000000');
  await page.locator('#seed').blur();
  await page.selectOption('#sort', 'ind');
  await page.selectOption('#colour', 'prev');
  await page.selectOption('#measured', 'text');
  await click(page, '#theme');
  await click(page, '#theme');
  await click(page, '#language');
  await page.evaluate(() => byId('projector').click());
  await answered(page);
}

async function testAddress(live) {
  const page = await openAnswered(live);
  await compose(page);
  const state = await stateOf(page);
  const hash = await hashOf(page);
  check(await page.evaluate(() => Object.keys(window.state ?? {}).length) === 0, 'the state is the page’s own');
  const again = await openAnswered(live + hash);
  check((await stateOf(again)) === state, 'a link shows the same', `${await stateOf(again)} for ${state}`);
  check((await hashOf(again)) === hash, 'and its address is the same', await again.evaluate(() => location.hash));
  const differs = await again.evaluate(() => location.hash) !== hash;
  check(!differs && (await again.evaluate(() => document.documentElement.lang)) === 'zh-Hans' && (await again.evaluate(() => document.documentElement.dataset.theme)) === 'dark', 'language and theme too');
  await again.evaluate(() => {
    location.hash = '#t=Another+text&p=1&tour=2';
  });
  await until(again, () => state.text === 'Another text' && state.text === followed && state.tour === 2, null, 'an address that is changed is followed');
  check(await again.evaluate(() => Object.keys(state.off).length === 0), 'and what it does not name is as in the beginning');
  await close(again, 'a link');

  const waiting = page.waitForEvent('download');
  await page.evaluate(() => byId('save').click()); // which large type leaves no room for
  const copy = path.join(folder, 'saved.html');
  const download = await waiting;
  check(download.suggestedFilename() === 'attn-The-king-Zilgan-rode-out-Then-king.html', 'a copy is named after its text', download.suggestedFilename());
  await download.saveAs(copy);
  const saved = await openAnswered(`file://${copy}`);
  check((await stateOf(saved)) === state, 'a saved copy shows the same', await stateOf(saved));
  await saved.locator('#changes > button').last().click();
  await saved.click('#next-reset');
  const text = 'A saved copy lives, too.';
  await replaceText(saved, text);
  await checkNumbers(saved, text, 'typed into a saved copy');
  await close(saved, 'a saved copy');
  await close(page, 'the page that was saved');
}

/* What all heads are measured on stays chosen while the scores of a new text are on their way, and links of before begin as ever. */
async function testHeadsChoice(live) {
  const page = await open(live);
  await idleDone(page);
  await page.selectOption('#measured', 'text');
  await page.selectOption('#sort', 'prev');
  for (const text of [`${STORY}gan`, `${STORY}gan rode`, 'So it goes', STORY]) {
    await replaceAnswered(page, text);
    await until(page, () => !!run.heads.text && later.size === 0, null, 'its scores');
    check((await page.inputValue('#measured')) === 'text' && (await page.inputValue('#sort')) === 'prev', 'what was chosen stays', await page.inputValue('#measured'));
  }
  const order = await page.locator('.thumb').evaluateAll((list) => list.map((button) => button.dataset.head));
  const { heads } = json('heads', model, '-p', STORY);
  const values = order.map((name) => heads.find((head) => head.name === name).prev);
  check(values.every((x, i) => i === 0 || x <= values[i - 1] + 1e-4), 'and the heads stand by it');
  await close(page, 'the choice of scores');
  const old = await openAnswered(`${live}#h=L3H4&sort=none&colour=layer&measured=nothing`);
  check((await old.evaluate(() => [state.sort, state.colour, state.measured, state.heads[0]].join())) === 'layer,none,repeat,L3H4', 'what makes no sense is left out');
  await close(old, 'an address without the choice');
}

/* The link over the page leads into the text, and leaves the state in the address. */
async function testSkip(live) {
  const still = write('skip.html', '-p', STORY);
  for (const [url, ready] of [[live, answered], [still, settle]]) {
    const page = await open(`${url}#p=4&h=L3H4&theme=dark`);
    await ready(page);
    await page.focus('.skip');
    await page.keyboard.press('Enter');
    await settle(page);
    check(await page.evaluate(() => document.activeElement.matches('#editor, #tokens .token')), 'the focus is in the text', await page.evaluate(() => document.activeElement.outerHTML.slice(0, 80)));
    check(await page.evaluate(() => state.query === 4), 'the eye is where it was', await page.evaluate(() => state.query));
    const hash = await page.evaluate(() => location.hash);
    check(/p=4/.test(hash) && /h=L3H4/.test(hash) && /theme=dark/.test(hash), 'and the address has the state', hash);
    await close(page, 'skipping to the text');
  }
}

/* A seed that is too large becomes the largest; a copy that is refused is not said to have been made. */
async function testSeedAndCopy(live) {
  const page = await openAnswered(live);
  for (const [typed, kept] of [['1000000007', 1000000007], ['9000000000000000000', 9e15]]) {
    await page.fill('#seed', typed);
    await page.locator('#seed').blur();
    await settle(page);
    const hash = await hashOf(page);
    const again = await openAnswered(live + hash);
    check((await page.inputValue('#seed')) === String(kept) && (await again.inputValue('#seed')) === String(kept), `seed ${typed} is ${kept} in a link, too`, `${hash} ${await again.inputValue('#seed')}`);
    await close(again, 'a link with a seed');
  }
  for (const [answer, words] of [['allow', 'Copied'], ['refuse', 'Not copied: the address is the link'], ['none', 'Not copied: the address is the link']]) {
    await page.evaluate((how) => {
      const writeText = () => (how === 'allow' ? Promise.resolve() : Promise.reject(new Error('refused')));
      Object.defineProperty(navigator, 'clipboard', { value: how === 'none' ? undefined : { writeText }, configurable: true });
      globalThis.told = []; // all that the button says: a busy machine may look when it is itself again
      globalThis.teller ??= new MutationObserver(() => told.push({ text: byId('copy-link').textContent, at: performance.now() }));
      teller.observe(byId('copy-link'), { childList: true });
    }, answer);
    await page.click('#copy-link', { force: true });
    await until(page, (expected) => told.some(({ text }) => text === expected), words, `a copy: ${answer}`);
  }
  /* The last answer stands for four seconds, however soon after another it was asked for. */
  await page.evaluate(() => {
    globalThis.told = [];
    byId('copy-link').click();
    setTimeout(() => byId('copy-link').click(), 500);
  });
  const itself = await page.evaluate(() => say('copy link'));
  await until(page, (expected) => told.length > 2 && told.at(-1).text === expected, itself, 'the button is itself again');
  const stood = await page.evaluate((expected) => told.find(({ text }) => text === expected).at - told.findLast(({ text }) => text !== expected).at, itself);
  check(stood > 3900, 'an earlier click does not end what a later one says', stood);
  await close(page, 'seeds and copies');
}

/* As attn.page of Python shows it in a notebook: its address is then about:srcdoc, and its origin nobody's. */
async function testFrame(live) {
  const quoted = fs.readFileSync(live.slice('file://'.length), 'utf8').replace(/&/g, '&amp;').replace(/"/g, '&quot;');
  const notebook = path.join(folder, 'frame.html');
  fs.writeFileSync(notebook, `<!doctype html><script>const later = new Set();</script><iframe sandbox="allow-scripts allow-downloads" style="width:100%;height:800px" srcdoc="${quoted}"></iframe>`);
  const page = await open(`file://${notebook}`);
  const frame = page.frames()[1];
  await answered(frame);
  await frame.fill('#editor', 'A text in a frame');
  await until(frame, () => state.text === 'A text in a frame' && state.text === followed && location.hash.includes('t=A+text+in+a+frame'), null, 'and keeps its state in its own address');
  await close(page, 'a page in a frame');
}

/* Written text is read again from its ids: other tokens may spell the same. */
async function testWrittenAddress(live) {
  const page = await openAnswered(live);
  await replaceAnswered(page, 'The');
  const { id } = await page.evaluate(() => distributionAfter(0).top.find(({ id: one }) => typeof run.vocabulary[one] === 'string' && /^[a-z]/.test(run.vocabulary[one])) ?? distributionAfter(0).top[1]);
  await click(page, `#expected [data-id="${id}"] button`).catch(() => {});
  await answered(page);
  await click(page, '#step-on');
  await answered(page);
  const ids = () => run.tokens.map((token) => token.id).join();
  const [hash, expected] = [await hashOf(page), await page.evaluate(ids)];
  const again = await openAnswered(live + hash);
  check((await again.evaluate(ids)) === expected, 'a link has the tokens that were written', `${await again.evaluate(ids)} for ${expected}`);
  check((await again.locator('#tokens .generated').count()) === (await page.locator('#tokens .generated').count()), 'and marks them');
  check((await again.locator('#tree button').count()) === (await page.locator('#tree button').count()), 'the tree comes along');
  await close(again, 'a link to what was written');
  await close(page, 'what was written');
}

async function testHostileAddress(live) {
  const frozen = write('frozen.html', '-p', 'The king said');
  const addresses = [
    '#t=</script><script>alert(1)</script>&lang=<script>&theme=x&v=constructor&b=__proto__', '#t=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&tried=%3Cb%3E&tried=x',
    '#p=1e99&w=-5&T=999&P=NaN&s=1e400&tour=99', '#p=1.5&w=0.5&tour=1.5&s=2.5&T=0.123&P=0.07', '#T=10', '#T=0.01',
    '#h=L99H99,LxHy,L0H0&at=L9999MLP', '#at=L77', '#off=L99H1=0,L1H1=1e9,L7=0,__proto__=0', '#off=L0H0=999999999999999999999999999,L1H1=0.000000000000000000000001',
    '#t=abc&ids=99999999,1,2', '#t=abc&ids=4136', '#t=abc&ids=1e5,-3', `#t=${'long '.repeat(20000)}`, `#t=a${'&tried=z'.repeat(3000)}`, '#%E0%A4%A&t=%FF%00', '#t=%00a%1b[31m&p=0', '#t=&w=3', '#sentence',
  ];
  for (const url of [live, frozen]) {
    const page = await open(url);
    if (url === live) await answered(page);
    const drawn = await page.evaluate(() => !document.querySelector('#main').hidden);
    check(drawn, 'the page is there');
    for (const hash of addresses) {
      const what = `${url === live ? 'live' : 'frozen'} ${hash.slice(0, 60)}`;
      await page.evaluate((to) => {
        location.hash = to;
      }, hash);
      await settle(page);
      await until(page, (isLive) => !pending && (!isLive || (source.ready && !asking && !wanted.has('text') && !wanted.has('tokens'))), url === live, `${what} is answered`);
      check(await page.evaluate(() => Number.isInteger(state.query) && state.query >= 0 && state.query < run.n && [...document.querySelectorAll('main script, main img')].length === 0), `${what} harms nothing`);
      const words = await textOf(page, 'main');
      check(!/NaN|undefined|Infinity|\[object/.test(words), `${what}: numbers stay numbers`, words.match(/.{0,40}(NaN|undefined|Infinity|\[object).{0,40}/)?.[0]);
      check(page.complaints.length === 0, `${what}: no complaint`, page.complaints.splice(0).join('; ').slice(0, 300));
    }
    await page.evaluate(() => {
      location.hash = '#t=The+king';
    });
    if (url === live) await checkNumbers(page, 'The king', 'after all hostile addresses');
    await close(page, 'hostile addresses');
  }
  for (const hash of [addresses.slice(0, 4).join('&').replace(/&#/g, '&'), ...addresses.slice(6, 9), addresses[15]]) { // and as the first that a page reads
    const page = await open(frozen + hash);
    check(await page.evaluate(() => !document.querySelector('#main').hidden && run.n > 0), `opened with ${hash.slice(0, 60)}`);
    await close(page, `opened with ${hash.slice(0, 60)}`);
  }
}

/* A GGUF file where the tokens of some ids are others: names is {id: text}. */
function withTokens(file, names) {
  const bytes = fs.readFileSync(file);
  const { keys, end, data } = gguf.parse(bytes);
  const tokens = keys['tokenizer.ggml.tokens'];
  for (const id of Object.keys(names)) bytes.writeInt32LE(1, keys['tokenizer.ggml.token_type'].begin + 4 * id); // a normal token, not one for a byte
  const renamed = tokens.items.map((item, id) => gguf.textOf(names[id] ?? item));
  return gguf.join([bytes.subarray(0, tokens.begin), ...renamed, bytes.subarray(tokens.end, end)], [data]);
}

/* Drops bytes on the page as a file of a name. */
const dropFile = (page, name, bytes) => page.evaluate(([named, base64]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], named));
  for (const kind of ['dragenter', 'dragover', 'drop']) document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));
}, [name, Buffer.from(bytes).toString('base64')]);

const good = path.join(REFERENCE, 'llama-q8_0.gguf');

/* Numbers of a text with a model that was dropped. */
async function checkDropped(page, file, text, what) {
  await until(page, (to) => source.ready && run && state.text === followed, text, `${what}: opened`);
  await replaceAnswered(page, text);
  const next = json('next', file, '-p', text, '--top', '3');
  const has = await page.evaluate((ids) => {
    const { top } = distributionAfter(run.n - 1);
    return ids.map((id) => top.find((one) => one.id === id)?.p ?? 0);
  }, next.top.map(({ id }) => id));
  check(next.top.every(({ probability }, i) => Math.abs(probability - has[i]) < 5e-3), `${what}: its next tokens`, `${has} for ${next.top.map(({ probability }) => probability)}`);
}

/* A copy of a page whose numbers are another file's keeps these, for it cannot ask that file. */
async function checkSaved(page, what) {
  const shown = () => JSON.stringify([run.facts.model, run.n, state.text ?? run.texts.join(''), run.next.at(-1).top.slice(0, 8), run.positions.map((one) => one?.rank)]);
  const before = await page.evaluate(shown);
  const [download] = await Promise.all([page.waitForEvent('download'), page.evaluate(() => byId('save').click())]);
  const copy = path.join(folder, 'of_another.html');
  await download.saveAs(copy);
  check(fs.statSync(copy).size < 3e6, 'without the engine and the model', fs.statSync(copy).size);
  const saved = await open(`file://${copy}`);
  const after = await saved.evaluate(shown);
  const [a, b] = [before, after].map((text) => JSON.parse(text));
  /* A pass whose patterns are shown computes attention row by row, and others by tiles: which came last differs, by rounding. */
  const near = a[3].every((x, i) => Math.abs(x - b[3][i]) < (i % 2 ? 1e-2 : 0.5));
  check(a[0] === b[0] && near && JSON.stringify(a[4]) === JSON.stringify(b[4]), `a copy shows the model that answered ${what}`, `${before}; ${after}`);
  await close(saved, `a copy of another model's page ${what}`);
}

async function testFiles(live) {
  const random = Buffer.from(Array.from({ length: 5000 }, (_, i) => (i * 7919 + (i >> 3)) & 255));
  const whole = fs.readFileSync(good);
  const hostile = [
    ['random.gguf', random], ['empty.gguf', Buffer.alloc(0)], ['truncated.gguf', whole.subarray(0, 90000)], ['header.gguf', whole.subarray(0, 300)],
    ['many.gguf', Buffer.concat([Buffer.from('GGUF'), Buffer.from([3, 0, 0, 0]), Buffer.alloc(16, 255)])], ['words.txt', Buffer.from('Once upon a time')],
    ['<img src=x onerror=alert(1)>.gguf', random], ['letters.gguf', fs.readFileSync(path.join(__dirname, 'data/study/letters.gguf'))],
  ];
  const bare = writeOf('--live', 'bare.html', '--no-model');
  const empty = await open(bare);
  check((await empty.isVisible('#welcome')) && (await empty.isHidden('#main')), 'a page without a model asks for one');
  const lived = await openAnswered(live);
  for (const [page, what] of [[empty, 'without a model'], [lived, 'with one']]) {
    for (const [name, bytes] of hostile) {
      await dropFile(page, name, bytes);
      await until(page, () => /not opened/.test(byId('status').textContent), null, `${name} is refused ${what}`);
      const status = await textOf(page, '#status');
      check(status.includes(name) && status.length < 300 && !status.includes('\n'), `${name}: one clear line ${what}`, status);
      await page.evaluate(() => {
        byId('status').textContent = '';
      });
    }
    if (page === lived) await checkNumbers(page, STORY, 'after hostile files');
    await dropFile(page, 'good.gguf', whole);
    await checkDropped(page, good, 'the tin man sat', `a file dropped on a page ${what}`);
    check(await page.isHidden('#status'), `nothing is left to say ${what}`);
    check((await textOf(page, '#facts')).startsWith('good.gguf'), 'and the page is about it', await textOf(page, '#facts'));
    await page.setInputFiles('#file', path.join(REFERENCE, 'gpt2-q8_0.gguf'));
    await until(page, () => source.ready && run?.facts.model === 'gpt2-q8_0.gguf', null, 'a chosen file is opened');
    await checkDropped(page, path.join(REFERENCE, 'gpt2-q8_0.gguf'), 'the tin man', `a file chosen on a page ${what}`);
    await checkSaved(page, what);
    await close(page, `files on a page ${what}`);
  }
}

/* Tokens that are markup, direction marks, controls: on a frozen page, and dropped. */
async function testVocabulary(live) {
  const tokens = ['</script><script>alert(1)</script>', '<img src=x onerror=alert(1)>', '\u202eabc', '\u0000\u001b[31m', '--><svg onload=alert(1)>', '"onmouseover="alert(1)', '{{script}}', '</textarea><b>', '\ud7ff\uffff', '`${alert(1)}`'];
  const likely = json('next', good, '-p', 'the tin man sat', '--top', '60').top.filter((one) => !/^[ A-Za-z.]/.test(one.token ?? '')).map(({ id }) => id);
  const bytes = withTokens(good, Object.fromEntries(likely.map((id, i) => [id, `${tokens[i % tokens.length]}${id}`])));
  const file = path.join(folder, 'hostile.gguf');
  fs.writeFileSync(file, bytes);
  const pages = [await open(writeOf(file, 'hostile.html', '-p', 'the tin', '-n', '6')), await open(live)];
  await answered(pages[1]);
  await dropFile(pages[1], 'hostile<b>.gguf', bytes);
  await until(pages[1], () => source.ready && run?.facts.model.startsWith('hostile') && state.text === followed, null, 'a hostile vocabulary is opened');
  await replaceText(pages[1], 'the tin man sat');
  await answered(pages[1]);
  for (const page of pages) {
    check(await page.evaluate((list) => Object.values(run.vocabulary).some((piece) => list.some((text) => String(piece).includes(text))), ['<img src=x', 'alert(1)']), 'hostile tokens are there');
    for (const shape of ['lines', 'steps', 'writes', 'map']) {
      await page.check(`input[name=shape][value=${shape}]`);
      await settle(page);
    }
    await page.hover('#tokens .token >> nth=1', { force: true });
    await click(page, '#tour-start');
    await settle(page);
    check(await page.evaluate(() => document.querySelectorAll('main script, main img, main svg[onload], #guide script').length === 0), 'hostile tokens make no element');
    check(!/[\u0000-\u0008\u202e]/.test(await page.evaluate(() => document.querySelector('#expected').textContent + document.querySelector('#lens-grid').textContent)), 'and what is unseen is shown');
    if (page === pages[1]) {
      await page.keyboard.press('Escape');
      await replaceAnswered(page, 'the tin man sat');
      const id = await page.evaluate(() => [...document.querySelectorAll('#expected [data-id] button')].map((button) => button.parentElement.dataset.id).find((one) => /alert|<b>/.test(run.vocabulary[one])));
      await click(page, `#expected [data-id="${id}"] button`);
      await answered(page);
      check(await page.evaluate((one) => run.tokens.at(-1).id === Number(one) && byId('editor').value === `the tin man sat${run.vocabulary[one]}`, id), 'one can go on with a hostile token');
    }
    await close(page, 'a hostile vocabulary');
  }
}

/* Texts that are markup, controls, direction marks, in a page that only shows; and the file's name. */
async function testHostileText() {
  const texts = [
    '</script><script>alert(1)</script>', '<img src=x onerror=alert(1)><!--<script>', '&lt;b&gt; \'"`${alert(1)}{{script}}',
    'one\u0001two\u001b[31mthree\u009b5m\ufff9b\ufdd0c\u{1fffe}d\u{e0041}e\u061cf', 'שלום עולם \u202eabc\u202c', '😀 naïve 日本', '  \n\n\t x',
  ];
  const unseen = /[\u0080-\u009f\u061c\u202c\u202e\ufff9\u{e0041}\p{Noncharacter_Code_Point}]/gu;
  const named = path.join(folder, 'm\u202e\u009b5m\u{e0041}.gguf');
  fs.symlinkSync(model, named);
  for (const [i, text] of texts.entries()) {
    const page = await open(writeOf(named, `hostile${i}.html`, '-p', text, '-n', '1'));
    if (i === 0) {
      const script = await page.locator('script:not([type])').textContent();
      check(script.length > 1000 && !/(inner|outer|Adjacent)HTML *[=(]|document\.write|eval\(|new Function/.test(script), 'no text is read as markup or as script');
    }
    check((await page.locator('main script, main img').count()) === 0, `${JSON.stringify(text)} makes no element`);
    const shown = await page.evaluate(() => [...document.querySelectorAll('#tokens .token:not(.generated)')].map((element) => element.textContent).join(''));
    const expected = text.replace(/\t/g, '⇥').replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0))).replace(unseen, (c) => `⟨${c.codePointAt(0).toString(16).padStart(4, '0')}⟩`).replace(/\n/g, '↵\n');
    check(shown.replace(/⟨[0-9a-f]{2}( [0-9a-f]{2})*⟩/g, '') === expected, 'and is shown whole', `${JSON.stringify(shown)} for ${JSON.stringify(expected)}`);
    const marks = await page.locator('#tokens .mark').allTextContents();
    const pieces = json('tokens', model, '-p', text).tokens.flatMap(({ hex }) => (hex ? [`⟨${hex.match(/../g).join(' ')}⟩`] : []));
    const places = [await textOf(page, '#facts'), await textOf(page, '#made-by'), await page.title()];
    check(places.every((place) => !place.match(unseen)), "and so is the file's name", JSON.stringify(places));
    check(marks.every((mark) => mark === '↵' || pieces.includes(mark)), 'bytes stand in their order', marks.join());
    await close(page, `${JSON.stringify(text)} stays text`);
  }
}

module.exports = { testHeadsChoice, testSkip, testSeedAndCopy, testHostileText, testAddress, testFrame, testWrittenAddress, testHostileAddress, testFiles, testVocabulary };
