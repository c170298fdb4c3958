/*
 * A map of the model for the chosen token, left to right: embedding, layers of heads and an MLP, logits. Each head shows
 * its pattern, small; the bar under a box is how much it writes into this token; under each layer stands what the model
 * would answer there. A box can be entered, switched off, scaled. Of a large model heads are dots, until their layer is
 * opened.
 */

const PAPER = 690; // px, the width of a printed page
const MOST_THUMBS = 300; // of more heads only dots are drawn

/* "L3H7" or "L3MLP": how much it writes at a position, ‖·‖; null where that is not known. */
function writtenBy(name, query) {
  const { writes } = shownRun();
  if (name.endsWith('MLP')) return writes.mlp[Number(name.slice(1, -3))]?.[query] ?? null;
  const { row, head } = run.place(name);
  return writes.heads[row]?.[head]?.[query] ?? null;
}

/* The model's answer after a layer, or before the first (−1). */
function guessAfter(layer, query) {
  const answer = shownRun().lens[query];
  if (!answer) return null;
  const column = shownRun().lensRows.indexOf(layer + 1 < run.facts.n_layer ? `${layer + 1}_pre` : 'final_post');
  const [, , id, p] = answer.rows[column];
  return { id, p, column, finalP: answer.rows[column][0], finalRank: answer.rows[column][1], final: answer.final };
}

function setFactor(name, factor) {
  const off = { ...state.off };
  if (factor === 1) delete off[name];
  else off[name] = factor;
  change({ off });
}

const toggle = (name) => setFactor(name, name in state.off ? 1 : 0);

