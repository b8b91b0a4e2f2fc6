/**
 * Parses a template into a tree, by the grammar of jinja2's parser. All statements of transformers are supported
 * (including loop controls and `generation`), except those that refer to other files. This module parses statements,
 * parse-expression.js their expressions.
 */
import { tokenize } from './lexer.js';
import { ExpressionParser } from './parse-expression.js';
import { markMissing } from './scopes.js';
import { TokenReader } from './token-reader.js';

/** A node of the tree. Its members depend on its `type`. @typedef {Record<string, any> & { type: string }} Node */

/** Statements of jinja2 that are not supported; chat templates don't use them. */
const UNSUPPORTED_STATEMENTS = ['block', 'extends', 'include', 'from', 'import', 'autoescape'];

class Parser {
  /** @type {TokenReader} */
  #tokens;
  #expressions;
  /** Number of loops around the current statement, inside the innermost block or macro. */
  #loops = 0;

  /** @param {string} source */
  constructor(source) {
    this.#tokens = new TokenReader(tokenize(source));
    this.#expressions = new ExpressionParser(this.#tokens);
  }

  template() {
    const body = this.#body([]);
    if (this.#expressions.unknownErrors.length) throw this.#expressions.unknownErrors[0];
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
      const { type, value } = this.#tokens.current;
      if (type === 'eof') {
        if (ends.length) this.#tokens.fail(`expected {% ${ends.join(' %} or {% ')} %}, found the end of the template`);
        return body;
      }
      this.#tokens.take();
      if (type === 'data') body.push({ type: 'Data', value });
      else if (type === 'variable_begin') {
        body.push({ type: 'Output', value: this.#expressions.tuple() });
        this.#close('variable_end');
      } else {
        if (this.#tokens.isName(...ends)) return body;
        body.push(this.#tokens.nested(() => this.#statement()));
        this.#close('block_end');
      }
    }
  }

  /** @param {'variable_end' | 'block_end'} type */
  #close(type) {
    if (this.#tokens.current.type !== type)
      this.#tokens.fail(`expected the end of the tag, found ${this.#tokens.describe()}`);
    this.#tokens.take();
  }

  /** Parses the body of a statement up to one of `ends`, which becomes the current token. @param {string[]} ends */
  #statements(...ends) {
    this.#tokens.skip(':');
    this.#close('block_end');
    return this.#body(ends);
  }

  /** Parses the body of a statement up to and including `end`. @param {string} end */
  #until(end) {
    const body = this.#statements(end);
    this.#tokens.take();
    return body;
  }

  /**
   * Parses a block with its own scope. `break` and `continue` in it cannot refer to loops around it.
   * @param {string} end @returns {Node[]}
   */
  #block(end) {
    const loops = this.#loops;
    this.#loops = 0;
    const body = this.#expressions.scope(() => this.#until(end));
    this.#loops = loops;
    return body;
  }

  /** @returns {Node} */
  #statement() {
    if (this.#tokens.current.type !== 'name')
      this.#tokens.fail(`expected a statement, found ${this.#tokens.describe()}`);
    const name = this.#tokens.name();
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
        const macro = this.#tokens.name();
        return { type: 'Macro', name: macro, ...this.#macroBody(this.#expressions.signature(), 'endmacro') };
      }
      case 'call': {
        const args = this.#tokens.isOperator('(') ? this.#expressions.signature() : [];
        const call = this.#expressions.expression();
        if (call.type !== 'Call') this.#tokens.fail('expected a call');
        return { type: 'CallBlock', call, macro: this.#macroBody(args, 'endcall') };
      }
      case 'filter': {
        const filters = this.#expressions.scope(() => this.#expressions.filters(true));
        return { type: 'FilterBlock', filters, body: this.#block('endfilter') };
      }
      case 'generation':
        return { type: 'With', targets: [], values: [], body: this.#block('endgeneration') };
      case 'print': {
        /** @type {Node[]} */
        const values = [];
        while (!this.#tokens.endsTag) {
          if (values.length) this.#tokens.expect(',');
          values.push(this.#expressions.expression());
        }
        return { type: 'Print', values };
      }
      case 'break':
      case 'continue':
        if (!this.#loops) this.#tokens.fail(`{% ${name} %} is outside of a loop`);
        return { type: name };
      default:
        return this.#tokens.fail(
          UNSUPPORTED_STATEMENTS.includes(name)
            ? `{% ${name} %} is not supported in a chat template`
            : `unexpected statement "${name}"`,
        );
    }
  }

  /** @returns {Node} */
  #for() {
    const target = this.#expressions.target('in');
    if (!this.#tokens.skipName('in')) this.#tokens.fail(`expected "in", found ${this.#tokens.describe()}`);
    const iterable = this.#expressions.tuple({ conditional: false, ends: ['recursive'] });
    return this.#expressions.scope(() => {
      const test = this.#tokens.skipName('if') ? this.#expressions.expression() : null;
      const recursive = this.#tokens.skipName('recursive');
      this.#loops++;
      const body = this.#statements('endfor', 'else');
      this.#loops--;
      const otherwise = this.#tokens.name() === 'else' ? this.#until('endfor') : [];
      return { type: 'For', target, iterable, test, recursive, body, otherwise };
    });
  }

  /** @returns {Node} */
  #if() {
    /** @type {[Node, Node[]][]} */
    const branches = [];
    return this.#expressions.conditionally(() => {
      for (;;) {
        const test = this.#expressions.tuple({ conditional: false });
        branches.push([test, this.#statements('elif', 'else', 'endif')]);
        const next = this.#tokens.name();
        if (next === 'elif') continue;
        const otherwise = next === 'else' ? this.#until('endif') : [];
        return { type: 'If', branches, otherwise };
      }
    });
  }

  /** @returns {Node} */
  #set() {
    const target = this.#expressions.target(null, true);
    if (this.#tokens.skip('=')) return { type: 'Set', target, value: this.#expressions.tuple() };
    const filters = this.#expressions.scope(() => this.#expressions.filters(false));
    return { type: 'SetBlock', target, filters, body: this.#block('endset') };
  }

  /** @returns {Node} */
  #with() {
    const targets = /** @type {Node[]} */ ([]);
    const values = /** @type {Node[]} */ ([]);
    while (!this.#tokens.endsTag) {
      if (targets.length) this.#tokens.expect(',');
      targets.push(this.#expressions.target());
      this.#tokens.expect('=');
      values.push(this.#expressions.expression());
    }
    return { type: 'With', targets, values, body: this.#expressions.scope(() => this.#until('endwith')) };
  }

  /** @param {Node[]} parameters @param {string} end */
  #macroBody(parameters, end) {
    return { parameters, ...this.#expressions.withReads(() => this.#block(end)) };
  }
}

/** Parses a template. Throws TEMPLATE. @param {string} source @returns {Node} */
export const parseTemplate = (source) => new Parser(source).template();
