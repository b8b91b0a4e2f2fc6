/** Parses the expressions of a template: operators, filters, tests, calls; targets of assignments; parameters of macros. */
import { isFilter, isTest } from './filters.js';
import { syntax } from './lexer.js';

/** @import { BqError } from '../../shared/errors.js' */
/** @import { Node } from './parse.js' */
/** @import { TokenReader } from './token-reader.js' */

/** Values of names that are constants. */
const CONSTANTS = new Map(
  /** @type {[string, any][]} */ ([
    ['true', true],
    ['True', true],
    ['false', false],
    ['False', false],
    ['none', null],
    ['None', null],
  ]),
);
const COMPARISONS = ['==', '!=', '<', '<=', '>', '>='];

export class ExpressionParser {
  /** @type {TokenReader} */
  #tokens;
  /** Whether unknown filters and tests are errors only during rendering (see `conditionally`). */
  #isConditional = false;
  /** Errors of unknown filters and tests. @type {BqError[]} */
  unknownErrors = [];
  /**
   * Names that are read in each macro around the current expression; the innermost macro is last.
   * @type {Set<string>[]}
   */
  #macroReads = [];

  /** @param {TokenReader} tokens */
  constructor(tokens) {
    this.#tokens = tokens;
  }

  /**
   * Parses a part of an `if`, in which unknown filters and tests are errors only when they are used. As in jinja2, this
   * does not apply to scopes inside it (loops, macros, blocks), which `scope` parses.
   * @template T @param {() => T} parse @param {boolean} [isConditional] @returns {T}
   */
  conditionally(parse, isConditional = true) {
    const before = this.#isConditional;
    this.#isConditional = isConditional;
    const result = parse();
    this.#isConditional = before;
    return result;
  }

  /** Parses a part that has its own scope in jinja2. @template T @param {() => T} parse @returns {T} */
  scope(parse) {
    return this.conditionally(parse, false);
  }

  /** @param {string} subject  of the message */
  #reportUnknown(subject) {
    if (!this.#isConditional) this.unknownErrors.push(syntax(`unknown ${subject}`, this.#tokens.current.line));
  }

  /**
   * Parses the body of a macro, and collects the names that it reads.
   * @template T @param {() => T} parse @returns {{ body: T, reads: Set<string> }}
   */
  withReads(parse) {
    /** @type {Set<string>} */
    const reads = new Set();
    this.#macroReads.push(reads);
    const body = parse();
    this.#macroReads.pop();
    for (const name of reads) this.#macroReads.at(-1)?.add(name);
    return { body, reads };
  }

  /** Parses the parameters of a macro. @returns {Node[]} */
  signature() {
    /** @type {Node[]} */
    const parameters = [];
    this.#tokens.expect('(');
    while (!this.#tokens.isOperator(')')) {
      if (parameters.length) this.#tokens.expect(',');
      const name = this.#tokens.name();
      if (CONSTANTS.has(name)) this.#tokens.fail(`"${name}" can't be the name of a parameter`);
      const value = this.#tokens.skip('=') ? this.scope(() => this.expression()) : null;
      if (!value && parameters.at(-1)?.value)
        this.#tokens.fail(`"${name}" needs a default value, as the parameter before it has one`);
      parameters.push({ type: 'Parameter', name, value });
    }
    this.#tokens.expect(')');
    return parameters;
  }

