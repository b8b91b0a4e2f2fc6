/** `model.embeddings.create`: OpenAI's embeddings. */
import { signal as abortSignal } from '../../shared/checks.js';
import { checkBy } from '../../shared/options.js';
import { listOf } from './text-completions.js';
import { refuse, rethrowFor } from './check-fields.js';
import { fieldsOf } from './request.js';

/** @import { EmbeddingList, EmbeddingRequest, Model } from '../../shared/types.js' */

/** Encodes a vector as base64 of little-endian floats. @param {Float32Array} vector */
function base64(vector) {
  const view = new DataView(new ArrayBuffer(4 * vector.length));
  vector.forEach((x, i) => view.setFloat32(4 * i, x, true));
  return btoa(Array.from(new Uint8Array(view.buffer), (byte) => String.fromCharCode(byte)).join(''));
}

/**
 * @param {Model} model
 * @param {EmbeddingRequest} body
 * @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<EmbeddingList>}
 */
export async function embeddings(model, body, options) {
  const { signal } = checkBy({ signal: abortSignal }, 'embeddings.create', options);
  const { input, dimensions, encoding_format, model: modelName } = fieldsOf('embeddings.create', body);
  if (input === undefined || !listOf(input).length) throw refuse('input', 'the request has no input');
  const { embedding, name } = model.info;
  if (dimensions !== undefined && dimensions !== embedding.width)
    throw refuse(
      'dimensions',
      `dimensions: expected ${embedding.width}, the width of the model's vectors, found ${dimensions}`,
      'omit it',
    );
  // As with OpenAI, a text that is too long is an error.
  const { vectors, tokens } = await model.embed(listOf(input), { truncate: false, signal }).catch(rethrowFor('input'));
  const total = tokens.reduce((a, b) => a + b, 0);
  return {
    object: 'list',
    model: modelName ?? name,
    usage: { prompt_tokens: total, total_tokens: total },
    data: vectors.map((vector, index) => ({
      object: 'embedding',
      index,
      embedding: encoding_format === 'base64' ? base64(vector) : [...vector],
    })),
  };
}
