// Tests of other containers: the host describes the content of a file in a manifest, and the engine streams it.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { quantize } from './encode.mjs';
import { canonicalTensors, configOf } from '../../js/format/families/names.js';
import { convert } from '../../js/convert/index.js';
import { memorySink } from '../../js/format/output.js';
import { ROWS, runLayout, TYPES, typeNamed } from '../../js/format/bq4/weight-types.js';
import { matrixOf, writeV2 } from '../../js/format/bq4/write-v2.js';
import { xxh64 } from './xxh64.mjs';
import { createEngine, fromBytes, fromFile, fromUrl } from '../../js/node.js';
import { encodeManifest } from '../../js/format/bq4/manifest.js';
import { readDirectory } from '../../js/format/bq4/read-v1.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { hfConfig, hfFolder, hfName, randomWeights, safetensors } from './checkpoints.mjs';
import { CONFIG, tokenizer } from './fixture.mjs';
import { openLogits } from './logits.mjs';
import { faultServer } from '../server/faults.mjs';
import { v1 } from './v1.mjs';

const folder = mkdtempSync(join(tmpdir(), 'bq4-manifest-'));
after(() => rmSync(folder, { recursive: true }));

const config = { ...CONFIG, hidden: 64, ffn: 96, layers: 2, context: 64 };
const PROMPT = Array.from({ length: 40 }, (_, i) => (i * 37 + 5) % config.vocab);
/** @type {Record<string, string>} */
const TYPE = { F32: 'f32', F16: 'f16', BF16: 'bf16' };

/** Logits after each of three runs. @param {import('../../js/shared/types.js').SourceLike} source */
async function logitsOf(source) {
  const model = await openLogits(source);
  const all = [model.start(PROMPT), model.next(3), model.next(200)];
  model.close();
  return all.map((logits) => Buffer.from(logits.buffer, logits.byteOffset, logits.byteLength).toString('hex'));
}

/** The manifest of a safetensors file in Hugging Face's layout, of which no tensor has to be cut or turned. @param {Uint8Array} file @param {Record<string, any>} hf */
function manifestOf(file, hf) {
  const ours = configOf(hf);
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  const start = 8 + Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, start)));
  delete header.__metadata__;
  const tensors = Object.entries(header).flatMap(
    ([
      original,
      {
        dtype,
        shape,
        data_offsets: [from, to],
      },
    ]) =>
      canonicalTensors(hf, ours, original, /** @type {any} */ ({ dims: shape })).map(([name, { dims }]) => ({
        name,
        dims,
        type: typeNamed(TYPE[dtype]),
        layout: ROWS,
        offset: start + from,
        bytes: to - from,
      })),
  );
  return encodeManifest({
    config: ours,
    tensors,
    tokenizer: tokenizer(),
    name: 'direct',
    license: 'MIT',
    id: new Uint8Array(16).fill(9),
  });
}

for (const dtype of Object.keys(TYPE))
  test(`safetensors of ${dtype}, streamed as they are, are the same model as their .bq4`, async () => {
    const weights = randomWeights(config);
    const hf = hfConfig(config);
    const output = join(folder, `${dtype}.bq4`);
    await convert(hfFolder(join(folder, dtype), weights, { config: hf, dtype }), output, {
      quant: TYPE[dtype],
      embed: TYPE[dtype],
    });
    // In another order than they are computed with, and aligned to 8 bytes at most.
    const file = safetensors(
      [...weights].reverse().map(([name, tensor]) => [hfName(name), tensor]),
      dtype,
    );
    const manifest = manifestOf(file, hf);
    assert.deepEqual(await logitsOf(fromBytes(file, { manifest })), await logitsOf(fromFile(output)));
  });

/** Blocks of GGUF from the row-major blocks of ours with the same values. @param {'q8_0' | 'q4_0'} to @param {Uint8Array} blocks */
function ggufBlocks(to, blocks) {
  const [from, size] = to === 'q8_0' ? [34, 34] : [18, 18];
  const out = new Uint8Array((blocks.length / from) * size);
  for (let at = 0; at < blocks.length; at += from) {
    out.set(blocks.subarray(at + from - 2, at + from), at);
    if (to === 'q8_0') out.set(blocks.subarray(at, at + 32), at + 2);
    // Nibbles of weights 2i and 2i + 1, two's complement; theirs are of i and i + 16, from 0 to 15.
    const nibble = (/** @type {number} */ w) => ((blocks[at + (w >> 1)] >> (4 * (w & 1))) & 15) ^ 8;
    for (let i = 0; to === 'q4_0' && i < 16; i++) out[at + 2 + i] = nibble(i) | (nibble(i + 16) << 4);
  }
  return out;
}

