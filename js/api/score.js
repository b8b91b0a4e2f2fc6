/** `model.score` and `model.rerank`, which call `generate` and `embed`. Loaded on demand. */
import { BqError } from '../shared/errors.js';
import { checkOptions, texts as textList, wrong } from '../shared/options.js';

/** @import { Model, Ranked, RerankOptions, Score, ScoreOptions } from '../shared/types.js' */

/**
 * The log probability of each token of a text but the first, which has no tokens before it. ARGUMENT: fewer than two tokens.
 * @param {Model} model @param {string | ArrayLike<number>} text @param {ScoreOptions} [options] @returns {Promise<Score>}
 */
export async function score(model, text, options) {
  const { topLogprobs = 0, ...handlers } = checkOptions('score', options);
  const ids = typeof text === 'string' ? await model.tokenize(text) : text;
  if (ids?.length < 2) throw wrong('the text to score', text, 'a text of at least two tokens');
  const { promptLogprobs = [] } = await model.generate(ids, {
    maxTokens: 0,
    promptLogprobs: topLogprobs,
    ...handlers,
  }).result;
  const logprob = promptLogprobs.reduce((sum, token) => sum + token.logprob, 0);
  return { tokens: promptLogprobs, logprob, perplexity: Math.exp(-logprob / promptLogprobs.length) };
}

/**
 * Sorts documents by the cosine similarity of their vectors and the query's, the most relevant first. UNSUPPORTED: the model generates text.
 * @param {Model} model @param {string} query @param {string[]} documents @param {RerankOptions} [options] @returns {Promise<Ranked[]>}
 */
export async function rerank(model, query, documents, options) {
  const handlers = checkOptions('rerank', options);
  if (typeof query !== 'string') throw wrong('the query', query, 'a text');
  if (!Array.isArray(documents) || textList(documents)) throw wrong('the documents', documents, 'a list of texts');
  if (model.info.generates)
    throw new BqError('UNSUPPORTED', 'rerank() needs an embedding model, and this model generates text', {
      hint: 'load an embedding model, such as all-MiniLM-L6-v2',
    });
  if (!documents.length) return [];
  const { vectors } = await model.embed([query, ...documents], { ...handlers, normalize: true });
  const [queryVector, ...documentVectors] = vectors;
  return documentVectors
    .map((vector, index) => ({
      index,
      score: vector.reduce((sum, x, i) => sum + x * queryVector[i], 0),
      document: documents[index],
    }))
    .sort((a, b) => b.score - a.score || a.index - b.index);
}
