/** How turns are wrapped, guessed from a tokenizer's special tokens. */

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
