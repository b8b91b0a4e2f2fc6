/** The model in use: chosen, planned, agreed to, loaded; another that is downloaded meanwhile. The conversation is not here. */
import { clearAlert, showError, showNotice } from '../page/alerts.js';
import { onArriving, showArrived, showArriving } from './download-strip.js';
import { BUNDLED, keepBundled, TINY } from './bundled.js';
import { crashed, marked } from './crash-guard.js';
import { onDrop } from './drop.js';
import * as format from '../page/format.js';
import { keepForOffline } from '../offline.js';
import { showOffers } from './offer-cards.js';
import { $, message, say, showProgress } from '../page/page.js';
import {
  factsOf,
  fromFile,
  hasDeletions,
  lastDownload,
  lastModel,
  rememberDownload,
  rememberFacts,
  rememberHandle,
  rememberModel,
} from '../storage/model-history.js';
import { showModel, showName, showNone } from './model-header.js';

/** @typedef {import('../../js/shared/types.js').ModelInfo} ModelInfo */
/** @typedef {import('../../js/shared/types.js').Plan} Plan */
/** @typedef {import('../storage/model-history.js').Wanted} Wanted */
/**
 * What the page does for its models.
 * @typedef {object} Page
 * @property {import('./engine-host.js').Host} host
 * @property {import('../panel/panel.js').Panel} panel
 * @property {(phase?: 'loading' | 'ready') => void} enter  none: as it is
 * @property {() => boolean} loading
 * @property {() => boolean} idle  nothing has been written or typed, so that another model may take over by itself
 * @property {() => Promise<void>} stopReply
 * @property {() => Promise<void>} showState
 * @property {(wanted: Wanted) => void} onModel  another model is in use
 * @property {(files: File[]) => void} onTexts  text files were dropped
 */
/** How to load. @typedef {{ context?: number, level?: number, agreed?: boolean, quiet?: boolean }} How  `context`: tokens, 0: the model's own; `level`: how often to halve it; `agreed`: before now; `quiet`: nobody asked for it just now, so a failure is no error */
/**
 * A download while another model is in use.
 * @typedef {object} Download
 * @property {Wanted} wanted
 * @property {AbortController} controller
 * @property {boolean} paused
 * @property {import('./engine-host.js').Prepared | null} prepared
 */

/** A reply of fewer tokens says little of a model's speed. */
const ENOUGH = 16;
/** Bytes to download, or to read from a file, from which on the person is asked first. */
const ASK_ABOVE = 20e6;

/** @type {Wanted} */
const bundled = { kind: 'bundled', name: `${TINY} (built in)`, source: BUNDLED, key: 'bundled' };

/** An error of a load in words for people, if they can be had. @param {unknown} error @param {Wanted} wanted */
const helped = (error, wanted) =>
  import('./load-errors.js').then(
    ({ helped }) => helped(error, wanted),
    () => error,
  );

/** @param {Plan} plan @param {Wanted} wanted */
const needsConsent = ({ fits, fileBytes, cached }, { kind }) =>
  fits === 'no' || fileBytes - (kind === 'file' ? 0 : cached.bytes) > ASK_ABOVE;

