/** A GGUF file as .bq4: every weight keeps its value, only laid out as the engine computes with it, unless other types are asked for. */
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
import { compile, Wasm } from '../js/wasm/wasm.js';

/** @import { ByteSource } from '../js/storage/sources/types.js' */

const ROOM = 65536;
const LAYOUTS = ['rows', 'tiled'];
/** Options of `convert` that ask for other weights than the file has. */
const ANEW = ['quant', 'embed', 'rowScales'];
/** Options that say what can't be said of a GGUF file, and of one whose weights are kept. */
const NEVER = ['compress', 'v1'];
const NOT_KEPT = ['tokenizer', 'activationSteps'];
/** @type {Record<string, string>} */
const FLAGS = { activationSteps: 'activation-steps' };

/** Of a float that is infinite or no number all these bits of its last two bytes are set. @type {Record<string, number>} */
const EXPONENT = { f32: 0x7f80, bf16: 0x7f80, f16: 0x7c00 };

/** The same bytes of a tensor. FORMAT: one of its floats is NaN or infinite, which loading would refuse. @param {import('../js/format/gguf/layout.js').PlacedTensor} tensor @param {AsyncIterable<Uint8Array>} pieces */
async function* finite({ name, type }, pieces) {
  const [mask, size] = [EXPONENT[type.name], type.blockBytes];
  let at = 0;
  for await (const bytes of pieces) {
    // Pieces end between numbers, as ranges of the file do.
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

/** @param {RepackedSource} source @param {import('../js/format/gguf/layout.js').PlacedTensor[]} placed @param {{ name: string, dims: readonly number[], values: Uint8Array }[]} extra */
function outTensors(source, placed, extra) {
  const own = placed.map((tensor) => {
    const { name, type, layout, dims, offset, bytes } = tensor;
    return { name, type, layout, dims, bytes, pieces: () => finite(tensor, source.stream(offset, offset + bytes)) };
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
  const layers = own.findIndex(({ name }) => name.startsWith('h.'));
  return [...own.slice(0, layers), ...tables, ...own.slice(layers)];
}

/**
 * ARGUMENT, FORMAT, TRUNCATED, UNSUPPORTED, SHAPE, WRITE.
 * @param {ByteSource} file  the caller's to close
 * @param {string} output
 * @param {import('../js/convert/index.js').ConvertOptions} options
 * @param {() => Promise<void>} [check]  throws where the engine would refuse what is kept as it is
 * @returns {Promise<import('../js/format/conversion-report.js').ConvertReport>}
 */
export async function convertGguf(file, output, options, check) {
  const has = (/** @type {string} */ name) => /** @type {any} */ (options)[name] !== undefined;
  const anew = ANEW.some(has);
  const wrong = [...NEVER, ...(anew ? [] : NOT_KEPT)].find(has);
  if (wrong)
    throw new BqError(
      'ARGUMENT',
      NEVER.includes(wrong)
        ? `--${wrong} is not for GGUF files`
        : `--${FLAGS[wrong] ?? wrong} is not for GGUF files whose weights are kept as they are`,
      {
        hint: NEVER.includes(wrong) ? 'convert the original safetensors model instead' : 'choose a type with --quant',
      },
    );
  if (/\.(bullet|qsf)$/.test(output))
    throw new BqError('UNSUPPORTED', 'a GGUF file is converted to .bq4 alone', {
      hint: 'convert the original safetensors model instead',
    });
  if (anew) return convertCheckpoint(() => ggufCheckpoint(file), output, options);
  await check?.();
  const { config, tensors, tokenizer, extra, name, license, template } = await openGguf(file, new Uint8Array());
  const compiled = await compile();
  const facts = await Wasm.create(compiled, ROOM);
  const placed = placeTensors(
    executionOrder(tensors, (stored) => facts.call('bqw_run_type', stored), false),
    0,
  );
  const source = await RepackedSource.open(file, compiled, placed);
  const out = outTensors(source, placed, extra);
  const { readFile } = await import('node:fs/promises');
  const model = {
    config,
    tensors: out,
    name: options.name ?? name,
    license: options.license ?? license,
    tokenizer: tokenizer && encodeTokenizer(tokenizer),
    template,
    chat: options.chat
      ? await readJsonAt(options.chat)
      : template && tokenizer
        ? await formatOfTemplate(template, tokenizer)
        : null,
    card: options.card ? await readFile(options.card, 'utf8') : '',
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
