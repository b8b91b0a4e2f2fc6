/** Models from links: looked at, agreed to, downloaded beside a conversation, paused, given up. */
import { clearAlert, showError } from './alerts.js';
import { nameOf } from './format.js';
import { hidePlan, needsConsent, showButtons, showPlan } from './link-card.js';
import { $, say } from './page.js';

/** @typedef {import('./host.js').Host} Host */
/**
 * What the page does for a link.
 * @typedef {object} Page
 * @property {() => AbortSignal} renew  ends what is being opened
 * @property {AbortSignal} signal  of what is being opened
 * @property {(name: string, url: string, how: { retry: () => void, level: number, streaming: boolean }) => Promise<boolean>} open
 * @property {() => Promise<void>} stopReply
 * @property {boolean} arriving         weights are on their way while the model is in use already
 * @property {() => Promise<void>} settle  nothing is on its way any more
 * @property {() => Promise<void>} openBundled
 */

export class Links {
  #host;
  #page;
  #paused = false;
  /** What "Download and use" would load. @type {(() => void) | null} */
  #agreed = null;

  /** @param {Host} host @param {Page} page */
  constructor(host, page) {
    this.#host = host;
    this.#page = page;
  }

  /** Shows what a link leads to, and loads it when it is small, there already or agreed to. @param {string} url @param {number} [level] */
  look = async (url, level = 0) => {
    const host = this.#host;
    hidePlan();
    clearAlert();
    this.#agreed = null;
    const signal = this.#page.renew();
    say(`Looking at ${nameOf(url)}…`);
    try {
      const plan = await host.plan(url, { ...(level && { context: await host.smaller(url, level, signal) }) }, signal);
      if (signal.aborted) return;
      showPlan(plan);
      showButtons('asking');
      this.#agreed = () => this.#fetch(url, level);
      if (needsConsent(plan)) say('This is what it takes. Nothing large has been downloaded yet.');
      else await this.#fetch(url, level);
    } catch (error) {
      if (signal.aborted) return;
      say(host.hasModel ? 'Nothing was loaded; the model before still runs.' : 'No model is loaded.');
      showError(error, { text: 'Try again', run: () => this.look(url, level) });
    }
  };

  start = () => this.#agreed?.();

  pause = async () => {
    this.#paused = !this.#paused;
    showButtons(this.#paused ? 'paused' : 'downloading');
    say(this.#paused ? 'Paused.' : 'Going on…');
    await this.#host.pause(this.#paused);
  };

  /** Ends the download; what came stays stored, and the bundled model is back. */
  cancel = async () => {
    const page = this.#page;
    page.renew();
    hidePlan();
    if (!page.arriving) return page.settle();
    await page.stopReply();
    await this.#host.drop();
    await page.openBundled();
    await page.settle();
  };

  /** Downloads a model, which can be talked to meanwhile. @param {string} url @param {number} level */
  async #fetch(url, level) {
    const [host, page] = [this.#host, this.#page];
    const retry = () => void this.look(url, level);
    this.#agreed = null;
    this.#paused = false;
    showButtons('downloading');
    if (!(await page.open(nameOf(url), url, { retry, level, streaming: true }))) return hidePlan();
    $('bundled').hidden = false;
    const { signal } = page;
    try {
      await host.arrived;
      if (signal.aborted) return;
      say('All of the model is here.');
    } catch (error) {
      if (signal.aborted) return;
      await page.stopReply();
      await host.drop();
      say('The model did not arrive. What came of it is kept.');
      showError(error, { text: 'Try again', run: retry });
    }
    hidePlan();
    await page.settle();
  }
}
