/*
 * One query of one head as a textbook computes it (Vaswani et al. 2017, section 3.2.1), like `study explain`: as a
 * picture that moves step by step, as a table, and what the head's output raises and lowers in the end.
 */

(() => {
  const FEW = 12; // keys of the picture, the heaviest
  const MASKED = 2; // … and of those that the mask hides
  const STEP_MS = 1700; // at pace 1
  /* The columns of the table that each step fills; its formula is in page.html. */
  const STEPS = [['all steps'], ['step dot', 'dot'], ['step scale', 'score'], ['step mask', 'mask'], ['step softmax', 'weight'], ['step values', 'norm', 'weighted']];
  const choice = byId('step-choice');
  let step = 0;
  let playing = null; // a timer

  function setStep(next) {
    step = next;
    for (const radio of choice.querySelectorAll('input')) radio.checked = Number(radio.value) === step;
    [...byId('formulas').children].forEach((formula, i) => {
      formula.hidden = i !== step;
    });
    drawPicture();
    drawTable();
  }

  function play() {
    stop();
    const next = step >= STEPS.length - 1 ? 1 : step + 1;
    setStep(next);
    if (next < STEPS.length - 1) playing = setTimeout(play, STEP_MS / Number(byId('pace').value));
    drawPlay();
  }

  function stop() {
    clearTimeout(playing);
    playing = null;
    drawPlay();
  }

  function drawPlay() {
    byId('play').textContent = say(playing ? 'pause' : 'play');
  }

  /* All that is known of the row: scores, weights, lengths of values. Where scores were left out, null. */
  function rowOf(name, query) {
    const shown = shownRun();
    if (!shown.hasScores(query)) return null;
    const scores = shown.scoresAt(name, query);
    const weights = shown.weightsAt(name, query);
    const norms = shown.valueNorms(name);
    const { row, head } = run.place(name);
    const slope = run.facts.slopes ? run.facts.slopes[row][head] : 0;
    const dot = (key) => (run.facts.score_cap === null ? (scores[key] + slope * (query - key)) / run.facts.score_scale : NaN); // as measures/scores.c
    const keys = Array.from(scores.keys()).filter((key) => scores[key] !== -Infinity);
    return { keys: keys.map((key) => ({ key, dot: dot(key), score: scores[key], weight: weights[key], norm: norms[key] })), learned: shown.learnedShare(name, query) };
  }

  /* The heaviest keys in the order of the text. */
  const heaviest = (keys, n) => [...keys].sort((a, b) => b.weight - a.weight).slice(0, n).sort((a, b) => a.key - b.key);

  const weightOf = (keys) => keys.reduce((sum, one) => sum + one.weight, 0);

  function drawPlace(name) {
    const { facts } = run;
    const { layer, row, head, kvHead } = run.place(name);
    const parts = [`d_head = ${facts.d_head}, √d_head = ${Math.sqrt(facts.d_head).toFixed(3)}`];
    if (facts.n_head_kv < facts.n_head) parts.push(say('shared kv', kvHead));
    if (facts.turns[layer]) parts.push(say('after RoPE'));
    if (!isPlain()) parts.push(`score_k = ${facts.score}`);
    if (facts.slopes) parts.push(`slope = ${facts.slopes[row][head].toPrecision(4)}`);
    if (facts.windows[layer]) parts.push(say('window', facts.windows[layer]));
    byId('step-place').replaceChildren(make('b', {}, name), `, ${say('query')} `, placeOf(state.query), `; ${parts.join('; ')}`);
  }

  function isPlain() {
    const { score_scale: scale, d_head: dHead, score_cap: cap, slopes } = run.facts;
    return Math.abs(scale * Math.sqrt(dHead) - 1) < 1e-6 && cap === null && !slopes;
  }

  /* Where the bar of a number begins, and how long it is, as shares of an axis that holds all the numbers and 0. */
  function axisOf(numbers) {
    const finite = numbers.filter(Number.isFinite);
    const least = Math.min(0, ...finite);
    const range = Math.max(0, ...finite) - least || 1;
    return (number) => (Number.isFinite(number) ? [(Math.min(number, 0) - least) / range, Math.abs(number) / range] : [0, 0]);
  }

  /* From 0, the key that fits worst, to 1, the one that fits best. */
  function fits(numbers) {
    const least = Math.min(...numbers);
    const range = Math.max(...numbers) - least;
    return numbers.map((number) => (range > 0 ? (number - least) / range : 1));
  }

  /*
   * The query's answer to each key, as bars that change from step to step: dot products, scaled, masked, shares of one;
   * then the values, as thick as their shares, flow together.
   */
  function drawPicture() {
    const [name] = state.heads;
    const known = rowOf(name, state.query);
    const picture = byId('picture');
    picture.hidden = !known;
    if (!known) return;
    const keys = heaviest(known.keys, FEW);
    const masked = Array.from({ length: Math.min(MASKED, run.n - 1 - state.query) }, (_, i) => state.query + 1 + i);
    const at = step === 0 ? 5 : step;
    const numberOf = (one) => (at === 1 ? one.dot : at < 4 ? one.score : one.weight);
    const axis = axisOf(at < 4 ? keys.flatMap(({ dot, score }) => [dot, score]) : [0, 1]);
    const textOf = (one) => [fixed(one.dot, 2), fixed(one.score, 2), `${fixed(one.score, 2)} + 0`, percent(one.weight), `${one.weight.toFixed(3)} × ${one.norm.toFixed(2)}`][at - 1];
    const drawn = [...keys.map(({ key }) => key), ...masked];
    const of = `${name} ${state.query} ${drawn.join(' ')} ${state.language}`;
    if (picture.dataset.of !== of) {
      picture.dataset.of = of;
      picture.replaceChildren(
        make('div', { class: 'asks' }, make('span', { class: 'dim' }, say('query asks')), make('b', {}, make('bdi', {}, labelOf(state.query)))),
        make('ol', { class: 'answers' }, ...drawn.map((key) => make('li', { 'data-key': key }, make('bdi', {}, labelOf(key)), make('span', { class: 'bar-of' }), make('output', {})))),
        draw('svg', { class: 'wires', 'aria-hidden': 'true' }),
        make('div', { class: 'sum' }, make('span', { class: 'dim' }, say('values flow')), make('div', { class: 'stack' }), make('p', {})),
      );
      picture.getBoundingClientRect(); // bars grow from nothing
    }
    picture.dataset.step = at;
    const rows = [...picture.querySelectorAll('.answers li')];
    keys.forEach((one, i) => {
      const [from, part] = axis(numberOf(one));
      const bar = rows[i].querySelector('.bar-of');
      bar.style.setProperty('--share', share(part));
      bar.style.setProperty('--at', `${(100 * from / (1 - part) || 0).toFixed(2)}%`); // as CSS places a background
      bar.classList.toggle('negative', numberOf(one) < 0);
      rows[i].querySelector('output').value = textOf(one);
    });
    masked.forEach((_, i) => {
      const row = rows[keys.length + i];
      const bar = row.querySelector('.bar-of');
      row.classList.add('later');
      bar.style.setProperty('--share', at < 3 ? '0.5' : '0');
      bar.classList.toggle('unknown', at < 3);
      row.querySelector('output').value = at < 3 ? '?' : at === 3 ? '−∞' : '0';
    });
    const others = weightOf(known.keys) - weightOf(keys);
    const stack = picture.querySelector('.stack');
    const shares = [...keys, ...(others > 0.0005 ? [{ key: null, weight: others }] : []), ...(known.learned > 0 ? [{ key: null, weight: known.learned, sink: true }] : [])];
    stack.replaceChildren(...(at >= 4 ? shares : []).map((one) => make('span', { style: { '--part': one.weight.toFixed(4) }, class: one.sink ? 'sink' : one.key === null ? 'rest' : null, title: `${one.key === null ? '…' : labelOf(one.key)} ${one.weight.toFixed(4)}` }, one.weight > 0.06 ? make('bdi', {}, one.key === null ? '…' : labelOf(one.key)) : null)));
    picture.querySelector('.sum p').textContent = [say('picture dot'), say('picture scale', fixed(run.facts.score_scale, 4)), say('picture mask'), say('picture softmax'), say('picture values')][at - 1];
    drawWires(picture, at < 4 ? fits(keys.map(numberOf)) : keys.map(numberOf), at);
    const left = known.keys.length - keys.length;
    redraw(byId('step-note'), left > 0 ? say('lighter keys', left, others.toFixed(4)) : '');
  }

  /* Wires run from the query to each key, thick to the one that fits best; in the last step also from each key to the sum, as strong as its share. */
  function drawWires(picture, amounts, at) {
    const frame = picture.getBoundingClientRect();
    const asks = picture.querySelector('.asks b').getBoundingClientRect();
    const sum = picture.querySelector('.stack').getBoundingClientRect();
    const rows = [...picture.querySelectorAll('.answers li:not(.later)')].map((row) => row.getBoundingClientRect());
    const wires = picture.querySelector('.wires');
    const isWide = rows.length > 0 && asks.right < rows[0].left && rows[0].right < sum.left;
    const wire = (x1, y1, x2, y2, amount) => draw('path', {
      d: `M${x1 - frame.left} ${y1 - frame.top}C${(x1 + x2) / 2 - frame.left} ${y1 - frame.top} ${(x1 + x2) / 2 - frame.left} ${y2 - frame.top} ${x2 - frame.left} ${y2 - frame.top}`,
      'stroke-width': (0.75 + 5 * amount) * typeScale(), opacity: 0.15 + 0.7 * amount,
    });
    wires.replaceChildren(...(isWide ? rows.flatMap((row, i) => {
      const y = (row.top + row.bottom) / 2;
      const asked = wire(asks.right + 4, (asks.top + asks.bottom) / 2, row.left - 2, y, amounts[i]);
      return at === 5 ? [asked, wire(row.right + 4, y, sum.left - 4, (sum.top + sum.bottom) / 2, amounts[i])] : [asked];
    }) : []));
  }

  function drawMissing() {
    const pieces = shownRun().scores.list;
    byId('step-table').replaceChildren();
    if (pieces.length === 0) return;
    const { from, to } = pieces[0];
    const which = to - from === 1 ? placeOf(from) : `${from} … ${to - 1}`;
    redraw(byId('step-note'), `${say('scores missing', which, state.query)} `, make('button', { type: 'button', on: { click: () => chooseQuery(from) } }, say('show query', which)));
  }

  const classOf = (column) => (STEPS[step].indexOf(column) > 0 ? 'current' : null);

  function drawTable() {
    const [name] = state.heads;
    const known = rowOf(name, state.query);
    if (!known) {
      drawMissing();
      return;
    }
    const columns = [['dot', 'q·k'], ['score', isPlain() ? `÷ √${run.facts.d_head}` : 'score'], ['mask', '+ mask'], ['weight', say('weight')], ['norm', '‖v‖'], ['weighted', `${say('weight')} × ‖v‖`]];
    const line = (key, texts, className) => make('tr', { class: className, 'data-key': key }, make('td', {}, String(key)), make('td', { class: 'name' }, make('bdi', {}, labelOf(key))),
      ...columns.map(([column]) => make('td', { class: classOf(column) }, texts[column])));
    const keys = heaviest(known.keys, FEW);
    const rows = keys.map((one) => line(one.key, {
      dot: Number.isNaN(one.dot) ? '–' : fixed(one.dot, 3), score: fixed(one.score, 3), mask: '0', weight: one.weight.toFixed(4), norm: one.norm.toFixed(3), weighted: (one.weight * one.norm).toFixed(3),
    }));
    const out = { dot: '–', score: '–', mask: '−∞', weight: '0', norm: '', weighted: '' };
    for (let key = state.query + 1; key < Math.min(run.n, state.query + 1 + MASKED); key++) rows.push(line(key, out, 'out'));
    const foot = (title, score, weight) => make('tr', {}, make('td', { colspan: 3 }, title), make('td', {}, score), make('td', {}), make('td', { class: classOf('weight') }, weight.toFixed(4)), make('td', { colspan: 2 }));
    const others = weightOf(known.keys) - weightOf(keys);
    byId('step-table').replaceChildren(
      make('thead', {}, make('tr', {}, ...[say('key'), say('token')].map((text) => make('th', { scope: 'col' }, text)), ...columns.map(([column, title]) => make('th', { scope: 'col', class: classOf(column) }, title)))),
      make('tbody', {}, ...rows),
      make('tfoot', {}, ...(known.keys.length > keys.length ? [foot(say('others', known.keys.length - keys.length), '', others)] : []),
        ...(run.facts.sinks ? [foot(say('score learned_sink'), fixed(run.sink(name), 3), known.learned)] : []),
        foot(say('sum'), '', known.keys.reduce((sum, one) => sum + one.weight, known.learned))),
    );
  }

  function drawSteps() {
    byId('steps').hidden = state.shape !== 'steps';
    if (state.shape !== 'steps') {
      stop();
      return;
    }
    drawPlace(state.heads[0]);
    if (choice.childElementCount === 0 || choice.dataset.language !== state.language) {
      choice.dataset.language = state.language;
      choice.replaceChildren(...STEPS.map(([title], i) => {
        const radio = make('input', { type: 'radio', name: 'step', value: i, on: { change: () => { stop(); setStep(i); } } });
        radio.checked = i === step;
        return make('label', {}, radio, ` ${say(title)}`);
      }));
    }
    drawPlay();
    setStep(step);
  }

  byId('play').addEventListener('click', () => {
    if (playing) stop();
    else {
      if (step === 0) step = STEPS.length; // from the start
      play();
    }
  });
  addPart(['run', 'heads', 'query', 'shape', 'size', 'off', 'changes'], drawSteps);
})();

