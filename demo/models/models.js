/** The model in use: chosen, planned, agreed to, loaded, on its way. What is said to it is not here. */
import { clearAlert, helped, showError } from '../page/alerts.js';
import { onArriving, showArriving } from './download-strip.js';
import { BUNDLED, keepBundled } from './bundled.js';
import { comeBack } from './startup-model.js';
import { marked } from './crash-guard.js';
import { onDrop } from './drop.js';
import * as format from '../page/format.js';
import { keepForOffline } from '../offline.js';
import { $, say, showProgress } from '../page/page.js';
import { Picker } from './picker.js';
import { agreed, needsConsent } from './plan-dialog.js';
import { factsOf, fromFile, rememberFacts, rememberHandle, rememberModel } from '../storage/model-history.js';
import { showModel, showName, showNone, titleOf } from './model-header.js';

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
 * @property {() => Promise<void>} stopReply
 * @property {() => Promise<void>} showState
 */
/** How to load. @typedef {{ context?: number, level?: number, agreed?: boolean }} How  `context`: tokens, 0: the model's own; `level`: how often to halve it; `agreed`: before now */

/** A reply of fewer tokens says little of a model's speed. */
const ENOUGH = 16;

/** @type {Wanted} */
const bundled = { kind: 'bundled', name: 'Bundled model', source: BUNDLED, key: 'bundled' };

