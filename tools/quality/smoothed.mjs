#!/usr/bin/env node
// The same function with weights that are easier to round, or not: inputs of a layer's products that are large are made smaller, and the weights that they meet larger, by
// scales folded into norms, values and the MLP (AWQ, https://arxiv.org/abs/2306.00978: what meets large inputs is rounded finer). The scale of an input is its root mean
// square on a text, beside that of its layer, to the power of a number; 0 changes nothing.
//   node tools/quality/smoothed.mjs F32.bq4 OUT.bq4 TEXT [--power 0.25] [--tokens 2048]      LLaMA's architecture, as rescaled.mjs
// `bq4 quantize OUT.bq4 ... --calibrate TEXT` and `tools/quality/table.mjs` tell what comes of it (docs/QUALITY.md).
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { fromFile } from '../../js/engine.js';
import { Calibrator } from '../../js/quantize/calibrate.js';
import { rescale } from './rescaled.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { power: { type: 'string', default: '0.25' }, tokens: { type: 'string', default: '2048' } },
});
const [from, to, text] = positionals;
const power = Number(values.power);
const calibrator = await Calibrator.open(fromFile(from), readFileSync(text, 'utf8'), { tokens: Number(values.tokens) });

/** Mean squares of a matrix's inputs. @param {string} name */
async function squaresOf(name) {
  const moments = await calibrator.momentsOf(name);
  if (!moments) throw new Error(`nothing is known of what ${name} is multiplied with`);
  return Array.from({ length: moments.cols }, (_, i) => moments.values[i * (moments.cols + 1)]);
}

/** What is divided by: below 1 where an input is larger than most. @param {number[]} squares */
function scalesBy(squares) {
  const logs = squares.map((square) => Math.log(Math.max(square, 1e-30)) / 2);
  const middle = logs.reduce((sum, log) => sum + log, 0) / logs.length;
  return Float32Array.from(logs, (log) => Math.exp(power * (middle - log)));
}

/** @type {Map<number, Promise<import('./rescaled.mjs').Inputs>>} */
const known = new Map();

/** @param {any} config @param {number} layer */
async function inputsOf({ heads, kv_heads: kvHeads, head_dim: width }, layer) {
  const [norm, mlpNorm, read, up] = [
    await squaresOf(`h.${layer}.attn.q.weight`),
    await squaresOf(`h.${layer}.mlp.up.weight`),
    await squaresOf(`h.${layer}.attn.o.weight`),
    await squaresOf(`h.${layer}.mlp.down.weight`),
  ];
  // Several heads read the values of one.
  const group = heads / kvHeads;
  const shared = Array.from({ length: kvHeads * width }, (_, i) => {
    const first = Math.floor(i / width) * group * width + (i % width);
    return Array.from({ length: group }, (_, h) => read[first + h * width]).reduce((sum, x) => sum + x, 0) / group;
  });
  return { norm: scalesBy(norm), mlpNorm: scalesBy(mlpNorm), values: scalesBy(shared), up: scalesBy(up) };
}

await rescale(from, to, (config, layer) => {
  if (!known.has(layer)) known.set(layer, inputsOf(config, layer));
  return /** @type {Promise<import('./rescaled.mjs').Inputs>} */ (known.get(layer));
});
calibrator.close();
process.exit(0);
