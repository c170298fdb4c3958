/*
 * Why a head looks where it does, and which parts of the model raise or lower a token: `study attribute`, of the model
 * without a change. Only a page that is served has an answer, for the engine in a page goes without this view.
 */

const isServed = () => source.kind === 'server' && isLive();

/* The key that is asked about: the one that was chosen of this head and query, or else the heaviest. */
function lookedAt() {
  const [, name, query, key] = /^(L\d+H\d+):(\d+)>(\d+)$/.exec(state.looked ?? '') ?? [];
  if (name === state.heads[0] && Number(query) === state.query && Number(key) <= state.query) return Number(key);
  return heaviestKey(shownRun().weightsAt(state.heads[0], state.query));
}

const scoreName = (name, query, key) => `${name}:${query}>${key}`;

/* Shows why a head looks from a query at a key. */
function askWhy(name, query, key) {
  change({ heads: [name], part: name, pinned: true, query, shape: 'why', looked: scoreName(name, query, key) });
  byId('look').scrollIntoView({ block: 'nearest', behavior: isStill() ? 'auto' : 'smooth' });
}

(() => {
  const KEYS = 8; // to choose from, the heaviest
  const CELLS = 8;
  const PARTS = 6;
  const frame = byId('why');
  const details = byId('attributed');
  let score = null; // the newest answer: {of, answer or message}
  let logit = null; // likewise of the token's parts
  let chosen = null; // {of, id}: the token that was chosen to be told about

  const unchanged = () => (isChanged() ? make('strong', { class: 'of-unchanged' }, say('unchanged model')) : null);

  /* Numbers with their names, as bars that share a scale; below 0 in another colour. */
  function list(title, rows, most, className = '') {
    return make('div', {}, make('h3', {}, title), make('ol', { class: `bars ${className}` }, ...rows.map(([name, value]) => (
      makeBarItem(name, makeBar(Math.abs(value) / most, value < 0 ? 'down' : 'up'), signed(value, 2))))));
  }

  const largest = (rows) => Math.max(...rows.map(([, value]) => Math.abs(value))) || 1;
  const bySize = (rows) => [...rows].sort(([, a], [, b]) => Math.abs(b) - Math.abs(a)).slice(0, PARTS);

  /* Asks unless the answer is there, or under way. */
  function follow(kind, of, known, keep, ...options) {
    if (!isServed() || state.text !== followed || known?.of === of) return;
    keep({ of });
    want(kind, asked('attribute', ...options), (answer) => keep({ of, answer }), (message) => keep({ of, message }));
  }

  const scoreOf = () => scoreName(state.heads[0], state.query, lookedAt());

  function chooseKey(key) {
    const row = shownRun().weightsAt(state.heads[0], state.query);
    const keys = Array.from(row.keys()).sort((a, b) => row[b] - row[a]).slice(0, KEYS);
    if (!keys.includes(key)) keys.push(key);
    const select = make('select', { on: { change: () => change({ looked: scoreName(state.heads[0], state.query, Number(select.value)) }) } },
      ...keys.sort((a, b) => a - b).map((one) => make('option', { value: one, selected: one === key }, placeOf(one))));
    return make('label', {}, `${say('key')} `, select);
  }

  function drawScore(key, choice, { strongest, parts, score: value, weight }) {
    const cells = strongest.map((cell) => [`${cell.query} × ${cell.key}`, cell.value]);
    const [queries, keys] = ['query', 'key'].map((side) => parts.map((part) => [part.part, part[side]]));
    const most = largest([...queries, ...keys]);
    redraw(frame, ...[
      make('p', { class: 'across' }, say('why text', state.heads[0], placeOf(state.query), placeOf(key), fixed(value, 2), weightText(weight)), ' ', unchanged()),
      choice,
      list(say('why cells'), cells, largest(cells), 'pairs'),
      make('div', {}, list(say('why query'), bySize(queries), most), list(say('why key'), bySize(keys), most)),
      make('p', { class: 'note across' }, say('why note')),
    ].filter(Boolean));
  }

  function drawWhy() {
    byId('why-choice').hidden = !isServed();
    frame.hidden = state.shape !== 'why';
    if (frame.hidden) return;
    const of = scoreOf();
    const about = `${followed} ${of}`;
    follow('why', about, score, (kept) => { score = kept; touch('why'); }, '--score', of, '--top', String(CELLS));
    const choice = isServed() ? make('p', { class: 'controls across' }, chooseKey(lookedAt())) : '';
    if (score?.of === about && score.answer) drawScore(lookedAt(), choice, score.answer);
    else redraw(frame, make('p', { class: 'note across' }, score?.of === about && score.message ? visible(unanswered('why') ?? score.message) : isServed() ? '…' : say('why missing', of)), choice);
  }

  /* The tokens to choose from, and what raises and lowers the one that is chosen. */
  function drawAttributed() {
    details.hidden = false;
    if (!details.open) return;
    if (!isServed()) {
      byId('attributed-parts').replaceChildren(make('p', { class: 'note' }, say('attributed missing')));
      return;
    }
    const { top } = distributionAfter(state.query, run);
    const place = `${followed} ${state.query}`;
    const id = chosen?.of === place ? chosen.id : top[0].id;
    const about = `${place} ${id}`;
    follow('attributed', about, logit, (kept) => { logit = kept; touch('attributed'); }, '--query', String(state.query), '--answer', `#${id}`, '--top', '0');
    const select = make('select', { on: { change: () => { chosen = { of: place, id: Number(select.value) }; touch('attributed'); } } },
      ...top.slice(0, KEYS).map((token) => make('option', { value: token.id, selected: token.id === id }, labelOfId(token.id))));
    const { answer, message } = logit?.of === about ? logit : {};
    const rows = answer?.parts.map(({ part, value }) => [part, value]) ?? [];
    const most = largest(rows);
    redraw(byId('attributed-parts'), ...[
      make('p', { class: 'controls' }, make('label', {}, `${say('token')} `, select), unchanged()),
      answer ? list(say('raises'), bySize(rows.filter(([, value]) => value > 0)), most) : make('p', { class: 'note' }, message ? visible(unanswered('attributed') ?? message) : '…'),
      answer ? list(say('lowers'), bySize(rows.filter(([, value]) => value < 0)), most) : null,
      answer ? make('p', { class: 'note' }, say('attributed note', fixed(answer.logit, 2))) : null,
    ].filter(Boolean));
  }

  details.addEventListener('toggle', () => run && drawAttributed());
  addPart(['run', 'heads', 'query', 'shape', 'looked', 'why', 'unanswered', 'source', 'text', 'off', 'changes'], drawWhy);
  addPart(['run', 'query', 'attributed', 'unanswered', 'source', 'text', 'off', 'changes'], drawAttributed);
})();
