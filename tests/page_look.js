/* How the page looks: widths, themes, motion, paper, a finger, the first screen; and whether everyone can use it. */
'use strict';
const { check, given, say, writeOf, open, openAnswered, close, settle, resize, until, answered, idleDone, click, textOf, counts, fs, path, folder, execFileSync } = require('./page_tools');
const { launch } = require('./browser');
const { replaceText, replaceAnswered } = require('./page_live');
const { frozen } = require('./page_frozen');
const { checkThumbs } = require('./page_pictures');

const WIDTHS = [1440, 1024, 768, 390, 360];
const LONG = 'The king Zilgan rode out. Then king Zil gan the gate and the red lamp 中文 שלום. '.repeat(8);

/* Elements that stand out of the window at the side, though nothing there scrolls. */
const overhang = (page) => page.evaluate(() => {
  const { clientWidth, scrollWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return '';
  const out = [...document.querySelectorAll('body *')].filter((element) => element.checkVisibility() && element.getBoundingClientRect().right > clientWidth + 0.5);
  return `${scrollWidth - clientWidth} px: ${out.slice(-4).map((element) => `${element.tagName} ${element.id || element.className}`).join(', ')}`;
});

async function checkWidths(page, what) {
  for (const width of WIDTHS) {
    await resize(page, width, 800);
    const out = await overhang(page);
    check(out === '', `nothing hangs over at ${width} px, ${what}`, out);
  }
}

/* In both languages, with each picture, a change, the tour, a long text. */
async function checkAllWidths(live, fonts, options) {
  for (const language of ['en', 'zh']) {
    const what = `${language}, ${fonts}`;
    const page = await openAnswered(`${live}#lang=${language}`, options);
    await idleDone(page);
    for (const shape of ['map', 'lines', 'steps', 'writes']) {
      await page.check(`input[name=shape][value=${shape}]`);
      await answered(page);
      await checkWidths(page, `${shape}, ${what}`);
    }
    await page.evaluate(() => {
      change({ off: { L3H4: 0, L2MLP: 0.5, L5H2: 0 }, part: 'L3', tour: 3 });
      remember('another text', 'another text that goes on and on for quite a while, to see where it ends');
      for (const details of document.querySelectorAll('details')) details.open = true;
    });
    await answered(page);
    await checkWidths(page, `changed and touring, ${what}`);
    await page.evaluate(() => change({ off: {}, tour: null, part: 'logits' }));
    await replaceAnswered(page, LONG);
    await checkWidths(page, `a long text, ${what}`);
    await close(page, `widths, ${what}`);
  }
}

/* Text as widely spaced as WCAG 1.4.12 has it, in a window of 320 pixels: it scrolls down alone. */
async function testSpacing(live) {
  const style = '* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important } p { margin-bottom: 2em !important }';
  for (const language of ['en', 'zh']) {
    const page = await openAnswered(`${live}#lang=${language}`, { viewport: { width: 320, height: 800 }, bypassCSP: true });
    await replaceText(page, 'The Eiffel Tower is in Paris. The Eiffel'); // of which the model is certain: all else is < 0.001 %
    await answered(page);
    await page.addStyleTag({ content: style });
    for (const shape of ['map', 'lines', 'steps', 'writes']) {
      await page.evaluate((value) => change({ shape: value }), shape);
      await answered(page);
      check((await overhang(page)) === '', `nothing hangs over with spaced text, ${shape}, ${language}`, await overhang(page));
      check(await page.evaluate(() => [...document.querySelectorAll('.formula')].every((formula) => formula.scrollHeight <= formula.clientHeight)), `formulas scroll to the side alone, ${shape}, ${language}`);
    }
    await page.evaluate(() => change({ off: { L3H4: 0, L2MLP: 0.5 }, part: 'L3' }));
    await answered(page);
    check((await overhang(page)) === '', `nothing hangs over with spaced text, changed, ${language}`, await overhang(page));
    await close(page, `spaced text, ${language}`);
  }
}

/* A browser that does not find some fonts. */
function launchWith(name, rejected) {
  const file = path.join(folder, `${name}.conf`);
  fs.writeFileSync(file, `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
    <include ignore_missing="yes">/etc/fonts/fonts.conf</include><selectfont>${rejected}</selectfont></fontconfig>`);
  return launch({ env: { ...process.env, FONTCONFIG_FILE: file } });
}

async function testWidths(_, live) {
  const on = await launchWith('other', '<rejectfont><glob>*CJK*</glob></rejectfont>');
  await checkAllWidths(live, 'without CJK fonts', { on });
  await on.close();
}

/* Where CJK fonts are all there is, system-ui becomes one of them, which is wider. */
async function testWidthsCjk(live) {
  let fonts = [];
  try {
    fonts = execFileSync('fc-list', ['--format', '%{file}\n'], { encoding: 'utf8' }).trim().split('\n');
  } catch { /* no fontconfig, no such fonts */ }
  if (!fonts.some((file) => file.includes('CJK'))) {
    console.log('skipped: widths with CJK fonts, which are not installed');
    counts.skipped++;
    return;
  }
  const others = fonts.filter((file) => !file.includes('CJK')).map((file) => `<rejectfont><glob>${file}</glob></rejectfont>`);
  const on = await launchWith('cjk', others.join(''));
  await checkAllWidths(live, 'with CJK fonts', { on });
  await on.close();
}

/* 1440 × 900: the sentence, its arcs, what comes next and all of the model, without scrolling. */
async function testFirstScreen(_, live) {
  const page = await openAnswered(live, { viewport: { width: 1440, height: 900 } });
  const places = await page.evaluate(() => Object.fromEntries(['#telling', '#tokens', '#arcs path', '#expected', '#write', '#boxes', '#flow'].map((selector) => {
    const { top, bottom, left, right } = document.querySelector(selector).getBoundingClientRect();
    return [selector, { top, bottom, left, right }];
  })));
  for (const [selector, { top, bottom, left, right }] of Object.entries(places)) check(top >= 0 && bottom <= 900 && left >= 0 && right <= 1440, `${selector} is on the first screen`, `${top} to ${bottom}`);
  const tokens = await page.locator('#tokens .token').evaluateAll((list) => list.map((span) => parseFloat(getComputedStyle(span).fontSize)));
  check(tokens.every((size) => size >= 24), 'the sentence is large');
  const arc = await page.evaluate(() => {
    const widths = [...document.querySelectorAll('#arcs path')].map((path) => [Number(path.getAttribute('stroke-width')), path]);
    const { left, right } = widths.sort((a, b) => b[0] - a[0])[0][1].getBoundingClientRect();
    const row = run.weightsAt(state.heads[0], state.query);
    const key = row.indexOf(Math.max(...row));
    const middle = (i) => (({ left: a, right: b }) => (a + b) / 2)(document.querySelectorAll('#tokens .token')[i].getBoundingClientRect());
    return [left, right, middle(key), middle(state.query)];
  });
  check(Math.abs(arc[0] - arc[2]) < 12 && Math.abs(arc[1] - arc[3]) < 12, 'an arc leads from the token to where its head looks', arc.join());
  await resize(page, 1265, 800); // 1280 less a bar that scrolls
  check(await page.evaluate(() => document.querySelector('.strip-frame').scrollWidth <= document.querySelector('.strip-frame').clientWidth), 'the whole strip of the model is in sight, to the logits');
  await resize(page, 390, 844);
  const order = await page.evaluate(() => ['#telling', '#tokens', '#expected', '#boxes', '#look'].map((selector) => document.querySelector(selector).getBoundingClientRect().top));
  check(order.every((top, i) => i === 0 || top > order[i - 1]), 'on a phone the same order in one column', order.join());
  const strip = await page.evaluate(() => {
    const frame = document.querySelector('.strip-frame');
    frame.scrollLeft = 1e6;
    return [frame.scrollLeft, document.querySelector('#boxes .layer:last-child').getBoundingClientRect().right <= innerWidth + 1];
  });
  check(strip[0] > 0 && strip[1], 'and the strip of the model scrolls to its end', strip.join());
  await close(page, 'the first screen');
}

/* Names of heads that are not to be read to their end. */
const cutNames = (page, selector) => page.evaluate((names) => [...document.querySelectorAll(names)].filter((name) => name.scrollWidth > name.clientWidth).map((name) => name.textContent).join(), selector);

/* A key, and a button: type and lines 1.6 times as large, the story still on the first screen, with something off, too; at 1280 pixels its width alone. */
async function testProjector(_, live) {
  const sizes = () => Object.fromEntries(['#telling', '.token', '#expected bdi', '.box.head .enter span', '.guess', '#flow', '#keys li', '.thumb span', '#lens-grid [data-column]'].map((part) => [part, parseFloat(getComputedStyle(document.querySelector(part)).fontSize)]));
  const thickest = () => Math.max(...[...document.querySelectorAll('#arcs path')].map((arc) => parseFloat(arc.getAttribute('stroke-width'))));
  for (const [width, height, language] of [[1440, 900, 'en'], [1440, 900, 'zh'], [1366, 768, 'zh'], [1366, 768, 'en'], [1920, 1080, 'en'], [1280, 800, 'en'], [1280, 800, 'zh']]) {
    const what = `${width} × ${height}, ${language}`;
    const page = await openAnswered(`${live}#lang=${language}&h=L3H4&p=11`, { viewport: { width, height } });
    const [before, line] = [await page.evaluate(sizes), await page.evaluate(thickest)];
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press('p');
    await until(page, () => state.large && pending === null && later.size === 0, null, 'a key makes it large');
    const after = await page.evaluate(sizes);
    for (const [part, size] of Object.entries(before)) check(Math.abs(after[part] / size - 1.6) < 0.01, `type of ${part} is 1.6 times as large, ${what}`, `${after[part]} for ${size}`);
    check(await page.evaluate(thickest) > 1.5 * line, `lines are thicker, ${what}`);
    for (const off of [{}, { L3H4: 0 }]) {
      await page.evaluate((values) => change({ off: values }), off);
      await answered(page);
      await settle(page);
      const places = await page.evaluate(() => ['#telling', '#tokens', '#arcs path', '#expected', '#write', '#changes', '#boxes'].map((selector) => {
        const { top, bottom, right } = document.querySelector(selector).getBoundingClientRect();
        return [selector, top, bottom, right];
      }));
      for (const [selector, top, bottom, right] of places) check(top >= 0 && (bottom <= height || width === 1280) && right <= width, `${selector} is on the first screen of a projector, ${what}`, `${top} to ${bottom}`);
    }
    check(await page.evaluate(() => document.querySelector('.strip-frame').scrollWidth <= document.querySelector('.strip-frame').clientWidth), `all layers are in sight, ${what}`);
    check((await cutNames(page, '.enter em')) === '', `names of heads are whole, ${what}`, await cutNames(page, '.enter em'));
    await checkWidths(page, `a projector, ${what}`);
    await resize(page, width, height);
    await page.focus('#editor');
    await page.keyboard.press('Control+End');
    await page.keyboard.type('p');
    check(await page.evaluate(() => state.large && state.text.endsWith('p')), 'where one types it is a letter');
    await click(page, '#projector');
    check(await page.evaluate(() => !state.large), 'the button takes it back');
    await close(page, `a projector, ${what}`);
  }
}

/* The map grows with the window, and so does the grid of heads: neither leaves half of it empty. */
async function testRoom(live) {
  const page = await openAnswered(`${live}#h=L3H4&p=11`);
  await idleDone(page);
  const sides = [];
  for (const [width, height] of [[1024, 768], [1366, 768], [1440, 900], [1920, 1200]]) {
    await resize(page, width, height);
    sides.push(await page.evaluate(() => Number(document.querySelector('#map canvas').style.height.slice(0, -2))));
    const [grid, room, cells, all] = await page.evaluate(() => {
      const boxes = [...document.querySelectorAll('.thumb')].map((thumb) => thumb.getBoundingClientRect());
      return [Math.max(...boxes.map(({ right }) => right)) - Math.min(...boxes.map(({ left }) => left)), byId('heads').clientWidth, boxes.length, run.facts.n_layer * run.facts.n_head];
    });
    check(cells === all && grid > 0.85 * room && grid <= room + 4, `the heads take the width at ${width}`, `${grid} of ${room}`);
  }
  for (const width of [320, 360, 390, 768]) { // where a pattern is small its name is short
    await resize(page, width, 800);
    check((await cutNames(page, '.thumb em')) === '', `names of heads are whole at ${width}`, await cutNames(page, '.thumb em'));
  }
  check(await page.evaluate(() => [...document.querySelectorAll('.thumb em')].some((name) => name.textContent === 'previous')), 'and long where there is room');
  check(sides[1] > 500 && sides[2] > sides[1] + 80 && sides[3] > sides[2] + 80, 'the map grows with the window', sides.join());
  await resize(page, 1440, 900);
  await page.focus('.thumb[data-head=L0H0]');
  await page.keyboard.press('ArrowDown');
  check(await page.evaluate(() => document.activeElement.dataset.head) === await page.evaluate(() => document.querySelectorAll('.thumb')[Number(byId('grid').style.getPropertyValue('--columns'))].dataset.head), 'down leads to the head below');
  await close(page, 'room');
}

async function testThemes() {
  for (const colorScheme of ['light', 'dark']) {
    const page = await open(frozen(), { colorScheme });
    check((await page.evaluate(() => document.documentElement.dataset.theme)) === colorScheme, `follows the system: ${colorScheme}`);
    const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number).reduce((a, b) => a + b) / 3);
    check((await paper() < 100) === (colorScheme === 'dark'), `paper is ${colorScheme}`);
    await click(page, '#theme');
    check((await paper()) > 200 && (await textOf(page, '#theme')).includes('light'), 'light can be chosen');
    await click(page, '#theme');
    check((await paper()) < 100 && (await textOf(page, '#theme')).includes('dark'), 'dark can be chosen');
    await page.emulateMedia({ media: 'print' });
    check((await paper()) > 200, 'on paper it is light');
    await close(page, `theme ${colorScheme}`);
  }
}

