// Embeds texts with bq4 and with transformers.js on its wasm device, with one thread each. Each round measures both once for each
// batch size.
import { createWorkerEngine, fromUrl } from '../../../js/index.js';
import { importTransformers } from './transformers.js';

/** Returns a vector for each text. @typedef {(texts: string[]) => Promise<ArrayLike<number>[]>} Embed */

/** Opens the model in bq4. @param {string} url @param {string} [build] */
async function openBq4(url, build) {
  const engine = await createWorkerEngine(/** @type {any} */ ({ build, threads: 1 }));
  const model = await engine.load(fromUrl(new URL(url, location.href)));
  return {
    embed: async (/** @type {string[]} */ texts) => (await model.embed(texts)).vectors,
    build: /** @type {any} */ (engine.info).build,
    close: () => engine.close(),
  };
}

/** Opens the model in transformers.js. @param {string} folder @returns {Promise<{ embed: Embed, version: string }>} */
async function openTransformers(folder) {
  const { transformers, name } = await importTransformers(folder);
  const pipeline = await transformers.pipeline('feature-extraction', name, {
    dtype: 'q8',
    device: 'wasm',
    local_files_only: true,
  });
  return {
    embed: async (texts) => (await pipeline(texts, { pooling: 'mean', normalize: true })).tolist(),
    version: transformers.env.version,
  };
}

/** Returns the milliseconds for all texts. @param {Embed} embed @param {string[]} texts @param {number} batch */
async function measureMs(embed, texts, batch) {
  const start = performance.now();
  for (let i = 0; i < texts.length; i += batch) await embed(texts.slice(i, i + batch));
  return performance.now() - start;
}

/** Returns the cosine of two vectors of length 1. @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
const cosine = (a, b) => Array.from(a).reduce((sum, x, i) => sum + x * b[i], 0);

/** Measures both libraries in alternation and compares their vectors. @param {{ bq4Url: string, onnxFolder: string, build?: string, texts: string[], batches: number[], rounds: number }} options */
export async function runBenchmark({ bq4Url, onnxFolder, build, texts, batches, rounds }) {
  const bq4 = await openBq4(bq4Url, build);
  const peer = await openTransformers(onnxFolder);
  const bq4Vectors = await bq4.embed(texts);
  /** @type {ArrayLike<number>[]} */
  const peerVectors = [];
  for (const text of texts) peerVectors.push((await peer.embed([text]))[0]);
  const cosines = bq4Vectors.map((vector, i) => cosine(vector, peerVectors[i]));
  /** @type {Record<number, { bq4: number[], peer: number[] }>} texts per second */
  const rates = Object.fromEntries(batches.map((batch) => [batch, { bq4: [], peer: [] }]));
  for (let round = 0; round < rounds; round++)
    for (const batch of batches) {
      rates[batch].bq4.push((texts.length / (await measureMs(bq4.embed, texts, batch))) * 1e3);
      rates[batch].peer.push((texts.length / (await measureMs(peer.embed, texts, batch))) * 1e3);
    }
  await bq4.close();
  return {
    rates,
    build: bq4.build,
    version: peer.version,
    leastCosine: Math.min(...cosines),
    meanCosine: cosines.reduce((a, b) => a + b, 0) / cosines.length,
  };
}
