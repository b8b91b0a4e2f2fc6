/**
 * How text is split into words before byte-level BPE: programs for C (c/text/split.h; docs/FORMAT.md, TOKN). They are
 * found by name or by the regular expression in tokenizer.json. A new one needs a row in SPLITS.
 */
const [OTHER, LETTER, NUMBER, SPACE] = [1, 2, 4, 8];
const [LAST, CUT, SPARE] = [1, 2, 4];
export const SPLIT_ITEM_BYTES = 32;
const NONE = 0xffffffff;

/**
 * A set of characters: those of some classes. For the code points of `points`, membership is the opposite of that of
 * their class.
 * @typedef {{ classes?: number, points?: string }} Set
 * @typedef {Set & { min?: number, max?: number, flags?: number, end?: Set }} Item
 */

/** Returns an item of one of these characters. @param {string} points @returns {Item} */
const one = (points) => ({ points, min: 1, max: 1 });
/** Returns an item of an optional character of a set. @param {Set} set @returns {Item} */
const maybe = (set) => ({ ...set, min: 0, max: 1 });
/** Returns an item of one or more characters of a set. @param {Set} set @returns {Item} */
const many = (set) => ({ ...set, min: 1, max: 0 });
/** Returns the item `A*B+`, where B is a subset of A. @param {Set} set @param {Set} end @returns {Item} */
const upTo = (set, end) => ({ ...many(set), end, flags: CUT });
/** Returns the item `A+(?![^end])`. @param {Set} set @param {Set} [end] @returns {Item} */
const spare = (set, end) => ({ ...many(set), end, flags: SPARE });

const BREAKS = { points: '\r\n' };
const spaces = [[spare({ classes: SPACE })], [many({ classes: SPACE })]];
const gpt2Contractions = [[one("'"), one('stmd')], ...['re', 've', 'll'].map(([a, b]) => [one("'"), one(a), one(b)])];
/** `(?i:'s|'t|'re|'ve|'m|'ll|'d)`. ſ is a lower case s, too. */
const anyContractions = [
  [one("'"), one('sS\u017f')],
  ...['tT', 'mM', 'dD'].map((letter) => [one("'"), one(letter)]),
  ...[
    ['rR', 'eE'],
    ['vV', 'eE'],
    ['lL', 'lL'],
  ].map(([a, b]) => [one("'"), one(a), one(b)]),
];

/**
 * Returns the program of GPT-2, with a variable part for numbers.
 * @param {Item[]} numbers
 * @param {Set} [spaceEnd]  characters before which, as at the end of the text, a run of white space keeps its last
 *   character
 */
const likeGpt2 = (numbers, spaceEnd) => [
  ...gpt2Contractions,
  [maybe({ points: ' ' }), many({ classes: LETTER })],
  numbers,
  [maybe({ points: ' ' }), many({ classes: OTHER })],
  [spare({ classes: SPACE }, spaceEnd)],
  [many({ classes: SPACE })],
];

/** Returns the program of Llama 3 and similar models: a word has up to `digits` numbers. @param {number} digits */
const likeLlama3 = (digits) => [
  ...anyContractions,
  [maybe({ classes: OTHER | SPACE, points: '\r\n' }), many({ classes: LETTER })],
  [{ classes: NUMBER, min: 1, max: digits }],
  [maybe({ points: ' ' }), many({ classes: OTHER }), { ...BREAKS, min: 0, max: 0 }],
  [upTo({ classes: SPACE }, BREAKS)],
  ...spaces,
];

/** @param {string} digits */
const llama3Regex = (digits) =>
  String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|` +
  digits +
  String.raw`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

/**
 * The programs by name. A section without a program has the first one.
 * @type {Record<string, { program: Item[][], regex?: string }>}
 */
const SPLITS = {
  'gpt-2': { program: likeGpt2([maybe({ points: ' ' }), many({ classes: NUMBER })]) },
  // Each digit is a word. The text between digits is split as by GPT-2.
  digits: { program: likeGpt2([{ classes: NUMBER, min: 1, max: 1 }], { classes: NUMBER }) },
  'llama-3': { program: likeLlama3(3), regex: llama3Regex(String.raw`\p{N}{1,3}`) },
  'qwen-2': { program: likeLlama3(1), regex: llama3Regex(String.raw`\p{N}`) },
};

export const DEFAULT_SPLIT = 'gpt-2';

/** Whether a value is the name of a program. @param {unknown} name @returns {name is string} */
export const isSplit = (name) => typeof name === 'string' && Object.hasOwn(SPLITS, name);

/**
 * Returns the name of the program for a pre-tokenizer of tokenizer.json, or undefined if there is none.
 * @param {any} pre  pre_tokenizer of tokenizer.json
 * @returns {string | undefined}
 */
export function namedSplit(pre) {
  const steps = pre?.type === 'Sequence' && Array.isArray(pre.pretokenizers) ? pre.pretokenizers : [pre];
  const last = steps.at(-1);
  if (last?.type !== 'ByteLevel' || last.add_prefix_space) return undefined;
  const [first, ...more] = steps.slice(0, -1);
  const gpt2 = last.use_regex !== false;
  if (more.length) return undefined;
  if (!first) return gpt2 ? 'gpt-2' : undefined;
  if (first.type === 'Digits' && first.individual_digits && gpt2) return 'digits';
  const regex = first.pattern?.Regex;
  const isPlainSplit = first.type === 'Split' && first.behavior === 'Isolated' && !first.invert && !gpt2;
  return isPlainSplit ? Object.keys(SPLITS).find((key) => regex && SPLITS[key].regex === regex) : undefined;
}

/**
 * Returns the bytes of a program's items, or undefined for the default program, which is not stored.
 * @param {string} name
 */
export function encodeSplit(name) {
  if (name === DEFAULT_SPLIT) return undefined;
  const items = SPLITS[name].program.flatMap((alternative) =>
    alternative.map((item, i) => ({ ...item, flags: (item.flags ?? 0) | (i === alternative.length - 1 ? LAST : 0) })),
  );
  const out = new Uint8Array(SPLIT_ITEM_BYTES * items.length);
  const view = new DataView(out.buffer);
  items.forEach(({ classes = 0, points = '', min = 0, max = 0, flags, end = {} }, i) => {
    const at = SPLIT_ITEM_BYTES * i;
    out.set([classes, min, max, flags], at);
    for (let k = 0; k < 4; k++) view.setUint32(at + 4 + 4 * k, points.codePointAt(k) ?? NONE, true);
    out[at + 20] = end.classes ?? 0;
    for (let k = 0; k < 2; k++) view.setUint32(at + 24 + 4 * k, end.points?.codePointAt(k) ?? NONE, true);
  });
  return out;
}
