// Embeds texts with bq4 and with transformers.js on its wasm device, with one thread each. Each round measures both once for each
// batch size.
import { createWorkerEngine, fromUrl } from '../../../js/index.js';

const AT = '/build/bench/peers/node_modules/@huggingface/transformers/';

/** @typedef {(texts: string[]) => Promise<ArrayLike<number>[]>} Embed */

/** @param {string} url @param {string} [build] */
async function openOurs(url, build) {
  const engine = await createWorkerEngine(/** @type {any} */ ({ build, threads: 1 }));
  const model = await engine.load(fromUrl(new URL(url, location.href)));
  return {
    embed: async (/** @type {string[]} */ texts) => (await model.embed(texts)).vectors,
    build: /** @type {any} */ (engine.info).build,
    close: () => engine.close(),
  };
}

/** @param {string} folder @returns {Promise<{ embed: Embed, version: string }>} */
async function openTheirs(folder) {
  const tjs = await import(`${AT}dist/transformers.web.js`);
  const cut = folder.lastIndexOf('/');
  Object.assign(tjs.env, {
    allowRemoteModels: false,
    allowLocalModels: true,
    localModelPath: folder.slice(0, cut + 1),
    useBrowserCache: false,
    useWasmCache: false,
  });
  Object.assign(tjs.env.backends.onnx.wasm, { wasmPaths: `${AT}node_modules/onnxruntime-web/dist/`, numThreads: 1 });
  const pipe = await tjs.pipeline('feature-extraction', folder.slice(cut + 1), {
    dtype: 'q8',
    device: 'wasm',
    local_files_only: true,
  });
  return {
    embed: async (texts) => (await pipe(texts, { pooling: 'mean', normalize: true })).tolist(),
    version: tjs.env.version,
  };
}

/** Returns the milliseconds for all texts. @param {Embed} embed @param {string[]} texts @param {number} batch */
async function time(embed, texts, batch) {
  const start = performance.now();
  for (let i = 0; i < texts.length; i += batch) await embed(texts.slice(i, i + batch));
  return performance.now() - start;
}

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b  of length 1 both */
const cosine = (a, b) => Array.from(a).reduce((sum, x, i) => sum + x * b[i], 0);

/** @param {{ ours: string, theirs: string, build?: string, texts: string[], batches: number[], rounds: number }} options */
export async function whole({ ours, theirs, build, texts, batches, rounds }) {
  const us = await openOurs(ours, build);
  const them = await openTheirs(theirs);
  const alone = await us.embed(texts);
  /** @type {ArrayLike<number>[]} */
  const other = [];
  for (const text of texts) other.push((await them.embed([text]))[0]);
  const cosines = alone.map((vector, i) => cosine(vector, other[i]));
  /** @type {Record<number, { us: number[], them: number[] }>} texts per second */
  const rates = Object.fromEntries(batches.map((batch) => [batch, { us: [], them: [] }]));
  for (let round = 0; round < rounds; round++)
    for (const batch of batches) {
      rates[batch].us.push((texts.length / (await time(us.embed, texts, batch))) * 1e3);
      rates[batch].them.push((texts.length / (await time(them.embed, texts, batch))) * 1e3);
    }
  await us.close();
  return {
    rates,
    build: us.build,
    version: them.version,
    least: Math.min(...cosines),
    mean: cosines.reduce((a, b) => a + b, 0) / cosines.length,
  };
}
