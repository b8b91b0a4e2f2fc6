/**
 * Draws a question and its answer as a PNG picture in the page's colours. Simple Markdown is formatted (headings, lists, quotes, code);
 * formulas stay source. Loaded on demand.
 */
import { showError, showNotice, trouble } from '../page/alerts.js';
import { say } from '../page/page.js';
import { splitComposed } from './composed.js';
import { Blocks } from './markdown-blocks.js';
import { directionOf, linesOf } from './text-layout.js';

/** CSS pixels: width of the picture, margin, indent of a list, padding of the question. */
const [WIDTH, EDGE, STEP, PADDING] = [720, 36, 26, 16];
const SANS = 'system-ui, sans-serif';
const MONO = 'ui-monospace, monospace';
/**
 * Limits in pixels that all browsers support: some have no canvas higher than 16,384 or with more than 16.7 million
 * pixels.
 */
const [MAX_HEIGHT, MAX_AREA] = [16_000, 16e6];
/** Longer texts, in characters, are cut. */
const [MAX_QUESTION, MAX_ANSWER] = [2000, 30_000];

/**
 * @typedef {{ text: string, font: string, height: number, step: number, marker?: string, isCode?: boolean, isQuote?: boolean, isRule?: boolean }}
 *   Part
 */
/** A line of a part and its position. @typedef {{ text: string, y: number, part: Part, first: boolean }} Line */

/** @param {number} size @param {number} [weight] */
const sans = (size, weight = 400) => ({ font: `${weight} ${size}px ${SANS}`, height: Math.round(size * 1.6) });

/** Returns the text of a line without Markdown. @param {readonly any[]} [tokens] @returns {string} */
const plain = (tokens = []) =>
  tokens
    .map(({ type, raw, text, tokens, checked }) => {
      if (type === 'br') return '\n';
      if (type === 'checkbox') return checked ? '☑ ' : '☐ ';
      if (tokens) return plain(tokens);
      return ['text', 'escape', 'codespan', 'image', 'formula'].includes(type) ? text : raw;
    })
    .join('');

/** @param {readonly any[]} tokens  of Markdown @param {number} [step] @returns {Part[]} */
function partsOf(tokens, step = 0) {
  return tokens.flatMap((token) => {
    const body = { ...sans(17), step };
    switch (token.type) {
      case 'heading':
        return [{ ...sans(token.depth < 3 ? 21 : 18, 650), step, text: plain(token.tokens) }];
      case 'code':
        return [{ text: token.text, font: `14px ${MONO}`, height: 21, step, isCode: true }];
      case 'hr':
        return [{ ...body, text: '', isRule: true }];
      case 'blockquote':
        return partsOf(token.tokens, step + 1).map((part) => ({ ...part, isQuote: true }));
      case 'list':
        return token.items.flatMap((/** @type {any} */ item, /** @type {number} */ i) => {
          const [first, ...more] = partsOf(item.tokens, step + 1);
          const marker = token.ordered ? `${Number(token.start || 1) + i}.` : '•';
          return [{ ...(first ?? { ...body, text: '' }), marker }, ...more];
        });
      case 'table': {
        const row = (/** @type {any[]} */ cells) => cells.map(({ tokens }) => plain(tokens)).join('  ·  ');
        return [
          { ...sans(16, 650), step, text: row(token.header) },
          { ...sans(16), step, text: token.rows.map(row).join('\n') },
        ];
      }
      case 'space':
        return [];
      default:
        return [{ ...body, text: (token.tokens ? plain(token.tokens) : (token.text ?? token.raw)).trim() }];
    }
  });
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? `${text.slice(0, most).trimEnd()} …` : text);

/**
 * Returns the text of the question, with the names of its attachments.
 * @param {string} composed  message of the user
 */
function questionOf(composed) {
  const { attachments, text } = splitComposed(composed);
  return [...attachments.map(({ name }) => `[${name}]`), cut(text.trim(), MAX_QUESTION)].join('\n');
}

/** @param {string} name  of a colour of the style sheet */
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

/** @param {CanvasRenderingContext2D} canvas @param {string} font */
const measuring = (canvas, font) => {
  canvas.font = font;
  return (/** @type {string} */ text) => canvas.measureText(text).width;
};

/**
 * @param {CanvasRenderingContext2D} canvas
 * @param {Part[]} parts
 * @param {number} top
 * @param {number} width
 * @returns {{ lines: Line[], bottom: number }}
 */
function laidOut(canvas, parts, top, width) {
  /** @type {Line[]} */
  const lines = [];
  let y = top;
  for (const part of parts) {
    const inner = width - part.step * STEP - (part.isCode ? 2 * PADDING : 0);
    if (part.isCode) y += PADDING / 2;
    for (const [i, text] of linesOf(part.text, inner, measuring(canvas, part.font)).entries()) {
      lines.push({ text, y, part, first: i === 0 });
      y += part.height;
    }
    y += part.isCode ? PADDING + 2 : 10;
  }
  return { lines, bottom: y };
}

/**
 * @param {CanvasRenderingContext2D} canvas
 * @param {string} fill
 * @param {number[]} box  x, y, width, height
 * @param {number} radius
 */