export class Models {
  #page;
  /** Ends the loading under way: what is chosen last wins. */
  #opening = new AbortController();
  /** Ends a look at what something takes. */
  #looking = new AbortController();
  /** Nothing can be loaded before. */
  #started = false;
  #paused = false;
  /** The model in use, or the one that is being loaded. @type {Wanted | null} */
  #current = null;
  /** The one that is in use while another is being loaded. @type {Wanted | null} */
  #before = null;
  /** Its weights are on their way while it is in use already. */
  arriving = false;
  /** What is being made of a folder; '': nothing. */
  #making = '';

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    /** What can be chosen. */
    this.picker = new Picker({
      bundled,
      current: () => (page.host.hasModel && this.#current?.key) || '',
      shelf: () => page.host.store,
      onUse: (wanted, how) => void this.want(wanted, how),
      onFiles: (files, how) => void this.given(files, how),
      onFolder: (folder, how) => void this.given(folder, how, folder),
      onError: (error) => showError(error),
      onChange: () => void this.#tellOffline(),
    });
    onArriving({ pause: () => void this.#pause(), cancel: () => void this.#cancel() });
    $('none-bundled').addEventListener('click', () => void this.openBundled());
    $('none-choose').addEventListener('click', () => this.picker.open());
    onDrop(
      $('drop'),
      (file, handle) => void this.want(fromFile(file, handle)),
      (files, handle) => void this.given(files, {}, handle),
    );
  }

  /** Something is on its way, whether there is a model or not. */
  get underWay() {
    return this.arriving || this.#making !== '';
  }

  /** The first model of a visit, and what is there besides: once the engine has started. */
  async begin() {
    this.#started = true;
    this.#page.panel.set('offline', 'Storing the page and the model…');
    await comeBack(this, this.#page);
    if (!this.#current) this.#page.enter('ready'); // nothing of it could be begun
    await this.picker.show();
    await this.#tellOffline();
    await this.picker.show();
  }

  /** Why a reply can't begin yet, for people; '': it can. */
  get waits() {
    if (!this.arriving) return '';
    return this.#paused
      ? 'The reply waits: the download is paused. Resume it, or stop the reply.'
      : 'The reply waits until enough of the model is here…';
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

  /** Several files, or folders. @param {import('./files.js').Several} files @param {How} [how] @param {FileSystemHandle} [handle]  of the one folder that these are in */
  async given(files, how, handle) {
    try {
      const { filesOf, modelOf } = await import('./files.js');
      await this.want({ ...modelOf(await filesOf(files)), ...(handle && { handle }) }, how);
    } catch (error) {
      showError(error);
    }
  }

  /** The file that a folder becomes; else what it is. @param {Wanted} wanted @param {AbortSignal} signal @returns {Promise<Wanted>} */
  async #made(wanted, signal) {
    if (wanted.folder === undefined || wanted.source instanceof Blob) return wanted;
    const { host, enter } = this.#page;
    const { name } = wanted;
    this.#making = name;
    say(`Converting ${name}…`);
    enter();
    showArriving(name, false, true);
    try {
      const { converted } = await host.plan(wanted.source, {}, signal, (progress) => {
        if (this.#making === name) this.#onProgress(progress);
      });
      return { ...wanted, source: converted ?? wanted.source };
    } finally {
      // Another one may be on its way by now.
      if (this.#making === name) {
        this.#making = '';
        showArriving(this.arriving ? (this.#current?.name ?? '') : '', this.#paused);
        enter();
      }
    }
  }

  /**
   * Shows what a model takes and loads it, when it is small, there already or agreed to.
   * @param {Wanted} asked @param {How} [how]
   */
  async want(asked, { context = 0, level = 0, agreed: before = false } = {}) {
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
        say('This is what it takes. Nothing large has been loaded yet.');
        if (!(await agreed(plan, wanted, signal)))
          return (
            signal.aborted ||
            say(host.hasModel ? 'Nothing was loaded; the model before is still in use.' : 'No model is loaded.')
          );
      }
      await this.#fetch(wanted, { context: least, level }, plan);
    } catch (error) {
      if (signal.aborted) return;
      say(host.hasModel ? 'Nothing was loaded; the model before is still in use.' : 'No model is loaded.');
      showError(helped(error, wanted.kind, wanted.source), {
        text: 'Try again',
        run: () => void this.want(wanted, { context, level, agreed: before }),
      });
    }
  }

  /** Loads a model, which can be talked to while its weights come. @param {Wanted} wanted @param {How} how @param {Plan | null} plan */
  async #fetch(wanted, how, plan) {
    const { host, stopReply } = this.#page;
    const retry = { text: 'Try again', run: () => void this.want(wanted, { ...how, agreed: true }) };
    const verb = plan && wanted.kind === 'link' && !plan.cached.complete ? 'Downloading' : 'Loading';
    if (!(await this.#open(wanted, how, verb, retry))) return;
    const { signal } = this.#opening;
    if (plan?.tokensPerSecond) rememberFacts(wanted.key, { estimate: plan.tokensPerSecond, at: Date.now() });
    try {
      await host.arrived;
      if (signal.aborted) return;
      if (this.arriving) say(verb === 'Downloading' ? 'Ready: all of the model is here.' : 'Ready.');
    } catch (error) {
      if (signal.aborted) return;
      await stopReply();
      await host.drop();
      const stays = wanted.kind === 'link' && /** @type {any} */ (error)?.code !== 'INTEGRITY';
      say(stays ? 'The model did not arrive. What came of it is stored.' : 'The model could not be loaded.');
      showError(helped(error, wanted.kind, wanted.source), retry);
    }
    await this.#settle();
  }

  /** Nothing is on its way any more. */
  async #settle() {
    const { host, enter, loading, showState } = this.#page;
    this.arriving = false;
    showArriving('');
    enter(loading() ? 'ready' : undefined);
    // WebKitGTK may never say that the service worker is there, where a reload came amid its installation.
    void this.#tellOffline();
    await this.picker.show();
    if (host.hasModel) await showState();
  }

  /**
   * Loads a model in place of the one in use, which goes on when that fails.
   * @param {Wanted} wanted @param {How} how @param {string} verb @param {{ text: string, run: () => void }} retry
   * @returns {Promise<boolean>}  whether it can be used now
   */
  async #open(wanted, { context = 0, level = 0 }, verb, retry) {
    const { host, enter, stopReply, showState } = this.#page;
    this.#opening.abort();
    const { signal } = (this.#opening = new AbortController());
    const streaming = wanted.kind !== 'bundled';
    await stopReply();
    // A model whose weights come no more is none.
    if (this.arriving) await host.drop();
    if (!host.hasModel) this.#before = null;
    else if (!this.#page.loading()) this.#before = this.#current;
    [this.arriving, this.#paused, this.#current] = [false, false, wanted];
    if (wanted.handle) rememberHandle(wanted.handle);
    enter('loading');
    showName(wanted.name);
    showArriving(streaming ? wanted.name : '');
    say(`${verb} ${wanted.name}…`);
    try {
      const tokens = context || (level && (await host.smaller(wanted.source, level, signal)));
      const sizes = { ...(tokens && { contextTokens: tokens }), streaming };
      const info = await /** @type {Promise<ModelInfo>} */ (
        new Promise((resolve, reject) => {
          // Memory is taken as weights come: the mark stays until they are there.
          marked(
            { name: wanted.name, url: wanted.kind === 'link' ? wanted.key : null, kind: wanted.kind, level },
            async () => {
              resolve(await host.load(wanted.source, sizes, this.#onProgress, signal, factsOf(wanted.key).format));
              await host.arrived;
            },
          ).catch(reject);
        })
      );
      this.arriving = streaming;
      rememberModel(wanted, tokens);
      showModel(info, wanted, this.#page, signal);
      say(
        streaming
          ? `${verb} ${wanted.name}: you can write already, the reply begins when enough of it is here.`
          : 'Ready.',
      );
      enter('ready');
      await showState();
      return true;
    } catch (error) {
      if (signal.aborted) return false;
      this.#back();
      enter('ready');
      say(
        host.hasModel ? `${wanted.name} was not loaded; the model before it is still in use.` : 'No model is loaded.',
      );
      showError(helped(error, wanted.kind, wanted.source), ...(wanted.kind === 'file' ? [] : [retry]));
      return false;
    }
  }

  /** What was being loaded came to nothing: the model before it, if it is still there, is in use. */
  #back() {
    const { host } = this.#page;
    this.#current = host.hasModel ? this.#before : null;
    showArriving('');
    showName(this.#current ? titleOf(this.#current, host.info?.name) : '');
  }

  /** @type {import('./engine-host.js').OnProgress} */
  #onProgress = (progress) => {
    showProgress(progress.loaded, progress.total, format.progress(progress));
  };

  async #pause() {
    this.#paused = !this.#paused;
    showArriving(this.#current?.name ?? '', this.#paused);
    say(this.#paused ? 'Paused: a reply waits until it is resumed.' : this.waits || 'Resumed.');
    await this.#page.host.pause(this.#paused);
  }

  /** Ends a download; what came stays stored. The model before is in use again, or else the bundled one. */
  async #cancel() {
    const { host, stopReply } = this.#page;
    if (this.#making) {
      this.#looking.abort();
      return say(host.hasModel ? 'Cancelled; the model before is still in use.' : 'Cancelled. No model is loaded.');
    }
    this.#opening.abort();
    if (this.arriving) {
      await stopReply();
      await host.drop();
    }
    this.arriving = false;
    this.#back();
    say('Cancelled. What came of it is stored.');
    if (!host.hasModel) await this.openBundled();
    await this.#settle();
  }

  /** What works without a network now: it changes with what is stored. */
  async #tellOffline() {
    const { host, panel } = this.#page;
    panel.set('offline', await keepForOffline(host.store, () => keepBundled(host.store)));
  }
}
