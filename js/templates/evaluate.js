/** Walks a parsed template: statements into text, expressions into values, with Jinja's scopes and Python's operators. */
import { applyFilter, contains, escaped, test } from './filters.js';
import { method, percent, textOf } from './methods.js';
import {
  compare,
  defined,
  elements,
  equal,
  Float,
  isNumber,
  isText,
  Lazy,
  Namespace,
  numberOf,
  plain,
  Safe,
  str,
  templateError,
  truth,
  Tuple,
  typeOf,
  Undefined,
} from './values.js';

/** @typedef {import('./values.js').Meter} Meter */
/** A node as the parser makes it. @typedef {any} Node */
/** What a statement may do to the loop around it. @typedef {'break' | 'continue' | undefined} Signal */

/** Macros inside each other, at most: far fewer than a stack has room for. */
const DEEPEST = 100;

/** What beginning another round of a loop costs, in steps. */
const ROUND = 10;

/** Names, looked up from the inside out. */
class Scope {
  /** @type {Map<string, any>} */
  #names = new Map();
  #outer;

  /** @param {Scope | null} outer */
  constructor(outer) {
    this.#outer = outer;
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
    this.#host = { meter, member: (value, name) => this.#item(value, name, true) };
  }

  /** @param {Node} program @param {Record<string, any>} names @returns {string} */
  run(program, names) {
    const scope = new Scope(null);
    for (const [name, value] of Object.entries(names)) scope.set(name, value);
    return this.#block(program.body, scope);
  }

