/*
 * A newcomer needs these: the meaning of each technical word, tips and cards that hide nothing they speak of, type that can
 * be read, examples, and a text that looks as if one could type in it.
 */
'use strict';
const { check, shows, say, json, given, write, open, openAnswered, close, settle, resize, until, answered, idleDone, click, textOf } = require('./page_tools');
const { STORY, replaceAnswered } = require('./page_live');

const SIZES = [[1440, 900], [1366, 768], [1280, 720], [1024, 768], [390, 844]];
const SMALLEST = 11; // px
const ABSENT = ['RoPE', 'sink', 'context']; // this model, or this text, gives no occasion for the word

/* The words that are marked, once nothing has changed for longer than the page waits until it marks them. */
const marked = (page) => page.evaluate(() => new Promise((done) => {
  let quiet = null;
  const watch = new MutationObserver(() => begin());
  const begin = () => {
    clearTimeout(quiet);
    quiet = setTimeout(() => {
      watch.disconnect();
      done([...new Set([...document.querySelectorAll('dfn.term')].map((term) => term.dataset.term))]);
    }, 200);
  };
  watch.observe(document.body, { childList: true, subtree: true, attributes: true });
  begin();
}));

/* Whether the tip is there, in the window, and not on what it is about. */
const tipBeside = (page, selector) => page.evaluate((about) => {
  const tip = byId('tip').getBoundingClientRect();
  const it = (typeof about === 'string' ? document.querySelector(about) : document.activeElement).getBoundingClientRect();
  const apart = tip.left >= it.right || tip.right <= it.left || tip.top >= it.bottom || tip.bottom <= it.top;
  return !byId('tip').hidden && apart && tip.left >= 0 && tip.top >= 0 && tip.right <= innerWidth && tip.bottom <= innerHeight;
}, selector);

/* Every word of the table stands somewhere, in both languages, and its meaning comes by pointer, by focus and by finger. */
async function testGlossary(live) {
  for (const language of ['en', 'zh']) {
    const page = await openAnswered(`${live}#lang=${language}`, { hasTouch: true });
    const found = new Set();
    const look = async () => {
      await answered(page); // a busy machine answers and draws late
      (await marked(page)).forEach((name) => found.add(name));
    };
    await page.evaluate(() => document.querySelectorAll('details').forEach((one) => { one.open = true; }));
    await look();
    for (const shape of ['lines', 'steps', 'writes', 'map']) {
      await page.check(`input[name=shape][value=${shape}]`);
      await look();
    }
    for (const part of ['L2MLP', 'embed', 'L3', 'L2H2']) {
      await page.evaluate((name) => change({ part: name, heads: name === 'L2H2' ? ['L2H2'] : state.heads, pinned: true }), part);
      await look();
    }
    await page.check('input[name=shape][value=steps]');
    for (let step = 0; step <= 5; step++) {
      await page.check(`input[name=step][value="${step}"]`);
      await look();
    }
    await page.evaluate(() => change({ off: { L3H4: 0 } }));
    await look();
    const names = await page.evaluate(() => Object.keys(GLOSSARY));
    const missing = names.filter((name) => !found.has(name) && !ABSENT.includes(name) && !(name === 'duplicate'));
    check(missing.length === 0, `each word of the table stands on the page, ${language}`, missing.join());
    const good = await page.evaluate(() => Object.values(GLOSSARY).every(([english, chinese, meaning, sinn]) => english instanceof RegExp && chinese instanceof RegExp && meaning.length > 20 && meaning.split(/\s+/).length < 30 && /\p{Script=Han}/u.test(sinn) && !/\p{Script=Han}/u.test(meaning)));
    check(good, 'each has one short meaning in both languages');
    const doubled = await page.evaluate(() => [...document.querySelectorAll('main section')].filter((section) => {
      const terms = [...section.querySelectorAll('dfn')].map((term) => term.dataset.term);
      return new Set(terms).size !== terms.length;
    }).map((section) => section.id));
    check(doubled.length === 0, 'a word is marked once in a section', doubled.join());

    const term = '#token dfn[data-term=surprisal]';
    const meaning = await page.evaluate((at) => GLOSSARY.surprisal[2 + at], language === 'en' ? 0 : 1);
    await page.locator(term).scrollIntoViewIfNeeded();
    await page.hover(term);
    check((await textOf(page, '#tip')) === meaning && await tipBeside(page, term), `a word’s meaning comes by pointer, ${language}`, await textOf(page, '#tip'));
    await page.mouse.move(1, 1);
    await until(page, () => byId('tip').hidden, null, 'and goes with it');
    await page.focus(term);
    check((await textOf(page, '#tip')) === meaning && await tipBeside(page, term), 'by focus');
    check((await page.getAttribute(term, 'aria-describedby')) === 'tip', 'and is told to who listens');
    await page.keyboard.press('Escape');
    check(await page.isHidden('#tip') && (await page.getAttribute(term, 'aria-describedby')) === null, 'Escape takes it away');
    await page.evaluate(() => document.activeElement.blur());
    await page.tap(term);
    check((await textOf(page, '#tip')) === meaning, 'and by finger');
    await page.evaluate(() => document.activeElement.blur());
    await page.check('input[name=shape][value=steps]');
    await marked(page);
    const [choice] = await page.evaluate(() => [...document.querySelectorAll('#step-choice label:has(dfn)')].map((label) => label.querySelector('dfn').dataset.term));
    check(!!choice && await page.locator(`#step-choice dfn[data-term="${choice}"]`).getAttribute('tabindex') === null, 'a word in a choice takes no focus of its own', choice);
    await page.evaluate(() => document.activeElement.blur());
    await page.focus(`#step-choice label:has(dfn[data-term="${choice}"]) input`);
    check((await textOf(page, '#tip')) === await page.evaluate(([name, at]) => GLOSSARY[name][2 + at], [choice, language === 'en' ? 0 : 1]), 'its control tells the meaning', await textOf(page, '#tip'));
    await page.click('#shapes label >> nth=1');
    check(await page.isChecked('input[name=shape][value=lines]'), 'and is still chosen by a click');
    await close(page, `the words’ meanings, ${language}`);
  }
}