function drawBox(canvas, fill, [x, y, width, height], radius) {
  canvas.fillStyle = fill;
  canvas.beginPath();
  canvas.roundRect(x, y, width, height, radius);
  canvas.fill();
}

/** @param {CanvasRenderingContext2D} canvas @param {Line[]} lines @param {number} left @param {number} width */
function drawLines(canvas, lines, left, width) {
  // Before all text: the background of a line of code extends below the line before it, where its underscores are.
  for (const { y, part } of lines) {
    const inset = part.step * STEP;
    if (part.isCode) drawBox(canvas, colour('--tint'), [left + inset, y - 6, width - inset, part.height + 12], 0);
  }
  for (const { text, y, part, first } of lines) {
    const { font, height, step, marker, isCode, isQuote, isRule } = part;
    const direction = isCode ? 'ltr' : directionOf(part.text);
    const toEnd = direction === 'rtl' ? -1 : 1;
    const start = (toEnd > 0 ? left : left + width) + toEnd * step * STEP;
    if (isRule) drawBox(canvas, colour('--line'), [left, y + height / 2, width, 1], 0);
    if (isQuote) drawBox(canvas, colour('--edge'), [start - toEnd * 14 - 1, y, 3, height], 0);
    Object.assign(canvas, { font, direction, textAlign: 'start', textBaseline: 'middle', fillStyle: colour('--ink') });
    canvas.fillText(text, start + toEnd * (isCode ? PADDING : 0), y + height / 2);
    if (marker && first) canvas.fillText(marker, start - toEnd * (marker === '•' ? 16 : STEP), y + height / 2);
  }
}

/** @param {string} question @param {string} answer @returns {Promise<Blob>}  a PNG; CANVAS */
export async function drawMessages(question, answer) {
  const element = document.createElement('canvas');
  const canvas = /** @type {CanvasRenderingContext2D} */ (element.getContext('2d'));
  const questionPart = { ...sans(17), step: 0, text: questionOf(question) };
  const measure = measuring(canvas, questionPart.font);
  const bubble = laidOut(canvas, [questionPart], EDGE + PADDING, 0.8 * (WIDTH - 2 * EDGE) - 2 * PADDING);
  const bubbleBottom = bubble.bottom + PADDING - 10;
  const blocks = new Blocks().read(cut(answer.trim(), MAX_ANSWER)) ?? [];
  const reply = laidOut(canvas, partsOf(blocks), bubbleBottom + 24, WIDTH - 2 * EDGE);
  const height = Math.min(reply.bottom + EDGE + 14, MAX_HEIGHT);
  const scale = WIDTH * height * 4 <= MAX_AREA && height * 2 <= MAX_HEIGHT ? 2 : 1;
  [element.width, element.height] = [WIDTH * scale, height * scale];
  canvas.scale(scale, scale);
  drawBox(canvas, colour('--paper'), [0, 0, WIDTH, height], 0);

  canvas.font = questionPart.font;
  const inner = Math.max(...bubble.lines.map(({ text }) => measure(text)));
  const left = WIDTH - EDGE - PADDING - inner;
  drawBox(canvas, colour('--tint'), [left - PADDING, EDGE, inner + 2 * PADDING, bubbleBottom - EDGE], 12);
  drawLines(canvas, bubble.lines, left, inner);
  const fitting = reply.lines.filter(({ y, part }) => y + part.height < height - EDGE);
  drawLines(canvas, fitting, EDGE, WIDTH - 2 * EDGE);
  Object.assign(canvas, { ...sans(13), direction: 'ltr', textAlign: 'right', fillStyle: colour('--soft') });
  canvas.fillText('Written by an AI in the browser, with bq4', WIDTH - EDGE, height - EDGE / 2);

  const blob = await new Promise((resolve) => element.toBlob(resolve, 'image/png'));
  if (!blob) throw trouble('CANVAS', 'the picture could not be drawn', 'copy the text instead');
  return blob;
}

const NAME = 'bq4-reply.png';

/**
 * Saves the picture as a download and offers to copy it.
 * @param {string} question
 * @param {string} answer
 * @param {boolean} isShared  whether it is shared with the device's apps instead, if possible
 */
export async function shareImage(question, answer, isShared) {
  const file = new File([await drawMessages(question, answer)], NAME, { type: 'image/png' });
  if (isShared)
    try {
      await navigator.share({ files: [file] });
      return say('Shared.');
    } catch (error) {
      if (/** @type {any} */ (error).name === 'AbortError') return; // cancelled by the user
    }
  const url = URL.createObjectURL(file);
  Object.assign(document.createElement('a'), { href: url, download: NAME }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  const copy = () =>
    navigator.clipboard.write([new ClipboardItem({ [file.type]: file })]).then(
      () => say('Copied.'),
      (error) => showError(trouble('CLIPBOARD', "couldn't copy", 'use the file in your downloads', error)),
    );
  showNotice('Picture saved in your downloads.', 'ClipboardItem' in globalThis ? [{ text: 'Copy it', run: copy }] : []);
}
