/*
 * The text, token by token, coloured by surprisal, with what one head looks at as arcs over it. Where someone answers it
 * is typed here: a text field lies over the tokens, letter upon letter, and the caret chooses the token under the eye.
 */

const SURPRISAL_FULL = 12; // bits at which a token has the full colour
const CHANGE_FULL = 4; // … at which a change has
const ALTERNATIVES = 6;
const LEAST_ARC = 0.01;
const LEAST_TOLD = 0.08; // the weight from which it stands beside its arc
const [LABEL_WIDTH, LABEL_HEIGHT] = [27, 13]; // px of an arc's weight
const ARC_REACH = 6; // px beside an arc within which it is hit
const ARC_POINTS = 48; // at which an arc is asked whether a weight lies on it
const LONG = 48; // tokens; a longer text is set smaller

/* The end of each position's token in the text, UTF-16 units; null if the tokens do not spell it letter for letter. */
function endsIn(text) {
  const joined = run.texts.join('');
  const lead = joined.startsWith(' ') && !text.startsWith(' ') ? 1 : 0; // SentencePiece puts a space in front
  if (joined.slice(lead) !== text) return null;
  let end = -lead;
  return run.texts.map((piece) => Math.max(0, (end += piece.length)));
}

/* A text as a text field has it, and where a place in the field is in the text. */
const asTyped = (text) => text.replace(/\r\n?/g, '\n');
function placeIn(text, typed) {
  let place = 0;
  for (let i = 0; i < typed; i++) place += text.startsWith('\r\n', place) ? 2 : 1;
  return place;
}

/* The position whose token holds the letter before the caret. */
function positionAt(caret) {
  const ends = endsIn(followed);
  if (!ends) return run.n - 1;
  const letter = placeIn(followed, caret);
  const at = ends.findIndex((end, i) => end >= letter && (end > 0 || i === run.n - 1));
  return at < 0 ? run.n - 1 : at;
}

/* The eye's place after the numbers changed: with the caret while one types, else where it was, or still at the end. */
function placeAfter(wasAtEnd) {
  const editor = byId('editor');
  if (document.activeElement === editor && editor.value === asTyped(followed)) return positionAt(editor.selectionStart);
  return wasAtEnd ? run.n - 1 : Math.min(state.query, run.n - 1);
}

