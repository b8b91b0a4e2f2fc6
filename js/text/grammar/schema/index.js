/** JSON Schema to rules: of each schema, and each combination of schemas that meets in one place, a rule. */
import { refused } from '../failure.js';
import { Rules } from '../ir.js';
import { characterRule, spelledRule, Writer } from '../text.js';
import { ASSERTIONS, isSilent, KEYWORDS, patternDfa, UNEVALUATED, unevaluated } from './keywords.js';
import { Registry } from './registry.js';
import { Admission } from './admits.js';
import { andSub, ANYTHING, cross, keyOfSub, merge, shape } from './shapes.js';
import { writeArray } from './arrays.js';
import { writeObject } from './objects.js';
import { writeScalars } from './scalars.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Shape, Sub } from './shapes.js' */
/** @import { Context } from './keywords.js' */

/** Combinations of schemas at most. */
const MAX_RULES = 4000;

export class Compiler {
  rules = new Rules();
  writer = new Writer(this.rules);
  #registry;
  /** @type {Map<string, Shape[] | null>} null: being made */
  #shapes = new Map();
  /** @type {Map<string, number>} */
  #made = new Map();
  /** Rules that are not written yet. @type {[number, Sub][]} */
  #todo = [];
  /** @type {Map<string, Dfa>} */
  #patterns = new Map();
  #character = -1;
  #spelled = -1;

  /** What of the schema was passed over. @type {Set<string>} */
  warnings = new Set();

  /** @param {any} schema @param {any[]} parts */
  constructor(schema, parts) {
    this.#registry = new Registry(schema, parts);
    const text = JSON.stringify([schema, parts]);
    this.#context.unevaluated = [...UNEVALUATED.keys()].some((name) => text.includes(`"${name}"`));
    this.#context.containsEvaluates = !text.includes('2019-09');
    this.root = this.sub(schema);
    this.admission = new Admission(this);
  }

  /** Texts of a pattern. @param {any} pattern @returns {Dfa} */
  pattern(pattern) {
    const known = this.#patterns.get(pattern) ?? patternDfa(pattern);
    this.#patterns.set(pattern, known);
    return known;
  }

  /** Whether `yes` of a schema may be less than holds. */
  get unevaluated() {
    return this.#context.unevaluated;
  }

  /** @type {Context} */
  #context = {
    yes: (schema) => this.#of(schema, true),
    no: (schema) => this.#of(schema, false),
    sub: (schema) => this.sub(schema),
    notSub: (schema) => ({ pos: [], neg: [this.#registry.number(schema)] }),
    target: (ref, from) => this.#registry.schemas[this.#registry.target(ref, from)],
    dynamicTarget: (ref, from) => this.#registry.schemas[this.#registry.dynamicTarget(ref, from)],
    pattern: (pattern) => this.pattern(pattern),
    warn: (warning) => this.warnings.add(warning),
    unevaluated: false,
    containsEvaluates: true,
  };

  /** @param {any} schema @returns {Sub} */
  sub(schema) {
    const number = this.#registry.number(schema);
    return schema === true ? { pos: [], neg: [] } : { pos: [number], neg: [] };
  }

  /** Shapes of what a schema holds of, or doesn't. @param {any} schema @param {boolean} holds @returns {Shape[]} */
  #of(schema, holds) {
    if (typeof schema === 'boolean') return schema === holds ? [shape()] : [];
    const key = `${holds}${this.#registry.number(schema)}`;
    const known = this.#shapes.get(key);
    if (known === null)
      throw refused(
        'a $ref leads back to itself before anything was said',
        'a schema may contain itself only inside properties or items',
      );
    if (known) return known;
    this.#shapes.set(key, null);
    const all = holds ? this.#holding(schema) : this.#failing(schema);
    this.#shapes.set(key, all);
    return all;
  }

  /** Keywords of a schema that say something of values. GRAMMAR: there are others. @param {any} schema */
  #said(schema) {
    const said = [];
    for (const [name, value] of Object.entries(schema)) {
      const keyword = KEYWORDS.get(name);
      if (ASSERTIONS.has(name)) throw refused(`the keyword "${name}" is not supported`);
      if (!keyword && !isSilent(name) && !UNEVALUATED.has(name))
        this.warnings.add(`"${name}" is not a keyword of JSON Schema: it was passed over`);
      if (keyword && value !== undefined) said.push({ keyword, value });
    }
    return said;
  }

