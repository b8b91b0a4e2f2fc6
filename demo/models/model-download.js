/** The download of a model while another one is in use. There is one download at a time. Loaded on demand. */
import { showNotice } from '../page/alerts.js';
import { marked } from './crash-guard.js';
import { showArrived } from './download-strip.js';
import { say } from '../page/page.js';
import { factsOf, rememberDownload, rememberPause } from '../storage/model-history.js';

/** @typedef {import('../storage/model-history.js').ModelChoice} ModelChoice */
/** @typedef {import('./engine-host.js').Prepared} Prepared */
/** @typedef {{ choice: ModelChoice, controller: AbortController, paused: boolean, prepared: Prepared | null }} Download */

export class ModelDownload {
  #host;
  #onChange;
  /** @type {Download | null} */
  #current = null;

  /**
   * @param {import('./engine-host.js').Host} host
   * @param {() => void} onChange  called when a download begins, pauses or ends
   */
  constructor(host, onChange) {
    this.#host = host;
    this.#onChange = onChange;
  }

  /** The model that is being downloaded; undefined: none. */
  get choice() {
    return this.#current?.choice;
  }

  get isPaused() {
    return Boolean(this.#current?.paused);
  }

  /**
   * Downloads a model and stops the previous download. Throws the error of a failed load.
   * @param {ModelChoice} choice
   * @param {import('./models.js').LoadOptions} loadOptions
   * @returns {Promise<Prepared | null>}  the loaded model; null: the download was stopped
   */
  async run(choice, { context = 0, level = 0 }) {
    const other = this.choice;
    await this.stop();
    if (other && other.key !== choice.key)
      showNotice(`The download of ${other.name} was stopped. You can resume it later.`);
    const controller = new AbortController();
    const { signal } = controller;
    const download = (this.#current = /** @type {Download} */ ({ choice, controller, paused: false, prepared: null }));
    rememberDownload({ name: choice.name, url: choice.key, context });
    this.#onChange();
    say(`Downloading ${choice.name}. You can already send a message.`);
    const sizes = { ...(context && { contextTokens: context }), streaming: true };
    const promptOptions = { format: factsOf(choice.key).format, name: `${choice.name} ${choice.key}` };
    const progress = (/** @type {import('../../js/shared/types.js').Progress} */ of) => {
      if (this.#current === download) showArrived(of);
    };
    try {
      // Memory is used as weights arrive, so the mark stays until all are loaded.
      await marked({ name: choice.name, url: choice.key, kind: 'link', level }, async () => {
        download.prepared = await this.#host.prepare(choice.source, sizes, progress, signal, promptOptions);
        if (download.paused) await download.prepared.model.pauseDownload();
        await download.prepared.model.loaded;
      });
    } catch (error) {
      if (signal.aborted) return null;
      await download.prepared?.model.close().catch(() => {});
      this.#end();
      throw error;
    }
    if (signal.aborted) return null;
    this.#end();
    return download.prepared;
  }

  #end() {
    this.#current = null;
    this.#onChange();
  }

  /** Pauses or resumes the download. */
  async togglePause() {
    const download = this.#current;
    if (!download) return;
    download.paused = !download.paused;
    rememberPause(download.paused);
    this.#onChange();
    say(download.paused ? 'Download paused.' : 'Download resumed.');
    await (download.paused ? download.prepared?.model.pauseDownload() : download.prepared?.model.resumeDownload());
  }

  /** Stops the download; the bytes that have arrived stay stored. */
  async stop() {
    const { controller, prepared } = this.#current ?? {};
    this.#current = null;
    controller?.abort();
    await prepared?.model.close().catch(() => {});
  }

  /** Stops the download for good: the next visit does not resume it. */
  async cancel() {
    await this.stop();
    rememberDownload(null);
    this.#onChange();
  }
}
