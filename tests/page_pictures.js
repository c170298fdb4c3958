/* Canvases, pixel by pixel: maps, lines, thumbnails; and the steps of one query. */
'use strict';
const { model, check, shows, json, writeOf, write, open, close, settle, resize, until, click, textOf, textsOf, token, thumb, path } = require('./page_tools');
const { PROMPT, about, last, frozen, choose, pointAtCell } = require('./page_frozen');

const NORM_ERROR = 1e-3; // norms are kept in 16 bits, and shown by three digits

/* The pixels of a canvas, [r, g, b, alpha] at each of the points, in CSS pixels. */
const pixelsOf = (page, selector, points) => page.locator(selector).evaluate((canvas, list) => {
  const context = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return list.map(([x, y]) => [...context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data]);
}, points);

const rgbOf = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

/* Colours of the style sheet, --name-1 and so on, as the page has them now. */
const coloursOf = async (page, names) => (await page.evaluate((list) => {
  const style = getComputedStyle(document.documentElement);
  return list.map((name) => style.getPropertyValue(name).trim());
}, names)).map(rgbOf);

/* From a share in [0, 1] to the colour that stands for it in the map. */
async function heatOf(page) {
  const stops = await coloursOf(page, [0, 1, 2, 3, 4].map((i) => `--heat-${i}`));
  return (share) => {
    const at = (Math.round(255 * share) / 255) * 4;
    const low = Math.min(Math.floor(at), 3);
    return stops[low].map((from, c) => from + (at - low) * (stops[low + 1][c] - from));
  };
}

/* Of pixels, how many are not of their colours (null: transparent), by a few levels each. */
const wrongOf = (pixels, colours) => pixels.filter((pixel, i) => (
  colours[i] ? pixel[3] !== 255 || colours[i].some((c, j) => Math.abs(c - pixel[j]) > 8) : pixel[3] !== 0)).length;

/* That every cell of the map, n × n from (left, top), has its colour, and that those of masked keys have none. */
async function checkMap(page, n, colourAt, what, [left, top, below] = [92, 78, 2]) {
  const cell = (await page.locator('#map canvas').first().evaluate((canvas) => canvas.clientHeight) - top - below) / n;
  const cells = Array.from({ length: n * n }, (_, i) => [Math.floor(i / n), i % n]);
  const pixels = await pixelsOf(page, '#map canvas:first-child', cells.map(([q, k]) => [left + (k + 0.5) * cell, top + (q + 0.5) * cell]));
  const wrong = wrongOf(pixels, cells.map(([q, k]) => (k <= q ? colourAt(q, k) : null)));
  check(wrong === 0, `the picture of ${what}`, `${wrong} of ${n * n} cells have another colour`);
}

/*
 * That every thumbnail shows its head's rows, wherever it stands; where several cells are one, the largest of them.
 * `canvas` lies under the places that `list` gives: [{name, x, y, side}].
 */
async function checkThumbs(page, rowsOf, what, canvas = '#thumbs') {
  const heat = await heatOf(page);
  let wrong = Infinity;
  await page.locator(canvas).scrollIntoViewIfNeeded();
  for (let tries = 0; tries < 40 && wrong > 0; tries++) { // a few are painted each frame
    await settle(page);
    const places = await page.locator(canvas === '#thumbs' ? '.thumb' : '#boxes .head').evaluateAll((list) => list.map((box) => {
      const place = box.querySelector('b');
      const frame = box.closest('#grid, #boxes').getBoundingClientRect();
      const { left, top, width } = place.getBoundingClientRect();
      const [x, y, side] = [left - frame.left, top - frame.top, width].map((length) => length / (place.currentCSSZoom ?? 1)); // on paper all of it is smaller
      return { name: box.dataset.head ?? box.dataset.part, x: Math.ceil(x - 0.01), y: Math.ceil(y - 0.01), side: Math.floor(side + 0.01) };
    }));
    const points = [];
    const colours = [];
    for (const { name, x, y, side } of [places[0], places[1], places.at(-1)]) {
      const rows = rowsOf(name);
      const size = Math.min(64, rows.length);
      const cells = new Float64Array(size * size);
      rows.forEach((row, q) => row.forEach((weight, k) => {
        const cell = Math.floor((q * size) / rows.length) * size + Math.floor((k * size) / rows.length);
        cells[cell] = Math.max(cells[cell], weight);
      }));
      for (let i = 0; i < side; i += 3) {
        for (let j = 0; j < i - 2; j += 3) {
          const inside = [i, j].every((at) => Math.abs((((at + 0.5) * size) / side) % 1 - 0.5) < 0.35); // of a cell, not at its edge
          if (!inside) continue;
          points.push([x + j, y + i]);
          colours.push(heat(cells[Math.floor(((i + 0.5) * size) / side) * size + Math.floor(((j + 0.5) * size) / side)]));
        }
      }
    }
    wrong = Math.max(0, wrongOf(await pixelsOf(page, canvas, points), colours) - 0.03 * points.length);
    if (points.length < 60) wrong = Infinity;
  }
  check(wrong === 0, `thumbnails ${what}`, `${wrong} pixels have another colour`);
}

