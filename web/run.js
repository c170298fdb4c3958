/*
 * The numbers of a text: what `study view --json` says of it, whole or in pieces of some positions each. Rows of what
 * heads did are unpacked when they are first looked at. A weight comes from the scores where there are any, and is
 * exact; elsewhere from a level round(255·A).
 */

/* The place where a query's row begins in a triangle whose row q has q + 1 entries. */
const rowStart = (query) => (query * (query + 1)) / 2;

/* Pieces of one kind of row, end to end: each holds the rows of the queries from `from` until `to`. */
class Pieces {
  constructor() {
    this.list = [];
  }

  /* Pieces end before `from`; those behind it go. */
  cut(from) {
    this.list = this.list.filter((piece) => piece.from < from).map((piece) => ({ ...piece, to: Math.min(piece.to, from) }));
  }

  add(from, to, data) {
    this.cut(from);
    this.list.push({ from, to, data });
  }

  covers(query) {
    return this.list.some((piece) => query >= piece.from && query < piece.to);
  }
}

/* Rows from..to of a pattern, levels round(255·A), into a triangle; how they are packed stands in measures/traces.h. */
function unpack(packed, triangle, from, to) {
  let at = 0;
  const next = () => (packed[at >> 1] >> (4 * (at++ & 1))) & 15;
  for (let cell = rowStart(from); cell < rowStart(to) && at < 2 * packed.length;) { // what is cut short leaves zeros
    const first = next();
    if (first === 15) {
      triangle[cell++] = next() | (next() << 4);
    } else if (first > 0) {
      triangle[cell++] = first;
    } else {
      let group = next();
      let zeros = group & 7;
      for (let shift = 3; group > 7; shift += 3) {
        group = next();
        zeros |= (group & 7) << shift;
      }
      cell += zeros;
    }
  }
}

/* The answers of the model with something changed, as `view` has them of the model as it is. */
const changedView = (view) => {
  const { ablation } = view;
  return { ...view, ...ablation, heads: { text: ablation.text }, patterns: { data: ablation.patterns }, ablation: null };
};

class Run {
  /* `base`: the run of the model as it is, where this one is of the model with something changed. */
  constructor(view, base = null) {
    this.base = base;
    this.facts = base?.facts ?? view; // what does not depend on the text
    this.vocabulary = base?.vocabulary ?? {};
    this.n = 0;
    this.positions = [];
    this.next = [];
    this.lens = []; // after each token; undefined where nobody has asked
    this.patterns = new Pieces();
    this.scores = new Pieces();
    this.norms = {}; // "output", "value": [layer][head] arrays
    this.writes = { resid: [], attn: [], mlp: [], heads: [] }; // ‖what is written‖ of each position
    this.explained = new Map(); // "L4H1 7": {output_norm, raised, lowered} as `study explain` says
    this.heads = { text: null, repeat: null };
    this.without = null; // the run of the same text with heads or MLPs changed, and what these are: changed, factors, key
    this.take(view);
  }

