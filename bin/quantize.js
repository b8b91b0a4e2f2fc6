/** `bq4 quantize`: a model in fewer bits, by what goes into its products on a text. */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import process, { stderr, stdout } from 'node:process';
import { chatFormat, tokenizerOf } from '../js/convert/parts.js';
import { openCheckpoint } from '../js/convert/checkpoint.js';
import { formatReport } from '../js/format/conversion-report.js';
import { readTokenizerFile } from '../js/convert/tokenizer-files.js';
import { encodeTokenizer } from '../js/text/tokenizers/section.js';
import { quantize } from '../js/quantize/index.js';
import { plotReport } from '../js/quantize/error-chart.js';
import { openSource } from '../js/storage/sources/index.js';
import { readRange } from '../js/storage/sources/read.js';
import { bq4Input } from './bq4-checkpoint.js';
import { ggufCheckpoint } from './gguf-checkpoint.js';
import { numberOf, readText, sourceOf, Usage } from './options.js';

/** @import { Checkpoint } from '../js/convert/checkpoint.js' */
/** @import { Input } from '../js/quantize/index.js' */

/** @param {Checkpoint} checkpoint @param {string | undefined} path  of a tokenizer @returns {Promise<Input>} */
async function inputOf(checkpoint, path) {
  const { config, tensors, name, license = '', template, stamp } = checkpoint;
  const tokenizer = await tokenizerOf(checkpoint, path && ((vocab) => readTokenizerFile(path, { vocab })));
  return {
    config,
    tensors,
    stamp,
    parts: {
      name,
      license,
      tokenizer: tokenizer && encodeTokenizer(tokenizer),
      chat: await chatFormat(tokenizer, template),
      template,
    },
  };
}

/** First four bytes; '': it is no file here. @param {string} name */
async function magicOf(name) {
  const { stat } = await import('node:fs/promises');
  if (!(await stat(name).catch(() => null))?.isFile()) return '';
  const file = await openSource(await sourceOf(name));
  try {
    return String.fromCharCode(...(await readRange(file, 0, 4)));
  } finally {
    await file.close();
  }
}

/**
 * Runs `use` with whatever `name` is: a .bq4 or .gguf file, or what `convert` reads.
 * @template T @param {string} name @param {string | undefined} tokenizer @param {(input: Input) => Promise<T>} use @returns {Promise<T>}
 */
export async function withInput(name, tokenizer, use) {
  const magic = await magicOf(name);
  if (magic === 'BQ4F' && tokenizer) throw new Usage('a .bq4 file has its own tokenizer: --tokenizer is for others');
  if (magic === 'BQ4F' || magic === 'GGUF') {
    const file = await openSource(await sourceOf(name));
    try {
      return await use(magic === 'BQ4F' ? await bq4Input(file) : await inputOf(await ggufCheckpoint(file), tokenizer));
    } finally {
      await file.close();
    }
  }
  const checkpoint = await openCheckpoint(name);
  try {
    return await use(await inputOf(checkpoint, tokenizer));
  } finally {
    await checkpoint.close();
  }
}

/** Bytes; MB and GB are 10^6 and 10^9. @param {Record<string, string>} options @param {string} name */
function sizeOf(options, name) {
  const text = options[name];
  if (text === undefined) return undefined;
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?)\s*(MB|GB)?$/i.exec(text) ?? [];
  if (!number) throw new Usage(`--${name} is "${text}", not bytes, or a number with MB or GB behind it`);
  return Math.floor(
    Number(number) * /** @type {Record<string, number>} */ ({ MB: 1e6, GB: 1e9 })[unit.toUpperCase()] || Number(number),
  );
}

/** Percents, above nothing. @param {string | undefined} text */
function percentOf(text) {
  if (text === undefined) return undefined;
  const [, number = '0'] = /^(\d+(?:\.\d+)?)\s*%?$/.exec(text) ?? [];
  if (!Number(number)) throw new Usage(`--target-ppl is "${text}", not percents above 0, as 3%`);
  return Number(number);
}

/** @type {Record<string, string>} */
const STAGES = {
  read: 'reading',
  calibrate: 'calibrating',
  choose: 'choosing types',
  try: 'trying types',
  write: 'rounding',
};

/** Ctrl-C ends the work; a second one ends the process at once. */
function stopSignal() {
  const stop = new AbortController();
  const abort = () => stop.abort();
  process.once('SIGINT', abort).once('SIGTERM', abort);
  return { signal: stop.signal, off: () => process.off('SIGINT', abort).off('SIGTERM', abort) };
}

/** @param {string[]} files  the model, the file to write @param {any} options */
export async function quantizeFile([from, to], options) {
  const { plot } = options;
  if (plot !== undefined && [from, to].some((file) => resolve(file) === resolve(plot)))
    throw new Usage(`--plot would replace ${plot}: a chart is a file of its own`);
  let shown = 0;
  const onProgress = (/** @type {string} */ stage, /** @type {number} */ done, /** @type {number} */ total) => {
    if (!stderr.isTTY || (Date.now() - shown < 100 && done < total)) return;
    shown = Date.now();
    stderr.write(`\r${STAGES[stage]} ${Math.floor((100 * done) / total)} %${done < total ? ' ' : '\n'}`);
  };
  const { signal, off } = stopSignal();
  const report = await withInput(from, options.tokenizer, async (input) =>
    quantize(input, to, {
      quant: options.quant,
      embed: options.embed,
      hash: options.hash,
      method: options.method,
      tokens: numberOf(options, 'tokens'),
      threads: numberOf(options, 'threads'),
      smooth: numberOf(options, 'smooth'),
      targetSize: sizeOf(options, 'target-size'),
      budget: sizeOf(options, 'budget'),
      targetPpl: percentOf(options['target-ppl']),
      calibrate: options.calibrate === undefined ? undefined : await readText(options.calibrate),
      onProgress,
      onKept: (tensors, all) =>
        stderr.write(`bq4: ${tensors} of ${all} tensors are there already: going on behind them\n`),
      signal,
    }),
  )
    .catch((error) => {
      if (error !== signal.reason) throw error;
      return null;
    })
    .finally(off);
  if (!report) {
    const kept = [`${to}.part`, `${to}.part.journal`].filter((path) => existsSync(path));
    stderr.write(
      kept.length
        ? `bq4: stopped; the same command goes on from here, by ${kept.join(' and ')}\n`
        : 'bq4: stopped, nothing was written\n',
    );
    process.exitCode = 130;
    return;
  }
  stdout.write(options.json ? `${JSON.stringify(report)}\n` : `${formatReport(report)}\n`);
  if (plot !== undefined) await writeFile(plot, plotReport(report));
}
