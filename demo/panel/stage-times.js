/**
 * The time per token by stage, from the engine's trace. It runs only while the section is visible, because measuring
 * costs some time. Loaded on demand.
 */
import * as format from '../page/format.js';
import { element } from '../page/element.js';

/** @typedef {import('../../js/shared/types.js').StageTrace} StageTrace */
/** @typedef {(options: { on: boolean }) => Promise<StageTrace[]>} Trace */
/**
 * Methods of the host: a trace, and the upper bound in tokens per second.
 * @typedef {{ trace: Trace, limit: () => Promise<number | null> }} Traced
 */

/**
 * Rows of the table in the order of computation: name, stages of the trace, whether they are matrix products.
 * @type {[string, string[], boolean?][]}
 */
const PARTS = [
  ['Layer matrices', ['qkv', 'o', 'mlpIn', 'down'], true],
  ['Output layer', ['head'], true],
  ['Attention', ['attend']],
  ['Norms, rotation', ['embed', 'norm', 'kv', 'activate']],
  ['Sampling', ['sample']],
  ['JavaScript', ['host']],
];

/**
 * Returns the times of one token; null if no token was traced. `ofLimit`: speed of a part relative to the kernels alone; 0 if unknown.
 * @param {StageTrace[]} stages
 * @param {number | null} [limit]  tokens per second if only the kernels took time
 * @returns {{ tokens: number, ms: number, parts: { name: string, ms: number, share: number, GBps: number, ofLimit: number }[] } | null}
 */
export function partsOf(stages, limit) {
  const tokens = stages.find(({ stage }) => stage === 'sample')?.calls ?? 0;
  const ms = stages.reduce((sum, stage) => sum + stage.ms, 0) / tokens;
  if (!tokens || !(ms > 0)) return null;
  const all = stages.reduce((sum, { weightBytes }) => sum + weightBytes, 0) / tokens;
  const parts = PARTS.map(([name, of, products]) => {
    const local = stages.filter(({ stage }) => of.includes(stage));
    const sum = (/** @type {(stage: StageTrace) => number} */ value) =>
      local.reduce((total, stage) => total + value(stage), 0);
    const time = sum((stage) => stage.ms);
    const weights = sum(({ weightBytes }) => weightBytes);
    const GBps = time > 0 ? (weights + sum(({ kvBytes }) => kvBytes)) / time / 1e6 : 0;
    const ofLimit = limit && products ? (1000 * weights) / time / (limit * all) : 0;
    return { name, ms: time / tokens, share: time / tokens / ms, GBps, ofLimit };
  });
  return { tokens, ms, parts };
}

export class Parts {
  #root;
  #begun = false;

  /** @param {HTMLDetailsElement} root */
  constructor(root) {
    this.#root = root;
  }

  /** Whether the section is visible. */
  get #isVisible() {
    return this.#root.open && this.#root.checkVisibility();
  }

  /** Prepares the trace before a reply, since a short reply would end before it is ready. @param {Traced} traced */
  async ready({ trace }) {
    if (this.#isVisible) await trace({ on: false });
  }

  /** Starts the trace when the prompt is read: from then on each step computes one token. @param {Traced} traced */
  async begin({ trace }) {
    if (!this.#isVisible) return;
    this.#begun = true;
    await trace({ on: true });
  }

  /** @param {Traced} traced */
  async end({ trace, limit }) {
    if (!this.#begun) return;
    this.#begun = false;
    const stages = await trace({ on: false });
    const output = partsOf(stages, await limit().catch(() => null)); // the file may be unreachable
    if (output) this.#show(output);
  }

  /** @param {NonNullable<ReturnType<typeof partsOf>>} times */
  #show({ tokens, ms, parts }) {
    const percent = (/** @type {number} */ share) => `${(100 * share).toFixed(1)} %`;
    const rows = parts.map(({ name, ms, share, GBps, ofLimit }) => {
      const row = element('tr');
      const head = element('th', '', name);
      head.scope = 'row';
      row.append(
        head,
        ...[
          ms.toFixed(3),
          percent(share),
          GBps >= 0.05 ? GBps.toFixed(1) : '',
          ofLimit > 0 ? percent(Math.min(1, ofLimit)) : '',
        ].map((text) => element('td', '', text)),
      );
      return row;
    });
    const bars = parts.map(({ share }) => {
      const bar = element('i');
      bar.style.flexGrow = String(share);
      return bar;
    });
    this.#root.querySelector('tbody')?.replaceChildren(...rows);
    this.#root.querySelector('.parts-bar')?.replaceChildren(...bars);
    for (const part of this.#root.querySelectorAll('table, .parts-bar'))
      /** @type {HTMLElement} */ (part).hidden = false;
    const note = this.#root.querySelector('.hint');
    if (note)
      note.textContent = `${ms.toFixed(3)} ms per token: the mean of ${format.counted(tokens, 'token')} of the last reply, on the main thread. The peak is the speed of the matrix code alone, measured at the start; faster parts count as 100 %.`;
  }
}
