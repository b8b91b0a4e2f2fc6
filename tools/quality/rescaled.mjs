#!/usr/bin/env node
// A model that computes the same function with weights that no blocks of 4 bits hold: what is known of a model is often a file that was
// rounded, and then the type it was rounded to keeps it exactly, which says nothing of models that one has in full precision. Each input of a
// layer's products gets a scale from 2^-1/4 to 2^1/4, the same on every machine, and what makes that input the inverse.
//   node tools/quality/rescaled.mjs F32.bq4 OUT.bq4      LLaMA's architecture: norms and products without biases, a gated MLP
import { fileURLToPath } from 'node:url';
import { bq4Input } from '../../bin/bq4-checkpoint.js';
import { fromFile } from '../../js/engine.js';
import { quantize } from '../../js/quantize/index.js';
import { openSource } from '../../js/sources/index.js';

/** @param {number} n @param {number} seed */
function scalesOf(n, seed) {
  let state = seed;
  return Float32Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return 2 ** (state / 2 ** 33 - 0.25);
  });
}

/** @param {string} from @param {string} to */
export async function rescale(from, to) {
  const file = await openSource(fromFile(from));
  const input = await bq4Input(file);
  const { layers, hidden, ffn, heads, kv_heads: kvHeads, head_dim: width } = input.config;
  /** Of a tensor: what its rows are multiplied and its columns divided by. @type {Map<string, { rows?: Float32Array, columns?: Float32Array }>} */
  const scales = new Map();
  for (let layer = 0; layer < layers; layer++) {
    const [norm, mlpNorm, values, up] = [hidden, hidden, kvHeads * width, ffn].map((n, i) =>
      scalesOf(n, 4 * layer + i + 1),
    );
    // Several heads read the values of one.
    const read = Float32Array.from(
      { length: heads * width },
      (_, i) => values[width * Math.floor(Math.floor(i / width) / (heads / kvHeads)) + (i % width)],
    );
    const add = (/** @type {string} */ name, /** @type {{ rows?: Float32Array, columns?: Float32Array }} */ by) =>
      scales.set(`h.${layer}.${name}.weight`, by);
    add('ln1', { rows: norm });
    for (const name of ['attn.q', 'attn.k']) add(name, { columns: norm });
    add('attn.v', { rows: values, columns: norm });
    add('attn.o', { columns: read });
    add('ln2', { rows: mlpNorm });
    add('mlp.gate', { columns: mlpNorm });
    add('mlp.up', { rows: up, columns: mlpNorm });
    add('mlp.down', { columns: up });
  }
  const tensors = new Map(
    [...input.tensors].map(([name, { dims, read }]) => {
      const { rows, columns } = scales.get(name) ?? {};
      const cols = dims.length > 1 ? dims[1] : 1;
      /** @param {number} row @param {number} n */
      const scaled = async (row, n) => {
        const first = dims.length > 1 ? row : 0;
        return (await read(row, n)).map(
          (w, i) => (w * (rows ? rows[first + Math.floor(i / cols)] : 1)) / (columns ? columns[i % cols] : 1),
        );
      };
      return [name, { dims, read: scaled }];
    }),
  );
  await quantize({ ...input, tensors }, to, { quant: 'f32', embed: 'f32' });
  await file.close();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await rescale(process.argv[2], process.argv[3]);
