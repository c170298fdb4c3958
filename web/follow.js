/*
 * Keeps the numbers up with the state where someone answers: the text, what is switched off, the place under the eye.
 * A text that goes on where it was is asked for from there on, a long one in pieces; what takes longer waits until
 * nothing else is wanted.
 */

const PIECE = 64; // positions asked for at a time
const LENS_PIECE = 8;
const IDLE_MS = 400; // without a key before what takes longer is asked for
let followed = null; // the text that `run` is of
let toEnd = false; // the eye goes to the last token of the text that is asked for
let placeWanted = null; // the place that an address asks for, until the numbers of its text are there
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

/* A question about the text. */
const asked = (view, ...options) => [view, ...(idsOf.has(state.text) ? ['--ids', idsOf.get(state.text).join(','), '--no-bos'] : ['-p', state.text]), ...options];

function followText() {
  clearTimeout(idle);
  drop('tokens', 'text', 'without', 'explain', 'lens', 'tour', 'heads', 'rest');
  const { text } = state;
  if (text === '' && run && run.bosId === undefined) {
    refuseText('');
    return;
  }
  want('tokens', asked('tokens'), ({ tokens }) => {
    if (run && tokens.length > run.facts.n_ctx) {
      refuseText(say('long text', tokens.length, run.facts.n_ctx));
      return;
    }
    const same = run ? Math.min(sameTokens(tokens, run.tokens), run.n) : 0;
    followPiece(text, Math.max(0, Math.min(same, tokens.length - 1)), tokens.length);
  }, refuseText);
}

function followPiece(text, from, n) {
  const to = Math.min(n, from + PIECE);
  const range = ['--from', String(from), ...(to < n ? ['--to', String(to)] : [])];
  want('text', asked('view', ...range, '--parts', 'predictions,patterns,writes'), (view) => {
    const wasAtEnd = !run || toEnd || state.query >= run.n - 1;
    const isFirst = !run;
    if (isFirst) run = new Run(view);
    else run.take(view);
    followed = text;
    state.query = placeAfter(wasAtEnd);
    if (isFirst) Address.fit();
    problem = null;
    if (to < n) {
      touch('run', 'query', 'problem');
      followPiece(text, to, n);
      return;
    }
    toEnd = false;
    if (idsOf.has(text) && !endsIn(text)) { // they spell another text
      idsOf.delete(text);
      followText();
      return;
    }
    if (placeWanted !== null) state.query = Math.min(placeWanted, run.n - 1);
    placeWanted = null;
    followChanges(() => touch('run', 'query', 'problem', 'changes')); // all at once, so that nothing flickers
  }, refuseText);
}

/* The old picture stays; a line says why. */
function refuseText(message) {
  if (idsOf.delete(state.text)) { // perhaps they are no tokens of this model
    followText();
    return;
  }
  problem = state.text === '' ? say('no text') : message.replace(/^study: /, '');
  touch('problem');
}

/* Asks for what is missing of the numbers with the changes made, then calls `done`. */
function followChanges(done = () => touch('changes')) {
  const key = keyOfOff(state.off);
  const from = run.without?.key === key ? run.without.positions.length : 0;
  if (key === '' || run.n < 2 || from === run.n) {
    drop('without');
    done();
    return;
  }
  want('without', asked('view', '--ablate', key, '--ablated-only', '--from', String(from), '--parts', 'predictions'), ({ ablation, vocabulary }) => {
    run.takeWithout(ablation, vocabulary, from);
    done();
  }, (message) => {
    refuseText(message);
    done();
  });
}

const explainKey = () => `${state.heads[0]} ${state.query}`;

/* What is asked for only where it is looked at. */
function followPlace() {
  const { query } = state;
  const [name] = state.heads;
  if (name && state.shape === 'writes' && !run.explained.has(explainKey())) {
    const key = explainKey();
    const { layer, head } = run.place(name);
    want('explain', asked('explain', '--layer', String(layer), '--head', String(head), '--query', String(query)), (explained) => {
      run.explained.set(key, explained);
      touch('explained');
    });
  }
  if (!run.lens[query]) wantLens('lens', query, query + 1);
  clearTimeout(idle);
  idle = setTimeout(followIdle, IDLE_MS);
}

function wantLens(kind, from, to) {
  want(kind, asked('view', '--from', String(from), '--to', String(to), '--parts', 'lens'), ({ lens, vocabulary }) => {
    Object.assign(run.vocabulary, vocabulary);
    run.lensRows = lens.rows;
    lens.positions.forEach((answer, i) => {
      run.lens[from + i] = answer;
    });
    touch('lens');
    if (kind === 'rest') followIdle();
  });
}

/* The scores of the heads, and the layers of all other positions. */
let idle = null;
function followIdle() {
  if (!isLive() || state.text !== followed) return;
  if (!run.heads.repeat && run.heads.repeat !== false) {
    want('heads', asked('view', '--parts', 'repeat'), ({ heads }) => {
      run.heads.repeat = heads?.repeat ?? false;
      touch('heads scores');
      followIdle();
    });
  } else if (!run.heads.text && run.n > 1 && run.heads.text !== false) {
    want('heads', asked('view', '--parts', 'text'), ({ heads }) => {
      run.heads.text = heads?.text ?? false;
      touch('heads scores');
      followIdle();
    });
  }
  const from = Array.from({ length: run.n }, (_, i) => i).find((i) => !run.lens[i]);
  if (from === undefined) return;
  let to = from + 1;
  while (to < run.n && to < from + LENS_PIECE && !run.lens[to]) to++;
  wantLens('rest', from, to);
}

addPart(['text'], () => isLive() && state.text !== null && state.text !== followed && followText(), 'always');
addPart(['off'], () => isLive() && followChanges());
addPart(['query', 'heads', 'shape'], () => isLive() && state.text === followed && followPlace());
addPart(['source'], () => isLive() && state.text !== null && followText(), 'always');
