/** The details panel. Its numbers are reported by the engine or measured here. */
import * as format from '../page/format.js';

/** @typedef {import('../../js/shared/types.js').EngineInfo} EngineInfo */
/** @typedef {import('../../js/shared/types.js').MemoryInfo} MemoryInfo */
/** @typedef {import('../../js/shared/types.js').ModelInfo} ModelInfo */
/** @typedef {import('../../js/shared/types.js').ChatStats} ChatStats */
/** @typedef {import('../../js/shared/types.js').Result} Result */

/** @typedef {import('./stage-times.js').Parts} Parts */

const BUILDS = { relaxed: 'relaxed SIMD', relaxed16: 'relaxed SIMD', simd128: 'SIMD128' };

export class Panel {
  #root;
  #meter;
  /** @type {Parts | null} */
  #parts = null;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
    this.#meter = /** @type {HTMLMeterElement} */ (root.querySelector('meter'));
  }

  /** Returns the section with the time per token; null if it is not visible. @returns {Promise<Parts | null>} */
  async parts() {
    const root = /** @type {HTMLDetailsElement} */ (this.#root.querySelector('#parts'));
    if (!root.open || !root.checkVisibility()) return null;
    const { Parts } = await import('./stage-times.js');
    return (this.#parts ??= new Parts(root));
  }

  /** Updates the time per token at the end of a reply. @param {import('./stage-times.js').Traced} traced */
  async endParts(traced) {
    await this.#parts?.end(traced).catch(() => {}); // the error of a failed model is already shown
  }

  /** @param {string} name @param {string} text */
  set(name, text) {
    const place = this.#root.querySelector(`[data-stat="${name}"]`);
    if (place) place.textContent = text;
  }

  /** @param {EngineInfo} info */
  engine({ build, reason, threads, threadsReason, learned: { prefill, decode } }) {
    this.set('build', BUILDS[build]);
    this.set('reason', /fastest/.test(reason) ? 'fastest of the builds tried here' : reason);
    this.set('threads', format.count(threads));
    const found =
      prefill && decode && `${prefill.threads} for prompts, ${decode.threads} for replies (fastest measured)`;
    this.set(
      'threads-reason',
      found ||
        (/isolated/.test(threadsReason)
          ? "one thread: the site doesn't allow more"
          : threadsReason.replace(/(.+) by a measurement.+/, 'uses $1 (fastest)')),
    );
  }

  /** @param {ModelInfo} info @param {string} name @param {'bundled' | 'link' | 'file'} kind */
  model(info, name, kind) {
    this.set('name', name);
    this.set('size', format.bytes(info.fileBytes));
    this.set('shape', format.shape(info));
    this.set('license', info.license || 'not given in the file');
    const known = info.authenticated ? 'checksum matches' : 'no checksum published';
    this.set('authenticity', kind === 'link' ? known : '');
    const row = /** @type {HTMLElement | null} */ (
      this.#root.querySelector('[data-stat="authenticity"]')?.parentElement
    );
    if (row) row.hidden = kind !== 'link';
  }

  /** @param {MemoryInfo} memory @param {ChatStats} stats */
  state({ total, used }, { tokens, context }) {
    this.set('memory', `${format.bytes(total)}, ${format.bytes(used)} of it in use`);
    this.set('context', `${format.count(tokens)} of ${format.count(context)} tokens`);
    this.#meter.max = context;
    this.#meter.value = tokens;
  }

  /** Updates the figures while a reply is written. @param {number} tokens @param {number | null} perSecond */
  writing(tokens, perSecond) {
    this.set('tokens', format.count(tokens));
    this.set('speed', format.rounded(perSecond));
  }

  /**
   * Shows the figures of a reply.
   * @param {number} tokens  tokens shown; after Stop the engine may have computed more
   * @param {Result} result
   */
  reply(tokens, result) {
    const { timings, usage, seed } = result;
    this.writing(tokens, format.rate(result));
    this.set('ttft', tokens ? format.duration(timings.firstTokenMs) : '');
    this.set('reused', `${format.count(usage.cachedTokens)} of ${format.count(usage.promptTokens)}`);
    this.set('seed', String(seed));
  }

  noReply() {
    for (const name of ['tokens', 'speed', 'ttft', 'reused', 'seed']) this.set(name, '');
  }
}
