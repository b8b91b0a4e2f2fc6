/**
 * Converts models of other formats to .bq4, .bullet and .qsf files. Weights are converted a few rows at a time, so that
 * a model does not have to fit in memory. Node only.
 */
import { BqError } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { encodeActivations } from '../format/bq4/activation-steps.js';
import { openCheckpoint } from './checkpoint.js';
import { createCodec, createHasher } from '../format/bq4/codec.js';
import { conversionReport } from '../format/conversion-report.js';
import { toBase64, tokenizerToJson } from '../format/bq4/companion-json.js';
import { matchTensors } from '../format/bq4/names.js';
import { isNetworkError, keyOf, openJournal, reportsOf } from './journal.js';
import { fileSink } from '../format/output.js';
import { encoded } from '../format/bq4/encode-tensor.js';
import { chatFormat, chosenTypes, largestPieceOf, metaFor, tokenizerOf, v2Tensors } from './parts.js';
import { withRowScales } from '../format/bq4/row-scales.js';
import { readJsonFile } from './folder.js';
import { readTokenizerFile } from './tokenizer-files.js';
import { encodeTokenizer } from '../text/tokenizers/section.js';
import { FLAT, typeNamed } from '../format/bq4/weight-types.js';
import { convertBullet } from '../format/bullet/write.js';
import { qsfChoices, writeQsf } from '../format/qsf/write.js';
import { v1Type, writeV1 } from '../format/bq4/write-v1.js';
import { matrixOf, prefixLengthOf, writeV2 } from '../format/bq4/write-v2.js';

/**
 * @typedef {object} ConvertOptions
 * @property {string} [tokenizer]  path of a tokenizer file; default: the tokenizer file in the folder of the model, if
 *   there is one
 * @property {string} [quant]   type of the matrices; default "bq4a", for ternary matrices (BitNet) "bqt", for v1 files
 *   "bq4"
 * @property {string} [embed]   type of embedding and LM head; default "bq8" if matrices are quantized, otherwise
 *   `quant`
 * @property {string} [hash]    hash of the chunks: "xxh64" (default) detects damage; "sha256" together with an
 *   `integrity` also detects manipulation while the file is loaded
 * @property {string} [compress]  compression of the layers of a .qsf file: "none" (default), "lz4" or "zstd"
 * @property {boolean} [rowScales]  divides the rows of each layer's matrices by scales, which the file also stores; the
 *   errors in the report are those of the divided rows
 * @property {string} [activationSteps]  path of a JSON file with quantization steps of activations:
 *   { "h.0.attn.q": 0.0123, ... }
 * @property {boolean} [v1]     writes a v1.0 file and its sidecar config NAME.json, with all matrices as BQ4
 * @property {string} [name]
 * @property {string} [license]  an SPDX id or the text of a license
 * @property {string} [card]    path of a model card
 * @property {string} [chat]    path of a JSON file with the chat format; default: derived from the chat template or
 *   from special tokens
 * @property {(done: number, total: number) => void} [onProgress]  called with the converted and the total number of
 *   bytes
 * @property {AbortSignal} [signal]
 * @property {string} [revision]  branch, tag or commit of hf:owner/name; default "main"
 * @property {string} [endpoint]  address of the hub; default https://huggingface.co
 * @property {string} [token]     access token for the hub
 */

/** @typedef {import('../format/conversion-report.js').ConvertReport} ConvertReport */
/** @typedef {import('../format/bq4/encode-tensor.js').Match} Match */

/** Reads a JSON file. Throws READ, FORMAT. @param {string} path */
export async function readJsonAt(path) {
  const json = await readJsonFile(path);
  if (!json) throw new BqError('READ', `${path} can't be read: there is no such file`);
  return json;
}

/** @param {string} path @returns {(vocab: number) => Promise<import('../text/tokenizers/section.js').Tokenizer>} */
const tokenizerAt = (path) => (vocab) => readTokenizerFile(path, { vocab });

/**
 * Returns the content of a v1 file's sidecar.
 * @param {Match[]} extra  tensors that v1 files cannot store @param {Record<string, any>} facts
 */
