// Random JSON Schemas, compared with ajv: texts that a compiled schema generates are valid, valid texts are accepted, and invalid ones are
// refused. Each schema has a generator of values, most of which are valid, in the order and spelling of docs/reference/generation.md.
import { compile, compileParts } from '../../js/text/grammar/index.js';
import { notationNamed, writeValue } from '../../js/text/grammar/notations.js';
import { readArguments } from '../../js/text/templates/noted-values.js';
import { random } from './fixture.mjs';
import { grammarMachine, pickerOf, textOf } from './random-texts.mjs';
import { validator } from './validator.mjs';

/** A schema, and a generator of valid or nearly valid values. @typedef {{ schema: any, value: () => any }} Model */

// The names '' and __proto__ are left out: ajv accepts objects without a required property '', and ignores properties named __proto__.
const NAMES = ['a', 'b', 'kind', 'constructor', 'isPrototypeOf', 'hasOwnProperty', 'é"\\', ' ', 'x1', 'x2'];
const PATTERNS = {
  '^x': ['x', 'x1', 'xyz', 'ax'],
  b$: ['b', 'ab', 'bc', 'xb'],
  '^[a-c]{2,4}$': ['ab', 'abca', 'a', 'abcab'],
  '^(?!no)[a-z]+$': ['yes', 'no', 'nope', 'on'],
  '\\d': ['a1', '7', 'x', '2b'],
  '^"?\\\\*$': ['"', '\\', '"\\\\', 'a'],
};
const TEXTS = {
  date: ['2020-02-29', '2023-02-29', '2000-02-29', '1900-02-29', '2030-12-31', '0000-01-01', '2024-13-01'],
  'date-time': ['2020-03-15T10:00:00Z', '1990-12-31t23:59:60z', '2020-01-01T24:00:00Z', '2016-12-31T22:59:60.5-01:00'],
  time: ['10:00:00+14:30', '23:59:60Z', '23:59:59', '00:59:60+01:00', '12:61:00Z'],
  duration: ['P1Y2M3DT4H5M6S', 'PT36H', 'P4W', 'P', 'PT', 'P1D2W'],
  email: ['joe.bloggs@example.co.uk', "o'hara+x@a-b.io", '.a@b.c', 'a@b', 'a@-b.com', 'a..b@c.de'],
  // A dot at the end is left out: ajv accepts it, RFC 1123 does not.
  hostname: ['localhost', 'www.bbc.co.uk', 'a-b.example', '-a', 'a_b', 'a..b'],
  ipv4: ['127.0.0.1', '256.1.1.1', '1.2.3', '01.2.3.4'],
  ipv6: ['::1', '2001:db8::8a2e:370:7334', '::ffff:192.0.2.128', '1::2::3', '12345::', 'fe80::1%eth0'],
  uri: [
    'https://www.bbc.co.uk/news?a=%20#b',
    'http://localhost:11434',
    'mailto:a@b.c',
    'urn:isbn:1',
    'a b:c',
    '//x',
    'x',
  ],
  // //host:abc/p is left out: ajv accepts it, but a port of RFC 3986 has only digits.
  'uri-reference': ['//example.com:80/p', '../a?b#c', '', 'a:b', '#%zz', '/a//b'],
  uuid: ['2EB8AA08-aa98-11ea-b4aa-73b441d16380', '2eb8aa08-aa98-11ea-b4aa-73b441d1638', 'x'],
  'json-pointer': ['', '/a~1b/~0', 'a', '/~2'],
  'relative-json-pointer': ['0', '12/a', '1#', '01', '-1'],
  'uri-template': ['http://a/{+x,y:3}{?z*}', '{', '{a b}', 'é'],
  regex: ['^a(b|[c_]+)?$', '(', 'a{2,}', '[\\d.]+|x', '*'],
};

