// Tiny .bq4 files of version 1 and their sidecars.
import { tokenizerToJson, toBase64 } from '../../js/format/bq4/companion-json.js';
import { quantize } from './encode.mjs';
import { tensorTable } from '../../js/format/bq4/names.js';
import { memorySink } from '../../js/format/output.js';
import { FLAT } from '../../js/format/bq4/weight-types.js';
import { v1Type, writeV1 } from '../../js/format/bq4/write-v1.js';
import { matrixOf } from '../../js/format/bq4/write-v2.js';
import { CHAT, random, tokenizer } from './fixture.mjs';

/** The `pieces` of a tensor: an async generator of its bytes, in a single part. */
export const singlePiece = (bytes) =>
  async function* () {
    yield bytes;
  };
/** All tensors of a configuration, with random values. */
export const randomTensors = (config) => {
  const next = random(3);
  return tensorTable(config)
    .filter((slot) => slot.required)
    .map(({ name, dims }) => {
      const { rows, cols } = matrixOf(dims);
      return {
        name,
        dims,
        data: Float32Array.from({ length: rows * cols }, () =>
          /ln.*weight/.test(name) ? 1 + 0.1 * next() : 0.5 * next(),
        ),
      };
    });
};

/** A file of version 1 and its sidecar. `loose`: names of the tensors in the sidecar, whose types version 1 does not have. */
export async function v1(config) {
  const tensors = [];
  const loose = {};
  for (const { name, dims, data } of randomTensors(config)) {
    const type = v1Type(dims);
    if (type) tensors.push({ name, dims, type, pieces: singlePiece(quantize(type.id, FLAT, data, 1, data.length)) });
    else loose[name] = { dims, f32: toBase64(new Uint8Array(data.buffer)) };
  }
  const sink = memorySink();
  await writeV1(sink, tensors);
  const json = {
    bq4_companion: 1,
    config,
    license: 'CC0-1.0',
    name: 'tiny v1',
    tokenizer: tokenizerToJson(tokenizer()),
    chat: CHAT,
    tensors: loose,
  };
  return { file: sink.bytes, json, loose: Object.keys(loose) };
}
