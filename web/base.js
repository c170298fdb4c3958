/*
 * All parts of the page share this: the state, who draws from it, elements, tokens and numbers as text. The files of
 * this folder are joined into one script in the order that page/html.c lists.
 */
'use strict';

const BITS_PER_NAT = 1 / Math.LN2;

/* The page as it came, for whoever saves it; its texts are shared, not copied. */
const pristine = document.documentElement.cloneNode(true);

const byId = (id) => document.getElementById(id);

/*
 * The choices. change() is the only one to write to them; every part of the page draws from them, from the numbers
 * (`run`) and from nothing else.
 */
const state = {
  text: null, // what is typed; null on a page that only shows
  written: null, // where in it the model began to write, in UTF-16 units; null: nowhere
  query: 0, // the position under the eye
  part: null, // the box of the model that was entered: "L4H1", "L2MLP", "embed", "L3", "logits"
  heads: [], // names of the heads drawn large; the first is the one that "step by step" takes
  shape: 'map', // or 'lines', 'steps', 'writes', 'why'
  looked: null, // "L4H1:11>4": the score that 'why' is about; null: that of the heaviest key
  by: 'weight', // or 'value'
  noSink: false,
  sort: 'layer', // all heads: or one of HEAD_SCORES; so is the colour, or 'none'
  colour: 'none',
  measured: 'repeat', // or 'text': what these scores are of
  off: {}, // {name of a head or MLP: factor}
  temperature: null, // null: as Sampling begins; so is top-p
  topP: null,
  plainSteps: false, // without what else the file asks for
  seed: 1,
  theme: 'system',
  large: false, // for a projector
  language: /^zh/i.test(navigator.language) ? 'zh' : 'en',
  tour: null, // its step, from 0
  corrupted: null, // the text beside the first, to patch; null: as it begins
  patched: 'resid_pre', // or 'attn_out', 'mlp_out', 'z': what is patched
  answer: null, // the token that is asked for, by its id; null: the likeliest
  wrong: null, // likewise what stands against it; −1: nothing
  preview: null, // the head under the pointer
};

/* The numbers of the text (run.js); null before there are any. */
let run = null;

const parts = []; // {keys: of the state, draw, when}
let pending = null; // keys changed since the last frame
let later = new Set(); // … since the late parts were drawn
let lateTimer = null;
const LATE_MS = 50;

/*
 * `draw` is called when one of `keys` has changed: a member of the state, or "run", "changes", "size", "tree", "source" and
 * the like. `when`: 'always', without numbers too; 'first', before all others, for what follows from the state and may
 * touch more of it; 'late', once nothing has changed for a moment.
 */
function addPart(keys, draw, when = 'then') {
  parts.push({ keys: when === 'first' ? keys : [...keys, 'language'], draw, when });
}

function drawAs(when, changed) {
  for (const part of parts) if (part.when === when && (run || when === 'always') && part.keys.some((key) => changed.has(key))) part.draw();
}

function drawLate() {
  if (pending) drawParts(); // what is late builds on what is not
  clearTimeout(lateTimer);
  const changed = later;
  later = new Set();
  drawAs('late', changed);
}

function drawParts() {
  if (!pending) return;
  drawAs('first', pending);
  const changed = pending;
  pending = null;
  for (const key of changed) later.add(key);
  drawAs('always', changed);
  drawAs('then', changed);
  clearTimeout(lateTimer);
  lateTimer = setTimeout(drawLate, LATE_MS);
}
addEventListener('beforeprint', () => run && drawLate());

/* Parts whose keys changed are drawn in the next frame, each once however many changes there were. */
function touch(...keys) {
  if (!pending) {
    pending = new Set();
    requestAnimationFrame(drawParts);
  }
  for (const key of keys) pending.add(key);
}

function change(values) {
  Object.assign(state, values);
  touch(...Object.keys(values));
}

function chooseQuery(query) {
  change({ query: Math.max(0, Math.min(run.n - 1, query)) });
}

