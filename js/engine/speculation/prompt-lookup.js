/**
 * Prompt lookup: where the last tokens of a text stood in it before, those that came next then are guessed to come again; or a
 * smaller model guesses (draft.js). The session computes a guess along with the token that is due, in one batch, and goes through it as
 * far as the sampler picks the same (bq_session_draft). So tokens are those that come without it: what is counted and timed here decides
 * how they are computed, never which they are. Loaded when a generation may guess.
 */
import { Costs, Gains, MOST } from './tuner.js';

/** @import { GenerateOptions, TokenUsage } from '../../shared/types.js' */
/** @import { Draft } from './draft-model.js' */
/** @import { LocalModel } from '../model/model.js' */
/** @import { Ends, Timeline } from '../session/token-sequence.js' */

/** Tokens that must be the same for a guess. */
const LEAST = 2;
/** Where the text left what it repeated: one token that is the same is enough so many before that place, and so many behind it. */
const [BACK, AHEAD] = [4, 12];
/** Milliseconds of a step below which looking up costs more than it brings. */
const LEAST_MS = 1;
/** Equal tokens by which it is known to repeat something. */
const SURE = 3;

/** The longest end of a text that stood in it before, the last time it did. @param {number[]} ids @returns {{ length: number, next: number }} */
export function lookUp(ids) {
  const last = ids.length - 1;
  let [length, next] = [LEAST - 1, -1];
  // lastIndexOf is as fast in the first steps as later on.
  const before = (/** @type {number} */ i) => (i < LEAST - 1 ? -1 : ids.lastIndexOf(ids[last], i));
  for (let i = before(last - 1); i >= LEAST - 1 && length < MOST; i = before(i - 1)) {
    let n = 1;
    while (n < MOST && n <= i && ids[i - n] === ids[last - n]) n++;
    if (n > length) [length, next] = [n, i + 1];
  }
  return { length: next < 0 ? 0 : length, next };
}

/** The last token, where the text may go on with what it repeated until a word was another. @param {number[]} ids @param {number} at  what would have come next then */
export function lookNear(ids, at) {
  const last = ids.length - 1;
  for (let i = Math.max(at - BACK, 0); i < Math.min(at + AHEAD, last); i++)
    if (ids[i] === ids[last]) return { length: 1, next: i + 1 };
  return { length: 0, next: -1 };
}

/**
 * What may come next: behind how many equal tokens, which, and where the text that is repeated goes on.
 * @param {number[]} ids @param {number} near  where it went on when it was last known to be repeated; -1: it wasn't @param {number} most  tokens
 */
export function guess(ids, near, most) {
  let { length, next } = lookUp(ids);
  if (!length && near >= 0) ({ length, next } = lookNear(ids, near));
  /** @type {number[]} */
  const tokens = [];
  for (let at = next; length && tokens.length < most; at++)
    tokens.push(at < ids.length ? ids[at] : tokens[at - ids.length]);
  return { length, tokens, near: length === 1 || length >= SURE ? next : near };
}

/** @type {WeakMap<LocalModel, Costs>} */
const known = new WeakMap();
/** What was learned in sessions. @type {WeakMap<Timeline, Gains>} */
const learned = new WeakMap();

/**
 * What was guessed last: what may stand on the timeline from `from` on, behind `length` tokens of the same; `taken` were computed,
 * beside `due` that had to be.
 * @typedef {{ tokens: number[], length: number, from: number, taken: number, due: number }} Guess
 */

export class Guesses {
  #timeline;
  #model;
  #costs;
  /** null: the draft model knows by itself what is likely. */
  #gains;
  #draft;
  /** Tokens of each guess; 0: as many as pay. */
  #always;
  #before;
  /** @type {Guess} */
  #guess = { tokens: [], length: 0, from: 0, taken: 0, due: 0 };
  /** Behind what was repeated last; -1: nothing was. */
  #near = -1;