/** A generator of schemas with their values. @param {number} seed @param {{ closed?: boolean }} [options]  `closed`: objects with named properties have no others */
export function schemaModels(seed, { closed = false } = {}) {
  // Sequences of neighbouring seeds are similar at their beginning.
  const next = random(Math.imul(seed, 0x9e3779b1) >>> 0);
  for (let i = 0; i < 8; i++) next();
  const draw = () => (next() + 1) / 2;
  const below = (/** @type {number} */ n) => Math.floor(draw() * n);
  /** @template T @param {readonly T[]} list @returns {T} */
  const pick = (list) => list[below(list.length)];
  const chance = (/** @type {number} */ p) => draw() < p;
  /** @param {number} n @param {readonly string[]} from */
  const some = (n, from) => from.filter(() => chance(n / from.length));

  // The object is empty: another property could be valid, but would not be generated.
  const plain = () => pick([null, true, false, 0, 7, -3, 1.5, 'a', 'xb', '', 'é"', [], [1], {}]);

  /** @returns {Model} */
  function numbers() {
    const type = pick(['integer', 'number']);
    /** @type {any} */
    const schema = { type };
    const step = pick([1, 2, 3, 7, 10, 25, 100, 0.5, 0.25, 0.1, 0.01, 1.5, 2.5, 0.001]);
    if (chance(0.5)) schema.multipleOf = step;
    const low = below(60) - 30 + pick([0, 0, 0.5, 0.25]);
    if (chance(0.4)) schema[pick(['minimum', 'exclusiveMinimum'])] = low;
    if (chance(0.4)) schema[pick(['maximum', 'exclusiveMaximum'])] = low + below(50) + pick([0, 0, 0.5]);
    if (chance(0.1)) schema.not = pick([{ multipleOf: 5 }, { const: 0 }, { minimum: 10 }, { type: 'integer' }]);
    const value = () => {
      const n = pick([low, low + below(20), below(2000) - 1000, low + below(100) * step, below(9) * step * 1000]);
      return Number(n.toFixed(pick([0, 1, 3])));
    };
    return { schema, value };
  }

  /** @returns {Model} */
  function strings() {
    /** @type {any} */
    const schema = { type: 'string' };
    /** @type {readonly string[]} */
    let texts = ['', 'a', 'ab', 'é"\\', 'xyz', 'abcdef', '𝄞𝄞', 'a'.repeat(40)];
    if (chance(0.35)) {
      schema.format = pick(Object.keys(TEXTS));
      texts = TEXTS[/** @type {keyof typeof TEXTS} */ (schema.format)];
    } else if (chance(0.5)) {
      schema.pattern = pick(Object.keys(PATTERNS));
      texts = PATTERNS[/** @type {keyof typeof PATTERNS} */ (schema.pattern)];
    }
    if (chance(0.3)) schema.minLength = below(3);
    if (chance(0.3)) schema.maxLength = pick([2, 3, 10, 40, 2083, 2 ** 40]);
    if (chance(0.1)) schema.not = { enum: ['', 'a', 'ab'] };
    return { schema, value: () => pick(texts) };
  }

  /** @returns {Model} */
  function listed() {
    const values = Array.from({ length: 1 + below(4) }, plain);
    return chance(0.5)
      ? { schema: { const: values[0] }, value: () => (chance(0.8) ? values[0] : plain()) }
      : { schema: { enum: [...new Map(values.map((v) => [textOf(v), v])).values()] }, value: () => pick(values) };
  }

  /** @param {number} depth @returns {Model} */
  function arrays(depth) {
    /** @type {any} */
    const schema = { type: 'array' };
    if (chance(0.2)) {
      const values = [1, 2, 'a', null].slice(0, 2 + below(3));
      Object.assign(schema, { items: { enum: values }, uniqueItems: true });
      const contains = chance(0.4);
      if (contains) Object.assign(schema, { contains: { enum: [1] }, minItems: 1 + below(2) });
      if (!contains && chance(0.4)) schema.minItems = below(3);
      return { schema, value: () => (chance(0.9) ? values.filter(() => chance(0.6)) : [1, 1]) };
    }
    const prefix = chance(0.4) ? [model(depth - 1), model(depth - 1)].slice(below(2)) : [];
    const rest = model(depth - 1);
    if (prefix.length) schema.prefixItems = prefix.map((one) => one.schema);
    if (chance(0.6)) schema.items = rest.schema;
    // Only scalars, because a schema that excludes one array or object generates none.
    const scalars = [null, true, 0, 7, -3, 'a', 'xb'].filter(() => chance(0.4));
    const contained = {
      schema: { enum: scalars.length ? scalars : [1] },
      value: () => pick(scalars.length ? scalars : [1]),
    };
    if (chance(0.35)) {
      schema.contains = contained.schema;
      if (chance(0.5)) schema.minContains = below(3);
      if (chance(0.5)) schema.maxContains = (schema.minContains ?? 1) + below(2);
    }
    // With `items`, ajv accepts an empty array in spite of `contains`.
    if (schema.contains || chance(0.3)) schema.minItems = (schema.contains ? 1 : 0) + below(3);
    if (chance(0.3)) schema.maxItems = 1 + below(5);
    const item = (/** @type {number} */ i) => (prefix[i] ?? (schema.items ? rest : { value: plain })).value();
    const value = () =>
      Array.from({ length: below(6) }, (_, i) => (schema.contains && chance(0.3) ? contained.value() : item(i)));
    return { schema, value };
  }

  /** @param {number} depth @returns {Model} */
  function objects(depth) {
    /** @type {any} */
    const schema = { type: 'object' };
    const names = some(3, NAMES);
    const parts = new Map(names.map((name) => [name, model(depth - 1)]));
    if (names.length) {
      schema.properties = Object.fromEntries([...parts].map(([name, one]) => [name, one.schema]));
      schema.required = some(1, names);
    }
    const rest = model(depth - 1);
    const pattern = pick(['^x', 'b$', '^[a-c]{2,4}$']);
    const patterned = model(depth - 1);
    if (chance(0.25)) schema.patternProperties = { [pattern]: patterned.schema };
    if (chance(0.5)) schema.additionalProperties = pick([false, true, rest.schema]);
    if (chance(0.25)) schema.minProperties = below(4);
    if (chance(0.25)) schema.maxProperties = below(5);
    if (chance(0.15))
      schema.propertyNames = pick([{ enum: ['a', 'b', 'x1'] }, { maxLength: 4 }, { pattern: '^[a-z]' }]);
    if (chance(0.15) && names.length > 1) schema.dependentRequired = { [names[0]]: [names[1]] };
    if (chance(0.1) && names.length > 1)
      schema.dependentSchemas = { [names[1]]: { properties: { [names[0]]: listed().schema } } };
    if (chance(0.1) && names.length > 1)
      Object.assign(schema, {
        if: { properties: { [names[0]]: listed().schema } },
        then: { required: [names[1]] },
      });
    if (closed && names.length) {
      schema.additionalProperties = false;
      delete schema.patternProperties;
    }
    // Other properties are generated only if the schema has a keyword for them, or names no properties.
    const open = Boolean(schema.patternProperties || schema.additionalProperties || !schema.properties);
    const listedNames = schema.propertyNames?.enum;
    const value = () => {
      const properties = new Map(
        names
          .filter((name) => schema.required.includes(name) || chance(0.6))
          .map((name) => [name, parts.get(name)?.value()]),
      );
      const others = !open ? [] : (listedNames ?? ['x', 'y', 'ab', 'abc', 'hometown_x', 'xb', 'éé', 'b']);
      for (const name of some(1.5, others))
        if (!names.includes(name)) {
          const source = schema.patternProperties && new RegExp(pattern, 'u').test(name) ? patterned : rest;
          properties.set(name, (chance(0.8) ? source.value : plain)());
        }
      return Object.fromEntries(properties);
    };
    return { schema, value };
  }

  /** @param {number} depth @returns {Model} */
  function combined(depth) {
    const [a, b] = [model(depth - 1), model(depth - 1)];
    const either = () => pick([a, b]).value();
    return pick([
      { schema: { anyOf: [a.schema, b.schema] }, value: either },
      { schema: { oneOf: [a.schema, b.schema] }, value: either },
      { schema: { anyOf: [{ allOf: [a.schema] }, b.schema] }, value: either },
      {
        schema: { ...a.schema, anyOf: [{ type: ['integer', 'object', 'array'] }, { type: 'string' }] },
        value: a.value,
      },
      { schema: { not: { type: ['object', 'array', 'string', 'number'] } }, value: plain },
    ]);
  }

  /** @param {number} depth @returns {Model} */
  function model(depth) {
    const simple = [numbers, strings, listed, () => ({ schema: { type: ['boolean', 'null'] }, value: plain })];
    return depth <= 0 ? pick(simple)() : pick([...simple, arrays, objects, objects, combined])(depth);
  }

  /** The arguments of a call, with names that are identifiers. */
  const argumentsOf = () => {
    const [first, second] = [model(2), model(2)];
    const properties = { first: first.schema, second: second.schema };
    const schema = { type: 'object', properties, required: ['first'], additionalProperties: false };
    const value = () => ({ first: first.value(), ...(chance(0.7) && { second: second.value() }) });
    return { schema, value };
  };

  return (asArguments = false) => {
    const { schema, value } = asArguments ? argumentsOf() : model(3);
    return { schema: { $schema: 'https://json-schema.org/draft/2020-12/schema', ...schema }, value };
  };
}

