/* The frame around the sections: what the page is about, the chosen position, themes, sizes; then the first drawing. */

(() => {
  const facts = [visible(data.model), `${data.architecture}, ${data.type}`, `${plural(data.n_layer, 'layer')} × ${plural(data.n_head, 'head')}`, plural(nTokens, 'token')];
  if (data.n_prompt < nTokens) facts.push(`the last ${nTokens - data.n_prompt} generated`);
  if (keptLayers.length < data.n_layer) facts.push(`patterns of ${plural(keptLayers.length, 'layer')} kept (--layers)`);
  byId('facts').textContent = facts.join(' · ');
  byId('made-by').replaceChildren(`Made by attn ${data.version}: `, make('code', {}, visible(data.made_by)));

  byId('back').addEventListener('click', () => chooseQuery(state.query - 1));
  byId('forth').addEventListener('click', () => chooseQuery(state.query + 1));
  addPart(['query'], () => {
    byId('place').replaceChildren('position ', placeOf(state.query));
    byId('back').disabled = state.query === 0;
    byId('forth').disabled = state.query === nTokens - 1;
  });

  if (data.ablation) {
    const { heads, delta_nll_nats: delta, kl_nats: kl, top1_changed: changed } = data.ablation;
    const input = byId('without-input');
    const sign = delta < 0 ? '−' : '+';
    byId('without').hidden = false;
    byId('without').title = `surprisal ${sign}${bits(Math.abs(delta))} bits a token, KL ${bits(kl)} bits, best token changed at ${percent(changed)} of the positions`;
    input.nextElementSibling.textContent = `Without ${heads.length > 3 ? `${heads.length} heads` : heads.join(', ')}`;
    input.addEventListener('change', () => change({ without: input.checked }));
  }

  const THEMES = ['system', 'light', 'dark'];
  byId('theme').addEventListener('click', () => change({ theme: THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length] }));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => change({ theme: state.theme }));
  addPart(['theme'], () => {
    byId('theme').textContent = `Theme: ${state.theme}`;
  });

  let width = innerWidth;
  addEventListener('resize', () => {
    if (innerWidth !== width) change({ size: (width = innerWidth) });
  });

  for (const part of parts) part.draw();
})();
