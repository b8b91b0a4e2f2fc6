/** What a reply waits for before its first word: the model's weights, then the prompt. */
import * as format from '../page/format.js';
import { say, showLoading, showProgress } from '../page/page.js';

/** @typedef {import('../../js/shared/types.js').PrefillProgress} PrefillProgress */

/** A prompt of fewer tokens is read too soon for a progress bar. */
const SHORT_PROMPT = 64;

/** @param {PrefillProgress} progress @param {number} ms  since it began */
export function readingWords({ done, total }, ms) {
  const left = done > 0 ? format.duration(Math.max(1000, (ms * (total - done)) / done)) : '';
  return [`${format.count(done)} of ${format.count(total)} tokens read`, left && `about ${left} left`]
    .filter(Boolean)
    .join(', ');
}

export class Waiting {
  /** Why no reply can begin yet; '': it can. */
  #why;
  #begun = 0;
  #told = false;

  /** @param {() => string} why  the weights are not there yet: says so; '': they are */
  constructor(why) {
    this.#why = why;
  }

  /** @param {string} [words]  what is done once it can begin */
  begin(words = 'Reading…') {
    this.#begun = 0;
    this.#told = false;
    say(this.#why() || words);
  }

  /** @param {PrefillProgress} progress */
  reading = (progress) => {
    const now = performance.now();
    this.#begun ||= now;
    if (progress.total < SHORT_PROMPT || this.#why()) return;
    if (!this.#told) say(`Reading ${format.count(progress.total)} tokens…`);
    this.#told = true;
    showLoading(true);
    showProgress(progress.done, progress.total, readingWords(progress, now - this.#begun));
  };

  /** The first word is there, or none will come. */
  end() {
    if (this.#told) showLoading(Boolean(this.#why()));
    this.#told = false;
  }
}