async function sidecarOf(extra, { tokenizer, chat, stamp: _, activations: _none, ...facts }) {
  /** @type {Record<string, any>} */
  const tensors = {};
  for (const { slot, tensor } of extra) {
    const values = await tensor.read(0, matrixOf(slot.dims).rows);
    tensors[slot.name] = {
      dims: slot.dims,
      f32: toBase64(new Uint8Array(values.buffer, values.byteOffset, values.byteLength)),
    };
  }
  return {
    bq4_companion: 1,
    ...facts,
    tokenizer: tokenizer ? tokenizerToJson(tokenizer) : undefined,
    chat: chat ?? undefined,
    tensors,
  };
}

/**
 * Writes a v1 file and its sidecar. Throws ARGUMENT, FORMAT, SHAPE, WRITE.
 * @param {string} output @param {Match[]} matches @param {import('../format/bq4/codec.js').Codec} codec
 * @param {ConvertOptions} options @param {Record<string, any>} facts
 */
async function convertV1(output, matches, codec, options, facts) {
  if (options.quant && typeNamed(options.quant).name !== 'bq4_32')
    throw new BqError('ARGUMENT', `v1 files support the type bq4 only, not ${options.quant}`);
  if (options.embed && typeNamed(options.embed).name !== 'bq4_32')
    throw new BqError('ARGUMENT', `v1 files support the type bq4 only, not ${options.embed}`);
  const fits = matches.filter(({ slot }) => v1Type(slot.dims));
  const tensors = fits.map((match) => encoded(codec, match, /** @type {any} */ (v1Type(match.slot.dims)), FLAT));
  const json =
    JSON.stringify(
      await sidecarOf(
        matches.filter((m) => !fits.includes(m)),
        facts,
      ),
      null,
      1,
    ) + '\n';
  const sidecar = await fileSink(`${output.replace(/\.[^./\\]*$/, '')}.json`);
  try {
    await sidecar.write(0, new TextEncoder().encode(json));
    const written = await writeV1(await fileSink(output), tensors, {
      onBytes: options.onProgress,
      signal: options.signal,
    });
    await sidecar.finish();
    return { tensors, written, encoder: codec.name };
  } finally {
    await sidecar.abort();
  }
}

/**
 * Writes a v2 file. After a network error its complete tensors are kept for the next attempt. Throws FORMAT, SHAPE,
 * WRITE.
 * @param {string} output @param {Match[]} matches @param {import('../format/bq4/codec.js').Codec} codec
 * @param {ConvertOptions} options @param {Record<string, any>} facts
 */
async function convertV2(output, matches, codec, options, { tokenizer, ...facts }) {
  const tensors = v2Tensors(matches, codec, options);
  const model = { .../** @type {any} */ (facts), tensors, tokenizer: tokenizer && encodeTokenizer(tokenizer) };
  const hasher = await createHasher(prefixLengthOf(model, options.hash === 'sha256'));
  const hash = (/** @type {Uint8Array} */ bytes) => hasher.hash(bytes);
  const sha256 = options.hash === 'sha256' ? (/** @type {Uint8Array} */ bytes) => hasher.sha256(bytes) : undefined;
  const { activations, ...jsonParts } = model;
  const shapes = tensors.map(({ name, type, layout, dims }) => [name, type.name, layout, dims]);
  const key = await keyOf(
    [facts.stamp, options.hash ?? 'xxh64', { ...jsonParts, tensors: shapes, tokenizer: null }],
    [model.tokenizer, activations],
  );
  const journal = await openJournal(output, key);
  const reports = (/** @type {number} */ from) => tensors.slice(from).map((t) => t.report());
  const written = await writeV2(await fileSink(output, { keep: journal.marks.length > 0 }), model, {
    hash,
    sha256,
    onBytes: options.onProgress,
    signal: options.signal,
    journal,
    reports,
    keeps: isNetworkError,
  });
  return {
    tensors: reportsOf(tensors, journal).map((report) => ({ report: () => report })),
    written,
    encoder: codec.name,
  };
}

/**
 * Writes a QSF file. Throws ARGUMENT, UNSUPPORTED, FORMAT, WRITE.
 * @param {string} output @param {Match[]} matches @param {import('../format/bq4/codec.js').Codec} _  unused
 * @param {ConvertOptions} options @param {Record<string, any>} facts
 */
