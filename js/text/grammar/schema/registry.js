/** Numbers the schemas inside a JSON Schema, and resolves references (`$ref`). */
import { grammarError } from '../failure.js';

/** Base URI of a schema without `$id`. */
const HERE = 'schema://here/';
/** Keywords whose values are schemas or lists of schemas. `$id` and `$anchor` have a meaning only in schemas. */
const SCHEMAS = new Set([
  ...['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'items', 'prefixItems', 'additionalItems', 'contains'],
  ...['additionalProperties', 'propertyNames', 'unevaluatedItems', 'unevaluatedProperties'],
]);
/** Keywords whose values are objects with schemas as members. */
const MAPS = new Set(['properties', 'patternProperties', 'definitions', '$defs', 'dependencies', 'dependentSchemas']);
const MAX_DEPTH = 500;
/** Reference to one of the parts that were passed with the schema. */
const PART = /^part:(\d+)$/;

/** @param {unknown} value @returns {value is Record<string, any>} */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Keywords that don't constrain values. */
const ANNOTATIONS = new Set(['title', 'description', 'default', 'examples']);
const isWord = (/** @type {unknown} */ value) =>
  value === null || ['string', 'number', 'boolean'].includes(typeof value);

/**
 * Returns a key for the content of a schema, or null if the schema contains another one or has references.
 * @param {any} schema
 */
function contentKey(schema) {
  if (!isObject(schema)) return null;
  const entries = Object.entries(schema).filter(([name, value]) => value !== undefined && !ANNOTATIONS.has(name));
  const isAlone = entries.every(([name, value]) => name[0] !== '$' && [value].flat().every(isWord));
  return isAlone ? JSON.stringify(entries) : null;
}

/** A complete schema. Its references resolve to schemas inside it. */
class Document {
  /** Schemas by their addresses. @type {Map<string, any>} */
  byAddress = new Map();
  /** The number of schemas with each dynamic anchor. @type {Map<string, number>} */
  dynamic = new Map();

  /** @param {any} root */
  constructor(root) {
    this.root = root;
    /** Whether the schema is of draft 3 or 4, in which `$id` is called `id`. */
    this.isOld = isObject(root) && /draft-0[34]/.test(String(root.$schema));
    this.byAddress.set(HERE, root);
  }
}

export class Registry {
  /** Schemas by their numbers. @type {any[]} */
  schemas = [];
  /** @type {Map<any, number>} */
  #numbers = new Map();
  /** Numbers by `contentKey`: schemas with equal content have the same number. @type {Map<string, number>} */
  #byContent = new Map();
  /**
   * The document of each schema, and the base address of its references.
   * @type {Map<any, { document: Document, base: string }>}
   */
  #places = new Map();
  /** Schemas to which the root schema refers as `part:0`, `part:1`, … @type {Document[]} */
  #parts;
  #root;

  /** @param {any} root @param {any[]} parts */
  constructor(root, parts) {
    this.#root = new Document(root);
    // Parts are cloned, because an object that two of them share belongs to a different document in each.
    this.#parts = parts.map((part) => new Document(structuredClone(part)));
    for (const document of [this.#root, ...this.#parts]) this.#visit(document, document.root, HERE, 0, 'schema');
  }

  /**
   * Records the places, addresses and anchors of a value and of all schemas in it.
   * @param {Document} document @param {any} value @param {string} base @param {number} depth
   * @param {'schema' | 'map' | 'data'} kind  map: schemas by name; data: the value of an unknown keyword
   */
  #visit(document, value, base, depth, kind) {
    if (depth > MAX_DEPTH) throw grammarError(`the schema is nested too deep: more than ${MAX_DEPTH} levels`);
    if (Array.isArray(value)) return value.forEach((item) => this.#visit(document, item, base, depth + 1, kind));
    if (!isObject(value) || this.#places.has(value)) return;
    let address = base;
    // In drafts 3 and 4, `$id` has no effect except in the root schema.
    const id = document.isOld ? (value.id ?? (value === document.root ? value.$id : undefined)) : value.$id;
    if (kind === 'schema' && typeof id === 'string') {
      address = resolve(id, base);
      document.byAddress.set(address.replace(/#$/, ''), value);
    }
    this.#places.set(value, { document, base: address });
    if (kind === 'schema') {
      for (const name of ['$anchor', '$dynamicAnchor'])
        if (typeof value[name] === 'string')
          document.byAddress.set(`${address.replace(/#.*/, '')}#${value[name]}`, value);
      const { $dynamicAnchor: anchor } = value;
      if (typeof anchor === 'string') document.dynamic.set(anchor, (document.dynamic.get(anchor) ?? 0) + 1);
    }
    for (const [name, part] of Object.entries(value)) {
      const within = kind === 'map' || SCHEMAS.has(name) ? 'schema' : MAPS.has(name) ? 'map' : 'data';
      this.#visit(document, part, address, depth + 1, kind === 'data' ? 'data' : within);
    }
  }

  /** @param {any} schema */
  #placeOf(schema) {
    return this.#places.get(schema) ?? { document: this.#root, base: HERE };
  }

  /**
   * Returns the number of a schema. Throws GRAMMAR if it is neither an object nor a boolean.
   * @param {any} schema @param {string} [where]  subject of the message @returns {number}
   */
  number(schema, where = 'a schema') {
    if (!isObject(schema) && typeof schema !== 'boolean') throw grammarError(`${where} must be an object or a boolean`);
    let number = this.#numbers.get(schema);
    if (number === undefined) {
      const content = contentKey(schema);
      number = (content === null ? undefined : this.#byContent.get(content)) ?? this.schemas.push(schema) - 1;
      if (content !== null) this.#byContent.set(content, number);
      this.#numbers.set(schema, number);
    }
    return number;
  }

  /**
   * Returns the number of the schema that a reference refers to. Throws GRAMMAR if it does not exist or is in another
   * document.
   * @param {string} ref @param {any} from  the schema that contains the reference
   * @param {string} [keyword] @returns {number}
   */
  target(ref, from, keyword = '$ref') {
    if (typeof ref !== 'string') throw grammarError(`${keyword} must be a string`);
    const { document, base } = this.#placeOf(from);
    const { byAddress } = document;
    const part = document === this.#root ? PART.exec(ref) : null;
    if (part && Number(part[1]) < this.#parts.length) return this.number(this.#parts[Number(part[1])].root);
    const address = resolve(ref, base);
    const [file, fragment = ''] = address.split('#');
    let found = byAddress.get(address.replace(/#$/, ''));
    if (found === undefined) {
      found = byAddress.get(file) ?? byAddress.get(`${file}#`);
      if (found === undefined)
        throw grammarError(`${keyword} "${ref}": references to other documents are not supported`);
      if (fragment && !fragment.startsWith('/')) throw grammarError(`${keyword} "${ref}": the anchor does not exist`);
      for (const step of decode(fragment, ref).split('/').slice(1)) {
        const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
        if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name))
          throw grammarError(`${keyword} "${ref}": the schema has no "${name}" there`);
        found = found[name];
      }
    }
    return this.number(found, `${keyword} "${ref}"`);
  }

  /**
   * Returns the target of a `$dynamicRef` or `$recursiveRef`. It must be the root schema, as in schemas of trees.
   * Throws GRAMMAR otherwise. Other targets depend on the path of evaluation, and validators differ.
   * @param {string} ref @param {any} from @returns {number}
   */
  dynamicTarget(ref, from) {
    const number = this.target(ref, from, '$dynamicRef');
    const { document } = this.#placeOf(from);
    const name = ref.slice(1);
    if (this.schemas[number] !== document.root || (name && document.dynamic.get(name) !== 1))
      throw grammarError(`$dynamicRef "${ref}" is supported only if it refers to the whole schema`, 'use $ref');
    return number;
  }
}

/** @param {string} ref @param {string} base */
function resolve(ref, base) {
  try {
    if (/^[a-z][a-z0-9+.-]*:/i.test(ref) && !URL.canParse(ref)) return ref;
    return ref.startsWith('#') ? base.replace(/#.*/, '') + ref : new URL(ref, base).href;
  } catch {
    return ref;
  }
}

/** @param {string} fragment @param {string} ref */
function decode(fragment, ref) {
  try {
    return decodeURIComponent(fragment);
  } catch {
    throw grammarError(`$ref "${ref}" is not a valid URI reference`);
  }
}
