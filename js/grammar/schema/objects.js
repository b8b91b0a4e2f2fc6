/** Objects of a shape, as rules: properties in the order of the schema, then others where the schema speaks of them. */
import { ANY, both, either, isNone, ofLength, ofTexts, without } from '../dfa.js';
import { refused } from '../failure.js';
import { stringDfa } from './scalars.js';
import { andSub, TRUE } from './shapes.js';

/** @import { Dfa } from '../dfa.js' */
/** @import { Compiler } from './index.js' */
/** @import { Shape, Sub } from './shapes.js' */

const MOST_PATTERNS = 4;

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

/** What other properties there may be: names, and what they are. @param {Compiler} compiler @param {Shape['object']} o @param {string[]} declared @returns {{ names: Dfa | null, sub: Sub }[]} */
function others(compiler, o, declared) {
  const patterns = [...o.patterns.keys()];
  if (patterns.length > MOST_PATTERNS) throw refused(`patternProperties has more than ${MOST_PATTERNS} patterns`);
  const allowed = namesDfa(compiler, o.names);
  const taken = [...new Set([...declared, ...o.forbidden])];
  const found = [];
  for (let bits = 0; bits < 2 ** patterns.length; bits++) {
    const met = patterns.filter((_, i) => (bits >> i) & 1);
    let names = allowed;
    for (const pattern of patterns)
      names = (met.includes(pattern) ? both : without)(names ?? ANY, compiler.admission.pattern(pattern));
    if (taken.length) names = without(names ?? ANY, ofTexts(taken));
    if (names && isNone(names)) continue;
    const rest = o.additional.filter((a) => !a.patterns.some((p) => met.includes(p))).map(({ sub }) => sub);
    found.push({ names, sub: compiler.all(TRUE, ...met.map((p) => o.patterns.get(p) ?? TRUE), ...rest) });
  }
  return found;
}

/** A name in quotes and what is behind it. @param {Compiler} compiler @param {Dfa | null} names @param {Sub} sub @param {number} from @param {number} to */
function writeOther(compiler, names, sub, from, to) {
  const { rules, writer } = compiler;
  const inside = rules.literal(from, '"');
  const end = rules.state();
  if (names) writer.dfa(inside, names, end, true);
  else rules.call(inside, compiler.character(), end, 0, Infinity);
  rules.call(rules.literal(end, '": '), compiler.rule(sub), to);
}

/** A shape's object that must have some property of a kind: it is one of the others. @param {Compiler} compiler @param {Shape['object']} o @param {string[]} declared @param {{ names: Dfa | null, sub: Sub }[]} free */
function asked(compiler, { some: [one, ...more] }, declared, free) {
  if (!one) return null;
  if (more.length) throw refused('not with several properties that are left open is not supported');
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

/** @param {Compiler} compiler @param {Shape['object']} o @param {string[]} declared @param {{ names: Dfa | null, sub: Sub }[]} free @param {{ names: Dfa, sub: Sub }[] | null} wanted  one of these comes in any case @param {number} from @param {number} to */
function writeProperties(compiler, o, declared, free, wanted, from, to) {
  const { rules, admission } = compiler;
  const counted = o.min > 0 || o.max < Infinity;
  const rows = Math.min(counted ? Math.max(o.min, o.max < Infinity ? o.max : 0) : 1, declared.length + o.min + 1);
  const last = Math.max(rows, 1);
  let row = Array.from({ length: last + 1 }, () => rules.state());
  rules.literal(from, '{', row[0]);
  const after = (/** @type {number} */ n) => Math.min(n + 1, last);
  const comma = (/** @type {number} */ at, /** @type {number} */ n) => (n ? rules.literal(at, ', ') : at);
  for (const name of declared) {
    const next = row.map(() => rules.state());
    row.forEach((at, n) => {
      if (!o.required.has(name)) rules.skip(at, next[n]);
      if (n >= o.max || !admission.mayHave(o, name)) return;
      rules.call(
        rules.literal(comma(at, n), `${JSON.stringify(name)}: `),
        compiler.rule(admission.property(o, name)),
        next[after(n)],
      );
    });
    row = next;
  }
  if (wanted) {
    const next = row.map(() => rules.state());
    row.forEach((at, n) => {
      if (n < o.max)
        for (const { names, sub } of wanted) writeOther(compiler, names, sub, comma(at, n), next[after(n)]);
    });
    row = next;
    if (o.min <= last && !o.open) free = [];
  }
  const close = rules.state();
  rules.literal(close, '}', to);
  row.forEach((at, n) => {
    if (n >= o.min) rules.skip(at, close);
    if (n >= o.max) return;
    // Fewer than there must be: names of different lengths, as equal ones would count once.
    const short = n < o.min;
    if (!short && !o.open) return;
    for (const { names, sub } of free)
      writeOther(
        compiler,
        short ? both(names ?? ANY, ofLength(8 * n + 1, 8 * n + 8)) : names,
        sub,
        comma(at, n),
        row[after(n)],
      );
  });
}

/** @param {Compiler} compiler @param {Shape} s @param {number} from @param {number} to */
export function writeObject(compiler, s, from, to) {
  const o = { ...s.object, required: new Set(s.object.required) };
  if ([...s.excluded.values()].some((v) => typeof v === 'object' && v && !Array.isArray(v))) {
    if (s.types.size === 1) throw refused('not with an object in const or enum is not supported');
    return;
  }
  if (o.min > o.max || [...o.required].some((name) => !compiler.admission.mayHave(o, name))) return;
  // What every object of JavaScript has counts as there for some validators: it is written, so that its schema holds.
  for (const name of o.properties.keys()) if (name in {}) o.required.add(name);
  const declared = [...new Set([...o.properties.keys(), ...o.required])].filter((name) =>
    compiler.admission.mayHave(o, name),
  );
  // Of others nothing was said, so any are allowed; they are written where there is nothing else, or must be some.
  const free =
    o.open || !o.properties.size || o.min > declared.length || o.some.length ? others(compiler, o, declared) : [];
  const open = o.open || !o.properties.size;
  const wish = asked(compiler, o, declared, free);
  if (!wish) return writeProperties(compiler, { ...o, open }, declared, free, null, from, to);
  if (wish.ways.length) writeProperties(compiler, { ...o, open }, declared, free, wish.ways, from, to);
  for (const name of wish.declared) {
    const properties = new Map(o.properties).set(name, andSub(o.properties.get(name) ?? TRUE, wish.sub));
    writeProperties(
      compiler,
      { ...o, open, properties, required: new Set([...o.required, name]) },
      declared,
      free,
      null,
      from,
      to,
    );
  }
}
