/** The parts of a JSON Schema by number, and what `$ref` points to. */
import { refused } from '../failure.js';

/** Where a schema without `$id` lies. */
const HERE = 'schema://here/';
/** Values, not schemas. */
const DATA = new Set(['enum', 'const', 'default', 'examples']);
const DEEPEST = 500;

/** @param {unknown} value @returns {value is Record<string, any>} */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** What says nothing of values. */
const NOTES = new Set(['title', 'description', 'default', 'examples']);
const isWord = (/** @type {unknown} */ value) =>
  value === null || ['string', 'number', 'boolean'].includes(typeof value);

/** All that a schema says, where it contains no other and refers to none; null. @param {any} schema */
function saidBy(schema) {
  if (!isObject(schema)) return null;
  const said = Object.entries(schema).filter(([name, value]) => value !== undefined && !NOTES.has(name));
  const alone = said.every(([name, value]) => name[0] !== '$' && [value].flat().every(isWord));
  return alone ? JSON.stringify(said) : null;
}

export class Registry {
  /** Schemas by number. @type {any[]} */
  schemas = [];
  /** @type {Map<any, number>} */
  #numbers = new Map();
  /** Numbers of schemas by what they say: those that say the same are one. @type {Map<string, number>} */
  #saying = new Map();
  /** Addresses that the references in a schema are relative to. @type {Map<any, string>} */
  #bases = new Map();
  /** Schemas by their address. @type {Map<string, any>} */
  #known = new Map();
  /** How many schemas have a dynamic anchor, by its name. @type {Map<string, number>} */
  #dynamic = new Map();

  /** Draft 4, where `$id` is `id`. */
  #old;

  /** @param {any} root */
  constructor(root) {
    this.#old = isObject(root) && /draft-0[34]/.test(String(root.$schema));
    this.#known.set(HERE, root);
    this.#visit(root, HERE, 0, true);
  }

  /** @param {any} value @param {string} base @param {number} depth @param {boolean} schema  not a map of schemas */
  #visit(value, base, depth, schema) {
    if (depth > DEEPEST) throw refused('the schema is nested too deep');
    if (Array.isArray(value)) return value.forEach((one) => this.#visit(one, base, depth + 1, true));
    if (!isObject(value) || this.#bases.has(value)) return;
    let own = base;
    const id = value.$id ?? (this.#old ? value.id : undefined);
    if (schema && typeof id === 'string') {
      own = resolve(id, base);
      this.#known.set(own.replace(/#$/, ''), value);
    }
    this.#bases.set(value, own);
    for (const name of ['$anchor', '$dynamicAnchor'])
      if (schema && typeof value[name] === 'string') this.#known.set(`${own.replace(/#.*/, '')}#${value[name]}`, value);
    if (schema && typeof value.$dynamicAnchor === 'string')
      this.#dynamic.set(value.$dynamicAnchor, (this.#dynamic.get(value.$dynamicAnchor) ?? 0) + 1);
    const maps = ['properties', 'patternProperties', 'definitions', '$defs', 'dependencies', 'dependentSchemas'];
    for (const [name, part] of Object.entries(value))
      if (!schema || !DATA.has(name)) this.#visit(part, own, depth + 1, !schema || !maps.includes(name));
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
    const address = resolve(ref, this.#bases.get(from) ?? HERE);
    const [file, fragment = ''] = address.split('#');
    let found = this.#known.get(address.replace(/#$/, ''));
    if (found === undefined) {
      found = this.#known.get(file) ?? this.#known.get(`${file}#`);
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
    const name = ref.slice(1);
    if (this.schemas[number] !== this.#known.get(HERE) || (name && this.#dynamic.get(name) !== 1))
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
