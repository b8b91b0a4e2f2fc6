/** Compiles a `responseFormat` (JSON Schema, regular expression, GBNF, choices) to rules over bytes. Loaded on demand. */
import { ofTexts } from './dfa.js';
import { checkCharacters, refused } from './failure.js';
import { onDemand } from '../../shared/errors.js';
import { isNestedTooDeeply, MAX_NESTING } from '../../shared/nesting.js';
import { shown } from '../../shared/quote-value.js';
import { Rules } from './ir.js';
import { plainFormat } from './json-values.js';
import { ofRegex } from './lookaheads.js';
import { parseRegex } from './regex.js';
import { Writer } from './text.js';
import { withStepBound } from './work.js';

export { keyOf } from './json-values.js';
export { Machine } from './machine.js';

/** @import { ResponseFormat } from '../../shared/types.js' */
/** @import { Dfa } from './dfa.js' */

/** The rules of an automaton. @param {Dfa} dfa */
function whole(dfa) {
  const rules = new Rules();
  const root = rules.rule('text');
  new Writer(rules).dfa(rules.start(root), dfa, rules.state(true), null);
  return rules.encode(root);
}

/** @param {string | RegExp} pattern */
function regex(pattern) {
  const { source, flags } = pattern instanceof RegExp ? pattern : { source: pattern, flags: '' };
  const unknown = [...flags].find((flag) => !'su'.includes(flag));
  if (unknown) throw refused(`the flag ${unknown} of the regular expression is not supported: only s and u are`);
  if (typeof source !== 'string')
    throw refused(`the pattern of a regex must be a string or a RegExp, found ${shown(pattern)}`);
  return whole(ofRegex(parseRegex(source, { dotAll: flags.includes('s') })));
}

/** @param {unknown} choices */
function choice(choices) {
  if (!Array.isArray(choices) || !choices.length || !choices.every((choice) => typeof choice === 'string' && choice))
    throw refused('choices must be a list of strings that are not empty');
  for (const text of choices) checkCharacters('a choice', text);
  return whole(ofTexts(choices));
}

const schemas = () => onDemand(import('./schema/index.js'));

/** The members of each type of format. @type {Map<unknown, string[]>} */
const MEMBERS = new Map([
  ['text', []],
  ['json_object', ['schema']],
  ['json_schema', ['schema', 'json_schema', 'parts', 'name', 'description', 'strict']],
  ['regex', ['pattern']],
  ['grammar', ['grammar']],
  ['choice', ['choices']],
]);
/** The members of OpenAI's `json_schema`. */
const NAMED = ['name', 'description', 'strict', 'schema'];

/** GRAMMAR: there is an unknown member. @param {string} what @param {any} value @param {string[]} members */
function checkMembers(what, value, members) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refused(`${what} must be an object`);
  const unknown = Object.keys(value).find((name) => value[name] !== undefined && !members.includes(name));
  if (unknown !== undefined)
    throw refused(`${what} has an unknown member "${unknown}"`, `it may have ${members.join(', ')}`);
}

/** The schema of a format. GRAMMAR: it has two. @param {any} format */
function schemaOf(format) {
  const named = format.json_schema;
  if (named === undefined) return format.schema;
  checkMembers('responseFormat.json_schema', named, NAMED);
  if (format.schema !== undefined)
    throw refused('responseFormat has a schema in "schema" and one in "json_schema"', 'leave one of them out');
  return named.schema;
}

/**
 * Rules in the form that C reads, and warnings about parts of the format that are ignored.
 * @typedef {{ bytes: Uint8Array<ArrayBuffer>, warnings: string[] }} Compiled
 */

/**
 * GRAMMAR: it is wrong, not supported, too large, or nothing satisfies it.
 * @param {any} given  a ResponseFormat; with `parts`, a list of schemas, each with references of its own: in `schema`,
 *   `{ $ref: 'part:0' }` is the first of them
 * @returns {Promise<Compiled>}
 */
export async function compile(given) {
  if (isNestedTooDeeply(given)) throw refused(`responseFormat is nested deeper than ${MAX_NESTING} levels`);
  const format = plainFormat(given);
  const members = MEMBERS.get(format.type);
  if (!members)
    throw refused(
      `unknown type of responseFormat: ${shown(format.type)}`,
      'expected text, json_object, json_schema, regex, grammar or choice',
    );
  checkMembers('responseFormat', format, ['type', ...members]);
  /** @param {() => Uint8Array<ArrayBuffer>} rules @returns {Compiled} */
  const alone = (rules) => ({ bytes: withStepBound(rules), warnings: [] });
  switch (format.type) {
    case 'regex':
      return alone(() => regex(format.pattern));
    case 'choice':
      return alone(() => choice(format.choices));
    case 'grammar': {
      const { compileGbnf } = await onDemand(import('./gbnf.js'));
      return alone(() => compileGbnf(format.grammar));
    }
    case 'json_object': {
      const { compileSchema } = await schemas();
      const { schema = true } = format;
      const object = { allOf: [{ type: 'object' }, { $ref: 'part:0' }] };
      return withStepBound(() =>
        schema === true ? compileSchema({ type: 'object' }) : compileSchema(object, [schema]),
      );
    }
    case 'json_schema': {
      const { compileSchema } = await schemas();
      return withStepBound(() => compileSchema(schemaOf(format), format.parts));
    }
    default:
      throw refused('responseFormat of the type "text" has no effect', 'leave it out');
  }
}

/** Compiles a text of several parts (sequence.js), such as the calls of tools. GRAMMAR. @param {import('./sequence.js').Node} node @returns {Promise<Compiled>} */
export async function compileParts(node) {
  const plain = plainFormat(node);
  const { compileSequence } = await onDemand(import('./sequence.js'));
  return withStepBound(() => compileSequence(plain));
}
