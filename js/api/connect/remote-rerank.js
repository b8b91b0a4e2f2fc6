/** `rerank` of a server: the form that the servers of Jina, Cohere, llama.cpp and `bq4 serve` have in common. */
import { integer, signal as signalCheck, text } from '../../shared/checks.js';
import { BqError } from '../../shared/errors.js';
import { checkBy } from '../../shared/check-options.js';
import { shown } from '../../shared/quote-value.js';
import { checkRerankTexts } from '../rerank-texts.js';

/** @import { Ranked } from '../../shared/types.js' */

/**
 * `model`: the reranker. Default: the model of `connect()`, otherwise the server's default.
 * @typedef {{ topN?: number, model?: string, signal?: AbortSignal }} RemoteRerankOptions
 */
/** @typedef {Pick<Ranked, 'index' | 'score' | 'document'>} RemoteRanked */

const OPTIONS = { topN: integer(1), model: text, signal: signalCheck };

/**
 * Sorts documents by the server's scores, most relevant first, and returns the first `topN`. Throws ARGUMENT, FORMAT for
 * a response without valid scores, and the errors of requests.
 * @param {(body: object, options: { signal?: AbortSignal }) => Promise<any>} send
 * @param {string} query
 * @param {string[]} documents
 * @param {RemoteRerankOptions} [options]
 * @returns {Promise<RemoteRanked[]>}
 */
export async function remoteRerank(send, query, documents, options) {
  const { topN, signal, model } = checkBy(OPTIONS, 'rerank', options);
  checkRerankTexts(query, documents);
  if (!documents.length) return [];
  const { results } = await send({ query, documents, top_n: topN, model }, { signal });
  return results
    .map((/** @type {any} */ result) => {
      const { index, relevance_score: score } = result ?? {};
      if (!Number.isInteger(index) || !(index in documents) || !Number.isFinite(score))
        throw new BqError(
          'FORMAT',
          `expected the "index" of a document and its "relevance_score", a number; found ${shown(result)}`,
        );
      return { index, score, document: documents[index] };
    })
    .sort((/** @type {RemoteRanked} */ a, /** @type {RemoteRanked} */ b) => b.score - a.score || a.index - b.index)
    .slice(0, topN);
}
