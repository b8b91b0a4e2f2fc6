/** `bq4 replay`: repeats the computation of a receipt and compares the results. */
import { stdout } from 'node:process';
import { flag, load, MODEL, readText, value } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: 'repeats the computation of a receipt and reports whether the result is equal',
  operands: 'RECEIPT.json FILE',
  options: {
    companion: MODEL.companion,
    build: MODEL.build,
    threads: value('N', 'threads (default: one per core)'),
    json: flag('prints one JSON object'),
  },
  run: replayReceipt,
};

/** @param {string[]} files @param {any} options */
export async function replayReceipt([file, model], options) {
  const { loadOptions, readReceipt, replay } = await import('../../js/api/receipts/index.js');
  const receipt = await readReceipt(await readText(file));
  const { contextTokens: context, kv, activations, kvWindow, kvSinks, kvEvict, quality } = loadOptions(receipt);
  const modelOptions = {
    ...(kvWindow && { 'kv-window': String(kvWindow), 'kv-sinks': String(kvSinks) }),
    ...(kvEvict && { 'kv-evict': kvEvict }),
    ...(quality?.skipLayers?.length && { 'skip-layers': quality.skipLayers.join() }),
    ...(quality?.exitLayer && { 'exit-layer': String(quality.exitLayer) }),
    ...(quality?.lmHeadFraction && { 'lm-head-fraction': String(quality.lmHeadFraction) }),
  };
  const opened = await load(model, { ...options, context: String(context), kv, activations, ...modelOptions });
  const { build, threads } = opened.engine.info;
  const result = await replay(opened.model, receipt);
  await opened.engine.close();
  if (!result.equal) process.exitCode = 1;
  if (options.json) return void stdout.write(`${JSON.stringify({ ...result, build, threads })}\n`);
  const by = `bq4 ${result.engine}, ${build}, ${threads} thread${threads > 1 ? 's' : ''}`;
  if (result.equal) return void stdout.write(`equal: ${result.tokens.length} tokens, by ${by}\n`);
  for (const { what, at, expected, actual } of result.differences)
    stdout.write(
      `${what}${at === undefined ? '' : ` differ from number ${at} on`}: ${actual} instead of ${expected}\n`,
    );
  const origin = receipt.engine === result.engine ? '' : `; the receipt was created by bq4 ${receipt.engine}`;
  stdout.write(`not equal, by ${by}${origin}\n`);
}
