/*
 * The distribution after the chosen position, what temperature and top-p would leave of it, and going on: with a token
 * of it, or with what the sampler draws. The page holds the logits of the likeliest tokens and, for each temperature of
 * the slider, what all the others sum to, so that probabilities are exact; but where top-p reaches beyond the tokens
 * listed, what it holds is not known to the last one.
 */

/* {entropy, top: [{id, logit, p}]} after a position; p at temperature 1, unfiltered. */
function distributionAfter(position, of = shownRun()) {
  const { entropy_nats: entropy, log_sum: logSum, top: flat } = of.next[position];
  const top = [];
  for (let i = 0; i < flat.length; i += 2) top.push({ id: flat[i], logit: flat[i + 1], p: Math.exp(flat[i + 1] - logSum) });
  return { entropy, top };
}

/*
 * What a sampler draws from: {p: of each of `top`, kept: how many tokens, null when it is more than are listed}. Top-p keeps
 * the likeliest tokens until they hold that share; then temperature divides their logits, as `study next` does.
 * Temperature 0 draws the likeliest.
 */
function drawnFrom(position, temperature, topP) {
  const { top } = distributionAfter(position);
  const { rest } = shownRun().next[position];
  if (temperature === 0) return { p: top.map((_, i) => (i === 0 ? 1 : 0)), kept: 1 };
  const all = topP >= 1;
  let held = 0;
  let kept = 0;
  while (kept < top.length && (all || held <= topP)) held += top[kept++].p;
  const further = all || held <= topP; // tokens that are not listed are kept, too: all, or by their share
  const logRest = rest[Math.round(temperature / run.facts.temperature_step) - 1];
  const restSum = !further || logRest === null ? 0 : Math.exp(logRest) * (all ? 1 : (topP - held) / (1 - held));
  const powers = top.map((token, i) => (i < kept ? Math.exp((token.logit - top[0].logit) / temperature) : 0));
  const sum = powers.reduce((a, b) => a + b, restSum);
  return { p: powers.map((power) => power / sum), kept: further && !(all && top.length === run.facts.n_vocab) ? null : kept, all, approximate: further && !all };
}

/* Texts that were tried, so that one can go back to each; the tree is made of which begins another. */
let tried = [];

function remember(...texts) {
  tried = [...new Set([...tried, ...texts])].slice(-40);
  touch('tree');
}

