/**
 * Finds stop strings in streamed text. A stop string may extend over several tokens. So text that could be the start of
 * one is withheld until the following text decides.
 */

/**
 * Returns the length of the longest end of `text` that is an incomplete beginning of `stop`.
 * @param {string} text
 * @param {string} stop
 */
export function overlap(text, stop) {
  for (let n = Math.min(text.length, stop.length - 1); n > 0; n--) if (text.endsWith(stop.slice(0, n))) return n;
  return 0;
}

export class StopFilter {
  #pending = '';
  #stops;

  /** @param {readonly string[]} stops  empty strings are ignored */
  constructor(stops) {
    this.#stops = stops.filter((s) => s);
  }

  /**
   * Adds text and returns the text that can be shown. `stop` is the stop string that was found, if any. It and all text
   * after it are removed. Of several stop strings, the one that is complete first counts, then the longest. So the
   * result doesn't depend on how the text is split.
   * @param {string} text
   * @returns {{ text: string, stop: string | null }}
   */
  push(text) {
    const available = this.#pending + text;
    let end = Infinity;
    let stop = '';
    let withheldLength = 0;
    for (const s of this.#stops) {
      const at = available.indexOf(s);
      const ends = at + s.length;
      if (at >= 0 && (ends < end || (ends === end && s.length > stop.length))) [end, stop] = [ends, s];
      withheldLength = Math.max(withheldLength, overlap(available, s));
    }
    if (stop) {
      this.#pending = '';
      return { text: available.slice(0, end - stop.length), stop };
    }
    this.#pending = available.slice(available.length - withheldLength);
    return { text: available.slice(0, available.length - withheldLength), stop: null };
  }

  /** Ends the text and returns the withheld text. */
  flush() {
    const text = this.#pending;
    this.#pending = '';
    return text;
  }
}
