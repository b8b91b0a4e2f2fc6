// Script of a page in a browser without a driver. It loads the model at `url` with a store of this `backend`, generates some tokens, and
// sends the result to the model's server in the path of a request.
import { createWorkerEngine, fromUrl } from '/js/index.js';

const parameters = new URLSearchParams(location.search);
const url = String(parameters.get('url'));
/** @returns {Promise<object>} */
async function load() {
  const engine = await createWorkerEngine({
    threads: 1,
    build: 'simd128',
    cache: { backend: /** @type {any} */ (parameters.get('backend')) },
  });
  const source = fromUrl(url);
  const { cached } = await engine.plan(source);
  let problem = '';
  const model = await engine.load(source, { onProgress: (progress) => (problem = progress.cacheProblem || problem) });
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
