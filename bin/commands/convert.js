/** `bq4 convert`: converts a model to another format. */
import { stderr, stdout } from 'node:process';
import { BqError } from '../../js/shared/errors.js';
import { flag, sourceOf, Usage, value } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'converts a model to .bq4, .bullet or .qsf, according to the extension of OUT',
  operands: 'IN OUT',
  about: `IN is a folder in Hugging Face's layout, a .safetensors file or PyTorch checkpoint (.bin, .pt, .pth, .pkl; no code in it is executed) with config.json in the same folder, a checkpoint of llama2.c or nanoGPT (.pt), a .bin file of llama2.c, a .bullet, .qsf or .gguf file, or the address of a .gguf file.
hf:owner/name is a model on the Hugging Face hub.
Without --quant, --embed and --row-scales the weights of a .gguf file are not changed.`,
  writesLast: true,
  options: {
    quant: value(
      'TYPE',
      'type of the matrices: bq4a (default; bqt for ternary matrices), bq4, bq4_16, bq4_64, bq4h, bq3a, bq2a, bq2, bqt, bq8, f16, bf16 or f32; in a .qsf file: q4a (default), q3a, q2a, q2s, tern or f16',
    ),
    embed: value('TYPE', 'type of embedding and LM head (default: bq8, or --quant if that is f16, bf16 or f32)'),
    calibrate: value('FILE', 'calibration text: rounds weights as bq4 quantize does'),
    tokenizer: value(
      'FILE',
      'tokenizer file (default: that in the folder of the model); a .txt file has one token per line',
    ),
    name: value('TEXT', 'name of the model to store in the file'),
    license: value('TEXT', 'license to store in the file: an SPDX id or other text'),
    card: value('FILE', 'model card to store in the file'),
    chat: value('FILE', 'JSON file of the chat format (default: derived from the chat template)'),
    hash: value(
      'KIND',
      'hash of chunks: xxh64 (default) detects damage; sha256, together with an integrity, also detects manipulation',
    ),
    'row-scales': flag(
      'divides the rows of matrices by scales that are stored with them; for weights that are too large for f16 scales',
    ),
    'activation-steps': value(
      'FILE',
      'JSON file with quantization steps of activations, for other engines: { "h.0.attn.q": 0.0123, ... }',
    ),
    compress: value('KIND', 'compression of the layers of a .qsf file: none (default), lz4 or zstd'),
    v1: flag('writes a v1.0 file and its sidecar config OUT.json'),
    revision: value('NAME', 'branch, tag or commit on the hub (default main)'),
    endpoint: value(
      'URL',
      'address of the hub (default: the environment variable HF_ENDPOINT, else https://huggingface.co)',
    ),
    token: value('TOKEN', 'access token of the hub (default: the environment variable HF_TOKEN)'),
    json: flag('prints the report, with the error of each tensor, as one JSON object'),
  },
  run: convertFile,
};

/**
 * Calls `useGguf` with an open GGUF file at a path or an address; calls `useOther` for all other models.
 * @template T
 * @param {string} name
 * @param {(file: import('../../js/storage/sources/types.js').ByteSource) => Promise<T>} useGguf
 * @param {() => Promise<T>} useOther
 */
async function withGgufOr(name, useGguf, useOther) {
  if (!/^https?:/.test(name) && !name.endsWith('.gguf')) return useOther();
  const { openSource } = await import('../../js/storage/sources/index.js');
  const { readRange } = await import('../../js/storage/sources/read.js');
  const file = await openSource(await sourceOf(name));
  try {
    return String.fromCharCode(...(await readRange(file, 0, 4))) === 'GGUF' ? await useGguf(file) : await useOther();
  } finally {
    await file.close();
  }
}

/** Checks that the engine can load a file. Throws FORMAT, SHAPE, UNSUPPORTED, TRUNCATED. @param {string} file */
async function checkLoadable(file) {
  const { createEngine } = await import('../../js/node.js');
  const engine = await createEngine({ threads: 1 });
  try {
    await engine.plan(await sourceOf(file));
  } catch (error) {
    // A model that is too large for this machine's memory can be converted nevertheless.
    if (!(error instanceof BqError) || error.code !== 'NOMEM') throw error;
  } finally {
    await engine.close();
  }
}

/** @param {string[]} files @param {any} options */
async function convertFile([from, to], options) {
  if (options.calibrate !== undefined) {
    const quantize = (await import('./quantize.js')).command;
    const unsupported = Object.keys(options).find((name) => !(name in quantize.options));
    if (unsupported)
      throw new Usage(`--${unsupported} and --calibrate exclude each other: convert first, then quantize`);
    return quantize.run([from, to], options);
  }
  const { convert } = await import('../../js/convert/index.js');
  const { convertGguf } = await import('../convert-gguf.js');
  const { formatReport } = await import('../../js/format/conversion-report.js');
  const { json, 'row-scales': rowScales, 'activation-steps': activationSteps, ...otherOptions } = options;
  const convertOptions = { ...otherOptions, rowScales, activationSteps };
  let lastShown = 0;
  const onProgress = (/** @type {number} */ done, /** @type {number} */ total) => {
    if (!stderr.isTTY || (Date.now() - lastShown < 100 && done < total)) return;
    lastShown = Date.now();
    stderr.write(`\r${Math.floor((100 * done) / total)} %${done < total ? '' : '\n'}`);
  };
  const { HF_ENDPOINT: endpoint, HF_TOKEN: token } = process.env;
  const hub = { endpoint: endpoint || undefined, token: token || undefined };
  const convertCheckpoint = () => convert(from, to, { ...hub, ...convertOptions, onProgress });
  const report = from.startsWith('hf:')
    ? await convertCheckpoint()
    : await withGgufOr(
        from,
        (file) => convertGguf(file, to, { ...convertOptions, onProgress }, () => checkLoadable(from)),
        convertCheckpoint,
      );
  stdout.write(`${json ? JSON.stringify(report, null, 2) : formatReport(report)}\n`);
}
