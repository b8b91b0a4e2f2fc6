/** `bq4 quantize`: quantizes a model to fewer bits, calibrated on a text. */
import { existsSync } from 'node:fs';
import process, { stderr, stdout } from 'node:process';
import { formatReport } from '../../js/format/conversion-report.js';
import { plotReport } from '../../js/quantize/error-chart.js';
import { quantize } from '../../js/quantize/index.js';
import { withInput } from '../model-input.js';
import { flag, numberOf, outputFile, readText, Usage, value, writeOutput } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'quantizes a model to fewer bits, calibrated on a text',
  operands: 'IN OUT',
  about: 'IN is a .bq4 file or any input of convert. To resume a stopped run, repeat the command.',
  writesLast: true,
  options: {
    calibrate: value('FILE', 'calibration text; without it weights are rounded to the nearest values, as by convert'),
    tokens: value('N', 'number of tokens of the text to use (default 16384)'),
    quant: value(
      'TYPE',
      'type of the matrices: bq4a (default), bq4h, bq4, bq4_16, bq4_64, bq3a, bq2a or bqt are calibrated; other types are rounded to the nearest values',
    ),
    embed: value('TYPE', 'type of embedding and LM head (default bq8)'),
    'target-size': value(
      'SIZE',
      'largest size of the file, such as 80MB: chooses bq4h, bq4a or bq8 (if necessary bq3a or bq2a) for each matrix by its effect on predictions',
    ),
    'target-ppl': value(
      'PERCENT',
      'largest growth of perplexity, such as 3%, measured on the end of the text: chooses types as --target-size does',
    ),
    method: value(
      'KIND',
      'gptaq (default): compensates errors in later weights of the matrix and in later matrices; gptq: in later weights of the matrix only, so that the text is processed only once; search: only searches scales',
    ),
    smooth: value(
      'NUMBER',
      'from 0 (default) to 1: how far large magnitudes of inputs are moved into the weights (AWQ)',
    ),
    plot: outputFile('FILE.svg', 'writes a chart of the error of each matrix, and of its bits if they differ'),
    threads: value(
      'N',
      'number of threads (default: one per core, at most 8, as memory allows); the result does not depend on it',
    ),
    'memory-budget': value(
      'SIZE',
      'largest memory of the model during calibration, such as 2GB (default 4GB); layers that do not fit are read from disk',
    ),
    tokenizer: value('FILE', 'tokenizer file (default: that in the folder of the model)'),
    hash: value('KIND', 'hash of chunks: xxh64 (default) or sha256'),
    json: flag('prints the report as one JSON object'),
  },
  run: quantizeFile,
};

/**
 * Returns the value of an option that is a number of bytes; MB and GB are 10^6 and 10^9. Throws Usage.
 * @param {Record<string, string>} options @param {string} name
 */
function sizeOf(options, name) {
  const text = options[name];
  if (text === undefined) return undefined;
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?)\s*(MB|GB)?$/i.exec(text) ?? [];
  if (!number)
    throw new Usage(`--${name}: expected a number of bytes, or a size in MB or GB, such as 80MB, found "${text}"`);
  return Math.floor(
    Number(number) * /** @type {Record<string, number>} */ ({ MB: 1e6, GB: 1e9 })[unit.toUpperCase()] || Number(number),
  );
}

/** Returns the value of --target-ppl, a percentage above 0. Throws Usage. @param {string | undefined} text */
function percentOf(text) {
  if (text === undefined) return undefined;
  const [, number = '0'] = /^(\d+(?:\.\d+)?)\s*%?$/.exec(text) ?? [];
  if (!Number(number)) throw new Usage(`--target-ppl: expected a percentage above 0, such as 3%, found "${text}"`);
  return Number(number);
}

/** Names of the stages in the output. @type {Record<string, string>} */
const STAGES = {
  read: 'reading',
  calibrate: 'calibrating',
  choose: 'choosing types',
  try: 'trying types',
  write: 'rounding',
};

/** Creates a signal that Ctrl-C aborts. A second Ctrl-C ends the process at once. */
function stopSignal() {
  const stop = new AbortController();
  const abort = () => stop.abort();
  process.once('SIGINT', abort).once('SIGTERM', abort);
  return { signal: stop.signal, off: () => process.off('SIGINT', abort).off('SIGTERM', abort) };
}

/** @param {string[]} files  the model, the file to write @param {any} options */
export async function quantizeFile([from, to], options) {
  const { plot } = options;
  let lastShown = 0;
  const onProgress = (/** @type {string} */ stage, /** @type {number} */ done, /** @type {number} */ total) => {
    if (!stderr.isTTY || (Date.now() - lastShown < 100 && done < total)) return;
    lastShown = Date.now();
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
      budget: sizeOf(options, 'memory-budget'),
      targetPpl: percentOf(options['target-ppl']),
      calibrate: options.calibrate === undefined ? undefined : await readText(options.calibrate),
      onProgress,
      onKept: (tensors, all) => stderr.write(`bq4: resuming: ${tensors} of ${all} tensors are complete\n`),
      signal,
    }),
  )
    .catch((error) => {
      if (error !== signal.reason) throw error;
      return null;
    })
    .finally(off);
  if (!report) {
    const keptFiles = [`${to}.part`, `${to}.part.journal`].filter((path) => existsSync(path));
    stderr.write(
      keptFiles.length
        ? `bq4: stopped; the same command resumes from ${keptFiles.join(' and ')}\n`
        : 'bq4: stopped, nothing was written\n',
    );
    process.exitCode = 130;
    return;
  }
  stdout.write(options.json ? `${JSON.stringify(report)}\n` : `${formatReport(report)}\n`);
  if (plot !== undefined) await writeOutput(plot, plotReport(report));
}
