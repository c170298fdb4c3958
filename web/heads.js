/* The grid of all heads, small: sorted and coloured by the scores of `study heads`. */

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
    ...(data.sinks && { learned_sink: ['learned sink', 1] }),
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
  addPart(['heads', 'theme'], drawChosen);
  addPart(['size'], placeThumbs);
  addPart(['theme'], () => {
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
