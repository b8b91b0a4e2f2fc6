/**
 * Writes .bullet v1.0 files (docs/FORMAT.md, ".bullet"): every tensor in 4-bit blocks, with a hash instead of its name.
 */
import { BqError } from '../../shared/errors.js';
import { ALIGN, blocksBytes, decodeBlocks, encodeBlocks, MAX_JSON, MAX_TOKENIZER, nameHash, PAGE } from './blocks.js';
import { rowsPerPiece } from '../bq4/encode-tensor.js';
import { ErrorSum, errorsOf } from '../conversion-report.js';
import { listedText } from '../../text/tokenizers/wordlist.js';
import { alignUp } from '../bq4/frame.js';
import { fileSink } from '../output.js';
import { matrixOf } from '../bq4/write-v2.js';

/** @import { Match } from '../bq4/encode-tensor.js' */
/** @import { ConvertOptions } from '../../convert/index.js' */
/** @import { Sink } from '../output.js' */

const MAX_DIM = 65535;
/** Options that .bullet files cannot represent. @type {(keyof ConvertOptions)[]} */
const UNSUPPORTED_OPTIONS = ['quant', 'embed', 'hash', 'v1', 'license', 'card', 'chat'];

const encoder = new TextEncoder();

/** @param {Match} match */
function checkSize({ slot: { name, dims } }) {
  const shape = `tensor "${name}" is ${dims.join(' × ')}`;
  if (dims.some((n) => n > MAX_DIM))
    throw new BqError('SHAPE', `${shape}; the limit of a dimension in .bullet files is ${MAX_DIM}`, {
      hint: 'write a .bq4 file',
    });
  if (blocksBytes(dims) >= 2 ** 32)
    throw new BqError('SHAPE', `${shape}; the limit of a tensor in .bullet files is 4 GiB`, {
      hint: 'write a .bq4 file',
    });
}

/**
 * Encodes the list of tokens. Throws SHAPE.
 * @param {import('../../text/tokenizers/section.js').Tokenizer | null} tokenizer
 */
function encodeTokens(tokenizer) {
  const texts = (tokenizer?.tokens ?? []).map((token) => encoder.encode(listedText(token)));
  const bytes = new Uint8Array(texts.reduce((sum, text) => sum + 2 + text.length, 8));
  const view = new DataView(bytes.buffer);
  encoder.encodeInto('BULK', bytes);
  view.setUint32(4, texts.length, true);
  let at = 8;
  texts.forEach((text, id) => {
    if (text.length > 65535)
      throw new BqError('SHAPE', `token ${id} has ${text.length} bytes; the limit of .bullet files is 65535`);
    view.setUint16(at, text.length, true);
    bytes.set(text, at + 2);
    at += 2 + text.length;
  });
  if (at > MAX_TOKENIZER)
    throw new BqError('SHAPE', `the tokenizer has ${at} bytes; the limit of .bullet files is ${MAX_TOKENIZER}`);
  return bytes;
}

/** Encodes a tensor's entry, without its padding. @param {Match} match */
function encodeEntry({ slot: { name, dims } }) {
  const bytes = new Uint8Array(14 + 2 * dims.length);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, nameHash(name), true);
  bytes[8] = dims.length;
  dims.forEach((n, i) => view.setUint16(9 + 2 * i, n, true));
  view.setUint32(bytes.length - 4, blocksBytes(dims), true);
  return bytes;
}

/**
 * Computes the offsets of all parts after the JSON.
 * @param {number} json  size of the JSON in bytes @param {Uint8Array} tokens @param {Match[]} matches
 */
function place(json, tokens, matches) {
  const tokenizer = alignUp(json + 4, PAGE);
  const tensors = tokenizer + tokens.length;
  let at = tensors + 8;
  const data = matches.map(({ slot: { dims } }) => {
    const start = alignUp(at + 14 + 2 * dims.length, ALIGN);
    const entry = at;
    at = start + blocksBytes(dims);
    return { entry, start };
  });
  return { offsets: { tokenizer, tensors, footer: at }, data };
}

/**
 * Encodes the JSON. It contains offsets that depend on its own length. Offsets only grow from one round to the next, so
 * the loop ends.
 * @param {object} head @param {Uint8Array} tokens @param {Match[]} matches
 */
