// Grammars without a model: random tokens under the masks form texts that match their regular expression, schema or choices, according to
// RegExp and ajv; formats that cannot be compiled are refused by name.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { matches } from '../../js/text/grammar/dfa.js';
import { compile } from '../../js/text/grammar/index.js';
import { dfaOfRegex } from '../../js/text/grammar/lookaheads.js';
import { parseRegex } from '../../js/text/grammar/regex.js';
import { numberAdmits, numberTexts } from '../../js/text/grammar/schema/numbers.js';
import { complement, intersect, unite } from '../../js/text/regex/sets.js';
import { random } from './fixture.mjs';
import { grammarMachine, picker, textOf } from './random-texts.mjs';
import { validator } from './validator.mjs';

const pick = await picker();

/** Texts of a format with several limits of their length. @param {object} format */
async function texts(format, n = 30) {
  const all = [];
  for (let i = 0; i < n; i++) all.push(await pick(format, 2 + 5 * i));
  return all;
}

const REGEXES = [
  'a*',
  '(ab|cd){2,3}x?',
  '[^\\d]{1,4}',
  '\\d{3}-\\d{4}',
  '\\p{Lu}\\p{Ll}*',
  '(?:é|𝄞|[α-ω]){1,5}',
  '[\\w.]+@[\\w.]+',
  '(a|b)*c(?<name>d|e)',
  '\\u{1F600}|\\x41',
  '.{0,20}',
  '(?!ab)[a-c]{2,3}',
  '(?=.*\\d)(?=.*[A-Z])(?!.*zz$)[A-Za-z\\d]{4,8}',
];

/** Brackets without an opening one, and braces that are no quantifiers: valid only in expressions without the flag u. */
const BRACKETS = ['\\{\\{[a-c]+}}', '\\[[a-c](-[0-9]*])?', '^{[a-c]{2}}|a{b}|{,$'];

/** Lookaheads inside expressions, and the characters that distinguish their texts. */
const LOOKAHEADS = {
  '^D(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(T(?=\\d)(\\d+H)?(\\d+[.,]\\d+S)?)?)$': 'D1WYMTHS.',
  '^((?!(c|C)(l|L)).)*$': 'acCLl',
  '^([\\da-z](?:(?!.*--)[\\da-z-]*[\\da-z])?)$': 'a1-',
  '((?:[^/]*/)*)(?=\\.(yaml|yml))': './yaml',
  '(?=a)a|b(?!c)': 'abc',
  'x(?=a)b|c': 'xabc',
  '(?!a)b': 'ab',
  '(a(?=b)|b(?!b))+$': 'ab',
  'a(?=(?!c)b?$)': 'abc',
  '^(?:(?=ab)a|(?!a)b)c?b?$': 'abc',
};

describe('regular expressions', () => {
  for (const [patterns, flags] of /** @type {const} */ ([
    [REGEXES, 'u'],
    [BRACKETS, ''],
  ]))
    for (const pattern of patterns)
      test(pattern, async () => {
        for (const text of await texts({ type: 'regex', pattern }))
          assert.match(text, new RegExp(`^(?:${pattern})$`, flags));
      });

  for (const [pattern, what] of [
    ['(?=a)b', /no text can satisfy/],
    ['x(?=a)b', /no text can satisfy/],
    ['x(?=^a)a', /a \^ in a lookahead/],
    ['(?=a)*a', /quantifier after a lookahead/],
    ['x(?<=a)b', /lookbehind/],
    ['(a)\\1', /\\1/],
    ['a{3,2}', /minimum is above its maximum/],
    ['(a', /unmatched/],
    ['a{1,99999}', /10000/],
    ['(a|b)*a(a|b){20}', /too many states/],
    ['\\p{Nonsense}', /Nonsense/],
    ['\\bword', /\\b/],
  ])
    test(`${pattern} is refused`, () =>
      assert.rejects(
        compile({ type: 'regex', pattern }),
        (/** @type {any} */ e) => e.code === 'GRAMMAR' && /** @type {RegExp} */ (what).test(e.message),
      ));

  for (const [pattern, characters] of Object.entries(LOOKAHEADS))
    test(`${pattern}, with random texts`, () => {
      const next = random(5);
      const draw = (/** @type {number} */ n) => Math.floor(((next() + 1) / 2) * n);
      for (const search of [true, false]) {
        const ours = dfaOfRegex(parseRegex(pattern), { search });
        const theirs = new RegExp(search ? pattern : `^(?:${pattern})$`, 'u');
        for (let i = 0; i < 2000; i++) {
          const text = Array.from({ length: draw(8) }, () => characters[draw(characters.length)]).join('');
          assert.equal(matches(ours, text), theirs.test(text), JSON.stringify(text));
        }
      }
    });

  test('formats that no text matches are refused', () =>
    assert.rejects(compile({ type: 'regex', pattern: '[^\\s\\S]' }), {
      code: 'GRAMMAR',
      message: 'no text can satisfy this',
    }));
});

test('texts consist of characters: surrogates are no characters', async () => {
  for (const text of await texts({ type: 'regex', pattern: '[\\ud000-\\ue000]{1,3}' }))
    assert.match(text, /^[^\p{Cs}]+$/u);
  for (const text of await texts({ type: 'grammar', grammar: 'root ::= [\\ud000-\\ue000]{1,3}' }))
    assert.match(text, /^[^\p{Cs}]+$/u);
  const half = '\ud83d';
  for (const format of [
    { type: 'choice', choices: ['a', half] },
    { type: 'regex', pattern: `a|${half}` },
    { type: 'grammar', grammar: `root ::= "${half}"` },
    { type: 'json_schema', schema: { pattern: half } },
  ])
    await assert.rejects(compile(format), { code: 'GRAMMAR', message: /has a lone surrogate.*\\ud83d/ });
  // JSON can escape it.
  assert.equal(await pick({ type: 'json_schema', schema: { const: half } }, 9), String.raw`"\ud83d"`);
});

test('a format is JSON: other values are refused with their path', async () => {
  /** @type {[string, any][]} */
  const wrong = [
    ['"const"', { const: NaN }],
    ['"minimum"', { minimum: -Infinity }],
    ['"const"', { const: () => 1 }],
    ['"const"', { const: Symbol('a') }],
    ['"const"', { const: 5n }],
    ['"const"', { const: new Map() }],
    ['"enum"', { enum: new Set([1]) }],
    ['"0"', { enum: [undefined] }],
    ['"0"', { enum: Object.assign(new Array(2), { 1: 'a' }) }],
    ['"pattern"', { pattern: /a/ }],
    ['"schema"', new Map()],
  ];
  for (const [place, schema] of wrong)
    await assert.rejects(
      compile({ type: 'json_schema', schema }),
      (/** @type {any} */ e) => e.code === 'GRAMMAR' && e.message.includes(`at ${place}: expected a value of JSON`),
    );
  await assert.rejects(compile({ type: 'choice', choices: Object.assign(new Array(2), { 1: 'a' }) }), {
    code: 'GRAMMAR',
    message: /undefined at "0"/,
  });
  // Values are compared as JSON writes them: a date as its text.
  const asJson = { const: { at: new Date(0), toJSON: undefined, a: new String('b') } };
  assert.equal(await pick({ type: 'json_schema', schema: asJson }, 99), '{"at": "1970-01-01T00:00:00.000Z", "a": "b"}');
});