  /** @param {LocalModel} model @param {Timeline} timeline  whose prompt is computed @param {NonNullable<GenerateOptions['speculate']>} how @param {Draft | null} draft  that guesses; null: the text so far is looked up */
  constructor(model, timeline, how, draft) {
    const { drafts } = timeline;
    this.#timeline = timeline;
    this.#model = model;
    this.#draft = draft;
    this.#always = typeof how === 'object' ? (how.tokens ?? drafts) : how === true ? drafts : 0;
    this.#before = { drafted: timeline.drafted, accepted: timeline.accepted };
    this.#costs = known.get(model) ?? new Costs();
    known.set(model, this.#costs);
    this.#gains = draft ? null : (learned.get(timeline) ?? new Gains(this.#costs));
    if (this.#gains) learned.set(timeline, this.#gains);
    this.begin();
  }

  /** The timeline is another one, and is computed. */
  begin() {
    this.#guess = { tokens: [], length: 0, from: this.#timeline.ids.length, taken: 0, due: 0 };
    this.#near = -1;
  }

  /**
   * Computes the timeline's last tokens, and with them a guess of the next.
   * @param {Ends} ends @param {number} slices  at once; 0: all @param {number} left  tokens that may come
   */
  async run(ends, slices, left) {
    const timeline = this.#timeline;
    const came = this.#came();
    const due = timeline.ids.length - this.#guess.from - came;
    // What it would compute is there already.
    if (!due) return timeline.run(ends, slices);
    this.#learn(came);
    const made = this.#draft
      ? await this.#drafted(this.#draft, left - 1, due, ends, slices)
      : this.#next(left - 1, due);
    const most = made.tokens.length;
    // Sessions that share a pass have rows enough.
    const alone = this.#model.decoding.size < 2;
    const send = this.#always || !this.#gains ? most : alone ? this.#gains.worth(made.length, most, due) : 0;
    made.taken = send && timeline.draft(made.tokens.slice(0, send));
    timeline.drafted += made.taken;
    await timeline.run(ends, slices);
    const whole = ends.due === undefined || performance.now() < ends.due;
    if (whole && timeline.spent) this.#costs.took(due + made.taken, timeline.spent);
  }

  /** How many tokens of the last guess that were computed have come. */
  #came() {
    const { ids } = this.#timeline;
    const { tokens, from, taken } = this.#guess;
    let n = 0;
    while (n < taken && ids[from + n] === tokens[n]) n++;
    return n;
  }

  /** Counts what came of the last guess; of one that was not computed, whether its first token would have. @param {number} came */
  #learn(came) {
    const { tokens, length, from, taken, due } = this.#guess;
    const next = this.#timeline.ids[from + came];
    this.#timeline.accepted += came;
    for (let n = 0; n < came; n++) this.#gains?.saw(length + n, true);
    if (next !== undefined && came < Math.max(taken, Math.min(tokens.length, 1)))
      this.#gains?.saw(length + came, next === tokens[came]);
    if (due) this.#gains?.step(due, taken, came);
    this.#guess = { tokens: [], length: 0, from, taken: 0, due: 0 };
  }

  /** @param {Draft} draft @param {number} most  tokens that can be of use @param {number} due @param {Ends} ends @param {number} slices  at once */
  async #drafted(draft, most, due, ends, slices) {
    const { ids, drafts } = this.#timeline;
    const tokens = await draft.next(ids, Math.min(most, this.#always, drafts), ends, slices);
    this.#timeline.check();
    return (this.#guess = { tokens, length: 0, from: ids.length, taken: 0, due });
  }

  /** @param {number} most  tokens that can be of use @param {number} due */
  #next(most, due) {
    const { ids, drafts } = this.#timeline;
    const from = ids.length;
    if (!this.#always && this.#costs.one < LEAST_MS)
      return (this.#guess = { tokens: [], length: 0, from, taken: 0, due });
    const { length, tokens, near } = guess(ids, this.#near, Math.min(most, this.#always || drafts));
    this.#near = near;
    return (this.#guess = { tokens, length, from, taken: 0, due });
  }

  /** To be called when the generation has ended, and before the timeline becomes another one. @param {TokenUsage} usage */
  end(usage) {
    const { drafted, accepted } = this.#before;
    this.#learn(this.#came());
    usage.draftedTokens = this.#timeline.drafted - drafted;
    usage.acceptedTokens = this.#timeline.accepted - accepted;
  }
}
