/* The tour in a page that lives and in one that only shows; the words of both languages. */
'use strict';
const { check, shows, say, write, open, openAnswered, close, settle, until, answered, idleDone, hashOf, press, click, textOf, fs, path } = require('./page_tools');
const { STORY, replaceText, replaceAnswered } = require('./page_live');

const STEPS = 7;
const ERROR = 3e-3;
const wordCount = (text) => text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
const card = async (page) => ({ title: await textOf(page, '#guide h2'), step: await textOf(page, '#guide .guide-head .dim'), words: await textOf(page, '#guide > p'), all: await textOf(page, '#guide') });

/* Walks through all steps; `each` looks at every one. */
async function walk(page, each) {
  for (let step = 0; step < STEPS; step++) {
    await until(page, (at) => state.tour === at && !byId('guide').hidden && document.querySelector('#guide h2') === document.activeElement, step, `step ${step + 1} is there`);
    await each(await card(page), step);
    if (step < STEPS - 1) await click(page, '#guide .main');
  }
}

async function checkStep(page, { title, step, words, all }, at, what) {
  check(step.match(/\d+/g).join() === `${at + 1},${STEPS}` || step.match(/\d+/g).join() === `${STEPS},${at + 1}`, `${what}, step ${at + 1} says where it is`, step);
  check(title.length > 1 && words.length > 20 && !/undefined|null|NaN|\{\ds?\}/.test(all), `${what}, step ${at + 1} tells something`, all);
  await until(page, () => {
    const element = document.querySelector('.spotlight');
    if (!element) return false;
    const { top, bottom } = element.getBoundingClientRect();
    return top < innerHeight - 80 && bottom > 80;
  }, null, `${what}, step ${at + 1} points at a part that is in view`);
  check(await page.evaluate(() => byId('guide').getBoundingClientRect().bottom <= innerHeight && byId('guide').getBoundingClientRect().right <= innerWidth), `${what}, step ${at + 1}: the card is in view`);
}

/* The tokens that a head of the story raises most. */
const raisedBy = (layer, head) => say('explain', STORY, '--layer', layer, '--head', head, '--top', '1').raised;

async function testTour(live) {
  const page = await openAnswered(live);
  await replaceAnswered(page, 'Something else');
  await click(page, '#tour-start');
  await until(page, (text) => state.text === text && state.text === followed, STORY, 'the tour brings its own text');
  await idleDone(page);
  const [guess] = say('next', STORY).top;
  const [raised] = raisedBy('3', '4');
  const withoutHeads = (names) => say('ablate', STORY, '--heads', names.join()).next.find(({ id }) => id === guess.id);
  let [head, heads] = [null, []];
  await page.focus('#guide .main');
  await page.evaluate(() => touch('lens'));
  await settle(page);
  check(await page.evaluate(() => document.activeElement.matches('#guide .main')), 'numbers that come leave the focus where it is');
  await page.focus('#guide h2');
  await walk(page, async (told, at) => {
    await checkStep(page, told, at, 'live');
    check(wordCount(told.words) <= 40, `step ${at + 1} says at most forty words`, `${wordCount(told.words)}: ${told.words}`);
    if (at === 1) shows(told.words.match(/[\d.]+ %/)[0], guess.probability, 'the second step’s guess', ERROR);
    if (at === 2) check(await page.isVisible('#picture'), 'the third step shows the dot products');
    if (at === 3) check(await page.isChecked('input[name=step][value="4"]'), 'the fourth the shares');
    if (at === 4) {
      await until(page, () => document.querySelectorAll('#written li').length > 0, null, 'the fifth what the head writes');
      check((await textOf(page, '#written')).includes(raised.token.trim()), 'and what it raises most', await textOf(page, '#written'));
    }
    if (at === 5) shows(told.words.match(/rank (\d+)(?!.*rank)/)[1], 1, 'the guess has rank 1 in the end');
    if (at !== STEPS - 1) return;
    [head, ...heads] = told.words.match(/L\d+H\d+/g);
    const [from, alone, together] = told.words.match(/[\d.]+ %/g);
    shows(from, withoutHeads([head]).baseline, 'the last step’s probability', ERROR);
    shows(alone, withoutHeads([head]).ablated, 'what it becomes without the head', ERROR);
    shows(together, withoutHeads(heads).ablated, 'and without all that look there', ERROR);
    check(heads.length > 1 && heads.includes(head) && withoutHeads([head]).ablated > withoutHeads([head]).baseline / 2, 'others stand in for the head', heads.join());
    check(withoutHeads(heads).ablated < withoutHeads(heads).baseline / 2, 'which proves something');
  });
  await click(page, '#guide-switch');
  await answered(page);
  const [first] = say('next', STORY, '--ablate', heads.join()).top; // the guess may have left the list
  check((await page.locator('#expected li').first().getAttribute('data-id')) === String(first.id), 'switched off, another leads');
  shows((await card(page)).words.match(/[\d.]+ %/g)[2], withoutHeads(heads).ablated, 'and it is so', ERROR);
  check((await card(page)).words.includes(head) && await page.isVisible('#guide'), 'while the card stays');
  check((await page.evaluate(() => Object.keys(state.off).join())) === heads.join(), 'the switch of the card is that of all of them');
  check((await textOf(page, '#guide .main')) === 'Try your own', 'the last step leads to the text');
  await click(page, '#guide .main');
  check(await page.isHidden('#guide'), 'and ends the tour');
  check((await page.locator('.spotlight').count()) === 0, 'and nothing is pointed at');
  await close(page, 'the tour');
}

