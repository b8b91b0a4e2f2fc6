/**
 * Tool calls in the form of a model's template: creates the grammars that generate calls, and parses generated calls.
 * Loaded when a reply may call tools.
 */
import { overlap } from '../../api/chat/stop-strings.js';
import { BqError } from '../../shared/errors.js';
import { exactJson, parseExact } from '../../shared/exact-json.js';
import { shown } from '../../shared/quote-value.js';
import { notationNamed } from '../../text/grammar/notations.js';
import { ARGUMENTS, COUNT, ID, NAME, PLACEHOLDERS } from '../../text/templates/call-form.js';
import { readArguments } from '../../text/templates/noted-values.js';

/** @import { Node } from '../../text/grammar/sequence.js' */
/** @import { CallForm, Fields } from '../../text/templates/call-form.js' */

/** A function that may be called. @typedef {{ name: string, parameters?: any }} Tool */
/** A parsed call. @typedef {{ name: string, arguments: string, id?: string }} Call */
/**
 * A piece of a call: a special token, or a text with its grammar and a pattern that parses it.
 * @typedef {{ special: number | null, node: Node, pattern: string }} Piece
 */
/** The notation of arguments; both null: JSON. @typedef {Pick<CallForm, 'fields' | 'notation'>} ArgumentStyle */
/**
 * A call of one tool. `bare`: whether it is a plain JSON object of the name and the arguments, not in the template's
 * form.
 * @typedef {{ tool: Tool, pieces: Piece[], style: ArgumentStyle, bare?: boolean }} Branch
 */

/** @type {ArgumentStyle} */
const JSON_STYLE = { fields: null, notation: null };
/** A call in Python syntax, and the JSON that models may write instead of it. */
const [PYTHON_CALL, JSON_CALL] = [`${NAME}(${ARGUMENTS})`, `{"name": "${NAME}", "arguments": ${ARGUMENTS}}`];
const SPACE = '[ \\t\\r\\n]{0,40}';
const ID_PATTERN = '[A-Za-z0-9]{9}';

/** Supported schema keywords of parameters for calls without JSON, and keywords that do not restrict values. */
const CHECKED_KEYWORDS = new Set(['type', 'properties', 'required', 'additionalProperties', '$defs', 'definitions']);
const IGNORED_KEYWORDS = new Set(['$schema', '$id', '$comment', 'title', 'description', 'default', 'examples']);

/** Escapes a text for a regular expression. @param {string} text */
const escapePattern = (text) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/**
 * Returns the grammar and the pattern of a text in which any white space may replace its white space, and white space
 * may surround JSON punctuation.
 * @param {string} text @returns {{ node: Node, pattern: string }}
 */
function looseText(text) {
  const parts = text.split(/(\s+|(?<=[{[:,])|(?=[}\]]))/).filter((part, i) => i % 2 || part);
  const isSpace = (/** @type {string} */ part) => !part.trim();
  return {
    node: parts.map((part) => (isSpace(part) ? { pattern: SPACE } : part)),
    pattern: parts.map((part) => (isSpace(part) ? '\\s*' : escapePattern(part))).join(''),
  };
}

/** Returns the grammar and the pattern of exactly this text. @param {string} text */
const exactText = (text) => ({ node: text, pattern: escapePattern(text) });

