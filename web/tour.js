/*
 * The story of one prediction in seven steps, told with the page's own parts. Each step sets the state, points at a part
 * and says a few words; the reader may touch everything meanwhile, leave, and come back.
 */

const TOUR_TEXT = 'The king Zorvan rode out. Then king Zor';
const TOUR_STEPS = 7;
const CANDIDATES = 3; // heads that are tried for the story

(() => {
  const card = byId('guide');
  let told = null; // the step that set the state last

  /*
   * What the story is about, in whatever text and model: the last token, the head, what it looks at, the guess. Where the
   * last token stood before, it is the head that looks at what followed there and matters most when it is switched off.
   */
  let story = null;

  function likeliest() {
    const [first] = distributionAfter(run.n - 1, run).top;
    return first;
  }

  function begin() {
    const query = run.n - 1;
    const before = run.tokens.slice(0, query).findLastIndex((token) => token.id === run.tokens[query].id);
    const guess = likeliest();
    const weightOn = (name, key) => run.weightsAt(name, query)[key];
    const known = run.without?.heads.length === 1 && run.without.heads[0].includes('H') ? run.without.heads[0] : null;
    const names = before >= 0 ? [...headNames()].sort((a, b) => weightOn(b, before + 1) - weightOn(a, before + 1)) : [tellingHead(query).name];
    story = { text: followed, live: isLive(), query, guess, isInduction: before >= 0, head: !isLive() && known ? known : names[0], key: before + 1, pWithout: null };
    if (before < 0) story.key = run.weightsAt(story.head, query).reduce((best, weight, i, row) => (weight > row[best] ? i : best), 0);
    if (!isLive() && known) story.pWithout = probabilityIn(run.without);
    if (isLive()) tryOut(names.slice(0, before >= 0 ? CANDIDATES : 1));
  }

  /* The guess's probability with something switched off; null where it is not among those listed. */
  const probabilityIn = (changed) => distributionAfter(story.query, changed).top.find(({ id }) => id === story.guess.id)?.p ?? null;

  function tryOut([name, ...others], best = null) {
    if (!name) {
      story.head = best.name;
      story.pWithout = best.p;
      told = null;
      touch('tour');
      return;
    }
    const of = story;
    want('tour', asked('view', '--ablate', `${name}=0`, '--from', String(story.query), '--parts', 'predictions', '--top', '1000'), ({ ablation }) => {
      if (story !== of) return;
      const p = probabilityIn({ next: { [story.query]: ablation.next.at(-1) } }) ?? 0;
      tryOut(others, best && best.p <= p ? best : { name, p });
    });
  }

  function wordsOf(step) {
    const { query, guess, head, key, isInduction, pWithout } = story;
    const guessed = isolate(labelOfId(guess.id));
    const halfway = run.lens[query] ? run.lens[query].rows[Math.floor(run.lensRows.length / 2)][1] : '…';
    const finally_ = run.lens[query] ? run.lens[query].rows.at(-1)[1] : '…';
    const kind = isInduction ? 'text' : 'other';
    return [
      () => say('tour 1 text', run.n),
      () => say('tour 2 text', run.facts.n_vocab, isolate(labelOf(query)), guessed, percent(guess.p)),
      () => say('tour 3 text'),
      () => say('tour 4 text', isolate(labelOf(key)), percent(run.weightsAt(head, query)[key])),
      () => say(`tour 5 ${kind}`, isolate(labelOf(query)), isolate(labelOf(key))),
      () => say(`tour 6 ${kind}`, guessed, halfway, finally_),
      () => (pWithout === null ? say(isLive() ? 'tour 7 text' : 'tour 7 unknown', head, percent(guess.p), '…') : say(isLive() ? 'tour 7 text' : 'tour 7 still', head, percent(guess.p), percent(pWithout))),
    ][step]();
  }

  /* What each step shows, and where it points. */
  const steps = [
    { at: '#sentence', set: () => ({ query: run.n - 1, off: {} }) },
    { at: '#next', set: () => ({ query: run.n - 1, off: {}, temperature: 1, topP: 1 }) },
    { at: '#look', set: (head) => ({ query: run.n - 1, heads: [head], part: head, pinned: true, shape: 'steps', off: {} }), step: 1 },
    { at: '#look', set: (head) => ({ query: run.n - 1, heads: [head], part: head, pinned: true, shape: 'steps', off: {} }), step: 4 },
    { at: '#look', set: (head) => ({ query: run.n - 1, heads: [head], part: head, pinned: true, shape: 'writes', off: {} }) },
    { at: '#model', set: () => ({ query: run.n - 1, part: 'logits', off: {} }) },
    { at: '#model', with: '.stage', set: (head) => ({ query: run.n - 1, heads: [head], part: head, pinned: true, off: {} }) },
  ];

  function show(step) {
    const { set, at, with: besides, step: moment } = steps[step];
    change(set(story.head));
    requestAnimationFrame(() => requestAnimationFrame(() => {
      if (moment) byId('step-choice').querySelector(`input[value="${moment}"]`)?.click();
      point(at, besides);
    }));
  }

  /* Brings a part into view, `besides` above it where there is room. */
  function point(at, besides) {
    for (const element of document.querySelectorAll('.spotlight')) element.classList.remove('spotlight');
    const target = document.querySelector(at);
    target.classList.add('spotlight');
    const box = target.getBoundingClientRect();
    const behavior = isStill() ? 'auto' : 'smooth';
    if (besides) document.querySelector(besides).scrollIntoView({ block: 'start', behavior });
    else if (box.top < 60 || box.bottom > innerHeight - 40) target.scrollIntoView({ block: box.height > innerHeight * 0.7 ? 'start' : 'center', behavior });
  }

  function drawCard() {
    const step = state.tour;
    card.hidden = step === null;
    document.body.classList.toggle('touring', step !== null);
    byId('tour-start').textContent = say(told !== null && step === null ? 'resume' : 'tour');
    if (step === null) {
      for (const element of document.querySelectorAll('.spotlight')) element.classList.remove('spotlight');
      return;
    }
    if (!isReady()) return;
    if (!story || ((story.text !== followed || story.live !== isLive()) && step < TOUR_STEPS - 1)) begin();
    const last = step === TOUR_STEPS - 1;
    const go = (to) => change({ tour: to });
    const drawn = `${step} ${state.language} ${isLive()}`;
    if (card.dataset.drawn === drawn) card.querySelector('p').textContent = wordsOf(step); // what has the focus keeps it
    else card.replaceChildren(
      make('div', { class: 'guide-head' }, make('h2', { id: 'guide-title', tabindex: -1 }, say(`tour ${step + 1}`)), make('span', { class: 'dim' }, say('of steps', step + 1, TOUR_STEPS)),
        make('button', { type: 'button', class: 'quiet', 'aria-label': say('leave'), title: say('leave'), on: { click: () => go(null) } }, '✕')),
      make('p', {}, wordsOf(step)),
      make('div', { class: 'controls' },
        make('button', { type: 'button', disabled: step === 0, on: { click: () => go(step - 1) } }, say('back')),
        make('div', { class: 'progress', 'aria-hidden': 'true' }, ...steps.map((_, i) => make('span', { class: i === step ? 'here' : null }))),
        make('button', { type: 'button', class: 'main', on: { click: () => go(last ? null : step + 1) } }, say(last ? 'done' : 'forth'))),
    );
    card.dataset.drawn = drawn;
    if (told !== step) {
      told = step;
      show(step);
      byId('guide-title').focus({ preventScroll: true });
    }
  }

  /* The numbers are those of the story's text, or of whatever text a page without an engine holds. */
  const isReady = () => run && (!isLive() || state.text === followed);

  byId('tour-start').addEventListener('click', () => {
    if (isLive() && told === null) goTo(TOUR_TEXT, null);
    change({ tour: state.tour ?? Math.min(told ?? 0, TOUR_STEPS - 1) });
    if (told !== null) told = -1; // shown again where it was left
  });
  addEventListener('keydown', (event) => {
    if (state.tour === null || event.target.matches('input, textarea, select, [role=grid], .map, .lines')) return;
    if (event.key === 'ArrowRight' && !event.target.closest('#boxes, #grid, #tokens')) change({ tour: Math.min(TOUR_STEPS - 1, state.tour + 1) });
    if (event.key === 'ArrowLeft' && !event.target.closest('#boxes, #grid, #tokens')) change({ tour: Math.max(0, state.tour - 1) });
    if (event.key === 'Escape') change({ tour: null });
  });
  addPart(['tour', 'run', 'source', 'lens'], drawCard, 'always');
})();