  /**
   * Parses the target of an assignment.
   * @param {string | null} [end]  name that may follow the target
   * @param {boolean} [namespace]  whether the target may be a member of a namespace
   * @returns {Node}
   */
  target(end = null, namespace = false) {
    const next = this.#tokens.next;
    if (namespace && this.#tokens.current.type === 'name' && next?.type === 'operator' && next.value === '.') {
      const name = this.#tokens.name();
      this.#tokens.take();
      return { type: 'Member', name, member: this.#tokens.name() };
    }
    const target = this.tuple({ simple: true, ends: end ? [end] : [] });
    const check = (/** @type {Node} */ node) => {
      if (node.type === 'Tuple') node.items.forEach(check);
      else if (node.type !== 'Name') this.#tokens.fail('expected a name to assign a value to');
    };
    check(target);
    return target;
  }

  /**
   * Parses an expression, or a tuple of several expressions with commas between them.
   * @param {{ simple?: boolean, conditional?: boolean, ends?: string[], brackets?: boolean }} [options] simple: without
   *   operators; conditional: whether `if` is allowed; ends: names that may follow; brackets: whether it is in
   *   parentheses, so that it may be empty
   * @returns {Node}
   */
  tuple({ simple = false, conditional = true, ends = [], brackets = false } = {}) {
    /** @type {Node[]} */
    const items = [];
    let several = false;
    for (;;) {
      if (items.length) this.#tokens.expect(',');
      const { type } = this.#tokens.current;
      if (
        type === 'variable_end' ||
        type === 'block_end' ||
        this.#tokens.isOperator(')') ||
        this.#tokens.isName(...ends)
      )
        break;
      items.push(simple ? this.#primary() : this.expression(conditional));
      if (!this.#tokens.isOperator(',')) break;
      several = true;
    }
    if (!several && items.length) return items[0];
    if (!several && !brackets) this.#tokens.fail(`expected an expression, found ${this.#tokens.describe()}`);
    return { type: 'Tuple', items };
  }

  /**
   * Parses one expression.
   * @param {boolean} [conditional]  whether `if` is allowed @returns {Node}
   */
  expression(conditional = true) {
    return this.#tokens.nested(() => (conditional ? this.#condition() : this.#or()));
  }

  /** @returns {Node} */
  #condition() {
    const before = this.unknownErrors.length;
    let value = this.#or();
    while (this.#tokens.skipName('if')) {
      const test = this.#or();
      const otherwise = this.#tokens.skipName('else') ? this.#tokens.nested(() => this.#condition()) : null;
      this.unknownErrors.length = before; // `value` was conditional, which is only visible at `if`
      value = { type: 'Condition', test, value, otherwise };
    }
    return value;
  }

  #or() {
    let left = this.#and();
    while (this.#tokens.skipName('or')) left = { type: 'Or', left, right: this.#and() };
    return left;
  }

  #and() {
    let left = this.#not();
    while (this.#tokens.skipName('and')) left = { type: 'And', left, right: this.#not() };
    return left;
  }

  /** @returns {Node} */
  #not() {
    if (this.#tokens.skipName('not')) return { type: 'Not', value: this.#tokens.nested(() => this.#not()) };
    return this.#comparison();
  }

  /** @returns {Node} */
  #comparison() {
    const left = this.#sum();
    /** @type {[string, Node][]} */
    const rest = [];
    for (;;) {
      const next = this.#tokens.next;
      if (this.#tokens.isOperator(...COMPARISONS)) rest.push([this.#tokens.take().value, this.#sum()]);
      else if (this.#tokens.skipName('in')) rest.push(['in', this.#sum()]);
      else if (this.#tokens.isName('not') && next.type === 'name' && next.value === 'in') {
        this.#tokens.take();
        this.#tokens.take();
        rest.push(['not in', this.#sum()]);
      } else return rest.length ? { type: 'Compare', left, rest } : left;
    }
  }

  /** @param {() => Node} operand @param {string[]} operators @returns {Node} */
  #operators(operand, ...operators) {
    let left = operand();
    while (this.#tokens.isOperator(...operators)) {
      const operator = this.#tokens.take().value;
      left = { type: 'Operation', operator, left, right: operand() };
    }
    return left;
  }

  #sum() {
    return this.#operators(() => this.#concatenation(), '+', '-');
  }

  /** @returns {Node} */
  #concatenation() {
    const items = [this.#product()];
    while (this.#tokens.skip('~')) items.push(this.#product());
    return items.length > 1 ? { type: 'Concat', items } : items[0];
  }

  #product() {
    return this.#operators(() => this.#power(), '*', '/', '//', '%');
  }

  #power() {
    return this.#operators(() => this.#unary(), '**');
  }

  /** @param {boolean} [hasFilters]  whether filters and tests may follow @returns {Node} */
  #unary(hasFilters = true) {
    /** @type {Node} */
    let node;
    if (this.#tokens.isOperator('-', '+')) {
      const operator = this.#tokens.take().value;
      node = { type: 'Sign', operator, value: this.#tokens.nested(() => this.#unary(false)) };
    } else node = this.#primary();
    node = this.#postfix(node);
    return hasFilters ? this.#filtersAndTests(node) : node;
  }

  /** @returns {Node} */
  #primary() {
    const { type, value } = this.#tokens.current;
    if (type === 'name') {
      this.#tokens.take();
      if (CONSTANTS.has(value)) return { type: 'Constant', value: CONSTANTS.get(value) };
      this.#macroReads.at(-1)?.add(value);
      return { type: 'Name', name: value };
    }
    if (type === 'string') {
      let text = '';
      while (this.#tokens.current.type === 'string') text += this.#tokens.take().value;
      return { type: 'Constant', value: text };
    }
    if (type === 'integer') {
      this.#tokens.take();
      if (!Number.isSafeInteger(Number(value)))
        this.#tokens.fail(`the integer ${value} is not supported: it is beyond 2^53`);
      return { type: 'Constant', value: Number(value) };
    }
    if (type === 'float') {
      this.#tokens.take();
      return { type: 'Float', value };
    }
    if (this.#tokens.skip('(')) {
      const inner = this.#tokens.nested(() => this.tuple({ brackets: true }));
      this.#tokens.expect(')');
      return inner;
    }
    if (this.#tokens.skip('[')) return { type: 'List', items: this.#items(']', () => this.expression()) };
    if (this.#tokens.skip('{'))
      return {
        type: 'Dict',
        entries: this.#items('}', () => {
          const key = this.expression();
          this.#tokens.expect(':');
          return [key, this.expression()];
        }),
      };
    return this.#tokens.fail(`expected an expression, found ${this.#tokens.describe()}`);
  }

  /**
   * Parses items with commas between them, up to and including the closing bracket.
   * @template T @param {string} end @param {() => T} parse @returns {T[]}
   */
  #items(end, parse) {
    /** @type {T[]} */
    const items = [];
    while (!this.#tokens.isOperator(end)) {
      if (items.length) this.#tokens.expect(',');
      if (this.#tokens.isOperator(end)) break;
      items.push(this.#tokens.nested(parse));
    }
    this.#tokens.expect(end);
    return items;
  }

  /** @param {Node} node @returns {Node} */
  #postfix(node) {
    for (;;) {
      if (this.#tokens.skip('.')) {
        const { type, value } = this.#tokens.current;
        if (type !== 'name' && type !== 'integer')
          this.#tokens.fail(`expected a name or a number, found ${this.#tokens.describe()}`);
        this.#tokens.take();
        if (type === 'name') node = { type: 'Attribute', object: node, name: value };
        else node = { type: 'Item', object: node, key: { type: 'Constant', value: Number(value) } };
      } else if (this.#tokens.skip('[')) {
        const keys = this.#items(']', () => this.#subscript());
        if (keys.length !== 1) this.#tokens.fail('expected one index');
        node = { type: 'Item', object: node, key: keys[0] };
      } else if (this.#tokens.isOperator('(')) node = { type: 'Call', callee: node, args: this.#arguments() };
      else return node;
    }
  }

  /** @returns {Node} */
  #subscript() {
    const part = () => (this.#tokens.isOperator(':', ']', ',') ? null : this.expression());
    const start = part();
    if (!this.#tokens.skip(':')) return /** @type {Node} */ (start ?? this.#tokens.fail('expected an index'));
    const stop = part();
    return { type: 'Slice', start, stop, step: this.#tokens.skip(':') ? part() : null };
  }

  /** @returns {Node[]} */
  #arguments() {
    this.#tokens.expect('(');
    let last = '';
    return this.#items(')', () => {
      const next = this.#tokens.next;
      /** @type {Node} */
      let argument;
      if (this.#tokens.skip('*')) argument = { type: 'Spread', value: this.expression() };
      else if (this.#tokens.skip('**')) argument = { type: 'SpreadNamed', value: this.expression() };
      else if (this.#tokens.current.type === 'name' && next.type === 'operator' && next.value === '=') {
        const name = this.#tokens.name();
        this.#tokens.take();
        argument = { type: 'Named', name, value: this.expression() };
      } else argument = this.expression();
      const { type } = argument;
      const kind = ['Spread', 'SpreadNamed', 'Named'].includes(type) ? type : '';
      if (last === 'SpreadNamed' || (kind === '' && last) || (kind === 'Spread' && last === 'Spread'))
        this.#tokens.fail('arguments are in the wrong order: expected positional ones, *list, named ones, **dict');
      last = kind || last;
      return argument;
    });
  }

  /** Parses the filters, tests and calls after an expression. @param {Node} node @returns {Node} */
  #filtersAndTests(node) {
    for (;;) {
      if (this.#tokens.isOperator('|'))
        node = this.filters(false).reduce((value, filter) => ({ ...filter, value }), node);
      else if (this.#tokens.isName('is')) node = this.#test(node);
      else if (this.#tokens.isOperator('(')) node = { type: 'Call', callee: node, args: this.#arguments() };
      else return node;
    }
  }

  #dotted() {
    let name = this.#tokens.name();
    while (this.#tokens.skip('.')) name += `.${this.#tokens.name()}`;
    return name;
  }

  /** Parses filters. @param {boolean} inline  whether the first one has no | before it @returns {Node[]} */
  filters(inline) {
    /** @type {Node[]} */
    const filters = [];
    while (inline || this.#tokens.isOperator('|')) {
      if (!inline) this.#tokens.take();
      inline = false;
      const name = this.#dotted();
      if (!isFilter(name)) this.#reportUnknown(`filter "${name}"`);
      filters.push({ type: 'Filter', name, args: this.#tokens.isOperator('(') ? this.#arguments() : [] });
    }
    return filters;
  }

  /** @param {Node} value @returns {Node} */
  #test(value) {
    this.#tokens.take();
    const negated = this.#tokens.skipName('not');
    const name = this.#dotted();
    if (!isTest(name)) this.#reportUnknown(`test "${name}"`);
    const { type } = this.#tokens.current;
    /** @type {Node[]} */
    let args = [];
    if (this.#tokens.isOperator('(')) args = this.#arguments();
    else if (
      (['name', 'string', 'integer', 'float'].includes(type) && !this.#tokens.isName('else', 'or', 'and')) ||
      this.#tokens.isOperator('[', '{')
    ) {
      if (this.#tokens.isName('is'))
        this.#tokens.fail('a test must not follow another one: put parentheses around the first');
      args = [this.#postfix(this.#primary())];
    }
    const test = { type: 'Test', value, name, args };
    return negated ? { type: 'Not', value: test } : test;
  }
}
