/** Reads models in Hugging Face's layout: config.json, safetensors (one file or shards), tokenizer beside them. In Node. */
import { BqError } from '../../shared/errors.js';
import { openFile } from '../../sources/file.js';
import { nodeModule } from '../../shared/node.js';
import { readRange } from '../../sources/read.js';
import { canonicalTensors, configOf, endTokens, joinParts, tablesOf } from '../hf-names.js';
import { readSafetensors } from './safetensors.js';
import { sentenceConfig } from './sentence.js';

const INDEX = 'model.safetensors.index.json';

/** @typedef {import('./tensors.js').InTensor} InTensor */

/**
 * @param {string} path
 * @returns {Promise<Record<string, any> | null>}  null: no such file
 */
export async function readJson(path) {
  const { existsSync } = await nodeModule('fs');
  if (!existsSync(path)) return null;
  const file = await openFile(path);
  try {
    const value = JSON.parse(new TextDecoder().decode(await readRange(file, 0, Infinity)));
    if (value === null || typeof value !== 'object') throw new Error('it is no object');
    return value;
  } catch (cause) {
    if (cause instanceof BqError) throw cause;
    throw new BqError('FORMAT', `${path} is no JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  } finally {
    await file.close();
  }
}

/** The safetensors files of a folder. @param {string} folder @returns {Promise<string[]>} */
async function shards(folder) {
  const { existsSync, readdirSync } = await nodeModule('fs');
  const index = await readJson(`${folder}/${INDEX}`);
  if (index) {
    const names = [...new Set(Object.values(index.weight_map ?? {}))].map(String);
    const outside = names.find((name) => /[/\\]/.test(name));
    if (outside) throw new BqError('FORMAT', `${INDEX} names "${outside}", outside its folder`);
    return names;
  }
  if (existsSync(`${folder}/model.safetensors`)) return ['model.safetensors'];
  const names = readdirSync(folder).filter((/** @type {string} */ name) => name.endsWith('.safetensors'));
  if (names.length === 1) return names;
  throw new BqError('NOT_A_MODEL', `${folder} has ${names.length ? 'several safetensors files and no index' : 'no safetensors file'}`, { hint: `expected model.safetensors, or ${INDEX}` });
}

/**
 * @param {string[]} paths
 * @param {Record<string, any>} hf  config.json
 * @param {Record<string, any>} config  ours
 * @returns {Promise<{ tensors: Map<string, InTensor>, close: () => Promise<void> }>}
 */
async function openShards(paths, hf, config) {
  /** @type {import('../../sources/types.js').ByteSource[]} */
  const files = [];
  /** @type {Map<string, InTensor>} */
  const all = new Map();
  const close = async () => {
    for (const file of files) await file.close();
  };
  try {
    for (const path of paths) {
      const file = await openFile(path);
      files.push(file);
      const { tensors } = await readSafetensors(file);
      for (const [original, tensor] of tensors) {
        for (const [name, part] of canonicalTensors(hf, config, original, tensor)) {
          if (all.has(name)) throw new BqError('FORMAT', `tensor "${original}" of ${path} appears twice`);
          all.set(name, part);
        }
      }
    }
    return { tensors: joinParts(all), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * NOT_A_MODEL, FORMAT, UNSUPPORTED, READ.
 * @param {string} input  a folder, or a safetensors file with config.json beside it
 * @param {boolean} isFolder
 * @returns {Promise<import('./checkpoint.js').Checkpoint>}
 */
export async function openHf(input, isFolder) {
  const { basename, dirname, join } = await nodeModule('path');
  const folder = isFolder ? input : dirname(input);
  const json = await readJson(join(folder, 'config.json'));
  if (!json) throw new BqError('NOT_A_MODEL', `${folder} has no config.json`, { hint: 'it tells what the tensors are for' });
  const own = configOf(json);
  const config = { ...own, ...(await sentenceConfig(folder, own, readJson)) };
  const paths = isFolder ? (await shards(folder)).map((name) => join(folder, name)) : [input];
  const { tensors, close } = await openShards(paths, json, config);
  for (const [name, table] of Object.entries(tablesOf(json, config))) tensors.set(name, table);
  // A tied head may be stored all the same.
  if (config.tied) tensors.delete('lm_head.weight');
  const generation = await readJson(join(folder, 'generation_config.json'));
  const tokenizerConfig = await readJson(join(folder, 'tokenizer_config.json'));
  const template = tokenizerConfig?.chat_template;
  return {
    config, tensors, close, folder,
    name: basename(isFolder ? input : folder),
    tokenizers: ['tokenizer.json'],
    ends: endTokens(generation, json),
    template: typeof template === 'string' ? template : '',
  };
}
