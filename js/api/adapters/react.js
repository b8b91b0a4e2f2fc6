/** `bq4/react`: hooks for React 18 and 19: `useModel` loads a model, `useChat` keeps a conversation with it. */
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { follow } from '../../shared/async.js';
import { wrong } from '../../shared/check-options.js';
import { callback, object, signal as signalProblem } from '../../shared/checks.js';

/** @import { Chat, ChatOptions, Content, GenerateOptions, Generation, Message, MessageLike, Model, Progress } from '../../shared/types.js' */
/** @typedef {{ signal: AbortSignal, onProgress: (event: Progress) => void }} Loading */
/** @typedef {{ model: Model | null, progress: Progress | null, error: Error | null }} ModelState */

/**
 * Returns a model. Throws ARGUMENT for another value, such as the result of a function that does not return the model.
 * @param {string} name  name of the value @param {any} value @param {string} expected
 */
function checkModel(name, value, expected) {
  if (callback(value?.createChat)) throw wrong(name, value, expected);
  return value;
}

/**
 * Returns the caller's signal in the option `generate` of `useChat`. Throws ARGUMENT.
 * @param {GenerateOptions | undefined} generate
 */
function signalOf(generate) {
  if (generate === undefined) return undefined;
  if (object(generate)) throw wrong('generate', generate, 'an options object');
  const { signal } = generate;
  if (signal !== undefined && signalProblem(signal)) throw wrong('generate.signal', signal, signalProblem(signal));
  return signal;
}

/** @type {ModelState} */
const INITIAL_STATE = { model: null, progress: null, error: null };

/**
 * Loads a model when the component mounts and closes it when the component unmounts. A change of `deps` loads it again.
 * @param {(loading: Loading) => Promise<Model | null> | null} load  loads the model, for instance
 *   `(options) => engine.load(url, options)`, or returns null if there is no model to load yet
 * @param {readonly unknown[]} [deps]  values that `load` depends on
 * @returns {ModelState}
 */
export function useModel(load, deps = []) {
  if (callback(load)) throw wrong('the first argument of useModel', load, 'a function that loads a model');
  const [state, setState] = useState(INITIAL_STATE);
  useEffect(() => {
    const lifetime = new AbortController();
    const { signal } = lifetime;
    const update = (/** @type {Partial<ModelState>} */ changes) =>
      signal.aborted || setState((previous) => ({ ...previous, ...changes }));
    setState(INITIAL_STATE);
    const loading = Promise.resolve().then(async () => {
      signal.throwIfAborted(); // StrictMode mounts twice in succession; the first mount loads nothing
      const model = await load({ signal, onProgress: (progress) => update({ progress }) });
      return model === null ? null : checkModel('the result of `load`', model, 'a model or null');
    });
    loading.then(
      (model) => update({ model }),
      (error) => update({ error }),
    );
    return () => {
      lifetime.abort();
      loading.then(
        (model) => model?.close(),
        () => {},
      );
    };
  }, deps);
  return state;
}

/** @typedef {'waiting' | 'ready' | 'replying'} Status */

/**
 * The conversation of a mounted component.
 * @typedef {object} Conversation
 * @property {() => Promise<Chat>} createChat
 * @property {Promise<Chat>} chat
 * @property {AbortController} lifetime  aborted when the component unmounts
 * @property {AbortController | null} reply  of the running reply
 */

/**
 * Setters of the component's state.
 * @typedef {object} State
 * @property {(messages: readonly Readonly<Message>[]) => void} setMessages
 * @property {(status: Status) => void} setStatus
 * @property {(error: Error | null) => void} setError
 */

/**
 * Begins a conversation.
 * @param {Model} model @param {ChatOptions & { generate?: GenerateOptions }} options @param {State} state @returns {Conversation}
 */
function openConversation(model, { generate, ...chatOptions }, { setMessages, setStatus, setError }) {
  const createChat = async () => {
    signalOf(generate);
    return model.createChat(chatOptions);
  };
  const lifetime = new AbortController();
  const chat = createChat();
  chat.then(
    ({ messages }) => {
      if (lifetime.signal.aborted) return;
      setMessages(messages);
      setStatus('ready');
    },
    (failure) => {
      if (lifetime.signal.aborted) return;
      setError(failure);
      setStatus('ready'); // `send` tries to create the chat again
    },
  );
  return { createChat, chat, lifetime, reply: null };
}