/* Shows what the head's output raises and lowers among the next tokens, by itself and at once: `study explain`. */
(() => {
  const frame = byId('written');

  function list(title, tokens, most, className) {
    return make('div', {}, make('h3', {}, title), make('ol', { class: 'bars' }, ...tokens.map(({ id, token, hex, effect }) => (
      makeBarItem(token !== undefined ? asLabel(token) : asBytes(hex), makeBar(Math.abs(effect) / most, className), signed(effect, 2), { 'data-id': id })))));
  }

  function drawWritten() {
    const [name] = state.heads;
    frame.hidden = state.shape !== 'writes';
    if (frame.hidden) return;
    const known = shownRun().explained.get(`${name} ${state.query}`);
    if (!known) {
      frame.replaceChildren(make('p', { class: 'note' }, isLive() ? unanswered('explain') ?? '…' : say('explain missing', name, state.query)));
      return;
    }
    const most = Math.max(...[...known.raised, ...known.lowered].map(({ effect }) => Math.abs(effect))) || 1;
    frame.replaceChildren(
      make('p', { class: 'across' }, say('writes text', name, isolate(labelOf(state.query)), known.output_norm.toFixed(2))),
      list(say('raises'), known.raised, most, 'up'), list(say('lowers'), known.lowered, most, 'down'),
      make('p', { class: 'note across' }, say('writes note')),
    );
  }

  addPart(['run', 'heads', 'query', 'shape', 'explained', 'unanswered', 'source', 'off', 'changes'], drawWritten);
})();
