/** Formats numbers for users. */

/** @param {number} bytes */
export const bytes = (bytes) =>
  bytes < 1e6
    ? `${Math.round(bytes / 1e3)} kB`
    : bytes < 1e9
      ? `${(bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)} MB`
      : `${(bytes / 1e9).toFixed(1)} GB`;

/** @param {number} n */
export const count = (n) => n.toLocaleString('en');

/** @param {number} n @param {string} item */
export const counted = (n, item) => `${count(n)} ${item}${n === 1 ? '' : 's'}`;

/** Converts the address of a file's page on Hugging Face to that of the file. @param {string} url */
export const fileAddress = (url) =>
  url.replace(/^(https:\/\/huggingface\.co\/[^/?#]+\/[^/?#]+)\/blob\//, '$1/resolve/');

/** Replies with fewer tokens take too little time for a meaningful speed. */
const MEASURABLE_TOKENS = 16;

/** Returns the last part of an address. @param {string} url */
export function nameOf(url) {
  const name = url.split(/[?#]/, 1)[0].split('/').pop() || url;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/**
 * Returns the speed of a reply in words per second, or in tokens for writing without spaces; '' for short replies.
 * @param {import('../../js/shared/types.js').Result} result
 */
export function wordSpeed(result) {
  const perSecond = rate(result);
  const tokens = result.usage.completionTokens;
  if (perSecond === null || tokens < MEASURABLE_TOKENS) return '';
  const words = result.text.split(/\s+/).filter(Boolean).length;
  return words * 4 < tokens ? speed(perSecond) : `${rounded((perSecond * words) / tokens)} words/s`;
}

/** Returns a text as a sentence. A name at its beginning keeps its case. @param {string} text */
export const sentence = (text) =>
  `${/^[a-z]+(?!:\/)[ ,:;]/.test(text) ? text[0].toUpperCase() + text.slice(1) : text}${/[.!?]$/.test(text) ? '' : '.'}`;

/** @param {number} ms */
export const duration = (ms) =>
  ms < 10
    ? `${ms.toFixed(1)} ms`
    : ms < 1000
      ? `${Math.round(ms)} ms`
      : `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;

/** @param {Pick<import('../../js/shared/types.js').Plan, 'arch' | 'layers' | 'hidden' | 'vocabSize'>} model */
export const shape = ({ arch, layers, hidden, vocabSize: vocab }) =>
  `${arch}, ${layers} layers × ${hidden}, vocabulary ${count(vocab)}`;

/**
 * Returns the tokens per second of decoding. The first token is a result of the prefill, so n tokens take n − 1 steps.
 * @param {number} tokens @param {number} decodeMs
 */
export const rateOf = (tokens, decodeMs) => (tokens > 1 && decodeMs > 0 ? ((tokens - 1) * 1000) / decodeMs : null);

/** Returns the tokens per second of a reply. @param {import('../../js/shared/types.js').Result} result */
export const rate = ({ usage, timings }) => rateOf(usage.completionTokens, timings.decodeMs);

/** @param {number | null} n */
export const rounded = (n) => (n === null ? '' : n < 10 ? n.toFixed(1) : count(Math.round(n)));

/** @param {number | null} perSecond */
export const speed = (perSecond) => (perSecond === null ? '' : `${rounded(perSecond)} tokens/s`);

/**
 * Returns the progress of a load in words.
 * @param {Pick<import('../../js/shared/types.js').Progress, 'phase' | 'loaded' | 'total' | 'bytesPerSecond' | 'etaMs' | 'retries'>}
 *   progress
 */
export function progress({ phase, loaded, total, bytesPerSecond, etaMs, retries }) {
  const amount = total ? `${bytes(loaded)} of ${bytes(total)}` : bytes(loaded);
  if (phase === 'convert') return `${amount} converted`;
  if (phase === 'paused') return `${amount}, paused`;
  if (retries) return `${amount}; network lost, retrying (${retries + 1})`;
  const pace = bytesPerSecond ? `${bytes(bytesPerSecond)}/s` : '';
  // Reading from the cache takes time too, although no bytes are left to download.
  const ms = etaMs || (bytesPerSecond && total ? ((total - loaded) * 1000) / bytesPerSecond : 0);
  const left = !pace || ms < 1000 ? '' : `${duration(ms)} left`;
  return [amount, pace, left].filter(Boolean).join(', ');
}
