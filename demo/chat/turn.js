/** A turn: a message, the reply while it is written, and its end; or the conversation as it was before, where no word came. */
import { clearAlert, showError, showNotice } from '../page/alerts.js';
import { composedText, setComposedText } from './composer.js';
import { writingLock } from './conversation.js';
import * as format from '../page/format.js';
import { countOn, details, message, say, stop } from '../page/page.js';
import { Speaker } from './screen-reader.js';

/** @typedef {import('./tree.js').Entry} Entry */
/** @typedef {import('../../js/shared/types.js').Result} Result */

/** A reload in the middle of a reply loses no more than this many milliseconds of it. */
const SAVE_EVERY = 300;

/** Why a reply can be continued, by the reason that the engine gives for its end. @type {Partial<Record<Result['finishReason'], Entry['end']>>} */
const ENDS = { length: 'length', context: 'context', deadline: 'stopped', abort: 'stopped' };

/**
 * What a turn needs of the page.
 * @typedef {object} Page
 * @property {import('../models/engine-host.js').Host} host
 * @property {import('../panel/panel.js').Panel} panel
 * @property {import('../page/settings.js').Settings} settings
 * @property {import('./view.js').Log} log
 * @property {import('./conversation.js').Current} current
 * @property {import('../panel/context-meter.js').Context} context
 * @property {'loading' | 'ready' | 'writing'} phase  what the page is doing
 * @property {(next: 'ready' | 'writing', back?: HTMLElement) => void} enter  `back`: where the keyboard goes on, if this
 *   takes its place away
 * @property {() => Promise<void>} showState
 * @property {import('./reply-progress.js').Waiting} waiting
 * @property {(result: import('../../js/shared/types.js').Result) => void} replied
 * @property {() => void} draftChanged  the text in the field is another
 */

/**
 * The conversation before a turn, to return to if no word comes.
 * @typedef {object} Before
 * @property {string | null} leaf
 * @property {Entry[]} added
 * @property {Entry} [continued]  the reply that is continued
 * @property {string} [unsent]  goes back into the field
 * @property {HTMLElement} [back]  had the keyboard, and has it again at the end unless the person went elsewhere
 */

export class Turns {
  #page;
  #speaker = new Speaker();
  /** Ends the reply that is being written. */
  #replying = new AbortController();
  #underWay = Promise.resolve();
  /** A message that was sent while no model could read it: sent once one can. */
  #early = '';
  /** The message of the turn under way. */
  #sent = '';

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
  }

  get #able() {
    return this.#page.phase === 'ready' && this.#page.host.hasModel;
  }

  /** @param {string} text */
  submit = (text) => {
    if (!text.trim()) return;
    if (!this.#able) {
      if (this.#page.phase === 'loading') {
        this.#early = text;
        say('The message is sent as soon as the model is ready.');
      }
      return;
    }
    const { current } = this.#page;
    const { leaf } = current.it;
    // What is offered to say leaves what is being written.
    if (text === composedText()) setComposedText('');
    this.#page.draftChanged();
    if (!details.wide.matches) details.open = false;
    this.#answer({ leaf, added: [current.add('user', text)], unsent: text }, text);
  };

  /** A model is ready: a message that was sent before goes now, unless the person has changed it. */
  sendEarly() {
    const text = this.#early;
    this.#early = '';
    if (text && text === composedText()) this.submit(text);
  }

  /** Another version of a message, and its reply. @param {Entry} entry @param {string} text @returns {boolean}  false: not now */
  edit = (entry, text) => {
    if (!this.#able) return false;
    const { current } = this.#page;
    const { leaf } = current.it;
    this.#answer({ leaf, added: [current.add('user', text, entry.parent)], unsent: text });
    message.focus();
    return true;
  };

  /** Another reply to the last message: the one before stays beside it. */
  again = () => {
    const { current, log } = this.#page;
    const { leaf } = current.it;
    const last = current.path.at(-1);
    if (!this.#able || last?.role !== 'assistant') return;
    const back = document.activeElement === log.again ? log.again : undefined;
    current.endAt(last.parent);
    this.#answer({ leaf, added: [], back });
    if (back) stop.focus();
  };

  /** The last reply is continued where it was cut. */
  goOn = () => {
    const { current } = this.#page;
    const { leaf } = current.it;
    const last = current.path.at(-1);
    if (!this.#able || last?.role !== 'assistant' || !last.end) return;
    this.#answer({ leaf, added: [], continued: last });
    stop.focus();
  };

  /** @param {Before} before @param {string} [sent]  the message at the end of the conversation */
  #answer(before, sent = '') {
    this.#sent = sent;
    const done = this.#reply(before);
    navigator.locks?.request(writingLock(this.#page.current.it.id), () => done).catch(() => {});
    this.#underWay = done;
  }

  /** The model does something else, which can be stopped as a reply can. @param {(signal: AbortSignal) => Promise<boolean>} work  @returns {Promise<boolean>}  its result; false: not now */
  async instead(work) {
    if (!this.#able) return false;
    this.#replying = new AbortController();
    const done = work(this.#replying.signal);
    this.#underWay = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  /** Ends the reply that is being written. @param {boolean} [handOver]  another model comes, and gets the message where no word of a reply has @returns {Promise<void>}  its end */
  stop(handOver) {
    if (handOver && this.#page.phase === 'writing') this.#early = this.#sent;
    this.#replying.abort();
    return this.#underWay;
  }

  /** @param {Before} before */
  async #reply(before) {
    const { host, panel, settings, log, current, context, enter, showState, waiting } = this.#page;
    clearAlert();
    panel.noReply();
    const { continued } = before;
    const path = continued ? current.path.slice(0, -1) : current.path;
    if (!continued) before.added.push(current.add('assistant', ''));
    const shown = /** @type {import('./view.js').Message} */ (log.last);
    const wasEnd = shown.entry.end;
    shown.entry.end = 'writing';
    this.#replying = new AbortController();
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
      // A short random seed can be typed again.
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
    // What was written before a model broke is as good as what was written before Stop.
    const hasReply =
      (result !== null && (result.tokens.length > 0 || result.finishReason !== 'abort')) || shown.entry.content !== '';
    shown.end =
      hasReply && result && (result.tokens.length || !continued) ? ENDS[result.finishReason] : (wasEnd ?? 'stopped');
    if (result && hasReply) this.#finish(result, shown, Boolean(continued));
    else if (!hasReply) this.#undo(before);
    current.show();
    enter('ready', before.back);
    if (hasReply && !current.save())
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
    // Its own tokens, without the one that ended it. Where a text was cut off, continued, or reasoning left out, they are not the text's.
    if (typeof result.stop !== 'string' && !result.reasoning && !continued)
      shown.entry.tokens = result.stop === null ? result.tokens : result.tokens.slice(0, -1);
    else delete shown.entry.tokens;
    this.#page.panel.reply(tokens, result);
    this.#page.replied(result);
    const what = { stop: 'Done', length: 'Cut at the length limit', context: 'Cut: the context is full' };
    const end = what[/** @type {keyof typeof what} */ (result.finishReason)];
    say(`${end ?? 'Stopped'}${end === 'Done' ? ':' : ' after'} ${format.counted(tokens, 'token')}.`);
  }

  /** The conversation as it was before a turn of which no word came. @param {Before} before */
  #undo({ leaf, added, unsent = '' }) {
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
