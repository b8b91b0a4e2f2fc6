// Runs llama.cpp's quantizer with an importance matrix. Its two programs are compiled from node-llama-cpp's source and linked with the
// libraries of node-llama-cpp's packages.
import { existsSync, readdirSync, renameSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { provideLlamaSource, providePeers } from '../bench/install.mjs';
import { findOnPath, run, SetupError } from '../setup/shell.mjs';

/** File names of the libraries that the tools are linked with. */
const LIBRARIES = /^lib(llama-common\.|llama\.v|ggml\.v|ggml-base)/;

/** Compiles a tool of llama.cpp unless it exists. Returns its path. @param {string} name @param {string} compiler @param {string} source  folder @param {string} libraries  folder */
async function buildTool(name, compiler, source, libraries) {
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
 * Returns a function that writes a GGUF file with weights of another type, from the same values in f32 and with an importance matrix.
 * The embedding is Q8_0.
 * @param {string} model  path of a GGUF file @param {string} text  path of the calibration text @param {string} name  prefix of the
 *   paths of written files
 * @param {(path: string) => Promise<void>} changeWeights  changes the values in f32 in place
 * @param {string} [suffix]  suffix of the name of the importance matrix
 * @returns {Promise<(type: string, path: string) => Promise<void>>}
 */
export async function createLlamaQuantizer(model, text, name, changeWeights, suffix = '') {
  const compiler = findOnPath(['g++', 'clang++']);
  if (!compiler)
    throw new SetupError('expected g++ or clang++ on PATH to compile programs of llama.cpp, found neither');
  await providePeers();
  const source = await provideLlamaSource();
  const platform = `${process.platform}-${process.arch}`;
  const libraries = join(source, '../node_modules/@node-llama-cpp', platform, 'bins', platform);
  const imatrix = await buildTool('imatrix', compiler, source, libraries);
  const quantize = await buildTool('quantize', compiler, source, libraries);
  const [weightsPath, imatrixPath] = ['f32', `imatrix${suffix}`].map((part) => resolve(`${name}-${part}.gguf`));
  // The programs search for backends in their working directory.
  const options = { cwd: libraries };
  if (!existsSync(weightsPath)) {
    await run(quantize, ['--allow-requantize', resolve(model), `${weightsPath}.part`, 'F32'], options);
    await changeWeights(`${weightsPath}.part`);
    renameSync(`${weightsPath}.part`, weightsPath);
  }
  if (!existsSync(imatrixPath))
    await run(imatrix, ['-m', weightsPath, '-f', resolve(text), '-o', imatrixPath, '-c', '512', '-t', '2'], options);
  return async (type, path) => {
    const flags = ['--imatrix', imatrixPath, '--token-embedding-type', 'q8_0'];
    await run(quantize, [...flags, weightsPath, resolve(path), type], options);
  };
}