async function testMotion() {
  for (const reducedMotion of ['reduce', 'no-preference']) {
    const page = await open(frozen(), { reducedMotion });
    await page.check('input[name=shape][value=steps]');
    await settle(page);
    const moves = await page.evaluate(() => {
      const bar = getComputedStyle(document.querySelector('.answers .bar-of'));
      const share = getComputedStyle(document.querySelector('.stack span'));
      return parseFloat(bar.transitionDuration) > 0 || share.animationName !== 'none';
    });
    check(moves === (reducedMotion !== 'reduce'), `motion: ${reducedMotion}`);
    await close(page, `motion: ${reducedMotion}`);
  }
}

/* A page that is printed at once shows what one would have seen further down. */
async function testPrint() {
  for (const colorScheme of ['light', 'dark']) {
    const page = await open(frozen(), { colorScheme, viewport: { width: 1000, height: 500 } });
    const pdf = await page.pdf({ printBackground: true });
    check(pdf.length > 20000 && pdf.subarray(0, 5).toString() === '%PDF-', 'it prints');
    const ink = await page.evaluate(() => ['#thumbs', '#strip-thumbs', '#map canvas'].map((selector) => {
      const canvas = document.querySelector(selector);
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const colours = new Set();
      for (let i = 0; i < data.length && colours.size < 6; i += 4 * 7) if (data[i + 3] > 0) colours.add(data.slice(i, i + 3).join());
      return colours.size;
    }));
    check(ink.every((colours) => colours >= 6), `pictures are there, printed from ${colorScheme}`, ink.join());
    const { patterns } = say('attend', 'The Eiffel Tower is in Paris. The Eiffel');
    const wide = () => page.evaluate(() => parseFloat(getComputedStyle(document.querySelector('.paper')).width).toFixed(0));
    const onScreen = await wide();
    await page.emulateMedia({ media: 'print', colorScheme });
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    check((await wide()) === onScreen, 'arcs lie over the same lines', `${onScreen}; ${await wide()}`);
    check((await page.evaluate(() => document.getElementById('lens-grid').scrollWidth <= document.getElementById('lens-grid').clientWidth)), 'all of its columns are there');
    if (colorScheme === 'light') await checkThumbs(page, (name) => patterns.find(({ layer, head }) => name === `L${layer}H${head}`).rows, 'on paper');
    check(await page.isVisible('#tokens') && await page.isVisible('#lens-grid') && await page.isHidden('.tools') && await page.isHidden('#temperature'), 'on paper there is what can be read, and nothing to click');
    check((await overhang(page)) === '', 'and nothing hangs over', await overhang(page));
    await close(page, `print from ${colorScheme}`);
  }
}

