// llama.cpp's own quantizer and importance matrix: its two programs from node-llama-cpp's source, with the libraries that node-llama-cpp's packages bring.
import { existsSync, readdirSync, renameSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { provideLlamaSource, providePeers } from '../bench/install.mjs';
import { findOnPath, run, SetupError } from '../setup/shell.mjs';

const LIBRARIES = /^lib(llama-common\.|llama\.v|ggml\.v|ggml-base)/;

/** @param {string} name  of a tool of llama.cpp @param {string} compiler @param {string} source @param {string} libraries  their folder */
async function built(name, compiler, source, libraries) {
  const program = join(source, '..', `llama-${name}`);
  if (existsSync(program)) return program;
  const folder = join(source, 'tools', name);
  const files = readdirSync(folder).filter((file) => file.endsWith('.cpp'));
  await run(compiler, [
    ...['-std=c++17', '-O1'],
    ...['include', 'ggml/include', 'common', 'vendor', 'src'].map((include) => `-I${join(source, include)}`),
    ...files.map((file) => join(folder, file)),
    ...['-o', program, `-L${libraries}`],
    ...readdirSync(libraries)
      .filter((file) => LIBRARIES.test(file))
      .map((file) => `-l:${file}`),
    ...[`-Wl,-rpath,${libraries}`, '-Wl,--allow-shlib-undefined'],
  ]);
  return program;
}

/**
 * Makes files of other types of a GGUF file, as llama.cpp does with an importance matrix: from the same values as f32, embedding Q8_0.
 * @param {string} model @param {string} text  to calibrate on @param {string} name  what the names of files that are made begin with
 * @param {(floats: string) => Promise<void>} change  what is done to the values before @param {string} [end]  what the name of that text's importance ends with
 */
export async function llamaQuantizer(model, text, name, change, end = '') {
  const compiler = findOnPath(['g++', 'clang++']);
  if (!compiler) throw new SetupError('g++ or clang++ is needed for llama.cpp’s programs');
  await providePeers();
  const source = await provideLlamaSource();
  const platform = `${process.platform}-${process.arch}`;
  const libraries = join(source, '../node_modules/@node-llama-cpp', platform, 'bins', platform);
  const imatrix = await built('imatrix', compiler, source, libraries);
  const quantize = await built('quantize', compiler, source, libraries);
  const [floats, importance] = ['f32', `imatrix${end}`].map((what) => resolve(`${name}-${what}.gguf`));
  // Backends are looked for in the folder where a program runs.
  const here = { cwd: libraries };
  if (!existsSync(floats)) {
    await run(quantize, ['--allow-requantize', resolve(model), `${floats}.part`, 'F32'], here);
    await change(`${floats}.part`);
    renameSync(`${floats}.part`, floats);
  }
  if (!existsSync(importance))
    await run(imatrix, ['-m', floats, '-f', resolve(text), '-o', importance, '-c', '512', '-t', '2'], here);
  return async (/** @type {string} */ type, /** @type {string} */ out) => {
    const kept = ['--imatrix', importance, '--token-embedding-type', 'q8_0'];
    await run(quantize, [...kept, floats, resolve(out), type], here);
  };
}
