/**
 * A turn: a message and its reply. If no word of the reply arrives, the conversation is restored to its state before
 * the turn.
 */
import { clearAlert, clearNotice, showError, showNotice } from '../page/alerts.js';
import { composedText, setComposedText } from './composer.js';
import { writingLock } from './conversation.js';
import * as format from '../page/format.js';
import { $, countOn, details, focusMessage, message, say, stop } from '../page/page.js';
import { Speaker } from './screen-reader.js';
import { writtenHere } from './tree.js';

/** @typedef {import('./tree.js').Entry} Entry */
/** @typedef {import('../../js/shared/types.js').Result} Result */

/** Interval in milliseconds at which an incomplete reply is saved: a reload loses at most this much of it. */
const SAVE_EVERY = 300;

/**
 * Maps the engine's finish reason to the reason why a reply is incomplete.
 * @type {Partial<Record<Result['finishReason'], Entry['end']>>}
 */
const ENDS = { length: 'length', context: 'context', deadline: 'stopped', abort: 'stopped' };

/**
 * The parts of the page that a turn uses.
 * @typedef {object} Page
 * @property {import('../models/engine-host.js').Host} host
 * @property {import('../panel/panel.js').Panel} panel
 * @property {import('../page/settings.js').Settings} settings
 * @property {import('./view.js').Log} log
 * @property {import('./conversation.js').Current} current
 * @property {import('../panel/context-meter.js').Context} context
 * @property {'loading' | 'ready' | 'writing'} phase
 * @property {(next: 'ready' | 'writing', back?: HTMLElement) => void} enter  `back`: element that gets the focus if the focused
 *   element disappears
 * @property {() => Promise<void>} showState
 * @property {import('./reply-progress.js').Waiting} waiting
 * @property {(result: import('../../js/shared/types.js').Result) => void} replied
 * @property {() => void} draftChanged  called after the text of the message field has changed
 */

/**
 * The state before a turn, to be restored if no word of the reply arrives.
 * @typedef {object} Before
 * @property {string | null} leaf
 * @property {boolean} [hides]  whether the new version hides later messages, which belong to the previous version
 * @property {Entry[]} added
 * @property {Entry} [continued]  the reply that is continued
 * @property {string} [unsent]  message text to be put back into the field
 * @property {number} [again]  index of the reply whose Regenerate button had the focus; the button there is focused at the end unless the
 *   user moved the focus
 */

export class Turns {
  #page;
  #speaker = new Speaker();
  /** Aborts the reply that is being written. */
  #replying = new AbortController();
  /** Settles when the running turn or task has ended. */
  #running = Promise.resolve();
  /** A message that was submitted while no model was ready; sent when one is. */
  #early = '';
  /** The message of the running turn. */
  #sent = '';

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    message.addEventListener('input', () => this.#queue(''));
  }