/* The lens has its own scrolling: on paper all of its rows are there, and afterwards those in view alone. */
async function testPrintLens() {
  const page = await open(writeOf(path.join(folder, 'model.gguf'), 'long.html', '-p', LONG));
  const rows = () => page.evaluate(() => {
    const frame = document.getElementById('lens-grid');
    const end = frame.getBoundingClientRect().bottom;
    const shown = [...frame.querySelectorAll('[data-position]')];
    const tops = shown.map((row) => row.getBoundingClientRect().top);
    return { n: run.n, shown: shown.map((row) => Number(row.dataset.position)), below: shown.filter((row) => row.getBoundingClientRect().bottom > end + 1).length,
      over: tops.filter((top, i) => i > 0 && top < tops[i - 1] + 10).length, scrolled: frame.scrollTop };
  });
  await page.evaluate(() => document.getElementById('lens-grid').scrollTo(0, 1000));
  await until(page, () => !document.querySelector('#lens-grid [data-position="0"]'), null, 'a row further down is drawn');
  const before = await rows();
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  await page.emulateMedia({ media: 'print' });
  const paper = await rows();
  check(paper.n > 80 && paper.shown.length === paper.n && paper.shown.every((position, i) => position === i), 'all rows of the lens are on paper', JSON.stringify(paper));
  check(paper.below === 0 && paper.over === 0, 'and none is cut off or lies over another', JSON.stringify(paper));
  await page.emulateMedia({ media: 'screen' });
  await page.evaluate(() => dispatchEvent(new Event('afterprint')));
  await settle(page);
  const after = await rows();
  check(after.scrolled === before.scrolled && String(after.shown) === String(before.shown), 'the screen has its own rows again', JSON.stringify([before, after]));
  await close(page, 'print the lens');
}

