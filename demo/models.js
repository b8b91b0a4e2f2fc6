/** Models: opened, shown, kept and, after a crash, opened with less. What is said to them is not here. */
import { clearAlert, showError, trouble } from './alerts.js';
import { BUNDLED, keepBundled } from './bundled.js';
import { crashed, marked } from './crash.js';
import { onDrop } from './drop.js';
import * as format from './format.js';
import { hidePlan, onLink } from './link-card.js';
import { Links } from './link-flow.js';
import { keepForOffline } from './offline.js';
import { showOffers } from './offers.js';
import { $, fileInput, say, showProgress } from './page.js';
import { StoragePanel } from './storage.js';
import { glimpse, GLIMPSED } from './weight-picture.js';

/** @typedef {import('../js/shared/types.js').ModelInfo} ModelInfo */
/**
 * What the page does for its models.
 * @typedef {object} Page
 * @property {import('./host.js').Host} host
 * @property {import('./panel.js').Panel} panel
 * @property {(phase?: 'loading' | 'ready') => void} enter  none: as it is
 * @property {() => boolean} loading
 * @property {() => Promise<void>} stopReply
 * @property {() => Promise<void>} showState
 */

export class Models {
  #page;
  #links;
  /** @type {StoragePanel | null} */
  #storage = null;
  /** Ends the loading under way: the file that is chosen last wins. */
  #opening = new AbortController();
  /** What runs. @type {{ name: string, source: Blob | string } | null} */
  #now = null;
  /** Weights are on their way while the model is in use already. */
  arriving = false;

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    this.#links = new Links(page.host, this);
    $('open').addEventListener('click', () => fileInput.click());
    fileInput.addEventListener('change', () => {
      void this.#openFile(fileInput.files?.[0]);
      fileInput.value = '';
    });
    $('bundled').addEventListener('click', () => this.openBundled());
    onLink(this.#links);
    onDrop($('drop'), (file) => void this.#openFile(file));
  }

  /** The first model of a visit, and what is there besides: once the engine has started. */
  async begin() {
    const { host, panel } = this.#page;
    void showOffers((url) => void this.#links.look(url));
    if (host.store) {
      const onUse = (/** @type {string} */ url) => void (url === BUNDLED ? this.openBundled() : this.#links.look(url));
      this.#storage = new StoragePanel(host.store, { onUse, onError: (error) => showError(error) });
    }
    if (!(await this.#afterCrash())) await this.openBundled();
    await this.#storage?.show();
    panel.set('offline', 'Storing the page and the model…');
    panel.set('offline', await keepForOffline(() => keepBundled(host.store)));
    await this.#storage?.show();
  }

  /** Of what is being opened. */
  get signal() {
    return this.#opening.signal;
  }

  /** Ends what is being opened. @returns {AbortSignal}  of what is opened next */
  renew() {
    this.#opening.abort();
    this.#opening = new AbortController();
    return this.signal;
  }

  stopReply() {
    return this.#page.stopReply();
  }

  /** Nothing is on its way any more. */
  async settle() {
    const { host, enter, loading, showState } = this.#page;
    this.arriving = false;
    enter(loading() ? 'ready' : undefined);
    await this.#storage?.show();
    if (host.hasModel) await showState();
  }

  /**
   * Loads a model in place of the one in use, which goes on when that fails.
   * @param {string} name  to show while the file hasn't said its own
   * @param {Blob | string} source  a file, or the address of one
   * @param {{ retry?: () => void, level?: number, streaming?: boolean, context?: number }} [how]  `level`: how often to halve the context
   * @returns {Promise<boolean>}  whether it runs now
   */
  async open(name, source, { retry, level = 0, streaming = false, context } = {}) {
    const { host, enter, stopReply, showState } = this.#page;
    const signal = this.renew();
    await stopReply();
    clearAlert();
    this.arriving = false;
    enter('loading');
    say(`Loading ${name}…`);
    try {
      const url = typeof source === 'string' && source !== BUNDLED ? source : null;
      const sizes = { ...(context && { context }), ...(level && { context: await host.smaller(source, level, signal) }), streaming };
      const info = await /** @type {Promise<ModelInfo>} */ (new Promise((resolve, reject) => {
        // Memory is taken as weights come: the mark stays until they are there.
        marked({ name, url, level }, async () => {
          resolve(await host.load(source, sizes, showProgress, signal));
          await host.arrived;
        }).catch(reject);
      }));
      this.#now = { name, source };
      this.#show(info, info.name || name, source);
      say(info.chat || info.template ? 'Ready.' : 'Ready. This model knows no chat: it goes on with what you write.');
      this.arriving = streaming;
      enter('ready');
      await showState();
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      enter('ready');
      say(host.hasModel ? 'That file was not loaded; the model before it still runs.' : 'No model is loaded.');
      showError(error, retry && { text: 'Try again', run: retry });
      return false;
    }
  }

  /** The same model with another context. @param {number} context */
  async reload(context) {
    if (this.#now) await this.open(this.#now.name, this.#now.source, { context });
  }

  /** @param {ModelInfo} info @param {string} name @param {Blob | string} source  of other sites the page itself may read nothing */
  #show(info, name, source) {
    const readable = typeof source !== 'string' || source === BUNDLED;
    $('glimpse').hidden = $('glimpse-note').hidden = !readable;
    $('glimpse-note').textContent = `${GLIMPSED} of the ${format.large(info.fileBytes * 2)} four-bit pieces of its file`;
    if (readable) {
      const { signal } = this;
      void glimpse(/** @type {HTMLCanvasElement} */ ($('glimpse')), source, info.fileBytes).then((shown) => {
        if (!shown && !signal.aborted) $('glimpse').hidden = $('glimpse-note').hidden = true;
      });
    }
    this.#page.panel.model(info, name);
    this.#page.panel.noReply();
    $('model-name').textContent = name;
    $('parameters').textContent = `${format.parameters(info)} model`;
  }

  async openBundled(level = 0) {
    hidePlan();
    const opened = await this.open('the bundled model', BUNDLED, { retry: () => this.openBundled(level), level });
    if (opened) $('bundled').hidden = true;
  }

  /** @param {File | undefined} file */
  async #openFile(file) {
    if (!file) return;
    hidePlan();
    const opened = await this.open(file.name, file);
    if (opened) $('bundled').hidden = false;
  }

  /** After a tab died while it loaded something: not the same again, but less. @returns {Promise<boolean>}  whether it was so */
  async #afterCrash() {
    const attempt = await crashed();
    if (!attempt) return false;
    const again = () => (attempt.url ? this.#links.look(attempt.url, attempt.level + 1) : this.openBundled(attempt.level + 1));
    this.#page.enter('ready');
    say('The page ended while it loaded a model.');
    showError(trouble('CRASHED', `the tab ended while it loaded ${attempt.name}: most likely there was not enough memory`, 'load it with a smaller context, or go on with the bundled model'), { text: 'Load with less memory', run: again });
    $('bundled').hidden = false;
    return true;
  }
}