(() => {
  const boxes = byId('boxes');
  const canvas = byId('strip-thumbs');
  let built = null; // the run's facts that the boxes are of
  let builtIn = null; // … and the language of their words
  let buttons = new Map(); // name → its box
  let guesses = [];
  const toPaint = new Set();
  let size = ''; // of the boxes when their canvas was made

  const partBox = (name, label, kind) => {
    const box = make('div', { class: `box ${kind}`, 'data-part': name },
      make('button', { type: 'button', class: 'enter', tabindex: -1, 'data-part': name, 'aria-pressed': 'false' }, make('b', {}), make('em', {}), ' ', make('span', {}, label), make('i', {})),
      make('button', { type: 'button', class: 'cut', tabindex: -1, 'aria-label': say('switch off', name), title: say('switch off', name) }, '×'));
    buttons.set(name, box);
    return box;
  };

  function build() {
    const { n_layer: nLayer, n_head: nHead, patterns } = run.facts;
    const dots = patterns.layers.length * nHead > MOST_THUMBS;
    built = run.facts;
    builtIn = state.language;
    buttons = new Map();
    guesses = [];
    const guess = (layer) => {
      guesses[layer + 1] = make('button', { type: 'button', class: 'guess', tabindex: -1, 'data-part': layer < 0 ? 'embed' : `L${layer}` });
      return guesses[layer + 1];
    };
    const end = (part, title) => make('div', { class: 'layer end' }, make('h3', {}, say(title)), make('button', { type: 'button', class: 'ending', tabindex: -1, 'data-part': part }), part === 'embed' ? guess(-1) : null);
    const layers = Array.from({ length: nLayer }, (_, layer) => make('div', { class: 'layer', role: 'group', 'aria-label': say('layer', layer) },
      make('h3', {}, dots ? make('button', { type: 'button', class: 'quiet', 'aria-expanded': 'false', title: say('open layer', layer), on: { click: open } }, `L${layer} ▸`) : `L${layer}`),
      make('div', { class: 'layer-heads' }, ...(patterns.layers.includes(layer) ? Array.from({ length: nHead }, (__, head) => partBox(`L${layer}H${head}`, `H${head}`, 'head')) : [])),
      partBox(`L${layer}MLP`, 'MLP', 'mlp'), guess(layer)));
    boxes.replaceChildren(end('embed', 'embedding'), ...layers, end('logits', 'logits'));
    boxes.classList.toggle('dots', dots);
    const columns = dots ? Math.ceil(Math.sqrt(nHead)) : nHead <= 3 ? nHead : nHead <= 6 ? Math.ceil(nHead / 2) : nHead <= 9 ? 3 : 4;
    boxes.style.setProperty('--columns-wide', columns);
    boxes.style.setProperty('--columns-narrow', dots ? columns : Math.min(4, Math.ceil(nHead / 2))); // a phone has no room below
    boxes.querySelector('.enter').tabIndex = 0;
    layOutThumbs();
  }

  function open(event) {
    const isOpen = event.target.closest('.layer').classList.toggle('open');
    event.target.setAttribute('aria-expanded', isOpen);
    layOutThumbs();
  }

  /* One canvas for all patterns lies under the boxes. */
  function layOutThumbs() {
    if (!built) return;
    size = `${boxes.scrollWidth} ${boxes.offsetHeight}`;
    boxes.parentElement.style.setProperty('--width', `${boxes.scrollWidth}px`); // kept on paper, where nothing is drawn anew
    boxes.parentElement.style.setProperty('--fit', Math.min(1, PAPER / boxes.scrollWidth));
    sized(canvas, boxes.scrollWidth, boxes.offsetHeight);
    paintAll();
  }

  function paintAll() {
    const dots = boxes.classList.contains('dots');
    for (const [name, box] of buttons) if (name.includes('H') && (!dots || box.closest('.open'))) toPaint.add(name);
    paintSome();
  }

  let painting = false;
  function paintSome() {
    if (painting || !run) return;
    const end = performance.now() + 6;
    const frame = boxes.getBoundingClientRect();
    const context = canvas.getContext('2d');
    context.imageSmoothingEnabled = false;
    for (const name of toPaint) {
      toPaint.delete(name);
      const box = buttons.get(name)?.querySelector('b')?.getBoundingClientRect();
      if (!box) continue;
      const [x, y] = [box.left - frame.left, box.top - frame.top];
      context.fillStyle = styleOf('--heat-0');
      context.fillRect(x, y, box.width, box.height);
      context.drawImage(shownRun().remembered(`thumb ${document.documentElement.dataset.theme} ${name}`, () => paintThumb(name)), x, y, box.width, box.height);
      if (performance.now() > end) break;
    }
    if (toPaint.size === 0) return;
    painting = true;
    requestAnimationFrame(() => {
      painting = false;
      paintSome();
    });
  }

  function drawShares() {
    const amounts = [...buttons.keys()].map((name) => [name, writtenBy(name, state.query)]);
    const most = Math.max(...amounts.map(([, amount]) => amount ?? 0)) || 1;
    boxes.classList.toggle('unchanged', isAnyOff()); // heads are named after scores on random tokens
    byId('named-of').hidden = !isAnyOff();
    for (const [name, amount] of amounts) {
      const box = buttons.get(name);
      box.style.setProperty('--share', share((amount ?? 0) / most));
      const label = name.includes('H') ? nameOfHead(name) : '';
      box.classList.toggle('known', label !== '');
      const off = state.off[name];
      box.classList.toggle('off', off === 0);
      box.classList.toggle('scaled', off !== undefined && off !== 0);
      box.querySelector('em').textContent = label && say(`short ${scoresOfHeads('repeat')[name].label}`);
      box.querySelector('span').textContent = `${name.replace(/^L\d+/, '')}${off !== undefined && off !== 0 ? ` ×${off}` : ''}`;
      const enter = box.querySelector('.enter');
      enter.setAttribute('aria-label', [name.match(/^L\d+/)[0], box.querySelector('em').textContent, box.querySelector('span').textContent, label, off === 0 ? say('times', off) : ''].filter(Boolean).join(' ')); // as it is read on the page, and more
      enter.setAttribute('aria-pressed', state.part === name || state.heads.includes(name));
      const place = state.heads.indexOf(name);
      box.style.setProperty('--mark', place >= 0 ? coloursOfHeads[place] : state.part === name ? 'var(--ink)' : 'transparent');
      const cut = box.querySelector('.cut');
      cut.hidden = !isLive();
      cut.setAttribute('aria-pressed', off !== undefined);
    }
  }

  function drawGuesses() {
    const [top] = distributionAfter(state.query).top;
    const [embed, logits] = boxes.querySelectorAll('.ending');
    embed.replaceChildren(make('bdi', {}, labelOf(state.query)));
    logits.replaceChildren(make('bdi', {}, labelOfId(top.id)), make('span', {}, percent(top.p)));
    for (const box of [embed, logits]) box.setAttribute('aria-pressed', state.part === box.dataset.part);
    guesses.forEach((box, i) => {
      const guess = guessAfter(i - 1, state.query);
      box.replaceChildren(...(guess ? [make('bdi', {}, labelOfId(guess.id)), make('span', {}, ` ${percent(guess.p)}`)] : [unanswered('lens') ? '–' : '…']));
      box.style.setProperty('--share', share(guess?.finalP ?? 0));
      box.classList.toggle('agrees', guess !== null && guess.id === guess.final);
      box.setAttribute('aria-pressed', state.part === box.dataset.part);
    });
  }

  function tellOf(name) {
    const amount = writtenBy(name, state.query);
    const parts = [make('b', {}, [name, name.includes('H') && nameOfHead(name)].filter(Boolean).join(' · '))];
    if (name.includes('H')) {
      const row = shownRun().weightsAt(name, state.query);
      const key = heaviestKey(row);
      const label = scoresOfHeads('repeat')?.[name]?.label;
      if (label) parts.push(make('p', {}, say(`meaning ${label}`)));
      parts.push(make('p', {}, say('looks most', placeOf(key), row[key].toFixed(2))));
    } else parts.push(make('p', {}, say('meaning MLP')));
    if (amount !== null) parts.push(make('p', { class: 'dim' }, say('writes amount', amount.toPrecision(3))));
    return parts;
  }

  /* The part that was entered: the flow through it for the chosen token, and its switch. */
  function drawFlow() {
    const { part } = state;
    const flow = byId('flow');
    if (!part) {
      redraw(flow, make('p', { class: 'note' }, say(isLive() ? 'model hint' : 'model hint still')));
      return;
    }
    if (buttons.has(part)) {
      const amount = writtenBy(part, state.query);
      const layer = Number(part.match(/\d+/)[0]);
      const stream = shownRun().writes.resid[layer]?.[state.query];
      const factor = state.off[part] ?? 1;
      const scale = make('input', { type: 'range', min: 0, max: 2, step: 0.25, value: factor, 'data-key': 'scale', 'aria-label': say('scale', part), on: { change: (event) => setFactor(part, Number(event.target.value)) } });
      redraw(
        flow,
        make('p', {}, ...tellOf(part).flatMap((element) => [...element.childNodes, ' · ']).slice(0, -1)),
        amount !== null && stream ? make('p', { class: 'dim' }, say('of stream', part, amount.toPrecision(3), stream.toPrecision(3), labelOf(state.query))) : '',
        isLive() ? make('div', { class: 'controls' },
          make('button', { type: 'button', id: 'switch', on: { click: () => toggle(part) } }, say(part in state.off ? 'switch on' : 'switch off', part)),
          make('label', {}, say('scale it'), scale, make('output', {}, `× ${factor}`))) : '',
      );
      return;
    }
    const layer = part === 'embed' ? -1 : part === 'logits' ? run.facts.n_layer - 1 : Number(part.slice(1));
    const answer = shownRun().lens[state.query];
    const guess = guessAfter(layer, state.query);
    const stream = shownRun().writes.resid[layer + 1]?.[state.query];
    const top = answer ? pairsOf(answer.rows[guess.column].slice(2)) : [];
    redraw(
      flow,
      make('p', {}, say(part === 'embed' ? 'meaning embed' : part === 'logits' ? 'meaning logits' : 'meaning stream', labelOf(state.query), layer)),
      stream ? make('p', { class: 'dim' }, say('stream length', stream.toPrecision(3))) : '',
      guess ? make('p', { class: 'dim' }, say('final here', isolate(labelOfId(guess.final)), percent(guess.finalP), guess.finalRank)) : '',
      make('ol', { class: 'bars' }, ...top.map(([id, p]) => makeBarItem(labelOfId(id), makeBar(p), percent(p)))),
    );
  }

  const enterOf = (event) => event.target.closest('[data-part]')?.dataset.part;

  function enter(name, together) {
    if (!name.includes('H')) change({ part: state.part === name ? null : name });
    else chooseHead(name, together);
  }

  boxes.addEventListener('click', (event) => {
    const name = enterOf(event);
    if (!name) return;
    if (event.target.closest('.cut')) toggle(name);
    else enter(name, event.shiftKey || event.ctrlKey || event.metaKey);
  });
  boxes.addEventListener('keydown', (event) => {
    const name = enterOf(event);
    if (event.key === 'x' && buttons.has(name) && isLive()) toggle(name);
  });
  boxes.addEventListener('pointerover', (event) => {
    const name = enterOf(event);
    if (buttons.has(name) && event.pointerType === 'mouse') tip.over(event.target.closest('[data-part]'), ...tellOf(name));
    else tip.hide();
    change({ preview: name?.includes('H') && event.pointerType === 'mouse' ? name : null });
  });
  boxes.addEventListener('pointerleave', () => {
    tip.hide();
    change({ preview: null });
  });
  boxes.addEventListener('focusin', (event) => {
    const name = enterOf(event);
    if (buttons.has(name) && event.target.matches(':focus-visible')) tip.over(event.target, ...tellOf(name));
  });
  boxes.addEventListener('focusout', tip.hide);
  walkWithKeys(boxes, () => Math.max(1, run.facts.n_head + 2), () => {}, '.enter, .guess, .ending');

  addPart(['run'], () => {
    if (built !== run.facts || builtIn !== state.language) build();
    else if (size !== `${boxes.scrollWidth} ${boxes.offsetHeight}`) layOutThumbs();
    else paintAll();
  });
  addPart(['size'], layOutThumbs);
  addPart(['theme', 'off', 'changes'], paintAll);
  addPart(['run', 'query', 'heads', 'part', 'off', 'changes', 'theme', 'source', 'heads scores'], drawShares);
  addPart(['run', 'query', 'lens', 'unanswered', 'part', 'off', 'changes'], drawGuesses);
  addPart(['run', 'query', 'lens', 'part', 'off', 'changes', 'source', 'heads scores'], drawFlow);
})();

/* A head is drawn large, or several are, each in a colour of its own. */
function chooseHead(name, together) {
  const others = state.heads.filter((other) => other !== name);
  const chosen = state.heads.includes(name);
  let heads = [name];
  if (together && state.pinned) heads = chosen ? others : [...state.heads.slice(-(MAX_CHOSEN - 1)), name];
  if (heads.length > 0) change({ heads, part: name, pinned: true });
}
