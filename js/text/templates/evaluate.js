/** Walks a parsed template: statements into text, expressions into values, with Jinja's scopes and Python's operators. */
import { applyFilter, contains, escaped, test } from './filters.js';
import { characterOf, lengthOf, method, percent, placeIn, textLength } from './methods.js';
import { arithmetic } from './numbers.js';
import { concat, cut, isGiven, isSafe, isText, marked, plain } from './template-texts.js';
import {
  Callable,
  charactersOf,
  compare,
  defined,
  Dict,
  elements,
  equal,
  Float,
  found,
  isNumber,
  joined,
  keyOf,
  Lazy,
  Namespace,
  needWhole,
  numberOf,
  shown,
  templateError,
  truth,
  Tuple,
  typeOf,
  Undefined,
  View,
  whole,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {import('./parse.js').Node} Node */
/** @typedef {import('./methods.js').Args} Args */
/** @typedef {string | import('./template-texts.js').Text} AnyText */
/** What a statement may do to the loop around it. @typedef {'break' | 'continue' | undefined} Signal */

/** Macros and loops that call themselves, inside each other, at most: far fewer than a stack has room for. */
const DEEPEST = 100;

/** What beginning another round of a loop costs, in steps. */
const ROUND = 10;

/** Names, looked up from the inside out. */
class Scope {
  /** @type {Map<string, any>} */
  #names = new Map();
  #outer;

  /** @param {Scope | null} outer @param {string[]} [missing]  names that are undefined here to begin with */
  constructor(outer, missing = []) {
    this.#outer = outer;
    for (const name of missing) this.#names.set(name, new Undefined(`'${name}'`));
  }

  /** @param {string} name @returns {any} */
  get(name) {
    for (let scope = /** @type {Scope | null} */ (this); scope; scope = scope.#outer) {
      if (scope.#names.has(name)) return scope.#names.get(name);
    }
    return new Undefined(`'${name}'`);
  }

  /** @param {string} name @param {any} value */
  set(name, value) {
    this.#names.set(name, value);
  }
}

export class Evaluator {
  #meter;
  #depth = 0;
  /** @type {import('./filters.js').Host} */
  #host;

  /** @param {Meter} meter */
  constructor(meter) {
    this.#meter = meter;
    this.#host = { meter, member: (value, name) => this.#item(value, name, false) };
  }

  /** @param {Node} program @param {Map<string, any>} names @returns {AnyText} */
  run(program, names) {
    const scope = new Scope(null);
    for (const [name, value] of names) scope.set(name, value);
    return this.#block(program.body, new Scope(scope, program.missing));
  }

  /** @param {Node[]} body @param {Scope} scope @returns {AnyText} */
  #block(body, scope) {
    /** @type {AnyText[]} */
    const out = [];
    this.#statements(body, scope, out);
    return this.#meter.text(concat(['', ...out]));
  }

  /** @param {Node[]} body @param {Scope} scope @param {AnyText[]} out @returns {Signal} */
  #statements(body, scope, out) {
    for (const node of body) {
      const signal = this.#statement(node, scope, out);
      if (signal) return signal;
    }
    return undefined;
  }

  /** @param {AnyText[]} out @param {any} value @returns {undefined} */
  #print(out, value) {
    out.push(this.#meter.text(shown(value, this.#meter)));
    return undefined;
  }

  /** @param {Node} node @param {Scope} scope @param {AnyText[]} out @returns {Signal} */
  #statement(node, scope, out) {
    this.#meter.spend();
    switch (node.type) {
      case 'Data':
        return this.#print(out, node.value);
      case 'Output':
        return this.#print(out, this.#value(node.value, scope));
      case 'Print':
        for (const value of node.values) this.#print(out, this.#value(value, scope));
        return undefined;
      case 'break':
      case 'continue':
        return node.type;
      case 'If':
        for (const [condition, body] of node.branches)
          if (truth(this.#value(condition, scope))) return this.#statements(body, scope, out);
        return this.#statements(node.otherwise, scope, out);
      case 'For':
        return this.#for(node, scope, out);
      case 'Set':
        return this.#assign(node.target, this.#value(node.value, scope), scope);
      case 'SetBlock':
        return this.#assign(
          node.target,
          this.#filtered(this.#block(node.body, new Scope(scope, node.missing)), node.filters, scope),
          scope,
        );
      case 'FilterBlock': {
        const made = this.#filtered(this.#block(node.body, new Scope(scope, node.missing)), node.filters, scope);
        if (!isText(made)) throw templateError(`a filter block gives a ${typeOf(made)}, not a text`);
        return this.#print(out, made);
      }
      case 'With': {
        const inner = new Scope(scope, node.missing);
        const values = node.values.map((/** @type {Node} */ value) => this.#value(value, scope));
        node.targets.forEach((/** @type {Node} */ target, /** @type {number} */ i) =>
          this.#assign(target, values[i], inner),
        );
        return this.#statements(node.body, inner, out);
      }
      case 'Macro':
        return void scope.set(node.name, this.#macro(node.name, node, scope));
      case 'CallBlock': {
        const { at, named } = this.#arguments(node.call.args, scope);
        if (named.has('caller')) throw templateError('a call block whose call has an argument "caller"');
        named.set('caller', this.#macro('caller', node.macro, scope));
        return this.#print(out, this.#call(this.#value(node.call.callee, scope), { at, named }));
      }
      default:
        throw templateError(`${node.type} where a statement belongs`);
    }
  }

  /** @param {Node} node @param {Scope} outer @param {AnyText[]} out @param {any} [given]  what a loop that calls itself goes through @param {number} [depth] @returns {Signal} */
  #for(node, outer, out, given = this.#value(node.iterable, outer), depth = 1) {
    const { target, test: condition, recursive, body, otherwise } = node;
    const meter = this.#meter;
    let items = elements(given, meter);
    meter.items(items.length);
    if (condition) {
      items = items.filter((item) => {
        const scope = new Scope(outer);
        this.#assign(target, item, scope);
        return truth(this.#value(condition, scope));
      });
    }
    let changed = /** @type {any[] | null} */ (null);
    let completed = false;
    const again = (/** @type {Args} */ { at, named }) => {
      if (!recursive) throw templateError('a loop that is not recursive is called');
      if (at.length !== 1 || named.size) throw templateError('a recursive loop takes one argument');
      return this.#deeper('loop', () => {
        /** @type {AnyText[]} */
        const inner = [];
        this.#for(node, outer, inner, at[0], depth + 1);
        return meter.text(concat(['', ...inner]));
      });
    };
    for (let i = 0; i < items.length; i++) {
      meter.spend(ROUND);
      const scope = new Scope(outer, node.missing);
      const members = new Map(
        /** @type {[string, any][]} */ ([
          ['index', i + 1],
          ['index0', i],
          ['revindex', items.length - i],
          ['revindex0', items.length - i - 1],
          ['first', i === 0],
          ['last', i === items.length - 1],
          ['length', items.length],
          ['depth', depth],
          ['depth0', depth - 1],
          ['previtem', i ? items[i - 1] : new Undefined("'previtem'")],
          ['nextitem', i + 1 < items.length ? items[i + 1] : new Undefined("'nextitem'")],
          [
            'cycle',
            new Callable('cycle', ({ at }) => {
              if (!at.length) throw templateError('no items to cycle');
              return at[i % at.length];
            }),
          ],
          [
            'changed',
            new Callable('changed', ({ at }) => {
              const before = changed;
              changed = at;
              return !before || !equal(before, at, meter);
            }),
          ],
        ]),
      );
      scope.set('loop', new Callable('loop', again, members));
      this.#assign(target, items[i], scope);
      const signal = this.#statements(body, scope, out);
      completed ||= !signal;
      if (signal === 'break') break;
    }
    // As in jinja2: a round that was left early counts for nothing.
    if (!completed) return this.#statements(otherwise, new Scope(outer, node.otherwiseMissing), out);
    return undefined;
  }

  /** @template T @param {string} name @param {() => T} work @returns {T} */
  #deeper(name, work) {
    if (++this.#depth > DEEPEST) throw templateError(`macros ${DEEPEST} deep in each other ("${name}")`);
    const made = work();
    this.#depth--;
    return made;
  }

  /** @param {Node} target @param {any} value @param {Scope} scope @returns {undefined} */
  #assign(target, value, scope) {
    if (target.type === 'Name') return void scope.set(target.name, value);
    if (target.type === 'Tuple') {
      const items = elements(defined(value), this.#meter);
      if (items.length !== target.items.length)
        throw templateError(`${items.length} values for ${target.items.length} names`);
      return target.items.forEach((/** @type {Node} */ name, /** @type {number} */ i) =>
        this.#assign(name, items[i], scope),
      );
    }
    const holder = scope.get(target.name);
    if (!(holder instanceof Namespace)) throw templateError('only a namespace can be given values');
    return void holder.entries.set(target.member, value);
  }

  /** @param {string} name @param {Node} node  parameters, body, and the names that it reads @param {Scope} outer */
  #macro(name, { parameters, body, reads, missing }, outer) {
    return new Callable(name, ({ at, named }) =>
      this.#deeper(name, () => {
        const scope = new Scope(outer, missing);
        const rest = new Dict(named);
        parameters.forEach((/** @type {Node} */ parameter, /** @type {number} */ i) => {
          const own = i < at.length ? at[i] : rest.get(parameter.name);
          if (rest.has(parameter.name) && i < at.length)
            throw templateError(`the macro "${name}" was given its argument "${parameter.name}" twice`);
          rest.delete(parameter.name);
          if (own !== undefined) scope.set(parameter.name, own);
          else if (parameter.value) scope.set(parameter.name, this.#value(parameter.value, scope));
          else scope.set(parameter.name, new Undefined(`parameter '${parameter.name}' was not provided: it`));
        });
        if (reads.has('caller')) {
          scope.set('caller', rest.get('caller') ?? new Undefined('no caller: it'));
          rest.delete('caller');
        }
        if (at.length > parameters.length && !reads.has('varargs'))
          throw templateError(`the macro "${name}" takes at most ${parameters.length} arguments, found ${at.length}`);
        if (rest.size && !reads.has('kwargs'))
          throw templateError(`the macro "${name}" has no argument "${[...rest.keys()][0]}"`);
        scope.set('varargs', Tuple.from(at.slice(parameters.length)));
        scope.set('kwargs', rest);
        return this.#block(body, scope);
      }),
    );
  }

  /** @param {Node[]} nodes @param {Scope} scope @returns {Args} */
  #arguments(nodes, scope) {
    const at = [];
    const named = new Map();
    const name = (/** @type {string} */ key, /** @type {any} */ value) => {
      if (named.has(key)) throw templateError(`an argument "${key}" is given twice`);
      named.set(key, value);
    };
    for (const node of nodes) {
      if (node.type === 'Named') name(node.name, this.#value(node.value, scope));
      else if (node.type === 'SpreadNamed') {
        const given = this.#value(node.value, scope);
        if (!(given instanceof Map))
          throw templateError(`a ${typeOf(defined(given))} where a dict of arguments belongs`);
        for (const [key, value] of given) name(key, value);
      } else if (node.type === 'Spread')
        for (const value of elements(defined(this.#value(node.value, scope)), this.#meter)) at.push(value);
      else at.push(this.#value(node, scope));
    }
    return { at, named };
  }

  /** @param {any} callee @param {Args} args */
  #call(callee, args) {
    if (!(callee instanceof Callable)) throw templateError(`a ${typeOf(defined(callee))} can't be called`);
    return callee.call(args);
  }

  /** @param {any} value @param {Node[]} filters @param {Scope} scope */
  #filtered(value, filters, scope) {
    return filters.reduce(
      (made, { name, args }) => applyFilter(name, made, this.#arguments(args, scope), this.#host),
      value,
    );
  }

  /** @param {Node} node @param {Scope} scope @returns {any} */
  #value(node, scope) {
    this.#meter.spend();
    switch (node.type) {
      case 'Constant':
        return node.value;
      case 'Float':
        return new Float(node.value);
      case 'Name':
        return scope.get(node.name);
      case 'List':
        return node.items.map((/** @type {Node} */ item) => this.#value(item, scope));
      case 'Tuple':
        return Tuple.from(node.items.map((/** @type {Node} */ item) => this.#value(item, scope)));
      case 'Dict': {
        const dict = new Dict();
        for (const [left, right] of node.entries) {
          const key = this.#value(left, scope);
          this.#meter.scan(textLength(key));
          if (isGiven(key)) dict.given = true;
          if (typeof key === 'boolean' || typeof key === 'number')
            for (const other of [Number(key), Boolean(key)])
              if (Number(key) === Number(other) && other !== key && dict.has(other))
                throw templateError(`a dict with the keys ${other} and ${key}, which are one in Python`);
          dict.set(keyOf(key), this.#value(right, scope));
        }
        return dict;
      }
      case 'Call':
        return this.#call(this.#value(node.callee, scope), this.#arguments(node.args, scope));
      case 'Attribute':
        return this.#item(this.#value(node.object, scope), node.name, true);
      case 'Item':
        return this.#subscript(node, scope);
      case 'Filter':
        return this.#filtered(this.#value(node.value, scope), [node], scope);
      case 'Test':
        return test(node.name, this.#value(node.value, scope), this.#arguments(node.args, scope), this.#meter);
      case 'Condition':
        if (truth(this.#value(node.test, scope))) return this.#value(node.value, scope);
        return node.otherwise ? this.#value(node.otherwise, scope) : new Undefined('a condition without an else');
      case 'Not':
        return !truth(this.#value(node.value, scope));
      case 'And': {
        const left = this.#value(node.left, scope);
        return truth(left) ? this.#value(node.right, scope) : left;
      }
      case 'Or': {
        const left = this.#value(node.left, scope);
        return truth(left) ? left : this.#value(node.right, scope);
      }
      case 'Compare':
        return this.#comparison(node, scope);
      case 'Concat':
        return joined(
          node.items.map((/** @type {Node} */ item) => this.#value(item, scope)),
          this.#meter,
        );
      case 'Sign':
        return this.#sign(node.operator, this.#value(node.value, scope));
      case 'Operation':
        return this.#operation(
          node.operator,
          defined(this.#value(node.left, scope)),
          defined(this.#value(node.right, scope)),
        );
      default:
        throw templateError(`${node.type} where a value belongs`);
    }
  }

  /** @param {Node} node @param {Scope} scope */
  #subscript({ object, key }, scope) {
    const value = this.#value(object, scope);
    if (key.type !== 'Slice') return this.#item(value, this.#value(key, scope), false);
    const [start, stop, step] = [key.start, key.stop, key.step].map((part) => {
      const bound = part ? this.#value(part, scope) : null;
      return bound === null ? null : needWhole(bound);
    });
    return this.#slice(value, start, stop, step ?? 1);
  }

  /** `value.name` (a method before an entry), or `value[name]` (the other way round). @param {any} value @param {any} name @param {boolean} dot */
  #item(value, name, dot) {
    defined(value);
    const bind = () => {
      const own = method(value, name);
      return own && new Callable(plain(name), (args) => own(args, this.#meter));
    };
    if (dot) {
      const own = bind();
      if (own) return own;
    }
    const missing = () =>
      new Undefined(
        `'${typeOf(value)}' object has no ${typeof name === 'number' ? 'element' : 'attribute'} ${isText(name) ? plain(name).slice(0, 100) : isNumber(name) ? numberOf(name) : typeOf(name)}: it`,
      );
    if (value instanceof Map) {
      this.#meter.scan(textLength(name));
      const entry =
        Array.isArray(name) || name instanceof Map || name instanceof Undefined || name instanceof Float
          ? undefined
          : found(value, name);
      if (entry !== undefined) return entry;
    } else if (value instanceof Namespace) {
      if (value.entries.has(plain(name))) return value.entries.get(plain(name));
    } else if (value instanceof Callable) {
      const member = value.members.get(plain(name));
      if (member !== undefined) return member;
      if (!value.members.size) throw templateError(`the member "${plain(name)}" of a function is not supported`);
    } else if (value instanceof Tuple && value.names?.has(plain(name))) return value.names.get(plain(name));
    else if (typeof name === 'number' || typeof name === 'boolean') {
      const i = Number(name);
      if (isText(value)) return characterOf(value, i, this.#meter) ?? missing();
      if (Array.isArray(value) && !(value instanceof Lazy) && (!(value instanceof View) || value.kind === 'range')) {
        const item = value[i < 0 ? i + value.length : i];
        return item === undefined ? missing() : item;
      }
    }
    return (dot ? undefined : bind()) ?? missing();
  }

  /** @param {any} value @param {number | null} start @param {number | null} stop @param {number} step */
  #slice(value, start, stop, step) {
    const meter = this.#meter;
    const list =
      Array.isArray(value) && !(value instanceof Lazy) && (!(value instanceof View) || value.kind === 'range');
    if (!list && !isText(value)) throw templateError(`a ${typeOf(defined(value))} has no parts`);
    if (isSafe(value)) throw templateError('a part of a text that is marked as safe, which is not supported');
    if (!step) throw templateError('a slice in steps of nothing');
    const n = isText(value) ? lengthOf(plain(value), meter) : value.length;
    const [low, high] = step > 0 ? [0, n] : [-1, n - 1];
    const place = (/** @type {number | null} */ at, /** @type {number} */ otherwise) =>
      at === null ? otherwise : Math.min(Math.max(at < 0 ? at + n : at, low), high);
    const [begin, end] = [place(start, step > 0 ? 0 : n - 1), place(stop, step > 0 ? n : -1)];
    if (isText(value) && step === 1) {
      if (end <= begin) return '';
      return cut(value, placeIn(plain(value), begin, meter), placeIn(plain(value), end, meter));
    }
    const all = isText(value) ? charactersOf(value, meter) : value;
    meter.items(Math.max(0, (end - begin) / step));
    const made = [];
    for (let i = begin; step > 0 ? i < end : i > end; i += step) made.push(all[i]);
    if (isText(value)) return concat(['', ...made]);
    if (value instanceof View) throw templateError('a part of a range, which is not supported: make it a list');
    return value instanceof Tuple ? Tuple.from(made) : made;
  }

  /** @param {string} operator @param {any} value */
  #sign(operator, value) {
    if (!isNumber(defined(value))) throw templateError(`${operator} of a ${typeOf(value)}`);
    const number = operator === '-' ? -numberOf(value) : numberOf(value);
    return value instanceof Float ? new Float(number) : number + 0;
  }

  /** `a < b < c` is `a < b and b < c`. @param {Node} node @param {Scope} scope */
  #comparison({ left, rest }, scope) {
    let a = this.#value(left, scope);
    for (const [operator, node] of rest) {
      const b = this.#value(node, scope);
      if (!this.#compared(operator, a, b)) return false;
      a = b;
    }
    return true;
  }

  /** @param {string} operator @param {any} a @param {any} b @returns {boolean} */
  #compared(operator, a, b) {
    const meter = this.#meter;
    switch (operator) {
      case '==':
        return equal(a, b, meter);
      case '!=':
        return !equal(a, b, meter);
      case 'in':
        return contains(b, a, meter);
      case 'not in':
        return !contains(b, a, meter);
      case '<':
        return compare(a, b, meter) < 0;
      case '>':
        return compare(a, b, meter) > 0;
      case '<=':
        return compare(a, b, meter) <= 0;
      default:
        return compare(a, b, meter) >= 0;
    }
  }

  /** Two texts; what is added to a safe one is escaped. @param {AnyText} a @param {AnyText} b */
  #join(a, b) {
    const meter = this.#meter;
    const safe = isSafe(a) || isSafe(b);
    meter.room(plain(a).length + plain(b).length);
    const part = (/** @type {AnyText} */ text) => (safe && !isSafe(text) ? escaped(text, meter) : text);
    const text = meter.text(concat([part(a), part(b)]));
    return safe ? marked(text) : text;
  }

  /** @param {string} operator @param {any} a @param {any} b */
  #operation(operator, a, b) {
    const meter = this.#meter;
    if (isNumber(a) && isNumber(b)) return arithmetic(operator, a, b, whole);
    if (operator === '+' && isText(a) && isText(b)) return this.#join(a, b);
    const list = (/** @type {any} */ value) =>
      Array.isArray(value) && !(value instanceof Lazy) && !(value instanceof View);
    if (operator === '+' && list(a) && list(b) && typeOf(a) === typeOf(b)) {
      meter.items(a.length + b.length);
      return a.concat(b);
    }
    if (operator === '%' && isText(a) && !isSafe(a)) return percent(a, b, meter);
    const count = (/** @type {any} */ value) => typeof value === 'number' || typeof value === 'boolean';
    const [many, times] = count(a) ? [b, Math.max(Number(a), 0)] : [a, count(b) ? Math.max(Number(b), 0) : NaN];
    if (operator === '*' && !Number.isNaN(times) && ((isText(many) && !isSafe(many)) || list(many))) {
      if (isText(many)) {
        meter.room(plain(many).length * times);
        if (!isGiven(many)) return plain(many).repeat(times);
        meter.items(times);
        return concat(['', ...Array(times).fill(many)]);
      }
      const length = many.length * times;
      meter.items(length);
      const repeated = Array.from({ length }, (_, i) => many[i % many.length]);
      return many instanceof Tuple ? Tuple.from(repeated) : repeated;
    }
    throw templateError(`${typeOf(a)} ${operator} ${typeOf(b)}, which is not supported`);
  }
}
