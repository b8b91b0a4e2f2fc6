// A runtime for tools/bench/pages/page.js. It reports 10 ms for each measurement, and the results of the option `lie` in place of its own.

/** Opens the runtime. @param {any} options */
export async function open({ lie }) {
  return {
    measure: async (/** @type {number} */ prompt, /** @type {number} */ tokens) => {
      if (!(prompt > 0 && tokens > 0)) throw new Error(`expected numbers of tokens, found ${prompt} and ${tokens}`);
      return { prefillMs: 10, decodeMs: 10, promptTokens: prompt, tokens, ...lie };
    },
    close: async () => {},
  };
}