  /** @param {Node[]} body @param {Scope} scope @returns {string} */
  #block(body, scope) {
    /** @type {string[]} */
    const out = [];
    this.#statements(body, scope, out);
    return this.#meter.text(out.join(''));
  }

  /** @param {Node[]} body @param {Scope} scope @param {string[]} out @returns {Signal} */
  #statements(body, scope, out) {
    for (const node of body) {
      const signal = this.#statement(node, scope, out);
      if (signal) return signal;
    }
    return undefined;
  }

  /** @param {Node} node @param {Scope} scope @param {string[]} out @returns {Signal} */
  #statement(node, scope, out) {
    this.#meter.spend();
    switch (node.type) {
      case 'Comment':
        return undefined;
      case 'Break':
        return 'break';
      case 'Continue':
        return 'continue';
      case 'If':
        return this.#statements(truth(this.#value(node.test, scope)) ? node.body : node.alternate, scope, out);
      case 'For':
        return this.#for(node, scope, out);
      case 'Set':
        return void this.#assign(
          node.assignee,
          node.value ? this.#value(node.value, scope) : this.#block(node.body, new Scope(scope)),
          scope,
        );
      case 'Macro':
        return void scope.set(node.name.value, this.#macro(node.name.value, node.args, node.body, scope));
      case 'FilterStatement':
        out.push(str(this.#filter(this.#block(node.body, new Scope(scope)), node.filter, scope), this.#meter));
        return undefined;
      case 'CallStatement': {
        const { at, named } = this.#arguments(node.call.args, scope);
        named.set('caller', this.#macro('caller', node.callerArgs ?? [], node.body, scope));
        out.push(str(this.#call(this.#value(node.call.callee, scope), { at, named }), this.#meter));
        return undefined;
      }
      default:
        out.push(this.#meter.text(str(this.#value(node, scope), this.#meter)));
        return undefined;
    }
  }

  /** @param {Node} node @param {Scope} outer @param {string[]} out @returns {Signal} */
  #for({ loopvar, iterable, body, defaultBlock }, outer, out) {
    const filtered = iterable.type === 'SelectExpression';
    let items = elements(this.#value(filtered ? iterable.lhs : iterable, outer));
    if (filtered) {
      items = items.filter((item) => {
        const scope = new Scope(outer);
        this.#assign(loopvar, item, scope);
        return truth(this.#value(iterable.test, scope));
      });
    }
    if (!items.length) return this.#statements(defaultBlock, new Scope(outer), out);
    let changed = /** @type {any[] | null} */ (null);
    for (let i = 0; i < items.length; i++) {
      this.#meter.spend(ROUND);
      const scope = new Scope(outer);
      this.#assign(loopvar, items[i], scope);
      scope.set(
        'loop',
        new Map(
          Object.entries({
            index: i + 1,
            index0: i,
            revindex: items.length - i,
            revindex0: items.length - i - 1,
            first: i === 0,
            last: i === items.length - 1,
            length: items.length,
            depth: 1,
            depth0: 0,
            previtem: items[i - 1] ?? new Undefined("'previtem'"),
            nextitem: items[i + 1] ?? new Undefined("'nextitem'"),
            cycle: (/** @type {any} */ { at }) => at[i % at.length],
            changed: (/** @type {any} */ { at }) => {
              const before = changed;
              changed = at;
              return !before || !equal(before, at, this.#meter);
            },
          }),
        ),
      );
      if (this.#statements(body, scope, out) === 'break') break;
    }
    return undefined;
  }

  /** @param {Node} target @param {any} value @param {Scope} scope */
  #assign(target, value, scope) {
    if (target.type === 'Identifier') return scope.set(target.value, value);
    if (target.type === 'TupleLiteral') {
      const items = elements(value);
      if (items.length !== target.value.length)
        throw templateError(`${items.length} values for ${target.value.length} names`);
      return target.value.forEach((/** @type {Node} */ name, /** @type {number} */ i) =>
        this.#assign(name, items[i], scope),
      );
    }
    const holder = target.type === 'MemberExpression' && this.#value(target.object, scope);
    if (!(holder instanceof Namespace) || target.property.type !== 'Identifier')
      throw templateError('only a namespace can be given values');
    return void holder.entries.set(target.property.value, value);
  }

  /** @param {string} name @param {Node[]} parameters @param {Node[]} body @param {Scope} outer */
  #macro(name, parameters, body, outer) {
    return (/** @type {import('./methods.js').Args} */ { at, named }) => {
      if (++this.#depth > DEEPEST) throw templateError(`macros ${DEEPEST} deep in each other ("${name}")`);
      const scope = new Scope(outer);
      const rest = new Map(named);
      parameters.forEach((parameter, i) => {
        const [key, otherwise] =
          parameter.type === 'Identifier' ? [parameter.value] : [parameter.key.value, parameter.value];
        const given = i < at.length ? at[i] : rest.get(key);
        scope.set(
          key,
          given ??
            (given === null ? null : otherwise ? this.#value(otherwise, scope) : new Undefined(`parameter '${key}'`)),
        );
        rest.delete(key);
      });
      if (rest.has('caller')) scope.set('caller', rest.get('caller'));
      scope.set('varargs', Tuple.from(at.slice(parameters.length)));
      scope.set('kwargs', rest);
      const text = this.#block(body, scope);
      this.#depth--;
      return text;
    };
  }

  /** @param {Node[]} nodes @param {Scope} scope @returns {import('./methods.js').Args} */
  #arguments(nodes, scope) {
    const at = [];
    const named = new Map();
    for (const node of nodes) {
      if (node.type === 'KeywordArgumentExpression') named.set(node.key.value, this.#value(node.value, scope));
      else if (node.type === 'KeywordSpreadExpression')
        for (const [key, value] of this.#value(node.argument, scope)) named.set(key, value);
      else if (node.type === 'SpreadExpression')
        for (const value of elements(this.#value(node.argument, scope))) at.push(value);
      else at.push(this.#value(node, scope));
    }
    return { at, named };
  }

  /** @param {any} callee @param {import('./methods.js').Args} args */
  #call(callee, args) {
    if (typeof callee !== 'function') throw templateError(`a ${typeOf(defined(callee))} can't be called`);
    return callee(args, this.#meter);
  }

  /** @param {any} value @param {Node} node @param {Scope} scope */
  #filter(value, node, scope) {
    const call = node.type === 'CallExpression';
    return applyFilter(
      (call ? node.callee : node).value,
      value,
      call ? this.#arguments(node.args, scope) : { at: [], named: new Map() },
      this.#host,
    );
  }

  /** @param {Node} node @param {Scope} scope @returns {any} */
  #value(node, scope) {
    this.#meter.spend();
    switch (node.type) {
      case 'StringLiteral':
      case 'IntegerLiteral':
        return node.value;
      case 'FloatLiteral':
        return new Float(node.value);
      case 'Identifier':
        return scope.get(node.value);
      case 'ArrayLiteral':
        return node.value.map((/** @type {Node} */ item) => this.#value(item, scope));
      case 'TupleLiteral':
        return Tuple.from(node.value.map((/** @type {Node} */ item) => this.#value(item, scope)));
      case 'ObjectLiteral':
        return new Map(
          [...node.value].map(([key, value]) => [plain(this.#value(key, scope)), this.#value(value, scope)]),
        );
      case 'CallExpression':
        return this.#call(this.#value(node.callee, scope), this.#arguments(node.args, scope));
      case 'MemberExpression':
        return this.#member(node, scope);
      case 'FilterExpression':
        return this.#filter(this.#value(node.operand, scope), node.filter, scope);
      case 'TestExpression':
        return test(node.test.value, this.#value(node.operand, scope), [], this.#meter) !== node.negate;
      case 'Ternary':
        return this.#value(truth(this.#value(node.condition, scope)) ? node.trueExpr : node.falseExpr, scope);
      case 'SelectExpression':
        return truth(this.#value(node.test, scope))
          ? this.#value(node.lhs, scope)
          : new Undefined('a condition without an else');
      case 'UnaryExpression':
        return this.#unary(node.operator.value, this.#value(node.argument, scope));
      case 'BinaryExpression':
        return this.#binary(node, scope);
      default:
        throw templateError(`${node.type} where a value belongs`);
    }
  }

  /** @param {Node} node @param {Scope} scope */
  #member({ object, property, computed }, scope) {
    const value = this.#value(object, scope);
    if (!computed) return this.#item(value, property.value, true);
    if (property.type !== 'SliceExpression') return this.#item(value, this.#value(property, scope), false);
    const [start, stop, step] = [property.start, property.stop, property.step].map((part) =>
      part ? this.#value(part, scope) : null,
    );
    return this.#slice(value, start, stop, step ?? 1);
  }

  /** `value.name` (a method before an entry), or `value[name]` (the other way round). @param {any} value @param {any} name @param {boolean} dot */
  #item(value, name, dot) {
    defined(value);
    const own = method(value, name);
    const found = dot ? own : undefined;
    if (found) return found;
    if (value instanceof Map && value.has(plain(name))) return value.get(plain(name));
    if (value instanceof Namespace && value.entries.has(name)) return value.entries.get(name);
    if (value instanceof Tuple && value.names?.has(name)) return value.names.get(name);
    if (typeof name === 'number' && (isText(value) || (Array.isArray(value) && !(value instanceof Lazy)))) {
      const item = elements(value).at(name);
      if (item !== undefined) return item;
    }
    return (
      own ??
      new Undefined(
        `'${typeOf(value)}' object has no ${typeof name === 'number' ? 'element' : 'attribute'} ${str(name, this.#meter)}: it`,
      )
    );
  }

  /** @param {any} value @param {number | null} start @param {number | null} stop @param {number} step */
  #slice(value, start, stop, step) {
    if (!Array.isArray(value) && !isText(value)) throw templateError(`a ${typeOf(defined(value))} has no parts`);
    if (!step) throw templateError('a slice in steps of nothing');
    const all = elements(value);
    const n = all.length;
    const [low, high] = step > 0 ? [0, n] : [-1, n - 1];
    const place = (/** @type {number | null} */ at, /** @type {number} */ otherwise) =>
      at === null ? otherwise : Math.min(Math.max(at < 0 ? at + n : at, low), high);
    const end = place(stop, step > 0 ? n : -1);
    const made = [];
    for (let i = place(start, step > 0 ? 0 : n - 1); step > 0 ? i < end : i > end; i += step) made.push(all[i]);
    this.#meter.room(n);
    return isText(value) ? made.join('') : made;
  }

  /** @param {string} operator @param {any} value */
  #unary(operator, value) {
    if (operator === 'not') return !truth(value);
    if (!isNumber(defined(value))) throw templateError(`${operator} of a ${typeOf(value)}`);
    const number = operator === '-' ? -numberOf(value) : numberOf(value);
    return value instanceof Float ? new Float(number) : number + 0;
  }

  /** @param {Node} node @param {Scope} scope */
  #binary({ operator: { value: operator }, left, right }, scope) {
    const a = this.#value(left, scope);
    if (operator === 'and') return truth(a) ? this.#value(right, scope) : a;
    if (operator === 'or') return truth(a) ? a : this.#value(right, scope);
    const b = this.#value(right, scope);
    switch (operator) {
      case '==':
        return equal(a, b, this.#meter);
      case '!=':
        return !equal(a, b, this.#meter);
      case 'in':
        return contains(b, a, this.#meter);
      case 'not in':
        return !contains(b, a, this.#meter);
      case '<':
        return compare(a, b, this.#meter) < 0;
      case '>':
        return compare(a, b, this.#meter) > 0;
      case '<=':
        return compare(a, b, this.#meter) <= 0;
      case '>=':
        return compare(a, b, this.#meter) >= 0;
      case '~':
        return this.#meter.text(str(a, this.#meter) + str(b, this.#meter));
      default:
        return this.#arithmetic(operator, defined(a), defined(b));
    }
  }

  /** Two texts; what is added to a safe one is escaped. @param {any} a @param {any} b */
  #join(a, b) {
    const safe = a instanceof Safe || b instanceof Safe;
    const part = (/** @type {any} */ text) => (safe && !(text instanceof Safe) ? escaped(plain(text)) : plain(text));
    const text = this.#meter.text(part(a) + part(b));
    return safe ? new Safe(text) : text;
  }

  /** @param {string} operator @param {any} a @param {any} b */
  #arithmetic(operator, a, b) {
    if (isNumber(a) && isNumber(b)) return arithmetic(operator, a, b);
    if (operator === '+' && isText(a) && isText(b)) return this.#join(a, b);
    if (operator === '+' && Array.isArray(a) && typeOf(a) === typeOf(b)) {
      this.#meter.room(a.length + b.length);
      return a.concat(b);
    }
    if (operator === '%' && isText(a)) return percent(textOf(a), b, this.#meter);
    const [many, times] = typeof a === 'number' ? [b, a] : [a, b];
    if (operator === '*' && typeof times === 'number' && (isText(many) || Array.isArray(many))) {
      const one = plain(many);
      const length = one.length * Math.max(times, 0);
      this.#meter.room(length);
      return isText(many) ? one.repeat(Math.max(times, 0)) : Array.from({ length }, (_, i) => one[i % one.length]);
    }
    throw templateError(`${typeOf(a)} ${operator} ${typeOf(b)}`);
  }
}

/** @type {Record<string, (a: number, b: number) => number>} */
const NUMBERS = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '//': (a, b) => Math.floor(a / b),
  '%': (a, b) => a - b * Math.floor(a / b),
  '**': (a, b) => a ** b,
};

/** @param {string} operator @param {any} a @param {any} b */
function arithmetic(operator, a, b) {
  const [x, y] = [numberOf(a), numberOf(b)];
  if (!Object.hasOwn(NUMBERS, operator)) throw templateError(`an operator "${operator}" that is not known`);
  if (y === 0 && '//%'.includes(operator)) throw templateError('a division by zero');
  const made = NUMBERS[operator](x, y);
  const float = a instanceof Float || b instanceof Float || operator === '/' || (operator === '**' && y < 0);
  return float ? new Float(made) : made;
}
