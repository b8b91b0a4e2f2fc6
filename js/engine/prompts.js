/**
 * Messages become a prompt: turns wrapped by the model's chat format, or its template rendered, as tokens. Texts that were
 * turned into tokens once are remembered, so that a turn costs what is new of it.
 */
import { BqError, onDemand } from '../shared/errors.js';
import { compact } from '../templates/compact.js';

/** @import { LocalModel } from './model.js' */
/** @import { ChatFormat, Message, PromptOptions } from '../shared/types.js' */
/** @import { Piece } from '../templates/compact.js' */

/** Characters of texts that are remembered: some conversations. */
const REMEMBERED = 2 ** 20;

/** @param {any} format  of the model's file, or given @returns {ChatFormat} */
function checkFormat(format) {
  const text = (/** @type {any} */ v) => typeof v === 'string';
  const turn = (/** @type {any} */ r) => r && text(r.before) && text(r.after);
  const { roles, stop = [], start = '', prompt = '' } = format;
  if (
    roles &&
    turn(roles.user) &&
    turn(roles.assistant) &&
    Object.values(roles).every(turn) &&
    [stop].flat().every(text) &&
    text(start) &&
    text(prompt)
  )
    return format;
  throw new BqError('FORMAT', 'the chat format needs "before" and "after" for the roles user and assistant', {
    hint: 'see CHAT in docs/FORMAT.md',
  });
}

/** Of a message that has more than a text only the model's template knows what becomes. @param {Message} message */
const isPlain = ({ role, content, tokens, ...more }) => !Object.keys(more).length;

export class Prompts {
  #model;
  /** Tokens by text, the last used last. @type {Map<string, number[]>} */
  #known = new Map();
  #characters = 0;
  /** The model's template, parsed. @type {import('./rendered.js').Rendered | null} */
  #template = null;

  /** @param {LocalModel} model */
  constructor(model) {
    this.#model = model;
  }

  /**
   * The prompt for a reply to these messages, and what ends the reply. NO_CHAT, FORMAT, ARGUMENT, TEMPLATE, CONTEXT_FULL.
   * @param {Message[]} messages
   * @param {PromptOptions & { prefix?: string }} [options]
   * @returns {Promise<{ tokens: number[], stop: string[], stopTokens: number[], end: string }>}  `end`: the prompt's last text
   */
  async make(messages, { prefix, ...options } = {}) {
    const made = await this.#made(messages, options);
    if (!prefix) return made;
    return { ...made, tokens: [...made.tokens, ...this.#ids(prefix, true)], end: made.end + prefix };
  }

  /** @param {Message[]} messages @param {PromptOptions} options */
  async #made(messages, { format: given, tools, variables }) {
    const { chat, template } = this.#model.info;
    const format = given
      ? await (await onDemand(import('./given-format.js'))).checkGiven(given, checkFormat)
      : chat && checkFormat(chat);
    const pieces = format && !tools && !variables && messages.every(isPlain) ? compact(format, messages) : null;
    if (format && pieces) return this.#wrapped(format, pieces);
    if (template && !given) return this.#rendered(messages, tools, variables);
    throw format
      ? unknownTurn(format, messages)
      : new BqError('NO_CHAT', 'the model does not say how turns are wrapped');
  }

  /** @param {ChatFormat} format @param {Piece[]} pieces */
  #wrapped({ bos, stop: ends = [] }, pieces) {
    const { tokenizer } = this.#model.info;
    const stop = [ends].flat();
    /** @type {number[]} */
    const tokens = bos && tokenizer?.bos != null ? [tokenizer.bos] : [];
    for (const { text, special, tokens: own } of pieces)
      for (const id of own ?? this.#ids(text, special)) tokens.push(id);
    const stopTokens = stop.map((text) => this.#model.findToken(text)).filter((id) => id !== null);
    return { tokens, stop, stopTokens, end: pieces.at(-1)?.text ?? '' };
  }

  /** @param {Message[]} messages @param {PromptOptions['tools']} tools @param {PromptOptions['variables']} variables */
  async #rendered(messages, tools, variables) {
    const { Rendered } = await onDemand(import('./rendered.js'));
    this.#template ??= new Rendered(this.#model, (text, parseSpecial) => this.#ids(text, parseSpecial));
    return this.#template.make(messages, tools, variables);
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

/** Why a format has no such conversation. @param {ChatFormat} format @param {Message[]} messages */
function unknownTurn({ roles }, messages) {
  const strange = messages.find(({ role }) => !Object.hasOwn(roles, role));
  if (!strange)
    return new BqError('ARGUMENT', 'the chat format has no conversation of this shape', {
      hint: 'a message of the system comes first, texts only, no tools',
    });
  return new BqError('ARGUMENT', `the chat format has no role "${strange.role}"`, {
    hint: `it has ${Object.keys(roles).join(', ')}`,
  });
}
