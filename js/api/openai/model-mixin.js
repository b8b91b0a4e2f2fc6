/** What a model has in front of either engine, made of its own methods: chats, and calls in OpenAI's shapes. */
import { Chat } from '../chat/chat.js';
import { onDemand } from '../../shared/errors.js';

/** @import { ChatOptions, Model } from '../../shared/types.js' */

/** What few pages call comes when it is called. */
const openai = () => onDemand(import('./index.js'));

/** A model with `createChat`, `score`, `rerank`, `chat`, `completions` and `embeddings`. @param {any} model @returns {Model} */
export function conversing(model) {
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
