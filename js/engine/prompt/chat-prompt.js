/**
 * Converts messages to the tokens of a prompt, with the model's chat format or its template. The complete text is
 * tokenized at once, since the tokens of separate pieces would differ.
 */
import { BqError, onDemand } from '../../shared/errors.js';
import { compact } from '../../text/templates/compact.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { ChatFormat, Message, PromptOptions } from '../../shared/types.js' */
/** @import { Piece } from '../../text/templates/compact.js' */

/** Checks a chat format and returns it. Throws FORMAT. @param {any} format @returns {ChatFormat} */
function checkFormat(format) {
  const isText = (/** @type {any} */ v) => typeof v === 'string';
  const isRole = (/** @type {any} */ r) => r && isText(r.before) && isText(r.after);
  const { roles, stop = [], start = '', prompt = '' } = format;
  if (
    roles &&
    isRole(roles.user) &&
    isRole(roles.assistant) &&
    Object.values(roles).every(isRole) &&
    [stop].flat().every(isText) &&
    isText(start) &&
    isText(prompt)
  )
    return format;
  throw new BqError('FORMAT', 'the chat format needs "before" and "after" for the roles user and assistant', {
    hint: 'see CHAT in docs/FORMAT.md',
  });
}

/**
 * Returns whether a message has no fields except role, content and tokens. Other messages require the model's template.
 * @param {Message} message
 */
const isPlain = ({ role, content, tokens, ...fields }) => !Object.keys(fields).length;

const encoder = new TextEncoder();

export class Prompts {
  #model;
  /** The parsed template of the model. @type {import('./template-prompt.js').TemplatePrompt | null} */
  #template = null;

  /** @param {LocalModel} model */
  constructor(model) {
    this.#model = model;
  }

  /**
   * Returns the prompt for a reply to messages, and the stop strings and stop tokens of the reply. Throws NO_CHAT,
   * FORMAT, ARGUMENT, TEMPLATE, CONTEXT_FULL.
   * @param {Message[]} messages
   * @param {PromptOptions & { prefix?: string }} [options]
   * @returns {Promise<{ tokens: number[], stop: string[], stopTokens: number[], end: string }>}
   *   `end`: the text after the last message
   */
  async makePrompt(messages, { prefix = '', ...options } = {}) {
    const { pieces, stop, end } = await this.#piecesOf(messages, options);
    const stopTokens = stop.map((text) => this.#model.findToken(text)).filter((id) => id !== null);
    const tokens = this.#encodePieces(prefix ? [...pieces, { text: prefix, special: true }] : pieces);
    return { tokens, stop, stopTokens, end: end + prefix };
  }

  /**
   * @param {Message[]} messages @param {PromptOptions} options
   * @returns {Promise<{ pieces: Piece[], stop: string[], end: string }>}
   */
  async #piecesOf(messages, { chatFormat: formatGiven, tools, templateVariables: variables }) {
    const { chatFormat: chat, chatTemplate: template } = this.#model.info;
    const format = formatGiven
      ? await (await onDemand(import('./custom-format.js'))).checkCustomFormat(formatGiven, checkFormat)
      : chat && checkFormat(chat);
    const pieces = format && !tools && !variables && messages.every(isPlain) ? compact(format, messages) : null;
    if (format && pieces) return this.#wrapTurns(format, pieces);
    if (template && !formatGiven) return this.#renderTemplate(messages, tools, variables);
    throw (await onDemand(import('./refused-messages.js'))).refusedMessages(format, messages, tools, variables);
  }

  /** @param {ChatFormat} format @param {Piece[]} pieces */
  #wrapTurns({ bos, stop = [] }, pieces) {
    const last = pieces.at(-1);
    return {
      pieces: bos ? [this.#token(this.#model.info.tokenizer?.bos), ...pieces] : pieces,
      stop: [stop].flat(),
      end: last?.special ? last.text : '',
    };
  }

  /**
   * @param {Message[]} messages @param {PromptOptions['tools']} tools
   * @param {PromptOptions['templateVariables']} variables
   */
  async #renderTemplate(messages, tools, variables) {
    const { TemplatePrompt } = await onDemand(import('./template-prompt.js'));
    const { tokenizer } = this.#model.info;
    this.#template ??= new TemplatePrompt(this.#model, this.#token(tokenizer?.bos), this.#token(tokenizer?.eos));
    return this.#template.makePrompt(messages, tools, variables);
  }

  /**
   * Returns a token as a piece of a prompt: its text, or the token itself if its text would be tokenized differently.
   * @param {number | null | undefined} id @returns {Piece}
   */
  #token(id) {
    if (id == null) return { text: '', special: true };
    const text = this.#model.tokenText(id);
    const ids = this.#model.encode(text, { addSpecial: false, parseSpecial: true });
    return ids.length === 1 && ids[0] === id ? { text, special: true } : { text: '', special: true, tokens: [id] };
  }

  /**
   * Returns the tokens of all pieces. Special tokens are recognised in the text of the format, but not in messages.
   * Pieces with `tokens` (earlier replies) are not tokenized again.
   * @param {Piece[]} pieces
   */
  #encodePieces(pieces) {
    /** @type {number[]} */
    const ids = [];
    /** @type {Piece[]} */
    let textRun = [];
    let continues = false;
    const encode = () => {
      for (const id of this.#encode(textRun, continues)) ids.push(id);
      textRun = [];
    };
    for (const piece of pieces) {
      if (!piece.tokens) {
        textRun.push(piece);
        continue;
      }
      encode();
      for (const id of piece.tokens) ids.push(id);
      continues = piece.text !== '';
    }
    encode();
    return ids;
  }

  /**
   * Tokenizes pieces.
   * @param {Piece[]} pieces  pieces without `tokens` @param {boolean} continues  whether other text precedes them
   */
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
