/**
 * A template's tree, by the grammar of jinja2's parser: statements as transformers has them (loop controls and
 * `generation` included), not what takes in other files.
 */
import { isFilter, isTest } from './filters.js';
import { syntax, tokenize } from './lexer.js';
import { scope } from './scopes.js';

/** @typedef {import('./lexer.js').Token} Token */
/** A node; `type` says which members it has. @typedef {Record<string, any> & { type: string }} Node */

/** Nodes inside each other, at most: far fewer than a stack has room for. */
const DEEPEST = 400;
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
const OTHERS = ['block', 'extends', 'include', 'from', 'import', 'autoescape'];

class Parser {
  #tokens;
  #at = 0;
  #depth = 0;
  /** Loops around, in this macro. */
  #loops = 0;
  /** Filters and tests that jinja2 doesn't have, where it looks for them before it renders. @type {string[]} */
  #unknown = [];
  /** Names that are read, of each macro that is under way. @type {Set<string>[]} */
  #read = [];

  /** @param {Token[]} tokens */
  constructor(tokens) {
    this.#tokens = tokens;
  }

  get #token() {
    return this.#tokens[this.#at];
  }

  /** Whether the tag ends here. */
  get #ends() {
    return this.#token.type === 'block_end';
  }

  /** @param {string} message @returns {never} */
  #fail(message) {
    throw syntax(message, this.#token.line);
  }

  #shown() {
    const { type, value } = this.#token;
    return type === 'eof' ? "the template's end" : type.endsWith('_end') ? 'the end of the tag' : `"${value}"`;
  }

  /** @param {string[]} operators */
  #is(...operators) {
    return this.#token.type === 'operator' && operators.includes(this.#token.value);
  }

  /** @param {string[]} names */
  #isName(...names) {
    return this.#token.type === 'name' && names.includes(this.#token.value);
  }

  /** @param {string} operator */
  #skip(operator) {
    if (!this.#is(operator)) return false;
    this.#at++;
    return true;
  }

  /** @param {string} name */
  #skipName(name) {
    if (!this.#isName(name)) return false;
    this.#at++;
    return true;
  }

  /** @param {string} operator */
  #expect(operator) {
    if (!this.#skip(operator)) this.#fail(`expected "${operator}", found ${this.#shown()}`);
  }

  #name() {
    if (this.#token.type !== 'name') this.#fail(`expected a name, found ${this.#shown()}`);
    return /** @type {string} */ (this.#tokens[this.#at++].value);
  }

  /** @template T @param {() => T} work @returns {T} */
  #nested(work) {
    if (++this.#depth > DEEPEST) this.#fail(`it is nested more than ${DEEPEST} deep`);
    const made = work();
    this.#depth--;
    return made;
  }

  template() {
    const body = this.#body([]);
    if (this.#unknown.length) this.#fail(`there is no ${this.#unknown[0]}`);
    return { type: 'Template', body, missing: scope(body) };
  }

  /** Statements up to one of `ends`, which is left there. @param {string[]} ends @returns {Node[]} */
  #body(ends) {
    /** @type {Node[]} */
    const body = [];
    for (;;) {
      const { type, value } = this.#token;
      if (type === 'eof') {
        if (ends.length) this.#fail(`expected {% ${ends.join(' %} or {% ')} %}, found the template's end`);
        return body;
      }
      this.#at++;
      if (type === 'data') body.push({ type: 'Data', value });
      else if (type === 'variable_begin') {
        body.push({ type: 'Output', value: this.#tuple() });
        this.#close('variable_end');
      } else {
        if (this.#isName(...ends)) return body;
        body.push(this.#nested(() => this.#statement()));
        this.#close('block_end');
      }
    }
  }

  /** @param {'variable_end' | 'block_end'} type */
  #close(type) {
    if (this.#token.type !== type) this.#fail(`expected the end of the tag, found ${this.#shown()}`);
    this.#at++;
  }

  /** What stands behind a statement's head, up to one of `ends`. @param {string[]} ends */
  #statements(...ends) {
    this.#skip(':');
    this.#close('block_end');
    return this.#body(ends);
  }

  /** The same up to the one end, behind it. @param {string} end */
  #until(end) {
    const body = this.#statements(end);
    this.#at++;
    return body;
  }

  /** A body in which the loop around can't be left. @param {() => Node[]} parse */
  #apart(parse) {
    const loops = this.#loops;
    this.#loops = 0;
    const body = parse();
    this.#loops = loops;
    return body;
  }

  /** @returns {Node} */
  #statement() {
    if (this.#token.type !== 'name') this.#fail(`expected a statement, found ${this.#shown()}`);
    const name = this.#name();
    switch (name) {
      case 'for':
        return this.#for();
      case 'if':
        return this.#if();
      case 'set':
        return this.#set();
      case 'with':
        return this.#with();
      case 'macro': {
        const own = this.#name();
        return { type: 'Macro', name: own, ...this.#macro('endmacro') };
      }
      case 'call': {
        const args = this.#is('(') ? this.#signature() : [];
        const call = this.#expression();
        if (call.type !== 'Call') this.#fail('expected a call');
        return { type: 'CallBlock', call, macro: this.#macroBody(args, 'endcall') };
      }
      case 'filter': {
        const filters = this.#filters(true);
        return { type: 'FilterBlock', filters, body: this.#apart(() => this.#until('endfilter')) };
      }
      case 'generation':
        return { type: 'With', targets: [], values: [], body: this.#apart(() => this.#until('endgeneration')) };
      case 'print': {
        /** @type {Node[]} */
        const values = [];
        while (!this.#ends) {
          if (values.length) this.#expect(',');
          values.push(this.#expression());
        }
        return { type: 'Print', values };
      }
      case 'break':
      case 'continue':
        if (!this.#loops) this.#fail(`a {% ${name} %} outside of a loop`);
        return { type: name };
      default:
        return this.#fail(
          OTHERS.includes(name)
            ? `{% ${name} %} is not supported in a chat template`
            : `there is no statement "${name}" here`,
        );
    }
  }

  /** @returns {Node} */
  #for() {
    const target = this.#target('in');
    if (!this.#skipName('in')) this.#fail(`expected "in", found ${this.#shown()}`);
    const iterable = this.#tuple({ conditional: false, ends: ['recursive'] });
    const test = this.#skipName('if') ? this.#expression() : null;
    const recursive = this.#skipName('recursive');
    this.#loops++;
    const body = this.#statements('endfor', 'else');
    this.#loops--;
    const otherwise = this.#name() === 'else' ? this.#until('endfor') : [];
    return { type: 'For', target, iterable, test, recursive, body, otherwise };
  }

  /** @returns {Node} */
  #if() {
    /** @type {[Node, Node[]][]} */
    const branches = [];
    const before = this.#unknown.length;
    for (;;) {
      const test = this.#tuple({ conditional: false });
      branches.push([test, this.#statements('elif', 'else', 'endif')]);
      const next = this.#name();
      if (next === 'elif') continue;
      const otherwise = next === 'else' ? this.#until('endif') : [];
      this.#unknown.length = before;
      return { type: 'If', branches, otherwise };
    }
  }

  /** @returns {Node} */
  #set() {
    const target = this.#target(null, true);
    if (this.#skip('=')) return { type: 'Set', target, value: this.#tuple() };
    const filters = this.#filters(false);
    return { type: 'SetBlock', target, filters, body: this.#apart(() => this.#until('endset')) };
  }

  /** @returns {Node} */
  #with() {
    const targets = /** @type {Node[]} */ ([]);
    const values = /** @type {Node[]} */ ([]);
    while (!this.#ends) {
      if (targets.length) this.#expect(',');
      targets.push(this.#target());
      this.#expect('=');
      values.push(this.#expression());
    }
    return { type: 'With', targets, values, body: this.#until('endwith') };
  }

  /** @param {string} end */
  #macro(end) {
    return this.#macroBody(this.#signature(), end);
  }

  /** @param {Node[]} parameters @param {string} end */
  #macroBody(parameters, end) {
    /** @type {Set<string>} */
    const reads = new Set();
    this.#read.push(reads);
    const body = this.#apart(() => this.#until(end));
    this.#read.pop();
    for (const name of reads) this.#read.at(-1)?.add(name);
    return { parameters, body, reads };
  }

  /** Parameters of a macro. @returns {Node[]} */
  #signature() {
    /** @type {Node[]} */
    const parameters = [];
    this.#expect('(');
    while (!this.#is(')')) {
      if (parameters.length) this.#expect(',');
      const name = this.#name();
      if (CONSTANTS.has(name)) this.#fail(`"${name}" can not be a parameter`);
      const value = this.#skip('=') ? this.#expression() : null;
      if (!value && parameters.at(-1)?.value) this.#fail('a parameter without a default behind one that has one');
      parameters.push({ type: 'Parameter', name, value });
    }
    this.#expect(')');
    return parameters;
  }

  /** What can be given a value. @param {string | null} [end]  a name that ends it @param {boolean} [namespace] @returns {Node} */
  #target(end = null, namespace = false) {
    const next = this.#tokens[this.#at + 1];
    if (namespace && this.#token.type === 'name' && next?.type === 'operator' && next.value === '.') {
      const name = this.#name();
      this.#at++;
      return { type: 'Member', name, member: this.#name() };
    }
    const target = this.#tuple({ simple: true, ends: end ? [end] : [] });
    const check = (/** @type {Node} */ node) => {
      if (node.type === 'Tuple') node.items.forEach(check);
      else if (node.type !== 'Name') this.#fail('only names can be given values');
    };
    check(target);
    return target;
  }

  /**
   * An expression, or several with commas: a tuple.
   * @param {{ simple?: boolean, conditional?: boolean, ends?: string[], brackets?: boolean }} [how]
   * @returns {Node}
   */
  #tuple({ simple = false, conditional = true, ends = [], brackets = false } = {}) {
    /** @type {Node[]} */
    const items = [];
    let several = false;
    for (;;) {
      if (items.length) this.#expect(',');
      const { type } = this.#token;
      if (type === 'variable_end' || type === 'block_end' || this.#is(')') || this.#isName(...ends)) break;
      items.push(simple ? this.#primary() : this.#expression(conditional));
      if (!this.#is(',')) break;
      several = true;
    }
    if (!several && items.length) return items[0];
    if (!several && !brackets) this.#fail(`expected an expression, found ${this.#shown()}`);
    return { type: 'Tuple', items };
  }

  /** @param {boolean} [conditional] @returns {Node} */
  #expression(conditional = true) {
    return this.#nested(() => (conditional ? this.#condition() : this.#or()));
  }

  /** @returns {Node} */
  #condition() {
    const before = this.#unknown.length;
    let value = this.#or();
    while (this.#skipName('if')) {
      const test = this.#or();
      const otherwise = this.#skipName('else') ? this.#nested(() => this.#condition()) : null;
      this.#unknown.length = before;
      value = { type: 'Condition', test, value, otherwise };
    }
    return value;
  }

  #or() {
    let left = this.#and();
    while (this.#skipName('or')) left = { type: 'Or', left, right: this.#and() };
    return left;
  }

  #and() {
    let left = this.#not();
    while (this.#skipName('and')) left = { type: 'And', left, right: this.#not() };
    return left;
  }

  /** @returns {Node} */
  #not() {
    if (this.#skipName('not')) return { type: 'Not', value: this.#nested(() => this.#not()) };
    return this.#comparison();
  }

  /** @returns {Node} */
  #comparison() {
    const left = this.#sum();
    /** @type {[string, Node][]} */
    const rest = [];
    for (;;) {
      const next = this.#tokens[this.#at + 1];
      if (this.#is(...COMPARISONS)) rest.push([this.#tokens[this.#at++].value, this.#sum()]);
      else if (this.#skipName('in')) rest.push(['in', this.#sum()]);
      else if (this.#isName('not') && next.type === 'name' && next.value === 'in') {
        this.#at += 2;
        rest.push(['not in', this.#sum()]);
      } else return rest.length ? { type: 'Compare', left, rest } : left;
    }
  }

  /** @param {() => Node} operand @param {string[]} operators @returns {Node} */
  #operators(operand, ...operators) {
    let left = operand();
    while (this.#is(...operators)) {
      const operator = this.#tokens[this.#at++].value;
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
    while (this.#skip('~')) items.push(this.#product());
    return items.length > 1 ? { type: 'Concat', items } : items[0];
  }

  #product() {
    return this.#operators(() => this.#power(), '*', '/', '//', '%');
  }

  #power() {
    return this.#operators(() => this.#unary(), '**');
  }

  /** @param {boolean} [filtered] @returns {Node} */
  #unary(filtered = true) {
    /** @type {Node} */
    let node;
    if (this.#is('-', '+')) {
      const operator = this.#tokens[this.#at++].value;
      node = { type: 'Sign', operator, value: this.#nested(() => this.#unary(false)) };
    } else node = this.#primary();
    node = this.#postfix(node);
    return filtered ? this.#filtered(node) : node;
  }

  /** @returns {Node} */
  #primary() {
    const { type, value } = this.#token;
    if (type === 'name') {
      this.#at++;
      if (CONSTANTS.has(value)) return { type: 'Constant', value: CONSTANTS.get(value) };
      this.#read.at(-1)?.add(value);
      return { type: 'Name', name: value };
    }
    if (type === 'string') {
      let text = '';
      while (this.#token.type === 'string') text += this.#tokens[this.#at++].value;
      return { type: 'Constant', value: text };
    }
    if (type === 'integer') {
      this.#at++;
      if (!Number.isSafeInteger(Number(value)))
        this.#fail(`the whole number ${value} is beyond 2^53: it is not supported`);
      return { type: 'Constant', value: Number(value) };
    }
    if (type === 'float') {
      this.#at++;
      return { type: 'Float', value };
    }
    if (this.#skip('(')) {
      const inner = this.#nested(() => this.#tuple({ brackets: true }));
      this.#expect(')');
      return inner;
    }
    if (this.#skip('[')) return { type: 'List', items: this.#items(']', () => this.#expression()) };
    if (this.#skip('{'))
      return {
        type: 'Dict',
        entries: this.#items('}', () => {
          const key = this.#expression();
          this.#expect(':');
          return [key, this.#expression()];
        }),
      };
    return this.#fail(`expected an expression, found ${this.#shown()}`);
  }

  /** Up to the closing bracket, with commas. @template T @param {string} end @param {() => T} parse @returns {T[]} */
  #items(end, parse) {
    /** @type {T[]} */
    const items = [];
    while (!this.#is(end)) {
      if (items.length) this.#expect(',');
      if (this.#is(end)) break;
      items.push(this.#nested(parse));
    }
    this.#expect(end);
    return items;
  }

  /** @param {Node} node @returns {Node} */
  #postfix(node) {
    for (;;) {
      if (this.#skip('.')) {
        const { type, value } = this.#token;
        if (type !== 'name' && type !== 'integer') this.#fail(`expected a name or a number, found ${this.#shown()}`);
        this.#at++;
        if (type === 'name') node = { type: 'Attribute', object: node, name: value };
        else node = { type: 'Item', object: node, key: { type: 'Constant', value: Number(value) } };
      } else if (this.#skip('[')) {
        const keys = this.#items(']', () => this.#subscript());
        if (keys.length !== 1) this.#fail('expected one index');
        node = { type: 'Item', object: node, key: keys[0] };
      } else if (this.#is('(')) node = { type: 'Call', callee: node, args: this.#arguments() };
      else return node;
    }
  }

  /** @returns {Node} */
  #subscript() {
    const part = () => (this.#is(':', ']', ',') ? null : this.#expression());
    const start = part();
    if (!this.#skip(':')) return /** @type {Node} */ (start ?? this.#fail('expected an index'));
    const stop = part();
    return { type: 'Slice', start, stop, step: this.#skip(':') ? part() : null };
  }

  /** @returns {Node[]} */
  #arguments() {
    this.#expect('(');
    let last = '';
    return this.#items(')', () => {
      const next = this.#tokens[this.#at + 1];
      /** @type {Node} */
      let argument;
      if (this.#skip('*')) argument = { type: 'Spread', value: this.#expression() };
      else if (this.#skip('**')) argument = { type: 'SpreadNamed', value: this.#expression() };
      else if (this.#token.type === 'name' && next.type === 'operator' && next.value === '=') {
        const name = this.#name();
        this.#at++;
        argument = { type: 'Named', name, value: this.#expression() };
      } else argument = this.#expression();
      const { type } = argument;
      const order = ['Spread', 'SpreadNamed', 'Named'].includes(type) ? type : '';
      if (last === 'SpreadNamed' || (order === '' && last) || (order === 'Spread' && last === 'Spread'))
        this.#fail('arguments in an order that is not allowed');
      last = order || last;
      return argument;
    });
  }

  /** Filters, tests and calls behind an expression. @param {Node} node @returns {Node} */
  #filtered(node) {
    for (;;) {
      if (this.#is('|')) node = this.#filters(false).reduce((value, filter) => ({ ...filter, value }), node);
      else if (this.#isName('is')) node = this.#test(node);
      else if (this.#is('(')) node = { type: 'Call', callee: node, args: this.#arguments() };
      else return node;
    }
  }

  #dotted() {
    let name = this.#name();
    while (this.#skip('.')) name += `.${this.#name()}`;
    return name;
  }

  /** @param {boolean} inline  the first has no | in front @returns {Node[]} */
  #filters(inline) {
    /** @type {Node[]} */
    const filters = [];
    while (inline || this.#is('|')) {
      if (!inline) this.#at++;
      inline = false;
      const name = this.#dotted();
      if (!isFilter(name)) this.#unknown.push(`filter "${name}"`);
      filters.push({ type: 'Filter', name, args: this.#is('(') ? this.#arguments() : [] });
    }
    return filters;
  }

  /** @param {Node} value @returns {Node} */
  #test(value) {
    this.#at++;
    const negated = this.#skipName('not');
    const name = this.#dotted();
    if (!isTest(name)) this.#unknown.push(`test "${name}"`);
    const { type } = this.#token;
    /** @type {Node[]} */
    let args = [];
    if (this.#is('(')) args = this.#arguments();
    else if (
      (['name', 'string', 'integer', 'float'].includes(type) && !this.#isName('else', 'or', 'and')) ||
      this.#is('[', '{')
    ) {
      if (this.#isName('is')) this.#fail('tests can not follow each other: put brackets around the first');
      args = [this.#postfix(this.#primary())];
    }
    const test = { type: 'Test', value, name, args };
    return negated ? { type: 'Not', value: test } : test;
  }
}

/** TEMPLATE. @param {string} source @returns {Node} */
export const parseTemplate = (source) => new Parser(tokenize(source)).template();
