/** What is made of `model.reply`, in front of either engine: completions and chats. */
import { Chat } from './chat.js';
import { Completion } from './completion.js';

/** @import { ChatOptions, Model } from '../shared/types.js' */

/** A model with `complete` and `createChat`. @param {any} model @returns {Model} */
export function conversing(model) {
  model.complete = (/** @type {Parameters<Model['reply']>} */ ...given) => new Completion(model.reply(...given), model.info);
  model.createChat = async (/** @type {ChatOptions} */ options) => Chat.create(model, options);
  return model;
}
