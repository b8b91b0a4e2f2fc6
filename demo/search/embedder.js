/**
 * Finds the models of the search on this device: the embedding model and the reranker; and the download address of the
 * first.
 */
import * as format from '../page/format.js';
import { kept } from './passages.js';

/** Name of a local embedding model in the browser's private files. */
export const OWN_FILE = 'bq4-search-model';
/** Name of a local reranker in the browser's private files. */
export const OWN_RERANKER = 'bq4-search-reranker';
export const EMBEDDER = {
  source: 'hf:second-state/All-MiniLM-L6-v2-Embedding-GGUF/all-MiniLM-L6-v2-Q8_0.gguf',
  size: '25 MB',
};

/** @typedef {import('../../js/storage/cache/types.js').Listed} Listed */
/** @typedef {{ list: () => Promise<Listed[]> }} Store */

/** Returns the completely downloaded models. @param {Store | null} store @returns {Promise<Listed[]>} */
const completeFiles = async (store) => ((await store?.list().catch(() => [])) ?? []).filter(({ complete }) => complete);

/**
 * Returns the embedding model on this device, as a source of the engine; null if none is stored.
 * @param {Store | null} store
 * @returns {Promise<string | File | null>}
 */
export async function storedEmbedder(store) {
  const stored = (await completeFiles(store)).find(({ url }) => /^all-MiniLM-L6-v2/i.test(format.nameOf(url)));
  if (stored) return stored.url;
  const ownFile = await kept(OWN_FILE);
  return ownFile?.size ? new File([ownFile], 'the model') : null;
}

/** Returns a reranker that was downloaded on the chat page; null if none is stored. @param {Store | null} store */
export const storedReranker = async (store) =>
  (await completeFiles(store)).find(({ name }) => /rerank|cross-?encoder/i.test(name)) ?? null;

/**
 * Returns an embedding model on the machine that runs `npm start`; null on other hosts.
 * @returns {Promise<{ name: string, url: URL, bytes: number } | null>}
 */
export async function localEmbedder() {
  const list = new URL('../local.json?embedders', import.meta.url);
  const [found] = await (await fetch(list)).json();
  return found ? { ...found, url: new URL(found.url, list) } : null;
}
