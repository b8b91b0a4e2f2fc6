// How fast files get into the engine once their bytes are there: one of version 1, whose rows become tiles while it
// streams, and one of version 2 with weights of the same type, which is hashed and copied. From memory, one thread.
import { createCodec } from '../../../js/format/bq4/codec.js';
import { tensorTable } from '../../../js/format/bq4/names.js';
import { FLAT, ROWS, runLayout, typeNamed, weightBytes } from '../../../js/format/bq4/weight-types.js';
import { v1Type, writeV1 } from '../../../js/format/bq4/write-v1.js';
import { matrixOf, writeV2 } from '../../../js/format/bq4/write-v2.js';
import { createEngine, fromBytes } from '../../../js/node.js';

const ROUNDS = 5;
/** Weights and scales, 4 bytes each, that no loader refuses: an f32 near 1, or nibbles. */
const WORD = 0x3f81b45a;

/** @param {number} bytes */
async function* filling(bytes) {
  yield new Uint8Array(new Uint32Array(Math.ceil(bytes / 4)).fill(WORD).buffer, 0, bytes);
}

/** A sink that ends where the file does: one that grows would copy 84 MB again and again. @param {number} room */
function sinkOf(room) {
  const all = new Uint8Array(room);
  let end = 0;
  return {
    get bytes() {
      return all.subarray(0, end);
    },
    async write(/** @type {number} */ at, /** @type {Uint8Array} */ bytes) {
      all.set(bytes, at);
      end = Math.max(end, at + bytes.length);
    },
    async finish() {},
    async abort() {},
  };
}

/** Both files, all tensors of type bq4_32. @param {Record<string, any>} config */
async function files(config) {
  const table = tensorTable(config).filter(({ required }) => required);
  const type = typeNamed('bq4_32');
  const one = table.map(({ name, dims }) => {
    const stored = v1Type(dims);
    if (stored !== type) throw new Error(`${name} has a length that 32 does not divide`);
    return {
      name,
      dims,
      type,
      pieces: () =>
        filling(
          weightBytes(
            type,
            FLAT,
            1,
            dims.reduce((a, b) => a * b, 1),
          ),
        ),
    };
  });
  const two = table.map(({ name, dims }) => {
    const { rows, cols } = matrixOf(dims);
    const [wanted, layout] = dims.length === 1 ? [typeNamed('f32'), ROWS] : [type, runLayout(type)];
    return { name, dims, type: wanted, layout, pieces: () => filling(weightBytes(wanted, layout, rows, cols)) };
  });
  const room = 2e6 + table.reduce((sum, { dims }) => sum + (dims.reduce((a, b) => a * b, 1) * 5) / 8 + 65536, 0);
  const [v1, v2] = [sinkOf(room), sinkOf(room)];
  const codec = await createCodec(1 << 20);
  await writeV1(v1, one);
  await writeV2(v2, { config, tensors: two }, { hash: (bytes) => codec.hash(bytes) });
  const companion = new TextEncoder().encode(
    JSON.stringify({ bq4_companion: 1, config, name: 'of version 1', tensors: {} }),
  );
  return {
    v1: fromBytes(v1.bytes, { companion: fromBytes(companion) }),
    v2: fromBytes(v2.bytes),
    bytes: v1.bytes.length,
    copied: v2.bytes.length,
  };
}

/** Medians of loads in turn, milliseconds; bytes of each file. @param {Record<string, any>} config @param {import('../../../js/shared/types.js').Build} [variant] */
export async function loadRates(config, variant) {
  const { v1, v2, bytes, copied } = await files(config);
  const engine = await createEngine({ threads: 1, build: variant });
  const times = { v1: /** @type {number[]} */ ([]), v2: /** @type {number[]} */ ([]) };
  for (let round = -1; round < ROUNDS; round++)
    // the first one warms up
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
  return { v1: { bytes, ms: median(times.v1) }, v2: { bytes: copied, ms: median(times.v2) } };
}
