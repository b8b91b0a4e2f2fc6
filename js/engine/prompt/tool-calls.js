/** Calls of tools in the form of a model's template: what they are held to, and what is read out of them. Loaded when a reply may call. */
import { BqError } from '../../shared/errors.js';
import { shown } from '../../shared/quote-value.js';
import { ARGUMENTS, COUNT, ID, NAME } from '../../text/templates/call-form.js';

/** @import { Node } from '../../text/grammar/sequence.js' */
/** @import { CallForm, Fields } from '../../text/templates/call-form.js' */

/** A function that may be called. @typedef {{ name: string, parameters?: any }} Tool */
/** A call that was read. @typedef {{ name: string, arguments: string, id?: string }} Call */
/** A part of a call: a special token, or a text, and how it is read. @typedef {{ special: number | null, node: Node, pattern: string }} Piece */
/** A call of one tool; `bare`: as an object of its name and arguments, not in the template's form. @typedef {{ tool: Tool, pieces: Piece[], bare?: boolean }} Branch */

/** How calls are written where the message of the system tells of tools, since the template can't. @type {CallForm} */
export const TOLD = {
  first: `<tool_call>\n{"name": "${NAME}", "arguments": ${ARGUMENTS}}\n</tool_call>`,
  next: `\n<tool_call>\n{"name": "${NAME}", "arguments": ${ARGUMENTS}}\n</tool_call>`,
  after: '',
  fields: null,
  texts: false,
  none: false,
};

const MARKS = new RegExp(`([${NAME}${ARGUMENTS}${ID}${COUNT}])`, 'u');
const SPACE = '[ \\t\\r\\n]{0,40}';
const IDS = '[A-Za-z0-9]{9}';

/** Keywords of parameters that calls without JSON are held to; those that say nothing of values besides. */
const HELD = new Set(['type', 'properties', 'required', 'additionalProperties', '$defs', 'definitions']);
const NOTES = new Set(['$schema', '$id', '$comment', 'title', 'description', 'default', 'examples']);

/** @param {string} text */
const escaped = (text) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** A text whose white space may be other white space, and any stand around what JSON is made of. @param {string} text @returns {{ node: Node, pattern: string }} */
function loose(text) {
  const parts = text.split(/(\s+|(?<=[{[:,])|(?=[}\]]))/).filter((part, i) => i % 2 || part);
  const spaces = (/** @type {string} */ part) => !part.trim();
  return {
    node: parts.map((part) => (spaces(part) ? { pattern: SPACE } : part)),
    pattern: parts.map((part) => (spaces(part) ? '\\s*' : escaped(part))).join(''),
  };
}

/** @param {string} text */
const exact = (text) => ({ node: text, pattern: escaped(text) });

/** Parameters as a schema of an object. @param {any} parameters */
const objectOf = (parameters = {}) =>
  typeof parameters === 'object' && parameters !== null && parameters.type === undefined
    ? { ...parameters, type: 'object' }
    : parameters;

/** Arguments as names and values, in the order of the schema. GRAMMAR: it asks for what such a call isn't held to. @param {Tool} tool @param {Fields} fields @returns {Node} */
function fieldsNode({ name: tool, parameters = {} }, { open, between, close, words }) {
  const strange = Object.keys(parameters).find(
    (keyword) => !HELD.has(keyword) && !NOTES.has(keyword) && !keyword.startsWith('x-'),
  );
  if (strange)
    throw new BqError(
      'GRAMMAR',
      `the parameters of "${tool}" have "${strange}", which this model's calls can't be held to`,
      {
        hint: 'the template writes arguments as names and values: leave it out, or put it into a property',
      },
    );
  if (parameters.type !== undefined && ![parameters.type].flat().includes('object'))
    throw new BqError('GRAMMAR', `the parameters of "${tool}" are of the type ${shown(parameters.type)}, not "object"`);
  const required = new Set(parameters.required ?? []);
  const { properties = {}, additionalProperties: other = true } = parameters;
  const unnamed = [...required].filter((name) => !Object.hasOwn(properties, name)).map((name) => [name, other]);
  return Object.entries(properties)
    .concat(/** @type {any} */ (unnamed))
    .map(([name, schema]) => {
      // A reader would take the rest of such a name for its value.
      if (name.includes(between) || name.includes(close))
        throw new BqError(
          'GRAMMAR',
          `the parameter ${shown(name)} of "${tool}" contains what ends a name in this model's calls`,
        );
      const node = [open + name + between, { value: schema, root: parameters, end: close, words }, close];
      return required.has(name) ? node : { maybe: node };
    });
}

