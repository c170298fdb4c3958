/* The page with the engine in it where typing meets what is still asked for, pointed at, written by the model, or not as it is read. */
'use strict';
const { model, check, json, say, write, writeOf, open, openAnswered, close, settle, answered, click, press, folder, fs, path } = require('./page_tools');
const { STORY, checkNumbers, replaceText } = require('./page_live');

/* Types into the field, and something else once the page has begun to ask for that. */
const typeOver = (page, first, second) => page.evaluate(([a, b]) => new Promise((done) => {
  const editor = byId('editor');
  const type = (text) => {
    editor.value = text;
    editor.dispatchEvent(new Event('input'));
  };
  type(a);
  requestAnimationFrame(() => { // behind the frame that asks
    type(b);
    done(asking !== null);
  });
}), [first, second]);

async function testTakenBack(live) {
  const page = await openAnswered(live);
  check(await typeOver(page, `${STORY}d`, STORY), 'a letter is asked for before it is taken back');
  await settle(page);
  await checkNumbers(page, STORY, 'a letter that was taken back');
  check(await page.evaluate(() => underWay === null && byId('write').getAttribute('aria-disabled') !== 'true'), 'and one can go on');
  await replaceText(page, 'a b '.repeat(700));
  await settle(page);
  await page.evaluate(() => new Promise((done) => {
    const look = () => (problem ? done() : setTimeout(look, 20));
    look();
  }));
  await replaceText(page, STORY);
  await checkNumbers(page, STORY, 'behind a text that is too long');
  check(await page.evaluate(() => problem === null && !document.querySelector('#tokens-legend .problem')), 'its line has gone');
  await close(page, 'what is taken back');
}

/* What is pointed at may be gone when the text gets shorter. */
async function testPointedAway(live) {
  for (const [shape, selector] of [['lines', '#tokens .token >> nth=-1'], ['map', '#map']]) {
    const page = await openAnswered(live, { viewport: { width: 1280, height: 1900 } });
    await page.evaluate((name) => change({ shape: name }), shape);
    await settle(page);
    await page.focus('#editor');
    await press(page, 'Control+End');
    const at = await page.locator(selector).first().boundingBox();
    const place = shape === 'map' ? [at.x + at.width - 12, at.y + at.height - 12] : [at.x + at.width / 2, at.y + at.height / 2];
    await page.mouse.move(place[0] - 1, place[1]);
    await page.mouse.move(...place);
    await settle(page);
    for (let i = 0; i < 12; i++) await page.keyboard.press('Backspace');
    await checkNumbers(page, STORY.slice(0, -12), `shorter under the pointer, ${shape}`);
    await close(page, `shorter under the pointer, ${shape}`);
  }
}

/* A page's own text keeps the tokens that it came with, though typed it would be read as others. */
async function testOwnTokens() {
  const hidden = 'Hi.<|endoftext|>The king';
  for (const [name, text, ...options] of [['bos', STORY, '--bos'], ['special', hidden, '--special']]) {
    const page = await open(write(`own-${name}.html`, '-p', text, ...options, '--live'));
    const { tokens } = json('tokens', model, '-p', text, ...options);
    await answered(page);
    const ids = await page.evaluate(() => run.tokens.map(({ id }) => id));
    check(ids.join() === tokens.map(({ id }) => id).join(), `own tokens, ${name}`, ids.join());
    await page.focus('#editor');
    await press(page, 'Control+End');
    await page.keyboard.type('!');
    await answered(page);
    const read = say('tokens', await page.evaluate(() => state.text), ...(name === 'bos' ? options : [])).tokens.map(({ id }) => id);
    check((await page.evaluate(() => run.tokens.map(({ id }) => id).join())) === read.join(), `typed on it is read as text, with the BOS it had, ${name}`);
    await close(page, `own tokens, ${name}`);
  }
}

/* Underlined is what the model wrote, wherever it comes to stand. */
async function testWrittenMoves(live) {
  const page = await open(live);
  const underlined = () => page.evaluate(() => [...document.querySelectorAll('#tokens .generated')].map((span) => span.textContent).join(''));
  const typed = async (key, text) => {
    await page.focus('#editor');
    await press(page, key);
    await page.keyboard.type(text);
    await answered(page);
  };
  await answered(page);
  await click(page, '#step-on');
  await answered(page);
  const wrote = (await page.evaluate(() => state.text)).slice(STORY.length);
  check(wrote !== '' && (await underlined()) === wrote, 'a token is written', await underlined());
  await typed('Control+Home', 'Once ');
  check((await underlined()) === wrote, 'it is still it behind a longer text', await underlined());
  for (let i = 0; i < 5; i++) await page.keyboard.press('Backspace');
  await answered(page);
  check((await underlined()) === wrote, 'and behind a shorter one', await underlined());
  await typed('Control+End', ' ate');
  check((await underlined()) === '', 'behind what somebody typed nothing is', await underlined());
  const nodes = page.locator('#tree button');
  await nodes.last().click();
  await answered(page);
  check((await underlined()) === wrote, 'the tree knows it again', await underlined());
  await close(page, 'what the model wrote');
}

/* Lines of a Windows file end in CR LF, which a text field does not have. */
async function testLineEnds() {
  const text = 'The first line.\r\nThe second line is here.\r\nThe end';
  fs.writeFileSync(path.join(folder, 'ends.txt'), text);
  const page = await openAnswered(writeOf(model, 'ends.html', '-f', path.join(folder, 'ends.txt'), '--live'));
  const pieces = say('tokens', text).tokens;
  const at = text.indexOf('The second') + 3;
  await page.focus('#editor');
  await page.evaluate((caret) => byId('editor').setSelectionRange(caret, caret), at - 1); // one CR before it
  await settle(page);
  let [end, position] = [0, 0];
  while ((end += pieces[position].token.length) < at) position++;
  check((await page.evaluate(() => state.query)) === position, 'the caret knows its token', await page.evaluate(() => state.query));
  await page.keyboard.type('x');
  await answered(page);
  check((await page.evaluate(() => state.text)) === `${text.slice(0, at)}x${text.slice(at)}`, 'ends of lines stay as they were', JSON.stringify(await page.evaluate(() => state.text)));
  await close(page, 'ends of lines');
}

module.exports = { testTakenBack, testPointedAway, testOwnTokens, testWrittenMoves, testLineEnds };
