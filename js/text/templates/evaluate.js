/**
 * Evaluates the tree of a template: statements write text, expressions have values. Scopes are Jinja's; operators are
 * Python's (operators.js).
 */
import { applyFilter, test } from './filters.js';
import { compareBy, memberOf, operate, signed, sliceOf } from './operators.js';
import { concat, hasCallerText, isText } from './template-texts.js';
import { textLength } from './text-operations.js';
import {
  Callable,
  Dict,
  elements,
  equal,
  Float,
  isTrue,
  joinTexts,
  keyOf,
  Namespace,
  requireDefined,
  requireInteger,
  templateError,
  toText,
  Tuple,
  typeOf,
  Undefined,
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

/** `loop.cycle()` of an iteration. @param {number} i */
const cycleAt = (i) =>
  new Callable('cycle', ({ at }) => {
    if (!at.length) throw templateError('loop.cycle() expects at least one value');
    return at[i % at.length];
  });

/**
 * Returns the members of `loop` in an iteration.
 * @param {any[]} items @param {number} i  number of the iteration, from 0 @param {number} depth  of recursive loops, from 1
 * @param {Callable} changed  `loop.changed()`, which is the same in all iterations
 * @returns {Map<string, any>}
 */
const loopMembers = (items, i, depth, changed) =>
  new Map(
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
      ['cycle', cycleAt(i)],
      ['changed', changed],
    ]),
  );

export class Evaluator {
  #meter;
  #depth = 0;
  /** @type {import('./filters.js').Host} */
  #host;

  /** @param {Meter} meter */
  constructor(meter) {
    this.#meter = meter;
    this.#host = { meter, member: (value, name) => memberOf(value, name, false, meter) };
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
    const changed = new Callable('changed', ({ at }) => {
      const before = lastChanged;
      lastChanged = at;
      return !before || !equal(before, at, meter);
    });
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
      scope.set('loop', new Callable('loop', callLoop, loopMembers(items, i, depth, changed)));
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
        this.#bindArguments(name, { parameters, reads }, { at, named }, scope);
        return this.#block(body, scope);
      }),
    );
  }

  /**
   * Assigns the arguments of a macro's call to its parameters.
   * @param {string} name  of the macro @param {{ parameters: Node[], reads: Set<string> }} macro @param {Args} args
   * @param {Scope} scope  of the macro's body
   */
  #bindArguments(name, { parameters, reads }, { at, named }, scope) {
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
      case 'Dict':
        return this.#dict(node, scope);
      case 'Call':
        return this.#call(this.#value(node.callee, scope), this.#arguments(node.args, scope));
      case 'Attribute':
        return memberOf(this.#value(node.object, scope), node.name, true, this.#meter);
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
        return signed(node.operator, this.#value(node.value, scope));
      case 'Operation':
        return operate(
          node.operator,
          requireDefined(this.#value(node.left, scope)),
          requireDefined(this.#value(node.right, scope)),
          this.#meter,
        );
      default:
        throw templateError(`unexpected node ${node.type} in an expression`);
    }
  }

  /** @param {Node} node @param {Scope} scope */
  #dict({ entries }, scope) {
    const dict = new Dict();
    for (const [left, right] of entries) {
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

  /** @param {Node} node @param {Scope} scope */
  #subscript({ object, key }, scope) {
    const value = this.#value(object, scope);
    if (key.type !== 'Slice') return memberOf(value, this.#value(key, scope), false, this.#meter);
    const [start, stop, step] = [key.start, key.stop, key.step].map((part) => {
      const bound = part ? this.#value(part, scope) : null;
      return bound === null ? null : requireInteger(bound);
    });
    return sliceOf(value, start, stop, step ?? 1, this.#meter);
  }

  /** Evaluates a chain of comparisons: `a < b < c` means `a < b and b < c`. @param {Node} node @param {Scope} scope */
  #comparison({ left, rest }, scope) {
    let a = this.#value(left, scope);
    for (const [operator, node] of rest) {
      const b = this.#value(node, scope);
      if (!compareBy(operator, a, b, this.#meter)) return false;
      a = b;
    }
    return true;
  }
}
