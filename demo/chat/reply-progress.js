/** What a reply waits for before its first word: the model's weights, then the prompt. */
import * as format from '../page/format.js';
import { say, showLoading, showProgress } from '../page/page.js';

/** @typedef {import('../../js/shared/types.js').PrefillProgress} PrefillProgress */

/** A prompt of fewer tokens is read too soon for a progress bar. */
const SHORT_PROMPT = 64;

/** @param {PrefillProgress} progress */
export function readingWords({ loaded, total, etaMs }) {
  const remaining = etaMs ? format.duration(Math.max(1000, etaMs)) : '';
  return [`${format.count(loaded)} of ${format.count(total)} tokens read`, remaining && `about ${remaining} left`]
    .filter(Boolean)
    .join(', ');
}

export class Waiting {
  /** Why no reply can begin yet; '': it can. */
  #why;
  #told = false;

  /** @param {() => string} why  the weights are not there yet: says so; '': they are */
  constructor(why) {
    this.#why = why;
  }

  /** @param {string} [words]  what is done once it can begin */
  begin(words = 'Reading…') {
    this.#told = false;
    say(this.#why() || words);
  }

  /** @param {PrefillProgress} progress */
  reading = (progress) => {
    if (progress.total < SHORT_PROMPT || this.#why()) return;
    if (!this.#told) say(`Reading ${format.count(progress.total)} tokens…`);
    this.#told = true;
    showLoading(true);
    showProgress(progress.loaded, progress.total, readingWords(progress));
  };

  /** The first word is there, or none will come. */
  end() {
    if (this.#told) showLoading(Boolean(this.#why()));
    this.#told = false;
  }
}