/** Aborts the running reply and closes the chat. @param {Conversation} conversation */
function closeConversation({ lifetime, chat }) {
  lifetime.abort();
  chat.then(
    (openChat) => openChat.close(),
    () => {},
  );
}

/**
 * Generates a reply and shows it. Failures are shown, not thrown.
 * @param {Conversation} conversation
 * @param {(chat: Chat, options: GenerateOptions) => Generation} start
 * @param {GenerateOptions | undefined} generate
 * @param {State} state
 */
async function showReply(conversation, start, generate, { setMessages, setStatus, setError }) {
  const isUnmounted = () => conversation.lifetime.signal.aborted;
  /** @type {ReturnType<typeof follow> | null} */
  let lifetime = null;
  /** @type {Chat | null} */
  let chat = null;
  try {
    lifetime = follow(signalOf(generate));
    conversation.reply = lifetime.controller;
    conversation.chat = conversation.chat.catch(conversation.createChat);
    chat = await conversation.chat;
    if (isUnmounted()) return;
    setError(null);
    setStatus('replying');
    const generation = start(chat, { ...generate, signal: lifetime.signal });
    // Starts the reply: from here on the message is part of the conversation, and is shown while the prompt is read.
    generation.result.catch(() => {});
    setMessages(chat.messages);
    for await (const _ of generation) {
      if (isUnmounted()) return;
      setMessages(chat.messages);
    }
  } catch (failure) {
    if (!isUnmounted() && !lifetime?.signal.aborted) setError(/** @type {Error} */ (failure));
  } finally {
    lifetime?.release();
    conversation.reply = null;
    if (!isUnmounted()) {
      if (chat) setMessages(chat.messages);
      setStatus('ready');
    }
  }
}

/**
 * Keeps a conversation with a model. Another model starts another conversation. When the component unmounts, a running
 * reply is aborted.
 * @param {Model | null} model  null if it is not loaded yet
 * @param {ChatOptions & { generate?: GenerateOptions }} [options]  options of `model.createChat`, which are read when
 *   the conversation begins; `generate`: options of each reply
 * @returns {{ messages: readonly Readonly<Message>[], status: Status, error: Error | null, send: (message: Content | MessageLike | MessageLike[]) => Promise<void>, regenerate: () => Promise<void>, stop: () => void }}
 */
export function useChat(model, options = {}) {
  if (object(options)) throw wrong('the last argument of useChat', options, 'an options object');
  if (model) checkModel('the first argument of useChat', model, 'a model or null');
  const latestOptions = useRef(options);
  latestOptions.current = options;
  const [messages, setMessages] = useState(/** @type {readonly Readonly<Message>[]} */ ([]));
  const [status, setStatus] = useState(/** @type {Status} */ ('waiting'));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const conversationRef = useRef(/** @type {Conversation | null} */ (null));

  useEffect(() => {
    if (!model) return undefined;
    const conversation = openConversation(model, latestOptions.current, { setMessages, setStatus, setError });
    conversationRef.current = conversation;
    return () => {
      closeConversation(conversation);
      conversationRef.current = null;
      setStatus('waiting');
      setMessages([]);
      setError(null);
    };
  }, [model]);

  const reply = useCallback(async (/** @type {(chat: Chat, options: GenerateOptions) => Generation} */ start) => {
    const conversation = conversationRef.current;
    if (!conversation || conversation.reply) return;
    await showReply(conversation, start, latestOptions.current.generate, { setMessages, setStatus, setError });
  }, []);
  const send = useCallback(
    (/** @type {any} */ message) => reply((chat, replyOptions) => chat.send(message, replyOptions)),
    [reply],
  );
  const regenerate = useCallback(() => reply((chat, replyOptions) => chat.regenerate(replyOptions)), [reply]);
  const stop = useCallback(() => conversationRef.current?.reply?.abort(), []);
  return useMemo(
    () => ({ messages, status, error, send, regenerate, stop }),
    [messages, status, error, send, regenerate, stop],
  );
}
