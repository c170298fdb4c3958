/*
 * Keeps the numbers up with the state where someone answers: the text, what is switched off, the place under the eye.
 * A text that goes on where it was is asked for from there on, a long one in pieces; what takes longer waits until
 * nothing else is wanted.
 */

const PIECE = 64; // positions asked for at a time
const LENS_PIECE = 8;
const IDLE_MS = 400; // without a key before what takes longer is asked for
let followed = null; // the text that `run` is of
let underWay = null; // the text that is asked for
let own = null; // the page's first text, whose tokens may be others than it is read as: without BOS, with control tokens, written
let begins = []; // --bos or --no-bos, as that first text was read
let toEnd = false; // the eye goes to the last token of the text that is asked for
let placeWanted = null; // the place that an address asks for, until the numbers of its text are there
let isBlank = false; // nothing is typed, so that there are no numbers
let problem = null; // why there are no numbers of the text that is typed

const isLive = () => source.ready;

const sameTokens = (a, b) => {
  let n = 0;
  while (n < a.length && n < b.length && a[n].id === b[n].id) n++;
  return n;
};

/*
 * Ids of texts that the model wrote, or that went on with a token: read again as text they might fall into other tokens.
 */
const idsOf = new Map();

/* Another text, with the eye at its end. */
function goTo(text, written = state.written) {
  toEnd = true;
  change({ text, written });
}

/* One of the page's own texts in place of what is there, which stays to be gone back to. */
function exchange(text) {
  if (state.text && state.text !== text && state.text !== TOUR_TEXT && !Object.values(EXAMPLES).includes(state.text)) remember(state.text, text);
  goTo(text, null);
}

/* A question about a text, or about the one that there are numbers of. */
const askedOf = (text, view, ...options) => [view, ...(idsOf.has(text) ? ['--ids', idsOf.get(text).join(',')] : ['-p', text, ...begins]), ...options];
const asked = (view, ...options) => askedOf(followed, view, ...options);

function followText() {
  clearTimeout(idle);
  drop('tokens', 'text', 'without', 'explain', 'lens', 'tour', 'heads', 'rest');
  const { text } = state;
  underWay = text;
  if (text === '' && run && run.bosId === undefined) {
    isBlank = true;
    refuseText('');
    return;
  }
  want('tokens', askedOf(text, 'tokens'), ({ tokens }) => {
    if (run && tokens.length > run.facts.n_ctx) {
      refuseText(say('long text', tokens.length, run.facts.n_ctx));
      return;
    }
    if (text === own && text === followed && !idsOf.has(text) && (tokens.length !== run.n || sameTokens(tokens, run.tokens) < run.n)) {
      idsOf.set(text, run.tokens.map(({ id }) => id));
      if (tokens[0]?.id !== run.tokens[0]?.id) begins = []; // its ids bring a BOS
      followText();
      return;
    }
    const same = run ? Math.min(sameTokens(tokens, run.tokens), run.n) : 0;
    followPiece(text, Math.max(0, Math.min(same, tokens.length - 1)), tokens.length);
  }, refuseText);
}

function followPiece(text, from, n) {
  const to = Math.min(n, from + PIECE);
  const range = ['--from', String(from), ...(to < n ? ['--to', String(to)] : [])];
  want('text', askedOf(text, 'view', ...range, '--parts', 'predictions,patterns,writes'), (view) => {
    const wasAtEnd = !run || toEnd || state.query >= run.n - 1;
    const isFirst = !run;
    if (isFirst) run = new Run(view);
    else run.take(view);
    isBlank = false;
    markBehind();
    followed = text;
    state.query = placeAfter(wasAtEnd);
    if (isFirst) Address.fit();
    problem = null;
    const show = (...keys) => {
      touch('run', 'query', 'problem', ...keys);
      if (isFirst) drawLate(); // at once: nothing of another model stays to be touched
    };
    if (to < n) {
      show();
      followPiece(text, to, n);
      return;
    }
    toEnd = false;
    underWay = null;
    if (idsOf.has(text) && !endsIn(text)) { // they spell another text
      idsOf.delete(text);
      followText();
      return;
    }
    if (placeWanted !== null) state.query = Math.min(placeWanted, run.n - 1);
    placeWanted = null;
    followChanges(() => show('changes')); // all at once, so that nothing flickers
  }, refuseText);
}

