/** Messages as the model's own template renders them. Loaded for models whose turns no compact format says. */
import { BqError } from '../../shared/errors.js';
import { prepare } from '../../text/templates/jinja.js';
import { BOS, EOS, Text } from '../../text/templates/template-texts.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { Message, PromptOptions } from '../../shared/types.js' */
/** @import { Piece } from '../../text/templates/compact.js' */

/** Roles that any template may be asked for: many write whatever they are given. */
const ROLES = ['system', 'developer', 'user', 'assistant', 'tool', 'function'];

export class Rendered {
  #render;
  #source;
  /** Values of the engine's own. */
  #own;
  /** @type {Map<string, Piece>} */
  #marks = new Map();

  /** TEMPLATE. @param {LocalModel} model @param {Piece} bos @param {Piece} eos */
  constructor(model, bos, eos) {
    this.#source = model.info.chatTemplate;
    this.#render = prepare(this.#source);
    const text = (/** @type {string} */ mark, /** @type {Piece} */ token) => {
      if (!token.tokens) return token.text;
      this.#marks.set(mark, token);
      return mark;
    };
    this.#own = { bos_token: text(BOS, bos), eos_token: text(EOS, eos) };
  }

  /** TEMPLATE, ARGUMENT. @param {Message[]} messages @param {PromptOptions['tools']} tools @param {PromptOptions['templateVariables']} variables */
  make(messages, tools, variables) {
    for (const { role } of messages)
      if (!ROLES.includes(role) && !this.#source.includes(`'${role}'`) && !this.#source.includes(`"${role}"`))
        throw new BqError('ARGUMENT', `the chat template has no role "${role}"`, {
          hint: `roles are ${ROLES.join(', ')} and those that the template names`,
        });
    const given = {
      documents: null,
      ...variables,
      tools: tools ?? null,
      messages: messages.map(({ tokens, ...message }) => message),
    };
    const render = (/** @type {boolean} */ prompts) =>
      this.#render({ ...this.#own, add_generation_prompt: prompts }, given);
    const text = render(true);
    return { pieces: this.#pieces(text), stop: [], end: generationPrompt(text, () => render(false)) };
  }

  /** @param {string | Text} text @returns {Piece[]} */
  #pieces(text) {
    const { value, callerRanges: given } = text instanceof Text ? text : new Text(text);
    /** @type {Piece[]} */
    const pieces = [];
    let at = 0;
    for (let i = 0; i < given.length; i += 2) {
      pieces.push(...this.#template(value.slice(at, given[i])), {
        text: value.slice(given[i], given[i + 1]),
        special: false,
      });
      at = given[i + 1];
    }
    return [...pieces, ...this.#template(value.slice(at))];
  }

  /** The template's own text, where tokens stand for their marks. @param {string} text @returns {Piece[]} */
  #template(text) {
    if (!this.#marks.size) return [{ text, special: true }];
    return text.split(/([\u{f0001}\u{f0002}])/u).map((part) => this.#marks.get(part) ?? { text: part, special: true });
  }
}

/**
 * What a template writes behind the conversation: it may begin the reasoning, which no message can.
 * @param {string | Text} text @param {() => string | Text} without  renders the same without a prompt for a reply
 */
function generationPrompt(text, without) {
  const { value, callerRanges: given } = text instanceof Text ? text : new Text(text);
  const own = value.slice(given.at(-1) ?? 0);
  let before;
  try {
    before = without();
  } catch {
    return own; // a template that refuses to end so
  }
  const conversation = before instanceof Text ? before.value : before;
  const added = value.startsWith(conversation) ? value.slice(conversation.length) : '';
  return added && added.length < own.length ? added : own;
}