test('choices', async () => {
  const choices = ['yes', 'no', 'yes, but', 'nö'];
  const found = new Set(await texts({ type: 'choice', choices }, 60));
  assert.deepEqual([...found].sort(), [...choices].sort());
});

/** Grammars, and expressions that all of their texts match. @type {[string, RegExp][]} */
const GRAMMARS = [
  ['root ::= "a" [b-d]* "\\n"', /^a[bcd]*\n$/],
  [
    'root ::= word (", " word)+ # a list\nword ::= [a-z]{2,4} |\n  "\\x41\\u00e9"',
    /^(([a-z]{2,4}|Aé)(, (?!$)|$)){2,}$/,
  ],
  ['root ::= "(" root ")" | "😀"', /^\(*😀\)*$/],
  ['root ::= [^\\]a-z"-] . "-"?', /^[^\]a-z"-][^]-?$/u],
  ['root ::= a | b\na ::= ("x" "y"?)*\nb ::= "z" a', /^z?(xy?)*$/],
];

describe('GBNF', () => {
  for (const [grammar, matching] of GRAMMARS)
    test(JSON.stringify(grammar), async () => {
      for (const text of await texts({ type: 'grammar', grammar })) assert.match(text, matching);
    });

  for (const [grammar, what] of /** @type {[any, RegExp][]} */ ([
    ['root ::= root "a" | "b"', /"root" is left-recursive/],
    ['root ::= a "b"\na ::= b?\nb ::= "x"? root', /is left-recursive/],
    ['root ::= x', /uses the undefined rule "x"/],
    ['a ::= "b"', /no rule "root"/],
    ['root ::= "a', /line 1 .* ends inside/],
    ['root ::= "a"\nroot ::= "b"', /line 2 .* second time/],
    ['root ::= ("b"', /unmatched/],
    ['root ::= [z-a]', /range/],
    ['root ::= "a"{3,2}', /minimum is above its maximum/],
    ['root ::= "a" root', /no text can satisfy/],
    ['root = "a"', /name ::=/],
    [3, /must be a string/],
  ]))
    test(`refused: ${JSON.stringify(grammar)}`, () =>
      assert.rejects(
        compile({ type: 'grammar', grammar }),
        (/** @type {any} */ e) => e.code === 'GRAMMAR' && what.test(e.message),
      ));
});

const FORMATS = [
  'date',
  'time',
  'date-time',
  'duration',
  'email',
  'hostname',
  'ipv4',
  'ipv6',
  'uri',
  'uri-reference',
  'uuid',
  'json-pointer',
  'relative-json-pointer',
  'regex',
];
const PERSON = {
  type: 'object',
  properties: { name: { type: 'string', minLength: 1 }, age: { type: 'integer' } },
  required: ['name'],
};

/** @type {Record<string, any>} */
const SCHEMAS = {
  true: true,
  'an object': { type: 'object' },
  'optional properties, none else': {
    type: 'object',
    properties: { a: { type: 'null' }, b: { type: 'boolean' }, c: { type: 'integer' } },
    additionalProperties: false,
  },
  'counted properties': {
    type: 'object',
    properties: { a: { const: 1 }, b: { const: 2 }, c: { const: 3 } },
    minProperties: 1,
    maxProperties: 2,
    additionalProperties: false,
  },
  'more properties than are named': { type: 'object', properties: { a: { const: 1 } }, minProperties: 4 },
  'other properties': {
    type: 'object',
    properties: { a: { const: 1 } },
    additionalProperties: { type: 'integer' },
    patternProperties: { '^x': { type: 'boolean' }, y$: true },
  },
  names: { type: 'object', propertyNames: { pattern: '^[a-z]{2,3}$' }, minProperties: 1 },
  dependencies: {
    type: 'object',
    properties: { a: { const: 1 }, b: { const: 2 } },
    dependencies: { a: ['b'], b: { properties: { c: { const: 3 } }, required: ['c'] } },
  },
  unevaluated: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    allOf: [{ properties: { a: { const: 1 } } }, { properties: { b: { const: 2 } }, required: ['b'] }],
    type: 'object',
    unevaluatedProperties: false,
  },
  'unevaluated, by which alternative holds': {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: { foo: { type: 'string', maxLength: 3 } },
    oneOf: [
      { properties: { bar: { const: 'bar' } }, required: ['bar'] },
      { properties: { baz: { const: 'baz' } }, required: ['baz'] },
    ],
    unevaluatedProperties: false,
  },
  'unevaluated, by a condition': {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    if: { properties: { foo: { const: 'then' } }, required: ['foo'] },
    then: { properties: { bar: { type: 'null' } }, required: ['bar'] },
    unevaluatedProperties: false,
  },
  'unevaluated, but by a cousin': {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    allOf: [{ properties: { foo: true } }, { unevaluatedProperties: { type: 'integer' } }],
  },
  'unevaluated in one of two that overlap': {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    oneOf: [
      {
        anyOf: [
          { properties: { a: true }, required: ['a'] },
          { properties: { b: true }, required: ['b'] },
        ],
        unevaluatedProperties: false,
      },
      { properties: { a: { const: 1 }, b: { const: 2 } }, required: ['a', 'b'] },
    ],
  },
  'listed, and not of what is unevaluated': {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: { x: { enum: [[{ a: 1, b: 2 }], [{ c: 3 }]] } },
    required: ['x'],
    not: {
      properties: {
        x: {
          items: {
            anyOf: ['a', 'b'].map((name) => ({ properties: { [name]: true }, required: [name] })),
            unevaluatedProperties: false,
          },
        },
      },
    },
  },
  'unevaluated items': {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'array',
    anyOf: [{ prefixItems: [true, { const: 2 }], minItems: 2 }, { prefixItems: [{ const: 'x' }] }],
    contains: { type: 'null' },
    unevaluatedItems: { type: 'boolean' },
  },
  'unevaluated items behind others': {
    $schema: 'https://json-schema.org/draft/2019-09/schema',
    type: 'array',
    items: [{ type: 'integer' }],
    if: { minItems: 2 },
    then: { items: [true, { type: 'null' }] },
    unevaluatedItems: false,
  },
  'a tree by a dynamic reference': {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $dynamicAnchor: 'node',
    type: 'object',
    properties: { value: { type: 'integer' }, children: { type: 'array', items: { $dynamicRef: '#node' } } },
    required: ['value', 'children'],
    unevaluatedProperties: false,
  },
  'string lengths': { type: 'string', minLength: 3, maxLength: 5 },
  'a pattern of some length': { type: 'string', pattern: 'a.*b', minLength: 4, maxLength: 6 },
  'a pattern that begins with what is not': { type: 'string', pattern: '^(?!-|tag$)[-a-gt]{1,4}$', maxLength: 5 },
  'quotes and controls in a pattern': { type: 'string', pattern: '^["\\\\\\n\\x01]{3}$' },
  integers: { type: 'integer', minimum: -12, maximum: 123 },
  'integers apart': { type: 'integer', exclusiveMinimum: 99, maximum: 1205, multipleOf: 7 },
  numbers: { type: 'number', minimum: -1.25, exclusiveMaximum: 3.5 },
  'small numbers': { type: 'number', exclusiveMinimum: 0, maximum: 0.005 },
  'large numbers': { type: 'number', minimum: 1e15 },
  prices: { type: 'number', multipleOf: 0.01, minimum: 0, maximum: 5 },
  'any number': { type: 'number' },
  arrays: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 9 }, minItems: 2, maxItems: 5 },
  tuples: {
    type: 'array',
    items: [{ const: 1 }, { type: 'string', maxLength: 2 }],
    additionalItems: false,
    minItems: 1,
  },
  'tuples of 2020-12': {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'array',
    prefixItems: [{ const: 1 }],
    items: { type: 'null' },
  },
  contains: { type: 'array', contains: { const: 5 }, items: { type: 'integer', minimum: 0, maximum: 9 }, maxItems: 4 },
  'contains some': {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'array',
    contains: { const: 5 },
    minContains: 2,
    maxContains: 3,
    items: { type: 'integer', minimum: 4, maximum: 6 },
  },
  unique: { type: 'array', items: { enum: ['a', 'b', 'c', 'd'] }, uniqueItems: true, minItems: 2 },
  'unique texts': { type: 'array', items: { type: 'string' }, uniqueItems: true, minItems: 3 },
  'unique texts of two letters': {
    type: 'array',
    items: { type: 'string', pattern: '^[ab]*$' },
    uniqueItems: true,
    minItems: 5,
    maxItems: 9,
  },
  'short unique texts': {
    type: 'array',
    items: { type: 'string', minLength: 1, maxLength: 1 },
    uniqueItems: true,
    minItems: 4,
  },
  'lists of unique lists': {
    type: 'array',
    minItems: 2,
    items: {
      type: 'object',
      properties: {
        tags: { type: 'array', items: { type: 'string', pattern: '^a*$' }, uniqueItems: true, minItems: 2 },
        names: { type: 'array', items: { type: 'string', pattern: '^(ab)*$' }, uniqueItems: true },
      },
      required: ['tags', 'names'],
      additionalProperties: false,
    },
  },
  'unique texts or numbers': {
    anyOf: [
      { type: 'array', items: { type: 'string', pattern: '^[ab]*$' }, uniqueItems: true, minItems: 2 },
      { type: 'array', items: { type: 'integer' }, minItems: 1 },
    ],
  },
  enum: { enum: [1, 'one', null, { a: [true, 'x'] }, [], 2.5] },
  'enum of a type': { type: 'string', enum: ['a', 1, 'bcd'], maxLength: 2 },
  anyOf: { anyOf: [{ type: 'integer', minimum: 5 }, PERSON, { type: 'array', items: PERSON, minItems: 1 }] },
  allOf: { allOf: [{ type: 'string', minLength: 2 }, { pattern: '^a' }, { maxLength: 4 }] },
  oneOf: {
    oneOf: [
      { type: 'integer', multipleOf: 2 },
      { type: 'integer', multipleOf: 3 },
    ],
  },
  not: { not: { type: ['object', 'string', 'array'] } },
  'not these': { type: 'string', not: { enum: ['', 'a', 'b'] }, maxLength: 1 },
  'not such objects': {
    type: 'object',
    properties: { a: { type: 'integer' } },
    not: { required: ['a'], properties: { a: { minimum: 3 } } },
  },
  'if, then, else': {
    type: 'object',
    properties: { kind: { enum: ['a', 'b'] }, x: true },
    required: ['kind', 'x'],
    if: { properties: { kind: { const: 'a' } } },
    then: { properties: { x: { type: 'integer' } } },
    else: { properties: { x: { type: 'null' } } },
  },
  'alternatives that a property tells apart': {
    oneOf: ['Point', 'Line', 'Ring', 'Area', 'Points', 'Lines', 'Areas'].map((kind, i) => ({
      type: 'object',
      properties: { type: { enum: [kind] }, at: { type: 'array', minItems: i, items: { type: 'integer' } } },
      required: ['type', 'at'],
    })),
  },
  'alternatives that a reference tells apart': {
    definitions: { a: { const: 'a' }, b: { const: 'b' } },
    oneOf: ['a', 'b'].map((name) => ({
      type: 'object',
      properties: { kind: { $ref: `#/definitions/${name}` }, x: { type: 'integer' }, y: { type: 'integer' } },
      required: ['kind', 'x'],
    })),
  },
  'alternatives that are closed': {
    oneOf: ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => ({
      type: 'object',
      properties: { [name]: { type: 'integer' }, x: true, y: true },
      required: [name],
      additionalProperties: false,
    })),
  },
  'a chain of conditions': {
    type: 'object',
    properties: { kind: { enum: [...'abcdefghijkl'] }, value: true },
    required: ['kind', 'value'],
    allOf: [...'abcdefghijkl'].map((kind, i) => ({
      if: { properties: { kind: { const: kind } }, required: ['kind'] },
      then: { properties: { value: { const: i } } },
    })),
  },
  'words of OpenAPI': {
    type: 'object',
    properties: {
      n: { type: 'integer', format: 'int32', example: 7 },
      big: { type: 'integer', format: 'int64' },
      x: { type: 'number', format: 'double', 'x-unit': 'm' },
      maybe: { type: 'string', nullable: true, maxLength: 2 },
      data: { type: 'string', format: 'byte' },
    },
    required: ['n', 'big', 'x', 'maybe', 'data'],
  },
  'a tree': {
    $ref: '#/$defs/node',
    $defs: {
      node: {
        type: 'object',
        properties: { value: { type: 'integer' }, children: { type: 'array', items: { $ref: '#/$defs/node' } } },
        required: ['value', 'children'],
        additionalProperties: false,
      },
    },
  },
  'names that every object has': {
    type: 'object',
    properties: { constructor: { type: 'integer' }, toString: { type: 'null' } },
  },
  'an anchor': {
    $id: 'https://example.org/s',
    type: 'array',
    items: { $ref: '#item' },
    definitions: { i: { $id: '#item', type: 'boolean' } },
  },
};
for (const format of FORMATS) SCHEMAS[`format ${format}`] = { type: 'string', format };

