#!/usr/bin/env node
// Makes a model that computes the same function with weights that 4-bit blocks can't store exactly. Often only a quantized file of a model
// is available. Its storage type then stores the weights exactly, so its measured error tells nothing about models in full precision. Rows
// of the weights that produce the inputs of a layer's products are multiplied by factors from 2^-1/4 to 2^1/4, the same on every machine.
// The columns of these products are divided by the same factors.
//   node tools/quality/rescaled.mjs F32.bq4 OUT.bq4      LLaMA's architecture: norms and products without biases, a gated MLP
import { open } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { bq4Input } from '../../bin/bq4-checkpoint.js';
import { matchTensors } from '../../js/format/bq4/names.js';
import { fromFile } from '../../js/node.js';
import { quantize } from '../../js/quantize/index.js';
import { folded, scaled, scalesIn } from '../../js/quantize/smooth.js';
import { openSource } from '../../js/storage/sources/index.js';

/** Returns n pseudorandom factors from 2^-1/4 to 2^1/4. @param {number} n @param {number} seed */
function randomScales(n, seed) {
  let state = seed;
  return Float32Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return 2 ** (state / 2 ** 33 - 0.25);
  });
}

/** Returns the factors for rows and columns of a layer's tensors. @param {any} config @param {number} layer */
function scalesOfLayer({ hidden, ffn, heads, kv_heads: kvHeads, head_dim: headSize }, layer) {
  const [norm, mlpNorm, values, up] = [hidden, hidden, kvHeads * headSize, ffn].map((n, i) =>
    randomScales(n, 4 * layer + i + 1),
  );
  return scalesIn({ heads, kvHeads, width: headSize }, { norm, mlpNorm, values, up });
}

/** Names of tensors in bq4 files, by their names in GGUF files. @type {Record<string, string>} */
const BQ4_NAMES = {
  attn_norm: 'ln1',
  attn_q: 'attn.q',
  attn_k: 'attn.k',
  attn_v: 'attn.v',
  attn_output: 'attn.o',
  ffn_norm: 'ln2',
  ffn_gate: 'mlp.gate',
  ffn_up: 'mlp.up',
  ffn_down: 'mlp.down',
};

/** Rescales a GGUF file with F32 tensors in place. @param {string} path @param {any} description  output of `bq4 inspect --json` */
export async function rescaleGguf(path, { config, tensors }) {
  const file = await open(path, 'r+');
  for (const { name, dims, offset, bytes, type } of tensors) {
    const [, layer, kind] = /^blk\.(\d+)\.(\w+)\.weight$/.exec(name) ?? [];
    if (!layer) continue;
    if (type !== 'F32') throw new Error(`${name}: expected type F32, found ${type}`);
    const weights = new Float32Array(bytes / 4);
    await file.read(new Uint8Array(weights.buffer), 0, bytes, offset);
    const out = scaled(weights, 0, dims[1] ?? 1, scalesOfLayer(config, Number(layer))[BQ4_NAMES[kind]]);
    await file.write(new Uint8Array(out.buffer), 0, bytes, offset);
  }
  await file.close();
}

/** Rescales a bq4 file with f32 tensors. @param {string} from  path @param {string} to  path */
export async function rescale(from, to) {
  const file = await openSource(fromFile(from));
  const input = await bq4Input(file);
  const layers = new Map(
    Array.from({ length: input.config.layers }, (_, layer) => [layer, scalesOfLayer(input.config, layer)]),
  );
  const tensors = new Map(
    matchTensors(input.config, input.tensors).map((match) => [match.slot.name, folded(match, layers).tensor]),
  );
  await quantize({ ...input, tensors, stamp: undefined }, to, { quant: 'f32', embed: 'f32' });
  await file.close();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await rescale(process.argv[2], process.argv[3]);
