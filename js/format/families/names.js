/**
 * Converts configurations and tensor names of Hugging Face to those of .bq4 files, with the rows of the families
 * (index.js).
 */
import { BqError } from '../../shared/errors.js';
import { familyOf } from './index.js';
import { isOfSharedKeys } from './layers.js';
import { checkWholeHeads, ropeTables } from './rope.js';
import { joined, stacked } from '../bq4/tensor-views.js';

/** @typedef {import('../checkpoint-tensors.js').InTensor} InTensor */

const CANONICAL =
  /^(wte|wpe|wtt|ln_0|ln_f|lm_head|attn\.biases|h\.\d+\.(ln[12](_post)?|attn\.([qkvo]|gate|sinks|(?:[qk]|sub)_norm)|conv\.(in|taps|out)|delta\.(in|z|a|b|taps|dt|decay|norm|out)|mamba\.(in|taps|bias|dt|decay|skip|norm|out)|mlp\.(gate|up|down|sub_norm|router|shared\.(switch|gate|up|down)|experts\.(gate|up|down))|embed\.(gate|out|post)|layer_scale)|embed\.(layers|project|norm))\.(weight|bias|scale)$|^pooled\.(dense[12]|norm)\.(weight|bias)$|^rope\.(local_|long_)?factors$/;
/** Prefix of the language model's tensors in a multimodal model. */
const LANGUAGE_MODEL = /^(model\.)?language_model\./;
/** Prefixes of tensors of the other parts of a multimodal model. */
const OTHER_PARTS =
  /^(model\.)?(vision_tower|vision_model|visual|audio_tower|multi_modal_projector|embed_vision|embed_audio|vision_embedder)\./;

/**
 * Calls a function that reads an untrusted config.json. Exceptions caused by values of unexpected types become FORMAT
 * errors.
 * @template T @param {() => T} read @returns {T}
 */
function callWithUntrusted(read) {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof BqError) throw cause;
    throw new BqError(
      'FORMAT',
      `config.json has a value of an unexpected type for its model_type: ${/** @type {Error} */ (cause).message}`,
      { cause },
    );
  }
}

/**
 * Returns the model configuration (bq4/config.js) of a config.json. With model_type "bq4" the config.json already has
 * the keys of the configuration. Throws UNSUPPORTED, FORMAT.
 * @param {Record<string, any>} hf
 * @returns {Record<string, any>}
 */
export function configOf(hf) {
  if (hf.model_type !== 'bq4') {
    const { family, hf: complete } = familyOf(hf);
    return callWithUntrusted(() => {
      if (!family.rotatesParts) checkWholeHeads(complete);
      const config = { arch: family.arch, ...family.config(complete) };
      return { ...config, ...family.labels?.(complete, config)?.config };
    });
  }
  const { model_type: _, ...config } = hf;
  return config;
}

/**
 * Returns the tensors that follow from a config.json (tables of rotary positions), by canonical name. Throws FORMAT.
 * @param {Record<string, any>} hf  config.json
 * @param {Record<string, any>} config  configuration of the model
 * @returns {Record<string, InTensor>}
 */
export function tablesOf(hf, config) {
  const tables =
    hf.model_type === 'bq4'
      ? {}
      : callWithUntrusted(() => {
          const { family, hf: complete } = familyOf(hf);
          return (family.tables ?? ropeTables)(complete, config);
        });
  return Object.fromEntries(
    Object.entries(tables).map(([name, values]) => [name, { dims: [values.length], read: async () => values }]),
  );
}

/** Returns the name of a tensor's module. @param {string} name @param {string} prefix */
const moduleName = (name, prefix) =>
  (name.startsWith(prefix) ? name.slice(prefix.length) : name).replace(/\.(weight|bias)$/, '');

/**
 * Splits and renames one tensor of a checkpoint; returns canonical names with their tensors. A name that ends with "#3"
 * is part 3 of a tensor (joinParts). A name that is already canonical is kept. The list is empty for a tensor that is
 * not needed. Throws UNSUPPORTED for an unknown name.
 * @param {Record<string, any>} hf  config.json
 * @param {Record<string, any>} config  configuration of the model
 * @param {string} name
 * @param {InTensor | null} tensor  null for a tensor of integers
 * @returns {[string, InTensor][]}
 */
