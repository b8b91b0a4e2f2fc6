/**
 * Stop strings in streamed text. A stop string may be spread over tokens, so text that could be the
 * start of one is held back until it is or is not.
 */

/** The longest end of `text` that is the start, not the whole, of `stop`. @param {string} text @param {string} stop */
export function overlap(text, stop) {
  for (let n = Math.min(text.length, stop.length - 1); n > 0; n--) if (text.endsWith(stop.slice(0, n))) return n;
  return 0;
}

export class StopFilter {
  #held = '';
  #stops;

  /** @param {readonly string[]} stops  empty strings are ignored */
  constructor(stops) {
    this.#stops = stops.filter((s) => s);
  }

  /**
   * What may be shown after `text` has come; `stop` is the stop string that was met, if any. It and all
   * that follows is swallowed. Of several, the one complete first wins, then the longest, so that the
   * result doesn't depend on how the text is split.
   * @param {string} text
   * @returns {{ text: string, stop: string | null }}
   */
  push(text) {
    const all = this.#held + text;
    let end = Infinity;
    let stop = '';
    let hold = 0;
    for (const s of this.#stops) {
      const at = all.indexOf(s);
      const ends = at + s.length;
      if (at >= 0 && (ends < end || (ends === end && s.length > stop.length))) [end, stop] = [ends, s];
      hold = Math.max(hold, overlap(all, s));
    }
    if (stop) {
      this.#held = '';
      return { text: all.slice(0, end - stop.length), stop };
    }
    this.#held = all.slice(all.length - hold);
    return { text: all.slice(0, all.length - hold), stop: null };
  }

  /** The end of the text: what was held back is no stop string. */
  flush() {
    const text = this.#held;
    this.#held = '';
    return text;
  }
}