  /* The numbers of some positions, or of all; those behind them are gone. */
  take(view) {
    const from = view.from ?? 0;
    const to = view.to ?? view.n_tokens;
    this.tokens = view.tokens;
    this.n = to;
    this.n_prompt = view.n_prompt;
    Object.assign(this.vocabulary, view.vocabulary);
    const put = (list, items) => {
      list.length = from;
      if (items) list.push(...items);
    };
    put(this.positions, view.positions);
    put(this.next, view.next);
    put(this.lens, view.lens?.positions);
    if (view.lens) this.lensRows = view.lens.rows;
    this.patterns.add(from, to, view.patterns.data);
    this.scores.cut(from);
    if (view.steps.n > 0) this.scores.add(view.steps.first, view.steps.first + view.steps.n, view.steps.scores);
    for (const [name, norms] of [['output', view.output_norms], ['value', view.value_norms]]) {
      if (!norms) this.norms[name] = null;
      else {
        this.norms[name] ??= norms.map((layer) => layer.map(() => []));
        norms.forEach((layer, i) => layer.forEach((packed, j) => put(this.norms[name][i][j], scaledOf(packed))));
      }
    }
    for (const name of ['resid', 'attn', 'mlp']) view.writes?.[name].forEach((packed, i) => put((this.writes[name][i] ??= []), scaledOf(packed)));
    view.writes?.heads?.forEach((layer, i) => layer.forEach((packed, j) => put(((this.writes.heads[i] ??= [])[j] ??= []), scaledOf(packed))));
    this.heads = { text: view.heads?.text ?? null, repeat: view.heads?.repeat ?? this.heads.repeat };
    for (const key of this.explained.keys()) if (Number(key.split(' ')[1]) >= from) this.explained.delete(key);
    if (view.explained) this.takeExplained(view.explained, this.facts.patterns.layers);
    if (this.without) this.without.n = Math.min(this.without.n, from);
    if (view.ablation) this.takeWithout(view);
    if (view.bos) this.bosId = view.tokens[0].id;
    this.bos = this.tokens[0]?.id === this.bosId; // asked for by its id, it is one still
    this.texts = textsOf(this.tokens.slice(0, this.n), this.bos);
    this.unpacked = new Map();
  }

  /* A token that the vocabulary names, as views list them: {id, token}, or {id, hex} where it is no UTF-8. */
  tokenOf(id) {
    const piece = this.vocabulary[id];
    return typeof piece === 'string' ? { id, token: piece } : { id, ...piece };
  }

  /* Takes the answer of `explain`: the writing of some layers' heads at a position. */
  takeExplained({ query, heads }, layers) {
    const tokens = (flat) => pairsOf(flat).map(([id, effect]) => ({ ...this.tokenOf(id), effect }));
    heads.forEach((layer, i) => layer.forEach(({ output_norm: norm, raised, lowered }, head) => {
      this.explained.set(`L${layers[i]}H${head} ${query}`, { output_norm: norm, raised: tokens(raised), lowered: tokens(lowered) });
    }));
  }

  /* The numbers with something changed, of some positions, or of all. */
  takeWithout(view) {
    const { heads, factors } = view.ablation;
    const key = keyOf(view.ablation);
    if (this.without?.key === key && view.from > 0) this.without.take(changedView(view));
    else this.without = Object.assign(new Run(changedView(view), this), { changed: heads, factors, key });
  }

  /* "L3H7" → where its rows are. */
  place(name) {
    const [layer, head] = name.slice(1).split('H').map(Number);
    const { n_head: nHead, n_head_kv: nHeadKv, patterns } = this.facts;
    return { layer, head, row: patterns.layers.indexOf(layer), kvHead: Math.floor((head * nHeadKv) / nHead) };
  }

  /* The lower triangle of a head's pattern. A few are kept. */
  triangle(name) {
    const { row, head } = this.place(name);
    if (!this.patterns.list[0].data[row]) return this.base.triangle(name); // below what was changed
    return this.remembered(`triangle ${name}`, () => {
      const triangle = new Uint8Array(rowStart(this.n));
      for (const { from, to, data } of this.patterns.list) unpack(bytesOf(data[row][head]), triangle, from, Math.min(to, this.n));
      return triangle;
    });
  }

  remembered(key, compute) {
    if (!this.unpacked.has(key)) {
      if (this.unpacked.size >= 512) this.unpacked.delete(this.unpacked.keys().next().value);
      this.unpacked.set(key, compute());
    }
    return this.unpacked.get(key);
  }

  hasScores(query) {
    return this.scores.covers(query);
  }

  /* Scores of a query and the keys up to it, −∞ before a window; only where hasScores. */
  scoresAt(name, query) {
    const { row, head } = this.place(name);
    const { from, data } = this.scores.list.find((piece) => query >= piece.from && query < piece.to);
    const floats = this.remembered(`scores ${from} ${name}`, () => floatsOf(data[row][head]));
    const start = rowStart(query) - rowStart(from);
    return floats.subarray(start, start + query + 1);
  }

