/** Reads from a sentence-transformers folder how vectors are pooled and normalized: modules.json and the files it names. */
import { BqError } from '../shared/errors.js';
import { shown } from '../shared/quote-value.js';
import { readJson } from './folder.js';
import { readSafetensors } from '../format/safetensors.js';

/** @import { InTensor } from '../format/checkpoint-tensors.js' */
/** @import { ByteSource } from '../storage/sources/types.js' */

/** Our names of pooling by theirs. @type {Record<string, string>} */
const POOLING = { mean: 'mean', mean_tokens: 'mean', cls: 'cls', cls_token: 'cls', lasttoken: 'last' };

/** @param {Record<string, any>} json  config of a Pooling module: one name, or a boolean for each */
function poolingOf(json) {
  const switched = Object.keys(json)
    .filter((key) => key.startsWith('pooling_mode_') && json[key])
    .map((key) => key.slice('pooling_mode_'.length));
  const modes = [json.pooling_mode ?? switched].flat();
  const [mode] = modes;
  if (modes.length === 1 && typeof mode === 'string' && Object.hasOwn(POOLING, mode)) return POOLING[mode];
  throw new BqError('UNSUPPORTED', `unsupported pooling ${shown(json.pooling_mode ?? switched)}`, {
    hint: 'expected mean, cls or lasttoken alone',
  });
}

/** @param {string} path  of a module; '': the folder itself @param {string} name */
const within = (path, name) => (path ? `${path}/${name}` : name);

/** Most dense layers behind the pooling. */
const DENSE_LAYERS = 2;
/** Our names of activations by the class in PyTorch. @type {Record<string, string>} */
const ACTIVATIONS = { Identity: 'linear', Tanh: 'tanh', GELU: 'gelu_erf', ReLU: 'relu' };

/**
 * Keys of the configuration for a dense layer. UNSUPPORTED: a third one, or one whose activation has no place.
 * @param {Record<string, any>} json  config of a Dense module @param {Record<string, any>} keys  of the layers before it
 */
function denseOf(json, keys) {
  const activation =
    ACTIVATIONS[
      String(json.activation_function ?? 'torch.nn.modules.activation.Tanh')
        .split('.')
        .pop() ?? ''
    ];
  const first = keys.dense1 === undefined;
  if (keys.dense2 !== undefined || !activation || (!first && activation !== 'linear'))
    throw new BqError('UNSUPPORTED', `unsupported Dense module with activation ${shown(json.activation_function)}`, {
      hint: `expected at most ${DENSE_LAYERS}, the second without an activation, of ${Object.keys(ACTIVATIONS).join(', ')}`,
    });
  return first ? { dense1: json.out_features, dense_activation: activation } : { dense2: json.out_features };
}

/**
 * What such a folder says: keys of our configuration, the folders of dense layers behind the pooling, and prompts. Empty for other folders.
 * @typedef {{ keys: Record<string, any>, dense: string[], prompts: Record<string, string>, defaultPrompt: string, unused: string[] }} SentenceModules
 */

/**
 * Throws FORMAT; UNSUPPORTED for a module that is not supported.
 * @param {import('./folder.js').Folder} folder
 * @param {Record<string, any>} config  ours
 * @returns {Promise<SentenceModules>}
 */
export async function sentenceModules(folder, config) {
  const modules = await readJson(folder, 'modules.json');
  /** @type {SentenceModules} */
  const found = { keys: {}, dense: [], unused: [], ...(await promptsOf(folder)) };
  const { keys } = found;
  for (const module of modules ? [modules].flat() : []) {
    const { type, path = '' } = module ?? {};
    if (typeof type !== 'string') throw new BqError('FORMAT', `modules.json has ${shown(module)}; expected a module`);
    if (typeof path !== 'string' || !/^[\w-]*$/.test(path))
      throw new BqError('FORMAT', `modules.json names ${shown(path)}; expected a subfolder`);
    const kind = type.split('.').pop();
    if (kind === 'Transformer') {
      const maxTokens = (await readJson(folder, within(path, 'sentence_bert_config.json')))?.max_seq_length;
      if (maxTokens) keys.text_tokens = typeof maxTokens === 'number' ? Math.min(maxTokens, config.context) : maxTokens;
    } else if (kind === 'Pooling') {
      const pooling = (await readJson(folder, within(path, 'config.json'))) ?? {};
      keys.pooling = poolingOf(pooling);
      // Prompts whose tokens are left out of the vector are not supported: texts have none then.
      if (pooling.include_prompt === false && Object.keys(found.prompts).length)
        Object.assign(found, { prompts: {}, defaultPrompt: '', unused: ['prompts'] });
    } else if (kind === 'Dense') {
      Object.assign(keys, denseOf((await readJson(folder, within(path, 'config.json'))) ?? {}, keys));
      found.dense.push(path);
    } else if (kind === 'Normalize') {
      keys.normalize = true;
    } else {
      throw new BqError('UNSUPPORTED', `unsupported module of kind "${kind}" in modules.json`, {
        hint: 'expected Transformer, Pooling, Dense and Normalize',
      });
    }
  }
  return found;
}

/** Prompts by name, and the name of the default. @param {import('./folder.js').Folder} folder @returns {Promise<{ prompts: Record<string, string>, defaultPrompt: string }>} */
async function promptsOf(folder) {
  const { prompts: listed, default_prompt_name: name } =
    (await readJson(folder, 'config_sentence_transformers.json')) ?? {};
  const prompts = Object.fromEntries(
    Object.entries(listed ?? {}).filter(([, text]) => typeof text === 'string' && text),
  );
  return { prompts, defaultPrompt: typeof name === 'string' && Object.hasOwn(prompts, name) ? name : '' };
}

/**
 * Tensors of the dense layers, by canonical name. Throws READ, FORMAT.
 * @param {import('./folder.js').Folder} folder @param {string[]} dense  their folders
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
      const file = await folder.open(within(path, 'model.safetensors'));
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
