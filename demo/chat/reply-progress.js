/** Progress before the first word of a reply: loading the model's weights, then reading the prompt. */
import * as format from '../page/format.js';
import { say, showLoading, showProgress } from '../page/page.js';

/** @typedef {import('../../js/shared/types.js').PrefillProgress} PrefillProgress */

/** Prompts of fewer tokens are read too fast for a progress bar. */
const SHORT_PROMPT = 64;

/** Returns the text beside the progress bar. @param {PrefillProgress} progress */
export function readingWords({ loaded, total, etaMs }) {
  const remaining = etaMs ? format.duration(Math.max(1000, etaMs)) : '';
  const percent = Math.floor((100 * loaded) / total);
  return [`Reading: ${percent} %`, remaining && `about ${remaining} left`].filter(Boolean).join(', ');
}

export class Waiting {
  #reasonToWait;
  /** Whether the progress of reading is shown. */
  #isReadingShown = false;

  /** @param {() => string} reasonToWait  returns why no reply can begin yet, or '' if it can */
  constructor(reasonToWait) {
    this.#reasonToWait = reasonToWait;
  }

  /** @param {string} [words]  announced if the reply can begin */
  begin(words = 'Reading…') {
    this.#isReadingShown = false;
    say(this.#reasonToWait() || words);
  }

  /** @param {PrefillProgress} progress */
  reading = (progress) => {
    if (progress.total < SHORT_PROMPT || this.#reasonToWait()) return;
    if (!this.#isReadingShown) say('Reading a long text…');
    this.#isReadingShown = true;
    showLoading(true);
    showProgress(progress.loaded, progress.total, readingWords(progress));
  };

  /** Hides the progress: the first word has arrived, or the reply has ended without one. */
  end() {
    if (this.#isReadingShown) showLoading(Boolean(this.#reasonToWait()));
    this.#isReadingShown = false;
  }
}
