/**
 * How text is split into words before byte-level BPE, as programs for C (c/text/split.h; docs/FORMAT.md, TOKN), by name and by the regular
 * expressions in tokenizer.json. To add one, add a row to SPLITS.
 */
const [OTHER, LETTER, NUMBER, SPACE] = [1, 2, 4, 8];
const [LAST, CUT, SPARE] = [1, 2, 4];
export const SPLIT_ITEM_BYTES = 32;
const NONE = 0xffffffff;

/**
 * Characters of some classes; these code points are in where their class is not, and the other way round.
 * @typedef {{ classes?: number, points?: string }} Set
 * @typedef {Set & { min?: number, max?: number, flags?: number, end?: Set }} Item
 */

/** One of these characters. @param {string} points @returns {Item} */
const one = (points) => ({ points, min: 1, max: 1 });
/** One of this set, if any. @param {Set} set @returns {Item} */
const maybe = (set) => ({ ...set, min: 0, max: 1 });
/** As many as there are. @param {Set} set @returns {Item} */
const many = (set) => ({ ...set, min: 1, max: 0 });
/** `A*B+`, where B is among A. @param {Set} set @param {Set} end @returns {Item} */
const upTo = (set, end) => ({ ...many(set), end, flags: CUT });
/** `A+(?![^end])`. @param {Set} set @param {Set} [end] @returns {Item} */
const spare = (set, end) => ({ ...many(set), end, flags: SPARE });

const BREAKS = { points: '\r\n' };
const spaces = [[spare({ classes: SPACE })], [many({ classes: SPACE })]];
const gpt2Contractions = [[one("'"), one('stmd')], ...['re', 've', 'll'].map(([a, b]) => [one("'"), one(a), one(b)])];
/** `(?i:'s|'t|'re|'ve|'m|'ll|'d)`; ſ is another small s. */
const anyContractions = [
  [one("'"), one('sS\u017f')],
  ...['tT', 'mM', 'dD'].map((letter) => [one("'"), one(letter)]),
  ...[
    ['rR', 'eE'],
    ['vV', 'eE'],
    ['lL', 'lL'],
  ].map(([a, b]) => [one("'"), one(a), one(b)]),
];

/** GPT-2's, where numbers may be cut in another way. @param {Item[]} numbers @param {Set} [spaceEnd] what may follow spaces that keep the last */
const likeGpt2 = (numbers, spaceEnd) => [
  ...gpt2Contractions,
  [maybe({ points: ' ' }), many({ classes: LETTER })],
  numbers,
  [maybe({ points: ' ' }), many({ classes: OTHER })],
  [spare({ classes: SPACE }, spaceEnd)],
  [many({ classes: SPACE })],
];

/** That of Llama 3 and its like: up to `digits` numbers make a word. @param {number} digits */
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
 * The ways to cut. The first is what a section without a program means.
 * @type {Record<string, { program: Item[][], regex?: string }>}
 */
const SPLITS = {
  'gpt-2': { program: likeGpt2([maybe({ points: ' ' }), many({ classes: NUMBER })]) },
  // Each digit by itself; then GPT-2's cuts what lies between digits.
  digits: { program: likeGpt2([{ classes: NUMBER, min: 1, max: 1 }], { classes: NUMBER }) },
  'llama-3': { program: likeLlama3(3), regex: llama3Regex(String.raw`\p{N}{1,3}`) },
  'qwen-2': { program: likeLlama3(1), regex: llama3Regex(String.raw`\p{N}`) },
};

export const DEFAULT_SPLIT = 'gpt-2';

/** Whether it is a name of a way to cut. @param {unknown} name @returns {name is string} */
export const isSplit = (name) => typeof name === 'string' && Object.hasOwn(SPLITS, name);

/**
 * The way to cut that a tokenizer.json asks for; undefined: none of ours.
 * @param {any} pre  its pre_tokenizer
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
  const cuts = first.type === 'Split' && first.behavior === 'Isolated' && !first.invert && !gpt2;
  return cuts ? Object.keys(SPLITS).find((key) => regex && SPLITS[key].regex === regex) : undefined;
}

/**
 * Bytes of a program's items; undefined for the one that needs none.
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