/** A file like GGUF: a header, then tensors at multiples of 32, and the .bq4 with the same values. @param {'q8_0' | 'q4_0'} stored @param {string} run */
async function ggufLike(stored, run) {
  const weights = randomWeights(config);
  const type = typeNamed(run);
  const own = [];
  const listed = [];
  const parts = [Buffer.from('GGUF, and kilobytes of metadata'.padEnd(4096, '.'))];
  let at = 4096;
  for (const [name, { dims, values }] of [...weights].reverse()) {
    const vector = dims.length === 1;
    const { rows, cols } = matrixOf(dims);
    const bytes = vector
      ? new Uint8Array(values.slice().buffer)
      : ggufBlocks(stored, quantize(type.id, ROWS, values, rows, cols));
    const listedType = /** @type {import('../../js/format/bq4/weight-types.js').WeightType} */ (
      TYPES.find((t) => t.name === (vector ? 'f32' : stored))
    );
    listed.push({ name, dims, type: listedType, layout: ROWS, offset: at, bytes: bytes.length });
    const padded = Math.ceil(bytes.length / 32) * 32;
    parts.push(Buffer.concat([bytes, Buffer.alloc(padded - bytes.length, 0xa5)]));
    at += padded;
    const ourType = vector ? typeNamed('f32') : type;
    const layout = vector ? ROWS : runLayout(type);
    own.unshift({
      name,
      dims,
      type: ourType,
      layout,
      async *pieces() {
        yield quantize(ourType.id, layout, values, rows, cols);
      },
    });
  }
  const sink = memorySink();
  await writeV2(sink, { config, tensors: own }, { hash: xxh64 });
  return { file: Buffer.concat(parts), listed, bq4: sink.bytes };
}

for (const [stored, run] of /** @type {['q8_0' | 'q4_0', string][]} */ ([
  ['q8_0', 'bq8'],
  ['q4_0', 'bq4h'],
]))
  test(`a file of ${stored} at multiples of 32: repacked as it lands, the same model as ${run}`, async () => {
    const { file, listed, bq4 } = await ggufLike(stored, run);
    assert.deepEqual(
      await logitsOf(fromBytes(file, { manifest: encodeManifest({ config, tensors: listed }) })),
      await logitsOf(fromBytes(bq4)),
    );
  });

test('a file over the network that a manifest describes gives the same tokens', async () => {
  const weights = randomWeights(config);
  const file = safetensors([...weights].map(([name, tensor]) => [hfName(name), tensor]));
  const manifest = manifestOf(file, hfConfig(config));
  const server = await faultServer({ '/model.safetensors': file });
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const seen = [];
  for (const source of [
    fromUrl(new URL('/model.safetensors', server.url), { manifest }),
    fromBytes(file, { manifest }),
  ]) {
    const model = await engine.load(source);
    const { info } = model;
    assert.deepEqual(
      [info.version, info.name, info.license, info.layers, info.fileBytes],
      [0, 'direct', 'MIT', 2, file.length],
    );
    const session = await model.createSession();
    seen.push((await session.generate('Once upon', { temperature: 0, maxTokens: 8 }).result).tokens.join());
    await model.close();
  }
  assert.equal(new Set(seen).size, 1);
  await engine.close();
  await server.close();
});

