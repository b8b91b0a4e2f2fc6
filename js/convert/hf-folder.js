/**
 * Opens models in Hugging Face's layout: a folder with config.json, weights in one file or in shards, and a tokenizer.
 */
import { BqError, onDemand } from '../shared/errors.js';
import { nodeModule } from '../shared/node.js';
import { shown } from '../shared/quote-value.js';
import { canonicalTensors, configOf, endTokens, joinParts, tablesOf } from '../format/families/names.js';
import { diskFolder, readJson, readText } from './folder.js';
import { suppressedOf, unusedParts } from '../format/meta.js';
import { labelNames } from '../format/families/labels.js';
import { readSafetensors } from '../format/safetensors.js';
import { yesNoReranker } from './reranker.js';
import { denseTensors, sentenceModules } from './sentence-transformers.js';
import { ternaryWeights } from '../format/families/bitnet.js';
import { unpackedTensor, withTernaryWeights } from './ternary-weights.js';

/** @typedef {import('../storage/sources/types.js').ByteSource} ByteSource */
/** @typedef {import('../format/checkpoint-tensors.js').InTensor} InTensor */
/** @typedef {import('./folder.js').Folder} Folder */

/**
 * Returns the names of the files with weights. If the folder has both safetensors and PyTorch files, these are the
 * safetensors. Throws FORMAT, NOT_A_MODEL.
 * @param {Folder} folder @returns {Promise<string[]>}
 */
async function weightFiles(folder) {
  const { path, names } = folder;
  for (const [single, ending] of /** @type {const} */ ([
    ['model.safetensors', /\.safetensors$/],
    ['pytorch_model.bin', /\.(bin|pt|pth|pkl)$/],
  ])) {
    const index = await readJson(folder, `${single}.index.json`);
    if (index) {
      const shards = [...new Set(Object.values(index.weight_map ?? {}))];
      const outside = shards.find((name) => typeof name !== 'string' || /[/\\]/.test(name) || !ending.test(name));
      if (outside !== undefined)
        throw new BqError(
          'FORMAT',
          `${single}.index.json names ${shown(outside)}; expected names of files in its folder`,
        );
      return shards;
    }
    if (names.includes(single)) return [single];
    const candidates = names.filter(
      (name) => ending.test(name) && !/^(training_args|optimizer|scheduler|rng_state|tokenizer)/.test(name),
    );
    if (candidates.length === 1) return candidates;
    if (candidates.length > 1)
      throw new BqError('NOT_A_MODEL', `${path} has several files with weights and no index`, {
        hint: `expected ${single} or ${single}.index.json; or pass one of the files`,
      });
  }
  throw new BqError('NOT_A_MODEL', `${path} has no safetensors file and no pytorch_model.bin`, {
    hint: 'expected model.safetensors, or model.safetensors.index.json with its shards',
  });
}

/**
 * Renames a tensor from the matrix's name to the name of the matrix's scale.
 * @param {[string, InTensor]} entry @returns {[string, InTensor]}
 */
const toScaleName = ([name, tensor]) => [name.replace(/weight$/, 'scale'), tensor];

/**
 * Opens the files with weights. Throws FORMAT, UNSUPPORTED, SHAPE, TRUNCATED.
 * @param {Folder} folder
 * @param {string[]} names  names of the files with weights
 * @param {Record<string, any>} hf  config.json
 * @param {Record<string, any>} config  configuration of the model
 * @returns {Promise<{ tensors: Map<string, InTensor>, unused: string[], close: () => Promise<void> }>}  `unused`: names
 *   of unused tensors
 */