/* A tip stands beside what it is about, at the window's edges, too. */
async function testTips(live) {
  for (const [width, height] of [[1280, 720], [1024, 768]]) {
    const page = await openAnswered(live, { viewport: { width, height } });
    await idleDone(page);
    const about = ['#tokens .token:nth-child(2)', '#tokens .token:nth-child(12)', '#boxes .enter[data-part=L0H0]', '#boxes .enter[data-part=L5H2]', '#boxes .enter[data-part=L5MLP]', '.thumb[data-head=L0H0]', '.thumb[data-head=L5H5]'];
    for (const selector of about) {
      await page.evaluate((of) => document.querySelector(of).scrollIntoView({ block: 'end', inline: 'nearest' }), selector);
      await page.mouse.move(2, 2);
      const { x, y } = await page.evaluate((of) => {
        const { left, right, top, bottom } = document.querySelector(of).getBoundingClientRect();
        return { x: (left + right) / 2, y: (top + bottom) / 2 };
      }, selector);
      await page.mouse.move(x, y);
      await until(page, () => !byId('tip').hidden, null, `a tip about ${selector}`);
      check(await tipBeside(page, selector), `the tip about ${selector} lies beside it, ${width} × ${height}`);
    }
    await page.locator('#map').scrollIntoViewIfNeeded();
    const { x, y, cell } = await page.evaluate(() => {
      const { left, top, height: side } = document.querySelector('#map canvas').getBoundingClientRect();
      const size = (side - 80) / run.n;
      return { x: left + 92 + 3.5 * size, y: top + 78 + 10.5 * size, cell: size };
    });
    await page.mouse.move(x, y);
    await until(page, () => !byId('tip').hidden, null, 'a tip about a cell');
    const covered = await page.evaluate(([cx, cy, reach]) => {
      const { left, right, top, bottom } = byId('tip').getBoundingClientRect();
      return left < cx + reach && right > cx - reach && top < cy + reach && bottom > cy - reach;
    }, [x, y, cell / 2]);
    check(!covered, 'nor does it lie on a cell of the map');
    await close(page, 'tips');
  }
}