/* The old picture stays; a line says why. */
function refuseText(message) {
  if (idsOf.delete(state.text)) { // perhaps they are no tokens of this model
    followText();
    return;
  }
  underWay = null;
  problem = state.text === '' ? say('no text') : message;
  touch('problem');
}

addPart(['problem', 'run', 'text'], () => byId('main').classList.toggle('blank', isBlank), 'always');

/* Asks for what is missing of the numbers with the changes made, then calls `done`. */
function followChanges(done = () => touch('changes')) {
  const key = keyOfOff(state.off);
  const from = run.without?.key === key ? run.without.n : 0;
  drop('without', 'explain', 'lens', 'rest');
  if (key === '' || from === run.n) {
    done();
    return;
  }
  const to = Math.min(run.n, from + PIECE);
  want('without', asked('view', '--ablate', key, '--ablated-only', ...between(from, to), '--parts', 'predictions,patterns,writes'), (view) => {
    run.takeWithout(view);
    if (to < run.n) followChanges(done);
    else done();
  }, (message) => {
    refuseText(message);
    done();
  });
}

/* Asks for parts of the numbers that are shown. */
function wantParts(kind, options, take) {
  const shown = shownRun();
  const changes = shown === run ? [] : ['--ablate', shown.key, '--ablated-only'];
  want(kind, asked('view', ...options, ...changes), (view) => {
    Object.assign(run.vocabulary, view.vocabulary);
    take(shown, shown === run ? view : changedView(view));
  });
}

const between = (from, to) => ['--from', String(from), '--to', String(to)];

/* Views that are asked for only where they are looked at; those of the model without a change not while there is one. */
function followPlace() {
  const { query } = state;
  const [name] = state.heads;
  if (isBehind()) return;
  if (name && state.shape === 'writes' && !shownRun().explained.has(`${name} ${query}`)) {
    const { layer } = run.place(name);
    wantParts('explain', ['--parts', 'explained', '--layers', String(layer), ...between(query, query + 1)], (shown, { explained }) => {
      if (explained) shown.takeExplained(explained, [layer]);
      touch('explained');
    });
  }
  if (!shownRun().lens[query]) wantLens('lens', query, query + 1);
  clearTimeout(idle);
  idle = setTimeout(followIdle, IDLE_MS);
}

function wantLens(kind, from, to) {
  wantParts(kind, ['--parts', 'lens', ...between(from, to)], (shown, { lens }) => {
    shown.lensRows = lens.rows;
    lens.positions.forEach((answer, i) => {
      shown.lens[from + i] = answer;
    });
    touch('lens');
    if (kind === 'rest') followIdle();
  });
}

/* The scores of the heads, and the layers of all other positions. */
let idle = null;
function followIdle() {
  if (!isLive() || state.text !== followed || isBehind()) return;
  const shown = shownRun();
  if (!run.heads.repeat && run.heads.repeat !== false) {
    want('heads', asked('view', '--parts', 'repeat'), ({ heads }) => {
      run.heads.repeat = heads?.repeat ?? false;
      touch('heads scores');
      followIdle();
    });
  } else if (!shown.heads.text && run.n > 1 && shown.heads.text !== false) {
    wantParts('heads', ['--parts', 'text'], (of, { heads }) => {
      of.heads.text = heads?.text ?? false;
      touch('heads scores');
      followIdle();
    });
  }
  const from = Array.from({ length: run.n }, (_, i) => i).find((i) => !shown.lens[i]);
  if (from === undefined) return;
  let to = from + 1;
  while (to < run.n && to < from + LENS_PIECE && !shown.lens[to]) to++;
  wantLens('rest', from, to);
}

/* Also back to the text that is shown, while another one is asked for or was refused. */
addPart(['text'], () => isLive() && state.text !== null && (state.text !== (underWay ?? followed) || problem !== null) && followText(), 'always');
addPart(['off'], () => isLive() && state.text === followed && followChanges());
addPart(['query', 'heads', 'shape', 'off', 'changes'], () => isLive() && state.text === followed && followPlace());
addPart(['source'], () => isLive() && state.text !== null && followText(), 'always');
