/**
 * Compiles a JSON Schema to rules. Each schema, and each combination of schemas that apply to the same value, becomes a
 * rule. keywords.js turns it into shapes (shapes.js); scalars.js, arrays.js and objects.js write the values of shapes.
 */
import { dfaOfTexts } from '../dfa.js';
import { grammarError } from '../failure.js';
import { Rules } from '../ir.js';
import { dfaOfRegex } from '../lookaheads.js';
import { JSON_NOTATION, valueSpellings, writeValue } from '../notations.js';
import { parseRegex } from '../regex.js';
import { characterRule, pythonCharacterRule, spelledRule, Writer } from '../text.js';
import { KEYWORDS, UNEVALUATED, unevaluated } from './keywords.js';
import { limitedPattern, patternDfa } from './patterns.js';
import { Registry } from './registry.js';
import { Admission } from './admits.js';
import { andSub, ANYTHING, cross, keyOfSub, merge, shape } from './shapes.js';
import { writeArray } from './arrays.js';
import { writeObject } from './objects.js';
import { writeScalars } from './scalars.js';
import { ASSERTIONS, isSilent } from './unchecked-keywords.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Notation, Quote } from '../notations.js' */
/** @import { Shape, Sub } from './shapes.js' */
/** @import { Context } from './keyword-factories.js' */

/** Maximum number of rules: schemas and their combinations. */
const MAX_RULES = 4000;

export class Compiler {
  rules = new Rules();
  writer = new Writer(this.rules);
  #registry;
  /**
   * Shapes by `#of`'s arguments: `holds` and the number of the schema. null while they are being computed.
   * @type {Map<string, Shape[] | null>}
   */
  #shapes = new Map();
  /** Rules by the key of their combination of schemas (`keyOfSub`). @type {Map<string, number>} */
  #rulesByKey = new Map();
  /** Rules that are not written yet. @type {[number, Sub][]} */
  #todo = [];
  /** @type {Map<string, Dfa>} */
  #patterns = new Map();
  /** @type {Map<string, { dfa: Dfa, min: number, max: number }>} */
  #limitedPatterns = new Map();
  /** Rules of one character of a string, by the quote that is escaped in it. @type {Map<string, number>} */
  #characters = new Map();
  #spelled = -1;
  #hasFormats;
  /** Automata of the strings that a kind of quote allows, by its pattern. @type {Map<string, Dfa>} */
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

  /** Returns the strings that contain a match of a pattern. @param {any} pattern @returns {Dfa} */
  pattern(pattern) {
    const dfa = this.#patterns.get(pattern) ?? patternDfa(pattern);
    this.#patterns.set(pattern, dfa);
    return dfa;
  }

  /** Like `pattern`, with limits of length as numbers where the pattern requires them. @param {any} pattern */
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

  /**
   * Whether shapes may exclude values that satisfy their schema, because of `unevaluated…` keywords, formats or a reduced
   * `oneOf`.
   */
  get mayExcludeValues() {
    return this.#context.unevaluated || this.#context.excludesValues || this.#hasFormats;
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
    excludesValues: false,
    containsEvaluates: true,
  };

  /** Returns a schema as a combination of one. @param {any} schema @returns {Sub} */
  sub(schema) {
    const number = this.#registry.number(schema);
    return schema === true ? { pos: [], neg: [] } : { pos: [number], neg: [] };
  }

