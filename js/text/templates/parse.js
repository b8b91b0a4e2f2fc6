/**
 * Parses a template into a tree, by the grammar of jinja2's parser. All statements of transformers are supported
 * (including loop controls and `generation`), except those that refer to other files.
 */
import { isFilter, isTest } from './filters.js';
import { syntax, tokenize } from './lexer.js';
import { markMissing } from './scopes.js';

/** @import { BqError } from '../../shared/errors.js' */
/** @typedef {import('./lexer.js').Token} Token */
/** A node of the tree. Its members depend on its `type`. @typedef {Record<string, any> & { type: string }} Node */

/** Maximum depth of the tree, far below the limit of the stack. */
const MAX_DEPTH = 400;
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
/** Statements of jinja2 that are not supported; chat templates don't use them. */
const UNSUPPORTED_STATEMENTS = ['block', 'extends', 'include', 'from', 'import', 'autoescape'];

class Parser {
  #tokens;
  #at = 0;
  #depth = 0;
  /** Number of loops around the current statement, inside the innermost block or macro. */
  #loops = 0;
  /** Whether unknown filters and tests are errors only during rendering (see #conditionally). */
  #isConditional = false;
  /** Errors of unknown filters and tests. @type {BqError[]} */
  #unknownErrors = [];
  /**
   * Names that are read in each macro around the current statement; the innermost macro is last.
   * @type {Set<string>[]}
   */
  #macroReads = [];

  /** @param {Token[]} tokens */
  constructor(tokens) {
    this.#tokens = tokens;
  }