/** Beginning of a call that is ambiguous in other text. */
const BRACKET = /^[[{]/;

/** @param {string} text */
const withoutSpace = (text) => text.replace(/\s+/g, '');

/**
 * Returns whether a text begins so, apart from white space; null if it ends before that is decided.
 * @param {string} beginning  without white space @param {string} text @returns {boolean | null}
 */
function isBeginning(beginning, text) {
  const found = withoutSpace(text);
  if (found.length < beginning.length) return beginning.startsWith(found) ? null : false;
  return found.startsWith(beginning);
}

/** Parameters of a tool without `parameters`: it takes no arguments, as in OpenAI's interface. */
const NO_PARAMETERS = Object.freeze({ additionalProperties: false });

/**
 * Returns the parameters of a tool as a schema that only accepts objects, since arguments are always an object. Throws
 * GRAMMAR if the parameters have another type.
 * @param {Tool} tool
 */
function objectOf({ name: tool, parameters = NO_PARAMETERS }) {
  const { type = 'object' } = /** @type {any} */ (parameters);
  if (![type].flat().includes('object'))
    throw new BqError(
      'GRAMMAR',
      `the parameters of the tool "${tool}": expected the type "object", found ${shown(type)}`,
      { details: { param: 'tools', tool, place: '' } },
    );
  // The keyword `nullable` of OpenAPI would also accept null, so it is removed.
  return { ...parameters, type: 'object', nullable: undefined };
}

/**
 * Returns the grammar of arguments as names and values, in the order of the schema. Throws GRAMMAR if the schema has an
 * unsupported keyword.
 * @param {Tool} tool @param {Fields} fields @returns {Node}
 */
function fieldsNode({ name: tool, parameters = {} }, { open, between: separator, close, words }) {
  const unsupportedKeyword = Object.keys(parameters).find(
    (keyword) => !CHECKED_KEYWORDS.has(keyword) && !IGNORED_KEYWORDS.has(keyword) && !keyword.startsWith('x-'),
  );
  if (unsupportedKeyword)
    throw new BqError(
      'GRAMMAR',
      `parameters of "${tool}": the keyword "${unsupportedKeyword}" is not supported for calls of this model`,
      {
        hint: 'omit it, or put it into a property: the template writes arguments as names and values',
      },
    );
  const required = new Set(parameters.required ?? []);
  const { properties = {}, additionalProperties: defaultSchema = true } = parameters;
  const unnamed = [...required].filter((name) => !Object.hasOwn(properties, name)).map((name) => [name, defaultSchema]);
  return Object.entries(properties)
    .concat(/** @type {any} */ (unnamed))
    .map(([name, schema]) => {
      // A part of such a name would be parsed as a value.
      if (name.includes(separator) || name.includes(close))
        throw new BqError(
          'GRAMMAR',
          `parameter ${shown(name)} of "${tool}": the name contains a separator of this model's calls`,
        );
      const node = [open + name + separator, { value: schema, root: parameters, end: close, words }, close];
      return required.has(name) ? node : { maybe: node };
    });
}

/** Returns the grammar of arguments. Throws GRAMMAR. @param {Tool} tool @param {ArgumentStyle} style @returns {Node} */
function argumentsNode(tool, { fields, notation }) {
  const schema = objectOf(tool);
  if (fields) return fieldsNode(tool, fields);
  return notation ? { arguments: schema, notation } : { schema };
}

/**
 * Returns the types that a schema accepts; null if they are unknown.
 * @param {any} schema @param {any} root  schema with the definitions @param {number} [depth]
 * @returns {Set<string> | null}
 */
function typesOf(schema, root, depth = 0) {
  if (typeof schema !== 'object' || schema === null || depth > 20) return null;
  if (schema.type !== undefined) return new Set([schema.type].flat());
  const values = schema.enum ?? (Object.hasOwn(schema, 'const') ? [schema.const] : null);
  if (values) return new Set(values.map((/** @type {any} */ value) => (value === null ? 'null' : typeof value)));
  const reference = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(schema.$ref ?? '');
  if (reference) return typesOf(root?.[reference[1]]?.[reference[2]], root, depth + 1);
  const branchTypes = (schema.anyOf ?? schema.oneOf)?.map((/** @type {any} */ branch) =>
    typesOf(branch, root, depth + 1),
  );
  return branchTypes?.every(Boolean)
    ? new Set(branchTypes.flatMap((/** @type {Set<string>} */ typeSet) => [...typeSet]))
    : null;
}

/**
 * Returns the value of an argument: the text itself if the schema only accepts strings, otherwise the parsed JSON.
 * @param {string} text @param {any} schema @param {any} root  schema with the definitions
 * @param {Fields['words']} words
 */
function valueOf(text, schema, root, words) {
  const types = typesOf(schema, root);
  if (types?.size === 1 && types.has('string')) return text;
  const word = Object.entries(words).find(([, spelling]) => spelling === text)?.[0];
  try {
    const value = parseExact(word ?? text);
    // If the enum contains the string "1" and not the number 1, the value is the string.
    return schema?.enum?.includes(text) && !schema.enum.includes(value) ? text : value;
  } catch {
    return text;
  }
}

/**
 * Parses arguments written as names and values, and returns them as JSON.
 * @param {string} text @param {Tool} tool @param {Fields} fields
 */
function readFields(text, { parameters = {} }, { open, between: separator, close, words }) {
  /** @type {[string, any][]} */
  const values = [];
  for (let at = 0; at < text.length;) {
    const name = text.indexOf(separator, at + open.length);
    const end = text.indexOf(close, name + separator.length);
    if (!text.startsWith(open, at) || name < 0 || end < 0) throw new SyntaxError('no arguments');
    const key = text.slice(at + open.length, name);
    const schema = Object.hasOwn(parameters.properties ?? {}, key) ? parameters.properties[key] : undefined;
    values.push([key, valueOf(text.slice(name + separator.length, end), schema, parameters, words)]);
    at = end + close.length;
  }
  return exactJson(Object.fromEntries(values));
}

/**
 * Access to the tokenizer. `ids`: returns the tokens of a text; `special`: returns the text of a special token, null
 * for other tokens.
 * @typedef {{ ids: (text: string) => number[], special: (id: number) => string | null }} Vocabulary
 */

/** Creates the grammars of calls in the form of a template, and parses calls. */
export class CallForms {
  #form;
  #tools;
  #vocabulary;

  /** @param {CallForm} form @param {Tool[]} tools @param {Vocabulary} vocabulary */
  constructor(form, tools, vocabulary) {
    this.#form = form;
    this.#tools = tools;
    this.#vocabulary = vocabulary;
  }

  /** Text after the last call. */
  get after() {
    return this.#form.after;
  }

  /** Whether a reply may have several calls. */
  get repeats() {
    return this.#form.next !== null;
  }

  /** Tag that marks the beginning of a call in other text; '' if calls begin without a tag. */
  get trigger() {
    return /^\s*(<[^>\s]+>|\[[A-Z_]+\])/.exec(this.#form.first.split(PLACEHOLDERS)[0])?.[1] ?? '';
  }

  /** Forms of calls: that of the template, and JSON, which models may write in place of a call in Python syntax. */
  #forms(/** @type {string} */ form, isStrict = false) {
    const forms = [{ form, style: /** @type {ArgumentStyle} */ (this.#form) }];
    if (!isStrict && form.includes(PYTHON_CALL))
      forms.push({ form: form.replace(PYTHON_CALL, JSON_CALL), style: JSON_STYLE });
    return forms;
  }

  /** Text of the template before the name of the first call, without white space. */
  get #opening() {
    return withoutSpace(this.#form.first.split(PLACEHOLDERS)[0]);
  }

  /** Beginnings of first calls in the form of the template, up to the id or the arguments, without white space. */
  get #callBeginnings() {
    return this.#forms(this.#form.first).flatMap(({ form }) => {
      const [beginning] = form.replace(COUNT, '0').split(new RegExp(`[${ARGUMENTS}${ID}]`, 'u'));
      return this.#tools.map(({ name }) => withoutSpace(beginning.replace(NAME, () => name)));
    });
  }

  /**
   * Returns the calls of each tool, in pieces separated by special tokens.
   * @param {number} count  number of calls before this one
   * @param {boolean} strict  whether only the exact white space of the template is allowed @returns {Branch[]}
   */
  branches(count, strict) {
    const form = /** @type {string} */ (count ? this.#form.next : this.#form.first);
    return this.#forms(form, strict && !count).flatMap(({ form, style }) =>
      this.#tools.map((tool) => ({ tool, style, pieces: this.#pieces(form, tool, count, strict, style) })),
    );
  }

  /**
   * @param {string} form @param {Tool} tool @param {number} count @param {boolean} strict @param {ArgumentStyle} style
   * @returns {Piece[]}
   */
  #pieces(form, tool, count, strict, style) {
    /** @type {Piece[]} */
    const pieces = [];
    /** @type {Node[]} */
    let nodes = [];
    let pattern = '';
    const addNode = (/** @type {Node} */ node, /** @type {string} */ nodePattern) => {
      nodes.push(node);
      pattern += nodePattern;
    };
    const endPiece = () => {
      if (nodes.length) pieces.push({ special: null, node: nodes, pattern });
      nodes = [];
      pattern = '';
    };
    const text = form.replace(NAME, () => tool.name).replace(COUNT, String(count));
    for (const part of text.split(PLACEHOLDERS)) {
      if (part === ARGUMENTS) addNode(argumentsNode(tool, style), '(?<arguments>[^]*)');
      else if (part === ID) addNode({ pattern: ID_PATTERN }, `(?<id>${ID_PATTERN})`);
      else
        for (const { special, text: fixed } of this.#splitAtTokens(part)) {
          if (special !== null) {
            endPiece();
            pieces.push({ special, node: '', pattern: '' });
          } else {
            const { node, pattern: partPattern } = (strict ? exactText : looseText)(fixed);
            addNode(node, partPattern);
          }
        }
    }
    endPiece();
    return pieces;
  }

  /**
   * Splits a text into special tokens and the texts between them.
   * @param {string} text
   * @returns {{ special: number | null, text: string }[]}
   */
  #splitAtTokens(text) {
    const pieces = [];
    let at = 0;
    for (const id of text ? this.#vocabulary.ids(text) : []) {
      const special = this.#vocabulary.special(id);
      const begin = special ? text.indexOf(special, at) : -1;
      if (!special || begin < 0) continue;
      if (begin > at) pieces.push({ special: null, text: text.slice(at, begin) });
      pieces.push({ special: id, text: special });
      at = begin + special.length;
    }
    if (at < text.length) pieces.push({ special: null, text: text.slice(at) });
    return pieces;
  }

  /**
   * Returns the calls of each tool as plain JSON objects, which small models write even if the prompt describes another
   * form.
   * @returns {Branch[]}
   */
  bare() {
    const space = { pattern: SPACE };
    return this.#tools.map((tool) => ({
      tool,
      style: JSON_STYLE,
      bare: true,
      pieces: [
        {
          special: null,
          node: [
            space,
            { maybe: ['```', { maybe: 'json' }] },
            ...[space, '{', space, '"name"', space, ':', space, `"${tool.name}"`, space, ',', space],
            { any: ['"arguments"', '"parameters"'] },
            ...[space, ':', space, { schema: objectOf(tool) }, space, '}'],
            { maybe: [space, '```'] },
          ],
          pattern: `\\s*(?:\`\`\`(?:json)?)?\\s*\\{\\s*"name"\\s*:\\s*"${escapePattern(tool.name)}"\\s*,\\s*"(?:arguments|parameters)"\\s*:\\s*(?<arguments>[^]*)\\s*\\}\\s*(?:\`\`\`)?\\s*`,
        },
      ],
    }));
  }

  /**
   * Returns the kind of the call that the beginning of a reply is, up to its arguments: a plain JSON object (`bare`), or
   * the form of a template whose calls begin with a bracket (`form`). Returns `undecided` if the beginning may still become
   * a call, and null if it is other text.
   * @param {string} text @returns {'bare' | 'form' | 'undecided' | null}
   */
  callAtStart(text) {
    const bare = ['', '```', '```json'].flatMap((fence) =>
      this.#tools.flatMap(({ name }) =>
        ['arguments', 'parameters'].map((key) => withoutSpace(`${fence}{"name":"${name}","${key}":`)),
      ),
    );
    const beginsWith = (/** @type {string} */ beginning) => isBeginning(beginning, text);
    const [bareMatches, formMatches] = [bare, BRACKET.test(this.#opening) ? this.#callBeginnings : []].map((all) =>
      all.map(beginsWith),
    );
    if (bareMatches.includes(true)) return 'bare';
    if (formMatches.includes(true)) return 'form';
    return [...bareMatches, ...formMatches].includes(null) ? 'undecided' : null;
  }

  /**
   * Finds the first call in the text of a reply. `isCertain`: false if the text ends before that is decided. Without a
   * call, `at` is the end of the text.
   * @param {string} text @returns {{ at: number, isCertain: boolean }}
   */
  findCall(text) {
    const { trigger } = this;
    if (trigger) {
      const at = text.indexOf(trigger);
      return { at: at < 0 ? text.length - overlap(text, trigger) : at, isCertain: at >= 0 };
    }
    const opening = this.#opening;
    if (BRACKET.test(opening)) return { at: text.length, isCertain: false };
    for (let at = text.indexOf(opening[0]); at >= 0; at = text.indexOf(opening[0], at + 1)) {
      const isCall = isBeginning(opening, text.slice(at));
      if (isCall !== false) return { at, isCertain: isCall === true };
    }
    return { at: text.length, isCertain: false };
  }

  /**
   * Parses a generated call; returns null if it is not a complete call.
   * @param {Branch} branch @param {string[]} texts  texts of the pieces
   * @returns {Call | null}
   */
  read({ tool, pieces, style: { fields, notation } }, texts) {
    /** @type {Record<string, string>} */
    const callParts = {};
    for (const [i, { special, pattern }] of pieces.entries()) {
      if (special !== null) continue;
      const match = new RegExp(`^${pattern}$`, 'u').exec(texts[i] ?? '');
      if (!match) return null;
      Object.assign(callParts, match.groups);
    }
    try {
      const argumentText = callParts.arguments;
      const args = fields
        ? readFields(argumentText, tool, fields)
        : exactJson(notation ? readArguments(argumentText, notationNamed(notation)) : parseExact(argumentText));
      return { name: tool.name, arguments: args, ...(callParts.id && { id: callParts.id }) };
    } catch {
      return null;
    }
  }
}