  /**
   * Returns the shapes of the values that satisfy a schema, or of those that do not.
   * @param {any} schema @param {boolean} holds  whether the values satisfy it @returns {Shape[]}
   */
  #of(schema, holds) {
    if (typeof schema === 'boolean') return schema === holds ? [shape()] : [];
    const key = `${holds}${this.#registry.number(schema)}`;
    const computed = this.#shapes.get(key);
    if (computed === null)
      throw grammarError(
        'a $ref refers to itself without a property or item in between',
        'a schema may contain itself only inside properties or items',
      );
    if (computed) return computed;
    this.#shapes.set(key, null);
    const all = holds ? this.#holding(schema) : this.#failing(schema);
    this.#shapes.set(key, all);
    return all;
  }

  /**
   * Returns the keywords of a schema that constrain values. Throws GRAMMAR for unsupported ones.
   * @param {any} schema
   */
  #keywordsOf(schema) {
    const found = [];
    for (const [name, value] of Object.entries(schema)) {
      const keyword = KEYWORDS.get(name);
      if (ASSERTIONS.has(name)) throw grammarError(`the keyword "${name}" is not supported`);
      if (!keyword && !isSilent(name) && !UNEVALUATED.has(name))
        this.warnings.add(`"${name}" is not a keyword of JSON Schema: it was ignored`);
      if (keyword && value !== undefined) found.push({ name, keyword, value });
    }
    return found;
  }

  /** @param {any} schema @returns {Shape[]} */
  #holding(schema) {
    let all = [ANYTHING];
    for (const { name, keyword, value } of this.#keywordsOf(schema))
      all = cross(
        all,
        keyword.yes(value, this.#context, schema),
        `${name}${all.length > 1 ? ' with other keywords' : ''}`,
      );
    for (const [name, apply] of UNEVALUATED)
      if (schema[name] !== undefined)
        all = all.flatMap((s) => merge(ANYTHING, apply(s, schema[name], this.#context)) ?? []);
    return all;
  }

  /** @param {any} schema @returns {Shape[]} */
  #failing(schema) {
    const all = this.#keywordsOf(schema).flatMap(({ keyword, value }) => keyword.no(value, this.#context, schema));
    const name = [...UNEVALUATED.keys()].find((key) => schema[key] !== undefined && schema[key] !== true);
    // Values that fail only because of these keywords are omitted.
    if (name && !all.length) throw grammarError(`"not" with "${name}" alone is not supported`);
    return unevaluated(all);
  }

  /** Returns the shapes of the values that satisfy a combination of schemas. @param {Sub} sub @returns {Shape[]} */
  shapesOf({ pos, neg }) {
    const each = (/** @type {number[]} */ list, /** @type {boolean} */ holds) =>
      list.map((n) => this.#of(this.#registry.schemas[n], holds));
    return [...each(pos, true), ...each(neg, false)].reduce(
      (all, shapes) => cross(all, shapes, 'the schemas of a property or an item'),
      [ANYTHING],
    );
  }

  /**
   * Whether a combination consists only of `true` and negated `false` schemas, so that every value satisfies it.
   * @param {Sub} sub
   */
  isAnything({ pos, neg }) {
    const { schemas } = this.#registry;
    return pos.every((n) => schemas[n] === true) && neg.every((n) => schemas[n] === false);
  }

  /**
   * Whether a value may satisfy a combination. Contradictions inside properties and items are not detected.
   * @param {Sub} sub
   */
  hasShape(sub) {
    return this.shapesOf(sub).length > 0;
  }

  /** Returns the shapes of a schema by its number. @param {number} number */
  shapesOfNumber(number) {
    return this.#of(this.#registry.schemas[number], true);
  }

  /**
   * Returns the rule for a combination. Throws GRAMMAR if there are too many combinations.
   * @param {Sub} sub @returns {number}
   */
  rule(sub) {
    const key = keyOfSub(sub);
    let rule = this.#rulesByKey.get(key);
    if (rule === undefined) {
      if (this.#rulesByKey.size === MAX_RULES)
        throw grammarError(`the schema has more than ${MAX_RULES} combinations of schemas`);
      rule = this.rules.rule('a value');
      this.#rulesByKey.set(key, rule);
      this.#todo.push([rule, sub]);
    }
    return rule;
  }

  /** Returns the rule of one character of a string. @param {Quote} quote  of a kind with escapes */
  character({ escaped }) {
    const quote = escaped ?? '"';
    const rule =
      this.#characters.get(quote) ??
      (this.notation === JSON_NOTATION ? characterRule(this.rules) : pythonCharacterRule(this.rules, quote));
    this.#characters.set(quote, rule);
    return rule;
  }

  /** Returns the strings that a kind of quote allows, or null if it allows all. @param {Quote} quote */
  allowedIn({ pattern }) {
    if (pattern === null) return null;
    const dfa = this.#allowed.get(pattern) ?? dfaOfRegex(parseRegex(pattern));
    this.#allowed.set(pattern, dfa);
    return dfa;
  }

  /**
   * Throws GRAMMAR if the notation is not JSON. C checks some conditions itself, and only for JSON.
   * @param {string} subject  of the message
   */
  requireJson(subject) {
    if (this.notation !== JSON_NOTATION)
      throw grammarError(
        `${subject} is not supported in the calls of this model`,
        'omit it, and check the arguments of calls afterwards',
      );
  }

  /**
   * Writes a choice of values. Throws GRAMMAR if the notation cannot express one.
   * @param {any[]} values @param {number} from @param {number} to
   */
  writeListed(values, from, to) {
    const texts = values.flatMap((value) => valueSpellings(value, this.notation));
    this.writer.dfa(from, dfaOfTexts(texts), to, null);
  }

  /** Returns the rule of one character of a JSON string in its canonical spelling (`spelledRule`). */
  spelled() {
    if (this.#spelled < 0) this.#spelled = spelledRule(this.rules);
    return this.#spelled;
  }

  /** Writes the rule of the root schema and all rules that it calls, and returns its number. */
  writeValue() {
    const root = this.rule(this.root);
    this.#writeRules();
    return root;
  }

  /** Like `writeValue`, for an object with the arguments of a call. */
  writeArguments() {
    const root = this.rules.rule('arguments');
    const to = this.rules.state(true);
    for (const s of this.shapesOf(this.root))
      if (s.values) this.#writeListedArguments(s, this.rules.start(root), to);
      else if (s.types.has('object')) writeObject(this, s, this.notation.root, this.rules.start(root), to);
    this.#writeRules();
    return root;
  }

  /**
   * Writes those listed values (`enum`, `const`) of a shape that are objects.
   * @param {Shape} s  with `values`
   * @param {number} from @param {number} to
   */
  #writeListedArguments(s, from, to) {
    const values = [...(s.values?.values() ?? [])].filter(
      (value) => typeof value === 'object' && value && !Array.isArray(value) && this.admission.admits(s, value),
    );
    const texts = values.map((value) => writeValue(value, this.notation, this.notation.root));
    if (texts.length) this.writer.dfa(from, dfaOfTexts(texts), to, null);
  }

  /** Writes the rules that are not written yet, and the rules that they call. */
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

  /** Returns the combination of several combinations. @param {Sub[]} subs */
  all = (...subs) => subs.reduce(andSub);
}

/**
 * Compiles a schema. Throws GRAMMAR if a keyword is invalid or not supported, or if the schema is unsatisfiable or too
 * large.
 * @param {any} schema
 * @param {any[]} [parts]  schemas that resolve their own references
 * @returns {{ bytes: Uint8Array<ArrayBuffer>, warnings: string[] }}
 */
export function compileSchema(schema, parts = []) {
  if (!Array.isArray(parts)) throw grammarError('parts must be a list of schemas');
  const compiler = new Compiler(schema, parts);
  const bytes = compiler.write();
  return { bytes, warnings: [...compiler.warnings] };
}