/* Keeps what is written on canvases from now on, and where, in window.written. */
const keepWritten = (page) => page.evaluate(() => {
  const { fillText } = CanvasRenderingContext2D.prototype;
  window.written = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    window.written.push({ text, x, y });
    fillText.call(this, text, x, y, ...rest);
  };
});

async function testMap() {
  const page = await open(frozen());
  const { patterns, tokens } = about('attend');
  const n = tokens.length;
  const rowsOf = (name) => patterns.find(({ layer, head }) => name === `L${layer}H${head}`).rows;
  const [one, two] = ['L0H0', await page.locator('.thumb').last().getAttribute('data-head')];
  await checkThumbs(page, rowsOf, 'of the model', '#strip-thumbs');
  await choose(page, two);
  let heat = await heatOf(page);
  await checkMap(page, n, (q, k) => heat(rowsOf(two)[q][k]), two);
  await page.check('input[name=by][value=value]');
  await settle(page);
  const values = about('attend', '--by', 'value', '--layer', two.match(/\d+/)[0], '--head', two.match(/\d+$/)[0]).patterns[0].rows;
  const largest = Math.max(...values.flat());
  await checkMap(page, n, (q, k) => heat(values[q][k] / largest), `${two} by value`);
  shows(await textOf(page, '#pattern-scale span:last-child'), largest, 'what the darkest is');
  await page.check('input[name=by][value=weight]');
  await page.selectOption('#sort', 'prev');
  await checkThumbs(page, rowsOf, 'sorted');

  await keepWritten(page);
  await click(page, '#theme');
  await click(page, '#theme');
  heat = await heatOf(page);
  await checkMap(page, n, (q, k) => heat(rowsOf(two)[q][k]), `${two} in the dark`);
  await checkThumbs(page, rowsOf, 'in the dark');
  await checkThumbs(page, rowsOf, 'of the model, in the dark', '#strip-thumbs');
  const cell = (await page.locator('#map canvas').first().evaluate((canvas) => canvas.clientHeight) - 80) / n;
  const labels = (await page.evaluate(() => window.written)).filter(({ x }) => x === 87).slice(-n);
  check(labels.length === n && labels.every(({ text, y }, i) => text === tokens[i].token.replace(/^ /, '␣') && Math.abs(y - 78 - (i + 0.5) * cell) < 0.01), 'names of the rows', JSON.stringify(labels));

  await click(page, thumb(one), { modifiers: ['Shift'] });
  const [paper, first, second] = await coloursOf(page, ['--heat-0', '--head-1', '--head-2']);
  const over = (under, colour, share) => under.map((c, i) => c + (colour[i] - c) * share);
  await checkMap(page, n, (q, k) => over(over(paper, first, rowsOf(two)[q][k]), second, rowsOf(one)[q][k]), 'two heads');

  await pointAtCell(page, 3, 1);
  await page.mouse.down();
  await page.mouse.up();
  await page.mouse.move(0, 0);
  await settle(page);
  check((await textOf(page, '#place')).startsWith('position 3 '), 'a click on the map chooses the query');
  const height = await page.locator('#map canvas').last().evaluate((canvas) => canvas.clientHeight);
  const column = await pixelsOf(page, '#map canvas:last-child', Array.from({ length: Math.floor(height) }, (_, y) => [91.5, y]));
  const marked = column.flatMap((pixel, y) => (pixel[3] > 0 ? [y] : []));
  check(Math.abs(marked[0] - (78 + 3 * cell)) < 2 && Math.abs(marked.at(-1) - (78 + 4 * cell)) < 2, 'and its row is marked', marked.join());
  await checkLines(page, two, tokens, rowsOf(two));
  await resize(page, 700, 900);
  await checkMap(page, n, (q, k) => heat(rowsOf(two)[q][k]), 'a narrower window');
  check(await page.locator('#map').evaluate((map) => map.firstElementChild.clientWidth === map.clientWidth), 'the map fits it');
  await close(page, 'pictures');
}

