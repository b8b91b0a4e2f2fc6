// Texts of a format, made of tokens picked at random among those that its masks allow.
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

/** @param {number} [seed] */
export const picker = async (seed = 1) => pickerOf(await grammarMachine(), seed);

/** @param {Machine} machine @param {number} seed */
export function pickerOf(machine, seed) {
  const next = random(seed);
  const draw = () => (next() + 1) / 2;

  /**
   * A text; after `limit` tokens it comes to its end.
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
      if (id === undefined) throw new Error(`nothing may follow ${new TextDecoder().decode(Uint8Array.from(bytes))}`);
      if (!matcher.accept(id)) throw new Error(`token ${id} is allowed, and not accepted`);
      bytes.push(...machine.token(id));
    }
    machine.give(matcher);
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  /** Whether a text keeps to a format. @param {any} format @param {string} text @param {import('../../js/text/grammar/index.js').Compiled} [compiled] */
  async function takes(format, text, compiled) {
    const matcher = await machine.matcher(JSON.stringify(format), async () => compiled ?? compile(format));
    const bytes = new TextEncoder().encode(text);
    const whole = bytes.every((byte) => matcher.accept(machine.longest(Uint8Array.of(byte)))) && matcher.complete;
    machine.give(matcher);
    return whole;
  }

  return Object.assign(pick, { takes });
}

/** One line, a space behind commas and colons. @param {any} value @returns {string} */
export function textOf(value) {
  if (Array.isArray(value)) return `[${value.map(textOf).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([name, one]) => `${JSON.stringify(name)}: ${textOf(one)}`)
    .join(', ')}}`;
}
