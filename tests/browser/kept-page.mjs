// Loads the model at `url` with a store of this `backend`, says a few words, and reports to the model's server by asking for
// an address: nobody drives this browser.
import { createWorkerEngine, fromUrl } from '/js/index.js';

const asked = new URLSearchParams(location.search);
const url = String(asked.get('url'));
/** @returns {Promise<object>} */
async function load() {
  const engine = await createWorkerEngine({
    threads: 1,
    build: 'simd128',
    cache: { backend: /** @type {any} */ (asked.get('backend')) },
  });
  const source = fromUrl(url);
  const { cached } = await engine.plan(source);
  let problem = '';
  const model = await engine.load(source, { onProgress: (now) => (problem = now.cacheProblem || problem) });
  const { tokens: ids } = await (await model.createSession()).generate('the quick', { temperature: 0, maxTokens: 6 })
    .result;
  await model.close();
  const { backend } = /** @type {any} */ (engine.store);
  await engine.close();
  return { ids: ids.join(), cached: cached.bytes, problem, backend };
}

const report = await load().catch((error) => ({ error: `${error.code}: ${error.message}` }));
await fetch(`/report/${encodeURIComponent(JSON.stringify(report))}`.replace(/^/, new URL(url).origin), {
  mode: 'no-cors',
});