/**
 * Returns schemas of objects, each with properties of its own, of which the first is required.
 * @param {number} n  number of schemas @param {number} [properties]  of each
 */
function alternatives(n, properties = 1) {
  return Array.from({ length: n }, (_, i) => ({
    type: 'object',
    properties: Object.fromEntries(
      Array.from({ length: properties }, (_, k) => [`p${i}_${k}`, { type: 'string', maxLength: 3 }]),
    ),
    required: [`p${i}_0`],
  }));
}
SCHEMAS['oneOf, alternatives with properties of their own'] = { oneOf: alternatives(6, 3) };

describe('schemas', () => {
  for (const [name, schema] of Object.entries(SCHEMAS))
    test(name, async () => {
      const validate = validator(schema);
      for (const text of await texts({ type: 'json_schema', schema }))
        assert.ok(validate(JSON.parse(text)), `${text}: ${JSON.stringify(validate.errors)}`);
    });

  test('draft 4: exclusive limits as booleans, schemas named by id', async () => {
    const $schema = 'http://json-schema.org/draft-04/schema#';
    const small = {
      id: 'small',
      type: 'integer',
      minimum: 3,
      exclusiveMinimum: true,
      maximum: 6,
      exclusiveMaximum: true,
    };
    const large = { type: 'integer', minimum: 7, exclusiveMinimum: false, maximum: 8 };
    const schema = {
      $schema,
      id: 'http://example.org/',
      definitions: { small },
      items: [{ $ref: 'small' }, large],
      type: 'array',
      minItems: 2,
      additionalItems: false,
    };
    const found = new Set(await texts({ type: 'json_schema', schema }));
    assert.deepEqual([...found].sort(), ['[4, 7]', '[4, 8]', '[5, 7]', '[5, 8]']);
  });

  for (const [schema, what] of /** @type {[any, RegExp][]} */ ([
    [{ type: 'integer', divisibleBy: 3 }, /"divisibleBy" is not supported/],
    [{ type: 'string', format: 3 }, /format must be a string/],
    [{ type: 'string', not: { format: 'regex' } }, /"not" with the format "regex" is not supported/],
    [{ type: 'string', minLength: 2 ** 40 }, /minLength 1099511627776 needs too many states/],
    [{ type: 'integer', multipleOf: 4097 }, /multipleOf 4097 needs too many states/],
    [{ type: 'object', minProperties: 2, propertyNames: { pattern: '^[a-z]{2}$' } }, /minProperties 2 together/],
    [{ type: 'object', minProperties: 17 }, /minProperties 17 together with unnamed properties/],
    [{ contains: true, minContains: 0.5 }, /minContains must be an integer/],
    [{ $ref: 3 }, /\$ref must be a string/],
    [{ items: { $ref: '#a' }, other: { $anchor: 'a' } }, /the anchor does not exist/],
    [{ $ref: 'part:0' }, /references to other documents/],
    [{ type: 'array', uniqueItems: true, items: { type: 'string', pattern: '^[a-z]{2}$' } }, /uniqueItems/],
    [{ type: 'array', uniqueItems: true, items: { type: 'integer' } }, /uniqueItems/],
    [{ type: 'array', uniqueItems: true, items: { type: 'object' } }, /uniqueItems/],
    [{ $ref: 'https://example.org/other.json' }, /references to other documents/],
    [{ $ref: '#/definitions/none' }, /has no "definitions" there/],
    [{ $ref: '#' }, /refers to itself/],
    [{ items: { $dynamicRef: '#a' }, $defs: { a: { $dynamicAnchor: 'a' } } }, /only if it refers to the whole schema/],
    [{ not: { unevaluatedItems: false } }, /"not" with "unevaluatedItems" alone/],
    [{ type: 'object', required: ['a'], unevaluatedProperties: false }, /no text can satisfy/],
    [{ unevaluatedProperties: 3 }, /must be an object or a boolean/],
    [{ type: 'string', minLength: 3, maxLength: 2 }, /no text can satisfy/],
    [{ allOf: [{ type: 'string' }, { type: 'integer' }] }, /no text can satisfy/],
    [
      { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'], additionalProperties: false },
      /no text can satisfy/,
    ],
    [{ type: 'number', minimum: '3' }, /minimum must be a number/],
    [{ properties: { a: 3 } }, /must be an object or a boolean/],
    [{ type: 'strin' }, /name of a type, found "strin"/],
    [
      { allOf: Array.from({ length: 12 }, () => ({ anyOf: [{ minimum: 1 }, { minLength: 1 }, { minItems: 1 }] })) },
      /^allOf: 729 combinations of alternatives; at most 512 are supported$/,
    ],
    [{ anyOf: alternatives(600) }, /^anyOf: 600 combinations of alternatives/],
    [
      { anyOf: alternatives(40), if: { required: ['k'] }, then: { anyOf: alternatives(20) } },
      /^if with other keywords: /,
    ],
    // Values that a reduced oneOf excludes must not count as values that do not satisfy it.
    [{ oneOf: [{ oneOf: alternatives(5, 3) }, { type: 'object', required: ['q'] }] }, /^"not" with "oneOf": /],
    [{ type: 'object', not: { anyOf: alternatives(12, 2) } }, /^"not" with "anyOf": 976 combinations/],
    [{ dependentSchemas: Object.fromEntries(alternatives(12).map((s, i) => [`d${i}`, s])) }, /^dependentSchemas: /],
    [
      { oneOf: Array.from({ length: 40 }, (_, i) => ({ type: 'integer', minimum: i, maximum: i + 9 })) },
      /^oneOf: \d+ combinations/,
    ],
    [
      { properties: { a: { anyOf: alternatives(30) } }, patternProperties: { '^a': { anyOf: alternatives(29) } } },
      /^the schemas of a property or an item: 870 combinations/,
    ],
  ]))
    test(`refused: ${JSON.stringify(schema).slice(0, 60)}`, () =>
      assert.rejects(
        compile({ type: 'json_schema', schema }),
        (/** @type {any} */ e) => e.code === 'GRAMMAR' && what.test(e.message),
      ));
});

/** Values that a schema accepts, and others that it does not; { json } is a text. @type {[any, any[], any[]][]} */
const HELD = [
  // A oneOf with too many combinations: alternatives are told apart by the properties that they require.
  ...[5, 30].map(
    (n) =>
      /** @type {[any, any[], any[]]} */ ([
        { oneOf: alternatives(n, 3) },
        [{ p0_0: 'x' }, { p4_0: 'x', p4_2: 'y' }, { p1_0: 'x', p1_1: '' }],
        [{}, { p0_0: 7 }, { p0_1: 'x' }, { p0_0: 'x', p1_0: 'x' }, 7],
      ]),
  ),
  // Formats on which validators disagree: no disputed value is generated.
  [{ type: 'string', not: { format: 'email' } }, ['a', 'a.b'], ['a@b.cd', '"a b"@c.d']],
  [
    {
      oneOf: [
        { type: 'string', format: 'ipv4' },
        { type: 'string', format: 'hostname', maxLength: 12 },
      ],
    },
    ['a.b', 'localhost'],
    ['127.0.0.1', '1.2.3.4', 'a b'],
  ],
  [
    { oneOf: [{ format: 'date' }, { format: 'date-time' }, { format: 'uri' }], type: 'string' },
    ['2020-01-01', '2020-01-01T00:00:00Z', 'a:b'],
    ['x', '2020-13-01'],
  ],
  [
    { enum: ['urn:uuid:2eb8aa08-aa98-11ea-b4aa-73b441d16380', 'b'], not: { format: 'uuid' } },
    ['b'],
    ['urn:uuid:2eb8aa08-aa98-11ea-b4aa-73b441d16380'],
  ],
  // Closed objects of alternatives that exclude each other.
  [
    {
      oneOf: [
        {
          properties: { a: { type: 'integer' }, b: { type: 'integer' } },
          required: ['a'],
          additionalProperties: false,
        },
        {
          properties: { b: { type: 'integer' }, c: { type: 'integer' } },
          required: ['c'],
          additionalProperties: false,
        },
        { properties: { d: { type: 'integer' }, b: { type: 'integer' } }, additionalProperties: false },
      ],
      type: 'object',
    },
    [{ a: 1 }, { a: 1, b: 2 }, { b: 2, c: 3 }, { d: 1 }, { d: 1, b: 2 }, { b: 1 }],
    [{ a: 1, c: 2 }, { a: 1, d: 2 }, { b: 'x' }],
  ],
  [
    {
      type: 'object',
      propertyNames: { pattern: '^[ab]+$' },
      not: {
        anyOf: [{ patternProperties: { a: { type: 'string' } } }, { patternProperties: { b: { type: 'integer' } } }],
      },
    },
    [{ ab: null }],
    [{ a: 'x' }, { b: 1 }, { ab: 1 }, { ab: 'x' }],
  ],
  // More patterns of names than can be combined.
  [
    {
      type: 'object',
      patternProperties: Object.fromEntries([...'abcdefgh'].map((c, i) => [`^${c}_`, { const: i }])),
      additionalProperties: false,
    },
    [{}, { a_x: 0 }, { h_: 7, b_: 1 }],
    [{ a_: 1 }, { x: 1 }],
  ],
  // In draft 4, references do not begin at an inner $id.
  [
    {
      $schema: 'http://json-schema.org/draft-04/schema#',
      definitions: { a: { $id: 'a', $ref: '#/definitions/b' }, b: { $id: 'b', enum: [1, 2] } },
      $ref: '#/definitions/a',
    },
    [1, 2],
    [3],
  ],
  // A length in a lookahead, together with a format or a pattern.
  [
    {
      type: 'string',
      format: 'hostname',
      pattern: '^(?=.{1,253}\\.?$)[a-z](?:[a-z-]{0,61}[a-z])?(?:\\.[a-z]{1,62})*$',
    },
    ['a', 'a.b', `${'a'.repeat(60)}.b`, Array(126).fill('a').join('.')],
    ['', 'a.', 'a..b', Array(128).fill('a').join('.')],
  ],
  [
    { type: 'string', pattern: '^(?=.{70,90}$)(?!.*aa)[ab]+$' },
    ['ab'.repeat(35), 'ab'.repeat(45)],
    ['ab', 'a'.repeat(80), 'ab'.repeat(46)],
  ],
  [{ type: 'string', not: { pattern: '^(?=.{0,99}$)a*$' } }, ['a'.repeat(100), 'b'], ['', 'a'.repeat(99)]],
  // Numbers that are parsed as an excluded number, or as an integer.
  [
    { type: 'number', minimum: 9007199254740980, maximum: 9007199254740991, not: { const: 9007199254740991 } },
    [9007199254740990],
    [9007199254740991, { json: '9007199254740990.8' }, { json: '9007199254740991.3' }],
  ],
  [
    { type: 'number', minimum: 1e15, maximum: 4e15, not: { type: 'integer' } },
    [1234567890123456.5],
    [1e15, { json: '3940000000000000.1' }],
  ],
  [
    { type: 'number', exclusiveMinimum: -1e15, not: { type: 'integer' } },
    [0.5, -3.25, 123456.125],
    [{ json: '6300513085353739.5' }, 3],
  ],
  [
    { type: 'number', minimum: 1e21, not: { const: 2e21 } },
    [{ json: '3000000000000000000000' }],
    [{ json: '2000000000000000000001' }],
  ],
  // Limits near 0.
  [{ type: 'number', maximum: 5e-324 }, [0, -1, -0.5], [{ json: '0.1' }, 1]],
  [{ type: 'number', exclusiveMinimum: 5e-324 }, [1, 0.5], [0, -1]],
  [{ type: 'number', minimum: -5e-324, maximum: 1 }, [0, 1, 0.5], [-1, 2]],
  [{ type: 'number', exclusiveMaximum: -5e-324 }, [-1, -0.5], [0, 1]],
  // Numbers of properties.
  [{ type: 'object', maxProperties: 2 }, [{}, { a: 1, b: 2 }], [{ a: 1, b: 2, c: 3 }]],
  [
    { type: 'object', properties: { a: {} }, additionalProperties: true, maxProperties: 3 },
    [
      { a: 1, b: 2, c: 3 },
      { x: 1, y: 2, z: 3 },
    ],
    [
      { a: 1, b: 2, c: 3, d: 4 },
      { w: 1, x: 1, y: 2, z: 3 },
    ],
  ],
  [{ type: 'object', not: { minProperties: 3 } }, [{}, { a: 1, b: 2 }], [{ a: 1, b: 2, c: 3 }]],
  [{ type: 'object', required: ['a'], maxProperties: 1 }, [{ a: 1 }], [{ a: 1, b: 1 }, {}]],
  [{ type: 'object', minProperties: 1 }, [{ abcdefghi: 1 }, { a: 1 }, { '': 1 }], [{}]],
  [
    { type: 'object', minProperties: 2 },
    [
      { abcdefghi: 1, b: 1 },
      { a: { a: 1, b: 2 }, b: { a: 1, b: { b: 1 } } },
      { '"': 1, a: [{ a: 1 }] },
    ],
    [{ a: 1 }, { json: '{"a": 1, "a": 2}' }, { json: '{"a": {"b": 1, "c": 2}, "a": 1}' }],
  ],
  [
    {
      $ref: '#/$defs/n',
      $defs: {
        n: {
          type: 'object',
          minProperties: 2,
          additionalProperties: { anyOf: [{ $ref: '#/$defs/n' }, { type: 'integer' }] },
        },
      },
    },
    [
      { a: 1, b: 2 },
      { a: { x: 1, b: 2 }, b: { a: 1, b: 2, c: { a: 1, b: 2 } } },
    ],
    [{ a: { a: 1 }, b: 1 }, { json: '{"a": {"b": 1, "b": 2}, "b": 1}' }, { json: '{"b": {"a": 1, "c": 2}, "b": 1}' }],
  ],
  [
    { type: 'object', propertyNames: { enum: ['a', 'b', 'c'] }, minProperties: 2 },
    [
      { a: 1, b: 2 },
      { a: 1, c: 3 },
      { a: 1, b: 2, c: 3 },
    ],
    [{ a: 1 }, { a: 1, d: 2 }],
  ],
  // Names of properties of every JavaScript object.
  [
    { type: 'object', properties: { constructor: { type: 'integer' }, toString: { type: 'null' } } },
    [{}, { constructor: 1 }, { toString: null }],
    [{ constructor: 'a' }],
  ],
  [
    JSON.parse('{"type": "object", "properties": {"__proto__": {"type": "integer"}}, "required": ["valueOf"]}'),
    [{ json: '{"__proto__": 1, "valueOf": 1}' }, { json: '{"valueOf": 1}' }],
    [{ json: '{"__proto__": "a", "valueOf": 1}' }, {}],
  ],
  [
    { type: 'object', properties: { x: {}, constructor: {} }, dependentRequired: { constructor: ['x'] } },
    [{}, { x: 1 }, { x: 1, constructor: 1 }],
    [{ constructor: 1 }],
  ],
  // `contains` of arrays.
  [{ type: 'array', contains: { const: 5 } }, [[3, 5], [5], [5, 3], [5, 5], [1, 5, 'a']], [[], [3]]],
  [
    { type: 'array', prefixItems: [{ const: 1 }, { const: 2 }], contains: { const: 3 }, minContains: 0 },
    [[], [1], [1, 2], [1, 2, 9]],
    [[2]],
  ],
  [
    { type: 'array', contains: { const: 5 }, minContains: 2, maxContains: 3, items: { type: 'integer' } },
    [
      [5, 5],
      [1, 5, 2, 5, 3],
      [5, 5, 5],
    ],
    [[5], [5, 1, 5, 5, 5], []],
  ],
  [
    { type: 'array', contains: true, minContains: 2, maxContains: 3 },
    [
      [1, 2],
      [1, 2, 3],
    ],
    [[1], [1, 2, 3, 4]],
  ],
  [
    { type: 'array', allOf: [{ contains: { const: 1 } }, { contains: { const: 2 } }] },
    [
      [2, 0, 1],
      [1, 2],
    ],
    [[1], [2]],
  ],
  [{ type: 'array', not: { contains: { const: 5 } } }, [[], [3]], [[5], [3, 5]]],
  [{ type: 'array', not: { items: { type: 'integer' } } }, [['a'], [1, 'a'], ['a', 1]], [[], [1]]],
  [
    { type: 'array', items: { enum: ['a', 'b', 'c'] }, uniqueItems: true, contains: { const: 'b' } },
    [['b'], ['a', 'b'], ['a', 'b', 'c']],
    [['a', 'c'], [], ['b', 'b']],
  ],
  [
    { type: 'array', items: { type: 'integer', minimum: 1, maximum: 7 }, uniqueItems: true },
    [[], [1, 2, 7]],
    [[1, 1], [8], [1, 2, 1]],
  ],
  [
    { type: 'array', items: { type: ['boolean', 'string'], pattern: '^[ab]$' }, uniqueItems: true },
    [[true, 'a', 'b'], [false]],
    [['a', 'a'], ['c']],
  ],
  [
    { type: 'array', items: { type: 'string', format: 'email' }, uniqueItems: true },
    [['a@b.de', 'a@b.dee', 'b@b.de']],
    [['a@b.de', 'a@b.de']],
  ],
  [
    { type: 'array', items: { type: 'string', format: 'uri', maxLength: 2083 }, uniqueItems: true, minItems: 2 },
    [['http://a', 'http://b']],
    [['http://a'], ['http://a', 'http://a']],
  ],
  // `multipleOf`, by decimals.
  ...multiples(0.01, ['49.90', '49.9', '0', '4.35', '1250.55', '-3.25'], ['0.001', '1.234']),
  ...multiples(0.5, ['1250.5', '1250', '0.5'], ['1.25', '0.2']),
  ...multiples(1e-7, ['0.1234567', '12'], ['0.12345678']),
  ...multiples(7.77, ['7.77', '77.7', '777', '-7.77'], ['7.7', '7.78']),
  ...multiples(1000000, ['0', '12000000'], ['100000', '1200000']),
  ...multiples(3600, ['3600', '36000', '0'], ['360', '1800']),
  [{ type: 'number', multipleOf: 0.01, minimum: 20 }, [20, 49.9, 20.01], [19.99, 20.001]],
  [{ type: 'number', multipleOf: 0.05, exclusiveMinimum: 0, maximum: 1 }, [0.05, 0.95, 1], [0, 1.05, 0.01]],
  [{ type: 'number', allOf: [{ multipleOf: 0.5 }, { multipleOf: 0.75 }] }, [1.5, 3, 0], [0.5, 0.75]],
  [{ type: 'number', minimum: -Number.MAX_VALUE, maximum: Number.MAX_VALUE }, [0, -1.5, 123456789012345], ['1']],
  // The generated number is another double than the exclusive limit.
  [{ type: 'number', exclusiveMinimum: 1.7e12 }, [1.7e12 + 1, 1.7e12 + 0.5], [1.7e12, { json: '1700000000000.00001' }]],
  [{ type: 'number', exclusiveMaximum: 1 / 3 }, [0.3, 0.333], [1 / 3, { json: '0.33333333333333329' }]],
  [{ type: 'number', exclusiveMinimum: 2 ** 53 }, [2 ** 53 + 2], [2 ** 53, { json: '9007199254740993' }]],
  [{ type: 'number', exclusiveMaximum: -1e16 }, [-1.1e16], [-1e16, { json: '-10000000000000001' }]],
  [{ minimum: 1.6e12, not: { const: 1.7e12 } }, [1.7e12 + 1], [1.7e12, { json: '1700000000000.00001' }]],
  [{ type: 'number', not: { multipleOf: 5 } }, [0.5, 61], [60, { json: '60.0' }, { json: '60.000' }]],
  // Lengths together with patterns and formats, of any size.
  [
    { type: 'string', format: 'uri', minLength: 1, maxLength: 2083 },
    [`http://a.b/${'x'.repeat(2072)}`, 'http://localhost:11434', `http://a.b/${'x'.repeat(2069)}%20`],
    [`http://a.b/${'x'.repeat(2073)}`, `http://a.b/${'x'.repeat(2070)}%20`, ''],
  ],
  [
    { type: 'string', pattern: '^[a-z]+(-[a-z]+)*$', minLength: 4000, maxLength: 5000 },
    ['a'.repeat(4000), `${'a-'.repeat(2499)}aa`],
    ['a'.repeat(3999), 'a'.repeat(5001), `${'a'.repeat(4999)}-`],
  ],
  [
    { type: 'string', pattern: '^x[\\s\\S]*y$', minLength: 3000 },
    [`x${'"'.repeat(2998)}y`, `x${'é'.repeat(2998)}y`],
    ['xy', `x${'𝄞'.repeat(2997)}y`],
  ],
  [{ type: 'string', maxLength: 2 ** 63 }, ['abcdef', ''], [1]],
  [{ type: 'string', maxLength: 2 ** 32 + 3 }, ['abcdef'], [1]],
  [{ type: 'string', pattern: '^a*$', maxLength: 2 ** 32 + 3 }, ['aaaaaa'], ['b']],
  [{ type: 'array', items: { const: 1 }, maxItems: 2 ** 32 + 1 }, [[1, 1, 1]], [[2]]],
  [{ type: 'array', contains: { const: 1 }, maxContains: 2 ** 53 }, [[1, 1, 1]], [[2]]],
  [{ type: 'object', maxProperties: 2 ** 32 + 1 }, [{ a: 1, b: 2, c: 3 }], [1]],
  // Formats, by their RFCs.
  ...format(
    'date',
    ['2020-03-15', '2024-02-29', '2000-02-29', '2030-12-31', '0000-01-01'],
    ['2023-02-29', '1900-02-29', '2020-00-10', '2020-13-01', '2020-04-31', '20-01-01'],
  ),
  ...format(
    'date-time',
    [
      '2020-03-15T10:00:00Z',
      '1990-12-31t23:59:60z',
      '2016-12-31T18:59:60.123-05:00',
      '2020-01-01T00:00:00.1234567+14:45',
    ],
    [
      '2020-03-15 10:00:00Z',
      '2020-03-15T10:00:00',
      '2020-03-15T24:00:00Z',
      '1998-12-31T22:59:60Z',
      '2021-02-29T10:00:00Z',
    ],
  ),
  ...format('time', ['00:59:60+01:00', '10:00:00+23:59'], ['10:00:60Z', '10:00:00+24:00', '10:00']),
  ...format('duration', ['P1Y2M3DT4H5M6S', 'PT36H', 'P4W', 'P1DT12H'], ['P', 'PT', 'P1YT', 'P1D1Y', 'P1W1D']),
  ...format(
    'uri',
    [
      'https://www.bbc.co.uk/news',
      'http://localhost:11434',
      'http://a/%20?q=%C3%A9#f',
      'mailto:a@b.c',
      'urn:isbn:1',
      'http://[::1]/',
    ],
    ['www.bbc.co.uk', '//a/b', 'http://a b', 'http://a/%2', 'http://a:b:c/', 'http://[::1', 'é:a'],
  ),
  ...format(
    'uri-reference',
    ['//example.com:80/p', '../a', '', '#a', '?q', '/a//b', 'a:b'],
    ['//example.com:abc/p', '#%zz', 'a\\b', '1a:b', ' '],
  ),
  ...format('iri', ['https://例え.jp/é?\ue000'], ['https://a/\ue000', 'é']),
  ...format(
    'hostname',
    ['localhost', 'www.bbc.co.uk', `${'a'.repeat(63)}.b`, `${`${'a'.repeat(63)}.`.repeat(3)}${'a'.repeat(61)}`],
    ['xn--x', 'a-', '-a', 'a..b', 'a.', '', 'a'.repeat(64), `${`${'a'.repeat(63)}.`.repeat(3)}${'a'.repeat(62)}`],
  ),
  ...format(
    'email',
    ["o'hara+x@mail.example.co.uk", `${'a'.repeat(64)}@b.co`],
    ['a@b', `${'a'.repeat(65)}@b.co`, '.a@b.co', 'a..b@c.de', 'a@-b.de'],
  ),
  ...format('uuid', ['2EB8AA08-aa98-11ea-b4aa-73b441d16380'], ['2eb8aa08-aa98-11ea-b4aa-73b441d1638', 'x']),
  ...format(
    'ipv6',
    ['::1', '2001:db8::8a2e:370:7334', '::ffff:192.0.2.1', '1:2:3:4:5:6:7::'],
    ['1::2::3', '12345::', '1:2:3'],
  ),
  ...format('relative-json-pointer', ['0', '12345/a~1b', '1#'], ['01', '-1', '1/~2']),
  ...format('uri-template', ['http://a/{+x,y:3}{?z*}'], ['{', '{a b}', '{}']),
  ...format('regex', ['^a(b|[c_]+)?\\d{2,}$', 'a|b'], ['(', '*', '[']),
];

/** @param {number} multipleOf @param {string[]} takes @param {string[]} refuses @returns {[any, any[], any[]][]} */
function multiples(multipleOf, takes, refuses) {
  const texts = (/** @type {string[]} */ list) => list.map((json) => ({ json }));
  return [[{ type: 'number', multipleOf }, texts(takes), texts(refuses)]];
}

/** @param {string} name @param {string[]} takes @param {string[]} refuses @returns {[any, any[], any[]][]} */
function format(name, takes, refuses) {
  return [[{ type: 'string', format: name }, takes, refuses]];
}

describe('constraints of schemas that are kept, and those that are not', () => {
  for (const [schema, takes, refuses] of HELD)
    test(JSON.stringify(schema).slice(0, 100), async () => {
      for (const [values, expected] of /** @type {const} */ ([
        [takes, true],
        [refuses, false],
      ]))
        for (const value of values) {
          const text = value?.json ?? textOf(value);
          assert.equal(await pick.takes({ type: 'json_schema', schema }, text), expected, text.slice(0, 200));
        }
    });
});

describe('ignored keywords are named in warnings', () => {
  for (const [schema, warnings] of /** @type {[any, string[]][]} */ ([
    [{ type: 'integer', title: 'a', 'x-a': 1 }, []],
    [
      { type: 'object', readonly: true, properties: { links: { minimun: 3, links: [] } }, required: ['links'] },
      ['readonly', 'minimun', 'links'].map((name) => `"${name}" is not a keyword of JSON Schema: it was ignored`),
    ],
    [
      { type: 'string', format: 'starts_with', pattern: '^ab.*' },
      ['"starts_with" is not a format of JSON Schema: it was ignored'],
    ],
    [
      { anyOf: [{ not: { format: 'cuid' } }, { type: 'null' }] },
      ['"cuid" is not a format of JSON Schema: it was ignored'],
    ],
  ]))
    test(JSON.stringify(schema), async () => {
      const compiled = await compile({ type: 'json_schema', schema });
      assert.deepEqual(compiled.warnings.sort(), warnings.sort());
      const validate = validator(schema);
      for (const text of await texts({ type: 'json_schema', schema }, 8)) assert.ok(validate(JSON.parse(text)), text);
    });
});

describe('formats', () => {
  for (const [format, what] of /** @type {[any, RegExp][]} */ ([
    [{ type: 'json_object', scheme: {} }, /responseFormat has an unknown member "scheme"/],
    [{ type: 'json_schema', schema: {}, pattern: 'a' }, /unknown member "pattern"/],
    [{ type: 'json_schema', json_schema: { schema: {}, strct: true } }, /json_schema has an unknown member "strct"/],
    [{ type: 'json_schema', json_schema: { schema: {} }, schema: {} }, /one in "json_schema"/],
    [{ type: 'json_schema', json_schema: [] }, /json_schema must be an object/],
    [{ type: 'regex', pattern: 'a', flags: 's' }, /unknown member "flags"/],
    [{ type: 'choice', choices: ['a'], choice: 'a' }, /unknown member "choice"/],
    [{ type: 'grammar', grammar: 'root ::= "a"', root: 'a' }, /unknown member "root"/],
    [{ type: 'text', schema: {} }, /unknown member "schema"/],
  ]))
    test(`refused: ${JSON.stringify(format)}`, () =>
      assert.rejects(compile(format), (/** @type {any} */ e) => e.code === 'GRAMMAR' && what.test(e.message)));

  test('an object with a schema satisfies both', async () => {
    const schema = {
      properties: { a: { $ref: '#/definitions/a' } },
      required: ['a'],
      definitions: { a: { const: 1 } },
    };
    const format = { type: 'json_object', schema };
    for (const text of await texts(format, 5)) assert.deepEqual(JSON.parse(text), { a: 1 });
    assert.equal(await pick.takes(format, '1'), false);
    assert.deepEqual((await compile({ type: 'json_object', schema: { xx: 1 } })).warnings.length, 1);
  });

  test('parts keep their references', async () => {
    const $defs = { q: { $anchor: 'q', type: 'integer' }, o: { $id: 'other', type: 'null' }, z: { const: 1 } };
    const properties = { a: { $ref: '#q' }, b: { $ref: 'other' }, c: { $ref: '#/$defs/z' }, d: { $ref: '#' } };
    const first = { type: 'object', properties, required: ['a'], additionalProperties: false, $defs };
    const second = { ...first, $defs: { ...$defs, q: { $anchor: 'q', type: 'boolean' } } };
    const call = {
      type: 'object',
      properties: { name: { const: 'f' }, args: { $ref: 'part:0' } },
      required: ['name', 'args'],
    };
    const schema = { anyOf: [call, { $ref: 'part:1' }] };
    const format = { type: 'json_schema', schema, parts: [first, second] };
    for (const [value, expected] of /** @type {const} */ ([
      [{ name: 'f', args: { a: 1, b: null, c: 1, d: { a: 2 } } }, true],
      [{ a: true, b: null, d: { a: false } }, true],
      [{ name: 'f', args: { a: true } }, false],
      [{ a: 1 }, false],
      [{ name: 'f', args: { a: 1, c: 2 } }, false],
    ]))
      assert.equal(await pick.takes(format, textOf(value)), expected, textOf(value));
  });
});

describe('formats that would exceed the limits of a grammar are refused', () => {
  const alternatives = (/** @type {number} */ i) =>
    Array.from({ length: 13 }, (_, k) => `[a-${'mnopqrstuvwxyz'[k]}]{2,9}${k}`).join('|') + i;
  for (const [name, format] of /** @type {[string, any][]} */ ([
    [
      '100 patterns of 13 alternatives',
      {
        schema: {
          properties: Object.fromEntries(
            Array.from({ length: 100 }, (_, i) => [`p${i}`, { pattern: alternatives(i) }]),
          ),
        },
      },
    ],
    [
      '100 multiples',
      {
        schema: {
          properties: Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`p${i}`, { multipleOf: 4001 - i }])),
        },
      },
    ],
    ['a sequence of optional characters', { schema: { pattern: `^${'a?'.repeat(20_000)}$` } }],
  ]))
    test(`${name}: one limit for the whole format`, () =>
      assert.rejects(compile({ type: 'json_schema', ...format }), { code: 'GRAMMAR', message: /too many states/ }));

  test('100,000 carets match the same texts as one', async () => {
    const format = { type: 'regex', pattern: `${'^'.repeat(100_000)}ab` };
    assert.ok(await pick.takes(format, 'ab'));
  });

  test('30,000 alternatives are encoded in linear time', async () => {
    const words = Array.from({ length: 30_000 }, (_, i) => `"a${i}"`);
    const format = { type: 'grammar', grammar: `root ::= ${words.join(' | ')}` };
    assert.ok((await compile(format)).bytes.length > 30_000);
  });

  test('a grammar that exceeds the memory inside a text is refused, without growing the memory, and the next text works', async () => {
    const machine = await grammarMachine();
    const grammar = 'root ::= "(" root ")" "x"? | "a"';
    const matcher = await machine.matcher(grammar, () => compile({ type: 'grammar', grammar }));
    const id = machine.longest(Uint8Array.of(40));
    const before = machine.memoryBytes;
    let n = 0;
    while (matcher.accept(id)) assert.ok(++n < 100_000);
    assert.ok(n > 10_000);
    const { code, message } = machine.error();
    assert.equal(code, 'GRAMMAR');
    assert.match(message, /too deep/);
    assert.equal(machine.memoryBytes, before);
    machine.give(matcher);
    const next = await machine.matcher(grammar, () => assert.fail('it is kept'));
    assert.ok(next.accept(id) && !next.complete);
  });

  test('many formats, one after another, do not increase memory', async () => {
    const machine = await grammarMachine();
    const before = machine.memoryBytes;
    for (let i = 0; i < 300; i++) {
      const pattern = `[a-${'bcdefgh'[i % 7]}]{${(i * 37) % 100}}x{${i}}`;
      machine.give(await machine.matcher(pattern, () => compile({ type: 'regex', pattern })));
    }
    const taken = machine.memoryBytes - before;
    assert.ok(taken <= 24 * 2 ** 20, `${taken} bytes`);
  });
});

