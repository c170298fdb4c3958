/* The parts that are off or scaled, what that changed, and the way back. */

(() => {
  const bar = byId('changes');
  const frozen = () => (!isLive() ? run.without : null); // the one change that a page without an engine holds

  /* The token whose probability after the chosen position moved most. */
  function movedMost() {
    const now = new Map(distributionAfter(state.query).top.map(({ id, p }) => [id, p]));
    const before = new Map(distributionAfter(state.query, run).top.map(({ id, p }) => [id, p]));
    const moved = [...new Set([...now.keys(), ...before.keys()])].filter((id) => now.has(id) && before.has(id))
      .map((id) => ({ id, from: before.get(id), to: now.get(id) }));
    return moved.reduce((most, one) => (most && Math.abs(most.to - most.from) >= Math.abs(one.to - one.from) ? most : one), null);
  }

  function drawSwitch(ablation) {
    const names = ablation.heads.length > 3 ? say('heads', ablation.heads.length) : ablation.heads.join(', ');
    const input = make('input', { type: 'checkbox', id: 'without-input', on: { change: () => change({ off: input.checked ? Object.fromEntries(ablation.heads.map((name, i) => [name, ablation.factors?.[i] ?? 0])) : {} }) } });
    input.checked = Object.keys(state.off).length > 0;
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
      if (most) parts.push(make('span', { class: 'moved' }, say('moved most', isolate(labelOf(state.query)), isolate(labelOfId(most.id)), percent(most.from), percent(most.to))));
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
