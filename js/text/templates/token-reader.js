/** The tokens of a template and the current position in them, for parsers. */
import { syntax } from './lexer.js';

/** @typedef {import('./lexer.js').Token} Token */

/** Maximum depth of the tree, far below the limit of the stack. */
const MAX_DEPTH = 400;

export class TokenReader {
  #tokens;
  #at = 0;
  #depth = 0;

  /** @param {Token[]} tokens */
  constructor(tokens) {
    this.#tokens = tokens;
  }

  get current() {
    return this.#tokens[this.#at];
  }

  /** The token after the current one. */
  get next() {
    return this.#tokens[this.#at + 1];
  }

  /** Whether the tag ends at the current token. */
  get endsTag() {
    return this.current.type === 'block_end';
  }

  /** Returns the current token, and moves to the next one. */
  take() {
    return this.#tokens[this.#at++];
  }

  /** @param {string} message @returns {never} */
  fail(message) {
    throw syntax(message, this.current.line);
  }

  /** Describes the current token for a message. */
  describe() {
    const { type, value } = this.current;
    return type === 'eof' ? 'the end of the template' : type.endsWith('_end') ? 'the end of the tag' : `"${value}"`;
  }

  /** @param {string[]} operators */
  isOperator(...operators) {
    return this.current.type === 'operator' && operators.includes(this.current.value);
  }

  /** @param {string[]} names */
  isName(...names) {
    return this.current.type === 'name' && names.includes(this.current.value);
  }

  /** Takes an operator, if it is the current token. @param {string} operator */
  skip(operator) {
    if (!this.isOperator(operator)) return false;
    this.#at++;
    return true;
  }

  /** Takes a name, if it is the current token. @param {string} name */
  skipName(name) {
    if (!this.isName(name)) return false;
    this.#at++;
    return true;
  }

  /** @param {string} operator */
  expect(operator) {
    if (!this.skip(operator)) this.fail(`expected "${operator}", found ${this.describe()}`);
  }

  /** Takes a name. */
  name() {
    if (this.current.type !== 'name') this.fail(`expected a name, found ${this.describe()}`);
    return /** @type {string} */ (this.take().value);
  }

  /** Parses a part one level deeper. @template T @param {() => T} parse @returns {T} */
  nested(parse) {
    if (++this.#depth > MAX_DEPTH) this.fail(`it is nested more than ${MAX_DEPTH} levels deep`);
    const result = parse();
    this.#depth--;
    return result;
  }
}