/* It can be left, resumed, walked with keys, linked to, and read in Chinese. */
async function testTourLeft(live) {
  const page = await openAnswered(live);
  await click(page, '#tour-start');
  await until(page, () => document.querySelector('#guide h2') === document.activeElement, null, 'the tour begins');
  await press(page, 'Escape');
  await answered(page); // heads are tried out meanwhile
  check(/Resume/.test(await textOf(page, '#tour-start')), 'what was left while heads are tried out can be resumed', await textOf(page, '#tour-start'));
  await click(page, '#tour-start');
  await until(page, () => state.tour === 0 && document.querySelector('#guide h2') === document.activeElement, null, 'and is');
  await press(page, 'ArrowRight', 3);
  check((await card(page)).step.startsWith('4'), 'arrows walk through the tour');
  await press(page, 'ArrowLeft');
  check((await card(page)).step.startsWith('3'), 'and back');
  await press(page, 'Escape');
  check(await page.isHidden('#guide'), 'Escape leaves');
  check(/Resume/.test(await textOf(page, '#tour-start')), 'what was left can be resumed');
  await page.focus('#editor');
  await page.keyboard.press('ArrowRight');
  check(await page.isHidden('#guide'), 'keys are the page’s own again');
  await click(page, '#tour-start');
  await until(page, () => !byId('guide').hidden, null, 'it is resumed');
  check((await card(page)).step.startsWith('3'), 'where it was left', (await card(page)).step);
  await click(page, '#language');
  const chinese = await card(page);
  check(/\p{Script=Han}/u.test(chinese.title) && /\p{Script=Han}/u.test(chinese.words), 'the card speaks Chinese', chinese.words);
  const again = await openAnswered(live + await hashOf(page));
  await until(again, () => !byId('guide').hidden && state.tour === 2 && document.querySelector('#guide h2'), null, 'a link opens at the step');
  check((await card(again)).words === chinese.words, 'in its language', (await card(again)).words);
  for (let at = 2; at < STEPS; at++) {
    const told = await card(again);
    await checkStep(again, told, at, 'Chinese');
    check(/\p{Script=Han}/u.test(told.words) && !/[A-Za-z]{3,} [A-Za-z]{3,} [A-Za-z]{3,}/.test(told.words.replace(/study view --live/, '')), `Chinese, step ${at + 1}`, told.words);
    if (at < STEPS - 1) await click(again, '#guide .main');
  }
  await close(again, 'a link into the tour');
  await close(page, 'leaving the tour');
}

async function testTourFrozen() {
  const change = 'L3H4,L4H0,L5H0';
  const [guess] = say('next', STORY).top;
  const { baseline, ablated } = say('ablate', STORY, '--heads', change).next.find(({ id }) => id === guess.id);
  for (const [url, what] of [[write('tour.html', '-p', STORY, '--ablate', change), 'frozen with a change'], [write('tour2.html', '-p', 'A text about nothing at all'), 'frozen']]) {
    const page = await open(url);
    await click(page, '#tour-start');
    await walk(page, async (told, at) => {
      await checkStep(page, told, at, what);
      check(wordCount(told.words) <= 40, `${what}, step ${at + 1} says at most forty words`, told.words);
      if (at === 4) check((await page.locator('#written li').count()) === 10, `${what}, the fifth step shows what the head writes`, await textOf(page, '#written'));
      if (at === 4 && what !== 'frozen') check((await page.locator('#written li').evaluateAll((list) => list.map((row) => row.dataset.id))).includes(String(raisedBy('3', '4')[0].id)), 'and what it raises most');
      if (at < STEPS - 1) return;
      check((await textOf(page, '#guide .main')) === 'End', `${what}, it ends where nothing can be tried`);
      if (what === 'frozen') return;
      shows(told.words.match(/[\d.]+ %/g)[0], baseline, 'the last step’s probability');
      shows(told.words.match(/[\d.]+ %/g)[1], ablated, 'and what it becomes', ERROR);
    });
    await close(page, `the tour, ${what}`);
  }
}