/** Compiler, writer and reader of values in a format. @typedef {{ compile: (schema: any) => Promise<import('../../js/text/grammar/index.js').Compiled>, write: (value: any) => string | null, read: (text: string) => any }} Style */

/** @type {Style} */
const JSON_STYLE = {
  compile: (schema) => compile({ type: 'json_schema', schema }),
  write: textOf,
  read: JSON.parse,
};

/** The style of arguments of calls in a notation; texts are written alternately in its first and in its last spelling. @param {string} name @returns {Style} */
export function callStyle(name) {
  const notation = notationNamed(name);
  const last = {
    ...notation,
    quotes: [...notation.quotes].reverse(),
    words: new Map([...notation.words].map(([word, texts]) => [word, [...texts].reverse()])),
  };
  let count = 0;
  return {
    compile: (schema) => compileParts({ arguments: schema, notation: name }),
    write(value) {
      try {
        return writeValue(value, count++ % 2 ? last : notation, notation.root);
      } catch (error) {
        if (/** @type {any} */ (error).code === 'GRAMMAR') return null; // The notation cannot represent a name.
        throw error;
      }
    },
    read: (text) => readArguments(text, notation),
  };
}

/**
 * Compares schemas. Each has a seed, from `from` on; entries of `differences` in the result have the seed and the schema.
 * @param {number} from @param {number} count @param {{ texts?: number, values?: number, style?: Style }} [options]  `texts`, `values`: numbers for
 *   each schema; `style`: of arguments of calls; the default is JSON of any value
 */
