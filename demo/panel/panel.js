/** The numbers beside the conversation. Each comes from the engine or was measured here; none is made up. */
import * as format from '../page/format.js';
import { Parts } from './stage-times.js';

/** @typedef {import('../../js/shared/types.js').EngineInfo} EngineInfo */
/** @typedef {import('../../js/shared/types.js').MemoryInfo} MemoryInfo */
/** @typedef {import('../../js/shared/types.js').ModelInfo} ModelInfo */
/** @typedef {import('../../js/shared/types.js').ChatStats} ChatStats */
/** @typedef {import('../../js/shared/types.js').Result} Result */

const BUILDS = { relaxed: 'relaxed SIMD', relaxed16: 'relaxed SIMD', simd128: 'SIMD128' };

export class Panel {
  #root;
  #meter;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
    this.#meter = /** @type {HTMLMeterElement} */ (root.querySelector('meter'));
    this.parts = new Parts(/** @type {HTMLDetailsElement} */ (root.querySelector('#parts')));
  }

  /** @param {string} name @param {string} text */
  set(name, text) {
    const place = this.#root.querySelector(`[data-stat="${name}"]`);
    if (place) place.textContent = text;
  }

  /** @param {EngineInfo} info */
  engine({ build, reason, threads, threadsReason, learned: { prefill, decode } }) {
    this.set('build', BUILDS[build]);
    this.set('reason', reason);
    this.set('threads', format.count(threads));
    const found = prefill && decode && `${prefill.threads} for prompts, ${decode.threads} for replies`;
    this.set('threads-reason', found || threadsReason);
  }

  /** @param {ModelInfo} info @param {string} name @param {'bundled' | 'link' | 'file'} kind */
  model(info, name, kind) {
    this.set('name', name);
    this.set('size', format.bytes(info.fileBytes));
    this.set('shape', format.shape(info));
    this.set('license', info.license || 'not stated');
    const known = info.authenticated ? 'by its SHA-256' : 'not known: nothing says which file it should be';
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

  /** While a reply is written. @param {number} tokens @param {number | null} perSecond */
  writing(tokens, perSecond) {
    this.set('tokens', format.count(tokens));
    this.set('speed', format.rounded(perSecond));
  }

  /** @param {number} tokens  that were shown: after a stop the engine may have been some ahead @param {Result} result */
  reply(tokens, result) {
    this.writing(tokens, format.rate(result));
    this.set('ttft', tokens ? format.duration(result.timings.firstTokenMs) : '');
    this.set('reused', `${format.count(result.usage.cachedTokens)} of ${format.count(result.usage.promptTokens)}`);
  }

  noReply() {
    for (const name of ['tokens', 'speed', 'ttft', 'reused']) this.set(name, '');
  }
}
