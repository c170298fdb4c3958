/* The grid of all heads, larger: sorted and coloured by the scores of `study heads`. */

const HEAD_SCORES = ['prev', 'ind', 'dup', 'sink', 'self', 'confidence', 'entropy_share', 'distance', 'learned_sink'];

(() => {
  const LARGEST_THUMB = 104; // px a side
  const GAP = 5; // px between two, as in page.css
  const THUMB_ROOM = 80; // px that a pattern needs for its layer to stand beside another
  const NAME_ROOM = 78; // px that the longest name of a head takes
  const grid = byId('grid');
  const sort = byId('sort');
  const colour = byId('colour');
  const measured = byId('measured');
  const canvas = byId('thumbs');
  let built = null;
  let buttons = new Map();
  let shown = new Set(); // heads that have come into view, or all where they are few
  const toPaint = [];

  const tableOf = () => scoresOfHeads(measured.value);
  const scoresFor = (name) => tableOf()?.[name];

  function fillSelect(select, options, value) {
    select.replaceChildren(...options.map(([key, name]) => make('option', { value: key }, name)));
    if (options.some(([key]) => key === value)) select.value = value;
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      shown.add(entry.target.dataset.head);
      toPaint.push(entry.target.dataset.head);
    }
    paintSome();
  }, { rootMargin: '200px' });

  function build() {
    built = run.facts;
    seen.disconnect();
    shown = new Set();
    buttons = new Map(headNames().map((name) => [name, make(
      'button', { type: 'button', class: 'thumb', tabindex: -1, 'data-head': name, 'aria-pressed': 'false' },
      make('b', {}), make('span', {}, name), make('em', {}), make('i', {}),
    )]));
    grid.replaceChildren();
    buttons.values().next().value.tabIndex = 0;
    for (const [name, button] of buttons) {
      if (buttons.size <= MOST_THUMBS) shown.add(name);
      else seen.observe(button);
    }
    drawControls();
  }

  /* The choice stays while its scores are on their way. */
  const isThere = (key) => Boolean(run.heads[key] || shownRun().heads[key]);
  const isOnItsWay = (key) => isLive() && !unanswered('heads') && (key === 'text' ? shownRun().heads.text !== false && run.n > 1 : run.heads.repeat !== false);

  function drawControls() {
    const scores = HEAD_SCORES.filter((key) => key !== 'learned_sink' || run.facts.sinks).map((key) => [key, say(`score ${key}`)]);
    fillSelect(sort, [['layer', say('layer order')], ...scores], state.sort);
    fillSelect(colour, [['none', say('nothing')], ...scores], state.colour);
    fillSelect(measured, ['repeat', 'text'].filter((key) => isThere(key) || (key === state.measured && isOnItsWay(key))).map((key) => [key, say(`measured ${key}`)]), state.measured);
    for (const control of [sort, colour, measured]) control.disabled = measured.options.length === 0;
    arrange();
    drawScores();
  }

  /* A few thumbnails a frame, so that the page stays alive while hundreds come into view. */
  let painting = false;
  function paintSome(limit = 8) {
    if (painting) return;
    const end = performance.now() + limit;
    while (toPaint.length > 0 && performance.now() < end) placeThumb(toPaint.shift());
    if (toPaint.length === 0) return;
    painting = true;
    requestAnimationFrame(() => {
      painting = false;
      paintSome();
    });
  }

  function placeThumb(name) {
    const button = buttons.get(name);
    const place = button?.firstElementChild;
    if (!place || built !== run?.facts) return; // another model came meanwhile
    const context = canvas.getContext('2d');
    context.imageSmoothingEnabled = false;
    context.fillStyle = styleOf('--heat-0');
    const box = [button.offsetLeft + button.clientLeft + place.offsetLeft, button.offsetTop + button.clientTop + place.offsetTop, place.offsetWidth, place.offsetHeight];
    context.fillRect(...box);
    const thumb = shownRun().remembered(`thumb ${document.documentElement.dataset.theme} ${name}`, () => paintThumb(name));
    context.drawImage(thumb, ...box);
  }

  /* Layers stand side by side as far as there is room. */
  const columns = () => run.facts.n_head * Math.max(1, Math.min(run.facts.patterns.layers.length, Math.floor(grid.parentElement.clientWidth / (run.facts.n_head * THUMB_ROOM * typeScale()))));

  function placeThumbs() {
    const across = columns();
    const side = Math.min(LARGEST_THUMB * typeScale(), Math.floor((grid.parentElement.clientWidth - 6 + GAP) / across) - GAP); // whole ones, so that cells are alike
    grid.style.setProperty('--columns', across);
    grid.style.setProperty('--thumb', `${side}px`);
    const [names, form] = [scoresOfHeads('repeat'), side < NAME_ROOM * typeScale() ? 'short' : 'label'];
    for (const [name, button] of buttons) button.querySelector('em').textContent = names?.[name]?.label ? say(`${form} ${names[name].label}`) : '';
    grid.parentElement.style.setProperty('--fit', Math.min(1, PAPER / grid.offsetWidth));
    sized(canvas, grid.offsetWidth, grid.offsetHeight);
    grid.style.setProperty('--width', `${grid.offsetWidth}px`); // kept on paper, where nothing is drawn anew
    toPaint.splice(0, toPaint.length, ...shown);
    paintSome();
  }

  /* Heads stand in the order of the layers, or from the largest score to the smallest. */
  function arrange() {
    const key = sort.value;
    const table = tableOf();
    const value = (name) => table?.[name]?.[key] ?? -Infinity;
    if (key !== 'layer' && !table && grid.childElementCount > 0) return; // until the scores are there
    const names = [...buttons.keys()];
    if (key !== 'layer') names.sort((a, b) => value(b) - value(a));
    redraw(grid, ...names.map((name) => buttons.get(name)));
    placeThumbs();
  }

  const isOfUnchanged = () => measured.value === 'repeat' && isAnyOff();

  function drawScores() {
    byId('measured-of').hidden = !isOfUnchanged();
    byId('heads').classList.toggle('unchanged', isOfUnchanged());
    const key = colour.value;
    const table = tableOf();
    const largest = key === 'distance' ? Math.max(...[...buttons.keys()].map((name) => table?.[name]?.[key] ?? 0)) : 1;
    for (const [name, button] of buttons) {
      const score = table?.[name]?.[key];
      button.style.setProperty('--share', score > 0 ? score / largest : 0);
      button.classList.toggle('scored', key !== 'none');
    }
    placeThumbs(); // their bars may have moved them
  }

  function drawChosen() {
    for (const [name, button] of buttons) {
      const place = state.heads.indexOf(name);
      button.setAttribute('aria-pressed', place >= 0);
      button.style.setProperty('--mark', place >= 0 ? coloursOfHeads[place] : 'transparent');
      button.classList.toggle('off', name in state.off);
    }
  }

  /* All that `study heads` says of a head, and what the words mean. */
  function describe(name) {
    const scores = scoresFor(name);
    if (!scores) return name;
    const parts = [say('head entropy', bits(scores.entropy_nats), scores.entropy_share.toFixed(2))];
    for (const key of ['confidence', 'sink', 'self', 'prev', 'dup', 'ind']) if (scores[key] !== null) parts.push(`${say(`score ${key}`)} ${scores[key].toFixed(3)}`);
    parts.push(`${say('score distance')} ${scores.distance.toFixed(1)}`);
    return `${name}${scores.label ? `, ${say(`label ${scores.label}`)}` : ''}: ${parts.join(' · ')} (${say(`measured ${measured.value}`)})`;
  }

  function meanings() {
    return make('dl', { class: 'meanings' }, ...HEAD_SCORES.filter((key) => key !== 'learned_sink').map((key) => makeFact(say(`score ${key}`), null, say(`meaning ${key}`))));
  }

  function drawNote() {
    byId('head-note').textContent = state.heads[0] ? `${isOfUnchanged() ? `${say('unchanged model')} · ` : ''}${describe(state.heads[0])}` : '';
  }

  function show(event) {
    const button = event.target.closest('.thumb');
    if (button) byId('head-note').textContent = describe(button.dataset.head);
    if (button && event.type === 'pointerover' && event.pointerType === 'mouse') tip.over(button, make('b', {}, button.dataset.head), make('p', {}, describe(button.dataset.head)));
  }

  grid.addEventListener('pointerover', show);
  grid.addEventListener('pointerleave', tip.hide);
  grid.addEventListener('focusin', show);
  grid.addEventListener('click', (event) => {
    const button = event.target.closest('.thumb');
    if (button) chooseHead(button.dataset.head, byId('several').checked || event.shiftKey || event.ctrlKey || event.metaKey);
  });
  walkWithKeys(grid, columns, () => {});
  for (const select of [sort, colour, measured]) select.addEventListener('change', () => {
    change({ [select.id]: select.value });
    drawLate();
  });
  addEventListener('beforeprint', () => {
    if (!run) return;
    for (const name of buttons.keys()) placeThumb(name);
  });

  addPart(['run', 'heads scores', 'changes', 'unanswered', 'sort', 'colour', 'measured'], () => {
    if (built !== run.facts) build();
    else drawControls();
  }, 'late');
  addPart(['language'], () => byId('heads').querySelector('.what').replaceChildren(
    make('summary', {}, say('what is this')), make('p', {}, say('heads text')), meanings(),
  ), 'always');
  addPart(['heads', 'off', 'theme', 'run'], drawChosen, 'late');
  addPart(['off'], () => buttons.size > 0 && drawScores(), 'late');
  addPart(['run', 'heads', 'heads scores', 'measured', 'unanswered', 'off', 'changes'], drawNote, 'late');
  addPart(['size', 'theme'], placeThumbs, 'late');
})();