/* No letter is smaller, and an arc's weight does not lie on it. */
async function testSmallest(live) {
  for (const [width, height] of SIZES)
    for (const language of ['en', 'zh']) {
      const page = await openAnswered(`${live}#lang=${language}`, { viewport: { width, height } });
      await page.evaluate(() => document.querySelectorAll('details').forEach((one) => { one.open = true; }));
      for (const values of [{ shape: 'steps' }, { shape: 'writes', part: 'L3' }, { tour: 6 }, { large: true, shape: 'map', tour: null }]) {
        await page.evaluate((some) => change(some), values);
        await answered(page);
        await settle(page);
        const small = await page.evaluate((least) => {
          const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          const found = new Set();
          while (walker.nextNode()) {
            const { parentElement: parent, data } = walker.currentNode;
            if (!data.trim() || parent.closest('script, style, .unseen, option') || !parent.checkVisibility()) continue;
            const size = parseFloat(getComputedStyle(parent).fontSize) * (parent.currentCSSZoom ?? 1);
            if (size < least) found.add(`${parent.tagName}.${parent.className} ${size} ${data.slice(0, 20)}`);
          }
          return [...found].slice(0, 5);
        }, SMALLEST);
        check(small.length === 0, `no type is below ${SMALLEST} px, ${width}, ${language}, ${JSON.stringify(values)}`, small.join('; '));
      }
      await page.evaluate(() => change({ large: false }));
      for (const head of ['L3H4', 'L2H2', 'L0H0']) {
        await page.evaluate((name) => change({ heads: [name], pinned: true }), head);
        await settle(page);
        const on = await page.evaluate(() => [...document.querySelectorAll('#arcs .weight')].filter((label) => {
          const { x, y, width: w, height: h } = label.getBBox();
          return [...document.querySelectorAll('#arcs path')].some((path) => {
            if (Number(path.getAttribute('stroke-width')) < 1.1) return false; // a hair
            const end = path.getPointAtLength(path.getTotalLength());
            if (Math.abs(end.x - (x + w / 2)) > w) return false; // another's
            for (let at = path.getTotalLength(); at > 0; at -= 1) {
              const point = path.getPointAtLength(at);
              if (point.x > x && point.x < x + w && point.y > y + h / 4 && point.y < y + h) return true;
            }
            return false;
          });
        }).map((label) => label.textContent));
        check(on.length === 0, `an arc’s weight stands beside it, ${head}, ${width}`, on.join());
      }
      await close(page, 'small type');
    }
}

/* It opens on the head of the tour, looks as if one could type, and has examples; a page that only shows says why it does. */
async function testExamples(live) {
  const page = await openAnswered(live);
  check((await page.evaluate(() => state.heads[0])) === 'L3H4', 'it opens on the head that the tour speaks of', await page.evaluate(() => state.heads[0]));
  const caret = () => page.evaluate(() => {
    const { content, animationName, width } = getComputedStyle(byId('tokens'), '::after');
    return content === 'none' ? 'none' : `${animationName} ${width}`;
  });
  check((await caret()) === 'blink 2px', 'a caret blinks behind the text', await caret());
  await page.focus('#editor');
  check((await caret()) === 'none', 'until the text has its own');
  await page.fill('#editor', '');
  await until(page, () => !!problem, null, 'an empty text is told');
  check((await page.getAttribute('#editor', 'placeholder')) === 'Type here', 'an empty text says that one types here');
  const names = await page.evaluate(() => Object.keys(EXAMPLES));
  check(names.length === 8, 'there are eight examples', names.join());
  for (const name of names) {
    await page.selectOption('#example', name);
    await answered(page);
    const [text, words, note] = await page.evaluate((of) => [EXAMPLES[of], WORDS[`see ${of}`][0], byId('example-note').textContent], name);
    check((await page.inputValue('#editor')) === text && note === words, `the example of ${name} brings its text, and what to look for`, note);
    for (const [, quoted] of words.matchAll(/“([^”]+)”/g)) {
      const at = text.includes(quoted) || ['gardener', ' three'].includes(quoted);
      check(at, `${name}: “${quoted}” stands in the text`);
    }
  }
  const top = (text) => say('next', text, '--top', '1').top[0].token;
  const texts = await page.evaluate(() => EXAMPLES);
  for (const [name, next] of [['name', 'gan'], ['list', ' three'], ['giver', ' Mary'], ['bracket', ')'], ['capital', ' Paris'], ['nonsense', ' to']]) check(top(texts[name]) === next, `${name} shows what it is for`, top(texts[name]));
  await replaceAnswered(page, 'Something of my own');
  check((await page.inputValue('#example')) === '' && (await page.textContent('#example-note')) === '', 'a text of one’s own is no example');
  await replaceAnswered(page, '今天天气很好，我们去公园散步。');
  check(/single bytes/.test(await page.textContent('#example-note')), 'what the vocabulary does not know is told', await page.textContent('#example-note'));
  await close(page, 'examples');
  const still = await open(write('fixed.html', '-p', STORY));
  check(await still.isHidden('#example-label') && /study view --live/.test(await still.textContent('#example-note')), 'a page that only shows says why, and has no examples');
  await close(still, 'a fixed text');
}

