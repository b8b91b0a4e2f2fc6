/**
 * Scaled rotary positions (RoPE scaling: linear, llama3, YaRN, LongRoPE). Every method is expressed as divisors of the angles (the
 * tensors rope.factors and rope.long_factors) and one factor of cosine and sine (rope_scale). Configurations of Hugging Face and
 * metadata of GGUF files are both converted to a Scaling first.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';

/**
 * @typedef {object} Scaling
 * @property {string} kind            one of KINDS
 * @property {number} factor          ratio of the scaled to the original context
 * @property {number} original        context before scaling, in tokens
 * @property {number} [attention]     factor of cosine and sine; default: that of the method
 * @property {number} [low]           llama3: wavelengths longer than original / low are divided
 * @property {number} [high]          llama3: those shorter than original / high stay
 * @property {number} [betaFast]      yarn: angles with at least so many rotations within `original` are not divided
 * @property {number} [betaSlow]      yarn: angles with at most so many are divided by `factor`
 * @property {number} [mscale]        yarn
 * @property {number} [mscaleAllDim]  yarn
 * @property {boolean} [truncate]     yarn: rounds the two limits to whole dimensions; default true
 * @property {number[]} [short]       longrope: divisors for up to `original` positions
 * @property {number[]} [long]        longrope: for more
 */

/** @param {number} dim @param {(i: number) => number} divisor @returns {Float32Array} */
const table = (dim, divisor) => Float32Array.from({ length: dim / 2 }, (_, i) => divisor(i));

/** Interpolates between an unchanged angle (share 1) and a divided one (share 0). @param {number} share @param {number} factor */
const blend = (share, factor) => 1 / ((1 - share) / factor + share);

/** @param {Scaling} s @param {number} theta @param {number} dim */
function llama3(s, theta, dim) {
  const { factor, original, low = 1, high = 4 } = s;
  return table(dim, (i) => {
    const wavelength = 2 * Math.PI * theta ** ((2 * i) / dim);
    if (wavelength < original / high) return 1;
    if (wavelength > original / low) return factor;
    return blend((original / wavelength - low) / (high - low), factor);
  });
}

