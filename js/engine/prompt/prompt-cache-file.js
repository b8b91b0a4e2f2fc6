/**
 * A prompt cache as a file beside a model, FILE.prompt, which `bq4 prompt-state` writes. It only saves time, so nothing about it fails
 * a load: what can't be used is left out, and `model.info.promptCache` says why.
 */
import { follow } from '../../shared/async.js';
import { BqError } from '../../shared/errors.js';
import { filesOf, withPath } from '../../storage/sources/kinds.js';
import { openSource } from '../../storage/sources/index.js';

/** @import { Source } from '../../storage/sources/types.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { LoadOptions, ModelInfo } from '../../shared/types.js' */

const ENDING = '.prompt';
/** How a saved session begins (c/session/save.c). */
const MAGIC = [0x42, 0x51, 0x34, 0x53];
/** More than the cache of a prompt takes. */
const MAX_BYTES = 2 ** 30;
/** A server that fails, or sends nothing for so many milliseconds, is not asked again: the prompt is computed sooner. */
const ONE_TRY = { retries: 0, timeout: 5000 };

/** The prompt cache beside a model; null: the model has no address or path. @param {Source} model @returns {Source | null} */
function besideModel(model) {
  const beside = withPath(filesOf(model)[0] ?? model, (path) => path + ENDING);
  return beside && { ...beside, ...ONE_TRY };
}

/** @param {unknown} error */
const problemOf = (error) => (error instanceof BqError ? `${error.code}: ${error.message}` : String(error));

/** Bytes of a file, of which no more is read than its beginning if that is no prompt cache's. FORMAT. @param {import('../../storage/sources/types.js').ByteSource} file @param {AbortSignal} signal */
async function readBytes(file, signal) {
  const pieces = [];
  let length = 0;
  for await (const piece of file.stream(0, Infinity, signal)) {
    if (!length && MAGIC.some((byte, i) => i < piece.length && byte !== piece[i]))
      throw new BqError('FORMAT', `${file.name} is no prompt cache`);
    length += piece.length;
    if (Math.max(length, file.size) > MAX_BYTES)
      throw new BqError('FORMAT', `${file.name} is no prompt cache: it has more than ${MAX_BYTES} bytes`);
    pieces.push(piece.slice());
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

/**
 * Reads the file while the model loads. Never rejects.
 * @param {Source} model @param {true | Source} requested  true: the file beside the model @param {AbortSignal} signal
 * @returns {Promise<{ bytes: Uint8Array | null, problem: string }>}
 */
async function readPromptCache(model, requested, signal) {
  try {
    const source = requested === true ? besideModel(model) : { ...ONE_TRY, ...requested };
    if (!source) throw new BqError('ARGUMENT', 'the model has no address, so no file lies beside it');
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

/** Takes the prompt cache up, where it is one of this model. @param {LocalModel} model @param {Awaited<ReturnType<typeof readPromptCache>>} file @returns {Promise<ModelInfo['promptCache']>} */
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
 * Loads a model whose prompt cache is taken up before it is used. What `load` throws; ARGUMENT, CLOSED, the signal's reason.
 * @param {() => Promise<LocalModel>} load @param {Source} source @param {LoadOptions} options
 */
export async function loadWithPromptCache(load, source, { promptCache, streaming, signal }) {
  if (streaming)
    throw new BqError('ARGUMENT', 'promptCache: expected a load without streaming, found streaming', {
      hint: 'a prompt cache is taken up when all weights are there; loadPromptCache(bytes) does it later',
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
