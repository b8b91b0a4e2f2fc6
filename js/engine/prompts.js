/**
 * Messages become a prompt: turns wrapped by the model's chat format, as tokens. Texts that were turned into tokens once
 * are remembered, so that a turn costs what is new of it.
 */
import { BqError } from '../shared/errors.js';
import { checkOptions } from '../shared/options.js';

/** @import { LocalModel } from './model.js' */
/** @import { ChatFormat, Message } from '../shared/types.js' */

/** Characters of texts that are remembered: some conversations. */
const REMEMBERED = 2 ** 20;

/** @param {any} format  of the model's file, or given @returns {ChatFormat} */
function checkFormat(format) {
  if (!format) throw new BqError('NO_CHAT', 'the model does not say how turns are wrapped');
  const text = (/** @type {any} */ v) => typeof v === 'string';
  const turn = (/** @type {any} */ r) => r && text(r.before) && text(r.after);
  const { roles, stop = [] } = format;
  if (roles && turn(roles.user) && turn(roles.assistant) && Object.values(roles).every(turn) && [stop].flat().every(text)) return format;
  throw new BqError('FORMAT', 'the chat format needs "before" and "after" for the roles user and assistant', { hint: 'see CHAT in docs/FORMAT.md' });
}

/** @param {ChatFormat} format  that a caller gave: unknown names in it are most likely mistyped */
function checkGiven(format) {
  const { roles } = checkOptions('format', format);
  for (const role of Object.values(roles ?? {})) checkOptions('role', role);
  return checkFormat(format);
}

export class Prompts {
  #model;
  /** Tokens by text, the last used last. @type {Map<string, number[]>} */
  #known = new Map();
  #characters = 0;

  /** @param {LocalModel} model */
  constructor(model) {
    this.#model = model;
  }

  /**
   * The prompt for a reply to these messages, and what ends the reply. NO_CHAT, FORMAT, ARGUMENT, CONTEXT_FULL.
   * @param {Message[]} messages
   * @param {ChatFormat} [given]  instead of the model's own
   */
  make(messages, given) {
    const { chat, tokenizer } = this.#model.info;
    const format = given ? checkGiven(given) : checkFormat(chat);
    const { roles, bos } = format;
    const stop = [format.stop ?? []].flat();
    /** @type {number[]} */
    const tokens = bos && tokenizer?.bos != null ? [tokenizer.bos] : [];
    const add = (/** @type {number[]} */ ids) => ids.forEach((id) => tokens.push(id));
    for (const { role, content, tokens: own } of messages) {
      if (!Object.hasOwn(roles, role)) throw new BqError('ARGUMENT', `the chat format has no role "${role}"`, { hint: `it has ${Object.keys(roles).join(', ')}` });
      add(this.#ids(roles[role].before, true));
      add(own ?? this.#ids(content, false));
      add(this.#ids(roles[role].after, true));
    }
    add(this.#ids(roles.assistant.before, true));
    const stopTokens = stop.map((text) => this.#model.findToken(text)).filter((id) => id !== null);
    return { tokens, stop, stopTokens };
  }

  /**
   * What wraps a turn may be special tokens; in what a person or the model wrote they are mere text.
   * @param {string} text
   * @param {boolean} parseSpecial
   */
  #ids(text, parseSpecial) {
    const key = `${parseSpecial ? 's' : 't'}${text}`;
    const known = this.#known.get(key);
    const ids = known ?? this.#model.encode(text, { addSpecial: false, parseSpecial });
    if (known) this.#known.delete(key);
    else this.#characters += key.length;
    this.#known.set(key, ids);
    for (const oldest of this.#known.keys()) {
      if (this.#characters <= REMEMBERED) break;
      this.#known.delete(oldest);
      this.#characters -= oldest.length;
    }
    return ids;
  }
}
