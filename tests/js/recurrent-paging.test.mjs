// Tests of recurrent layers that are read from storage for every token: the tokens equal those of the same model in memory.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convert } from '../../js/convert/index.js';
import { createEngine, fromFile } from '../../js/node.js';
import { tokenizerBin } from './checkpoints.mjs';
import { testFolder } from './folders.mjs';

const FIXTURES = fileURLToPath(new URL('../golden/fixtures/', import.meta.url));
const { fresh } = testFolder('recurrent-paging');
const SIZES = { contextTokens: 64, prefillWindow: 8, prefillBatch: 4, kv: /** @type {const} */ ('i8') };
/** Tokens that end a text do not occur. */
const NO_END = [0, 1, 2, 3].map((token) => ({ token, bias: -Infinity }));
/** How often the layers of a fixture follow each other: a budget must leave room for two of them. */
const TIMES = 4;

/** A folder with a fixture whose layers are repeated. @param {string} name */
function repeated(name) {
  const folder = fresh();
  const from = join(FIXTURES, name);
  const config = JSON.parse(readFileSync(join(from, 'config.json'), 'utf8'));
  const bytes = readFileSync(join(from, 'model.safetensors'));
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const layers = config.num_hidden_layers;
  /** @type {Record<string, any>} */
  const header = {};
  /** @type {Buffer[]} */
  const parts = [];
  let at = 0;
  for (const [tensor, facts] of Object.entries(JSON.parse(bytes.toString('utf8', 8, start)))) {
    if (tensor === '__metadata__') continue;
    const data = bytes.subarray(start + facts.data_offsets[0], start + facts.data_offsets[1]);
    for (let i = 0; i < (tensor.includes('layers.') ? TIMES : 1); i++) {
      const named = tensor.replace(/layers\.(\d+)/, (_, layer) => `layers.${Number(layer) + i * layers}`);
      header[named] = { ...facts, data_offsets: [at, (at += data.length)] };
      parts.push(data);
    }
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(join(folder, 'model.safetensors'), Buffer.concat([length, text, ...parts]));
  const types = config.layer_types && { layer_types: Array(TIMES).fill(config.layer_types).flat() };
  writeFileSync(
    join(folder, 'config.json'),
    JSON.stringify({ ...config, ...types, num_hidden_layers: layers * TIMES }),
  );
  writeFileSync(join(folder, 'tokenizer.bin'), tokenizerBin(config.vocab_size));
  return folder;
}

for (const name of ['lfm2', 'lfm3', 'qwen35', 'granite-hybrid', 'falcon-h1', 'mamba2'])
  test(`${name}: the tokens of a model in memory, with a third of its weights left out`, async () => {
    const path = join(fresh(), 'model.bq4');
    await convert(repeated(name), path, { quant: 'f32', embed: 'f32' });
    const { ids } = JSON.parse(readFileSync(join(FIXTURES, name, 'expected.json'), 'utf8'));
    const engine = await createEngine({ cache: false });
    const whole = await engine.plan(fromFile(path), SIZES);
    const memoryBudget = whole.heapBytes - Math.ceil(whole.weightBytes / 3);
    const tokensOf = async (/** @type {object} */ options) => {
      const model = await engine.load(fromFile(path), { ...SIZES, ...options });
      const session = await model.createSession();
      const sampling = { temperature: 1, seed: 3, logitBias: NO_END };
      const { tokens } = await session.generate(ids.slice(0, 20), { ...sampling, maxTokens: 20 }).result;
      const { residency } = model.info;
      await model.close();
      return { residency, tokens: [...tokens] };
    };
    const [resident, paged] = [await tokensOf({}), await tokensOf({ memoryBudget })];
    await engine.close();
    assert.deepEqual([resident.residency, paged.residency], ['resident', 'paged']);
    assert.equal(paged.tokens.length, 20);
    assert.deepEqual(paged.tokens, resident.tokens);
  });
