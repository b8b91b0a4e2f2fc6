/**
 * Scaled rotary positions (RoPE scaling: linear, llama3, YaRN, LongRoPE). Each method is converted to divisors of the
 * angles (the tensors rope.factors and rope.long_factors) and one factor of cosine and sine (rope_scale).
 * Configurations of Hugging Face and metadata of GGUF files are first converted to a Scaling.
 */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';

/**
 * @typedef {object} Scaling
 * @property {string} kind            one of KINDS
 * @property {number} factor          ratio of the scaled to the original context
 * @property {number} original        context before scaling, in tokens
 * @property {number} [attention]     factor of cosine and sine; default: computed by the method
 * @property {number} [low]           llama3: angles with wavelengths longer than original / low are divided by `factor`
 * @property {number} [high]          llama3: angles with wavelengths shorter than original / high are not divided
 * @property {number} [betaFast]      yarn: angles with at least this number of rotations within `original` are not
 *   divided
 * @property {number} [betaSlow]      yarn: angles with at most this number of rotations within `original` are divided
 *   by `factor`
 * @property {number} [mscale]        yarn: determines the factor of cosine and sine, together with mscaleAllDim
 * @property {number} [mscaleAllDim]  yarn
 * @property {boolean} [truncate]     yarn: whether the two limits are rounded to integer dimensions; default true
 * @property {number[]} [short]       longrope: divisors for up to `original` positions
 * @property {number[]} [long]        longrope: divisors for more than `original` positions
 */

/** @param {number} dim @param {(i: number) => number} divisor @returns {Float32Array} */
const table = (dim, divisor) => Float32Array.from({ length: dim / 2 }, (_, i) => divisor(i));

/**
 * Interpolates between an unchanged angle (share 1) and a divided one (share 0).
 * @param {number} share @param {number} factor
 */
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

/** Returns the factor of cosine and sine. @param {Scaling} s */
function attentionOf({ kind, factor, original, attention, mscale, mscaleAllDim }) {
  if (attention !== undefined) return attention;
  if (kind === 'yarn')
    return mscale && mscaleAllDim ? yarnScale(factor, mscale) / yarnScale(factor, mscaleAllDim) : yarnScale(factor);
  if (kind === 'longrope') return factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(original));
  return 1;
}

/**
 * Returns the divisors that a configuration lists. Throws FORMAT.
 * @param {number[] | undefined} list @param {number} dim @param {string} name  name of the list, for errors
 */
function listedFactors(list, dim, name) {
  if (!Array.isArray(list) || list.length !== dim / 2)
    throw new BqError('FORMAT', `${name} has ${list?.length ?? 'no'} numbers; expected ${dim / 2}`, {
      hint: 'one for each rotated pair',
    });
  return Float32Array.from(list);
}

/** Limit of the rotated dimensions of a head; a table has half as many entries. */
const MAX_ROTATED = 65536;
/**
 * Methods that have no effect within the original context, to which the engine is limited, or on text without images.
 */
const UNSCALED = ['default', 'none', 'dynamic', 'mrope'];
const KINDS = [...UNSCALED, 'linear', 'llama3', 'yarn', 'longrope'];

/**
 * Returns the keys that scaling adds to the model configuration. Throws UNSUPPORTED.
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

/**
 * Throws FORMAT for too many rotated dimensions, before a table of their angles is allocated.
 * @param {number} dim  rotated dimensions of a head
 */
export function checkRotated(dim) {
  if (dim > MAX_ROTATED)
    throw new BqError('FORMAT', `${dim} dimensions of a head are rotated; the limit is ${MAX_ROTATED}`);
}

/**
 * Returns the tensors that scaling adds, by canonical name. Throws FORMAT.
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

/**
 * Throws FORMAT for a divisor that is not a positive number.
 * @param {Float32Array} divisors @param {string} name  name of the table, for errors
 */
export function checkDivisors(divisors, name) {
  const invalid = divisors.find((divisor) => !(divisor > 0 && divisor < Infinity));
  if (invalid !== undefined)
    throw new BqError('FORMAT', `${name}: an angle is divided by ${invalid}`, {
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

/**
 * Returns the RoPE parameters of a config.json that any version of transformers has written. Throws FORMAT.
 * @param {Record<string, any>} hf
 */
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

/**
 * Throws UNSUPPORTED if a config.json specifies that only a part of each head is rotated.
 * @param {Record<string, any>} hf
 */
export function checkWholeHeads(hf) {
  const { rope_parameters: positions, rope_scaling: scaling } = hf;
  for (const keys of [hf, positions, scaling, ...Object.values(positions ?? {})])
    for (const key of ['partial_rotary_factor', 'rotary_pct']) {
      const part = keys?.[key] ?? 1;
      if (part !== 1)
        throw new BqError('UNSUPPORTED', `config.json: ${key} is ${shown(part)}`, {
          hint: 'in this architecture heads are rotated completely',
        });
    }
}

/**
 * Returns the keys of the model configuration for the rotary positions of a config.json. Throws FORMAT, UNSUPPORTED.
 * @param {Record<string, any>} hf @param {number} headDim @param {number} [theta]  default base
 */
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

/**
 * Returns the tables of rotary positions, which a model needs in addition to the tensors of its checkpoint. Throws
 * FORMAT.
 * @param {Record<string, any>} hf  config.json @param {Record<string, any>} config  configuration of the model
 */
export function ropeTables(hf, config) {
  const isRotary = config.rope_dim !== undefined && [undefined, 'rope', 0].includes(config.position);
  return isRotary ? scalingTables(scalingOf(hf), config.rope_theta, config.rope_dim) : {};
}