(() => {
  const FEW = 8; // tokens shown as bars
  const WRITES = 48; // tokens at most before "Write" stops by itself
  const temperature = byId('temperature');
  const topP = byId('top-p');
  let writing = null; // {left: tokens, from: the prompt, drawn: so far}

  temperature.addEventListener('input', () => change({ temperature: Number(temperature.value) }));
  topP.addEventListener('input', () => change({ topP: Number(topP.value) }));
  byId('next-reset').addEventListener('click', () => change({ temperature: 1, topP: 1 }));
  byId('seed').addEventListener('change', (event) => change({ seed: Math.max(0, Math.round(Number(event.target.value)) || 0) }));

  const isFiltered = () => state.temperature !== 1 || state.topP < 1;

  function drawAll() {
    const { entropy, top } = distributionAfter(state.query);
    const drawn = drawnFrom(state.query, state.temperature, state.topP);
    temperature.step = run.facts.temperature_step;
    temperature.max = run.facts.temperature_step * run.next[state.query].rest.length;
    temperature.value = state.temperature;
    topP.value = state.topP;
    byId('seed').value = state.seed;
    byId('temperature-value').value = state.temperature.toFixed(1);
    byId('top-p-value').value = state.topP.toFixed(2);
    byId('next-reset').disabled = !isFiltered();
    byId('next-title').textContent = say('next', isolate(labelOf(state.query)));
    drawBars(top, drawn);
    byId('next-summary').textContent = `${say('openness', bits(entropy), Math.exp(entropy).toFixed(1), run.facts.n_vocab)}${isChanged() ? ` ${say('points note')}` : ''}`;
    drawTable(top, drawn);
    drawNote(top, drawn);
  }

  /* Absolute: a bar of 4 % is 4 % long. With changes made, the bar before stands around it as an outline. */
  function drawBars(top, drawn) {
    const follows = run.tokens[state.query + 1]?.id;
    const before = isChanged() ? new Map(distributionAfter(state.query, run).top.map(({ id, p }) => [id, p])) : null;
    const rows = top.slice(0, FEW).map((token, i) => {
      const bar = isFiltered() ? makeBar(drawn.p[i], 'drawn', token.p) : makeBar(token.p, '', before ? before.get(token.id) ?? 0 : null);
      const shown = isFiltered() ? drawn.p[i] : token.p;
      const content = [make('bdi', {}, labelOfId(token.id)), bar, make('span', {}, percent(shown))];
      if (before) content.push(change0(token.p - (before.get(token.id) ?? 0)));
      const canGo = isLive() && followed === state.text && endsIn(followed);
      return make('li', { class: token.id === follows ? 'itself' : null, 'data-id': token.id }, canGo
        ? make('button', { type: 'button', class: 'row', title: say('go on', labelOfId(token.id)), on: { click: () => goOn(token.id) } }, ...content)
        : make('span', { class: 'row', title: token.id === follows ? say('follows') : null }, ...content));
    });
    const listed = top.slice(0, FEW);
    const others = 1 - (isFiltered() ? drawn.p.slice(0, FEW) : listed.map(({ p }) => p)).reduce((a, b) => a + b, 0);
    rows.push(make('li', { class: 'dim' }, make('span', { class: 'row' }, make('span', {}, say('all others', run.facts.n_vocab - listed.length)), makeBar(Math.max(0, others), 'others'), make('span', {}, percent(Math.max(0, others))))));
    byId('expected').replaceChildren(...rows);
    byId('expected').classList.toggle('changed', before !== null);
  }

  const change0 = (delta) => make('span', { class: delta > 0 ? 'up' : 'down' }, `${delta > 0 ? '+' : '−'}${percent(Math.abs(delta)).replace(/ %$/, '')} pp`);

  function drawTable(top, drawn) {
    const actual = run.tokens[state.query + 1];
    const filtered = isFiltered();
    const columns = ['rank', 'token', 'p', 'bits', 'logit'].map((name) => make('th', { scope: 'col' }, say(name)));
    const rows = top.map((token, i) => {
      const follows = actual && token.id === actual.id;
      const row = make(
        'tr', { class: follows ? 'itself' : filtered && drawn.p[i] === 0 ? 'out' : null, title: follows ? say('follows') : null },
        make('td', {}, String(i + 1)), make('td', { class: 'name' }, make('bdi', {}, labelOfId(token.id))),
        make('td', {}, percent(token.p)), make('td', {}, bits(-Math.log(token.p))), make('td', {}, fixed(token.logit, 3)),
      );
      if (filtered) row.append(make('td', {}, drawn.p[i] === 0 ? '–' : (drawn.approximate ? '≈ ' : '') + percent(drawn.p[i])));
      return row;
    });
    byId('distribution').replaceChildren(
      make('thead', {}, make('tr', {}, ...columns, filtered ? make('th', { scope: 'col' }, say('drawn')) : null)), make('tbody', {}, ...rows),
    );
  }

  function drawNote(top, drawn) {
    const held = top.reduce((sum, token) => sum + token.p, 0);
    const notes = [say('table note', top.length, percent(held), run.facts.n_vocab - top.length)];
    if (isFiltered()) {
      notes.push(say('drawn note'));
      if (state.temperature === 0) notes.push(say('drawn best'));
      else if (drawn.all) notes.push(say('drawn all'));
      else if (drawn.kept === null) notes.push(say('drawn unknown', top.length));
      else notes.push(say('drawn some', drawn.kept));
    }
    byId('next-note').textContent = notes.join(' ');
  }

  /* The text up to a position and one token more. Half a character at its end is �, until the other half follows. */
  function textBehind(position, token) {
    const tokens = [...run.tokens.slice(0, position + 1), token];
    const joined = textsOf(tokens, run.bos).join('');
    const text = joined.startsWith(' ') && !followed.startsWith(' ') ? joined.slice(1) : joined;
    idsOf.set(text, tokens.map(({ id }) => id));
    return text;
  }

  /* Goes on with a token at the chosen position: what stood behind it stays in the tree. */
  function goOn(id) {
    const end = endsIn(followed)[state.query];
    const text = textBehind(state.query, run.tokenOf(id));
    remember(followed, text);
    goTo(text, state.written !== null && state.written <= end ? state.written : end);
  }

  /*
   * A token at a time, as `run -s SEED --temp X --top-p P` draws them behind the same prompt, but with the changes made;
   * `drawn` says how many numbers it has drawn already.
   */
  function drawOne() {
    if (run.n >= run.facts.n_ctx) {
      stop(say('context full', run.facts.n_ctx));
      return;
    }
    const options = ['--draw', String(writing.drawn), '--seed', String(state.seed), '--temp', String(state.temperature), '--top-p', String(state.topP), '--top', '1'];
    if (Object.keys(state.off).length > 0) options.push('--ablate', keyOfOff(state.off));
    want('drawn', asked('next', ...options), ({ drawn }) => {
      if (!writing) return;
      if (drawn.end) {
        stop(say('text ended'));
        return;
      }
      writing.drawn++;
      writing.left--;
      writing.text = textBehind(run.n - 1, drawn);
      goTo(writing.text, writing.from);
    }, stop);
  }

  /* Numbers of what was drawn are there: on, or the end. */
  addPart(['run'], () => {
    if (!writing || followed !== writing.text) return;
    if (writing.left > 0) drawOne();
    else stop();
  });
  addPart(['text'], () => {
    if (writing && state.text !== writing.text) stop();
  });

  function start(tokens) {
    const from = state.written !== null && state.written <= followed.length ? state.written : followed.length;
    const ends = endsIn(followed);
    const drawn = ends.filter((end, i) => i > 0 && ends[i - 1] >= from).length;
    remember(followed);
    writing = { left: tokens, from, drawn, text: followed };
    drawOne();
    touch('writing');
  }

  function stop(why = null) {
    if (writing) remember(writing.text);
    writing = null;
    drop('drawn');
    problem = why;
    touch('writing', 'problem');
  }

  /* Takes back the last token; it stays in the tree. */
  function back() {
    const ends = endsIn(followed);
    const text = followed.slice(0, ends.findLast((end) => end < followed.length) ?? 0);
    remember(followed, text);
    goTo(text, state.written !== null && state.written < text.length ? state.written : null);
  }

  byId('write').addEventListener('click', () => (writing ? stop() : start(WRITES)));
  byId('step-on').addEventListener('click', () => start(1));
  byId('step-back').addEventListener('click', back);
  addPart(['run', 'source', 'writing', 'text'], () => {
    byId('writing').hidden = !isLive();
    byId('seed-label').hidden = !isLive();
    byId('write').textContent = say(writing ? 'stop' : 'write');
    const settled = state.text === followed && endsIn(followed ?? '') !== null;
    byId('write').disabled = !settled && !writing;
    byId('step-on').disabled = !settled || writing !== null;
    byId('step-back').disabled = !settled || writing !== null || followed === '';
  });

  /* The tree: each text under the longest other that begins it. */
  function drawTree() {
    const texts = [...tried].sort((a, b) => a.length - b.length);
    const nodes = new Map(texts.map((text) => [text, { text, children: [] }]));
    const roots = [];
    for (const node of nodes.values()) {
      const parent = texts.findLast((other) => other.length < node.text.length && node.text.startsWith(other));
      if (parent === undefined) roots.push({ node, begins: 0 });
      else nodes.get(parent).children.push({ node, begins: parent.length });
    }
    const item = ({ node, begins }) => make('li', {},
      make('button', { type: 'button', class: 'quiet', 'aria-current': node.text === state.text ? 'true' : false, on: { click: () => goTo(node.text) } },
        make('bdi', {}, shorten(asLabel(node.text.slice(begins)) || '∅'))),
      node.children.length ? make('ul', {}, ...node.children.map(item)) : null);
    byId('tree').hidden = tried.length < 2;
    byId('tree').replaceChildren(make('h2', {}, say('tree')), make('ul', {}, ...roots.map(item)));
  }

  const shorten = (text) => (text.length > 60 ? `${text.slice(0, 28)}…${text.slice(-28)}` : text);

  addPart(['query', 'run', 'changes', 'off', 'temperature', 'topP', 'seed', 'source'], drawAll);
  addPart(['tree', 'text'], drawTree, 'always');
})();