/* Over a long text, whose frame scrolls, there is less room for arcs: they are lower, and none is cut off. */
async function testArcsOfLong() {
  const page = await open(writeOf(given, 'arcs.html', '-p', LONG));
  const tops = await page.evaluate(() => {
    const last = [...document.querySelectorAll('.token')].filter((token) => token.offsetTop === document.querySelectorAll('.token')[1].offsetTop).length - 1; // of the first line
    change({ heads: ['L0H0'], pinned: true });
    chooseQuery(last);
    return new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(() => resolve([...document.querySelectorAll('#arcs path')].map((arc) => arc.getBBox().y - arc.getAttribute('stroke-width') / 2)))); });
  });
  check(tops.length > 2 && Math.min(...tops) > -0.5 && Math.max(...tops) > 10, 'arcs over the first line of a long text stay within its frame', tops.join());
  await page.evaluate(() => chooseQuery(0));
  const guess = () => page.evaluate(() => [document.querySelector('.layer.end .guess bdi').textContent, document.querySelector('.layer.end .guess bdi').clientWidth]);
  await until(page, () => document.querySelector('.layer.end .guess bdi').textContent.startsWith('<|'), null, 'the embedding says its token');
  check((await guess())[1] > 40 && (await guess())[1] < 80, 'which is no sign of comparison before a number', (await guess()).join());
  await close(page, 'arcs of a long text');
}

