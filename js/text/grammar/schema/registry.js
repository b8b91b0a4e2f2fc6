/** The parts of a JSON Schema by number, and what `$ref` points to. */
import { refused } from '../failure.js';

/** Where a schema without `$id` lies. */
const HERE = 'schema://here/';
/** Keywords whose values are schemas or lists of them, and those with a schema by each name: `$id` and `$anchor` count only there. */
const SCHEMAS = new Set([
  ...['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'items', 'prefixItems', 'additionalItems', 'contains'],
  ...['additionalProperties', 'propertyNames', 'unevaluatedItems', 'unevaluatedProperties'],
]);
const MAPS = new Set(['properties', 'patternProperties', 'definitions', '$defs', 'dependencies', 'dependentSchemas']);
const MAX_DEPTH = 500;
/** How a schema refers to one of the parts that it was given with. */
const PART = /^part:(\d+)$/;

/** @param {unknown} value @returns {value is Record<string, any>} */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** What says nothing of values. */
const ANNOTATIONS = new Set(['title', 'description', 'default', 'examples']);
const isWord = (/** @type {unknown} */ value) =>
  value === null || ['string', 'number', 'boolean'].includes(typeof value);

/** All that a schema says, where it contains no other and refers to none; null. @param {any} schema */
function saidBy(schema) {
  if (!isObject(schema)) return null;
  const said = Object.entries(schema).filter(([name, value]) => value !== undefined && !ANNOTATIONS.has(name));
  const alone = said.every(([name, value]) => name[0] !== '$' && [value].flat().every(isWord));
  return alone ? JSON.stringify(said) : null;
}

/** A whole schema: its references are to what is inside it. */
class Document {
  /** Schemas by their address. @type {Map<string, any>} */
  known = new Map();
  /** How many schemas have a dynamic anchor, by its name. @type {Map<string, number>} */
  dynamic = new Map();

  /** @param {any} root */
  constructor(root) {
    this.root = root;
    /** Draft 4, where `$id` is `id`. */
    this.old = isObject(root) && /draft-0[34]/.test(String(root.$schema));
    this.known.set(HERE, root);
  }
}

export class Registry {
  /** Schemas by number. @type {any[]} */
  schemas = [];
  /** @type {Map<any, number>} */
  #numbers = new Map();
  /** Numbers of schemas by what they say: those that say the same are one. @type {Map<string, number>} */
  #saying = new Map();
  /** The document that a schema is in, and the address that its references are relative to. @type {Map<any, { document: Document, base: string }>} */
  #places = new Map();
  /** Schemas that the whole refers to as parts. @type {Document[]} */
  #parts;
  #whole;

  /** @param {any} root @param {any[]} parts */
  constructor(root, parts) {
    this.#whole = new Document(root);
    // An object that lies in two of them has a place in each.
    this.#parts = parts.map((part) => new Document(structuredClone(part)));
    for (const document of [this.#whole, ...this.#parts]) this.#visit(document, document.root, HERE, 0, 'schema');
  }

  /** @param {Document} document @param {any} value @param {string} base @param {number} depth @param {'schema' | 'map' | 'data'} kind  map: schemas by name; data: of an unknown keyword */
  #visit(document, value, base, depth, kind) {
    if (depth > MAX_DEPTH) throw refused('the schema is nested too deep');
    if (Array.isArray(value)) return value.forEach((one) => this.#visit(document, one, base, depth + 1, kind));
    if (!isObject(value)) return;
    const before = this.#places.get(value);
    if (before) return;
    let own = base;
    const id = value.$id ?? (document.old ? value.id : undefined);
    if (kind === 'schema' && typeof id === 'string') {
      own = resolve(id, base);
      document.known.set(own.replace(/#$/, ''), value);
    }
    this.#places.set(value, { document, base: own });
    if (kind === 'schema') {
      for (const name of ['$anchor', '$dynamicAnchor'])
        if (typeof value[name] === 'string') document.known.set(`${own.replace(/#.*/, '')}#${value[name]}`, value);
      const { $dynamicAnchor: anchor } = value;
      if (typeof anchor === 'string') document.dynamic.set(anchor, (document.dynamic.get(anchor) ?? 0) + 1);
    }
    for (const [name, part] of Object.entries(value)) {
      const within = kind === 'map' || SCHEMAS.has(name) ? 'schema' : MAPS.has(name) ? 'map' : 'data';
      this.#visit(document, part, own, depth + 1, kind === 'data' ? 'data' : within);
    }
  }

  /** @param {any} schema */
  #placeOf(schema) {
    return this.#places.get(schema) ?? { document: this.#whole, base: HERE };
  }

  /** GRAMMAR: it is neither an object nor a boolean. @param {any} schema @param {string} [where] @returns {number} */
  number(schema, where = 'a schema') {
    if (!isObject(schema) && typeof schema !== 'boolean') throw refused(`${where} must be an object or a boolean`);
    let number = this.#numbers.get(schema);
    if (number === undefined) {
      const said = saidBy(schema);
      number = (said === null ? undefined : this.#saying.get(said)) ?? this.schemas.push(schema) - 1;
      if (said !== null) this.#saying.set(said, number);
      this.#numbers.set(schema, number);
    }
    return number;
  }

  /** GRAMMAR: there is nothing, or elsewhere. @param {string} ref @param {any} from  the schema it is in @param {string} [keyword]  whose it is @returns {number} */
  target(ref, from, keyword = '$ref') {
    if (typeof ref !== 'string') throw refused(`${keyword} must be a text`);
    const { document, base } = this.#placeOf(from);
    const { known } = document;
    const part = document === this.#whole ? PART.exec(ref) : null;
    if (part && Number(part[1]) < this.#parts.length) return this.number(this.#parts[Number(part[1])].root);
    const address = resolve(ref, base);
    const [file, fragment = ''] = address.split('#');
    let found = known.get(address.replace(/#$/, ''));
    if (found === undefined) {
      found = known.get(file) ?? known.get(`${file}#`);
      if (found === undefined) throw refused(`${keyword} "${ref}": only what is inside the schema can be referred to`);
      if (fragment && !fragment.startsWith('/')) throw refused(`${keyword} "${ref}": there is no such anchor`);
      for (const step of decode(fragment, ref).split('/').slice(1)) {
        const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
        if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name))
          throw refused(`${keyword} "${ref}": there is nothing there`);
        found = found[name];
      }
    }
    return this.number(found, `${keyword} "${ref}"`);
  }

  /**
   * What a `$dynamicRef` or `$recursiveRef` points to: the whole schema, as of trees. What else it may point to depends on where it is
   * met, and validators differ. GRAMMAR: it is that.
   * @param {string} ref @param {any} from @returns {number}
   */
  dynamicTarget(ref, from) {
    const number = this.target(ref, from, '$dynamicRef');
    const { document } = this.#placeOf(from);
    const name = ref.slice(1);
    if (this.schemas[number] !== document.root || (name && document.dynamic.get(name) !== 1))
      throw refused(`$dynamicRef "${ref}" is supported to the whole schema only`, 'refer by $ref');
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
    throw refused(`$ref "${ref}" is no address`);
  }
}
