/** Writes the rules of a shape's objects: properties in the order of the schema, then others, if the schema says something about them. */
import { ANY, both, either, isNone, ofLength, ofTexts, textsOf, without } from '../dfa.js';
import { refused, tooLarge } from '../failure.js';
import { MARK } from '../ir.js';
import { nameTexts, ordered } from '../notations.js';
import { SPELLINGS } from '../text.js';
import { stringDfa } from './scalars.js';
import { andSub, TRUE } from './shapes.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Members } from '../notations.js' */
/** @import { Compiler } from './index.js' */
/** @import { Shape, Sub } from './shapes.js' */

/** Properties that the schema doesn't name: their names (null: any), and what their values are. @typedef {{ names: Dfa | null, sub: Sub }} Others */

/** Maximum number of kinds of names that patterns tell apart. */
const MAX_KINDS = 32;
/** Maximum number of names that are enumerated if the schema of names allows no others. */
const MAX_NAMES = 64;
/** Maximum of minProperties for objects whose unnamed properties must have different names. */
const MAX_REQUIRED = 16;
/** Maximum number of different names. */
const MAX_DIFFERENT = 1000;

/** Names that a schema of names allows. @param {Compiler} compiler @param {Sub[]} subs @returns {Dfa | null}  null: all */
function namesDfa(compiler, subs) {
  /** @type {Dfa | null} */
  let all = null;
  for (const sub of subs) {
    /** @type {Dfa} */
    let names = ofTexts([]);
    for (const s of compiler.shapesOf(sub).filter(({ types }) => types.has('string'))) {
      const values =
        s.values && [...s.values.values()].filter((v) => typeof v === 'string' && compiler.admission.admits(s, v));
      if (s.string.min <= s.string.max)
        names = either(
          names,
          values
            ? ofTexts(values)
            : (stringDfa(s) ?? (s.string.max < Infinity || s.string.min ? ofLength(s.string.min, s.string.max) : ANY)),
        );
    }
    all = all ? both(all, names) : names;
  }
  return all;
}

/** The properties that the schema doesn't name, by the patterns that their names match. @param {Compiler} compiler @param {Shape['object']} o @param {string[]} declared @returns {Others[]} */
function others(compiler, o, declared) {
  const taken = [...new Set([...declared, ...o.forbidden])];
  const allowed = namesDfa(compiler, o.names);
  /** Names by the patterns that they match, where there are any. @type {{ names: Dfa | null, matches: string[] }[]} */
  let kinds = [{ names: taken.length ? without(allowed ?? ANY, ofTexts(taken)) : allowed, matches: [] }];
  for (const pattern of o.patterns.keys()) {
    const texts = compiler.admission.pattern(pattern);
    kinds = kinds.flatMap(({ names, matches }) => [
      { names: without(names ?? ANY, texts), matches },
      { names: both(names ?? ANY, texts), matches: [...matches, pattern] },
    ]);
    kinds = kinds.filter(({ names }) => !names || !isNone(names));
    if (kinds.length > MAX_KINDS)
      throw refused(
        `patternProperties has patterns that tell more than ${MAX_KINDS} kinds of names apart`,
        'fewer patterns, or patterns of which a name matches one at most',
      );
  }
  const found = [];
  for (const { names, matches } of kinds) {
    if (names && isNone(names)) continue;
    const additional = o.additional.filter((a) => !a.patterns.some((p) => matches.includes(p))).map(({ sub }) => sub);
    const sub = compiler.all(TRUE, ...matches.map((p) => o.patterns.get(p) ?? TRUE), ...additional);
    if (compiler.hasShape(sub)) found.push({ names, sub });
  }
  return found;
}

/** How the members of an object are written. `distinct`: C must keep their names different, which are JSON's then. @typedef {{ members: Members, distinct: boolean }} Style */

/** A name and its value. @param {Compiler} compiler @param {Others} other @param {Style} style @param {number} from @param {number} to */
function writeOther(compiler, { names, sub }, { members, distinct }, from, to) {
  const { rules, writer } = compiler;
  for (const quote of members.names) {
    const inside = distinct ? rules.marked(from, quote.open, MARK.open) : rules.literal(from, quote.open);
    const end = rules.state();
    const allowed = compiler.allowedIn(quote);
    const texts = names && allowed ? both(names, allowed) : (names ?? allowed);
    if (texts) writer.dfa(inside, texts, end, quote.escaped && SPELLINGS[quote.escaped]);
    else rules.call(inside, distinct ? compiler.spelled() : compiler.character(quote), end, 0, Infinity);
    const behind = distinct ? rules.marked(end, quote.close, MARK.close) : rules.literal(end, quote.close);
    rules.call(rules.literal(behind, members.colon), compiler.rule(sub), to);
  }
}

