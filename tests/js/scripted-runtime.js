// A runtime for tools/bench/pages/page.js that takes 10 ms for anything and says what it is told to say.

/** @param {any} options */
export async function open({ lie }) {
  return {
    measure: async (/** @type {number} */ prompt, /** @type {number} */ tokens) => ({
      prefillMs: 10,
      decodeMs: 10,
      promptTokens: prompt,
      tokens,
      ...lie,
    }),
    close: async () => {},
  };
}