  /** @param {any} schema @returns {Shape[]} */
  #holding(schema) {
    let all = [ANYTHING];
    for (const { keyword, value } of this.#said(schema)) all = cross(all, keyword.yes(value, this.#context, schema));
    for (const [name, rest] of UNEVALUATED)
      if (schema[name] !== undefined)
        all = all.flatMap((s) => merge(ANYTHING, rest(s, schema[name], this.#context)) ?? []);
    return all;
  }

  /** @param {any} schema @returns {Shape[]} */
  #failing(schema) {
    const all = this.#said(schema).flatMap(({ keyword, value }) => keyword.no(value, this.#context, schema));
    const name = [...UNEVALUATED.keys()].find((one) => schema[one] !== undefined && schema[one] !== true);
    // What fails by these alone is left out.
    if (name && !all.length) throw refused(`not with ${name} alone is not supported`);
    return unevaluated(all);
  }

  /** @param {Sub} sub @returns {Shape[]} */
  shapesOf({ pos, neg }) {
    const each = (/** @type {number[]} */ list, /** @type {boolean} */ holds) =>
      list.map((n) => this.#of(this.#registry.schemas[n], holds));
    return [...each(pos, true), ...each(neg, false)].reduce(cross, [ANYTHING]);
  }

  /** Whether there may be such a value, as far as is seen at once. @param {Sub} sub */
  hasShape(sub) {
    return this.shapesOf(sub).length > 0;
  }

  /** Shapes of one schema by its number. @param {number} number */
  shapesOfNumber(number) {
    return this.#of(this.#registry.schemas[number], true);
  }

  /** The rule of a value. GRAMMAR: there are too many combinations. @param {Sub} sub @returns {number} */
  rule(sub) {
    const key = keyOfSub(sub);
    let rule = this.#made.get(key);
    if (rule === undefined) {
      if (this.#made.size === MAX_RULES) throw refused('the schema has too many combinations');
      rule = this.rules.rule('a value');
      this.#made.set(key, rule);
      this.#todo.push([rule, sub]);
    }
    return rule;
  }

  /** The rule of one character of a string. */
  character() {
    if (this.#character < 0) this.#character = characterRule(this.rules);
    return this.#character;
  }

  /** The same, in one spelling. */
  spelled() {
    if (this.#spelled < 0) this.#spelled = spelledRule(this.rules);
    return this.#spelled;
  }

  /** The rule of a value, with all that it needs, to the compiler's rules: one after the other, as rules ask for others. */
  writeValue() {
    const root = this.rule(this.root);
    for (let next = this.#todo.pop(); next; next = this.#todo.pop()) {
      const [rule, sub] = next;
      const [from, to] = [this.rules.start(rule), this.rules.state(true)];
      for (const s of this.shapesOf(sub)) {
        writeScalars(this, s, from, to);
        if (s.values) continue;
        if (s.types.has('array')) writeArray(this, s, from, to);
        if (s.types.has('object')) writeObject(this, s, from, to);
      }
    }
    return root;
  }

  write() {
    return this.rules.encode(this.writeValue());
  }

  /** A value that keeps to all of these. @param {Sub[]} subs */
  all = (...subs) => subs.reduce(andSub);
}

/**
 * GRAMMAR: a keyword isn't supported, or wrong; nothing satisfies it; it is too large.
 * @param {any} schema @param {any[]} [parts]  schemas whose references are their own @returns {{ bytes: Uint8Array<ArrayBuffer>, warnings: string[] }}
 */
export function compileSchema(schema, parts = []) {
  if (!Array.isArray(parts)) throw refused('parts must be a list of schemas');
  const compiler = new Compiler(schema, parts);
  const bytes = compiler.write();
  return { bytes, warnings: [...compiler.warnings] };
}