/* A finger has no pointer that stays: what it taps is chosen, and stays in the sentence below. */
async function testTouch() {
  const page = await open(frozen(), { hasTouch: true });
  const n = await page.locator('#tokens .token').count();
  await page.locator('#map').scrollIntoViewIfNeeded();
  let box = await page.locator('#map canvas').first().boundingBox();
  const cell = (box.height - 80) / n;
  await page.touchscreen.tap(box.x + 92 + 1.5 * cell, box.y + 78 + 2.5 * cell);
  await settle(page);
  check((await textOf(page, '#place')).startsWith('position 2 '), 'a tap on the map chooses the query', await textOf(page, '#place'));
  await page.locator('label:has(input[value=lines])').tap();
  await settle(page);
  box = await page.locator('#lines').boundingBox();
  await page.touchscreen.tap(box.x + 20, box.y + 4 + 22 * 4.5);
  await settle(page);
  check((await textOf(page, '#place')).startsWith('position 4 '), 'a tap on the lines too', await textOf(page, '#place'));
  await page.locator('#tokens .token >> nth=5').tap();
  await settle(page);
  check((await textOf(page, '#place')).startsWith('position 5 '), 'and on a token');
  await close(page, 'touch');
}

/* Roles, names, contrast: by the rules of axe-core, where it is installed. */
async function testAccess(live) {
  let axe;
  try {
    axe = require('axe-core').source;
  } catch {
    console.log('skipped: rules of accessibility, without axe-core');
    counts.skipped++;
    return;
  }
  const look = async (page, what) => {
    await page.mouse.move(0, 0); // a tip is no part of a landmark
    await settle(page);
    for (const rule of (await page.evaluate(() => window.axe.run())).violations) {
      check(false, `${rule.id}, ${what}:`, `${rule.help}: ${rule.nodes.slice(0, 5).map((node) => `${node.target.join(' ')} ${node.any[0]?.message ?? ''}`).join('; ')}`);
    }
    check(true);
  };
  for (const [colorScheme, language] of [['light', 'en'], ['dark', 'zh']]) {
    const still = await open(`${frozen()}#lang=${language}`, { colorScheme, bypassCSP: true });
    await still.evaluate(axe);
    await still.check('#without-input');
    await look(still, `a page that shows, ${colorScheme}, ${language}`);
    await close(still, 'axe on a page that shows');
    const page = await openAnswered(`${live}#lang=${language}`, { colorScheme, bypassCSP: true });
    await idleDone(page);
    await page.evaluate(axe);
    await look(page, `as it opens, ${colorScheme}, ${language}`);
    for (const shape of language === 'en' ? ['lines', 'steps', 'writes'] : []) {
      await page.evaluate((value) => change({ shape: value, off: { L3H4: 0 }, part: 'L3H4' }), shape);
      await answered(page);
      await look(page, `${shape}, ${colorScheme}, ${language}`);
    }
    await page.evaluate(() => {
      for (const details of document.querySelectorAll('details')) details.open = true;
      remember('one', 'one more');
    });
    await click(page, '#tour-start');
    await answered(page);
    await look(page, `touring, ${colorScheme}, ${language}`);
    await close(page, 'axe');
  }
  const bare = await open(writeOf('--live', 'bare-axe.html', '--no-model'), { bypassCSP: true });
  await bare.evaluate(axe);
  await look(bare, 'without a model');
  await close(bare, 'axe without a model');
}