async function convertQsf(output, matches, _, options, facts) {
  const { reports, ...written } = await writeQsf(await fileSink(output), matches, options, /** @type {any} */ (facts));
  return { tensors: reports.map((report) => ({ report: () => report })), written, encoder: 'js' };
}

/** Throws ARGUMENT for invalid options. @param {string} output @param {ConvertOptions} options */
function checkOptions(output, options) {
  const isQsf = output.endsWith('.qsf');
  if (isQsf) qsfChoices(options);
  else chosenTypes(options);
  if (options.compress && !isQsf) throw new BqError('ARGUMENT', '--compress is supported for .qsf files only');
  if (![undefined, 'xxh64', 'sha256'].includes(options.hash))
    throw new BqError('ARGUMENT', `--hash: expected xxh64 or sha256, found "${options.hash}"`);
  if (options.activationSteps && (isQsf || options.v1 || output.endsWith('.bullet')))
    throw new BqError('ARGUMENT', '--activation-steps is supported for .bq4 files of version 2 only');
  if (options.hash && options.v1) throw new BqError('ARGUMENT', '--hash is not supported for v1 files');
}

/**
 * Converts a model. `input` is one of: a folder in Hugging Face's layout, one of its files with weights (safetensors or
 * PyTorch), a model on a hub (hf:owner/name), a checkpoint of llama2.c or nanoGPT, a .bullet file, a .qsf file. The
 * ending of `output` selects the format: .bullet, .qsf, any other ending .bq4. If the conversion fails, no output file
 * remains, except NAME.part after a network error. Throws READ, WRITE, NOT_A_MODEL, FORMAT, TRUNCATED, UNSUPPORTED,
 * SHAPE, ARGUMENT, and for a hub NETWORK, HTTP_STATUS.
 * @param {string} input
 * @param {string} output
 * @param {ConvertOptions} [options]
 * @returns {Promise<ConvertReport>}
 */
export async function convert(input, output, options = {}) {
  return convertCheckpoint(() => openCheckpoint(input, options), output, options);
}

/**
 * Converts any checkpoint; see `convert`.
 * @param {() => Promise<import('./checkpoint.js').Checkpoint>} open  opens the checkpoint, which this function closes
 * @param {string} output
 * @param {ConvertOptions} options
 * @returns {Promise<ConvertReport>}
 */
export async function convertCheckpoint(open, output, options) {
  checkOptions(output, options);
  const checkpoint = await open();
  try {
    return await write(checkpoint, output, options);
  } finally {
    await checkpoint.close();
  }
}

/**
 * @param {import('./checkpoint.js').Checkpoint} checkpoint @param {string} output @param {ConvertOptions} options
 * @returns {Promise<ConvertReport>}
 */
async function write(checkpoint, output, options) {
  const matches = matchTensors(
    checkpoint.config,
    options.rowScales ? withRowScales(checkpoint.tensors) : checkpoint.tensors,
  );
  const tokenizer = await tokenizerOf(checkpoint, options.tokenizer && tokenizerAt(options.tokenizer));
  const { readFile } = await nodeModule('fs/promises');
  const card = options.card ? await readFile(options.card, 'utf8') : '';
  const facts = {
    config: checkpoint.config,
    name: options.name ?? checkpoint.name,
    license: options.license ?? checkpoint.license ?? '',
    tokenizer,
    chat: options.chat ? await readJsonAt(options.chat) : await chatFormat(tokenizer, checkpoint.template),
    template: checkpoint.template,
    card,
    meta: metaFor(checkpoint, tokenizer),
    activations: options.activationSteps
      ? encodeActivations(
          await readJsonAt(options.activationSteps),
          new Set(matches.filter(({ slot }) => slot.dims.length > 1).map(({ slot }) => slot.name)),
        )
      : null,
    stamp: checkpoint.stamp,
  };
  const largestPiece = largestPieceOf(matches);
  const codec = await createCodec(Math.max(largestPiece, 1 << 20));
  const writer = output.endsWith('.qsf')
    ? convertQsf
    : output.endsWith('.bullet')
      ? convertBullet
      : options.v1
        ? convertV1
        : convertV2;
  const { tensors, written, encoder } = await writer(output, matches, codec, options, facts);
  const reports = tensors.map((t) => t.report());
  return conversionReport(output, written, reports, encoder, largestPiece);
}
