/*
 * The distribution after the chosen position, what temperature and top-p would leave of it, and going on: with a token
 * of it, or with what the sampler draws. The page holds the logits of the likeliest tokens and, for each temperature of
 * the slider, what all the others sum to, so that probabilities are exact; but where top-p reaches beyond the tokens
 * listed, what it holds is not known to the last one.
 */

/* {entropy, top: [{id, logit, p}]} after a position; p at temperature 1, unfiltered. */
function distributionAfter(position, of = shownRun()) {
  const { entropy_nats: entropy, log_sum: logSum, top: flat } = of.next[position];
  return { entropy, top: pairsOf(flat).map(([id, logit]) => ({ id, logit, p: Math.exp(logit - logSum) })) };
}

/* The bounds of any token's probability, [least, most]: one that such a list does not have is no likelier than its last. */
function boundsAfter(position, of) {
  const { top } = distributionAfter(position, of);
  const listed = new Map(top.map(({ id, p }) => [id, [p, p]]));
  return (id) => listed.get(id) ?? [0, top.at(-1).p];
}

/*
 * How text is drawn. A page begins with what the model's file asks for: where it names any option, with all that ./run
 * would take, and else with temperature 1 and all tokens. What is chosen on the page goes before it.
 */
const Sampling = (() => {
  const FILTERS = ['top-k', 'min-p'];
  const PENALTIES = ['repeat-penalty', 'presence-penalty', 'frequency-penalty'];
  const OFF = { temp: 1, 'top-k': 0, 'top-p': 1, 'min-p': 0, 'repeat-penalty': 1, 'repeat-last-n': 64, 'presence-penalty': 0, 'frequency-penalty': 0 };
  const ORDER = 'penalties;top_k;top_p;min_p;temperature';

  const wishes = () => run?.facts.sampling ?? null; // null: nothing that makes sense
  const optionOf = (name) => wishes()?.options.find((option) => option.name === name);
  const hasOrder = () => wishes()?.order_from === 'file';
  const speaks = () => hasOrder() || (wishes()?.options.some(({ from }) => from === 'file') ?? false);
  const begins = (name) => (speaks() ? optionOf(name).value : OFF[name]);
  const notOff = (names) => names.filter((name) => begins(name) !== OFF[name]);
  const beginning = () => ({ temperature: begins('temp'), topP: begins('top-p') || 1 }); // top-p 0 keeps all, too
  return {
    beginning,
    isFromFile: (name) => optionOf(name)?.from === 'file',
    temperature: () => state.temperature ?? beginning().temperature,
    topP: () => state.topP ?? beginning().topP,
    topK: () => (state.plainSteps ? 0 : begins('top-k')),
    minP: () => (state.plainSteps ? 0 : begins('min-p')),
    /* The file's wishes beyond temperature and top-p, as [name, value]; and whether it gives the steps an order of its own. */
    others: () => notOff([...FILTERS, ...PENALTIES]).map((name) => [name, begins(name)]),
    hasOrder,
    notDone: () => wishes()?.not_done ?? [],
    /* Whether the page does not know what they do to the numbers that it has. */
    isUnknown: () => !state.plainSteps && (hasOrder() || notOff(PENALTIES).length > 0),
    /* Those of `study next --draw`, which takes the others from the file. */
    options: () => {
      const plain = state.plainSteps || !wishes();
      const values = { ...(plain ? OFF : {}), temp: Sampling.temperature(), 'top-p': Sampling.topP() };
      return [...Object.entries(values).flatMap(([name, value]) => [`--${name}`, String(value)]), ...(plain ? ['--samplers', ORDER] : [])];
    },
  };
})();

/*
 * ln Σ exp((logit − max)/T) of the tokens that are not listed: as the page holds it for the temperatures of the slider;
 * between them by 1/T, at whose 0 it is the logarithm of their number.
 */
