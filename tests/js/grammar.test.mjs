// What grammars allow, without a model: texts made of tokens picked at random under the masks keep to their regular
// expression, schema or choices, as RegExp and ajv judge; what can't be held is refused by its name.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compile } from '../../js/grammar/index.js';
import { grammarMachine, picker } from './picker.mjs';
import { validator } from './validator.mjs';

const pick = await picker();

/** Texts of a format at several limits of length. @param {object} format */
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

describe('regular expressions', () => {
  for (const pattern of REGEXES)
    test(pattern, async () => {
      for (const text of await texts({ type: 'regex', pattern }))
        assert.match(text, new RegExp(`^(?:${pattern})$`, 'u'));
    });

  for (const [pattern, what] of [
    ['(?=a)b', /nothing can satisfy/],
    ['x(?=a)b', /lookahead/],
    ['(?=a)a|b', /alternatives/],
    ['(a)\\1', /\\1/],
    ['a{3,2}', /at least/],
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

  test('nothing satisfies it', () =>
    assert.rejects(compile({ type: 'regex', pattern: '[^\\s\\S]' }), {
      code: 'GRAMMAR',
      message: 'nothing can satisfy this',
    }));
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
    ['root ::= root "a" | "b"', /"root" begins with itself/],
    ['root ::= a "b"\na ::= b?\nb ::= "x"? root', /begins with itself/],
    ['root ::= x', /"x", which is no rule/],
    ['a ::= "b"', /no rule "root"/],
    ['root ::= "a', /line 1 .* ends inside/],
    ['root ::= "a"\nroot ::= "b"', /line 2 .* second time/],
    ['root ::= ("b"', /unmatched/],
    ['root ::= [z-a]', /range/],
    ['root ::= "a"{3,2}', /at most 10000/],
    ['root ::= "a" root', /nothing can satisfy/],
    ['root = "a"', /name ::=/],
    [3, /must be a text/],
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

describe('schemas', () => {
  for (const [name, schema] of Object.entries(SCHEMAS))
    test(name, async () => {
      const validate = validator(schema);
      for (const text of await texts({ type: 'json_schema', schema }))
        assert.ok(validate(JSON.parse(text)), `${text}: ${JSON.stringify(validate.errors)}`);
    });

  test('draft 4: limits that booleans exclude, schemas named by id', async () => {
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
    [{ minimun: 3 }, /"minimun" is not supported/],
    [{ type: 'array', uniqueItems: true, items: { type: 'string', pattern: '^[ab]$' } }, /uniqueItems/],
    [{ type: 'array', uniqueItems: true, items: { type: 'object' } }, /uniqueItems/],
    [{ $ref: 'https://example.org/other.json' }, /inside the schema/],
    [{ type: 'string', pattern: '(?!a)b' }, /\^ before it/],
    [{ $ref: '#/definitions/none' }, /nothing there/],
    [{ $ref: '#' }, /leads back to itself/],
    [{ items: { $dynamicRef: '#a' }, $defs: { a: { $dynamicAnchor: 'a' } } }, /whole schema only/],
    [{ not: { unevaluatedItems: false } }, /not with unevaluatedItems alone/],
    [{ type: 'object', required: ['a'], unevaluatedProperties: false }, /nothing can satisfy/],
    [{ unevaluatedProperties: 3 }, /must be an object or a boolean/],
    [{ type: 'string', format: 'colour' }, /"colour" is not supported/],
    [{ type: 'string', minLength: 3, maxLength: 2 }, /nothing can satisfy/],
    [{ allOf: [{ type: 'string' }, { type: 'integer' }] }, /nothing can satisfy/],
    [
      { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'], additionalProperties: false },
      /nothing can satisfy/,
    ],
    [{ type: 'number', minimum: '3' }, /minimum must be a number/],
    [{ properties: { a: 3 } }, /must be an object or a boolean/],
    [{ type: 'strin' }, /name of a type, found "strin"/],
    [
      { allOf: Array.from({ length: 12 }, () => ({ anyOf: [{ minimum: 1 }, { minLength: 1 }, { minItems: 1 }] })) },
      /too many states/,
    ],
  ]))
    test(`refused: ${JSON.stringify(schema).slice(0, 60)}`, () =>
      assert.rejects(
        compile({ type: 'json_schema', schema }),
        (/** @type {any} */ e) => e.code === 'GRAMMAR' && what.test(e.message),
      ));
});

describe('what explodes', () => {
  test('amid a text: refused, in the memory that it began with, and the next text begins', async () => {
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

  test('many formats, one after the other: the memory of some', async () => {
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
