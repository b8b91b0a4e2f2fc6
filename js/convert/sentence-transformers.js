/** Reads from a sentence-transformers folder how vectors are pooled and normalized: modules.json and the files it names. */
import { BqError } from '../shared/errors.js';
import { shown } from '../shared/quote-value.js';
import { readJson } from './folder.js';

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

/**
 * Keys of our configuration; none for other folders. Throws FORMAT; UNSUPPORTED for a module that is not supported.
 * @param {import('./folder.js').Folder} folder
 * @param {Record<string, any>} config  ours
 * @returns {Promise<Record<string, any>>}
 */
export async function sentenceConfig(folder, config) {
  const modules = await readJson(folder, 'modules.json');
  if (!modules) return {};
  /** @type {Record<string, any>} */
  const keys = {};
  for (const module of [modules].flat()) {
    const { type, path = '' } = module ?? {};
    if (typeof type !== 'string') throw new BqError('FORMAT', `modules.json has ${shown(module)}; expected a module`);
    if (typeof path !== 'string' || !/^[\w-]*$/.test(path))
      throw new BqError('FORMAT', `modules.json names ${shown(path)}; expected a subfolder`);
    const kind = type.split('.').pop();
    if (kind === 'Transformer') {
      const maxTokens = (await readJson(folder, within(path, 'sentence_bert_config.json')))?.max_seq_length;
      if (maxTokens) keys.text_tokens = typeof maxTokens === 'number' ? Math.min(maxTokens, config.context) : maxTokens;
    } else if (kind === 'Pooling') {
      keys.pooling = poolingOf((await readJson(folder, within(path, 'config.json'))) ?? {});
    } else if (kind === 'Normalize') {
      keys.normalize = true;
    } else {
      throw new BqError('UNSUPPORTED', `unsupported module of kind "${kind}" in modules.json`, {
        hint: 'expected Transformer, Pooling and Normalize',
      });
    }
  }
  return keys;
}
