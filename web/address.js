/*
 * The state in the address, behind the #, so that a link is the experiment; and a saved copy, which carries it in itself.
 */

const Address = (() => {
  const NAMES = { text: 't', written: 'w', query: 'p', shape: 'v', looked: 'y', by: 'b', noSink: 's0', sort: 'sort', colour: 'colour', measured: 'measured', temperature: 'T', topP: 'P', plainSteps: 'f0', seed: 's', theme: 'theme', large: 'big', language: 'lang', tour: 'tour', corrupted: 'c', patched: 'g', answer: 'ca', wrong: 'cw' };
  const MAX_FACTOR = 4; // as `study` takes
  const NAME_LENGTH = 40; // of a saved file's, letters
  const initial = { ...state, pinned: false };

  function written() {
    const fields = new URLSearchParams();
    for (const [key, name] of Object.entries(NAMES)) {
      const value = state[key];
      const standard = { query: run ? run.n - 1 : null, ...Sampling.beginning() }[key] ?? initial[key];
      if (value !== null && value !== standard) fields.set(name, value === true ? '1' : String(value));
    }
    if (state.pinned) fields.set('h', state.heads.join(','));
    if (state.part && !(state.pinned && state.part === state.heads[0])) fields.set('at', state.part);
    const off = keyOfOff(state.off);
    if (off) fields.set('off', off);
    if (idsOf.has(state.text)) fields.set('ids', idsOf.get(state.text).join(','));
    for (const text of tried) fields.append('tried', text);
    return fields.toString();
  }

  /* The wishes of an address, as far as they make sense; a link may come from anyone. */
  function read(text) {
    const fields = new URLSearchParams(text);
    const values = {};
    const number = (name, low, high) => {
      const value = Number(fields.get(name));
      return fields.has(name) && value >= low && value <= high ? value : undefined;
    };
    const whole = (name, low, high) => {
      const value = number(name, low, high);
      return Number.isInteger(value) ? value : undefined;
    };
    const oneOf = (name, ...words) => (words.includes(fields.get(name)) ? fields.get(name) : undefined);
    const take = (key, value) => {
      if (value !== undefined) values[key] = value;
    };
    if (source.kind !== 'frozen') take('text', fields.get('t') ?? undefined);
    take('written', whole('w', 0, 1e9));
    take('query', whole('p', 0, 1e9));
    take('shape', oneOf('v', 'map', 'lines', 'steps', 'writes', 'why'));
    if (/^L\d{1,4}H\d{1,4}:\d{1,9}>\d{1,9}$/.test(fields.get('y') ?? '')) values.looked = fields.get('y');
    take('by', oneOf('b', 'value'));
    take('corrupted', fields.get('c') ?? undefined);
    take('patched', oneOf('g', 'attn_out', 'mlp_out', 'z'));
    take('answer', whole('ca', 0, 1e9));
    take('wrong', whole('cw', -1, 1e9));
    take('sort', oneOf('sort', ...HEAD_SCORES));
    take('colour', oneOf('colour', ...HEAD_SCORES));
    take('measured', oneOf('measured', 'text'));
    if (fields.get('s0') === '1') take('noSink', true);
    take('temperature', number('T', 0, 10));
    take('topP', number('P', 0.05, 1));
    if (fields.get('f0') === '1') take('plainSteps', true);
    take('seed', whole('s', 0, LARGEST_SEED));
    if (fields.get('big') === '1') take('large', true);
    take('theme', oneOf('theme', 'light', 'dark'));
    take('language', oneOf('lang', 'en', 'zh'));
    take('tour', whole('tour', 0, TOUR_STEPS - 1));
    const heads = (fields.get('h') ?? '').split(',').filter((name) => /^L\d{1,4}H\d{1,4}$/.test(name)).slice(0, MAX_CHOSEN);
    if (heads.length > 0) Object.assign(values, { heads, pinned: true, part: heads[0] });
    if (/^(embed|logits|L\d{1,4}(MLP|H\d{1,4})?)$/.test(fields.get('at') ?? '')) values.part = fields.get('at');
    const off = (fields.get('off') ?? '').split(',').map((word) => /^(L\d{1,4}(?:H\d{1,4}|MLP))=(\d+(?:\.\d+)?)$/.exec(word)).filter(Boolean);
    if (off.length > 0) values.off = Object.fromEntries(off.map(([, name, factor]) => [name, Number(Number(factor).toFixed(3))]).filter(([, factor]) => factor <= MAX_FACTOR));
    if (/^\d+(,\d+)*$/.test(fields.get('ids') ?? '') && values.text !== undefined) idsOf.set(values.text, fields.get('ids').split(',').map(Number));
    else if (values.text !== undefined) idsOf.delete(values.text);
    remember(...fields.getAll('tried'));
    return values;
  }

  /* In a frame of a notebook (srcdoc) a bare #… would be the notebook's. */
  const keep = (text) => history.replaceState(null, '', `${location.href.split('#')[0]}#${text}`);

  /* The address holds the state, so the link to the text goes there by itself; the caret stands where the eye is. */
  document.querySelector('.skip').addEventListener('click', (event) => {
    event.preventDefault();
    const editor = byId('editor');
    if (editor.hidden) {
      (document.querySelector('#tokens [tabindex="0"]') ?? byId('file')).focus();
      return;
    }
    const end = state.text === followed ? endsIn(followed)?.[state.query] : undefined;
    if (end !== undefined) {
      const caret = asTyped(followed.slice(0, end)).length;
      editor.setSelectionRange(caret, caret);
    }
    editor.focus();
  });

  let late = null; // a change while one waits is written with it
  function follow() {
    late ??= setTimeout(() => {
      late = null;
      const text = written();
      if (text !== location.hash.slice(1)) keep(text);
    }, 250);
  }

  /* Names that are no part of this model are left out. */
  function fit() {
    const names = new Set(headNames());
    const heads = state.heads.filter((name) => names.has(name));
    const isPart = (name) => names.has(name) || name === 'embed' || name === 'logits' || (/^L\d+(MLP)?$/.test(name) && parseInt(name.slice(1), 10) < run.facts.n_layer);
    const off = Object.fromEntries(Object.entries(state.off).filter(([name]) => isPart(name) && /H|MLP/.test(name)));
    state.heads = heads.length > 0 ? heads : [tellingHead(Math.min(state.query, run.n - 1)).name];
    state.pinned = state.pinned && heads.length > 0;
    state.off = source.kind !== 'frozen' || keyOfOff(off) === run.without?.key ? off : {}; // what nobody can compute
    if (state.part && !isPart(state.part)) state.part = null;
    for (const key of ['sort', 'colour']) if (state[key] === 'learned_sink' && !run.facts.sinks) state[key] = initial[key];
    state.query = Math.max(0, Math.min(state.query, run.n - 1));
    if (state.temperature === null) return;
    const { temperature_step: step } = run.facts; // the page knows the temperatures of its slider
    const steps = Math.min(Math.round(state.temperature / step), run.next[state.query].rest.length);
    state.temperature = Number((steps * step).toFixed(6));
  }

  let said = null; // when the button is itself again: what an earlier click began must not end what a later one says
  byId('copy-link').addEventListener('click', async () => {
    keep(written());
    const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
    byId('copy-link').textContent = say(copied ? 'copied' : 'not copied');
    clearTimeout(said);
    said = setTimeout(() => touch('language'), copied ? 1500 : 4000);
  });

  /* The first words of the text as the name of a file. */
  function fileName() {
    const words = run.texts.join('').match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
    const letters = [...['attn', ...words].join('-')];
    const name = letters.slice(0, NAME_LENGTH).join('');
    return `${letters.length > NAME_LENGTH ? name.replace(/(?<=-.*)-[^-]*$/, '') : name}.html`;
  }

  function save(page, address) {
    page.dataset.state = address;
    const file = new Blob(['<!doctype html>\n', page.outerHTML], { type: 'text/html' });
    const link = make('a', { href: URL.createObjectURL(file), download: fileName() });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  /* Away from its server, or from a file that was opened, a page only shows: it takes all numbers with it, and asks nobody. */
  function saveNumbers() {
    const off = keyOfOff(state.off);
    const address = written();
    want('save', asked('view', '--query', String(state.query), ...(off ? ['--ablate', off] : [])), (view) => {
      const page = pristine.cloneNode(true);
      const ends = state.written === null ? null : endsIn(followed);
      const numbers = { ...view, n_prompt: ends ? ends.filter((end) => end <= state.written).length : view.n_tokens };
      const policy = page.querySelector('meta[http-equiv=Content-Security-Policy]');
      policy.content = policy.content.replace("connect-src 'self'", "connect-src 'none'");
      page.dataset.source = 'frozen';
      for (const part of ['worker', 'engine', 'weights']) page.querySelector(`#${part}`).replaceChildren();
      page.querySelector('#data').replaceChildren(JSON.stringify(numbers).replace(/</g, '\\u003c'));
      save(page, address);
      byId('save').textContent = say('save');
    }, (message) => {
      byId('save').textContent = say('save');
      refuseText(message);
    });
    byId('save').textContent = '…';
  }

  byId('save').addEventListener('click', () => (source.kind === 'server' || source.file ? saveNumbers() : save(pristine, written())));

  addPart([...Object.keys(NAMES), 'heads', 'part', 'off', 'pinned', 'run', 'tree'], follow, 'always');
  addEventListener('hashchange', () => {
    if (!location.hash.includes('=') || location.hash.slice(1) === written()) return;
    const { query = Infinity, ...values } = read(location.hash.slice(1));
    change({ ...initial, text: state.text, ...values, query });
    placeWanted = state.text === followed ? null : query;
    if (run) fit();
    if (isLive()) followText(); // perhaps of other tokens
  });
  return { read: () => read(location.hash.slice(1) || document.documentElement.dataset.state || ''), fit };
})();
