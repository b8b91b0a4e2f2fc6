/**
 * Reads pooling, normalization, dense layers and prompts from a folder of sentence-transformers: modules.json and the
 * files that it lists.
 */
import { BqError } from '../shared/errors.js';
import { shown } from '../shared/quote-value.js';
import { readJson } from './folder.js';
import { readSafetensors } from '../format/safetensors.js';

/** @import { InTensor } from '../format/checkpoint-tensors.js' */
/** @import { ByteSource } from '../storage/sources/types.js' */

/** The configuration's names of pooling, by the names of sentence-transformers. @type {Record<string, string>} */
const POOLING = { mean: 'mean', mean_tokens: 'mean', cls: 'cls', cls_token: 'cls', lasttoken: 'last' };

/**
 * Returns the kind of pooling. Throws UNSUPPORTED.
 * @param {Record<string, any>} json  config of a Pooling module: it has the name of the kind, or a boolean for each
 *   kind
 */
function poolingOf(json) {
  const enabled = Object.keys(json)
    .filter((key) => key.startsWith('pooling_mode_') && json[key])
    .map((key) => key.slice('pooling_mode_'.length));
  const modes = [json.pooling_mode ?? enabled].flat();
  const [mode] = modes;
  if (modes.length === 1 && typeof mode === 'string' && Object.hasOwn(POOLING, mode)) return POOLING[mode];
  throw new BqError('UNSUPPORTED', `unsupported pooling ${shown(json.pooling_mode ?? enabled)}`, {
    hint: 'expected mean, cls or lasttoken alone',
  });
}

/**
 * Returns the path of a module's file.
 * @param {string} path  folder of the module; '' for the model's folder
 * @param {string} name
 */
const joinPath = (path, name) => (path ? `${path}/${name}` : name);

/** Largest number of dense layers after the pooling. */
const DENSE_LAYERS = 2;
/** The configuration's names of activations, by their classes in PyTorch. @type {Record<string, string>} */
const ACTIVATIONS = { Identity: 'linear', Tanh: 'tanh', GELU: 'gelu_erf', ReLU: 'relu' };

/**
 * Returns the keys of the configuration for a dense layer. Throws UNSUPPORTED for a third layer, an unknown activation,
 * or an activation of the second layer.
 * @param {Record<string, any>} json  config of a Dense module
 * @param {Record<string, any>} keys  keys of the previous layers
 */
function denseOf(json, keys) {
  const activation =
    ACTIVATIONS[
      String(json.activation_function ?? 'torch.nn.modules.activation.Tanh')
        .split('.')
        .pop() ?? ''
    ];
  const isFirst = keys.dense1 === undefined;
  if (keys.dense2 !== undefined || !activation || (!isFirst && activation !== 'linear'))
    throw new BqError('UNSUPPORTED', `unsupported Dense module with activation ${shown(json.activation_function)}`, {
      hint: `expected at most ${DENSE_LAYERS}, the second without an activation, of ${Object.keys(ACTIVATIONS).join(', ')}`,
    });
  return isFirst ? { dense1: json.out_features, dense_activation: activation } : { dense2: json.out_features };
}

/**
 * Content of a sentence-transformers folder; empty for other folders. `keys`: keys of the model configuration; `dense`:
 * folders of the dense layers after the pooling; `unused`: names of ignored parts.
 * @typedef {{
 *   keys: Record<string, any>, dense: string[], prompts: Record<string, string>, defaultPrompt: string,
 *   unused: string[]
 * }} SentenceModules
 */

/**
 * Reads modules.json. Throws FORMAT; UNSUPPORTED for a module that is not supported.
 * @param {import('./folder.js').Folder} folder
 * @param {Record<string, any>} config  configuration of the model
 * @returns {Promise<SentenceModules>}
 */
export async function sentenceModules(folder, config) {
  const modules = await readJson(folder, 'modules.json');
  /** @type {SentenceModules} */
  const result = { keys: {}, dense: [], unused: [], ...(await promptsOf(folder)) };
  const { keys } = result;
  for (const module of modules ? [modules].flat() : []) {
    const { type, path = '' } = module ?? {};
    if (typeof type !== 'string') throw new BqError('FORMAT', `modules.json has ${shown(module)}; expected a module`);
    if (typeof path !== 'string' || !/^[\w-]*$/.test(path))
      throw new BqError('FORMAT', `modules.json names ${shown(path)}; expected a subfolder`);
    const kind = type.split('.').pop();
    if (kind === 'Transformer') {
      const maxTokens = (await readJson(folder, joinPath(path, 'sentence_bert_config.json')))?.max_seq_length;
      if (maxTokens) keys.text_tokens = typeof maxTokens === 'number' ? Math.min(maxTokens, config.context) : maxTokens;
    } else if (kind === 'Pooling') {
      const pooling = (await readJson(folder, joinPath(path, 'config.json'))) ?? {};
      keys.pooling = poolingOf(pooling);
      // Omitting the prompt's tokens from the pooling is not supported, so such prompts are not used.
      if (pooling.include_prompt === false && Object.keys(result.prompts).length)
        Object.assign(result, { prompts: {}, defaultPrompt: '', unused: ['prompts'] });
    } else if (kind === 'Dense') {
      Object.assign(keys, denseOf((await readJson(folder, joinPath(path, 'config.json'))) ?? {}, keys));
      result.dense.push(path);
    } else if (kind === 'Normalize') {
      keys.normalize = true;
    } else {
      throw new BqError('UNSUPPORTED', `unsupported module of kind "${kind}" in modules.json`, {
        hint: 'expected Transformer, Pooling, Dense and Normalize',
      });
    }
  }
  return result;
}

/**
 * Reads the prompts by name, and the name of the default prompt ('' if there is none).
 * @param {import('./folder.js').Folder} folder
 * @returns {Promise<{ prompts: Record<string, string>, defaultPrompt: string }>}
 */
async function promptsOf(folder) {
  const { prompts: listed, default_prompt_name: name } =
    (await readJson(folder, 'config_sentence_transformers.json')) ?? {};
  const prompts = Object.fromEntries(
    Object.entries(listed ?? {}).filter(([, text]) => typeof text === 'string' && text),
  );
  return { prompts, defaultPrompt: typeof name === 'string' && Object.hasOwn(prompts, name) ? name : '' };
}

/**
 * Opens the tensors of the dense layers; returns them with canonical names. Throws READ, FORMAT.
 * @param {import('./folder.js').Folder} folder @param {string[]} dense  folders of the dense layers
 * @returns {Promise<{ tensors: [string, InTensor][], close: () => Promise<void> }>}
 */
export async function denseTensors(folder, dense) {
  /** @type {[string, InTensor][]} */
  const tensors = [];
  /** @type {ByteSource[]} */
  const files = [];
  const close = async () => {
    for (const file of files) await file.close();
  };
  try {
    for (const [i, path] of dense.entries()) {
      const file = await folder.open(joinPath(path, 'model.safetensors'));
      files.push(file);
      for (const [name, tensor] of (await readSafetensors(file)).tensors)
        if (tensor) tensors.push([name.replace(/^linear\./, `pooled.dense${i + 1}.`), tensor]);
    }
    return { tensors, close };
  } catch (error) {
    await close();
    throw error;
  }
}
