/** How turns are wrapped: from the model's template, or guessed from a tokenizer's special tokens. */
import { BqError } from '../shared/errors.js';

/**
 * A format for models whose turns read `<|user|>…<|end|><|assistant|>…<|end|>`; null when the tokens aren't there.
 * @param {(text: string) => boolean} has  whether the tokenizer has exactly this token
 * @returns {import('../shared/types.js').ChatFormat | null}
 */
export function chatFormatOf(has) {
  if (!['<|user|>', '<|assistant|>', '<|end|>'].every(has)) return null;
  const roles = ['system', 'user', 'assistant'].filter((role) => has(`<|${role}|>`));
  return {
    roles: Object.fromEntries(roles.map((role) => [role, { before: `<|${role}|>`, after: '<|end|>' }])),
    stop: ['<|end|>'],
    bos: false,
  };
}

/**
 * The compact form of a template; null: it has none, or can't be rendered, and the file has the template alone.
 * @param {string} template
 * @param {import('../text/tokenizers/section.js').Tokenizer} tokenizer
 */
export async function formatOfTemplate(template, { tokens, bos, eos, eog }) {
  const { derive } = await import('../text/templates/derive.js');
  const textOf = (/** @type {number | null | undefined} */ id) =>
    id == null || !tokens[id] ? '' : new TextDecoder().decode(tokens[id].bytes);
  try {
    return derive(template, { bos: textOf(bos), eos: textOf(eos), ends: eog.map(textOf).filter(Boolean) });
  } catch (error) {
    if (error instanceof BqError && error.code === 'TEMPLATE') return null;
    throw error;
  }
}
