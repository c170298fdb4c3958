/* The patterns of the chosen heads, large: as a map, or as lines from queries to keys; and the keys that get most. */

(() => {
  const LABELLED = 64; // tokens at most whose names stand along the map
  const LINE_HEIGHT = 22; // between two lines, px
  const TOP_KEYS = 6;
  const map = byId('map');
  const lines = byId('lines');
  const [picture, overlay] = map.querySelectorAll('canvas');
  const [faint, bright] = lines.querySelectorAll('canvas');
  let shape = 'map';
  let pointed = null; // {query, key} under the pointer; drawn as lines, one of them is null
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
    if (!hasScores(query) && state.by === 'weight' && !state.noSink) note.textContent += ` (to 1/255; weights below ${data.patterns.least.toFixed(4)} are not in this page)`;
    byId('keys').replaceChildren(...state.heads.map((name, i) => keysOf(name, i, query)));
  }

  function keysOf(name, place, query) {
    const row = shownAt(name, query);
    const order = Array.from(row.keys()).sort((a, b) => row[b] - row[a]).slice(0, TOP_KEYS);
    const sum = row.reduce((a, b) => a + b, 0);
    const shown = order.filter((key) => row[key] > 0);
    const others = sum - shown.reduce((total, key) => total + row[key], 0);
    const list = make('ol', { class: 'bars' }, ...shown.map((key) => make(
      'li', {}, make('span', {}, placeOf(key)), makeBar(row[key] / largest), make('span', {}, valueOf(row[key])),
    )));
    if (sum === 0) list.append(make('li', { class: 'dim' }, 'nothing is left'));
    else if (query + 1 > shown.length) {
      list.append(make('li', { class: 'dim' }, make('span', {}, plural(query + 1 - shown.length, 'other')), makeBar(others / largest), make('span', {}, valueOf(others))));
    }
    if (data.sinks && hasScores(query) && state.by === 'weight' && !state.noSink) {
      const learned = learnedShare(name, query);
      list.append(make('li', { class: 'dim' }, make('span', {}, 'learned sink'), makeBar(learned), make('span', {}, valueOf(learned))));
    }
    const block = make('div', {}, make('h3', {}, make('span', { class: 'chip' }, name), ' from ', placeOf(query)), list);
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
    element.addEventListener('pointerleave', (event) => event.pointerType === 'mouse' && point(null)); // a finger that leaves has pointed
    element.addEventListener('click', (event) => {
      const place = shape === 'map' ? cellAt(event) : lineAt(event);
      if (place && place.query !== null) chooseQuery(place.query);
    });
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
  if (!data.output_norms) document.querySelector('input[name=by][value=value]').disabled = true; // gated heads
  for (const radio of document.querySelectorAll('input[name=by]')) radio.addEventListener('change', () => change({ by: radio.value }));
  byId('no-sink').addEventListener('change', (event) => change({ noSink: event.target.checked }));

  addPart(['heads', 'theme'], drawChosen);
  addPart(['heads', 'by', 'noSink', 'theme', 'size'], draw);
  addPart(['query'], () => {
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
