/** The first OLMo, whose norms have no weights, and OLMoE, with experts. OLMo 2 and 3 are in llama.js. */
import { expertsOf, EXPERT_MODULES } from './experts.js';
import {
  GGUF_EXPERT_MODULES,
  GGUF_HEAD_NORMS,
  GGUF_MODULES,
  ggufExperts,
  ggufRms,
  ggufRotaryLayerNorm,
} from './gguf.js';
import { llama } from './llama.js';
import { ropeTables } from './rope.js';
import { LLAMA_MODULES, normTables } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

const EPSILON = 1e-5;

/** Returns the keys of a model that limits q, k and v. @param {number | null | undefined} limit */
const clipOf = (limit) => (limit ? { qkv_clip: limit } : {});

/** @type {Family} */
export const olmo = {
  ...llama,
  arch: 'other',
  labels: undefined,
  config: (hf) => ({ ...llama.config(hf), norm: 'layer', norm_eps: EPSILON, ...clipOf(hf.clip_qkv) }),
  tables: (hf, config) => ({ ...ropeTables(hf, config), ...normTables(config) }),
  gguf: {
    olmo: {
      ropePairs: 'adjacent',
      modules: () => GGUF_MODULES,
      config: (facts) => ({
        ...ggufRotaryLayerNorm(facts, 'silu'),
        gated: true,
        ...clipOf(facts.get('attention.clamp_kqv', 0)),
      }),
      tables: normTables,
    },
  },
};

/** Norms of q and k over all heads, and experts in all layers. @type {Family} */
export const olmoe = {
  ...llama,
  arch: 'other',
  labels: undefined,
  modules: {
    ...LLAMA_MODULES,
    ...EXPERT_MODULES,
    'self_attn.q_norm': 'attn.q_norm',
    'self_attn.k_norm': 'attn.k_norm',
  },
  config: (hf) => ({
    ...llama.config({ rms_norm_eps: EPSILON, ...hf }),
    qk_norm: 'rows',
    ...clipOf(hf.clip_qkv),
    ...expertsOf(hf, { experts_sum: hf.norm_topk_prob ?? false }),
  }),
  gguf: {
    olmoe: {
      modules: () => ({ ...GGUF_EXPERT_MODULES, ...GGUF_HEAD_NORMS }),
      config: (facts) => ({ ...ggufRms(facts), qk_norm: 'rows', ...ggufExperts(facts, false) }),
    },
  },
};
