/*
 * Attention patterns: the grid of all heads, and the chosen ones large, as a map and as lines. A weight comes
 * from the scores where the page holds them, and is exact; elsewhere from a byte, round(255·A).
 */

const keptLayers = data.patterns.layers;
const headNames = keptLayers.flatMap((layer) => Array.from({ length: data.n_head }, (_, head) => `L${layer}H${head}`));

function headOf(name) {
  const [layer, head] = name.slice(1).split('H').map(Number);
  return { layer, head, row: keptLayers.indexOf(layer), kvHead: Math.floor((head * data.n_head_kv) / data.n_head) };
}

/* Where the row of a query begins in a triangle whose row q has q + 1 entries. */
const rowStart = (query) => (query * (query + 1)) / 2;

/* A function of a head's name whose last few results are kept. */
function remembered(compute, limit) {
  const results = new Map();
  return (name) => {
    if (!results.has(name)) {
      if (results.size >= limit) results.delete(results.keys().next().value);
      results.set(name, compute(name));
    }
    return results.get(name);
  };
}

/* The lower triangle of a head's pattern, levels round(255·A); how it is packed stands in views/packedrows.h. */
function decodePattern(name) {
  const { row, head } = headOf(name);
  const packed = bytesOf(data.patterns.data[row][head]);
  const triangle = new Uint8Array(rowStart(nTokens));
  let from = 0;
  const next = () => (packed[from >> 1] >> (4 * (from++ & 1))) & 15;
  for (let to = 0; to < triangle.length;) {
    const first = next();
    if (first === 15) {
      triangle[to++] = next() | (next() << 4);
    } else if (first > 0) {
      triangle[to++] = first;
    } else {
      let group = next();
      let run = group & 7;
      for (let shift = 3; group > 7; shift += 3) {
        group = next();
        run |= (group & 7) << shift;
      }
      to += run;
    }
  }
  return triangle;
}

const patternOf = remembered(decodePattern, 8);
const outputNormsOf = remembered((name) => scaledOf(data.output_norms[headOf(name).row][headOf(name).head]), 8);
const valueNormsOf = remembered((name) => scaledOf(data.value_norms[headOf(name).row][headOf(name).kvHead]), 8);
const scoresOf = remembered((name) => floatsOf(data.steps.scores[headOf(name).row][headOf(name).head]), 8);

const hasScores = (query) => query >= data.steps.first && query < data.steps.first + data.steps.n;

/* q·k/√d_head of a query and the keys up to it; only where hasScores. */
function scoresAt(name, query) {
  const start = rowStart(query) - rowStart(data.steps.first);
  return scoresOf(name).subarray(start, start + query + 1);
}

function softmax(scores) {
  const max = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(scores, (score) => Math.exp(score - max));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

/* A[query][key] for keys up to the query. */
function weightsAt(name, query) {
  if (hasScores(query)) return softmax(scoresAt(name, query));
  const start = rowStart(query);
  return Float64Array.from(patternOf(name).subarray(start, start + query + 1), (byte) => byte / 255);
}

/* The same as the controls ask: × ‖v W_O‖, and without key 0, in this order, as `study attend`. */
function shownAt(name, query) {
  const row = weightsAt(name, query);
  if (state.by === 'value') {
    const norms = outputNormsOf(name);
    for (let key = 0; key <= query; key++) row[key] *= norms[key];
  }
  if (state.noSink) {
    row[0] = 0;
    const sum = row.reduce((a, b) => a + b, 0);
    if (sum > 0) for (let key = 1; key <= query; key++) row[key] /= sum;
  }
  return row;
}

const MAX_CHOSEN = 6;
let coloursOfHeads = []; // of the chosen ones, in turn
addView(['theme'], () => {
  coloursOfHeads = Array.from({ length: MAX_CHOSEN }, (_, i) => styleOf(`--head-${i + 1}`));
});

/* Colours from no weight to all of it, 256 of them as [r, g, b]. */
function heatRamp() {
  const stops = [0, 1, 2, 3, 4].map((i) => rgbOf(styleOf(`--heat-${i}`)));
  return Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((from, c) => Math.round(from + (at - low) * (stops[low + 1][c] - from)));
  });
}

