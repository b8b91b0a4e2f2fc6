// LiteRT-LM on the CPU. Its wasm build has no threads and runs in the page, not in a worker.

/** Folder of LiteRT-LM. */
const PACKAGE_PATH = '/build/bench/peers/node_modules/@litert-lm/core/';

/** Opens a model. @param {string} url  of a .litertlm file without a chat template */
export async function openLiteRt(url) {
  const litert = await import(`${PACKAGE_PATH}dist/index.js`);
  await litert.loadLiteRtLm(`${PACKAGE_PATH}wasm`);
  const engine = await litert.Engine.create({
    model: url,
    backend: litert.Backend.CPU,
    benchmarkEnabled: true,
    mainExecutorSettings: { maxNumTokens: 1024, samplerBackend: litert.Backend.CPU },
  });
  return {
    /** Measures a prompt and the tokens after it by the figures that LiteRT-LM reports. @param {string} text @param {number} tokens */
    async measure(text, tokens) {
      // Greedy: the build has no sampler of the type GREEDY.
      const samplerParams = { type: litert.SamplerType.TOP_P, k: 1, p: 1, temperature: 1, seed: 1 };
      const conversation = await engine.createConversation({
        sessionConfig: { maxOutputTokens: tokens, samplerParams },
      });
      await conversation.sendMessage(text);
      const info = await conversation.getBenchmarkInfo();
      await conversation.delete();
      if (info.lastDecodeTokenCount !== tokens)
        throw new Error(`expected ${tokens} decoded tokens, found ${info.lastDecodeTokenCount}`);
      return {
        prefill: info.lastPrefillTokensPerSecond,
        decode: info.lastDecodeTokensPerSecond,
        promptTokens: info.lastPrefillTokenCount,
      };
    },
    close: () => engine.delete(),
  };
}
