/**
 * Compiles a JSON Schema to rules. Each schema, and each combination of schemas that apply to the same value, becomes a rule: keywords.js
 * turns it into shapes (shapes.js), and scalars.js, arrays.js and objects.js write the values of these.
 */
import { ofTexts } from '../dfa.js';
import { refused } from '../failure.js';
import { Rules } from '../ir.js';
import { ofRegex } from '../lookaheads.js';
import { JSON_NOTATION, valueTexts, writeValue } from '../notations.js';
import { parseRegex } from '../regex.js';
import { characterRule, pythonCharacterRule, spelledRule, Writer } from '../text.js';
import { ASSERTIONS, isSilent, KEYWORDS, limitedPattern, patternDfa, UNEVALUATED, unevaluated } from './keywords.js';
import { Registry } from './registry.js';
import { Admission } from './admits.js';
import { andSub, ANYTHING, cross, keyOfSub, merge, shape } from './shapes.js';
import { writeArray } from './arrays.js';
import { writeObject } from './objects.js';
import { writeScalars } from './scalars.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Notation, Quote } from '../notations.js' */
/** @import { Shape, Sub } from './shapes.js' */
/** @import { Context } from './keywords.js' */

/** Maximum number of rules: schemas and their combinations. */
const MAX_RULES = 4000;

export class Compiler {
  rules = new Rules();
  writer = new Writer(this.rules);
  #registry;
  /** Shapes by the schema's number and whether it holds; null: they are being computed. @type {Map<string, Shape[] | null>} */
  #shapes = new Map();
  /** Rules by the key of their combination of schemas. @type {Map<string, number>} */
  #rulesByKey = new Map();
  /** Rules that are not written yet. @type {[number, Sub][]} */
  #todo = [];
  /** @type {Map<string, Dfa>} */
  #patterns = new Map();
  /** @type {Map<string, { dfa: Dfa, min: number, max: number }>} */
  #limitedPatterns = new Map();
  /** Rules of one character, by the quote that is escaped. @type {Map<string, number>} */
  #characters = new Map();
  #spelled = -1;
  #hasFormats;
  /** Texts that quotes allow, by their patterns. @type {Map<string, Dfa>} */
  #allowed = new Map();

  /** Warnings about parts of the schema that are ignored. @type {Set<string>} */
  warnings = new Set();

  /** @param {any} schema @param {any[]} parts @param {Notation} [notation] */
  constructor(schema, parts, notation = JSON_NOTATION) {
    this.notation = notation;
    this.#registry = new Registry(schema, parts);
    const text = JSON.stringify([schema, parts]);
    this.#context.unevaluated = [...UNEVALUATED.keys()].some((name) => text.includes(`"${name}"`));
    this.#hasFormats = text.includes('"format"');
    this.#context.containsEvaluates = !text.includes('2019-09');
    this.root = this.sub(schema);
    this.admission = new Admission(this);
  }

  /** The texts that contain a match of a pattern. @param {any} pattern @returns {Dfa} */
  pattern(pattern) {
    const dfa = this.#patterns.get(pattern) ?? patternDfa(pattern);
    this.#patterns.set(pattern, dfa);
    return dfa;
  }

  /** The same, with the lengths that the texts have apart. @param {any} pattern */
  limitedPattern(pattern) {
    const texts = this.#limitedPatterns.get(pattern) ??
      (typeof pattern === 'string' ? limitedPattern(pattern) : null) ?? {
        dfa: this.pattern(pattern),
        min: 0,
        max: Infinity,
      };
    this.#limitedPatterns.set(pattern, texts);
    return texts;
  }

  /** Whether the shapes of a schema may lack values that satisfy it: beside `unevaluated…` and formats. */
  get lacksValues() {
    return this.#context.unevaluated || this.#hasFormats;
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
    limitedPattern: (pattern) => this.limitedPattern(pattern),
    warn: (warning) => this.warnings.add(warning),
    unevaluated: false,
    containsEvaluates: true,
  };

  /** @param {any} schema @returns {Sub} */
  sub(schema) {
    const number = this.#registry.number(schema);
    return schema === true ? { pos: [], neg: [] } : { pos: [number], neg: [] };
  }