test('sets of characters share even a single common character', () => {
  assert.deepEqual(intersect(unite([[97, 110]]), unite([[110, 122]])), [[110, 110]]);
  assert.deepEqual(intersect(unite([[97, 97]]), unite([[90, 100]])), [[97, 97]]);
  const vowels = unite([...'aeiou'].map((c) => [Number(c.codePointAt(0)), Number(c.codePointAt(0))]));
  assert.deepEqual(intersect(vowels, complement(vowels)), []);
  assert.deepEqual(intersect(vowels, complement(unite([[98, 122]]))), [[97, 97]]);
});

test('integers within limits are those that the limits allow', () => {
  const free = { min: -Infinity, max: Infinity, above: -Infinity, below: Infinity };
  const limits = [-21, -10, -3, -1, 0, 1, 2, 9, 10, 11, 20, 4.5, -4.5];
  const shapes = [
    ...limits.flatMap((a) => ['min', 'max', 'above', 'below'].map((name) => ({ [name]: a }))),
    ...limits.flatMap((a) => limits.filter((b) => b > a).map((b) => ({ min: a, below: b }))),
    ...limits.flatMap((a) => limits.filter((b) => b > a).map((b) => ({ above: a, max: b }))),
  ];
  for (const shape of shapes) {
    const number = { ...free, ...shape, integer: true, fraction: false, multiples: [], notMultiples: [] };
    const admits = numberAdmits(number);
    const { texts } = numberTexts(number, []);
    for (let value = -25; value <= 25; value++)
      assert.equal(matches(texts, String(value)), admits(value), `${value} by ${JSON.stringify(shape)}`);
  }
});
