/**
 * Compiles a `responseFormat` (JSON Schema, regular expression, GBNF, choices) to rules over bytes. Loaded on demand.
 */
import { dfaOfTexts } from './dfa.js';
import { checkCharacters, grammarError } from './failure.js';
import { onDemand } from '../../shared/errors.js';
import { isNestedTooDeeply, MAX_NESTING } from '../../shared/nesting.js';
import { shown } from '../../shared/quote-value.js';
import { Rules } from './ir.js';
import { plainFormat } from './json-values.js';
import { dfaOfRegex } from './lookaheads.js';
import { parseRegex } from './regex.js';
import { Writer } from './text.js';
import { withStepBound } from './work.js';

export { keyOf } from './json-values.js';
export { Machine } from './machine.js';

/** @import { ResponseFormat } from '../../shared/types.js' */
/** @import { Dfa } from './dfa.js' */

/** Encodes the rules of an automaton. @param {Dfa} dfa */
function encodeDfa(dfa) {
  const rules = new Rules();
  const root = rules.rule('text');
  new Writer(rules).dfa(rules.start(root), dfa, rules.state(true), null);
  return rules.encode(root);
}

/** @param {string | RegExp} pattern */
function compileRegex(pattern) {
  const { source, flags } = pattern instanceof RegExp ? pattern : { source: pattern, flags: '' };
  const unknown = [...flags].find((flag) => !'su'.includes(flag));
  if (unknown) throw grammarError(`the flag ${unknown} of the regular expression is not supported: only s and u are`);
  if (typeof source !== 'string')
    throw grammarError(`the pattern of a regex must be a string or a RegExp, found ${shown(pattern)}`);
  return encodeDfa(dfaOfRegex(parseRegex(source, { dotAll: flags.includes('s') })));
}

/** @param {unknown} choices */
function compileChoices(choices) {
  if (!Array.isArray(choices) || !choices.length || !choices.every((choice) => typeof choice === 'string' && choice))
    throw grammarError('choices must be a list of strings that are not empty');
  for (const text of choices) checkCharacters('a choice', text);
  return encodeDfa(dfaOfTexts(choices));
}

const importSchemaCompiler = () => onDemand(import('./schema/index.js'));

/** Names of the members that each type of format may have. @type {Map<unknown, string[]>} */
const MEMBERS = new Map([
  ['text', []],
  ['json_object', ['schema']],
  ['json_schema', ['schema', 'json_schema', 'parts', 'name', 'description', 'strict']],
  ['regex', ['pattern']],
  ['grammar', ['grammar']],
  ['choice', ['choices']],
]);
/** Names of the members of OpenAI's `json_schema`. */
const JSON_SCHEMA_MEMBERS = ['name', 'description', 'strict', 'schema'];

/**
 * Throws GRAMMAR if an object has an unknown member.
 * @param {string} subject  of the message
 * @param {any} value @param {string[]} members
 */
function checkMembers(subject, value, members) {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw grammarError(`${subject} must be an object`);
  const unknown = Object.keys(value).find((name) => value[name] !== undefined && !members.includes(name));
  if (unknown !== undefined)
    throw grammarError(`${subject} has an unknown member "${unknown}"`, `it may have ${members.join(', ')}`);
}

/** Returns the schema of a format. Throws GRAMMAR if the format has two. @param {any} format */
function schemaOf(format) {
  const wrapper = format.json_schema;
  if (wrapper === undefined) return format.schema;
  checkMembers('responseFormat.json_schema', wrapper, JSON_SCHEMA_MEMBERS);
  if (format.schema !== undefined)
    throw grammarError('responseFormat has a schema in "schema" and one in "json_schema"', 'omit one of them');
  return wrapper.schema;
}

/**
 * Rules in the form that C reads, and warnings about parts of the format that are ignored.
 * @typedef {{ bytes: Uint8Array<ArrayBuffer>, warnings: string[] }} Compiled
 */

/**
 * Compiles a format. Throws GRAMMAR if the format is invalid, not supported or too large, or if no text satisfies it.
 * @param {any} given  a ResponseFormat. It may have a list of schemas, `parts`, each of which resolves its own
 *   references. In `schema`, `{ $ref: 'part:0' }` refers to the first of them.
 * @returns {Promise<Compiled>}
 */
export async function compile(given) {
  if (isNestedTooDeeply(given)) throw grammarError(`responseFormat is nested deeper than ${MAX_NESTING} levels`);
  const format = plainFormat(given);
  const members = MEMBERS.get(format.type);
  if (!members)
    throw grammarError(
      `unknown type of responseFormat: ${shown(format.type)}`,
      'expected text, json_object, json_schema, regex, grammar or choice',
    );
  checkMembers('responseFormat', format, ['type', ...members]);
  /** @param {() => Uint8Array<ArrayBuffer>} rules @returns {Compiled} */
  const withoutWarnings = (rules) => ({ bytes: withStepBound(rules), warnings: [] });
  switch (format.type) {
    case 'regex':
      return withoutWarnings(() => compileRegex(format.pattern));
    case 'choice':
      return withoutWarnings(() => compileChoices(format.choices));
    case 'grammar': {
      const { compileGbnf } = await onDemand(import('./gbnf.js'));
      return withoutWarnings(() => compileGbnf(format.grammar));
    }
    case 'json_object': {
      const { compileSchema } = await importSchemaCompiler();
      const { schema = true } = format;
      const object = { allOf: [{ type: 'object' }, { $ref: 'part:0' }] };
      return withStepBound(() =>
        schema === true ? compileSchema({ type: 'object' }) : compileSchema(object, [schema]),
      );
    }
    case 'json_schema': {
      const { compileSchema } = await importSchemaCompiler();
      return withStepBound(() => compileSchema(schemaOf(format), format.parts));
    }
    default:
      throw grammarError('responseFormat of the type "text" has no effect', 'omit it');
  }
}

/**
 * Compiles a text of several parts (sequence.js), such as tool calls. Throws GRAMMAR.
 * @param {import('./sequence.js').Node} node @returns {Promise<Compiled>}
 */
export async function compileParts(node) {
  const plain = plainFormat(node);
  const { compileSequence } = await onDemand(import('./sequence.js'));
  return withStepBound(() => compileSequence(plain));
}
