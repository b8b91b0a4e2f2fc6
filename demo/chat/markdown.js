/**
 * Markdown as elements. The library only classifies parts of the text. Elements and text nodes are made here, so no text of a model
 * can become markup: HTML is shown as text. Images are never fetched.
 */
import { Blocks } from './markdown-blocks.js';
import { button, element } from '../page/element.js';

/** @typedef {import('marked').MarkedToken | { type: 'formula', raw: string, text: string, isBlock: boolean }} Token */
/** @typedef {import('marked').Tokens.Table} Table */

/** Protocols that links may have. */
const SAFE = ['https:', 'http:', 'mailto:'];

/** Number of levels by which headings of a message are lowered: they are below those of the page. */
const HEADING_OFFSET = 2;

/** @param {Node} place @param {readonly any[]} [tokens] */
function fill(place, tokens = []) {
  for (const token of tokens) place.appendChild(nodeOf(token));
  return place;
}

/** Cells of tables with more characters than this do not become as narrow as their longest word. */
const LONG_CELL = 24;

/** @param {string} tag @param {readonly any[]} [tokens] */
const holding = (tag, tokens) => fill(document.createElement(tag), tokens);

/** @param {Token} token @returns {Node} */
function nodeOf(token) {
  switch (token.type) {
    case 'heading':
      return holding(`h${Math.min(6, token.depth + HEADING_OFFSET)}`, token.tokens);
    case 'paragraph':
      return holding('p', token.tokens);
    case 'blockquote':
      return holding('blockquote', token.tokens);
    case 'strong':
    case 'em':
    case 'del':
      return holding(token.type, token.tokens);
    case 'hr':
    case 'br':
      return document.createElement(token.type);
    case 'code':
      return code(token.text, token.lang ?? '');
    case 'formula':
      return formula(token);
    case 'codespan':
      return element('code', '', token.text);
    case 'list':
      return list(token);
    case 'table':
      return table(token);
    case 'link':
      return link(token.href, token.tokens);
    case 'image':
      return link(token.href, [{ type: 'text', text: token.text || token.href }]);
    case 'checkbox':
      return document.createTextNode(token.checked ? '☑ ' : '☐ ');
    case 'text':
      return 'tokens' in token && token.tokens
        ? fill(document.createDocumentFragment(), token.tokens)
        : document.createTextNode(token.text);
    case 'escape':
      return document.createTextNode(token.text);
    default:
      return document.createTextNode(token.raw);
  }
}

/** Loaded with the first formula. @type {typeof import('./math.js') | null} */
let math = null;

/**
 * Returns the element of a formula, which shows its source until it is drawn.
 * @param {{ raw: string, text: string, isBlock: boolean }} token
 */
function formula({ raw, text, isBlock }) {
  const place = element(isBlock ? 'div' : 'span', 'formula', raw.trim());
  if (math) math.showFormula(place, text, isBlock);
  else
    void import('./math.js').then(
      (loaded) => (math = loaded).showFormula(place, text, isBlock),
      () => {}, // then the source stays
    );
  return place;
}

/** Highlights the code blocks that specify a language. @param {HTMLElement} place */
function highlightCode(place) {
  for (const code of place.querySelectorAll('.code-block code:not([data-highlighted])')) {
    const language = code.closest('.code-block')?.querySelector('.code-head span')?.textContent ?? '';
    code.setAttribute('data-highlighted', '');
    if (!language) continue;
    void import('./highlight.js').then(
      ({ highlight }) => highlight(/** @type {HTMLElement} */ (code), language.toLowerCase()),
      () => {}, // then code is not highlighted
    );
  }
}

/** @param {string} text @param {string} language */
function code(text, language) {
  const root = element('div', 'code-block');
  const head = element('div', 'code-head');
  const body = element('code', '', text);
  const pre = element('pre');
  pre.tabIndex = 0; // so that it can be scrolled with the keyboard
  pre.append(body);
  head.append(
    element('span', '', language.split(/\s/, 1)[0]),
    button('Copy', 'Copy the code', () => {
      root.dispatchEvent(new CustomEvent('copy-code', { bubbles: true, detail: body.textContent }));
    }),
  );
  root.append(head, pre);
  return root;
}

/** @param {import('marked').Tokens.List} list */
function list({ ordered, start, items }) {
  const output = document.createElement(ordered ? 'ol' : 'ul');
  if (ordered && typeof start === 'number' && start !== 1) output.setAttribute('start', String(start));
  for (const { tokens } of items) output.append(holding('li', tokens));
  return output;
}

/** @param {Table} table */
function table({ header, rows }) {
  const place = element('div', 'table');
  place.tabIndex = 0;
  const output = document.createElement('table');
  const row = (/** @type {Table['header']} */ cells, /** @type {string} */ tag) => {
    const line = document.createElement('tr');
    for (const { tokens, align } of cells) {
      const cell = /** @type {HTMLElement} */ (holding(tag, tokens));
      if (align) cell.dataset.align = align;
      cell.toggleAttribute('data-long', (cell.textContent ?? '').length > LONG_CELL);
      line.append(cell);
    }
    return line;
  };
  output.createTHead().append(row(header, 'th'));
  output.createTBody().append(...rows.map((cells) => row(cells, 'td')));
  place.append(output);
  return place;
}

/** @param {string} href @param {readonly any[]} tokens */
function link(href, tokens) {
  const url = URL.parse?.(href) ?? (URL.canParse(href) ? new URL(href) : null);
  if (!url || !SAFE.includes(url.protocol)) return holding('span', tokens);
  const output = /** @type {HTMLAnchorElement} */ (holding('a', tokens));
  Object.assign(output, { href: url.href, target: '_blank', rel: 'noopener noreferrer', title: url.href });
  return output;
}

export class Renderer {
  #place;
  #blocks = new Blocks();
  /** Sources of the blocks shown. @type {string[]} */
  #shown = [];

  /** @param {HTMLElement} place */
  constructor(place) {
    this.#place = place;
  }

  /**
   * Draws the blocks that have changed; while a text is written, that is the last one.
   * @param {string} text
   * @param {boolean} [writing]  whether more text will follow
   */
  show(text, writing = false) {
    const blocks = this.#blocks.read(text, writing);
    if (!blocks) return;
    const same = blocks.findIndex(({ raw }, i) => raw !== this.#shown[i]);
    const kept = same < 0 ? blocks.length : same;
    const first = blocks[kept];
    const children = this.#place.children;
    const old = children[kept]?.matches('.code-block') ? children[kept].querySelector('code') : null;
    let next = kept;
    if (first?.type === 'code' && old && first.text.startsWith(old.textContent ?? '')) {
      // The block only grew: its scroll position and selection are kept.
      old.append(first.text.slice(old.textContent?.length));
      const name = children[kept].querySelector('.code-head span');
      if (name) name.textContent = (first.lang ?? '').split(/\s/, 1)[0];
      next = kept + 1;
    }
    while (children.length > next) this.#place.lastElementChild?.remove();
    for (const block of blocks.slice(next)) {
      const output = nodeOf(block);
      const blockElement = output instanceof HTMLElement ? output : wrapped(output);
      blockElement.dir = block.type === 'code' ? 'ltr' : 'auto';
      this.#place.append(blockElement);
    }
    this.#shown = blocks.map(({ raw }) => raw);
    if (!writing) highlightCode(this.#place);
  }
}

/** Wraps a block that is only text, such as HTML. @param {Node} node */
function wrapped(node) {
  const output = document.createElement('p');
  output.append(node);
  return output;
}
