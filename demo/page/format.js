/** Numbers for people. */

/** @param {number} bytes */
export const bytes = (bytes) =>
  bytes < 1e6
    ? `${Math.round(bytes / 1e3)} kB`
    : bytes < 1e9
      ? `${(bytes / 1e6).toFixed(1)} MB`
      : `${(bytes / 1e9).toFixed(2)} GB`;

/** @param {number} n */
export const count = (n) => n.toLocaleString('en');

/** @param {number} n @param {string} thing */
export const counted = (n, thing) => `${count(n)} ${thing}${n === 1 ? '' : 's'}`;

/** A file's own address, where people copy that of a page about it. @param {string} url */
export const fileAddress = (url) =>
  url.replace(/^(https:\/\/huggingface\.co\/[^/?#]+\/[^/?#]+)\/blob\//, '$1/resolve/');

/** The last part of an address. @param {string} url */
export function nameOf(url) {
  const name = url.split(/[?#]/, 1)[0].split('/').pop() || url;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

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
 * "5.5-million-parameter", or "language" where the shape doesn't tell.
 * @param {import('../../js/shared/types.js').ModelInfo} model
 */
export function parameters({ arch, layers, hidden, heads, kvHeads, headDim, ffn, vocabSize: vocab, tied }) {
  if (arch !== 'llama') return 'language';
  const attention = hidden * headDim * (2 * heads + 2 * kvHeads);
  const n = vocab * hidden * (tied ? 1 : 2) + layers * (attention + 3 * hidden * ffn + 2 * hidden) + hidden;
  return `${large(n).replace(' ', '-')}-parameter`;
}

/** "5.5 million" @param {number} n */
export function large(n) {
  const [value, unit] = n < 1e6 ? [n / 1e3, 'thousand'] : n < 1e9 ? [n / 1e6, 'million'] : [n / 1e9, 'billion'];
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
}

/**
 * Tokens per second of decoding. The first token comes out of the prompt's pass, so n tokens take n − 1 steps.
 * @param {number} tokens @param {number} decodeMs
 */
export const rateOf = (tokens, decodeMs) => (tokens > 1 && decodeMs > 0 ? ((tokens - 1) * 1000) / decodeMs : null);

/** Of a reply. @param {import('../../js/shared/types.js').Result} result */
export const rate = ({ usage, timings }) => rateOf(usage.completionTokens, timings.decodeMs);

/** @param {number | null} n */
export const rounded = (n) => (n === null ? '' : n < 10 ? n.toFixed(1) : count(Math.round(n)));

/** @param {number | null} perSecond */
export const speed = (perSecond) => (perSecond === null ? '' : `${rounded(perSecond)} tokens/s`);

/** How far a load is, for people. @param {Pick<import('../../js/shared/types.js').Progress, 'phase' | 'loaded' | 'total' | 'bytesPerSecond' | 'etaMs' | 'retries'>} progress */
export function progress({ phase, loaded, total, bytesPerSecond, etaMs, retries }) {
  const amount = total ? `${bytes(loaded)} of ${bytes(total)}` : bytes(loaded);
  if (phase === 'convert') return `${amount} converted`;
  if (phase === 'paused') return `${amount}, paused`;
  if (retries) return `${amount}; the network failed, trying again (${retries + 1})`;
  const speed = bytesPerSecond ? `${bytes(bytesPerSecond)}/s` : '';
  const left = etaMs === null || !speed ? '' : `${duration(etaMs)} left`;
  return [amount, speed, left].filter(Boolean).join(', ');
}
