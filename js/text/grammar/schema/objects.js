/**
 * Writes the rules of a shape's objects: first the properties that the schema names, in its order, then unnamed
 * properties, if the schema describes any.
 */
import { ANY, intersection, union, isEmpty, dfaOfLength, dfaOfTexts, textsOf, difference } from '../dfa.js';
import { grammarError, tooLargeError } from '../failure.js';
import { MARK } from '../ir.js';
import { nameSpellings, sortNames } from '../notations.js';
import { SPELLINGS } from '../text.js';
import { stringDfa } from './scalars.js';
import { andSub, TRUE } from './shapes.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Members } from '../notations.js' */
/** @import { Compiler } from './index.js' */
/** @import { ObjectShape, Shape, Sub, Witness } from './shapes.js' */

/**
 * Properties that the schema doesn't name: their names (null: any), and the schemas of their values.
 * @typedef {{ names: Dfa | null, sub: Sub }} Others
 */

/** Maximum number of sets of names that match the same patterns. */
const MAX_KINDS = 32;
/** Maximum number of allowed names up to which each becomes a named property. */
const MAX_NAMES = 64;
/** Largest supported minProperties of objects whose unnamed properties must have different names. */
const MAX_REQUIRED = 16;
/** Maximum number of properties whose names C compares. */
const MAX_DIFFERENT = 1000;

/**
 * Returns the names that the schemas of `propertyNames` allow.
 * @param {Compiler} compiler @param {Sub[]} subs @returns {Dfa | null}  null: all names
 */
function namesDfa(compiler, subs) {
  /** @type {Dfa | null} */
  let all = null;
  for (const sub of subs) {
    /** @type {Dfa} */
    let names = dfaOfTexts([]);
    for (const s of compiler.shapesOf(sub).filter(({ types }) => types.has('string'))) {
      const values =
        s.values && [...s.values.values()].filter((v) => typeof v === 'string' && compiler.admission.admits(s, v));
      if (s.string.min <= s.string.max)
        names = union(
          names,
          values
            ? dfaOfTexts(values)
            : (stringDfa(s) ??
                (s.string.max < Infinity || s.string.min ? dfaOfLength(s.string.min, s.string.max) : ANY)),
        );
    }
    all = all ? intersection(all, names) : names;
  }
  return all;
}

/**
 * Returns the properties that the schema doesn't name, in groups whose names match the same patterns.
 * @param {Compiler} compiler @param {ObjectShape} o
 * @param {string[]} declared  names of the other properties @returns {Others[]}
 */
function unnamedProperties(compiler, o, declared) {
  const taken = [...new Set([...declared, ...o.forbidden])];
  const allowed = namesDfa(compiler, o.names);
  /**
   * Groups of names with the patterns that they match; no group is empty.
   * @type {{ names: Dfa | null, matches: string[] }[]}
   */
  let kinds = [{ names: taken.length ? difference(allowed ?? ANY, dfaOfTexts(taken)) : allowed, matches: [] }];
  for (const pattern of o.patterns.keys()) {
    const texts = compiler.admission.pattern(pattern);
    kinds = kinds.flatMap(({ names, matches }) => [
      { names: difference(names ?? ANY, texts), matches },
      { names: intersection(names ?? ANY, texts), matches: [...matches, pattern] },
    ]);
    kinds = kinds.filter(({ names }) => !names || !isEmpty(names));
    if (kinds.length > MAX_KINDS)
      throw grammarError(
        `patternProperties has patterns that distinguish more than ${MAX_KINDS} kinds of names`,
        'use fewer patterns, or patterns such that a name matches at most one',
      );
  }
  const found = [];
  for (const { names, matches } of kinds) {
    if (names && isEmpty(names)) continue;
    const additional = o.additional.filter((a) => !a.patterns.some((p) => matches.includes(p))).map(({ sub }) => sub);
    const sub = compiler.all(TRUE, ...matches.map((p) => o.patterns.get(p) ?? TRUE), ...additional);
    if (compiler.hasShape(sub)) found.push({ names, sub });
  }
  return found;
}

/**
 * How the members of an object are written. `distinct`: whether C must keep the names different; the notation is JSON
 * then.
 * @typedef {{ members: Members, distinct: boolean }} Style
 */

/**
 * Writes one unnamed property: its name and its value.
 * @param {Compiler} compiler @param {Others} other @param {Style} style @param {number} from @param {number} to
 */
function writeOther(compiler, { names, sub }, { members, distinct }, from, to) {
  const { rules, writer } = compiler;
  for (const quote of members.names) {
    const nameStart = distinct ? rules.marked(from, quote.open, MARK.open) : rules.literal(from, quote.open);
    const end = rules.state();
    const allowed = compiler.allowedIn(quote);
    const texts = names && allowed ? intersection(names, allowed) : (names ?? allowed);
    if (texts) writer.dfa(nameStart, texts, end, quote.escaped && SPELLINGS[quote.escaped]);
    else rules.call(nameStart, distinct ? compiler.spelled() : compiler.character(quote), end, 0, Infinity);
    const nameEnd = distinct ? rules.marked(end, quote.close, MARK.close) : rules.literal(end, quote.close);
    rules.call(rules.literal(nameEnd, members.colon), compiler.rule(sub), to);
  }
}

