/** Where a token's time goes, by the engine's own trace. It runs only while a person looks: the clock costs a little. */
import * as format from './format.js';
import { element } from './view.js';

/** @typedef {import('../js/types.js').StageTrace} StageTrace */
/** @typedef {(options: { on: boolean }) => Promise<StageTrace[]>} Trace */

/** For people, in the order of a token's way. @type {[string, string[]][]} */
const PARTS = [
  ['Matrices of the layers', ['qkv', 'o', 'mlpIn', 'down']],
  ['Matrix of the words', ['head']],
  ['Attention', ['attend']],
  ['Norms, rotation, activation', ['embed', 'norm', 'kv', 'activate']],
  ['Choosing the word', ['sample']],
  ['JavaScript', ['host']],
];

/**
 * @param {StageTrace[]} stages
 * @returns {{ tokens: number, ms: number, parts: { name: string, ms: number, share: number, GBps: number }[] } | null}  of one token; null: none was traced
 */
export function partsOf(stages) {
  const tokens = stages.find(({ stage }) => stage === 'sample')?.calls ?? 0;
  const ms = stages.reduce((sum, stage) => sum + stage.ms, 0) / tokens;
  if (!tokens || !(ms > 0)) return null;
  const parts = PARTS.map(([name, of]) => {
    const mine = stages.filter(({ stage }) => of.includes(stage));
    const sum = (/** @type {(stage: StageTrace) => number} */ value) => mine.reduce((total, stage) => total + value(stage), 0);
    const time = sum((stage) => stage.ms);
    return { name, ms: time / tokens, share: time / tokens / ms, GBps: time > 0 ? sum(({ weightBytes, kvBytes }) => weightBytes + kvBytes) / time / 1e6 : 0 };
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

  /** The prompt is read: from here on each step is one token. @param {Trace} trace */
  async begin(trace) {
    if (!this.#root.open || !this.#root.checkVisibility()) return;
    this.#begun = true;
    await trace({ on: true });
  }

  /** @param {Trace} trace */
  async end(trace) {
    if (!this.#begun) return;
    this.#begun = false;
    const made = partsOf(await trace({ on: false }));
    if (made) this.#show(made);
  }

  /** @param {NonNullable<ReturnType<typeof partsOf>>} made */
  #show({ tokens, ms, parts }) {
    const rows = parts.map(({ name, ms, share, GBps }) => {
      const row = element('tr');
      const head = element('th', '', name);
      head.scope = 'row';
      row.append(head, ...[ms.toFixed(3), `${(100 * share).toFixed(1)} %`, GBps >= 0.05 ? GBps.toFixed(1) : ''].map((text) => element('td', '', text)));
      return row;
    });
    const bars = parts.map(({ share }) => {
      const bar = element('i');
      bar.style.flexGrow = String(share);
      return bar;
    });
    this.#root.querySelector('tbody')?.replaceChildren(...rows);
    this.#root.querySelector('.parts-bar')?.replaceChildren(...bars);
    for (const part of this.#root.querySelectorAll('table, .parts-bar')) /** @type {HTMLElement} */ (part).hidden = false;
    const note = this.#root.querySelector('.hint');
    if (note) note.textContent = `${ms.toFixed(3)} ms a token, the mean of ${format.counted(tokens, 'token')} of the last reply, on the thread that leads.`;
  }
}
