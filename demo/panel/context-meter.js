/** The model's context: which messages of a conversation fit into it, which are too long, and its size. */
import { clearNotice, showNotice, trouble } from '../page/alerts.js';
import * as format from '../page/format.js';
import { $, message, showDialog } from '../page/page.js';
import { hasAttachments } from '../chat/tree.js';
import { element } from '../page/element.js';

/** @typedef {import('../../js/shared/types.js').Message} Message */
/** @typedef {import('../chat/tree.js').Entry} Entry */
/**
 * @typedef {object} Page
 * @property {import('../models/engine-host.js').Host} host
 * @property {() => import('../chat/conversation.js').Current} current
 * @property {() => string} name  name of the model
 * @property {(context: number) => void} reload  loads the model with another context
 */

/** Tokens to be left free for a reply, if the context is large enough. */
const REPLY_TOKENS = 1024;
/** Milliseconds without a key press before the text in the field is counted. */
const PAUSE = 250;
/** The smallest context offered, in tokens. */
const SMALLEST = 256;
/** The beginning of a reply is not cut to fewer characters than this. */
const SHORT_PREFIX = 200;

const size = /** @type {HTMLSelectElement} */ ($('context-size'));
const line = $('fine-text');
const LINE = line.textContent ?? '';

/** Returns the largest number of tokens of a prompt that leaves room for a reply. @param {number} context */
const limitOf = (context) => context - Math.max(Math.min(REPLY_TOKENS, context >> 1), context >> 2);

export class Context {
  #page;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    size.addEventListener('change', () => page.reload(Number(size.value)));
    message.addEventListener('input', () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.#typed(), PAUSE);
    });
  }

  /** Lists the contexts that the model supports, with the memory that each needs. */
  offer() {
    const { info } = this.#page.host;
    if (!info) return;
    $('system-note').hidden = this.system;
    /** @type {HTMLTextAreaElement} */ ($('system')).disabled = !this.system;
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
   * Returns the messages that the model reads: the newest turns that leave room for a reply. If older turns are omitted, half of the
   * context is freed at once: then the KV cache of the other turns stays valid for several turns. Throws CONTEXT_FULL if the last
   * message alone is too long.
   * @param {Entry[]} path  ends with the message to reply to
   * @param {string} prefix  beginning of a reply that is continued; only the end of a long one is used
   * @param {AbortSignal} signal
   */
  async fit(path, prefix, signal) {
    const { host } = this.#page;
    const current = this.#page.current();
    const { info } = host;
    const { contextTokens: context = Infinity } = info ?? {};
    const limit = limitOf(context);
    if (info && !prefix && path.some(({ content }) => hasAttachments(content))) {
      const { chooseExcerpt } = await import('../chat/excerpts.js');
      await chooseExcerpt(path, { host, limit, signal });
      current.show();
    }
    let messages = current.messages(path, this.system);
    if (!info) return { messages, prefix };
    const turns = path.filter(({ role }) => role === 'user').map(({ id }) => id);
    let at = turns.indexOf(current.conversation.from ?? '') + 1 || 1;
    let tokens = await host.count(messages, prefix);
    if (tokens > limit) {
      for (; at < turns.length && tokens > context >> 1; at++) {
        current.conversation.from = turns[at];
        messages = current.messages(path, this.system);
        tokens = await host.count(messages, prefix);
      }
      current.show();
    }
    for (; tokens > limit && prefix.length > SHORT_PREFIX; tokens = await host.count(messages, prefix))
      prefix = prefix.slice(prefix.length >> 1).replace(/^\S+/, '');
    if (tokens >= context)
      throw trouble('CONTEXT_FULL', 'the message is too long', 'shorten it', undefined, { tokens, context });
    return { messages, prefix };
  }

  /** Whether the model's chat template supports a system prompt. */
  get system() {
    const { info } = this.#page.host;
    return Boolean(info && (info.chatFormat ? info.chatFormat.roles.system : info.chatTemplate));
  }

  /** Returns how much of the context is used. @returns {Promise<{ tokens: number, context: number }>} */
  async state() {
    const { host } = this.#page;
    const current = this.#page.current();
    const context = host.info?.contextTokens ?? 0;
    const messages = current.messages(current.path, this.system);
    const tokens = messages.length ? await host.count(messages) : 0;
    return { tokens: Math.min(tokens, context), context };
  }

  /** Warns about a message that is too long before it is sent. */
  async #typed() {
    const { host } = this.#page;
    const { info } = host;
    const { value } = message;
    const tokens = info && value.length > info.contextTokens ? await this.#alone(value) : 0;
    if (message.value !== value) return;
    const long = info && tokens >= info.contextTokens;
    line.textContent = long ? this.#words(tokens, info.contextTokens) : LINE;
    line.classList.toggle('warns', Boolean(long));
  }

  /** Returns the tokens of a message without the conversation before it. @param {string} content */
  #alone(content) {
    const system = this.#page.current().messages([], this.system);
    return this.#page.host.count([...system, { role: 'user', content }]).catch(() => Math.ceil(content.length / 4));
  }

  /**
   * Returns the warning, in percent because users do not count tokens.
   * @param {number} tokens
   * @param {number} context
   */
  #words = (tokens, context) =>
    `Too long: ${this.#page.name()} can read about ${Math.floor((100 * context) / tokens)} % of this message.`;

  /** Shows that a message does not fit into the context. @param {{ tokens?: number, context?: number }} details */
  tooLong({ tokens, context }) {
    const { info } = this.#page.host;
    const limit = context ?? info?.contextTokens ?? 0;
    const larger = {
      text: 'Larger context…',
      run: () => {
        showDialog(/** @type {HTMLDialogElement} */ ($('settings')));
        size.focus();
      },
    };
    showNotice(
      tokens ? this.#words(tokens, limit) : 'Too long for this model.',
      info && info.trainedContext > info.contextTokens ? [larger] : [],
    );
  }

  /** Removes warnings and notices when another conversation is shown. */
  clear() {
    clearNotice();
    line.textContent = LINE;
    line.classList.remove('warns');
  }
}