  /** Shapes of the values that satisfy a schema, or that don't. @param {any} schema @param {boolean} holds @returns {Shape[]} */
  #of(schema, holds) {
    if (typeof schema === 'boolean') return schema === holds ? [shape()] : [];
    const key = `${holds}${this.#registry.number(schema)}`;
    const computed = this.#shapes.get(key);
    if (computed === null)
      throw refused(
        'a $ref refers to itself without a property or item in between',
        'a schema may contain itself only inside properties or items',
      );
    if (computed) return computed;
    this.#shapes.set(key, null);
    const all = holds ? this.#holding(schema) : this.#failing(schema);
    this.#shapes.set(key, all);
    return all;
  }

  /** The keywords of a schema that constrain values. GRAMMAR: one is not supported. @param {any} schema */
  #keywordsOf(schema) {
    const found = [];
    for (const [name, value] of Object.entries(schema)) {
      const keyword = KEYWORDS.get(name);
      if (ASSERTIONS.has(name)) throw refused(`the keyword "${name}" is not supported`);
      if (!keyword && !isSilent(name) && !UNEVALUATED.has(name))
        this.warnings.add(`"${name}" is not a keyword of JSON Schema: it was ignored`);
      if (keyword && value !== undefined) found.push({ keyword, value });
    }
    return found;
  }

  /** @param {any} schema @returns {Shape[]} */
  #holding(schema) {
    let all = [ANYTHING];
    for (const { keyword, value } of this.#keywordsOf(schema))
      all = cross(all, keyword.yes(value, this.#context, schema));
    for (const [name, apply] of UNEVALUATED)
      if (schema[name] !== undefined)
        all = all.flatMap((s) => merge(ANYTHING, apply(s, schema[name], this.#context)) ?? []);
    return all;
  }

  /** @param {any} schema @returns {Shape[]} */
  #failing(schema) {
    const all = this.#keywordsOf(schema).flatMap(({ keyword, value }) => keyword.no(value, this.#context, schema));
    const name = [...UNEVALUATED.keys()].find((key) => schema[key] !== undefined && schema[key] !== true);
    // Values that fail by these keywords alone are left out.
    if (name && !all.length) throw refused(`"not" with "${name}" alone is not supported`);
    return unevaluated(all);
  }

  /** Shapes of the values that satisfy a combination of schemas. @param {Sub} sub @returns {Shape[]} */
  shapesOf({ pos, neg }) {
    const each = (/** @type {number[]} */ list, /** @type {boolean} */ holds) =>
      list.map((n) => this.#of(this.#registry.schemas[n], holds));
    return [...each(pos, true), ...each(neg, false)].reduce(cross, [ANYTHING]);
  }

  /** Whether every value satisfies a combination, as is seen at once. @param {Sub} sub */
  isAnything({ pos, neg }) {
    const { schemas } = this.#registry;
    return pos.every((n) => schemas[n] === true) && neg.every((n) => schemas[n] === false);
  }

  /** Whether a value may satisfy a combination; contradictions deeper in it are not found. @param {Sub} sub */
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
    let rule = this.#rulesByKey.get(key);
    if (rule === undefined) {
      if (this.#rulesByKey.size === MAX_RULES)
        throw refused(`the schema has more than ${MAX_RULES} combinations of schemas`);
      rule = this.rules.rule('a value');
      this.#rulesByKey.set(key, rule);
      this.#todo.push([rule, sub]);
    }
    return rule;
  }

  /** The rule of one character of a string. @param {Quote} quote  with escapes */
  character({ escaped }) {
    const quote = escaped ?? '"';
    const rule =
      this.#characters.get(quote) ??
      (this.notation === JSON_NOTATION ? characterRule(this.rules) : pythonCharacterRule(this.rules, quote));
    this.#characters.set(quote, rule);
    return rule;
  }

  /** The texts that a quote allows; null: all. @param {Quote} quote */
  allowedIn({ pattern }) {
    if (pattern === null) return null;
    const dfa = this.#allowed.get(pattern) ?? ofRegex(parseRegex(pattern));
    this.#allowed.set(pattern, dfa);
    return dfa;
  }

  /** GRAMMAR: texts are not JSON, for which C knows what can't be written as an automaton. @param {string} what */
  requireJson(what) {
    if (this.notation !== JSON_NOTATION)
      throw refused(
        `${what} is not supported in the calls of this model`,
        'leave it out, and check the arguments of calls afterwards',
      );
  }

  /** One of some values. GRAMMAR. @param {any[]} values @param {number} from @param {number} to */
  writeListed(values, from, to) {
    const texts = values.flatMap((value) => valueTexts(value, this.notation));
    this.writer.dfa(from, ofTexts(texts), to, null);
  }

  /** The rule of one character of a string, in its shortest spelling only. */
  spelled() {
    if (this.#spelled < 0) this.#spelled = spelledRule(this.rules);
    return this.#spelled;
  }

  /** Writes the rule of the whole value, and all rules that it needs, and returns its number. */
  writeValue() {
    const root = this.rule(this.root);
    this.#writeRules();
    return root;
  }

  /** Like `writeValue`, for an object that is the arguments of a call. */
  writeArguments() {
    const root = this.rules.rule('arguments');
    const to = this.rules.state(true);
    for (const s of this.shapesOf(this.root))
      if (s.values) this.#writeListedArguments(s, this.rules.start(root), to);
      else if (s.types.has('object')) writeObject(this, s, this.notation.root, this.rules.start(root), to);
    this.#writeRules();
    return root;
  }

  /** @param {Shape} s  with values @param {number} from @param {number} to */
  #writeListedArguments(s, from, to) {
    const values = [...(s.values?.values() ?? [])].filter(
      (value) => typeof value === 'object' && value && !Array.isArray(value) && this.admission.admits(s, value),
    );
    const texts = values.map((value) => writeValue(value, this.notation, this.notation.root));
    if (texts.length) this.writer.dfa(from, ofTexts(texts), to, null);
  }

  /** Writes the rules that are not written yet, and those that they need. */
  #writeRules() {
    for (let next = this.#todo.pop(); next; next = this.#todo.pop()) {
      const [rule, sub] = next;
      const [from, to] = [this.rules.start(rule), this.rules.state(true)];
      for (const s of this.shapesOf(sub)) {
        writeScalars(this, s, from, to);
        if (s.values) continue;
        if (s.types.has('array')) writeArray(this, s, from, to);
        if (s.types.has('object')) writeObject(this, s, this.notation.object, from, to);
      }
    }
  }

  write() {
    return this.rules.encode(this.writeValue());
  }

  /** The combination of all of these. @param {Sub[]} subs */
  all = (...subs) => subs.reduce(andSub);
}

/**
 * GRAMMAR: a keyword isn't supported, or wrong; no value satisfies the schema; it is too large.
 * @param {any} schema @param {any[]} [parts]  schemas with references of their own @returns {{ bytes: Uint8Array<ArrayBuffer>, warnings: string[] }}
 */
export function compileSchema(schema, parts = []) {
  if (!Array.isArray(parts)) throw refused('parts must be a list of schemas');
  const compiler = new Compiler(schema, parts);
  const bytes = compiler.write();
  return { bytes, warnings: [...compiler.warnings] };
}
