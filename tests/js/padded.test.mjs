// Tests of padded GGUF files: a checkpoint with padded rows, which llama.cpp can quantize to K types.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { fromFile } from '../../js/node.js';
import { openGguf } from '../../js/format/gguf/open.js';
import { openFile } from '../../js/storage/sources/file.js';
import { writePadded } from '../../tools/quality/padded.mjs';
import { testFolder } from './folders.mjs';
import { openLogits } from './logits.mjs';

const TINY = fileURLToPath(new URL('../golden/tiny', import.meta.url));
const { fresh } = testFolder('padded');
const TOKENS = Array.from({ length: 40 }, (_, i) => (i * 37 + 5) % 300);

/** @param {string} path */
async function logitsOf(path) {
  const { start, close } = await openLogits(fromFile(path), { contextTokens: 64 });
  const logits = start(TOKENS);
  close();
  return logits;
}

test('writePadded pads the rows of the MLP with zeros, and logits stay bit-identical', async () => {
  const folder = fresh();
  const [plain, same, padded] = ['plain.bq4', 'same.gguf', 'padded.gguf'].map((name) => join(folder, name));
  await convert(TINY, plain, { quant: 'f32', embed: 'f32' });
  await writePadded(TINY, same, 8);
  await writePadded(TINY, padded, 16);
  const { config, tensors } = await openGguf(await openFile(padded), new Uint8Array());
  assert.equal(config.ffn, 80);
  assert.deepEqual(tensors.find(({ name }) => name === 'h.2.mlp.down.weight')?.dims, [48, 80]);
  const unpadded = await logitsOf(same);
  assert.deepEqual(await logitsOf(padded), unpadded);
  // The rows of rotated pairs have another order than in the checkpoint, so scores are summed in another order.
  const checkpointLogits = await logitsOf(plain);
  const difference = Math.max(...checkpointLogits.map((logit, i) => Math.abs(logit - unpadded[i])));
  assert.ok(difference < 1e-4, `a logit differs by ${difference}`);
});

test('writePadded refuses a model whose hidden size is not a multiple of the block', async () => {
  const error = { code: 'UNSUPPORTED', message: /expected a hidden size that is a multiple of 256, found 48/ };
  await assert.rejects(writePadded(TINY, join(fresh(), 'out.gguf')), error);
});
