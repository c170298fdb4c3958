/* One query of one head as a textbook computes it (Vaswani et al. 2017, section 3.2.1), like `study explain`. */

(() => {
  const { max_keys: maxKeys, max_masked: maxMasked } = data.steps; // rows of the table; of a longer text the heaviest keys
  const root = Math.sqrt(data.d_head);
  const byRoot = Math.abs(data.score_scale * root - 1) < 1e-6;
  const isPlain = byRoot && data.score_cap === null && !data.slopes;
  /* The columns that each step fills; its formula is in page.html. */
  const STEPS = [
    ['All steps'], ['1 Dot products', 'dot'], ['2 Scale', 'score'], ['3 Mask', 'mask'], ['4 Softmax', 'weight'], ['5 Values', 'norm', 'weighted'],
  ];
  const COLUMNS = [
    ['dot', 'q·k'], ['score', isPlain ? `÷ √${data.d_head}` : 'score'], ['mask', '+ mask'], ['weight', 'weight'], ['norm', '‖v‖'], ['weighted', 'weight × ‖v‖'],
  ];
  let step = 0;

  const select = byId('step-head');
  select.append(...headNames.map((name) => make('option', { value: name }, name)));
  select.addEventListener('change', () => change({ heads: [select.value] }));
  byId('step-choice').append(...STEPS.map(([name], i) => {
    const radio = make('input', { type: 'radio', name: 'step', value: i, checked: i === 0 });
    radio.addEventListener('change', () => {
      step = i;
      draw();
    });
    return make('label', {}, radio, ` ${name}`);
  }));

  function draw() {
    const [name] = state.heads;
    select.value = name;
    drawFormula(name);
    if (hasScores(state.query)) drawTable(name);
    else drawMissing();
  }

  function drawFormula(name) {
    const { layer, row, head } = headOf(name);
    const rotated = data.turns[layer] ? '; q and k after RoPE' : '';
    const made = isPlain ? '' : `; score_k = ${data.score}`;
    const slope = data.slopes ? `, slope = ${data.slopes[row][head].toPrecision(4)}` : '';
    const seen = data.windows[layer] ? `; a window of ${data.windows[layer]} keys` : '';
    const shared = data.n_head_kv < data.n_head ? `; its keys and values are those of kv head ${headOf(name).kvHead}` : '';
    byId('step-place').replaceChildren(make('b', {}, name), ', query ', placeOf(state.query),
      `; d_head = ${data.d_head}, its root ${root.toFixed(3)}${shared}${rotated}${made}${slope}${seen}`);
    [...byId('formulas').children].forEach((formula, i) => {
      formula.hidden = i !== step;
    });
  }

  function drawMissing() {
    const { first, n } = data.steps;
    const query = n === 1 ? `query ${placeOf(first)}` : `queries ${first} to ${first + n - 1}`;
    const button = make('button', { type: 'button', on: { click: () => chooseQuery(first) } }, `Show ${query}`);
    byId('step-table').replaceChildren();
    byId('step-note').replaceChildren(
      `To stay small this page keeps the scores of ${query} only; study view … --query ${state.query} keeps those of this one. `, button,
    );
  }

  function drawTable(name) {
    const scores = scoresAt(name, state.query);
    const weights = weightsAt(name, state.query);
    const norms = valueNormsOf(name);
    const weighted = weights.map((weight, key) => weight * norms[key]);
    const first = Math.max(0, state.query + 1 - (data.windows[headOf(name).layer] ?? Infinity)); // before it all is masked
    const learned = learnedShare(name, state.query);
    const sum = weighted.reduce((a, b) => a + b, 0);
    const keys = Array.from(weights.keys()).slice(first);
    const heaviest = new Set([...keys].sort((a, b) => weights[b] - weights[a]).slice(0, maxKeys));
    const shown = keys.filter((key) => heaviest.has(key));
    const rows = shown.map((key) => rowOf(key, {
      dot: dotOf(name, key, scores[key]), score: fixed(scores[key], 3), mask: '0',
      weight: weights[key].toFixed(4), norm: norms[key].toFixed(3), weighted: weighted[key].toFixed(4),
    }, { weight: weights[key], weighted: weighted[key] / sum }));
    const before = Array.from({ length: Math.min(maxMasked, first) }, (_, i) => rowOf(first - Math.min(maxMasked, first) + i, OUT, null));
    const masked = Array.from({ length: Math.min(maxMasked, nTokens - 1 - state.query) }, (_, i) => rowOf(
      state.query + 1 + i, OUT, null,
    ));
    byId('step-table').replaceChildren(
      make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'key'), make('th', { scope: 'col' }, 'token'),
        ...COLUMNS.map(([column, title]) => make('th', { scope: 'col', class: classOf(column) }, title)))),
      make('tbody', {}, ...before, ...rows, ...masked),
      make('tfoot', {}, ...(data.sinks ? [footOf('learned sink', fixed(sinkOf(name), 3), learned)] : []),
        footOf('sum', '', weights.reduce((a, b) => a + b, learned))),
    );
    const notes = [];
    if (keys.length > shown.length) {
      const others = keys.reduce((total, key) => total + (heaviest.has(key) ? 0 : weights[key]), 0);
      notes.push(`${keys.length - shown.length} lighter keys are left out: ${others.toFixed(4)} in all.`);
    }
    const nMasked = nTokens - 1 - state.query;
    if (first > maxMasked) notes.push(`${first - maxMasked} more lie before the window and are masked.`);
    if (nMasked > maxMasked) notes.push(`${nMasked - maxMasked} more are masked.`);
    byId('step-note').textContent = notes.join(' ');
  }

  const OUT = { dot: '–', score: '–', mask: '−∞', weight: '0', norm: '', weighted: '' };

  /* q·k of a score, as measures/scores.c has it. */
  function dotOf(name, key, score) {
    const { row, head } = headOf(name);
    const slope = data.slopes ? data.slopes[row][head] : 0;
    return data.score_cap === null ? fixed((score + slope * (state.query - key)) / data.score_scale, 3) : '–';
  }

  const footOf = (title, score, weight) => make('tr', {}, make('td', { colspan: 3 }, title), make('td', {}, score), make('td', {}),
    make('td', { class: classOf('weight') }, weight.toFixed(4)), make('td', { colspan: 2 }));

  const classOf = (column) => (STEPS[step].indexOf(column) > 0 ? 'current' : null);

  function rowOf(key, texts, bars) {
    return make('tr', { class: bars ? null : 'out', 'data-key': key }, make('td', {}, String(key)), make('td', { class: 'name' }, make('bdi', {}, labelOf(key))),
      ...COLUMNS.map(([column]) => make('td', { class: classOf(column) }, bars && column in bars ? makeBar(bars[column]) : null, texts[column])));
  }

  addPart(['heads', 'query'], draw);
})();
