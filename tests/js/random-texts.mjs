// Random texts of a format. Each token is picked at random from those that the mask allows.
import { encodeTokenizer } from '../../js/text/tokenizers/section.js';
import { compile, Machine } from '../../js/text/grammar/index.js';
import { random, tokenizer } from './fixture.mjs';

const TOKENS = 320;

export const grammarMachine = () =>
  Machine.create(
    new URL('../../build/wasm/bq4-grammar.wasm', import.meta.url).href,
    encodeTokenizer(tokenizer()),
    TOKENS,
  );

/** A generator of random texts with a machine of its own. @param {number} [seed] */
export const picker = async (seed = 1) => pickerOf(await grammarMachine(), seed);

/** A generator of random texts. @param {Machine} machine @param {number} seed */
export function pickerOf(machine, seed) {
  const next = random(seed);
  const draw = () => (next() + 1) / 2;

  /**
   * A random text. After `limit` tokens it is completed in the shortest way.
   * @param {any} format @param {number} limit @param {import('../../js/text/grammar/index.js').Compiled} [compiled]
   */
  async function pick(format, limit, compiled) {
    const matcher = await machine.matcher(JSON.stringify(format), async () => compiled ?? compile(format));
    /** @type {number[]} */
    const bytes = [];
    for (let n = 0; matcher.continues && !(matcher.complete && draw() < 0.2); n++) {
      const end = n > limit ? matcher.shortest() : null;
      if (end) {
        bytes.push(...end);
        break;
      }
      const mask = matcher.mask(TOKENS / 32);
      const ids = Array.from({ length: TOKENS }, (_, id) => id).filter((id) => (mask[id >>> 5] >>> (id & 31)) & 1);
      const id = ids[Math.floor(draw() * ids.length)];
      if (id === undefined)
        throw new Error(`the mask allows no token after ${new TextDecoder().decode(Uint8Array.from(bytes))}`);
      if (!matcher.accept(id)) throw new Error(`the mask allows token ${id}, but the matcher does not accept it`);
      bytes.push(...machine.token(id));
    }
    machine.give(matcher);
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  /** Whether a text is of a format. @param {any} format @param {string} text @param {import('../../js/text/grammar/index.js').Compiled} [compiled] */
  async function takes(format, text, compiled) {
    const matcher = await machine.matcher(JSON.stringify(format), async () => compiled ?? compile(format));
    const bytes = new TextEncoder().encode(text);
    const valid = bytes.every((byte) => matcher.accept(machine.longest(Uint8Array.of(byte)))) && matcher.complete;
    machine.give(matcher);
    return valid;
  }

  return Object.assign(pick, { takes });
}

/** A value as JSON in one line, with a space after commas and colons. @param {any} value @returns {string} */
export function textOf(value) {
  if (Array.isArray(value)) return `[${value.map(textOf).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([name, property]) => `${JSON.stringify(name)}: ${textOf(property)}`)
    .join(', ')}}`;
}