export class Models {
  #page;
  /** Ends the loading: what is chosen last wins. */
  #opening = new AbortController();
  /** Ends the planning of a model. */
  #looking = new AbortController();
  /** The engine has started. */
  #started = false;
  #paused = false;
  /** The model in use, or the one that is being loaded. @type {Wanted | null} */
  #current = null;
  /** The one that is in use while another is being loaded. @type {Wanted | null} */
  #before = null;
  /** It is in use already while its weights are being read. */
  arriving = false;
  /** The folder that is being converted; '': none. */
  #making = '';
  /** @type {Download | null} */
  #download = null;
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
      onFile: (file, handle) => void this.want(fromFile(file, handle)),
      onSeveral: (files, handle) => void this.given(files, {}, handle),
    });
  }

  /** What can be chosen; its code comes when it is first needed. */
  picker() {
    return (this.#picker ??= import('./picker.js').then(({ Picker }) => {
      const { host } = this.#page;
      return new Picker({
        bundled,
        current: () => (host.hasModel && this.#current?.key) || '',
        file: () => (this.#current?.kind === 'file' && host.hasModel ? this.#current : null),
        shelf: () => host.store,
        onUse: (wanted, how) => void this.want(wanted, how),
        onOffer: (offer) => void this.wantOffer(offer),
        onFiles: (files, how) => void this.given(files, how),
        onFolder: (folder, how) => void this.given(folder, how, folder),
        onError: (error) => showError(error),
        onChange: () => void this.#tellOffline(),
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

  /** Something is on its way, whether there is a model or not. */
  get underWay() {
    return this.arriving || this.#making !== '';
  }

  /** The built-in model is in use, and no other on its way. */
  get tiny() {
    return this.#page.host.hasModel && this.#current?.kind === 'bundled' && !this.#download;
  }

  /** The name of the model in use, as short as can be. */
  get name() {
    return this.#current?.kind === 'bundled' ? TINY : (this.#current?.name ?? 'this model');
  }

  /** The first model of a visit, and a download that was not complete at the last: once the engine has started. */
  async begin() {
    this.#started = true;
    const { panel, enter, host } = this.#page;
    panel.set('offline', 'Saving the page and the model…');
    if (hasDeletions()) await (await import('./deletion.js')).completeRecorded(host.store);
    const [attempt, last] = [await crashed(), lastModel()];
    if (attempt || (last && last.kind !== 'bundled')) {
      const { comeBack } = await import('./startup-model.js');
      await comeBack(this, this.#page, attempt);
    } else await this.openBundled({ context: last?.context });
    if (!this.#current) enter('ready'); // none could be loaded
    if (host.hasModel && lastDownload())
      await import('./startup-model.js').then(({ goOnDownloading }) => goOnDownloading(this, this.#page));
    await this.#refresh();
  }

  /** Shows what is stored now. */
  async #refresh() {
    void this.#tellOffline();
    if (this.#picker) await (await this.#picker).show();
    await this.#offer();
  }

  /** Better models, under the headline while Tiny is in use. */
  async #offer() {
    const { host } = this.#page;
    const small = this.tiny;
    document.documentElement.removeAttribute('data-tiny');
    $('offers').hidden = !small;
    if (small)
      await showOffers(host, {
        onUse: (wanted) => void this.want(wanted),
        onOffer: (offer) => void this.wantOffer(offer),
      });
  }

  /** Why a reply can't begin yet, for people; '': it can. */
  get waits() {
    if (!this.arriving) return '';
    return this.#paused ? 'Download paused.' : 'Replying as soon as enough of the model is loaded…';
  }

  /** A reply has ended: how fast this model is here is remembered for the next plan. @param {import('../../js/shared/types.js').Result} result */
  replied(result) {
    const rate = format.rate(result);
    if (rate && result.usage.completionTokens >= ENOUGH && this.#current && !this.arriving)
      rememberFacts(this.#current.key, { rate, at: Date.now() });
  }

  /** Shows what the page's state means for models. @param {boolean} ready  nothing is being loaded or written */
  shown(ready) {
    const none = ready && this.#started && !this.#page.host.hasModel;
    $('no-model').hidden = !none;
    if (none) showNone();
  }

  /** @param {How} [how] */
  openBundled(how) {
    return this.want(bundled, how);
  }

  /** The same model with another context. @param {number} context */
  async reload(context) {
    if (this.#current) await this.want(this.#current, { context, agreed: true });
  }

  /** @param {import('./catalogue.js').Offer} offer */
  async wantOffer(offer) {
    clearAlert();
    say(`Looking for ${offer.name}…`);
    try {
      const { linkOf } = await import('./hub.js');
      await this.want(await linkOf(offer), { agreed: true });
    } catch (error) {
      showError(error, { text: 'Try again', run: () => void this.wantOffer(offer) });
    }
  }

  /** Several files, or folders. @param {import('./files.js').Several} files @param {How} [how] @param {FileSystemHandle} [handle]  of the one folder that these are in */
  async given(files, how, handle) {
    try {
      const { filesOf, modelOf } = await import('./files.js');
      await this.want({ ...modelOf(await filesOf(files)), ...(handle && { handle }) }, how);
    } catch (error) {
      showError(error);
    }
  }

  /** The file that a folder becomes; else the model as it is. @param {Wanted} wanted @param {AbortSignal} signal @returns {Promise<Wanted>} */
  async #made(wanted, signal) {
    if (wanted.folder === undefined || wanted.source instanceof Blob) return wanted;
    const { host, enter } = this.#page;
    const { name } = wanted;
    this.#making = name;
    say(`Converting ${name}…`);
    enter();
    this.#showStrip();
    try {
      const { converted } = await host.plan(wanted.source, {}, signal, (progress) => {
        if (this.#making === name) showArrived(progress);
      });
      return { ...wanted, source: converted ?? wanted.source };
    } finally {
      // Another folder may be converted by now.
      if (this.#making === name) {
        this.#making = '';
        this.#showStrip();
        enter();
      }
    }
  }

  /** What the card above the message field shows. */
  #showStrip() {
    if (this.#making) return showArriving(`Converting ${this.#making}`, false, true);
    if (this.#download) {
      const { wanted, paused } = this.#download;
      return showArriving(`${paused ? 'Paused' : 'Downloading'}: ${wanted.name}`, paused);
    }
    const reading = (this.#page.loading() || this.arriving) && this.#current && this.#current.kind !== 'bundled';
    showArriving(reading ? `Loading ${this.#current?.name}` : '', this.#paused);
  }

  /** What the person hears where no other model was loaded. */
  #stays() {
    return this.#page.host.hasModel ? `Still using ${this.name}.` : 'No model is loaded.';
  }

  /**
   * Shows what a model takes and loads it, when it is small, stored already or agreed to.
   * @param {Wanted} asked @param {How} [how]
   */
  async want(asked, { context = 0, level = 0, agreed: before = false, quiet = false } = {}) {
    const { host } = this.#page;
    let wanted = asked;
    this.#looking.abort();
    const { signal } = (this.#looking = new AbortController());
    clearAlert();
    if (wanted.kind === 'bundled') return this.#fetch(wanted, { context, level }, null);
    if (!this.#page.loading()) say(`Checking ${wanted.name}…`);
    try {
      wanted = await this.#made(asked, signal);
      const least = level ? await host.smaller(wanted.source, level, signal) : context;
      const plan = await host.plan(wanted.source, least ? { contextTokens: least } : {}, signal);
      if (signal.aborted) return;
      if ((level > 0 || needsConsent(plan, wanted)) && !(before && plan.fits !== 'no')) {
        const { agreed } = await import('./plan-dialog.js');
        if (!(await agreed(plan, wanted, signal))) return signal.aborted || say(`Cancelled. ${this.#stays()}`);
      }
      const beside = wanted.kind === 'link' && !plan.cached.complete && host.hasModel && !this.arriving;
      if (beside) await this.#fetchBeside(wanted, { context: least, level }, plan);
      else await this.#fetch(wanted, { context: least, level }, plan);
    } catch (error) {
      if (signal.aborted) return;
      say(`${wanted.name} was not loaded. ${this.#stays()}`);
      if (quiet) return (await import('./startup-model.js')).offerDownload(this, this.#page, wanted, { context });
      const again = { text: 'Try again', run: () => void this.want(wanted, { context, level, agreed: before }) };
      showError(await helped(error, wanted), ...(wanted.kind === 'file' ? [] : [again]));
    }
  }

  /** Downloads a model while the one in use answers. @param {Wanted} wanted @param {How} how @param {Plan} plan */
  async #fetchBeside(wanted, { context = 0, level = 0 }, plan) {
    const { host, idle, showState } = this.#page;
    await this.#dropDownload();
    const controller = new AbortController();
    const { signal } = controller;
    const download = (this.#download = /** @type {Download} */ ({ wanted, controller, paused: false, prepared: null }));
    rememberDownload({ name: wanted.name, url: wanted.key, context });
    if (plan.tokensPerSecond) rememberFacts(wanted.key, { estimate: plan.tokensPerSecond, at: Date.now() });
    this.#showStrip();
    $('offers').hidden = $('better').hidden = true;
    say(`Downloading ${wanted.name}. You can already send a message.`);
    const sizes = { ...(context && { contextTokens: context }), streaming: true };
    const how = { format: factsOf(wanted.key).format, name: `${wanted.name} ${wanted.key}` };
    const progress = (/** @type {import('../../js/shared/types.js').Progress} */ of) => {
      if (this.#download === download) showArrived(of);
    };
    try {
      // Memory is taken as weights come: the mark stays until they are there.
      await marked({ name: wanted.name, url: wanted.key, kind: 'link', level }, async () => {
        download.prepared = await host.prepare(wanted.source, sizes, progress, signal, how);
        if (download.paused) await download.prepared.model.pauseDownload();
        await download.prepared.model.loaded;
      });
      if (signal.aborted) return;
      this.#download = null;
      rememberDownload(null);
      this.#showStrip();
      say('Download complete.');
      const ready = /** @type {import('./engine-host.js').Prepared} */ (download.prepared);
      if (idle()) await this.#switch(wanted, ready, context);
      else
        showNotice(
          `${wanted.name} is ready.`,
          [{ text: 'Switch', run: () => void this.#switch(wanted, ready, context) }],
          true,
          () => void ready.model.close(),
        );
    } catch (error) {
      if (signal.aborted) return;
      await download.prepared?.model.close().catch(() => {});
      this.#download = null;
      this.#showStrip();
      const wrong = /** @type {any} */ (error)?.code === 'INTEGRITY';
      if (wrong) rememberDownload(null);
      say(wrong ? `${wanted.name} was not loaded.` : 'The download stopped. What was downloaded is kept.');
      const again = () => void this.want(wanted, { context, level, agreed: true });
      showError(await helped(error, wanted), { text: wrong ? 'Try again' : 'Resume', run: again });
    }
    await this.#refresh();
    if (host.hasModel) await showState();
  }

  /** A model that was downloaded takes over. @param {Wanted} wanted @param {import('./engine-host.js').Prepared} ready @param {number} context */
  async #switch(wanted, ready, context) {
    const { host, enter, stopReply, showState } = this.#page;
    this.#opening.abort();
    this.#opening = new AbortController();
    await stopReply();
    const info = await host.use(ready);
    [this.arriving, this.#current] = [false, wanted];
    rememberModel(wanted, context);
    this.#inUse(info, wanted);
    enter('ready');
    this.#showStrip();
    say(`Now using ${wanted.name}.`);
    message.focus();
    await this.#refresh();
    await showState();
  }

  /** Shows the model in use. @param {ModelInfo} info @param {Wanted} wanted */
  #inUse(info, wanted) {
    showModel(info, wanted, this.#page, this.#opening.signal);
    message.placeholder = `Message ${this.name}…`;
    this.#page.onModel(wanted);
  }

  /** Ends the download; the bytes that have arrived stay stored. */
  async #dropDownload() {
    const { controller, prepared } = this.#download ?? {};
    this.#download = null;
    controller?.abort();
    await prepared?.model.close().catch(() => {});
  }

  /** Loads a model, which can be talked to while its weights come. @param {Wanted} wanted @param {How} how @param {Plan | null} plan @returns {Promise<void>} */
  async #fetch(wanted, how, plan) {
    const { host, stopReply } = this.#page;
    const retry = { text: 'Try again', run: () => void this.want(wanted, { ...how, agreed: true }) };
    if (!(await this.#open(wanted, how, retry))) return;
    const { signal } = this.#opening;
    if (plan?.tokensPerSecond) rememberFacts(wanted.key, { estimate: plan.tokensPerSecond, at: Date.now() });
    try {
      await host.arrived;
      if (signal.aborted) return;
      if (this.arriving) say('Ready.');
    } catch (error) {
      if (signal.aborted) return;
      await stopReply();
      await host.drop();
      say(`${wanted.name} was not loaded.`);
      showError(await helped(error, wanted), retry);
      if (wanted.kind !== 'bundled') return this.#fetch(bundled, {}, null);
    }
    await this.#settle();
  }

  /** Nothing is being loaded any more. */
  async #settle() {
    const { host, enter, loading, showState } = this.#page;
    this.arriving = false;
    enter(loading() ? 'ready' : undefined);
    this.#showStrip();
    // WebKitGTK may never say that the service worker is there, where a reload came amid its installation.
    await this.#refresh();
    if (host.hasModel) await showState();
  }

  /**
   * Loads a model in place of the one in use, which goes on when that fails.
   * @param {Wanted} wanted @param {How} how @param {{ text: string, run: () => void }} retry
   * @returns {Promise<boolean>}  whether it can be used now
   */
  async #open(wanted, { context = 0, level = 0 }, retry) {
    const { host, enter, stopReply, showState } = this.#page;
    this.#opening.abort();
    const { signal } = (this.#opening = new AbortController());
    const streaming = wanted.kind !== 'bundled';
    await stopReply();
    // A model whose weights are not all there can't be used once their reading ends.
    if (this.arriving) await host.drop();
    if (!host.hasModel) this.#before = null;
    else if (!this.#page.loading()) this.#before = this.#current;
    [this.arriving, this.#paused, this.#current] = [false, false, wanted];
    if (wanted.handle) rememberHandle(wanted.handle);
    enter('loading');
    showName(wanted.name);
    this.#showStrip();
    say(`Loading ${wanted.kind === 'bundled' ? 'the built-in model' : wanted.name}…`);
    try {
      const tokens = context || (level && (await host.smaller(wanted.source, level, signal)));
      const sizes = { ...(tokens && { contextTokens: tokens }), streaming };
      const info = await /** @type {Promise<ModelInfo>} */ (
        new Promise((resolve, reject) => {
          // Memory is taken as weights come: the mark stays until they are there.
          marked(
            { name: wanted.name, url: wanted.kind === 'link' ? wanted.key : null, kind: wanted.kind, level },
            async () => {
              resolve(
                await host.load(
                  wanted.source,
                  sizes,
                  this.#onProgress,
                  signal,
                  factsOf(wanted.key).format,
                  `${wanted.name} ${wanted.key}`,
                ),
              );
              await host.arrived;
            },
          ).catch(reject);
        })
      );
      this.arriving = streaming;
      rememberModel(wanted, tokens);
      this.#inUse(info, wanted);
      say(streaming ? `Loading ${wanted.name}. You can already send a message.` : 'Ready.');
      enter('ready');
      this.#showStrip();
      await showState();
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      this.#back();
      enter('ready');
      say(`${wanted.name} was not loaded. ${this.#stays()}`);
      showError(await helped(error, wanted), ...(wanted.kind === 'file' ? [] : [retry]));
      return false;
    }
  }

  /** What was being loaded was not: the model before it, if it is still there, is in use. */
  #back() {
    this.#current = this.#page.host.hasModel ? this.#before : null;
    this.#showStrip();
    showName(this.#current?.name ?? '');
  }

  /** @type {import('./engine-host.js').OnProgress} */
  #onProgress = (progress) => {
    if (this.#current?.kind === 'bundled') showProgress(progress.loaded, progress.total, format.progress(progress));
    else if (!this.#download) showArrived(progress);
  };

  async #pause() {
    const download = this.#download;
    if (download) {
      download.paused = !download.paused;
      this.#showStrip();
      say(download.paused ? 'Download paused.' : 'Download resumed.');
      return download.paused ? download.prepared?.model.pauseDownload() : download.prepared?.model.resumeDownload();
    }
    this.#paused = !this.#paused;
    this.#showStrip();
    say(this.#paused ? 'Paused.' : this.waits || 'Resumed.');
    await this.#page.host.pause(this.#paused);
  }

  /** Ends a download or a load; what was downloaded stays stored. Of a load the model before is in use again, or else the built-in one. */
  async #cancel() {
    const { host, stopReply } = this.#page;
    if (this.#making) {
      this.#looking.abort();
      return say(`Cancelled. ${this.#stays()}`);
    }
    if (this.#download) {
      await this.#dropDownload();
      rememberDownload(null);
      this.#showStrip();
      say('Cancelled. You can resume later.');
      return this.#refresh();
    }
    this.#opening.abort();
    if (this.arriving) {
      await stopReply();
      await host.drop();
    }
    this.arriving = false;
    this.#back();
    say('Cancelled. You can resume later.');
    if (!host.hasModel) await this.openBundled();
    await this.#settle();
  }

  /** What works without a network now: it changes with what is stored. */
  async #tellOffline() {
    const { host, panel } = this.#page;
    panel.set('offline', await keepForOffline(host.store, () => keepBundled(host.store)));
  }
}
