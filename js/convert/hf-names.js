/** Hugging Face's configurations and tensor names in ours, by the rows of families.js. */
import { BqError } from '../shared/errors.js';
import { FAMILIES } from './families.js';

/** @typedef {import('./tensors.js').InTensor} InTensor */

const CANONICAL = /^(wte|wpe|wtt|ln_0|ln_f|lm_head|h\.\d+\.(ln[12](_post)?|attn\.([qkvo]|[qk]_norm)|mlp\.(gate|up|down)))\.(weight|bias)$|^rope\.(local_)?factors$/;

/** @param {Record<string, any>} hf */
function familyOf(hf) {
  const type = hf.model_type;
  if (!Object.hasOwn(FAMILIES, type))
    throw new BqError('UNSUPPORTED', `config.json says model_type "${type}"`, { hint: `convert reads ${Object.keys(FAMILIES).join(', ')} and our own "bq4"` });
  return FAMILIES[type];
}

/**
 * Our configuration from a config.json: of a family, or model_type "bq4" for our own layout, which has our own keys.
 * UNSUPPORTED.
 * @param {Record<string, any>} hf
 * @returns {Record<string, any>}
 */
export function configOf(hf) {
  if (hf.model_type !== 'bq4') return familyOf(hf).config(hf);
  const { model_type: _, ...config } = hf;
  return config;
}

/**
 * The tensors of ours that one of theirs holds, by canonical name; canonical names stay as they are; none for tables that
 * no reader needs. UNSUPPORTED: a name that the family hasn't.
 * @param {Record<string, any>} hf  config.json
 * @param {Record<string, any>} config  ours
 * @param {string} name
 * @param {InTensor | null} tensor  null: it holds integers
 * @returns {[string, InTensor][]}
 */
export function canonicalTensors(hf, config, name, tensor) {
  const integers = () => new BqError('UNSUPPORTED', `tensor "${name}" holds integers`);
  const own = hf.model_type === 'bq4' ? null : familyOf(hf);
  if (own?.unread?.test(name)) return [];
  const match = /^(.*)\.(weight|bias)$/.exec(own && name.startsWith(own.prefix) ? name.slice(own.prefix.length) : name);
  const found = own && match && moduleOf(own, match[1]);
  if (!found && CANONICAL.test(name)) {
    if (!tensor) throw integers();
    return [[name, tensor]];
  }
  if (!own || !match || !found)
    throw new BqError('UNSUPPORTED', `tensor "${name}" belongs to no ${hf.model_type} model`, { hint: 'is config.json that of another model?' });
  if (!tensor) throw integers();
  /** @type {[string, InTensor][]} */
  const parts = typeof found.module === 'string' ? [[found.module, tensor]] : found.module(tensor, config);
  return parts.map(([module, part]) => {
    const full = `${found.before}${module}.${match[2]}`;
    return [full, own.change?.(full, part) ?? part];
  });
}

/**
 * @param {import('./families.js').Family} family
 * @param {string} name  without prefix and ending
 * @returns {{ before: string, module: string | import('./families.js').Split } | null}
 */
function moduleOf(family, name) {
  if (Object.hasOwn(family.outer, name)) return { before: '', module: family.outer[name] };
  const [, layer, module] = (name.startsWith(family.layers) && /^(\d+)\.(.+)$/.exec(name.slice(family.layers.length))) || [];
  if (!module || !Object.hasOwn(family.modules, module)) return null;
  return { before: `h.${layer}.`, module: family.modules[module] };
}

/** Ids that end generation: of generation_config.json, else config.json. @param {...(Record<string, any> | null)} configs @returns {number[]} */
export function endTokens(...configs) {
  const eos = configs.map((c) => c?.eos_token_id).find((id) => id !== undefined && id !== null);
  return eos === undefined ? [] : [eos].flat();
}
