/** Hugging Face's configurations and tensor names in ours, by the rows of families/. */
import { BqError } from '../../shared/errors.js';
import { familyOf } from './index.js';
import { ropeTables } from './rope.js';
import { joined, stacked } from '../bq4/tensor-views.js';

/** @typedef {import('../checkpoint-tensors.js').InTensor} InTensor */

const CANONICAL =
  /^(wte|wpe|wtt|ln_0|ln_f|lm_head|h\.\d+\.(ln[12](_post)?|attn\.([qkvo]|[qk]_norm)|conv\.(in|taps|out)|mlp\.(gate|up|down|router|shared\.(switch|gate|up|down)|experts\.(gate|up|down))))\.(weight|bias|scale)$|^rope\.(local_|long_)?factors$/;
/** Of a model that sees or hears too: what stands before its language model's names, and what is of its other parts. */
const LANGUAGE_MODEL = /^(model\.)?language_model\./;
const OTHER_PARTS = /^(model\.)?(vision_tower|vision_model|visual|audio_tower|multi_modal_projector)\./;

/** What a family makes of a config.json whose values may be of any kind. FORMAT. @template T @param {() => T} read @returns {T} */
function guarded(read) {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof BqError) throw cause;
    throw new BqError(
      'FORMAT',
      `config.json has a value of another kind than its model_type has there: ${/** @type {Error} */ (cause).message}`,
      { cause },
    );
  }
}

/**
 * Our configuration from a config.json: of a family, or model_type "bq4" for our own layout, which has our own keys.
 * UNSUPPORTED, FORMAT.
 * @param {Record<string, any>} hf
 * @returns {Record<string, any>}
 */
export function configOf(hf) {
  if (hf.model_type !== 'bq4') {
    const found = familyOf(hf);
    return guarded(() => found.family.config(found.hf));
  }
  const { model_type: _, ...config } = hf;
  return config;
}

/**
 * Tables of ours that follow from a config.json, by canonical name. FORMAT.
 * @param {Record<string, any>} hf
 * @param {Record<string, any>} config  ours
 * @returns {Record<string, InTensor>}
 */
export function tablesOf(hf, config) {
  const tables = hf.model_type === 'bq4' ? {} : guarded(() => ropeTables(familyOf(hf).hf, config));
  return Object.fromEntries(
    Object.entries(tables).map(([name, values]) => [name, { dims: [values.length], read: async () => values }]),
  );
}

/**
 * The tensors of ours that one of theirs holds, by canonical name, with "#3" behind it where it is part 3 of ours (joinParts);
 * canonical names stay as they are; none for tables that no reader needs. UNSUPPORTED: a name that the family hasn't.
 * @param {Record<string, any>} hf  config.json
 * @param {Record<string, any>} config  ours
 * @param {string} name
 * @param {InTensor | null} tensor  null: it holds integers
 * @returns {[string, InTensor][]}
 */
export function canonicalTensors(hf, config, name, tensor) {
  const integers = () => new BqError('UNSUPPORTED', `tensor "${name}" holds integers`);
  const own = hf.model_type === 'bq4' ? null : familyOf(hf).family;
  if (own?.unread?.test(name) || (hf.text_config && OTHER_PARTS.test(name))) return [];
  const inner = hf.text_config ? name.replace(LANGUAGE_MODEL, '') : name;
  const match = /^(.*)\.(weight|bias)$/.exec(
    own && inner.startsWith(own.prefix) ? inner.slice(own.prefix.length) : inner,
  );
  const found = own && match && moduleOf(own, match[1]);
  if (!found && CANONICAL.test(name)) {
    if (!tensor) throw integers();
    return [[name, tensor]];
  }
  if (!own || !match || !found)
    throw new BqError('UNSUPPORTED', `tensor "${name}" belongs to no ${hf.model_type} model`, {
      hint: 'is config.json that of another model?',
    });
  if (!tensor) throw integers();
  if (typeof found.module !== 'string') checkSplit(name, tensor, config);
  /** @type {[string, InTensor][]} */
  const parts = typeof found.module === 'string' ? [[found.module, tensor]] : found.module(tensor, config);
  return parts.map(([module, part]) => {
    const full = `${found.before}${module}.${match[2]}${found.part}`;
    return [full, own.change?.(full, part) ?? part];
  });
}

/**
 * A tensor that is split has lists of the rows of its parts, which may be no longer than it is itself. SHAPE.
 * @param {string} name @param {InTensor} tensor @param {Record<string, any>} config  ours
 */
function checkSplit(name, { dims }, { hidden, ffn, heads = 1, kv_heads: kv = heads, head_dim: dim = hidden / heads }) {
  const all = dims.reduce((a, b) => a * b, 1);
  const wanted = Math.max(hidden, heads * dim, kv * dim, heads, kv, dims.length > 1 ? ffn : 0);
  if (wanted > all)
    throw new BqError('SHAPE', `tensor "${name}" has ${all} weights, of which config.json makes parts of ${wanted}`);
}

/**
 * @param {import('./index.js').Family} family
 * @param {string} name  without prefix and ending
 * @returns {{ before: string, module: string | import('./index.js').Split, part: string } | null}
 */
function moduleOf(family, name) {
  if (Object.hasOwn(family.outer, name)) return { before: '', module: family.outer[name], part: '' };
  const [, layer, module] =
    (name.startsWith(family.layers) && /^(\d+)\.(.+)$/.exec(name.slice(family.layers.length))) || [];
  const [, first, part, rest] = /^(.+)\.(\d+)(\..+)?$/.exec(module ?? '') ?? [null, module ?? '', '', ''];
  const whole = rest ? `${first}.#${rest}` : first;
  if (!Object.hasOwn(family.modules, whole)) return null;
  return { before: `h.${layer}.`, module: family.modules[whole], part: part && `#${part}` };
}

/**
 * With the parts of a tensor as one, in the order of their numbers. SHAPE: one is missing.
 * @param {Map<string, InTensor>} tensors  by the names of canonicalTensors
 * @returns {Map<string, InTensor>}
 */
export function joinParts(tensors) {
  /** @type {Map<string, InTensor>} */
  const whole = new Map();
  /** @type {Map<string, Map<number, InTensor>>} */
  const parts = new Map();
  for (const [name, tensor] of tensors) {
    const [base, part] = name.split('#');
    if (part === undefined) whole.set(name, tensor);
    else parts.set(base, (parts.get(base) ?? new Map()).set(Number(part), tensor));
  }
  for (const [name, list] of parts) {
    const inOrder = Array.from({ length: list.size }, (_, i) => {
      const tensor = list.get(i);
      if (!tensor) throw new BqError('SHAPE', `part ${i} of "${name}" is missing`);
      return tensor;
    });
    whole.set(name, inOrder[0].dims.length === 1 ? joined(inOrder) : stacked(name, inOrder));
  }
  return whole;
}

/** Ids that end generation: of generation_config.json, else config.json. @param {...(Record<string, any> | null)} configs @returns {number[]} */
export function endTokens(...configs) {
  const eos = configs.map((c) => c?.eos_token_id).find((id) => id !== undefined && id !== null);
  return eos === undefined ? [] : [eos].flat();
}
