/*
 * Attention weights of any head and query, and pictures of them. A weight comes from the scores where the page
 * holds them, and is exact; elsewhere from a level round(255·A).
 */

const keptLayers = data.patterns.layers;
const headNames = keptLayers.flatMap((layer) => Array.from({ length: data.n_head }, (_, head) => `L${layer}H${head}`));

function headOf(name) {
  const [layer, head] = name.slice(1).split('H').map(Number);
  return { layer, head, row: keptLayers.indexOf(layer), kvHead: Math.floor((head * data.n_head_kv) / data.n_head) };
}

/* Where the row of a query begins in a triangle whose row q has q + 1 entries. */
const rowStart = (query) => (query * (query + 1)) / 2;

/* A function of a head's name whose last few results are kept. */
function remembered(compute, limit) {
  const results = new Map();
  return (name) => {
    if (!results.has(name)) {
      if (results.size >= limit) results.delete(results.keys().next().value);
      results.set(name, compute(name));
    }
    return results.get(name);
  };
}

/* The lower triangle of a head's pattern, levels round(255·A); how it is packed stands in measures/traces.h. */
function decodePattern(name) {
  const { row, head } = headOf(name);
  const packed = bytesOf(data.patterns.data[row][head]);
  const triangle = new Uint8Array(rowStart(nTokens));
  let from = 0;
  const next = () => (packed[from >> 1] >> (4 * (from++ & 1))) & 15;
  for (let to = 0; to < triangle.length;) {
    const first = next();
    if (first === 15) {
      triangle[to++] = next() | (next() << 4);
    } else if (first > 0) {
      triangle[to++] = first;
    } else {
      let group = next();
      let run = group & 7;
      for (let shift = 3; group > 7; shift += 3) {
        group = next();
        run |= (group & 7) << shift;
      }
      to += run;
    }
  }
  return triangle;
}

const patternOf = remembered(decodePattern, 8);
const outputNormsOf = remembered((name) => scaledOf(data.output_norms[headOf(name).row][headOf(name).head]), 8);
const valueNormsOf = remembered((name) => scaledOf(data.value_norms[headOf(name).row][headOf(name).kvHead]), 8);
const scoresOf = remembered((name) => floatsOf(data.steps.scores[headOf(name).row][headOf(name).head]), 8);

const hasScores = (query) => query >= data.steps.first && query < data.steps.first + data.steps.n;

/* Scores of a query and the keys up to it, −∞ before a window; only where hasScores. */
function scoresAt(name, query) {
  const start = rowStart(query) - rowStart(data.steps.first);
  return scoresOf(name).subarray(start, start + query + 1);
}

/* The score of a head's learned sink, which takes its share of each row; −∞ where there is none. */
const sinkOf = (name) => data.sinks?.[headOf(name).row][headOf(name).head] ?? -Infinity;

function softmax(scores, sink) {
  const max = scores.reduce((a, b) => Math.max(a, b), sink);
  const powers = Float64Array.from(scores, (score) => Math.exp(score - max));
  const sum = powers.reduce((a, b) => a + b, Math.exp(sink - max));
  return powers.map((power) => power / sum);
}

/* A[query][key] for keys up to the query. */
function weightsAt(name, query) {
  if (hasScores(query)) return softmax(scoresAt(name, query), sinkOf(name));
  const start = rowStart(query);
  return Float64Array.from(patternOf(name).subarray(start, start + query + 1), (byte) => byte / 255);
}

/* What a head's learned sink takes of a query's row; only where hasScores. */
const learnedShare = (name, query) => (data.sinks ? Math.max(0, 1 - weightsAt(name, query).reduce((a, b) => a + b, 0)) : 0);

/* The same as the controls ask: × ‖v W_O‖, and without key 0, in this order, as `study attend`. */
function shownAt(name, query) {
  const row = weightsAt(name, query);
  if (state.by === 'value') {
    const norms = outputNormsOf(name);
    for (let key = 0; key <= query; key++) row[key] *= norms[key];
  }
  if (state.noSink) {
    row[0] = 0;
    const sum = row.reduce((a, b) => a + b, 0);
    if (sum > 0) for (let key = 1; key <= query; key++) row[key] /= sum;
  }
  return row;
}

const MAX_CHOSEN = 6;
let coloursOfHeads = []; // of the chosen ones, in turn
addPart(['theme'], () => {
  coloursOfHeads = Array.from({ length: MAX_CHOSEN }, (_, i) => styleOf(`--head-${i + 1}`));
});

/* Colours from no weight to all of it, 256 of them as [r, g, b]. */
function heatRamp() {
  const stops = [0, 1, 2, 3, 4].map((i) => rgbOf(styleOf(`--heat-${i}`)));
  return Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((from, c) => Math.round(from + (at - low) * (stops[low + 1][c] - from)));
  });
}

/* The cells of a pattern, size × size, the largest where several fall into one. */
function pooled(size, rowAt) {
  const cells = new Float32Array(size * size);
  for (let query = 0; query < nTokens; query++) {
    const row = rowAt(query);
    const y = Math.floor((query * size) / nTokens) * size;
    for (let key = 0; key <= query; key++) {
      const cell = y + Math.floor((key * size) / nTokens);
      if (row[key] > cells[cell]) cells[cell] = row[key];
    }
  }
  return cells;
}

/* Paints cells on a canvas of their own size, one pixel each; paint(i) gives [r, g, b]. */
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
