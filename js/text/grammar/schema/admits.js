/**
 * Checks whether a value has a shape. Values of `enum` and `const` are written only if they satisfy all other keywords.
 */
import { matches } from '../dfa.js';
import { numberAdmits } from './numbers.js';
import { canonical, TRUE, typeOf } from './shapes.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Compiler } from './index.js' */
/** @import { ArrayShape, ObjectShape, Shape, Sub, Witness } from './shapes.js' */

export class Admission {
  #compiler;

  /** @param {Compiler} compiler */
  constructor(compiler) {
    this.#compiler = compiler;
  }

  /** @param {string} pattern @returns {Dfa} */
  pattern(pattern) {
    return this.#compiler.pattern(pattern);
  }

  /** @param {Sub} sub @param {any} value @returns {boolean} */
  satisfies({ pos, neg }, value) {
    const any = (/** @type {Shape[]} */ shapes) => shapes.some((s) => this.admits(s, value));
    const holds = (/** @type {number} */ n) => any(this.#compiler.shapesOfNumber(n));
    const fails = (/** @type {number} */ n) => {
      if (holds(n)) return false;
      return !this.#compiler.mayExcludeValues || any(this.#compiler.shapesOf({ pos: [], neg: [n] }));
    };
    return pos.every(holds) && neg.every(fails);
  }

  /** @param {Shape} s @param {any} value @returns {boolean} */
  admits(s, value) {
    const type = typeOf(value);
    const text = canonical(value);
    if (!s.types.has(type) || s.excluded.has(text) || (s.values && !s.values.has(text))) return false;
    if (type === 'number') return numberAdmits(s.number)(value);
    if (type === 'string') {
      const length = [...value].length;
      return length >= s.string.min && length <= s.string.max && (!s.string.dfa || matches(s.string.dfa, value));
    }
    return type === 'array' ? this.#array(s.array, value) : type !== 'object' || this.#object(s.object, value);
  }

  /** @param {ArrayShape} a @param {any[]} value */
  #array(a, value) {
    const repeats = new Set(value.map(canonical)).size < value.length;
    return (
      value.length >= a.min &&
      value.length <= a.max &&
      !(a.unique && repeats) &&
      (!a.repeats || repeats) &&
      value.every((item, i) => this.satisfies(a.prefix[i] ?? a.rest, item)) &&
      a.contains.every(({ sub, from, min, max }) => {
        const n = value.slice(from).filter((item) => this.satisfies(sub, item)).length;
        return n >= min && n <= max;
      })
    );
  }

  /**
   * Returns the condition for the value of a property.
   * @param {ObjectShape} o @param {string} name @returns {Sub}
   */
  property(o, name) {
    const matchingSchemas = [...o.patterns]
      .filter(([pattern]) => matches(this.pattern(pattern), name))
      .map(([, sub]) => sub);
    const rest = o.additional
      .filter(({ names, patterns }) => !names.includes(name) && !patterns.some((p) => matches(this.pattern(p), name)))
      .map(({ sub }) => sub);
    return this.#compiler.all(o.properties.get(name) ?? TRUE, ...matchingSchemas, ...rest);
  }

  /** Whether an object may have a property of this name. @param {ObjectShape} o @param {string} name */
  mayHave(o, name) {
    return !o.forbidden.has(name) && o.names.every((sub) => this.satisfies(sub, name));
  }

  /** @param {ObjectShape} o @param {Record<string, any>} value */
  #object(o, value) {
    const names = Object.keys(value);
    return (
      names.length >= o.min &&
      names.length <= o.max &&
      [...o.required].every((name) => Object.hasOwn(value, name)) &&
      names.every((name) => this.mayHave(o, name) && this.satisfies(this.property(o, name), value[name])) &&
      o.witnesses.every((witness) =>
        names.some((name) => this.canBeWitness(witness, name) && this.satisfies(witness.sub, value[name])),
      )
    );
  }

  /** Whether a property of this name can be the witness. @param {Witness} witness @param {string} name */
  canBeWitness({ names, patterns, pattern }, name) {
    return (
      !names.includes(name) &&
      !patterns.some((p) => matches(this.pattern(p), name)) &&
      (pattern === null || matches(this.pattern(pattern), name))
    );
  }
}