/**
 * The property of a certain kind that an object must have: one of the unnamed, or of the declared ones.
 * @param {Compiler} compiler @param {Shape['object']['some'][0]} one @param {string[]} declared @param {Others[]} free
 */
function asked(compiler, one, declared, free) {
  const ways = [];
  for (const { names, sub } of free) {
    let found = names ?? ANY;
    if (one.names.length) found = without(found, ofTexts(one.names));
    for (const pattern of one.patterns) found = without(found, compiler.admission.pattern(pattern));
    if (one.inside !== null) found = both(found, compiler.admission.pattern(one.inside));
    if (!isNone(found)) ways.push({ names: found, sub: andSub(sub, one.sub) });
  }
  return { ways, declared: declared.filter((name) => compiler.admission.isOther(one, name)), sub: one.sub };
}

/** Other properties, none or more, each with a comma before it. @param {Compiler} compiler @param {Others[]} free @param {Style} style */
function othersRule(compiler, free, style) {
  const { rules } = compiler;
  const rule = rules.rule('a property');
  const [from, to] = [rules.literal(rules.start(rule), compiler.notation.comma), rules.state(true)];
  for (const other of free) writeOther(compiler, other, style, from, to);
  return rule;
}

/**
 * Behind `n` properties that the schema names: as many others as there must and may be.
 * @param {Compiler} compiler @param {Others[]} free @param {number} others  their rule @param {{ n: number, min: number, max: number, style: Style }} counts
 * @param {number} from @param {number} close
 */
function writeOthers(compiler, free, others, { n, min, max, style }, from, close) {
  const { rules } = compiler;
  if (n >= min) rules.skip(from, close);
  if (!free.length || n >= max) return;
  const least = Math.max(0, min - n);
  const first = n ? from : rules.state();
  if (!n) for (const other of free) writeOther(compiler, other, style, from, first);
  const had = n ? 0 : 1;
  rules.call(first, others, close, Math.max(0, least - had), max - n - had);
}

/** Whether a name that is taken can always be made different: by more characters, or by another last character. @param {Dfa} names */
const canDiffer = (names) =>
  names.every(({ edges }) =>
    edges.every(([, , to]) => {
      if (names[to].edges.length) return true;
      return edges.reduce((n, [low, high, other]) => n + (other === to ? high - low + 1 : 0), 0) > MAX_DIFFERENT;
    }),
  );

/**
 * Whether unnamed properties must have different names: two with the same name count as one, and the object must have several. GRAMMAR:
 * that is not supported for these names, as some text could not be completed.
 * @param {Shape['object']} o @param {Others[]} free @param {Others[] | null} requiredOthers
 */
function mustDiffer({ min, required }, free, requiredOthers) {
  const names = [...free, ...(requiredOthers ?? [])];
  if (!names.length || min - required.size <= 1) return false;
  if (!names.every((one) => one.names === null || canDiffer(one.names)) || min > MAX_REQUIRED)
    throw refused(
      `minProperties ${min} together with unnamed properties is not supported`,
      `it is supported for names of any length, up to ${MAX_REQUIRED}; name the properties, or list their names in propertyNames`,
    );
  return true;
}