/* The cells of a pattern, size × size, the largest where several fall into one. */
function pooled(size, rowAt) {
  const cells = new Float32Array(size * size);
  for (let query = 0; query < nTokens; query++) {
    const row = rowAt(query);
    const y = Math.floor((query * size) / nTokens) * size;
    for (let key = 0; key <= query; key++) {
      const cell = y + Math.floor((key * size) / nTokens);
      if (row[key] > cells[cell]) cells[cell] = row[key];
    }
  }
  return cells;
}

/* Paints cells on a canvas of their own size, one pixel each; paint(i) gives [r, g, b]. */
function paintCells(size, paint) {
  const canvas = new OffscreenCanvas(size, size);
  const context = canvas.getContext('2d');
  const image = context.createImageData(size, size);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x <= y; x++) {
      const i = y * size + x;
      const [r, g, b] = paint(i);
      image.data.set([r, g, b, 255], 4 * i);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/* The grid of all heads. */
(() => {
  const THUMB = 64; // cells a side at most
  const SCORES = { // of `study heads`: key → name, largest value of the bar
    prev: ['previous (prev)', 1],
    ind: ['induction (ind)', 1],
    dup: ['duplicate (dup)', 1],
    sink: ['sink', 1],
    self: ['self', 1],
    confidence: ['confidence (conf)', 1],
    entropy_share: ['entropy (/max)', 1],
    distance: ['distance (dist)', null],
  };
  const MEASURED = { repeat: 'random tokens, twice', text: 'this text' };
  const grid = byId('grid');
  const sort = byId('sort');
  const colour = byId('colour');
  const measured = byId('measured');
  let ramp = heatRamp();

  fillSelect(sort, { layer: 'layer', ...Object.fromEntries(Object.entries(SCORES).map(([key, [name]]) => [key, name])) });
  fillSelect(colour, { none: 'nothing', ...Object.fromEntries(Object.entries(SCORES).map(([key, [name]]) => [key, name])) });
  fillSelect(measured, Object.fromEntries(Object.entries(MEASURED).filter(([key]) => data.heads[key])));
  if (measured.options.length === 0) for (const control of [sort, colour, measured]) control.disabled = true;

  /* {"prev": …, …, "label"} of every head by its name. */
  function tableOf(scores) {
    return scores && Object.fromEntries(scores.rows.map((row, i) => [
      `L${Math.floor(i / data.n_head)}H${i % data.n_head}`,
      { ...Object.fromEntries(scores.columns.map((column, j) => [column, row[j]])), label: scores.labels[i] },
    ]));
  }

  const tables = { text: tableOf(data.heads.text), repeat: tableOf(data.heads.repeat) };
  const scoresFor = (name) => tables[measured.value]?.[name];

  const buttons = new Map(headNames.map((name) => [name, make(
    'button', { type: 'button', class: 'thumb', tabindex: -1, 'data-head': name, 'aria-pressed': 'false' },
    make('b', {}), make('span', {}, name), make('i', {}),
  )]));
  grid.style.setProperty('--columns', data.n_head);
  buttons.get(headNames[0]).tabIndex = 0;

  const canvas = byId('thumbs');
  const pictures = new Map(); // of heads that have come into view
  const toPaint = [];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        seen.unobserve(entry.target);
        toPaint.push(entry.target.dataset.head);
      }
    }
    paintSome();
  }, { rootMargin: '200px' });

  /* A few thumbnails a frame, so that the page stays alive while hundreds come into view. */
  function paintSome() {
    const end = performance.now() + 8;
    while (toPaint.length > 0 && performance.now() < end) {
      const name = toPaint.shift();
      pictures.set(name, paintThumb(name));
      placeThumb(name);
    }
    if (toPaint.length > 0) requestAnimationFrame(paintSome);
  }

  function paintThumb(name) {
    const size = Math.min(nTokens, THUMB);
    const triangle = decodePattern(name);
    const cells = pooled(size, (query) => triangle.subarray(rowStart(query), rowStart(query + 1)));
    return paintCells(size, (i) => ramp[cells[i]]);
  }

  function placeThumb(name) {
    const place = buttons.get(name).firstElementChild;
    const context = canvas.getContext('2d');
    context.imageSmoothingEnabled = false;
    context.fillStyle = styleOf('--heat-0');
    context.fillRect(place.offsetLeft, place.offsetTop, place.offsetWidth, place.offsetHeight);
    context.drawImage(pictures.get(name), place.offsetLeft, place.offsetTop, place.offsetWidth, place.offsetHeight);
  }

  function placeThumbs() {
    sized(canvas, grid.offsetWidth, grid.offsetHeight);
    grid.style.setProperty('--width', `${grid.offsetWidth}px`); // kept on paper, where nothing is drawn anew
    for (const name of pictures.keys()) placeThumb(name);
  }

  /* In the order of the layers, or from the largest score to the smallest. */
  function arrange() {
    const key = sort.value;
    const value = (name) => scoresFor(name)?.[key] ?? -Infinity;
    const names = key === 'layer' ? headNames : [...headNames].sort((a, b) => value(b) - value(a));
    grid.replaceChildren(...names.map((name) => buttons.get(name)));
    placeThumbs();
  }

  function drawScores() {
    const key = colour.value;
    const largest = SCORES[key]?.[1] ?? Math.max(...headNames.map((name) => scoresFor(name)?.[key] ?? 0));
    for (const [name, button] of buttons) {
      const score = scoresFor(name)?.[key];
      button.style.setProperty('--share', score > 0 ? score / largest : 0);
      button.classList.toggle('scored', key !== 'none');
    }
    placeThumbs(); // their bars may have moved them
  }

  function drawChosen() {
    for (const [name, button] of buttons) {
      const place = state.heads.indexOf(name);
      button.setAttribute('aria-pressed', place >= 0);
      button.style.setProperty('--mark', place >= 0 ? coloursOfHeads[place] : 'transparent');
    }
  }

  /* All that `study heads` says of a head, in its words. */
  function describe(name) {
    const scores = scoresFor(name);
    if (!scores) return name;
    const columns = { conf: 'confidence', sink: 'sink', self: 'self', prev: 'prev', dup: 'dup', ind: 'ind' };
    const parts = [`entropy ${bits(scores.entropy_nats)} bits (${scores.entropy_share.toFixed(2)} of the most possible)`];
    for (const [word, key] of Object.entries(columns)) if (scores[key] !== null) parts.push(`${word} ${scores[key].toFixed(3)}`);
    parts.push(`distance ${scores.distance.toFixed(1)}`);
    return `${name}${scores.label ? `, ${scores.label}` : ''}: ${parts.join(' · ')} (on ${MEASURED[measured.value]})`;
  }

  function show(event) {
    const button = event.target.closest('.thumb');
    if (button) byId('head-note').textContent = describe(button.dataset.head);
  }

  function choose(name, together) {
    const others = state.heads.filter((other) => other !== name);
    const chosen = state.heads.includes(name);
    if (!together) change({ heads: [name] });
    else if (!chosen) change({ heads: [...state.heads.slice(-(MAX_CHOSEN - 1)), name] });
    else if (others.length > 0) change({ heads: others });
  }

  grid.addEventListener('pointerover', show);
  grid.addEventListener('focusin', show);
  grid.addEventListener('click', (event) => {
    const button = event.target.closest('.thumb');
    if (button) choose(button.dataset.head, byId('several').checked || event.shiftKey || event.ctrlKey || event.metaKey);
  });
  walkWithKeys(grid, () => data.n_head, () => {});
  sort.addEventListener('change', arrange);
  colour.addEventListener('change', drawScores);
  measured.addEventListener('change', () => {
    arrange();
    drawScores();
  });
  addView(['heads', 'theme'], drawChosen);
  addView(['size'], placeThumbs);
  addView(['theme'], () => {
    ramp = heatRamp();
    pictures.clear();
    placeThumbs();
    for (const button of buttons.values()) seen.observe(button);
  });
  arrange();
  drawScores();
  byId('head-note').textContent = describe(initialHead());
  change({ heads: [initialHead()] });

  /* Where there is something to see: the head surest of what it looks at, unless that is the first token. */
  function initialHead() {
    if (!tables.text) return headNames[0];
    const interest = (name) => tables.text[name].confidence * (1 - tables.text[name].sink);
    return headNames.reduce((best, name) => (interest(name) > interest(best) ? name : best));
  }

  function fillSelect(select, options) {
    select.replaceChildren(...Object.entries(options).map(([value, name]) => make('option', { value }, name)));
  }
})();

