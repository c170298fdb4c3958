/*
 * The patterns of the chosen heads, large: as a map, or as lines from queries to keys; and the keys that get most. A long
 * text's map is brushed: what is drawn over becomes all of it.
 */

(() => {
  const LABEL = 12; // px that a name along the map needs
  const LARGEST_CELL = 64; // px a side
  const LEAST_CELL = 6; // px a side; a text of smaller cells can be zoomed
  const lineHeight = () => 22 * typeScale(); // between two lines, px
  const TOP_KEYS = 6;
  const map = byId('map');
  const lines = byId('lines');
  const [picture, overlay] = map.querySelectorAll('canvas');
  const [faint, bright] = lines.querySelectorAll('canvas');
  let range = null; // [first, last] positions of the map; null: all
  let brush = null; // {from, to} cells under a pointer that is held
  let pointed = null; // {query, key} under the pointer; drawn as lines, one of them is null
  let layout = null; // of the map: {left, top, cell}
  let linesLayout = null; // of the lines: {width, height, labels, first, last token in view}
  let largest = 1; // value of the darkest cell

  /* The largest value of all rows: 1 for weights, so that maps can be compared. */
  function findLargest() {
    if (state.by === 'weight') return 1;
    let max = 0;
    for (const name of state.heads) for (let query = 0; query < run.n; query++) max = shownAt(name, query).reduce((a, b) => Math.max(a, b), max);
    return max || 1;
  }

  const first = () => (range ? range[0] : 0);
  const last = () => Math.min(run.n - 1, range ? range[1] : run.n - 1);

  function drawMap() {
    const width = map.clientWidth;
    if (width === 0) return;
    const n = last() - first() + 1;
    const type = typeScale();
    const left = (width < 420 ? 62 : 92) * type;
    const top = 78 * type;
    const cell = Math.min(LARGEST_CELL * type, (width - left - 4) / n, Math.max(240, innerHeight - 190 - top) / n); // all in view
    layout = { left, top, cell, n };
    const side = cell * n;
    const context = sized(picture, width, top + side + 2);
    sized(overlay, width, top + side + 2);
    const size = Math.min(n, Math.floor(side * (window.devicePixelRatio || 1)));
    context.imageSmoothingEnabled = false;
    context.drawImage(paintHeads(size), left, top, side, side);
    drawLabels(context, left, top, cell);
    drawOverlay();
    byId('zoom').hidden = !range && (width - left) / run.n > LEAST_CELL;
    byId('zoom-range').textContent = range ? say('zoomed', first(), last()) : say('zoom hint');
    setUsable(byId('zoom-out'), range !== null);
  }

  function paintHeads(size) {
    const grids = state.heads.map((name) => pooled(size, (query) => shownAt(name, query), first(), last()));
    if (grids.length === 1) return paintCells(size, (i) => ramp[Math.round((255 * Math.min(grids[0][i], largest)) / largest)]);
    const paper = rgbOf(styleOf('--heat-0'));
    const colours = coloursOfHeads.map(rgbOf);
    return paintCells(size, (i) => grids.reduce(
      (under, grid, head) => under.map((c, j) => c + (colours[head][j] - c) * (grid[i] / largest)), paper,
    ));
  }

  /* Names as close as they can be read; the chosen query's always. */
  function drawLabels(context, left, top, cell) {
    const type = typeScale();
    const apart = Math.ceil((LABEL * type) / cell);
    context.font = `${Math.min(15, Math.max(11, cell / type - 3)) * type}px ${styleOf('--sans')}`;
    context.textBaseline = 'middle';
    for (let i = first(); i <= last(); i++) {
      const chosen = i === state.query;
      const nearChosen = Math.abs(i - state.query) < apart;
      if (!chosen && (nearChosen || (i - first()) % apart !== 0)) continue;
      const middle = (i - first() + 0.5) * cell;
      context.fillStyle = styleOf(chosen ? '--ink' : '--muted');
      context.textAlign = 'right';
      context.fillText(labelOf(i), left - 5, top + middle, left - 8);
      context.save();
      context.translate(left + middle, top - 5);
      context.rotate(-Math.PI / 3);
      context.textAlign = 'left';
      context.fillText(labelOf(i), 0, 0, 84 * type);
      context.restore();
    }
  }

  /* The chosen query's row, and the cell under the pointer. */
  function drawOverlay() {
    if (state.shape !== 'map' || !layout) return;
    const context = overlay.getContext('2d');
    const { left, top, cell, n } = layout;
    context.clearRect(0, 0, overlay.width, overlay.height);
    context.strokeStyle = styleOf('--ink');
    context.lineWidth = typeScale();
    const outline = (x, y, w, h) => context.strokeRect(left + x * cell - 0.5, top + y * cell - 0.5, w * cell + 1, h * cell + 1);
    context.globalAlpha = 0.55;
    const row = state.query - first();
    if (row >= 0 && row < n) outline(0, row, row + 1, 1);
    context.globalAlpha = 1;
    if (pointed) outline(pointed.key - first(), pointed.query - first(), 1, 1);
    if (brush) {
      const [from, to] = brushed();
      context.globalAlpha = 0.18;
      context.fillStyle = styleOf('--accent');
      context.fillRect(left + (from - first()) * cell, top + (from - first()) * cell, (to - from + 1) * cell, (to - from + 1) * cell);
      context.globalAlpha = 1;
    }
  }

  /*
   * Queries stand left, keys right; a line is as strong as the weight. Only what is in view is drawn: both canvases
   * are as high as the frame and stay in it while it scrolls. One holds all lines, faint; the other those of the
   * query or key in focus, and the names.
   */
  function drawLines() {
    const width = lines.clientWidth;
    if (width === 0) return;
    const height = Math.min(run.n * lineHeight() + 8, 560 * typeScale());
    lines.style.height = `${height}px`;
    lines.firstElementChild.style.height = `${run.n * lineHeight() + 8}px`;
    const top = Math.max(0, Math.floor(lines.scrollTop / lineHeight()) - 1);
    linesLayout = {
      width, height, first: top, last: Math.min(run.n - 1, top + Math.ceil(height / lineHeight()) + 1), labels: Math.min(150 * typeScale(), width * 0.32),
    };
    const context = sized(faint, width, height);
    for (let query = top; query <= linesLayout.last; query++) state.heads.forEach((name, head) => drawRow(context, name, head, query, null, 0.3));
    drawFocus();
  }

  /* A token's place in the canvas, px from its top. */
  const lineOf = (token) => 4 - lines.scrollTop + (token + 0.5) * lineHeight();

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
      context.lineWidth = (0.75 + 4 * strength * weight) * typeScale();
      context.beginPath();
      context.moveTo(labels + 6, from);
      context.bezierCurveTo(width / 2, from, width / 2, to, width - labels - 6, to);
      context.stroke();
    }
  }

  function drawFocus() {
    if (!linesLayout) return; // not in sight yet
    const { width, height, labels } = linesLayout;
    const context = sized(bright, width, height);
    const focus = pointed ?? { query: state.query, key: null };
    for (let query = linesLayout.first; query <= linesLayout.last; query++) {
      if (focus.key === null && query !== focus.query) continue;
      state.heads.forEach((name, head) => drawRow(context, name, head, query, focus.key, 1));
    }
    context.globalAlpha = 1;
    context.font = `${13 * typeScale()}px ${styleOf('--sans')}`;
    context.textBaseline = 'middle';
    const ink = styleOf('--ink');
    const muted = styleOf('--muted');
    for (let token = linesLayout.first; token <= linesLayout.last; token++) {
      context.fillStyle = token === focus.query ? ink : muted;
      context.textAlign = 'right';
      context.fillText(labelOf(token), labels, lineOf(token), labels - 6);
      context.fillStyle = token === focus.key ? ink : muted;
      context.textAlign = 'left';
      context.fillText(labelOf(token), width - labels, lineOf(token), labels - 6);
    }
  }

  function drawPattern() {
    const { shape } = state;
    const isPattern = shape === 'map' || shape === 'lines';
    byId('pattern').hidden = !isPattern;
    byId('values').hidden = !isPattern;
    byId('no-sink').parentElement.hidden = !isPattern;
    byId('no-sink').checked = state.noSink;
    document.querySelector('input[name=by][value=value]').disabled = !run.norms.output; // gated heads
    if (range && range[0] >= run.n) range = null;
    if (!isPattern) return;
    largest = findLargest();
    byId('pattern-scale').hidden = state.heads.length > 1 || shape === 'lines';
    byId('pattern-scale').lastElementChild.textContent = largest === 1 ? '1' : largest.toPrecision(3);
    map.hidden = shape !== 'map';
    lines.hidden = shape !== 'lines';
    byId('zoom').hidden = true;
    if (shape === 'map') drawMap();
    else {
      drawLines();
      keepInView();
    }
    drawText();
  }

  function drawChosen() {
    byId('chosen').replaceChildren(...state.heads.map((name, i) => make('span', { class: 'chip', style: { '--mark': coloursOfHeads[i] } }, [name, nameOfHead(name)].filter(Boolean).join(' · '))));
    const names = state.heads.join(', ');
    map.setAttribute('aria-label', say('map label', names));
    lines.setAttribute('aria-label', say('lines label', names));
  }

  /* The sentence under the pattern, and the keys that get most. */
  function sentence(query, key) {
    const what = state.by === 'value' ? `${say('weight')} × ‖v W_O‖` : say('weight');
    const masked = key !== null && key > query;
    if (masked) return say('masked', placeOf(query), placeOf(key));
    if (key === null) return say(state.shape === 'map' ? 'rows are queries' : 'lines are', placeOf(query));
    return say('cell', placeOf(query), placeOf(key), what, state.heads.map((name) => `${name} ${weightText(shownAt(name, query)[key])}`).join(', '));
  }

  function drawText() {
    const query = pointed?.query ?? state.query;
    const note = byId('pattern-note');
    note.textContent = sentence(query, pointed?.key ?? null);
    if (!shownRun().hasScores(query) && state.by === 'weight' && !state.noSink) note.textContent += ` ${say('rounded', run.facts.patterns.least.toFixed(4))}`;
    byId('keys').replaceChildren(...state.heads.map((name, i) => keysOf(name, i, query)));
  }

  function keysOf(name, place, query) {
    const row = shownAt(name, query);
    const order = Array.from(row.keys()).sort((a, b) => row[b] - row[a]).slice(0, TOP_KEYS);
    const sum = row.reduce((a, b) => a + b, 0);
    const shown = order.filter((key) => row[key] > 0);
    const others = sum - shown.reduce((total, key) => total + row[key], 0);
    const item = (title, weight, className) => make('li', { class: className }, make('span', {}, title), makeBar(weight / largest), make('span', {}, weightText(weight)));
    const list = make('ol', { class: 'bars' }, ...shown.map((key) => item(placeOf(key), row[key])));
    if (sum === 0) list.append(make('li', { class: 'dim' }, say('nothing is left')));
    else if (query + 1 > shown.length) list.append(item(say('others', query + 1 - shown.length), others, 'dim'));
    if (run.facts.sinks && shownRun().hasScores(query) && state.by === 'weight' && !state.noSink)
      list.append(item(say('score learned_sink'), shownRun().learnedShare(name, query), 'dim'));
    return make('div', { style: { '--mark': coloursOfHeads[place] } }, make('h3', {}, make('span', { class: 'chip' }, name), ` ${say('looks from')} `, placeOf(query)), list);
  }

  /* Pointing is answered once a frame, at the pointer. */
  const point = eachFrame((event) => {
    if (!run || !event) return;
    pointed = event.leaves ? null : state.shape === 'map' ? cellAt(event) : lineAt(event);
    if (brush && pointed) brush.to = pointed;
    if (state.shape === 'map') drawOverlay();
    else drawFocus();
    drawText();
    if (pointed && pointed.query !== null && pointed.key !== null && event.pointerType === 'mouse') tip.at(event, state.shape === 'map' ? layout.cell : lineHeight(), sentence(pointed.query, pointed.key));
    else tip.hide();
  });

  function cellAt(event) {
    if (!layout) return null;
    const box = overlay.getBoundingClientRect();
    const key = first() + Math.floor((event.clientX - box.left - layout.left) / layout.cell);
    const query = first() + Math.floor((event.clientY - box.top - layout.top) / layout.cell);
    return query >= first() && query <= last() && key >= first() && key <= last() ? { query, key } : null;
  }

  function lineAt(event) {
    const box = lines.getBoundingClientRect();
    const token = Math.floor((event.clientY - box.top + lines.scrollTop - 4) / lineHeight());
    if (token < 0 || token >= run.n) return null;
    return event.clientX < box.left + box.width / 2 ? { query: token, key: null } : { query: null, key: token };
  }

  /* The positions that the brush covers: those of both its corners, as queries and as keys. */
  function brushed() {
    const ends = [brush.from.query, brush.from.key, brush.to.query, brush.to.key];
    return [Math.min(...ends), Math.max(...ends)];
  }

  function zoomTo(from, to) {
    range = from <= 0 && to >= run.n - 1 ? null : [Math.max(0, from), Math.min(run.n - 1, to)];
    drawMap();
  }

  byId('zoom-in').addEventListener('click', () => {
    const half = Math.max(4, Math.floor((last() - first() + 1) / 4));
    const from = Math.max(0, Math.min(state.query - half, run.n - 1 - 2 * half));
    zoomTo(from, from + 2 * half);
  });
  byId('zoom-out').addEventListener('click', () => zoomTo(0, run.n - 1));

  map.addEventListener('pointerdown', (event) => {
    const cell = event.pointerType === 'mouse' && event.button === 0 ? cellAt(event) : null;
    brush = cell && { from: cell, to: cell };
  });
  addEventListener('pointerup', () => {
    if (!brush) return;
    const [from, to] = brushed();
    const wide = brush.from.query !== brush.to.query && brush.from.key !== brush.to.key && to - from > 2;
    brush = null;
    if (wide && run) zoomTo(from, to);
  });

  for (const element of [map, lines]) {
    element.addEventListener('pointermove', point);
    element.addEventListener('pointerleave', (event) => event.pointerType === 'mouse' && point({ leaves: true })); // a finger that leaves has pointed
    element.addEventListener('click', (event) => {
      const place = state.shape === 'map' ? cellAt(event) : lineAt(event);
      if (place && place.query !== null) chooseQuery(place.query);
    });
    element.addEventListener('keydown', (event) => {
      const steps = { ArrowUp: -1, ArrowDown: 1, Home: -run.n, End: run.n };
      if (event.key === 'Escape' && range) zoomTo(0, run.n - 1);
      if (event.key === '+') byId('zoom-in').click();
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

  bindChoice('shape');
  bindChoice('by');
  byId('no-sink').addEventListener('change', (event) => change({ noSink: event.target.checked }));

  addPart(['run'], () => {
    pointed = null; // which may be no more
  }, 'first');
  addPart(['heads', 'theme', 'heads scores'], drawChosen);
  addPart(['shape', 'by', 'noSink', 'theme', 'size'], drawPattern);
  addPart(['run', 'heads', 'off', 'changes'], drawPattern, 'late');
  addPart(['query'], () => {
    if (state.shape === 'lines') {
      drawFocus();
      keepInView();
    } else if (state.shape === 'map') {
      const [from, to] = [first(), last()];
      if (range && (state.query < from || state.query > to)) {
        const start = Math.max(0, state.query - Math.floor((to - from) / 2));
        range = [start, start + to - from];
      }
      drawMap();
    } else return;
    drawText();
  }, 'late');

  function keepInView() {
    const y = state.query * lineHeight();
    if (y < lines.scrollTop || y > lines.scrollTop + lines.clientHeight - lineHeight()) lines.scrollTop = y - lines.clientHeight / 2;
  }
})();