  /* The score of a head's learned sink, which takes its share of each row; −∞ where there is none. */
  sink(name) {
    const { row, head } = this.place(name);
    return this.facts.sinks?.[row][head] ?? -Infinity;
  }

  /* A[query][key] for keys up to the query. */
  weightsAt(name, query) {
    if (this.hasScores(query)) return softmax(this.scoresAt(name, query), this.sink(name));
    const start = rowStart(query);
    return Float64Array.from(this.triangle(name).subarray(start, start + query + 1), (byte) => byte / 255);
  }

  /* The share of a query's row that goes to a head's learned sink; only where hasScores. */
  learnedShare(name, query) {
    return this.facts.sinks ? Math.max(0, 1 - this.weightsAt(name, query).reduce((a, b) => a + b, 0)) : 0;
  }

  outputNorms(name) {
    const { row, head } = this.place(name);
    return this.norms.output?.[row][head];
  }

  valueNorms(name) {
    const { row, kvHead } = this.place(name);
    return this.norms.value[row][kvHead];
  }
}

/* A change of heads and MLPs as one text: "L3MLP=0.5,L4H1=0". */
const keyOfOff = (off) => Object.keys(off).sort().map((name) => `${name}=${off[name]}`).join(',');
const keyOf = (ablation) => keyOfOff(Object.fromEntries(ablation.heads.map((name, i) => [name, ablation.factors?.[i] ?? 0])));

/*
 * The text that each token adds. A character whose bytes are spread over tokens appears at the last of them;
 * the others add nothing.
 */
function textsOf(tokens, bos) {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const encoder = new TextEncoder();
  return tokens.map((token, i) => {
    if (i === 0 && bos) return '';
    const bytes = token.hex ? bytesOfHex(token.hex) : encoder.encode(token.token);
    return decoder.decode(bytes, { stream: i + 1 < tokens.length });
  });
}

function softmax(scores, sink) {
  const max = scores.reduce((a, b) => Math.max(a, b), sink);
  const powers = Float64Array.from(scores, (score) => Math.exp(score - max));
  const sum = powers.reduce((a, b) => a + b, Math.exp(sink - max));
  return powers.map((power) => power / sum);
}

/* Names of all heads whose patterns there are. */
const headNames = () => run.facts.patterns.layers.flatMap((layer) => Array.from({ length: run.facts.n_head }, (_, head) => `L${layer}H${head}`));

/* The key that gets most of a row; of equals the first. */
const heaviestKey = (row) => row.reduce((best, weight, key) => (weight > row[best] ? key : best), 0);

/* A row as the controls ask: × ‖v W_O‖, and without key 0, in this order, as `study attend`. */
function shownAt(name, query) {
  const row = shownRun().weightsAt(name, query);
  if (state.by === 'value') {
    const norms = shownRun().outputNorms(name);
    for (let key = 0; key <= query; key++) row[key] *= norms[key];
  }
  if (state.noSink) {
    row[0] = 0;
    const sum = row.reduce((a, b) => a + b, 0);
    if (sum > 0) for (let key = 1; key <= query; key++) row[key] /= sum;
  }
  return row;
}

/*
 * The numbers with the changes made, or as the model is. While something is changed and its numbers are not there, those
 * shown are not what was asked for, and say so.
 */
const isAnyOff = () => Object.keys(state.off).length > 0;
const isChanged = () => run.without?.n === run.n && isAnyOff() && run.without.key === keyOfOff(state.off);
const shownRun = () => (isChanged() ? run.without : run);
const isBehind = () => isAnyOff() && !isChanged();

const MAX_CHOSEN = 6;
let coloursOfHeads = []; // of the chosen ones, in turn
addPart(['theme'], () => {
  coloursOfHeads = Array.from({ length: MAX_CHOSEN }, (_, i) => styleOf(`--head-${i + 1}`));
}, 'always');

/* Colours from no weight to all of it, 256 of them as [r, g, b]. */
let ramp = [];
addPart(['theme'], () => {
  const stops = [0, 1, 2, 3, 4].map((i) => rgbOf(styleOf(`--heat-${i}`)));
  ramp = Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((from, c) => Math.round(from + (at - low) * (stops[low + 1][c] - from)));
  });
}, 'always');

