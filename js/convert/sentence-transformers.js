/** What a sentence-transformers folder says of how its vectors are made: modules.json and what it names. */
import { BqError } from '../shared/errors.js';
import { shown } from '../shared/quote-value.js';
import { readJson } from './folder.js';

/** Their names of pooling in ours. @type {Record<string, string>} */
const POOLING = { mean: 'mean', mean_tokens: 'mean', cls: 'cls', cls_token: 'cls', lasttoken: 'last' };

/** @param {Record<string, any>} json  of a Pooling module: one name, or a switch for each */
function poolingOf(json) {
  const switched = Object.keys(json)
    .filter((key) => key.startsWith('pooling_mode_') && json[key])
    .map((key) => key.slice('pooling_mode_'.length));
  const modes = [json.pooling_mode ?? switched].flat();
  const [mode] = modes;
  if (modes.length === 1 && typeof mode === 'string' && Object.hasOwn(POOLING, mode)) return POOLING[mode];
  throw new BqError('UNSUPPORTED', `vectors are pooled in the way ${shown(json.pooling_mode ?? switched)}`, {
    hint: 'mean, cls or lasttoken alone are computed',
  });
}

/** @param {string} path  of a module; '': it lies in the folder itself @param {string} name */
const within = (path, name) => (path ? `${path}/${name}` : name);

/**
 * Keys of our configuration; none where the folder is of another kind. UNSUPPORTED: a module that is not computed. FORMAT.
 * @param {import('./folder.js').Folder} folder
 * @param {Record<string, any>} config  ours
 * @returns {Promise<Record<string, any>>}
 */
export async function sentenceConfig(folder, config) {
  const modules = await readJson(folder, 'modules.json');
  if (!modules) return {};
  /** @type {Record<string, any>} */
  const found = {};
  for (const module of [modules].flat()) {
    const { type, path = '' } = module ?? {};
    if (typeof type !== 'string') throw new BqError('FORMAT', `modules.json has ${shown(module)}, not a module`);
    if (typeof path !== 'string' || !/^[\w-]*$/.test(path))
      throw new BqError('FORMAT', `modules.json names ${shown(path)}, not a folder in its own`);
    const kind = type.split('.').pop();
    if (kind === 'Transformer') {
      const most = (await readJson(folder, within(path, 'sentence_bert_config.json')))?.max_seq_length;
      if (most) found.text_tokens = typeof most === 'number' ? Math.min(most, config.context) : most;
    } else if (kind === 'Pooling') {
      found.pooling = poolingOf((await readJson(folder, within(path, 'config.json'))) ?? {});
    } else if (kind === 'Normalize') {
      found.normalize = true;
    } else {
      throw new BqError('UNSUPPORTED', `its vectors go through a module of kind "${kind}"`, {
        hint: 'Transformer, Pooling and Normalize are computed',
      });
    }
  }
  return found;
}
