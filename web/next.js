/*
 * The distribution after the chosen position, and what temperature and top-p would leave of it. The page holds
 * the logits of the likeliest tokens and, for each temperature of the slider, what all the others sum to, so that
 * probabilities are exact; but where top-p reaches beyond the tokens listed, what it holds is not known to the last one.
 */

/* {entropy, top: [{id, logit, p}]} after a position; p at temperature 1, unfiltered. */
function distributionAfter(position) {
  const { entropy_nats: entropy, log_sum: logSum, top: flat } = shownRun().next[position];
  const top = [];
  for (let i = 0; i < flat.length; i += 2) top.push({ id: flat[i], logit: flat[i + 1], p: Math.exp(flat[i + 1] - logSum) });
  return { entropy, top };
}

/*
 * What a sampler draws from: {p: of each of `top`, kept: how many tokens, null when it is more than are listed}.
 * Temperature divides the logits before the softmax; top-p keeps the likeliest tokens until they hold that share
 * of what came of it, as `study next` does. Temperature 0 draws the likeliest.
 */
function drawnFrom(position, temperature, topP) {
  const { top } = distributionAfter(position);
  const { rest } = shownRun().next[position];
  if (temperature === 0) return { p: top.map((_, i) => (i === 0 ? 1 : 0)), kept: 1 };
  const logRest = rest[Math.round(temperature / data.temperature_step) - 1];
  const powers = top.map((token) => Math.exp((token.logit - top[0].logit) / temperature));
  const restSum = logRest === null ? 0 : Math.exp(logRest);
  const sum = powers.reduce((a, b) => a + b, restSum);
  const p = powers.map((power) => power / sum);
  if (topP >= 1) return { p, kept: top.length < data.n_vocab ? null : top.length, all: true };
  let held = 0;
  let kept = 0;
  while (kept < p.length && held <= topP) held += p[kept++];
  if (held <= topP) return { p: p.map((x) => x / topP), kept: null, approximate: true };
  return { p: p.map((x, i) => (i < kept ? x / held : 0)), kept };
}

(() => {
  const FEW = 10; // rows shown at first
  const temperature = byId('temperature');
  const topP = byId('top-p');
  const more = byId('next-more');
  let all = false;
  temperature.step = data.temperature_step;
  temperature.max = data.temperature_step * data.next[0].rest.length;

  temperature.addEventListener('input', () => change({ temperature: Number(temperature.value) }));
  topP.addEventListener('input', () => change({ topP: Number(topP.value) }));
  byId('next-reset').addEventListener('click', () => change({ temperature: 1, topP: 1 }));

  more.addEventListener('click', () => {
    all = !all;
    draw();
  });

  function draw() {
    const { entropy, top } = distributionAfter(state.query);
    const drawn = drawnFrom(state.query, state.temperature, state.topP);
    const filtered = state.temperature !== 1 || state.topP < 1;
    temperature.value = state.temperature;
    topP.value = state.topP;
    byId('temperature-value').value = state.temperature.toFixed(1);
    byId('top-p-value').value = state.topP.toFixed(2);
    byId('next-reset').disabled = !filtered;
    byId('next-summary').replaceChildren(
      'After ', make('b', {}, make('bdi', {}, labelOf(state.query))), ` (position ${state.query}): entropy `,
      `${bits(entropy)} bits, as open as an even choice among ${Math.exp(entropy).toFixed(1)} of the ${data.n_vocab} tokens.`,
    );
    drawTable(top, drawn, filtered);
    drawNote(top, drawn, filtered);
    more.hidden = top.length <= FEW;
    more.textContent = all ? `Show ${FEW}` : `Show all ${top.length}`;
  }

  function drawTable(top, drawn, filtered) {
    const actual = data.tokens[state.query + 1];
    const head = make('tr', {}, ...['rank', 'token', 'p', 'bits', 'logit'].map((name) => make('th', { scope: 'col' }, name)));
    head.append(make('th', { scope: 'col', class: 'figure' }, filtered ? 'p, and drawn' : 'p'));
    if (filtered) head.append(make('th', { scope: 'col' }, 'drawn'));
    const scale = Math.max(top[0].p, filtered ? drawn.p[0] : 0);
    const rows = top.slice(0, all ? top.length : FEW).map((token, i) => {
      const follows = actual && token.id === actual.id;
      const bars = make('td', { class: 'figure' }, makeBar(token.p / scale, filtered ? 'hollow' : ''));
      if (filtered) bars.append(makeBar(drawn.p[i] / scale, 'drawn'));
      const row = make(
        'tr', { class: follows ? 'itself' : filtered && drawn.p[i] === 0 ? 'out' : null, title: follows ? 'the token that follows in the text' : null },
        make('td', {}, String(i + 1)), make('td', { class: 'name' }, make('bdi', {}, labelOfId(token.id))),
        make('td', {}, percent(token.p)), make('td', {}, bits(-Math.log(token.p))), make('td', {}, fixed(token.logit, 3)), bars,
      );
      if (filtered) row.append(make('td', {}, drawn.p[i] === 0 ? '–' : (drawn.approximate ? '≈ ' : '') + percent(drawn.p[i])));
      return row;
    });
    byId('distribution').replaceChildren(make('thead', {}, head), make('tbody', {}, ...rows));
  }

  function drawNote(top, drawn, filtered) {
    const held = top.reduce((sum, token) => sum + token.p, 0);
    let note = `The ${top.length} likeliest hold ${percent(held)} of the probability; the other ${data.n_vocab - top.length} share the rest.`;
    if (filtered) {
      note += ' p is the model’s own; drawn is what a sampler would use';
      if (state.temperature === 0) note += ': at temperature 0 always the likeliest token.';
      else if (drawn.all) note += ': every token can be drawn.';
      else if (drawn.kept === null) note += `: more than ${top.length} tokens can be drawn (how many is not in this page).`;
      else note += `: ${plural(drawn.kept, 'token')} can be drawn.`;
    }
    byId('next-note').textContent = note;
  }

  addPart(['query', 'without', 'temperature', 'topP'], draw);
})();
