/**
 * Reads a prompt cache from a file next to the model file, FILE.prompt, which `bq4 prompt-cache` writes. The cache only
 * saves time, so a problem with it does not make a load fail: the file is ignored, and `model.info.promptCache`
 * contains the reason.
 */
import { follow } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { filesOf, withPath } from '../../storage/sources/kinds.js';
import { openSource } from '../../storage/sources/index.js';

/** @import { Source } from '../../storage/sources/types.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { LoadOptions, ModelInfo } from '../../shared/types.js' */

const ENDING = '.prompt';
/** First bytes of a saved session (c/session/save.c). */
const MAGIC = [0x42, 0x51, 0x34, 0x53];
/** Largest accepted size of a prompt cache. */
const MAX_BYTES = 2 ** 30;
/**
 * Source options: no retries, and a timeout in milliseconds, since computing the prompt takes less time than retries.
 */
const ONE_TRY = { retries: 0, timeout: 5000 };

/**
 * Returns the source of the prompt cache next to a model; null if the model has no address or path.
 * @param {Source} model
 * @returns {Source | null}
 */
function promptCacheSource(model) {
  const source = withPath(filesOf(model)[0] ?? model, (path) => path + ENDING);
  return source && { ...source, ...ONE_TRY };
}

/** @param {unknown} error */
const problemOf = (error) => (error instanceof BqError ? `${error.code}: ${error.message}` : String(error));

/**
 * Reads a file. Throws FORMAT, after the first bytes if they are not those of a prompt cache.
 * @param {import('../../storage/sources/types.js').ByteSource} file @param {AbortSignal} signal
 */
async function readBytes(file, signal) {
  const pieces = [];
  let length = 0;
  for await (const piece of file.stream(0, Infinity, signal)) {
    if (!length && MAGIC.some((byte, i) => i < piece.length && byte !== piece[i]))
      throw new BqError('FORMAT', `${file.name} is not a prompt cache`);
    length += piece.length;
    if (Math.max(length, file.size) > MAX_BYTES)
      throw new BqError('FORMAT', `${file.name} is not a prompt cache: it has more than ${MAX_BYTES} bytes`);
    pieces.push(piece.slice());
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

/**
 * Reads the file while the model loads. Never rejects.
 * @param {Source} model @param {true | Source} requested  true: the file next to the model @param {AbortSignal} signal
 * @returns {Promise<{ bytes: Uint8Array | null, problem: string }>}
 */
async function readPromptCache(model, requested, signal) {
  try {
    const source = requested === true ? promptCacheSource(model) : { ...ONE_TRY, ...requested };
    if (!source) throw new BqError('ARGUMENT', 'the model has no address to find the file');
    const file = await openSource(source, signal);
    try {
      return { bytes: await readBytes(file, signal), problem: '' };
    } finally {
      await file.close();
    }
  } catch (error) {
    return { bytes: null, problem: problemOf(error) };
  }
}

/**
 * Restores the prompt cache if it belongs to this model, and returns `info.promptCache`.
 * @param {LocalModel} model @param {Awaited<ReturnType<typeof readPromptCache>>} file
 * @returns {Promise<ModelInfo['promptCache']>}
 */
async function usePromptCache(model, { bytes, problem }) {
  if (!bytes) return { tokens: 0, problem };
  try {
    model.checkGenerates();
    return { ...(await model.loadPromptCache(bytes)), problem: '' };
  } catch (error) {
    return { tokens: 0, problem: problemOf(error) };
  }
}

/**
 * Loads a model and restores its prompt cache before the model is used. Throws the errors of `load`, ARGUMENT, CLOSED,
 * and the signal's reason.
 * @param {() => Promise<LocalModel>} load @param {Source} source @param {LoadOptions} options
 */
export async function loadWithPromptCache(load, source, { promptCache, streaming, signal }) {
  if (streaming)
    throw new BqError('ARGUMENT', 'promptCache: expected a load without streaming, found streaming', {
      hint: 'load without streaming, or call loadPromptCache(bytes) after the load',
    });
  const reading = follow(signal);
  const file = readPromptCache(source, /** @type {true | Source} */ (promptCache), reading.signal);
  /** @type {LocalModel | undefined} */
  let model;
  try {
    model = await load();
    model.info.promptCache = await usePromptCache(model, await file);
    signal?.throwIfAborted();
    model.check();
    return model;
  } catch (error) {
    reading.controller.abort();
    await model?.close();
    throw error;
  } finally {
    reading.release();
  }
}
