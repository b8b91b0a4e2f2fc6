/**
 * The same function with weights that are easier to round: inputs of a layer's products that are large become smaller and the weights
 * that they meet larger, by scales folded into norms, values and the gated MLP, so that what meets large inputs is rounded finer (AWQ,
 * https://arxiv.org/abs/2306.00978). Nothing is left of it at run time.
 */
import { BqError } from '../shared/errors.js';

/** @import { Match } from '../format/bq4/encode-tensor.js' */
/** @import { Calibrator } from './calibrate.js' */

/** Of the inputs of a layer's products: of what comes out of its norms, of values of KV heads, of a gated MLP. @typedef {{ norm: Float32Array, mlpNorm: Float32Array, values: Float32Array, up?: Float32Array }} Inputs */
/** What rows are multiplied and columns divided by. @typedef {{ rows?: Float32Array, columns?: Float32Array }} Scales */

/** Of a layer's tensors by kind. @param {{ heads: number, kvHeads: number, width: number }} shape @param {Inputs} inputs @returns {Record<string, Scales>} */
export function scalesIn({ heads, kvHeads, width }, { norm, mlpNorm, values, up }) {
  // Several heads read the values of one.
  const read = Float32Array.from(
    { length: heads * width },
    (_, i) => values[width * Math.floor(i / width / (heads / kvHeads)) + (i % width)],
  );
  return {
    ln1: { rows: norm },
    'attn.q': { columns: norm },
    'attn.k': { columns: norm },
    'attn.v': { rows: values, columns: norm },
    'attn.o': { columns: read },
    ln2: { rows: mlpNorm },
    'mlp.gate': { columns: mlpNorm },
    'mlp.up': { rows: up, columns: mlpNorm },
    'mlp.down': { columns: up },
  };
}

/** @param {Float32Array} weights  from a row on @param {number} row @param {number} cols @param {Scales} scales */
export const scaled = (weights, row, cols, { rows, columns }) =>
  weights.map((w, i) => (w * (rows ? rows[row + Math.floor(i / cols)] : 1)) / (columns ? columns[i % cols] : 1));

const OF_LAYER = /^h\.(\d+)\.([\w.]+)\.(weight|bias)$/;

/** A tensor with the scales of its layer in it. @param {Match} match @param {ReadonlyMap<number, Record<string, Scales>>} layers @returns {Match} */
export function folded(match, layers) {
  const [, layer, kind, what] = OF_LAYER.exec(match.slot.name) ?? [];
  const scales = layer && layers.get(Number(layer))?.[kind];
  if (!scales) return match;
  const { tensor } = match;
  const flat = tensor.dims.length === 1;
  // What is added to a product is scaled as the product is.
  const own = what === 'bias' ? { rows: scales.rows } : scales;
  return {
    ...match,
    tensor: {
      dims: tensor.dims,
      read: async (row, n) => scaled(await tensor.read(row, n), row, flat ? 1 : tensor.dims[1], own),
    },
  };
}

/** Below 1 where an input is larger than most. @param {readonly number[]} squares @param {number} power */
function scalesBy(squares, power) {
  const logs = squares.map((square) => Math.log(Math.max(square, 1e-30)) / 2);
  const middle = logs.reduce((sum, log) => sum + log, 0) / logs.length;
  return Float32Array.from(logs, (log) => Math.exp(power * (middle - log)));
}

/**
 * The scale of an input is its root mean square on the text, beside that of its layer, to the power of a number; 0 changes nothing.
 * ARGUMENT: a model whose products have no norm of their own in front of them, or has experts.
 * @param {Match[]} matches @param {Record<string, any>} config @param {Calibrator} calibrator @param {number} power @returns {Promise<Match[]>}
 */
export async function smoothed(matches, config, calibrator, power) {
  const dims = new Map(matches.map(({ slot }) => [slot.name, slot.dims]));
  /** Mean squares of a matrix's inputs. @param {string} name */
  const squaresOf = async (name) => {
    const moments = await calibrator.momentsOf(name);
    return moments ? Array.from({ length: moments.cols }, (_, i) => moments.values[i * (moments.cols + 1)]) : null;
  };
  /** @type {Map<number, Record<string, Scales>>} */
  const layers = new Map();
  for (let layer = 0; layer < config.layers; layer++) {
    const has = (/** @type {string} */ kind) => dims.has(`h.${layer}.${kind}.weight`);
    const normed = has('ln1') && has('ln2');
    const of = async (/** @type {string} */ kind) =>
      normed && has(kind) ? squaresOf(`h.${layer}.${kind}.weight`) : null;
    const [norm, read, mlpNorm] = [await of('attn.q'), await of('attn.o'), await of('mlp.up')];
    const down = has('mlp.gate') ? await of('mlp.down') : null;
    if (!norm || !read || !mlpNorm)
      throw new BqError('ARGUMENT', `layer ${layer} has products without a norm of their own in front of them`, {
        hint: 'leave --smooth out',
      });
    const { heads } = config;
    const width = read.length / heads;
    const kvHeads = /** @type {readonly number[]} */ (dims.get(`h.${layer}.attn.v.weight`))[0] / width;
    const group = heads / kvHeads;
    const values = Array.from({ length: kvHeads * width }, (_, i) => {
      const first = Math.floor(i / width) * group * width + (i % width);
      return Array.from({ length: group }, (__, h) => read[first + h * width]).reduce((sum, x) => sum + x, 0) / group;
    });
    const by = (/** @type {readonly number[]} */ squares) => scalesBy(squares, power);
    layers.set(
      layer,
      scalesIn(
        { heads, kvHeads, width },
        { norm: by(norm), mlpNorm: by(mlpNorm), values: by(values), ...(down && { up: by(down) }) },
      ),
    );
  }
  return matches.map((match) => folded(match, layers));
}
