/** Compiles texts of several parts, such as tool calls: fixed texts, JSON of a schema and others. Loaded on demand. */
import { ANY, dfaOfLength, dfaOfTexts, difference } from './dfa.js';
import { dfaOfRegex } from './lookaheads.js';
import { Rules } from './ir.js';
import { notationNamed } from './notations.js';
import { parseRegex } from './regex.js';
import { Compiler } from './schema/index.js';
import { stringDfa } from './schema/scalars.js';
import { typeOf } from './schema/shapes.js';
import { Writer } from './text.js';

/** @import { Dfa } from './dfa.js' */
/** @import { Shape } from './schema/shapes.js' */

/**
 * A part of a text:
 * - a string: a fixed text
 * - a list: parts in this order
 * - `any`: one of several parts, each of which must be satisfiable
 * - `maybe`: an optional part
 * - `pattern`: a text that a regular expression matches
 * - `schema`: JSON of a schema
 * - `arguments`: the arguments of a call for a schema, in a notation of notations.js
 * - `value`: a value of a schema that is a part of the schema `root`. Strings are written without quotes and do not
 *   contain `end`; `words` has the spellings of true, false and null
 * @typedef {string | Node[] | { any: Node[] } | { maybe: Node } | { pattern: string } | { schema: any } | { arguments:
 *   any, notation: string } | { value: any, root: any, end: string, words: Record<string, string> }} Node
 */

/**
 * Returns the strings that have a shape, or null if there are none.
 * @param {Compiler} compiler @param {Shape} shape @returns {Dfa | null}
 */
function stringsOf(compiler, shape) {
  if (shape.values) {
    const values = [...shape.values.values()].filter((value) => compiler.admission.admits(shape, value));
    const texts = values.filter((value) => typeof value === 'string');
    return texts.length ? dfaOfTexts(texts) : null;
  }
  const { min, max } = shape.string;
  if (!shape.types.has('string') || min > max) return null;
  return stringDfa(shape) ?? (min > 0 || max < Infinity ? dfaOfLength(min, max) : ANY);
}

/** Whether a shape admits `word`. @param {Compiler} compiler @param {Shape} shape @param {boolean | null} word */
const hasWord = (compiler, shape, word) =>
  shape.values
    ? [...shape.values.values()].includes(word) && compiler.admission.admits(shape, word)
    : shape.types.has(typeOf(word)) && ![...shape.excluded.values()].includes(word);

/** Returns the automaton of all strings that contain `text`. @param {string} text */
const containing = (text) => dfaOfRegex(parseRegex(text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')), { search: true });

/**
 * Returns the members of a root schema that references in its parts depend on.
 * @param {any} schema @returns {object}
 */
const rootOf = ({ $schema, $id, $defs, definitions } = {}) => ({ $schema, $id, $defs, definitions });

class Sequence {
  rules = new Rules();
  #writer = new Writer(this.rules);
  /** Warnings about parts of the schemas that are ignored. @type {Set<string>} */
  #warnings = new Set();

  /**
   * @param {any} schema @param {boolean} [readOnly]  whether the compiler adds no rules to this sequence
   * @param {string} [notation]
   */
  #compiler(schema, readOnly = false, notation = 'json') {
    const compiler = new Compiler(schema, [], notationNamed(notation));
    compiler.warnings = this.#warnings;
    if (readOnly) return compiler;
    compiler.rules = this.rules;
    compiler.writer = this.#writer;
    return compiler;
  }

  /** @param {Node} node @param {number} from @param {number} to */
  write(node, from, to) {
    if (typeof node === 'string') this.rules.literal(from, node, to);
    else if (Array.isArray(node)) this.#all(node, from, to);
    else if ('any' in node) this.#any(node.any, from, to);
    else if ('maybe' in node) {
      this.rules.skip(from, to);
      this.write(node.maybe, this.#state(from), to);
    } else if ('pattern' in node) this.#writer.dfa(from, dfaOfRegex(parseRegex(node.pattern)), to, null);
    else if ('schema' in node) this.rules.call(from, this.#compiler(node.schema).writeValue(), to);
    else if ('arguments' in node)
      this.rules.call(from, this.#compiler(node.arguments, false, node.notation).writeArguments(), to);
    else this.#value(node, from, to);
  }

  /**
   * @param {{ value: any, root: any, end: string, words: Record<string, string> }} node @param {number} from
   * @param {number} to
   */
  #value({ value: part, root, end, words }, from, to) {
    const value = typeof part === 'object' && part ? { ...rootOf(root), ...part } : part;
    const compiler = this.#compiler(value, true);
    for (const shape of compiler.shapesOf(compiler.root)) {
      const texts = stringsOf(compiler, shape);
      if (texts) this.#writer.dfa(this.#state(from), difference(texts, containing(end)), to, null);
      for (const word of [true, false, null])
        if (hasWord(compiler, shape, word)) this.write(words[String(word)], this.#state(from), to);
    }
    this.write({ schema: { ...rootOf(root), allOf: [value, { type: ['number', 'array', 'object'] }] } }, from, to);
  }

  /** @param {Node[]} nodes @param {number} from @param {number} to */
  #any(nodes, from, to) {
    for (const node of nodes) {
      const state = this.#state(from);
      // An unsatisfiable alternative, such as a tool without valid arguments, must be an error. It is not dropped.
      this.rules.alternatives.push(state);
      this.write(node, state, to);
    }
  }

  /** @param {Node[]} nodes @param {number} from @param {number} to */
  #all(nodes, from, to) {
    let at = from;
    nodes.forEach((node, i) => {
      const next = i === nodes.length - 1 ? to : this.rules.state();
      this.write(node, at, next);
      at = next;
    });
    if (!nodes.length) this.rules.skip(from, to);
  }

  /** Adds a state after `from`, so that a loop in the new state doesn't lead back to `from`. @param {number} from */
  #state(from) {
    const state = this.rules.state();
    this.rules.skip(from, state);
    return state;
  }

  /** @param {Node} node @returns {import('./index.js').Compiled} */
  compile(node) {
    const root = this.rules.rule('text');
    this.write(node, this.rules.start(root), this.rules.state(true));
    return { bytes: this.rules.encode(root), warnings: [...this.#warnings] };
  }
}

/**
 * Compiles a part. Throws GRAMMAR if a schema is invalid, not supported, unsatisfiable or too large.
 * @param {Node} node
 */
export const compileSequence = (node) => new Sequence().compile(node);