  get #token() {
    return this.#tokens[this.#at];
  }

  /** Whether the tag ends at the current token. */
  get #ends() {
    return this.#token.type === 'block_end';
  }

  /** @param {string} message @returns {never} */
  #fail(message) {
    throw syntax(message, this.#token.line);
  }

  /** Describes the current token for a message. */
  #tokenText() {
    const { type, value } = this.#token;
    return type === 'eof' ? 'the end of the template' : type.endsWith('_end') ? 'the end of the tag' : `"${value}"`;
  }

  /** @param {string[]} operators */
  #isOperator(...operators) {
    return this.#token.type === 'operator' && operators.includes(this.#token.value);
  }

  /** @param {string[]} names */
  #isName(...names) {
    return this.#token.type === 'name' && names.includes(this.#token.value);
  }

  /** @param {string} operator */
  #skip(operator) {
    if (!this.#isOperator(operator)) return false;
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
    if (!this.#skip(operator)) this.#fail(`expected "${operator}", found ${this.#tokenText()}`);
  }

  #name() {
    if (this.#token.type !== 'name') this.#fail(`expected a name, found ${this.#tokenText()}`);
    return /** @type {string} */ (this.#tokens[this.#at++].value);
  }

  /** Parses a part one level deeper. @template T @param {() => T} parse @returns {T} */
  #nested(parse) {
    if (++this.#depth > MAX_DEPTH) this.#fail(`it is nested more than ${MAX_DEPTH} levels deep`);
    const result = parse();
    this.#depth--;
    return result;
  }

  /**
   * Parses a part of an `if`, in which unknown filters and tests are errors only when they are used. As in jinja2, this
   * does not apply to scopes inside it (loops, macros, blocks), which #scope parses.
   * @template T @param {() => T} parse @param {boolean} [isConditional] @returns {T}
   */
  #conditionally(parse, isConditional = true) {
    const before = this.#isConditional;
    this.#isConditional = isConditional;
    const result = parse();
    this.#isConditional = before;
    return result;
  }

  /** Parses a part that has its own scope in jinja2. @template T @param {() => T} parse @returns {T} */
  #scope(parse) {
    return this.#conditionally(parse, false);
  }

  /** @param {string} subject  of the message */
  #reportUnknown(subject) {
    if (!this.#isConditional) this.#unknownErrors.push(syntax(`unknown ${subject}`, this.#token.line));
  }

  template() {
    const body = this.#body([]);
    if (this.#unknownErrors.length) throw this.#unknownErrors[0];
    return { type: 'Template', body, missing: markMissing(body) };
  }

  /**
   * Parses statements up to a tag that begins with one of `ends`, which becomes the current token.
   * @param {string[]} ends @returns {Node[]}
   */
  #body(ends) {
    /** @type {Node[]} */
    const body = [];
    for (;;) {
      const { type, value } = this.#token;
      if (type === 'eof') {
        if (ends.length) this.#fail(`expected {% ${ends.join(' %} or {% ')} %}, found the end of the template`);
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
    if (this.#token.type !== type) this.#fail(`expected the end of the tag, found ${this.#tokenText()}`);
    this.#at++;
  }

  /** Parses the body of a statement up to one of `ends`, which becomes the current token. @param {string[]} ends */
  #statements(...ends) {
    this.#skip(':');
    this.#close('block_end');
    return this.#body(ends);
  }

  /** Parses the body of a statement up to and including `end`. @param {string} end */
  #until(end) {
    const body = this.#statements(end);
    this.#at++;
    return body;
  }

  /**
   * Parses a block with its own scope. `break` and `continue` in it cannot refer to loops around it.
   * @param {string} end @returns {Node[]}
   */
  #block(end) {
    const loops = this.#loops;
    this.#loops = 0;
    const body = this.#scope(() => this.#until(end));
    this.#loops = loops;
    return body;
  }

  /** @returns {Node} */
  #statement() {
    if (this.#token.type !== 'name') this.#fail(`expected a statement, found ${this.#tokenText()}`);
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
        const macro = this.#name();
        return { type: 'Macro', name: macro, ...this.#macroBody(this.#signature(), 'endmacro') };
      }
      case 'call': {
        const args = this.#isOperator('(') ? this.#signature() : [];
        const call = this.#expression();
        if (call.type !== 'Call') this.#fail('expected a call');
        return { type: 'CallBlock', call, macro: this.#macroBody(args, 'endcall') };
      }
      case 'filter': {
        const filters = this.#scope(() => this.#filters(true));
        return { type: 'FilterBlock', filters, body: this.#block('endfilter') };
      }
      case 'generation':
        return { type: 'With', targets: [], values: [], body: this.#block('endgeneration') };
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
        if (!this.#loops) this.#fail(`{% ${name} %} is outside of a loop`);
        return { type: name };
      default:
        return this.#fail(
          UNSUPPORTED_STATEMENTS.includes(name)
            ? `{% ${name} %} is not supported in a chat template`
            : `unexpected statement "${name}"`,
        );
    }
  }

  /** @returns {Node} */
  #for() {
    const target = this.#target('in');
    if (!this.#skipName('in')) this.#fail(`expected "in", found ${this.#tokenText()}`);
    const iterable = this.#tuple({ conditional: false, ends: ['recursive'] });
    return this.#scope(() => {
      const test = this.#skipName('if') ? this.#expression() : null;
      const recursive = this.#skipName('recursive');
      this.#loops++;
      const body = this.#statements('endfor', 'else');
      this.#loops--;
      const otherwise = this.#name() === 'else' ? this.#until('endfor') : [];
      return { type: 'For', target, iterable, test, recursive, body, otherwise };
    });
  }

  /** @returns {Node} */
  #if() {
    /** @type {[Node, Node[]][]} */
    const branches = [];
    return this.#conditionally(() => {
      for (;;) {
        const test = this.#tuple({ conditional: false });
        branches.push([test, this.#statements('elif', 'else', 'endif')]);
        const next = this.#name();
        if (next === 'elif') continue;
        const otherwise = next === 'else' ? this.#until('endif') : [];
        return { type: 'If', branches, otherwise };
      }
    });
  }

  /** @returns {Node} */
  #set() {
    const target = this.#target(null, true);
    if (this.#skip('=')) return { type: 'Set', target, value: this.#tuple() };
    const filters = this.#scope(() => this.#filters(false));
    return { type: 'SetBlock', target, filters, body: this.#block('endset') };
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
    return { type: 'With', targets, values, body: this.#scope(() => this.#until('endwith')) };
  }

  /** @param {Node[]} parameters @param {string} end */
  #macroBody(parameters, end) {
    /** @type {Set<string>} */
    const reads = new Set();
    this.#macroReads.push(reads);
    const body = this.#block(end);
    this.#macroReads.pop();
    for (const name of reads) this.#macroReads.at(-1)?.add(name);
    return { parameters, body, reads };
  }

  /** Parses the parameters of a macro. @returns {Node[]} */
  #signature() {
    /** @type {Node[]} */
    const parameters = [];
    this.#expect('(');
    while (!this.#isOperator(')')) {
      if (parameters.length) this.#expect(',');
      const name = this.#name();
      if (CONSTANTS.has(name)) this.#fail(`"${name}" can't be the name of a parameter`);
      const value = this.#skip('=') ? this.#scope(() => this.#expression()) : null;
      if (!value && parameters.at(-1)?.value)
        this.#fail(`"${name}" needs a default value, as the parameter before it has one`);
      parameters.push({ type: 'Parameter', name, value });
    }
    this.#expect(')');
    return parameters;
  }

  /**
   * Parses the target of an assignment.
   * @param {string | null} [end]  name that may follow the target
   * @param {boolean} [namespace]  whether the target may be a member of a namespace
   * @returns {Node}
   */
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
      else if (node.type !== 'Name') this.#fail('expected a name to assign a value to');
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
  #tuple({ simple = false, conditional = true, ends = [], brackets = false } = {}) {
    /** @type {Node[]} */
    const items = [];
    let several = false;
    for (;;) {
      if (items.length) this.#expect(',');
      const { type } = this.#token;
      if (type === 'variable_end' || type === 'block_end' || this.#isOperator(')') || this.#isName(...ends)) break;
      items.push(simple ? this.#primary() : this.#expression(conditional));
      if (!this.#isOperator(',')) break;
      several = true;
    }
    if (!several && items.length) return items[0];
    if (!several && !brackets) this.#fail(`expected an expression, found ${this.#tokenText()}`);
    return { type: 'Tuple', items };
  }

  /** @param {boolean} [conditional] @returns {Node} */
  #expression(conditional = true) {
    return this.#nested(() => (conditional ? this.#condition() : this.#or()));
  }

  /** @returns {Node} */
  #condition() {
    const before = this.#unknownErrors.length;
    let value = this.#or();
    while (this.#skipName('if')) {
      const test = this.#or();
      const otherwise = this.#skipName('else') ? this.#nested(() => this.#condition()) : null;
      this.#unknownErrors.length = before; // `value` was conditional, which is only visible at `if`
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
      if (this.#isOperator(...COMPARISONS)) rest.push([this.#tokens[this.#at++].value, this.#sum()]);
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
    while (this.#isOperator(...operators)) {
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

  /** @param {boolean} [hasFilters]  whether filters and tests may follow @returns {Node} */
  #unary(hasFilters = true) {
    /** @type {Node} */
    let node;
    if (this.#isOperator('-', '+')) {
      const operator = this.#tokens[this.#at++].value;
      node = { type: 'Sign', operator, value: this.#nested(() => this.#unary(false)) };
    } else node = this.#primary();
    node = this.#postfix(node);
    return hasFilters ? this.#filtersAndTests(node) : node;
  }

  /** @returns {Node} */
  #primary() {
    const { type, value } = this.#token;
    if (type === 'name') {
      this.#at++;
      if (CONSTANTS.has(value)) return { type: 'Constant', value: CONSTANTS.get(value) };
      this.#macroReads.at(-1)?.add(value);
      return { type: 'Name', name: value };
    }
    if (type === 'string') {
      let text = '';
      while (this.#token.type === 'string') text += this.#tokens[this.#at++].value;
      return { type: 'Constant', value: text };
    }
    if (type === 'integer') {
      this.#at++;
      if (!Number.isSafeInteger(Number(value))) this.#fail(`the integer ${value} is not supported: it is beyond 2^53`);
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
    return this.#fail(`expected an expression, found ${this.#tokenText()}`);
  }

  /**
   * Parses items with commas between them, up to and including the closing bracket.
   * @template T @param {string} end @param {() => T} parse @returns {T[]}
   */
  #items(end, parse) {
    /** @type {T[]} */
    const items = [];
    while (!this.#isOperator(end)) {
      if (items.length) this.#expect(',');
      if (this.#isOperator(end)) break;
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
        if (type !== 'name' && type !== 'integer')
          this.#fail(`expected a name or a number, found ${this.#tokenText()}`);
        this.#at++;
        if (type === 'name') node = { type: 'Attribute', object: node, name: value };
        else node = { type: 'Item', object: node, key: { type: 'Constant', value: Number(value) } };
      } else if (this.#skip('[')) {
        const keys = this.#items(']', () => this.#subscript());
        if (keys.length !== 1) this.#fail('expected one index');
        node = { type: 'Item', object: node, key: keys[0] };
      } else if (this.#isOperator('(')) node = { type: 'Call', callee: node, args: this.#arguments() };
      else return node;
    }
  }

  /** @returns {Node} */
  #subscript() {
    const part = () => (this.#isOperator(':', ']', ',') ? null : this.#expression());
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
      const kind = ['Spread', 'SpreadNamed', 'Named'].includes(type) ? type : '';
      if (last === 'SpreadNamed' || (kind === '' && last) || (kind === 'Spread' && last === 'Spread'))
        this.#fail('arguments are in the wrong order: expected positional ones, *list, named ones, **dict');
      last = kind || last;
      return argument;
    });
  }

  /** Parses the filters, tests and calls after an expression. @param {Node} node @returns {Node} */
  #filtersAndTests(node) {
    for (;;) {
      if (this.#isOperator('|')) node = this.#filters(false).reduce((value, filter) => ({ ...filter, value }), node);
      else if (this.#isName('is')) node = this.#test(node);
      else if (this.#isOperator('(')) node = { type: 'Call', callee: node, args: this.#arguments() };
      else return node;
    }
  }

  #dotted() {
    let name = this.#name();
    while (this.#skip('.')) name += `.${this.#name()}`;
    return name;
  }

  /** Parses filters. @param {boolean} inline  whether the first one has no | before it @returns {Node[]} */
  #filters(inline) {
    /** @type {Node[]} */
    const filters = [];
    while (inline || this.#isOperator('|')) {
      if (!inline) this.#at++;
      inline = false;
      const name = this.#dotted();
      if (!isFilter(name)) this.#reportUnknown(`filter "${name}"`);
      filters.push({ type: 'Filter', name, args: this.#isOperator('(') ? this.#arguments() : [] });
    }
    return filters;
  }

  /** @param {Node} value @returns {Node} */
  #test(value) {
    this.#at++;
    const negated = this.#skipName('not');
    const name = this.#dotted();
    if (!isTest(name)) this.#reportUnknown(`test "${name}"`);
    const { type } = this.#token;
    /** @type {Node[]} */
    let args = [];
    if (this.#isOperator('(')) args = this.#arguments();
    else if (
      (['name', 'string', 'integer', 'float'].includes(type) && !this.#isName('else', 'or', 'and')) ||
      this.#isOperator('[', '{')
    ) {
      if (this.#isName('is')) this.#fail('a test must not follow another one: put parentheses around the first');
      args = [this.#postfix(this.#primary())];
    }
    const test = { type: 'Test', value, name, args };
    return negated ? { type: 'Not', value: test } : test;
  }
}

/** Parses a template. Throws TEMPLATE. @param {string} source @returns {Node} */
export const parseTemplate = (source) => new Parser(tokenize(source)).template();
