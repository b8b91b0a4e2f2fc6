// Tokenizers of other programs, read from their files, written as TOKN sections, and used through wasm. tests/c/test_tokenizer_files.c
// compares more tokens.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { tokenizerFromJson, tokenizerToJson } from '../../js/format/bq4/companion-json.js';
import { ALPHABET } from '../../js/text/tokenizers/bytes.js';
import { tokenizerFromGguf } from '../../js/format/gguf/tokenizer.js';
import { patternNamed } from '../../js/text/tokenizers/patterns.js';
import { parseGpt2 } from '../../js/text/tokenizers/gpt2.js';
import { parseHfTokenizer } from '../../js/text/tokenizers/hf-json.js';
import { readTokenizerFile } from '../../js/convert/tokenizer-files.js';
import { parseLlama2c } from '../../js/text/tokenizers/llama2c.js';
import { encodeTokenizer, FLAG, KIND, NONE, TOKEN } from '../../js/text/tokenizers/section.js';
import { isRanks, ofRanks, parseTiktoken } from '../../js/text/tokenizers/tiktoken.js';
import { createEngine, fromBytes } from '../../js/node.js';
import { openBytes } from '../../js/storage/sources/bytes.js';
import { readHeader } from '../../js/format/gguf/header.js';
import { generate, TARGET, VERSION } from '../../tools/gen_unicode.mjs';
import * as data from '../../tools/gen_unicode_data.mjs';
import { goldenTokenizer } from '../tools/golden_tokenizers.mjs';
import { CONFIG, tinyModel } from './fixture.mjs';

const utf8 = (text) => new TextEncoder().encode(text);
/** @param {string} text @param {number} [kind] @param {number} [score] */
const token = (text, kind = TOKEN.normal, score = 0) => ({ bytes: utf8(text), score, kind });
const texts = (tokenizer) => tokenizer.tokens.map(({ bytes }) => new TextDecoder().decode(bytes));
const fails = (code, pattern) => (error) => error.code === code && pattern.test(error.message) && error.hint !== '';

const folder = mkdtempSync(join(tmpdir(), 'bq4-tokenizers-'));
after(() => rmSync(folder, { recursive: true }));
const file = (name, bytes) => {
  writeFileSync(join(folder, name), bytes);
  return join(folder, name);
};

