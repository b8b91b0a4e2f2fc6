/** How full the model's context is: shown as it fills, said before it is full, and what can be done then. */
import { clearNotice, showNotice } from '../page/alerts.js';
import * as format from '../page/format.js';
import { $, message } from '../page/page.js';
import { element } from '../page/element.js';

/** @typedef {import('../../js/shared/types.js').Message} Message */
/** @typedef {import('../chat/tree.js').Entry} Entry */
/**
 * @typedef {object} Page
 * @property {import('../models/engine-host.js').Host} host
 * @property {() => import('../chat/conversation.js').Current} current
 * @property {() => void} newChat
 * @property {() => void} send    what is in the field, once more
 * @property {(context: number) => void} reload  the model with another context
 * @property {() => Promise<boolean>} summarize   older turns, by the model
 */

/** From this part on the bar is shown, and from this part on it warns. */
const [SEEN, WARNS] = [0.5, 0.8];
/** The part of the context that a reply should find free where older turns may go. */
const FREE = 0.25;
/** Milliseconds without a key before what is typed is counted. */
const PAUSE = 250;
/** The smallest context that is offered. */
const SMALLEST = 256;

const size = /** @type {HTMLSelectElement} */ ($('context-size'));
const bar = /** @type {HTMLMeterElement} */ ($('fill-bar'));

export class Context {
  #page;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #tokens = 0;
  /** The conversation of which it was said that it is nearly full. */
  #warned = '';

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    size.addEventListener('change', () => page.reload(Number(size.value)));
    message.addEventListener('input', () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.#typed(), PAUSE);
    });
  }

  /** The contexts that the model can have, and the memory that each takes. */
  offer() {
    const { info } = this.#page.host;
    if (!info) return;
    $('system-note').hidden = this.system;
    const { contextTokens: context, trainedContext, heapBytes, kvBytesPer1000, sessions } = info;
    const sizes = new Set([context, trainedContext]);
    for (let one = SMALLEST; one < trainedContext; one *= 2) sizes.add(one);
    size.replaceChildren(
      ...[...sizes]
        .filter((one) => one > 0)
        .sort((a, b) => a - b)
        .map((one) => {
          const bytes = heapBytes + ((one - context) * kvBytesPer1000 * sessions) / 1000;
          const option = element('option', '', `${format.count(one)} tokens, ${format.bytes(bytes)}`);
          option.value = String(one);
          option.selected = one === context;
          return option;
        }),
    );
  }

  /**
   * What the model is to read: without older turns where the conversation no longer fits and the person has agreed.
   * @param {Entry[]} path  that ends with what was said last
   */
  async fit(path) {
    const { host } = this.#page;
    const current = this.#page.current();
    const { info } = host;
    let messages = current.messages(path, this.system);
    if (!info || !current.it.forget) return messages;
    const most = info.contextTokens * (1 - FREE);
    const turns = path.filter(({ role }) => role === 'user').map(({ id }) => id);
    let at = turns.indexOf(current.it.from ?? '') + 1 || 1;
    for (; at < turns.length && (await host.count(messages)) > most; at++) {
      current.it.from = turns[at];
      messages = current.messages(path, this.system);
    }
    current.show();
    return messages;
  }

  /** Whether the model's format has a place for what it is told beforehand. */
  get system() {
    const { info } = this.#page.host;
    return Boolean(info && (info.chatFormat ? info.chatFormat.roles.system : info.chatTemplate));
  }

  /** How full it is now. @returns {Promise<{ tokens: number, context: number }>} */
  async state() {
    const { host } = this.#page;
    const current = this.#page.current();
    const { path } = current;
    const context = host.info?.contextTokens ?? 0;
    const messages = current.messages(path, this.system);
    const tokens = messages.length ? await host.count(messages) : 0;
    this.#tokens = tokens;
    this.#show(tokens, context);
    return { tokens: Math.min(tokens, context), context };
  }

  /** @param {number} tokens @param {number} context */
  #show(tokens, context) {
    const part = context ? tokens / context : 0;
    $('fill').hidden = part < SEEN;
    bar.value = Math.min(1, part);
    bar.className = part < WARNS ? '' : 'warns';
    $('fill-text').textContent =
      part < WARNS ? '' : `${Math.min(100, Math.round(100 * part))} % of the context is used`;
  }

  /** With what is being typed. */
  async #typed() {
    const { host } = this.#page;
    const { info } = host;
    const text = message.value;
    if (!info || !text.trim()) return;
    const current = this.#page.current();
    const messages = [...current.messages(current.path, this.system), { role: 'user', content: text }];
    const tokens = await host.count(messages).catch(() => 0);
    if (message.value === text) this.#show(Math.max(tokens, this.#tokens), info.contextTokens);
  }

  /** After a reply: what can be done before it is full, said once. */
  warn() {
    const { id, forget } = this.#page.current().it;
    const { contextTokens: context } = this.#page.host.info ?? { contextTokens: 0 };
    const near = this.#tokens >= WARNS * context;
    if (near && !forget && this.#warned !== id)
      showNotice(
        `${Math.round((100 * this.#tokens) / context)} % of the context of ${format.count(context)} tokens is used.`,
        this.#ways(() => message.focus()),
      );
    this.#warned = near ? id : '';
  }

  /** The reply was cut. */
  full() {
    const { contextTokens: context } = this.#page.host.info ?? { contextTokens: 0 };
    showNotice(
      `The conversation has filled the context of ${format.count(context)} tokens: the reply is cut.`,
      this.#ways(() => message.focus()),
    );
  }

  /** What was said does not fit. @param {{ tokens?: number, context?: number, characters?: number }} told */
  async tooLong({ tokens, context = 0 }) {
    const { host } = this.#page;
    const current = this.#page.current();
    const alone = await host
      .count(current.messages([], this.system).concat({ role: 'user', content: message.value }))
      .catch(() => Infinity);
    if (alone >= context) {
      const by = Number.isFinite(alone) && tokens ? Math.ceil(100 * (1 - context / (alone + 1))) : 0;
      const much = by ? ` Shorten it by ${by} % or more` : ' Shorten it';
      return showNotice(
        `This message is too long${Number.isFinite(alone) ? `: ${format.count(alone)} tokens, and the model reads ${format.count(context)}` : ''}.${much}${this.#larger ? ', or choose a larger context' : ''}.`,
        this.#larger ? [this.#choose] : [],
      );
    }
    showNotice(
      `The conversation no longer fits: with this message it has ${format.count(tokens ?? 0)} tokens, and the model reads ${format.count(context)}.`,
      this.#ways(this.#page.send),
    );
  }

  /** Whether the model could have one. */
  get #larger() {
    const { info } = this.#page.host;
    return Boolean(info && info.trainedContext > info.contextTokens);
  }

  #choose = {
    text: 'Larger context…',
    run: () => {
      if ($('details').hidden) $('details-toggle').click();
      size.scrollIntoView({ block: 'center' });
      size.focus();
    },
  };

  /** @param {() => void} then */
  #ways(then) {
    return [
      {
        text: 'Leave out the oldest turns',
        run: () => {
          this.#page.current().change({ forget: true });
          then();
        },
      },
      {
        text: 'Summarize older turns',
        run: async () => {
          if (await this.#page.summarize()) then();
          else this.#warned = '';
        },
      },
      ...(this.#larger ? [this.#choose] : []),
      { text: 'New chat', run: this.#page.newChat },
    ];
  }

  /** Nothing of it holds any more. */
  clear() {
    clearNotice();
    $('fill').hidden = true;
  }
}