/**
 * Returns the properties that can be a witness: unnamed and declared ones.
 * @param {Compiler} compiler @param {Witness} witness @param {string[]} declared  names @param {Others[]} free
 */
function candidatesFor(compiler, witness, declared, free) {
  const unnamed = [];
  for (const { names, sub } of free) {
    let found = names ?? ANY;
    if (witness.names.length) found = difference(found, dfaOfTexts(witness.names));
    for (const pattern of witness.patterns) found = difference(found, compiler.admission.pattern(pattern));
    if (witness.pattern !== null) found = intersection(found, compiler.admission.pattern(witness.pattern));
    if (!isEmpty(found)) unnamed.push({ names: found, sub: andSub(sub, witness.sub) });
  }
  return { unnamed, declared: declared.filter((name) => compiler.admission.canBeWitness(witness, name)) };
}

/**
 * Returns the rule of one unnamed property after a comma.
 * @param {Compiler} compiler @param {Others[]} free @param {Style} style
 */
function othersRule(compiler, free, style) {
  const { rules } = compiler;
  const rule = rules.rule('a property');
  const [from, to] = [rules.literal(rules.start(rule), compiler.notation.comma), rules.state(true)];
  for (const other of free) writeOther(compiler, other, style, from, to);
  return rule;
}

/**
 * Writes the unnamed properties after `n` named ones: as many as the limits require and allow.
 * @param {Compiler} compiler @param {Others[]} free @param {number} others  rule of one after a comma
 * @param {{ n: number, min: number, max: number, style: Style }} counts @param {number} from @param {number} close
 */
function writeOthers(compiler, free, others, { n, min, max, style }, from, close) {
  const { rules } = compiler;
  if (n >= min) rules.skip(from, close);
  if (!free.length || n >= max) return;
  const missing = Math.max(0, min - n);
  const first = n ? from : rules.state();
  if (!n) for (const other of free) writeOther(compiler, other, style, from, first);
  const written = n ? 0 : 1;
  rules.call(first, others, close, Math.max(0, missing - written), max - n - written);
}

/**
 * Whether each prefix of a used name can be completed to an unused one: by more characters, or by another last
 * character.
 * @param {Dfa} names
 */
const canDiffer = (names) =>
  names.every(({ edges }) =>
    edges.every(([, , to]) => {
      if (names[to].edges.length) return true;
      return edges.reduce((n, [low, high, other]) => n + (other === to ? high - low + 1 : 0), 0) > MAX_DIFFERENT;
    }),
  );

/**
 * Whether unnamed properties must have different names: two properties with the same name count as one towards
 * minProperties. Throws GRAMMAR if that is not supported for these names, because some text could not be completed.
 * @param {ObjectShape} o @param {Others[]} free @param {Others[] | null} requiredOthers
 */
function mustDiffer({ min, required }, free, requiredOthers) {
  const names = [...free, ...(requiredOthers ?? [])];
  if (!names.length || min - required.size <= 1) return false;
  if (!names.every((one) => one.names === null || canDiffer(one.names)) || min > MAX_REQUIRED)
    throw grammarError(
      `minProperties ${min} together with unnamed properties is not supported`,
      `it is supported for names of any length, up to ${MAX_REQUIRED}; name the properties, or list their names in propertyNames`,
    );
  return true;
}

/**
 * Writes an object.
 * @param {Compiler} compiler @param {ObjectShape} o
 * @param {string[]} declared  names of the named properties
 * @param {Others[]} free  optional unnamed properties
 * @param {Others[] | null} requiredOthers  one of these is required
 * @param {Members} members @param {number} from @param {number} to
 */
