// Scores pairs of texts with bq4 and with transformers.js on its wasm device, with one thread each.
import { createWorkerEngine, fromUrl } from '../../../js/index.js';
import { importTransformers } from './transformers.js';

/** A logit for each document, and the number of tokens of each pair. @typedef {{ logits: number[], tokens: number[] }} Scores */
/** @typedef {(query: string, documents: string[]) => Promise<Scores>} Rerank */

/** Opens the model in bq4. @param {string} url */
async function openBq4(url) {
  const engine = await createWorkerEngine({ threads: 1 });
  const model = await engine.load(fromUrl(new URL(url, location.href)));
  /** @type {Rerank} */
  const rerank = async (query, documents) => {
    const ranked = (await model.rerank(query, documents)).sort((a, b) => a.index - b.index);
    return { logits: ranked.map(({ logit }) => Number(logit)), tokens: ranked.map(({ tokens }) => tokens) };
  };
  const tokenize = async (/** @type {string} */ text) => Array.from(await model.tokenize(text));
  return { rerank, tokenize, close: () => engine.close() };
}

/** Opens the model in transformers.js. @param {string} folder @param {'fp32' | 'q8'} dtype */
async function openTransformers(folder, dtype) {
  const { transformers, name } = await importTransformers(folder);
  const local = { local_files_only: true };
  const tokenizer = await transformers.AutoTokenizer.from_pretrained(name, local);
  const model = await transformers.AutoModelForSequenceClassification.from_pretrained(name, {
    dtype,
    device: 'wasm',
    ...local,
  });
  /** @type {Rerank} */
  const rerank = async (query, documents) => {
    const queries = documents.map(() => query);
    const inputs = tokenizer(queries, { text_pair: documents, padding: true, truncation: true });
    const { logits } = await model(inputs);
    const tokens = inputs.attention_mask.tolist().map((/** @type {bigint[]} */ row) => row.filter(Boolean).length);
    return { logits: Array.from(logits.data), tokens };
  };
  const tokenize = async (/** @type {string} */ text) => tokenizer(text).input_ids.tolist()[0].map(Number);
  return { rerank, tokenize, version: transformers.env.version };
}

/** Returns the milliseconds of a call. @param {() => Promise<unknown>} call */
async function measureMs(call) {
  const start = performance.now();
  await call();
  return performance.now() - start;
}

/**
 * Measures both libraries in alternation and compares their tokens and logits.
 * @param {{ bq4Url: string, onnxFolder: string, dtype: 'fp32' | 'q8', query: string, documents: string[], rounds: number }} options
 */
export async function runBenchmark({ bq4Url, onnxFolder, dtype, query, documents, rounds }) {
  const bq4 = await openBq4(bq4Url);
  const peer = await openTransformers(onnxFolder, dtype);
  let differentTexts = 0;
  for (const text of documents)
    if (String(await bq4.tokenize(text)) !== String(await peer.tokenize(text))) differentTexts++;
  const [own, other] = [await bq4.rerank(query, documents), await peer.rerank(query, documents)];
  /** @type {{ bq4: number[], peer: number[] }} pairs per second */
  const rates = { bq4: [], peer: [] };
  for (let round = 0; round < rounds; round++) {
    rates.bq4.push((documents.length / (await measureMs(() => bq4.rerank(query, documents)))) * 1e3);
    rates.peer.push((documents.length / (await measureMs(() => peer.rerank(query, documents)))) * 1e3);
  }
  await bq4.close();
  return {
    rates,
    version: peer.version,
    differentTexts,
    differentLengths: own.tokens.filter((count, i) => count !== other.tokens[i]).length,
    largestDifference: Math.max(...own.logits.map((logit, i) => Math.abs(logit - other.logits[i]))),
    largestLogit: Math.max(...other.logits.map(Math.abs)),
  };
}
