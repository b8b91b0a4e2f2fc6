/**
 * Granite with windows (Granite SWA): most layers have a window, some layers may have no rotary positions, and each head
 * has a score without a key (a sink).
 */
import { shown } from '../../shared/quote-value.js';
import { granitemoe } from './experts.js';
import { GGUF_MODULES, ggufWindow, hasExperts, REQUIRED_PATTERN } from './gguf.js';
import { eachLayer, unrotatedLayers } from './layers.js';
import { granite, graniteGguf } from './llama.js';
import { LLAMA_MODULES, expect, listedWindow } from './shared.js';

/** @typedef {import('./shared.js').Family} Family */

/**
 * Returns the keys for the bases of rotary positions, of which a configuration has one for layers with a window and one
 * for the others; 0 is a layer without such positions. Throws UNSUPPORTED.
 * @param {any[]} bases  base of each layer @param {Record<string, any>} windows  keys for layers with a window
 */
function basesOf(bases, windows) {
  const { window = 0, global_every: every = 0, global_layers: listed = [] } = windows;
  const isGlobal = (/** @type {number} */ i) => !window || (every ? (i + 1) % every === 0 : listed.includes(i));
  const used = (/** @type {boolean} */ global) => [
    ...new Set(bases.filter((base, i) => base && isGlobal(i) === global)),
  ];
  const [globalBases, localBases] = [used(true), used(false)];
  expect(
    globalBases.length < 2 && localBases.length < 2,
    `layer_rope_theta ${shown(bases)}: layers of one kind with different bases`,
  );
  const [theta = localBases[0]] = globalBases;
  const [localTheta = theta] = localBases;
  return {
    ...unrotatedLayers(bases.map(Boolean)),
    ...(theta && { rope_theta: theta }),
    ...(localTheta !== theta && { local_theta: localTheta }),
  };
}

/** Keys that config.json files may omit. */
const DEFAULTS = { tie_word_embeddings: true, rms_norm_eps: 1e-5, sliding_window: 128 };

/** Returns the keys of windows, rotary positions and sinks. Throws FORMAT, UNSUPPORTED. @param {Record<string, any>} hf */
function swaOf(hf) {
  const windows = listedWindow(hf, (i) => i % 4 !== 0);
  const bases = eachLayer(hf.layer_rope_theta, hf.num_hidden_layers, 'layer_rope_theta');
  const rope = bases ? basesOf(bases, windows) : {};
  // Local positions would not be scaled (local_theta).
  const { rope_type: type = 'default' } = hf.rope_parameters ?? {};
  expect(!('local_theta' in rope) || type === 'default', `scaled positions (${type}) with two bases of positions`);
  return { ...windows, ...rope, attn_sinks: true };
}

/** @type {Family} */
export const graniteSwa = {
  ...granite,
  arch: 'other',
  labels: undefined,
  modules: { ...LLAMA_MODULES, 'self_attn.sinks': 'attn.sinks' },
  defaults: DEFAULTS,
  config: (hf) => ({ ...granite.config(hf), ...swaOf(hf) }),
  gguf: {
    granite_swa: {
      ...graniteGguf,
      modules: () => ({ ...GGUF_MODULES, attn_sinks: 'attn.sinks' }),
      config(facts) {
        expect(!hasExperts(facts), 'Granite SWA with experts, whose gates are in one tensor (convert the safetensors)');
        const config = graniteGguf.config(facts);
        const rotated = eachLayer(facts.get('attention.rope_pattern', []), config.layers, 'attention.rope_pattern');
        return {
          ...config,
          ...ggufWindow(facts, REQUIRED_PATTERN),
          ...(rotated && unrotatedLayers(rotated.map(Boolean))),
          attn_sinks: true,
        };
      },
    },
  },
};

/** The same with experts in all layers, and perhaps a shared expert. @type {Family} */
export const graniteMoeSwa = {
  ...granitemoe,
  labels: undefined,
  modules: {
    ...granitemoe.modules,
    'self_attn.sinks': 'attn.sinks',
    // Names in published files.
    'block_sparse_moe.router': 'mlp.router',
    'block_sparse_moe.experts.gate_up_proj': granitemoe.modules['block_sparse_moe.input_linear'],
    'block_sparse_moe.experts.down_proj': 'mlp.experts.down',
  },
  defaults: DEFAULTS,
  config: (hf) => ({ ...granitemoe.config(hf), ...swaOf(hf) }),
  gguf: {},
};