function logRestAt(position, temperature) {
  const { rest, top } = shownRun().next[position];
  const { temperature_step: step, n_vocab: nVocab } = run.facts;
  const knots = [...rest.map((log, i) => [1 / (step * (i + 1)), log ?? -Infinity]), [0, Math.log(nVocab - top.length / 2)]];
  const exact = knots.find(([x]) => Math.abs(x * temperature - 1) < 1e-5);
  if (exact) return { logRest: exact[1], exact: true };
  const at = knots.findIndex(([x]) => x < 1 / temperature);
  const [[cold, from], [warm, to]] = [knots[Math.max(0, at - 1)], knots[at]];
  const share = at === 0 || from === -Infinity ? 0 : (cold - 1 / temperature) / (cold - warm);
  return { logRest: share === 0 ? from : from + share * (to - from), exact: false };
}

/*
 * The distribution that a sampler draws from: {p: of each of `top`, kept: how many tokens, null when it is more than are
 * listed}. Top-k keeps the likeliest; top-p the likeliest of these until they hold that share; min-p those that have
 * that share of the best; then temperature divides their logits, as `study next` does. Temperature 0 draws the
 * likeliest.
 */
function drawnFrom(position, { temperature, topP, topK, minP }) {
  const { top } = distributionAfter(position);
  const nVocab = run.facts.n_vocab;
  if (temperature === 0) return { p: top.map((_, i) => (i === 0 ? 1 : 0)), kept: 1 };
  const all = topP >= 1;
  const most = topK > 0 ? Math.min(topK, nVocab) : nVocab;
  const listed = Math.min(most, top.length);
  const mass = most <= top.length ? top.slice(0, most).reduce((sum, { p }) => sum + p, 0) : 1;
  let held = 0;
  let kept = 0;
  while (kept < listed && (all || held <= topP * mass)) held += top[kept++].p;
  const reached = kept;
  while (kept > 1 && top[kept - 1].p < minP * top[0].p) kept--;
  const further = kept === reached && most > top.length && (all || held <= topP); // tokens that are not listed are kept, too
  const { logRest, exact } = further ? logRestAt(position, temperature) : { logRest: -Infinity, exact: true };
  const powers = top.map((token, i) => (i < kept ? Math.exp((token.logit - top[0].logit) / temperature) : 0));
  const sum = powers.reduce((a, b) => a + b, Math.exp(logRest) * (all ? 1 : (topP - held) / (1 - held)));
  const everything = all && most === nVocab && minP === 0;
  return { p: powers.map((power) => power / sum), kept: further ? null : kept, all: everything, approximate: further && !(everything && exact) };
}

const LARGEST_SEED = 9e15; // that `study next` and `run` take

