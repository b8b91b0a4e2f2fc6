/** The time per token by its parts, from the engine's own trace. It runs only while a person looks: the clock costs a little. Loaded on demand. */
import * as format from '../page/format.js';
import { element } from '../page/element.js';

/** @typedef {import('../../js/shared/types.js').StageTrace} StageTrace */
/** @typedef {(options: { on: boolean }) => Promise<StageTrace[]>} Trace */
/** What is looked at: a trace, and the limit as tokens per second. @typedef {{ trace: Trace, limit: () => Promise<number | null> }} Traced */

/** For people, in the order of a token's way; whether it is products of matrices. @type {[string, string[], boolean?][]} */
const PARTS = [
  ['Layer matrices', ['qkv', 'o', 'mlpIn', 'down'], true],
  ['Output layer', ['head'], true],
  ['Attention', ['attend']],
  ['Norms, rotation', ['embed', 'norm', 'kv', 'activate']],
  ['Sampling', ['sample']],
  ['JavaScript', ['host']],
];

/**
 * `ofLimit`: how fast a part goes through its weights, beside the kernels alone; 0: not known, or no weights.
 * @param {StageTrace[]} stages
 * @param {number | null} [limit]  tokens per second of the kernels alone
 * @returns {{ tokens: number, ms: number, parts: { name: string, ms: number, share: number, GBps: number, ofLimit: number }[] } | null}  of one token; null: none was traced
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

  /** Whether a person looks. */
  get #seen() {
    return this.#root.open && this.#root.checkVisibility();
  }

  /** Before a reply: what traces is there when the first word comes, as a short reply doesn't wait for it. @param {Traced} traced */
  async ready({ trace }) {
    if (this.#seen) await trace({ on: false });
  }

  /** The prompt is read: from here on each step is one token. @param {Traced} traced */
  async begin({ trace }) {
    if (!this.#seen) return;
    this.#begun = true;
    await trace({ on: true });
  }

  /** @param {Traced} traced */
  async end({ trace, limit }) {
    if (!this.#begun) return;
    this.#begun = false;
    const stages = await trace({ on: false });
    const output = partsOf(stages, await limit().catch(() => null)); // a file that is out of reach can't be planned with
    if (output) this.#show(output);
  }

  /** @param {NonNullable<ReturnType<typeof partsOf>>} made */
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
      note.textContent = `${ms.toFixed(3)} ms a token, the mean of ${format.counted(tokens, 'token')} of the last reply, on the main thread. The peak is what the kernels alone did in a moment at the start; anything faster counts as 100 %.`;
  }
}
