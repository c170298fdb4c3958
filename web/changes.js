/* The parts that are off or scaled, what that changed, and the way back. */

(() => {
  const LEAST_MOVED = 1e-7; // by less nothing has moved
  const bar = byId('changes');
  const frozen = () => (source.kind === 'frozen' ? run.without : null); // the one change that a page without an engine holds

  /* The token whose probability after the chosen position moved most, as far as the lists of the likeliest tell. */
  function movedMost() {
    const [before, now] = [boundsAfter(state.query, run), boundsAfter(state.query)];
    const ids = new Set([run, shownRun()].flatMap((of) => distributionAfter(state.query, of).top.map(({ id }) => id)));
    const moved = [...ids].map((id) => {
      const [from, to] = [before(id), now(id)];
      return { id, from, to, by: Math.max(to[0] - from[1], from[0] - to[1]) };
    });
    const most = moved.reduce((a, b) => (a.by >= b.by ? a : b));
    return most.by > LEAST_MOVED ? most : null;
  }

  const withinBounds = ([least, most], more) => (least < most ? `< ${percent(most, more).replace(/^< /, '')}` : percent(most, more));

  /* Both in words, in as many digits as tell them apart. */
  function apart(from, to, more = 0) {
    const texts = [withinBounds(from, more), withinBounds(to, more)];
    return texts[0] === texts[1] ? apart(from, to, more + 1) : texts;
  }

  function drawSwitch(ablation) {
    const names = ablation.changed.length > 3 ? say('heads', ablation.changed.length) : ablation.changed.join(', ');
    const input = make('input', { type: 'checkbox', id: 'without-input', on: { change: () => change({ off: input.checked ? Object.fromEntries(ablation.changed.map((name, i) => [name, ablation.factors?.[i] ?? 0])) : {} }) } });
    input.checked = isAnyOff();
    return make('label', { class: 'switch', id: 'without' }, input, ` ${say('without', names)}`);
  }

  function drawBar() {
    const names = Object.keys(state.off);
    bar.hidden = names.length === 0 && !frozen();
    if (bar.hidden) {
      redraw(bar);
      return;
    }
    const parts = [];
    if (frozen()) parts.push(drawSwitch(frozen()));
    else {
      parts.push(make('b', {}, say('changed')), ...names.map((name) => make('button', { type: 'button', class: 'off-chip', 'data-key': name, title: say('switch on', name), on: { click: () => setFactor(name, 1) } }, `${name}${state.off[name] ? ` × ${state.off[name]}` : ''} ✕`)));
      if (names.length > 1) parts.push(make('button', { type: 'button', class: 'quiet', on: { click: () => change({ off: {} }) } }, say('all on')));
    }
    if (isChanged()) {
      const most = movedMost();
      if (most) parts.push(make('span', { class: 'moved' }, say('moved most', isolate(labelOf(state.query)), isolate(labelOfId(most.id)), ...apart(most.from, most.to))));
      const scored = run.positions.map((before, i) => (before ? run.without.positions[i].surprisal_nats - before.surprisal_nats : 0));
      if (scored.length > 1) parts.push(make('span', { class: 'dim' }, say('surprisal change', signed((scored.reduce((a, b) => a + b, 0) / (scored.length - 1)) * BITS_PER_NAT, 2))));
    } else if (names.length > 0) parts.push(make('strong', { class: 'of-unchanged' }, say('unchanged model')), make('span', { class: 'dim' }, unanswered('without') ?? '…'));
    redraw(bar, ...parts);
  }

  addPart(['run', 'off', 'changes', 'query', 'source', 'unanswered'], drawBar);
})();

/* Numbers of the model as it is, while something is off, are dimmed, and say whose they are. */
function markBehind() {
  byId('main').classList.toggle('behind', isBehind());
}
addPart(['run', 'off', 'changes'], markBehind);
