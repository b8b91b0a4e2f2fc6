// Writes model files with random weights in the formats of all runtimes to build/bench/models/.
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileSink } from '../../js/format/output.js';
import { makeRandom, SHAPES } from '../make_random.mjs';
import { ROOT } from '../setup/setup.mjs';
import { run, step } from '../setup/shell.mjs';

/** @typedef {import('./cells.mjs').Visit} Visit */

const FOLDER = 'build/bench/models';
/** Names of ONNX files by precision. @type {Record<string, string>} */
const ONNX_FILES = { fp32: 'model.onnx', q8: 'model_quantized.onnx', q4: 'model_q4.onnx' };

/** Returns the path of a visit's model file, relative to the root. @param {Visit} visit */
export function modelPath({ runtime, shape, precision }) {
  if (runtime === 'bq4' || runtime === 'limit' || runtime === 'read') return `${FOLDER}/${shape}-${precision}.bq4`;
  if (runtime === 'ort' || runtime === 'tjs') return `${FOLDER}/${shape}/onnx/${ONNX_FILES[precision]}`;
  return `${FOLDER}/${shape}-${precision}.gguf`;
}

/** Returns the path that a page receives. transformers.js requires the path of the folder. @param {Visit} visit */
export const modelUrl = (visit) => `/${visit.runtime === 'tjs' ? `${FOLDER}/${visit.shape}` : modelPath(visit)}`;

/** Writes the model of a visit if it does not exist. @param {Visit} visit @param {string} python  path of a Python with tools/bench/requirements.txt */
export async function provideModel(visit, python) {
  const path = modelPath(visit);
  if (existsSync(join(ROOT, path))) return;
  mkdirSync(join(ROOT, FOLDER), { recursive: true });
  const config = SHAPES[visit.shape];
  await step(`writing ${path}`, async () => {
    if (path.endsWith('.bq4')) {
      const [quant, embed] = visit.precision.split('+');
      return void (await makeRandom(config, await fileSink(join(ROOT, path)), { quant, embed, tokenizer: false }));
    }
    const shape = ['--shape', JSON.stringify(config)];
    if (path.endsWith('.onnx')) {
      return void (await run(python, [
        join(ROOT, 'tools/bench/make_onnx.py'),
        join(ROOT, FOLDER, visit.shape),
        '--quant',
        visit.precision,
        ...shape,
      ]));
    }
    const [quant, isPure] = visit.precision.split('-');
    await run(python, [
      join(ROOT, 'tools/bench/make_gguf.py'),
      join(ROOT, path),
      '--quant',
      quant,
      '--embed',
      isPure ? quant : 'q8_0',
      ...shape,
    ]);
  });
}
