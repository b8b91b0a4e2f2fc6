/** The paths of the server's interface and the model methods that they call. */
import { checkChatRequest } from '../openai/chat-completions.js';
import { rerankRequest } from '../openai/rerank.js';
import { checkTextRequest } from '../openai/text-completions.js';
import { Refusal } from './refusal.js';

/** @import { Served } from './index.js' */

/**
 * Model methods by path, for POST.
 * @type {Record<string, (model: any) => { create: (body: any, options: any) => Promise<any> }>}
 */
export const POSTS = {
  '/v1/chat/completions': (model) => model.chat.completions,
  '/v1/completions': (model) => model.completions,
  '/v1/embeddings': (model) => model.embeddings,
  '/v1/rerank': (model) => ({ create: (body, options) => rerankRequest(model, body, options) }),
};

/**
 * Checks of the requests that can be answered by a stream, by path. They compute nothing, so an invalid request gets its
 * own status at once, before it waits. They throw ARGUMENT, UNSUPPORTED, and return a check of the prompt, which takes
 * longer: it renders and tokenizes the messages, and throws ARGUMENT, TEMPLATE.
 * @type {Record<string, (model: any, body: any) => () => Promise<unknown>>}
 */
export const STREAM_CHECKS = {
  '/v1/chat/completions'(model, body) {
    const { fields, messages } = checkChatRequest(model, body);
    const { tools, chat_template_kwargs: variables = {} } = fields;
    const options = Object.keys(variables).length ? { templateVariables: variables } : {};
    // The prompt with tools depends on the form of the model's calls.
    return async () => tools?.length || model.countTokens(messages, options);
  },
  '/v1/completions'(model, body) {
    checkTextRequest(model, body);
    return async () => {};
  },
};

/** @param {Served} served */
const describe = ({ id, created, model: { info } }) => ({
  id,
  object: 'model',
  created,
  owned_by: 'bq4',
  context_length: info.contextTokens,
  generates: info.generates,
  ...(info.reranks && { reranks: info.reranks }),
  ...(info.license && { license: info.license }),
});

/**
 * Returns the answer to a GET request. Throws a Refusal for an unknown path or model.
 * @param {string} path
 * @param {Served[]} models
 */
export function get(path, models) {
  if (path === '/health')
    return {
      status: 'ok',
      models: models.map(({ id, queue }) => ({ id, running: queue.running, waiting: queue.waiting })),
    };
  if (path === '/v1/models') return { object: 'list', data: models.map(describe) };
  const name = /^\/v1\/models\/(.+)$/.exec(path)?.[1];
  if (name === undefined)
    throw new Refusal(
      404,
      'unknown_url',
      `unknown path ${path}: expected /v1/models, /health, and by POST ${Object.keys(POSTS).join(', ')}`,
    );
  return describe(modelNamed(decode(name), models));
}

/** @param {string} name */
function decode(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Returns the model with an id. Throws a Refusal. @param {string} name @param {Served[]} models */
function modelNamed(name, models) {
  const served = models.find(({ id }) => id === name);
  if (!served)
    throw new Refusal(
      404,
      'model_not_found',
      `unknown model "${String(name).slice(0, 100)}": expected ${models.length > 1 ? 'one of ' : ''}${models.map(({ id }) => `"${id}"`).join(', ')}`,
      {},
      'model',
    );
  return served;
}

/**
 * Returns the model for a request: the model with the given id, or without an id the first model that supports the
 * call.
 * @param {string} path @param {any} name @param {Served[]} models
 */
export function modelFor(path, name, models) {
  if (name !== undefined && name !== null && typeof name !== 'string')
    throw new Refusal(400, 'invalid_value', 'model: expected a string', {}, 'model');
  if (name !== undefined && name !== null && name !== '') return modelNamed(name, models);
  if (path === '/v1/rerank') {
    const findReranker = (/** @type {string} */ kind) => models.find(({ model: { info } }) => info.reranks === kind);
    return findReranker('classifier') ?? findReranker('cosine') ?? models[0];
  }
  const isEmbedding = path === '/v1/embeddings';
  return models.find(({ model: { info } }) => info.generates !== isEmbedding) ?? models[0];
}