/* Texts of hardly anything, on a phone. */
async function testEmpty(live) {
  const page = await openAnswered(live, { viewport: { width: 390, height: 844 } });
  for (const text of ['a', '中', '😀', '\n\n\n']) {
    await replaceAnswered(page, text);
    const words = await page.evaluate(() => document.querySelector('#main').innerText);
    check(!/NaN|undefined|Infinity/.test(words), `nothing is unheard of with ${JSON.stringify(text)}`, words.match(/.{0,40}(NaN|undefined|Infinity).{0,20}/)?.[0]);
    for (const shape of ['lines', 'steps', 'writes', 'map']) {
      await page.check(`input[name=shape][value=${shape}]`);
      await settle(page);
    }
    check((await overhang(page)) === '', `nothing hangs over with ${JSON.stringify(text)}`);
  }
  await close(page, 'short texts');
}

/* A number that is cut is another one: how many other tokens there are is told whole, with a change made, too. */
async function testOthersWhole(live) {
  const page = await openAnswered(`${live}#off=L3H4%3D0,L4H0%3D0,L5H0%3D0`);
  for (const language of ['en', 'zh'])
    for (const large of [false, true])
      for (const width of [360, 768, 1024, 1280, 1920]) {
        await page.evaluate((values) => change(values), { language, large });
        await resize(page, width, 800);
        const cut = await page.evaluate(() => {
          const name = document.querySelector('#expected li:last-child .row > :first-child');
          const over = document.documentElement.scrollWidth > document.documentElement.clientWidth;
          return name.scrollWidth > name.clientWidth || over ? `${name.textContent} ${over}` : '';
        });
        check(cut === '', `it is whole at ${width} px, ${language}${large ? ', large' : ''}`, cut);
        const close = await page.evaluate(() => [...document.querySelectorAll('#expected li .row')].flatMap((row) => {
          const [p, change] = [...row.children].slice(-2).map((element) => {
            const range = document.createRange();
            range.selectNodeContents(element);
            return range.getBoundingClientRect();
          });
          return change.width > 0 && change.left - p.right < 4 ? [row.textContent] : [];
        }));
        check(close.length === 0, `a share and its change stand apart at ${width} px, ${language}${large ? ', large' : ''}`, close.join(' | '));
      }
  await close(page, 'the others');
}

module.exports = { testOthersWhole, testWidths, testSpacing, testWidthsCjk, testFirstScreen, testProjector, testRoom, testThemes, testMotion, testPrint, testPrintLens, testArcsOfLong, testTouch, testAccess, testEmpty };
