/*
 * The story of one prediction in seven steps, told with the page's own parts. Each step sets the state, points at a part
 * and says a few words; the reader may touch everything meanwhile, leave, and come back.
 */

const TOUR_TEXT = 'The king Zilgan rode out. Then king Zil';
const TOUR_STEPS = 7;
const CANDIDATES = 3; // heads that are tried for the story
const AS_WELL = 0.5; // of the largest weight on a token: who has as much looks there, too
const MOST_NAMED = 6; // heads in a sentence
const MARGIN = 24; // px around what a step speaks of
const SETTLES_MS = 1500; // what a step shows grows and moves meanwhile, and the page scrolls to it

(() => {
  const card = byId('guide');
  let told = null; // the step that set the state last
  let settlesAt = 0; // 0: the reader has acted, and nothing scrolls any more
  let awaited = false; // the engine owed an answer when the card was placed last

  /*
   * The story's parts, in whatever text and model: the last token, the head, the token it looks at, the guess. Where the
   * last token stood before, it is the head that looks at what followed there and matters most when it is switched off;
   * where others stand in for it, all that look there are switched off in the end.
   */
  let story = null;
  let before = null; // what of the state the steps set: as it was when the tour began

  function begin() {
    const query = run.n - 1;
    const after = afterCopy(query);
    const [guess] = distributionAfter(query, run).top;
    const known = !isLive() && run.without?.changed.length && run.without.changed.every((name) => name.includes('H')) ? run.without.changed : null;
    const names = after === null ? [tellingHead(query).name] : headsOn(query, after);
    story = { text: followed, live: isLive(), query, guess, isInduction: after !== null, head: (known ?? names)[0], heads: known ?? [names[0]], key: after, pAlone: null, pWithout: null };
    if (after === null) story.key = heaviestKey(run.weightsAt(story.head, query));
    if (known) story.pWithout = probabilityIn(run.without);
    if (isLive()) tryOut(names.slice(0, after === null ? 1 : CANDIDATES), after === null ? [] : headNames().filter((name) => run.weightsAt(name, query)[after] >= AS_WELL * run.weightsAt(names[0], query)[after]));
  }

  /* The guess's probability with something switched off; null where it is not among those listed. */
  const probabilityIn = (changed) => distributionAfter(story.query, changed).top.find(({ id }) => id === story.guess.id)?.p ?? null;

  /* Each of the names alone, and all that look there together where none alone makes half of the difference. */
  function tryOut(names, all, best = null) {
    const of = story;
    const [name, ...others] = names;
    const isSettled = !name && (best.p <= of.guess.p / 2 || all.length < 2);
    const settled = (heads, pWithout) => {
      Object.assign(of, { head: best.name, pAlone: best.p, heads, pWithout });
      if (state.tour !== null) told = null; // whoever has left keeps the step to resume at
      touch('tour');
    };
    if (isSettled) {
      settled([best.name], best.p);
      return;
    }
    want('tour', asked('view', '--ablate', (name ? [name] : all).map((one) => `${one}=0`).join(), '--from', String(of.query), '--parts', 'predictions', '--top', '1000'), ({ ablation }) => {
      if (story !== of) return;
      const p = probabilityIn({ next: { [of.query]: ablation.next.at(-1) } }) ?? 0;
      if (name) tryOut(others, all, best && best.p <= p ? best : { name, p });
      else if (p < best.p / 2) settled(all, p);
      else settled([best.name], best.p);
    });
  }

  const isOff = () => story.heads.every((name) => name in state.off);
  const switchWord = () => (story.heads.length > 1 ? say(isOff() ? 'switch several on' : 'switch several off', story.heads.length) : say(isOff() ? 'switch on' : 'switch off', story.head));

  /* What becomes of the guess, as the page says it now. */
  function proof() {
    const { guess, head, heads, pAlone, live } = story;
    const pWithout = isChanged() && isOff() ? probabilityIn(shownRun()) ?? story.pWithout : story.pWithout;
    const now = percent(guess.p);
    const named = heads.slice(0, MOST_NAMED).join(', ') + (heads.length > MOST_NAMED ? ' …' : '');
    if (pWithout === null) return say(live ? 'tour 7 text' : 'tour 7 unknown', head, now, unanswered('tour') ? '–' : '…');
    if (!live) return say('tour 7 still', named, now, percent(pWithout));
    return heads.length > 1 ? say('tour 7 several', head, now, percent(pAlone), named, percent(pWithout)) : say('tour 7 text', head, now, percent(pWithout));
  }

  function wordsOf(step) {
    const { query, guess, head, key, isInduction } = story;
    const guessed = isolate(labelOfId(guess.id));
    const halfway = run.lens[query] ? run.lens[query].rows[Math.floor(run.lensRows.length / 2)][1] : unanswered('lens') ? '–' : '…';
    const finally_ = run.lens[query] ? run.lens[query].rows.at(-1)[1] : unanswered('lens') ? '–' : '…';
    const kind = isInduction ? 'text' : 'other';
    return [
      () => say('tour 1 text', run.n),
      () => say('tour 2 text', run.facts.n_vocab, isolate(labelOf(query)), guessed, percent(guess.p)),
      () => say('tour 3 text'),
      () => say('tour 4 text', isolate(labelOf(key)), percent(run.weightsAt(head, query)[key])),
      () => say(`tour 5 ${kind}`, isolate(labelOf(query)), isolate(labelOf(key))),
      () => say(`tour 6 ${kind}`, guessed, halfway, finally_),
      proof,
    ][step]();
  }

  /* Each step shows something, points somewhere, and speaks of something: the card must not lie on that. */
  const large = (shape) => (head) => ({ query: run.n - 1, heads: [head], part: head, pinned: true, shape, off: {} });
  const answer = () => `#picture [data-key="${story.key}"]`;
  const headBox = () => `#boxes .box[data-part="${story.head}"]`;
  const steps = [
    { at: '#sentence', set: () => ({ query: run.n - 1, off: {} }), seen: () => ['#tokens', '#token'] },
    { at: '#next', set: () => ({ query: run.n - 1, off: {}, temperature: 1, topP: 1, plainSteps: Sampling.others().length > 0 || Sampling.hasOrder() }), seen: () => ['#expected li', '#temperature'] },
    { at: '#look', set: large('steps'), step: 1, seen: () => [answer(), '#picture .asks', '#step-choice'] },
    { at: '#look', set: large('steps'), step: 4, seen: () => [answer(), '#picture .asks', '#step-choice'] },
    { at: '#look', set: large('writes'), seen: () => ['#written h3', '#written li'] },
    { at: '#model', set: () => ({ query: run.n - 1, part: 'logits', off: {} }), seen: () => ['#boxes .guess', '#boxes .ending[data-part="logits"]'] },
    { at: '#model', set: (head) => ({ query: run.n - 1, heads: [head], part: head, pinned: true, off: {} }), seen: () => [headBox(), '#expected li'] },
  ];

  function show(step) {
    const { set, at, step: moment } = steps[step];
    change(set(story.head));
    for (const element of document.querySelectorAll('.spotlight')) element.classList.remove('spotlight');
    document.querySelector(at).classList.add('spotlight');
    settlesAt = 0;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      if (moment) byId('step-choice').querySelector(`input[value="${moment}"]`)?.click();
      settlesAt = performance.now() + SETTLES_MS;
      if (state.tour === step) place();
    }));
  }

  /* Whether the page may scroll: for a moment, from when the step's last answer has come; a slow machine takes seconds to it. */
  function settles() {
    const waits = [asking?.kind, ...wanted.keys()].some((kind) => kind && !['heads', 'rest'].includes(kind));
    if (settlesAt > 0 && (waits || awaited)) settlesAt = performance.now() + SETTLES_MS;
    awaited = waits;
    return performance.now() < settlesAt;
  }
  for (const act of ['wheel', 'touchmove', 'keydown', 'pointerdown']) addEventListener(act, () => { settlesAt = 0; }, { capture: true, passive: true });

  /* The boxes in the document that a step speaks of: the first of a list, and the part in sight of one that scrolls sideways. */
  function boxesSeen(scrolls) {
    const selectors = steps[state.tour].seen();
    card.dataset.seen = selectors.join(' ; '); // for who looks whether it does
    const found = selectors.map((selector) => document.querySelector(selector)).filter((element) => element?.checkVisibility());
    return found.map((element) => {
      const frame = scrolls ? element.closest('.strip-frame') : null;
      if (frame) frame.scrollLeft += element.getBoundingClientRect().left - frame.getBoundingClientRect().left - (frame.clientWidth - element.offsetWidth) / 2;
      const { left, right, top, bottom } = element.getBoundingClientRect();
      return { left, right, top: top + scrollY, bottom: bottom + scrollY };
    });
  }

  /*
   * Scrolls, and puts the card into a corner, so that what the step speaks of is in the window and the card lies on none of
   * it; where there is no room for all, the card covers as little as can be, and the first thing is in sight.
   */
  function place() {
    const mayScroll = settles();
    const boxes = boxesSeen(mayScroll);
    if (boxes.length === 0) return;
    const { width, height } = card.getBoundingClientRect();
    const gap = Math.min(24, innerWidth - width);
    const upper = Math.min(...boxes.map((box) => box.top));
    const lower = Math.max(...boxes.map((box) => box.bottom));
    const furthest = document.documentElement.scrollHeight - innerHeight;
    const scrolls = mayScroll
      ? [scrollY, upper - MARGIN, lower + MARGIN - innerHeight, lower + MARGIN + height + gap - innerHeight, upper - MARGIN - height - gap, boxes[0].top - MARGIN]
      : [scrollY];
    let best = null;
    for (const y of scrolls.map((one) => Math.max(0, Math.min(furthest, one))))
      for (const [above, before] of [[false, false], [false, true], [true, false], [true, true]]) {
        const left = before ? gap : innerWidth - gap - width;
        const top = y + (above ? gap : innerHeight - gap - height);
        let hidden = 0;
        boxes.forEach((box, i) => {
          const covered = Math.max(0, Math.min(box.right, left + width) - Math.max(box.left, left)) * Math.max(0, Math.min(box.bottom, top + height) - Math.max(box.top, top));
          const outside = Math.max(0, y - box.top) + Math.max(0, box.bottom - y - innerHeight);
          hidden += (1000 * covered + outside) * (i === 0 ? 10 : 1);
        });
        if (!best || hidden < best.hidden) best = { hidden, y, above, before };
      }
    card.classList.toggle('above', best.above);
    card.classList.toggle('before', best.before);
    if (best.y !== scrollY) scrollTo({ top: best.y, behavior: isStill() ? 'auto' : 'smooth' });
  }

  /* The state is as before the tour; the focus, if it was in the card, stays on the page. */
  function leave(to = 'tour-start') {
    const isWithin = card.contains(document.activeElement);
    change({ tour: null, ...before });
    before = null;
    if (isWithin) byId(to).focus();
  }

  function drawCard() {
    const step = state.tour;
    card.hidden = step === null;
    document.body.classList.toggle('touring', step !== null);
    byId('tour-start').textContent = say(told !== null && step === null ? 'resume' : 'tour');
    if (step !== null) before ??= { off: state.off, temperature: state.temperature, topP: state.topP, plainSteps: state.plainSteps };
    if (step === null) {
      before = null;
      for (const element of document.querySelectorAll('.spotlight')) element.classList.remove('spotlight');
      return;
    }
    if (!isReady()) return;
    if (!story || ((story.text !== followed || story.live !== isLive()) && step < TOUR_STEPS - 1)) begin();
    const last = step === TOUR_STEPS - 1;
    const go = (to) => change({ tour: to });
    const drawn = `${step} ${state.language} ${isLive()}`;
    if (card.dataset.drawn === drawn) { // what has the focus keeps it
      card.querySelector('p').textContent = wordsOf(step);
      if (byId('guide-switch')) byId('guide-switch').textContent = switchWord();
    } else card.replaceChildren(
      make('div', { class: 'guide-head' }, make('h2', { id: 'guide-title', tabindex: -1 }, say(`tour ${step + 1}`)), make('span', { class: 'dim' }, say('of steps', step + 1, TOUR_STEPS)),
        make('button', { type: 'button', class: 'quiet', 'aria-label': say('leave'), title: say('leave'), on: { click: () => leave() } }, '✕')),
      make('p', {}, wordsOf(step)),
      last && isLive() ? make('p', {}, make('button', { type: 'button', id: 'guide-switch', on: { click: () => change({ off: isOff() ? {} : Object.fromEntries(story.heads.map((name) => [name, 0])) }) } }, switchWord())) : '',
      make('div', { class: 'controls' },
        make('button', { type: 'button', disabled: step === 0, on: { click: () => go(step - 1) } }, say('back')),
        make('div', { class: 'progress', 'aria-hidden': 'true' }, ...steps.map((_, i) => make('span', { class: i === step ? 'here' : null }))),
        make('button', { type: 'button', class: 'main', on: { click: () => (last ? leave(isLive() ? 'editor' : 'tour-start') : go(step + 1)) } }, say(!last ? 'forth' : isLive() ? 'done' : 'end'))),
    );
    card.dataset.drawn = drawn;
    if (told !== step) {
      told = step;
      show(step);
      byId('guide-title').focus({ preventScroll: true });
    } else requestAnimationFrame(() => state.tour === step && place());
  }

  /* The numbers are those of the story's text, or of whatever text a page without an engine holds. */
  const isReady = () => run && (!isLive() || state.text === followed);

  byId('tour-start').addEventListener('click', () => {
    if (isLive() && told === null) exchange(TOUR_TEXT);
    change({ tour: state.tour ?? Math.min(told ?? 0, TOUR_STEPS - 1) });
    if (told !== null) told = -1; // shown again where it was left
  });
  addEventListener('keydown', (event) => {
    if (state.tour === null || event.target.matches('input, textarea, select, [role=grid], .map, .lines')) return;
    if (event.key === 'ArrowRight' && !event.target.closest('#boxes, #grid, #tokens')) change({ tour: Math.min(TOUR_STEPS - 1, state.tour + 1) });
    if (event.key === 'ArrowLeft' && !event.target.closest('#boxes, #grid, #tokens')) change({ tour: Math.max(0, state.tour - 1) });
    if (event.key === 'Escape') leave();
  });
  const about = ['tour', 'run', 'source', 'lens', 'unanswered', 'off', 'changes', 'explained', 'size'];
  addPart(about, drawCard, 'always');
  addPart(about, () => requestAnimationFrame(() => state.tour !== null && story && isReady() && place()), 'late'); // it moves the others
})();
