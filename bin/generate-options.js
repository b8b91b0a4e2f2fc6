/** The options of the commands that generate text: their declaration, and their conversion to options of `generate`. */
import { BqError } from '../js/shared/errors.js';
import { stopTexts } from '../js/shared/checks.js';
import { OPTION_ROWS } from '../js/shared/generate-options.js';
import { DECODE, numberOf, readText, Usage, value, values } from './options.js';

/** Returns the flag of an option on the command line: `top-k` for `topK`. @param {string} name */
const flagOf = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** Options of `generate` that have a flag; their rows are in js/shared/generate-options.js. */
const FLAGGED = OPTION_ROWS.flatMap(([name, row]) => (row.flag ? [{ name, flag: flagOf(name), row }] : []));

/**
 * Returns the help of a flag.
 * @param {import('../js/shared/generate-options.js').OptionRow} row @param {number} [preset]  default of the command
 */
function helpOfFlag({ flagHelp = '', default: standard }, preset = standard) {
  return preset === undefined ? flagHelp : `${flagHelp} (default ${preset})`;
}

/**
 * Returns the options of run and chat.
 * @param {Record<string, number>} [presets]  defaults of the command that differ from those of `generate`
 */
export const generateFlags = (presets = {}) => ({
  ...Object.fromEntries(
    FLAGGED.map(({ name, flag, row }) => [
      flag,
      (row.check === stopTexts ? values : value)(String(row.flag), helpOfFlag(row, presets[name])),
    ]),
  ),
  system: value('TEXT', 'system message'),
  schema: value('FILE', 'constrains the text to a JSON Schema'),
  grammar: value('FILE', 'constrains the text to a GBNF grammar'),
  regex: value('PATTERN', 'constrains the text to a regular expression'),
  adapter: value('FILE', "applies a LoRA adapter: PEFT's adapter_model.safetensors, or a .gguf"),
  draft: value('FILE', 'draft model with the same vocabulary, for speculative decoding'),
  ...DECODE,
});

/**
 * Returns the constraint of the text, if one is given. Throws Usage, GRAMMAR, READ.
 * @param {any} options @returns {Promise<import('../js/shared/types.js').ResponseFormat | undefined>}
 */
async function formatOf({ schema, grammar, regex }) {
  if ([schema, grammar, regex].filter((path) => path !== undefined).length > 1)
    throw new Usage('--schema, --grammar and --regex exclude each other: pass only one');
  if (regex !== undefined) return { type: 'regex', pattern: regex };
  if (grammar !== undefined) return { type: 'grammar', grammar: await readText(grammar) };
  if (schema === undefined) return undefined;
  const text = await readText(schema);
  try {
    return { type: 'json_schema', schema: JSON.parse(text) };
  } catch (cause) {
    throw new BqError('GRAMMAR', `${schema} is not valid JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/**
 * Converts options of the command line to options of `generate`.
 * @param {any} options @param {Record<string, number>} [presets]  as in `generateFlags`
 * @returns {Promise<Record<string, any>>}
 */
export async function generateOptions(options, presets = {}) {
  const valueOf = (/** @type {(typeof FLAGGED)[0]} */ { flag, row }) =>
    row.check === stopTexts ? options[flag] : numberOf(options, flag);
  return {
    ...Object.fromEntries(FLAGGED.map((flagged) => [flagged.name, valueOf(flagged) ?? presets[flagged.name]])),
    responseFormat: await formatOf(options),
  };
}
