/** Finds the chat format of a model: derives it from its chat template, or recognizes it by special tokens. */
import { BqError } from '../shared/errors.js';

/**
 * Returns the format `<|user|>…<|end|><|assistant|>…<|end|>`; null if the tokenizer lacks its tokens.
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
 * Returns the compact chat format of a template. Null if the template has no equivalent format or cannot be rendered;
 * the file then contains only the template.
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
