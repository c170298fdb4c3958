/*
 * The story of one prediction in seven steps, told with the page's own parts. Each step sets the state, points at a part
 * and says a few words; the reader may touch everything meanwhile, leave, and come back.
 */

const TOUR_TEXT = 'The king Zorvan rode out. Then king Zor';
const TOUR_STEPS = 7;

(() => {
  const card = byId('guide');
  let told = null; // the step that set the state last

  /* The head that tells the story in whatever model is open: the one that looks at what followed the last such token. */
  function storyHead() {
    const at = run.n - 1;
    const before = run.tokens.findLastIndex((token, i) => i < at && token.id === run.tokens[at].id);
    if (before < 0) return tellingHead(at).name;
    return headNames().reduce((best, name) => (run.weightsAt(name, at)[before + 1] > run.weightsAt(best, at)[before + 1] ? name : best));
  }

  /* What each step shows, and where it points. */
  const steps = [
    { at: '#sentence', set: () => ({ query: run.n - 1, off: {} }) },
    { at: '#next', set: () => ({ query: run.n - 1, off: {}, temperature: 1, topP: 1 }) },
    { at: '#look', set: (head) => ({ query: run.n - 1, heads: [head], part: head, pinned: true, shape: 'steps', off: {} }), step: 1 },
    { at: '#look', set: (head) => ({ query: run.n - 1, heads: [head], part: head, pinned: true, shape: 'steps', off: {} }), step: 4 },
    { at: '#look', set: (head) => ({ query: run.n - 1, heads: [head], part: head, pinned: true, shape: 'writes', off: {} }) },
    { at: '#model', set: () => ({ query: run.n - 1, part: 'logits', off: {} }) },
    { at: '#model', set: (head) => ({ query: run.n - 1, heads: [head], part: head, pinned: true, off: run.without && !isLive() ? Object.fromEntries(run.without.heads.map((name) => [name, 0])) : {} }) },
  ];

  function show(step) {
    const { set, at, step: moment } = steps[step];
    change(set(storyHead()));
    requestAnimationFrame(() => requestAnimationFrame(() => {
      if (moment) byId('step-choice').querySelector(`input[value="${moment}"]`)?.click();
      point(at);
    }));
  }

  function point(at) {
    for (const element of document.querySelectorAll('.spotlight')) element.classList.remove('spotlight');
    const target = document.querySelector(at);
    target.classList.add('spotlight');
    const box = target.getBoundingClientRect();
    if (box.top < 60 || box.bottom > innerHeight - 40) target.scrollIntoView({ block: box.height > innerHeight * 0.7 ? 'start' : 'center', behavior: isStill() ? 'auto' : 'smooth' });
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
    const last = step === TOUR_STEPS - 1;
    const go = (to) => change({ tour: to });
    card.replaceChildren(
      make('div', { class: 'guide-head' }, make('h2', { id: 'guide-title', tabindex: -1 }, say(`tour ${step + 1}`)), make('span', { class: 'dim' }, say('of steps', step + 1, TOUR_STEPS)),
        make('button', { type: 'button', class: 'quiet', 'aria-label': say('leave'), title: say('leave'), on: { click: () => go(null) } }, '✕')),
      make('p', {}, say(last && !isLive() ? 'tour 7 still' : `tour ${step + 1} text`)),
      make('div', { class: 'controls' },
        make('button', { type: 'button', disabled: step === 0, on: { click: () => go(step - 1) } }, say('back')),
        make('div', { class: 'dots', 'aria-hidden': 'true' }, ...steps.map((_, i) => make('span', { class: i === step ? 'here' : null }))),
        make('button', { type: 'button', class: 'main', on: { click: () => go(last ? null : step + 1) } }, say(last ? 'done' : 'forth'))),
    );
    if (isReady() && told !== step) {
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
  addPart(['tour', 'run', 'source'], drawCard, 'always');
})();
