/* The page of a model of many heads, and of one of many layers: dots in place of pictures, and a page that stays alive. */
'use strict';
const { check, json, writeOf, open, close, settle, click, textsOf, box, fs, path, folder } = require('./page_tools');
const gguf = require('./page_gguf');

/* A GGUF file of n layers, which are those of the file again and again, its bytes with them. */
function withLayers(file, n) {
  const bytes = fs.readFileSync(file);
  const { keys, begin, infos, data } = gguf.parse(bytes);
  const [, count] = Object.entries(keys).find(([name]) => name.endsWith('.block_count'));
  const nLayers = bytes.readUInt32LE(count.begin);
  bytes.writeUInt32LE(n, count.begin);
  const padded = Buffer.concat([data, gguf.padding(data.length)]);
  const moved = (rest, round) => {
    const copy = Buffer.from(rest);
    copy.writeBigUInt64LE(copy.readBigUInt64LE(copy.length - 8) + BigInt(round * padded.length), copy.length - 8);
    return copy;
  };
  const all = infos.filter(({ name }) => !name.startsWith('blk.'));
  for (let layer = 0; layer < n; layer++) {
    const of = `blk.${layer % nLayers}.`;
    for (const { name, rest } of infos) if (name.startsWith(of)) all.push({ name: name.replace(of, `blk.${layer}.`), rest: moved(rest, Math.floor(layer / nLayers)) });
  }
  bytes.writeBigUInt64LE(BigInt(all.length), 8);
  return gguf.join([bytes.subarray(0, begin), ...all.flatMap(({ name, rest }) => [gguf.textOf(name), rest])], Array(Math.ceil(n / nLayers)).fill(padded));
}

/* Whether the last head's thumbnail is drawn. */
const inkOfLast = (page) => page.evaluate(() => {
  const canvas = byId('thumbs');
  const place = [...document.querySelectorAll('.thumb b')].at(-1).getBoundingClientRect();
  const frame = canvas.getBoundingClientRect();
  const context = new OffscreenCanvas(20, 20).getContext('2d'); // a copy: canvases that are read complain
  context.drawImage(canvas, Math.floor(frame.left - place.left), Math.floor(frame.top - place.top));
  const { data } = context.getImageData(0, 0, 20, 20);
  return data.some((value) => value > 0);
});

async function testLarge() {
  const file = path.join(folder, 'large.gguf');
  fs.writeFileSync(file, withLayers(path.join(__dirname, 'data/reference/gpt2-f32.gguf'), 160));
  const text = 'the tin man sat';
  const url = writeOf(file, 'large.html', '-p', text);
  const page = await open(url);
  const { n_layer: nLayer, n_head: nHead } = json('view', file, '-p', text, '--parts', 'predictions');
  check(nLayer === 160 && nLayer * nHead > 300, 'the model has many heads', `${nLayer} × ${nHead}`);
  check((await page.locator('#boxes .layer').count()) >= nLayer, 'all layers stand in the map of the model');
  check(await page.evaluate(() => byId('boxes').classList.contains('dots')), 'as dots');
  const [rect, wide] = await page.evaluate(() => [document.documentElement.scrollWidth, document.querySelector('.strip-frame').scrollWidth]);
  check(rect <= 1280 && wide > 1280, 'which scroll sideways', `${rect}, ${wide}`);
  const head = await page.evaluate((last) => [...document.querySelectorAll('#boxes [data-part]')].map((one) => one.dataset.part).find((part) => part.startsWith(`L${last}H`)), nLayer - 1);
  if (head) await click(page, box(head));
  else await page.evaluate((last) => change({ heads: [`L${last}H0`], pinned: true }), nLayer - 1);
  await settle(page);
  const chosen = (await textsOf(page, '#chosen .chip'))[0].split(' ')[0];
  check(chosen.startsWith(`L${nLayer - 1}H`), 'a head of the last layer can be chosen', chosen);
  const [, layer, number] = /L(\d+)H(\d+)/.exec(chosen);
  const rows = json('attend', file, '-p', text, '--layer', layer, '--head', number).patterns[0].rows.at(-1);
  const shown = await page.evaluate((name) => [...run.weightsAt(name, run.n - 1)], chosen);
  check(rows.every((weight, key) => Math.abs(weight - shown[key]) < 0.51 / 255), 'and its weights are those of attend', shown.join());
  await page.locator('#grid').scrollIntoViewIfNeeded();
  check((await page.locator('.thumb').count()) === nLayer * nHead, 'a picture of each head');
  await page.locator('.thumb').last().scrollIntoViewIfNeeded();
  await settle(page);
  for (let i = 0; i < 20; i++) await settle(page);
  check(await inkOfLast(page), 'which is drawn when it comes into view');
  await close(page, 'a large model');
  const printed = await open(url);
  check(!(await inkOfLast(printed)), 'and not before');
  await printed.pdf();
  check(await inkOfLast(printed), 'but on paper it is');
  await close(printed, 'a large model on paper');
}

module.exports = { testLarge };
