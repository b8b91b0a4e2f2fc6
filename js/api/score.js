/** `model.score` and `model.rerank`, which call `generate` and `embed`. Loaded on demand. */
import { BqError } from '../shared/errors.js';
import { checkRerankTexts } from './rerank-texts.js';
import { checkOptions, wrong } from '../shared/options.js';

/** @import { Model, Ranked, RerankOptions, Score, ScoreOptions } from '../shared/types.js' */

/**
 * Returns the log probability of each token of a text except the first one, which has no tokens before it. Throws
 * ARGUMENT if the text has fewer than two tokens.
 * @param {Model} model
 * @param {string | ArrayLike<number>} text
 * @param {ScoreOptions} [options]
 * @returns {Promise<Score>}
 */
export async function score(model, text, options) {
  const { topLogprobs = 0, ...handlers } = checkOptions('score', options);
  const ids = typeof text === 'string' ? await model.tokenize(text) : text;
  if (ids?.length < 2) throw wrong('the text to score', text, 'a string of at least two tokens');
  const { promptLogprobs = [] } = await model.generate(ids, {
    maxTokens: 0,
    promptLogprobs: topLogprobs,
    ...handlers,
  }).result;
  const logprob = promptLogprobs.reduce((sum, token) => sum + token.logprob, 0);
  return { tokens: promptLogprobs, logprob, perplexity: Math.exp(-logprob / promptLogprobs.length) };
}

/**
 * Sorts documents by relevance, most relevant first, and returns the first `topN`. The scores are from the model's own
 * classifier of pairs (a cross-encoder), or else cosines of vectors. Throws UNSUPPORTED if the model has neither.
 * @param {Model} model
 * @param {string} query
 * @param {string[]} documents
 * @param {RerankOptions} [options]
 * @returns {Promise<Ranked[]>}
 */
export async function rerank(model, query, documents, options) {
  const { topN } = checkOptions('rerank', options);
  return (await ranking(model, query, documents, options)).slice(0, topN);
}

/**
 * Sorts documents by relevance and returns all of them: `topN` is ignored.
 * @param {Model} model
 * @param {string} query
 * @param {string[]} documents
 * @param {RerankOptions} [options]
 * @returns {Promise<Ranked[]>}
 */
export async function ranking(model, query, documents, options) {
  const { topN: _, ...handlers } = checkOptions('rerank', options);
  checkRerankTexts(query, documents);
  const { reranks, labels } = model.info;
  if (!reranks)
    throw new BqError(
      'UNSUPPORTED',
      labels
        ? `rerank() needs a classifier with one label for pairs of texts, and this model has ${labels.join(', ')}`
        : 'rerank() needs a cross-encoder or an embedding model, and this model generates text',
      { hint: labels ? 'use classify()' : 'load a reranker such as bge-reranker-v2-m3, or an embedding model' },
    );
  if (!documents.length) return [];
  const scored = await (reranks === 'classifier' ? byClassifier : byCosine)(model, query, documents, handlers);
  return scored
    .map((row, index) => ({ index, ...row, document: documents[index], method: reranks }))
    .sort((a, b) => (b.logit ?? b.score) - (a.logit ?? a.score) || a.index - b.index);
}

/** @typedef {Pick<Ranked, 'score' | 'tokens' | 'logit'>} Relevance */

/**
 * @param {Model} model
 * @param {string} query
 * @param {string[]} documents
 * @param {object} handlers
 * @returns {Promise<Relevance[]>}
 */
async function byClassifier(model, query, documents, handlers) {
  const pairs = documents.map((textPair) => ({ text: query, textPair }));
  const results = await model.classify(pairs, handlers);
  // With the two labels "yes" and "no", the difference corresponds to the logit of a single label.
  return results.map(({ scores: [score], logits: [yes, no = 0] = [], tokens = 0 }) => ({
    score,
    logit: yes - no,
    tokens,
  }));
}

/** Throws an error of the only text of a call again, as that of the query. @param {any} error @returns {never} */
function rethrowForQuery(error) {
  if (error.details?.index === 0) {
    error.message = error.message.replace(/^text 0/, 'the query');
    delete error.details.index; // it would be that of a document
  }
  throw error;
}

/**
 * @param {Model} model
 * @param {string} query
 * @param {string[]} documents
 * @param {object} handlers
 * @returns {Promise<Relevance[]>}
 */
async function byCosine(model, query, documents, handlers) {
  const { prompts } = model.info;
  const promptOf = (/** @type {string} */ name) => prompts[name] && { prompt: name };
  const options = { ...handlers, normalize: true };
  // Progress counts the documents.
  const ofQuery = { ...options, onProgress: undefined, ...promptOf('query') };
  const [queryVector] = (await model.embed([query], ofQuery).catch(rethrowForQuery)).vectors;
  const { vectors, tokens } = await model.embed(documents, { ...options, ...promptOf('document') });
  return vectors.map((vector, i) => ({
    score: vector.reduce((sum, x, k) => sum + x * queryVector[k], 0),
    tokens: tokens[i],
  }));
}