/* The chosen heads, large. */
(() => {
  const LABELLED = 64; // tokens at most whose names stand along the map
  const LINE_HEIGHT = 22; // of the lines view, px
  const TOP_KEYS = 6;
  const map = byId('map');
  const lines = byId('lines');
  const [picture, overlay] = map.querySelectorAll('canvas');
  const [faint, bright] = lines.querySelectorAll('canvas');
  let shape = 'map';
  let pointed = null; // {query, key} under the pointer; of the lines view one of them is null
  let layout = null; // of the map: {left, top, cell}
  let linesLayout = null; // of the lines: {width, height, labels, first, last token in view}
  let largest = 1; // value of the darkest cell

  /* The largest value of all rows: 1 for weights, so that maps can be compared. */
  function findLargest() {
    if (state.by === 'weight') return 1;
    let max = 0;
    for (const name of state.heads) for (let query = 0; query < nTokens; query++) max = shownAt(name, query).reduce((a, b) => Math.max(a, b), max);
    return max || 1;
  }

  function drawMap() {
    const width = map.clientWidth;
    if (width === 0) return;
    const labelled = nTokens <= LABELLED && (width - 96) / nTokens >= 8;
    const left = labelled ? 92 : 2;
    const top = labelled ? 78 : 2;
    const cell = Math.min(30, (width - left - 4) / nTokens, Math.max(240, innerHeight - 190 - top) / nTokens); // all in view
    layout = { left, top, cell };
    const side = cell * nTokens;
    const context = sized(picture, width, top + side + 2);
    sized(overlay, width, top + side + 2);
    const size = Math.min(nTokens, Math.floor(side * (window.devicePixelRatio || 1)));
    context.imageSmoothingEnabled = false;
    context.drawImage(paintHeads(size), left, top, side, side);
    if (labelled) drawLabels(context, left, top, cell);
    drawOverlay();
  }

  function paintHeads(size) {
    const grids = state.heads.map((name) => pooled(size, (query) => shownAt(name, query)));
    if (grids.length === 1) {
      const ramp = heatRamp();
      return paintCells(size, (i) => ramp[Math.round((255 * grids[0][i]) / largest)]);
    }
    const paper = rgbOf(styleOf('--heat-0'));
    const colours = coloursOfHeads.map(rgbOf);
    return paintCells(size, (i) => grids.reduce(
      (under, grid, head) => under.map((c, j) => c + (colours[head][j] - c) * (grid[i] / largest)), paper,
    ));
  }

  function drawLabels(context, left, top, cell) {
    context.font = `${Math.min(12, Math.max(9, cell - 3))}px ${styleOf('--sans')}`;
    context.fillStyle = styleOf('--muted');
    context.textBaseline = 'middle';
    for (let i = 0; i < nTokens; i++) {
      const middle = (i + 0.5) * cell;
      context.textAlign = 'right';
      context.fillText(labelOf(i), left - 5, top + middle, left - 8);
      context.save();
      context.translate(left + middle, top - 5);
      context.rotate(-Math.PI / 3);
      context.textAlign = 'left';
      context.fillText(labelOf(i), 0, 0, 84);
      context.restore();
    }
  }

  /* The chosen query's row, and the cell under the pointer. */
  function drawOverlay() {
    if (shape !== 'map' || !layout) return;
    const context = overlay.getContext('2d');
    const { left, top, cell } = layout;
    context.clearRect(0, 0, overlay.width, overlay.height);
    context.strokeStyle = styleOf('--ink');
    context.lineWidth = 1;
    const outline = (x, y, w, h) => context.strokeRect(left + x * cell - 0.5, top + y * cell - 0.5, w * cell + 1, h * cell + 1);
    context.globalAlpha = 0.55;
    outline(0, state.query, state.query + 1, 1);
    context.globalAlpha = 1;
    if (pointed) outline(pointed.key, pointed.query, 1, 1);
  }

  /*
   * Queries stand left, keys right; a line is as strong as the weight. Only what is in view is drawn: both canvases
   * are as high as the frame and stay in it while it scrolls. One holds all lines, faint; the other those of the
   * query or key in focus, and the names.
   */
  function drawLines() {
    const width = lines.clientWidth;
    if (width === 0) return;
    const height = Math.min(nTokens * LINE_HEIGHT + 8, 560);
    lines.style.height = `${height}px`;
    lines.firstElementChild.style.height = `${nTokens * LINE_HEIGHT + 8}px`;
    const first = Math.max(0, Math.floor(lines.scrollTop / LINE_HEIGHT) - 1);
    linesLayout = {
      width, height, first, last: Math.min(nTokens - 1, first + Math.ceil(height / LINE_HEIGHT) + 1), labels: Math.min(150, width * 0.32),
    };
    const context = sized(faint, width, height);
    for (let query = first; query <= linesLayout.last; query++) state.heads.forEach((name, head) => drawRow(context, name, head, query, null, 0.3));
    drawFocus();
  }

  /* Where a token stands in the canvas, px from its top. */
  const lineOf = (token) => 4 - lines.scrollTop + (token + 0.5) * LINE_HEIGHT;

  /* The lines of a head from a query to all keys, or to one. */
  function drawRow(context, name, head, query, onlyKey, strength) {
    const { width, labels } = linesLayout;
    const row = shownAt(name, query);
    const from = lineOf(query) + head;
    context.strokeStyle = coloursOfHeads[head];
    for (let key = onlyKey ?? 0; key <= (onlyKey ?? query); key++) {
      const weight = row[key] / largest;
      if (!(weight >= 1 / 255)) continue;
      const to = lineOf(key) + head;
      context.globalAlpha = weight * strength;
      context.lineWidth = 0.75 + 4 * strength * weight;
      context.beginPath();
      context.moveTo(labels + 6, from);
      context.bezierCurveTo(width / 2, from, width / 2, to, width - labels - 6, to);
      context.stroke();
    }
  }

  function drawFocus() {
    const { width, height, first, last, labels } = linesLayout;
    const context = sized(bright, width, height);
    const focus = pointed ?? { query: state.query, key: null };
    for (let query = first; query <= last; query++) {
      if (focus.key === null && query !== focus.query) continue;
      state.heads.forEach((name, head) => drawRow(context, name, head, query, focus.key, 1));
    }
    context.globalAlpha = 1;
    context.font = `13px ${styleOf('--sans')}`;
    context.textBaseline = 'middle';
    const ink = styleOf('--ink');
    const muted = styleOf('--muted');
    for (let token = first; token <= last; token++) {
      context.fillStyle = token === focus.query ? ink : muted;
      context.textAlign = 'right';
      context.fillText(labelOf(token), labels, lineOf(token), labels - 6);
      context.fillStyle = token === focus.key ? ink : muted;
      context.textAlign = 'left';
      context.fillText(labelOf(token), width - labels, lineOf(token), labels - 6);
    }
  }

  function draw() {
    largest = findLargest();
    byId('pattern-scale').hidden = state.heads.length > 1 || shape === 'lines';
    byId('pattern-scale').lastElementChild.textContent = largest === 1 ? '1' : largest.toPrecision(3);
    map.hidden = shape !== 'map';
    lines.hidden = shape !== 'lines';
    if (shape === 'map') drawMap();
    else drawLines();
    drawText();
  }

  function drawChosen() {
    byId('chosen').replaceChildren(...state.heads.map((name, i) => {
      const chip = make('span', { class: 'chip' }, name);
      chip.style.setProperty('--mark', coloursOfHeads[i]);
      return chip;
    }), ...(state.heads.length === 1 ? [make('span', { class: 'dim' }, 'queries are rows, keys columns')] : []));
    const names = state.heads.join(', ');
    map.setAttribute('aria-label', `Attention pattern of ${names}, queries down, keys across; arrow keys choose a query`);
    lines.setAttribute('aria-label', `Attention of ${names} as lines from queries, left, to keys, right; arrow keys choose a query`);
  }

  const valueOf = (value) => (value < 0.0005 && value > 0 ? '< 0.001' : value.toFixed(3));

  /* The sentence under the pattern, and the keys that get most. */
  function drawText() {
    const query = pointed?.query ?? state.query;
    const key = pointed?.key ?? null;
    const what = state.by === 'value' ? 'weight × ‖v W_O‖' : 'weight';
    const note = byId('pattern-note');
    if (key !== null && key > query) {
      note.textContent = `query ${placeOf(query)} cannot see key ${placeOf(key)}: it comes later (masked)`;
    } else if (key !== null) {
      const values = state.heads.map((name) => `${name} ${valueOf(shownAt(name, query)[key])}`);
      note.textContent = `query ${placeOf(query)} → key ${placeOf(key)}: ${what} ${values.join(', ')}`;
    } else {
      note.textContent = `query ${placeOf(query)}: where its ${what} goes`;
    }
    if (!hasScores(query)) note.textContent += ` (to 1/255; weights below ${data.patterns.least.toFixed(4)} are not in this page)`;
    byId('keys').replaceChildren(...state.heads.map((name, i) => keysOf(name, i, query)));
  }

  function keysOf(name, place, query) {
    const row = shownAt(name, query);
    const order = Array.from(row.keys()).sort((a, b) => row[b] - row[a]).slice(0, TOP_KEYS);
    const sum = row.reduce((a, b) => a + b, 0);
    const shown = order.filter((key) => row[key] > 0);
    const others = sum - shown.reduce((total, key) => total + row[key], 0);
    const list = make('ol', { class: 'bars' }, ...shown.map((key) => make(
      'li', {}, make('bdi', {}, placeOf(key)), makeBar(row[key] / largest), make('span', {}, valueOf(row[key])),
    )));
    if (query + 1 > shown.length) {
      list.append(make('li', { class: 'dim' }, make('span', {}, `${query + 1 - shown.length} others`), makeBar(others / largest), make('span', {}, valueOf(others))));
    }
    const block = make('div', {}, make('h3', {}, make('span', { class: 'chip' }, name), ' from ', make('bdi', {}, placeOf(query))), list);
    block.style.setProperty('--mark', coloursOfHeads[place]);
    return block;
  }

  /* Pointing is answered once a frame. */
  let waiting = false;
  function point(place) {
    pointed = place;
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (shape === 'map') drawOverlay();
      else drawFocus();
      drawText();
    });
  }

  function cellAt(event) {
    const box = overlay.getBoundingClientRect();
    const key = Math.floor((event.clientX - box.left - layout.left) / layout.cell);
    const query = Math.floor((event.clientY - box.top - layout.top) / layout.cell);
    return query >= 0 && query < nTokens && key >= 0 && key < nTokens ? { query, key } : null;
  }

  function lineAt(event) {
    const box = lines.getBoundingClientRect();
    const token = Math.floor((event.clientY - box.top + lines.scrollTop - 4) / LINE_HEIGHT);
    if (token < 0 || token >= nTokens) return null;
    return event.clientX < box.left + box.width / 2 ? { query: token, key: null } : { query: null, key: token };
  }

  map.addEventListener('pointermove', (event) => point(cellAt(event)));
  lines.addEventListener('pointermove', (event) => point(lineAt(event)));
  for (const element of [map, lines]) {
    element.addEventListener('pointerleave', () => point(null));
    element.addEventListener('click', () => pointed && pointed.query !== null && chooseQuery(pointed.query));
    element.addEventListener('keydown', (event) => {
      const steps = { ArrowUp: -1, ArrowDown: 1, Home: -nTokens, End: nTokens };
      if (!(event.key in steps)) return;
      event.preventDefault();
      pointed = null;
      chooseQuery(state.query + steps[event.key]);
    });
  }
  lines.addEventListener('scroll', () => {
    pointed = null;
    drawLines();
    drawText();
  });

  for (const radio of document.querySelectorAll('input[name=shape]')) {
    radio.addEventListener('change', () => {
      shape = radio.value;
      pointed = null;
      draw();
    });
  }
  for (const radio of document.querySelectorAll('input[name=by]')) radio.addEventListener('change', () => change({ by: radio.value }));
  byId('no-sink').addEventListener('change', (event) => change({ noSink: event.target.checked }));

  addView(['heads', 'theme'], drawChosen);
  addView(['heads', 'by', 'noSink', 'theme', 'size'], draw);
  addView(['query'], () => {
    if (shape === 'lines') {
      drawFocus();
      keepInView();
    } else {
      drawOverlay();
    }
    drawText();
  });

  function keepInView() {
    const y = state.query * LINE_HEIGHT;
    if (y < lines.scrollTop || y > lines.scrollTop + lines.clientHeight - LINE_HEIGHT) lines.scrollTop = y - lines.clientHeight / 2;
  }
})();
