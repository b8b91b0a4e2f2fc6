/**
 * A prompt cache as a file beside a model, FILE.prompt, which `bq4 prompt-state` writes. It only saves time, so nothing about it fails
 * a load: what can't be used is left out, and `model.info.promptCache` says why.
 */
import { BqError } from '../../shared/errors.js';
import { filesOf, withPath } from '../../storage/sources/kinds.js';
import { openSource } from '../../storage/sources/index.js';

/** @import { Source } from '../../storage/sources/types.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { ModelInfo } from '../../shared/types.js' */

const ENDING = '.prompt';
/** More than the cache of a prompt takes. */
const MAX_BYTES = 2 ** 30;

/** The prompt cache beside a model; null: the model has no address or path. @param {Source} model */
export const besideModel = (model) => withPath(filesOf(model)[0] ?? model, (path) => path + ENDING);

/** @param {unknown} error */
const problemOf = (error) => (error instanceof BqError ? `${error.code}: ${error.message}` : String(error));

/**
 * Reads the file while the model loads. Never rejects.
 * @param {Source} model @param {true | Source} requested  true: the file beside the model @param {AbortSignal} [signal]
 * @returns {Promise<{ bytes: Uint8Array | null, problem: string }>}
 */
export async function readPromptCache(model, requested, signal) {
  try {
    const source = requested === true ? besideModel(model) : requested;
    if (!source) throw new BqError('ARGUMENT', 'the model has no address, so no file lies beside it');
    const file = await openSource(source, signal);
    try {
      const pieces = [];
      let length = 0;
      for await (const piece of file.stream(0, Infinity, signal)) {
        length += piece.length;
        if (length > MAX_BYTES)
          throw new BqError('FORMAT', `${file.name} is no prompt cache: it has more than ${MAX_BYTES} bytes`);
        pieces.push(piece.slice());
      }
      return { bytes: new Uint8Array(await new Blob(pieces).arrayBuffer()), problem: '' };
    } finally {
      await file.close();
    }
  } catch (error) {
    return { bytes: null, problem: problemOf(error) };
  }
}

/**
 * Takes the prompt cache up, where it is one of this model. The signal's reason.
 * @param {LocalModel} model @param {ReturnType<typeof readPromptCache>} reading @param {AbortSignal} [signal]
 * @returns {Promise<ModelInfo['promptCache']>}
 */
export async function usePromptCache(model, reading, signal) {
  const { bytes, problem } = await reading;
  signal?.throwIfAborted();
  if (!bytes) return { tokens: 0, problem };
  try {
    model.checkGenerates();
    return { ...(await model.loadPromptCache(bytes)), problem: '' };
  } catch (error) {
    return { tokens: 0, problem: problemOf(error) };
  }
}
