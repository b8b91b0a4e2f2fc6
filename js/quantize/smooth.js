/**
 * Rescales weights without changing the model's function (AWQ, https://arxiv.org/abs/2306.00978): large inputs of a
 * layer's products are made smaller and the corresponding columns of weights larger, so that these are rounded more
 * finely. The scales are folded into norms, values and the gated MLP, so that inference is unchanged.
 */
import { BqError } from '../shared/errors.js';

/** @import { Match } from '../format/bq4/encode-tensor.js' */
/** @import { Calibrator } from './calibrate.js' */

/**
 * Scales of the inputs of a layer's products. norm, mlpNorm: outputs of the two norms; values: values of the KV heads;
 * mix: outputs of attention, if a norm follows attention; up: inputs of the last product of the MLP, if the MLP is
 * gated or normed. Both `values` and `mix` are missing if the model changes its values otherwise.
 * @typedef {{ norm: Float32Array, mlpNorm: Float32Array, values?: Float32Array, mix?: Float32Array,
 *   up?: Float32Array }} Inputs
 */
/** Factors of rows and divisors of columns. @typedef {{ rows?: Float32Array, columns?: Float32Array }} Scales */
/**
 * subNorms: whether the inputs of the last products of attention and MLP are normed.
 * @typedef {{ heads: number, kvHeads: number, width: number, subNorms?: boolean }} LayerShape
 */

/**
 * Returns the scales of a layer's tensors by kind.
 * @param {LayerShape} shape @param {Inputs} inputs @returns {Record<string, Scales>}
 */
export function scalesIn({ heads, kvHeads, width, subNorms }, { norm, mlpNorm, values, mix, up }) {
  // Several query heads share the values of one KV head.
  const outputs =
    values &&
    Float32Array.from(
      { length: heads * width },
      (_, i) => values[width * Math.floor(i / width / (heads / kvHeads)) + (i % width)],
    );
  return {
    ln1: { rows: norm },
    'attn.q': { columns: norm },
    'attn.k': { columns: norm },
    'attn.v': { rows: values, columns: norm },
    'attn.gate': { columns: norm },
    'attn.sub_norm': { rows: mix },
    'attn.o': { columns: mix ?? outputs },
    'mamba.in': { columns: norm },
    ln2: { rows: mlpNorm },
    'mlp.gate': { columns: mlpNorm },
    'mlp.up': { rows: subNorms ? undefined : up, columns: mlpNorm },
    'mlp.sub_norm': { rows: up },
    'mlp.down': { columns: up },
  };
}

/**
 * Returns weights multiplied by the factors of rows and divided by the divisors of columns.
 * @param {Float32Array} weights  rows from `row` on @param {number} row @param {number} cols @param {Scales} scales
 */
export const scaled = (weights, row, cols, { rows, columns }) =>
  weights.map((w, i) => (w * (rows ? rows[row + Math.floor(i / cols)] : 1)) / (columns ? columns[i % cols] : 1));

const LAYER_TENSOR = /^h\.(\d+)\.([\w.]+)\.(weight|bias)$/;

/**
 * Returns a tensor with the scales of its layer folded into its weights.
 * @param {Match} match @param {ReadonlyMap<number, Record<string, Scales>>} layers @returns {Match}
 */
export function folded(match, layers) {
  const [, layer, kind, part] = LAYER_TENSOR.exec(match.slot.name) ?? [];
  const scales = layer && layers.get(Number(layer))?.[kind];
  if (!scales) return match;
  const { tensor } = match;
  const flat = tensor.dims.length === 1;
  // A bias is scaled like the rows of its product.
  const tensorScales = part === 'bias' ? { rows: scales.rows } : scales;
  return {
    ...match,
    tensor: {
      dims: tensor.dims,
      read: async (row, n) => scaled(await tensor.read(row, n), row, flat ? 1 : tensor.dims[1], tensorScales),
    },
  };
}

/**
 * Returns scales for mean squares of inputs: below 1 for inputs larger than the geometric mean.
 * @param {readonly number[]} squares @param {number} power
 */
function scalesBy(squares, power) {
  const logs = squares.map((square) => Math.log(Math.max(square, 1e-30)) / 2);
  const meanLog = logs.reduce((sum, log) => sum + log, 0) / logs.length;
  return Float32Array.from(logs, (log) => Math.exp(power * (meanLog - log)));
}

/**
 * Smooths a model. The scale of an input is its root mean square on the text relative to that of the layer, raised to
 * `power`; 0 changes nothing. Throws ARGUMENT for models with experts or whose products are not preceded by a norm of
 * their own.
 * @param {Match[]} matches @param {Record<string, any>} config @param {Calibrator} calibrator @param {number} power
 * @returns {Promise<Match[]>}
 */
export async function smoothed(matches, config, calibrator, power) {
  const dims = new Map(matches.map(({ slot }) => [slot.name, slot.dims]));
  /** Returns the mean squares of a matrix's inputs. @param {string} name */
  const squaresOf = async (name) => {
    const moments = await calibrator.momentsOf(name);
    return moments ? Array.from({ length: moments.cols }, (_, i) => moments.values[i * (moments.cols + 1)]) : null;
  };
  /** @type {Map<number, Record<string, Scales>>} */
  const layers = new Map();
  for (let layer = 0; layer < config.layers; layer++) {
    const has = (/** @type {string} */ kind) => dims.has(`h.${layer}.${kind}.weight`);
    const normed = has('ln1') && has('ln2');
    const squaresOfKind = async (/** @type {string} */ kind) =>
      normed && has(kind) ? squaresOf(`h.${layer}.${kind}.weight`) : null;
    const [norm, attention, mlpNorm] = [
      await squaresOfKind('attn.q'),
      await squaresOfKind('attn.o'),
      await squaresOfKind('mlp.up'),
    ];
    const down = has('mlp.gate') || has('mlp.sub_norm') ? await squaresOfKind('mlp.down') : null;
    if (!norm || !attention || !mlpNorm)
      throw new BqError(
        'ARGUMENT',
        `layer ${layer} has products that are not preceded by a norm of their own, which --smooth needs`,
        {
          hint: 'omit --smooth',
        },
      );
    const { heads } = config;
    const width = attention.length / heads;
    const subNorms = has('attn.sub_norm');
    const kvHeads = (dims.get(`h.${layer}.attn.v.weight`)?.[0] ?? 0) / width;
    const group = heads / kvHeads;
    // Values that are normed or clamped, values of another layer, and values that are also keys stay unchanged.
    const hasFreeValues = kvHeads > 0 && !subNorms && !config.value_norm && !config.qkv_clip;
    const values = Array.from({ length: hasFreeValues ? kvHeads * width : 0 }, (_, i) => {
      const first = Math.floor(i / width) * group * width + (i % width);
      return (
        Array.from({ length: group }, (__, h) => attention[first + h * width]).reduce((sum, x) => sum + x, 0) / group
      );
    });
    const scalesOf = (/** @type {readonly number[]} */ squares) => scalesBy(squares, power);
    layers.set(
      layer,
      scalesIn(
        { heads, kvHeads, width, subNorms },
        {
          norm: scalesOf(norm),
          mlpNorm: scalesOf(mlpNorm),
          ...(hasFreeValues && { values: scalesOf(values) }),
          ...(subNorms && { mix: scalesOf(attention) }),
          ...(down && { up: scalesOf(down) }),
        },
      ),
    );
  }
  return matches.map((match) => folded(match, layers));
}
