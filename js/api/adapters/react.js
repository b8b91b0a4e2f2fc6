/** `bq4/react`: hooks for React 18 and 19: `useModel` loads a model, `useChat` keeps a conversation with it. */
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { wrong } from '../../shared/check-options.js';
import { object } from '../../shared/checks.js';

/** @import { Chat, ChatOptions, GenerateOptions, Message, Model, Progress } from '../../shared/types.js' */
/** @typedef {{ signal: AbortSignal, onProgress: (event: Progress) => void }} Loading */
/** @typedef {{ model: Model | null, progress: Progress | null, error: Error | null }} ModelState */

/** @type {ModelState} */
const INITIAL_STATE = { model: null, progress: null, error: null };

/**
 * Loads a model when the component mounts and closes it when the component unmounts. A change of `deps` loads it again.
 * @param {(loading: Loading) => Promise<Model>} load  loads the model, for instance
 *   `(options) => engine.load(url, options)`
 * @param {readonly unknown[]} [deps]  values that `load` depends on
 * @returns {ModelState}
 */
export function useModel(load, deps = []) {
  const [state, setState] = useState(INITIAL_STATE);
  useEffect(() => {
    const lifetime = new AbortController();
    const { signal } = lifetime;
    const update = (/** @type {Partial<ModelState>} */ changes) =>
      signal.aborted || setState((previous) => ({ ...previous, ...changes }));
    setState(INITIAL_STATE);
    const loading = Promise.resolve().then(() => {
      signal.throwIfAborted(); // StrictMode mounts twice in succession; the first mount loads nothing
      return load({ signal, onProgress: (progress) => update({ progress }) });
    });
    loading.then(
      (model) => update({ model }),
      (error) => update({ error }),
    );
    return () => {
      lifetime.abort();
      loading.then(
        (model) => model.close(),
        () => {},
      );
    };
  }, deps);
  return state;
}

/** @typedef {'waiting' | 'ready' | 'replying'} Status */

/**
 * Keeps a conversation with a model. Another model starts another conversation. When the component unmounts, a running
 * reply is aborted.
 * @param {Model | null} model  null if it is not loaded yet
 * @param {ChatOptions & { generate?: GenerateOptions }} [options]  options of `model.createChat`, which are read when
 *   the conversation begins; `generate`: options of each reply
 * @returns {{ messages: readonly Readonly<Message>[], status: Status, error: Error | null, send: (text: string) => Promise<void>, regenerate: () => Promise<void>, stop: () => void }}
 */
export function useChat(model, options = {}) {
  if (object(options)) throw wrong('the last argument of useChat', options, 'an options object');
  const latestOptions = useRef(options);
  latestOptions.current = options;
  const [messages, setMessages] = useState(/** @type {readonly Readonly<Message>[]} */ ([]));
  const [status, setStatus] = useState(/** @type {Status} */ ('waiting'));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  /**
   * The conversation of the mounted component.
   * @type {{ current: { createChat: () => Promise<Chat>, chat: Promise<Chat>, lifetime: AbortController, reply: AbortController | null } | null }}
   */
  const conversationRef = useRef(null);

  useEffect(() => {
    if (!model) return undefined;
    const { generate, ...chatOptions } = latestOptions.current;
    const createChat = async () => {
      if (generate !== undefined && object(generate)) throw wrong('generate', generate, 'an options object');
      return model.createChat(chatOptions);
    };
    const conversation = { createChat, chat: createChat(), lifetime: new AbortController(), reply: null };
    conversationRef.current = conversation;
    conversation.chat.then(
      (chat) => {
        if (conversation.lifetime.signal.aborted) return;
        setMessages(chat.messages);
        setStatus('ready');
      },
      (failure) => {
        if (conversation.lifetime.signal.aborted) return;
        setError(failure);
        setStatus('ready'); // `send` tries to create the chat again
      },
    );
    return () => {
      conversation.lifetime.abort();
      conversationRef.current = null;
      setStatus('waiting');
      setMessages([]);
      setError(null);
      conversation.chat.then(
        (chat) => chat.close(),
        () => {},
      );
    };
  }, [model]);

  const generateReply = useCallback(async (/** @type {string | null} */ text) => {
    const conversation = conversationRef.current;
    if (!conversation || conversation.reply) return;
    const controller = (conversation.reply = new AbortController());
    const isUnmounted = () => conversation.lifetime.signal.aborted;
    try {
      conversation.chat = conversation.chat.catch(conversation.createChat);
      const chat = await conversation.chat;
      if (isUnmounted()) return;
      setError(null);
      setStatus('replying');
      const options = { ...latestOptions.current.generate, signal: controller.signal };
      for await (const _ of text === null ? chat.regenerate(options) : chat.send(text, options)) {
        if (isUnmounted()) return;
        setMessages(chat.messages);
      }
    } catch (failure) {
      if (!isUnmounted() && !controller.signal.aborted) setError(/** @type {Error} */ (failure));
    } finally {
      conversation.reply = null;
      if (!isUnmounted()) {
        const chat = await conversation.chat.catch(() => null);
        if (chat) setMessages(chat.messages);
        setStatus('ready');
      }
    }
  }, []);

  const send = useCallback((/** @type {string} */ text) => generateReply(text), [generateReply]);
  const regenerate = useCallback(() => generateReply(null), [generateReply]);
  const stop = useCallback(() => conversationRef.current?.reply?.abort(), []);
  return useMemo(
    () => ({ messages, status, error, send, regenerate, stop }),
    [messages, status, error, send, regenerate, stop],
  );
}