/* The theme as the system has it, or as it was chosen; canvases are drawn anew when it changes. */
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
function applyTheme() {
  const dark = state.theme === 'dark' || (state.theme === 'system' && prefersDark.matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
}
addPart(['theme'], applyTheme, 'always');
prefersDark.addEventListener('change', () => touch('theme'));

const isStill = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

/* An element; text is always text. Attributes that are undefined, null or false are left out. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === 'style') for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/*
 * Puts other children into a container. What has the focus keeps it: the control that stands for the same thing has it then,
 * by its data-key or id, or else the one in its place; where none is left, what held them.
 */
const CONTROLS = 'button, input, select, [tabindex]';
const keyOfControl = (control) => control.dataset.key ?? control.id;

function redraw(container, ...children) {
  const before = [...container.querySelectorAll(CONTROLS)];
  const at = before.indexOf(document.activeElement);
  container.replaceChildren(...children);
  if (at < 0) return;
  const had = before[at];
  const controls = [...container.querySelectorAll(CONTROLS)];
  const same = controls.includes(had) ? had : controls.find((control) => keyOfControl(control) !== '' && keyOfControl(control) === keyOfControl(had));
  const heir = same ?? controls[at] ?? controls.at(-1) ?? (container.hidden ? container.closest('section') : container);
  if (controls.length === 0) heir.tabIndex = -1;
  heir.focus({ preventScroll: true });
}

/* A button that can do nothing now keeps the focus, which one that is disabled would lose. */
const setUsable = (button, usable) => button.setAttribute('aria-disabled', !usable);
addEventListener('click', (event) => event.target.closest('[aria-disabled=true]') && event.stopImmediatePropagation(), true);

/* A shape of SVG. */
function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/* A horizontal bar that is full at a share of 1. `before`: the share that it had, as an outline. */
function makeBar(share, className = '', before = null) {
  const style = { '--share': Math.min(1, share) };
  if (before !== null) style['--before'] = Math.min(1, before);
  return make('span', { class: `bar-of ${className}${before !== null ? ' compared' : ''}`, style });
}

/* An item of a list of bars: a name, its bar, and a number. */
const makeBarItem = (name, bar, number, attributes = {}) => make('li', attributes, make('bdi', {}, name), bar, make('span', {}, number));

/* A name and what is to be said of it, for a list of such. */
const makeFact = (name, key, ...value) => make('div', {}, make('dt', {}, name), make('dd', { 'data-key': key }, ...value));

/* The radio buttons that are called as a member of the state choose it. */
function bindChoice(key) {
  const radios = document.querySelectorAll(`input[name=${key}]`);
  for (const radio of radios) radio.addEventListener('change', () => change({ [key]: radio.value }));
  addPart([key], () => {
    for (const radio of radios) radio.checked = radio.value === state[key];
  }, 'always');
}

/* Numbers two by two, as lists of tokens have them: an id, and what is said of it. */
const pairsOf = (flat) => Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);

/* Bytes and numbers from base64. */
function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/* The program writes little-endian numbers, whatever this machine's order is. */
function floatsOf(base64) {
  const bytes = new DataView(bytesOf(base64).buffer);
  return Float32Array.from({ length: bytes.byteLength / 4 }, (_, i) => bytes.getFloat32(4 * i, true));
}

function scaledOf([scale, base64]) {
  const bytes = new DataView(bytesOf(base64).buffer);
  return Array.from({ length: bytes.byteLength / 2 }, (_, i) => scale * bytes.getUint16(2 * i, true));
}

const bytesOfHex = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));

/*
 * Text that would not be seen, or that would rearrange the line it stands in, as something to see: a space in
 * front as ␣, a line feed as ↵, a direction mark as ⟨202e⟩.
 */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Noncharacter_Code_Point}]/gu;

function picture(character) {
  const code = character.codePointAt(0);
  if (character === '\n') return '↵';
  if (character === '\t') return '⇥';
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? '␡' : `⟨${code.toString(16).padStart(4, '0')}⟩`;
}

const visible = (text) => text.replace(UNSEEN, picture);
const asLabel = (text) => visible(text).replace(/^ +/, (spaces) => '␣'.repeat(spaces.length));
const asBytes = (hex) => `⟨${hex.match(/../g).join(' ')}⟩`;

/* A token of the vocabulary: as a label, and as the text that it adds, null where it is no whole text. */
function labelOfId(id) {
  const piece = run.vocabulary[id];
  return typeof piece === 'string' ? asLabel(piece) : asBytes(piece.hex);
}

const labelOf = (position) => {
  const text = run.texts[position];
  const { token, hex } = run.tokens[position];
  if (position === 0 && run.bos) return visible(token ?? asBytes(hex));
  return text === '' && hex ? asBytes(hex) : asLabel(text);
};