function layOut(head, tokens, matches) {
  let offsets = { tokenizer: 0, tensors: 0, footer: 0 };
  for (;;) {
    const json = encoder.encode(JSON.stringify({ ...head, file_offsets: offsets }));
    const placed = place(json.length, tokens, matches);
    if (json.length > MAX_JSON)
      throw new BqError(
        'ARGUMENT',
        `the JSON header has ${json.length} bytes; the limit of .bullet files is ${MAX_JSON}`,
        {
          hint: 'choose a shorter --name',
        },
      );
    if (JSON.stringify(placed.offsets) === JSON.stringify(offsets)) return { json, ...placed };
    offsets = placed.offsets;
  }
}

/**
 * Returns a generator of a tensor's blocks, and a function that reports their rounding errors afterwards.
 * @param {Match} match
 */
function blocksOf({ slot, tensor }) {
  const { rows, cols } = matrixOf(slot.dims);
  const step = rowsPerPiece(slot.dims);
  const errors = new ErrorSum();
  async function* pieces() {
    for (let row = 0; row < rows; row += step) {
      const weights = await tensor.read(row, Math.min(step, rows - row));
      const bytes = encodePiece(slot.name, weights, row * cols);
      errors.add(weights.length, errorsOf(weights, decodeBlocks(bytes)));
      yield bytes;
    }
  }
  const report = () => ({
    name: slot.name,
    type: 'bullet',
    layout: 'flat',
    bytes: blocksBytes(slot.dims),
    ...errors.figures,
  });
  return { pieces, report };
}

/** @param {string} name @param {Float32Array} weights @param {number} first  index of the first weight */
function encodePiece(name, weights, first) {
  try {
    return encodeBlocks(weights);
  } catch (cause) {
    if (!(cause instanceof BqError)) throw cause;
    const { index } = cause.details;
    throw new BqError(
      'FORMAT',
      `tensor "${name}", weight ${first + index} is ${weights[index]}: a .bullet file can't represent it`,
      {
        cause,
        hint: 'the checkpoint is damaged, or its weights need a wider type',
        details: { tensor: name, index: first + index },
      },
    );
  }
}

/**
 * @param {Sink} sink @param {Match[]} matches @param {ConvertOptions} options
 * @param {{
 *   config: Record<string, any>, name: string, tokenizer: import('../../text/tokenizers/section.js').Tokenizer | null
 * }} facts
 */
async function write(sink, matches, { onProgress, signal }, { config: { arch, ...dimensions }, name, tokenizer }) {
  const tokens = encodeTokens(tokenizer);
  const head = {
    bullet_version: '1.0',
    model_name: name,
    architecture: arch,
    dimensions,
    quantization: { type: 'BQ4', block_size: 32 },
  };
  const { json, offsets, data } = layOut(head, tokens, matches);
  const count = new Uint8Array(8);
  encoder.encodeInto('BWT0', count);
  new DataView(count.buffer).setUint32(4, matches.length, true);
  await sink.write(0, json);
  await sink.write(offsets.tokenizer, tokens);
  await sink.write(offsets.tensors, count);
  const tensors = matches.map(blocksOf);
  const total = matches.reduce((sum, { slot }) => sum + blocksBytes(slot.dims), 0);
  let done = 0;
  for (const [i, match] of matches.entries()) {
    await sink.write(data[i].entry, encodeEntry(match));
    let at = data[i].start;
    for await (const piece of tensors[i].pieces()) {
      signal?.throwIfAborted();
      await sink.write(at, piece);
      at += piece.length;
      onProgress?.((done += piece.length), total);
    }
  }
  await sink.write(offsets.footer, encoder.encode('END!'));
  return { tensors, written: { bytes: offsets.footer + 4, dataBytes: total }, encoder: 'js' };
}

/**
 * Writes the file. Throws ARGUMENT, SHAPE, FORMAT, WRITE.
 * @param {string} output @param {Match[]} matches @param {unknown} _codec  unused; only .bq4 files need it
 * @param {ConvertOptions} options @param {Parameters<typeof write>[3]} facts
 */
export async function convertBullet(output, matches, _codec, options, facts) {
  const unsupported = UNSUPPORTED_OPTIONS.find((name) => options[name]);
  if (unsupported)
    throw new BqError('ARGUMENT', `--${unsupported} is not supported for .bullet files`, {
      hint: 'write a .bq4 file',
    });
  matches.forEach(checkSize);
  const sink = await fileSink(output);
  try {
    const result = await write(sink, matches, options, facts);
    await sink.finish();
    return result;
  } finally {
    await sink.abort();
  }
}