function writeProperties(compiler, o, declared, free, requiredOthers, members, from, to) {
  const { rules, admission, notation } = compiler;
  const namedCount = declared.length + (requiredOthers ? 1 : 0);
  const distinct = mustDiffer(o, free, requiredOthers);
  if (distinct) compiler.requireJson('minProperties together with unnamed properties');
  const style = { members, distinct };
  const max = distinct ? Math.min(o.max, MAX_DIFFERENT) : free.length || o.max < namedCount ? o.max : Infinity;
  // States count properties only up to the limits, and at least up to 1: a comma precedes each property but the first.
  const last = Math.max(1, Math.min(namedCount, max < Infinity ? Infinity : o.min));
  let row = Array.from({ length: last + 1 }, () => rules.state());
  if (distinct) rules.marked(from, members.open, MARK.list, row[0]);
  else rules.literal(from, members.open, row[0]);
  if (distinct) rules.slack += 1 + o.min * o.min;
  const after = (/** @type {number} */ n) => Math.min(n + 1, last);
  const comma = (/** @type {number} */ at, /** @type {number} */ n) => (n ? rules.literal(at, notation.comma) : at);
  for (const name of sortNames(declared, notation)) {
    const next = row.map(() => rules.state());
    row.forEach((at, n) => {
      if (!o.required.has(name)) rules.skip(at, next[n]);
      if (n >= max || !admission.mayHave(o, name)) return;
      for (const text of nameSpellings(name, members))
        rules.call(
          rules.literal(comma(at, n), text + members.colon),
          compiler.rule(admission.property(o, name)),
          next[after(n)],
        );
    });
    row = next;
  }
  if (requiredOthers) {
    const next = row.map(() => rules.state());
    row.forEach((at, n) => {
      if (n < max) for (const other of requiredOthers) writeOther(compiler, other, style, comma(at, n), next[after(n)]);
    });
    row = next;
  }
  const close = rules.state();
  if (distinct) rules.marked(close, members.close, MARK.shut, to);
  else rules.literal(close, members.close, to);
  const others = othersRule(compiler, free, style);
  row.forEach((at, n) => writeOthers(compiler, free, others, { n, min: o.min, max, style }, at, close));
}

/**
 * Returns the properties that belong to both sets, or null if there are none.
 * @param {Compiler} compiler @param {Others} a @param {Others} b @returns {Others | null}
 */
function commonOthers(compiler, a, b) {
  const names = intersection(a.names ?? ANY, b.names ?? ANY);
  const sub = andSub(a.sub, b.sub);
  return isEmpty(names) || !compiler.hasShape(sub) ? null : { names, sub };
}

/** Maximum number of ways to provide an object's witnesses. */
const MAX_WAYS = 64;

/**
 * Returns the ways in which an object can have all its witnesses: named properties, or one unnamed property for several
 * witnesses. Each way has the resulting object, and the sets from which the unnamed property comes (null: none is
 * needed). A witness with any value needs nothing if a required property can be it.
 * @param {Compiler} compiler @param {ObjectShape} o @param {string[]} declared @param {Others[]} free
 * @returns {{ object: ObjectShape, unnamed: Others[] | null }[]}
 */
function waysOf(compiler, o, declared, free) {
  let ways = [{ object: o, unnamed: /** @type {Others[] | null} */ (null) }];
  for (const witness of o.witnesses) {
    const candidates = candidatesFor(compiler, witness, declared, free);
    ways = ways.flatMap(({ object, unnamed }) => {
      const named = candidates.declared.map((name) => ({
        object: {
          ...object,
          properties: new Map(object.properties).set(name, andSub(object.properties.get(name) ?? TRUE, witness.sub)),
          required: new Set([...object.required, name]),
        },
        unnamed,
      }));
      const isMet = compiler.isAnything(witness.sub) && candidates.declared.some((name) => object.required.has(name));
      if (isMet) return [{ object, unnamed }];
      // The unnamed property must be the witness of all conditions at once.
      const found = unnamed
        ? candidates.unnamed.flatMap((a) => unnamed.flatMap((b) => commonOthers(compiler, a, b) ?? []))
        : candidates.unnamed;
      return found.length ? [{ object, unnamed: found }, ...named] : named;
    });
    if (ways.length > MAX_WAYS) throw tooLargeError('"not" with several schemas of unnamed properties');
  }
  return ways;
}

/**
 * Writes the objects of a shape.
 * @param {Compiler} compiler @param {Shape} s @param {Members} members @param {number} from @param {number} to
 */
export function writeObject(compiler, s, members, from, to) {
  const o = s.object;
  const { admission } = compiler;
  if ([...s.excluded.values()].some((v) => typeof v === 'object' && v && !Array.isArray(v))) {
    if (s.types.size === 1) throw grammarError('"not" with an object in "const" or "enum" is not supported');
    return;
  }
  if (o.min > o.max || [...o.required].some((name) => !admission.mayHave(o, name))) return;
  let declared = [...new Set([...o.properties.keys(), ...o.required])].filter((name) => admission.mayHave(o, name));
  // A schema that does not describe unnamed properties allows any. They are written only if there are no named ones, or
  // if minProperties requires more than the named ones.
  const open = o.open || !o.properties.size || o.min > declared.length;
  let free = open || o.witnesses.length ? unnamedProperties(compiler, o, declared) : [];
  // If only a few names are allowed, they become named properties, so that each is written at most once.
  const listedNames = free.map(({ names }) => names && textsOf(names, MAX_NAMES));
  if (free.length && listedNames.every(Boolean)) {
    declared = [...declared, ...listedNames.flatMap((names) => names ?? [])];
    free = [];
  }
  const optional = open ? free : [];
  for (const { object, unnamed } of waysOf(compiler, o, declared, free))
    writeProperties(compiler, object, declared, optional, unnamed, members, from, to);
}
