/** `POST /v1/rerank`, in the form that the servers of Jina, Cohere and llama.cpp have in common. */
import { signal as abortSignal } from '../../shared/checks.js';
import { checkBy } from '../../shared/options.js';
import { ranking } from '../score.js';
import { refuse } from './check-fields.js';
import { fieldsOf } from './request.js';

/** @import { Model, RerankAnswer } from '../../shared/types.js' */

/**
 * @param {Model} model
 * @param {any} body
 * @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<RerankAnswer>}
 */
export async function rerankRequest(model, body, options) {
  const { signal } = checkBy({ signal: abortSignal }, 'rerank', options);
  const {
    query,
    documents,
    top_n: topN,
    return_documents: returnsDocuments = false,
    model: modelName,
  } = fieldsOf('rerank', body);
  if (query === undefined) throw refuse('query', 'the request has no query');
  if (!documents?.length) throw refuse('documents', 'the request has no documents');
  const texts = documents.map((/** @type {any} */ document) => document.text ?? document);
  const ranked = await ranking(model, query, texts, { signal });
  // With vectors, the query is computed once for all documents.
  const queryTokens = model.info.reranks === 'cosine' ? (await model.tokenize(query)).length : 0;
  const total = ranked.reduce((sum, { tokens }) => sum + tokens, queryTokens);
  return {
    object: 'list',
    model: modelName ?? model.info.name,
    usage: { prompt_tokens: total, total_tokens: total },
    results: ranked.slice(0, topN).map(({ index, score, document }) => ({
      index,
      relevance_score: score,
      ...(returnsDocuments && { document: { text: document } }),
    })),
  };
}
