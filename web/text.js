/* The text, token by token, coloured by surprisal; what the model expected in each token's place. */

const SURPRISAL_FULL = 12; // bits at which a token has the full colour
const ALTERNATIVES = 8;

(() => {
  const container = byId('tokens');
  const readout = byId('token');
  let pointed = null; // the token under the pointer

  const spans = tokenTexts.map((text, i) => {
    const span = make('span', {
      role: 'option',
      tabindex: -1,
      class: i >= data.n_prompt ? 'token generated' : 'token',
    });
    if (i === 0 && data.bos) span.append(make('span', { class: 'mark' }, visible(data.tokens[0].token)));
    else if (text === '' && data.tokens[i].hex) span.append(make('span', { class: 'mark' }, asBytes(data.tokens[i].hex)));
    else for (const part of text.split(/(\n)/)) span.append(...(part === '\n' ? [make('span', { class: 'mark' }, '↵'), '\n'] : [visible(part)]));
    return span;
  });
  container.append(...spans);

  /* The token that an event is about; −1 between them. */
  const positionOf = (event) => spans.indexOf(event.target.closest('.token'));

  container.addEventListener('pointerover', (event) => point(positionOf(event)));
  container.addEventListener('pointerleave', () => point(-1));
  container.addEventListener('click', (event) => {
    const position = positionOf(event);
    if (position >= 0) {
      chooseQuery(position);
      spans[position].focus();
    }
  });
  walkWithKeys(container, () => 1, chooseQuery);

  function point(position) {
    pointed = position >= 0 ? position : null;
    drawReadout();
  }

  function drawTokens() {
    const { positions } = shownRun();
    spans.forEach((span, i) => {
      const known = positions[i];
      const share = known ? Math.min(1, (known.surprisal_nats * BITS_PER_NAT) / SURPRISAL_FULL) : 0;
      span.style.setProperty('--share', share.toFixed(3));
      span.setAttribute('aria-label', known ? `${labelOf(i)}, ${bits(known.surprisal_nats)} bits` : labelOf(i));
    });
  }

  function drawChosen() {
    spans.forEach((span, i) => {
      span.setAttribute('aria-selected', i === state.query);
      span.tabIndex = i === state.query ? 0 : -1;
    });
  }

  function drawReadout() {
    const i = pointed ?? state.query;
    const known = shownRun().positions[i];
    const title = make('h3', {}, make('span', { class: 'dim' }, `${i} `), make('bdi', {}, labelOf(i)));
    if (!known) {
      readout.replaceChildren(title, make('p', { class: 'dim' }, 'The first token: nothing before it predicts it.'));
      return;
    }
    const facts = make('dl', {});
    const fact = (name, value, key) => facts.append(make('div', {}, make('dt', {}, name), make('dd', { 'data-key': key }, value)));
    const p = Math.exp(-known.surprisal_nats);
    fact('probability', percent(p), 'probability');
    fact('rank', String(known.rank), 'rank');
    fact('surprisal', `${bits(known.surprisal_nats)} bits`, 'surprisal');
    fact('entropy before it', `${bits(known.entropy_nats)} bits`, 'entropy');
    if (state.without) fact('with all heads', percent(Math.exp(-data.positions[i].surprisal_nats)), 'with-all');
    readout.replaceChildren(
      title,
      facts,
      make('p', { class: 'dim' }, 'In its place the model expected'),
      alternatives(i, p),
      make('p', { class: 'dim' }, i >= data.n_prompt ? `generated, ${data.temperature > 0 ? `at temperature ${data.temperature}` : 'greedily'}` : ''),
    );
  }

  /* The likeliest tokens in place of token i, itself among them or last. */
  function alternatives(i, p) {
    const { id } = data.tokens[i];
    const list = distributionAfter(i - 1).top.slice(0, ALTERNATIVES);
    const items = list.map((token) => ({ ...token, itself: token.id === id }));
    if (!items.some((token) => token.itself)) items.push({ id, p, itself: true });
    return make('ol', { class: 'bars' }, ...items.map((token) => make(
      'li', { class: token.itself ? 'itself' : null },
      make('bdi', {}, token.itself ? labelOf(i) : labelOfId(token.id)), makeBar(token.p), make('span', {}, percent(token.p)),
    )));
  }

  function drawLegend() {
    const { totals } = data;
    const scale = make('span', { class: 'scale', 'aria-hidden': 'true' });
    const parts = ['0 ', scale, ` ${SURPRISAL_FULL} bits of surprisal or more`];
    if (data.n_prompt < nTokens) parts.push(' · ', make('span', { class: 'generated' }, 'underlined'), ': generated');
    if (totals.n > 0) {
      const nll = state.without ? data.ablation.nll_nats : totals.nll_nats;
      const perplexity = Math.exp(nll);
      parts.push(` · ${bits(nll)} bits a token, perplexity ${perplexity < 1000 ? perplexity.toPrecision(3) : perplexity.toFixed(0)}`);
    }
    byId('tokens-legend').replaceChildren(...parts);
  }

  addPart(['without'], drawTokens);
  addPart(['query'], drawChosen);
  addPart(['query', 'without'], drawReadout);
  addPart(['without'], drawLegend);
})();
