/**
 * Chat formats that many models share, in compact form. They are found by name or by a fingerprint of the chat
 * template, so that a model with one of these templates needs no template engine.
 */

/** @import { ChatFormat } from '../../shared/types.js' */

/** @param {string} before @param {string} after */
const turn = (before, after) => ({ before, after });
/** @param {(role: string) => string} before @param {string} after @param {string} [reply]  name of the model's role */
const roles = (before, after, reply = 'assistant') => ({
  system: turn(before('system'), after),
  user: turn(before('user'), after),
  assistant: turn(before(reply), after),
});

const CHATML = roles((role) => `<|im_start|>${role}\n`, '<|im_end|>\n');
const LLAMA3 = roles((role) => `<|start_header_id|>${role}<|end_header_id|>\n\n`, '<|eot_id|>');
const [DATES, GEMMA] = [
  'Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n',
  roles((role) => `<start_of_turn>${role}\n`, '<end_of_turn>\n', 'model'),
];

/** ChatML with a default system message. @param {string} system */
const chatml = (system) => ({
  roles: CHATML,
  start: `<|im_start|>system\n${system}<|im_end|>\n`,
  stop: ['<|im_end|>'],
  bos: false,
});

/** @type {Record<string, ChatFormat>} */
const FORMATS = {
  chatml: { roles: CHATML, stop: ['<|im_end|>'], bos: false },
  smollm2: chatml('You are a helpful AI assistant named SmolLM, trained by Hugging Face'),
  'qwen2.5': chatml('You are Qwen, created by Alibaba Cloud. You are a helpful assistant.'),
  'llama-2': {
    roles: {
      system: { ...turn('<s>[INST] <<SYS>>\n', '\n<</SYS>>\n\n'), opens: true },
      user: turn('<s>[INST] ', ' [/INST]'),
      assistant: turn(' ', ' </s>'),
    },
    prompt: '',
    trim: true,
    stop: ['</s>'],
    bos: false,
  },
  'llama-3': { roles: LLAMA3, trim: true, stop: ['<|eot_id|>'], bos: true },
  'llama-3.1': {
    roles: { ...LLAMA3, system: turn(LLAMA3.system.before + DATES, LLAMA3.system.after) },
    start: LLAMA3.system.before + DATES + LLAMA3.system.after,
    trim: true,
    stop: ['<|eot_id|>'],
    bos: true,
  },
  gemma: { roles: { user: GEMMA.user, assistant: GEMMA.assistant }, trim: true, stop: ['<end_of_turn>'], bos: true },
  mistral: { roles: { user: turn('[INST] ', ' [/INST]'), assistant: turn('', '</s>') }, stop: ['</s>'], bos: true },
  'mistral-nemo': {
    roles: { user: turn('[INST]', '[/INST]'), assistant: turn('', '</s>') },
    stop: ['</s>'],
    bos: true,
  },
  'phi-3': { roles: roles((role) => `<|${role}|>\n`, '<|end|>\n'), stop: ['<|end|>'], bos: false },
  zephyr: { roles: roles((role) => `<|${role}|>\n`, '</s>\n'), stop: ['</s>'], bos: false },
};

/**
 * Names of formats by the fingerprint of their templates, as published with models on Hugging Face. Tests cannot fetch
 * four of the templates: chatml from teknium/OpenHermes-2.5-Mistral-7B, llama-2 from meta-llama/Llama-2-7b-chat-hf,
 * mistral from mistralai/Mistral-7B-Instruct-v0.2, zephyr from HuggingFaceH4/zephyr-7b-beta and TinyLlama-1.1B-Chat.
 * The others are checked by tests/js/templates.long.mjs (smollm2, llama-3) and tests/js/templates.test.mjs.
 * @type {Record<string, keyof typeof FORMATS>}
 */
const TEMPLATES = {
  '1y08toe-36cwgu-199': 'chatml',
  '4mnt46-187e7ai-368': 'smollm2',
  'm5ve2d-1q7sw15-2506': 'qwen2.5',
  'kdgzn5-14rpott-815': 'llama-2',
  'sj6zee-hy7iua-348': 'llama-3',
  '1knzt42-aek202-4613': 'llama-3.1',
  'c7x8wr-f9098v-591': 'gemma',
  'g295nv-8lddyz-470': 'mistral',
  '1t6desd-1cyd7dx-3944': 'mistral-nemo',
  'i2vbbm-17k7sj6-430': 'phi-3',
  '1t2eby8-1mnsfw-410': 'zephyr',
};

export const FORMAT_NAMES = Object.keys(FORMATS);

/** @param {string} name @returns {ChatFormat | null} */
export const formatNamed = (name) => (Object.hasOwn(FORMATS, name) ? FORMATS[name] : null);

/** Returns a short hash of a template, with its length. @param {string} template */
export function fingerprint(template) {
  const text = template.trim();
  let [a, b] = [0xdeadbeef, 0x41c6ce57];
  for (let i = 0; i < text.length; i++) {
    a = Math.imul(a ^ text.charCodeAt(i), 2654435761);
    b = Math.imul(b ^ text.charCodeAt(i), 1597334677);
  }
  return `${(a >>> 0).toString(36)}-${(b >>> 0).toString(36)}-${text.length}`;
}

/** Returns the name of a template's format, or '' if it is unknown. @param {string} template */
export const knownName = (template) => TEMPLATES[fingerprint(template)] ?? '';

/**
 * Returns the compact form of a template, or null if its format is unknown.
 * @param {string} template @returns {ChatFormat | null}
 */
export const knownFormat = (template) => formatNamed(knownName(template));
