// Measures loading files from memory with one thread: a file of version 1, whose rows are repacked to tiles while it is streamed, and a
// file of version 2 with weights of the same type, which is hashed and copied.
import { createCodec } from '../../../js/format/bq4/codec.js';
import { tensorTable } from '../../../js/format/bq4/names.js';
import { FLAT, ROWS, runLayout, typeNamed, weightBytes } from '../../../js/format/bq4/weight-types.js';
import { v1Type, writeV1 } from '../../../js/format/bq4/write-v1.js';
import { matrixOf, writeV2 } from '../../../js/format/bq4/write-v2.js';
import { createEngine, fromBytes } from '../../../js/node.js';

const ROUNDS = 5;
/** Four bytes of weights and scales that every loader accepts: as an f32 near 1, or as nibbles. */
const WORD = 0x3f81b45a;

/** Yields bytes of a tensor. @param {number} bytes */
async function* fillingBytes(bytes) {
  yield new Uint8Array(new Uint32Array(Math.ceil(bytes / 4)).fill(WORD).buffer, 0, bytes);
}

/** Returns a sink of fixed size. A growing one would copy 84 MB many times. @param {number} capacity  bytes */
function fixedSink(capacity) {
  const buffer = new Uint8Array(capacity);
  let end = 0;
  return {
    get bytes() {
      return buffer.subarray(0, end);
    },
    async write(/** @type {number} */ at, /** @type {Uint8Array} */ bytes) {
      buffer.set(bytes, at);
      end = Math.max(end, at + bytes.length);
    },
    async finish() {},
    async abort() {},
  };
}

/** Returns both files. All matrices have the type bq4_32. @param {Record<string, any>} config */
async function makeFiles(config) {
  const slots = tensorTable(config).filter(({ required }) => required);
  const type = typeNamed('bq4_32');
  const v1Tensors = slots.map(({ name, dims }) => {
    const storageType = v1Type(dims);
    if (storageType !== type)
      throw new Error(`expected a multiple of 32 elements in ${name}, found dimensions ${dims.join(' x ')}`);
    return {
      name,
      dims,
      type,
      pieces: () =>
        fillingBytes(
          weightBytes(
            type,
            FLAT,
            1,
            dims.reduce((a, b) => a * b, 1),
          ),
        ),
    };
  });
  const v2Tensors = slots.map(({ name, dims }) => {
    const { rows, cols } = matrixOf(dims);
    const [storedType, layout] = dims.length === 1 ? [typeNamed('f32'), ROWS] : [type, runLayout(type)];
    return {
      name,
      dims,
      type: storedType,
      layout,
      pieces: () => fillingBytes(weightBytes(storedType, layout, rows, cols)),
    };
  });
  const capacity = 2e6 + slots.reduce((sum, { dims }) => sum + (dims.reduce((a, b) => a * b, 1) * 5) / 8 + 65536, 0);
  const [v1, v2] = [fixedSink(capacity), fixedSink(capacity)];
  const codec = await createCodec(1 << 20);
  await writeV1(v1, v1Tensors);
  await writeV2(v2, { config, tensors: v2Tensors }, { hash: (bytes) => codec.hash(bytes) });
  const companion = new TextEncoder().encode(
    JSON.stringify({ bq4_companion: 1, config, name: 'version 1', tensors: {} }),
  );
  return {
    v1: fromBytes(v1.bytes, { companion: fromBytes(companion) }),
    v2: fromBytes(v2.bytes),
    bytes: v1.bytes.length,
    copied: v2.bytes.length,
  };
}

/** Returns the bytes of each file and the median of its load in milliseconds, measured in alternation. @param {Record<string, any>} config @param {import('../../../js/shared/types.js').Build} [build] */
export async function measureLoads(config, build) {
  const { v1, v2, bytes, copied: v2Bytes } = await makeFiles(config);
  const engine = await createEngine({ threads: 1, build: build });
  const times = { v1: /** @type {number[]} */ ([]), v2: /** @type {number[]} */ ([]) };
  for (let round = -1; round < ROUNDS; round++)
    // The first round is a warm-up.
    for (const [name, source] of /** @type {const} */ ([
      ['v1', v1],
      ['v2', v2],
    ])) {
      const start = performance.now();
      const model = await engine.load(source, { contextTokens: 16 });
      if (round >= 0) times[name].push(performance.now() - start);
      await model.close();
    }
  await engine.close();
  const median = (/** @type {number[]} */ list) => list.sort((a, b) => a - b)[list.length >> 1];
  return { v1: { bytes, ms: median(times.v1) }, v2: { bytes: v2Bytes, ms: median(times.v2) } };
}