/** Types that a schema names; null: any. @param {any} schema @param {any} root @param {number} [depth] @returns {Set<string> | null} */
function typesOf(schema, root, depth = 0) {
  if (typeof schema !== 'object' || schema === null || depth > 20) return null;
  if (schema.type !== undefined) return new Set([schema.type].flat());
  const values = schema.enum ?? (Object.hasOwn(schema, 'const') ? [schema.const] : null);
  if (values) return new Set(values.map((/** @type {any} */ one) => (one === null ? 'null' : typeof one)));
  const named = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(schema.$ref ?? '');
  if (named) return typesOf(root?.[named[1]]?.[named[2]], root, depth + 1);
  const some = (schema.anyOf ?? schema.oneOf)?.map((/** @type {any} */ one) => typesOf(one, root, depth + 1));
  return some?.every(Boolean) ? new Set(some.flatMap((/** @type {Set<string>} */ one) => [...one])) : null;
}

/** A value as its parameter has it: JSON, but for texts, which are as they are. @param {string} text @param {any} schema @param {any} root @param {Fields['words']} words */
function valueOf(text, schema, root, words) {
  const types = typesOf(schema, root);
  if (types?.size === 1 && types.has('string')) return text;
  const word = Object.entries(words).find(([, written]) => written === text)?.[0];
  try {
    const value = JSON.parse(word ?? text);
    // Where a list has "1" and not 1, it is the text.
    return schema?.enum?.includes(text) && !schema.enum.includes(value) ? text : value;
  } catch {
    return text;
  }
}

/** Arguments of a call that writes names and values. @param {string} text @param {Tool} tool @param {Fields} fields */
function readFields(text, { parameters = {} }, { open, between, close, words }) {
  /** @type {[string, any][]} */
  const values = [];
  for (let at = 0; at < text.length;) {
    const name = text.indexOf(between, at + open.length);
    const end = text.indexOf(close, name + between.length);
    if (!text.startsWith(open, at) || name < 0 || end < 0) throw new SyntaxError('no arguments');
    const key = text.slice(at + open.length, name);
    const schema = Object.hasOwn(parameters.properties ?? {}, key) ? parameters.properties[key] : undefined;
    values.push([key, valueOf(text.slice(name + between.length, end), schema, parameters, words)]);
    at = end + close.length;
  }
  return JSON.stringify(Object.fromEntries(values));
}

/** What makes tokens of texts. @typedef {{ ids: (text: string) => number[], special: (id: number) => string | null }} Vocabulary */

export class CallWriter {
  #form;
  #tools;
  #vocabulary;

  /** @param {CallForm} form @param {Tool[]} tools @param {Vocabulary} vocabulary  `special`: the text of a special token */
  constructor(form, tools, vocabulary) {
    this.#form = form;
    this.#tools = tools;
    this.#vocabulary = vocabulary;
  }

  get after() {
    return this.#form.after;
  }

  get repeats() {
    return this.#form.next !== null;
  }

  /** What stands before the first call's name. */
  get opening() {
    return this.#form.first.split(MARKS)[0];
  }