test('invalid manifests and models that cannot be paged are refused', async () => {
  const { file, listed } = await ggufLike('q8_0', 'bq8');
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  /** @param {any[]} tensors @param {any} more */
  const source = (tensors, more = {}) => fromBytes(file, { manifest: encodeManifest({ config, tensors, ...more }) });
  const refused = (/** @type {any} */ from, /** @type {string} */ code, /** @type {RegExp} */ says, options = {}) =>
    assert.rejects(
      engine.load(from, options),
      (/** @type {any} */ e) => e.code === code && says.test(e.message) && e.hint !== '',
    );
  const changed = (/** @type {any} */ change) => [{ ...listed[0], ...change }, ...listed.slice(1)];
  await refused(source(changed({ offset: listed[1].offset })), 'FORMAT', /overlap/);
  await refused(source(changed({ offset: file.length })), 'TRUNCATED', /ends at/);
  await refused(source(changed({ offset: 2 ** 53 + 2 })), 'FORMAT', /beyond any file/);
  await refused(source(changed({ bytes: listed[0].bytes + 1 })), 'FORMAT', /bytes, its type and shape take/);
  await refused(source(changed({ name: 'model.norm.weight' })), 'FORMAT', /no model has/);
  await refused(source(listed.slice(1)), 'SHAPE', /missing/);
  await refused(source([...listed, listed[0]]), 'FORMAT', /twice/);
  await refused(source(listed, { id: new Uint8Array(15) }), 'FORMAT', /FILE/);
  await refused(fromBytes(file, { manifest: new Uint8Array(16) }), 'FORMAT', /section/);
  assert.throws(
    () => fromBytes(file, { manifest: /** @type {any} */ ('text') }),
    (/** @type {any} */ e) => e.code === 'ARGUMENT' && /^manifest: expected a Uint8Array, found "text"/.test(e.message),
  );
  const { heapBytes } = await engine.plan(source(listed));
  await assert.rejects(
    engine.load(source(listed), { memoryBudget: heapBytes - 65536 }),
    (/** @type {any} */ e) =>
      e.code === 'NOMEM' &&
      e.cause.code === 'UNSUPPORTED' &&
      /can't be paged: it is not stored as it is computed with/.test(e.hint),
  );
  await engine.close();
});

test('a manifest describes the tensors of a v1 file', async () => {
  const { file } = await v1({ ...CONFIG, hidden: 64, ffn: 96 });
  const read = (/** @type {Uint8Array} */ bytes, first = 12) =>
    readDirectory(openBytes(bytes), bytes.subarray(0, first), CONFIG.layers);
  const good = await read(file);
  assert.deepEqual(good, await read(file, 65536));
  assert.equal(good[0].name, 'wte.weight');
  const view = (/** @type {(v: DataView) => void} */ change) => {
    const bytes = file.slice();
    change(new DataView(bytes.buffer));
    return bytes;
  };
  const entry = 12 + 4 + 10; // of wte.weight, behind its name
  /** @type {[string, Uint8Array, RegExp][]} */
  const cases = [
    ['a billion tensors', view((v) => v.setUint32(8, 1e9, true)), /1000000000 tensors/],
    ['no name', view((v) => v.setUint32(12, 0, true)), /0 bytes/],
    ['a long name', view((v) => v.setUint32(12, 256, true)), /256 bytes/],
    ['no dimension', view((v) => v.setUint32(entry, 0, true)), /0 dimensions/],
    ['nine', view((v) => v.setUint32(entry, 9, true)), /9 dimensions/],
    ['a dimension of 0', view((v) => v.setUint32(entry + 4, 0, true)), /blocks of \d+ weights, but/],
    ['blocks of 8', view((v) => v.setUint32(entry + 12, 8, true)), /blocks of 8/],
    ['blocks of 64', view((v) => v.setUint32(entry + 12, 64, true)), /blocks of \d+ weights, but/],
    [
      'a block too many',
      view((v) => v.setUint32(entry + 16, v.getUint32(entry + 16, true) + 1, true)),
      /blocks of \d+ weights, but/,
    ],
    ['data in the directory', view((v) => v.setBigUint64(entry + 20, 100n, true)), /overlaps the directory/],
    ['data beyond any file', view((v) => v.setBigUint64(entry + 20, 2n ** 63n, true)), /impossible offset/],
  ];
  for (const [what, bytes, says] of cases)
    await assert.rejects(read(bytes), (/** @type {any} */ e) => e.code === 'FORMAT' && says.test(e.message), what);
  const end = Math.min(...good.map(({ offset }) => offset));
  for (let n = 0; n < end; n += 7)
    await assert.rejects(
      read(file.slice(0, n)),
      (/** @type {any} */ e) => e.code === 'TRUNCATED' && e.offset === n,
      `${n} bytes`,
    );
});
