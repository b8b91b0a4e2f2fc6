/** A turn: what is said, the reply as it comes, its end, or the conversation as it was before. */
import { BqError } from '../js/index.js';
import { clearAlert, showError } from './alerts.js';
import * as format from './format.js';
import { countOn, details, grow, message, say } from './page.js';

/** @typedef {import('./store.js').Entry} Entry */
/** @typedef {import('../js/shared/types.js').Result} Result */

/** A reload in the middle of a reply loses no more than this many milliseconds of it. */
const SAVE_EVERY = 300;

/**
 * What a turn needs of the page.
 * @typedef {object} Page
 * @property {import('./host.js').Host} host
 * @property {import('./panel.js').Panel} panel
 * @property {import('./settings.js').SettingsForm} settings
 * @property {import('./view.js').Conversation} conversation
 * @property {'loading' | 'ready' | 'writing' | 'clearing'} phase  what the page is doing
 * @property {(next: 'ready' | 'writing' | 'clearing') => void} enter
 * @property {() => unknown} save
 * @property {() => Promise<void>} showState
 */

export class Turns {
  #page;
  /** Ends the reply under way, and its end. */
  #replying = new AbortController();
  #underWay = Promise.resolve();

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
  }

  /** @param {string} text */
  submit = (text) => {
    const { phase, host, conversation } = this.#page;
    if (phase !== 'ready' || !host.hasModel || !text.trim()) return;
    message.value = '';
    grow();
    if (!details.wide.matches) details.open = false;
    conversation.add({ role: 'user', content: text, note: '' });
    this.answer(text);
  };

  /** @param {string | null} text  what was said; null: answer the last message once more */
  answer(text) {
    if (this.#page.phase === 'ready') this.#underWay = this.#reply(text);
  }

  /** Ends the reply under way. @returns {Promise<void>}  its end */
  stop() {
    this.#replying.abort();
    return this.#underWay;
  }

  beginAnew = async () => {
    const { host, panel, conversation, enter, save, showState } = this.#page;
    await this.stop();
    conversation.clear();
    save();
    clearAlert();
    panel.noReply();
    enter('clearing');
    message.focus();
    say('A new chat.');
    try {
      if (host.hasModel) await host.restart([]);
    } catch (error) {
      this.#showFailure(error);
    }
    enter('ready');
    await showState();
  };

  /** @param {string | null} text */
  async #reply(text) {
    const { host, panel, settings, conversation, enter, save, showState } = this.#page;
    clearAlert();
    const replaced = text === null ? conversation.entries.at(-1) : undefined;
    if (replaced) conversation.drop();
    const shown = conversation.add({ role: 'assistant', content: '', note: '' });
    this.#replying = new AbortController();
    enter('writing');
    say('Reading…');
    shown.writing = true;
    const { signal } = this.#replying;
    const { seed, ...sampling } = settings.values;
    // A short random seed can be typed again.
    const generation = host.reply(text, { ...sampling, seed: seed ?? Math.floor(Math.random() * 1e6), signal });
    /** @type {unknown} */
    let failure = null;
    try {
      await this.#write(generation, shown);
    } catch (error) {
      if (!signal.aborted) failure = error;
    }
    shown.writing = false;
    countOn();
    conversation.follow();
    const { result } = generation;
    const came = result !== null && (result.ids.length > 0 || result.reason !== 'abort');
    if (came) this.#finish(result, shown);
    else this.#undo(text, replaced);
    enter('ready');
    save();
    if (failure) this.#showFailure(failure);
    if (!came) say(failure ? 'That failed.' : 'Stopped.');
    await panel.parts.end(host).catch(() => {}); // a model that broke has said so already
    await showState();
  }

  /** @param {AsyncIterable<{ text: string }>} generation @param {import('./view.js').Message} shown */
  async #write(generation, shown) {
    const { host, panel, conversation, save } = this.#page;
    let tokens = 0;
    let first = 0;
    let saved = 0;
    for await (const part of generation) {
      const now = performance.now();
      if (!tokens) [first] = [now, say('Writing…'), panel.parts.begin(host).catch(() => {})];
      shown.append(part.text);
      conversation.follow();
      panel.writing(++tokens, format.rate({ tokens, decodeMs: now - first }));
      countOn(tokens);
      if (now - saved > SAVE_EVERY) [saved] = [now, save()];
    }
  }

  /** @param {Result} result @param {import('./view.js').Message} shown */
  #finish(result, shown) {
    const tokens = result.ids.length;
    const ends = { stop: '', length: 'cut at the longest reply', context: 'cut: the context is full', abort: 'stopped' };
    const facts = [format.counted(tokens, 'token'), format.speed(format.rate(result.timings)), `seed ${result.seed}`, ends[result.reason]];
    shown.note = facts.filter(Boolean).join(' · ');
    this.#page.panel.reply(tokens, result.timings);
    if (result.reason === 'context') {
      this.#showFailure(new BqError('CONTEXT_FULL', 'the conversation has filled the context: the model can read no more', { hint: 'start a new chat' }));
    }
    if (result.reason === 'abort') say(`Stopped after ${format.counted(tokens, 'token')}.`);
    else say(`Done: ${facts.slice(0, 2).filter(Boolean).join(', ')}.`);
  }

  /** The conversation as it was before a turn that came to nothing. @param {string | null} text @param {Entry} [replaced] */
  #undo(text, replaced) {
    const { conversation } = this.#page;
    conversation.drop(text === null ? 1 : 2);
    if (replaced) conversation.add(replaced);
    if (text !== null && !message.value) message.value = text;
    grow();
  }

  /** @param {unknown} error */
  #showFailure(error) {
    const code = /** @type {any} */ (error)?.code;
    if (code === 'CONTEXT_FULL') showError(error, { text: 'New chat', run: () => void this.beginAnew() });
    else if (code === 'TRAP' || code === 'NO_WORKER') showError(error, { text: 'Reload the page', run: () => location.reload() });
    else showError(error);
  }
}