  /** What begins a call in the middle of a text: a tag, or all before the name; '': a brace, that others begin with, too. */
  get trigger() {
    const opening = this.opening.trim();
    return /^(<[^>\s]+>|\[[A-Z_]+\])/.exec(opening)?.[0] ?? (/^[{[]/.test(opening) ? '' : opening);
  }

  /** Calls of each tool, in the pieces that special tokens cut them into. @param {number} count  of calls before it @param {boolean} strict  in the template's own white space @returns {Branch[]} */
  branches(count, strict) {
    const form = /** @type {string} */ (count ? this.#form.next : this.#form.first);
    return this.#tools.map((tool) => ({ tool, pieces: this.#pieces(form, tool, count, strict) }));
  }

  /** @param {string} form @param {Tool} tool @param {number} count @param {boolean} strict @returns {Piece[]} */
  #pieces(form, tool, count, strict) {
    /** @type {Piece[]} */
    const pieces = [];
    /** @type {Node[]} */
    let nodes = [];
    let pattern = '';
    const add = (/** @type {Node} */ node, /** @type {string} */ read) => {
      nodes.push(node);
      pattern += read;
    };
    const cut = () => {
      if (nodes.length) pieces.push({ special: null, node: nodes, pattern });
      nodes = [];
      pattern = '';
    };
    const text = form.replace(NAME, () => tool.name).replace(COUNT, String(count));
    for (const part of text.split(MARKS)) {
      if (part === ARGUMENTS) {
        const { fields } = this.#form;
        add(fields ? fieldsNode(tool, fields) : { schema: objectOf(tool.parameters) }, '(?<arguments>[^]*)');
      } else if (part === ID) add({ pattern: IDS }, `(?<id>${IDS})`);
      else
        for (const { special, text: fixed } of this.#cut(part)) {
          if (special !== null) {
            cut();
            pieces.push({ special, node: '', pattern: '' });
          } else {
            const { node, pattern: read } = (strict ? exact : loose)(fixed);
            add(node, read);
          }
        }
    }
    cut();
    return pieces;
  }

  /** A text in special tokens and what is between them. @param {string} text @returns {{ special: number | null, text: string }[]} */
  #cut(text) {
    const found = [];
    let at = 0;
    for (const id of text ? this.#vocabulary.ids(text) : []) {
      const special = this.#vocabulary.special(id);
      const begin = special ? text.indexOf(special, at) : -1;
      if (!special || begin < 0) continue;
      if (begin > at) found.push({ special: null, text: text.slice(at, begin) });
      found.push({ special: id, text: special });
      at = begin + special.length;
    }
    if (at < text.length) found.push({ special: null, text: text.slice(at) });
    return found;
  }

  /** A call as a bare object, as small models write it whatever they are told. @returns {Branch[]} */
  bare() {
    const space = { pattern: SPACE };
    return this.#tools.map((tool) => ({
      tool,
      bare: true,
      pieces: [
        {
          special: null,
          node: [
            space,
            { maybe: ['```', { maybe: 'json' }] },
            ...[space, '{', space, '"name"', space, ':', space, `"${tool.name}"`, space, ',', space],
            { any: ['"arguments"', '"parameters"'] },
            ...[space, ':', space, { schema: objectOf(tool.parameters) }, space, '}'],
            { maybe: [space, '```'] },
          ],
          pattern: `\\s*(?:\`\`\`(?:json)?)?\\s*\\{\\s*"name"\\s*:\\s*"${escaped(tool.name)}"\\s*,\\s*"(?:arguments|parameters)"\\s*:\\s*(?<arguments>[^]*)\\s*\\}\\s*(?:\`\`\`)?\\s*`,
        },
      ],
    }));
  }

  /** Whether a reply's first words are such an object as far as its arguments; null: they may become one. @param {string} text @returns {boolean | null} */
  isBare(text) {
    const words = text.replace(/\s+/g, '');
    const begin = (/** @type {string} */ wanted) =>
      words.length < wanted.length ? (wanted.startsWith(words) ? null : false) : words.startsWith(wanted);
    const found = ['', '```', '```json'].flatMap((fence) =>
      this.#tools.flatMap(({ name }) =>
        ['arguments', 'parameters'].map((key) => begin(`${fence}{"name":"${name.replace(/\s+/g, '')}","${key}":`)),
      ),
    );
    return found.includes(true) || (found.includes(null) ? null : false);
  }

  /** What was written, read; null: it is no whole call. @param {Branch} branch @param {string[]} texts  of its pieces @returns {Call | null} */
  read({ tool, pieces, bare }, texts) {
    /** @type {Record<string, string>} */
    const found = {};
    for (const [i, { special, pattern }] of pieces.entries()) {
      if (special !== null) continue;
      const match = new RegExp(`^${pattern}$`, 'u').exec(texts[i] ?? '');
      if (!match) return null;
      Object.assign(found, match.groups);
    }
    try {
      const { fields } = this.#form;
      const args =
        fields && !bare ? readFields(found.arguments, tool, fields) : JSON.stringify(JSON.parse(found.arguments));
      return { name: tool.name, arguments: args, ...(found.id && { id: found.id }) };
    } catch {
      return null;
    }
  }
}
