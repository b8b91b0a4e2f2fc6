/** Parses files of tiktoken: a line for each token with its bytes in base64 and its rank, which is its id. */
import { shown } from '../../shared/quote-value.js';
import { fromBase64, utf8 } from './bytes.js';
import { byId, HOLE } from './gpt2.js';
import { stage } from './hf-split.js';
import { mergesFromRanks } from './merges.js';
import { patternNamed } from './patterns.js';
import { FLAG, KIND, malformed, NONE, TOKEN, unsupported } from './section.js';

/** @import { Pattern } from './patterns.js' */

/** @typedef {import('./section.js').Tokenizer} Tokenizer */

/** Returns special tokens with consecutive ids. @param {number} first @param {string[]} names */
const from = (first, names) => Object.fromEntries(names.map((name, i) => [`<|${name}|>`, first + i]));
/** @param {number} first @param {number} count */
const reserved = (first, count) => Array.from({ length: count }, (_, i) => `reserved_special_token_${first + i}`);

/**
 * Properties that a file of ranks does not contain. They are found by the number of its ranks: special tokens, those
 * that end and begin a text, and how text is split into words (a name in patterns.js).
 * @typedef {{ ranks: number, names: string, pattern: string, special: Record<string, number>, end: string, begin?:
 *   string }} Family
 */

/** @type {Family[]} */
const FAMILIES = [
  { ranks: 50256, names: 'r50k', pattern: 'gpt-2', special: from(50256, ['endoftext']), end: '<|endoftext|>' },
  { ranks: 50280, names: 'p50k', pattern: 'gpt-2', special: from(50256, ['endoftext']), end: '<|endoftext|>' },
  {
    ranks: 100256,
    names: 'cl100k',
    pattern: 'llama-bpe',
    special: {
      ...from(100257, ['endoftext', 'fim_prefix', 'fim_middle', 'fim_suffix']),
      ...from(100276, ['endofprompt']),
    },
    end: '<|endoftext|>',
  },
  {
    ranks: 199998,
    names: 'o200k',
    pattern: 'gpt-4o',
    special: { ...from(199999, ['endoftext']), ...from(200018, ['endofprompt']) },
    end: '<|endoftext|>',
  },
  {
    ranks: 128000,
    names: 'Llama 3',
    pattern: 'llama-bpe',
    special: from(128000, [
      ...['begin_of_text', 'end_of_text', ...reserved(0, 2), 'finetune_right_pad_id', ...reserved(2, 1)],
      ...['start_header_id', 'end_header_id', 'eom_id', 'eot_id', 'python_tag', ...reserved(3, 245)],
    ]),
    begin: '<|begin_of_text|>',
    end: '<|end_of_text|>',
  },
  {
    ranks: 151643,
    names: 'Qwen',
    pattern: 'qwen2',
    special: from(151643, ['endoftext', 'im_start', 'im_end', ...Array.from({ length: 205 }, (_, i) => `extra_${i}`)]),
    end: '<|endoftext|>',
  },
];
/** Special tokens that end a turn. */
const ENDS = ['<|im_end|>', '<|eot_id|>', '<|eom_id|>'];

/**
 * Whether a file has the format of tiktoken. Llama 3's file of this format is called tokenizer.model.
 * @param {Uint8Array} bytes
 */
export const isRanks = (bytes) => /^[A-Za-z0-9+/]+={0,2} \d+\r?\n/.test(String.fromCharCode(...bytes.subarray(0, 64)));

/**
 * Parses a file. Throws FORMAT, or UNSUPPORTED if the family is unknown.
 * @param {string} text
 * @returns {Tokenizer}
 */
export function parseTiktoken(text) {
  const lines = text.split(/\r?\n/).filter(Boolean).map(parseLine);
  const family = FAMILIES.find(({ ranks }) => ranks === lines.length);
  if (!family)
    throw unsupported(
      `a file of ${lines.length} ranks is of an unknown family, and does not specify how text is split into words`,
      `known are ${FAMILIES.map(({ names, ranks }) => `${names} (${ranks})`).join(', ')}; for others use tokenizer.json`,
    );
  return ofRanks(lines, family);
}

/**
 * Returns the tokenizer for ranks and the properties of their family.
 * @param {(readonly [rank: number, bytes: Uint8Array])[]} lines
 * @param {Omit<Family, 'ranks' | 'names'>} family
 * @returns {Tokenizer}
 */
export function ofRanks(lines, { special, begin, end, pattern }) {
  const tokens = byId(
    [
      ...lines.map(([id, bytes]) => entry(id, bytes, TOKEN.normal)),
      ...Object.entries(special).map(([name, id]) => entry(id, utf8(name), TOKEN.control)),
    ],
    HOLE,
  );
  const { split, stages } = /** @type {Pattern} */ (patternNamed(pattern));
  return {
    kind: KIND.bpe,
    // A word that is a token is not split.
    flags: FLAG.ignoreMerges | (begin ? FLAG.addBos : 0),
    ...(split ? { split } : { parts: stages?.map((source) => stage(source)) }),
    bos: special[begin ?? end] ?? NONE,
    eos: special[end] ?? NONE,
    unk: NONE,
    pad: NONE,
    eog: [end, ...ENDS].flatMap((name) => special[name] ?? []),
    tokens,
    merges: mergesFromRanks(byId(lines, new Uint8Array())),
  };
}

/**
 * @param {number} id
 * @param {Uint8Array} bytes
 * @param {number} kind
 * @returns {[number, import('./section.js').Token]}
 */
const entry = (id, bytes, kind) => [id, { bytes, score: 0, kind }];

/**
 * @param {string} line
 * @returns {[number, Uint8Array]}
 */
function parseLine(line) {
  const [base64, rank, ...rest] = line.split(' ');
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64) || !/^\d+$/.test(rank ?? '') || rest.length) {
    throw malformed(`expected a line of base64 and rank, found ${shown(line)}`);
  }
  try {
    return [Number(rank), fromBase64(base64)];
  } catch {
    throw malformed(`expected base64, found ${shown(base64)}`);
  }
}
