/** The models that find passages by their meaning and sort them: where they are on this device, and from where the first comes. */
import * as format from '../page/format.js';
import { kept } from './passages.js';

/** A file of the person's own, in the private files of this browser. */
export const OWN_FILE = 'bq4-search-model';
/** Of the model that sorts what was found. */
export const OWN_RERANKER = 'bq4-search-reranker';
export const EMBEDDER = {
  source: 'hf:second-state/All-MiniLM-L6-v2-Embedding-GGUF/all-MiniLM-L6-v2-Q8_0.gguf',
  size: '25 MB',
};

/** @typedef {import('../../js/storage/cache/types.js').Listed} Listed */
/** @typedef {{ list: () => Promise<Listed[]> }} Store */

/** Models that are complete on this device. @param {Store | null} store @returns {Promise<Listed[]>} */
const completeFiles = async (store) => ((await store?.list().catch(() => [])) ?? []).filter(({ complete }) => complete);

/** What the engine can load without a network; null: nothing. @param {Store | null} store @returns {Promise<string | File | null>} */
export async function storedEmbedder(store) {
  const stored = (await completeFiles(store)).find(({ url }) => /^all-MiniLM-L6-v2/i.test(format.nameOf(url)));
  if (stored) return stored.url;
  const own = await kept(OWN_FILE);
  return own?.size ? new File([own], 'the model') : null;
}

/** One that sorts passages, downloaded on the chat page. @param {Store | null} store */
export const storedReranker = async (store) =>
  (await completeFiles(store)).find(({ name }) => /rerank|cross-?encoder/i.test(name)) ?? null;

/** A model that finds passages in the cache folder of the machine that serves the page; elsewhere the list is empty. @returns {Promise<{ name: string, url: URL, bytes: number } | null>} */
export async function localEmbedder() {
  const list = new URL('../local.json?embedders', import.meta.url);
  const [found] = await (await fetch(list)).json();
  return found ? { ...found, url: new URL(found.url, list) } : null;
}
