/**
 * Evaluates the tree of a template: statements write text, expressions have values. Scopes are Jinja's, operators
 * Python's.
 */
import { applyFilter, contains, test } from './filters.js';
import { formatPercent } from './format-text.js';
import { method } from './methods.js';
import { arithmetic } from './numbers.js';
import { concat, cut, hasCallerText, isSafe, isText, withSafeMark, stringOf } from './template-texts.js';
import { characterOf, characterOffset, escapeHtml, lengthOf, textLength } from './text-operations.js';
import {
  Callable,
  charactersOf,
  compare,
  requireDefined,
  Dict,
  elements,
  equal,
  Float,
  lookUp,
  isNumber,
  joinTexts,
  keyOf,
  Lazy,
  Namespace,
  requireInteger,
  numberOf,
  toText,
  templateError,
  isTrue,
  Tuple,
  typeOf,
  Undefined,
  View,
  checkInteger,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** @typedef {import('./parse.js').Node} Node */
/** @typedef {import('./arguments.js').Args} Args */
/** @typedef {string | import('./template-texts.js').Text} AnyText */
/**
 * Way in which a statement ends the current iteration of its loop; undefined: it does not.
 * @typedef {'break' | 'continue' | undefined} Signal
 */

/** Maximum depth of nested calls of macros and recursive loops, far below the limit of the stack. */
const MAX_DEPTH = 100;

/** Cost of one iteration of a loop, in steps (see Meter). */
const ROUND_STEPS = 10;

/** A scope of names; unknown names are looked up in the scope around it. */
class Scope {
  /** @type {Map<string, any>} */
  #names = new Map();
  #outer;

  /**
   * @param {Scope | null} outer
   * @param {string[]} [missing]  names that are undefined at the beginning of this scope (scopes.js)
   */
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

  /** Renders a template. @param {Node} program @param {Map<string, any>} names  values by name @returns {AnyText} */
  run(program, names) {
    const scope = new Scope(null);
    for (const [name, value] of names) scope.set(name, value);
    return this.#block(program.body, new Scope(scope, program.missing));
  }

  /** Returns the text of some statements. @param {Node[]} body @param {Scope} scope @returns {AnyText} */
  #block(body, scope) {
    /** @type {AnyText[]} */
    const out = [];
    this.#statements(body, scope, out);
    return this.#meter.countText(concat(['', ...out]));
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
    out.push(this.#meter.countText(toText(value, this.#meter)));
    return undefined;
  }

  /** @param {Node} node @param {Scope} scope @param {AnyText[]} out @returns {Signal} */
  #statement(node, scope, out) {
    this.#meter.count();
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
          if (isTrue(this.#value(condition, scope))) return this.#statements(body, scope, out);
        return this.#statements(node.otherwise, scope, out);
      case 'For':
        return this.#for(node, scope, out);
      case 'Set':
        return this.#assign(node.target, this.#value(node.value, scope), scope);
      case 'SetBlock':
        return this.#assign(
          node.target,
          this.#applyFilters(this.#block(node.body, new Scope(scope, node.missing)), node.filters, scope),
          scope,
        );
      case 'FilterBlock': {
        const result = this.#applyFilters(this.#block(node.body, new Scope(scope, node.missing)), node.filters, scope);
        if (!isText(result))
          throw templateError(`expected a string from a filter block, found a value of type ${typeOf(result)}`);
        return this.#print(out, result);
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
        if (named.has('caller')) throw templateError('the call of a call block must not have an argument "caller"');
        named.set('caller', this.#macro('caller', node.macro, scope));
        return this.#print(out, this.#call(this.#value(node.call.callee, scope), { at, named }));
      }
      default:
        throw templateError(`unexpected node ${node.type} among statements`);
    }
  }

  /**
   * Runs a loop.
   * @param {Node} node @param {Scope} outer @param {AnyText[]} out
   * @param {any} [iterable]  argument of `loop()` in a recursive loop
   * @param {number} [depth] @returns {Signal}
   */
  #for(node, outer, out, iterable = this.#value(node.iterable, outer), depth = 1) {
    const { target, test: condition, recursive, body, otherwise } = node;
    const meter = this.#meter;
    let items = elements(iterable, meter);
    meter.countItems(items.length);
    if (condition) {
      items = items.filter((item) => {
        const scope = new Scope(outer);
        this.#assign(target, item, scope);
        return isTrue(this.#value(condition, scope));
      });
    }
    let lastChanged = /** @type {any[] | null} */ (null);
    let completed = false;
    const callLoop = (/** @type {Args} */ { at, named }) => {
      if (!recursive) throw templateError('only a loop that is marked as recursive can be called');
      if (at.length !== 1 || named.size) throw templateError('loop() takes exactly one argument');
      return this.#deeper('loop', () => {
        /** @type {AnyText[]} */
        const inner = [];
        this.#for(node, outer, inner, at[0], depth + 1);
        return meter.countText(concat(['', ...inner]));
      });
    };
    for (let i = 0; i < items.length; i++) {
      meter.count(ROUND_STEPS);
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
              if (!at.length) throw templateError('loop.cycle() expects at least one value');
              return at[i % at.length];
            }),
          ],
          [
            'changed',
            new Callable('changed', ({ at }) => {
              const before = lastChanged;
              lastChanged = at;
              return !before || !equal(before, at, meter);
            }),
          ],
        ]),
      );
      scope.set('loop', new Callable('loop', callLoop, members));
      this.#assign(target, items[i], scope);
      const signal = this.#statements(body, scope, out);
      completed ||= !signal;
      if (signal === 'break') break;
    }
    // As in jinja2, `else` runs unless an iteration was completed without break or continue.
    if (!completed) return this.#statements(otherwise, new Scope(outer, node.otherwiseMissing), out);
    return undefined;
  }

  /**
   * Runs a macro or recursive loop one level deeper.
   * @template T @param {string} name @param {() => T} run @returns {T}
   */
  #deeper(name, run) {
    if (++this.#depth > MAX_DEPTH)
      throw Object.assign(
        templateError(`macros and loops call each other more than ${MAX_DEPTH} levels deep (in "${name}")`),
        { details: { depth: MAX_DEPTH } },
      );
    const result = run();
    this.#depth--;
    return result;
  }

  /** @param {Node} target @param {any} value @param {Scope} scope @returns {undefined} */
  #assign(target, value, scope) {
    if (target.type === 'Name') return void scope.set(target.name, value);
    if (target.type === 'Tuple') {
      const items = elements(requireDefined(value), this.#meter);
      if (items.length !== target.items.length)
        throw templateError(`can't assign ${items.length} values to ${target.items.length} names`);
      return target.items.forEach((/** @type {Node} */ name, /** @type {number} */ i) =>
        this.#assign(name, items[i], scope),
      );
    }
    const namespace = scope.get(target.name);
    if (!(namespace instanceof Namespace))
      throw templateError(`can't assign to a member of "${target.name}": it is not a namespace`);
    return void namespace.entries.set(target.member, value);
  }

  /**
   * Creates a macro.
   * @param {string} name @param {Node} node  parameters, body, and the names that the macro reads
   * @param {Scope} outer
   */
  #macro(name, { parameters, body, reads, missing }, outer) {
    return new Callable(name, ({ at, named }) =>
      this.#deeper(name, () => {
        const scope = new Scope(outer, missing);
        /** Named arguments that are not yet assigned to a parameter. */
        const kwargs = new Dict(named);
        parameters.forEach((/** @type {Node} */ parameter, /** @type {number} */ i) => {
          const argument = i < at.length ? at[i] : kwargs.get(parameter.name);
          if (kwargs.has(parameter.name) && i < at.length)
            throw templateError(`the macro "${name}" got two values for its argument "${parameter.name}"`);
          kwargs.delete(parameter.name);
          if (argument !== undefined) scope.set(parameter.name, argument);
          else if (parameter.value) scope.set(parameter.name, this.#value(parameter.value, scope));
          else scope.set(parameter.name, new Undefined(`parameter '${parameter.name}' was not provided: it`));
        });
        if (reads.has('caller')) {
          scope.set('caller', kwargs.get('caller') ?? new Undefined('no caller: it'));
          kwargs.delete('caller');
        }
        if (at.length > parameters.length && !reads.has('varargs'))
          throw templateError(`the macro "${name}" takes at most ${parameters.length} arguments, found ${at.length}`);
        if (kwargs.size && !reads.has('kwargs'))
          throw templateError(`the macro "${name}" has no argument "${[...kwargs.keys()][0]}"`);
        scope.set('varargs', Tuple.from(at.slice(parameters.length)));
        scope.set('kwargs', kwargs);
        return this.#block(body, scope);
      }),
    );
  }

  /** @param {Node[]} nodes @param {Scope} scope @returns {Args} */
  #arguments(nodes, scope) {
    const at = [];
    const named = new Map();
    const addNamed = (/** @type {string} */ key, /** @type {any} */ value) => {
      if (named.has(key)) throw templateError(`the argument "${key}" has two values`);
      named.set(key, value);
    };
    for (const node of nodes) {
      if (node.type === 'Named') addNamed(node.name, this.#value(node.value, scope));
      else if (node.type === 'SpreadNamed') {
        const dict = this.#value(node.value, scope);
        if (!(dict instanceof Map))
          throw templateError(`expected a dict after **, found a value of type ${typeOf(requireDefined(dict))}`);
        for (const [key, value] of dict) addNamed(key, value);
      } else if (node.type === 'Spread')
        for (const value of elements(requireDefined(this.#value(node.value, scope)), this.#meter)) at.push(value);
      else at.push(this.#value(node, scope));
    }
    return { at, named };
  }

  /** @param {any} callee @param {Args} args */
  #call(callee, args) {
    if (!(callee instanceof Callable))
      throw templateError(`can't call a value of type ${typeOf(requireDefined(callee))}`);
    return callee.call(args);
  }

  /** @param {any} value @param {Node[]} filters @param {Scope} scope */
  #applyFilters(value, filters, scope) {
    return filters.reduce(
      (result, { name, args }) => applyFilter(name, result, this.#arguments(args, scope), this.#host),
      value,
    );
  }

  /** @param {Node} node @param {Scope} scope @returns {any} */
  #value(node, scope) {
    this.#meter.count();
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
          this.#meter.countInput(textLength(key));
          if (hasCallerText(key)) dict.hasCallerKeys = true;
          if (typeof key === 'boolean' || typeof key === 'number')
            for (const other of [Number(key), Boolean(key)])
              if (Number(key) === Number(other) && other !== key && dict.has(other))
                throw templateError(
                  `a dict with the keys ${other} and ${key} is not supported: they are the same in Python`,
                );
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
        return this.#applyFilters(this.#value(node.value, scope), [node], scope);
      case 'Test':
        return test(node.name, this.#value(node.value, scope), this.#arguments(node.args, scope), this.#meter);
      case 'Condition':
        if (isTrue(this.#value(node.test, scope))) return this.#value(node.value, scope);
        return node.otherwise ? this.#value(node.otherwise, scope) : new Undefined('a condition without an else');
      case 'Not':
        return !isTrue(this.#value(node.value, scope));
      case 'And': {
        const left = this.#value(node.left, scope);
        return isTrue(left) ? this.#value(node.right, scope) : left;
      }
      case 'Or': {
        const left = this.#value(node.left, scope);
        return isTrue(left) ? left : this.#value(node.right, scope);
      }
      case 'Compare':
        return this.#comparison(node, scope);
      case 'Concat':
        return joinTexts(
          node.items.map((/** @type {Node} */ item) => this.#value(item, scope)),
          this.#meter,
        );
      case 'Sign':
        return this.#sign(node.operator, this.#value(node.value, scope));
      case 'Operation':
        return this.#operation(
          node.operator,
          requireDefined(this.#value(node.left, scope)),
          requireDefined(this.#value(node.right, scope)),
        );
      default:
        throw templateError(`unexpected node ${node.type} in an expression`);
    }
  }

  /** @param {Node} node @param {Scope} scope */
  #subscript({ object, key }, scope) {
    const value = this.#value(object, scope);
    if (key.type !== 'Slice') return this.#item(value, this.#value(key, scope), false);
    const [start, stop, step] = [key.start, key.stop, key.step].map((part) => {
      const bound = part ? this.#value(part, scope) : null;
      return bound === null ? null : requireInteger(bound);
    });
    return this.#slice(value, start, stop, step ?? 1);
  }

  /**
   * Returns `value.name`, where methods take precedence over entries, or `value[name]`, where entries take precedence.
   * @param {any} value @param {any} name @param {boolean} dot  whether it is `value.name`
   */
  #item(value, name, dot) {
    requireDefined(value);
    const bindMethod = () => {
      const call = method(value, name);
      return call && new Callable(stringOf(name), (args) => call(args, this.#meter));
    };
    if (dot) {
      const bound = bindMethod();
      if (bound) return bound;
    }
    const missing = () =>
      new Undefined(
        `'${typeOf(value)}' object has no ${typeof name === 'number' ? 'element' : 'attribute'} ${isText(name) ? stringOf(name).slice(0, 100) : isNumber(name) ? numberOf(name) : typeOf(name)}: it`,
      );
    if (value instanceof Map) {
      this.#meter.countInput(textLength(name));
      const entry =
        Array.isArray(name) || name instanceof Map || name instanceof Undefined || name instanceof Float
          ? undefined
          : lookUp(value, name);
      if (entry !== undefined) return entry;
    } else if (value instanceof Namespace) {
      if (value.entries.has(stringOf(name))) return value.entries.get(stringOf(name));
    } else if (value instanceof Callable) {
      const member = value.members.get(stringOf(name));
      if (member !== undefined) return member;
      if (!value.members.size) throw templateError(`members of functions are not supported: "${stringOf(name)}"`);
    } else if (value instanceof Tuple && value.names?.has(stringOf(name))) return value.names.get(stringOf(name));
    else if (typeof name === 'number' || typeof name === 'boolean') {
      const i = Number(name);
      if (isText(value)) return characterOf(value, i, this.#meter) ?? missing();
      if (Array.isArray(value) && !(value instanceof Lazy) && (!(value instanceof View) || value.kind === 'range')) {
        const item = value[i < 0 ? i + value.length : i];
        return item === undefined ? missing() : item;
      }
    }
    return (dot ? undefined : bindMethod()) ?? missing();
  }

  /** @param {any} value @param {number | null} start @param {number | null} stop @param {number} step */
  #slice(value, start, stop, step) {
    const meter = this.#meter;
    const list =
      Array.isArray(value) && !(value instanceof Lazy) && (!(value instanceof View) || value.kind === 'range');
    if (!list && !isText(value)) throw templateError(`can't slice a value of type ${typeOf(requireDefined(value))}`);
    if (isSafe(value)) throw templateError('slices of safe strings are not supported');
    if (!step) throw templateError('the step of a slice must not be 0');
    const n = isText(value) ? lengthOf(stringOf(value), meter) : value.length;
    const [low, high] = step > 0 ? [0, n] : [-1, n - 1];
    const place = (/** @type {number | null} */ at, /** @type {number} */ otherwise) =>
      at === null ? otherwise : Math.min(Math.max(at < 0 ? at + n : at, low), high);
    const [begin, end] = [place(start, step > 0 ? 0 : n - 1), place(stop, step > 0 ? n : -1)];
    if (isText(value) && step === 1) {
      if (end <= begin) return '';
      return cut(value, characterOffset(stringOf(value), begin, meter), characterOffset(stringOf(value), end, meter));
    }
    const all = isText(value) ? charactersOf(value, meter) : value;
    meter.countItems(Math.max(0, (end - begin) / step));
    const result = [];
    for (let i = begin; step > 0 ? i < end : i > end; i += step) result.push(all[i]);
    if (isText(value)) return concat(['', ...result]);
    if (value instanceof View)
      throw templateError('slices of a range are not supported: convert it by the filter list');
    return value instanceof Tuple ? Tuple.from(result) : result;
  }

  /** @param {string} operator @param {any} value */
  #sign(operator, value) {
    if (!isNumber(requireDefined(value)))
      throw templateError(`expected a number after ${operator}, found a value of type ${typeOf(value)}`);
    const number = operator === '-' ? -numberOf(value) : numberOf(value);
    return value instanceof Float ? new Float(number) : number + 0;
  }

  /** Evaluates a chain of comparisons: `a < b < c` means `a < b and b < c`. @param {Node} node @param {Scope} scope */
  #comparison({ left, rest }, scope) {
    let a = this.#value(left, scope);
    for (const [operator, node] of rest) {
      const b = this.#value(node, scope);
      if (!this.#compare(operator, a, b)) return false;
      a = b;
    }
    return true;
  }

  /** @param {string} operator @param {any} a @param {any} b @returns {boolean} */
  #compare(operator, a, b) {
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

  /** Joins two texts. If one of them is safe, the other one is escaped. @param {AnyText} a @param {AnyText} b */
  #join(a, b) {
    const meter = this.#meter;
    const safe = isSafe(a) || isSafe(b);
    meter.countOutput(stringOf(a).length + stringOf(b).length);
    const part = (/** @type {AnyText} */ text) => (safe && !isSafe(text) ? escapeHtml(text, meter) : text);
    const text = meter.countText(concat([part(a), part(b)]));
    return safe ? withSafeMark(text) : text;
  }

  /** @param {string} operator @param {any} a @param {any} b */
  #operation(operator, a, b) {
    const meter = this.#meter;
    if (isNumber(a) && isNumber(b)) return arithmetic(operator, a, b, checkInteger);
    if (operator === '+' && isText(a) && isText(b)) return this.#join(a, b);
    const list = (/** @type {any} */ value) =>
      Array.isArray(value) && !(value instanceof Lazy) && !(value instanceof View);
    if (operator === '+' && list(a) && list(b) && typeOf(a) === typeOf(b)) {
      meter.countItems(a.length + b.length);
      return a.concat(b);
    }
    if (operator === '%' && isText(a) && !isSafe(a)) return formatPercent(a, b, meter);
    const count = (/** @type {any} */ value) => typeof value === 'number' || typeof value === 'boolean';
    const [many, times] = count(a) ? [b, Math.max(Number(a), 0)] : [a, count(b) ? Math.max(Number(b), 0) : NaN];
    if (operator === '*' && !Number.isNaN(times) && ((isText(many) && !isSafe(many)) || list(many))) {
      if (isText(many)) {
        meter.countOutput(stringOf(many).length * times);
        if (!hasCallerText(many)) return stringOf(many).repeat(times);
        meter.countItems(times);
        return concat(['', ...Array(times).fill(many)]);
      }
      const length = many.length * times;
      meter.countItems(length);
      const repeated = Array.from({ length }, (_, i) => many[i % many.length]);
      return many instanceof Tuple ? Tuple.from(repeated) : repeated;
    }
    throw templateError(`the operation ${typeOf(a)} ${operator} ${typeOf(b)} is not supported`);
  }
}