/** @param {Scaling} s @param {number} theta @param {number} dim */
function yarn(s, theta, dim) {
  const { factor, original, betaFast = 32, betaSlow = 1, truncate = true } = s;
  const at = (/** @type {number} */ turns) =>
    (dim * Math.log(original / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const [from, to] = truncate ? [Math.floor(at(betaFast)), Math.ceil(at(betaSlow))] : [at(betaFast), at(betaSlow)];
  const low = Math.max(from, 0);
  const high = Math.min(to, dim - 1);
  const width = low === high ? 0.001 : high - low;
  return table(dim, (i) => blend(1 - Math.min(Math.max((i - low) / width, 0), 1), factor));
}

/** @param {number} factor @param {number} [m] */
const yarnScale = (factor, m = 1) => (factor <= 1 ? 1 : 0.1 * m * Math.log(factor) + 1);

/** The factor of cosine and sine. @param {Scaling} s */
function attentionOf({ kind, factor, original, attention, mscale, mscaleAllDim }) {
  if (attention !== undefined) return attention;
  if (kind === 'yarn')
    return mscale && mscaleAllDim ? yarnScale(factor, mscale) / yarnScale(factor, mscaleAllDim) : yarnScale(factor);
  if (kind === 'longrope') return factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(original));
  return 1;
}

/** The divisors that a configuration lists. Throws FORMAT. @param {number[] | undefined} list @param {number} dim @param {string} what */
function listedFactors(list, dim, what) {
  if (!Array.isArray(list) || list.length !== dim / 2)
    throw new BqError('FORMAT', `${what} has ${list?.length ?? 'no'} numbers; expected ${dim / 2}`, {
      hint: 'one for each rotated pair',
    });
  return Float32Array.from(list);
}

/** Limit of the rotated dimensions of a head; a table has half as many entries. */
const MAX_ROTATED = 65536;
/** Methods without effect within the original context, to which the engine is limited, or on text without pictures. */
const UNSCALED = ['default', 'none', 'dynamic', 'mrope'];
const KINDS = [...UNSCALED, 'linear', 'llama3', 'yarn', 'longrope'];

/**
 * Keys that scaling adds to our configuration. Throws UNSUPPORTED.
 * @param {Scaling} s
 * @returns {Record<string, number>}
 */
export function scalingConfig(s) {
  if (!KINDS.includes(s.kind))
    throw new BqError('UNSUPPORTED', `unsupported RoPE scaling "${s.kind}"`, {
      hint: `expected one of ${KINDS.join(', ')}`,
    });
  const attention = UNSCALED.includes(s.kind) ? 1 : attentionOf(s);
  return {
    ...(attention !== 1 && { rope_scale: attention }),
    ...(s.kind === 'longrope' && { rope_original: s.original }),
  };
}

/** Refuses a head before a table of its angles is made. Throws FORMAT. @param {number} dim  rotated dimensions */
export function checkRotated(dim) {
  if (dim > MAX_ROTATED)
    throw new BqError('FORMAT', `${dim} dimensions of a head are rotated; the limit is ${MAX_ROTATED}`);
}

/**
 * Tensors that scaling adds, by canonical name. Throws FORMAT.
 * @param {Scaling} s
 * @param {number} theta
 * @param {number} dim  rotated dimensions of a head
 * @returns {Record<string, Float32Array>}
 */
export function scalingTables(s, theta, dim) {
  checkRotated(dim);
  const tables = tablesOf(s, theta, dim);
  for (const [name, divisors] of Object.entries(tables)) checkDivisors(divisors, `${name} of "${s.kind}" scaling`);
  return tables;
}

/** Angles that are divided by 0, by less or by no number are positions that no model was trained with. Throws FORMAT. @param {Float32Array} divisors @param {string} what */
export function checkDivisors(divisors, what) {
  const wrong = divisors.find((divisor) => !(divisor > 0 && divisor < Infinity));
  if (wrong !== undefined)
    throw new BqError('FORMAT', `${what}: an angle is divided by ${wrong}`, {
      hint: 'expected positive numbers: check the factors of the RoPE scaling',
    });
}

/** @param {Scaling} s @param {number} theta @param {number} dim @returns {Record<string, Float32Array>} */
function tablesOf(s, theta, dim) {
  switch (s.kind) {
    case 'linear':
      return s.factor === 1 ? {} : { 'rope.factors': table(dim, () => s.factor) };
    case 'llama3':
      return { 'rope.factors': llama3(s, theta, dim) };
    case 'yarn':
      return { 'rope.factors': yarn(s, theta, dim) };
    case 'longrope':
      return {
        'rope.factors': listedFactors(s.short, dim, 'short_factor'),
        'rope.long_factors': listedFactors(s.long, dim, 'long_factor'),
      };
    default:
      return {};
  }
}

/** The RoPE parameters of a config.json in all versions of transformers. @param {Record<string, any>} hf */
function positionsOf(hf) {
  for (const name of ['rope_parameters', 'rope_scaling']) {
    const value = hf[name] ?? {};
    if (typeof value !== 'object' || Array.isArray(value))
      throw new BqError('FORMAT', `config.json: ${name} is ${shown(value)}`, { hint: 'expected an object' });
  }
  const nested = hf.rope_parameters?.full_attention;
  return { ...(nested ?? hf.rope_parameters), ...hf.rope_scaling };
}

/** @param {Record<string, any>} hf @returns {Scaling} */
function scalingOf(hf) {
  const p = positionsOf(hf);
  const kind = p.rope_type ?? p.type ?? 'default';
  const context = hf.max_position_embeddings ?? 2048;
  const original = hf.original_max_position_embeddings ?? p.original_max_position_embeddings ?? context;
  return {
    kind: kind === 'su' ? 'longrope' : kind,
    factor: p.factor ?? context / original,
    original,
    attention: p.attention_factor ?? undefined,
    low: p.low_freq_factor,
    high: p.high_freq_factor,
    betaFast: p.beta_fast || undefined,
    betaSlow: p.beta_slow || undefined,
    mscale: p.mscale,
    mscaleAllDim: p.mscale_all_dim,
    truncate: p.truncate,
    short: p.short_factor,
    long: p.long_factor,
  };
}

/** Rotary positions of a config.json as keys of our configuration. @param {Record<string, any>} hf @param {number} headDim @param {number} [theta]  default base */
export function ropeOf(hf, headDim, theta = 10000) {
  const p = positionsOf(hf);
  const part = p.partial_rotary_factor ?? hf.partial_rotary_factor ?? hf.rotary_pct ?? 1;
  return {
    rope_theta: p.rope_theta ?? hf.rope_theta ?? hf.rotary_emb_base ?? theta,
    rope_dim: Math.trunc(headDim * part),
    rope_pairs: 'half',
    ...scalingConfig(scalingOf(hf)),
  };
}

/** Tensors that a model needs beside those of its checkpoint. Throws FORMAT. @param {Record<string, any>} hf @param {Record<string, any>} config  ours */
export function ropeTables(hf, config) {
  const rotated = config.rope_dim !== undefined && [undefined, 'rope', 0].includes(config.position);
  return rotated ? scalingTables(scalingOf(hf), config.rope_theta, config.rope_dim) : {};
}