test('c/text/unicode_tables.h matches the output of its script', (t) => {
  const committed = readFileSync(TARGET, 'utf8');
  const version = /BQ_UNICODE_VERSION "([\d.]+)"/.exec(committed)?.[1];
  assert.ok(version);
  // Another version of Node can have another version of Unicode, and then another table.
  if (version === VERSION) assert.ok(committed === generate(), 'run tools/gen_unicode.mjs');
  else t.diagnostic(`the table is of Unicode ${version}, this Node has ${VERSION}`);
  // Facts of all versions.
  assert.match(committed, /\{\n  0, 201, 5, 210, 1, 143, 10, 71, 26, 70, 26, 202, 1, 218, 1, 73, 1, 135, 2, 65,/);
});

test('js/text/tokenizers/unicode-data.js matches the output of its script', (t) => {
  const committed = readFileSync(data.TARGET, 'utf8');
  const version = /Unicode ([\d.]+)\. Numbers/.exec(committed)?.[1];
  assert.ok(version);
  if (version === data.VERSION) assert.ok(committed === data.generate(), 'run tools/gen_unicode_data.mjs');
  else t.diagnostic(`the table is of Unicode ${version}, this Node has ${data.VERSION}`);
});

/* --- the section ---------------------------------------------------------------------------- */

const SMALL = {
  kind: KIND.bpe,
  flags: FLAG.addBos,
  bos: 3,
  eos: NONE,
  unk: NONE,
  pad: NONE,
  eog: [3],
  tokens: [token('a'), token('b', TOKEN.normal, -1.5), token('ab'), token('<s>', TOKEN.control)],
  merges: [[0, 1, 2]],
};

test('a section, byte for byte', () => {
  const words = [
    2,
    1,
    0,
    3,
    NONE,
    NONE,
    NONE,
    1,
    4,
    1,
    7,
    /* eog */ 3,
    /* ends */ 1,
    2,
    4,
    7,
    /* scores */ 0,
    0xbfc00000,
    0,
    0,
    /* kinds */ 0x02000000,
    /* merges */ 0,
    1,
    2,
  ];
  assert.deepEqual(
    Buffer.from(encodeTokenizer(/** @type {any} */ (SMALL))),
    Buffer.concat([Buffer.from(Uint32Array.from(words).buffer), Buffer.from('abab<s>')]),
  );
});

test('a tokenizer that C would refuse is not written as a section', () => {
  const wrong = (changes) => () => encodeTokenizer({ ...SMALL, ...changes });
  const refused = (pattern) => fails('FORMAT', pattern);
  assert.throws(wrong({ tokens: [] }), refused(/no tokens/));
  assert.throws(wrong({ bos: 4 }), refused(/bos is 4/));
  assert.throws(wrong({ pad: -1 }), refused(/pad is -1/));
  assert.throws(wrong({ eog: [9] }), refused(/9 ends generation/));
  assert.throws(wrong({ merges: [[0, 1, 4]] }), refused(/merge 0 names a token/));
  assert.throws(wrong({ merges: [[0, 1]] }), refused(/merge 0/));
  assert.throws(wrong({ merges: [null] }), refused(/merge 0/));
  assert.throws(wrong({ merges: [[0, 1, 3]] }), refused(/merge 0 does not result in/));
  assert.throws(wrong({ split: 'llama-4' }), refused(/unknown split "llama-4"/));
  assert.throws(wrong({ split: 'qwen-2', kind: KIND.spm }), refused(/unknown split "qwen-2"/));
  const with4 = (added) => wrong({ tokens: [...SMALL.tokens, added] });
  assert.throws(with4(token('x', 6)), refused(/token 4 has the unknown kind 6/));
  assert.throws(with4(token('xy', TOKEN.byte)), refused(/byte token 4 has 2 bytes/));
  assert.throws(with4(token('x', TOKEN.normal, NaN)), refused(/score of token 4/));
});

test('the tokenizer of a companion is the one of the section', () => {
  for (const split of ['gpt-2', 'llama-3']) {
    const tokenizer = /** @type {any} */ ({ ...SMALL, eos: 3, split });
    const json = JSON.parse(JSON.stringify(tokenizerToJson(tokenizer)));
    assert.deepEqual(encodeTokenizer(tokenizerFromJson(json)), encodeTokenizer(tokenizer));
  }
});

/* --- files of other programs ------------------------------------------------------------------ */

test('tokenizer.bin of llama2.c', () => {
  const entry = (text, score) => [
    Buffer.from(Float32Array.of(score).buffer),
    Buffer.from(Uint32Array.of(Buffer.byteLength(text)).buffer),
    Buffer.from(text),
  ];
  const bytes = Buffer.concat([
    Buffer.from(Uint32Array.of(7).buffer),
    ...[
      ['<unk>', 0],
      ['\n<s>\n', 0],
      ['\n</s>\n', 0],
      ['<0x0A>', 0],
      [' t', -1],
    ].flatMap(([text, score]) => entry(text, score)),
  ]);
  const t = parseLlama2c(bytes, 5);
  assert.deepEqual(texts(t), ['<unk>', '<s>', '</s>', '\n', ' t']);
  assert.deepEqual(
    t.tokens.map(({ kind }) => kind),
    [TOKEN.unknown, TOKEN.control, TOKEN.control, TOKEN.byte, TOKEN.normal],
  );
  assert.equal(t.tokens[4].score, -1);
  assert.deepEqual([t.kind, t.bos, t.eos, t.unk, t.eog], [KIND.spm, 1, 2, 0, [1, 2]]);
  assert.throws(() => parseLlama2c(bytes, 6), fails('FORMAT', /after 5 of 6 tokens/));
  assert.throws(() => parseLlama2c(bytes, 4), fails('FORMAT', /10 bytes follow its 4 tokens/));
  for (let n = 0; n < bytes.length; n++)
    assert.throws(() => parseLlama2c(bytes.subarray(0, n), 5), fails('FORMAT', /./));
});

const GPT2 = JSON.stringify({ a: 0, b: 1, Ġ: 2, ab: 3, Ġab: 4, '<|endoftext|>': 5, é: 6 });

test('encoder.json and vocab.bpe of GPT-2', () => {
  const t = parseGpt2(GPT2, '#version: 0.2\na b\nĠ ab\n');
  assert.deepEqual(t.merges, [
    [0, 1, 3],
    [2, 3, 4],
  ]);
  assert.deepEqual(texts(t).slice(0, 6), ['a', 'b', ' ', 'ab', ' ab', '<|endoftext|>']);
  assert.deepEqual([...t.tokens[6].bytes], [0xe9], 'é stands for one byte');
  assert.deepEqual([t.bos, t.eos, t.eog, t.tokens[5].kind], [5, 5, [5], TOKEN.control]);
  assert.throws(() => parseGpt2(GPT2, 'a c\n'), fails('FORMAT', /merge 0 needs "c"/));
  assert.throws(() => parseGpt2(GPT2, 'ab\n'), fails('FORMAT', /found "ab"/));
  assert.throws(() => parseGpt2('{', ''), fails('FORMAT', /encoder.json is not valid JSON/));
  assert.throws(() => parseGpt2('{"a": 0, "b": 2}', ''), fails('FORMAT', /2 tokens, found ids up to 2/));
  assert.throws(() => parseGpt2('{"a": 0, "b": 0}', ''), fails('FORMAT', /two tokens have the id 0/));
  assert.throws(() => parseGpt2('{"€": 0}', ''), fails('FORMAT', /"€" is not in the byte alphabet/));
});

test('tiktoken: merges from ranks', () => {
  const lines = ['a', 'b', 'c', 'ab', 'bc', 'abc', 'abab', 'xy'].map(
    (text, rank) => /** @type {const} */ ([rank, new TextEncoder().encode(text)]),
  );
  const t = ofRanks(lines, { special: { '<end>': 10, '<other>': 8 }, end: '<end>', pattern: 'gpt-2' });
  // abc is ab + c, since ab is before bc; no merge leads to xy, which cannot be built from single bytes.
  assert.deepEqual(t.merges, [
    [0, 1, 3],
    [1, 2, 4],
    [3, 2, 5],
    [3, 3, 6],
  ]);
  assert.deepEqual(texts(t).slice(7), ['xy', '<other>', '', '<end>']);
  assert.deepEqual([t.eos, t.eog, t.tokens[9].kind], [10, [10], TOKEN.unused]);
  assert.throws(() => parseTiktoken('YQ== 0\nYg==\n'), fails('FORMAT', /found "Yg=="/));
  assert.throws(() => parseTiktoken('?? 0\n'), fails('FORMAT', /found "\?\? 0"/));
  assert.throws(() => parseTiktoken('YQ== 0\n'), fails('UNSUPPORTED', /1 ranks .* split into words/));
});

test('tiktoken: missing settings are known from the number of ranks', () => {
  /** @param {number} count @param {number} [hole]  a rank that none has */
  const file = (count, hole = -1) => {
    const ranks = Array.from({ length: count + 1 }, (_, rank) => rank)
      .filter((rank) => rank !== hole)
      .slice(0, count);
    return ranks.map((rank) => `${btoa(rank < 256 ? String.fromCharCode(rank) : `<${rank}>`)} ${rank}\n`).join('');
  };
  /** @param {number} count @param {number} [hole] */
  const facts = (count, hole) => {
    const t = parseTiktoken(file(count, hole));
    const named = t.tokens.flatMap(({ kind }, id) => (kind === TOKEN.control ? [id] : []));
    return [t.tokens.length, t.split ?? null, t.bos, t.eog, named.length, named[0]];
  };
  assert.deepEqual(facts(50256), [50257, 'gpt-2', 50256, [50256], 1, 50256]);
  assert.deepEqual(facts(50280, 50256), [50281, 'gpt-2', 50256, [50256], 1, 50256]);
  assert.deepEqual(facts(100256), [100277, 'llama-3', 100257, [100257], 5, 100257]);
  assert.deepEqual(facts(199998), [200019, null, 199999, [199999], 2, 199999]);
  assert.deepEqual(facts(128000), [128256, 'llama-3', 128000, [128001, 128009, 128008], 256, 128000]);
  assert.deepEqual(facts(151643), [151851, 'qwen-2', 151643, [151643, 151645], 208, 151643]);
  assert.ok(isRanks(new TextEncoder().encode(file(3))) && !isRanks(new TextEncoder().encode('{"a": 0}')));
});

const HF = {
  added_tokens: [
    { id: 3, content: '<s>', special: true },
    { id: 4, content: '<tag>', special: false },
  ],
  normalizer: null,
  pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
  post_processor: null,
  model: { type: 'BPE', vocab: { a: 0, b: 1, ab: 2, '<s>': 3 }, merges: [['a', 'b']] },
};
const hf = (changes = {}, hints) => parseHfTokenizer(JSON.stringify({ ...HF, ...changes }), hints);

test('tokenizer.json of Hugging Face', () => {
  const t = hf();
  assert.deepEqual(texts(t), ['a', 'b', 'ab', '<s>', '<tag>']);
  assert.deepEqual(
    t.tokens.map(({ kind }) => kind),
    [0, 0, 0, TOKEN.control, TOKEN.user],
  );
  assert.deepEqual([t.merges, t.bos, t.eog, t.flags], [[[0, 1, 2]], NONE, [], 0]);
  assert.deepEqual(hf({ model: { ...HF.model, merges: ['a b'] } }).merges, [[0, 1, 2]]);
  assert.equal(hf({ model: { ...HF.model, ignore_merges: true } }).flags, FLAG.ignoreMerges);
  const hinted = hf({}, { bos: '<s>', eos: 2, pad: -1, eog: [2, 4] });
  assert.deepEqual([hinted.bos, hinted.eos, hinted.pad, hinted.eog], [3, 2, NONE, [2, 4]]);
  const single = [{ SpecialToken: { id: '<s>' } }, { Sequence: { id: 'A' } }];
  const framed = hf({
    post_processor: { type: 'TemplateProcessing', single, special_tokens: { '<s>': { ids: [3] } } },
  });
  assert.deepEqual([framed.bos, framed.flags], [3, FLAG.addBos]);
  // Two tokens at the end, as in Command R: none is added after a text.
  const ends = [...single, { SpecialToken: { id: '<s>' } }, { SpecialToken: { id: '<s>' } }];
  const closed = hf({
    post_processor: { type: 'TemplateProcessing', single: ends, special_tokens: { '<s>': { ids: [3] } } },
  });
  assert.deepEqual([closed.bos, closed.eos, closed.flags], [3, NONE, FLAG.addBos]);
  // Numbers without a token, and a token without bytes.
  const holes = hf({ model: { ...HF.model, vocab: { ...HF.model.vocab, '™': 7 } } });
  assert.deepEqual(texts(holes).slice(5), ['', '', '™']);
  assert.equal(holes.tokens[5].kind, TOKEN.unused);
  assert.throws(
    () => hf({ model: { ...HF.model, vocab: { ...HF.model.vocab, z: 1e9 } } }),
    fails('FORMAT', /6 tokens, found ids up to 1000000000/),
  );
});

test('tokenizer.json files with unsupported settings are refused', () => {
  const refused = (pattern) => fails('UNSUPPORTED', pattern);
  assert.throws(() => hf({ normalizer: { type: 'Nmt' } }), refused(/Nmt/));
  assert.throws(() => hf({ pre_tokenizer: { type: 'Sequence' } }), fails('FORMAT', /unexpected layout/));
  assert.throws(() => hf({ pre_tokenizer: { type: 'UnicodeScripts' } }), refused(/UnicodeScripts/));
  assert.throws(() => hf({ model: { type: 'WordLevel', vocab: {} } }), refused(/WordLevel/));
  const [words, marks] = [
    { type: 'WhitespaceSplit' },
    { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always' },
  ];
  const inTurn = (/** @type {any[]} */ ...pretokenizers) => hf({ pre_tokenizer: { type: 'Sequence', pretokenizers } });
  const digits = { type: 'Digits', individual_digits: true };
  assert.throws(
    () => inTurn(digits, { ...HF.pre_tokenizer, add_prefix_space: true }),
    refused(/each part .* by ByteLevel/),
  );
  const unigram = { type: 'Unigram', vocab: [['<unk>', 0], ['▁', -1], ['▁a', -2]], unk_id: 0 }; // prettier-ignore
  const ofUnigram = (/** @type {any} */ pre_tokenizer) => () => hf({ added_tokens: [], pre_tokenizer, model: unigram });
  const sequence = (/** @type {any[]} */ ...pretokenizers) => ofUnigram({ type: 'Sequence', pretokenizers });
  assert.throws(sequence(digits, marks), refused(/each part .* by Metaspace/));
  assert.throws(sequence(words, { ...marks, prepend_scheme: 'first' }), refused(/each part .* by Metaspace/));
  assert.throws(sequence(marks, words), refused(/▁ for spaces by WhitespaceSplit/));
  assert.throws(sequence(marks, { type: 'Whitespace' }), refused(/▁ for spaces by Whitespace/));
  const atSpaces = { type: 'Split', pattern: { String: ' ' }, behavior: 'Isolated' };
  assert.throws(sequence(atSpaces, { ...marks, prepend_scheme: 'never' }), refused(/▁ for spaces by /));
  assert.throws(ofUnigram({ ...marks, replacement: '_' }), refused(/spaces as "_"/));
  assert.throws(ofUnigram(words), refused(/no ▁ for spaces/));
  const stripped = (/** @type {object} */ sides) => () =>
    hf({
      added_tokens: [],
      normalizer: { type: 'Strip', ...sides },
      pre_tokenizer: { ...marks, prepend_scheme: 'first' },
      model: unigram,
    });
  assert.throws(stripped({}), refused(/only if Strip has removed nothing/));
  assert.doesNotThrow(stripped({ strip_left: false, strip_right: true }));
  assert.throws(ofUnigram(HF.pre_tokenizer), refused(/a Unigram model whose texts are written in bytes/));
  const toMarks = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
  for (const delimiter of ['▁', ' '])
    assert.throws(
      () =>
        hf({
          added_tokens: [],
          normalizer: toMarks,
          pre_tokenizer: { type: 'CharDelimiterSplit', delimiter },
          model: unigram,
        }),
      refused(/▁ for spaces by CharDelimiterSplit/),
    );
  assert.throws(
    () => inTurn({ ...marks, prepend_scheme: 'never' }, HF.pre_tokenizer),
    refused(/Metaspace and by ByteLevel/),
  );
  assert.throws(() => hf({ pre_tokenizer: words, decoder: HF.pre_tokenizer }), refused(/decodes text by ByteLevel/));
  const marked = { type: 'BPE', vocab: { '▁': 0, a: 1 }, merges: [] };
  const unmarked = (/** @type {object} */ changes) => () =>
    hf({ added_tokens: [], pre_tokenizer: words, model: { ...marked, ...changes } });
  assert.throws(unmarked({ byte_fallback: true }), refused(/tokens with ▁/));
  assert.throws(unmarked({ vocab: { a: 0 } }), refused(/no token for characters that its vocabulary lacks/));
  const wordpiece = { type: 'WordPiece', vocab: { '[UNK]': 0, a: 1, '##a': 2 } };
  const ofWords =
    (/** @type {any} */ pre_tokenizer, /** @type {object} */ changes = {}) =>
    () =>
      hf({ added_tokens: [], pre_tokenizer, model: { ...wordpiece, ...changes } });
  assert.throws(ofWords(digits), refused(/whose words have spaces/));
  assert.throws(ofWords(marks), refused(/▁ for spaces/));
  assert.throws(ofWords(words, { continuing_subword_prefix: '' }), refused(/without a mark/));
  const dots = { type: 'Split', pattern: { Regex: '.' }, behavior: 'MergedWithNext' };
  assert.throws(ofWords({ type: 'Sequence', pretokenizers: [words, dots] }), refused(/MergedWithNext/));
  const around = [{ SpecialToken: { id: '<s>' } }, { Sequence: { id: 'A' } }];
  const twice = { type: 'TemplateProcessing', single: around, special_tokens: { '<s>': { ids: [3, 3] } } };
  assert.throws(() => hf({ post_processor: twice }), refused(/several tokens around a text for <s>/));
  const adds = (/** @type {object} */ entry) => () => hf({ added_tokens: [...HF.added_tokens, entry] });
  assert.throws(adds({ id: 2, content: 'ab', single_word: true }), refused(/adds the token "ab"/));
  const letter = { ...HF.model, vocab: { ...HF.model.vocab, é: 4 } };
  assert.throws(() => hf({ added_tokens: [{ id: 4, content: 'é' }], model: letter }), refused(/adds the token "é"/));
  assert.throws(() => hf({ model: { ...HF.model, end_of_word_suffix: '</w>' } }), refused(/continue or end a word/));
  assert.throws(() => hf({ added_tokens: [null] }), fails('FORMAT', /without a text/));
  assert.throws(() => hf({ model: { ...HF.model, merges: [null] } }), fails('FORMAT', /expected a merge/));
  assert.throws(() => hf({ model: {} }), fails('FORMAT', /no vocabulary/));
  assert.throws(() => hf({}, { eos: 'zzz' }), fails('FORMAT', /no token zzz/));
});

test('pre-tokenizers of tokenizer.json and GGUF files', async () => {
  const bytes = { type: 'ByteLevel', add_prefix_space: false, use_regex: false };
  const regex = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
  const split = { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false };
  const of = (/** @type {any[]} */ ...pretokenizers) =>
    hf({ pre_tokenizer: { type: 'Sequence', pretokenizers } }).split;
  assert.equal(hf().split, 'gpt-2');
  assert.equal(of(split, bytes), 'llama-3');
  assert.equal(of({ ...split, pattern: { Regex: regex.replace('{1,3}', '') } }, bytes), 'qwen-2');
  assert.equal(of({ type: 'Digits', individual_digits: true }, { ...bytes, use_regex: true }), 'digits');
  // Another expression becomes an automaton, or is refused with its text.
  for (const steps of [
    [{ ...split, pattern: { Regex: regex.replace('{1,3}', '{1,2}') } }, bytes],
    [{ ...split, behavior: 'Removed' }, bytes],
    [split, { ...bytes, use_regex: true }],
    [
      { type: 'Digits', individual_digits: false },
      { ...bytes, use_regex: true },
    ],
    [bytes],
  ])
    assert.equal(of(...steps), undefined);
  const refused = (/** @type {string} */ source, /** @type {RegExp} */ what) =>
    assert.throws(() => of({ ...split, pattern: { Regex: source } }, bytes), fails('UNSUPPORTED', what));
  refused('(a)\\1', /"\\1"/);
  refused('(?<=a)b', /"\(\?<"/);
  refused('a(?=bc)', /a lookahead of more than one character/);
  refused('a*', /matches the empty string/);
  refused('\\p{Klingon}', /\\p\{Klingon\}/);
  refused('(?:a{1000}){1000}', /too many states/);
  refused('(', /a group without "\)"/);
  refused('[b-a]', /a character range out of order/);
  const bpe = { [`${GGML}model`]: 'gpt2', [`${GGML}tokens`]: ['a'], [`${GGML}merges`]: [] };
  for (const [pre, name] of [
    ['gpt-2', 'gpt-2'],
    ['llama-bpe', 'llama-3'],
    ['hunyuan', 'qwen-2'],
    ['smollm', 'digits'],
    ['gpt-4o', undefined],
    ['qwen2', undefined],
  ])
    assert.equal((await ofGguf(gguf({ ...bpe, [`${GGML}pre`]: pre }))).split, name);
});

/** A GGUF file with metadata only. */
function gguf(metadata, version = 3) {
  const u32 = (n) => Buffer.from(Uint32Array.of(n).buffer);
  const u64 = (n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
  const string = (text) => [u64(Buffer.byteLength(text)), Buffer.from(text)];
  const value = (v) => {
    if (typeof v === 'string') return [u32(8), ...string(v)];
    if (typeof v === 'boolean') return [u32(7), Buffer.of(Number(v))];
    if (!Array.isArray(v)) return [u32(4), u32(v)];
    if (typeof v[0] === 'string') return [u32(9), u32(8), u64(v.length), ...v.flatMap(string)];
    return [u32(9), u32(6), u64(v.length), ...v.map((x) => Buffer.from(Float32Array.of(x).buffer))];
  };
  const entries = Object.entries(metadata).flatMap(([key, v]) => [...string(key), ...value(v)]);
  return Buffer.concat([Buffer.from('GGUF'), u32(version), u64(0), u64(Object.keys(metadata).length), ...entries]);
}

/** @param {Uint8Array} bytes */
const ofGguf = async (bytes) => tokenizerFromGguf((await readHeader(openBytes(bytes), bytes)).metadata);

const GGML = 'tokenizer.ggml.';
const SPM = {
  'general.name': 'x',
  [`${GGML}model`]: 'llama',
  [`${GGML}tokens`]: ['<unk>', '<s>', '<0x41>', '▁a', '\ufeffb', '<|end|>'],
  [`${GGML}scores`]: [0, 0, 0, -2, -3, 0],
  [`${GGML}token_type`]: [2, 3, 6, 1, 1, 3],
  [`${GGML}bos_token_id`]: 1,
  [`${GGML}unknown_token_id`]: 0,
};

test('a token of ranks costs as much as its bytes; one that is longer than the limit is refused', () => {
  const bytes = Array.from({ length: 256 }, (_, i) => /** @type {const} */ ([i, Uint8Array.of(i)]));
  const family = { special: {}, end: '', pattern: 'gpt-2' };
  const long = (/** @type {number} */ n, /** @type {number} */ at = 256) =>
    /** @type {const} */ ([at, new Uint8Array(n).fill(97)]);
  const powers = Array.from({ length: 10 }, (_, i) => long(2 ** (i + 1), 256 + i));
  const { merges } = ofRanks([...bytes, ...powers, long(1000, 266)], /** @type {any} */ (family));
  assert.deepEqual(merges[0], [97, 97, 256]);
  assert.deepEqual(merges.at(-1), [264, 264, 265]);
  assert.equal(merges.length, 10);
  assert.throws(
    () => ofRanks([...bytes, long(16384)], /** @type {any} */ (family)),
    fails('FORMAT', /token 256 has 16384 bytes/),
  );
});

test('words of deepseek-llm consist of the letters that its tokenizer lists', () => {
  const expression = patternNamed('deepseek-llm')?.stages?.[1];
  const letters = new RegExp(`^${expression}$`, 'u');
  const are = (/** @type {string} */ text) =>
    Array.from(text)
      .filter((c) => letters.test(c))
      .join('');
  // Capital letters but not small ones of Armenian, Georgian capitals of 2018, small letters of Cherokee, Old Hungarian, Adlam.
  assert.equal(are('aZµªӾԱՖաֆև ႠაᲐꭰꮿჽ ᴀᴬ ℂℓK℀ ꞎꞏꞐ ﬁﬓ Ａ𐐀𐲀𞤀𞥄'), 'aZµӾԱՖႠᲐꭰꮿᴀℂℓKꞎﬁﬓＡ𐐀𐲀𞤀');
  let count = 0;
  for (let code = 0; code < 0x20000; code++)
    if ((code < 0xd800 || code > 0xdfff) && letters.test(String.fromCodePoint(code))) count++;
  assert.equal(count, 2729);
});

test('GPT-NeoX without a pre-tokenizer composes characters', async () => {
  const neox = {
    'general.architecture': 'gptneox',
    [`${GGML}model`]: 'gpt2',
    [`${GGML}tokens`]: ['a', 'b'],
    [`${GGML}merges`]: [],
  };
  const [with_, without] = [await ofGguf(gguf(neox)), await ofGguf(gguf({ ...neox, 'general.architecture': 'gpt2' }))];
  assert.deepEqual(with_.parts, (await ofGguf(gguf({ ...neox, [`${GGML}pre`]: 'olmo' }))).parts);
  assert.ok(with_.parts?.length);
  assert.equal(without.parts, undefined);
});

test('a GGUF file without special tokens has the defaults of its kind; required ones that are missing are named', async () => {
  const ids = async (/** @type {any} */ metadata) => {
    const { bos, eos, unk, eog, flags } = await ofGguf(gguf(metadata));
    return { bos, eos, unk, eog, addBos: (flags & FLAG.addBos) !== 0, addEos: (flags & FLAG.addEos) !== 0 };
  };
  const without = (/** @type {any} */ metadata, /** @type {string[]} */ ...keys) =>
    Object.fromEntries(Object.entries(metadata).filter(([key]) => !keys.includes(key.replace(GGML, ''))));
  const words = Array.from({ length: 12 }, (_, i) => `w${i}`);
  const llama = {
    [`${GGML}model`]: 'llama',
    [`${GGML}tokens`]: ['<unk>', '<s>', '</s>', '▁a'],
    [`${GGML}scores`]: [0, 0, 0, -1],
  };
  const found = { bos: 1, eos: 2, unk: 0, eog: [2], addBos: true, addEos: false };
  assert.deepEqual(await ids(llama), found);
  assert.deepEqual(await ids({ ...llama, [`${GGML}token_type`]: [2, 3, 3, 1] }), found);
  assert.deepEqual(await ids({ ...llama, [`${GGML}bos_token_id`]: 99, [`${GGML}eos_token_id`]: 4 }), found);
  assert.deepEqual(await ids({ ...llama, [`${GGML}bos_token_id`]: 3 }), { ...found, bos: 3 });
  assert.deepEqual(await ids({ ...llama, [`${GGML}add_bos_token`]: false }), { ...found, addBos: false });
  const two = { ...llama, [`${GGML}tokens`]: ['<unk>', '<s>'], [`${GGML}scores`]: [0, 0] };
  assert.deepEqual(await ids(two), { ...found, eos: NONE, eog: [] });
  assert.deepEqual(await ids({ ...llama, [`${GGML}model`]: 't5' }), {
    ...found,
    bos: NONE,
    eos: 1,
    unk: 2,
    eog: [1],
    addBos: false,
    addEos: true,
  });
  const gpt2 = { [`${GGML}model`]: 'gpt2', [`${GGML}pre`]: 'gpt-2', [`${GGML}tokens`]: words, [`${GGML}merges`]: [] };
  const none = { bos: NONE, eos: NONE, unk: NONE, eog: [], addBos: false, addEos: false };
  assert.deepEqual(await ids(gpt2), none);
  const types = words.map((_, i) => (i === 11 ? 3 : 1));
  assert.deepEqual(await ids({ ...gpt2, [`${GGML}token_type`]: types }), { ...none, bos: 11, eos: 11, eog: [11] });
  for (const model of ['gpt2', 'gemma4'])
    await assert.rejects(
      ofGguf(gguf({ ...without(gpt2, 'merges'), [`${GGML}model`]: model })),
      fails('FORMAT', /no tokenizer\.ggml\.merges/),
    );
  await assert.rejects(ofGguf(gguf(without(llama, 'tokens'))), fails('FORMAT', /tokenizer\.ggml\.tokens/));
  await assert.rejects(ofGguf(gguf(without(llama, 'model'))), fails('UNSUPPORTED', /unsupported tokenizer/));
});

test('Gemma 4’s vocabulary adds BOS for any setting of the file, and has its own end tokens', async () => {
  const tokens = ['<unk>', '<bos>', '<turn|>', '<|tool_response>', '▁', 'a', '▁▁', '<|"|>'];
  const t = await ofGguf(
    gguf({
      [`${GGML}model`]: 'gemma4',
      [`${GGML}tokens`]: tokens,
      [`${GGML}token_type`]: [2, 3, 3, 4, 1, 1, 4, 4],
      [`${GGML}merges`]: ['▁ ▁'],
      [`${GGML}bos_token_id`]: 1,
      [`${GGML}add_bos_token`]: false,
    }),
  );
  assert.ok(t.flags & FLAG.addBos);
  assert.deepEqual([t.bos, t.eog], [1, [2, 3]]);
  assert.deepEqual(texts(t).slice(4), [' ', 'a', '  ', '<|"|>']);
  assert.deepEqual(
    t.tokens.map(({ kind }) => kind),
    [TOKEN.unknown, TOKEN.control, TOKEN.control, TOKEN.user, 0, 0, 0, TOKEN.user],
  );
});

test('the vocabulary of a GGUF file', async () => {
  const t = await ofGguf(gguf(SPM));
  assert.deepEqual(
    t.tokens.map(({ bytes }) => Buffer.from(bytes).toString()),
    ['<unk>', '<s>', 'A', ' a', '\ufeffb', '<|end|>'],
  );
  assert.deepEqual(
    t.tokens.map(({ kind }) => kind),
    [1, 2, 5, 0, 0, 2],
  );
  assert.deepEqual(
    [t.kind, t.flags, t.bos, t.unk, t.eos, t.eog],
    [KIND.spm, FLAG.addBos | FLAG.addSpace | FLAG.byteFallback, 1, 0, 2, [2, 5]],
  );
  assert.equal((await ofGguf(gguf({ ...SPM, [`${GGML}add_space_prefix`]: false }, 2))).flags & FLAG.addSpace, 0);
  const bpe = {
    [`${GGML}model`]: 'gpt2',
    [`${GGML}pre`]: 'gpt-2',
    [`${GGML}tokens`]: ['a', 'Ġ', 'Ġa'],
    [`${GGML}merges`]: ['Ġ a'],
  };
  const b = await ofGguf(gguf(bpe));
  assert.deepEqual([b.kind, b.flags, b.merges, texts(b)], [KIND.bpe, 0, [[1, 0, 2]], ['a', ' ', ' a']]);
  // Of equal tokens, merges mean the last one.
  const twice = { ...bpe, [`${GGML}tokens`]: ['a', 'b', 'é', 'ab', 'ab', 'abé'], [`${GGML}merges`]: ['a b', 'ab é'] };
  assert.deepEqual((await ofGguf(gguf(twice))).merges, [
    [0, 1, 4],
    [4, 2, 5],
  ]);
  for (const [merge, says] of [
    ['a bé', /merge 1 needs "bé", which is not a token/],
    ['b é', /merge 1 needs "bé", which/],
    ['é', /is "é"; expected two tokens/],
    ['é ', /is "é "; expected two tokens/],
  ])
    await assert.rejects(ofGguf(gguf({ ...twice, [`${GGML}merges`]: ['a b', merge] })), fails('FORMAT', says));
  assert.deepEqual(texts(await ofGguf(gguf({ ...bpe, [`${GGML}tokens`]: ['a', 'Ġ', 'Ġa', 'é漢 '] })))[3], 'é漢 ');
  await assert.rejects(ofGguf(gguf({ ...bpe, [`${GGML}pre`]: 'afmoe' })), fails('UNSUPPORTED', /afmoe/));
  await assert.rejects(ofGguf(gguf({ ...bpe, [`${GGML}model`]: 'rwkv' })), fails('UNSUPPORTED', /rwkv/));
  await assert.rejects(ofGguf(gguf({ ...bpe, [`${GGML}tokens`]: [1, 2] })), fails('FORMAT', /tokenizer\.ggml\.tokens/));
  await assert.rejects(ofGguf(gguf({ x: 1 })), fails('FORMAT', /tokenizer\.ggml\.tokens/));
  await assert.rejects(ofGguf(gguf(SPM, 9)), fails('UNSUPPORTED', /version 9/));
  const whole = gguf(SPM);
  for (let n = 0; n < whole.length; n++)
    await assert.rejects(
      ofGguf(whole.subarray(0, n)),
      ({ code }) => code === 'FORMAT' || code === 'TRUNCATED',
      `cut at ${n}`,
    );
});

test('the kind of a file is known from its name or its first bytes', async () => {
  const read = (path) => readTokenizerFile(path, { vocab: 5 });
  assert.equal((await read(file('x.gguf', gguf(SPM)))).kind, KIND.spm);
  assert.equal((await read(file('tokenizer.bin', gguf(SPM)))).tokens.length, 6);
  file('vocab.json', GPT2);
  assert.equal((await read(file('merges.txt', 'a b\n'))).merges.length, 1);
  file('config.json', '{"bos_token_id": 3, "eos_token_id": [0, 1], "pad_token_id": null}');
  file('tokenizer_config.json', '{"eos_token": {"content": "<tag>"}}');
  const t = await read(file('tokenizer.json', JSON.stringify(HF)));
  assert.deepEqual([t.bos, t.eos, t.eog], [3, 0, [0, 1]]);
  await assert.rejects(read(join(folder, 'none.bin')), fails('READ', /none.bin can't be read/));
  await assert.rejects(read(file('bad.bin', '12345678901234567890')), fails('FORMAT', /bad.bin: .*token 0 is longer/));
  await assert.rejects(read(file('tokenizer.model', '')), fails('FORMAT', /no pieces/));
});

/* --- through wasm ----------------------------------------------------------------------------- */

for (const name of ['spm', 'spm-unknown', 'bpe', 'bpe-words', 'bpe-llama-3']) {
  test(`${name}: the tokens and texts of the original, in wasm`, async () => {
    const { tokenizer, cases } = goldenTokenizer(name);
    const vocab = tokenizer.tokens.length;
    const engine = await createEngine({ build: 'relaxed', threads: 1 });
    try {
      const model = await engine.load(
        fromBytes(await tinyModel({ config: { ...CONFIG, vocab }, tokens: tokenizer, chat: null })),
      );
      for (const { text, ids, encode, decode, parseSpecial } of cases) {
        if (encode)
          assert.deepEqual(await model.tokenize(text, { addSpecial: false, parseSpecial }), ids, JSON.stringify(text));
        if (decode) assert.equal(await model.detokenize(ids), text, String(ids));
      }
    } finally {
      await engine.close();
    }
  });
}

test('unpaired surrogates are U+FFFD; a million equal letters are tokenized completely', async () => {
  const n = 2 ** 20;
  // Each merge of two equal tokens can happen anywhere in the text.
  const rows = [1, 2, 4, 8].map((length) => 'a'.repeat(length));
  const letters = [...ALPHABET.keys(), ...rows.slice(1)];
  const json = {
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
    decoder: { type: 'ByteLevel' },
    post_processor: null,
    model: {
      type: 'BPE',
      vocab: Object.fromEntries(letters.map((letter, i) => [letter, i])),
      merges: rows.slice(0, -1).map((row) => `${row} ${row}`),
    },
  };
  const tokens = parseHfTokenizer(JSON.stringify(json));
  const config = {
    ...CONFIG,
    layers: 1,
    hidden: 16,
    heads: 2,
    kv_heads: 1,
    ffn: 16,
    context: n,
    vocab: letters.length,
  };
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await tinyModel({ config, tokens, chat: null })), { contextTokens: n });
  const whole = await model.tokenize('a'.repeat(n + 3), { addSpecial: false });
  assert.equal(whole.length, n / 8 + 2);
  assert.ok(whole.slice(0, n / 8).every((id) => id === letters.length - 1));
  const marks = await model.tokenize('a\ufffdb\ufffd', { addSpecial: false });
  assert.deepEqual(await model.tokenize('a\ud83db\ude00', { addSpecial: false }), marks);
  assert.equal(await model.detokenize(marks), 'a\ufffdb\ufffd');
  await engine.close();
});

test('a text that normalization makes longer than its bytes is tokenized completely', async () => {
  const vocab = Object.fromEntries([...'xyz'].map((letter, i) => [letter, i]));
  const model = { type: 'BPE', vocab, merges: [], byte_fallback: false, fuse_unk: false };
  const json = {
    added_tokens: [],
    normalizer: { type: 'Replace', pattern: { String: 'x' }, content: 'yyyyyyyyyyz' },
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: true },
    decoder: { type: 'ByteLevel' },
    post_processor: null,
    model,
  };
  const engine = await createEngine({ threads: 1 });
  const loaded = await engine.load(
    fromBytes(await tinyModel({ tokens: parseHfTokenizer(JSON.stringify(json)), chat: null })),
  );
  const ids = await loaded.tokenize('x'.repeat(40), { addSpecial: false });
  assert.deepEqual([ids.length, ids.filter((id) => id === 2).length], [440, 40]);
  await engine.close();
});

test('an added token is normalized and found in a normalized text; it has the number of the vocabulary', async () => {
  const pieces = ['[UNK]', 'a', 'covid', '[MASK]', 'élan'];
  const json = (/** @type {any[]} */ added, /** @type {any} */ normalizer) => ({
    added_tokens: added.map((entry) => ({ special: false, normalized: true, ...entry })),
    normalizer,
    pre_tokenizer: { type: 'BertPreTokenizer' },
    model: { type: 'WordPiece', unk_token: '[UNK]', vocab: Object.fromEntries(pieces.map((piece, i) => [piece, i])) },
  });
  const engine = await createEngine({ threads: 1 });
  const ids = async (/** @type {any} */ file, /** @type {string} */ text) => {
    const tokens = parseHfTokenizer(JSON.stringify(file));
    const model = await engine.load(fromBytes(await tinyModel({ tokens, chat: null })));
    return model.tokenize(text, { addSpecial: false, parseSpecial: true });
  };
  const added = [{ id: 5, content: 'COVID-19' }];
  const bert = { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true }; // prettier-ignore
  const lower = { type: 'Lowercase' };
  for (const normalizer of [bert, lower, { type: 'Sequence', normalizers: [{ type: 'NFC' }, lower] }])
    for (const text of ['a COVID-19 a', 'a covid-19 a'])
      assert.deepEqual(await ids(json(added, normalizer), text), [1, 5, 1]);
  assert.deepEqual(await ids(json([{ id: 5, content: 'ÉLAN X' }], bert), 'Élan x'), [5]);
  assert.deepEqual(await ids(json([{ id: 5, content: 'ÉLAN X' }], { type: 'NFD' }), 'e\u0301lan E\u0301LAN X'), [0, 5]);
  assert.deepEqual(await ids(json([{ id: 5, content: '[MASK]', special: true }], bert), 'a [MASK] a'), [1, 3, 1]);
  assert.deepEqual(await ids(json([{ id: 5, content: '新冠' }], bert), 'a新冠a'), [1, 5, 1]);
  assert.deepEqual(await ids(json([{ id: 5, content: 'A新É' }], bert), 'a新e a'), [5, 1]);
  assert.throws(() => parseHfTokenizer(JSON.stringify(json([{ id: 2, content: 'x' }], bert))), {
    code: 'FORMAT',
    message: /two tokens have the id 2: "covid" and "x"/,
  });
  const two = (/** @type {any[]} */ ...added) => parseHfTokenizer(JSON.stringify(json(added, lower)));
  assert.throws(() => two({ id: 5, content: 'x' }, { id: 5, content: 'y' }), {
    code: 'FORMAT',
    message: /two tokens have the id 5: "x" and "y"/,
  });
  assert.throws(() => two({ id: 5, content: 'Bar' }, { id: 6, content: 'bar' }), {
    code: 'UNSUPPORTED',
    message: /adds "Bar" and "bar", which are the same text after its normalizer/,
  });
  await engine.close();
});

test('words of Whitespace have the letters of Rust, and joiners', async () => {
  const pieces = ['[UNK]', 'Ⅷ', 'ⓐ', '🅰', 'a', '##Ⅷ', '##ⓐ', '##🅰', '##\u200d', '##a', '+', '##+'];
  const vocab = Object.fromEntries(pieces.map((piece, i) => [piece, i]));
  const json = {
    added_tokens: [],
    pre_tokenizer: { type: 'Whitespace' },
    model: { type: 'WordPiece', unk_token: '[UNK]', vocab },
  };
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(
    fromBytes(await tinyModel({ tokens: parseHfTokenizer(JSON.stringify(json)), chat: null })),
  );
  const named = async (/** @type {string} */ text) =>
    (await model.tokenize(text, { addSpecial: false })).map((id) => pieces[id]);
  assert.deepEqual(
    await named('aⅧⓐ🅰\u200da a+'),
    [...'aⅧⓐ🅰\u200da'].map((c, i) => (i ? `##${c}` : c)).concat('a', '+'),
  );
  await engine.close();
});

test('Prepend and Replace of ▁ apply to spaces of texts', async () => {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, use_regex: true };
  const letters = Object.fromEntries([...ALPHABET.keys()].map((letter, i) => [letter, i]));
  const texts = async (/** @type {any} */ normalizer) => {
    const json = {
      added_tokens: [],
      normalizer,
      pre_tokenizer: byteLevel,
      decoder: byteLevel,
      model: { type: 'BPE', vocab: letters, merges: [] },
    };
    const model = await engine.load(
      fromBytes(await tinyModel({ tokens: parseHfTokenizer(JSON.stringify(json)), chat: null })),
    );
    return model.detokenize(await model.tokenize('a b', { addSpecial: false }));
  };
  const engine = await createEngine({ threads: 1 });
  const prepend = { type: 'Prepend', prepend: '▁' };
  const replace = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
  assert.equal(await texts(prepend), '▁a b');
  assert.equal(await texts(replace), 'a▁b');
  assert.equal(await texts({ type: 'Sequence', normalizers: [prepend, replace] }), '▁a▁b');
  await engine.close();
});

test('WordPiece: a word of the maximum length is found, a longer one is unknown', async () => {
  const vocab = { '[UNK]': 0, '[CLS]': 1, '[SEP]': 2, a: 3, '##a': 4, '##é': 5 };
  const json = {
    added_tokens: [],
    normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: false, lowercase: true }, // prettier-ignore
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: null,
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: '[UNK]',
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 10,
      vocab,
    },
  };
  const tokens = parseHfTokenizer(JSON.stringify(json));
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromBytes(await tinyModel({ tokens, chat: null })));
  for (const n of [1, 9, 10]) {
    assert.deepEqual(await model.tokenize('a'.repeat(n), { addSpecial: false }), [3, ...Array(n - 1).fill(4)]);
    assert.deepEqual(await model.tokenize(`a${'é'.repeat(n - 1)}`, { addSpecial: false }), [
      3,
      ...Array(n - 1).fill(5),
    ]);
  }
  assert.deepEqual(await model.tokenize(`a ${'a'.repeat(11)} a`, { addSpecial: false }), [3, 0, 3]);
  assert.deepEqual(
    await model.tokenize(`a ab a`, { addSpecial: false }),
    [3, 0, 3],
    'nothing of its beginning is left',
  );
  await engine.close();
});