export function canonicalTensors(hf, config, name, tensor) {
  const integers = () => new BqError('UNSUPPORTED', `tensor "${name}" holds integers; expected floats`);
  const { family = null, hf: complete = hf } = hf.model_type === 'bq4' ? {} : familyOf(hf);
  const classifier = family?.labels?.(complete, config)?.outer;
  const classifierModule = family && classifier?.[moduleName(name, family.prefix)];
  if (classifierModule && tensor) return [[`${classifierModule}.${/\.bias$/.test(name) ? 'bias' : 'weight'}`, tensor]];
  if (family?.unread?.test(name) || (hf.text_config && OTHER_PARTS.test(name))) return [];
  const inner = hf.text_config ? name.replace(LANGUAGE_MODEL, '') : name;
  const stripped = family && inner.startsWith(family.prefix) ? inner.slice(family.prefix.length) : inner;
  // Some tensors have no ending, and some biases are modules of their own: each is the weight of its module.
  const named = family && moduleOf(family, stripped) ? null : /^(.*)\.(weight|bias)$/.exec(stripped);
  const match = named ?? ['', stripped, family?.ending?.(stripped) ?? 'weight'];
  const found = family && moduleOf(family, match[1]);
  if (!found && CANONICAL.test(name)) {
    if (!tensor) throw integers();
    return [[name, tensor]];
  }
  if (!family || !found)
    throw new BqError('UNSUPPORTED', `unknown tensor "${name}" in a model of type "${hf.model_type}"`, {
      hint: 'check that config.json belongs to this model',
    });
  if (!tensor) throw integers();
  if (typeof found.module !== 'string') checkSplit(name, tensor, config);
  /** @type {[string, InTensor][]} */
  const parts = typeof found.module === 'string' ? [[found.module, tensor]] : found.module(tensor, config);
  return parts.flatMap(([module, part]) => {
    const canonicalName = `${found.before}${module}.${match[2]}${found.part}`;
    return isOfSharedKeys(canonicalName, config)
      ? []
      : [[canonicalName, family.change?.(canonicalName, part, familyOf(hf).hf) ?? part]];
  });
}

/**
 * Throws SHAPE if a fused tensor is too small for its parts: the lists of their rows must not be longer than the
 * tensor.
 * @param {string} name @param {InTensor} tensor @param {Record<string, any>} config  configuration of the model
 */
function checkSplit(name, { dims }, { hidden, ffn, heads = 1, kv_heads: kv = heads, head_dim: dim = hidden / heads }) {
  const weights = dims.reduce((a, b) => a * b, 1);
  const needed = Math.max(hidden, heads * dim, kv * dim, heads, kv, dims.length > 1 ? ffn : 0);
  if (needed > weights)
    throw new BqError('SHAPE', `tensor "${name}" has ${weights} weights; config.json implies at least ${needed}`);
}

/**
 * Finds a module of a family; null if the family does not have it. `before`: prefix of its canonical name; `part`: for
 * example "#3" if it is part 3 of a tensor, otherwise "".
 * @param {import('./index.js').Family} family
 * @param {string} name  name without the family's prefix and without ".weight" or ".bias"
 * @returns {{ before: string, module: string | import('./index.js').Split, part: string } | null}
 */
function moduleOf(family, name) {
  if (Object.hasOwn(family.outer, name)) return { before: '', module: family.outer[name], part: '' };
  const [, layer, module] =
    (name.startsWith(family.layers) && /^(\d+)\.(.+)$/.exec(name.slice(family.layers.length))) || [];
  const [, start, part, end] = /^(.+)\.(\d+)(\..+)?$/.exec(module ?? '') ?? [null, module ?? '', '', ''];
  const pattern = end ? `${start}.#${end}` : start;
  if (!Object.hasOwn(family.modules, pattern)) return null;
  return { before: `h.${layer}.`, module: family.modules[pattern], part: part && `#${part}` };
}

/**
 * Joins the parts of each tensor ("NAME#0", "NAME#1", …) to one tensor NAME. Throws SHAPE if a part is missing.
 * @param {Map<string, InTensor>} tensors  tensors by the names that canonicalTensors returns
 * @returns {Map<string, InTensor>}
 */
export function joinParts(tensors) {
  /** @type {Map<string, InTensor>} */
  const joinedTensors = new Map();
  /** @type {Map<string, Map<number, InTensor>>} */
  const parts = new Map();
  for (const [name, tensor] of tensors) {
    const [base, part] = name.split('#');
    if (part === undefined) joinedTensors.set(name, tensor);
    else parts.set(base, (parts.get(base) ?? new Map()).set(Number(part), tensor));
  }
  for (const [name, list] of parts) {
    const inOrder = Array.from({ length: list.size }, (_, i) => {
      const tensor = list.get(i);
      if (!tensor) throw new BqError('SHAPE', `part ${i} of "${name}" is missing`);
      return tensor;
    });
    joinedTensors.set(name, inOrder[0].dims.length === 1 ? joined(inOrder) : stacked(name, inOrder));
  }
  return joinedTensors;
}

/**
 * Returns the tokens that end generation, from the first configuration that lists them.
 * @param {...(Record<string, any> | null)} configs @returns {number[]}
 */
export function endTokens(...configs) {
  const eos = configs.map((c) => c?.eos_token_id).find((id) => id !== undefined && id !== null);
  return eos === undefined ? [] : [eos].flat();
}