  /** Whether a reply can be requested now. */
  get #canReply() {
    return this.#page.phase === 'ready' && this.#page.host.hasModel;
  }

  /** @param {string} text */
  submit = (text) => {
    if (!text.trim()) return;
    if (!this.#canReply) {
      if (this.#page.phase === 'loading') {
        this.#queue(text);
        say('The message is sent as soon as the model is ready.');
      }
      return;
    }
    const { current } = this.#page;
    const { leaf } = current.conversation;
    // A suggested message (a chip) does not replace the text in the field.
    if (text === composedText()) setComposedText('');
    this.#page.draftChanged();
    if (!details.wide.matches) details.open = false;
    this.#answer({ leaf, added: [current.add('user', text)], unsent: text }, text);
  };

  /** Keeps a message until a model is ready, and shows that. @param {string} text  '' for none */
  #queue(text) {
    this.#early = text;
    $('amount').toggleAttribute('data-queued', text !== '');
  }

  /** Sends the message that was submitted before a model was ready, unless the user has changed it since. */
  sendEarly() {
    const text = this.#early;
    this.#queue('');
    if (text && text === composedText()) this.submit(text);
  }

  /**
   * Adds another version of a message and replies to it.
   * @param {Entry} entry
   * @param {string} text
   * @returns {boolean}  false if no reply can be written now
   */
  edit = (entry, text) => {
    if (!this.#canReply) return false;
    const { current } = this.#page;
    const { leaf } = current.conversation;
    const { path } = current;
    const hides = path.indexOf(entry) < path.length - 2;
    this.#answer({ leaf, hides, added: [current.add('user', text, entry.parent)], unsent: text });
    focusMessage();
    return true;
  };

  /**
   * Generates another version of a reply. The previous version stays, with the messages after it.
   * @param {Entry} [entry]  default: the last reply
   */
  regenerate = (entry) => {
    const { current, log } = this.#page;
    const { leaf } = current.conversation;
    const { path } = current;
    const reply = entry ?? path.at(-1);
    if (!this.#canReply || reply?.role !== 'assistant') return;
    const at = path.indexOf(reply);
    const again = document.activeElement === log.again(at) ? at : undefined;
    current.endAt(reply.parent);
    this.#answer({ leaf, hides: at < path.length - 1, added: [], again });
    if (again !== undefined) stop.focus();
  };

  /** Continues the last reply where it was cut. */
  continueReply = () => {
    const { current } = this.#page;
    const { leaf } = current.conversation;
    const last = current.path.at(-1);
    if (!this.#canReply || last?.role !== 'assistant' || !last.end) return;
    this.#answer({ leaf, added: [], continued: last });
    stop.focus();
  };

  /** @param {Before} before @param {string} [sent]  the message at the end of the conversation */
  #answer(before, sent = '') {
    this.#sent = sent;
    const done = this.#reply(before);
    navigator.locks?.request(writingLock(this.#page.current.conversation.id), () => done).catch(() => {});
    this.#running = done;
  }

  /**
   * Runs another task of the model, which can be stopped like a reply.
   * @param {(signal: AbortSignal) => Promise<boolean>} task
   * @returns {Promise<boolean>}  result of the task; false if it cannot run now
   */
  async runTask(task) {
    if (!this.#canReply) return false;
    this.#replying = new AbortController();
    const done = task(this.#replying.signal);
    this.#running = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  /**
   * Stops the reply that is being written.
   * @param {boolean} [handOver]  another model replaces this one: it gets the message if no word of a reply has arrived
   * @returns {Promise<void>}  settles when the reply has ended
   */
  stop(handOver) {
    if (handOver && this.#page.phase === 'writing') this.#queue(this.#sent);
    this.#replying.abort();
    return this.#running;
  }

  /** @param {Before} before */
  async #reply(before) {
    const { host, panel, settings, log, current, context, enter, showState, waiting } = this.#page;
    clearAlert();
    panel.noReply();
    const { continued, hides, leaf } = before;
    if (hides)
      void import('./hidden-messages.js').then(
        (view) => view.offerHidden(leaf, this.#page, () => this.stop()),
        showError,
      );
    const path = continued ? current.path.slice(0, -1) : current.path;
    if (!continued) before.added.push(current.add('assistant', ''));
    const shown = /** @type {import('./view.js').Message} */ (log.last);
    const previousEnd = shown.entry.end;
    shown.entry.end = 'writing';
    writtenHere.add(shown.entry);
    this.#replying = new AbortController();
    // The list of chats shows the chat, and a crash before the first word does not lose the message. A continued reply is already stored.
    if (!continued) current.save();
    enter('writing');
    waiting.begin();
    shown.writing = true;
    const { signal } = this.#replying;
    const { seed, maxTokens, ...sampling } = settings.values;
    /** @type {unknown} */
    let failure = null;
    /** @type {Result | null} */
    let result = null;
    try {
      const { messages, prefix } = await context.fit(path, continued?.content ?? '', signal);
      const parts = await panel.parts();
      await parts?.ready(host).catch(() => {});
      signal.throwIfAborted();
      // A random seed of few digits is easy to type again.
      const generation = host.reply(messages, {
        ...sampling,
        ...(prefix && { prefix }),
        ...(maxTokens !== null && { maxTokens }),
        seed: seed ?? Math.floor(Math.random() * 1e6),
        onProgress: waiting.reading,
        signal,
      });
      try {
        await this.#write(generation, shown, parts);
      } finally {
        result = await generation.result;
      }
    } catch (error) {
      if (!signal.aborted) failure = error;
    }
    waiting.end();
    shown.writing = false;
    countOn();
    log.follow();
    this.#speaker.end();
    // Text that was written before a model failed is kept, like text written before Stop.
    const hasReply =
      (result !== null && (result.tokens.length > 0 || result.finishReason !== 'abort')) || shown.entry.content !== '';
    shown.end =
      hasReply && result && (result.tokens.length || !continued)
        ? ENDS[result.finishReason]
        : (previousEnd ?? 'stopped');
    writtenHere.delete(shown.entry);
    if (result && hasReply) this.#finish(result, shown, Boolean(continued));
    else if (!hasReply) this.#undo(before);
    current.show();
    enter('ready', log.again(before.again ?? -1));
    if (!current.save() && hasReply)
      showNotice('This chat could not be saved: the storage of this browser is full or blocked.');
    current.catchUp();
    if (failure) this.#showFailure(failure);
    if (!result || !hasReply) say(failure ? 'No reply.' : 'Stopped.');
    await panel.endParts(host);
    await showState();
  }

  /**
   * @param {AsyncIterable<{ text: string, reasoning?: string }>} generation @param {import('./view.js').Message} shown
   * @param {import('../panel/stage-times.js').Parts | null} parts
   */
  async #write(generation, shown, parts) {
    const { host, panel, log, current, waiting } = this.#page;
    let tokens = 0;
    let first = 0;
    let saved = 0;
    for await (const part of generation) {
      const now = performance.now();
      if (!tokens) [first] = [now, waiting.end(), say('Writing…'), parts?.begin(host).catch(() => {})];
      shown.append(part);
      this.#speaker.hear(part.text);
      log.follow();
      panel.writing(++tokens, format.rateOf(tokens, now - first));
      countOn(tokens);
      if (now - saved > SAVE_EVERY) [saved] = [now, current.save()];
    }
  }

  /** @param {Result} result @param {import('./view.js').Message} shown @param {boolean} continued */
  #finish(result, shown, continued) {
    const tokens = result.tokens.length;
    shown.note = format.wordSpeed(result);
    // The generated tokens without the end token. They do not match the text if it was cut at a stop string, was continued, or had
    // reasoning, which is not part of it.
    if (typeof result.stop !== 'string' && !result.reasoning && !continued)
      shown.entry.tokens = result.stop === null ? result.tokens : result.tokens.slice(0, -1);
    else delete shown.entry.tokens;
    this.#page.panel.reply(tokens, result);
    this.#page.replied(result);
    say(`${shown.endWords || 'Done'}.`);
  }

  /** Restores the conversation after a turn without a word of reply. @param {Before} before */
  #undo({ leaf, added, unsent = '' }) {
    clearNotice(); // the messages that the turn hid are shown again
    this.#page.current.takeBack(added, leaf);
    if (unsent && !composedText()) setComposedText(unsent);
    this.#page.draftChanged();
  }

  /** @param {unknown} error */
  #showFailure(error) {
    const { code, details: more } = /** @type {any} */ (error) ?? {};
    if (code === 'CONTEXT_FULL') this.#page.context.tooLong(more);
    else if (code === 'TRAP' || code === 'NO_WORKER')
      showError(error, { text: 'Reload the page', run: () => location.reload() });
    else showError(error);
  }
}
