/** Messages as the model's own template renders them. Loaded for models whose turns no compact format says. */
import { BOS, CUT, EOS, guard, parts } from '../templates/guard.js';
import { compile } from '../templates/jinja.js';

/** @import { LocalModel } from './model.js' */
/** @import { Message, PromptOptions } from '../shared/types.js' */
/** @import { Piece } from '../templates/compact.js' */

export class Rendered {
  #model;
  #bos;
  #eos;
  #render;

  /** TEMPLATE. @param {LocalModel} model @param {Piece} bos @param {Piece} eos */
  constructor(model, bos, eos) {
    this.#model = model;
    this.#bos = bos;
    this.#eos = eos;
    this.#render = compile(model.info.template);
  }

  /** TEMPLATE. @param {Message[]} messages @param {PromptOptions['tools']} tools @param {PromptOptions['variables']} variables */
  make(messages, tools, variables) {
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
      [BOS, this.#bos],
      [EOS, this.#eos],
    ]);
    const all = parts(text);
    const pieces = all.flatMap((part, i) => {
      const mark = marks.get(part);
      if (mark) return [mark];
      if (part === CUT) return [];
      if (all[i + 1] !== CUT) return [{ text: part, special: true }];
      const last = /** @type {string} */ (Array.from(part.slice(-2)).at(-1));
      return [
        { text: part.slice(0, -last.length), special: true },
        { text: last, special: false },
      ];
    });
    return { pieces, stop: [], end: pieces.at(-1)?.text ?? '' };
  }

  /** Whether a text would become special tokens, were it the format's own. @param {string} text */
  #hasSpecial = (text) => {
    const ids = (/** @type {boolean} */ parseSpecial) => this.#model.encode(text, { addSpecial: false, parseSpecial });
    const [plain, special] = [ids(false), ids(true)];
    return plain.length !== special.length || plain.some((id, i) => id !== special[i]);
  };
}
