/** Messages as the model's own template renders them, as tokens. Loaded for models whose turns no compact format says. */
import { BOS, EOS, guard, parts } from '../templates/guard.js';
import { compile } from '../templates/jinja.js';

/** @import { LocalModel } from './model.js' */
/** @import { Message, PromptOptions } from '../shared/types.js' */

export class Rendered {
  #model;
  #ids;
  #render;

  /** TEMPLATE. @param {LocalModel} model @param {(text: string, parseSpecial: boolean) => number[]} ids */
  constructor(model, ids) {
    this.#model = model;
    this.#ids = ids;
    this.#render = compile(model.info.template);
  }

  /** TEMPLATE. @param {Message[]} messages @param {PromptOptions['tools']} tools @param {PromptOptions['variables']} variables */
  make(messages, tools, variables) {
    const { tokenizer } = this.#model.info;
    const safe = (/** @type {any} */ value) => guard(value, this.#hasSpecial);
    const text = this.#render({
      documents: null,
      ...safe(variables ?? {}),
      tools: safe(tools ?? null),
      messages: safe(messages.map(({ tokens, ...message }) => message)),
      add_generation_prompt: true,
      bos_token: BOS,
      eos_token: EOS,
    });
    const marks = new Map([
      [BOS, tokenizer?.bos],
      [EOS, tokenizer?.eos],
    ]);
    const pieces = parts(text);
    const tokens = pieces.flatMap((part) => {
      if (marks.has(part)) return [marks.get(part) ?? []].flat();
      return part.length === 2 && part > EOS ? [] : this.#ids(part, true);
    });
    return { tokens, stop: [], stopTokens: [], end: pieces.at(-1) ?? '' };
  }

  /** Whether a text would become special tokens, were it the format's own. @param {string} text */
  #hasSpecial = (text) => {
    const [plain, special] = [this.#ids(text, false), this.#ids(text, true)];
    return plain.length !== special.length || plain.some((id, i) => id !== special[i]);
  };
}
