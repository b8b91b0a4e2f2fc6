/** Renders messages with the model's chat template. Loaded for models and messages without a compact format. */
import { BqError, onDemand } from '../../shared/errors.js';
import { prepare } from '../../text/templates/jinja.js';
import { BOS, EOS, Text } from '../../text/templates/template-texts.js';

/** @import { LocalModel } from '../model/model.js' */
/** @import { Message, PromptOptions } from '../../shared/types.js' */
/** @import { Piece } from '../../text/templates/compact.js' */

/** Roles that are passed to every template. Other roles are passed only if the template's source contains them. */
const ROLES = ['system', 'developer', 'user', 'assistant', 'tool', 'function'];

export class TemplatePrompt {
  #model;
  #render;
  #source;
  /** Template variables that the engine provides. */
  #engineValues;
  /** Tokens by the mark that replaces them in the rendered text. @type {Map<string, Piece>} */
  #marks = new Map();

  /** Throws TEMPLATE. @param {LocalModel} model @param {Piece} bos @param {Piece} eos */
  constructor(model, bos, eos) {
    this.#model = model;
    this.#source = model.info.chatTemplate;
    this.#render = prepare(this.#source);
    const textOrMark = (/** @type {string} */ mark, /** @type {Piece} */ token) => {
      if (!token.tokens) return token.text;
      this.#marks.set(mark, token);
      return mark;
    };
    this.#engineValues = { bos_token: textOrMark(BOS, bos), eos_token: textOrMark(EOS, eos) };
  }

  /**
   * Renders messages. `end`: text that the template writes after the conversation. Throws TEMPLATE, ARGUMENT.
   * @param {Message[]} messages @param {PromptOptions['tools']} tools
   * @param {PromptOptions['templateVariables']} variables
   */
  async makePrompt(messages, tools, variables) {
    for (const { role } of messages)
      if (!ROLES.includes(role) && !this.#source.includes(`'${role}'`) && !this.#source.includes(`"${role}"`))
        throw new BqError('ARGUMENT', `unknown role "${role}" in this chat template`, {
          hint: `pass one of ${ROLES.join(', ')}, or a role that the template names`,
        });
    const hasCalls = messages.some(({ tool_calls }) => tool_calls);
    const converted = hasCalls
      ? await (await onDemand(import('./tool-prompt.js'))).convertMessages(this.#model, messages)
      : messages;
    const templateInput = {
      documents: null,
      ...variables,
      tools: tools ?? null,
      messages: converted.map(({ tokens, ...message }) => message),
    };
    const render = (/** @type {boolean} */ withPrompt) =>
      this.#render({ ...this.#engineValues, add_generation_prompt: withPrompt }, templateInput);
    let text;
    try {
      text = render(true);
    } catch (error) {
      templateInput.tools = withExpectedMembers(tools);
      try {
        text = templateInput.tools && render(true);
      } catch {
        // The error for the caller's tools is thrown below.
      }
      if (!text) throw tooDeepCall(error, messages) ?? error;
    }
    return { pieces: this.#pieces(text), stop: [], end: generationPrompt(text, () => render(false)) };
  }

  /**
   * Splits a rendered text into pieces. Special tokens are not recognised in texts of the caller.
   * @param {string | Text} text
   * @returns {Piece[]}
   */
  #pieces(text) {
    const { value, callerRanges } = text instanceof Text ? text : new Text(text);
    /** @type {Piece[]} */
    const pieces = [];
    let at = 0;
    for (let i = 0; i < callerRanges.length; i += 2) {
      pieces.push(...this.#templatePieces(value.slice(at, callerRanges[i])), {
        text: value.slice(callerRanges[i], callerRanges[i + 1]),
        special: false,
      });
      at = callerRanges[i + 1];
    }
    return [...pieces, ...this.#templatePieces(value.slice(at))];
  }

  /**
   * Splits a text of the template into pieces, and replaces marks by their tokens.
   * @param {string} text
   * @returns {Piece[]}
   */
  #templatePieces(text) {
    if (!this.#marks.size) return [{ text, special: true }];
    return text.split(/([\u{f0001}\u{f0002}])/u).map((part) => this.#marks.get(part) ?? { text: part, special: true });
  }
}

/**
 * Adds the members that templates read of every tool, with empty values, to tools without them. Returns null if no tool
 * lacks any.
 * @param {any[] | undefined} tools @returns {any[] | null}
 */
function withExpectedMembers(tools) {
  let isChanged = false;
  const withMembers = (/** @type {any} */ value, /** @type {Record<string, any>} */ members) => {
    if (typeof value !== 'object' || value === null) return value;
    const missing = Object.entries(members).filter(([name]) => value[name] === undefined || value[name] === null);
    if (!missing.length) return value;
    isChanged = true;
    return { ...value, ...Object.fromEntries(missing) };
  };
  const described = (/** @type {any} */ value) => withMembers(value, { description: '' });
  const completed = (tools ?? []).map((/** @type {any} */ tool) => {
    const definition = withMembers(tool?.function, { description: '', parameters: { type: 'object', properties: {} } });
    const parameters = withMembers(definition?.parameters, { type: 'object', properties: {} });
    if (!parameters?.properties) return tool;
    const properties = Object.fromEntries(
      Object.entries(parameters.properties).map(([name, value]) => [name, described(value)]),
    );
    return { ...tool, function: { ...definition, parameters: { ...parameters, properties } } };
  });
  return isChanged ? completed : null;
}

/** Nesting of arguments, in levels, that every template can write. */
const SUPPORTED_LEVELS = 20;

/** Returns the number of nested levels of a value. @param {any} value @returns {number} */
const levelsOf = (value) =>
  typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(levelsOf)) : 0;

/**
 * Returns an error that names the call whose arguments are nested deeper than the template's recursive macros may be.
 * Returns null if the error has another cause.
 * @param {any} error @param {any[]} messages
 */
function tooDeepCall(error, messages) {
  if (!error.details?.depth) return null;
  for (const [i, { tool_calls: calls = [] }] of messages.entries())
    for (const { function: called } of calls ?? []) {
      const levels = levelsOf(called?.arguments);
      if (levels <= SUPPORTED_LEVELS) continue;
      return new BqError(
        'ARGUMENT',
        `messages[${i}]: the arguments of a call of "${called.name}" are nested ${levels} levels deep, which the model's chat template can't write`,
        {
          cause: error,
          hint: `nest them less deep than ${error.details.depth} levels, or pass a nested part as a string of JSON`,
          details: { param: 'messages', index: i, levels },
        },
      );
    }
  return null;
}

/**
 * Returns the text that a template writes after the conversation. This text may open the reasoning; text of messages
 * can't.
 * @param {string | Text} text @param {() => string | Text} renderWithout  renders without `add_generation_prompt`
 */
function generationPrompt(text, renderWithout) {
  const { value, callerRanges } = text instanceof Text ? text : new Text(text);
  const templateEnd = value.slice(callerRanges.at(-1) ?? 0);
  let withoutPrompt;
  try {
    withoutPrompt = renderWithout();
  } catch {
    return templateEnd; // a template may refuse to render without it
  }
  const conversation = withoutPrompt instanceof Text ? withoutPrompt.value : withoutPrompt;
  const added = value.startsWith(conversation) ? value.slice(conversation.length) : '';
  return added && added.length < templateEnd.length ? added : templateEnd;
}
