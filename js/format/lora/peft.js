/** Reads LoRA adapters of PEFT: adapter_model.safetensors, with adapter_config.json in the same folder. */
import { modelTypeOf } from '../families/index.js';
import { canonicalTensors } from '../families/names.js';
import { readSafetensors } from '../safetensors.js';
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { transposed } from './rows.js';

/** @import { ByteSource } from '../../storage/sources/types.js' */
/** @import { InTensor } from '../checkpoint-tensors.js' */
/** @import { Adapter, Pair } from './index.js' */

/** Settings of adapters that are more than products of two matrices. */
const UNSUPPORTED_SETTINGS = [
  'lora_bias',
  'modules_to_save',
  'layer_replication',
  'trainable_token_indices',
  'alora_invocation_tokens',
  'target_parameters',
];
/** Settings of LoRA variants (use_dora, …_config), including future ones. */
const VARIANT_SETTING = /^use_(?!rslora$)|_config$/;
/** Initializations that also change the model's own weights. */
const CHANGES_MODEL = /^(pissa|olora|corda|loftq)/;
const PREFIX = 'base_model.model.';
const HALF = /^(.+)\.lora_([AB])\.weight$/;

/** Whether a setting has a value that is neither empty nor false. @param {unknown} value */
const isSet = (value) =>
  value !== null &&
  value !== undefined &&
  value !== false &&
  !(typeof value === 'object' && !Object.keys(value).length);

/** Throws UNSUPPORTED unless the adapter is plain LoRA. @param {Record<string, any>} settings  adapter_config.json */
function checkSettings(settings) {
  const unsupported = (/** @type {string} */ setting) =>
    new BqError('UNSUPPORTED', `adapter_config.json has the unsupported setting ${setting}`, {
      hint: 'only plain LoRA is supported: merge the adapter into its model and convert that',
    });
  if (settings?.peft_type !== 'LORA') throw unsupported(`peft_type ${shown(settings?.peft_type, 40)}`);
  for (const [name, value] of Object.entries(settings))
    if ((UNSUPPORTED_SETTINGS.includes(name) || VARIANT_SETTING.test(name)) && isSet(value))
      throw unsupported(`"${name}"`);
  if (isSet(settings.bias) && settings.bias !== 'none') throw unsupported(`bias ${shown(settings.bias, 40)}`);
  const { init_lora_weights: initialization } = settings;
  if (typeof initialization === 'string' && CHANGES_MODEL.test(initialization))
    throw unsupported(`init_lora_weights ${shown(initialization, 40)}, which changes the model's weights`);
}

/**
 * Returns the number that the settings specify for a module: the value of the first pattern with which the module's
 * name ends, otherwise the value of `key`. Throws FORMAT, UNSUPPORTED.
 * @param {Record<string, any>} settings @param {string} patterns @param {string} key @param {string} module
 */
function numberFor(settings, patterns, key, module) {
  let number = settings[key];
  for (const [pattern, value] of Object.entries(settings[patterns] ?? {})) {
    if (!/^[\w.]+$/.test(pattern))
      throw new BqError(
        'UNSUPPORTED',
        `"${patterns}" of adapter_config.json has the regular expression "${pattern.slice(0, 60)}"`,
        {
          hint: 'expected names of modules',
        },
      );
    if (module === pattern || module.endsWith(`.${pattern}`)) {
      number = value;
      break;
    }
  }
  if (typeof number === 'number' && number > 0) return number;
  throw new BqError(
    'FORMAT',
    `"${key}" of adapter_config.json is ${shown(number)} for "${module}"; expected a number above 0`,
  );
}

/**
 * Returns the matrices A and B of each module. Throws UNSUPPORTED for other tensors, SHAPE for a missing matrix.
 * @param {Map<string, InTensor | null>} tensors
 */
function halvesOf(tensors) {
  /** @type {Map<string, { A?: InTensor, B?: InTensor }>} */
  const modules = new Map();
  for (const [name, tensor] of tensors) {
    const [, module, half] = HALF.exec(name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name) ?? [];
    if (!module || !tensor || tensor.dims.length !== 2)
      throw new BqError('UNSUPPORTED', `tensor "${name}" is not a plain LoRA matrix A or B`, {
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
 * Reads an adapter. Throws FORMAT, UNSUPPORTED, SHAPE.
 * @param {ByteSource} file
 * @param {() => Promise<Record<string, any>>} readSettings  reads adapter_config.json; called for a safetensors file
 * @param {Record<string, any>} config  configuration of the model
 * @returns {Promise<Adapter>}
 */
export async function readPeft(file, readSettings, config) {
  const { tensors } = await readSafetensors(file);
  const settings = await readSettings();
  checkSettings(settings);
  const hf = { model_type: modelTypeOf(config.arch) };
  const pairs = halvesOf(tensors).flatMap(({ module, a, b }) => {
    const rank = numberFor(settings, 'rank_pattern', 'r', module);
    const alpha = numberFor(settings, 'alpha_pattern', 'lora_alpha', module);
    if (a.dims[0] !== rank)
      throw new BqError(
        'SHAPE',
        `"${module}.lora_A.weight" has rank ${a.dims[0]}; adapter_config.json specifies ${rank}`,
      );
    const scale = alpha / (settings.use_rslora ? Math.sqrt(rank) : rank);
    const rows = settings.fan_in_fan_out ? transposed(b) : b;
    return canonicalTensors(hf, config, `${module}.weight`, rows).map(
      ([name, part]) => /** @type {Pair} */ ({ name, storedName: module, a, b: part, scale }),
    );
  });
  return { format: 'peft', ropePairs: 'half', pairs };
}