export async function compareModels(from, count, { texts = 6, values = 20, style = JSON_STYLE } = {}) {
  const isCall = style !== JSON_STYLE;
  const machine = await grammarMachine();
  const pick = pickerOf(machine, from);
  const result = {
    compiled: 0,
    texts: 0,
    valid: 0,
    invalid: 0,
    refused: /** @type {string[]} */ ([]),
    differences: /** @type {string[]} */ ([]),
    written: /** @type {{ text: string, value: any }[]} */ ([]),
  };
  for (let seed = from; seed < from + count; seed++) {
    const { schema, value } = schemaModels(seed, { closed: isCall })(isCall);
    const reportDifference = (/** @type {string} */ text) =>
      result.differences.push(`seed ${seed}: ${text}\n  ${JSON.stringify(schema)}`);
    const validate = validator(schema);
    const format = { type: 'json_schema', schema };
    const samples = Array.from({ length: values }, () => JSON.parse(JSON.stringify(value())));
    /** @type {any} */
    let compiled;
    try {
      compiled = await style.compile(schema);
    } catch (error) {
      const { code, message } = /** @type {any} */ (error);
      if (code !== 'GRAMMAR') throw error;
      result.refused.push(`seed ${seed}: ${message}`);
      const validSample = /no text can satisfy/.test(message) && samples.find((sample) => validate(sample));
      if (validSample !== false && validSample !== undefined)
        reportDifference(`the schema is refused, although ${textOf(validSample)} is valid`);
      continue;
    }
    result.compiled++;
    for (let i = 0; i < texts; i++) {
      result.texts++;
      try {
        const text = await pick(format, 2 + 5 * i, compiled);
        const parsed = style.read(text);
        result.written.push({ text, value: parsed });
        if (!validate(parsed)) reportDifference(`${text} is generated, but not valid`);
      } catch (error) {
        reportDifference(String(error));
      }
    }
    for (const sample of samples) {
      const valid = validate(sample);
      result[valid ? 'valid' : 'invalid']++;
      const text = style.write(sample);
      if (text === null) continue;
      if (isCall) result.written.push({ text, value: sample });
      if (valid !== (await pick.takes(format, text, compiled)))
        reportDifference(`${text} is ${valid ? 'refused' : 'accepted'}, but ${valid ? '' : 'not '}valid`);
    }
  }
  return result;
}
