/** The model in use: choosing, planning, consent, loading, and the switch to a model that was downloaded meanwhile. */
import { clearAlert, showError } from '../page/alerts.js';
import { onArriving, showArrived, showArriving } from './download-strip.js';
import { BUNDLED, keepBundled, TINY } from './bundled.js';
import { crashed, marked } from './crash-guard.js';
import { onDrop } from './drop.js';
import * as format from '../page/format.js';
import { keepForOffline } from '../offline.js';
import { showOffers } from './offer-cards.js';
import { $, focusMessage, message, say, showProgress } from '../page/page.js';
import {
  factsOf,
  forgetDownload,
  fromFile,
  hasDeletions,
  lastDownload,
  lastModel,
  rememberDownload,
  rememberFacts,
  rememberModel,
} from '../storage/model-history.js';
import { showModel, showName, showNone } from './model-header.js';

/** @typedef {import('../../js/shared/types.js').ModelInfo} ModelInfo */
/** @typedef {import('../../js/shared/types.js').Plan} Plan */
/** @typedef {import('../storage/model-history.js').ModelChoice} ModelChoice */
/**
 * The parts of the page that its models use.
 * @typedef {object} Page
 * @property {import('./engine-host.js').Host} host
 * @property {import('../panel/panel.js').Panel} panel
 * @property {(phase?: 'loading' | 'ready') => void} enter  no phase: the page's phase stays
 * @property {() => boolean} loading
 * @property {() => boolean} idle  whether the chat is empty and nothing is typed, so that another model may replace this one without asking
 * @property {(handOver?: boolean) => Promise<void>} stopReply  `handOver`: a message without a word of reply is passed to the next model
 * @property {() => Promise<void>} showState
 * @property {(choice: ModelChoice) => void} onModel  called when another model is in use
 * @property {(files: File[]) => void} onTexts  called for dropped text files
 */
/**
 * Options of a load. `context`: tokens, 0 for the model's own; `level`: how often the context is halved; `agreed`: the user has agreed
 * before; `quiet`: not requested by the user just now, so a failure is not shown as an error; `first`: the first model of a visit, which
 * never replaces one that the user has chosen meanwhile.
 * @typedef {{ context?: number, level?: number, agreed?: boolean, quiet?: boolean, first?: boolean }} LoadOptions
 */

/** Shortest reply, in tokens, from which a model's speed is measured. */
const MIN_MEASURED_TOKENS = 16;
/** Bytes to download, or to read from a file, above which the user is asked first. */
const ASK_ABOVE = 20e6;
/** Milliseconds after which the card shows that a model is being checked. */
const CHECK_SHOWN_AFTER = 400;

/** @type {ModelChoice} */
const bundled = { kind: 'bundled', name: `${TINY} (built in)`, source: BUNDLED, key: 'bundled' };

/**
 * Returns an error of a load with an explanation, or unchanged if the explanations cannot be loaded.
 * @param {unknown} error
 * @param {ModelChoice} choice
 * @returns {Promise<Error & { isFinal?: boolean }>}
 */
const explain = (error, choice) =>
  import('./load-errors.js').then(
    ({ explainLoadError }) => explainLoadError(error, choice),
    () => /** @type {Error} */ (error),
  );

/** @param {Plan} plan @param {ModelChoice} choice */
const needsConsent = ({ fits, fileBytes, cached }, { kind }) =>
  fits === 'no' || fileBytes - (kind === 'file' ? 0 : cached.bytes) > ASK_ABOVE;

