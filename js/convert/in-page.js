/**
 * Converts a folder that the user picked to a .bq4 file in a Blob, which browsers store on disk if it is large.
 * Imported on demand.
 */
import { matchTensors } from '../format/bq4/names.js';
import { createCodec, createHasher } from '../format/bq4/codec.js';
import { chatFormat, largestPieceOf, metaFor, tokenizerOf, v2Tensors } from './parts.js';
import { openHfFolder } from './hf-folder.js';
import { encodeTokenizer } from '../text/tokenizers/section.js';
import { prefixLengthOf, writeV2 } from '../format/bq4/write-v2.js';

/** @import { Folder } from './folder.js' */
/** @import { Sink } from '../format/output.js' */

/** @returns {Sink & { blob: () => Blob }} */
function blobSink() {
  /** @type {[number, Blob][]} */
  const pieces = [];
  return {
    async write(position, bytes) {
      pieces.push([position, new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (bytes)])]);
    },
    async finish() {},
    async abort() {
      pieces.length = 0;
    },
    blob: () => new Blob(pieces.sort(([a], [b]) => a - b).map(([, piece]) => piece)),
  };
}

/**
 * Converts a folder. Throws NOT_A_MODEL, FORMAT, TRUNCATED, UNSUPPORTED, SHAPE, and errors of its files.
 * @param {Folder} folder
 * @param {object} options
 * @param {string} [options.wasmUrl]  URL of bq4-convert.wasm
 * @param {AbortSignal} [options.signal]
 * @param {(done: number, total: number) => void} [options.onBytes]  called with the written and the total number of
 *   tensor bytes
 * @returns {Promise<File>}
 */
export async function convertFolder(folder, { wasmUrl, signal, onBytes }) {
  const checkpoint = await openHfFolder(folder, null, folder.path);
  try {
    const { config, tensors, template, name } = checkpoint;
    const matches = matchTensors(config, tensors);
    const tokenizer = await tokenizerOf(checkpoint);
    const codec = await createCodec(Math.max(largestPieceOf(matches), 1 << 20), { wasmUrl, signal });
    const model = {
      config,
      name,
      tensors: v2Tensors(matches, codec, {}),
      tokenizer: tokenizer && encodeTokenizer(tokenizer),
      chat: await chatFormat(tokenizer, template),
      template,
      meta: metaFor(checkpoint, tokenizer),
    };
    const hasher = await createHasher(prefixLengthOf(model, false), { wasmUrl, signal });
    const sink = blobSink();
    await writeV2(sink, model, { hash: (bytes) => hasher.hash(bytes), onBytes, signal });
    return new File([sink.blob()], `${name}.bq4`);
  } finally {
    await checkpoint.close();
  }
}
