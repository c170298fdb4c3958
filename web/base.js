/*
 * What all parts of the page share: the data that the program left in it, the state that they show, tokens and
 * numbers as text. The files of this folder are joined into one script in the order that web/page.c lists.
 */
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const nTokens = data.n_tokens;
const BITS_PER_NAT = 1 / Math.LN2;

/* The theme as the system has it, or as it was chosen; canvases are drawn anew when it changes. */
function applyTheme(choice) {
  const dark = choice === 'dark' || (choice === 'system' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
}
applyTheme('system');

/* What is chosen. change() is the only one to write to it; every part of the page draws from it. */
const state = {
  query: data.query,
  heads: [], // names; the first is the one that "step by step" takes
  by: 'weight', // or 'value'
  noSink: false,
  without: false, // show what the model does without the heads of --ablate
  temperature: 1,
  topP: 1,
  theme: 'system',
};

const parts = [{ keys: ['theme'], draw: () => applyTheme(state.theme) }]; // {keys: of the state, draw}
let pending = null; // keys changed since the last frame

function addPart(keys, draw) {
  parts.push({ keys, draw });
}

/* Parts whose keys changed are drawn in the next frame, each once however many changes there were. */
function change(values) {
  if (!pending) {
    pending = new Set();
    requestAnimationFrame(() => {
      const changed = pending;
      pending = null;
      for (const part of parts) if (part.keys.some((key) => changed.has(key))) part.draw();
    });
  }
  for (const key of Object.keys(values)) {
    state[key] = values[key];
    pending.add(key);
  }
}

function chooseQuery(query) {
  change({ query: Math.max(0, Math.min(nTokens - 1, query)) });
}

const byId = (id) => document.getElementById(id);

/* An element; text is always text. Attributes that are undefined, null or false are left out. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === 'share') element.style.setProperty('--share', value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/* A horizontal bar that is full at a share of 1. */
const makeBar = (share, className = '') => make('span', { class: `bar-of ${className}`, share: Math.min(1, share) });

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
  return Float64Array.from({ length: bytes.byteLength / 2 }, (_, i) => scale * bytes.getUint16(2 * i, true));
}

function bytesOfHex(hex) {
  return Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
}

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

/* A token of the vocabulary, as a label. */
function labelOfId(id) {
  const piece = data.vocabulary[id];
  return typeof piece === 'string' ? asLabel(piece) : asBytes(piece.hex);
}

/*
 * What each token adds to the text. A character whose bytes are spread over tokens appears at the last of them;
 * the others show their bytes.
 */
const tokenTexts = (() => {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const encoder = new TextEncoder();
  return data.tokens.map((token, i) => {
    const bytes = token.hex ? bytesOfHex(token.hex) : encoder.encode(token.token);
    return decoder.decode(bytes, { stream: i + 1 < nTokens });
  });
})();

const labelOf = (position) => {
  const text = tokenTexts[position];
  const { hex } = data.tokens[position];
  return text === '' && hex ? asBytes(hex) : asLabel(text);
};

/* A token of the text with its position; isolated, so that one written from right to left leaves the number where it is. */
const placeOf = (position) => `${position} \u2068${labelOf(position)}\u2069`;

const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;

/* Numbers. */
function percent(p) {
  const digits = p >= 0.0995 ? 1 : p >= 0.00995 ? 2 : 3;
  return p > 0 && p < 0.000005 ? '< 0.001 %' : `${(100 * p).toFixed(digits)} %`;
}

const minus = (text) => text.replace('-', '−');
const bits = (nats) => (nats * BITS_PER_NAT).toFixed(2);
const fixed = (x, digits) => minus(x.toFixed(digits));

/* With the heads of --ablate switched off, or as the model is. */
const shownRun = () => (state.without ? data.ablation : data);

/* A value of the style sheet as the theme has it now; a canvas does not follow it by itself. */
const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function rgbOf(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

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
function walkWithKeys(container, columns, onMove) {
  container.addEventListener('keydown', (event) => {
    const items = [...container.children];
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