/* Texts that were tried, so that one can go back to each; the tree is made of which begins another. */
let tried = [];
const writtenIn = new Map(); // where in each of them the model began

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
  byId('plain-steps').addEventListener('change', (event) => change({ plainSteps: !event.target.checked }));
  byId('next-reset').addEventListener('click', () => change({ temperature: null, topP: null, plainSteps: false }));
  byId('seed').addEventListener('change', (event) => change({ seed: Math.max(0, Math.min(LARGEST_SEED, Math.round(Number(event.target.value)) || 0)) }));

  const isFiltered = () => Sampling.temperature() !== 1 || Sampling.topP() < 1 || Sampling.topK() > 0 || Sampling.minP() > 0 || Sampling.isUnknown();
  const isAsBegun = () => Sampling.temperature() === Sampling.beginning().temperature && Sampling.topP() === Sampling.beginning().topP && !state.plainSteps;
  const shownNumber = (value, digits) => (Math.abs(value - value.toFixed(digits)) < 1e-5 ? value.toFixed(digits) : String(Number(value.toPrecision(3))));

  /* The sliders, and what of all this is the file's. */
  function drawControls() {
    const [chosen, begun] = [{ temperature: Sampling.temperature(), topP: Sampling.topP() }, Sampling.beginning()];
    const set = (slider, value, digits) => {
      slider.value = value;
      byId(`${slider.id}-value`).value = shownNumber(value, digits);
      slider.setAttribute('aria-valuetext', shownNumber(value, digits));
    };
    temperature.step = run.facts.temperature_step;
    temperature.max = run.facts.temperature_step * run.next[state.query].rest.length;
    set(temperature, chosen.temperature, 1);
    set(topP, chosen.topP, 2);
    byId('seed').value = state.seed;
    setUsable(byId('next-reset'), !isAsBegun());
    const others = Sampling.others().map(([name, value]) => `${name} ${shownNumber(value, 0)}`);
    if (Sampling.hasOrder()) others.push(say('own order'));
    byId('other-steps').hidden = others.length === 0;
    byId('plain-steps').checked = !state.plainSteps;
    byId('other-steps-words').textContent = say('other steps', others.join(', '));
    const askedFor = [['temp', 'temperature', 'temperature'], ['top-p', 'topP', 'top-p']].filter(([name, key]) => Sampling.isFromFile(name) && chosen[key] === begun[key]).map(([, , words]) => say(words));
    const notes = askedFor.length > 0 ? [say('as asked', askedFor.join(', '))] : [];
    if (Sampling.notDone().length > 0) notes.push(say('not done', visible(Sampling.notDone().join(', '))));
    byId('sampling-note').textContent = notes.join(' ');
    byId('sampling-note').hidden = notes.length === 0;
  }

  function drawAll() {
    const { entropy, top } = distributionAfter(state.query);
    const drawn = drawnFrom(state.query, { temperature: Sampling.temperature(), topP: Sampling.topP(), topK: Sampling.topK(), minP: Sampling.minP() });
    drawn.approximate ||= Sampling.isUnknown();
    drawControls();
    byId('next-title').textContent = say('next', isolate(labelOf(state.query)));
    drawBars(top, drawn);
    byId('next-summary').textContent = `${say('openness', bits(entropy), Math.exp(entropy).toFixed(1), run.facts.n_vocab)}${isChanged() ? ` ${say('points note')}` : ''}`;
    drawTable(top, drawn);
    drawNote(top, drawn);
  }

  /*
   * Absolute: a bar of 4 % is 4 % long. With changes made, the bar before stands around it as an outline. Until somebody
   * samples otherwise than the file asks, bars show what the model says.
   */
  function drawBars(top, drawn) {
    const filtered = isFiltered() && !isAsBegun();
    const follows = run.tokens[state.query + 1]?.id;
    const before = isChanged() ? boundsAfter(state.query, run) : null;
    const rows = top.slice(0, FEW).map((token, i) => {
      const bar = filtered ? makeBar(drawn.p[i], 'drawn', token.p) : makeBar(token.p, '', before ? before(token.id)[0] : null);
      const shown = filtered ? drawn.p[i] : token.p;
      const content = [make('bdi', {}, labelOfId(token.id)), bar, make('span', {}, percent(shown))];
      if (before) content.push(change0(token.p, before(token.id)));
      const canGo = isLive() && followed === state.text && endsIn(followed);
      return make('li', { class: token.id === follows ? 'itself' : null, 'data-id': token.id }, canGo
        ? make('button', { type: 'button', class: 'row', 'data-key': `${state.query} ${token.id}`, title: say('go on', labelOfId(token.id)), on: { click: () => goOn(token.id) } }, ...content)
        : make('span', { class: 'row', title: token.id === follows ? say('follows') : null }, ...content));
    });
    const listed = top.slice(0, FEW);
    const others = 1 - (filtered ? drawn.p.slice(0, FEW) : listed.map(({ p }) => p)).reduce((a, b) => a + b, 0);
    rows.push(make('li', { class: 'dim' }, make('span', { class: 'row' }, make('span', { class: 'others-name' }, say('all others', run.facts.n_vocab - listed.length)), makeBar(Math.max(0, others), 'others'), make('span', {}, percent(Math.max(0, others))))));
    redraw(byId('expected'), ...rows);
    byId('expected').classList.toggle('changed', before !== null);
  }

  /* In points; of a token that was not listed by how many at least. */
  function change0(p, [least, most]) {
    const delta = p - most;
    const points = percent(Math.abs(delta)).replace(/ %$/, '');
    if (least < most && delta <= 0) return make('span', {}, '–');
    if (points.startsWith('<')) return make('span', {}, '± 0 pp');
    return make('span', { class: delta > 0 ? 'up' : 'down' }, `${least < most ? '≥ ' : ''}${delta > 0 ? '+' : '−'}${points} pp`);
  }

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
      if (Sampling.isUnknown()) notes.push(say('drawn otherwise'));
      else if (Sampling.temperature() === 0) notes.push(say('drawn best'));
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
   * A token at a time, as `run -s SEED` draws them behind the same prompt with these options, but with the changes made;
   * `drawn` says how many numbers it has drawn already.
   */
  function drawOne() {
    if (run.n >= run.facts.n_ctx) {
      stop(say('context full', run.facts.n_ctx));
      return;
    }
    const options = ['--draw', String(writing.drawn), '--seed', String(state.seed), ...Sampling.options(), '--top', '1'];
    if (isAnyOff()) options.push('--ablate', keyOfOff(state.off));
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
    if (!writing || state.text === writing.text) return;
    presses = [];
    stop();
  });

  /* Numbers of what was drawn do not come: nor does the rest. */
  addPart(['problem', 'unanswered'], () => {
    if (writing && (problem !== null || source.gone)) stop(problem ?? say('server gone'));
  });

  function start(tokens) {
    const from = state.written !== null && state.written <= followed.length ? state.written : followed.length;
    const ends = endsIn(followed);
    const drawn = ends.filter((end, i) => i > 0 && ends[i - 1] >= from).length;
    remember(followed);
    writing = { tokens, left: tokens, from, drawn, text: followed };
    drawOne();
    touch('writing');
  }

  function stop(why = null) {
    if (why !== null) presses = [];
    if (writing) remember(writing.text);
    writing = null;
    drop('drawn');
    problem = why;
    touch('writing', 'problem');
  }

  /* Takes back the last token; it stays in the tree. */
  function back() {
    if (followed === '') return;
    const ends = endsIn(followed);
    const text = followed.slice(0, ends.findLast((end) => end < followed.length) ?? 0);
    remember(followed, text);
    goTo(text, state.written !== null && state.written < text.length ? state.written : null);
  }

  /* A press waits for numbers that are under way. */
  let presses = [];

  function press(action) {
    presses.push(action);
    doPressed();
  }

  /* Whether the numbers of the text do not come, or say nothing of its letters. */
  const isStuck = () => (state.text === followed ? endsIn(followed ?? '') === null : problem !== null);

  function doPressed() {
    if (isStuck()) presses = [];
    while (presses.length > 0 && state.text === followed && !writing) presses.shift()();
  }

  byId('write').addEventListener('click', () => {
    if (!writing) press(() => start(WRITES));
    else {
      presses = [];
      stop();
    }
  });
  byId('step-on').addEventListener('click', () => press(() => start(1)));
  byId('step-back').addEventListener('click', () => press(back));
  addPart(['run', 'source', 'writing', 'text', 'problem'], () => {
    byId('writing').hidden = !isLive();
    byId('seed-label').hidden = !isLive();
    byId('write').textContent = say(writing ? 'stop' : 'write');
    const isFree = !isStuck() && !(writing?.tokens > 1);
    setUsable(byId('write'), writing !== null || isFree);
    setUsable(byId('step-on'), isFree);
    setUsable(byId('step-back'), isFree && state.text !== '');
    doPressed();
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
      make('button', { type: 'button', class: 'quiet', 'data-key': node.text, 'aria-current': node.text === state.text ? 'true' : false, on: { click: () => goTo(node.text, writtenIn.get(node.text) ?? null) } },
        make('bdi', {}, shorten(asLabel(node.text.slice(begins)) || '∅'))),
      node.children.length ? make('ul', {}, ...node.children.map(item)) : null);
    byId('tree').hidden = tried.length < 2;
    redraw(byId('tree'), make('h2', {}, say('tree')), make('ul', {}, ...roots.map(item)));
  }

  const shorten = (text) => (text.length > 60 ? `${text.slice(0, 28)}…${text.slice(-28)}` : text);

  addPart(['query', 'run', 'changes', 'off', 'temperature', 'topP', 'plainSteps', 'seed', 'source'], drawAll);
  addPart(['tree', 'text', 'written'], () => tried.includes(state.text) && writtenIn.set(state.text, state.written), 'always');
  addPart(['tree', 'text'], drawTree, 'always');
})();
