/**
 * Converts a GGUF file to .bq4. Without options for types every weight keeps its value; only the layout is changed to
 * that of the engine.
 */
import { convertCheckpoint, readJsonAt } from '../js/convert/index.js';
import { formatOfTemplate } from '../js/convert/chat-format.js';
import { createHasher } from '../js/format/bq4/codec.js';
import { conversionReport } from '../js/format/conversion-report.js';
import { encodeTokenizer } from '../js/text/tokenizers/section.js';
import { ROWS, typeNamed } from '../js/format/bq4/weight-types.js';
import { fileSink } from '../js/format/output.js';
import { matrixOf, prefixLengthOf, writeV2 } from '../js/format/bq4/write-v2.js';
import { executionOrder, placeTensors } from '../js/format/gguf/layout.js';
import { openGguf } from '../js/format/gguf/open.js';
import { RepackedSource } from '../js/format/gguf/repacked.js';
import { BqError } from '../js/shared/errors.js';
import { ggufCheckpoint } from './gguf-checkpoint.js';
import { readText } from './options.js';
import { compile, Wasm } from '../js/wasm/wasm.js';

/** @import { ByteSource } from '../js/storage/sources/types.js' */

/** Heap bytes of the instance that maps types. */
const HEAP_BYTES = 65536;
const LAYOUTS = ['rows', 'tiled'];
/** Options of `convert` with which the weights are encoded again. */
const REENCODE_OPTIONS = ['quant', 'embed', 'rowScales'];
/**
 * Options that are not supported for GGUF files, and options that are supported only if the weights are encoded again.
 */
const UNSUPPORTED_OPTIONS = ['compress', 'v1'];
const ONLY_REENCODED = ['tokenizer', 'activationSteps'];
/** Options whose name on the command line differs. @type {Record<string, string>} */
const FLAG_NAMES = { activationSteps: 'activation-steps' };

/** Bits of the last two bytes that are all set if a float is infinite or NaN. @type {Record<string, number>} */
const EXPONENT = { f32: 0x7f80, bf16: 0x7f80, f16: 0x7c00 };

/**
 * Yields a tensor's bytes unchanged. Throws FORMAT if a float is NaN or infinite, as loading would.
 * @param {import('../js/format/gguf/layout.js').PlacedTensor} tensor @param {AsyncIterable<Uint8Array>} pieces
 */
async function* checkFinite({ name, type }, pieces) {
  const [mask, size] = [EXPONENT[type.name], type.blockBytes];
  let at = 0;
  for await (const bytes of pieces) {
    // Pieces never divide a number.
    for (let i = mask ? size - 2 : bytes.length; i < bytes.length; i += size)
      if ((((bytes[i + 1] << 8) | bytes[i]) & mask) === mask)
        throw new BqError(
          'FORMAT',
          `tensor "${name}" has a weight that is NaN or infinite: weight ${((at + i) / size) | 0}`,
          {
            hint: 'the file is damaged: fetch it again',
            details: { tensor: name, index: ((at + i) / size) | 0 },
          },
        );
    at += bytes.length;
    yield bytes;
  }
}

/**
 * Returns the tensors for the file writer; `extra` are put before the first layer.
 * @param {RepackedSource} source @param {import('../js/format/gguf/layout.js').PlacedTensor[]} placed
 * @param {{ name: string, dims: readonly number[], values: Uint8Array }[]} extra
 */
function outTensors(source, placed, extra) {
  const stored = placed.map((tensor) => {
    const { name, type, layout, dims, offset, bytes } = tensor;
    return {
      name,
      type,
      layout,
      dims,
      bytes,
      pieces: () => checkFinite(tensor, source.stream(offset, offset + bytes)),
    };
  });
  const tables = extra.map(({ name, dims, values }) => ({
    name,
    type: typeNamed('f32'),
    layout: ROWS,
    dims,
    bytes: values.length,
    async *pieces() {
      yield values;
    },
  }));
  const layers = stored.findIndex(({ name }) => name.startsWith('h.'));
  return [...stored.slice(0, layers), ...tables, ...stored.slice(layers)];
}

/**
 * Converts a file. Throws ARGUMENT, FORMAT, TRUNCATED, UNSUPPORTED, SHAPE, WRITE.
 * @param {ByteSource} file  closed by the caller
 * @param {string} output
 * @param {import('../js/convert/index.js').ConvertOptions} options
 * @param {() => Promise<void>} [check]  throws if the engine can't load the file
 * @returns {Promise<import('../js/format/conversion-report.js').ConvertReport>}
 */
export async function convertGguf(file, output, options, check) {
  const has = (/** @type {string} */ name) => /** @type {any} */ (options)[name] !== undefined;
  const isReencoded = REENCODE_OPTIONS.some(has);
  const unsupported = [...UNSUPPORTED_OPTIONS, ...(isReencoded ? [] : ONLY_REENCODED)].find(has);
  if (unsupported)
    throw new BqError(
      'ARGUMENT',
      UNSUPPORTED_OPTIONS.includes(unsupported)
        ? `--${unsupported} is not supported for GGUF files`
        : `--${FLAG_NAMES[unsupported] ?? unsupported} is not supported for GGUF files whose weights are not changed`,
      {
        hint: UNSUPPORTED_OPTIONS.includes(unsupported)
          ? 'convert the original safetensors model instead'
          : 'choose a type with --quant',
      },
    );
  if (/\.(bullet|qsf)$/.test(output))
    throw new BqError('UNSUPPORTED', 'GGUF files can be converted to .bq4 only', {
      hint: 'convert the original safetensors model instead',
    });
  if (isReencoded) return convertCheckpoint(() => ggufCheckpoint(file), output, options);
  await check?.();
  const { config, tensors, tokenizer, extra, name, license, template, meta } = await openGguf(file, new Uint8Array());
  const compiled = await compile();
  const wasm = await Wasm.create(compiled, HEAP_BYTES);
  const placed = placeTensors(
    executionOrder(tensors, (stored) => wasm.call('bqw_run_type', stored), false),
    0,
  );
  const source = await RepackedSource.open(file, compiled, placed);
  const out = outTensors(source, placed, extra);
  const model = {
    config,
    tensors: out,
    name: options.name ?? name,
    license: options.license ?? license,
    tokenizer: tokenizer && encodeTokenizer(tokenizer),
    template,
    meta,
    chat: options.chat
      ? await readJsonAt(options.chat)
      : template && tokenizer
        ? await formatOfTemplate(template, tokenizer)
        : null,
    card: options.card ? await readText(options.card) : '',
  };
  const codec = await createHasher(prefixLengthOf(model, options.hash === 'sha256'));
  const sha256 = options.hash === 'sha256' ? (/** @type {Uint8Array} */ bytes) => codec.sha256(bytes) : undefined;
  const written = await writeV2(await fileSink(output), model, {
    hash: (bytes) => codec.hash(bytes),
    sha256,
    onBytes: options.onProgress,
    signal: options.signal,
  });
  const reports = out.map(({ name: tensor, type, layout, dims, bytes }) => {
    const { rows, cols } = matrixOf([...dims]);
    return {
      name: tensor,
      type: type.name,
      layout: LAYOUTS[layout],
      weights: rows * cols,
      bytes,
      meanAbs: 0,
      maxAbs: 0,
      rms: 0,
    };
  });
  return conversionReport(output, written, reports, codec.name, 0);
}
