/** Adds to a model the methods that are built on its other methods: chats, and calls in OpenAI's form. */
import { Chat } from '../chat/chat.js';
import { onDemand } from '../../shared/errors.js';

/** @import { ChatOptions, Model } from '../../shared/types.js' */

/** Loads the module of OpenAI's calls, which few pages use. */
const openai = () => onDemand(import('./index.js'));

/**
 * Adds `createChat`, `score`, `rerank`, `chat`, `completions` and `embeddings` to a model and returns it.
 * @param {any} model
 * @returns {Model}
 */
export function addModelMethods(model) {
  model.createChat = async (/** @type {ChatOptions} */ options) => Chat.create(model, options);
  for (const method of /** @type {const} */ (['score', 'rerank']))
    model[method] = async (/** @type {[any, any, any?]} */ ...args) => (await openai())[method](model, ...args);
  const call = (/** @type {'chat' | 'completions' | 'embeddings'} */ name) => ({
    create: async (/** @type {any} */ body, /** @type {object} */ options) =>
      (await openai())[name](model, body, options),
  });
  const completions = call('chat');
  const runTools = async (/** @type {any} */ body, /** @type {object} */ options) =>
    (await openai()).runTools(/** @type {any} */ (completions.create), body, options);
  model.chat = { completions: { ...completions, runTools } };
  model.completions = call('completions');
  model.embeddings = call('embeddings');
  return model;
}