export class Models {
  #page;
  /** Aborts the running load when another model is chosen. */
  #loading = new AbortController();
  /** Aborts the planning of a model. */
  #planning = new AbortController();
  /** Whether the user has chosen a model. */
  hasChosen = false;
  /** Whether the engine has started. */
  #hasStarted = false;
  #paused = false;
  /** The model in use, or the one that is being loaded. @type {ModelChoice | null} */
  #current = null;
  /** The model in use while another is being loaded. @type {ModelChoice | null} */
  #previous = null;
  /** Whether the model is in use while its weights are still being read. */
  arriving = false;
  /** Description of the work before a load, such as converting a folder; '' if nothing is to be done. */
  #preparing = '';
  /**
   * The download of a second model; null before the first one.
   * @type {import('./model-download.js').ModelDownload | null}
   */
  #download = null;
  /** The notice that offers a model. @type {import('./ready-notice.js').Offered | null} */
  offered = null;
  /** @type {Promise<import('./picker.js').Picker> | null} */
  #picker = null;

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    onArriving({ pause: () => void this.#pause(), cancel: () => void this.#cancel() });
    $('model-name').addEventListener('click', () => void this.choose());
    $('none-bundled').addEventListener('click', () => void this.openBundled());
    for (const id of ['none-choose', 'offers-more', 'better'])
      $(id).addEventListener('click', () => void this.choose());
    for (const input of [$('file'), $('folder')])
      input.addEventListener('change', () => {
        const field = /** @type {HTMLInputElement} */ (input);
        const files = [...(field.files ?? [])];
        field.value = '';
        void this.picker().then((picker) => picker.take(files));
      });
    onDrop($('drop'), {
      onTexts: page.onTexts,
      onFile: (file, handle) => void this.use(fromFile(file, handle)),
      onSeveral: (files, handle) => void this.useFiles(files, {}, handle),
    });
  }

  /** Returns the dialog of all models, which is loaded on demand. */
  picker() {
    return (this.#picker ??= import('./picker.js').then(({ Picker }) => {
      const { host } = this.#page;
      return new Picker({
        bundled,
        current: () => (host.hasModel && this.#current?.key) || '',
        downloading: () => (!this.#download?.isPaused && this.#download?.choice?.key) || '',
        file: () => (this.#current?.kind === 'file' && host.hasModel ? this.#current : null),
        store: () => host.store,
        onUse: (choice, loadOptions) => void this.use(choice, loadOptions),
        onOffer: (offer) => void this.useOffer(offer),
        onFiles: (files, loadOptions) => void this.useFiles(files, loadOptions),
        onFolder: (folder, loadOptions) => void this.useFiles(folder, loadOptions, folder),
        onError: (error) => showError(error),
        onDelete: (url) => this.#forget(url),
        onChange: () => void this.#showOffline(),
      });
    }));
  }

  /** Shows all models. */
  choose = async () => {
    try {
      (await this.picker()).open();
    } catch (error) {
      showError(error);
    }
  };

  /** Whether the built-in model is in use and no other one is being downloaded. */
  get isTinyInUse() {
    return this.#page.host.hasModel && this.#current?.kind === 'bundled' && !this.#download?.choice;
  }

  /** The short name of the model in use. */
  get name() {
    return this.#current?.kind === 'bundled' ? TINY : (this.#current?.name ?? 'this model');
  }

  /** Loads the first model of a visit and resumes an incomplete download. Called once the engine has started. */
  async start() {
    this.#hasStarted = true;
    const { panel, enter, host } = this.#page;
    panel.set('offline', 'Saving the page and the model…');
    if (hasDeletions()) await (await import('./deletion.js')).completeRecorded(host.store);
    const [attempt, last] = [await crashed(), lastModel()];
    if (attempt || (last && last.kind !== 'bundled')) {
      const { comeBack } = await import('./startup-model.js');
      await comeBack(this, this.#page, attempt);
    } else await this.openBundled({ context: last?.context, first: true });
    if (!this.#current) enter('ready'); // no model could be loaded
    if (host.hasModel && lastDownload())
      await import('./startup-model.js').then(({ resumeDownload }) => resumeDownload(this, this.#page));
    await this.#refresh();
  }

  /** Shows again which models are stored. */
  async #refresh() {
    void this.#showOffline();
    if (this.#picker) await (await this.#picker).show();
    await this.#showOffers();
  }

  /** Shows the offers of better models under the headline while the built-in model is in use. */
  async #showOffers() {
    const { host } = this.#page;
    const small = this.isTinyInUse;
    document.documentElement.removeAttribute('data-tiny');
    $('offers').hidden = !small;
    if (small)
      await showOffers(host, {
        onUse: (choice) => void this.use(choice),
        onOffer: (offer) => void this.useOffer(offer),
      });
  }

  /** Reason, shown to the user, why a reply cannot begin yet; '' if it can. */
  get waitReason() {
    if (!this.arriving) return '';
    return this.#paused ? 'Download paused.' : 'Replying as soon as enough of the model is loaded…';
  }

  /** Remembers the speed of a reply for the next plan. @param {import('../../js/shared/types.js').Result} result */
  rememberSpeed(result) {
    const rate = format.rate(result);
    if (rate && result.usage.completionTokens >= MIN_MEASURED_TOKENS && this.#current && !this.arriving)
      rememberFacts(this.#current.key, { rate, at: Date.now() });
  }

  /**
   * Shows or hides the card for a page without a model.
   * @param {boolean} ready  whether nothing is being loaded or written
   */
  showAvailability(ready) {
    const none = ready && this.#hasStarted && !this.#page.host.hasModel;
    $('no-model').hidden = !none;
    if (none) showNone();
  }

  /** @param {LoadOptions} [loadOptions] */
  openBundled(loadOptions) {
    return this.use(bundled, loadOptions);
  }

  /** Loads the same model with another context. @param {number} context  tokens */
  async reload(context) {
    if (this.#current) await this.use(this.#current, { context, agreed: true });
  }

  /** @param {import('./catalogue.js').Offer} offer */
  async useOffer(offer) {
    const signal = this.#beginChoice();
    try {
      const { linkOf } = await import('./hub.js');
      const choice = await this.#prepare(`Checking ${offer.name}`, CHECK_SHOWN_AFTER, () => linkOf(offer, signal));
      if (!signal.aborted) await this.use(choice, { agreed: true });
    } catch (error) {
      if (signal.aborted) return;
      say(`${offer.name} was not loaded. ${this.#describeCurrent()}`);
      showError(error, { text: 'Try again', run: () => void this.useOffer(offer) });
    }
  }

  /** Aborts the planning of the previous choice. */
  #beginChoice() {
    this.hasChosen = true;
    clearAlert();
    this.#planning.abort();
    this.#planning = new AbortController();
    return this.#planning.signal;
  }

  /**
   * Loads a model from several files or folders.
   * @param {import('./files.js').Several} files
   * @param {LoadOptions} [loadOptions]
   * @param {FileSystemHandle} [handle]  of the folder, if there is only one
   */
  async useFiles(files, loadOptions, handle) {
    try {
      const { filesOf, modelOf } = await import('./files.js');
      await this.use({ ...modelOf(await filesOf(files)), ...(handle && { handle }) }, loadOptions);
    } catch (error) {
      showError(error);
    }
  }

  /**
   * Converts a folder to a file; returns other choices unchanged.
   * @param {ModelChoice} choice
   * @param {AbortSignal} signal
   * @returns {Promise<ModelChoice>}
   */
  async #convertFolder(choice, signal) {
    const { source } = choice;
    if (choice.folder === undefined || source instanceof Blob) return choice;
    const words = `Converting ${choice.name}`;
    const { converted = source } = await this.#prepare(words, 0, () =>
      this.#page.host.plan(source, {}, signal, (progress) => {
        if (this.#preparing === words) showArrived(progress);
      }),
    );
    return { ...choice, source: converted };
  }

  /**
   * Runs work before a load or download, and shows it in the card if it takes longer than `after`.
   * @template T @param {string} words @param {number} after  milliseconds; if not 0, the card is only used when it is free
   * @param {() => Promise<T>} work
   */
  async #prepare(words, after, work) {
    if (!this.#page.loading()) say(`${words}…`);
    const timer = setTimeout(() => {
      if (after && !$('arriving').hidden) return;
      this.#preparing = words;
      this.#showStrip();
    }, after);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      // Other work may have begun meanwhile.
      if (this.#preparing === words) {
        this.#preparing = '';
        this.#showStrip();
      }
    }
  }

  /** Updates the card above the message field. */
  #showStrip() {
    if (this.#preparing) return showArriving(this.#preparing, false, true);
    const { choice, isPaused } = this.#download ?? {};
    if (choice) return showArriving(`${isPaused ? 'Paused' : 'Downloading'}: ${choice.name}`, isPaused);
    const reading = (this.#page.loading() || this.arriving) && this.#current && this.#current.kind !== 'bundled';
    showArriving(reading ? `Loading ${this.#current?.name}` : '', this.#paused);
  }

  /** Updates the card, and hides the offers of other models during a download. */
  #showDownload() {
    this.#showStrip();
    if (this.#download?.choice) $('offers').hidden = $('better').hidden = true;
  }

  /** Returns a sentence about the model in use, after another was not loaded. */
  #describeCurrent() {
    return this.#page.host.hasModel ? `Still using ${this.name}.` : 'No model is loaded.';
  }

  /**
   * Loads a model if it is small, already stored, or the user agrees to its size.
   * @param {ModelChoice} requested @param {LoadOptions} [loadOptions]
   */
  async use(requested, { context = 0, level = 0, agreed: before = false, quiet = false, first = false } = {}) {
    const { host } = this.#page;
    // The built-in model is used until the chosen model is loaded.
    if (first && this.hasChosen) return this.#current ? undefined : this.#fetch(bundled, {}, null);
    let choice = requested;
    const signal = first ? this.#planning.signal : this.#beginChoice();
    if (this.offered?.key === choice.key && this.offered.take.isConnected) return this.offered.take.click();
    if (choice.kind === 'bundled') return this.#fetch(choice, { context, level }, null);
    try {
      choice = await this.#convertFolder(requested, signal);
      const [contextTokens, plan] = await this.#prepare(`Checking ${choice.name}`, CHECK_SHOWN_AFTER, async () => {
        const contextTokens = level ? await host.smaller(choice.source, level, signal) : context;
        return [contextTokens, await host.plan(choice.source, contextTokens ? { contextTokens } : {}, signal)];
      });
      if (signal.aborted) return;
      if ((level > 0 || needsConsent(plan, choice)) && !(before && plan.fits !== 'no')) {
        const { agreed } = await import('./plan-dialog.js');
        if (!(await agreed(plan, choice, signal)))
          return signal.aborted || say(`Cancelled. ${this.#describeCurrent()}`);
      }
      const keepsCurrent = choice.kind === 'link' && !plan.cached.complete && host.hasModel && !this.arriving;
      if (keepsCurrent) await this.#fetchMeanwhile(choice, { context: contextTokens, level }, plan);
      else await this.#fetch(choice, { context: contextTokens, level }, plan);
    } catch (error) {
      if (signal.aborted) return;
      say(`${choice.name} was not loaded. ${this.#describeCurrent()}`);
      if (quiet) return (await import('./startup-model.js')).offerDownload(this, this.#page, choice, { context });
      const again = { text: 'Try again', run: () => void this.use(choice, { context, level, agreed: before }) };
      const explained = await explain(error, choice);
      showError(explained, ...(explained.isFinal ? [] : [again]));
    }
  }

  /**
   * Downloads a model while the one in use answers.
   * @param {ModelChoice} choice
   * @param {LoadOptions} loadOptions
   * @param {Plan} plan
   */
  async #fetchMeanwhile(choice, { context = 0, level = 0 }, plan) {
    const { host, idle, showState } = this.#page;
    if (plan.tokensPerSecond) rememberFacts(choice.key, { estimate: plan.tokensPerSecond, at: Date.now() });
    /** @type {import('./engine-host.js').Prepared | null} */
    let ready = null;
    try {
      const { ModelDownload } = await import('./model-download.js');
      this.#download ??= new ModelDownload(host, () => this.#showDownload());
      const prepared = (ready = await this.#download.run(choice, { context, level }));
      if (!prepared) return;
      say('Download complete.');
      ready = null; // now it is in use or offered, and stays open also after an error
      if (idle()) await this.#switch(choice, prepared, context);
      else {
        const { offerSwitch } = await import('./ready-notice.js');
        this.offered = offerSwitch(choice, prepared.model, () => void this.#switch(choice, prepared, context));
      }
    } catch (error) {
      await ready?.model.close().catch(() => {});
      const isDamaged = /** @type {any} */ (error)?.code === 'INTEGRITY';
      if (isDamaged) rememberDownload(null);
      say(isDamaged ? `${choice.name} was not loaded.` : 'The download stopped. What was downloaded is kept.');
      const again = () => void this.use(choice, { context, level, agreed: true });
      showError(await explain(error, choice), { text: isDamaged ? 'Try again' : 'Resume', run: again });
    }
    await this.#refresh();
    if (host.hasModel) await showState();
  }

  /**
   * Uses a downloaded model in place of the current one.
   * @param {ModelChoice} choice
   * @param {import('./engine-host.js').Prepared} ready
   * @param {number} context
   */
  async #switch(choice, ready, context) {
    const { host, enter, stopReply, showState } = this.#page;
    this.#loading.abort();
    this.#loading = new AbortController();
    await stopReply(true);
    enter('loading');
    const info = await host.use(ready);
    [this.arriving, this.#current] = [false, choice];
    rememberModel(choice, context);
    forgetDownload(choice.key);
    this.#showInUse(info, choice);
    enter('ready');
    this.#showStrip();
    say(`Now using ${choice.name}.`);
    focusMessage();
    await this.#refresh();
    await showState();
  }

  /** Shows the model in use. @param {ModelInfo} info @param {ModelChoice} choice */
  #showInUse(info, choice) {
    showModel(info, choice, this.#page, this.#loading.signal);
    message.placeholder = `Message ${this.name}…`;
    this.#page.onModel(choice);
  }

  /** Stops the download of a deleted model and removes its notice. @param {string} url */
  async #forget(url) {
    if (this.offered?.key === url) this.offered.dismiss.click();
    if (this.#download?.choice?.key !== url) return;
    await this.#download.cancel();
    await this.#showOffers();
  }

  /**
   * Loads a model, which can be used while its weights arrive.
   * @param {ModelChoice} choice
   * @param {LoadOptions} loadOptions
   * @param {Plan | null} plan
   * @returns {Promise<void>}
   */
  async #fetch(choice, loadOptions, plan) {
    const { host, stopReply } = this.#page;
    const retry = { text: 'Try again', run: () => void this.use(choice, { ...loadOptions, agreed: true }) };
    if (!(await this.#open(choice, loadOptions, retry))) return;
    const { signal } = this.#loading;
    if (plan?.tokensPerSecond) rememberFacts(choice.key, { estimate: plan.tokensPerSecond, at: Date.now() });
    try {
      await host.arrived;
      if (signal.aborted) return;
      if (this.arriving) say('Ready.');
    } catch (error) {
      if (signal.aborted) return;
      await stopReply();
      await host.drop();
      say(`${choice.name} was not loaded.`);
      showError(await explain(error, choice), retry);
      if (choice.kind !== 'bundled') return this.#fetch(bundled, {}, null);
    }
    await this.#finishLoading();
  }

  /** Updates the page when nothing is being loaded any more. */
  async #finishLoading() {
    const { host, enter, loading, showState } = this.#page;
    this.arriving = false;
    enter(loading() ? 'ready' : undefined);
    this.#showStrip();
    // `#refresh` does not wait for the service worker: WebKitGTK may never report it as active after a reload during its installation.
    await this.#refresh();
    if (host.hasModel) await showState();
  }

  /**
   * Loads a model in place of the one in use, which stays in use if that fails.
   * @param {ModelChoice} choice @param {LoadOptions} loadOptions @param {{ text: string, run: () => void }} retry
   * @returns {Promise<boolean>}  whether the model can be used now
   */
  async #open(choice, { context = 0, level = 0 }, retry) {
    const { host, enter, stopReply, showState } = this.#page;
    this.#loading.abort();
    const { signal } = (this.#loading = new AbortController());
    const streaming = choice.kind !== 'bundled';
    await stopReply(true);
    // A model whose weights are incomplete is useless once their reading is aborted.
    if (this.arriving) await host.drop();
    if (!host.hasModel) this.#previous = null;
    else if (!this.#page.loading()) this.#previous = this.#current;
    [this.arriving, this.#paused, this.#current] = [false, false, choice];
    const { handle } = choice;
    if (handle) void import('../storage/file-handles.js').then(({ rememberHandle }) => rememberHandle(handle));
    enter('loading');
    showName(choice.name);
    this.#showStrip();
    say(`Loading ${choice.kind === 'bundled' ? 'the built-in model' : choice.name}…`);
    try {
      const tokens = context || (level && (await host.smaller(choice.source, level, signal)));
      const sizes = { ...(tokens && { contextTokens: tokens }), streaming };
      const info = await /** @type {Promise<ModelInfo>} */ (
        new Promise((resolve, reject) => {
          // Memory is used as weights arrive, so the mark stays until all are loaded.
          marked(
            { name: choice.name, url: choice.kind === 'link' ? choice.key : null, kind: choice.kind, level },
            async () => {
              resolve(
                await host.load(
                  choice.source,
                  sizes,
                  this.#onProgress,
                  signal,
                  factsOf(choice.key).format,
                  `${choice.name} ${choice.key}`,
                ),
              );
              await host.arrived;
            },
          ).catch(reject);
        })
      );
      this.arriving = streaming;
      rememberModel(choice, tokens);
      forgetDownload(choice.key);
      this.#showInUse(info, choice);
      say(streaming ? `Loading ${choice.name}. You can already send a message.` : 'Ready.');
      enter('ready');
      this.#showStrip();
      await showState();
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      this.#restorePrevious();
      enter('ready');
      say(`${choice.name} was not loaded. ${this.#describeCurrent()}`);
      showError(await explain(error, choice), ...(choice.kind === 'file' ? [] : [retry]));
      return false;
    }
  }

  /** After a failed load: the previous model is in use again, if it is still loaded. */
  #restorePrevious() {
    this.#current = this.#page.host.hasModel ? this.#previous : null;
    this.#showStrip();
    showName(this.#current?.name ?? '');
  }

  /** @type {import('./engine-host.js').OnProgress} */
  #onProgress = (progress) => {
    if (this.#current?.kind === 'bundled') showProgress(progress.loaded, progress.total, format.progress(progress));
    else if (!this.#download?.choice) showArrived(progress);
  };

  async #pause() {
    if (this.#download?.choice) return this.#download.togglePause();
    this.#paused = !this.#paused;
    this.#showStrip();
    say(this.#paused ? 'Paused.' : this.waitReason || 'Resumed.');
    await this.#page.host.pause(this.#paused);
  }

  /**
   * Cancels a download or a load; downloaded bytes stay stored. After a load, the previous or the built-in model is
   * used again.
   */
  async #cancel() {
    const { host, stopReply } = this.#page;
    if (this.#preparing) {
      this.#planning.abort();
      return say(`Cancelled. ${this.#describeCurrent()}`);
    }
    if (this.#download?.choice) {
      await this.#download.cancel();
      say('Cancelled. You can resume later.');
      return this.#refresh();
    }
    this.#loading.abort();
    if (this.arriving) {
      await stopReply();
      await host.drop();
    }
    this.arriving = false;
    this.#restorePrevious();
    say('Cancelled. You can resume later.');
    if (!host.hasModel) await this.openBundled();
    await this.#finishLoading();
  }

  /** Shows what works offline, which depends on what is stored. */
  async #showOffline() {
    const { host, panel } = this.#page;
    panel.set('offline', await keepForOffline(host.store, () => keepBundled(host.store)));
  }
}
