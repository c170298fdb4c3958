/*
 * The logit lens: a row for each token, a column for the residual stream before each layer and after the last.
 * Only the rows in view are in the document, but on paper all.
 */

(() => {
  const rowHeight = () => 28 * typeScale(); // px, as in page.css
  const MARGIN = 8; // rows beyond those in view
  const frame = byId('lens-grid');
  const readout = byId('lens-cell');
  const table = make('div', { class: 'lens-rows' });
  let columns = []; // 0_pre is the stream that enters layer 0; the names are those of `study lens`
  let cell = { position: 0, column: null };

  function begin() {
    columns = shownRun().lensRows ?? columns;
    if (columns.length === 0) return;
    if (cell.column === null || cell.column >= columns.length) cell.column = columns.length - 1;
    const head = make('div', { class: 'lens-row lens-head', role: 'row' }, make('span', { role: 'columnheader' }, say('token')),
      ...columns.map((name) => make('span', { role: 'columnheader' }, name)));
    frame.style.setProperty('--columns', columns.length);
    frame.replaceChildren(head, table);
    table.style.height = `${run.n * rowHeight()}px`;
    drawRows();
    drawReadout();
  }

  function answerAt({ position, column }) {
    const answer = shownRun().lens[position];
    if (!answer || !columns[column]) return null;
    const [p, rank, ...flat] = answer.rows[column];
    return { p, rank, top: pairsOf(flat), final: answer.final };
  }

  function makeRow(position) {
    const row = make('div', { class: 'lens-row', role: 'row', 'data-position': position, 'aria-rowindex': position + 1 });
    row.style.top = `${position * rowHeight()}px`;
    row.append(make('span', { role: 'rowheader', title: labelOf(position) }, make('bdi', {}, labelOf(position))));
    for (let column = 0; column < columns.length; column++) {
      const answer = answerAt({ position, column });
      row.append(answer
        ? make('span', { role: 'gridcell', class: answer.top[0][0] === answer.final ? 'agrees' : null, style: { '--share': share(answer.p) }, 'data-column': column },
          make('bdi', {}, labelOfId(answer.top[0][0])))
        : make('span', { role: 'gridcell', 'data-column': column }, unanswered('rest') ? '–' : '…'));
    }
    return row;
  }

  function drawRows() {
    const from = Math.max(0, Math.floor(frame.scrollTop / rowHeight()) - MARGIN);
    const to = Math.min(run.n, Math.ceil((frame.scrollTop + frame.clientHeight) / rowHeight()) + MARGIN);
    showRows(from, to);
  }

  function showRows(from, to) {
    table.replaceChildren(...Array.from({ length: Math.max(0, to - from) }, (_, i) => makeRow(from + i)));
    drawMarks();
  }

  function drawMarks() {
    for (const row of table.children) {
      const position = Number(row.dataset.position);
      row.classList.toggle('chosen', position === state.query);
      [...row.children].forEach((element, i) => element.classList.toggle('pointed', position === cell.position && i === cell.column + 1));
    }
  }

  function drawReadout() {
    const answer = answerAt(cell);
    if (!answer) {
      readout.replaceChildren();
      return;
    }
    const [before, behind] = say('lens place', columns[cell.column], '|').split('|');
    readout.replaceChildren(
      make('h3', {}, make('span', { class: 'dim' }, before), placeOf(cell.position), make('span', { class: 'dim' }, behind)),
      make('dl', {}, makeFact(say('final answer'), 'final', make('bdi', {}, labelOfId(answer.final))),
        makeFact(say('its probability'), 'p', percent(answer.p)), makeFact(say('its rank'), 'rank', String(answer.rank))),
      make('p', { class: 'dim' }, say('likeliest here')),
      make('ol', { class: 'bars' }, ...answer.top.map(([id, p]) => makeBarItem(labelOfId(id), makeBar(p), percent(p), { class: id === answer.final ? 'itself' : null }))),
    );
  }

  function point(place) {
    cell = place;
    drawMarks();
    drawReadout();
  }

  const cellOf = (event) => {
    const element = event.target.closest('[data-column]');
    return element && { position: Number(element.parentElement.dataset.position), column: Number(element.dataset.column) };
  };

  function keepInView() {
    const y = state.query * rowHeight();
    const height = frame.clientHeight - rowHeight();
    if (y < frame.scrollTop) frame.scrollTop = y;
    else if (y + rowHeight() > frame.scrollTop + height) frame.scrollTop = y + rowHeight() - height;
  }

  frame.addEventListener('scroll', () => run && drawRows());
  let scrolled = 0;
  addEventListener('beforeprint', () => {
    scrolled = frame.scrollTop;
    if (run) showRows(0, run.n);
  });
  addEventListener('afterprint', () => {
    frame.scrollTop = scrolled;
    if (run) drawRows();
  });
  frame.addEventListener('pointerover', (event) => {
    const place = cellOf(event);
    if (place) point(place);
  });
  frame.addEventListener('click', (event) => {
    const row = event.target.closest('[data-position]');
    if (row) chooseQuery(Number(row.dataset.position));
  });
  frame.addEventListener('keydown', (event) => {
    const rows = { ArrowUp: -1, ArrowDown: 1, Home: -run.n, End: run.n };
    const right = { ArrowLeft: -1, ArrowRight: 1 };
    if (!(event.key in rows || event.key in right)) return;
    event.preventDefault();
    if (event.key in rows) chooseQuery(cell.position + rows[event.key]);
    else point({ ...cell, column: Math.max(0, Math.min(columns.length - 1, cell.column + right[event.key])) });
  });

  addPart(['run', 'lens', 'unanswered', 'off', 'changes'], begin, 'late');
  addPart(['query'], () => {
    cell = { ...cell, position: state.query };
    keepInView();
    drawMarks();
    drawReadout();
  }, 'late');
  addPart(['size'], begin, 'late');
})();
