/* The frame around the parts: what the page is about, files that are dropped, sizes; then the first numbers. */

(() => {
  const LARGEST = 2 ** 31; // bytes of a model that there is room for (wasm/ask.c)
  const status = byId('status');
  let opened = null; // the file whose model answers; null: the page's own
  let tell = null; // what the status line says, a function of the language

  function drawStatus() {
    const words = source.gone ? say('server gone') : tell?.();
    status.hidden = !words;
    status.textContent = words ?? '';
  }

  function drawFrame() {
    const first = run !== null;
    byId('main').hidden = !first;
    byId('welcome').hidden = first || source.kind !== 'engine' || hasModel();
    byId('open-file').hidden = source.kind !== 'engine';
    byId('copy-link').hidden = !first;
    byId('save').hidden = !first;
    byId('save').disabled = isBlank || (source.kind === 'server' && state.text !== followed);
    byId('tour-start').hidden = !first;
    byId('theme').textContent = say(`theme ${state.theme}`);
    if (!first) return;
    const { facts } = run;
    const name = facts.model.split('/').at(-1);
    const words = [visible(name), `${facts.architecture}, ${facts.type}`, say('layers_of', facts.n_layer, facts.n_head), say('tokens_of', isBlank ? 0 : run.n)];
    if (state.text === null && run.n_prompt < run.n) words.push(say('generated_of', run.n - run.n_prompt));
    if (facts.patterns.layers.length < facts.n_layer) words.push(say('kept_of', facts.patterns.layers.length));
    byId('facts').textContent = words.join(' · ');
    byId('made-by').replaceChildren(say('made by', facts.version), make('code', {}, visible(facts.made_by)));
  }

  const hasModel = () => byId('weights').textContent !== '';

  const megabytes = (bytes) => (bytes < 1e9 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`);

  async function openFile(file) {
    if (file.size > LARGEST) {
      tell = () => say('not opened', visible(file.name), say('too large', megabytes(file.size)));
      drawStatus();
      return;
    }
    tell = () => say('opening file', visible(file.name), megabytes(file.size));
    drawStatus();
    await openSource(file, (done) => {
      tell = () => say('opening file', visible(file.name), percent(done));
      drawStatus();
    });
    if (source.problem) {
      const { problem: why } = source;
      tell = () => say('not opened', visible(file.name), why);
      if (opened || hasModel()) await openSource(opened); // back to the one before
    } else {
      opened = file;
      tell = null;
      run = null;
      followed = null;
      begins = [];
      idsOf.clear();
      change({ heads: [], part: null, pinned: false, off: {}, query: 0 });
      goTo(state.text || TOUR_TEXT);
    }
    touch('source');
  }

  byId('open-file').addEventListener('click', () => byId('file').click());
  byId('file').addEventListener('change', (event) => {
    if (event.target.files[0]) openFile(event.target.files[0]);
    event.target.value = '';
  });
  if (source.kind === 'engine') {
    addEventListener('dragover', (event) => {
      event.preventDefault();
      document.body.classList.add('dropping');
    });
    addEventListener('dragleave', () => document.body.classList.remove('dropping'));
    addEventListener('drop', (event) => {
      event.preventDefault();
      document.body.classList.remove('dropping');
      if (event.dataTransfer.files[0]) openFile(event.dataTransfer.files[0]);
    });
  }

  byId('language').addEventListener('click', () => change({ language: state.language === 'en' ? 'zh' : 'en' }));
  byId('theme').addEventListener('click', () => {
    const themes = ['system', 'light', 'dark'];
    change({ theme: themes[(themes.indexOf(state.theme) + 1) % themes.length] });
  });
  byId('projector').addEventListener('click', () => change({ large: !state.large }));
  addEventListener('keydown', (event) => {
    const types = event.target.matches('textarea, select, input:not([type=range], [type=radio], [type=checkbox])');
    if (event.key === 'p' && !types && !event.ctrlKey && !event.altKey && !event.metaKey) change({ large: !state.large });
  });
  addPart(['large'], () => {
    document.documentElement.toggleAttribute('data-large', state.large);
    byId('projector').setAttribute('aria-pressed', state.large);
    touch('size');
  }, 'always');
  addPart(['run', 'source', 'theme', 'problem', 'text'], drawFrame, 'always');
  addPart(['source', 'unanswered'], drawStatus, 'always');

  /* What is drawn over text, or has columns, is on paper as wide as on the screen, and as small as it takes. */
  addEventListener('beforeprint', () => document.querySelectorAll('.paper, .picture, .lens').forEach((part) => {
    part.style.setProperty('--width', `${Math.max(part.scrollWidth, part.offsetWidth)}px`);
    part.style.setProperty('--fit', Math.min(1, PAPER / part.scrollWidth));
  }));

  let width = 0;
  new ResizeObserver(() => {
    if (document.documentElement.clientWidth === width) return;
    width = document.documentElement.clientWidth;
    touch('size');
  }).observe(document.documentElement);

  /* Numbers that the page was made with are shown at once; the engine comes when it is ready. */
  const data = JSON.parse(byId('data').textContent || 'null');
  const asked = Address.read();
  if (data) {
    run = new Run(data);
    followed = run.texts.join('').replace(/^ /, '');
    own = followed;
    begins = [data.bos ? '--bos' : '--no-bos'];
    if (followed !== run.texts.join('')) idsOf.set(followed, run.tokens.map((token) => token.id)); // whose the space is, the ids know
    state.query = data.query;
    if (data.n_prompt < run.n) state.written = endsIn(followed)?.[data.n_prompt - 1] ?? null;
  }
  Object.assign(state, asked);
  if (source.kind !== 'frozen') state.text ??= followed ?? TOUR_TEXT;
  if (run && state.text !== followed) placeWanted = asked.query ?? Infinity;
  if (run) Address.fit();
  touch(...Object.keys(state), 'run', 'source', 'tree');
  if (source.kind === 'server' || (source.kind === 'engine' && hasModel())) {
    if (!run) {
      tell = () => say('opening engine');
    }
    openSource().then(() => {
      const { problem: why } = source;
      tell = why ? () => say('engine failed', why) : null;
      drawStatus();
    });
  }
})();