/* The cells of a pattern of the positions first..last, size × size, the largest where several fall into one. */
function pooled(size, rowAt, first = 0, last = run.n - 1) {
  const cells = new Float32Array(size * size);
  const n = last - first + 1;
  for (let query = first; query <= last; query++) {
    const row = rowAt(query);
    const y = Math.floor(((query - first) * size) / n) * size;
    for (let key = first; key <= query; key++) {
      const cell = y + Math.floor(((key - first) * size) / n);
      if (row[key] > cells[cell]) cells[cell] = row[key];
    }
  }
  return cells;
}

/* Paints the lower triangle of cells on a canvas of their own size, one pixel each; paint(i) gives [r, g, b]. */
function paintCells(size, paint) {
  const canvas = new OffscreenCanvas(size, size);
  const context = canvas.getContext('2d');
  const image = context.createImageData(size, size);
  for (let y = 0; y < size; y++) {
    for (let x = 0; x <= y; x++) {
      const i = y * size + x;
      const [r, g, b] = paint(i);
      image.data.set([r, g, b, 255], 4 * i);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

const THUMB = 64; // cells a side at most
function paintThumb(name) {
  const size = Math.min(run.n, THUMB);
  const triangle = shownRun().triangle(name);
  const cells = pooled(size, (query) => triangle.subarray(rowStart(query), rowStart(query + 1)));
  return paintCells(size, (i) => ramp[cells[i]]);
}

/*
 * {"prev": …, …, "label"} of every head by its name, as `study heads` scores them; null where there are none. Those on
 * random tokens say what a head is, and are of the model as it is.
 */
function scoresOfHeads(measured) {
  const scores = measured === 'repeat' ? run.heads.repeat : shownRun().heads.text;
  return scores && Object.fromEntries(scores.rows.map((row, i) => [
    `L${Math.floor(i / run.facts.n_head)}H${i % run.facts.n_head}`,
    { ...Object.fromEntries(scores.columns.map((column, j) => [column, row[j]])), label: scores.labels[i] },
  ]));
}

/* A head's name for what it does on random tokens repeated: "induction", "previous", …; or nothing. */
const nameOfHead = (name) => {
  const label = scoresOfHeads('repeat')?.[name]?.label;
  return label ? say(`label ${label}`) : '';
};

/* The position behind the last earlier copy of a position's token; null where there is none. */
function afterCopy(query) {
  const copy = run.tokens.slice(0, query).findLastIndex((token) => token.id === run.tokens[query].id);
  return copy >= 0 && copy + 1 < query ? copy + 1 : null;
}

/* Heads by the weight that a query gives to a key, the most first; within a tenth of the most the earliest goes first. */
function headsOn(query, key) {
  const weightOn = (name) => run.weightsAt(name, query)[key];
  const most = Math.max(...headNames().map(weightOn));
  const rank = (name) => (weightOn(name) >= 0.9 * most ? most : weightOn(name));
  return [...headNames()].sort((a, b) => rank(b) - rank(a));
}

const LEAST_TELLING = 0.3; // weight on what followed the copy: less may be chance

/*
 * Where there is something to see at a position: the head that looks at what followed the same token before. Where none
 * does, the one whose one strongest key gets the most weight, leaving out the first token, the position itself and the one
 * before it, where heads look by habit.
 */
function tellingHead(query) {
  const followed = afterCopy(query);
  const [first] = followed === null ? [] : headsOn(query, followed);
  if (first && run.weightsAt(first, query)[followed] >= LEAST_TELLING) return { name: first, key: followed };
  let best = { name: headNames()[0], key: 0, weight: -1 };
  for (const name of query > 2 ? headNames() : []) {
    const row = run.weightsAt(name, query);
    for (let key = 1; key < query - 1; key++) if (row[key] > best.weight) best = { name, key, weight: row[key] };
  }
  return best;
}