/* Keys that the scripts and the template ask for: whole ones, and beginnings of those that are put together. */
function keysAsked() {
  const web = path.join(__dirname, '../web');
  const sources = fs.readdirSync(web).filter((name) => /\.(js|html)$/.test(name)).map((name) => fs.readFileSync(path.join(web, name), 'utf8'));
  const text = sources.join('\n');
  const calls = [...text.matchAll(/\bsay\(((?:[^()]|\([^()]*\))*)/g)].map(([, inside]) => inside);
  const whole = new Set([...text.matchAll(/data-(?:say|label|title)="([^"]+)"/g)].map(([, key]) => key));
  const parts = new Set();
  for (const inside of calls) {
    const first = inside.split(/,(?![^(]*\))/)[0]; // the key; what is put into it comes behind
    for (const [, key] of first.matchAll(/'([^']+)'/g)) whole.add(key);
    for (const [, key] of first.matchAll(/`([^`$]*)\$\{/g)) parts.add(key);
  }
  return { text, whole, parts };
}

async function testWords() {
  const page = await open(write('words.html', '-p', 'Words of the page'));
  const words = await page.evaluate(() => WORDS);
  const counted = await page.evaluate(() => [say('layers_of', 1, 1), say('layers_of', 2, 12), say('tokens_of', 0)].join('; '));
  check(counted === '1 layer × 1 head; 2 layers × 12 heads; 0 tokens', 'one is no many', counted);
  const { text, whole, parts } = keysAsked();
  for (const [key, pair] of Object.entries(words)) {
    check(pair.length === 2 && pair.every((one) => typeof one === 'string' && one.length > 0), `'${key}' has words in both languages`);
    const places = pair.map((one) => [...new Set(one.match(/\{\d\}/g) ?? [])].sort().join());
    check(places[0] === places[1], `'${key}' takes the same values in both`, places.join(' | '));
    check(/\p{Script=Han}/u.test(pair[1]) || pair[0] === pair[1] || /^(other language|language title)$/.test(key), `'${key}' is Chinese in Chinese`, pair[1]);
    check(!/\p{Script=Han}/u.test(pair[0]) || key === 'other language' || key === 'language title', `'${key}' is English in English`, pair[0]);
    check(whole.has(key) || [...parts].some((part) => part && key.startsWith(part)) || text.includes(`'${key}'`), `somebody says '${key}'`);
  }
  const asked = [...whole].filter((key) => !/^(en|zh|embed|logits|layer|none|value|true|other|text|repeat|MLP)$/.test(key));
  for (const key of asked) check(key in words || /^[=<>]|^\d|^[A-Z]/.test(key), `there are words for '${key}'`);
  for (const part of parts) check(part === '' || Object.keys(words).some((key) => key.startsWith(part)), `there are words that begin with '${part}'`);
  await close(page, 'words');
}

/* The English words that are to be seen, or heard, on the page as it is now. */
const englishLeft = (page) => page.evaluate(() => {
  const pieces = new Set();
  for (const [english, chinese] of Object.values(WORDS)) {
    if (english === chinese) continue;
    for (const piece of english.split(/\{\ds?\}/)) {
      const word = piece.trim().replace(/^[:,;.“”()·]+|[:,;.“”()·…]+$/g, '').trim();
      if (word.length >= 4 && !chinese.includes(word)) pieces.add(word);
    }
  }
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { parentElement: parent, data } = walker.currentNode;
    if (parent.closest('script, style, noscript, math, textarea, #tokens, bdi, code, #language') || !parent.checkVisibility()) continue;
    texts.push(data.trim());
  }
  for (const element of document.querySelectorAll('[aria-label], [title]')) {
    if (element.id === 'language') continue;
    texts.push(element.getAttribute('aria-label') ?? '', element.title);
  }
  const found = texts.filter((text) => pieces.has(text.replace(/^[-+−→%\d:,;.“”()· ]+|[:,;.“”()·… ]+$/g, '')) || [...pieces].some((piece) => piece.includes(' ') && text.includes(piece)));
  return [...new Set(found)].slice(0, 10);
});