async function checkLines(page, name, tokens, rows) {
  await choose(page, name, 'lines');
  const width = await page.locator('#lines').evaluate((element) => element.clientWidth);
  const side = Math.min(150, width * 0.32);
  const inkAt = async (x) => (await pixelsOf(page, '#lines canvas:last-child', tokens.map((_, i) => [x, 15 + 22 * i]))).map((pixel) => pixel[3]);
  const [left, right] = [await inkAt(side + 8), await inkAt(width - side - 8)];
  check(left.every((ink, i) => (ink > 0) === (i === 3)), 'lines start left, at the query', left.join());
  check(right.every((ink, i) => (i <= 3 && rows[3][i] > 0.05 ? ink > 0 : i <= 3 || ink === 0)), 'and end right, at the keys', right.join());
  const box = await page.locator('#lines').boundingBox();
  await page.mouse.move(box.x + box.width - 20, box.y + 4 + 22 * 2.5);
  await settle(page);
  check(/→ key 2 /.test(await textOf(page, '#pattern-note')), 'a line’s key', await textOf(page, '#pattern-note'));
  await page.mouse.move(0, 0);
  await page.check('input[name=shape][value=map]');
  await settle(page);
}

/* The rows of the table of steps against explain, for the head and the query that are chosen. */
async function checkSteps(page, expected, what) {
  const rows = await page.locator('#step-table tbody tr:not(.out)').evaluateAll((list) => list.map((row) => [Number(row.dataset.key), ...[...row.cells].map((cell) => cell.textContent)]));
  const byKey = new Map(expected.map((item) => [item.key, item]));
  for (const [key, , , dot, score, , weight, norm, weighted] of rows) {
    const item = byKey.get(key);
    if (item.dot === null) check(dot === '–', `no dot product with key ${key}, ${what}`, dot);
    else shows(dot, item.dot, `dot product with key ${key}, ${what}`, 5e-6 * Math.abs(item.dot)); // six digits were rounded before
    shows(score, item.score, `score of key ${key}, ${what}`);
    shows(weight, item.weight, `weight of key ${key}, ${what}`);
    shows(norm, item.value_norm, `length of value ${key}, ${what}`, NORM_ERROR);
    shows(weighted, item.weighted, `weighted value ${key}, ${what}`, NORM_ERROR);
  }
  return rows.map(([key]) => key);
}

/* The tokens that the chosen head raises and lowers, against explain. */
async function checkWritten(page, name, { output_norm: norm, raised, lowered }) {
  const lists = await page.locator('#written ol').evaluateAll((all) => all.map((list) => [...list.children].map((item) => [Number(item.dataset.id), item.querySelector('bdi').textContent, item.lastChild.textContent])));
  check(lists.length === 2 && lists[0].length === raised.length && lists[1].length === lowered.length, `what ${name} raises and lowers`, JSON.stringify(lists));
  [raised, lowered].forEach((expected, i) => expected.forEach(({ id, token, hex, effect }, j) => {
    const [shownId, label, shown] = lists[i]?.[j] ?? [];
    check(shownId === id && (hex ? label.startsWith('⟨') : label.replace('␣', ' ') === token), `${name} writes ${token}`, `${shownId} ${label}`);
    shows(shown, effect, `by how much ${name} changes ${token}`);
  }));
  check((await textOf(page, '#written')).includes(norm.toFixed(2)), `how much ${name} adds`, norm);
}

