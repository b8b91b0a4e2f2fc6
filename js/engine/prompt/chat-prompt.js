/**
 * Messages become a prompt: turns wrapped by the model's chat format, or its template rendered, as tokens. The text becomes
 * tokens as a whole: no tokenizer gives the same for its pieces.
 */
import { BqError, onDemand } from '../../shared/errors.js';
import { compact } from '../../text/templates/compact.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { ChatFormat, Message, PromptOptions } from '../../shared/types.js' */
/** @import { Piece } from '../../text/templates/compact.js' */

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

const encoder = new TextEncoder();

export class Prompts {
  #model;
  /** The model's template, parsed. @type {import('./template-prompt.js').Rendered | null} */
  #template = null;

  /** @param {LocalModel} model */
  constructor(model) {
    this.#model = model;
  }

  /**
   * The prompt for a reply to these messages, and what ends the reply. NO_CHAT, FORMAT, ARGUMENT, TEMPLATE, CONTEXT_FULL.
   * @param {Message[]} messages
   * @param {PromptOptions & { prefix?: string }} [options]
   * @returns {Promise<{ tokens: number[], stop: string[], stopTokens: number[], end: string }>}
   *   `end`: what the format writes behind the last message
   */
  async make(messages, { prefix = '', ...options } = {}) {
    const { pieces, stop, end } = await this.#pieces(messages, options);
    const stopTokens = stop.map((text) => this.#model.findToken(text)).filter((id) => id !== null);
    const tokens = this.#ids(prefix ? [...pieces, { text: prefix, special: true }] : pieces);
    return { tokens, stop, stopTokens, end: end + prefix };
  }

  /** @param {Message[]} messages @param {PromptOptions} options @returns {Promise<{ pieces: Piece[], stop: string[], end: string }>} */
  async #pieces(messages, { chatFormat: given, tools, templateVariables: variables }) {
    const { chatFormat: chat, chatTemplate: template } = this.#model.info;
    const format = given
      ? await (await onDemand(import('./custom-format.js'))).checkGiven(given, checkFormat)
      : chat && checkFormat(chat);
    const pieces = format && !tools && !variables && messages.every(isPlain) ? compact(format, messages) : null;
    if (format && pieces) return this.#wrapped(format, pieces);
    if (template && !given) return this.#rendered(messages, tools, variables);
    throw format
      ? unknownTurn(format, messages)
      : new BqError('NO_CHAT', 'the model does not say how turns are wrapped');
  }

  /** @param {ChatFormat} format @param {Piece[]} pieces */
  #wrapped({ bos, stop = [] }, pieces) {
    const last = pieces.at(-1);
    return {
      pieces: bos ? [this.#token(this.#model.info.tokenizer?.bos), ...pieces] : pieces,
      stop: [stop].flat(),
      end: last?.special ? last.text : '',
    };
  }

  /** @param {Message[]} messages @param {PromptOptions['tools']} tools @param {PromptOptions['templateVariables']} variables */
  async #rendered(messages, tools, variables) {
    const { Rendered } = await onDemand(import('./template-prompt.js'));
    const { tokenizer } = this.#model.info;
    this.#template ??= new Rendered(this.#model, this.#token(tokenizer?.bos), this.#token(tokenizer?.eos));
    return this.#template.make(messages, tools, variables);
  }

  /** A token as a piece of a prompt: its text, or itself where that is not read as the token. @param {number | null | undefined} id @returns {Piece} */
  #token(id) {
    if (id == null) return { text: '', special: true };
    const text = this.#model.tokenText(id);
    const ids = this.#model.encode(text, { addSpecial: false, parseSpecial: true });
    return ids.length === 1 && ids[0] === id ? { text, special: true } : { text: '', special: true, tokens: [id] };
  }

  /**
   * Tokens of the whole text. What wraps a turn may be special tokens; in what a person or the model wrote they are mere
   * text. Replies that are there as tokens stay those.
   * @param {Piece[]} pieces
   */
  #ids(pieces) {
    /** @type {number[]} */
    const ids = [];
    /** @type {Piece[]} */
    let run = [];
    let continues = false;
    const encode = () => {
      for (const id of this.#encode(run, continues)) ids.push(id);
      run = [];
    };
    for (const piece of pieces) {
      if (!piece.tokens) {
        run.push(piece);
        continue;
      }
      encode();
      for (const id of piece.tokens) ids.push(id);
      continues = piece.text !== '';
    }
    encode();
    return ids;
  }

  /** @param {Piece[]} pieces  without tokens @param {boolean} continues  they stand behind other text */
  #encode(pieces, continues) {
    const parts = pieces.map(({ text }) => encoder.encode(text));
    const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    /** @type {number[]} */
    const plain = [];
    let at = 0;
    for (const [i, part] of parts.entries()) {
      bytes.set(part, at);
      if (!pieces[i].special && part.length) plain.push(at, at + part.length);
      at += part.length;
    }
    if (!at) return [];
    return this.#model.encode(bytes, { addSpecial: false, parseSpecial: true, continues, plain });
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
