/*
 * The logit lens: a row for each token, a column for the residual stream before each layer and after the last.
 * Only the rows in view are in the document.
 */

(() => {
  const ROW = 28; // px, as in page.css
  const MARGIN = 8; // rows beyond those in view
  const frame = byId('lens-grid');
  const readout = byId('lens-cell');
  const { rows: columns, positions } = data.lens;
  const table = make('div', { class: 'lens-rows' });
  let cell = { position: state.query, column: columns.length - 1 };
  let drawn = [0, 0]; // the rows in the document, from … to

  /* 0_pre is the stream that enters layer 0; the names are those of `study lens`. */
  const head = make('div', { class: 'lens-row lens-head', role: 'row' }, make('span', { role: 'columnheader' }, 'token'),
    ...columns.map((name) => make('span', { role: 'columnheader' }, name)));
  frame.style.setProperty('--columns', columns.length);
  frame.append(head, table);
  table.style.height = `${nTokens * ROW}px`;

  const answerAt = ({ position, column }) => {
    const [p, rank, ...flat] = positions[position].rows[column];
    const top = [];
    for (let i = 0; i < flat.length; i += 2) top.push({ id: flat[i], p: flat[i + 1] });
    return { p, rank, top, final: positions[position].final };
  };

  function makeRow(position) {
    const row = make('div', { class: 'lens-row', role: 'row', 'data-position': position, 'aria-rowindex': position + 1 });
    row.style.top = `${position * ROW}px`;
    row.append(make('span', { role: 'rowheader', title: labelOf(position) }, make('bdi', {}, labelOf(position))));
    for (let column = 0; column < columns.length; column++) {
      const { p, top, final } = answerAt({ position, column });
      row.append(make('span', { role: 'gridcell', class: top[0].id === final ? 'agrees' : null, share: p.toFixed(3), 'data-column': column },
        make('bdi', {}, labelOfId(top[0].id))));
    }
    return row;
  }

  function draw() {
    const first = Math.max(0, Math.floor(frame.scrollTop / ROW) - MARGIN);
    const last = Math.min(nTokens, Math.ceil((frame.scrollTop + frame.clientHeight) / ROW) + MARGIN);
    if (first !== drawn[0] || last !== drawn[1]) {
      drawn = [first, last];
      table.replaceChildren(...Array.from({ length: last - first }, (_, i) => makeRow(first + i)));
    }
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
    const { p, rank, top, final } = answerAt(cell);
    const name = columns[cell.column];
    readout.replaceChildren(
      make('h3', {}, make('span', { class: 'dim' }, `${name}, after `), placeOf(cell.position)),
      make('dl', {},
        make('div', {}, make('dt', {}, 'final answer'), make('dd', {}, make('bdi', {}, labelOfId(final)))),
        make('div', {}, make('dt', {}, 'its probability here'), make('dd', { 'data-key': 'p' }, percent(p))),
        make('div', {}, make('dt', {}, 'its rank here'), make('dd', { 'data-key': 'rank' }, String(rank)))),
      make('p', { class: 'dim' }, 'Likeliest here'),
      make('ol', { class: 'bars' }, ...top.map((token) => make('li', { class: token.id === final ? 'itself' : null },
        make('bdi', {}, labelOfId(token.id)), makeBar(token.p), make('span', {}, percent(token.p))))),
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
    const y = state.query * ROW;
    const height = frame.clientHeight - head.offsetHeight;
    if (y < frame.scrollTop) frame.scrollTop = y;
    else if (y + ROW > frame.scrollTop + height) frame.scrollTop = y + ROW - height;
  }

  frame.addEventListener('scroll', draw);
  frame.addEventListener('pointerover', (event) => {
    const place = cellOf(event);
    if (place) point(place);
  });
  frame.addEventListener('click', (event) => {
    const row = event.target.closest('[data-position]');
    if (row) chooseQuery(Number(row.dataset.position));
  });
  frame.addEventListener('keydown', (event) => {
    const rows = { ArrowUp: -1, ArrowDown: 1, Home: -nTokens, End: nTokens };
    const right = { ArrowLeft: -1, ArrowRight: 1 };
    if (!(event.key in rows || event.key in right)) return;
    event.preventDefault();
    if (event.key in rows) chooseQuery(cell.position + rows[event.key]);
    else point({ ...cell, column: Math.max(0, Math.min(columns.length - 1, cell.column + right[event.key])) });
  });

  addPart(['query'], () => {
    cell = { ...cell, position: state.query };
    keepInView();
    draw();
    drawReadout();
  });
  addPart(['size'], draw);
})();