/** @param {Compiler} compiler @param {Shape['object']} o @param {string[]} declared @param {Others[]} free @param {Others[] | null} requiredOthers  one of these comes in any case @param {Members} members @param {number} from @param {number} to */
function writeProperties(compiler, o, declared, free, requiredOthers, members, from, to) {
  const { rules, admission, notation } = compiler;
  const most = declared.length + (requiredOthers ? 1 : 0);
  const distinct = mustDiffer(o, free, requiredOthers);
  if (distinct) compiler.requireJson('minProperties together with unnamed properties');
  const style = { members, distinct };
  const max = distinct ? Math.min(o.max, MAX_DIFFERENT) : free.length || o.max < most ? o.max : Infinity;
  // Properties are counted as far as the limits need it, and as far as to know whether a comma precedes the next one.
  const last = Math.max(1, Math.min(most, max < Infinity ? Infinity : o.min));
  let row = Array.from({ length: last + 1 }, () => rules.state());
  if (distinct) rules.marked(from, members.open, MARK.list, row[0]);
  else rules.literal(from, members.open, row[0]);
  if (distinct) rules.slack += 1 + o.min * o.min;
  const after = (/** @type {number} */ n) => Math.min(n + 1, last);
  const comma = (/** @type {number} */ at, /** @type {number} */ n) => (n ? rules.literal(at, notation.comma) : at);
  for (const name of ordered(declared, notation)) {
    const next = row.map(() => rules.state());
    row.forEach((at, n) => {
      if (!o.required.has(name)) rules.skip(at, next[n]);
      if (n >= max || !admission.mayHave(o, name)) return;
      for (const text of nameTexts(name, members))
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

/** Properties that are of two kinds; null: none is. @param {Compiler} compiler @param {Others} a @param {Others} b @returns {Others | null} */
function commonOthers(compiler, a, b) {
  const names = both(a.names ?? ANY, b.names ?? ANY);
  const sub = andSub(a.sub, b.sub);
  return isNone(names) || !compiler.hasShape(sub) ? null : { names, sub };
}

/** Maximum number of ways to have the properties that an object must have some of. */
const MAX_WAYS = 64;

/**
 * The ways to have a property of each kind that an object must have some of, by one unnamed property or by named ones: its properties then, and
 * what the unnamed one may be (null: no unnamed property is needed). A kind that a required property has anyway needs no other one.
 * @param {Compiler} compiler @param {Shape['object']} o @param {string[]} declared @param {Others[]} free
 * @returns {{ object: Shape['object'], unnamed: Others[] | null }[]}
 */
function waysOf(compiler, o, declared, free) {
  let ways = [{ object: o, unnamed: /** @type {Others[] | null} */ (null) }];
  for (const some of o.some) {
    const need = asked(compiler, some, declared, free);
    ways = ways.flatMap(({ object, unnamed }) => {
      const named = need.declared.map((name) => ({
        object: {
          ...object,
          properties: new Map(object.properties).set(name, andSub(object.properties.get(name) ?? TRUE, need.sub)),
          required: new Set([...object.required, name]),
        },
        unnamed,
      }));
      const isMet = compiler.isAnything(need.sub) && need.declared.some((name) => object.required.has(name));
      if (isMet) return [{ object, unnamed }];
      // One unnamed property is of all the kinds.
      const found = unnamed
        ? need.ways.flatMap((a) => unnamed.flatMap((b) => commonOthers(compiler, a, b) ?? []))
        : need.ways;
      return found.length ? [{ object, unnamed: found }, ...named] : named;
    });
    if (ways.length > MAX_WAYS) throw tooLarge('"not" with several schemas of unnamed properties');
  }
  return ways;
}

/** @param {Compiler} compiler @param {Shape} s @param {Members} members @param {number} from @param {number} to */
export function writeObject(compiler, s, members, from, to) {
  const o = s.object;
  const { admission } = compiler;
  if ([...s.excluded.values()].some((v) => typeof v === 'object' && v && !Array.isArray(v))) {
    if (s.types.size === 1) throw refused('"not" with an object in "const" or "enum" is not supported');
    return;
  }
  if (o.min > o.max || [...o.required].some((name) => !admission.mayHave(o, name))) return;
  let declared = [...new Set([...o.properties.keys(), ...o.required])].filter((name) => admission.mayHave(o, name));
  // Of others nothing was said, so any are allowed; they are written where there is nothing else, or must be some.
  const open = o.open || !o.properties.size || o.min > declared.length;
  let free = open || o.some.length ? others(compiler, o, declared) : [];
  // Names that are few are named, so that each comes once at most.
  const few = free.map(({ names }) => names && textsOf(names, MAX_NAMES));
  if (free.length && few.every(Boolean)) {
    declared = [...declared, ...few.flatMap((names) => names ?? [])];
    free = [];
  }
  const more = open ? free : [];
  for (const { object, unnamed } of waysOf(compiler, o, declared, free))
    writeProperties(compiler, object, declared, more, unnamed, members, from, to);
}