async function testSteps() {
  const page = await open(frozen());
  const name = await page.locator('.thumb').last().getAttribute('data-head');
  const [layer, head] = name.slice(1).split('H');
  await choose(page, name, 'steps');
  for (const query of [last(), last() - 1]) {
    await page.evaluate((to) => chooseQuery(to), query);
    await settle(page);
    const { keys } = about('explain', '--layer', layer, '--head', head, '--query', String(query));
    const kept = await checkSteps(page, keys, `query ${query}`);
    check(kept.length === Math.min(12, keys.length), 'a row for each of the heaviest keys');
    check((await page.locator('#step-table tbody tr.out').count()) === Math.min(2, last() - query), 'and for those that are masked');
    for (const [i, column] of [[1, 2], [2, 3], [3, 4], [4, 5], [5, 6]]) {
      await page.check(`input[name=step][value="${i}"]`);
      await settle(page);
      check((await page.locator('#step-table tbody tr').first().locator('td').nth(column).getAttribute('class')) === 'current', `step ${i} marks its column`);
      check((await textOf(page, '#formulas .formula:not([hidden])')).length > 20, `step ${i} has a formula`);
    }
    const texts = await page.locator('#picture .answers li:not(.later)').evaluateAll((list) => list.map((row) => [Number(row.dataset.key), row.querySelector('output').value, Number(row.querySelector('.bar-of').style.getPropertyValue('--share'))]));
    for (const [key, text, share] of texts) {
      const item = keys.find((one) => one.key === key);
      check(Math.abs(share - item.weight) < 0.001, `the picture's bar of key ${key}`, String(share));
      shows(text.split(' × ')[0], item.weight, `the picture's weight of key ${key}`);
      shows(text.split(' × ')[1], item.value_norm, `the picture's value of key ${key}`, NORM_ERROR);
    }
    await page.check('input[name=step][value="1"]');
    await settle(page);
    const dots = await page.locator('#picture .answers li:not(.later) output').evaluateAll((list) => list.map((output) => output.value));
    texts.forEach(([key], i) => shows(dots[i], keys.find((one) => one.key === key).dot, `the picture's dot product with key ${key}`));
    const of = texts.map(([key]) => keys.find((one) => one.key === key).dot);
    const best = of.indexOf(Math.max(...of));
    const widths = await page.locator('#picture .wires path').evaluateAll((list) => list.map((wire) => Number(wire.getAttribute('stroke-width'))));
    check(widths.length === of.length && widths.every((width, i) => i === best || width < widths[best]), 'the thickest wire leads to the key that fits best', widths.join());
    const ends = await page.locator('#picture .answers li:not(.later) .bar-of').evaluateAll((list) => list.map(({ style }) => {
      const part = Number(style.getPropertyValue('--share'));
      const from = parseFloat(style.getPropertyValue('--at')) / 100 * (1 - part);
      return [from, from + part];
    }));
    const [least, range] = [Math.min(0, ...of), Math.max(0, ...of) - Math.min(0, ...of)];
    of.forEach((dot, i) => check([Math.min(dot, 0), Math.max(dot, 0)].every((end, j) => Math.abs(ends[i][j] - (end - least) / range) < 0.002), `its bar goes from 0 to the side of its sign (${dot})`, ends[i].join()));
    await page.check('input[name=step][value="0"]');
  }
  await page.locator('#pace').fill('3');
  await click(page, '#play');
  await until(page, () => document.querySelector('input[name=step][value="5"]').checked, null, 'played, it comes to the last step');
  check((await textOf(page, '#play')).includes('Play'), 'and stops there');
  await page.evaluate(() => chooseQuery(run.n - 1));
  await page.check('input[name=shape][value=writes]');
  for (const one of [name, 'L0H0']) {
    await choose(page, one);
    await checkWritten(page, one, about('explain', '--layer', one.slice(1).split('H')[0], '--head', one.split('H')[1]));
  }
  await page.evaluate(() => chooseQuery(1));
  await settle(page);
  const words = await textOf(page, '#written');
  check(words.includes('study explain'), 'what the page does not hold it says', words.slice(0, 200));
  await close(page, 'steps');
}