/* In each size and language every step's card leaves what it speaks of in sight; what is to be pressed is in it. */
async function testTourPlaces(_, live) {
  const page = await openAnswered(live, { reducedMotion: 'reduce' });
  await click(page, '#tour-start');
  await until(page, () => state.tour === 0 && !byId('guide').hidden, null, 'the tour begins');
  await idleDone(page);
  for (const [width, height] of SIZES)
    for (const language of ['en', 'zh']) {
      await resize(page, width, height);
      await page.evaluate((to) => change({ language: to, tour: null }), language);
      await settle(page);
      for (let step = 0; step < 7; step++) {
        const what = `step ${step + 1}, ${width} × ${height}, ${language}`;
        await page.evaluate((to) => change({ tour: to }), step);
        await answered(page);
        await settle(page);
        const hidden = () => page.evaluate(() => {
          const card = byId('guide').getBoundingClientRect();
          const bad = card.left < 0 || card.top < 0 || card.right > innerWidth || card.bottom > innerHeight ? ['the card'] : [];
          for (const selector of byId('guide').dataset.seen.split(' ; ')) {
            const it = document.querySelector(selector)?.getBoundingClientRect();
            if (!it) bad.push(`no ${selector}`);
            else if (it.left < card.right && it.right > card.left && it.top < card.bottom && it.bottom > card.top) bad.push(`${selector} covered`);
            else if (it.top < 0 || it.bottom > innerHeight) bad.push(`${selector} outside`);
          }
          return bad;
        });
        await until(page, () => {
          const card = byId('guide').getBoundingClientRect();
          return byId('guide').dataset.seen.split(' ; ').every((selector) => {
            const it = document.querySelector(selector)?.getBoundingClientRect();
            return it && it.top >= 0 && it.bottom <= innerHeight && !(it.left < card.right && it.right > card.left && it.top < card.bottom && it.bottom > card.top);
          });
        }, null, `nothing is hidden: ${what}: ${(await hidden()).join()}`, 4000);
        const bad = await hidden();
        check(bad.length === 0, `the card hides nothing it speaks of, ${what}`, bad.join());
        if (step !== 6) continue;
        const inSight = await page.evaluate(() => {
          const { left, right } = document.querySelector(byId('guide').dataset.seen.split(' ; ')[0]).getBoundingClientRect();
          return left >= 0 && right <= innerWidth;
        });
        check(inSight, `the strip scrolls to the head, ${what}`);
      }
    }
  await resize(page, 360, 640); // no room for all: the picture goes before the controls above it
  for (const step of [2, 3]) {
    await page.evaluate((to) => change({ tour: to }), step);
    await answered(page);
    const isSeen = () => {
      const card = byId('guide').getBoundingClientRect();
      const [row, asks] = byId('guide').dataset.seen.split(' ; ').map((selector) => document.querySelector(selector)?.getBoundingClientRect());
      return !!asks && [row, asks].every(({ top, bottom }) => top >= 0 && bottom <= innerHeight && (bottom <= card.top || top >= card.bottom));
    };
    await until(page, isSeen, null, `a small phone shows the query and the key it finds, step ${step + 1}`);
  }
  await page.evaluate(() => change({ tour: 6 }));
  await answered(page);
  await resize(page, 1280, 720);
  await page.evaluate(() => change({ language: 'en' }));
  await settle(page);
  await page.focus('#guide-switch');
  check((await textOf(page, '#guide-switch')) === 'Switch these 5 off', 'the switch is in the card', await textOf(page, '#guide-switch'));
  await page.keyboard.press('Enter');
  await answered(page);
  await settle(page);
  check((await textOf(page, '#guide-switch')) === 'Switch these 5 on' && await page.evaluate(() => document.activeElement.id === 'guide-switch'), 'it says what it does, and keeps the focus');
  const [guess] = json('next', given, '-p', STORY).top;
  const without = json('ablate', given, '-p', STORY, '--heads', 'L3H4,L4H0,L5H0,L5H3,L5H6').next.find(({ id }) => id === guess.id);
  shows((await textOf(page, '#guide > p')).match(/[\d.]+ %/g)[2], without.ablated, 'the card says what it becomes', 2e-3);
  await page.keyboard.press('Enter');
  await answered(page);
  check((await page.evaluate(() => Object.keys(state.off).length)) === 0, 'and back');
  await close(page, 'the places of the card');
}

module.exports = { testGlossary, testTips, testSmallest, testExamples, testTourPlaces };
