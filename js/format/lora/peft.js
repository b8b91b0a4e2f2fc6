/** Adapters as PEFT saves them: adapter_model.safetensors, with adapter_config.json beside it. */
import { canonicalTensors } from '../families/names.js';
import { readSafetensors } from '../safetensors.js';
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { transposed } from './rows.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { InTensor } from '../checkpoint-tensors.js' */
/** @import { Adapter, Pair } from './index.js' */

/** What Hugging Face calls the family of our `arch`, where that is another name. @type {Record<string, string>} */
const FAMILIES = {
  gemma3: 'gemma3_text',
  starcoder: 'gpt_bigcode',
  neox: 'gpt_neox',
  qwen2moe: 'qwen2_moe',
  qwen3moe: 'qwen3_moe',
};
/** Settings by which an adapter is more, or other, than a product of two matrices. */
const OTHERS = [
  'lora_bias',
  'modules_to_save',
  'layer_replication',
  'trainable_token_indices',
  'alora_invocation_tokens',
  'target_parameters',
];
/** And ways of training that are no plain LoRA, those that are still to come included. */
const VARIANT = /^use_(?!rslora$)|_config$/;
/** Ways to begin with that change the model's own weights, too. */
const CHANGED = /^(pissa|olora|corda|loftq)/;
const PREFIX = 'base_model.model.';
const HALF = /^(.+)\.lora_([AB])\.weight$/;

/** @param {unknown} value  of a setting */
const isSet = (value) =>
  value !== null &&
  value !== undefined &&
  value !== false &&
  !(typeof value === 'object' && !Object.keys(value).length);

/** UNSUPPORTED, FORMAT. @param {Record<string, any>} settings  adapter_config.json */
function checkSettings(settings) {
  const refuse = (/** @type {string} */ what) =>
    new BqError('UNSUPPORTED', `adapter_config.json says ${what}`, {
      hint: 'plain LoRA is computed: merge the adapter into its model and convert that',
    });
  if (settings?.peft_type !== 'LORA') throw refuse(`peft_type ${shown(settings?.peft_type, 40)}`);
  for (const [name, value] of Object.entries(settings))
    if ((OTHERS.includes(name) || VARIANT.test(name)) && isSet(value)) throw refuse(`"${name}"`);
  if (isSet(settings.bias) && settings.bias !== 'none') throw refuse(`bias ${shown(settings.bias, 40)}`);
  const { init_lora_weights: start } = settings;
  if (typeof start === 'string' && CHANGED.test(start))
    throw refuse(`init_lora_weights ${shown(start, 40)}: its model has other weights`);
}

/**
 * A number of the settings for a module: by a pattern that its name ends with, else by the key itself. FORMAT, UNSUPPORTED.
 * @param {Record<string, any>} settings @param {string} patterns @param {string} key @param {string} module
 */
function numberFor(settings, patterns, key, module) {
  let found = settings[key];
  for (const [pattern, value] of Object.entries(settings[patterns] ?? {})) {
    if (!/^[\w.]+$/.test(pattern))
      throw new BqError(
        'UNSUPPORTED',
        `"${patterns}" of adapter_config.json has the expression "${pattern.slice(0, 60)}"`,
        {
          hint: 'names of modules are read',
        },
      );
    if (module === pattern || module.endsWith(`.${pattern}`)) {
      found = value;
      break;
    }
  }
  if (typeof found === 'number' && found > 0) return found;
  throw new BqError('FORMAT', `adapter_config.json has no proper "${key}" for "${module}"`);
}

/** The halves of each module. UNSUPPORTED: other tensors; SHAPE: one half alone. @param {Map<string, InTensor | null>} tensors */
function halvesOf(tensors) {
  /** @type {Map<string, { A?: InTensor, B?: InTensor }>} */
  const modules = new Map();
  for (const [name, tensor] of tensors) {
    const [, module, half] = HALF.exec(name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name) ?? [];
    if (!module || !tensor || tensor.dims.length !== 2)
      throw new BqError('UNSUPPORTED', `tensor "${name}" is no half of a plain LoRA`, {
        hint: 'merge the adapter into its model and convert that',
      });
    modules.set(module, { ...modules.get(module), [half]: tensor });
  }
  return [...modules].map(([module, { A: a, B: b }]) => {
    if (a && b) return { module, a, b };
    throw new BqError('SHAPE', `the adapter's tensor "${module}.lora_${a ? 'B' : 'A'}.weight" is missing`);
  });
}

/**
 * FORMAT, UNSUPPORTED, SHAPE.
 * @param {ByteSource} file
 * @param {Record<string, any>} settings  adapter_config.json
 * @param {Record<string, any>} config  of the model
 * @returns {Promise<Adapter>}
 */
export async function readPeft(file, settings, config) {
  const { tensors } = await readSafetensors(file);
  checkSettings(settings);
  const hf = { model_type: FAMILIES[config.arch] ?? config.arch };
  const list = halvesOf(tensors).flatMap(({ module, a, b }) => {
    const rank = numberFor(settings, 'rank_pattern', 'r', module);
    const alpha = numberFor(settings, 'alpha_pattern', 'lora_alpha', module);
    if (a.dims[0] !== rank)
      throw new BqError('SHAPE', `"${module}.lora_A.weight" has rank ${a.dims[0]}, adapter_config.json says ${rank}`);
    const scale = alpha / (settings.use_rslora ? Math.sqrt(rank) : rank);
    const rows = settings.fan_in_fan_out ? transposed(b) : b;
    return canonicalTensors(hf, config, `${module}.weight`, rows).map(
      ([name, part]) => /** @type {Pair} */ ({ name, theirs: module, a, b: part, scale }),
    );
  });
  return { format: 'peft', pairs: 'half', list };
}