/* A text too long for the scores of all queries: weights from bytes, pictures of several cells in one; a brush. */
async function testLong() {
  const text = 'The Eiffel Tower is in Paris. '.repeat(20);
  const page = await open(write('long.html', '-p', text));
  const { patterns, tokens } = json('attend', model, '-p', text);
  const n = tokens.length;
  const rowsOf = (name) => patterns.find(({ layer, head }) => name === `L${layer}H${head}`).rows;
  await page.selectOption('#sort', 'prev'); // rows with long runs of zeros
  const name = await page.locator('.thumb').first().getAttribute('data-head');
  await choose(page, name);
  const rows = rowsOf(name);
  const heat = await heatOf(page);
  await checkMap(page, n, (q, k) => heat(rows[q][k]), 'a long text');
  await checkThumbs(page, rowsOf, 'of a long text');
  const [layer, head] = name.slice(1).split('H');
  const expected = json('explain', model, '-p', text, '--layer', layer, '--head', head, '--query', String(n - 1)).keys;
  await choose(page, name, 'steps');
  const kept = await checkSteps(page, expected, 'in a long text');
  const others = expected.filter((_, key) => !kept.includes(key)).map(({ weight }) => weight);
  check(kept.length === 12 && Math.max(...others) <= Math.min(...kept.map((key) => expected[key].weight)), 'the heaviest 12 keys are in the table');
  shows((await textOf(page, '#step-note')).match(/: ([\d.]+) in all/)[1], others.reduce((a, b) => a + b, 0), 'weight of the others');
  await choose(page, name, 'map');
  for (const query of [0, 40, n - 2]) {
    await page.evaluate((to) => chooseQuery(to), query);
    await settle(page);
    const items = await page.locator('#keys .bars li').evaluateAll((list) => list.map((item) => [item.firstElementChild.innerText, item.lastElementChild.innerText]));
    const keys = items.filter(([place]) => !/ others?$/.test(place));
    for (const [place, value] of keys) check(Math.abs(parseFloat(value) - rows[query][parseInt(place, 10)]) < 0.51 / 255 + 0.0005, `weight of key ${place} for query ${query}, from a byte`, value);
    check(rows[query][parseInt(keys[0][0], 10)] > Math.max(...rows[query]) - 1 / 255, 'the heaviest stands first');
    if (query === 0) check(keys[0][1] === '1.000', 'a weight of 1 is 1', keys[0][1]);
    else check(Math.abs(items.reduce((sum, [, value]) => sum + parseFloat(value.replace('< ', '')), 0) - 1) < 0.5 * n / 255, 'with the others all of it', JSON.stringify(items));
  }
  await choose(page, name, 'steps');
  await click(page, '#step-note button');
  check((await textOf(page, '#place')).startsWith(`position ${n - 1} `), 'a button leads to the query whose scores are kept');
  await page.locator('#lens-grid').evaluate((frame) => frame.scrollTo(0, 0));
  await settle(page);
  check((await page.locator('[data-position="0"] [data-column="0"]').count()) === 1 && (await page.locator(`.lens [data-position="${n - 1}"]`).count()) === 0, 'rows of the lens come and go');
  await testBrush(page, name, rows, heat);
  await close(page, 'a long text');
}

/* The map of a long text: labels that thin out, a brush, and the way back; lines follow the chosen token. */
async function testBrush(page, name, rows, heat) {
  await keepWritten(page);
  await choose(page, name, 'map');
  const { length: n } = rows;
  const written = async () => (await page.evaluate(() => window.written.splice(0))).filter(({ x }) => x === 87);
  const labels = (await written()).map(({ y }) => y).sort((a, b) => a - b);
  check(labels.length >= 20 && labels.every((y, i) => i === 0 || y === labels[i - 1] || y - labels[i - 1] > 8), 'a long map has names, not too close', labels.map(Math.round).join());
  await page.locator('#map').scrollIntoViewIfNeeded();
  await page.evaluate(() => byId('map').scrollIntoView());
  const box = await page.locator('#map canvas').first().boundingBox();
  const cell = (box.height - 80) / n;
  await page.mouse.move(box.x + 92 + 30.5 * cell, box.y + 78 + 60.5 * cell);
  await page.mouse.down();
  await page.mouse.move(box.x + 92 + 45.5 * cell, box.y + 78 + 70.5 * cell, { steps: 4 });
  await settle(page);
  await page.mouse.up();
  await settle(page);
  const range = (await textOf(page, '#zoom-range')).match(/\d+/g).map(Number);
  check(Math.abs(range[0] - 30) <= 1 && Math.abs(range[1] - 70) <= 1, 'what is drawn over becomes all of the map', range.join());
  const [from, to] = range;
  await checkMap(page, to - from + 1, (q, k) => heat(rows[from + q][from + k]), 'a part of a long text');
  await page.evaluate((query) => chooseQuery(query), 120);
  await settle(page);
  const moved = (await textOf(page, '#zoom-range')).match(/\d+/g).map(Number);
  check(moved[0] <= 120 && moved[1] >= 120, 'the part follows the chosen token', moved.join());
  await click(page, '#zoom-out');
  await checkMap(page, n, (q, k) => heat(rows[q][k]), 'all of it again');
  await choose(page, name, 'lines');
  for (const query of [0, n - 1, 100]) {
    await page.evaluate((place) => chooseQuery(place), query);
    await settle(page);
    await settle(page);
    const [top, height] = await page.evaluate(() => [byId('lines').scrollTop, byId('lines').clientHeight]);
    check(query * 22 >= top - 22 && query * 22 <= top + height, `lines follow the chosen token ${query}`, `${top}, ${height}`);
  }
}

