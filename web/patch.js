/*
 * Two texts side by side: one number of the first, clean run is put into the run of the second, corrupted one, and the grid
 * shows how far that brings the answer back: `study patch`, of the model without a change, in pieces small enough that it
 * can be stopped. Nothing is asked for before the section comes into sight.
 */

(() => {
  const LISTED = 8; // tokens to choose an answer from
  const PIECE_MS = 700; // about what a piece of the grid takes
  const PIECE_LEAST = 4; // positions: each piece runs both texts besides
  const TOLD_MS = 5000; // work that takes longer is told
  const NOTHING = -1; // in the place of a wrong answer: the answer's log-probability alone
  const frame = byId('patch-grid');
  const readout = byId('patch-cell');
  const editor = byId('corrupted');
  let isSeen = false;
  const texts = { clean: null, corrupted: null }; // what `study next` says of each: {text, bos, answer or message}
  let grids = new Map(); // of these two texts, by what is patched and the answers: the newest is drawn
  let cell = { row: 0, column: 0 };
  let elements = []; // [row][column] of the grid that is drawn

  const labelOfToken = ({ token, hex }) => (token === undefined ? asBytes(hex) : asLabel(token));
  const secondText = () => state.corrupted ?? CHANGED[followed] ?? followed;
  const textOf = { clean: () => followed, corrupted: secondText };
  const isAsked = () => isSeen && isLive() && !isBlank && state.text === followed;

  /* Asks for what is missing of the two texts: their tokens, and what comes after them. */
  function followTexts() {
    if (!isAsked()) return;
    for (const which of ['clean', 'corrupted']) {
      const text = textOf[which]();
      if (texts[which]?.text === text && texts[which].bos === run.bos) continue;
      stop();
      grids = new Map();
      const asks = { text, bos: run.bos };
      texts[which] = asks;
      const keep = (kept) => {
        texts[which] = { ...asks, ...kept };
        touch('patch');
      };
      const view = which === 'clean' ? asked('next') : ['next', '-p', text, run.bos ? '--bos' : '--no-bos'];
      want(which, [...view, '--top', String(LISTED)], (answer) => keep({ answer }), (message) => keep({ message }));
    }
  }

  /* Both texts where they can be compared: as many tokens, of which some differ. */
  function pair() {
    const { answer: clean } = texts.clean ?? {};
    const { answer: corrupted } = texts.corrupted ?? {};
    if (!clean || !corrupted || texts.clean.text !== followed || texts.corrupted.text !== secondText()) return null;
    const n = clean.tokens.length;
    const first = sameTokens(clean.tokens, corrupted.tokens); // how many do not differ
    return { clean, corrupted, n, first, fits: corrupted.tokens.length === n && first < n };
  }

  /* The answer, and what stands against it: those that were chosen, where they are listed. */
  function answers({ clean, corrupted }) {
    const answer = clean.top.find(({ id }) => id === state.answer) ?? clean.top[0];
    const others = corrupted.top.filter(({ id }) => id !== answer.id);
    const wrong = state.wrong === NOTHING ? null : others.find(({ id }) => id === state.wrong) ?? others[0] ?? null;
    return { answer, others, wrong };
  }

  const keyOfGrid = ({ answer, wrong }) => `${state.patched} ${answer.id} ${wrong?.id}`;
  const hasPositions = (what) => what !== 'z';

  /* A grid with nothing in it yet: a row for each token and a column for each layer, or for each layer and head. */
  function begin() {
    const two = pair();
    const { answer, wrong } = answers(two);
    const what = state.patched;
    const layers = hasPositions(what) ? Array.from({ length: run.facts.n_layer }, (_, i) => i) : run.facts.patterns.layers;
    const [rows, columns] = hasPositions(what) ? [two.n, layers.length] : [layers.length, run.facts.n_head];
    const grid = { ...two, texts: [followed, secondText()], what, answer, wrong, layers, rows, columns, cells: Array.from({ length: rows }, () => []), at: 0, from: 0, size: PIECE_LEAST, nCells: 0, work: 0, ms: 0, runs: null, going: true, message: null };
    grids.delete(keyOfGrid(grid));
    grids.set(keyOfGrid(grid), grid);
    ask(grid);
    touch('patch');
  }

  /* Costs count rows of layers that are computed: those of a cell, and those of both texts, which every piece runs besides. */
  const costOf = ({ n, first }, layer, position) => (run.facts.n_layer - layer) * (n - Math.max(position, first));
  const costOfRuns = ({ n }) => 2 * n * run.facts.n_layer;

  /* Before layer 0 only tokens that differ do; before the first of them nothing does. */
  const costs = (grid, layer, position) => position >= grid.first && (grid.what !== 'resid_pre' || layer > 0 || grid.clean.tokens[position].id !== grid.corrupted.tokens[position].id);

  function workLeft(grid) {
    let work = 0;
    for (let at = grid.at; at < grid.layers.length; at++) {
      const layer = grid.layers[at];
      const from = at === grid.at ? grid.from : 0;
      work += costOfRuns(grid) * (hasPositions(grid.what) ? Math.ceil((grid.n - from) / grid.size) : 1);
      if (!hasPositions(grid.what)) work += grid.columns * costOf(grid, layer, 0);
      else for (let position = from; position < grid.n; position++) if (costs(grid, layer, position)) work += costOf(grid, layer, position);
    }
    return work;
  }

  /* One piece after another: some positions of a layer, or its heads. */
  function ask(grid) {
    const layer = grid.layers[grid.at];
    const to = Math.min(grid.n, grid.from + grid.size);
    const begun = performance.now();
    const range = hasPositions(grid.what) ? between(grid.from, to) : [];
    const against = grid.wrong ? ['--wrong', `#${grid.wrong.id}`] : [];
    want('patched', [...askedOf(grid.texts[0], 'patch'), '--corrupted', grid.texts[1], '--answer', `#${grid.answer.id}`, ...against,
      '--what', grid.what, '--layer', String(layer), ...range], (answer) => {
      grid.runs = { metric: answer.metric, clean: answer.clean_nats, corrupted: answer.corrupted_nats };
      for (const one of answer.cells) {
        const [row, column] = hasPositions(grid.what) ? [one.position, grid.at] : [grid.at, one.head];
        grid.cells[row][column] = one;
        if (!one.same) grid.work += costOf(grid, layer, hasPositions(grid.what) ? one.position : 0);
        fill(grid, row, column);
      }
      grid.nCells += answer.cells.length;
      grid.work += costOfRuns(grid);
      const ms = performance.now() - begun;
      grid.ms += ms;
      grid.size = Math.max(PIECE_LEAST, Math.round(grid.size * Math.min(4, PIECE_MS / Math.max(ms, 1))));
      if (hasPositions(grid.what) && to < grid.n) grid.from = to;
      else [grid.at, grid.from] = [grid.at + 1, 0];
      grid.going = grid.at < grid.layers.length;
      if (grid.going) ask(grid);
      touch(grid.going ? 'patch going' : 'patch');
    }, (message) => {
      grid.going = false;
      grid.message = message;
      touch('patch');
    });
  }

  const goingOne = () => [...grids.values()].find(({ going }) => going);

  function stop() {
    const grid = goingOne();
    if (!grid) return;
    grid.going = false;
    drop('patched');
    touch('patch');
  }

  /* The grid of what is chosen; null before there is one. */
  function shown() {
    const two = pair();
    return (two?.fits && grids.get(keyOfGrid(answers(two)))) || null;
  }

  /* Words. */
  const inUnit = (grid, nats) => (grid.runs.metric === 'logprob' ? nats * BITS_PER_NAT : nats);
  const metricOf = (grid) => (grid.wrong ? say('metric difference', isolate(labelOfToken(grid.answer)), isolate(labelOfToken(grid.wrong))) : say('metric log', isolate(labelOfToken(grid.answer))));
  const tokenAt = ({ clean }, position) => `${position} “${isolate(labelOfToken(clean.tokens[position]))}”`;
  const nameOf = (grid, row, column) => (hasPositions(grid.what) ? say(`place ${grid.what}`, tokenAt(grid, row), grid.layers[column]) : say('place z', `L${grid.layers[row]}H${column}`));

  function tellOf(grid, row, column) {
    const one = grid.cells[row][column];
    if (!one) return say('not patched', nameOf(grid, row, column));
    if (one.same) return say('patch same', nameOf(grid, row, column));
    const number = (nats) => signed(inUnit(grid, nats), 2);
    const { effect, value_nats: value } = one;
    const way = say(effect < -0.0005 ? 'patch away' : effect > 1.0005 ? 'patch past' : 'patch way', fixed(100 * Math.abs(effect), 1), number(grid.runs.clean));
    return say('patch told', nameOf(grid, row, column), metricOf(grid), number(grid.runs.corrupted), number(value), way);
  }

  /* Whole percents; a dot where both runs have the same bits. */
  function fill(grid, row, column) {
    const element = grid === shown() ? elements[row]?.[column] : null;
    if (!element) return;
    const one = grid.cells[row][column];
    const whole = one ? Math.round(100 * one.effect) || 0 : 0;
    element.textContent = !one ? '' : one.same ? '·' : `${minus(String(whole))} %`;
    element.classList.toggle('lower', whole < 0);
    element.classList.toggle('none', !!one && (one.same || whole === 0));
    element.style.setProperty('--share', one ? share(Math.abs(one.effect)) : 0);
  }

  const rowName = (grid, row) => {
    if (!hasPositions(grid.what)) return [`L${grid.layers[row]}`];
    const [clean, corrupted] = [grid.clean, grid.corrupted].map(({ tokens }) => tokens[row]);
    return clean.id === corrupted.id ? [make('bdi', {}, labelOfToken(clean))] : [make('bdi', {}, labelOfToken(clean)), ' → ', make('bdi', {}, labelOfToken(corrupted))];
  };

  function drawGrid() {
    const grid = shown();
    byId('patch-result').hidden = !grid;
    if (!grid) return;
    const columns = Array.from({ length: grid.columns }, (_, i) => (hasPositions(grid.what) ? `L${grid.layers[i]}` : `H${i}`));
    if (cell.row >= grid.rows || cell.column >= grid.columns) cell = { row: 0, column: 0 };
    frame.style.setProperty('--columns', grid.columns);
    elements = [];
    const rows = Array.from({ length: grid.rows }, (_, row) => {
      elements.push(columns.map((_one, column) => make('span', { role: 'gridcell', 'data-column': column })));
      const header = make('span', { role: 'rowheader' }, ...rowName(grid, row));
      header.title = header.textContent;
      return make('div', { class: `patch-row${hasPositions(grid.what) && grid.clean.tokens[row].id !== grid.corrupted.tokens[row].id ? ' differs' : ''}`, role: 'row', 'data-row': row }, header, ...elements[row]);
    });
    frame.replaceChildren(make('div', { class: 'patch-row patch-head', role: 'row' }, make('span', { role: 'columnheader' }, say(hasPositions(grid.what) ? 'token' : 'layer order')), ...columns.map((name) => make('span', { role: 'columnheader' }, name))), ...rows);
    grid.cells.forEach((_, row) => columns.forEach((_one, column) => fill(grid, row, column)));
    point(cell);
    drawProgress();
  }

  function drawProgress() {
    const grid = shown();
    const two = pair();
    const button = byId('patch-run');
    button.textContent = say(goingOne() ? 'stop' : 'patch');
    button.disabled = !two?.fits && !goingOne();
    const parts = [];
    if (grid) {
      const all = grid.rows * grid.columns;
      const left = grid.going && grid.work > 0 ? (grid.ms / grid.work) * workLeft(grid) : 0;
      if (grid.message) parts.push(make('strong', { class: 'problem' }, visible(grid.message)));
      else if (grid.going) parts.push(left > TOLD_MS ? say('patch lasts', grid.nCells, all, Math.round(left / 1000)) : say('patch going', grid.nCells, all));
      else if (grid.nCells < all) parts.push(say('patch stopped', grid.nCells, all));
      if (grid.runs) byId('patch-runs').textContent = say('patch runs', metricOf(grid), signed(inUnit(grid, grid.runs.clean), 2), signed(inUnit(grid, grid.runs.corrupted), 2));
      else byId('patch-runs').textContent = '';
    }
    byId('patch-progress').replaceChildren(...parts);
  }

  function point(place) {
    const grid = shown();
    elements[cell.row]?.[cell.column]?.classList.remove('pointed');
    cell = place;
    elements[cell.row]?.[cell.column]?.classList.add('pointed');
    readout.replaceChildren(...(grid ? [make('p', {}, tellOf(grid, cell.row, cell.column))] : []));
  }

  /* The tokens of a text; marked are those that differ or, of texts of other lengths, that lie between what begins and ends alike. */
  function drawPieces(which) {
    const two = pair();
    const { answer } = texts[which]?.text === textOf[which]() ? texts[which] : {};
    const own = answer?.tokens ?? [];
    const other = two?.[which === 'clean' ? 'corrupted' : 'clean'].tokens ?? own;
    let alike = 0; // at the end
    while (two && alike < Math.min(own.length, other.length) - two.first && own.at(-1 - alike).id === other.at(-1 - alike).id) alike++;
    const differs = (token, i) => (own.length === other.length ? token.id !== other[i].id : i >= two.first && i < own.length - alike);
    byId(`${which}-pieces`).replaceChildren(...own.map((token, i) => make('bdi', { class: differs(token, i) ? 'other' : null }, labelOfToken(token))));
  }

  /* Why there can be no grid, or nothing. */
  function refusal() {
    const failed = ['clean', 'corrupted'].map((which) => texts[which]).find((one) => one?.message);
    if (failed) return visible(failed.message);
    const two = pair();
    if (!two || two.fits) return '';
    const [n, other] = [two.n, two.corrupted.tokens.length];
    if (n === other) return say('same texts', n);
    return say('other lengths', n, other);
  }

  function drawChoices() {
    const two = pair();
    const option = (token, chosen) => make('option', { value: token.id, selected: token.id === chosen?.id }, `${labelOfToken(token)}  ${percent(token.probability)}`);
    if (!two) return;
    const { answer, others, wrong } = answers(two);
    byId('answer').replaceChildren(...two.clean.top.map((token) => option(token, answer)));
    byId('wrong').replaceChildren(...others.map((token) => option(token, wrong)), make('option', { value: NOTHING, selected: !wrong }, say('against nothing')));
  }

  function drawAll() {
    const lives = isLive();
    const never = source.kind === 'frozen' || source.problem !== null;
    byId('two-texts').hidden = !lives;
    byId('patch-missing').hidden = !never;
    byId('patch-missing').textContent = never ? say('patch missing') : '';
    if (!lives) {
      byId('patch-result').hidden = true;
      return;
    }
    followTexts();
    if (editor.value !== secondText()) editor.value = secondText();
    for (const which of ['clean', 'corrupted']) drawPieces(which);
    byId('patch-refusal').textContent = refusal();
    byId('patch-controls').hidden = !pair()?.fits;
    byId('patch-unchanged').hidden = !isChanged();
    drawChoices();
    drawGrid();
    drawProgress();
  }

  /* A grid that was stopped goes on where it was. */
  function start() {
    const grid = shown();
    if (!grid || grid.message) begin();
    else if (grid.at < grid.layers.length) {
      grid.going = true;
      ask(grid);
      touch('patch');
    }
  }

  /* A grid that was begun goes on for the text and the parts that are chosen now. */
  function goOver() {
    if (!pair()?.fits || grids.size === 0) return;
    stop();
    if (!shown()?.message) start();
  }

  const cellAt = (event) => {
    const element = event.target.closest('[data-column]');
    return element && { row: Number(element.parentElement.dataset.row), column: Number(element.dataset.column) };
  };

  editor.addEventListener('input', () => change({ corrupted: editor.value }));
  byId('patch-run').addEventListener('click', () => (goingOne() ? stop() : start()));
  byId('answer').addEventListener('change', (event) => change({ answer: Number(event.target.value) }));
  byId('wrong').addEventListener('change', (event) => change({ wrong: Number(event.target.value) }));
  bindChoice('patched');
  frame.addEventListener('pointerover', (event) => {
    const place = cellAt(event);
    if (!place) return;
    point(place);
    if (event.pointerType === 'mouse') tip.over(elements[place.row][place.column], tellOf(shown(), place.row, place.column));
  });
  frame.addEventListener('pointerleave', tip.hide);
  frame.addEventListener('keydown', (event) => {
    const grid = shown();
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [-cell.row, 0], End: [grid.rows, 0] };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const [down, right] = steps[event.key];
    const within = (value, n) => Math.max(0, Math.min(n - 1, value));
    point({ row: within(cell.row + down, grid.rows), column: within(cell.column + right, grid.columns) });
    elements[cell.row][cell.column].scrollIntoView({ block: 'nearest', inline: 'nearest' });
  });
  new IntersectionObserver(([entry]) => {
    isSeen = entry.isIntersecting;
    if (isSeen) touch('patch');
  }, { rootMargin: '200px' }).observe(byId('patch'));

  addPart(['patched', 'answer', 'wrong'], goOver);
  addPart(['run', 'text', 'source', 'corrupted', 'patched', 'answer', 'wrong', 'patch', 'off', 'changes'], drawAll);
  addPart(['patch going'], () => {
    drawProgress();
    point(cell);
  });
})();