async function testChinese(live) {
  const page = await openAnswered(live, { locale: 'zh-CN' });
  check((await page.evaluate(() => [state.language, document.documentElement.lang])).join() === 'zh,zh-Hans', 'who reads Chinese gets it');
  await idleDone(page);
  const look = async (what) => {
    await settle(page);
    const left = await englishLeft(page);
    check(left.length === 0, `no English is left: ${what}`, JSON.stringify(left));
  };
  await look('as it opens');
  for (const shape of ['lines', 'steps', 'writes', 'map']) {
    await page.check(`input[name=shape][value=${shape}]`);
    await answered(page);
    await look(shape);
  }
  await page.check('input[name=shape][value=steps]');
  for (let step = 1; step <= 5; step++) {
    await page.check(`input[name=step][value="${step}"]`);
    await look(`step ${step}`);
  }
  for (const part of ['L3H4', 'L2MLP', 'embed', 'L3', 'logits']) {
    await page.evaluate((name) => change({ part: name }), part);
    await answered(page);
    await look(part);
  }
  await page.evaluate(() => change({ off: { L3H4: 0, L2MLP: 0.5 } }));
  await answered(page);
  await look('with changes');
  await click(page, '#expected button >> nth=0');
  await answered(page);
  await look('with a tree');
  await page.evaluate(() => document.querySelectorAll('details').forEach((one) => { one.open = true; }));
  await page.locator('#temperature').fill('0.5');
  await look('with all opened');
  await page.hover('#boxes [data-part=L2H2] .enter');
  await look('with a tip');
  await replaceText(page, '');
  await until(page, () => !!problem, null, 'no text is told');
  await look('without a text');
  await click(page, '#tour-start');
  await answered(page);
  await look('with the tour');
  await page.keyboard.press('Escape');
  await click(page, '#language');
  const chinese = await page.evaluate(() => [...document.querySelectorAll('body *')].filter((element) => element.checkVisibility() && element.id !== 'language' && !element.closest('script, style, #tokens, bdi') && [...element.childNodes].some((node) => node.nodeType === 3 && /\p{Script=Han}/u.test(node.data))).map((element) => element.outerHTML.slice(0, 120)));
  check(chinese.length === 0, 'and in English no Chinese is left', chinese.slice(0, 4).join('\n'));
  await click(page, '#language');
  await look('as it was switched to');
  await close(page, 'Chinese');
}

/* On a slow machine a frame takes a second. The page still scrolls to what a step speaks of, but never against the reader. */
async function testTourSlow(live) {
  const page = await open(live, { reducedMotion: 'reduce' });
  await page.setViewportSize({ width: 1280, height: 720 });
  await answered(page);
  await click(page, '#tour-start');
  await until(page, () => state.tour === 0 && !byId('guide').hidden, null, 'the tour begins');
  await idleDone(page);
  const inSight = () => byId('guide').dataset.seen.split(' ; ').every((selector) => {
    const it = document.querySelector(selector)?.getBoundingClientRect();
    return it && it.top >= 0 && it.bottom <= innerHeight;
  });
  await page.evaluate(() => {
    const frame = window.requestAnimationFrame;
    window.requestAnimationFrame = (draw) => setTimeout(() => frame(draw), 1000);
    change({ tour: 2 });
  });
  await until(page, () => byId('guide').dataset.seen?.includes('step-choice'), null, 'the third step is there');
  await until(page, inSight, null, 'slow frames, and what the step speaks of comes into sight');
  await page.mouse.move(600, 300);
  await page.mouse.wheel(0, -10000);
  await until(page, () => scrollY === 0, null, 'the reader scrolls');
  await page.evaluate(() => new Promise((done) => {
    touch('lens', 'explained');
    setTimeout(done, 4000);
  }));
  check(await page.evaluate(() => scrollY === 0), 'and the page leaves that alone');
  await close(page, 'a slow tour');
}

module.exports = { testTour, testTourLeft, testTourSlow, testTourFrozen, testWords, testChinese };
