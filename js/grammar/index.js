/** What a text is held to, compiled: `responseFormat` becomes rules over bytes. Loaded when first asked for. */
import { ofRegex, ofTexts } from './dfa.js';
import { refused } from './failure.js';
import { onDemand } from '../shared/errors.js';
import { Rules } from './ir.js';
import { parseRegex } from './regex.js';
import { Writer } from './text.js';

export { Machine } from './machine.js';

/** @import { ResponseFormat } from '../shared/types.js' */
/** @import { Dfa } from './dfa.js' */

/** Texts of an automaton. @param {Dfa} dfa */
function whole(dfa) {
  const rules = new Rules();
  const root = rules.rule('text');
  new Writer(rules).dfa(rules.start(root), dfa, rules.state(true), false);
  return rules.encode(root);
}

/** @param {string | RegExp} pattern */
function regex(pattern) {
  const { source, flags } = pattern instanceof RegExp ? pattern : { source: pattern, flags: '' };
  const unknown = [...flags].find((flag) => !'su'.includes(flag));
  if (unknown) throw refused(`the regular expression has the flag ${unknown}: only s and u are supported`);
  if (typeof source !== 'string') throw refused('a regex needs a pattern: a text or a RegExp');
  return whole(ofRegex(parseRegex(source, { dotAll: flags.includes('s') })));
}

/** @param {unknown} choices */
function choice(choices) {
  if (!Array.isArray(choices) || !choices.length || !choices.every((one) => typeof one === 'string' && one))
    throw refused('choices must be a list of texts, none of them empty');
  return whole(ofTexts(choices));
}

const schema = () => onDemand(import('./schema/index.js'));

/** GRAMMAR: it is wrong, not supported, too large, or nothing satisfies it. @param {any} format  a ResponseFormat @returns {Promise<Uint8Array<ArrayBuffer>>} */
export async function compile(format) {
  switch (format.type) {
    case 'regex':
      return regex(format.pattern);
    case 'choice':
      return choice(format.choices);
    case 'grammar':
      return (await onDemand(import('./gbnf.js'))).compileGbnf(format.grammar);
    case 'json_object':
      return (await schema()).compileSchema({ type: 'object' });
    case 'json_schema':
      return (await schema()).compileSchema(format.json_schema?.schema ?? format.schema);
    default:
      throw refused(
        `responseFormat has no type "${format.type}"`,
        'it is one of text, json_object, json_schema, regex, grammar, choice',
      );
  }
}

/** Of a text that is made of parts, as engines compose them. GRAMMAR. @param {import('./sequence.js').Node} node */
export const compileParts = async (node) => (await onDemand(import('./sequence.js'))).compileSequence(node);

/** A format's identity: equal texts are equal formats. GRAMMAR: it is no JSON. @param {any} format */
export function keyOf(format) {
  try {
    return JSON.stringify(format, (_, value) => (value instanceof RegExp ? String(value) : value));
  } catch (cause) {
    const what = cause instanceof RangeError ? 'is nested too deep' : 'is no JSON: it contains itself, or a BigInt';
    throw refused(`the format ${what}`, 'write a schema that contains itself by $ref');
  }
}