async function openShards(folder, names, hf, config) {
  const ternary = ternaryWeights(hf);
  /** @type {ByteSource[]} */
  const files = [];
  /** @type {Map<string, InTensor>} */
  const all = new Map();
  /** @type {string[]} */
  const unused = [];
  const close = async () => {
    for (const file of files) await file.close();
  };
  try {
    for (const shard of names) {
      const file = await folder.open(shard);
      files.push(file);
      const tensors = shard.endsWith('.safetensors')
        ? (await readSafetensors(file, ternary?.packed ? unpackedTensor : undefined)).tensors
        : (await (await onDemand(import('../format/torch/read.js'))).readTorch(file)).tensors;
      for (const [original, tensor] of tensors) {
        const [, scaledModule] = (ternary?.packed && /^(.+)\.weight_scale$/.exec(original)) || [];
        const parts = scaledModule
          ? canonicalTensors(hf, config, `${scaledModule}.weight`, tensor).map(toScaleName)
          : canonicalTensors(hf, config, original, tensor);
        if (!parts.length) unused.push(original);
        for (const [name, part] of parts) {
          if (all.has(name)) throw new BqError('FORMAT', `tensor "${original}" of ${shard} appears twice`);
          // Errors number a weight within its part, so the name of the part is added.
          all.set(name, { ...part, name: parts.length > 1 ? `${original} (${name})` : original });
        }
      }
    }
    const tensors = joinParts(all);
    return { tensors: ternary ? withTernaryWeights(tensors, ternary) : tensors, unused, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Returns the chat template, or ''. It is a separate file, or in tokenizer_config.json, where it may be a list of named
 * templates.
 * @param {Folder} folder @param {Record<string, any> | null} tokenizerConfig
 */
async function templateOf(folder, tokenizerConfig) {
  if (folder.has('chat_template.jinja')) return readText(folder, 'chat_template.jinja');
  const template = (await readJson(folder, 'chat_template.json'))?.chat_template ?? tokenizerConfig?.chat_template;
  const text = Array.isArray(template)
    ? (template.find((entry) => entry?.name === 'default') ?? template[0])?.template
    : template;
  return typeof text === 'string' ? text : '';
}

/**
 * Opens a folder, or one file with weights that is in a folder with config.json. Throws NOT_A_MODEL, FORMAT,
 * UNSUPPORTED, READ.
 * @param {string} input
 * @param {boolean} isFolder
 * @returns {Promise<import('./checkpoint.js').Checkpoint>}
 */
export async function openHf(input, isFolder) {
  const { basename, dirname } = await nodeModule('path');
  const folder = await diskFolder(isFolder ? input : dirname(input));
  return openHfFolder(folder, isFolder ? null : basename(input), basename(folder.path));
}

/**
 * Opens a folder. Throws NOT_A_MODEL, FORMAT, UNSUPPORTED, SHAPE, TRUNCATED.
 * @param {Folder} folder
 * @param {string | null} file  name of the file with weights; null for all files with weights of the folder
 * @param {string} name  name of the model
 * @returns {Promise<import('./checkpoint.js').Checkpoint>}
 */
export async function openHfFolder(folder, file, name) {
  const { path } = folder;
  const json = await readJson(folder, 'config.json');
  if (!json)
    throw new BqError('NOT_A_MODEL', `${path} has no config.json`, {
      hint: 'fetch the config.json of the model, which describes its tensors',
    });
  const baseConfig = configOf(json);
  const reranker = await yesNoReranker(folder, json, name);
  const sentence = await sentenceModules(folder, baseConfig);
  const config = { ...baseConfig, ...sentence.keys, ...reranker?.config };
  const files = file ? [file] : await weightFiles(folder);
  // These calls may throw: they precede the opening of files, which would have to be closed.
  const generation = await readJson(folder, 'generation_config.json');
  const ends = endTokens(generation, json);
  const suppressed = suppressedOf(generation?.suppress_tokens, 'generation_config.json: suppress_tokens');
  const template = await templateOf(folder, await readJson(folder, 'tokenizer_config.json'));
  const tables = Object.entries(tablesOf(json, config));
  const dense = await denseTensors(folder, sentence.dense);
  const shards = await openShards(folder, files, json, config).catch(async (error) => {
    await dense.close();
    throw error;
  });
  const { tensors, unused } = shards;
  const close = async () => {
    await shards.close();
    await dense.close();
  };
  for (const [module, tensor] of dense.tensors) tensors.set(module, tensor);
  reranker?.change(tensors, Boolean(baseConfig.tied));
  for (const [table, values] of tables) tensors.set(table, values);
  // Some checkpoints contain the LM head even if it is tied to the embedding.
  if (config.tied) tensors.delete('lm_head.weight');
  return {
    config,
    tensors,
    close,
    name,
    folder,
    stamp: folder.stamp(files),
    tokenizers: ['tokenizer.json', 'tokenizer.model', 'vocab.json', 'tokenizer.bin'],
    ends,
    template,
    meta: {
      ...(config.labels && { labels: labelNames(json) }),
      prompts: sentence.prompts,
      defaultPrompt: sentence.defaultPrompt,
      unused: [...unusedParts(unused), ...sentence.unused],
      suppressed,
      ...reranker?.meta,
    },
  };
}