/* Isolated, so that a token written from right to left leaves what stands beside it where it is. */
const isolate = (text) => `\u2068${text}\u2069`;
const placeOf = (position) => `${position} “${isolate(labelOf(position))}”`;

/* Numbers. */
function percent(p, more = 0) { // digits than usual
  const digits = (p >= 0.0995 ? 1 : p >= 0.00995 ? 2 : 3) + more, least = 10 ** -digits;
  return p > 0 && 100 * p < least / 2 ? `< ${least.toFixed(digits)} %` : `${(100 * p).toFixed(digits)} %`;
}

const minus = (text) => text.replace('-', '−');
const bits = (nats) => (nats * BITS_PER_NAT).toFixed(2);
const fixed = (x, digits) => minus(x.toFixed(digits)).replace(/^−(?=[0.]*$)/, ''); // what rounds to 0 has no sign
const signed = (x, digits) => `${x > 0 && /[1-9]/.test(fixed(x, digits)) ? '+' : ''}${fixed(x, digits)}`;
const weightText = (value) => (value < 0.0005 && value > 0 ? '< 0.001' : value.toFixed(3));
const share = (value) => Math.max(0, Math.min(1, value)).toFixed(3);

/* A value of the style sheet as the theme has it now; a canvas does not follow it by itself. */
const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const rgbOf = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

/* Type is so many times as large as it was designed: on a projector, or as the reader has set it. */
const typeScale = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

/* Makes a canvas as large as `width` × `height` CSS pixels, sharp on any screen; returns its context. */
function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/*
 * Arrow keys, Home and End walk through the children of a container of which one at a time takes part in the
 * Tab order; `columns()` of them make a row, for up and down.
 */
function walkWithKeys(container, columns, onMove, selector = ':scope > *') {
  container.addEventListener('keydown', (event) => {
    const items = [...container.querySelectorAll(selector)];
    const at = items.indexOf(document.activeElement);
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns(), Home: -at, End: items.length - 1 - at };
    if (at < 0 || !(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(items.length - 1, at + steps[event.key]));
    items[at].tabIndex = -1;
    items[to].tabIndex = 0;
    items[to].focus();
    onMove(to);
  });
}

/* The tip at the cursor, or at the element that has the focus. */
const tip = (() => {
  const box = byId('tip');
  const EDGE = 4; // px to the window's edge
  const GAP = 8; // px to what it is about
  let described = null;

  /* The tip lies beside its element, never on it: below, above, right or left, where there is room. */
  const show = (about, children) => {
    box.replaceChildren(...children);
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    const most = { x: document.documentElement.clientWidth - width - EDGE, y: innerHeight - height - EDGE };
    const x = Math.max(EDGE, Math.min(about.left, most.x));
    const y = Math.max(EDGE, Math.min(about.top, most.y));
    const places = [[x, about.bottom + GAP], [x, about.top - GAP - height], [about.right + GAP, y], [about.left - GAP - width, y]];
    const [left, top] = places.find(([across, down]) => across >= EDGE && down >= EDGE && across <= most.x && down <= most.y) ?? [x, Math.max(EDGE, about.top - GAP - height)];
    box.style.left = `${left}px`;
    box.style.top = `${top}px`;
  };
  const hide = () => {
    box.hidden = true;
    described?.removeAttribute('aria-describedby');
    described = null;
  };
  addEventListener('scroll', hide, { capture: true, passive: true });
  addEventListener('keydown', (event) => event.key === 'Escape' && hide());
  return {
    /* The tip is about the pointer's place and `reach` px around it. */
    at: ({ clientX: x, clientY: y }, reach, ...children) => show({ left: x - reach, right: x + reach, top: y - reach, bottom: y + reach }, children),
    over: (element, ...children) => {
      hide();
      described = element;
      element.setAttribute('aria-describedby', 'tip');
      show(element.getBoundingClientRect(), children);
    },
    hide,
  };
})();

/* Calls `answer` with the newest event, once a frame. */
function eachFrame(answer) {
  let newest = null;
  return (event) => {
    if (!newest) {
      requestAnimationFrame(() => {
        const last = newest;
        newest = null;
        answer(last);
      });
    }
    newest = event;
  };
}
