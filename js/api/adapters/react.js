/** `bq4/react`: hooks for React 18 and 19: a model that is loading or loaded, and a conversation with it. */
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';

/** @import { Chat, ChatOptions, GenerateOptions, Message, Model, Progress } from '../../shared/types.js' */
/** @typedef {{ signal: AbortSignal, onProgress: (event: Progress) => void }} Loading */
/** @typedef {{ model: Model | null, progress: Progress | null, error: Error | null }} ModelState */

/** @type {ModelState} */
const NOTHING = { model: null, progress: null, error: null };

/**
 * A model, loaded while the component is there and closed with it. Other `deps` load another one.
 * @param {(loading: Loading) => Promise<Model>} load  for instance `(options) => engine.load(url, options)`
 * @param {readonly unknown[]} [deps]  what `load` depends on
 * @returns {ModelState}
 */
export function useModel(load, deps = []) {
  const [state, setState] = useState(NOTHING);
  useEffect(() => {
    const life = new AbortController();
    const { signal } = life;
    const set = (/** @type {Partial<ModelState>} */ more) => signal.aborted || setState((old) => ({ ...old, ...more }));
    setState(NOTHING);
    const loading = Promise.resolve().then(() => {
      signal.throwIfAborted(); // StrictMode mounts twice at once: nothing begins for the first
      return load({ signal, onProgress: (progress) => set({ progress }) });
    });
    loading.then(
      (model) => set({ model }),
      (error) => set({ error }),
    );
    return () => {
      life.abort();
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
 * A conversation with a model. It begins anew with another model; a reply under way ends when the component goes.
 * @param {Model | null} model  null: there is none yet
 * @param {ChatOptions & { generate?: GenerateOptions }} [options]  those of `model.createChat`, as they are when the conversation begins;
 *   `generate`: of each reply
 * @returns {{ messages: readonly Readonly<Message>[], status: Status, error: Error | null, send: (text: string) => Promise<void>, regenerate: () => Promise<void>, stop: () => void }}
 */
export function useChat(model, options = {}) {
  const given = useRef(options);
  given.current = options;
  const [messages, setMessages] = useState(/** @type {readonly Readonly<Message>[]} */ ([]));
  const [status, setStatus] = useState(/** @type {Status} */ ('waiting'));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  /** The conversation that is on the page. @type {{ current: { begin: () => Promise<Chat>, chat: Promise<Chat>, life: AbortController, reply: AbortController | null } | null }} */
  const here = useRef(null);

  useEffect(() => {
    if (!model) return undefined;
    const { generate, ...chatOptions } = given.current;
    const begin = () => model.createChat(chatOptions);
    const mine = { begin, chat: begin(), life: new AbortController(), reply: null };
    here.current = mine;
    mine.chat.then(
      (chat) => {
        if (mine.life.signal.aborted) return;
        setMessages(chat.messages);
        setStatus('ready');
      },
      (failure) => {
        if (mine.life.signal.aborted) return;
        setError(failure);
        setStatus('ready'); // sending tries again
      },
    );
    return () => {
      mine.life.abort();
      here.current = null;
      setStatus('waiting');
      setMessages([]);
      setError(null);
      mine.chat.then(
        (chat) => chat.close(),
        () => {},
      );
    };
  }, [model]);

  const say = useCallback(async (/** @type {string | null} */ text) => {
    const mine = here.current;
    if (!mine || mine.reply) return;
    const reply = (mine.reply = new AbortController());
    const gone = () => mine.life.signal.aborted;
    try {
      mine.chat = mine.chat.catch(mine.begin);
      const chat = await mine.chat;
      if (gone()) return;
      setError(null);
      setStatus('replying');
      const options = { ...given.current.generate, signal: reply.signal };
      for await (const _ of text === null ? chat.regenerate(options) : chat.send(text, options)) {
        if (gone()) return;
        setMessages(chat.messages);
      }
    } catch (failure) {
      if (!gone() && !reply.signal.aborted) setError(/** @type {Error} */ (failure));
    } finally {
      mine.reply = null;
      if (!gone()) {
        const chat = await mine.chat.catch(() => null);
        if (chat) setMessages(chat.messages);
        setStatus('ready');
      }
    }
  }, []);

  const send = useCallback((/** @type {string} */ text) => say(text), [say]);
  const regenerate = useCallback(() => say(null), [say]);
  const stop = useCallback(() => here.current?.reply?.abort(), []);
  return useMemo(
    () => ({ messages, status, error, send, regenerate, stop }),
    [messages, status, error, send, regenerate, stop],
  );
}
