/** A turn: what is said, the reply as it comes, its end, or the conversation as it was before. */
import { clearAlert, showError, showNotice } from '../page/alerts.js';
import * as format from '../page/format.js';
import { countOn, details, grow, message, say, stop } from '../page/page.js';
import { Speaker } from './screen-reader.js';

/** @typedef {import('./tree.js').Entry} Entry */
/** @typedef {import('../../js/shared/types.js').Result} Result */

/** @param {any} failure */
const failureWords = ({ code }) =>
  code === 'CONTEXT_FULL' ? 'Not sent: it is too long for the model.' : 'That failed.';

/** A reload in the middle of a reply loses no more than this many milliseconds of it. */
const SAVE_EVERY = 300;

/**
 * What a turn needs of the page.
 * @typedef {object} Page
 * @property {import('../models/engine-host.js').Host} host
 * @property {import('../panel/panel.js').Panel} panel
 * @property {import('../page/settings.js').SettingsForm} settings
 * @property {import('./view.js').Log} log
 * @property {import('./conversation.js').Current} current
 * @property {import('../panel/context-meter.js').Context} context
 * @property {'loading' | 'ready' | 'writing'} phase  what the page is doing
 * @property {(next: 'ready' | 'writing', back?: HTMLElement) => void} enter  `back`: where the keyboard goes on, if this
 *   takes its place away
 * @property {() => Promise<void>} showState
 * @property {import('./reply-progress.js').Waiting} waiting
 * @property {(result: import('../../js/shared/types.js').Result) => void} replied
 */

/**
 * What a turn began with, should it come to nothing.
 * @typedef {object} Before
 * @property {string | null} leaf
 * @property {Entry[]} added
 * @property {string} [unsent]  goes back into the field
 * @property {HTMLElement} [back]  had the keyboard, and has it again at the end unless the person went elsewhere
 */

export class Turns {
  #page;
  #speaker = new Speaker();
  /** Ends the reply under way, and its end. */
  #replying = new AbortController();
  #underWay = Promise.resolve();

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
  }

  get #able() {
    return this.#page.phase === 'ready' && this.#page.host.hasModel;
  }

  /** @param {string} text */
  submit = (text) => {
    if (!this.#able || !text.trim()) return;
    const { current } = this.#page;
    const { leaf } = current.it;
    message.value = '';
    grow();
    if (!details.wide.matches) details.open = false;
    this.#answer({ leaf, added: [current.add('user', text)], unsent: text });
  };

  /** Another version of what was said, and its reply. @param {Entry} entry @param {string} text */
  edit = (entry, text) => {
    if (!this.#able) return;
    const { current } = this.#page;
    const { leaf } = current.it;
    this.#answer({ leaf, added: [current.add('user', text, entry.parent)] });
    message.focus();
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

  /** @param {Before} before */
  #answer(before) {
    this.#underWay = this.#reply(before);
  }

  /** The model does something else, which can be stopped as a reply can. @param {(signal: AbortSignal) => Promise<boolean>} work  @returns {Promise<boolean>}  what it gives; false: not now */
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

  /** Ends the reply under way. @returns {Promise<void>}  its end */
  stop() {
    this.#replying.abort();
    return this.#underWay;
  }

  /** @param {Before} before */
  async #reply(before) {
    const { host, panel, settings, log, current, context, enter, showState, waiting } = this.#page;
    clearAlert();
    panel.noReply();
    const { path } = current;
    before.added.push(current.add('assistant', ''));
    const shown = /** @type {import('./view.js').Message} */ (log.last);
    this.#replying = new AbortController();
    enter('writing');
    waiting.begin();
    shown.writing = true;
    const { signal } = this.#replying;
    const { seed, ...sampling } = settings.values;
    /** @type {unknown} */
    let failure = null;
    /** @type {Result | null} */
    let result = null;
    try {
      const messages = await context.fit(path);
      await panel.parts.ready(host).catch(() => {});
      signal.throwIfAborted();
      // A short random seed can be typed again.
      const generation = host.reply(messages, {
        ...sampling,
        seed: seed ?? Math.floor(Math.random() * 1e6),
        onProgress: waiting.reading,
        signal,
      });
      try {
        await this.#write(generation, shown);
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
    // What was written before a model broke is no less worth than what was written before Stop.
    const came =
      (result !== null && (result.tokens.length > 0 || result.finishReason !== 'abort')) || shown.entry.content !== '';
    if (result && came) this.#finish(result, shown);
    else if (!came) this.#undo(before);
    enter('ready', before.back);
    if (came && !current.save())
      showNotice('This conversation is not stored: the browser has no room for it, or refuses it.');
    current.catchUp();
    if (failure) this.#showFailure(failure);
    if (!result || !came) say(failure ? failureWords(failure) : 'Stopped.');
    await panel.parts.end(host).catch(() => {}); // a model that broke has said so already
    await showState();
    if (result && result.finishReason !== 'context') context.warn();
  }

  /** @param {AsyncIterable<{ text: string, reasoning?: string }>} generation @param {import('./view.js').Message} shown */
  async #write(generation, shown) {
    const { host, panel, log, current, waiting } = this.#page;
    let tokens = 0;
    let first = 0;
    let saved = 0;
    for await (const part of generation) {
      const now = performance.now();
      if (!tokens) [first] = [now, waiting.end(), say('Writing…'), panel.parts.begin(host).catch(() => {})];
      shown.append(part);
      this.#speaker.hear(part.text);
      log.follow();
      panel.writing(++tokens, format.rateOf(tokens, now - first));
      countOn(tokens);
      if (now - saved > SAVE_EVERY) [saved] = [now, current.save()];
    }
  }

  /** @param {Result} result @param {import('./view.js').Message} shown */
  #finish(result, shown) {
    const tokens = result.tokens.length;
    const ends = {
      stop: '',
      length: 'cut at the longest reply',
      context: 'cut: the context is full',
      deadline: 'stopped',
      abort: 'stopped',
    };
    const facts = [
      format.counted(tokens, 'token'),
      format.speed(format.rate(result)),
      `seed ${result.seed}`,
      ends[result.finishReason],
    ];
    shown.note = facts.filter(Boolean).join(' · ');
    // Its own tokens, without the one that ended it; where a text was cut off, or reasoning left out, they are not the text's.
    if (typeof result.stop !== 'string' && !result.reasoning)
      shown.entry.tokens = result.stop === null ? result.tokens : result.tokens.slice(0, -1);
    this.#page.panel.reply(tokens, result);
    this.#page.replied(result);
    if (result.finishReason === 'context') this.#page.context.full();
    if (result.finishReason === 'abort') say(`Stopped after ${format.counted(tokens, 'token')}.`);
    else say(`Done: ${facts.slice(0, 2).filter(Boolean).join(', ')}.`);
  }

  /** The conversation as it was before a turn that came to nothing. @param {Before} before */
  #undo({ leaf, added, unsent = '' }) {
    this.#page.current.takeBack(added, leaf);
    if (unsent && !message.value) message.value = unsent;
    grow();
  }

  /** @param {unknown} error */
  #showFailure(error) {
    const { code, details: told } = /** @type {any} */ (error) ?? {};
    if (code === 'CONTEXT_FULL') void this.#page.context.tooLong(told);
    else if (code === 'TRAP' || code === 'NO_WORKER')
      showError(error, { text: 'Reload the page', run: () => location.reload() });
    else showError(error);
  }
}