/* Pages of some layers, and of a model whose heads share keys and values. */
async function testParts() {
  const shared = path.join(__dirname, 'data/reference/llama-f32.gguf');
  for (const [file, layers, options, text] of [[model, [1, 3], ['--layers', '1,3'], PROMPT], [shared, [0, 1], [], 'some words']]) {
    const page = await open(writeOf(file, 'parts.html', '-p', text, ...options));
    const names = await page.locator('.thumb').evaluateAll((list) => list.map((button) => button.dataset.head));
    const nHeads = names.length / 2;
    check(names.join() === layers.flatMap((layer) => Array.from({ length: nHeads }, (_, head) => `L${layer}H${head}`)).join(), 'heads of the layers that are kept', names.join());
    for (const name of [names[2], names.at(-1)]) {
      const [layer, head] = name.slice(1).split('H');
      await choose(page, name, 'steps');
      const { keys } = json('explain', file, '-p', text, '--layer', layer, '--head', head);
      check((await checkSteps(page, keys, `${name} of ${path.basename(file)}`)).length === Math.min(12, keys.length), `keys of ${name}`);
    }
    await close(page, `parts of ${path.basename(file)}`);
  }
}

/* Families whose scores are not q·k/√d_head, whose queries have a window, or whose heads have learned sinks. */
async function testFamilies() {
  const text = ['-z', path.join(__dirname, 'data/study/letters.gguf'), '-p', 'the tin man sat'];
  for (const [family, formula] of [['gpt-oss', ''], ['bloom', 'slope·(query − k); slope = 0.'], ['gemma2', '2.5·tanh(q·k_k / √d_head / 2.5)'], ['granite', 'q·k_k·0.4']]) {
    const file = path.join(__dirname, `data/reference/${family}.gguf`);
    const page = await open(writeOf(file, `${family}.html`, ...text));
    await choose(page, 'L0H1', 'steps');
    const explained = json('explain', file, ...text, '--layer', '0', '--head', '1');
    const kept = await checkSteps(page, explained.keys, family);
    const heaviest = [...explained.keys].sort((a, b) => b.weight - a.weight).slice(0, 12).map(({ key }) => key).sort((a, b) => a - b);
    check(kept.join() === heaviest.join(), `${family}: the keys that the query sees`);
    const place = await textOf(page, '#step-place');
    check(place.includes(formula) && place.includes('score_k') === (formula !== ''), `${family}: how scores are made`, place);
    check(place.includes('window of 5') === (explained.window === 5), `${family}: the window`, place);
    const feet = await page.locator('#step-table tfoot tr').evaluateAll((list) => list.map((row) => [...row.cells].map((one) => one.textContent)));
    check(feet.at(-1).includes('1.0000'), `${family}: the sum`, feet.join('; '));
    const sink = feet.find(([title]) => title === 'learned sink');
    check((explained.learned_sink !== null) === !!sink, `${family}: whether there is a learned sink`);
    if (sink) {
      shows(sink.find((one) => /\d\.\d{4}/.test(one)), explained.learned_sink, `${family}: the learned sink`);
      await choose(page, 'L0H1', 'map');
      const items = await textsOf(page, '#keys .bars li');
      check(items.at(-1).startsWith('learned sink'), `${family}: the learned sink stands below the keys`, items.at(-1));
    }
    await close(page, family);
  }
}

module.exports = { testMap, testSteps, testLong, testParts, testFamilies, checkThumbs };