(() => {
  const paper = byId('paper');
  const container = byId('tokens');
  const editor = byId('editor');
  const arcs = byId('arcs');
  let spans = [];
  let pointed = null; // the position under the pointer
  let drawnArcs = []; // {key, points, wide}: where they can be hit

  const isGenerated = (i, ends) => (state.text === null ? i >= run.n_prompt : state.written !== null && ends !== null && i > 0 && ends[i - 1] >= state.written);

  /* As it is typed, or as something to see where nobody types. */
  function spell(i, typed) {
    const { hex, token } = run.tokens[i];
    const text = run.texts[i];
    if (typed) return [text];
    if (i === 0 && run.bos) return [make('span', { class: 'mark' }, visible(token ?? asBytes(hex)))];
    if (text === '' && hex) return [make('span', { class: 'mark' }, asBytes(hex))];
    return text.split(/(\n)/).flatMap((part) => (part === '\n' ? [make('span', { class: 'mark' }, '↵'), '\n'] : [visible(part)]));
  }

  function layOut() {
    const live = state.text !== null && isLive();
    const ends = live && run ? endsIn(followed) : null;
    const typed = live && ends !== null;
    editor.hidden = !live;
    paper.classList.toggle('typed', live);
    paper.classList.toggle('apart', live && !typed);
    paper.classList.toggle('long', run.n > LONG);
    container.setAttribute('role', typed ? 'presentation' : 'listbox');
    container.toggleAttribute('aria-hidden', typed);
    if (typed) container.removeAttribute('aria-label');
    else container.setAttribute('aria-label', say('text'));
    if (live && editor.value !== asTyped(state.text)) editor.value = state.text;
    let shown = run.n;
    if (typed) { // tokens of what is no longer there wait for the new ones
      let same = 0;
      while (same < followed.length && followed[same] === state.text[same]) same++;
      shown = ends.findIndex((end) => end > same);
      if (shown < 0) shown = run.n;
    }
    spans = run.texts.slice(0, shown).map((text, i) => {
      const span = make('span', { class: `token${isGenerated(i, ends) ? ' generated' : ''}${typed && text === '' ? ' bare' : ''}`, 'data-position': i, ...(typed ? {} : { role: 'option', tabindex: -1 }) });
      const first = typed && i === run.texts.findIndex((piece) => piece !== '') && !followed.startsWith(' ');
      span.append(...spell(i, typed));
      if (first && span.textContent.startsWith(' ')) span.textContent = span.textContent.slice(1);
      return span;
    });
    const rest = typed ? state.text.slice(shown > 0 ? ends[shown - 1] : 0) : '';
    redraw(container, ...spans, ...(typed ? [make('span', { class: 'rest' }, rest), '\u200b'] : []));
    if (live) editor.style.height = typed ? `${container.offsetHeight}px` : `${editor.scrollHeight}px`;
    colour();
    choose();
  }

  /* Colours tell surprisal or, with changes made, how much they changed it. */
  function colour() {
    const changed = isChanged();
    spans.forEach((span, i) => {
      const known = shownRun().positions[i];
      const before = run.positions[i];
      const delta = changed && known ? (known.surprisal_nats - before.surprisal_nats) * BITS_PER_NAT : 0;
      const amount = changed ? Math.abs(delta) / CHANGE_FULL : known ? (known.surprisal_nats * BITS_PER_NAT) / SURPRISAL_FULL : 0;
      span.style.setProperty('--share', share(amount));
      span.classList.toggle('worse', changed && delta > 0);
      span.classList.toggle('better', changed && delta < 0);
      if (span.getAttribute('role')) span.setAttribute('aria-label', known ? `${labelOf(i)}, ${bits(known.surprisal_nats)} ${say('bits')}` : labelOf(i));
    });
  }

  /* The chosen token stays in sight in a text that is longer than its frame. */
  function keepInView() {
    const box = spans[state.query]?.getBoundingClientRect();
    const frame = paper.getBoundingClientRect();
    if (!box || paper.scrollHeight <= paper.clientHeight) return;
    if (box.bottom > frame.bottom) paper.scrollTop += box.bottom - frame.bottom + box.height / 2;
    else if (box.top < frame.top + box.height) paper.scrollTop -= frame.top + 2 * box.height - box.top;
  }

  function choose() {
    spans.forEach((span, i) => {
      const chosen = i === state.query;
      span.classList.toggle('chosen', chosen);
      if (!span.getAttribute('role')) return;
      span.setAttribute('aria-selected', chosen);
      span.tabIndex = chosen ? 0 : -1;
    });
    drawArcs();
    drawTelling();
  }

  /* The middle of a token's upper edge, in the paper; of a token over two lines, of its last or first piece. */
  function topOf(i, last) {
    const boxes = spans[i]?.getClientRects();
    if (!boxes?.length) return null;
    const box = boxes[last ? boxes.length - 1 : 0];
    const frame = paper.getBoundingClientRect();
    return { x: (box.left + box.right) / 2 - frame.left, y: box.top - frame.top + paper.scrollTop };
  }

  /* The head whose arcs are drawn. */
  const telling = () => state.preview ?? state.heads[0];

  function drawArcs() {
    const name = telling();
    const query = pointed ?? state.query;
    drawnArcs = [];
    if (!name || !spans[query]) {
      arcs.replaceChildren();
      return;
    }
    const from = topOf(query, true);
    const row = shownRun().weightsAt(name, query);
    const shapes = [];
    const drawn = [];
    for (let key = 0; key <= query; key++) {
      const weight = row[key];
      const to = weight >= LEAST_ARC ? topOf(key, false) : null;
      if (!from || !to) continue;
      const opacity = 0.2 + 0.8 * weight;
      if (key === query) {
        shapes.push(draw('circle', { cx: from.x, cy: from.y - 6, r: 1.5 + 3.5 * weight, opacity, class: 'self' }));
        continue;
      }
      const wide = (0.75 + 5 * weight) * typeScale();
      const upper = Math.min(from.y, to.y);
      const rise = Math.min(96, 18 + Math.abs(from.x - to.x) * 0.22, (upper - wide / 2) / 0.75); // an arc goes three quarters up; none is cut off
      const top = upper - rise;
      shapes.push(draw('path', { d: `M${from.x} ${from.y}C${from.x} ${top} ${to.x} ${top} ${to.x} ${to.y}`, 'stroke-width': wide, opacity }));
      if (weight >= LEAST_TOLD / 2) drawn.push({ key, weight, from, to, top, wide });
    }
    drawnArcs = drawn.map((arc) => ({ key: arc.key, wide: arc.wide, points: pointsOf(arc) }));
    arcs.replaceChildren(...shapes, ...labelsOf(drawn));
  }

  /* Points of an arc, as near to each other as its width. */
  const pointsOf = ({ from, to, top }) => Array.from({ length: ARC_POINTS }, (_, i) => {
    const t = i / (ARC_POINTS - 1);
    return [from.x + (to.x - from.x) * t * t * (3 - 2 * t), from.y * (1 - t) ** 3 + top * 3 * t * (1 - t) + to.y * t ** 3];
  });

  /* The key of the arc under the pointer, where the page can tell why; none on a token. */
  function arcAt({ clientX, clientY }) {
    if (!isServed() || pointed !== null || drawnArcs.length === 0) return null;
    const frame = paper.getBoundingClientRect();
    const [x, y] = [clientX - frame.left, clientY - frame.top + paper.scrollTop];
    const apart = ({ points, wide }) => Math.min(...points.map(([px, py]) => Math.hypot(px - x, py - y))) - wide / 2;
    const nearest = drawnArcs.map((arc) => ({ key: arc.key, px: apart(arc) })).reduce((a, b) => (b.px < a.px ? b : a));
    return nearest.px <= ARC_REACH ? nearest.key : null;
  }

  /* The weights of arcs, each beside its arc's end: heavy ones first, and none where it would lie on an arc or another weight. */
  function labelsOf(drawn) {
    const [width, height] = [LABEL_WIDTH * typeScale(), LABEL_HEIGHT * typeScale()];
    const taken = drawn.flatMap((arc) => pointsOf(arc).map(([x, y]) => ({ left: x - arc.wide / 2, right: x + arc.wide / 2, top: y, bottom: y })));
    const labels = [];
    for (const { weight, from, to, wide } of drawn.filter((arc) => arc.weight >= LEAST_TOLD).sort((a, b) => b.weight - a.weight)) {
      const away = from.x > to.x ? -1 : 1; // from where the arc comes
      const bottom = Math.max(height, to.y - 4);
      const places = [away, -away].map((side) => {
        const near = to.x + side * (wide / 2 + 3);
        return { side, near, left: Math.min(near, near + side * width), right: Math.max(near, near + side * width), top: bottom - height, bottom };
      });
      const free = places.find((place) => place.left >= 0 && !taken.some((other) => (
        other.left < place.right && other.right > place.left && other.top < place.bottom && other.bottom > place.top)));
      if (!free) continue;
      taken.push(free);
      labels.push(draw('text', { x: free.near, y: bottom - 1, class: `weight ${free.side < 0 ? 'left' : ''}` }, weight.toFixed(2)));
    }
    return labels;
  }

  /* The arcs, told in words. */
  function drawTelling() {
    const name = telling();
    if (!name) return;
    const query = pointed ?? state.query;
    const row = shownRun().weightsAt(name, query);
    const key = heaviestKey(row);
    const known = nameOfHead(name);
    const chip = make('span', { class: 'chip', style: { '--mark': coloursOfHeads[0] } }, name);
    const where = key === query ? say('telling itself', isolate(labelOf(query)), row[key].toFixed(2))
      : say(key === 0 && !known ? 'telling first' : 'telling', isolate(labelOf(query)), isolate(labelOf(key)), row[key].toFixed(2));
    const auto = state.pinned ? make('button', { type: 'button', class: 'quiet', title: say('automatic title'), on: { click: () => change({ pinned: false, query: state.query }) } }, say('automatic')) : null;
    redraw(byId('telling'), ...[chip, known ? make('b', {}, ` ${known}`) : null, make('span', {}, ` ${where}`), auto].filter(Boolean));
  }

  /* The facts of a token, for a list. */
  function factsOf(i) {
    const known = shownRun().positions[i];
    const before = run.positions[i];
    const pair = (text, old) => (isChanged() && old !== text ? `${old} → ${text}` : text);
    return [
      ['probability', pair(percent(Math.exp(-known.surprisal_nats)), percent(Math.exp(-before.surprisal_nats)))],
      ['rank', pair(String(known.rank), String(before.rank))],
      ['surprisal', `${pair(bits(known.surprisal_nats), bits(before.surprisal_nats))} ${say('bits')}`],
      ['entropy', `${pair(bits(known.entropy_nats), bits(before.entropy_nats))} ${say('bits')}`],
    ].map(([key, text]) => makeFact(say(key), key, text));
  }

  function drawReadout() {
    const i = pointed ?? state.query;
    byId('token').replaceChildren(...(shownRun().positions[i]
      ? [make('dl', { class: 'inline' }, ...factsOf(i))]
      : [make('span', { class: 'dim' }, say('first token'))]));
  }

  /* The likeliest tokens in place of token i, itself among them or last. */
  function alternatives(i) {
    const { id } = run.tokens[i];
    const p = Math.exp(-shownRun().positions[i].surprisal_nats);
    const items = distributionAfter(i - 1).top.slice(0, ALTERNATIVES).map((token) => ({ ...token, itself: token.id === id }));
    if (!items.some((token) => token.itself)) items.push({ id, p, itself: true });
    return make('ol', { class: 'bars' }, ...items.map((token) => (
      makeBarItem(token.itself ? labelOf(i) : labelOfId(token.id), makeBar(token.p), percent(token.p), { class: token.itself ? 'itself' : null }))));
  }

  const tellOf = (i) => [make('b', {}, placeOf(i)), ...(shownRun().positions[i]
    ? [make('dl', {}, ...factsOf(i)), make('p', { class: 'dim' }, say('in its place')), alternatives(i)]
    : [make('p', { class: 'dim' }, say('first token'))])];

  function point(i) {
    if (i === pointed) return;
    pointed = i;
    drawArcs();
    drawTelling();
    drawReadout();
  }

  paper.addEventListener('pointermove', eachFrame((event) => {
    if (!run) return;
    const span = document.elementsFromPoint(event.clientX, event.clientY).find((element) => element.matches?.('#tokens .token'));
    point(span ? Number(span.dataset.position) : null);
    const onArc = event.pointerType === 'mouse' && arcAt(event) !== null;
    paper.classList.toggle('on-arc', onArc);
    if (span && event.pointerType === 'mouse') tip.over(span, ...tellOf(pointed));
    else if (onArc) tip.at(event, ARC_REACH, say('why arc'));
    else tip.hide();
  }));
  paper.addEventListener('pointerleave', () => {
    requestAnimationFrame(() => {
      tip.hide();
      if (run) point(null);
    });
  });
  /* The caret stays where it is: the arc is asked about, not the place. */
  paper.addEventListener('mousedown', (event) => event.button === 0 && arcAt(event) !== null && event.preventDefault());
  paper.addEventListener('click', (event) => {
    const key = arcAt(event);
    if (key !== null) askWhy(telling(), state.query, key);
  });
  container.addEventListener('click', (event) => {
    const span = event.target.closest('.token');
    if (!span) return;
    chooseQuery(Number(span.dataset.position));
    span.focus();
  });
  container.addEventListener('focusin', (event) => tip.over(event.target, ...tellOf(Number(event.target.dataset.position))));
  container.addEventListener('focusout', tip.hide);
  walkWithKeys(container, () => 1, chooseQuery);

  /* Typing replaces [from, to) of the text: ends of lines elsewhere stay as they are, with or without a CR. */
  function edited() {
    const [before, after] = [asTyped(state.text), editor.value];
    const most = Math.min(before.length, after.length);
    let [from, behind] = [0, 0];
    while (from < most && before[from] === after[from]) from++;
    while (behind < most - from && before.at(-1 - behind) === after.at(-1 - behind)) behind++;
    const [inserted, to] = [after.slice(from, after.length - behind), before.length - behind];
    return { from: placeIn(state.text, from), to: placeIn(state.text, to), inserted };
  }

  /* The place from which on the model wrote moves along; what is typed into its text, or behind it, makes all the reader's own. */
  editor.addEventListener('input', () => {
    const { from, to, inserted } = edited();
    const text = state.text.slice(0, from) + inserted + state.text.slice(to);
    let { written } = state;
    if (written !== null && to <= written) written += text.length - state.text.length;
    else if (written !== null && (inserted !== '' || from < written || text.length === written)) written = null;
    change({ text, written });
  });
  document.addEventListener('selectionchange', () => {
    if (document.activeElement !== editor || !run || state.text !== followed) return;
    const query = positionAt(editor.selectionStart);
    if (query !== state.query) chooseQuery(query);
  });

  function drawLegend() {
    const scored = shownRun().positions.filter(Boolean);
    const scale = make('span', { class: 'scale', 'aria-hidden': 'true' });
    const parts = isChanged()
      ? [make('span', { class: 'scale worse', 'aria-hidden': 'true' }), ` ${say('less expected')} `, make('span', { class: 'scale better', 'aria-hidden': 'true' }), ` ${say('more expected')}`]
      : ['0 ', scale, ` ${say('bits of surprisal', SURPRISAL_FULL)}`];
    if (container.querySelector('.generated')) parts.push(' · ', make('span', { class: 'generated' }, say('underlined')));
    if (scored.length > 0 && !isBlank) {
      const nll = scored.reduce((sum, known) => sum + known.surprisal_nats, 0) / scored.length;
      const perplexity = Math.exp(nll);
      parts.push(` · ${say('bits a token', bits(nll), perplexity < 1000 ? perplexity.toPrecision(3) : perplexity.toFixed(0))}`);
    }
    if (problem) parts.unshift(make('strong', { class: 'problem' }, source.gone ? say('server gone') : problem), ' ');
    byId('tokens-legend').replaceChildren(...parts);
  }

  addPart(['run', 'text'], () => {
    if (pointed !== null) tip.hide();
    pointed = null; // tokens are laid out anew under the pointer
  }, 'first');
  /* Until the reader chooses a head, the one that tells most at this position. */
  addPart(['run', 'query', 'pinned'], () => {
    if (state.pinned) return;
    state.heads = [tellingHead(state.query).name];
    touch('heads');
  }, 'first');
  addPart(['run', 'text', 'source', 'size'], layOut);
  addPart(['query', 'heads', 'theme', 'size'], choose);
  addPart(['changes', 'off'], () => {
    colour();
    drawReadout();
    drawArcs();
    drawTelling();
  });
  addPart(['query', 'run'], keepInView);
  addPart(['query', 'run'], drawReadout);
  addPart(['run', 'changes', 'off', 'problem', 'unanswered'], drawLegend);
  addPart(['heads scores'], drawTelling);
  addPart(['preview'], () => {
    drawArcs();
    drawTelling();
  });
  addPart(['query', 'run'], () => {
    byId('place').replaceChildren(`${say('position')} `, placeOf(state.query));
    setUsable(byId('back'), state.query > 0);
    setUsable(byId('forth'), state.query < run.n - 1);
  });
  byId('back').addEventListener('click', () => chooseQuery(state.query - 1));
  byId('forth').addEventListener('click', () => chooseQuery(state.query + 1));
})();
